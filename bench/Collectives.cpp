// Collectives and messages between ranks of one process, beside plain copies.
//   llmc-bench-collectives [--largest MIB] [--workers N]
// For each kind, number of ranks and size of one rank's payload: microseconds a
// call, and the bytes that any algorithm must read and write at least, by the
// second; then the speed at which as many threads copy as many bytes between
// buffers of the same size, and the ratio of the two.
#include "lib/planfile/Program.h"
#include "runtime/cpu/Executor.h"
#include "runtime/compute/ThreadTeam.h"
#include "runtime/compute/Clock.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

using namespace llmc;
using namespace llmc::planfile;

namespace {

enum Kind { AllReduce, AllGather, ReduceScatter, Messages };
constexpr const char *kNames[] = {"all_reduce", "all_gather", "reduce_scatter", "message"};

std::unique_ptr<BufferRefT> ref(uint64_t offset, uint64_t size) {
  auto made = std::make_unique<BufferRefT>();
  made->offset = offset;
  made->size = size;
  return made;
}

template <class T>
void add(StageT &stage, T body) {
  auto made = std::make_unique<InstructionT>();
  made->body.Set(std::move(body));
  stage.procedures[0]->instructions.push_back(std::move(made));
}

// A payload of `bytes` a rank; the buffers lie one behind the other.
CollectiveT collective(Kind kind, uint32_t ranks, uint64_t bytes) {
  CollectiveT made;
  made.axes = {1};
  made.kind = kind == AllReduce   ? CollectiveKind::AllReduce
              : kind == AllGather ? CollectiveKind::AllGather
                                  : CollectiveKind::ReduceScatter;
  uint64_t shard = bytes / ranks;
  made.count = (kind == AllReduce ? bytes : shard) / sizeof(float);
  made.src = ref(0, kind == AllGather ? shard : bytes);
  made.dst = kind == AllReduce ? ref(0, bytes) : ref(bytes, kind == AllGather ? bytes : shard);
  return made;
}

// Odd stages take what even stages send.
void addMessage(StageT &stage, uint32_t index, uint64_t bytes) {
  if (index % 2 == 0) {
    SendT send;
    send.delta = 1;
    send.parts.push_back(ref(0, bytes));
    return add(stage, std::move(send));
  }
  RecvT recv;
  recv.delta = -1;
  recv.parts.push_back(ref(0, bytes));
  add(stage, std::move(recv));
}

std::unique_ptr<ProgramT> makePlan(Kind kind, uint32_t ranks, uint64_t bytes, uint32_t calls) {
  auto program = std::make_unique<ProgramT>();
  program->version = kPlanVersion;
  program->model = std::make_unique<ModelInfoT>();
  program->mesh = std::make_unique<MeshT>();
  uint32_t stages = kind == Messages ? ranks : 1;
  for (uint32_t size : {stages, ranks / stages}) {
    program->mesh->axes.push_back(std::make_unique<AxisT>());
    program->mesh->axes.back()->size = size;
  }
  program->micro_batch = program->micro_batches = program->global_batch = 1;
  program->origins.push_back(std::make_unique<OriginT>());
  for (uint32_t s = 0; s < stages; ++s) {
    auto stage = std::make_unique<StageT>();
    stage->arena_bytes = kind == AllReduce || kind == Messages ? bytes : 2 * bytes;
    stage->streams = 1;
    stage->chunks.push_back(std::make_unique<ChunkT>());
    stage->pools.push_back(std::make_unique<PoolT>());
    stage->pools.back()->slots = 1;
    stage->procedures.push_back(std::make_unique<ProcedureT>());
    if (kind == Messages)
      addMessage(*stage, s, bytes);
    else
      add(*stage, collective(kind, ranks, bytes));
    for (uint32_t c = 0; c < calls; ++c)
      stage->table.push_back(std::make_unique<EntryT>());
    program->stages.push_back(std::move(stage));
  }
  return program;
}

// Bytes read and written by all ranks.
double leastBytes(Kind kind, uint32_t ranks, uint64_t bytes) {
  double all = double(bytes) * ranks;
  switch (kind) {
  case AllReduce:
    return 2 * all;
  case AllGather:
  case ReduceScatter:
    return all + double(bytes);
  case Messages:
    return all;
  }
  return 0;
}

// The best of a third of a second; other programs can only add time.
template <class F>
double bestSeconds(F run) {
  uint64_t best = ~uint64_t(0), begin = runtime::nanoseconds();
  for (int i = 0; i < 4 || runtime::nanoseconds() - begin < 300000000; ++i) {
    uint64_t start = runtime::nanoseconds();
    run();
    if (i > 0)
      best = std::min(best, runtime::nanoseconds() - start);
  }
  return double(best) * 1e-9;
}

// Bytes read and written a second by copies between two buffers a rank, in turn.
double copySpeed(uint32_t ranks, uint64_t bytes, uint32_t calls, unsigned threads) {
  std::vector<std::vector<std::byte>> buffers;
  for (uint32_t i = 0; i < ranks; ++i)
    buffers.emplace_back(bytes, std::byte(1));
  runtime::ThreadTeam team(threads);
  double seconds = bestSeconds([&] {
    team.run(threads, [&](int64_t part, unsigned) {
      uint64_t begin = bytes * part / threads, end = bytes * (part + 1) / threads;
      for (uint32_t c = 0; c < calls; ++c)
        for (uint32_t i = 0; i + 1 < ranks; i += 2)
          std::memcpy(buffers[i + (c + 1) % 2].data() + begin,
                      buffers[i + c % 2].data() + begin, end - begin);
    });
  });
  return double(ranks) * double(bytes) * calls / seconds;
}

bool measure(Kind kind, uint32_t ranks, uint64_t bytes, unsigned workers) {
  auto calls = static_cast<uint32_t>(std::max<uint64_t>(1, (4 << 20) / bytes / ranks));
  std::unique_ptr<ProgramT> program = makePlan(kind, ranks, bytes, calls);
  runtime::Kernels kernels(std::vector<runtime::KernelFunction>{});
  runtime::ExecutorOptions options;
  options.workers = std::min(workers, ranks);
  options.threadsPerRank = 1;
  options.useLibrary = false;
  support::Status status = checkBounds(*program);
  support::Result<std::unique_ptr<runtime::Executor>> executor =
      status ? runtime::Executor::create(*program, kernels, options) : status.takeError();
  if (!executor) {
    std::fprintf(stderr, "error: %s\n", executor.message().c_str());
    return false;
  }
  for (uint32_t rank = 0; rank < ranks; ++rank)
    std::memset((*executor)->arena(rank), 0, program->stages[0]->arena_bytes);
  double seconds = bestSeconds([&] {
    if (support::Status ran = (*executor)->runStep({}); !ran)
      status = std::move(ran);
  });
  if (!status) {
    std::fprintf(stderr, "error: %s\n", status.message().c_str());
    return false;
  }
  double speed = leastBytes(kind, ranks, bytes) * calls / seconds * 1e-9;
  double copy = copySpeed(ranks, bytes, calls, options.workers) * 1e-9;
  std::printf("%-14s %2u ranks %9.0f KiB %10.1f us %8.1f GB/s  copies %8.1f GB/s  %5.2f\n",
              kNames[kind], ranks, double(bytes) / 1024, seconds / calls * 1e6, speed, copy,
              speed / copy);
  std::fflush(stdout);
  return true;
}

} // namespace

int main(int argc, char **argv) {
  uint64_t largest = 64;
  unsigned workers = runtime::availableCores();
  for (int i = 1; i + 1 < argc; i += 2) {
    if (!std::strcmp(argv[i], "--largest"))
      largest = std::strtoull(argv[i + 1], nullptr, 10);
    else if (!std::strcmp(argv[i], "--workers"))
      workers = static_cast<unsigned>(std::max(1, std::atoi(argv[i + 1])));
  }
  for (Kind kind : {AllReduce, AllGather, ReduceScatter, Messages})
    for (uint32_t ranks : {2, 4, 8})
      for (uint64_t bytes = 1024; bytes <= largest << 20; bytes *= 16)
        if (!measure(kind, ranks, bytes, workers))
          return 1;
  return 0;
}
