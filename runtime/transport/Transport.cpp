#include "runtime/transport/Transport.h"

#include "runtime/transport/Reduction.h"

#include <algorithm>
#include <cstring>

using namespace llmc;
using namespace llmc::runtime;
using planfile::CollectiveKind;
using planfile::CollectiveT;
using support::error;

namespace {

std::string describe(const CollectiveT &c) {
  return support::text(toString(c.kind), c.reduce == planfile::ReduceKind::Max ? " (max)" : "",
                       " of ", c.count, " ", toString(c.dtype),
                       c.slices > 1 ? support::text(" in ", c.slices, " slices") : "",
                       c.rows ? support::text(" in rows of ", c.rows->row) : "");
}

bool same(const CollectiveT &a, const CollectiveT &b) {
  return a.kind == b.kind && a.reduce == b.reduce && a.dtype == b.dtype && a.count == b.count &&
         a.slices == b.slices && (!a.rows || a.rows->row == b.rows->row);
}

} // namespace

Communicator::Communicator(std::vector<uint32_t> ranks)
    : ranks_(std::move(ranks)), posts_(ranks_.size()) {
  for (PendingCollective &flight : pendingCollectives_) {
    flight.src.resize(ranks_.size());
    flight.dst.resize(ranks_.size());
    flight.posted.resize(ranks_.size());
    flight.sent.resize(ranks_.size());
    flight.received.resize(ranks_.size());
  }
}

support::Result<uint64_t> Communicator::post(uint32_t member, const Post &post,
                                             const Wake &wake) {
  uint64_t number = posts_[member].load(std::memory_order_relaxed);
  PendingCollective &flight = pendingCollectives_[number % 2];
  flight.src[member] = post.src;
  flight.dst[member] = post.dst;
  flight.posted[member] = post.what;
  flight.sent[member] = post.sent;
  flight.received[member] = post.received;
  posts_[member].store(number + 1, std::memory_order_relaxed);
  if (flight.arrived.fetch_add(1, std::memory_order_acq_rel) + 1 < ranks_.size())
    return number;
  if (support::Status s = start(flight); !s)
    return s.takeError();
  flight.ready.store(number + 1, std::memory_order_release);
  // Wakes a few members to share the chunks, if there are more than one.
  if (flight.chunks > 1)
    for (size_t i = 0; i < ranks_.size() && i < 4; ++i)
      if (i != member)
        wake(ranks_[i]);
  return number;
}

support::Status Communicator::start(PendingCollective &flight) {
  const CollectiveT &what = *flight.posted[0];
  for (size_t i = 1; i < ranks_.size(); ++i)
    if (!same(what, *flight.posted[i]))
      return error("collectives do not match: rank ", ranks_[0], " is at an ", describe(what),
                   ", rank ", ranks_[i], " at an ", describe(*flight.posted[i]));
  uint64_t bytes = what.count * planfile::byteSize(what.dtype);
  bool shards = what.kind == CollectiveKind::AllGather ||
                what.kind == CollectiveKind::ReduceScatter ||
                what.kind == CollectiveKind::AllToAll;
  flight.what = &what;
  flight.chunksOfShard = (bytes + kChunkBytes - 1) / kChunkBytes;
  flight.chunks = flight.chunksOfShard * (shards ? ranks_.size() : 1);
  if (what.kind == CollectiveKind::ExchangeRows) {
    if (support::Status s = checkCounts(flight); !s)
      return s;
    listMoves(flight);
  }
  flight.arrived.store(0, std::memory_order_relaxed);
  flight.next.store(0, std::memory_order_relaxed);
  flight.done.store(0, std::memory_order_relaxed);
  return support::ok();
}

// Checks that each member counts rows that there can be: none less than 0, and no more than it has.
support::Status Communicator::checkCounts(const PendingCollective &flight) const {
  for (size_t i = 0; i < ranks_.size(); ++i) {
    const CollectiveT &own = *flight.posted[i];
    uint64_t rows = own.count / own.rows->row, left = rows;
    for (size_t j = 0; j < ranks_.size(); ++j) {
      int64_t sent = flight.sent[i][j], received = flight.received[i][j];
      if (sent < 0 || static_cast<uint64_t>(sent) > left)
        return error("rank ", ranks_[i], " sends ", sent, " rows to rank ", ranks_[j], ", and has ", left,
                     " of ", rows, " left for it");
      if (received < 0)
        return error("rank ", ranks_[i], " expects ", received, " rows of rank ", ranks_[j], ", which sends ",
                     flight.sent[j][i]);
      left -= static_cast<uint64_t>(sent);
    }
  }
  return support::ok();
}

// Lists what each member gets of each other one, in chunks: the less of what is sent and expected, without
// the rows for which it has no room. Either side places its rows by its own counts.
void Communicator::listMoves(PendingCollective &flight) {
  flight.moves.clear();
  std::vector<uint64_t> taken(ranks_.size(), 0); // by sender: rows for earlier receivers
  uint64_t moved = 0;
  for (size_t j = 0; j < ranks_.size(); ++j) {
    const CollectiveT &own = *flight.posted[j];
    uint64_t row = own.rows->row * planfile::byteSize(own.dtype), room = own.dst->size / row, next = 0;
    for (size_t i = 0; i < ranks_.size(); ++i) {
      auto sent = static_cast<uint64_t>(flight.sent[i][j]);
      uint64_t expected = std::min(static_cast<uint64_t>(flight.received[j][i]), room - next);
      const std::byte *from = flight.src[i] + taken[i] * row;
      std::byte *to = flight.dst[j] + next * row;
      uint64_t bytes = std::min(sent, expected) * row;
      for (uint64_t at = 0; at < bytes; at += kChunkBytes)
        flight.moves.push_back({from + at, to + at, std::min(kChunkBytes, bytes - at)});
      moved += bytes;
      taken[i] += sent;
      next += expected;
    }
  }
  // Leaves one chunk of no bytes where nothing moves: the last chunk completes the collective.
  if (flight.moves.empty())
    flight.moves.emplace_back();
  flight.chunks = flight.moves.size();
  exchangedBytes_.fetch_add(moved, std::memory_order_relaxed);
}

