// Plans of random models, meshes and schedules before the checkers.
#include "lib/planfile/AxisNames.h"
#include "lib/planfile/Check.h"
#include "test/passes/5-schedule/Plans.h"
#include "test/support/CommandLine.h"
#include <gtest/gtest.h>

using namespace mlir;

namespace llmc::test {
namespace {

void forEachPlan(llvm::function_ref<void(const Plan &, planfile::ProgramT &, const std::string &)> check) {
  for (int i = 0; i < draws().count; ++i) {
    unsigned seed = draws().seed + i;
    std::mt19937 random(seed);
    Plan plan = drawPlan(random, 64);
    MLIRContext context;
    loadDialects(context);
    OwningOpRef<ModuleOp> module = schedule(context, plan);
    if (!module)
      continue;
    if (auto program = write(*module, plan))
      check(plan, *program, "seed " + std::to_string(seed) + ", " + plan.describe());
  }
}

TEST(Plan, CheckersFindNothing) {
  forEachPlan([](const Plan &, planfile::ProgramT &program, const std::string &what) {
    auto findings = planfile::checkAll(program);
    EXPECT_TRUE(findings.empty()) << what + "\n" + planfile::formatFindings(findings);
  });
}

TEST(Plan, OneSlotLessIsFound) {
  forEachPlan([](const Plan &, planfile::ProgramT &program, const std::string &what) {
    for (auto &stage : program.stages) {
      if (stage->pools.front()->slots < 2)
        continue;
      std::vector<uint32_t> before;
      for (auto &entry : stage->table)
        before.push_back(entry->slot);
      --stage->pools.front()->slots;
      for (auto &entry : stage->table)
        entry->slot = entry->micro_batch % stage->pools.front()->slots;
      EXPECT_TRUE(!planfile::checkHappensBefore(program).empty())
          << what + ": nobody misses the slot";
      ++stage->pools.front()->slots;
      for (size_t i = 0; i < before.size(); ++i)
        stage->table[i]->slot = before[i];
    }
  });
}

// min(m, p - s) slots under 1F1B, m under GPipe.
TEST(Plan, SlotsAreThoseOfTheSchedule) {
  forEachPlan([](const Plan &plan, planfile::ProgramT &program, const std::string &what) {
    for (size_t s = 0; s < program.stages.size(); ++s) {
      int64_t m = plan.microBatches, ahead = plan.mesh.pp - int64_t(s);
      int64_t slots = plan.schedule == "gpipe" ? m : std::min(m, ahead);
      EXPECT_TRUE(program.stages[s]->pools.front()->slots == slots)
          << what + ": stage " + std::to_string(s) + " has " +
                 std::to_string(program.stages[s]->pools.front()->slots) + " slots";
    }
  });
}

// Every gradient is summed over the replicas once a step, padding included, in
// the last backward, and a bucket is closed once it is large enough.
TEST(Plan, BucketsHoldEveryGradientOnce) {
  forEachPlan([](const Plan &plan, planfile::ProgramT &program, const std::string &what) {
    if (plan.mesh.dp == 1 || plan.zero > 0)
      return;
    uint32_t replicas = planfile::axesOf(*program.mesh, planfile::AxisRole::Data).front();
    for (auto &stage : program.stages) {
      int64_t reduced = 0, gradients = 0, calls = 0, largest = 0;
      std::set<std::vector<uint32_t>> groups; // those of partial sums over tp as well have their own
      for (auto &state : stage->states)
        if (state->role == planfile::StateRole::Accumulator && state->view) {
          gradients += state->buffer->size;
          largest = std::max<int64_t>(largest, state->buffer->size);
        }
      for (auto &procedure : stage->procedures)
        for (auto &instruction : procedure->instructions) {
          const planfile::CollectiveT *collective = instruction->body.AsCollective();
          if (!collective || collective->axes.empty() || collective->axes[0] != replicas ||
              !collective->members.empty())
            continue;
          if (procedure->kind == planfile::ProcedureKind::Update && collective->count == 1)
            continue; // loss and tokens
          EXPECT_TRUE(procedure->kind == planfile::ProcedureKind::BackwardLast &&
                      instruction->stream > 0)
              << what + ": a sum over dp stands in " + procedure->name;
          reduced += collective->src->size;
          groups.insert(collective->axes);
          ++calls;
        }
      EXPECT_TRUE(reduced == gradients) << what + ": " + std::to_string(reduced) +
                                               " bytes are summed of " + std::to_string(gradients);
      EXPECT_TRUE(calls <= gradients / plan.bucketBytes + int64_t(groups.size()) &&
                  calls >= gradients / (plan.bucketBytes + largest))
          << what + ": " + std::to_string(calls) + " buckets";
    }
  });
}

namespace {
// Returns the payload of the collectives of a kind in a procedure that run over data axes, and adds
// the padding that they may have to `padding`.
int64_t moved(const planfile::ProgramT &program, const planfile::ProcedureT &procedure,
              planfile::CollectiveKind kind, int64_t &padding) {
  std::vector<uint32_t> replicas = planfile::axesOf(*program.mesh, planfile::AxisRole::Data);
  int64_t bytes = 0;
  for (auto &instruction : procedure.instructions)
    if (const planfile::CollectiveT *collective = instruction->body.AsCollective();
        collective && collective->kind == kind && collective->axes == replicas) {
      bool gathers = kind == planfile::CollectiveKind::AllGather;
      bytes += int64_t(gathers ? collective->dst->size : collective->src->size);
      padding += 4 * program.mesh->axes[replicas.front()]->size;
    }
  return bytes;
}
} // namespace

// Each bucket of shared-out states moves once where its stage of ZeRO says so, with all of its
// gradients or weights and little padding: never all of them at stage 3 where nothing reads some.
TEST(Plan, FlatBucketsHoldEveryGradientOnce) {
  using planfile::CollectiveKind, planfile::ProcedureKind;
  forEachPlan([](const Plan &plan, planfile::ProgramT &program, const std::string &what) {
    if (plan.mesh.dp == 1 || plan.zero == 0 || (plan.zero == 1 && !plan.adamw) ||
        planfile::axesOf(*program.mesh, planfile::AxisRole::Data).size() != 1)
      return;
    for (auto &stage : program.stages) {
      int64_t whole = 0; // bytes of a rank's gradients or weights before they are shared out
      for (auto &state : stage->states)
        if (state->role == planfile::StateRole::Parameter) {
          int64_t size = 4;
          for (int64_t dim : state->local_shape)
            size *= dim;
          whole += size;
        }
      for (auto &procedure : stage->procedures) {
        ProcedureKind kind = procedure->kind;
        int64_t padding = 0;
        int64_t scattered = moved(program, *procedure, CollectiveKind::ReduceScatter, padding);
        bool scatters = kind == ProcedureKind::BackwardLast ||
                        (plan.zero > 1 && kind == ProcedureKind::Backward);
        EXPECT_TRUE(scatters ? scattered >= whole && scattered <= whole + padding : scattered == 0)
            << what + ": " + procedure->name + " scatters " + std::to_string(scattered) + " of " +
                   std::to_string(whole);
        int64_t gathered = moved(program, *procedure, CollectiveKind::AllGather, padding);
        if (plan.zero < 3)
          EXPECT_TRUE(kind == ProcedureKind::Update ? gathered >= whole && gathered <= whole + padding
                                                    : gathered == 0)
              << what + ": " + procedure->name + " gathers " + std::to_string(gathered) + " of " +
                     std::to_string(whole);
        else
          EXPECT_TRUE(kind == ProcedureKind::Update ? gathered == 0 : gathered <= whole + padding)
              << what + ": " + procedure->name + " gathers " + std::to_string(gathered);
      }
    }
  });
}

} // namespace
} // namespace llmc::test
