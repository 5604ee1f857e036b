#include "lib/support/FlagSetters.h"

#include <charconv>

using namespace llmc;
using namespace llmc::support;

// Reads the whole text as a number; a text that ends early is no number.
template <class T> static std::errc parse(std::string_view text, T &number) {
  const char *end = text.data() + text.size();
  auto [at, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && at != end ? std::errc::invalid_argument : error;
}

std::optional<uint64_t> support::parseWhole(std::string_view text) {
  uint64_t number = 0;
  return parse(text, number) == std::errc() ? std::optional(number) : std::nullopt;
}

std::string support::realText(double number) {
  char text[32];
  return std::string(text, std::to_chars(text, text + sizeof(text), number).ptr);
}

std::optional<double> support::parseReal(std::string_view text) {
  double number = 0;
  bool isNumber = parse(text, number) == std::errc() && std::isfinite(number);
  return isNumber ? std::optional(number) : std::nullopt;
}

std::optional<uint64_t> support::readWhole(std::string_view name, std::string_view value,
                                           uint64_t least, uint64_t most, Problems &problems) {
  std::optional<uint64_t> number = parseWhole(value);
  if (number && *number >= least && *number <= most)
    return number;
  problems.usage(name, " needs a whole number from ", least, " to ", most, ", got '", value, "'");
  return std::nullopt;
}

std::optional<double> support::readReal(std::string_view name, std::string_view value,
                                        Interval interval, Problems &problems) {
  auto [least, end, open] = interval;
  std::optional<double> number = parseReal(value);
  if (number && (open ? *number > least : *number >= least) && *number < end)
    return number;
  double ignored = 0;
  if (parse(value, ignored) == std::errc::result_out_of_range)
    problems.usage(name, ": ", value, " is too large, or too near to 0, for a double");
  else
    problems.usage(name, " needs a number ", open ? "above " : "of at least ", least,
                   end < HUGE_VAL ? text(" and below ", end) : "", ", got '", value, "'");
  return std::nullopt;
}

bool support::checkPath(const GivenFlag &given, Problems &problems) {
  if (given.value == "-")
    problems.usage(given.flag->name,
                   ": '-' is no file; name /dev/stdout, or ./- for a file of that name");
  return given.value != "-";
}
