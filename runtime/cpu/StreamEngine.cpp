#include "runtime/cpu/StreamEngine.h"

#include "lib/planfile/Inputs.h"
#include "runtime/cpu/BlockedReport.h"

#include <cstring>

using namespace llmc;
using namespace llmc::runtime;
using planfile::Body;

StreamEngine::StreamEngine(LocalRanks &ranks, KernelRunner &kernels, Wake wake)
    : ranks_(ranks), kernels_(kernels), wake_(std::move(wake)) {
  const planfile::ProgramT &program = ranks.program();
  for (const auto &input : program.inputs)
    inputShapes_.push_back(planfile::wholeShape(*program.mesh, *input));
}

void StreamEngine::beginStep(const std::vector<const std::byte *> &inputs, bool mayCommit) {
  inputs_ = &inputs;
  mayCommit_ = mayCommit;
  ranks_.rewind();
}

Workers::Poll StreamEngine::advance(uint32_t id, unsigned worker) {
  if (!observer_)
    return drive(ranks_[id], worker);
  uint64_t start = observer_->beginAdvance();
  Workers::Poll poll = drive(ranks_[id], worker);
  observer_->endAdvance(worker, start);
  return poll;
}

Workers::Poll StreamEngine::drive(Rank &rank, unsigned worker) {
  bool progress = true, left = true;
  while (progress && left) {
    progress = left = false;
    for (size_t s = 0; s < rank.streams.size(); ++s) {
      Stream &stream = rank.streams[s];
      while (const Op *op = rank.current(s)) {
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
    if (failed())
      return Workers::Poll::Failed;
  }
  return left ? Workers::Poll::Blocked : Workers::Poll::Done;
}

bool StreamEngine::observedStep(const Site &site) {
  Observer::Start start = observer_->beginTry(site);
  bool ended = run(site);
  observer_->endTry(site, start, ended);
  return ended;
}

bool StreamEngine::run(const Site &site) {
  const auto &[rank, stream, entry, op, worker, member] = site;
  const Buffer *buffers = rank.program->buffers.data() + op.firstBuffer;
  auto at = [&](int i) { return buffers[i].at(rank.bases.data(), entry.lanes); };
  switch (op.kind) {
  case Body::Launch:
    kernels_.launch(site);
    return true;
  case Body::Matmul:
    if (!kernels_.matmul(site))
      fail(site, "the matmul library failed");
    return true;
  case Body::Collective:
    return collective(site);
  case Body::Send:
  case Body::Recv:
    return messages(site);
  case Body::Copy:
    std::memmove(at(1), at(0), buffers[0].size);
    return true;
  case Body::Fill:
    std::memset(at(0), 0, buffers[0].size);
    return true;
  case Body::Feed:
    feed(site);
    return true;
  case Body::Record:
    ++rank.events[rank.program->counterOf(op, entry)];
    return true;
  case Body::Wait:
    return reached(site);
  case Body::NONE:
    break;
  }
  return true;
}

void StreamEngine::feed(const Site &site) {
  const auto &[rank, stream, entry, op, worker, member] = site;
  const planfile::InputBindingT &input = *ranks_.program().inputs[op.index];
  const std::vector<int64_t> &whole = inputShapes_[op.index];
  uint64_t size = planfile::byteSize(input.dtype), batch = size;
  for (int64_t dim : whole)
    batch *= static_cast<uint64_t>(dim);
  const std::byte *from =
      (*inputs_)[op.index] + rank.inputOffset[op.index] + entry.lanes[op.lane].microBatch * batch;
  std::byte *to = rank.program->buffers[op.firstBuffer].at(rank.bases.data(), entry.lanes);
  planfile::forEachInputRun(input.local_shape, whole,
                            [&](uint64_t own, uint64_t at, uint64_t count) {
                              std::memcpy(to + own * size, from + at * size, count * size);
                            });
}

bool StreamEngine::collective(const Site &site) {
  PendingTransfer &flight = site.flight();
  if (!flight.posted && !postCollective(site))
    return false;
  if (!site.rank.members[site.op.index].communicator->poll(flight.number, wake_))
    return false;
  if (site.rank.program->collectives[site.op.index]->rows)
    countRows(site);
  leave(site);
  return true;
}

// Counts the rows that the rank has sent to others.
void StreamEngine::countRows(const Site &site) {
  const auto &[rank, stream, entry, op, worker, member] = site;
  const Member &own = rank.members[op.index];
  const Buffer &ref = rank.program->buffers[op.firstBuffer + 2];
  const auto *sent = reinterpret_cast<const int64_t *>(ref.at(rank.bases.data(), entry.lanes));
  for (size_t i = 0; i < own.communicator->ranks().size(); ++i)
    if (i != own.index)
      rank.traffic.rowsSent[op.index] += static_cast<uint64_t>(sent[i]);
}

bool StreamEngine::postCollective(const Site &site) {
  auto &[rank, stream, entry, op, worker, member] = site;
  const Member &own = rank.members[op.index];
  const Buffer *refs = rank.program->buffers.data() + op.firstBuffer;
  Communicator::Post post{rank.program->collectives[op.index],
                          refs[0].at(rank.bases.data(), entry.lanes),
                          refs[1].at(rank.bases.data(), entry.lanes)};
  if (post.what->rows) {
    post.sent = reinterpret_cast<const int64_t *>(refs[2].at(rank.bases.data(), entry.lanes));
    post.received = reinterpret_cast<const int64_t *>(refs[3].at(rank.bases.data(), entry.lanes));
  }
  support::Result<uint64_t> number = own.communicator->post(own.index, post, wake_);
  if (!number) {
    fail(site, number.message() + membersOf(ranks_, *own.communicator, op.stream));
    return false;
  }
  site.flight().number = *number;
  site.flight().posted = true;
  return true;
}

void StreamEngine::leave(const Site &site) {
  site.flight().posted = site.flight().ended = false;
  auto &calls =
      site.op.kind == Body::Collective ? site.rank.traffic.collectiveCalls : site.rank.traffic.messageCalls;
  ++calls[site.op.index];
}

// Advances all members of a group, which are in flight together and end in any order.
bool StreamEngine::messages(const Site &site) {
  bool ended = message(site);
  for (uint32_t i = 1; i < site.op.members; ++i)
    ended &= message(site.memberOf(i));
  return ended && completeGroup(site);
}

bool StreamEngine::message(const Site &site) {
  PendingTransfer &flight = site.flight();
  if (!flight.posted && (!mayPost(site) || !postMessage(site)))
    return false;
  flight.ended |= site.rank.messages[site.op.index].channel->complete(flight.number);
  return flight.ended;
}

bool StreamEngine::mayPost(const Site &site) {
  const MessageEnd &own = site.rank.messages[site.op.index];
  for (uint32_t i = 0; i < site.member; ++i) {
    const MessageEnd &earlier = site.rank.messages[(&site.op - site.member + i)->index];
    if (!site.stream.flights[i].posted && earlier.channel == own.channel &&
        earlier.side == own.side)
      return false;
  }
  return true;
}

bool StreamEngine::completeGroup(const Site &first) {
  for (uint32_t i = 0; i < first.op.members; ++i)
    if (!first.stream.flights[i].ended)
      return false;
  for (uint32_t i = 0; i < first.op.members; ++i)
    leave(first.memberOf(i));
  return true;
}

bool StreamEngine::postMessage(const Site &site) {
  auto &[rank, stream, entry, op, worker, member] = site;
  const MessageEnd &end = rank.messages[op.index];
  PendingTransfer &flight = site.flight();
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

void StreamEngine::fail(const std::string &why) {
  std::lock_guard lock(failureMutex_);
  if (!failed_.exchange(true))
    failure_ = why;
}

void StreamEngine::fail(const Site &site, const std::string &why) {
  fail(support::text(why, "; at ", describe(ranks_.program(), site.rank, site.stream, site.op)));
}
