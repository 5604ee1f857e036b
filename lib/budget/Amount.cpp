#include "lib/budget/Amount.h"

#include "lib/support/FlagSetters.h"

#include <cctype>
#include <cmath>
#include <cstdio>

using namespace llmc;

// Returns what a letter stands for; 0 if it is none of these.
static double unitOf(char letter) {
  switch (std::toupper(static_cast<unsigned char>(letter))) {
  case 'K':
    return 1e3;
  case 'M':
    return 1e6;
  case 'B':
  case 'G':
    return 1e9;
  case 'T':
    return 1e12;
  default:
    return 0;
  }
}

std::optional<double> budget::parseAmount(std::string_view text) {
  double unit = text.empty() ? 0 : unitOf(text.back());
  if (unit > 0)
    text.remove_suffix(1);
  std::optional<double> number = support::parseReal(text);
  if (!number || unit == 0)
    return number;
  double amount = *number * unit;
  return std::isfinite(amount) ? std::optional(amount) : std::nullopt;
}

std::string budget::amountText(double amount) {
  struct Unit {
    const char *letter;
    double size;
  };
  Unit unit{"", 1};
  for (Unit next : {Unit{"K", 1e3}, {"M", 1e6}, {"B", 1e9}, {"T", 1e12}})
    if (amount >= next.size && amount < 1e15)
      unit = next;
  char text[40];
  std::snprintf(text, sizeof text, "%.4g%s", amount / unit.size, unit.letter);
  return text;
}
