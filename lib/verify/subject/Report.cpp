#include "lib/verify/subject/Report.h"

#include "lib/support/Counted.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <sstream>

namespace llmc::verify {

bool Report::passed() const {
  if (mutants.is_object() && !mutants["survivors"].empty())
    return false;
  return std::all_of(checks.begin(), checks.end(), [](const Check &c) { return c.passed; });
}

bool Report::add(std::string name, std::string subject, double value, double limit,
                 std::string note) {
  bool passed = value <= limit;
  checks.push_back({std::move(name), std::move(subject), value, limit, passed, std::move(note)});
  return passed;
}

static double finite(double value) {
  return std::isfinite(value) ? value : std::numeric_limits<double>::max();
}

nlohmann::json Report::json() const {
  nlohmann::json list = nlohmann::json::array();
  for (const Check &c : checks)
    list.push_back({{"name", c.name},
                    {"subject", c.subject},
                    {"value", finite(c.value)},
                    {"limit", c.limit},
                    {"passed", c.passed}});
  nlohmann::json result = {
      {"passed", passed()}, {"twin", twin}, {"ranks", ranks}, {"checks", list}};
  if (refused)
    result["refused"] = *refused;
  if (!mutants.is_null())
    result["mutants"] = mutants;
  if (!border.empty())
    result["border"] = border;
  return result;
}

std::string Report::text() const {
  std::ostringstream out;
  out << model << ": " << device << "\n" << relation;
  for (const Check &c : checks) {
    char numbers[64];
    if (c.limit == 0)
      std::snprintf(numbers, sizeof numbers, "%.4g", c.value);
    else
      std::snprintf(numbers, sizeof numbers, "%.2e (limit %.1e)", c.value, c.limit);
    char line[128];
    std::snprintf(line, sizeof line, "%-6s  %-26s %-28s", c.passed ? "ok" : "FAILED",
                  c.name.c_str(), numbers);
    out << line << c.subject << "\n";
    std::istringstream notes(c.note);
    for (std::string note; !c.passed && std::getline(notes, note);)
      out << "          " << note << "\n";
  }
  size_t failed = std::count_if(checks.begin(), checks.end(), [](const Check &c) { return !c.passed; });
  if (failed == 0)
    out << "equal: " << (checks.size() == 1 ? "the check holds" : support::text("all ", checks.size(), " checks hold")) << "\n";
  else
    out << "not equal: " << failed << " of " << support::counted(checks.size(), "check") << (failed == 1 ? " fails\n" : " fail\n");
  if (!border.empty())
    out << "the numbers differ first at phase boundary " << border
        << (place.empty() ? "" : ": " + place) << "\n";
  return out.str();
}

} // namespace llmc::verify
