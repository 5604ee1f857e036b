// Memory for one layer fewer than a plan of ZeRO 3 gathers at once is a fault that checkers find.
#include "lib/planfile/Check.h"
#include "lib/planfile/Trace.h"
#include "lib/verify/subject/Subject.h"
#include "test/planfile/PlanBuilder.h"
#include "test/support/Context.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

using namespace llmc;
using namespace llmc::planfile;
using verify::compileSubject;

namespace {

// Names a gather of weights before they are used: the instruction, and where it writes.
struct Gather {
  size_t at;
  BufferRefT to;
};

bool isWeight(const StageT &stage, const BufferRefT &ref) {
  for (const auto &state : stage.states)
    if (state->role == StateRole::Parameter && state->buffer->offset == ref.offset)
      return true;
  return false;
}

// Lists the gathers of the largest bucket: those of the matrices of layers.
std::vector<Gather> gathersOf(const StageT &stage, const ProcedureT &procedure) {
  std::vector<Gather> gathers;
  uint64_t most = 0;
  for (size_t i = 0; i < procedure.instructions.size(); ++i) {
    const CollectiveT *gather = procedure.instructions[i]->body.AsCollective();
    if (!gather || gather->kind != CollectiveKind::AllGather || !isWeight(stage, *gather->src))
      continue;
    if (gather->dst->size > most)
      gathers.clear();
    most = std::max(most, gather->dst->size);
    if (gather->dst->size == most)
      gathers.push_back({i, *gather->dst});
  }
  return gathers;
}

// Lets a gather write, and those read who read what it wrote, `to` in place of its buffer.
void moveGathered(ProcedureT &procedure, const Gather &gather, uint64_t to) {
  uint64_t begin = gather.to.offset, end = begin + gather.to.size;
  auto move = [&](BufferRefT &ref) {
    if (ref.offset >= begin && ref.offset + ref.size <= end)
      ref.offset = ref.offset - begin + to;
  };
  move(*procedure.instructions[gather.at]->body.AsCollective()->dst);
  for (size_t i = gather.at + 1; i < procedure.instructions.size(); ++i) {
    InstructionT &inst = *procedure.instructions[i];
    bool isOverwritten = false;
    forEachAccess(inst, 0, [&](const ByteAccess &a) {
      isOverwritten |= a.write && a.begin < end && begin < a.end;
    });
    if (isOverwritten)
      return;
    test::forEachRef(inst, move);
  }
}

class GatherWindow : public testing::TestWithParam<int> {};

TEST_P(GatherWindow, HoldsNoLayerLess) {
  CompileOptions options;
  options.model = LLMC_TEST_DATA "/gpt2/config.json";
  options.dp = 2;
  options.sequence = 8;
  options.zero = 3;
  options.gatherAhead = GetParam();
  test::LoadedContext context;
  auto subject = compileSubject(context, options);
  ASSERT_TRUE(succeeded(subject));
  const ProgramT &program = *subject->program;
  ASSERT_TRUE(checkAll(program).empty());
  for (size_t p = 0; p < program.stages[0]->procedures.size(); ++p) {
    ProcedureKind kind = program.stages[0]->procedures[p]->kind;
    if (kind != ProcedureKind::Forward && kind != ProcedureKind::Backward)
      continue;
    std::vector<Gather> gathers = gathersOf(*program.stages[0], *program.stages[0]->procedures[p]);
    ASSERT_EQ(gathers.size(), size_t(program.model->layers));
    std::vector<uint64_t> places; // in the order in which they are first used
    for (const Gather &gather : gathers)
      if (std::find(places.begin(), places.end(), gather.to.offset) == places.end())
        places.push_back(gather.to.offset);
    // A window has memory for the layer that is read and for those that are gathered ahead.
    EXPECT_EQ(places.size(), std::min<size_t>(gathers.size(), 1 + GetParam()));
    // Those of one place go to the next one, as if the window were one layer shorter.
    ProgramT changed(program);
    ProcedureT &procedure = *changed.stages[0]->procedures[p];
    for (const Gather &gather : gathers)
      if (gather.to.offset == places.back())
        moveGathered(procedure, gather, places.front());
    updateLiveBytes(changed);
    std::set<std::string> checkers;
    for (const Finding &finding : checkAll(changed))
      checkers.insert(finding.checker);
    EXPECT_TRUE(checkers.count("happens-before")) << procedure.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Ahead, GatherWindow, testing::Values(1, 2));

} // namespace
