// Runs llmc-gpu-check: runs the device kernels that programs carry on a card and compares
// them with the same programs' kernels for the CPU.
#include "lib/planfile/EmbeddedProgram.h"
#include "lib/planfile/Device.h"
#include "runtime/compute/Kernels.h"
#include "tools/llmc-gpu-check/Runner.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <iostream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

using namespace llmc;
using namespace llmc::gpucheck;
using support::error;

namespace {

constexpr int kExitWrong = 1, kExitUsage = 2, kExitSkipped = 77;

constexpr const char *kUsage = R"(usage: llmc-gpu-check OUT... [--seed N] [--repeats N]

Runs every kernel for a card that the programs OUT carry (llmc compile --cuda-kernels),
with the shapes of their launches, on the first card of this machine, and compares
with the CPU's kernels of the same programs. Needs the driver and nothing else of CUDA.

  --seed N      of the numbers it runs on                               [1]
  --repeats N   launches that are timed, each with a cold cache         [20]

Exit 0: all agree; 1: one does not, or cannot run; 77: no card here.
)";

struct Totals {
  unsigned right = 0, wrong = 0, unused = 0;
};

// Returns the image of the newest chip that this card can run, or null: cubins run on chips
// of the same major number and at least the same minor one.
const planfile::DeviceImageT *
imageFor(const std::vector<std::unique_ptr<planfile::DeviceImageT>> &images, int capability) {
  const planfile::DeviceImageT *best = nullptr;
  int bestChip = 0;
  for (const auto &image : images) {
    int chip = image->chip.starts_with("sm_") ? std::atoi(image->chip.c_str() + 3) : 0;
    if (chip / 10 == capability / 10 && chip <= capability && chip > bestChip)
      best = image.get(), bestChip = chip;
  }
  return best;
}

support::Status checkImage(const Device &device, const planfile::ProgramT &program,
                           const planfile::DeviceImageT &image, const runtime::Kernels &cpu,
                           const Options &options, Totals &totals) {
  auto module = Module::load(device, image.cubin);
  if (!module)
    return error(module.message(), "; the kernels were assembled by ", image.assembler,
                 ", and a driver takes those of its own version and older");
  runtime::ThreadTeam team(std::max(1u, std::thread::hardware_concurrency()));
  Runner runner(device, *module, options, team);
  std::printf("  %-9s %-9s %8s %8s %6s  kernel\n", "", "error", "us", "GB/s", "copy");
  for (const auto &kernel : image.kernels) {
    const std::string &name = program.kernels[kernel->kernel]->name;
    auto launch = findLaunch(program, *kernel);
    if (!launch) {
      ++totals.unused;
      std::printf("  %-9s %43s  no launch has its operands\n", "not run", name.c_str());
      continue;
    }
    auto outcome = runner.check(*launch, cpu[kernel->kernel]);
    if (!outcome) // the context may be lost, so later results would be meaningless
      return error("kernel '", name, "': ", outcome.message());
    bool right = outcome->problem.empty();
    ++(right ? totals.right : totals.wrong);
    double share = outcome->copyGigabytesPerSecond > 0
                       ? 100 * outcome->gigabytesPerSecond / outcome->copyGigabytesPerSecond
                       : 0;
    std::printf("  %-9s %-9.2g %8.1f %8.1f %5.0f%%  %s%s%s\n", right ? "ok" : "WRONG",
                outcome->worst, outcome->time, outcome->gigabytesPerSecond, share, name.c_str(),
                right ? "" : ": ", outcome->problem.c_str());
    std::fflush(stdout); // what is slow or hangs should be seen
  }
  for (const auto &refusal : image.refusals)
    std::printf("  not emitted: %s: %s\n", program.kernels[refusal->kernel]->name.c_str(),
                refusal->reason.c_str());
  return support::ok();
}

support::Status checkProgram(const Device &device, const std::string &path,
                             const Options &options, Totals &totals) {
  auto carried = planfile::openEmbeddedProgram(path);
  if (!carried)
    return carried.takeError();
  const planfile::ProgramT &program = *carried->program;
  auto images = planfile::readDeviceImages(*carried->payload, program);
  if (!images)
    return error("'", path, "': ", images.message());
  if (images->empty())
    return error("'", path, "' carries no kernels for a card; compile it with --cuda-kernels all");
  const planfile::DeviceImageT *image = imageFor(*images, device.capability());
  if (!image)
    return error("'", path, "' carries no kernels for this card (", device.name(), ", sm_",
                 device.capability(), ")");
  auto cpu = runtime::Kernels::load(*carried->payload, program, "");
  if (!cpu)
    return cpu.takeError();
  std::printf("%s: %s, kernels for %s, %zu of %zu\n", path.c_str(),
              program.model->name.c_str(), image->chip.c_str(), image->kernels.size(),
              program.kernels.size());
  return checkImage(device, program, *image, *cpu, options, totals);
}

bool parseNumber(const std::string &text, uint64_t &value) {
  auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  return problem == std::errc() && end == text.data() + text.size();
}

// Fills `options` and `programs` from the command line; returns the exit code if there is
// nothing to run.
std::optional<int> parseArguments(int argc, char **argv, Options &options,
                                  std::vector<std::string> &programs) {
  constexpr uint64_t kMostRepeats = 100000;
  for (int i = 1; i < argc; ++i) {
    std::string argument = argv[i];
    uint64_t number = 0;
    if (argument == "--help" || argument == "-h") {
      std::cout << kUsage;
      return 0;
    }
    if (!argument.starts_with("-")) {
      programs.push_back(argument);
      continue;
    }
    if (argument != "--seed" && argument != "--repeats") {
      std::cerr << "llmc-gpu-check: error: unknown option '" << argument << "'\n" << kUsage;
      return kExitUsage;
    }
    if (i + 1 == argc || !parseNumber(argv[++i], number) ||
        (argument == "--repeats" && (number == 0 || number > kMostRepeats))) {
      std::cerr << "llmc-gpu-check: error: " << argument << " needs a whole number\n";
      return kExitUsage;
    }
    if (argument == "--seed")
      options.seed = number;
    else
      options.repeats = static_cast<unsigned>(number);
  }
  if (!programs.empty())
    return std::nullopt;
  std::cerr << kUsage;
  return kExitUsage;
}

} // namespace

int main(int argc, char **argv) {
  Options options;
  std::vector<std::string> programs;
  if (auto code = parseArguments(argc, argv, options, programs))
    return *code;
  std::string why;
  auto device = Device::open(why);
  if (!device) {
    std::printf("skipped: %s\n", why.c_str());
    return kExitSkipped;
  }
  std::printf("%s, sm_%d, driver for CUDA %d.%d\n", device->name().c_str(), device->capability(),
              device->driverVersion() / 1000, device->driverVersion() % 1000 / 10);
  Totals totals;
  for (const std::string &path : programs)
    if (auto status = checkProgram(*device, path, options, totals); !status) {
      std::fflush(stdout);
      std::cerr << "llmc-gpu-check: error: " << status.message() << "\n";
      ++totals.wrong;
      break;
    }
  std::printf("%u kernels right, %u wrong, %u not run\n", totals.right, totals.wrong,
              totals.unused);
  return totals.wrong ? kExitWrong : 0;
}
