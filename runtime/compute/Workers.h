// Drives many resumable tasks on a few threads. The test is test/runtime/ExecutorTest.cpp
// (RepeatsBitForBit, Blocked).
//
// A task runs until it can make no progress; then it sleeps until wake() is called for it.
// Nothing is polled without need, so if no task runs or is queued and one is unfinished, all
// are blocked forever, which is detected at once.
#ifndef LLMC_RUNTIME_COMPUTE_WORKERS_H
#define LLMC_RUNTIME_COMPUTE_WORKERS_H

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace llmc::runtime {

// Owns the threads and the queue of runnable tasks.
class Workers {
public:
  // Tells how far one call advanced a task, and how run() ended.
  enum class Poll { Done, Blocked, Failed };
  enum class Outcome { AllDone, AllBlocked, Failed };
  // Advances `task` as far as possible. Calls for one task never overlap.
  using Advance = std::function<Poll(uint32_t task, unsigned worker)>;

  // Starts `workers` - 1 threads; the thread that calls run() is the remaining one. Each
  // thread first calls `begin` with its number, from 1.
  Workers(uint32_t tasks, unsigned workers, Advance advance,
          std::function<void(unsigned)> begin = {});
  ~Workers();
  Workers(const Workers &) = delete;
  Workers &operator=(const Workers &) = delete;

  // Runs every task from its present state and returns when all are done, all are blocked or
  // one failed. It may be called again; the tasks then go on from where they stood.
  Outcome run();

  // Queues `task` if it sleeps, or has it run once more if it is running. Any thread may call
  // it, after an event for which the task may have waited.
  void wake(uint32_t task);

  unsigned workers() const { return static_cast<unsigned>(threads_.size()) + 1; }

private:
  enum State : uint8_t { Asleep, Queued, Running, RunningAgain, Finished };
  void serve(unsigned worker); // the loop of a thread over calls of run()
  void drive(unsigned worker); // runs queued tasks until stop()
  void push(uint32_t task);
  bool pop(uint32_t &task);
  void runTask(uint32_t task, unsigned worker);
  void stop(Outcome outcome);

  Advance advance_;
  std::vector<std::atomic<uint8_t>> states_;
  std::vector<std::thread> threads_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<uint32_t> queue_;
  std::atomic<uint32_t> queued_{0};
  unsigned sleeping_ = 0;  // threads inside changed_
  uint32_t round_ = 0;     // counts the calls of run()
  unsigned serving_ = 0;   // threads inside drive()
  bool quit_ = false;
  std::atomic<bool> stopped_{true};
  Outcome outcome_ = Outcome::AllDone;
  std::atomic<uint32_t> active_{0};     // tasks queued or running
  std::atomic<uint32_t> unfinished_{0}; // tasks not done
};

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_COMPUTE_WORKERS_H
