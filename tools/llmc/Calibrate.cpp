// Implements llmc calibrate: measures this machine's products, then programs on it, and fits what their instructions
// take.
#include "lib/calibrate/Fit.h"
#include "lib/calibrate/Products.h"
#include "lib/calibrate/ThisMachine.h"
#include "lib/cost/Cluster.h"
#include "lib/planfile/EmbeddedProgram.h"
#include "lib/simulate/Forecast.h"
#include "lib/support/File.h"
#include "lib/support/Json.h"
#include "lib/support/OutputFile.h"
#include "lib/support/Progress.h"
#include "tools/llmc/CalibrationModels.h"
#include "tools/llmc/Commands.h"
#include "tools/llmc/Interrupt.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <random>

namespace llmc {
namespace {

using support::error;
using support::Result;
using support::text;

// Holds what a program took, and what it was.
struct Measured {
  std::string name;
  std::unique_ptr<planfile::EmbeddedProgram> carried;
  simulate::Stages stages;
  support::Json rows; // of --profile-rows
  double step = 0;    // seconds, the median without a profile
  double peak = 0, size = 0; // bytes of its process, and of its file
};

class Calibration {
public:
  Calibration(std::string folder, bool isQuick, support::Progress &progress)
      : folder_(std::move(folder)), isQuick_(isQuick), progress_(progress) {
    host_.cores = machine_.cores;
    host_.kernels = machine_.kernels;
    host_.rates.resize(host_.cores > 1 ? 2 : 1);
    host_.rates.back().threads = host_.cores;
    host_.rates.front().threads = 1;
  }

  support::Status run() {
    if (host_.kernels.empty())
      return error("programs of llmc do not run on this processor: they need AVX2 and FMA");
    measureProducts();
    std::vector<CalibrationProgram> programs = calibrationPrograms(host_.cores, isQuick_);
    support::Progress::Phase phase(progress_, "programs", programs.size());
    for (const CalibrationProgram &program : programs) {
      if (support::Status status = measure(program); !status)
        return error(program.name, ": ", status.message());
      phase.add(1);
    }
    phase.end();
    fit();
    return support::ok();
  }

  support::OrderedJson clusterJson() const;
  // Tells how near the fit is to the programs that it was made of; a line for each.
  std::string note() const;
  std::string table() const;

private:
  void measureProducts() {
    for (cost::HostRates &rates : host_.rates) {
      support::Progress::Phase phase(progress_, text("matrix products of ", rates.threads, rates.threads == 1 ? " thread" : " threads"), 1000);
      rates.products = calibrate::measureProducts(rates.threads, host_.cores / rates.threads, isQuick_,
                                                  [&](double share) { phase.reach(uint64_t(1000 * share)); });
    }
  }
  support::Status measure(const CalibrationProgram &program);
  support::Status runProgram(Measured &measured, const std::vector<std::string> &flags);
  std::vector<calibrate::Sample> samplesOf(unsigned threads) const;
  void fit();
  void fitProcess(cost::HostRates &rates) const;
  double simulated(const Measured &measured) const;

