// Numbers of things, for people.
#ifndef LLMC_LIB_SUPPORT_COUNTED_H
#define LLMC_LIB_SUPPORT_COUNTED_H

#include "lib/support/Error.h"

#include <string_view>

namespace llmc::support {

// "1 rank", "2 ranks".
template <class Count>
std::string counted(Count count, std::string_view what) {
  return text(count, ' ', what, count == Count(1) ? "" : "s");
}

} // namespace llmc::support

#endif // LLMC_LIB_SUPPORT_COUNTED_H
