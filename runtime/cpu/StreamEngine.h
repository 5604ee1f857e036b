// Advances the streams of the ranks over the tables of their stages. The tests are
// test/runtime/ExecutorTest.cpp, MessagesTest.cpp and AdversaryTest.cpp.
//
// Nothing blocks inside an instruction: a stream that must wait is left, and its rank is woken
// when what it waits for may have happened. advance() runs all streams of a rank in their fixed
// order; Adversary.h drives the same instructions one at a time.
#ifndef LLMC_RUNTIME_CPU_STREAMENGINE_H
#define LLMC_RUNTIME_CPU_STREAMENGINE_H

#include "runtime/compute/Workers.h"
#include "runtime/cpu/KernelRunner.h"
#include "runtime/cpu/LocalRanks.h"
#include "runtime/cpu/Observer.h"

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

namespace llmc::runtime {

// Executes instructions, and holds the first failure of any of them.
class StreamEngine {
public:
  // Borrows `ranks` and `kernels`. `wake` is called with each rank that may go on.
  StreamEngine(LocalRanks &ranks, KernelRunner &kernels, Wake wake);

  // Sets who watches the steps; null: nobody.
  void observe(Observer *observer) { observer_ = observer; }
  Observer *observer() const { return observer_; }

  // Puts every stream at its start; `inputs[i]` is the global batch of Program.inputs[i]. Ops
  // that commit wait until allowCommits(), unless `mayCommit` is set.
  void beginStep(const std::vector<const std::byte *> &inputs, bool mayCommit);
  void allowCommits() { mayCommit_ = true; }
  bool mayCommit() const { return mayCommit_; }

  // Runs the streams of a rank until none of them can go on.
  Workers::Poll advance(uint32_t rank, unsigned worker);

  // Tries the current op of a stream, with all members of its group; returns false if it must
  // wait. The caller moves the stream on.
  bool step(const Site &site) { return observer_ ? observedStep(site) : run(site); }
  // Returns whether the events that `site`, a Wait, needs are recorded.
  static bool reached(const Site &site) {
    const WaitTarget &wait = site.rank.program->waits[site.entry.firstWait + site.op.index];
    return wait.target == 0 || site.rank.events[wait.counter] >= wait.target;
  }
  // Returns whether the channel may be entered: not while an earlier member of the group is about
  // to enter it in the same direction.
  static bool mayPost(const Site &site);
  // Enters the current collective or message; returns false if it must wait, or failed.
  bool postCollective(const Site &site);
  void countRows(const Site &site);
  bool postMessage(const Site &site);
  // Resets and counts all members of a group; returns false if one has not ended.
  static bool completeGroup(const Site &first);
  const Wake &wake() const { return wake_; }

  // Records a failure, unless there is one already: all ranks stop.
  void fail(const std::string &why);
  void fail(const Site &site, const std::string &why);
  bool failed() const { return failed_.load(std::memory_order_relaxed); }
  // Returns the failure, empty without one. May be called while no worker runs.
  const std::string &failure() const { return failure_; }

private:
  Workers::Poll drive(Rank &rank, unsigned worker);
  bool observedStep(const Site &site);
  bool run(const Site &site);
  void feed(const Site &site);
  bool collective(const Site &site);
  bool messages(const Site &site); // all of a group
  bool message(const Site &site);
  static void leave(const Site &site); // resets the flight of a complete op and counts it

  LocalRanks &ranks_;
  KernelRunner &kernels_;
  Wake wake_;
  Observer *observer_ = nullptr;
  const std::vector<const std::byte *> *inputs_ = nullptr;
  std::vector<std::vector<int64_t>> inputShapes_; // of a whole micro-batch, by input
  bool mayCommit_ = true;                         // false: ops that commit wait
  std::mutex failureMutex_;
  std::string failure_;
  std::atomic<bool> failed_{false};
};

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_CPU_STREAMENGINE_H