bool Communicator::poll(uint64_t number, const Wake &wake) {
  if (completed_.load(std::memory_order_acquire) > number)
    return true;
  PendingCollective &flight = pendingCollectives_[number % 2];
  if (flight.ready.load(std::memory_order_acquire) != number + 1)
    return false;
  while (true) {
    uint64_t chunk = flight.next.fetch_add(1, std::memory_order_relaxed);
    if (chunk >= flight.chunks)
      break;
    work(flight, chunk);
    if (flight.done.fetch_add(1, std::memory_order_acq_rel) + 1 == flight.chunks) {
      completed_.store(number + 1, std::memory_order_release);
      for (uint32_t rank : ranks_)
        wake(rank);
      return true;
    }
  }
  return completed_.load(std::memory_order_acquire) > number;
}

void Communicator::work(PendingCollective &flight, uint64_t chunk) const {
  const CollectiveT &what = *flight.what;
  if (what.kind == CollectiveKind::ExchangeRows) {
    if (const Move &move = flight.moves[chunk]; move.bytes > 0)
      std::memcpy(move.to, move.from, move.bytes);
    return;
  }
  uint64_t shard = what.count * planfile::byteSize(what.dtype);
  uint64_t member = chunk / flight.chunksOfShard;
  uint64_t offset = chunk % flight.chunksOfShard * kChunkBytes;
  uint64_t bytes = std::min(kChunkBytes, shard - offset);
  auto toAll = [&](const std::byte *from, uint64_t at, uint64_t size) {
    for (std::byte *dst : flight.dst)
      if (dst + at != from)
        std::memcpy(dst + at, from, size);
  };
  // Calls `move` for each piece of the chunk that lies in one slice: where it is in the shard and in the
  // whole payload, and its bytes.
  auto forSlices = [&](auto move) {
    uint64_t slice = shard / std::max<uint64_t>(1, what.slices);
    for (uint64_t at = offset, end = offset + bytes; at < end;) {
      uint64_t size = std::min(end - at, slice - at % slice);
      move(at, (at / slice * flight.src.size() + member) * slice + at % slice, size);
      at += size;
    }
  };
  switch (what.kind) {
  case CollectiveKind::AllReduce:
    return reduceTo(what.dtype, what.reduce, {flight.src, offset}, {flight.dst, offset}, bytes);
  case CollectiveKind::Broadcast:
    return toAll(flight.src[0] + offset, offset, bytes);
  case CollectiveKind::AllGather:
    return forSlices([&](uint64_t part, uint64_t whole, uint64_t size) {
      toAll(flight.src[member] + part, whole, size);
    });
  case CollectiveKind::ReduceScatter:
    return forSlices([&](uint64_t part, uint64_t whole, uint64_t size) {
      reduceTo(what.dtype, what.reduce, {flight.src, whole}, {{&flight.dst[member], 1}, part}, size);
    });
  case CollectiveKind::AllToAll:
    for (size_t other = 0; other < flight.dst.size(); ++other)
      std::memcpy(flight.dst[other] + member * shard + offset,
                  flight.src[member] + other * shard + offset, bytes);
    return;
  case CollectiveKind::ExchangeRows: // has returned above
    return;
  }
}

std::vector<uint32_t> Communicator::missing(uint64_t number) const {
  std::vector<uint32_t> ranks;
  for (size_t i = 0; i < ranks_.size(); ++i)
    if (posts_[i].load() <= number)
      ranks.push_back(ranks_[i]);
  return ranks;
}

support::Result<uint64_t> Channel::post(Side side, Parts parts, const Wake &wake) {
  uint64_t number;
  {
    std::lock_guard lock(mutex_);
    number = posted_[side];
    if (number > completed_.load(std::memory_order_acquire)) {
      contended_ = true;
      return kBusy;
    }
    parts_[side] = parts;
    ++posted_[side];
    if (posted_[1 - side] <= number || deferred_)
      return number; // the other side, or finish(), copies the bytes
  }
  if (support::Status s = finish(side, wake); !s)
    return s.takeError();
  return number;
}

support::Status Channel::finish(Side last, const Wake &wake) {
  // Needs no lock for the copy: both sides are here and neither can post again.
  if (support::Status s = copy(); !s)
    return s;
  bool contended;
  {
    std::lock_guard lock(mutex_);
    completed_.fetch_add(1, std::memory_order_release);
    contended = std::exchange(contended_, false);
  }
  wake(ranks_[1 - last]);
  if (contended)
    wake(ranks_[last]);
  return support::ok();
}

bool Channel::busy(Side side) {
  std::lock_guard lock(mutex_);
  return posted_[side] > completed_.load(std::memory_order_acquire);
}

support::Status Channel::copy() const {
  const auto &[from, to] = parts_;
  if (from.size() != to.size())
    return error("messages do not match: rank ", ranks_[0], " sends ", from.size(),
                 " parts, rank ", ranks_[1], " expects ", to.size());
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i].size() != to[i].size())
      return error("messages do not match: part ", i, " has ", from[i].size(), " bytes at rank ",
                   ranks_[0], " and ", to[i].size(), " at rank ", ranks_[1]);
    std::memcpy(to[i].data(), from[i].data(), from[i].size());
  }
  return support::ok();
}
