// Measures what the executor itself costs, on plans whose kernels are empty.
//   llmc-bench-executor [--limit NS]
// Prints nanoseconds per instruction and rank, by the clock and by processor
// time; exits with 1 if a plan takes longer than the limit by the clock.
#include "lib/planfile/Program.h"
#include "runtime/cpu/Executor.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/resource.h>

using namespace llmc;
using namespace llmc::planfile;

namespace {

constexpr uint32_t kMicroBatches = 4, kBlocks = 32, kElements = 64;
constexpr uint64_t kArena = 4096;

std::unique_ptr<BufferRefT> ref(uint64_t offset) {
  auto made = std::make_unique<BufferRefT>();
  made->offset = offset;
  made->size = kElements * sizeof(float);
  return made;
}

template <class T>
void add(ProcedureT &procedure, T body, uint8_t stream) {
  auto made = std::make_unique<InstructionT>();
  made->stream = stream;
  made->body.Set(std::move(body));
  procedure.instructions.push_back(std::move(made));
}

LaunchT launch() {
  LaunchT made;
  made.rows = 1;
  for (uint64_t offset : {0, 256, 512}) {
    made.operands.push_back(std::make_unique<OperandT>());
    made.operands.back()->buffer = ref(offset);
    made.operands.back()->access = Access::ReadWrite;
  }
  return made;
}

CollectiveT allReduce() {
  CollectiveT made;
  made.axes = {2};
  made.count = kElements;
  made.dtype = DType::F32;
  made.src = ref(0);
  made.dst = ref(0);
  return made;
}

RecordT record(uint32_t event) {
  RecordT made;
  made.event = event;
  return made;
}

WaitT waitFor(uint32_t event) {
  WaitT made;
  made.event = event;
  return made;
}

enum Traffic { None, Collectives, Messages, Groups };
constexpr const char *kTraffic[] = {"launches only", "with all-reduces", "with messages",
                                    "with groups"};

template <class T>
T message(int32_t delta, uint32_t channel, uint64_t offset, bool grouped) {
  T made;
  made.axis = 1;
  made.delta = delta;
  made.channel = channel;
  made.grouped = grouped;
  made.parts.push_back(ref(offset));
  return made;
}

// Both directions to both neighbours in one group, on a stream of its own between events.
void addExchange(ProcedureT &procedure, uint32_t stage, uint32_t stages) {
  add(procedure, record(0), 0);
  add(procedure, waitFor(0), 1);
  if (stage + 1 < stages) {
    add(procedure, message<SendT>(1, 0, 0, false), 1);
    add(procedure, message<RecvT>(1, 1, 256, true), 1);
  }
  if (stage > 0) {
    add(procedure, message<SendT>(-1, 1, 0, stage + 1 < stages), 1);
    add(procedure, message<RecvT>(-1, 0, 512, true), 1);
  }
  add(procedure, record(1), 1);
  add(procedure, waitFor(1), 0);
}

// One block: eight launches; then a sum over the tensor axis on a stream of its
// own, between events, a message to the next stage, or a group.
void addBlock(ProcedureT &procedure, Traffic traffic, uint32_t stage, uint32_t stages) {
  for (int i = 0; i < 8; ++i)
    add(procedure, launch(), 0);
  if (traffic == Collectives) {
    add(procedure, record(0), 0);
    add(procedure, waitFor(0), 1);
    add(procedure, allReduce(), 1);
    add(procedure, record(1), 1);
    add(procedure, waitFor(1), 0);
  }
  if (traffic == Groups)
    addExchange(procedure, stage, stages);
  if (traffic != Messages)
    return;
  if (stage > 0) {
    RecvT recv;
    recv.axis = 1;
    recv.delta = -1;
    recv.parts.push_back(ref(0));
    add(procedure, std::move(recv), 0);
  }
  if (stage + 1 < stages) {
    SendT send;
    send.axis = 1;
    send.delta = 1;
    send.parts.push_back(ref(256));
    add(procedure, std::move(send), 0);
  }
}

std::unique_ptr<ProgramT> makePlan(const uint32_t (&sizes)[3], Traffic traffic) {
  auto program = std::make_unique<ProgramT>();
  program->version = kPlanVersion;
  program->model = std::make_unique<ModelInfoT>();
  program->mesh = std::make_unique<MeshT>();
  for (uint32_t size : sizes) {
    program->mesh->axes.push_back(std::make_unique<AxisT>());
    program->mesh->axes.back()->size = size;
  }
  program->stage_axis = 1;
  program->micro_batch = 1;
  program->micro_batches = program->global_batch = kMicroBatches;
  program->origins.push_back(std::make_unique<OriginT>());
  program->kernels.push_back(std::make_unique<KernelT>());
  for (uint32_t s = 0; s < sizes[1]; ++s) {
    auto stage = std::make_unique<StageT>();
    stage->arena_bytes = kArena;
    stage->chunks.push_back(std::make_unique<ChunkT>());
    stage->pools.push_back(std::make_unique<PoolT>());
    stage->pools.back()->slots = 1;
    stage->streams = 2;
    stage->events = 2;
    stage->procedures.push_back(std::make_unique<ProcedureT>());
    for (uint32_t b = 0; b < kBlocks; ++b)
      addBlock(*stage->procedures[0], traffic, s, sizes[1]);
    for (uint32_t m = 0; m < kMicroBatches; ++m) {
      stage->table.push_back(std::make_unique<EntryT>());
      stage->table.back()->micro_batch = m;
    }
    program->stages.push_back(std::move(stage));
  }
  return program;
}

double processorSeconds() {
  rusage usage;
  ::getrusage(RUSAGE_SELF, &usage);
  auto seconds = [](timeval t) { return double(t.tv_sec) + 1e-6 * double(t.tv_usec); };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double clockSeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Nanoseconds by the clock; negative after a failure.
double measure(const uint32_t (&sizes)[3], Traffic traffic) {
  std::unique_ptr<ProgramT> program = makePlan(sizes, traffic);
  if (support::Status s = checkBounds(*program); !s) {
    std::fprintf(stderr, "error: %s\n", s.message().c_str());
    return -1;
  }
  runtime::Kernels kernels({[](void *const *, const int64_t *, int64_t, int64_t) {}});
  runtime::ExecutorOptions options;
  options.threadsPerRank = 1;
  options.useLibrary = false;
  auto made = runtime::Executor::create(*program, kernels, options);
  if (!made) {
    std::fprintf(stderr, "error: %s\n", made.message().c_str());
    return -1;
  }
  uint32_t ranks = sizes[0] * sizes[1] * sizes[2];
  double count = 0; // of instructions in a step, over all ranks
  for (const auto &stage : program->stages)
    count += double(stage->procedures[0]->instructions.size()) * kMicroBatches *
             (ranks / sizes[1]);
  // The first step touches the arenas; of the others the best counts, since
  // other programs can only add time.
  double clock = 1e30, processor = 1e30;
  double end = clockSeconds() + 1;
  for (int step = 0; step < 4 || clockSeconds() < end; ++step) {
    double clock0 = clockSeconds(), processor0 = processorSeconds();
    if (support::Status s = (*made)->runStep({}); !s) {
      std::fprintf(stderr, "error: %s\n", s.message().c_str());
      return -1;
    }
    if (step == 0)
      continue;
    clock = std::min(clock, clockSeconds() - clock0);
    processor = std::min(processor, processorSeconds() - processor0);
  }
  std::printf("%6u ranks (%ux%ux%u)  %-18s %8.0f ns  %8.0f ns of a processor  %9.0f instructions\n",
              ranks, sizes[0], sizes[1], sizes[2], kTraffic[traffic], 1e9 * clock / count,
              1e9 * processor / count, count);
  return 1e9 * clock / count;
}

} // namespace

int main(int argc, char **argv) {
  double limit = 1000;
  if (argc == 3 && !std::strcmp(argv[1], "--limit"))
    limit = std::atof(argv[2]);
  const uint32_t meshes[][3] = {{1, 1, 1}, {2, 2, 2}, {4, 4, 4}, {8, 16, 8}};
  bool good = true;
  for (const auto &mesh : meshes)
    for (Traffic traffic : {None, Collectives, Messages, Groups}) {
      double ns = measure(mesh, traffic);
      good = good && ns >= 0 && ns <= limit;
    }
  std::printf("limit %.0f ns: %s\n", limit, good ? "held" : "broken");
  return good ? 0 : 1;
}
