// Formats tables and numbers for people. Tests: test/planfile/ReportTest.cpp
// (TextNamesWhatMatters).
#ifndef LLMC_LIB_REPORT_TEXT_H
#define LLMC_LIB_REPORT_TEXT_H

#include "lib/support/Counted.h"

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace llmc::report {

using Row = std::vector<std::string>;

// Formats rows (at least one, none longer than the first) as lines: columns as wide as their
// cells, two blanks apart, numbers to the right.
std::string table(const std::vector<Row> &rows);

using support::groupDigits;
// Formats a number with its thousands separated.
std::string number(const nlohmann::json &value);
// Formats a count with its noun: "1 rank", "1,024 ranks".
std::string countOf(const nlohmann::json &value, std::string_view what);
// Formats seconds: "12.3 us", "4.56 ms", "1.2 s".
std::string secondsText(double seconds);
std::string joined(const nlohmann::json &list, const char *separator);

} // namespace llmc::report

#endif // LLMC_LIB_REPORT_TEXT_H
