// Implements the transport `local`: collectives and messages between ranks of one process. Nothing
// here blocks: a caller posts its part and polls again when it is woken. The tests are
// test/runtime/CollectivesTest.cpp, MessagesTest.cpp and ExchangeTest.cpp.
#ifndef LLMC_RUNTIME_TRANSPORT_TRANSPORT_H
#define LLMC_RUNTIME_TRANSPORT_TRANSPORT_H

#include "lib/planfile/Program.h"
#include "lib/support/Error.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace llmc::runtime {

// Wakes the task of a rank (Workers::wake).
using Wake = std::function<void(uint32_t rank)>;

// Represents the communicator of one device group and one stream.
//
// The k-th collective of every member is the same one. It starts when the last member has
// posted, is cut into chunks, and every member that polls executes chunks.
class Communicator {
public:
  explicit Communicator(std::vector<uint32_t> ranks);

  struct Post {
    const planfile::CollectiveT *what = nullptr;
    std::byte *src = nullptr, *dst = nullptr;
    // Holds one count a member, of ExchangeRows; read when all members have posted.
    const int64_t *sent = nullptr, *received = nullptr;
  };
  // Enters the next collective of `member` and returns its number. Fails if the members
  // disagree on kind, reduction, type or count, or count rows that there cannot be. The last member
  // to post may wake others.
  support::Result<uint64_t> post(uint32_t member, const Post &post, const Wake &wake);

  // Executes chunks of collective `number` while any is left and returns whether it is
  // complete; wakes all members if it completes it.
  bool poll(uint64_t number, const Wake &wake);

  const std::vector<uint32_t> &ranks() const { return ranks_; }
  // Returns the ranks that have not posted collective `number` yet.
  std::vector<uint32_t> missing(uint64_t number) const;
  // Counts the bytes of rows that ExchangeRows has copied, those of a member to itself too.
  uint64_t exchangedBytes() const { return exchangedBytes_.load(std::memory_order_relaxed); }

private:
  // Describes a chunk of ExchangeRows.
  struct Move {
    const std::byte *from = nullptr;
    std::byte *to = nullptr;
    uint64_t bytes = 0;
  };
  struct PendingCollective {
    std::atomic<uint32_t> arrived{0};
    std::atomic<uint64_t> ready{0}; // number + 1 of the collective that uses this entry
    std::atomic<uint64_t> next{0}, done{0};
    uint64_t chunks = 0, chunksOfShard = 0;
    planfile::CollectiveT const *what = nullptr;
    std::vector<std::byte *> src, dst;
    std::vector<const planfile::CollectiveT *> posted;
    std::vector<const int64_t *> sent, received;
    std::vector<Move> moves; // of ExchangeRows, by chunk
  };
  support::Status
  start(PendingCollective &flight); // all have posted: compares and cuts into chunks
  support::Status checkCounts(const PendingCollective &flight) const;
  void listMoves(PendingCollective &flight); // of rows that are exchanged
  void work(PendingCollective &flight, uint64_t chunk) const; // reduces or copies one chunk

  std::vector<uint32_t> ranks_;
  // Holds the collectives in flight. No member can be two collectives ahead of another, so
  // two entries suffice.
  std::array<PendingCollective, 2> pendingCollectives_;
  std::vector<std::atomic<uint64_t>> posts_; // by member: collectives entered
  std::atomic<uint64_t> completed_{0}, exchangedBytes_{0};
};

// Represents the messages from one rank to another on one channel, in order. The side that
// arrives second copies the bytes, from arena to arena.
class Channel {
public:
  Channel(uint32_t source, uint32_t destination) : ranks_{source, destination} {}

  enum Side { Source = 0, Destination = 1 };
  using Parts = std::span<const std::span<std::byte>>;

  static constexpr uint64_t kBusy = ~uint64_t(0);
  // Enters the next message of this side and returns its number, or kBusy while the previous
  // one (of another stream) is in flight; the side is then woken when that ends. The parts
  // must live until the message is complete. Fails if the two sides differ in the number or
  // sizes of parts.
  support::Result<uint64_t> post(Side side, Parts parts, const Wake &wake);
  // Makes post() leave the copy to finish(), for a driver that runs on one thread.
  void defer() { deferred_ = true; }
  // Copies the bytes of a message that both sides have posted, and wakes the side that
  // arrived first, as well as `last` if it was refused with kBusy. Fails if the parts differ.
  support::Status finish(Side last, const Wake &wake);
  // Returns whether post() of this side would return kBusy.
  bool busy(Side side);
  bool complete(uint64_t number) const {
    return completed_.load(std::memory_order_acquire) > number;
  }
  uint32_t peer(Side side) const { return ranks_[1 - side]; }

private:
  support::Status copy() const;

  std::mutex mutex_;
  std::array<uint32_t, 2> ranks_;
  std::array<Parts, 2> parts_;
  std::array<uint64_t, 2> posted_{};
  std::atomic<uint64_t> completed_{0};
  bool contended_ = false;
  bool deferred_ = false;
};

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_TRANSPORT_TRANSPORT_H
