// Lists, samples, decides and summarizes the mutants of a plan.
#include "lib/verify/mutation/Mutation.h"

#include "lib/verify/subject/ProgressPhase.h"
#include "lib/verify/mutation/PlanMutationRunner.h"
#include "lib/verify/reference/RoomChecks.h"
#include "runtime/cpu/Executor.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <sstream>

namespace llmc::verify {

using nlohmann::json;
using planfile::ProgramT;
using support::error;

namespace {

constexpr double kLimit = 1e-6;
// Limits differences where weights are scaled up: rounding is amplified, so only gross
// differences count.
constexpr double kStressLimit = 1e-3;
// Is as large as a gradient's sum over micro-batches, or larger.
constexpr double kNoise = 1;
// Bounds the loss of the scaled trial: logits that overflow an exponential without its maximum
// subtracted. Ranks must differ by as much, so the more the better, up to kStressEnough.
constexpr double kStressOutput = 200, kStressEnough = 2000;

Trial scaled(const Trial &trial, double factor) {
  Trial result = trial;
  for (auto &[name, tensor] : result.weights)
    for (double &value : tensor.data)
      value *= factor;
  return result;
}

// Selects at most `most` mutants of each fault, evenly and in order.
std::vector<Mutant> sample(std::vector<Mutant> all, uint64_t most) {
  if (most == 0)
    return all;
  std::map<Fault, uint64_t> counts, seen;
  for (const Mutant &mutant : all)
    ++counts[mutant.fault];
  std::vector<Mutant> chosen;
  for (Mutant &mutant : all) {
    uint64_t count = counts[mutant.fault], i = seen[mutant.fault]++;
    uint64_t wanted = std::min(count, most);
    if (i * wanted / count != (i + 1) * wanted / count)
      chosen.push_back(std::move(mutant));
  }
  return chosen;
}

json describe(const Mutant &mutant, const ProgramT &program) {
  const PlanSite &site = mutant.sites.front();
  const auto &procedure = *program.stages[site.stage]->procedures[site.procedure];
  json result = {{"fault", toString(mutant.fault)},
                 {"stage", site.stage},
                 {"procedure", procedure.name},
                 {"instruction", site.instruction},
                 {"change", mutant.change}};
  if (site.instruction < 0) {
    result["entry"] = site.entry;
    return result;
  }
  const auto &origin = *program.origins[instructionAt(program, site).origin];
  result["origin"] = origin.op + (origin.nodes.empty() ? "" : " " + origin.nodes.front());
  return result;
}

void count(json &object, const std::string &key) { object[key] = object.value(key, 0) + 1; }

json summarize(const std::vector<Mutant> &mutants, const std::vector<Decision> &decisions,
               const ProgramT &program) {
  json killedBy = json::object(), faults = json::object(), numbers = json::object();
  json survivors = json::array();
  std::map<std::string, uint64_t> reasons;
  uint64_t killed = 0, equivalent = 0;
  for (size_t i = 0; i < mutants.size(); ++i) {
    const Decision &decision = decisions[i];
    std::string fault(toString(mutants[i].fault));
    if (!faults.contains(fault))
      faults[fault] = {
          {"total", 0}, {"killed_by", json::object()}, {"equivalent", 0}, {"survivors", 0}};
    json &entry = faults[fault];
    count(entry, "total");
    if (!decision.overwriter.empty()) {
      ++killed;
      count(killedBy, decision.overwriter);
      count(entry["killed_by"], decision.overwriter);
    } else if (!decision.reason.empty()) {
      ++equivalent;
      ++reasons[decision.reason];
      count(entry, "equivalent");
    } else {
      survivors.push_back(describe(mutants[i], program));
      count(entry, "survivors");
    }
    bool wanted = mutants[i].fault == Fault::Drop || mutants[i].fault == Fault::Group ||
                  mutants[i].fault == Fault::Scale;
    if (!wanted || !decision.reason.empty())
      continue;
    if (!numbers.contains(fault))
      numbers[fault] = {
          {"total", 0}, {"killed", 0}, {"by", json::object()}, {"missed", json::array()}};
    json &alone = numbers[fault];
    std::string how = decision.numbers.empty() ? "not runnable" : decision.numbers;
    count(alone, "total");
    count(alone["by"], how);
    if (how == "numbers")
      count(alone, "killed");
    else
      alone["missed"].push_back(describe(mutants[i], program));
  }
  json reasonList = json::array();
  for (const auto &[reason, n] : reasons)
    reasonList.push_back({{"reason", reason}, {"count", n}});
  return {{"total", mutants.size()},  {"killed", killed},       {"killed_by", killedBy},
          {"equivalent", equivalent}, {"reasons", reasonList},  {"survivors", survivors},
          {"faults", faults},         {"numbers_only", numbers}};
}

} // namespace

support::Result<json> mutate(const ProgramT &program, const runtime::Kernels &kernels,
                             const Trial &fullTrial, const MutationOptions &options) {
  std::vector<std::string_view> checkers = staticCheckers();
  if (!options.without.empty() &&
      std::find(checkers.begin(), checkers.end(), options.without) == checkers.end()) {
    std::string known;
    for (std::string_view name : checkers)
      known += (known.empty() ? "" : ", ") + std::string(name);
    return error("--without ", options.without, ": no such static checker; there are ", known);
  }
  MutablePlan plan = makeMutable(program, kernels);
  if (std::string checker = staticKiller(plan.program); !checker.empty())
    return error("the plan itself does not pass the static checker '", checker, "'");
  Trial trial = fullTrial;
  trial.steps.resize(std::min<size_t>(trial.steps.size(), 2));
  auto usual = MutantRunner::create(plan.program, plan.kernels, trial);
  if (!usual)
    return usual.takeError();
  auto noisy = MutantRunner::create(plan.program, plan.kernels, trial, kNoise);
  if (!noisy)
    return noisy.takeError();
  std::vector<std::pair<const MutantRunner *, double>> runners = {{usual->get(), kLimit},
                                                                  {noisy->get(), kLimit}};
  // Sends the rows of a mixture to few ranks, which lack room where they may.
  std::unique_ptr<MutantRunner> crowd;
  Trial oneToken = crowded(trial);
  if (program.moe_budget_most > 0) {
    auto runner = MutantRunner::create(plan.program, plan.kernels, oneToken);
    if (!runner)
      return runner.takeError();
    crowd = std::move(*runner);
    runners.push_back({crowd.get(), kLimit});
  }
  std::unique_ptr<Trial> stressTrial;
  std::unique_ptr<MutantRunner> stress;
  for (double factor = 2; factor <= 1024; factor *= 2) {
    auto next = std::make_unique<Trial>(scaled(trial, factor));
    auto runner = MutantRunner::create(plan.program, plan.kernels, *next);
    if (!runner || !std::isfinite((*runner)->largestOutput()))
      break;
    if ((*runner)->loss() <= kStressOutput)
      continue;
    stressTrial = std::move(next); // a runner refers to its trial
    stress = std::move(*runner);
    if (stress->loss() > kStressEnough)
      break;
  }
  if (stress)
    runners.push_back({stress.get(), kStressLimit});
  std::vector<Mutant> all = listMutants(plan.program);
  size_t listed = all.size();
  std::vector<Mutant> mutants = sample(std::move(all), options.most);
  unsigned processes = options.processes ? options.processes : runtime::availableCores();
  ProgressPhase doing(options.progress, "mutants", mutants.size());
  std::vector<Decision> decisions =
      PlanMutationRunner(plan.program, std::move(runners), options.without)
          .decide(mutants, processes, [&](uint64_t done) { doing.reach(done); });
  if (decisions.size() != mutants.size())
    return error("no memory for ", mutants.size(), " mutants");
  json result = summarize(mutants, decisions, plan.program);
  result["listed"] = listed;
  return result;
}

std::string mutationText(const json &mutants) {
  std::ostringstream out;
  out << "mutants: " << mutants["total"] << " of " << mutants["listed"] << ", killed "
      << mutants["killed"] << ", equivalent " << mutants["equivalent"] << ", survivors "
      << mutants["survivors"].size() << "\n";
  for (const auto &[fault, entry] : mutants["faults"].items()) {
    char line[96];
    std::snprintf(line, sizeof line, "  %-9s %6d", fault.c_str(), entry["total"].get<int>());
    out << line << ":";
    for (const auto &[overwriter, n] : entry["killed_by"].items())
      out << " " << overwriter << " " << n << ",";
    out << " equivalent " << entry["equivalent"] << ", survivors " << entry["survivors"] << "\n";
  }
  for (const auto &entry : mutants["reasons"])
    out << "  equivalent: " << entry["count"] << " " << entry["reason"].get<std::string>() << "\n";
  for (const auto &[fault, entry] : mutants["numbers_only"].items()) {
    out << "  " << fault << " with static checkers off, of " << entry["total"] << ":";
    for (const auto &[how, n] : entry["by"].items())
      out << " " << how << " " << n;
    out << "\n";
  }
  for (const auto &mutant : mutants["survivors"])
    out << "  survivor: " << mutant["fault"].get<std::string>() << ", stage " << mutant["stage"]
        << ", " << mutant["procedure"].get<std::string>() << "[" << mutant["instruction"]
        << "]: " << mutant["change"].get<std::string>() << "; from "
        << mutant.value("origin", "the schedule") << "\n";
  return out.str();
}

} // namespace llmc::verify
