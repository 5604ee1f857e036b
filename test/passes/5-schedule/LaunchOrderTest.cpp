// The order in which ranks issue what they communicate, kept as schedule-phase IR.
#include "lib/planfile/Check.h"
#include "mlir/Parser/Parser.h"
#include "passes/6-emit/Emit.h"
#include "test/passes/5-schedule/Plans.h"
#include "test/support/CommandLine.h"
#include <gtest/gtest.h>

using namespace mlir;

namespace llmc::test {
namespace {

std::unique_ptr<planfile::ProgramT> readPlan(MLIRContext &context, const std::string &name) {
  std::string path = std::string(LLMC_TEST_SOURCES) + "/data/" + name;
  OwningOpRef<ModuleOp> module = parseSourceFile<ModuleOp>(path, ParserConfig(&context));
  auto program = std::make_unique<planfile::ProgramT>();
  bool ok = module && succeeded(emit::writePlan(*module, *program));
  EXPECT_TRUE(ok) << path + " is no plan";
  return ok ? std::move(program) : nullptr;
}

bool has(const std::string &text, const char *part) { return text.find(part) != std::string::npos; }

// On a device that keeps one order, two ranks that send to each other first wait for ever.
TEST(LaunchOrder, SendsThatFaceEachOtherAreFound) {
  MLIRContext context;
  loadDialects(context);
  auto program = readPlan(context, "messages-in-old-order.mlir");
  if (!program)
    return;
  std::string found = planfile::formatFindings(planfile::checkLaunchOrder(*program));
  EXPECT_TRUE(has(found, "send F1") && has(found, "send B0")) << "found: " + found;
  // Order is all that is wrong with it: streams and events let it end.
  EXPECT_TRUE(planfile::checkCollectives(*program).empty());
  EXPECT_TRUE(planfile::checkHappensBefore(*program).empty());
}

// The passes order the same plan anew: group by group, nothing is left to find.
TEST(LaunchOrder, AGroupTornApartIsFound) {
  for (const char *kind : {"1f1b", "gpipe"})
    for (int64_t stages : {2, 3, 4}) {
      Plan plan;
      plan.mesh.pp = stages;
      plan.model.layers = 4;
      plan.microBatches = 5;
      plan.schedule = kind;
      MLIRContext context;
      loadDialects(context);
      OwningOpRef<ModuleOp> module = schedule(context, plan);
      auto program = module ? write(*module, plan) : std::nullopt;
      EXPECT_TRUE(program.has_value());
      if (!program)
        continue;
      std::string what = std::string(kind) + " on " + std::to_string(stages) + " stages";
      EXPECT_TRUE(planfile::checkLaunchOrder(*program).empty())
          << what + "\n" + planfile::formatFindings(planfile::checkLaunchOrder(*program));
      int torn = 0;
      for (auto &stage : program->stages)
        for (auto &procedure : stage->procedures)
          for (auto &instruction : procedure->instructions)
            if (auto *recv = instruction->body.AsRecv(); recv && recv->grouped) {
              recv->grouped = false;
              ++torn;
            }
      std::string found = planfile::formatFindings(planfile::checkLaunchOrder(*program));
      // Two stages of GPipe never send both ways at a time.
      EXPECT_EQ(torn > 0, stages > 2 || plan.schedule == "1f1b") << what + ": " + std::to_string(torn) + " in groups";
      // Forwards alone cannot face backwards: GPipe of these stages ends without groups too.
      if (std::string(kind) == "1f1b")
        EXPECT_TRUE(has(found, "send F") && has(found, "send B")) << what + " found: " + found;
    }
}

} // namespace
} // namespace llmc::test
