#include "lib/planfile/CheckTable.h"

#include <algorithm>
#include <array>
#include <map>

namespace llmc::planfile {
namespace {

// Lists what a micro-batch goes through on a chunk, in this order: forward, backward, weight
// gradients (where the backward is split).
enum Pass { F, B, W, kPasses };

std::optional<Pass> passOf(ProcedureKind kind) {
  switch (kind) {
  case ProcedureKind::Forward:
    return F;
  case ProcedureKind::Backward:
  case ProcedureKind::BackwardLast:
    return B;
  case ProcedureKind::Weight:
  case ProcedureKind::WeightLast:
    return W;
  case ProcedureKind::Begin:
  case ProcedureKind::Update:
  case ProcedureKind::Exchange:
    break;
  }
  return std::nullopt;
}

const char *verb(Pass pass) {
  return pass == F ? "goes forward" : pass == B ? "goes backward" : "adds to its weights";
}

const char *nameOf(ProcedureKind kind) {
  std::optional<Pass> pass = passOf(kind);
  return !pass ? "through an exchange" : *pass == F ? "forward" : *pass == B ? "backward" : "to its weights";
}

// Checks the table of one stage.
class Table {
public:
  Table(const ProgramT &program, uint32_t index, Findings &findings)
      : program(program), stage(*program.stages[index]), index(index), findings(findings),
        chunks(stage.chunks.size()) {
    for (Chunk &chunk : chunks)
      for (auto &rows : chunk.rows)
        rows.assign(program.micro_batches, -1);
    for (const auto &entry : stage.table)
      if (passOf(procedureOf(*entry).kind) == W)
        chunks[procedureOf(*entry).chunk].split = true;
  }

  void run() {
    for (row = 0; row < stage.table.size(); ++row) {
      const EntryT &entry = *stage.table[row];
      ProcedureKind kind = procedureOf(entry).kind;
      if (kind == ProcedureKind::Begin || kind == ProcedureKind::Update)
        checkOnce(kind);
      else
        checkLanes(entry);
      if (passOf(kind))
        checkPass(entry, *passOf(kind));
    }
    checkHolders();
    for (uint32_t c = 0; c < chunks.size(); ++c) {
      checkLast(c);
      checkCounts(c);
    }
    checkMessages();
    checkUpdates();
  }

private:
  struct Chunk {
    bool split = false; // its backward is B and W
    std::array<std::vector<int64_t>, kPasses> rows; // by micro-batch; -1: none
    int64_t lastBackward = -1, marked = -1;         // rows
    size_t marks = 0;
  };
  struct Held {
    uint32_t slot;
    ProcedureKind by;
    int64_t first = -1, last = -1; // rows that compute
  };

  const ProcedureT &procedureOf(const EntryT &entry) const {
    return *stage.procedures[entry.procedure];
  }
  bool training() const { return program.mode == Mode::Train; }

  void report(std::string message, std::string fix, int64_t microBatch = -1,
              std::string procedure = "") {
    Finding finding;
    finding.stage = static_cast<int>(index);
    finding.procedure = std::move(procedure);
    finding.microBatch = microBatch;
    finding.message = std::move(message);
    finding.fix = std::move(fix);
    findings.add(std::move(finding));
  }
  void reportRow(std::string message, std::string fix, uint32_t microBatch) {
    report(std::move(message), std::move(fix), microBatch, procedureOf(*stage.table[row]).name);
  }

  // Returns " of chunk C", or "" if the stage has one chunk only.
  std::string ofChunk(uint32_t chunk) const {
    return chunks.size() == 1 ? "" : " of chunk " + std::to_string(chunk);
  }

  void checkOnce(ProcedureKind kind) {
    bool begin = kind == ProcedureKind::Begin;
    uint32_t m = stage.table[row]->micro_batch;
    if (begin && (++begins > 1 || row != 0))
      reportRow("begin must run once, before all else", "make it the first row of the table", m);
    if (!begin && (++updates > 1 || row + 1 != stage.table.size()))
      reportRow("update must run once, after all else", "make it the last row of the table", m);
  }

