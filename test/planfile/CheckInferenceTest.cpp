// The checkers on plans of an inference: correct ones, and with one planted fault each.
#include "lib/planfile/Check.h"
#include "lib/planfile/Program.h"
#include "test/planfile/PlanBuilder.h"

#include <algorithm>
#include <gtest/gtest.h>

using namespace llmc;
using namespace llmc::planfile;
using namespace llmc::test;

namespace {

void expectFound(ProgramT &program, const std::string &checker, const std::string &words) {
  if (checkBounds(program))
    updateLiveBytes(program);
  std::vector<Finding> findings = checkAll(program);
  bool found = std::any_of(findings.begin(), findings.end(), [&](const Finding &finding) {
    return finding.checker == checker && finding.message.find(words) != std::string::npos;
  });
  EXPECT_TRUE(found) << checker + " did not say '" + words + "':\n" + formatFindings(findings);
}

// The launch that writes a stage's result.
LaunchT &launchOf(ProgramT &program, unsigned stage) {
  for (auto &inst : procedureOf(program, stage, ProcedureKind::Forward).instructions)
    if (inst->body.type == Body::Launch)
      return *inst->body.AsLaunch();
  throw std::logic_error("no launch");
}

InstructionT &append(ProgramT &program, unsigned stage, const InstructionT &like) {
  auto &list = procedureOf(program, stage, ProcedureKind::Forward).instructions;
  list.push_back(std::make_unique<InstructionT>(like));
  return *list.back();
}

} // namespace

TEST(CheckInference, CorrectInferencePlansPass) {
  for (unsigned stages : {1u, 2u, 4u})
    for (unsigned dp : {1u, 2u}) {
      std::vector<Finding> findings = checkAll(makeInferencePlan(stages, dp));
      EXPECT_TRUE(findings.empty()) << formatFindings(findings);
    }
}

TEST(CheckInference, ResultOfNobody) {
  ProgramT program = makeInferencePlan(2);
  BufferRefT other = bufferOf(program, 0, "x"); // bytes that nothing writes twice
  program.stages[1]->results[0]->buffer->offset = program.stages[1]->arena_bytes;
  program.stages[1]->arena_bytes += other.size;
  expectFound(program, "conservation", "result 'y1' is written by no forward");
}

TEST(CheckInference, ResultOverwritten) {
  ProgramT program = makeInferencePlan(2);
  InstructionT like;
  CopyT copy;
  copy.src = std::make_unique<BufferRefT>(bufferOf(program, 1, "x"));
  copy.dst = std::make_unique<BufferRefT>(*program.stages[1]->results[0]->buffer);
  like.body.Set(std::move(copy));
  like.origin = 1;
  append(program, 1, like);
  expectFound(program, "conservation", "result 'y1', written by");
}

TEST(CheckInference, ResultChangedInPlace) {
  ProgramT program = makeInferencePlan(1);
  InstructionT like;
  CollectiveT reduce;
  reduce.axes = {0};
  reduce.src = std::make_unique<BufferRefT>(*program.stages[0]->results[0]->buffer);
  reduce.dst = std::make_unique<BufferRefT>(*program.stages[0]->results[0]->buffer);
  reduce.count = reduce.src->size / 4;
  like.body.Set(std::move(reduce));
  like.origin = 1;
  append(program, 0, like);
  std::vector<Finding> findings = checkAll(program);
  EXPECT_TRUE(findings.empty()) << formatFindings(findings);
}

TEST(CheckInference, ResultsShareBytes) {
  ProgramT program = makeInferencePlan(1);
  auto &results = program.stages[0]->results;
  results.push_back(std::make_unique<OutputBindingT>(*results[0]));
  results[1]->name = "again";
  expectFound(program, "memory", "results 'again' and 'y0' share arena bytes");
}

TEST(CheckInference, ResultsOfOneName) {
  ProgramT program = makeInferencePlan(2);
  program.stages[1]->results[0]->name = "y0";
  expectFound(program, "bounds", "appears twice");
}

TEST(CheckInference, ResultsThatDoNotCover) {
  ProgramT program = makeInferencePlan(2);
  program.stages[0]->results[0]->global_shape[0] += 1;
  expectFound(program, "bounds", "do not cover");
}

TEST(CheckInference, InferenceOfHalfAnInput) {
  ProgramT program = makeInferencePlan(2);
  program.inputs[0]->batch_axes.clear();
  expectFound(program, "bounds", "is not the sum of its parts");
}

TEST(CheckInference, ResultReadTooEarly) {
  // The launch that makes the result reads what arrives after it.
  ProgramT program = makeInferencePlan(2);
  auto &list = procedureOf(program, 1, ProcedureKind::Forward).instructions;
  std::erase_if(list, [](const auto &inst) { return inst->body.type == Body::Wait; });
  expectFound(program, "happens-before", "");
}

TEST(CheckInference, InferenceThatTrains) {
  ProgramT program = makeInferencePlan(1);
  program.stages[0]->procedures[0]->kind = ProcedureKind::Update;
  expectFound(program, "conservation", "the table runs 1 updates a step, not none");
}

TEST(CheckInference, LiveUntilTheEnd) {
  // A result counts as live to the end although nobody in the plan reads it.
  ProgramT program = makeInferencePlan(1);
  uint64_t with = peakLiveBytes(program, 0);
  uint64_t bytes = program.stages[0]->results[0]->buffer->size;
  LaunchT &launch = launchOf(program, 0);
  BufferRefT far;
  far.offset = program.stages[0]->arena_bytes;
  far.size = bytes;
  program.stages[0]->arena_bytes += bytes;
  InstructionT like;
  CopyT copy;
  copy.src = std::make_unique<BufferRefT>(bufferOf(program, 0, "x"));
  copy.dst = std::make_unique<BufferRefT>(far);
  like.body.Set(std::move(copy));
  EXPECT_TRUE(launch.operands.size() > 1) << "the launch reads x";
  append(program, 0, like);
  append(program, 0, like);
  EXPECT_EQ(peakLiveBytes(program, 0), with + bytes);
}
