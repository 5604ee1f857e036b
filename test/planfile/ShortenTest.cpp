// A shortened plan shows what the whole one shows.
#include "lib/planfile/Check.h"
#include "lib/planfile/CheckWalk.h"
#include "lib/planfile/Shorten.h"
#include "test/planfile/Harness.h"
#include "test/planfile/PlanBuilder.h"

#include <set>
#include <tuple>

using namespace llmc;
using namespace llmc::planfile;
using namespace llmc::test;

namespace {

PlanShape longShape(unsigned stages) {
  PlanShape shape;
  shape.stages = stages;
  shape.microBatches = 200;
  shape.dp = 1;
  shape.exchange = true;
  return shape;
}

// What happens-before finds, whichever micro-batches it is seen at.
std::set<std::tuple<int, std::string, int64_t>> racesOf(const ProgramT &program) {
  std::set<std::tuple<int, std::string, int64_t>> places;
  for (const Finding &finding : checkHappensBefore(program))
    places.insert({finding.stage, finding.procedure, finding.instruction});
  return places;
}

} // namespace

LLMC_TEST(shortenedPlansHoldTogether) {
  for (unsigned stages : {1u, 2u, 4u}) {
    ProgramT program = makePlan(longShape(stages));
    std::unique_ptr<ProgramT> brief = shortened(program);
    EXPECT(brief != nullptr);
    EXPECT(brief->micro_batches < 60);
    EXPECT_EQ(formatFindings(checkAll(*brief)), "");
    for (unsigned s = 0; s < stages; ++s)
      EXPECT_EQ(peakLiveBytes(*brief, s), peakLiveBytes(program, s));
    EXPECT_EQ(program.micro_batches, 200u);
    EXPECT_EQ(formatFindings(checkAll(program)), "");
  }
}

LLMC_TEST(nothingIsLeftOutWhereNothingRepeats) {
  PlanShape few = longShape(2), gpipe = longShape(2);
  few.microBatches = 12;
  gpipe.gpipe = true; // as many slots as micro-batches
  EXPECT(shortened(makePlan(few)) == nullptr);
  EXPECT(shortened(makePlan(gpipe)) == nullptr);
}

// Every wait and fill in turn is dropped: the short plan has the races of the long.
LLMC_TEST(racesOfAShortenedPlanAreThoseOfTheWhole) {
  size_t races = 0;
  for (unsigned stages : {1u, 2u, 3u}) {
    ProgramT correct = makePlan(longShape(stages));
    for (unsigned s = 0; s < stages; ++s)
      for (size_t p = 0; p < correct.stages[s]->procedures.size(); ++p)
        for (size_t i = 0; i < correct.stages[s]->procedures[p]->instructions.size(); ++i) {
          ProgramT mutant = correct;
          auto &instructions = mutant.stages[s]->procedures[p]->instructions;
          if (instructions[i]->body.type != Body::Wait && instructions[i]->body.type != Body::Fill)
            continue;
          instructions.erase(instructions.begin() + static_cast<int64_t>(i));
          std::unique_ptr<ProgramT> brief = shortened(mutant);
          EXPECT(brief != nullptr);
          auto whole = racesOf(mutant);
          EXPECT(racesOf(*brief) == whole);
          races += !whole.empty();
        }
  }
  EXPECT(races > 20);
}

// A fault of one micro-batch: the rows around it do not repeat, so they stay.
LLMC_TEST(aFaultOfOneRowIsFoundAnywhere) {
  for (size_t part = 1; part < 8; ++part) {
    ProgramT program = makePlan(longShape(2));
    auto &table = program.stages[0]->table;
    size_t row = table.size() * part / 8;
    while (program.stages[0]->procedures[table[row]->procedure]->kind != ProcedureKind::Backward)
      ++row;
    table[row]->slot = (table[row]->slot + 1) % program.stages[0]->pools[0]->slots;
    EXPECT(!racesOf(program).empty());
    std::unique_ptr<ProgramT> brief = shortened(program);
    EXPECT(!brief || !racesOf(*brief).empty());
    EXPECT(!checkAll(program).empty());
  }
}

// Bytes of one slot that are another buffer's bytes in the next slot.
LLMC_TEST(slotsThatMeetAreNotShortened) {
  ProgramT program = makePlan(longShape(2));
  std::set<uint64_t> strides;
  for (const auto &procedure : program.stages[0]->procedures)
    for (const auto &instruction : procedure->instructions)
      if (LaunchT *launch = instruction->body.AsLaunch())
        for (auto &operand : launch->operands)
          if (operand->buffer->slot_stride > 0) {
            operand->buffer->size += operand->buffer->slot_stride; // reaches into the next slot
            strides.insert(operand->buffer->slot_stride);
          }
  EXPECT(!strides.empty());
  EXPECT(shortened(program) == nullptr);
}
