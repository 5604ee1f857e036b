// Faults of interleaved and zero-bubble pipelines are found by the static checks, wherever they are
// made.
#include "lib/planfile/Check.h"
#include "lib/planfile/Trace.h"
#include "lib/verify/mutation/PlanMutationRunner.h"
#include "lib/verify/subject/Subject.h"
#include "test/support/Context.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

using namespace llmc;
using namespace llmc::planfile;

namespace {

ProgramT compile(Schedule schedule, int64_t pp, int64_t dp) {
  CompileOptions options;
  options.model = LLMC_TEST_DATA "/gpt2/config.json";
  options.dp = dp;
  options.pp = pp;
  options.sequence = 8;
  options.schedule = schedule;
  test::LoadedContext context;
  auto subject = verify::compileSubject(context, options);
  EXPECT_TRUE(succeeded(subject));
  return succeeded(subject) ? *subject->program : ProgramT();
}

bool isWeight(ProcedureKind kind) { return kind == ProcedureKind::Weight || kind == ProcedureKind::WeightLast; }
bool isBackward(ProcedureKind kind) { return kind == ProcedureKind::Backward || kind == ProcedureKind::BackwardLast; }

const ProcedureT &procedureOf(const StageT &stage, size_t row) {
  return *stage.procedures[stage.table[row]->procedure];
}

// Makes a fault in each pair of rows of a table that `wanted` accepts, which must be found. Returns
// their number.
int makeEach(const ProgramT &program, const std::function<bool(const StageT &, size_t, size_t)> &wanted,
             const std::function<void(StageT &, size_t, size_t)> &make) {
  int made = 0;
  for (size_t s = 0; s < program.stages.size(); ++s) {
    const StageT &stage = *program.stages[s];
    for (size_t i = 0; i < stage.table.size(); ++i)
      for (size_t j = i + 1; j < stage.table.size(); ++j) {
        if (!wanted(stage, i, j))
          continue;
        ProgramT changed(program);
        make(*changed.stages[s], i, j);
        EXPECT_NE(verify::staticKiller(changed), "") << "stage " << s << ", rows " << i << " and " << j;
        ++made;
      }
  }
  return made;
}

void swapRows(StageT &stage, size_t i, size_t j) { std::swap(stage.table[i], stage.table[j]); }

bool isOfOneMicroBatch(const StageT &stage, size_t i, size_t j) {
  return stage.table[i]->micro_batch == stage.table[j]->micro_batch;
}

} // namespace

TEST(PipelineFaults, ChunkOrderIsSwapped) {
  ProgramT program = compile(Schedule::Interleaved, 2, 1);
  ASSERT_EQ(verify::staticKiller(program), "");
  int made = makeEach(
      program,
      [](const StageT &stage, size_t i, size_t j) {
        const ProcedureT &a = procedureOf(stage, i), &b = procedureOf(stage, j);
        bool isSame = (a.kind == ProcedureKind::Forward && b.kind == a.kind) ||
                      (isBackward(a.kind) && isBackward(b.kind));
        return isSame && a.chunk != b.chunk && isOfOneMicroBatch(stage, i, j);
      },
      swapRows);
  EXPECT_EQ(made, 2 * 2 * 8); // stages, directions, micro-batches
}

TEST(PipelineFaults, WeightsRunBeforeTheirBackward) {
  ProgramT program = compile(Schedule::ZeroBubble, 4, 1);
  ASSERT_EQ(verify::staticKiller(program), "");
  int made = makeEach(
      program,
      [](const StageT &stage, size_t i, size_t j) {
        return isBackward(procedureOf(stage, i).kind) && isWeight(procedureOf(stage, j).kind) &&
               isOfOneMicroBatch(stage, i, j);
      },
      swapRows);
  EXPECT_EQ(made, 4 * 16);
}

