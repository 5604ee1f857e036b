#include "lib/search/Levers.h"

#include "lib/search/Flags.h"
#include "lib/support/FlagSetters.h"

#include <algorithm>
#include <cmath>

using namespace llmc;
using namespace llmc::search;
using support::text;

namespace {

// Represents a plan on its way to one that fits.
struct Changed {
  std::vector<std::pair<std::string, std::string>> flags; // changed so far, with their values
  Candidate candidate;
  cost::Offload offload = cost::Offload::None;
  double peak = NAN, step = NAN; // NAN: the model refuses it
};

// Notes a changed flag, in place of what it was changed to before.
void note(Changed &changed, std::string flag, std::string value) {
  std::erase_if(changed.flags, [&](const auto &one) { return one.first == flag; });
  changed.flags.emplace_back(std::move(flag), std::move(value));
}

std::string nameOf(cost::Offload offload) { return offload == cost::Offload::Optimizer ? "optimizer" : "activations"; }

class Levers {
public:
  Levers(Readers &readers, const Request &request, const cost::Machine &machine)
      : readers_(readers), request_(request), machine_(machine), space_(request_, machine) {}

  std::vector<Lever> of(const predict::Prediction &prediction);

private:
  std::vector<Changed> changesOf(const Changed &from) const;
  void addLayouts(const Changed &from, std::vector<Changed> &changes) const;
  void priceAll(std::vector<Changed> &changes);
  bool fits(const Changed &changed) const { return changed.peak <= cost::usableMemory(machine_.cluster); }