  std::string folder_;
  bool isQuick_;
  support::Progress &progress_;
  calibrate::ThisMachine machine_ = calibrate::measureThisMachine();
  cost::HostMachine host_;
  std::vector<Measured> measured_;
};

std::string pathIn(const std::string &folder, const char *name) { return folder + "/" + name; }

support::Status Calibration::measure(const CalibrationProgram &program) {
  std::string config = pathIn(folder_, "config.json"), out = pathIn(folder_, "program");
  if (auto status = support::writeFile(config, program.config); !status)
    return status;
  std::minstd_rand draw(1);
  std::string tokens;
  for (int i = 0; i < 1 << 17; ++i) {
    unsigned token = unsigned(draw()) % program.vocabulary;
    tokens += char(token & 255);
    tokens += char(token >> 8);
  }
  if (auto status = support::writeFile(pathIn(folder_, "tokens"), tokens); !status)
    return status;
  std::vector<std::string> arguments = {"compile", config, "-o", out, "--quiet"};
  arguments.insert(arguments.end(), program.flags.begin(), program.flags.end());
  support::Problems problems;
  CommandLine line = parseCommandLine(arguments, problems);
  if (!problems.messages.empty())
    return error(problems.messages[0]);
  if (runCompile(line) != 0)
    return error("does not compile");
  Measured measured;
  measured.name = program.name;
  auto carried = planfile::openEmbeddedProgram(out);
  if (!carried)
    return carried.takeError();
  measured.carried = std::make_unique<planfile::EmbeddedProgram>(std::move(*carried));
  measured.stages = simulate::layOut(*measured.carried->program);
  uint64_t size = 0;
  if (!llvm::sys::fs::file_size(out, size))
    measured.size = double(size);
  // Runs it as a user would, then once more with a clock around each instruction.
  for (bool profiled : {false, true})
    if (auto status = runProgram(measured, profiled ? std::vector<std::string>{"--profile-rows", pathIn(folder_, "rows")}
                                                    : std::vector<std::string>{"--metrics", pathIn(folder_, "metrics"), "--force"});
        !status)
      return status;
  measured_.push_back(std::move(measured));
  return support::ok();
}

support::Status Calibration::runProgram(Measured &measured, const std::vector<std::string> &flags) {
  std::string program = pathIn(folder_, "program"), tokens = pathIn(folder_, "tokens");
  std::vector<llvm::StringRef> arguments = {program, "--data", tokens, "--steps", "12", "--quiet"};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  std::string why;
  std::string errors = pathIn(folder_, "errors");
  std::optional<llvm::StringRef> redirects[] = {std::nullopt, llvm::StringRef(), llvm::StringRef(errors)};
  int code = llvm::sys::ExecuteAndWait(program, arguments, std::nullopt, redirects, 600, 0, &why);
  if (code != 0) {
    auto said = support::readFile(errors);
    return error("does not run here: ", why.empty() && said ? *said : why);
  }
  bool profiled = flags[0] == "--profile-rows";
  auto bytes = support::readFile(flags[1]);
  if (!bytes)
    return bytes.takeError();
  if (profiled) {
    auto rows = support::parseJson(*bytes, flags[1]);
    if (!rows)
      return rows.takeError();
    measured.rows = std::move(*rows);
    measured.peak = measured.rows["peak_bytes"].get<double>();
    return support::ok();
  }
  std::vector<double> steps;
  llvm::SmallVector<llvm::StringRef> lines;
  llvm::StringRef(*bytes).split(lines, '\n', -1, false);
  for (llvm::StringRef line : lines)
    if (auto json = support::parseJson(line.str(), "metrics"); json && json->contains("step_time_s"))
      steps.push_back((*json)["step_time_s"].get<double>());
  if (steps.size() < 3)
    return error("tells no times of its steps");
  steps.erase(steps.begin(), steps.begin() + 2); // that warm up
  std::nth_element(steps.begin(), steps.begin() + steps.size() / 2, steps.end());
  measured.step = steps[steps.size() / 2];
  return support::ok();
}

// Returns what each instruction took in programs with so many threads a rank.
std::vector<calibrate::Sample> Calibration::samplesOf(unsigned threads) const {
  std::vector<calibrate::Sample> samples;
  const cost::HostRates &rates = host_.of(threads);
  for (const Measured &of : measured_) {
    if (of.rows["threads"].get<unsigned>() != threads)
      continue;
    for (const auto &row : of.rows["rows"]) {
      const runtime::StageProgram &stage = *of.stages[row[0].get<size_t>()];
      double calls = row[2].get<double>();
      if (calls <= 0)
        continue;
      calibrate::Sample sample;
      sample.work = simulate::workOf(*of.carried->program, stage, stage.ops[row[1].get<size_t>()], host_, rates);
      sample.seconds = row[3].get<double>() * 1e-9 / calls;
      sample.calls = calls / double(std::max<uint64_t>(1, of.rows["steps"].get<uint64_t>()));
      // Adds up what all members spend, each of which has a call; a message has two ends.
      double members = sample.work.kind == simulate::Work::Collective ? sample.work.members
                       : sample.work.kind == simulate::Work::Message  ? 2
                                                                      : 1;
      sample.seconds *= members;
      sample.calls /= members;
      samples.push_back(std::move(sample));
    }
  }
  return samples;
}

double Calibration::simulated(const Measured &measured) const {
  cost::Machine machine;
  machine.cluster.host = host_;
  auto forecast = simulate::forecast(*measured.carried->program, machine);
  return forecast ? forecast->timeline.step : NAN;
}

void Calibration::fit() {
  // Takes the time between instructions for that of issuing one, without that of the clock itself.
  double driven = 0, inside = 0, calls = 0;
  for (const Measured &of : measured_) {
    driven += of.rows["driven_ns"].get<double>() * 1e-9;
    for (const auto &row : of.rows["rows"]) {
      inside += row[3].get<double>() * 1e-9;
      calls += row[2].get<double>();
    }
  }
  host_.issue = calls > 0 ? std::max(0.0, driven - inside) / calls / 2 : 0;
  for (cost::HostRates &rates : host_.rates)
    calibrate::fitRates(samplesOf(rates.threads), rates);
  // Finds how long a worker sleeps on, and what a step takes beside its instructions.
  double best = INFINITY;
  cost::HostMachine chosen = host_;
  for (double wake : {0.0, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5}) {
    host_.wake = wake;
    host_.step = 0;
    std::vector<double> rest, shares;
    for (const Measured &of : measured_)
      rest.push_back(of.step - simulated(of));
    std::vector<double> sorted = rest;
    std::nth_element(sorted.begin(), sorted.begin() + sorted.size() / 2, sorted.end());
    host_.step = std::clamp(sorted[sorted.size() / 2], 0.0, 2e-4);
    double sum = 0;
    for (size_t i = 0; i < rest.size(); ++i)
      sum += std::abs(rest[i] - host_.step) / measured_[i].step;
    if (sum < best) {
      best = sum;
      chosen = host_;
    }
  }
  host_ = chosen;
  for (cost::HostRates &rates : host_.rates)
    fitProcess(rates);
}

// Takes the median of what processes hold beside their arenas and the library's scratch.
void Calibration::fitProcess(cost::HostRates &rates) const {
  std::vector<double> beside;
  for (const Measured &of : measured_) {
    const planfile::ProgramT &program = *of.carried->program;
    unsigned workers = of.rows["workers"].get<unsigned>();
    if (of.rows["threads"].get<unsigned>() == rates.threads)
      beside.push_back(std::max(0.0, of.peak - simulate::arenaBytes(program) -
                                         simulate::scratchBytes(program, workers, rates.threads)));
  }
  if (beside.empty())
    return;
  std::nth_element(beside.begin(), beside.begin() + beside.size() / 2, beside.end());
  rates.processBytes = beside[beside.size() / 2];
}

support::OrderedJson Calibration::clusterJson() const {
  double core = std::max(1e9, machine_.flops / host_.cores);
  return {{"name", "this machine"},
          {"base", "cpu"},
          {"peak_tflops_fp32", core * 1e-12},
          {"peak_tflops_16", core * 1e-12},
          {"memory_gib", std::max(0.1, machine_.memoryBytes / host_.cores / (1 << 30))},
          {"memory_gbytes_per_s", std::max(1.0, machine_.copyBytes / host_.cores * 1e-9)},
          {"sources", {"measured by llmc calibrate"}},
          {"host", cost::hostJson(host_)}};
}

std::string Calibration::note() const {
  double sum = 0, worst = 0;
  for (const Measured &of : measured_) {
    double wrong = std::abs(simulated(of) / of.step - 1);
    sum += wrong;
    worst = std::max(worst, wrong);
  }
  char line[160];
  std::snprintf(line, sizeof line, "steps of %zu programs that it was fitted to: off by %.1f %% on average, %.1f %% at most",
                measured_.size(), 100 * sum / double(measured_.size()), 100 * worst);
  return line;
}

std::string Calibration::table() const {
  std::string all;
  for (const Measured &of : measured_) {
    char line[200];
    double step = simulated(of), peak = simulate::processPeak(*of.carried->program, host_);
    std::snprintf(line, sizeof line, "%-28s step %.4f s, measured %.4f (%+.1f %%); process %.1f MiB, measured %.1f (%+.1f %%)\n",
                  of.name.c_str(), step, of.step, 100 * (step / of.step - 1), peak / (1 << 20), of.peak / (1 << 20),
                  100 * (peak / of.peak - 1));
    all += line;
  }
  return all;
}

} // namespace

int runCalibrate(const CommandLine &line) {
  auto fail = [](const std::string &message) {
    llvm::errs() << "llmc: error: " << message << "\n";
    return 1;
  };
  if (auto status = support::checkWritable(line.options.output); !status)
    return fail(status.message());
  llvm::SmallString<128> folder;
  if (std::error_code code = llvm::sys::fs::createUniqueDirectory("llmc-calibrate", folder))
    return fail("no folder for programs: " + code.message());
  removeTemporariesOnSignals(std::string(folder));
  support::Progress progress(std::cerr, support::isTerminal(2), line.verbosity);
  Calibration calibration(std::string(folder), line.quick, progress);
  support::Status status = calibration.run();
  llvm::sys::fs::remove_directories(folder);
  if (!status)
    return fail(status.message());
  if (auto written = support::writeFile(line.options.output, support::jsonText(calibration.clusterJson(), 1) + "\n"); !written)
    return fail(written.message());
  if (line.verbosity == support::Verbosity::Verbose)
    llvm::outs() << calibration.table();
  if (line.verbosity != support::Verbosity::Quiet)
    llvm::outs() << line.options.output << ": " << calibration.note() << "\n";
  return 0;
}

} // namespace llmc
