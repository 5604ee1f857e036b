#include "runtime/compute/Workers.h"

#include "runtime/compute/ThreadTeam.h"

using namespace llmc::runtime;

namespace {
// Counts how often an idle worker checks the queue before it sleeps (some ten microseconds).
constexpr int kSpins = 1000;
} // namespace

Workers::Workers(uint32_t tasks, unsigned workers, Advance advance,
                 std::function<void(unsigned)> begin)
    : advance_(std::move(advance)), states_(tasks) {
  for (unsigned i = 1; i < workers; ++i)
    threads_.emplace_back([this, i, begin] {
      if (begin)
        begin(i);
      serve(i);
    });
}

Workers::~Workers() {
  {
    std::lock_guard lock(mutex_);
    quit_ = true;
  }
  changed_.notify_all();
  for (std::thread &thread : threads_)
    thread.join();
}

Workers::Outcome Workers::run() {
  {
    std::lock_guard lock(mutex_);
    queue_.clear();
    for (uint32_t task = 0; task < states_.size(); ++task) {
      states_[task].store(Queued, std::memory_order_relaxed);
      queue_.push_back(task);
    }
    uint32_t count = static_cast<uint32_t>(states_.size());
    queued_ = count;
    active_ = count;
    unfinished_ = count;
    stopped_ = count == 0;
    outcome_ = Outcome::AllDone;
    ++round_;
  }
  changed_.notify_all();
  drive(0);
  // Waits for the other workers, which may still be inside a task or leaving drive().
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return serving_ == 0; });
  return outcome_;
}

void Workers::serve(unsigned worker) {
  uint32_t seen = 0;
  while (true) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return quit_ || round_ != seen; });
      if (quit_)
        return;
      seen = round_;
      ++serving_;
    }
    drive(worker);
    {
      std::lock_guard lock(mutex_);
      --serving_;
    }
    changed_.notify_all();
  }
}

void Workers::drive(unsigned worker) {
  uint32_t task;
  while (pop(task))
    runTask(task, worker);
}

bool Workers::pop(uint32_t &task) {
  for (int i = 0; i < kSpins && queued_.load(std::memory_order_relaxed) == 0 && !stopped_; ++i)
    relax();
  std::unique_lock lock(mutex_);
  while (queue_.empty() && !stopped_) {
    ++sleeping_;
    changed_.wait(lock);
    --sleeping_;
  }
  if (stopped_)
    return false;
  task = queue_.front();
  queue_.pop_front();
  queued_.fetch_sub(1, std::memory_order_relaxed);
  return true;
}

void Workers::push(uint32_t task) {
  bool notify;
  {
    std::lock_guard lock(mutex_);
    queue_.push_back(task);
    queued_.fetch_add(1, std::memory_order_relaxed);
    notify = sleeping_ > 0;
  }
  if (notify)
    changed_.notify_one();
}

// Writes the state even if it does not change: a task that is about to run takes it with an
// exchange, and so observes what happened before the wake. A plain load of "Queued" could be
// ordered before that exchange while the task checks its condition before the event.
void Workers::wake(uint32_t task) {
  uint8_t state = states_[task].load(std::memory_order_relaxed), next;
  do {
    if (state == Finished)
      return;
    next = state == Asleep ? Queued : state == Running ? RunningAgain : state;
  } while (!states_[task].compare_exchange_weak(state, next));
  if (state != Asleep)
    return;
  active_.fetch_add(1);
  push(task);
}

void Workers::runTask(uint32_t task, unsigned worker) {
  while (true) {
    states_[task].exchange(Running);
    Poll poll = advance_(task, worker);
    if (poll == Poll::Failed)
      return stop(Outcome::Failed);
    if (poll == Poll::Done) {
      states_[task].store(Finished, std::memory_order_release);
      if (unfinished_.fetch_sub(1) == 1)
        return stop(Outcome::AllDone);
      break;
    }
    uint8_t expected = Running;
    if (states_[task].compare_exchange_strong(expected, Asleep))
      break;
    // Runs it again: it was woken meanwhile.
  }
  // A waker counts the woken task before it leaves itself, so zero means that no running task
  // is left that could wake another.
  if (active_.fetch_sub(1) == 1 && unfinished_.load() > 0)
    stop(Outcome::AllBlocked);
}

void Workers::stop(Outcome outcome) {
  {
    std::lock_guard lock(mutex_);
    if (stopped_)
      return;
    outcome_ = outcome;
    stopped_ = true;
  }
  changed_.notify_all();
}
