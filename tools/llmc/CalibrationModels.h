// Lists the programs that llmc calibrate compiles and runs. Tested by test/numerics/calibrated.py.
#ifndef LLMC_TOOLS_LLMC_CALIBRATIONMODELS_H
#define LLMC_TOOLS_LLMC_CALIBRATIONMODELS_H

#include <string>
#include <vector>

namespace llmc {

// Describes a program: a model's config.json, and flags of llmc compile.
struct CalibrationProgram {
  std::string name, config;
  std::vector<std::string> flags;
  unsigned vocabulary = 0; // tokens are below
};
// Returns the programs for a machine of so many cores; two small ones if `quick`.
std::vector<CalibrationProgram> calibrationPrograms(unsigned cores, bool quick);

} // namespace llmc

#endif // LLMC_TOOLS_LLMC_CALIBRATIONMODELS_H
