#include "lib/advise/Fixes.h"

#include "lib/advise/Changes.h"
#include "lib/predict/Predict.h"
#include "lib/predict/SimulatePlan.h"
#include "llvm/Support/FileSystem.h"

#include <algorithm>
#include <set>

using namespace llmc;
using namespace llmc::advise;
using nlohmann::json;
using planfile::AxisRole;
using report::Traffic;

namespace {

// Returns the machine for which llmc compile predicts a program of these options; nullopt where they do not fit it.
std::optional<cost::Machine> machineFor(const predict::PriceOptions &prices, CompileOptions options, std::string &why) {
  std::vector<std::string> errors;
  auto machine = predict::resolve(predict::asCompiled(prices, options), options, /*hasDataSize=*/true, errors);
  if (!errors.empty())
    why = errors.front();
  return errors.empty() ? machine : std::nullopt;
}

// Returns the flags with all sizes of the mesh and the rows of a step, so that one of them can be changed alone.
Flags completed(const Flags &flags, const CompileOptions &options) {
  Flags out;
  for (AxisRole role : planfile::kAxisRoles) {
    int64_t size = CompileOptions(options).of(role);
    std::string name = "--" + std::string(nameOf(role));
    if (role != AxisRole::ExpertData && (size > 1 || (size == 1 && valueOf(flags, name))))
      out.emplace_back(name, std::to_string(size));
  }
  for (const auto &[name, value] : flags)
    if (name != "--mesh" && !planfile::roleNamed(name.substr(2)))
      out.emplace_back(name, value);
  setFlag(out, "--global-batch", std::to_string(options.globalRows()));
  return out;
}

// Applies changes, and removes choices that mean nothing any more.
Flags changed(Flags flags, const Flags &changes) {
  for (const auto &[name, value] : changes) {
    setFlag(flags, name, value);
    if (name == "--pp" || name == "--virtual-stages")
      removeFlag(flags, "--stages");
    if (name == "--pp" && value == "1")
      for (const char *other : {"--schedule", "--virtual-stages"})
        removeFlag(flags, other);
  }
  std::stable_partition(flags.begin(), flags.end(), [](const auto &flag) { return planfile::roleNamed(flag.first.substr(2)); });
  return flags;
}

bool isBetter(const Fix &a, const Fix &b) {
  return std::pair(-a.saves, a.memory) < std::pair(-b.saves, b.memory);
}

} // namespace

Advisor::Advisor(mlir::MLIRContext &context, const report::PlanIndex &book, const Subject &subject)
    : book_(book), subject_(subject), models_(context) {
  if (!llvm::sys::fs::exists(subject.model)) {
    whyNot_ = "the model is not there any more: " + subject.model;
    return;
  }
  std::optional<CompileOptions> options = subject.parse(subject.flags);
  if (!options) {
    whyNot_ = "its flags are none of this llmc: " + flagsText(subject.flags);
    return;
  }
  flags_ = completed(subject.flags, *options);
  now_ = predictOnce(flags_);
  if (!now_ && whyNot_.empty())
    whyNot_ = "nothing is predicted of " + subject.model;
}

std::optional<Predicted> Advisor::predict(const Flags &flags) {
  std::optional<CompileOptions> options = subject_.parse(flags);
  if (!options)
    return std::nullopt;
  std::string why;
  // Keeps the first problem: that of the plan itself. Refusals of changed plans leave these out.
  mlir::ScopedDiagnosticHandler handler(&models_.context(), [&](mlir::Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error && why.empty())
      why = diagnostic.str();
    return mlir::success();
  });
  std::optional<cost::Machine> machine = machineFor(subject_.prices, *options, why);
  std::optional<predict::Prediction> prediction;
  if (machine)
    prediction = predict::readPrediction(models_, *options, *machine, options->recompute == Recompute::Auto);
  Predicted out;
  bool isPredicted = prediction && predict::price(*prediction);
  if (isPredicted) {
    out.options = *options;
    out.step = prediction->time.step;
    for (const cost::MemoryParts &stage : prediction->memory)
      out.peak = std::max(out.peak, stage.sum());
    out.fits = out.peak <= cost::usableMemory(machine->cluster) &&
               (options->memoryLimit == 0 || out.peak <= double(options->memoryLimit));
    // Takes the simulated plan where ranks share cores.
    if (const auto &host = machine->cluster.host) {
      isPredicted = succeeded(predict::simulatePlan(models_.context(), *options, *prediction));
      out.step = prediction->time.step, out.peak = prediction->processPeak;
      out.fits = out.peak <= machine->cluster.memoryBytes * host->cores;
    }
  }
  if (!isPredicted && !now_)
    whyNot_ = why;
  return isPredicted ? std::optional(out) : std::nullopt;
}

const std::optional<Predicted> &Advisor::predictOnce(const Flags &flags) {
  auto [at, isNew] = known_.try_emplace(flags);
  if (isNew)
    at->second = predict(flags);
  return at->second;
}

std::optional<Fix> Advisor::judge(const Flags &changes) {
  Fix fix;
  fix.changes = changes;
  fix.flags = changed(flags_, changes);
  const std::optional<Predicted> &then = predictOnce(fix.flags);
  if (!then || !then->fits)
    return std::nullopt;
  fix.step = then->step;
  fix.peak = then->peak;
  fix.saves = now_->step - then->step;
  fix.memory = then->peak - now_->peak;
  for (const Traffic &t : book_.traffic)
    if (isRemoved(book_, t, now_->options, then->options))
      fix.removes.push_back(t.name);
  return fix;
}

