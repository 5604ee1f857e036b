// Formats counts of things for people.
#ifndef LLMC_LIB_SUPPORT_COUNTED_H
#define LLMC_LIB_SUPPORT_COUNTED_H

#include "lib/support/Error.h"

#include <string_view>

namespace llmc::support {

// Formats a count with its noun in singular or plural: "1 rank", "2 ranks", "2 batches".
template <class Count>
std::string counted(Count count, std::string_view what) {
  return text(count, ' ', what, count == Count(1) ? "" : what.ends_with("ch") ? "es" : "s");
}

} // namespace llmc::support

#endif // LLMC_LIB_SUPPORT_COUNTED_H
