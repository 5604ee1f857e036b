// Formats seconds, bytes and shares for the sentences of a page. Tests: test/page/run.py.
#ifndef LLMC_LIB_PAGE_WORDS_H
#define LLMC_LIB_PAGE_WORDS_H

#include <string>

namespace llmc::page {

// Returns "1.25 s", "31.6 ms", "8.1 µs".
std::string secondsText(double seconds);
// Returns "24.1 GiB", "1.5 MiB", "80 bytes".
std::string bytesText(double bytes);
// Returns what `part` is of `whole` as "17.3 %".
std::string percentText(double part, double whole);
// Returns what a letter of a schedule stands for: "forward", "backward", "gradients of weights", "the update".
std::string phaseText(char letter);

} // namespace llmc::page

#endif // LLMC_LIB_PAGE_WORDS_H