std::vector<Fix> Advisor::fixesFor(const Traffic &t) {
  std::vector<Fix> list;
  for (const Flags &changes : advise::changesFor(book_, t, now_->options))
    if (std::optional<Fix> fix = judge(changes))
      list.push_back(std::move(*fix));
  std::stable_sort(list.begin(), list.end(), isBetter);
  return list;
}

std::vector<Fix> Advisor::fixesForAll() {
  std::set<Flags> seen;
  std::vector<Fix> list;
  for (const Traffic &t : book_.traffic)
    for (const Flags &changes : advise::changesFor(book_, t, now_->options))
      if (seen.insert(changes).second)
        if (std::optional<Fix> fix = judge(changes))
          list.push_back(std::move(*fix));
  std::stable_sort(list.begin(), list.end(), isBetter);
  return list;
}

namespace {

json fixJson(const Fix &fix, const Subject &subject) {
  json changes = json::object();
  std::string output = subject.output;
  for (const auto &[name, value] : fix.changes) {
    changes[name] = value;
    output += name.substr(1) + "-" + value; // "out-tp-1-dp-2"
  }
  bool rounds = valueOf(fix.changes, "--grad-dtype") || valueOf(fix.changes, "--reduce-dtype");
  Flags flags = fix.flags;
  flags.insert(flags.end(), subject.cluster.begin(), subject.cluster.end());
  return {{"command", commandText(subject.model, flags, output)},
          {"flag", fix.changes.front().first},
          {"value", fix.changes.front().second},
          {"changes", changes},
          {"saves_s", fix.saves},
          {"step_s", fix.step},
          {"memory_bytes", fix.memory},
          {"peak_bytes", fix.peak},
          {"rounds", rounds},
          {"removes", fix.removes}};
}

// Returns the changes of flags that are written in one line.
Flags parsed(llvm::StringRef text) {
  llvm::SmallVector<llvm::StringRef> words;
  text.split(words, ' ', -1, /*KeepEmpty=*/false);
  Flags flags;
  for (size_t i = 0; i + 1 < words.size(); i += 2)
    flags.emplace_back(words[i].str(), words[i + 1].str());
  return flags;
}

// Prices the other orders of micro-batches.
void priceSchedules(json &answer, Advisor &advisor) {
  for (json &other : answer["alternatives"]) {
    if (!other["possible"].get<bool>())
      continue;
    Flags changes = parsed(other["flags"].get<std::string>());
    if (!valueOf(changes, "--virtual-stages"))
      changes.emplace_back("--virtual-stages", "1");
    if (std::optional<Fix> fix = advisor.judge(changes))
      other.update({{"saves_s", fix->saves}, {"peak_change_bytes", fix->memory}});
  }
}

// Returns the flag that makes an alternative of explainJson(); empty if there is none.
std::pair<std::string, std::string> flagOf(const std::string &alternative) {
  static const std::map<std::string, std::pair<std::string, std::string>> flags = {
      {"whole sequence", {"--sequence-parallel", "off"}},
      {"reduce_scatter and all_gather", {"--sequence-parallel", "on"}},
      {"keep its result", {"--recompute", "none"}},
      {"ring", {"--cp-kind", "ring"}},
      {"heads", {"--cp-kind", "heads"}},
      {"cp 1", {"--cp", "1"}},
      {"fewer stages", {"--pp", ""}},
      {"fewer replicas", {"--dp", ""}}};
  for (auto [prefix, flag] : {std::pair("zero ", "--zero"), {"schedule ", "--schedule"}})
    if (alternative.starts_with(prefix))
      return {flag, alternative.substr(std::string_view(prefix).size())};
  auto at = flags.find(alternative);
  return at == flags.end() ? std::pair<std::string, std::string>() : at->second;
}

// Gives each alternative that a flag makes the price of the best fix of that flag.
void priceAlternatives(json &answer, const std::vector<Fix> &fixes) {
  for (json &other : answer["alternatives"]) {
    auto [flag, value] = flagOf(other.value("name", ""));
    for (const Fix &fix : fixes)
      if (fix.changes.front().first == flag && (value.empty() || fix.changes.front().second == value)) {
        other.update({{"saves_s", fix.saves}, {"peak_change_bytes", fix.memory}});
        break;
      }
  }
}

} // namespace

void advise::addFixes(json &answer, mlir::MLIRContext &context, const report::PlanIndex &book, const Subject &subject) {
  const Traffic *one = nullptr;
  for (const Traffic &t : book.traffic)
    if (answer["what"] == "collective" && t.name == answer.value("name", ""))
      one = &t;
  bool isSchedule = answer["what"] == "schedule";
  if (!one && !isSchedule && answer["what"] != "traffic")
    return;
  if (!isSchedule)
    answer["fixes"] = json::array();
  Advisor advisor(context, book, subject);
  if (!advisor.now()) {
    answer["no_fixes"] = advisor.whyNot();
    return;
  }
  answer["prediction"].update({{"step_s", advisor.now()->step}, {"peak_bytes", advisor.now()->peak}});
  if (isSchedule)
    return priceSchedules(answer, advisor);
  std::vector<Fix> fixes = one ? advisor.fixesFor(*one) : advisor.fixesForAll();
  for (const Fix &fix : fixes)
    answer["fixes"].push_back(fixJson(fix, subject));
  if (one)
    priceAlternatives(answer, fixes);
}
