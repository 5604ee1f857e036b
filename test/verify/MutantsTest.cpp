// Faults of flat buffers and of scratch in plans made by hand: all are found.
#include "lib/planfile/Check.h"
#include "lib/planfile/Program.h"
#include "lib/verify/mutation/PlanMutationRunner.h"
#include "runtime/cpu/Executor.h"
#include "test/planfile/PlanBuilder.h"

#include <gtest/gtest.h>
#include <map>
#include <set>

using namespace llmc;
using namespace llmc::planfile;
using verify::Fault;

namespace {

StateShardT &stateOf(StageT &stage, const std::string &name, StateRole role) {
  for (auto &state : stage.states)
    if (state->name == name && state->role == role)
      return *state;
  throw std::logic_error("no such state");
}

// Parameters q, k and v of the first stage lie in one flat buffer.
ProgramT makePlan() {
  ProgramT program = test::makePlan({.stages = 2, .dp = 2, .exchange = true});
  StageT &stage = *program.stages[0];
  auto group = std::make_unique<FlatGroupT>();
  group->buffer = test::bytesAt(stage.arena_bytes, 0);
  for (const char *name : {"q", "k", "v"}) {
    StateShardT &state = stateOf(stage, name, StateRole::Parameter);
    BufferRefT from = *state.buffer, to = from;
    state.flat = std::make_unique<FlatPartT>();
    state.flat->begin = group->length;
    to.offset = stage.arena_bytes;
    stage.arena_bytes += to.size;
    test::moveBuffer(program, 0, from, to);
    group->length += from.size / 4;
  }
  group->buffer->size = group->length * 4;
  for (const char *name : {"q", "k", "v"})
    stateOf(stage, name, StateRole::Parameter).buffer = std::make_unique<BufferRefT>(*group->buffer);
  stage.flat_groups.push_back(std::move(group));
  updateLiveBytes(program);
  return program;
}

TEST(Mutants, FlatBuffers) {
  ProgramT program = makePlan();
  std::vector<Finding> findings = checkAll(program);
  ASSERT_TRUE(findings.empty()) << formatFindings(findings);
  size_t flat = 0;
  std::set<std::string> killers;
  for (const verify::Mutant &mutant : verify::listMutants(program)) {
    if (mutant.fault != Fault::Flat)
      continue;
    ++flat;
    ProgramT changed(program);
    verify::apply(mutant, changed);
    std::string overwriter = verify::staticKiller(changed);
    EXPECT_NE(overwriter, "") << mutant.change;
    killers.insert(overwriter);
  }
  EXPECT_EQ(flat, 8u); // three begins and a length, up and down
  EXPECT_TRUE(killers.count("conservation") && killers.count("bounds"));
}

std::unique_ptr<OperandT> operand(uint64_t offset, uint64_t size, Access access) {
  auto made = std::make_unique<OperandT>();
  made->buffer = test::bytesAt(offset, size);
  made->access = access;
  return made;
}

void add(ProgramT &program, BodyUnion body) {
  auto made = std::make_unique<InstructionT>();
  made->body = std::move(body);
  program.stages[0]->procedures[0]->instructions.push_back(std::move(made));
}

// Reverses eight numbers by way of its scratch.
void reverse(void *const *b, const int64_t *, int64_t, int64_t) {
  auto *from = static_cast<const float *>(b[0]);
  auto *to = static_cast<float *>(b[1]), *scratch = static_cast<float *>(b[2]);
  for (int i = 0; i < 8; ++i)
    scratch[i] = 2 * from[7 - i];
  for (int i = 0; i < 8; ++i)
    to[i] = scratch[i] / 2;
}
void count(void *const *b, const int64_t *, int64_t, int64_t) {
  for (int i = 0; i < 8; ++i)
    static_cast<float *>(b[0])[i] = float(i + 1);
}

// One rank that counts, reverses, and reverses again with other scratch.
ProgramT makeScratchPlan() {
  ProgramT program;
  program.version = kPlanVersion;
  program.model = std::make_unique<ModelInfoT>();
  program.mesh = std::make_unique<MeshT>();
  program.mesh->axes.push_back(std::make_unique<AxisT>());
  program.mesh->axes[0]->size = 1;
  program.micro_batch = program.micro_batches = program.global_batch = 1;
  program.mode = Mode::Infer;
  program.origins.push_back(std::make_unique<OriginT>());
  for (const char *name : {"count", "reverse"}) {
    program.kernels.push_back(std::make_unique<KernelT>());
    program.kernels.back()->name = name;
  }
  auto stage = std::make_unique<StageT>();
  stage->streams = 1;
  stage->pools.push_back(std::make_unique<PoolT>());
  stage->pools.back()->slots = 1;
  stage->arena_bytes = 256;
  stage->chunks.push_back(std::make_unique<ChunkT>());
  stage->chunks.back()->last_layer = -1;
  stage->procedures.push_back(std::make_unique<ProcedureT>());
  stage->table.push_back(std::make_unique<EntryT>());
  auto result = std::make_unique<OutputBindingT>();
  result->name = "y";
  result->global_shape = result->local_shape = {8};
  result->buffer = test::bytesAt(64, 32);
  stage->results.push_back(std::move(result));
  program.stages.push_back(std::move(stage));
  auto launch = [&](uint32_t kernel, std::vector<std::unique_ptr<OperandT>> operands) {
    LaunchT made;
    made.kernel = kernel;
    made.rows = 1;
    made.operands = std::move(operands);
    BodyUnion body;
    body.Set(std::move(made));
    add(program, std::move(body));
  };
  auto list = [](auto... each) {
    std::vector<std::unique_ptr<OperandT>> operands;
    (operands.push_back(std::move(each)), ...);
    return operands;
  };
  launch(0, list(operand(0, 32, Access::Write)));
  launch(1, list(operand(0, 32, Access::Read), operand(32, 32, Access::Write),
                 operand(96, 32, Access::Write)));
  launch(1, list(operand(32, 32, Access::Read), operand(64, 32, Access::Write),
                 operand(128, 64, Access::Write)));
  updateLiveBytes(program);
  return program;
}

// Runs a plan in a drawn order; what stopped it, or its result.
std::string run(const ProgramT &program) {
  const runtime::Kernels kernels({count, reverse});
  runtime::ExecutorOptions options;
  options.interleaving = 1;
  auto executor = runtime::Executor::create(program, kernels, options);
  if (!executor)
    return executor.message();
  support::Status status = (*executor)->runStep({});
  if (!status)
    return status.message();
  const std::byte *y = (*executor)->arena(0) + 64;
  return std::string(reinterpret_cast<const char *>(y), 32);
}

TEST(Mutants, ScratchExchanged) {
  ProgramT program = makeScratchPlan();
  std::vector<Finding> findings = checkAll(program);
  ASSERT_TRUE(findings.empty()) << formatFindings(findings);
  std::string right = run(program);
  ASSERT_EQ(right.size(), 32u) << right;
  size_t scratch = 0, byCheckers = 0;
  for (const verify::Mutant &mutant : verify::listMutants(program)) {
    if (mutant.fault != Fault::Scratch)
      continue;
    ++scratch;
    ProgramT changed(program);
    verify::apply(mutant, changed);
    if (verify::staticKiller(changed) != "")
      ++byCheckers;
    else
      EXPECT_NE(run(changed), right) << mutant.change;
  }
  EXPECT_EQ(scratch, 4u); // with the input and with the result, of two launches
  EXPECT_GE(byCheckers, 2u);
}

// Checks that a removed instruction is found or its result is never read, and that no operands of a
// commutative one are exchanged.
TEST(Mutants, RemovedInstructions) {
  ProgramT program = makePlan();
  std::map<Fault, size_t> counts;
  for (const verify::Mutant &mutant : verify::listMutants(program)) {
    ++counts[mutant.fault];
    if (mutant.fault != Fault::Launch && mutant.fault != Fault::Product &&
        mutant.fault != Fault::Fill && mutant.fault != Fault::Move)
      continue;
    ProgramT changed(program);
    verify::apply(mutant, changed);
    EXPECT_NE(verify::staticKiller(changed), "") << mutant.change;
  }
  for (Fault fault : {Fault::Launch, Fault::Product, Fault::Fill, Fault::Move, Fault::Operands})
    EXPECT_GT(counts[fault], 0u) << toString(fault);
  for (auto &kernel : program.kernels)
    kernel->source = "graph.add tensor<4xf32>, tensor<4xf32>";
  for (const verify::Mutant &mutant : verify::listMutants(program))
    EXPECT_NE(mutant.fault, Fault::Operands) << mutant.change;
}

} // namespace
