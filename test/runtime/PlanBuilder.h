// Builds small plans by hand, and executors for them.
#ifndef LLMC_TEST_RUNTIME_PLANBUILDER_H
#define LLMC_TEST_RUNTIME_PLANBUILDER_H

#include "lib/planfile/Program.h"
#include "runtime/cpu/Executor.h"

#include <cmath>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <vector>

namespace llmc::test {

using namespace llmc::planfile;

inline std::unique_ptr<BufferRefT> ref(uint64_t offset, uint64_t size, uint64_t stride = 0) {
  auto made = std::make_unique<BufferRefT>();
  made->offset = offset;
  made->size = size;
  made->slot_stride = stride;
  return made;
}

inline std::unique_ptr<OriginT> origin(const std::string &op, std::vector<std::string> nodes) {
  auto made = std::make_unique<OriginT>();
  made->op = op;
  made->nodes = std::move(nodes);
  return made;
}

// Builds a program on a mesh of `sizes`; axis `stageAxis` picks the stages. Every stage has an
// arena of `arena` bytes, one procedure and a table that runs it once for each micro-batch.
inline std::unique_ptr<ProgramT> makeProgram(const std::vector<uint32_t> &sizes,
                                             uint32_t stageAxis, uint64_t arena,
                                             uint32_t streams = 1, uint32_t slots = 1,
                                             uint32_t microBatches = 1, uint32_t events = 4) {
  auto program = std::make_unique<ProgramT>();
  program->version = kPlanVersion;
  program->model = std::make_unique<ModelInfoT>();
  program->model->name = "hand-made";
  program->mesh = std::make_unique<MeshT>();
  const char *names[] = {"dp", "pp", "tp", "cp"};
  for (size_t i = 0; i < sizes.size(); ++i) {
    auto axis = std::make_unique<AxisT>();
    axis->name = names[i];
    axis->size = sizes[i];
    program->mesh->axes.push_back(std::move(axis));
  }
  program->stage_axis = stageAxis;
  program->micro_batch = 1;
  program->micro_batches = microBatches;
  program->global_batch = microBatches;
  program->schedule = "by hand";
  program->origins.push_back(origin("test.op", {"node.a"}));
  for (uint32_t s = 0; s < sizes[stageAxis]; ++s) {
    auto stage = std::make_unique<StageT>();
    stage->arena_bytes = arena;
    stage->pools.push_back(std::make_unique<PoolT>());
    stage->pools.back()->slots = slots;
    stage->streams = streams;
    stage->events = events;
    stage->chunks.push_back(std::make_unique<ChunkT>());
    stage->chunks.back()->last_layer = -1;
    auto procedure = std::make_unique<ProcedureT>();
    procedure->name = "step";
    stage->procedures.push_back(std::move(procedure));
    for (uint32_t m = 0; m < microBatches; ++m) {
      auto entry = std::make_unique<EntryT>();
      entry->micro_batch = m;
      entry->slot = m % slots;
      stage->table.push_back(std::move(entry));
    }
    program->stages.push_back(std::move(stage));
  }
  return program;
}

// Appends an instruction to a procedure (the first by default) of a stage.
template <class BodyT>
void add(ProgramT &program, uint32_t stage, BodyT body, uint8_t stream = 0,
         Phase phase = Phase::Forward, uint32_t procedure = 0) {
  auto instruction = std::make_unique<InstructionT>();
  instruction->stream = stream;
  instruction->phase = phase;
  instruction->body.Set(std::move(body));
  program.stages[stage]->procedures[procedure]->instructions.push_back(std::move(instruction));
}

inline CollectiveT collective(CollectiveKind kind, std::vector<uint32_t> axes, uint64_t count,
                              std::unique_ptr<BufferRefT> src, std::unique_ptr<BufferRefT> dst,
                              DType dtype = DType::F32, ReduceKind reduce = ReduceKind::Sum) {
  CollectiveT made;
  made.kind = kind;
  made.axes = std::move(axes);
  made.count = count;
  made.src = std::move(src);
  made.dst = std::move(dst);
  made.dtype = dtype;
  made.reduce = reduce;
  return made;
}

inline SendT send(uint32_t axis, int32_t delta, std::unique_ptr<BufferRefT> part,
                  uint32_t channel = 0) {
  SendT made;
  made.axis = axis;
  made.delta = delta;
  made.channel = channel;
  made.parts.push_back(std::move(part));
  return made;
}

inline RecvT recv(uint32_t axis, int32_t delta, std::unique_ptr<BufferRefT> part,
                  uint32_t channel = 0) {
  RecvT made;
  made.axis = axis;
  made.delta = delta;
  made.channel = channel;
  made.parts.push_back(std::move(part));
  return made;
}

inline RecordT record(uint32_t event, bool wholeStep = false) {
  RecordT made;
  made.event = event;
  made.whole_step = wholeStep;
  return made;
}

inline WaitT waitFor(uint32_t event, bool wholeStep = false) {
  WaitT made;
  made.event = event;
  made.whole_step = wholeStep;
  return made;
}

// Builds a launch, and adds the kernel to the program if it is new.
inline LaunchT launch(ProgramT &program, const std::string &kernel,
                      std::vector<std::unique_ptr<BufferRefT>> buffers, int64_t rows = 1,
                      std::vector<CoordExprT> scalars = {}) {
  LaunchT made;
  uint32_t index = 0;
  while (index < program.kernels.size() && program.kernels[index]->name != kernel)
    ++index;
  if (index == program.kernels.size()) {
    program.kernels.push_back(std::make_unique<KernelT>());
    program.kernels.back()->name = kernel;
  }
  made.kernel = index;
  made.rows = rows;
  for (auto &buffer : buffers) {
    made.operands.push_back(std::make_unique<OperandT>());
    made.operands.back()->buffer = std::move(buffer);
    made.operands.back()->access = Access::ReadWrite;
  }
  for (CoordExprT &scalar : scalars)
    made.scalars.push_back(std::make_unique<CoordExprT>(std::move(scalar)));
  return made;
}

template <class... Refs>
std::vector<std::unique_ptr<BufferRefT>> refs(Refs... buffers) {
  std::vector<std::unique_ptr<BufferRefT>> all;
  (all.push_back(std::move(buffers)), ...);
  return all;
}

inline CoordExprT expr(int64_t base, std::vector<int64_t> coefs = {}) {
  CoordExprT made;
  made.base = base;
  made.coefs = std::move(coefs);
  return made;
}

// Returns a number of a rank; the sum over ranks depends on the order of addition.
inline float awkward(uint32_t rank, uint64_t i) {
  return std::ldexp(1.0f + 0.001f * float(i % 97), int(rank * 7 + i) % 23 - 11);
}

// Holds no kernels, for plans without launches.
inline const runtime::Kernels kNone(std::vector<runtime::KernelFunction>{});

// Builds an executor for a hand-made program; the test fails if it cannot be made.
inline std::unique_ptr<runtime::Executor> makeExecutor(const ProgramT &program,
                                                       const runtime::Kernels &kernels,
                                                       runtime::ExecutorOptions options = {}) {
  support::Status bounds = checkBounds(program);
  EXPECT_TRUE(bool(bounds)) << bounds.message();
  auto made = runtime::Executor::create(program, kernels, options);
  EXPECT_TRUE(bool(made)) << made.message();
  return std::move(*made);
}

template <class T>
T *at(const runtime::Executor &executor, uint32_t rank, uint64_t offset) {
  return reinterpret_cast<T *>(executor.arena(rank) + offset);
}

// Owns a temporary folder, which is removed at its end.
class TemporaryFolder {
public:
  TemporaryFolder();
  ~TemporaryFolder();
  std::string operator/(const std::string &name) const { return path + "/" + name; }
  std::string path;
};

void writeBytes(const std::string &path, std::string_view bytes);
// Writes an int64 .npy file.
void writeNpy(const std::string &path, const std::vector<int64_t> &shape,
              const std::vector<int64_t> &values);

} // namespace llmc::test

#endif // LLMC_TEST_RUNTIME_PLANBUILDER_H
