#include "lib/planfile/Check.h"

#include "lib/planfile/Program.h"

#include <iterator>

namespace llmc::planfile {

std::vector<Finding> checkAll(const ProgramT &program) {
  std::vector<Finding> all;
  if (support::Status status = checkBounds(program); !status) {
    Finding finding;
    finding.checker = "bounds";
    finding.message = status.message();
    return {finding};
  }
  for (auto *checker : {checkCollectives, checkLaunchOrder, checkHappensBefore,
                        checkConservation, checkMemory}) {
    std::vector<Finding> found = checker(program);
    all.insert(all.end(), std::make_move_iterator(found.begin()),
               std::make_move_iterator(found.end()));
  }
  return all;
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
