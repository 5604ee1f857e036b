// Formats counts of things for people. Tests: test/numerics/tool.py (inspected).
#ifndef LLMC_LIB_SUPPORT_COUNTED_H
#define LLMC_LIB_SUPPORT_COUNTED_H

#include "lib/support/Error.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace llmc::support {

// Formats a count with its noun in singular or plural: "1 rank", "2 ranks", "2 batches".
template <class Count>
std::string counted(Count count, std::string_view what) {
  return text(count, ' ', what, count == Count(1) ? "" : what.ends_with("ch") ? "es" : "s");
}

// Separates thousands: 1234567 -> "1,234,567".
inline std::string groupDigits(uint64_t number) {
  std::string digits = std::to_string(number);
  for (int64_t at = static_cast<int64_t>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<size_t>(at), ",");
  return digits;
}

} // namespace llmc::support

#endif // LLMC_LIB_SUPPORT_COUNTED_H
