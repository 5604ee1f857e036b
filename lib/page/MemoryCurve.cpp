#include "lib/page/MemoryCurve.h"

#include "lib/page/Words.h"
#include "lib/planfile/Trace.h"
#include "lib/report/Memory.h"
#include "lib/report/Timeline.h"
#include "lib/support/Counted.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

using namespace llmc;
using namespace llmc::page;
using support::OrderedJson;
using support::text;

namespace {

using Ranges = std::vector<std::pair<uint64_t, uint64_t>>;

// Returns the bytes that any of the ranges has, less those of `without`.
uint64_t countBytes(Ranges ranges, const Ranges &without) {
  auto unite = [](Ranges all) {
    std::sort(all.begin(), all.end());
    Ranges made;
    for (auto [begin, end] : all)
      if (!made.empty() && begin <= made.back().second)
        made.back().second = std::max(made.back().second, end);
      else
        made.emplace_back(begin, end);
    return made;
  };
  auto sum = [](const Ranges &all) {
    uint64_t bytes = 0;
    for (auto [begin, end] : all)
      bytes += end - begin;
    return bytes;
  };
  Ranges both = ranges;
  both.insert(both.end(), without.begin(), without.end());
  return sum(unite(std::move(both))) - sum(unite(without));
}

// Holds one lifetime of a slot: of a micro-batch of a chunk.
struct Life {
  Span span;
  uint64_t bytes = 0;
  uint32_t chunk = 0, microBatch = 0;
};

class Curve {
public:
  Curve(const Subject &subject, uint32_t stage)
      : subject(subject), index(stage), stage(*subject.program.stages[stage]), kinds(report::memoryOf(subject.program, stage)) {
    measureSlots();
    measureWorkspace();
    findLives();
    walk();
  }

  OrderedJson json() const {
    OrderedJson list = OrderedJson::array();
    for (const auto &[kind, bytes] : kinds)
      list.push_back({kind, bytes});
    return {{"stage", index},
            {"rank", subject.ranks[index]->rank},
            {"arena_bytes", stage.arena_bytes},
            {"kinds", list},
            {"states_bytes", states()},
            {"slots", slotBytes.size()},
            {"curve", {{"seconds", seconds}, {"activations", activations}, {"workspace", workspace}}},
            {"peak", peakJson()}};
  }

private:
  uint64_t of(std::string_view kind) const {
    for (const auto &[name, bytes] : kinds)
      if (name == kind)
        return bytes;
    return 0;
  }
  uint64_t scratch() const { return of("workspace") + of("gathered") + of("communication"); }
  // Counts what is there all the time, gaps too.
  uint64_t states() const { return stage.arena_bytes - std::min(stage.arena_bytes, of("activations") + scratch()); }

  // Collects the bytes of each slot, from one row of each procedure and slots.
  void measureSlots() {
    std::map<std::pair<uint32_t, uint32_t>, Ranges> found; // pool, slot
    std::set<std::vector<uint32_t>> seen;
    for (const auto &entry : stage.table) {
      std::vector<uint32_t> place = {entry->procedure};
      for (uint32_t lane = 0; lane <= entry->more.size(); ++lane)
        place.push_back(planfile::slotOf(*entry, lane).slot());
      if (seen.insert(std::move(place)).second)
        for (const auto &instruction : stage.procedures[entry->procedure]->instructions)
          planfile::forEachAccess(*instruction, *entry, [&](const planfile::ByteAccess &access) {
            planfile::SlotRef slot = planfile::slotOf(*entry, access.lane);
            if (access.slotted)
              found[{slot.pool(), slot.slot()}].emplace_back(access.begin, access.end);
          });
    }
    for (auto &[slot, ranges] : found)
      slotBytes[slot] = countBytes(std::move(ranges), {});
  }

