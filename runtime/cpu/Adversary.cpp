#include "runtime/cpu/Adversary.h"

#include "runtime/cpu/BlockedReport.h"
#include "runtime/cpu/Poison.h"

#include <algorithm>

using namespace llmc;
using namespace llmc::runtime;
using planfile::Body;
using planfile::ByteAccess;
using support::text;

namespace {

bool isTransfer(Body kind) {
  return kind == Body::Collective || kind == Body::Send || kind == Body::Recv;
}

std::string range(uint64_t begin, uint64_t end) {
  return text("arena bytes [", begin, ", ", end, ")");
}

} // namespace

Adversary::Adversary(LocalRanks &ranks, StreamEngine &engine, uint64_t seed)
    : ranks_(ranks), engine_(engine), trace_(planfile::buildTrace(ranks.program(), 1)),
      random_(seed) {
  for (const auto &stage : ranks.stages()) {
    values_.emplace_back(trace_, stage->stage);
    auto &first = firstNodes_.emplace_back();
    uint32_t node = 0;
    for (const StageProgram::Entry &entry : stage->table) {
      first.push_back(node);
      node += static_cast<uint32_t>(stage->plan->procedures[entry.procedure]->instructions.size());
    }
  }
  states_.resize(ranks.size());
  ranks.deferMessages();
}

bool Adversary::runStep() {
  startStep();
  bool unfinished = false;
  while (collectChoices(unfinished)) {
    runChoice();
    if (engine_.failed())
      return false;
  }
  if (unfinished)
    engine_.fail(blockedReport(ranks_));
  return !unfinished;
}

void Adversary::startStep() {
  drawPolicy();
  transfers_.clear();
  for (const auto &rank : ranks_.all()) {
    const StageValues &values = values_[rank->program->stage];
    RankState &state = states_[rank->id];
    state.nodes.assign(values.reads.size(), NotBegun);
    state.pending.resize(values.values.size());
    for (size_t v = 0; v < values.values.size(); ++v)
      state.pending[v] = values.values[v].readers;
    state.stashes.assign(rank->streams.size(), {});
    uint64_t from = 0;
    for (auto [begin, end] : values.persistent) {
      poison(rank->arena.data(), from, begin);
      from = end;
    }
    poison(rank->arena.data(), from, rank->arena.size());
  }
}

// Draws the policy of a step: how eager each stream is, how lazy transfers are, how many
// instructions run in a burst. Uniform draws alone rarely let one stream run far ahead of
// another. Transfers that are held back wait until nothing else can run; the latest of them
// completes first.
void Adversary::drawPolicy() {
  constexpr uint32_t eagerness[] = {1, 1, 16, 256};
  constexpr uint32_t laziness[] = {0, 0, 1, 64}; // 0: only when nothing else can run
  constexpr uint32_t held[] = {0, 1, 4, 8};
  constexpr uint32_t bursts[] = {1, 4, 32};
  weights_.clear();
  for (const auto &rank : ranks_.all()) {
    auto &weights = weights_.emplace_back();
    for (size_t s = 0; s < rank->streams.size(); ++s)
      weights.push_back(eagerness[draw(std::size(eagerness))]);
  }
  transferWeight_ = laziness[draw(std::size(laziness))];
  heldEighths_ = held[draw(std::size(held))];
  burst_ = bursts[draw(std::size(bursts))];
}

Site Adversary::siteOf(StreamChoice turn) {
  Rank &rank = ranks_[turn.rank];
  Stream &stream = rank.streams[turn.stream];
  const Op *op = rank.current(turn.stream);
  return {rank, stream, rank.program->table[stream.entry], op[turn.member], 0, turn.member};
}

bool Adversary::runnable(const Site &site) const {
  const auto &[rank, stream, entry, op, worker, member] = site;
  if (site.flight().posted)
    return false; // complete() advances it
  if (op.kind == Body::Wait)
    return StreamEngine::reached(site);
  if (op.kind == Body::Send || op.kind == Body::Recv) {
    const MessageEnd &end = rank.messages[op.index];
    return StreamEngine::mayPost(site) && !end.channel->busy(end.side);
  }
  return true;
}

bool Adversary::collectChoices(bool &unfinished) {
  unfinished = false;
  choices_.clear();
  readyTransfers_.clear();
  heldTransfers_.clear();
  for (const auto &rank : ranks_.all())
    for (uint32_t s = 0; s < rank->streams.size(); ++s) {
      const Op *op = rank->current(s);
      if (!op)
        continue;
      unfinished = true;
      for (uint32_t i = 0; i < op->members; ++i)
        if (runnable(siteOf({rank->id, s, i})))
          choices_.push_back({{rank->id, s, i}, weights_[rank->id][s]});
    }
  for (size_t t = 0; t < transfers_.size(); ++t)
    if (transfers_[t].members.size() == transfers_[t].size)
      (transfers_[t].held ? heldTransfers_ : readyTransfers_).push_back(t);
  return !choices_.empty() || !readyTransfers_.empty() || !heldTransfers_.empty();
}

