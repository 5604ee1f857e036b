// Tests that a long step checked by its repeated part gives the same findings as row by row.
#include "lib/planfile/ShortenedPlans.h"
#include "lib/planfile/Check.h"
#include "lib/planfile/Program.h"
#include "test/planfile/PlanBuilder.h"

#include <gtest/gtest.h>
#include <random>

using namespace llmc::planfile;
using namespace llmc::test;

namespace {

using Rng = std::mt19937;

std::vector<Finding> rowByRow(const ProgramT &program) {
  std::vector<Finding> all;
  for (auto *checker : {checkCollectives, checkLaunchOrder, checkHappensBefore, checkTensors,
                        checkUpdates, checkConservation, checkMemory})
    for (Finding &finding : checker(program))
      all.push_back(std::move(finding));
  return all;
}

// Micro-batch m of a stage in slot (m + first) % slots, in every row and lane.
void useSlots(StageT &stage, uint32_t slots, uint32_t first) {
  for (const auto &entry : stage.table) {
    ProcedureKind kind = stage.procedures[entry->procedure]->kind;
    if (kind == ProcedureKind::Begin || kind == ProcedureKind::Update)
      continue;
    entry->slot = (entry->micro_batch + first) % slots;
    for (SlotRef &lane : entry->more)
      lane = SlotRef(lane.pool(), lane.micro_batch(), (lane.micro_batch() + first) % slots);
  }
}

// One change of a plan that still can be walked, of many kinds.
void change(ProgramT &program, Rng &rng) {
  auto draw = [&](size_t below) { return static_cast<size_t>(rng() % below); };
  StageT &stage = *program.stages[draw(program.stages.size())];
  ProcedureT &procedure = *stage.procedures[draw(stage.procedures.size())];
  auto &list = procedure.instructions;
  size_t kind = draw(6);
  if (kind == 0 && stage.pools[0]->slots > 1)
    return useSlots(stage, stage.pools[0]->slots - static_cast<uint32_t>(draw(2)),
                    static_cast<uint32_t>(draw(3)));
  if (kind == 1) {
    size_t row = draw(stage.table.size() - 1);
    return std::swap(stage.table[row], stage.table[row + 1]);
  }
  if (list.size() < 2)
    return;
  size_t at = draw(list.size() - 1);
  if (kind == 2)
    list.erase(list.begin() + static_cast<ptrdiff_t>(at));
  else if (kind == 3)
    std::swap(list[at], list[at + 1]);
  else if (WaitT *wait = list[at]->body.AsWait())
    wait->event = static_cast<uint32_t>(draw(stage.events));
  else if (RecordT *record = list[at]->body.AsRecord())
    record->event = static_cast<uint32_t>(draw(stage.events));
  else if (LaunchT *launch = list[at]->body.AsLaunch())
    launch->operands[draw(launch->operands.size())]->buffer->slot_stride = 0;
}

std::vector<PlanShape> longPlans() {
  std::vector<PlanShape> shapes;
  for (unsigned stages : {1u, 2u, 3u})
    for (unsigned microBatches : {120u, 121u, 127u})
      shapes.push_back({.stages = stages, .microBatches = microBatches, .exchange = true});
  return shapes;
}

} // namespace

TEST(CheckSteady, LongStepsAreShortened) {
  for (const PlanShape &shape : longPlans()) {
    ProgramT program = makePlan(shape);
    std::optional<ShortenedPlans> steady = shortenSteadyState(program);
    EXPECT_TRUE(steady && steady->once.micro_batches < 80) << "nothing was left out";
    EXPECT_EQ(formatFindings(checkAll(program)), "");
    EXPECT_EQ(formatFindings(rowByRow(steady->once)), "");
    for (unsigned s = 0; s < shape.stages; ++s)
      EXPECT_EQ(peakLiveBytes(program)[s], peakLiveBytes(program, s));
  }
}

// Forwards alone and backwards alone are no turns; nor is what is too short.
TEST(CheckSteady, OtherStepsAreNot) {
  EXPECT_TRUE(!shortenSteadyState(makePlan({.gpipe = true, .microBatches = 120})));
  EXPECT_TRUE(!shortenSteadyState(makePlan({.microBatches = 20})));
}

// A row out of order in the middle is no turn like the others.
TEST(CheckSteady, OneOddRowIsFound) {
  ProgramT program = makePlan({.stages = 2, .microBatches = 200, .exchange = true});
  StageT &stage = *program.stages[0];
  std::swap(stage.table[stage.table.size() / 2 + 3], stage.table[stage.table.size() / 2 + 4]);
  EXPECT_TRUE(!checkAll(program).empty());
}

TEST(CheckSteady, ShortenedPlansHideNoFault) {
  Rng rng(3);
  unsigned wrong = 0, shortened = 0;
  std::vector<PlanShape> shapes = longPlans();
  for (unsigned i = 0; i < 150; ++i) {
    ProgramT program = makePlan(shapes[i % shapes.size()]);
    for (unsigned edit = 0; edit <= i % 2; ++edit)
      change(program, rng);
    if (!checkBounds(program))
      continue;
    updateLiveBytes(program);
    std::string all = formatFindings(rowByRow(program)), told = formatFindings(checkAll(program));
    EXPECT_TRUE(all == told) << "row by row: " + all + "shortened: " + told;
    wrong += !all.empty();
    shortened += shortenSteadyState(program).has_value();
  }
  std::cout << "      " << wrong << " of 150 changed plans are wrong, " << shortened << " are shortened\n";
  EXPECT_TRUE(wrong > 50 && shortened > 50);
}
