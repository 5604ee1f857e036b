// Writes a comparison in words.
#include "lib/advise/Comparison.h"

#include "lib/report/Text.h"

#include <cmath>
#include <cstdio>
#include <sstream>

using namespace llmc;
using namespace llmc::advise;
using nlohmann::json;
using report::groupDigits;
using report::Row;
using report::secondsText;

namespace {

double at(const json &pair, int side) { return pair[size_t(side)].get<double>(); }

std::string percent(double share) {
  char line[32];
  std::snprintf(line, sizeof line, "%.1f %%", 100 * std::abs(share));
  return line;
}

std::string bytesText(double bytes) {
  double size = std::abs(bytes);
  auto [scale, unit] = size >= 0x1p30 ? std::pair(0x1p-30, "GiB") : size >= 0x1p20 ? std::pair(0x1p-20, "MiB") : std::pair(0x1p-10, "KiB");
  char line[32];
  std::snprintf(line, sizeof line, "%.1f %s", size * scale, unit);
  return line;
}

// Says what a part of a step does for so many seconds more or less.
std::string partWords(const std::string &part, double seconds, const json &cost) {
  std::string amount = secondsText(std::abs(seconds)), more = seconds > 0 ? " longer" : " less";
  if (part == "compute")
    return "computes " + amount + more;
  if (part == "bubble")
    return "idles " + amount + more + " until " + (at(cost["process_peak"], 0) > 0 ? "a core is free or another rank comes" : "other ranks come");
  if (part == "host")
    return "takes " + amount + (seconds > 0 ? " more" : " less") + " beside its instructions";
  // Names the kinds that make up most of it, the largest first.
  std::string kinds;
  double named = 0;
  for (const json &wait : cost["waits"])
    if (std::string name = wait["wait"]; name.starts_with(part + " ") && named < 0.8 && wait["difference_s"].get<double>() / seconds > 0) {
      named += wait["difference_s"].get<double>() / seconds;
      kinds += (kinds.empty() ? part + " " : " and ") + name.substr(part.size() + 1) + "s";
    }
  return "waits " + amount + more + " for " + kinds;
}

// Says which program is slower, and why: what is at least a twentieth of the difference or a hundredth of the step.
std::string stepWords(const json &cost) {
  double a = at(cost["step_s"], 0), b = at(cost["step_s"], 1), difference = b - a;
  std::string out;
  if (std::abs(difference) < 1e-3 * a)
    out = "On " + cost["cluster"].get<std::string>() + " both take " + secondsText(b) + " a step";
  else
    out = "On " + cost["cluster"].get<std::string>() + " B is " + (difference > 0 ? "slower than A by " : "faster than A by ") +
          percent(difference / a) + ", " + secondsText(b) + " a step in place of " + secondsText(a);
  std::string why;
  for (const json &part : cost["parts"]) {
    double seconds = part["difference_s"];
    if (std::abs(seconds) >= std::max(0.05 * std::abs(difference), 0.01 * a))
      why += (why.empty() ? ": it " : "; it ") + partWords(part["part"], seconds, cost);
  }
  return out + why + ".";
}

void addCostWords(const json &comparison, std::vector<std::string> &words) {
  const json &cost = comparison["cost"];
  words.push_back(stepWords(cost));
  double a = at(cost["tokens_per_s"], 0), b = at(cost["tokens_per_s"], 1);
  bool hasOtherTokens = std::abs(b / a * at(cost["step_s"], 1) / at(cost["step_s"], 0) - 1) > 1e-6;
  if (hasOtherTokens)
    words.push_back("Their steps are of different numbers of tokens: B does " + groupDigits(uint64_t(b)) + " tokens/s, A " +
                    groupDigits(uint64_t(a)) + ".");
}

} // namespace

std::vector<std::string> advise::comparisonWords(const json &comparison) {
  std::vector<std::string> words;
  if (comparison["identical"].get<bool>())
    return {"There is no difference."};
  if (!comparison["same_model"].get<bool>()) {
    auto model = [&](size_t i) {
      const json &m = comparison["models"][i];
      return m["name"].get<std::string>() + " (" + groupDigits(m["parameters"].get<uint64_t>()) + " parameters, " +
             std::to_string(m["layers"].get<uint64_t>()) + " layers)";
    };
    words.push_back("They are of different models: A of " + model(0) + ", B of " + model(1) + ".");
  }
  if (comparison.contains("cost"))
    addCostWords(comparison, words);
  for (const json &difference : comparison["differences"])
    if (difference["what"] == "bytes of the largest arena" && difference.contains("change")) {
      double change = difference["change"];
      words.push_back("The largest arena of B is " + bytesText(change) + (change > 0 ? " larger" : " smaller") + ": " +
                      bytesText(at(difference["values"], 1)) + " in place of " + bytesText(at(difference["values"], 0)) + ".");
    }
  for (const json &other : comparison["others"])
    words.push_back("All figures are equal, but " + other.get<std::string>() + ".");
  return words;
}

std::string advise::comparisonText(const json &comparison) {
  std::ostringstream out;
  out << "A  " << comparison["programs"][0].get<std::string>() << "\nB  " << comparison["programs"][1].get<std::string>() << "\n\n";
  for (const json &sentence : comparison["words"])
    out << sentence.get<std::string>() << "\n";
  auto valueText = [](const json &value) {
    return value.is_null() ? "none" : value.is_string() ? value.get<std::string>()
           : value.is_number_unsigned() || value.is_number_integer() ? groupDigits(value.get<uint64_t>()) : value.dump();
  };
  std::vector<Row> rows = {{"what differs", "A", "B"}};
  for (const json &difference : comparison["differences"])
    rows.push_back({difference["what"], valueText(difference["values"][0]), valueText(difference["values"][1])});
  if (rows.size() > 1)
    out << "\n" << report::table(rows);
  rows = {{"moved in a step", "calls of A", "of B", "bytes of A", "of B"}};
  for (const json &c : comparison["collectives"])
    rows.push_back({c["kind"].get<std::string>() + " over " + c["axes"].get<std::string>() + ", " + c["phase"].get<std::string>(),
                    valueText(c["calls"][0]), valueText(c["calls"][1]), valueText(c["step_bytes"][0]), valueText(c["step_bytes"][1])});
  if (rows.size() > 1)
    out << "\n" << report::table(rows);
  if (!comparison.contains("cost") || comparison["identical"].get<bool>())
    return out.str();
  const json &cost = comparison["cost"];
  rows = {{"seconds of a step on " + cost["cluster"].get<std::string>(), "A", "B", "B less A"}};
  auto add = [&](const std::string &name, const json &seconds) {
    rows.push_back({name, secondsText(at(seconds, 0)), secondsText(at(seconds, 1)), secondsText(at(seconds, 1) - at(seconds, 0))});
  };
  add("step", cost["step_s"]);
  for (const json &part : cost["parts"])
    if (at(part["seconds"], 0) > 0 || at(part["seconds"], 1) > 0)
      add("  " + part["part"].get<std::string>(), part["seconds"]);
  out << "\n" << report::table(rows);
  return out.str();
}