void Adversary::runChoice() {
  uint64_t transfers = readyTransfers_.size() * transferWeight_, total = transfers;
  for (const auto &[turn, weight] : choices_)
    total += weight;
  if (choices_.empty() && readyTransfers_.empty())
    return complete(heldTransfers_.back());
  uint64_t at = total ? draw(total) : 0;
  if (choices_.empty() || at < transfers)
    return complete(readyTransfers_[draw(readyTransfers_.size())]);
  at -= transfers;
  size_t choice = 0;
  for (; at >= choices_[choice].second; ++choice)
    at -= choices_[choice].second;
  runBurst(choices_[choice].first);
}

void Adversary::runBurst(StreamChoice turn) {
  Rank &rank = ranks_[turn.rank];
  Stream &stream = rank.streams[turn.stream];
  for (uint64_t left = 1 + draw(burst_); left > 0; --left) {
    if (!rank.current(turn.stream))
      return;
    Site site = siteOf(turn);
    if (!runnable(site) || !begin(site))
      return;
    if (isTransfer(site.op.kind))
      return post(site, turn);
    engine_.step(site);
    if (engine_.failed())
      return;
    end(site);
    ++stream.position;
    turn.member = 0;
  }
}

void Adversary::post(const Site &site, StreamChoice turn) {
  Transfer made;
  bool posted;
  if (site.op.kind == Body::Collective) {
    made.communicator = site.rank.members[site.op.index].communicator;
    made.size = made.communicator->ranks().size();
    posted = engine_.postCollective(site);
  } else {
    made.channel = site.rank.messages[site.op.index].channel;
    posted = engine_.postMessage(site);
  }
  if (!posted)
    return;
  poisonTarget(site, turn);
  // Joins the transfer in flight of this communicator or channel, of which there is at most
  // one.
  auto at = std::find_if(transfers_.begin(), transfers_.end(), [&](const Transfer &other) {
    return other.communicator == made.communicator && other.channel == made.channel;
  });
  if (at == transfers_.end()) {
    made.held = draw(8) < heldEighths_;
    at = transfers_.insert(transfers_.end(), std::move(made));
  }
  at->members.push_back(turn);
}

void Adversary::complete(size_t index) {
  Transfer transfer = std::move(transfers_[index]);
  transfers_.erase(transfers_.begin() + static_cast<ptrdiff_t>(index));
  for (StreamChoice turn : transfer.members) {
    SavedSource &stash = states_[turn.rank].stashes[turn.stream];
    std::byte *arena = ranks_[turn.rank].arena.data();
    std::copy(stash.bytes.begin(), stash.bytes.end(), arena + stash.begin);
    stash.bytes.clear();
  }
  Site last = siteOf(transfer.members.back());
  if (transfer.communicator) {
    for (StreamChoice turn : transfer.members)
      openRows(siteOf(turn));
    transfer.communicator->poll(last.flight().number, engine_.wake());
  } else {
    Channel::Side side = last.rank.messages[last.op.index].side;
    if (support::Status s = transfer.channel->finish(side, engine_.wake()); !s)
      return engine_.fail(last, s.message());
  }
  for (StreamChoice turn : transfer.members) {
    Site site = siteOf(turn);
    end(site);
    site.flight().ended = true;
    Site first = siteOf({turn.rank, turn.stream, 0});
    if (StreamEngine::completeGroup(first))
      site.stream.position += first.op.members;
  }
}

uint32_t Adversary::nodeOf(const Site &site) const {
  const StageProgram &program = *site.rank.program;
  return firstNodes_[program.stage][site.stream.entry] + site.opIndex() -
         program.procedures[site.entry.procedure].firstOp;
}

planfile::Node Adversary::nodeAt(const Site &site, uint32_t node) const {
  return trace_.nodes[trace_.stageBegin[site.rank.program->stage] + node];
}

const planfile::EntryT &Adversary::planEntry(const Site &site) const {
  return *site.rank.program->plan->table[site.stream.entry];
}

std::string Adversary::nameOf(const Site &site, uint32_t node) const {
  return trace_.describe(nodeAt(site, node));
}

bool Adversary::begin(const Site &site) {
  uint32_t node = nodeOf(site);
  if (!checkOrder(site, node) || !checkPoison(site, node))
    return false;
  states_[site.rank.id].nodes[node] = Begun;
  return true;
}

