#include "lib/planfile/Check.h"

#include "lib/planfile/ShortenedPlans.h"
#include "lib/planfile/Program.h"

#include <iterator>

namespace llmc::planfile {

// Runs all checkers except that of bounds. `twice` is ShortenedPlans::twice, or null to let
// checkHappensBefore() repeat `program`.
static std::vector<Finding> checkWalks(const ProgramT &program, const ProgramT *twice) {
  std::vector<Finding> all;
  auto add = [&](std::vector<Finding> found) {
    all.insert(all.end(), std::make_move_iterator(found.begin()),
               std::make_move_iterator(found.end()));
  };
  add(checkCollectives(program));
  add(checkLaunchOrder(program));
  add(twice ? checkHappensBeforeUnrolled(*twice) : checkHappensBefore(program));
  add(checkTensors(program));
  add(checkUpdates(program));
  add(checkConservation(program));
  add(checkMemory(program));
  return all;
}

std::vector<Finding> checkAll(const ProgramT &program) {
  if (support::Status status = checkBounds(program); !status) {
    Finding finding;
    finding.checker = "bounds";
    finding.message = status.message();
    return {finding};
  }
  std::optional<ShortenedPlans> steady = shortenSteadyState(program);
  if (steady && checkWalks(steady->once, &steady->twice).empty())
    return {};
  return checkWalks(program, nullptr);
}

std::vector<uint64_t> peakLiveBytes(const ProgramT &program) {
  std::optional<ShortenedPlans> steady = shortenSteadyState(program);
  std::vector<uint64_t> peaks;
  for (unsigned s = 0; s < program.stages.size(); ++s)
    peaks.push_back(peakLiveBytes(steady ? steady->once : program, s));
  return peaks;
}

void updateLiveBytes(ProgramT &program) {
  std::vector<uint64_t> peaks = peakLiveBytes(program);
  for (size_t s = 0; s < peaks.size(); ++s)
    program.stages[s]->live_bytes = peaks[s];
}

std::string formatFindings(const std::vector<Finding> &findings) {
  std::string text;
  for (const Finding &f : findings) {
    text += f.checker + ": ";
    if (f.stage >= 0)
      text += "stage " + std::to_string(f.stage) + ", ";
    if (!f.procedure.empty())
      text += "procedure " + f.procedure + ", ";
    if (f.instruction >= 0)
      text += "instruction " + std::to_string(f.instruction) + ", ";
    if (f.microBatch >= 0)
      text += "micro-batch " + std::to_string(f.microBatch) + ", ";
    text.resize(text.size() - 2); // the last ", " (or the ": " of a bare checker)
    text += ": " + f.message + "\n";
    if (!f.fix.empty())
      text += "  fix: " + f.fix + "\n";
  }
  return text;
}

} // namespace llmc::planfile
