#include "lib/report/Text.h"

#include <algorithm>
#include <cstdio>
#include <utility>
#include <sstream>

using nlohmann::json;

namespace llmc::report {

std::string table(const std::vector<Row> &rows) {
  std::vector<size_t> width(rows[0].size(), 0);
  for (const Row &row : rows)
    for (size_t c = 0; c < row.size(); ++c)
      width[c] = std::max(width[c], row[c].size());
  std::ostringstream out;
  for (const Row &row : rows) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c) {
      std::string pad(width[c] - row[c].size(), ' ');
      bool number = !row[c].empty() && row[c].find_first_not_of("0123456789,.") == std::string::npos;
      line += "  " + (number ? pad + row[c] : row[c] + pad);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out << line << "\n";
  }
  return out.str();
}

std::string secondsText(double seconds) {
  double size = seconds < 0 ? -seconds : seconds;
  auto [scale, unit] = size < 5e-10 || size >= 1 ? std::pair(1.0, "s") : size >= 1e-3 ? std::pair(1e3, "ms") : std::pair(1e6, "us");
  char line[32];
  std::snprintf(line, sizeof line, "%.3g %s", size < 5e-10 ? 0 : seconds * scale, unit);
  return line;
}

std::string joined(const json &list, const char *separator) {
  std::string text;
  for (const json &item : list)
    text += (text.empty() ? "" : separator) + item.get<std::string>();
  return text;
}

std::string number(const json &value) { return groupDigits(value.get<uint64_t>()); }

std::string countOf(const json &value, std::string_view what) {
  std::string one = support::counted(value.get<uint64_t>(), what);
  return number(value) + one.substr(one.find(' '));
}

} // namespace llmc::report
