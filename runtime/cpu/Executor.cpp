#include "runtime/cpu/Executor.h"

#include "lib/planfile/Inputs.h"
#include "runtime/cpu/Adversary.h"

#include <algorithm>
#include <array>
#include <cstring>

using namespace llmc;
using namespace llmc::runtime;
using planfile::Body;
using support::Status;

// Closes all arenas but one rank's for as long as it lives, if isolation is on.
class Executor::Isolation {
public:
  Isolation(const Executor &executor, const Rank &rank)
      : executor(executor), rank(rank), on(executor.isolate_) {
    if (on)
      forOthers([](const Arena &arena) { arena.close(); });
  }
  ~Isolation() {
    if (on)
      forOthers([](const Arena &arena) { arena.open(); });
  }

private:
  template <class F>
  void forOthers(F f) {
    for (const auto &other : executor.ranks_)
      if (other.get() != &rank)
        f(other->arena);
  }
  const Executor &executor;
  const Rank &rank;
  bool on;
};

void Executor::beginStep(const std::vector<const std::byte *> &inputs) {
  inputs_ = &inputs;
  for (const auto &rank : ranks_) {
    std::fill(rank->events.begin(), rank->events.end(), 0u);
    for (Stream &stream : rank->streams)
      stream.entry = stream.position = 0, stream.begun = 0;
  }
}

Status Executor::runStep(const std::vector<const std::byte *> &inputs, const Approve &approve) {
  if (!failure_.empty())
    return support::error(failure_);
  beginStep(inputs);
  approve_ = approve ? &approve : nullptr;
  committing_ = mayCommit_ = !approve_ || !asksInTime_;
  Status status;
  if (adversary_) {
    status = adversary_->runStep() ? support::ok() : support::error(failure_);
  } else {
    Pinning::Scope scope(pinning_);
    status = watched_ ? watchedRound() : endStep(round());
  }
  if (status && approve_ && !(status = (*approve_)()))
    failure_ = status.message();
  if (status)
    committing_ = false;
  return status;
}

Workers::Outcome Executor::round() {
  Workers::Outcome outcome = workers_->run();
  if (outcome != Workers::Outcome::AllBlocked || mayCommit_)
    return outcome;
  // Every op that is left waits for one that commits, or is blocked for good.
  if (Status s = (*std::exchange(approve_, nullptr))(); !s) {
    failure_ = s.message();
    return Workers::Outcome::Failed;
  }
  committing_ = mayCommit_ = true;
  return workers_->run();
}

Status Executor::endStep(Workers::Outcome outcome) {
  switch (outcome) {
  case Workers::Outcome::AllDone:
    return support::ok();
  case Workers::Outcome::AllBlocked:
    failure_ = blockedReport();
    break;
  case Workers::Outcome::Failed:
    break;
  }
  return support::error(failure_);
}

const Op *Executor::current(const Rank &rank, Stream &stream, uint8_t index) const {
  const StageProgram &program = *rank.program;
  while (stream.entry < program.table.size()) {
    const auto &list = program.procedures[program.table[stream.entry].procedure].byStream[index];
    if (stream.position < list.size())
      return &program.ops[list[stream.position]];
    ++stream.entry;
    stream.position = 0;
  }
  return nullptr;
}

Workers::Poll Executor::advance(uint32_t id, unsigned worker) {
  Rank &rank = *ranks_[id];
  bool progress = true, left = true;
  while (progress && left) {
    progress = left = false;
    for (size_t s = 0; s < rank.streams.size(); ++s) {
      Stream &stream = rank.streams[s];
      while (const Op *op = current(rank, stream, static_cast<uint8_t>(s))) {
        if ((op->commits && !mayCommit_) ||
            !step({rank, stream, rank.program->table[stream.entry], *op, worker})) {
          left = true;
          break;
        }
        stream.position += op->members;
        progress = true;
        // Yields to another stream that may have waited for this record, so that messages
        // leave early.
        if (op->kind == Body::Record && rank.streams.size() > 1) {
          left = true;
          break;
        }
      }
    }
    if (failed_.load(std::memory_order_relaxed))
      return Workers::Poll::Failed;
  }
  return left ? Workers::Poll::Blocked : Workers::Poll::Done;
}

bool Executor::step(const Site &site) { return watched_ ? watchedStep(site) : run(site); }

bool Executor::run(const Site &site) {
  const auto &[rank, stream, entry, op, worker, member] = site;
  const StageProgram &program = *rank.program;
  const Buffer *buffers = program.buffers.data() + op.firstBuffer;
  std::byte *const *bases = rank.bases.data();
  switch (op.kind) {
  case Body::Launch:
    launch(site);
    return true;
  case Body::Matmul:
    matmul(site);
    return true;
  case Body::Collective:
    return collective(site);
  case Body::Send:
  case Body::Recv:
    return messages(site);
  case Body::Copy:
    std::memmove(buffers[1].at(bases, entry.lanes), buffers[0].at(bases, entry.lanes),
                 buffers[0].size);
    return true;
  case Body::Fill:
    std::memset(buffers[0].at(bases, entry.lanes), 0, buffers[0].size);
    return true;
  case Body::Feed:
    feed(site);
    return true;
  case Body::Record:
    ++rank.events[program.counterOf(op, entry)];
    return true;
  case Body::Wait: {
    const WaitTarget &wait = program.waits[entry.firstWait + op.index];
    return wait.target == 0 || rank.events[wait.counter] >= wait.target;
  }
  case Body::NONE:
    break;
  }
  return true;
}