// Checks that each pair of accesses to one byte, one of them a write, runs in issue order.
bool Adversary::checkOrder(const Site &site, uint32_t node) {
  const StageValues &stage = values_[site.rank.program->stage];
  const RankState &state = states_[site.rank.id];
  auto written = [&](const Value &value) {
    return value.writer == kNoNode || state.nodes[value.writer] == Ended;
  };
  auto how = [&](const Value &value) {
    return nameOf(site, value.writer) +
           (state.nodes[value.writer] == Begun ? " is complete" : " has written them");
  };
  const auto &reads = stage.reads[node];
  for (uint32_t v : reads) {
    const Value &value = stage.values[v];
    if (!written(value)) {
      report(site, Hazard::EarlyRead,
             text("a wait is missing: ", range(value.begin, value.end), " are read before ",
                  how(value)));
      return false;
    }
  }
  for (uint32_t v : stage.overwrites[node]) {
    const Value &value = stage.values[v];
    if (!written(value)) {
      report(site, Hazard::EarlyWrite,
             text("a wait is missing: ", range(value.begin, value.end), " are overwritten before ",
                  how(value)));
      return false;
    }
    bool own = std::find(reads.begin(), reads.end(), v) != reads.end();
    if (state.pending[v] == (own ? 1 : 0))
      continue;
    uint32_t reader = 0;
    while (reader == node || state.nodes[reader] == Ended ||
           std::find(stage.reads[reader].begin(), stage.reads[reader].end(), v) ==
               stage.reads[reader].end())
      ++reader;
    report(site, Hazard::EarlyWrite,
           text("a wait is missing: ", range(value.begin, value.end), " are overwritten before ",
                nameOf(site, reader), " has read them"));
    return false;
  }
  return true;
}

// Checks that no byte to be read holds poison, which finds what the order cannot show: bytes
// that no instruction of the plan writes.
bool Adversary::checkPoison(const Site &site, uint32_t node) {
  const std::byte *arena = site.rank.arena.data();
  uint64_t begin = 0, end = 0, found = 0;
  planfile::forEachAccess(*nodeAt(site, node).inst, planEntry(site), [&](const ByteAccess &a) {
    if (!a.read || begin != end)
      return;
    found = findPoison(arena, a.begin, a.end);
    if (found != a.end)
      begin = a.begin, end = a.end;
  });
  if (begin == end)
    return true;
  std::string writer = "nothing writes it in the step";
  const StageValues &stage = values_[site.rank.program->stage];
  for (uint32_t v : stage.reads[node]) {
    const Value &value = stage.values[v];
    if (value.begin <= found && found < value.end && value.writer != kNoNode)
      writer = nameOf(site, value.writer) + " should have written it, or computed with poison";
  }
  size_t operand = 0;
  for (; operand < site.op.buffers; ++operand) {
    const Buffer &buffer = site.rank.program->buffers[site.op.firstBuffer + operand];
    if (buffer.base == 0 && buffer.offsetIn(site.entry.lanes) == begin &&
        begin + buffer.size == end)
      break;
  }
  report(site, Hazard::PoisonRead,
         text("poison is read: operand ", operand, ", ", range(begin, end), ", at byte ", found,
              "; ", writer));
  return false;
}

// Poisons the destination of a transfer, which may write it at any time from here on; a
// source that overlaps it is stashed first.
void Adversary::poisonTarget(const Site &site, StreamChoice turn) {
  uint64_t readBegin = 0, readEnd = 0;
  planfile::forEachAccess(*nodeAt(site, nodeOf(site)).inst, planEntry(site),
                          [&](const ByteAccess &a) {
                            if (a.read)
                              readBegin = a.begin, readEnd = a.end;
                            if (!a.write)
                              return;
                            if (a.begin < readEnd && readBegin < a.end) {
                              const std::byte *arena = site.rank.arena.data();
                              SavedSource &stash = states_[turn.rank].stashes[turn.stream];
                              stash.begin = readBegin;
                              stash.bytes.assign(arena + readBegin, arena + readEnd);
                            }
                            poison(site.rank.arena.data(), a.begin, a.end);
                          });
}

// Fills the destination of an exchange of rows, before they come: what it leaves of it may be read, but must
// be dropped.
void Adversary::openRows(const Site &site) {
  const auto &[rank, stream, entry, op, worker, member] = site;
  if (!rank.program->collectives[op.index]->rows)
    return;
  const Buffer &to = rank.program->buffers[op.firstBuffer + 1];
  uint64_t offset = to.offsetIn(entry.lanes);
  fillWithAnything(rank.arena.data(), offset, offset + to.size);
}

void Adversary::end(const Site &site) {
  uint32_t node = nodeOf(site);
  const StageValues &stage = values_[site.rank.program->stage];
  RankState &state = states_[site.rank.id];
  state.nodes[node] = Ended;
  auto freeIfLast = [&](uint32_t v) {
    const Value &value = stage.values[v];
    bool overwritten = value.overwriter != kNoNode && state.nodes[value.overwriter] != NotBegun;
    if (state.pending[v] == 0 && !value.kept && !overwritten)
      poison(site.rank.arena.data(), value.begin, value.end);
  };
  for (uint32_t v : stage.writes[node])
    freeIfLast(v);
  for (uint32_t v : stage.reads[node]) {
    --state.pending[v];
    freeIfLast(v);
  }
}

void Adversary::report(const Site &site, Hazard::Kind kind, const std::string &why) {
  const planfile::Node &node = nodeAt(site, nodeOf(site));
  engine_.fail(site, why);
  hazard_ = Hazard{kind,
                   site.rank.id,
                   site.rank.program->stage,
                   trace_.procedureOf(node).name,
                   node.index,
                   site.entry.lanes[site.op.lane].microBatch,
                   engine_.failure()};
}
