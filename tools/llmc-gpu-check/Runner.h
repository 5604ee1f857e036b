// Runs a kernel on the card and on the CPU and puts the results side by side. Tested by
// test/cuda/run.py (compared, faults).
#ifndef LLMC_TOOLS_LLMC_GPU_CHECK_RUNNER_H
#define LLMC_TOOLS_LLMC_GPU_CHECK_RUNNER_H

#include "runtime/compute/Kernels.h"
#include "tools/llmc-gpu-check/Driver.h"
#include "tools/llmc-gpu-check/Launch.h"

#include <functional>

namespace llmc::gpucheck {

struct Options {
  uint64_t seed = 1;
  unsigned repeats = 20; // launches that are timed, one by one
  // Limits the relative error. Card and CPU do the same operations in the same precision;
  // only sums add in another order, in float64.
  double tolerance = 2e-5;
};

// Holds what was measured of one kernel; `time` is the median in microseconds a launch.
struct Outcome {
  std::string problem; // empty: correct
  double worst = 0;    // largest error, relative
  double time = 0;
  double gigabytesPerSecond = 0, copyGigabytesPerSecond = 0;
};

// Runs the kernels of one module; all references must outlive it.
class Runner {
public:
  Runner(const Device &device, const Module &module, const Options &options,
         runtime::ThreadTeam &team)
      : device(device), module(module), options(options), team(team) {}

  // Checks a launch for signed and for positive inputs: the card must agree with `cpu`, two
  // halves of the rows must give the bits of the whole, and nothing else may be written. Then
  // measures it. Fails only if the driver does; a wrong result is in the outcome.
  support::Result<Outcome> check(const Launch &launch, runtime::KernelFunction cpu);

private:
  // Holds the card's memory of each region and the addresses of the operands in it.
  struct Memory {
    std::vector<DeviceMemory> regions;
    std::vector<CUdeviceptr> operands;
  };
  support::Result<Memory> allocate(const Launch &launch) const;
  support::Status launchRows(const Launch &launch, CUfunction function, const Memory &memory,
                             int64_t begin, int64_t end) const;
  // Returns what `contents` become by launches over the ranges of rows that end at `ends`.
  support::Result<Regions> run(const Launch &launch, CUfunction function, Memory &memory,
                               const Regions &contents, const std::vector<int64_t> &ends) const;
  support::Status compareRound(const Launch &launch, CUfunction function, Memory &memory,
                               runtime::KernelFunction cpu, bool positive, Outcome &outcome,
                               uint64_t &compared, uint64_t &finite) const;
  support::Result<double> median(const std::function<support::Status()> &once) const;
  support::Status measure(const Launch &launch, CUfunction function, const Memory &memory,
                          Outcome &outcome) const;

  const Device &device;
  const Module &module;
  const Options &options;
  runtime::ThreadTeam &team; // draws, computes on the CPU, compares
};

} // namespace llmc::gpucheck

#endif // LLMC_TOOLS_LLMC_GPU_CHECK_RUNNER_H
