// Makes names of parameterized tests, which GoogleTest restricts to letters and digits.
#ifndef LLMC_TEST_SUPPORT_NAMES_H
#define LLMC_TEST_SUPPORT_NAMES_H

#include <cctype>
#include <string>

namespace llmc::test {

// Returns `text` as one word: "a changed axis" becomes AChangedAxis.
inline std::string testName(const std::string &text) {
  std::string name;
  bool begins = true;
  for (unsigned char c : text) {
    if (std::isalnum(c))
      name += static_cast<char>(begins ? std::toupper(c) : c);
    begins = !std::isalnum(c);
  }
  return name;
}

} // namespace llmc::test

#endif // LLMC_TEST_SUPPORT_NAMES_H
