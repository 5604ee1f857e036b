// The name that was probably meant.
#ifndef LLMC_LIB_SUPPORT_NEAREST_H
#define LLMC_LIB_SUPPORT_NEAREST_H

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace llmc::support {

// Letters to insert, remove, replace or swap with their neighbour to get from one
// word to the other (optimal string alignment).
size_t editDistance(std::string_view from, std::string_view to);

// The first of the nearest candidates; empty if none is near enough to be meant: at
// most a third of the letters differ, or one begins with the other.
std::string nearest(std::string_view word, const std::vector<std::string> &candidates);

} // namespace llmc::support

#endif // LLMC_LIB_SUPPORT_NEAREST_H