// Gives each micro-batch the slots that it would have if they were free after its backward.
TEST(PipelineFaults, SlotIsFreedAtBackward) {
  ProgramT program = compile(Schedule::ZeroBubble, 4, 1);
  int made = 0;
  for (size_t s = 1; s < program.stages.size(); ++s) { // on the first W follows B at once
    ProgramT changed(program);
    StageT &stage = *changed.stages[s];
    std::map<uint32_t, uint32_t> slots;
    std::set<uint32_t> free;
    for (uint32_t slot = 0; slot < stage.pools[0]->slots; ++slot)
      free.insert(slot);
    for (size_t row = 0; row < stage.table.size(); ++row) {
      EntryT &entry = *stage.table[row];
      ProcedureKind kind = procedureOf(stage, row).kind;
      if (kind == ProcedureKind::Begin || kind == ProcedureKind::Update)
        continue;
      auto use = [&](uint32_t pool, uint32_t microBatch, uint32_t old) {
        if (pool != 0)
          return old;
        if (!slots.count(microBatch)) {
          slots[microBatch] = *free.begin();
          free.erase(free.begin());
        }
        return slots[microBatch];
      };
      entry.slot = use(entry.pool, entry.micro_batch, entry.slot);
      for (SlotRef &lane : entry.more)
        lane = SlotRef(lane.pool(), lane.micro_batch(), use(lane.pool(), lane.micro_batch(), lane.slot()));
      if (isBackward(kind))
        free.insert(slots[entry.micro_batch]);
    }
    EXPECT_NE(verify::staticKiller(changed), "") << "stage " << s;
    ++made;
  }
  EXPECT_EQ(made, 3);
}

// Receives into a slot whose backward has run, but not its weight gradients.
TEST(PipelineFaults, ReceiveWaitsForBackwardAlone) {
  ProgramT program = compile(Schedule::ZeroBubble, 4, 1);
  int made = 0;
  for (size_t s = 0; s < program.stages.size(); ++s) {
    std::set<uint32_t> afterWeights, afterBackward;
    for (const auto &procedure : program.stages[s]->procedures)
      for (const auto &inst : procedure->instructions)
        if (const RecordT *record = inst->body.AsRecord(); record && !record->whole_step && inst->stream == 0) {
          if (isWeight(procedure->kind))
            afterWeights.insert(record->event);
          if (isBackward(procedure->kind))
            afterBackward.insert(record->event);
        }
    // Changes all receives of a group: one wait may stand for another.
    for (size_t p = 0; p < program.stages[s]->procedures.size(); ++p) {
      const ProcedureT &procedure = *program.stages[s]->procedures[p];
      bool runs = std::any_of(program.stages[s]->table.begin(), program.stages[s]->table.end(),
                              [&](const auto &entry) { return entry->procedure == p && entry->micro_batch >= 4; });
      if (procedure.kind != ProcedureKind::Exchange || !runs)
        continue;
      for (uint32_t event : afterBackward) {
        ProgramT changed(program);
        bool any = false;
        for (auto &inst : changed.stages[s]->procedures[p]->instructions)
          if (WaitT *wait = inst->body.AsWait(); wait && afterWeights.count(wait->event)) {
            wait->event = event;
            any = true;
          }
        if (any)
          EXPECT_NE(verify::staticKiller(changed), "") << "stage " << s << ", " << procedure.name;
        made += any;
      }
    }
  }
  EXPECT_GT(made, 0);
}

TEST(PipelineFaults, BucketStartsBeforeTheLastWeights) {
  ProgramT program = compile(Schedule::ZeroBubble, 2, 2);
  ASSERT_EQ(verify::staticKiller(program), "");
  int made = makeEach(
      program,
      [](const StageT &stage, size_t i, size_t j) {
        return procedureOf(stage, i).kind == ProcedureKind::Weight &&
               procedureOf(stage, j).kind == ProcedureKind::WeightLast;
      },
      [](StageT &stage, size_t i, size_t j) {
        std::swap(stage.table[i]->procedure, stage.table[j]->procedure);
      });
  EXPECT_EQ(made, 2 * 7);
  // Lets each bucket start with the last weight gradients in place of after them.
  int early = 0;
  for (size_t s = 0; s < program.stages.size(); ++s)
    for (size_t p = 0; p < program.stages[s]->procedures.size(); ++p) {
      const ProcedureT &last = *program.stages[s]->procedures[p];
      for (size_t i = 1; last.kind == ProcedureKind::WeightLast && i < last.instructions.size(); ++i) {
        const RecordT *record = last.instructions[i]->body.AsRecord();
        if (!record || !record->whole_step || last.instructions[i]->stream != 0)
          continue;
        ProgramT changed(program);
        auto &list = changed.stages[s]->procedures[p]->instructions;
        std::rotate(list.begin(), list.begin() + i, list.begin() + i + 1);
        EXPECT_NE(verify::staticKiller(changed), "") << "stage " << s << ", instruction " << i;
        ++early;
      }
    }
  EXPECT_GT(early, 0);
}
