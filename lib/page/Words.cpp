#include "lib/page/Words.h"

#include <cmath>
#include <cstdio>

using namespace llmc;

static std::string number(double value, const char *unit) {
  char line[64];
  std::snprintf(line, sizeof line, "%.3g %s", value, unit);
  if (value >= 100)
    std::snprintf(line, sizeof line, "%.0f %s", value, unit);
  return line;
}

std::string page::secondsText(double seconds) {
  if (seconds >= 1 || seconds <= 0)
    return number(seconds, "s");
  return seconds >= 1e-3 ? number(seconds * 1e3, "ms") : number(seconds * 1e6, "\xc2\xb5s");
}

std::string page::bytesText(double bytes) {
  constexpr const char *units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  for (; bytes >= 1024 && unit < 4; ++unit)
    bytes /= 1024;
  return number(bytes, units[unit]);
}

std::string page::percentText(double part, double whole) {
  char line[32];
  std::snprintf(line, sizeof line, "%.1f %%", whole > 0 ? 100 * part / whole : 0);
  return line;
}

std::string page::phaseText(char letter) {
  switch (letter) {
  case 'F':
    return "the forward pass";
  case 'B':
    return "the backward pass";
  case 'W':
    return "the gradients of weights";
  case 'U':
    return "the update";
  default:
    return "an exchange";
  }
}
