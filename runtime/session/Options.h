// Parses the command line of a compiled program. Tested by test/runtime/OptionsTest.cpp.
#ifndef LLMC_RUNTIME_SESSION_OPTIONS_H
#define LLMC_RUNTIME_SESSION_OPTIONS_H

#include "lib/planfile/Program.h"
#include "lib/support/FlagTable.h"
#include "lib/support/Progress.h"
#include "runtime/data/Data.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace llmc::runtime {

// Names the shape of the learning rate after the warm-up (LearningRate.h).
enum class LrSchedule : uint8_t { Constant, Cosine, Linear, Wsd };
std::string_view toString(LrSchedule schedule);

// Holds the values of all flags; the initial values are the defaults.
struct Options {
  bool help = false, version = false;
  support::Verbosity verbosity = support::Verbosity::Normal;
  std::vector<DataFile> data; // --data
  std::optional<support::ElementType> tokenType;
  std::map<std::string, std::string> inputs; // NAME -> file
  bool shuffle = true;
  std::optional<uint64_t> steps; // none: one pass over the data
  uint64_t seed = 0;
  std::string weights;
  std::string evalData;
  uint64_t evalEvery = 0;   // 0: at the end alone
  uint64_t evalBatches = 0; // 0: as many as the file has
  std::string metrics, dump, save;
  bool force = false; // replaces the file of metrics
  std::string output;  // of inference
  uint64_t repeat = 0; // runs to measure after the first
  double lr = 3e-4, minLr = 0;
  uint64_t warmup = 0;
  LrSchedule lrSchedule = LrSchedule::Constant;
  std::optional<uint64_t> decaySteps; // of Wsd; none: a tenth of all
  double weightDecay = 0.1, beta1 = 0.9, beta2 = 0.95, eps = 1e-8;
  double clip = 1.0; // 0: off
  unsigned workers = 0, threads = 0;
  bool library = true;
  bool pin = true; // threads to cores, where that does no harm
  bool profile = false;
  std::string trace;
  // Bounds the steps (of an inference: runs) to trace, from 1, the last included; none: chosen.
  std::optional<std::pair<uint64_t, uint64_t>> traceSteps;
  std::string cpu; // version of the kernels; empty: the best
  // Serves tests alone.
  std::string countCollectives, profileRows;
  bool isolateArenas = false;
  bool share = true; // states that nothing writes
  std::optional<uint64_t> interleaving;
  bool checkPlan = true;
};

// Reads the arguments after the name of a program of this mode. Problems are all that is wrong
// with them; there are none where help or the version is asked for.
Options parseOptions(const std::vector<std::string> &arguments, planfile::Mode mode,
                     support::Problems &problems);

// Returns the text of --help.
std::string helpText(const std::string &name, planfile::Mode mode);

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_SESSION_OPTIONS_H
