// Transport `local`: collectives and messages between ranks of one process.
// Nothing here blocks: a caller posts its part, then asks again when woken.
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

using Wake = std::function<void(uint32_t rank)>;

// The ranks of one group, for the collectives of one stream.
//
// The k-th collective of every member is the same one. It starts when the last
// member posted, is cut into chunks, and whoever polls takes chunks.
class Communicator {
public:
  explicit Communicator(std::vector<uint32_t> ranks);

  struct Post {
    const planfile::CollectiveT *what = nullptr;
    std::byte *src = nullptr, *dst = nullptr;
  };
  // Member `member` enters its next collective; returns its number.
  // An error if the members disagree on what it is.
  support::Result<uint64_t> post(uint32_t member, const Post &post, const Wake &wake);

  // Works on collective `number` if there is work; true once it is complete.
  bool poll(uint64_t number, const Wake &wake);

  const std::vector<uint32_t> &ranks() const { return ranks_; }
  // Members that have not posted collective `number` yet.
  std::vector<uint32_t> missing(uint64_t number) const;

private:
  struct Flight {
    std::atomic<uint32_t> arrived{0};
    std::atomic<uint64_t> ready{0}; // number + 1 of the collective in this place
    std::atomic<uint64_t> next{0}, done{0};
    uint64_t chunks = 0, chunksOfShard = 0;
    planfile::CollectiveT const *what = nullptr;
    std::vector<std::byte *> src, dst;
    std::vector<const planfile::CollectiveT *> posted;
  };
  support::Status start(Flight &flight);
  void work(Flight &flight, uint64_t chunk) const;

  std::vector<uint32_t> ranks_;
  // Nobody can be two collectives ahead of a member, so two places are enough.
  std::array<Flight, 2> flights_;
  std::vector<std::atomic<uint64_t>> posts_; // collectives that each member entered
  std::atomic<uint64_t> completed_{0};
};

// Messages from one rank to another on one channel, in order. The second to
// arrive copies the bytes, from arena to arena.
class Channel {
public:
  Channel(uint32_t source, uint32_t destination) : ranks_{source, destination} {}

  enum Side { Source = 0, Destination = 1 };
  using Parts = std::span<const std::span<std::byte>>;

  static constexpr uint64_t kBusy = ~uint64_t(0);
  // Enters the next message of this side; returns its number, or kBusy while
  // the one before (another stream's) is on its way. The parts must live until
  // the message is complete.
  support::Result<uint64_t> post(Side side, Parts parts, const Wake &wake);
  // From now on post() leaves the copy to finish(). One thread only.
  void defer() { deferred_ = true; }
  // Both sides are there: copies the bytes. `last` arrived second.
  support::Status finish(Side last, const Wake &wake);
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