  void measureWorkspace() {
    Ranges fixed;
    auto add = [&](const planfile::BufferRefT &ref) { fixed.emplace_back(ref.offset, ref.offset + ref.size); };
    for (const auto &state : stage.states)
      add(*state->buffer);
    for (const auto *ref : planfile::readByHost(stage))
      add(*ref);
    for (const auto &scalar : stage.host_scalars)
      add(*scalar->buffer);
    for (const auto &procedure : stage.procedures) {
      Ranges touched;
      for (const auto &instruction : procedure->instructions)
        planfile::forEachAccess(*instruction, 0, [&](const planfile::ByteAccess &access) {
          if (!access.slotted)
            touched.emplace_back(access.begin, access.end);
        });
      scratchOf.push_back(std::min(scratch(), countBytes(std::move(touched), fixed)));
    }
  }

  void findLives() {
    std::map<std::tuple<uint32_t, uint32_t, uint32_t>, Life> found; // pool, micro-batch, slot
    for (size_t row = 0; row < stage.table.size(); ++row) {
      const planfile::EntryT &entry = *stage.table[row];
      const Span &span = subject.entries[index][row];
      planfile::ProcedureKind kind = stage.procedures[entry.procedure]->kind;
      if (!span.ran() || kind == planfile::ProcedureKind::Begin || kind == planfile::ProcedureKind::Update)
        continue;
      for (uint32_t lane = 0; lane <= entry.more.size(); ++lane) {
        planfile::SlotRef slot = planfile::slotOf(entry, lane);
        auto bytes = slotBytes.find({slot.pool(), slot.slot()});
        if (bytes == slotBytes.end())
          continue;
        Life &life = found[{slot.pool(), slot.micro_batch(), slot.slot()}];
        life.span.add(span.begin, span.end);
        life.bytes = bytes->second;
        life.chunk = stage.pools[slot.pool()]->chunk;
        life.microBatch = slot.micro_batch();
      }
    }
    // The next micro-batch of a slot begins where the one before it ends.
    std::map<std::pair<uint32_t, uint32_t>, std::vector<Life>> bySlot;
    for (const auto &[place, life] : found)
      bySlot[{std::get<0>(place), std::get<2>(place)}].push_back(life);
    for (auto &[slot, list] : bySlot) {
      std::sort(list.begin(), list.end(), [](const Life &x, const Life &y) { return x.span.begin < y.span.begin; });
      for (size_t i = 0; i + 1 < list.size(); ++i)
        list[i].span.end = std::min(list[i].span.end, list[i + 1].span.begin);
      lives.insert(lives.end(), list.begin(), list.end());
    }
  }

  // Walks over all times at which something begins or ends.
  void walk() {
    struct Change {
      int64_t bytes = 0;
      std::vector<size_t> begins, ends; // rows
    };
    std::map<double, Change> changes = {{0.0, {}}};
    for (const Life &life : lives) {
      changes[life.span.begin].bytes += int64_t(life.bytes);
      changes[life.span.end].bytes -= int64_t(life.bytes);
    }
    for (size_t row = 0; row < stage.table.size(); ++row)
      if (const Span &span = subject.entries[index][row]; span.ran()) {
        changes[span.begin].begins.push_back(row);
        changes[span.end].ends.push_back(row);
      }
    int64_t alive = 0;
    std::multiset<std::pair<uint64_t, size_t>> running; // bytes of workspace, row
    auto place = [&](size_t row) { return std::pair(scratchOf[stage.table[row]->procedure], row); };
    for (const auto &[when, change] : changes) {
      alive += change.bytes;
      for (size_t row : change.begins)
        running.insert(place(row));
      for (size_t row : change.ends)
        running.erase(running.find(place(row)));
      uint64_t scratch = running.empty() ? 0 : running.rbegin()->first;
      seconds.push_back(when);
      activations.push_back(uint64_t(alive));
      workspace.push_back(scratch);
      if (seconds.size() == 1 || uint64_t(alive) + scratch > activations[peak] + workspace[peak]) {
        peak = seconds.size() - 1;
        peakRow = running.empty() ? -1 : int64_t(running.rbegin()->second);
      }
    }
  }

