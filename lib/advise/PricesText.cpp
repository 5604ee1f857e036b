// Formats prices and fixes in words.
#include "lib/advise/Prices.h"

#include "lib/report/Explain.h"

#include <algorithm>
#include <cstdio>
#include <sstream>

using namespace llmc;
using namespace llmc::advise;
using nlohmann::json;
using report::secondsText;

namespace {

// Limits the fixes that the text tells; --json has all.
constexpr size_t kMostFixes = 6;

std::string bytesText(double bytes) {
  double size = bytes < 0 ? -bytes : bytes;
  auto [scale, unit] = size >= 0x1p30 ? std::pair(0x1p-30, "GiB") : std::pair(0x1p-20, "MiB");
  char line[32];
  std::snprintf(line, sizeof line, "%.3g %s", size * scale, unit);
  return line;
}

std::string percentText(double part, double whole) {
  char line[32];
  std::snprintf(line, sizeof line, "%.1f %%", whole > 0 ? 100 * part / whole : 0);
  return line;
}

std::string fixText(const json &fix, const json &answer) {
  double saves = fix["saves_s"], step = answer["prediction"]["step_s"], memory = fix["memory_bytes"];
  std::string changes = fix["flag"].get<std::string>() + " " + fix["value"].get<std::string>();
  for (const auto &[flag, value] : fix["changes"].items())
    if (flag != fix["flag"].get<std::string>())
      changes += " " + flag + " " + value.get<std::string>();
  std::string out = changes + ": " + (saves >= 0 ? "saves " : "costs ") + secondsText(saves >= 0 ? saves : -saves) + " of a step (" +
                    percentText(saves >= 0 ? saves : -saves, step) + "), " + bytesText(memory) +
                    (memory >= 0 ? " more" : " less") + " memory";
  if (fix["rounds"].get<bool>())
    out += ", and rounds sums of gradients otherwise";
  const json &removes = fix["removes"];
  if (answer["what"] == "collective") {
    bool isGone = std::find(removes.begin(), removes.end(), answer["name"]) != removes.end();
    return out + (isGone ? "; then there is none" : "");
  }
  if (!removes.empty())
    out += "; removes " + std::to_string(removes.size()) + " of these, as " + removes.front().get<std::string>();
  return out;
}

} // namespace

std::string advise::pricedText(const json &answer) {
  std::ostringstream out;
  out << report::explainText(answer);
  if (!answer.contains("fixes") && !answer.contains("no_fixes"))
    return out.str();
  std::string head = "fix         ", blank(head.size(), ' ');
  if (answer["what"] == "traffic")
    out << "\n";
  if (answer.contains("no_fixes")) {
    out << head << "not known: " << answer["no_fixes"].get<std::string>() << "\n";
    return out.str();
  }
  const json &fixes = answer["fixes"];
  if (fixes.empty()) {
    out << head << "none: no other single choice is known that changes this and fits\n";
    return out.str();
  }
  for (size_t i = 0; i < fixes.size() && i < kMostFixes; ++i) {
    out << (i ? blank : head) << fixText(fixes[i], answer) << "\n";
    if (i == 0)
      out << blank << fixes[i]["command"].get<std::string>() << "\n";
  }
  if (fixes.size() > kMostFixes)
    out << blank << "and " << fixes.size() - kMostFixes << " more, which --json has\n";
  out << blank << "of a predicted step of " << secondsText(answer["prediction"]["step_s"].get<double>()) << " and "
      << bytesText(answer["prediction"]["peak_bytes"].get<double>()) << " at its peak\n";
  return out.str();
}
