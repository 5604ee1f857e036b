#include "tools/llmc-gpu-check/Runner.h"

#include <algorithm>

using namespace llmc;
using namespace llmc::gpucheck;
using support::error;

namespace {

// Splits the rows over the threads, as the executor does.
void runOnCpu(const Launch &launch, runtime::KernelFunction cpu, runtime::ThreadTeam &team,
              Regions &regions) {
  std::vector<void *> operands;
  for (const Operand &operand : launch.operands)
    operands.push_back(regions[operand.region].data() + kGuardBytes + operand.offset);
  int64_t parts = std::min<int64_t>(launch.rows, int64_t(team.threads()) * 4);
  team.run(parts, [&](int64_t part, unsigned) {
    cpu(operands.data(), launch.scalars.data(), launch.rows * part / parts,
        launch.rows * (part + 1) / parts);
  });
}

} // namespace

support::Result<Runner::Memory> Runner::allocate(const Launch &launch) const {
  Memory memory;
  for (uint64_t size : launch.regions) {
    auto made = DeviceMemory::allocate(device, size + 2 * kGuardBytes);
    if (!made)
      return made.takeError();
    memory.regions.push_back(std::move(*made));
  }
  for (const Operand &operand : launch.operands)
    memory.operands.push_back(memory.regions[operand.region].address() + kGuardBytes +
                              operand.offset);
  return memory;
}

support::Status Runner::launchRows(const Launch &launch, CUfunction function,
                                   const Memory &memory, int64_t begin, int64_t end) const {
  const planfile::DeviceKernelT &kernel = *launch.kernel;
  std::vector<CUdeviceptr> buffers = memory.operands;
  std::vector<int64_t> scalars = launch.scalars;
  scalars.insert(scalars.end(), {begin, end});
  std::vector<void *> arguments;
  for (CUdeviceptr &buffer : buffers)
    arguments.push_back(&buffer);
  for (int64_t &scalar : scalars)
    arguments.push_back(&scalar);
  auto blocks = static_cast<unsigned>(planfile::blocksFor(
      kernel, static_cast<uint64_t>(end - begin), device.multiprocessors()));
  return device.check(device.f().launchKernel(function, blocks, 1, 1, kernel.threads, 1, 1, 0,
                                              nullptr, arguments.data(), nullptr),
                      "cuLaunchKernel " + kernel.entry);
}

support::Result<Regions> Runner::run(const Launch &launch, CUfunction function, Memory &memory,
                                     const Regions &contents,
                                     const std::vector<int64_t> &ends) const {
  for (size_t i = 0; i < contents.size(); ++i)
    if (auto s = memory.regions[i].write(contents[i]); !s)
      return s.takeError();
  int64_t begin = 0;
  for (int64_t end : ends) {
    if (auto s = launchRows(launch, function, memory, begin, end); !s)
      return s.takeError();
    begin = end;
  }
  if (auto s = device.check(device.f().ctxSynchronize(), launch.kernel->entry); !s)
    return s.takeError();
  Regions results = contents;
  for (size_t i = 0; i < contents.size(); ++i)
    if (auto s = memory.regions[i].read(results[i]); !s)
      return s.takeError();
  return results;
}

support::Status Runner::compareRound(const Launch &launch, CUfunction function, Memory &memory,
                                     runtime::KernelFunction cpu, bool positive,
                                     Outcome &outcome, uint64_t &compared,
                                     uint64_t &finite) const {
  Regions before = drawRegions(launch, options.seed, positive, team), expected = before;
  runOnCpu(launch, cpu, team, expected);
  auto got = run(launch, function, memory, before, {launch.rows});
  if (!got)
    return got.takeError();
  Comparison found = compare(launch, before, expected, *got, options.tolerance, team);
  outcome.worst = std::max(outcome.worst, found.worst);
  compared += found.compared;
  finite += found.finite;
  if (outcome.problem.empty() && !found.problem.empty())
    outcome.problem = found.problem + (positive ? " (positive inputs)" : " (signed inputs)");
  auto multiple = static_cast<int64_t>(launch.kernel->begin_multiple);
  int64_t middle = launch.rows / 2 / multiple * multiple;
  if (middle == 0)
    return support::ok();
  auto halves = run(launch, function, memory, before, {middle, launch.rows});
  if (!halves)
    return halves.takeError();
  if (outcome.problem.empty() && *halves != *got)
    outcome.problem = "two halves of the rows give other bits than all of them at once";
  return support::ok();
}

// Returns the median time of `once` in microseconds, each time with a cold cache, since in a
// training step other tensors pass in between. The driver queues the timed work while the
// cache is filled.
support::Result<double> Runner::median(const std::function<support::Status()> &once) const {
  auto watch = Stopwatch::create(device);
  if (!watch)
    return watch.takeError();
  constexpr size_t kTimesTheCache = 2;
  size_t bytes = std::max<size_t>(kTimesTheCache * device.cacheBytes(), 1);
  auto other = DeviceMemory::allocate(device, bytes);
  if (!other)
    return other.takeError();
  std::vector<double> times;
  for (unsigned i = 0; i < options.repeats; ++i) {
    support::Status s = device.check(
        device.f().memsetD8Async(other->address(), 0, bytes, nullptr), "cuMemsetD8Async");
    if (s)
      s = watch->start();
    if (s)
      s = once();
    if (!s)
      return s.takeError();
    auto milliseconds = watch->stop();
    if (!milliseconds)
      return milliseconds.takeError();
    times.push_back(*milliseconds * 1e3);
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

support::Status Runner::measure(const Launch &launch, CUfunction function, const Memory &memory,
                                Outcome &outcome) const {
  auto time = median([&] { return launchRows(launch, function, memory, 0, launch.rows); });
  if (!time)
    return time.takeError();
  outcome.time = *time;
  // Measures a copy of half of the bytes, which reads and writes each.
  uint64_t half = std::max<uint64_t>(launch.bytes() / 2, 1);
  auto from = DeviceMemory::allocate(device, half), to = DeviceMemory::allocate(device, half);
  if (!from || !to)
    return (from ? to : from).takeError();
  auto copy = median([&] {
    return device.check(device.f().memcpyDtoDAsync(to->address(), from->address(), half, nullptr),
                        "cuMemcpyDtoDAsync");
  });
  if (!copy)
    return copy.takeError();
  auto rate = [](double bytes, double us) { return us > 0 ? bytes / us / 1e3 : 0; };
  outcome.gigabytesPerSecond = rate(double(launch.bytes()), outcome.time);
  outcome.copyGigabytesPerSecond = rate(2.0 * double(half), *copy);
  return support::ok();
}

support::Result<Outcome> Runner::check(const Launch &launch, runtime::KernelFunction cpu) {
  auto function = module.function(launch.kernel->entry);
  if (!function)
    return function.takeError();
  auto memory = allocate(launch);
  if (!memory)
    return memory.takeError();
  Outcome outcome;
  uint64_t compared = 0, finite = 0;
  for (bool positive : {false, true})
    if (auto s = compareRound(launch, *function, *memory, cpu, positive, outcome, compared, finite);
        !s)
      return s.takeError();
  // Requires a quarter of finite results, since NaNs equal each other and prove nothing.
  if (outcome.problem.empty() && finite * 4 < compared)
    outcome.problem = support::text("of ", compared, " results only ", finite, " are finite");
  if (auto s = measure(launch, *function, *memory, outcome); !s)
    return s.takeError();
  return outcome;
}
