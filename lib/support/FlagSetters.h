// Makes setters for the flags of a FlagTable. A field is a pointer to a member of the options, or a
// function from them to a reference. Tests: test/runtime/FlagTableTest.cpp.
#ifndef LLMC_LIB_SUPPORT_FLAGSETTERS_H
#define LLMC_LIB_SUPPORT_FLAGSETTERS_H

#include "lib/support/FlagTable.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>

namespace llmc::support {

// Reads digits alone, up to 2^64 - 1; none if the text is anything else.
std::optional<uint64_t> parseWhole(std::string_view text);
// Reads a finite decimal number; none if the text is anything else.
std::optional<double> parseReal(std::string_view text);
// Returns the shortest text that parseReal reads as the same number: 0.9999999 stays below 1.
std::string realText(double number);

// Reads a whole number from `least` to `most`; otherwise adds what `name` needs.
std::optional<uint64_t> readWhole(std::string_view name, std::string_view value, uint64_t least,
                                  uint64_t most, Problems &problems);

// Describes the real numbers from `least`, or above it if it is `open`, that are below `end`.
struct Interval {
  double least = 0, end = HUGE_VAL;
  bool open = false;
};
std::optional<double> readReal(std::string_view name, std::string_view value, Interval interval,
                               Problems &problems);

// Returns whether the value can name a file; adds a problem if it cannot.
bool checkPath(const GivenFlag &given, Problems &problems);

// Sets the field to a constant, whatever the value.
template <class Field, class T> auto put(Field field, T constant) {
  return [=](auto &options, const GivenFlag &, Problems &) {
    std::invoke(field, options) = constant;
  };
}

// Sets the field to the constant that stands where the value stands in Flag::Rules::values.
template <class Field, class T> auto choose(Field field, std::vector<T> constants) {
  return [=](auto &options, const GivenFlag &given, Problems &) {
    const std::vector<std::string> &values = given.flag->rules.values;
    std::invoke(field, options) =
        constants[std::find(values.begin(), values.end(), given.value) - values.begin()];
  };
}

// Sets the field to the value as it is typed.
template <class Field> auto word(Field field) {
  return [=](auto &options, const GivenFlag &given, Problems &) {
    std::invoke(field, options) = given.value;
  };
}

// Sets the field to the name of a file.
template <class Field> auto path(Field field) {
  return [=](auto &options, const GivenFlag &given, Problems &problems) {
    if (checkPath(given, problems))
      std::invoke(field, options) = given.value;
  };
}

// Sets the field to a whole number within bounds.
template <class Field>
auto whole(Field field, uint64_t least = 0, uint64_t most = UINT64_MAX) {
  return [=](auto &options, const GivenFlag &given, Problems &problems) {
    if (auto number = readWhole(given.flag->name, given.value, least, most, problems))
      std::invoke(field, options) = *number;
  };
}

// Sets the field to a real number of the interval.
template <class Field> auto real(Field field, Interval interval = {}) {
  return [=](auto &options, const GivenFlag &given, Problems &problems) {
    if (auto number = readReal(given.flag->name, given.value, interval, problems))
      std::invoke(field, options) = *number;
  };
}

} // namespace llmc::support

#endif // LLMC_LIB_SUPPORT_FLAGSETTERS_H
