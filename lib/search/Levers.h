// Finds what would make a plan fit that needs more memory than there is. Tests: test/numerics/search.py (levers applied).
#ifndef LLMC_LIB_SEARCH_LEVERS_H
#define LLMC_LIB_SEARCH_LEVERS_H

#include "lib/search/Readers.h"
#include "lib/search/Search.h"

#include <string>
#include <vector>

namespace llmc::search {

// Describes one change of a plan, or several together: their flags and values, side by side.
struct Lever {
  std::string flag, value, command; // the command predicts the changed plan
  double savesBytes = 0, costsSeconds = 0; // of the peak; of a step, less than 0 where it is faster
  bool fits = false;
};

// Returns the levers of a plan whose prediction does not fit: those that make it fit first, by the time that they cost, then
// those that save something, by the bytes. Where none fits alone, what saves most is taken and levers of that are looked for.
// Changes of the mesh keep the number of accelerators. Offloading is predicted, and not built.
std::vector<Lever> leversOf(Readers &readers, const Request &request, const cost::Machine &machine,
                            const predict::Prediction &prediction);

} // namespace llmc::search

#endif // LLMC_LIB_SEARCH_LEVERS_H