  void checkPass(const EntryT &entry, Pass pass) {
    uint32_t m = entry.micro_batch, c = procedureOf(entry).chunk;
    Chunk &chunk = chunks[c];
    int64_t &at = chunk.rows[pass][m];
    std::string what = "a micro-batch" + ofChunk(c);
    if (at >= 0)
      reportRow(what + " must go through each pass once, it " + verb(pass) + " again",
                "drop the second row", m);
    if (pass == B && chunk.rows[F][m] < 0)
      reportRow(what + " goes backward before it went forward", "reorder the table", m);
    if (pass == W && chunk.rows[B][m] < 0)
      reportRow(what + " adds to its weights before it went backward", "reorder the table", m);
    at = static_cast<int64_t>(row);
    if (pass == (chunk.split ? W : B))
      chunk.lastBackward = at;
    ProcedureKind kind = procedureOf(entry).kind;
    if (kind != ProcedureKind::BackwardLast && kind != ProcedureKind::WeightLast)
      return;
    ++chunk.marks;
    chunk.marked = at;
    if (chunk.split && pass == B)
      reportRow("the backward" + ofChunk(c) + " is split, so its weights start the reductions",
                "mark the last row of the weights instead", m);
  }

  // Checks that each micro-batch of a chunk has one slot of a pool in all procedures that use it.
  void checkLanes(const EntryT &entry) {
    const ProcedureT &procedure = procedureOf(entry);
    bool computes = passOf(procedure.kind).has_value();
    for (uint32_t lane = 0; lane <= entry.more.size(); ++lane) {
      SlotRef at = slotOf(entry, lane);
      uint32_t m = at.micro_batch();
      if (computes && stage.pools[at.pool()]->chunk != procedure.chunk)
        reportRow("a procedure of chunk " + std::to_string(procedure.chunk) +
                      " runs in a slot of pool " + std::to_string(at.pool()) + ", which is of chunk " +
                      std::to_string(stage.pools[at.pool()]->chunk),
                  "use a pool of its own chunk", m);
      if (computes && m != entry.micro_batch)
        reportRow("a procedure runs for micro-batches " + std::to_string(entry.micro_batch) +
                      " and " + std::to_string(m),
                  "give all its lanes the same micro-batch", m);
      auto [it, isNew] = held.try_emplace({at.pool(), m}, Held{at.slot(), procedure.kind});
      Held &slot = it->second;
      if (!isNew && slot.slot != at.slot())
        reportRow(std::string("a micro-batch goes ") + nameOf(slot.by) + " in slot " +
                      std::to_string(slot.slot) + " and " + nameOf(procedure.kind) + " in slot " +
                      std::to_string(at.slot()),
                  "use one slot for all", m);
      if (!computes)
        continue;
      slot.first = slot.first < 0 ? static_cast<int64_t>(row) : slot.first;
      slot.last = static_cast<int64_t>(row);
    }
  }

  // Checks that no two micro-batches hold a slot at once. The first procedure of a micro-batch
  // takes it, the last one frees it; what messages do to it before and after is checked by
  // happens-before.
  void checkHolders() {
    struct Holder {
      int64_t first, last;
      uint32_t microBatch;
    };
    std::map<std::pair<uint32_t, uint32_t>, std::vector<Holder>> bySlot;
    for (const auto &[key, slot] : held)
      if (slot.first >= 0)
        bySlot[{key.first, slot.slot}].push_back({slot.first, slot.last, key.second});
    for (auto &[slot, holders] : bySlot) {
      std::sort(holders.begin(), holders.end(),
                [](const Holder &a, const Holder &b) { return a.first < b.first; });
      for (size_t i = 1; i < holders.size(); ++i) {
        const Holder &before = holders[i - 1];
        if (holders[i].first > before.last)
          continue;
        row = static_cast<size_t>(holders[i].first);
        reportRow("slot " + std::to_string(slot.second) +
                      (stage.pools.size() == 1 ? "" : " of pool " + std::to_string(slot.first)) +
                      " still holds micro-batch " + std::to_string(before.microBatch) +
                      ", whose last pass has not run",
                  "give the pool more slots, or reuse a slot only after the last pass",
                  holders[i].microBatch);
      }
    }
  }

