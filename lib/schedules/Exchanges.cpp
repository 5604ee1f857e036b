#include "lib/schedules/Exchanges.h"

#include <algorithm>
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

std::map<Key, Place> placesOf(const std::vector<std::vector<Step>> &stages) {
  std::map<Key, Place> places;
  for (size_t s = 0; s < stages.size(); ++s)
    for (size_t i = 0; i < stages[s].size(); ++i)
      places[keyOf(stages[s][i], int64_t(s), int64_t(stages.size()))] = {s, i};
  return places;
}

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
  std::map<Key, Place> places = placesOf(stages);
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
          auto from = places.find(*need);
          if (from == places.end() || from->second.step >= columns[from->second.stage].size())
            break;
          column = std::max(column, columns[from->second.stage][from->second.step] + 1);
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

Slots assignSlots(const std::vector<Step> &steps, int64_t chunk, const std::set<StepKind> &kinds) {
  std::map<int64_t, int64_t> ends; // by micro-batch
  auto touches = [&](const Step &step) { return step.chunk == chunk && kinds.count(step.kind); };
  for (size_t i = 0; i < steps.size(); ++i)
    if (touches(steps[i]))
      ends[steps[i].microBatch] = int64_t(i);
  Slots slots;
  std::set<int64_t> free;            // slots that were ever taken
  std::map<int64_t, int64_t> freedBy; // by slot
  for (size_t i = 0; i < steps.size(); ++i) {
    if (!touches(steps[i]))
      continue;
    auto [at, isNew] = slots.of.insert({steps[i].microBatch, 0});
    if (isNew) {
      at->second = free.empty() ? slots.count++ : *free.begin();
      free.erase(at->second);
      auto before = freedBy.find(at->second);
      slots.freedBy[steps[i].microBatch] = before == freedBy.end() ? -1 : before->second;
    }
    if (ends[steps[i].microBatch] == int64_t(i)) {
      free.insert(at->second);
      freedBy[at->second] = int64_t(i);
    }
  }
  return slots;
}

std::vector<std::vector<Exchange>>
exchangesOf(const std::vector<std::vector<Step>> &stages,
            const std::vector<std::vector<int64_t>> &columns, int64_t chunks,
            const std::function<int64_t(size_t, size_t)> &freedBy,
            const std::function<bool(size_t, size_t, size_t)> &mayJoin) {
  std::map<Key, Place> places = placesOf(stages);
  int64_t count = int64_t(stages.size());
  // Orders exchanges: by column, by how many messages of the same channel left in it before.
  using Time = std::pair<int64_t, int64_t>;
  std::map<Time, std::map<size_t, std::vector<MessageEnd>>> times; // of each stage
  std::map<std::tuple<StepKind, int64_t, int64_t>, int64_t> ofChannel; // kind, virtual stage, column
  for (size_t s = 0; s < stages.size(); ++s)
    for (size_t i = 0; i < stages[s].size(); ++i) {
      auto need = neededBy(stages[s][i], int64_t(s), count, chunks);
      if (!need)
        continue;
      Place from = places.at(*need);
      int64_t column = columns[from.stage][from.step];
      if (int64_t before = freedBy(s, i); before >= 0)
        column = std::max(column, columns[s][before]);
      int64_t round = ofChannel[{stages[s][i].kind, stages[s][i].chunk * count + int64_t(s), column}]++;
      auto &at = times[{column, round}];
      at[from.stage].push_back({true, from.step});
      at[s].push_back({false, i});
    }
  std::vector<std::vector<Exchange>> exchanges(stages.size());
  auto emit = [&](int64_t column, size_t s, std::vector<MessageEnd> ends) {
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
    size_t after = std::upper_bound(columns[s].begin(), columns[s].end(), column) - columns[s].begin();
    exchanges[s].push_back({after, std::move(ends)});
  };
  bool hasBackward = std::any_of(stages.front().begin(), stages.front().end(),
                                 [](const Step &step) { return step.kind == StepKind::B; });
  for (const auto &[time, ofStages] : times) {
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
          emit(time.first, s, std::move(some));
        }
        continue;
      }
      if (joined) {
        emit(time.first, s, ends);
        continue;
      }
      // Without backwards messages go one way along a row of stages, whose last one sends nothing.
      for (int part : {0, 1}) {
        std::vector<MessageEnd> some;
        for (const MessageEnd &end : ends)
          if ((hasBackward ? stages[s][end.step].kind == StepKind::F : !end.sends) == bool(part))
            some.push_back(end);
        emit(time.first, s, std::move(some));
      }
    }
  }
  return exchanges;
}

} // namespace llmc
