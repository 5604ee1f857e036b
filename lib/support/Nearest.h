// Finds the name that was probably meant. Tests: test/runtime/NearestTest.cpp.
#ifndef LLMC_LIB_SUPPORT_NEAREST_H
#define LLMC_LIB_SUPPORT_NEAREST_H

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace llmc::support {

// Counts the letters to insert, remove, replace or swap with their neighbour to get from one word
// to the other (optimal string alignment).
size_t editDistance(std::string_view from, std::string_view to);

// Returns the first of the nearest candidates. Empty if none is near enough: at most a third of
// the letters (at least one, not all) may differ, or one must begin with the other and share 3
// letters.
// Words beyond 256 letters have no match.
std::string nearest(std::string_view word, const std::vector<std::string> &candidates);

// Returns "; did you mean 'NAME'?" for the nearest candidate, empty if none is near.
std::string didYouMean(std::string_view typed, const std::vector<std::string> &candidates);

} // namespace llmc::support

#endif // LLMC_LIB_SUPPORT_NEAREST_H