void Executor::launch(const Site &site) {
  const auto &[rank, stream, entry, op, worker, member] = site;
  const StageProgram &program = *rank.program;
  constexpr size_t most = 33; // as in checkBounds
  void *buffers[most];
  int64_t scalars[most];
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < op.buffers; ++i) {
    const Buffer &buffer = program.buffers[op.firstBuffer + i];
    buffers[i] = buffer.at(rank.bases.data(), entry.lanes);
    bytes += buffer.size;
  }
  for (uint32_t i = 0; i < op.scalars; ++i) {
    const Scalar &scalar = program.scalars[op.firstScalar + i];
    uint64_t value = static_cast<uint64_t>(scalar.base);
    for (uint32_t c = 0; c < scalar.coefs; ++c)
      value += static_cast<uint64_t>(program.coefs[scalar.firstCoef + c]) * rank.coordinate[c];
    scalars[i] = static_cast<int64_t>(value);
  }
  KernelFunction kernel = kernels_[op.index];
  Isolation isolation(*this, rank);
  constexpr uint64_t kLeastBytes = 1 << 17; // a smaller launch ends before a helper is awake
  Team &team = *teams_[worker];
  if (team.threads() == 1 || op.rows < 2 || bytes < kLeastBytes)
    return kernel(buffers, scalars, 0, op.rows);
  // Makes more parts than threads, so that a late helper does not delay the rest.
  int64_t parts = std::min<int64_t>(op.rows, int64_t(team.threads()) * 4);
  team.run(parts, [&](int64_t part, unsigned) {
    kernel(buffers, scalars, op.rows * part / parts, op.rows * (part + 1) / parts);
  });
}

void Executor::matmul(const Site &site) {
  const auto &[rank, stream, entry, op, worker, member] = site;
  const StageProgram &program = *rank.program;
  const planfile::MatmulT &what = *program.matmuls[op.index];
  const Buffer *refs = program.buffers.data() + op.firstBuffer;
  void *buffers[3];
  for (int i = 0; i < 3; ++i)
    buffers[i] = refs[i].at(rank.bases.data(), entry.lanes);
  Isolation isolation(*this, rank);
  Team &team = *teams_[worker];
  const auto &parts = matmulParts_[program.stage][op.index];
  const uint64_t sizes[3] = {planfile::byteSize(what.a_type), planfile::byteSize(what.b_type),
                             planfile::byteSize(what.c_type)};
  auto at = [&](int i, uint64_t element) {
    return static_cast<std::byte *>(buffers[i]) + element * sizes[i];
  };
  if (!parts.empty()) {
    std::atomic<bool> good{true};
    team.run(static_cast<int64_t>(parts.size()), [&, w = worker](int64_t p, unsigned thread) {
      const MatmulPart &part = parts[p];
      if (!library_->execute(part.id, w * threads_ + thread, at(part.swapped ? 1 : 0, part.a),
                             at(part.swapped ? 0 : 1, part.b), at(2, part.c)))
        good = false;
    });
    if (!good)
      fail(site, "the matmul library failed");
    return;
  }
  // Passes the sizes, then the strides, as plan.fbs defines.
  std::array<int64_t, 13> scalars{what.batch, what.m, what.n, what.k};
  auto next = scalars.begin() + 4;
  for (const auto *strides : {&what.a_strides, &what.b_strides, &what.c_strides})
    next = std::copy_n(strides->begin(), 3, next);
  int64_t count = std::min<int64_t>(op.rows, int64_t(team.threads()) * 4);
  team.run(count, [&](int64_t part, unsigned) {
    kernels_[what.fallback](buffers, scalars.data(), op.rows * part / count,
                            op.rows * (part + 1) / count);
  });
}

void Executor::feed(const Site &site) {
  const auto &[rank, stream, entry, op, worker, member] = site;
  const planfile::InputBindingT &input = *program_.inputs[op.index];
  const std::vector<int64_t> &whole = inputShapes_[op.index];
  uint64_t size = planfile::byteSize(input.dtype), batch = size;
  for (int64_t dim : whole)
    batch *= static_cast<uint64_t>(dim);
  const std::byte *from =
      (*inputs_)[op.index] + rank.inputOffset[op.index] +
      entry.lanes[op.lane].microBatch * batch;
  std::byte *to = rank.program->buffers[op.firstBuffer].at(rank.bases.data(), entry.lanes);
  planfile::forEachInputRun(input.local_shape, whole, [&](uint64_t own, uint64_t at, uint64_t count) {
    std::memcpy(to + own * size, from + at * size, count * size);
  });
}

