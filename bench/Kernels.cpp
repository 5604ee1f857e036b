// llmc-bench-kernels PROGRAM [--cpu avx2|avx512] [--threads N] [--least MIB] [--only NAME]:
// how near the kernels of a compiled program come to the speed of memory.
//
// Each kernel runs in the place of its largest launch, at the addresses and with the
// aliasing of the plan, over memory of random floats; beside it memcpy moves as many
// bytes with as many threads. Best of many, in turns. Bytes are those of the operands,
// each once for every access.
#include "lib/planfile/EmbeddedProgram.h"
#include "runtime/compute/Kernels.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <functional>
#include <iostream>
#include <map>
#include <random>
#include <sys/mman.h>
#include <thread>

using namespace llmc;
using support::error;

namespace {

struct Settings {
  std::string program, cpu, only;
  unsigned threads = std::max(1u, std::thread::hardware_concurrency());
  double leastMib = 64;
};

support::Result<Settings> readSettings(int argc, char **argv) {
  Settings settings;
  for (int i = 1; i < argc; ++i) {
    std::string argument = argv[i];
    if (argument.rfind("--", 0) != 0) {
      settings.program = argument;
      continue;
    }
    if (i + 1 == argc)
      return error(argument, " needs a value");
    std::string value = argv[++i];
    if (argument == "--cpu")
      settings.cpu = value;
    else if (argument == "--only")
      settings.only = value;
    else if (argument == "--threads")
      settings.threads = static_cast<unsigned>(std::max(1, std::atoi(value.c_str())));
    else if (argument == "--least")
      settings.leastMib = std::atof(value.c_str());
    else
      return error("unknown option ", argument);
  }
  if (settings.program.empty())
    return error("which program? usage: llmc-bench-kernels PROGRAM [--cpu avx2|avx512] "
                 "[--threads N] [--least MIB] [--only NAME]");
  return settings;
}

// Seconds of this thread on a processor.
double threadSeconds() {
  timespec now;
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Seconds that the slowest thread computes; waiting for a processor does not count, so that
// other programs disturb less.
double timeParts(unsigned threads, const std::function<void(unsigned)> &work) {
  std::vector<double> seconds(threads);
  auto run = [&](unsigned part) {
    double start = threadSeconds();
    work(part);
    seconds[part] = threadSeconds() - start;
  };
  std::vector<std::thread> others;
  for (unsigned part = 1; part < threads; ++part)
    others.emplace_back(run, part);
  run(0);
  for (std::thread &other : others)
    other.join();
  return *std::max_element(seconds.begin(), seconds.end());
}

class Memory {
public:
  explicit Memory(size_t bytes)
      : bytes_(bytes), start_(static_cast<char *>(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                                                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    ::madvise(start_, bytes, MADV_HUGEPAGE);
    std::minstd_rand random(1);
    std::uniform_real_distribution<float> unit(0.1f, 1.0f);
    std::vector<float> values(4096);
    for (float &value : values)
      value = unit(random);
    size_t block = values.size() * sizeof(float);
    for (size_t at = 0; at < bytes; at += block)
      std::memcpy(start_ + at, values.data(), std::min(block, bytes - at));
  }
  ~Memory() { ::munmap(start_, bytes_); }
  Memory(const Memory &) = delete;
  Memory &operator=(const Memory &) = delete;
  char *operator+(size_t offset) const { return start_ + offset; }

private:
  size_t bytes_;
  char *start_;
};

uint64_t bytesOf(const planfile::LaunchT &launch) {
  uint64_t bytes = 0;
  for (const auto &operand : launch.operands)
    bytes += operand->buffer->size * (operand->access == planfile::Access::ReadWrite ? 2 : 1);
  return bytes;
}

// The largest launch of each kernel, largest first.
std::vector<const planfile::LaunchT *> largestLaunches(const planfile::StageT &stage) {
  std::map<uint32_t, const planfile::LaunchT *> largest;
  for (const auto &procedure : stage.procedures)
    for (const auto &instruction : procedure->instructions)
      if (const auto *launch = instruction->body.AsLaunch()) {
        const planfile::LaunchT *&best = largest[launch->kernel];
        if (!best || bytesOf(*best) < bytesOf(*launch))
          best = launch;
      }
  std::vector<const planfile::LaunchT *> launches;
  for (auto [kernel, launch] : largest)
    launches.push_back(launch);
  std::sort(launches.begin(), launches.end(),
            [](auto *x, auto *y) { return bytesOf(*x) > bytesOf(*y); });
  return launches;
}

struct Speed {
  double kernel, copy; // seconds
};

Speed measure(const planfile::LaunchT &launch, runtime::KernelFunction function,
              const Memory &arena, const Memory &spare, unsigned threads) {
  std::vector<void *> buffers;
  for (const auto &operand : launch.operands)
    buffers.push_back(arena + operand->buffer->offset);
  std::vector<int64_t> scalars;
  for (const auto &scalar : launch.scalars)
    scalars.push_back(scalar->base);
  uint64_t half = bytesOf(launch) / 2;
  Speed best{HUGE_VAL, HUGE_VAL};
  for (int turn = 0; turn < 9; ++turn) {
    best.kernel = std::min(best.kernel, timeParts(threads, [&](unsigned part) {
                             function(buffers.data(), scalars.data(),
                                      launch.rows * part / threads,
                                      launch.rows * (part + 1) / threads);
                           }));
    best.copy = std::min(best.copy, timeParts(threads, [&](unsigned part) {
                           uint64_t low = half * part / threads, high = half * (part + 1) / threads;
                           std::memcpy(spare + half + low, spare + low, high - low);
                         }));
  }
  return best;
}

support::Status run(const Settings &settings) {
  support::Result<planfile::EmbeddedProgram> carried =
      planfile::openEmbeddedProgram(settings.program);
  if (!carried)
    return carried.takeError();
  const planfile::ProgramT &program = *carried->program;
  auto kernels = runtime::Kernels::load(*carried->payload, program, settings.cpu);
  if (!kernels)
    return kernels.takeError();
  std::printf("%s kernels on %u threads\n%8s %8s %8s %6s  kernel\n", kernels->note().c_str(),
              settings.threads, "MiB", "GB/s", "memcpy", "");
  for (const auto &stage : program.stages) {
    Memory arena(stage->arena_bytes), spare(stage->arena_bytes);
    for (const planfile::LaunchT *launch : largestLaunches(*stage)) {
      const std::string &name = program.kernels[launch->kernel]->name;
      uint64_t largest = 0, bytes = bytesOf(*launch);
      for (const auto &operand : launch->operands)
        largest = std::max(largest, operand->buffer->size);
      if (static_cast<double>(largest) < settings.leastMib * 1048576 || bytes > stage->arena_bytes ||
          (!settings.only.empty() && settings.only != name))
        continue;
      Speed speed =
          measure(*launch, (*kernels)[launch->kernel], arena, spare, settings.threads);
      double size = static_cast<double>(bytes);
      std::printf("%8.1f %8.2f %8.2f %5.0f%%  %s\n", size / 1048576, size / speed.kernel / 1e9,
                  size / speed.copy / 1e9, 100 * speed.copy / speed.kernel, name.c_str());
      std::fflush(stdout);
    }
  }
  return support::ok();
}

} // namespace

int main(int argc, char **argv) {
  support::Result<Settings> settings = readSettings(argc, argv);
  support::Status status = settings ? run(*settings) : support::Status(settings.takeError());
  if (!status) {
    std::cerr << "llmc-bench-kernels: error: " << status.message() << "\n";
    return 1;
  }
  return 0;
}