  Readers &readers_;
  Request request_;
  const cost::Machine &machine_;
  Space space_;
  double peak_ = 0, step_ = 0; // of what was asked for
};

// Adds meshes of as many accelerators that share out weights or tokens over twice the ranks, half of them data-parallel ones.
void Levers::addLayouts(const Changed &from, std::vector<Changed> &changes) const {
  const Candidate &base = from.candidate;
  if (base.dp % 2 == 0) {
    for (auto [flag, field] : {std::pair("--tp", &Layout::tp), {"--cp", &Layout::cp}}) {
      Changed &changed = changes.emplace_back(from);
      changed.candidate.layout.*field *= 2;
      changed.candidate.dp /= 2, changed.candidate.microBatches *= 2;
      note(changed, flag, text(changed.candidate.layout.*field));
      if (changed.candidate.layout.tp > 1 && base.layout.tp == 1)
        changed.candidate.layout.sequenceParallel = true;
      if (changed.candidate.layout.tp > std::max(machine_.cluster.gpusPerNode, machine_.cluster.nvlinkDomain))
        changes.pop_back();
    }
    Changed &changed = changes.emplace_back(from);
    changed.candidate.pp *= 2, changed.candidate.dp /= 2, changed.candidate.microBatches *= 2;
    changed.candidate.stages.clear();
    note(changed, "--pp", text(changed.candidate.pp));
  }
  if (base.layout.ep > 1) {
    Changed &changed = changes.emplace_back(from);
    changed.candidate.layout.ep *= 2;
    note(changed, "--ep", text(changed.candidate.layout.ep));
  }
}

// Returns plans that differ by one flag and may need less memory.
std::vector<Changed> Levers::changesOf(const Changed &from) const {
  const Candidate &base = from.candidate;
  std::vector<Changed> changes;
  auto add = [&](const char *flag, std::string value) -> Candidate & {
    Changed &changed = changes.emplace_back(from);
    note(changed, flag, std::move(value));
    return changed.candidate;
  };
  if (base.dp * base.layout.cp > 1)
    for (int zero = base.zero + 1; zero <= 3; ++zero)
      add("--zero", text(zero)).zero = zero;
  for (cost::Kept kept : {cost::Kept::Selective, cost::Kept::Full})
    if (kept > base.recompute)
      add("--recompute", cost::nameOf(kept)).recompute = kept;
  if (base.layout.tp > 1 && !base.layout.sequenceParallel)
    add("--sequence-parallel", "on").layout.sequenceParallel = true;
  std::vector<int64_t> rows = divisorsOf(base.microBatch);
  for (size_t i = rows.size() - 1; i-- > 0;) {
    Candidate &candidate = add("--micro-batch", text(rows[i]));
    candidate.microBatch = rows[i], candidate.microBatches *= base.microBatch / rows[i];
  }
  if (base.pp > 1 && base.order != cost::Order::OneFOneB) {
    Candidate &candidate = add("--schedule", "1f1b");
    candidate.order = cost::Order::OneFOneB, candidate.chunks = 1, candidate.stages.clear();
  }
  if (base.layout.gradients == cost::Number::Fp32 && machine_.choices.precision == cost::Number::Bf16)
    add("--grad-dtype", "bf16").layout.gradients = cost::Number::Bf16;
  addLayouts(from, changes);
  if (from.offload == cost::Offload::None && machine_.cluster.pcie > 0)
    for (cost::Offload offload : {cost::Offload::Optimizer, cost::Offload::Activations}) {
      add("--offload", nameOf(offload));
      changes.back().offload = offload;
    }
  return changes;
}

// Predicts each plan as llmc plan does.
void Levers::priceAll(std::vector<Changed> &changes) {
  readers_.run(changes.size(), [&](predict::RaisedModels &models, size_t i) {
    CompileOptions options = request_.options;
    cost::Machine machine = machine_;
    space_.apply(changes[i].candidate, options, machine);
    machine.choices.offload = changes[i].offload;
    changes[i].peak = changes[i].step = NAN; // those of the plan that it was made from
    firstError(models.context(), [&] {
      auto prediction = predict::readPrediction(models, options, machine, /*choosesRecompute=*/false);
      if (!prediction || !predict::price(*prediction))
        return;
      changes[i].step = prediction->time.step;
      for (const cost::MemoryParts &stage : prediction->memory)
        changes[i].peak = std::fmax(changes[i].peak, stage.sum());
    });
  });
  std::erase_if(changes, [](const Changed &changed) { return std::isnan(changed.peak); });
}

std::vector<Lever> Levers::of(const predict::Prediction &prediction) {
  constexpr int most = 4; // changes together
  const cost::Choices &choices = prediction.machine.choices;
  request_.free.gradients = true; // as apply() sets them
  Changed from;
  from.candidate = candidateOf(request_.options, choices);
  from.candidate.stages = request_.options.stages;
  from.offload = choices.offload;
  step_ = prediction.time.step;
  for (const cost::MemoryParts &stage : prediction.memory)
    peak_ = std::max(peak_, stage.sum());
  from.peak = peak_, from.step = step_;
  std::vector<Lever> levers;
  for (int depth = 0; depth < most; ++depth) {
    std::vector<Changed> changes = changesOf(from);
    priceAll(changes);
    const bool isCombined = depth > 0;
    bool any = false;
    for (const Changed &changed : changes) {
      any |= fits(changed);
      if (changed.peak >= from.peak || (isCombined && !fits(changed)))
        continue;
      Lever lever{"", "", "", peak_ - changed.peak, changed.step - step_, fits(changed)};
      for (const auto &[flag, value] : changed.flags) {
        lever.flag += (lever.flag.empty() ? "" : " ") + flag;
        lever.value += (lever.value.empty() ? "" : " ") + value;
      }
      lever.command = planCommand(changed.candidate, request_, changed.offload == cost::Offload::None ? "" : "--offload " + nameOf(changed.offload));
      levers.push_back(std::move(lever));
    }
    auto best = std::min_element(changes.begin(), changes.end(), [](const Changed &a, const Changed &b) { return a.peak < b.peak; });
    if (any || best == changes.end() || best->peak >= from.peak)
      break;
    from = *best;
  }
  std::stable_sort(levers.begin(), levers.end(), [](const Lever &a, const Lever &b) {
    if (a.fits != b.fits)
      return a.fits;
    return a.fits ? a.costsSeconds < b.costsSeconds : a.savesBytes > b.savesBytes;
  });
  return levers;
}

} // namespace

std::vector<Lever> search::leversOf(Readers &readers, const Request &request, const cost::Machine &machine,
                                    const predict::Prediction &prediction) {
  return Levers(readers, request, machine).of(prediction);
}
