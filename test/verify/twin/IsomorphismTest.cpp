// The comparison of a plan with its twin finds what it must find.
#include "lib/verify/scaled/Isomorphism.h"
#include "lib/pipeline/Pipeline.h"
#include "lib/planfile/Program.h"
#include "lib/verify/scaled/Shrink.h"
#include "lib/verify/scaled/ScaledDownModel.h"
#include "test/support/CommandLine.h"
#include "test/support/Context.h"
#include "test/support/Names.h"

#include <functional>
#include <gtest/gtest.h>
#include <stdexcept>

using namespace llmc;
using namespace llmc::planfile;

namespace {

// Lists the differences for the message of a failed test.
std::string listed(const verify::Isomorphism &found) {
  std::string text;
  for (const std::string &line : found.differences)
    text += line + "\n";
  return text;
}

// Returns the first instruction of a kind after `skip` others.
InstructionT &find(ProgramT &program, Body kind, const char *procedure, unsigned skip = 0) {
  for (auto &stage : program.stages)
    for (auto &p : stage->procedures)
      for (auto &instruction : p->instructions)
        if (p->name == procedure && instruction->body.type == kind && skip-- == 0)
          return *instruction;
  throw std::logic_error(std::string("no such instruction in ") + procedure);
}

struct Plant {
  const char *what, *expected; // a word of the difference
  std::function<void(ProgramT &)> make;
};

const Plant plants[] = {
    {"a changed axis", "axes",
     [](ProgramT &p) { find(p, Body::Collective, "forward").body.AsCollective()->axes = {0}; }},
    {"a dropped wait", "number of instructions",
     [](ProgramT &p) {
       for (auto &procedure : p.stages[0]->procedures)
         for (auto at = procedure->instructions.begin(); at != procedure->instructions.end(); ++at)
           if ((*at)->body.type == Body::Wait) {
             procedure->instructions.erase(at);
             return;
           }
     }},
    {"another table", "table",
     [](ProgramT &p) { std::swap(p.stages[0]->table[1], p.stages[0]->table[2]); }},
    {"another event", "event",
     [](ProgramT &p) { ++find(p, Body::Record, "forward").body.AsRecord()->event; }},
    {"another channel", "channel",
     [](ProgramT &p) { ++find(p, Body::Send, "send_forward").body.AsSend()->channel; }},
    {"a message out of its group", "grouped",
     [](ProgramT &p) {
       find(p, Body::Recv, "send_forward_recv_backward").body.AsRecv()->grouped = false;
     }},
    {"another kernel", "kernel",
     [](ProgramT &p) {
       LaunchT &launch = *find(p, Body::Launch, "forward").body.AsLaunch();
       for (uint32_t k = 0; k < p.kernels.size(); ++k)
         if (p.kernels[k]->name != p.kernels[launch.kernel]->name)
           launch.kernel = k;
     }},
    {"a read of other bytes", "who wrote what it reads",
     [](ProgramT &p) {
       MatmulT &product = *find(p, Body::Matmul, "forward").body.AsMatmul();
       product.a->offset = p.stages[0]->states[0]->buffer->offset;
       product.a->slot_stride = 0;
     }},
    {"a state that is not cut", "axes of dimension",
     [](ProgramT &p) {
       for (auto &state : p.stages[0]->states)
         for (auto &dim : state->dims)
           dim->axes.clear();
     }},
    {"a state that only some ranks hold", "axes of the ranks that hold it",
     [](ProgramT &p) { p.stages[0]->states[0]->only_axes = {0}; }},
    {"a state in a flat buffer", "place",
     [](ProgramT &p) { p.stages[0]->states[0]->flat = std::make_unique<FlatPartT>(); }},
    {"a flat buffer", "flat groups",
     [](ProgramT &p) { p.stages[0]->flat_groups.push_back(std::make_unique<FlatGroupT>()); }},
    {"a source op of another name", "source nodes",
     [](ProgramT &p) {
       auto &copy = p.origins.emplace_back(std::make_unique<OriginT>());
       InstructionT &instruction = find(p, Body::Matmul, "backward");
       *copy = *p.origins[instruction.origin];
       copy->nodes = {"elsewhere"};
       instruction.origin = uint32_t(p.origins.size() - 1);
     }},
};

// Holds a plan of the model and its twin, compiled once for all tests.
struct Twins {
  test::LoadedContext context;
  mlir::FailureOr<verify::Subject> plan, twin;
  std::string sizes;
  int64_t tokens = 0; // of a row of the twin

  explicit Twins(bool fewTokens) {
    CompileOptions options;
    options.model = test::arguments().at(0);
    options.dp = options.pp = options.tp = 2;
    options.globalBatch = 8;
    options.zero = 0; // a fault makes a buffer flat
    plan = verify::compileSubject(context, options);
    auto raised = verify::compileSubject(context, options, llmc::Phase::Raise);
    if (failed(plan) || failed(raised) ||
        failed(verify::shrinkModel(raised->at(llmc::Phase::Raise), options.tp, sizes, /*kept=*/0,
                                   fewTokens)))
      return;
    for (auto func : raised->at(llmc::Phase::Raise).getOps<mlir::func::FuncOp>())
      for (mlir::Type type : func.getArgumentTypes())
        if (auto tensor = mlir::cast<mlir::RankedTensorType>(type);
            tensor.getElementType().isInteger(64) && tensor.getRank() == 2)
          tokens = tensor.getDimSize(1);
    twin =
        verify::compileSubject(context, options, llmc::Phase::Emit, raised->at(llmc::Phase::Raise));
  }
};

const Twins &twins() {
  static Twins twins(/*fewTokens=*/false);
  return twins;
}

class PlantedFault : public testing::TestWithParam<Plant> {};

TEST(Isomorphism, ATwinIsIsomorphic) {
  ASSERT_TRUE(succeeded(twins().plan) && succeeded(twins().twin));
  auto found = verify::compare(*twins().plan->program, *twins().twin->program, {});
  EXPECT_TRUE(found.count == 0 && found.reads > 500) << "a twin is isomorphic\n" << listed(found);
  EXPECT_TRUE(!twins().sizes.empty()) << "widths have become smaller";
}

TEST(Isomorphism, ATwinOfFewTokensIsIsomorphic) {
  Twins few(/*fewTokens=*/true);
  ASSERT_TRUE(succeeded(few.plan) && succeeded(few.twin));
  auto found = verify::compare(*few.plan->program, *few.twin->program, {});
  EXPECT_EQ(found.count, 0u) << listed(found);
  EXPECT_GE(few.tokens, 8);
  EXPECT_LT(few.tokens, twins().tokens);
}

TEST_P(PlantedFault, IsNamed) {
  ASSERT_TRUE(succeeded(twins().plan) && succeeded(twins().twin));
  auto broken = readProgram(writeProgram(*twins().twin->program));
  ASSERT_TRUE(bool(broken));
  GetParam().make(**broken);
  auto found = verify::compare(*twins().plan->program, **broken, {});
  bool named = !found.differences.empty() &&
               found.differences.front().find(GetParam().expected) != std::string::npos;
  EXPECT_TRUE(named) << GetParam().what << "\n" << listed(found);
}

INSTANTIATE_TEST_SUITE_P(Twin, PlantedFault, testing::ValuesIn(plants),
                         [](const auto &info) { return test::testName(info.param.what); });

} // namespace
