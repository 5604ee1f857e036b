#include "lib/search/ResultText.h"

#include "lib/predict/PredictionText.h"
#include "lib/search/Flags.h"

#include <algorithm>
#include <cstdio>

using namespace llmc;
using namespace llmc::search;
using nlohmann::json;

namespace {

std::string line(const char *format, auto... values) {
  char text[1024];
  snprintf(text, sizeof text, format, values...);
  return text;
}

// Names the part of a step of which a plan has most more than the best one.
std::string whyLonger(const cost::TimeParts &parts, const cost::TimeParts &best) {
  auto own = predict::partsOf(parts), least = predict::partsOf(best);
  size_t most = 0;
  for (size_t i = 0; i < own.size(); ++i)
    if (own[i].second - least[i].second > own[most].second - least[most].second)
      most = i;
  double seconds = own[most].second - least[most].second;
  return seconds > 0 ? line("%s +%.3g s", own[most].first.c_str(), seconds) : "";
}

// Returns the tokens that a dollar trains on.
double tokensPerDollar(const Found &found, const Request &request) {
  const cost::StepTime &time = found.prediction.time;
  return double(time.tokens) / (time.step / 3600 * double(found.options.ranks()) * request.dollarsPerGpuHour);
}

json foundJson(const Found &found, const Request &request) {
  json chosen = predict::predictionJson(found.prediction)["chosen"];
  json flags = json::object();
  for (const auto &[flag, value] : flagsOf(found.candidate, request))
    flags[flag] = value;
  chosen["flags"] = std::move(flags);
  chosen["command"] = planCommand(found.candidate, request);
  if (request.dollarsPerGpuHour > 0)
    chosen["tokens_per_dollar"] = tokensPerDollar(found, request);
  return chosen;
}

} // namespace

json search::resultJson(const Result &result, const Request &request) {
  json all = predict::predictionJson(result.found.front().prediction);
  all["chosen"] = foundJson(result.found.front(), request);
  all["alternatives"] = json::array();
  const cost::StepTime &best = result.found.front().prediction.time;
  for (size_t i = 1; i < result.found.size(); ++i) {
    json other = foundJson(result.found[i], request);
    other["loses_s"] = result.found[i].prediction.time.step - best.step;
    other["because"] = whyLonger(result.found[i].prediction.time.parts, best.parts);
    all["alternatives"].push_back(std::move(other));
  }
  all["rejected"] = json::array();
  for (const Rejected &rejected : result.rejected)
    all["rejected"].push_back({{"mesh", predict::meshJson(rejected.mesh)}, {"reason", rejected.reason}});
  all["search"] = {{"candidates", result.candidates}, {"bounded", result.bounded}, {"priced", result.priced}, {"tables", result.tables}, {"seconds", result.seconds}};
  return all;
}

json search::lackJson(const predict::Prediction &asked, const std::vector<Lever> &levers) {
  json all = predict::predictionJson(asked);
  all["asked"] = std::move(all["chosen"]);
  all["chosen"] = nullptr;
  all["levers"] = json::array();
  for (const Lever &lever : levers)
    all["levers"].push_back({{"flag", lever.flag}, {"value", lever.value}, {"command", lever.command}, {"saves_bytes", lever.savesBytes},
                             {"costs_s", lever.costsSeconds}, {"fits", lever.fits}});
  return all;
}

std::string search::resultText(const Result &result, const Request &request) {
  const Found &best = result.found.front();
  std::string out = predict::predictionText(best.prediction);
  out += "found       " + lineOf(flagsOf(best.candidate, request)) + "\n";
  if (request.dollarsPerGpuHour > 0)
    out += line("cost        %.4g tokens for a dollar, %.4g dollars a step\n", tokensPerDollar(best, request),
                double(best.prediction.time.tokens) / tokensPerDollar(best, request));
  if (result.found.size() > 1)
    out += std::string("runners-up       step    simulated") + (request.byDollars ? "   (by what a step costs)\n" : "\n");
  size_t leftOut = 0;
  for (size_t i = 1; i < result.found.size(); ++i) {
    const std::optional<double> &simulated = result.found[i].prediction.simulated.step;
    leftOut += !simulated;
    const cost::StepTime &time = result.found[i].prediction.time;
    std::string why = whyLonger(time.parts, best.prediction.time.parts);
    out += line("  %+6.2f %%  %8.4g s %12s   ", 100 * (costOf(result.found[i], request) / costOf(best, request) - 1), time.step,
                (simulated ? line("%.4g s", *simulated) : "-").c_str()) +
           lineOf(flagsOf(result.found[i].candidate, request)) +
           (why.empty() ? "" : " (" + why + ")") + "\n";
  }
  if (leftOut)
    out += line("not all     %zu of the runners-up are not simulated; --json says why, --simulate on takes its time\n", leftOut);
  out += line("search      %lld plans, of which %lld were bounded and %lld priced, by %lld tables, in %.2f s\n", (long long)result.candidates,
              (long long)result.bounded, (long long)result.priced, (long long)result.tables, result.seconds);
  return out;
}

std::string search::leversText(const std::vector<Lever> &levers) {
  constexpr size_t most = 8;
  std::string out = levers.empty() ? "levers      no change of one or a few choices makes it need less\n" : "levers\n";
  for (size_t i = 0; i < std::min(most, levers.size()); ++i) {
    const Lever &lever = levers[i];
    std::string change;
    size_t flag = 0, value = 0; // joins flags with their values
    for (; flag < lever.flag.size(); ) {
      size_t endOfFlag = std::min(lever.flag.find(' ', flag), lever.flag.size()), endOfValue = std::min(lever.value.find(' ', value), lever.value.size());
      change += (change.empty() ? "" : " ") + lever.flag.substr(flag, endOfFlag - flag) + " " + lever.value.substr(value, endOfValue - value);
      flag = endOfFlag + 1, value = endOfValue + 1;
    }
    out += line("  %-28s %s: saves %.4g GiB, step %+.3g s\n", change.c_str(), lever.fits ? "fits" : "does not fit", lever.savesBytes / (1 << 30), lever.costsSeconds);
  }
  if (!levers.empty())
    out += "run         " + levers.front().command + "\n";
  return out;
}