  OrderedJson peakJson() const {
    std::set<std::pair<uint32_t, uint32_t>> alive; // micro-batch, chunk
    double at = seconds[peak];
    for (const Life &life : lives)
      if (life.span.begin <= at && at < life.span.end)
        alive.insert({life.microBatch, life.chunk});
    uint64_t bytes = states() + activations[peak] + workspace[peak];
    return {{"at_s", at},
            {"bytes", bytes},
            {"states", states()},
            {"activations", activations[peak]},
            {"workspace", workspace[peak]},
            {"slots", alive.size()},
            {"text", peakText(alive, bytes)}};
  }

  std::string peakText(const std::set<std::pair<uint32_t, uint32_t>> &alive, uint64_t bytes) const {
    double step = subject.forecast.timeline.step;
    std::string out = text("Stage ", index, " peaks at ", bytesText(double(bytes)), " of its arena of ",
                           bytesText(double(stage.arena_bytes)), ", ", secondsText(seconds[peak]), " into the step (",
                           percentText(seconds[peak], step), ")");
    if (peakRow >= 0) {
      const planfile::EntryT &entry = *stage.table[size_t(peakRow)];
      const planfile::ProcedureT &procedure = *stage.procedures[entry.procedure];
      out += text(", in ", phaseText(report::letterOf(procedure.kind)));
      if (procedure.kind != planfile::ProcedureKind::Update && procedure.kind != planfile::ProcedureKind::Begin)
        out += text(" of micro-batch ", entry.micro_batch, stage.chunks.size() > 1 ? text(", chunk ", procedure.chunk) : "");
    }
    out += text(". Alive are states (", bytesText(double(states())), statesText(), ")");
    if (!alive.empty()) {
      bool many = stage.chunks.size() > 1;
      out += text(", activations of ", many ? text(support::counted(alive.size(), "pair"), " of chunk and micro-batch")
                                            : support::counted(alive.size(), "micro-batch"),
                  " (", many ? "" : rangesText(alive) + "; ", bytesText(double(activations[peak])), ")");
    }
    if (workspace[peak] > 0)
      out += text(", and workspace (", bytesText(double(workspace[peak])), ")");
    return out + ".";
  }

  // Lists micro-batches as ranges: "0-3, 7".
  static std::string rangesText(const std::set<std::pair<uint32_t, uint32_t>> &alive) {
    std::string out;
    for (auto it = alive.begin(); it != alive.end();) {
      uint32_t first = it->first, last = first;
      while (++it != alive.end() && it->first == last + 1)
        ++last;
      out += text(out.empty() ? "" : ", ", first, last > first ? text("-", last) : "");
    }
    return out;
  }

  // Names the largest of the states.
  std::string statesText() const {
    auto most = kinds.end();
    for (auto it = kinds.begin(); it != kinds.end(); ++it)
      if (it->first != "activations" && it->first != "workspace" && it->first != "gathered" && it->first != "communication" &&
          (most == kinds.end() || it->second > most->second))
        most = it;
    return most == kinds.end() || most->second == 0 ? "" : text(", most of it ", most->first);
  }

  const Subject &subject;
  const uint32_t index;
  const planfile::StageT &stage;
  const report::MemoryByKind kinds;
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> slotBytes; // by pool and slot
  std::vector<uint64_t> scratchOf;                             // by procedure
  std::vector<Life> lives;
  std::vector<double> seconds;
  std::vector<uint64_t> activations, workspace;
  size_t peak = 0;
  int64_t peakRow = -1;
};

} // namespace

OrderedJson page::memoryJson(const Subject &subject) {
  OrderedJson all = OrderedJson::array();
  for (uint32_t stage = 0; stage < subject.stages(); ++stage)
    all.push_back(Curve(subject, stage).json());
  return all;
}