  void checkLast(uint32_t c) {
    const Chunk &chunk = chunks[c];
    if (chunk.marks > 1 || (chunk.marks == 1 && chunk.marked != chunk.lastBackward))
      report("only the last backward" + ofChunk(c) +
                 " in a step may be the one that starts the reductions",
             "use it for the last row, the plain one before");
  }

  void checkCounts(uint32_t c) {
    const Chunk &chunk = chunks[c];
    for (uint32_t m = 0; m < program.micro_batches; ++m) {
      for (Pass pass : {F, B, W}) {
        bool due = pass == F || (training() && (pass == B || chunk.split));
        if (due && chunk.rows[pass][m] < 0)
          report("the micro-batch never " + std::string(verb(pass)) +
                     (chunks.size() == 1 ? "" : " on chunk " + std::to_string(c)),
                 "add its row to the table", m);
      }
      if (!training() && chunk.rows[B][m] >= 0)
        report("a plan for inference runs a backward", "drop the row", m);
    }
  }

  // Checks that each message crosses its stage boundary once per micro-batch. A boundary is one
  // direction, peer, channel, phase and chunk.
  void checkMessages() {
    using Boundary = std::tuple<bool, int64_t, uint32_t, Phase, uint32_t>;
    std::map<Boundary, std::vector<uint32_t>> counts;
    std::map<Boundary, const InstructionT *> example;
    for (const auto &entry : stage.table) {
      const ProcedureT &procedure = procedureOf(*entry);
      if (procedure.kind == ProcedureKind::Begin || procedure.kind == ProcedureKind::Update)
        continue;
      for (const auto &inst : procedure.instructions) {
        std::optional<Message> message = messageOf(*inst);
        if (!message || message->axis != program.stage_axis)
          continue;
        SlotRef at = slotOf(*entry, laneOf(*inst));
        Boundary boundary{message->sends, peerStage(program, index, *message), message->channel,
                      inst->phase, stage.pools[at.pool()]->chunk};
        auto &count = counts[boundary];
        count.resize(program.micro_batches, 0);
        ++count[at.micro_batch()];
        example.emplace(boundary, inst.get());
      }
    }
    for (const auto &[boundary, count] : counts)
      for (uint32_t m = 0; m < program.micro_batches; ++m)
        if (count[m] != 1)
          report(describeBody(program, *example[boundary]) + ofChunk(std::get<4>(boundary)) +
                     " runs " + std::to_string(count[m]) + " times for the micro-batch, not once",
                 "exchange each message of each micro-batch once", m);
  }

  void checkUpdates() {
    if (updates != (training() ? 1u : 0u))
      report("the table runs " + std::to_string(updates) + " updates a step, not " +
                 (training() ? "one" : "none"),
             training() ? "end the table with the update" : "drop the update");
  }

  const ProgramT &program;
  const StageT &stage;
  uint32_t index;
  Findings &findings;
  size_t row = 0;
  size_t begins = 0, updates = 0;
  std::vector<Chunk> chunks;
  std::map<std::pair<uint32_t, uint32_t>, Held> held; // by pool and micro-batch
};

} // namespace

void checkTable(const ProgramT &program, Findings &findings) {
  for (uint32_t s = 0; s < program.stages.size(); ++s)
    Table(program, s, findings).run();
}

} // namespace llmc::planfile
