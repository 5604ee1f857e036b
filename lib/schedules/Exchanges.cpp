#include "lib/schedules/Exchanges.h"

#include <algorithm>
#include <functional>
#include <set>
#include <tuple>

namespace llmc {
namespace {

// Names a step by its virtual stage.
using Key = std::tuple<StepKind, int64_t, int64_t>; // kind, virtual stage, micro-batch

Key keyOf(const Step &step, int64_t stage, int64_t stages) {
  return {step.kind, step.chunk * stages + stage, step.microBatch};
}

// Returns the step whose message a step needs; nullopt if it needs none.
std::optional<Key> neededBy(const Step &step, int64_t stage, int64_t stages, int64_t chunks) {
  int64_t k = step.chunk * stages + stage, last = stages * chunks - 1;
  if (step.kind == StepKind::F && k > 0)
    return Key{step.kind, k - 1, step.microBatch};
  if (step.kind == StepKind::B && k < last)
    return Key{step.kind, k + 1, step.microBatch};
  return std::nullopt;
}

struct Place {
  size_t stage, step;
};

// Holds where each step is, by its name.
class Places {
public:
  explicit Places(const std::vector<std::vector<Step>> &stages) {
    for (const auto &steps : stages)
      for (const Step &step : steps)
        chunks_ = std::max(chunks_, step.chunk + 1), microBatches_ = std::max(microBatches_, step.microBatch + 1);
    const size_t ofKind = stages.size() * size_t(chunks_ * microBatches_);
    virtualStages_ = int64_t(stages.size()) * chunks_;
    places_.resize(kKinds * ofKind, {nowhere, 0});
    for (size_t s = 0; s < stages.size(); ++s)
      for (size_t i = 0; i < stages[s].size(); ++i)
        places_[indexOf(keyOf(stages[s][i], int64_t(s), int64_t(stages.size())))] = {s, i};
  }
  // Returns the place of a step; null if there is none of that name.
  const Place *find(const Key &key) const {
    auto [kind, virtualStage, microBatch] = key;
    if (virtualStage >= virtualStages_ || microBatch >= microBatches_)
      return nullptr;
    const Place &place = places_[indexOf(key)];
    return place.stage == nowhere ? nullptr : &place;
  }

private:
  static constexpr size_t kKinds = size_t(StepKind::W) + 1, nowhere = ~size_t(0);
  size_t indexOf(const Key &key) const {
    auto [kind, virtualStage, microBatch] = key;
    return (size_t(kind) * size_t(virtualStages_) + size_t(virtualStage)) * size_t(microBatches_) + size_t(microBatch);
  }
  int64_t chunks_ = 0, microBatches_ = 0, virtualStages_ = 0;
  std::vector<Place> places_;
};

// Returns whether a stage receives activations that it needs before the cotangents which come in the same column.
bool comesApart(const std::vector<MessageEnd> &ends, const std::vector<Step> &steps) {
  std::optional<size_t> lastForward, firstBackward;
  for (const MessageEnd &end : ends) {
    if (end.sends)
      return false;
    if (steps[end.step].kind == StepKind::F)
      lastForward = std::max(lastForward.value_or(0), end.step);
    else
      firstBackward = std::min(firstBackward.value_or(end.step), end.step);
  }
  return lastForward && firstBackward && *lastForward < *firstBackward;
}

} // namespace

std::optional<std::vector<std::vector<int64_t>>>
columnsOf(const std::vector<std::vector<Step>> &stages, int64_t chunks) {
  const Places places(stages);
  std::vector<std::vector<int64_t>> columns(stages.size());
  size_t left = 0;
  for (const auto &steps : stages)
    left += steps.size();
  for (bool moved = true; moved && left > 0;) {
    moved = false;
    for (size_t s = 0; s < stages.size(); ++s)
      while (columns[s].size() < stages[s].size()) {
        int64_t column = columns[s].empty() ? 0 : columns[s].back() + 1;
        if (auto need = neededBy(stages[s][columns[s].size()], int64_t(s), int64_t(stages.size()), chunks)) {
          const Place *from = places.find(*need);
          if (!from || from->step >= columns[from->stage].size())
            break;
          column = std::max(column, columns[from->stage][from->step] + 1);
        }
        columns[s].push_back(column);
        moved = true;
        --left;
      }
  }
  if (left > 0)
    return std::nullopt;
  return columns;
}

std::vector<DenseSlots> assignDenseSlots(const std::vector<Step> &steps, const std::set<StepKind> &kinds, int64_t chunks) {
  int64_t microBatches = 0;
  for (const Step &step : steps)
    microBatches = std::max(microBatches, step.microBatch + 1);
  bool isOf[size_t(StepKind::W) + 1] = {};
  for (StepKind kind : kinds)
    isOf[size_t(kind)] = true;
  auto touches = [&](const Step &step) { return step.chunk < chunks && isOf[size_t(step.kind)]; };
  std::vector<int64_t> ends(size_t(chunks * microBatches), -1); // last step that touches each micro-batch of a chunk
  auto endOf = [&](const Step &step) -> int64_t & { return ends[size_t(step.chunk * microBatches + step.microBatch)]; };
  for (size_t i = 0; i < steps.size(); ++i)
    if (touches(steps[i]))
      endOf(steps[i]) = int64_t(i);
  std::vector<DenseSlots> all(chunks);
  for (DenseSlots &slots : all)
    slots.of.assign(size_t(microBatches), -1), slots.freedBy.assign(size_t(microBatches), -1);
  std::vector<std::vector<int64_t>> free(chunks);    // slots that were ever taken, the least first
  std::vector<std::vector<int64_t>> freedBy(chunks); // by slot
  for (size_t i = 0; i < steps.size(); ++i) {
    if (!touches(steps[i]))
      continue;
    DenseSlots &slots = all[steps[i].chunk];
    std::vector<int64_t> &freeHere = free[steps[i].chunk], &freedHere = freedBy[steps[i].chunk];
    int64_t &slot = slots.of[steps[i].microBatch];
    if (slot < 0) {
      if (freeHere.empty()) {
        slot = slots.count++;
        freedHere.push_back(-1);
      } else {
        std::pop_heap(freeHere.begin(), freeHere.end(), std::greater<>());
        slot = freeHere.back();
        freeHere.pop_back();
      }
      slots.freedBy[steps[i].microBatch] = freedHere[slot];
    }
    if (endOf(steps[i]) == int64_t(i)) {
      freeHere.push_back(slot);
      std::push_heap(freeHere.begin(), freeHere.end(), std::greater<>());
      freedHere[slot] = int64_t(i);
    }
  }
  return all;
}

std::vector<Slots> assignSlots(const std::vector<Step> &steps, const std::set<StepKind> &kinds, int64_t chunks) {
  std::vector<Slots> all;
  for (const DenseSlots &dense : assignDenseSlots(steps, kinds, chunks)) {
    Slots &slots = all.emplace_back();
    slots.count = dense.count;
    for (size_t i = 0; i < dense.of.size(); ++i)
      if (dense.of[i] >= 0) {
        slots.of.emplace_hint(slots.of.end(), int64_t(i), dense.of[i]);
        slots.freedBy.emplace_hint(slots.freedBy.end(), int64_t(i), dense.freedBy[i]);
      }
  }
  return all;
}

Slots assignSlots(const std::vector<Step> &steps, int64_t chunk, const std::set<StepKind> &kinds) {
  return std::move(assignSlots(steps, kinds, chunk + 1)[chunk]);
}

std::vector<std::vector<Exchange>>
exchangesOf(const std::vector<std::vector<Step>> &stages,
            const std::vector<std::vector<int64_t>> &columns, int64_t chunks,
            const std::function<int64_t(size_t, size_t)> &freedBy,
            const std::function<bool(size_t, size_t, size_t)> &mayJoin) {
  const Places places(stages);
  int64_t count = int64_t(stages.size());
  // Orders exchanges: by column, by how many messages of the same channel left in it before.
  struct End {
    int64_t column, round;
    size_t stage;
    MessageEnd end;
  };
  std::vector<End> all;
  // Counts messages of each channel (kind, virtual stage) by column; those that were counted last are asked for first.
  std::vector<std::vector<std::pair<int64_t, int64_t>>> ofChannel(size_t(2 * count * chunks));
  for (size_t s = 0; s < stages.size(); ++s)
    for (size_t i = 0; i < stages[s].size(); ++i) {
      const Step &step = stages[s][i];
      auto need = neededBy(step, int64_t(s), count, chunks);
      if (!need)
        continue;
      const Place from = *places.find(*need);
      int64_t column = columns[from.stage][from.step];
      if (int64_t before = freedBy(s, i); before >= 0)
        column = std::max(column, columns[s][before]);
      auto &counts = ofChannel[size_t((step.kind == StepKind::B ? count * chunks : 0) + step.chunk * count + int64_t(s))];
      auto at = std::find_if(counts.rbegin(), counts.rend(), [&](const auto &one) { return one.first == column; });
      int64_t round = at == counts.rend() ? 0 : at->second++;
      if (at == counts.rend())
        counts.emplace_back(column, 1);
      all.push_back({column, round, from.stage, {true, from.step}});
      all.push_back({column, round, s, {false, i}});
    }
  std::stable_sort(all.begin(), all.end(), [](const End &a, const End &b) {
    return std::tie(a.column, a.round, a.stage) < std::tie(b.column, b.round, b.stage);
  });
  std::vector<std::vector<Exchange>> exchanges(stages.size());
  auto emit = [&](int64_t at, size_t s, std::vector<MessageEnd> ends) {
    if (ends.empty())
      return;
    // Sends come first, then by direction and chunk: equal exchanges are one procedure.
    std::stable_sort(ends.begin(), ends.end(), [&](const MessageEnd &a, const MessageEnd &b) {
      auto key = [&](const MessageEnd &end) {
        const Step &step = stages[s][end.step];
        return std::tuple(!end.sends, step.kind, step.chunk);
      };
      return key(a) < key(b);
    });
    size_t after = std::upper_bound(columns[s].begin(), columns[s].end(), at) - columns[s].begin();
    exchanges[s].push_back({after, std::move(ends)});
  };
  bool hasBackward = std::any_of(stages.front().begin(), stages.front().end(),
                                 [](const Step &step) { return step.kind == StepKind::B; });
  for (size_t begin = 0, next = 0; begin < all.size(); begin = next) {
    const int64_t column = all[begin].column;
    std::vector<std::pair<size_t, std::vector<MessageEnd>>> ofStages; // of one time
    for (; next < all.size() && all[next].column == column && all[next].round == all[begin].round; ++next) {
      if (ofStages.empty() || ofStages.back().first != all[next].stage)
        ofStages.push_back({all[next].stage, {}});
      ofStages.back().second.push_back(all[next].end);
    }
    bool joined = true;
    for (const auto &[s, ends] : ofStages)
      for (const MessageEnd &sent : ends)
        for (const MessageEnd &needed : ends)
          if (sent.sends && !needed.sends)
            joined &= mayJoin(s, sent.step, needed.step);
    for (const auto &[s, ends] : ofStages) {
      if (joined && comesApart(ends, stages[s])) {
        for (StepKind kind : {StepKind::F, StepKind::B}) {
          std::vector<MessageEnd> some;
          for (const MessageEnd &end : ends)
            if (stages[s][end.step].kind == kind)
              some.push_back(end);
          emit(column, s, std::move(some));
        }
        continue;
      }
      if (joined) {
        emit(column, s, ends);
        continue;
      }
      // Without backwards messages go one way along a row of stages, whose last one sends nothing.
      for (int part : {0, 1}) {
        std::vector<MessageEnd> some;
        for (const MessageEnd &end : ends)
          if ((hasBackward ? stages[s][end.step].kind == StepKind::F : !end.sends) == bool(part))
            some.push_back(end);
        emit(column, s, std::move(some));
      }
    }
  }
  return exchanges;
}

} // namespace llmc