bool Executor::collective(const Site &site) {
  Flight &flight = site.flight();
  if (!flight.posted && !postCollective(site))
    return false;
  if (!site.rank.members[site.op.index].communicator->poll(flight.number, wake_))
    return false;
  leave(site);
  return true;
}

bool Executor::postCollective(const Site &site) {
  auto &[rank, stream, entry, op, worker, member] = site;
  const Member &own = rank.members[op.index];
  const Buffer *refs = rank.program->buffers.data() + op.firstBuffer;
  Communicator::Post post{rank.program->collectives[op.index],
                          refs[0].at(rank.bases.data(), entry.lanes),
                          refs[1].at(rank.bases.data(), entry.lanes)};
  support::Result<uint64_t> number = own.communicator->post(own.index, post, wake_);
  if (!number) {
    fail(site, number.message() + membersOf(*own.communicator, op.stream));
    return false;
  }
  site.flight().number = *number;
  site.flight().posted = true;
  return true;
}

void Executor::leave(const Site &site) {
  site.flight().posted = site.flight().ended = false;
  auto &calls = site.op.kind == Body::Collective ? site.rank.collectiveCalls
                                                 : site.rank.messageCalls;
  ++calls[site.op.index];
}

// Advances all members of a group, which are in flight together and end in any order.
bool Executor::messages(const Site &site) {
  bool ended = message(site);
  for (uint32_t i = 1; i < site.op.members; ++i)
    ended &= message(memberOf(site, i));
  return ended && leaveGroup(site);
}

bool Executor::message(const Site &site) {
  Flight &flight = site.flight();
  if (!flight.posted && (!mayPost(site) || !postMessage(site)))
    return false;
  flight.ended |= site.rank.messages[site.op.index].channel->complete(flight.number);
  return flight.ended;
}

bool Executor::mayPost(const Site &site) const {
  const MessageEnd &own = site.rank.messages[site.op.index];
  for (uint32_t i = 0; i < site.member; ++i) {
    const MessageEnd &earlier = site.rank.messages[(&site.op - site.member + i)->index];
    if (!site.stream.flights[i].posted && earlier.channel == own.channel &&
        earlier.side == own.side)
      return false;
  }
  return true;
}

bool Executor::leaveGroup(const Site &first) {
  for (uint32_t i = 0; i < first.op.members; ++i)
    if (!first.stream.flights[i].ended)
      return false;
  for (uint32_t i = 0; i < first.op.members; ++i)
    leave(memberOf(first, i));
  return true;
}

bool Executor::postMessage(const Site &site) {
  auto &[rank, stream, entry, op, worker, member] = site;
  const MessageEnd &end = rank.messages[op.index];
  Flight &flight = site.flight();
  flight.parts.clear();
  for (uint32_t i = 0; i < op.buffers; ++i) {
    const Buffer &buffer = rank.program->buffers[op.firstBuffer + i];
    flight.parts.emplace_back(buffer.at(rank.bases.data(), entry.lanes), buffer.size);
  }
  support::Result<uint64_t> number = end.channel->post(end.side, flight.parts, wake_);
  if (!number) {
    fail(site, number.message());
    return false;
  }
  if (*number == Channel::kBusy)
    return false;
  flight.number = *number;
  flight.posted = true;
  return true;
}

void Executor::fail(const Site &site, const std::string &why) {
  std::lock_guard lock(failureMutex_);
  if (!failed_.exchange(true))
    failure_ = support::text(why, "; at ", describe(site.rank, site.stream, site.op));
}

support::Result<std::vector<Count>> Executor::counts() const {
  std::vector<Count> counts;
  std::vector<const Rank *> first(stages_.size(), nullptr);
  for (const auto &rank : ranks_) {
    const Rank *&other = first[rank->program->stage];
    if (!other)
      other = rank.get();
    if (other->collectiveCalls != rank->collectiveCalls ||
        other->messageCalls != rank->messageCalls)
      return support::error("ranks ", other->id, " and ", rank->id, " of stage ",
                            rank->program->stage, " ran different communication");
  }
  for (const Rank *rank : first) {
    const StageProgram &stage = *rank->program;
    auto add = [&](uint32_t index, uint64_t calls) {
      const planfile::InstructionT &instruction = stage.instructionOf(index);
      counts.push_back({stage.stage, instruction.origin, instruction.phase,
                        instruction.body.AsCollective(), instruction.body.AsSend(), calls});
    };
    for (size_t i = 0; i < stage.collectiveOps.size(); ++i)
      add(stage.collectiveOps[i], rank->collectiveCalls[i]);
    for (size_t i = 0; i < stage.messageOps.size(); ++i)
      if (stage.ops[stage.messageOps[i]].kind == Body::Send)
        add(stage.messageOps[i], rank->messageCalls[i]);
  }
  return counts;
}
