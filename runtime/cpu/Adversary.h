// Drives the instructions of a StreamEngine in adversarial orders, to make an incorrect plan fail:
// the streams of all ranks are interleaved as drawn from a seed, one instruction at a time, on one
// thread. A transfer completes as late as the draw wants, at the latest when nothing else can
// run.
//
// Bytes hold poison, a NaN, from the start of a step until they are written, after their last
// reader, and while a transfer to them is in flight. A step fails if an instruction reads poison,
// reads before the plan's writer or writes before the plan's readers: what a missing wait allows.
// The plan's writer is the last one in issue order, as in lib/planfile/Check.h.
//
// A consistent plan gives the same bits for every seed and in issue order.
// ExecutorOptions::interleaving turns it on. The test is test/runtime/AdversaryTest.cpp.
#ifndef LLMC_RUNTIME_CPU_ADVERSARY_H
#define LLMC_RUNTIME_CPU_ADVERSARY_H

#include "runtime/cpu/StreamEngine.h"
#include "runtime/plan/Values.h"

#include <optional>
#include <random>

namespace llmc::runtime {

// Describes the access that stopped a step.
struct Hazard {
  enum Kind { PoisonRead, EarlyRead, EarlyWrite };
  Kind kind = PoisonRead;
  uint32_t rank = 0, stage = 0;
  std::string procedure;
  uint32_t instruction = 0; // index in the procedure
  uint32_t microBatch = 0;
  std::string message; // the whole message for the user
};

// Owns the random state and the transfers in flight of one engine; defers the channels of `ranks`.
class Adversary {
public:
  Adversary(LocalRanks &ranks, StreamEngine &engine, uint64_t seed);

  // Runs all streams of all ranks to their end, or returns false and sets the failure of the
  // engine.
  bool runStep();
  const std::optional<Hazard> &hazard() const { return hazard_; }

private:
  enum NodeState : uint8_t { NotBegun, Begun, Ended };
  // Holds the source bytes of a collective in flight whose source and destination overlap, since
  // the destination is poisoned meanwhile.
  struct SavedSource {
    uint64_t begin = 0;
    std::vector<std::byte> bytes;
  };
  struct RankState {
    std::vector<uint8_t> nodes;    // NodeState
    std::vector<uint32_t> pending; // by value: reads that have not ended
    std::vector<SavedSource> stashes;    // by stream
  };
  struct StreamChoice {
    uint32_t rank = 0, stream = 0;
    uint32_t member = 0; // index in the message group at which the stream is
  };
  struct Transfer {
    Communicator *communicator = nullptr; // or
    Channel *channel = nullptr;
    size_t size = 2; // members that must post before it can complete
    bool held = false;
    std::vector<StreamChoice> members;
  };

  void startStep();
  void drawPolicy(); // once a step
  uint64_t draw(uint64_t below) { return random_() % below; }
  // Collects the ops and transfers that can run next; returns false if there are none. Sets
  // `unfinished` if a stream has not ended.
  bool collectChoices(bool &unfinished);
  void runChoice();
  void runBurst(StreamChoice turn);
  bool runnable(const Site &site) const;
  void post(const Site &site, StreamChoice turn);
  void complete(size_t transfer); // moves the bytes and ends the members
  Site siteOf(StreamChoice turn);

  uint32_t nodeOf(const Site &site) const;
  planfile::Node nodeAt(const Site &site, uint32_t node) const;
  const planfile::EntryT &planEntry(const Site &site) const;
  // Begins the time in which an instruction may touch its bytes; returns false, after a report,
  // if its order is wrong or it reads poison. end() poisons values that it was the last to read.
  bool begin(const Site &site);
  void end(const Site &site);
  bool checkOrder(const Site &site, uint32_t node);
  bool checkPoison(const Site &site, uint32_t node);
  static void openRows(const Site &site);
  void poisonTarget(const Site &site, StreamChoice turn);
  void report(const Site &site, Hazard::Kind kind, const std::string &why);
  std::string nameOf(const Site &site, uint32_t node) const;

  LocalRanks &ranks_;
  StreamEngine &engine_;
  planfile::Trace trace_;
  std::vector<StageValues> values_;               // by stage
  std::vector<std::vector<uint32_t>> firstNodes_; // by stage and table entry
  std::vector<RankState> states_;
  std::mt19937_64 random_;
  std::vector<std::vector<uint32_t>> weights_; // of drawing a stream, [rank][stream]
  uint32_t transferWeight_ = 0;
  uint32_t heldEighths_ = 0; // of 8 transfers that are held back
  uint32_t burst_ = 1;
  std::vector<Transfer> transfers_; // in flight
  std::vector<std::pair<StreamChoice, uint32_t>> choices_;
  std::vector<size_t> readyTransfers_, heldTransfers_;
  std::optional<Hazard> hazard_;
};

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_CPU_ADVERSARY_H
