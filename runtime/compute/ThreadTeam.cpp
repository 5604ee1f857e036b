#include "runtime/compute/ThreadTeam.h"

using namespace llmc::runtime;

namespace {
// Counts the iterations of the spin loop before a helper sleeps: about the gap between two
// launches.
constexpr int kSpins = 4000;
} // namespace

ThreadTeam::ThreadTeam(unsigned threads, std::function<void(unsigned)> begin) {
  for (unsigned i = 1; i < threads; ++i)
    helpers_.emplace_back([this, i, begin] {
      if (begin)
        begin(i);
      help(i);
    });
}

ThreadTeam::~ThreadTeam() {
  stop_ = true;
  job_.fetch_add(1);
  job_.notify_all();
  for (std::thread &helper : helpers_)
    helper.join();
}

void ThreadTeam::takeParts(unsigned thread) {
  uint64_t open = open_.load(std::memory_order_acquire);
  while (static_cast<uint32_t>(open) != 0) {
    if (!open_.compare_exchange_weak(open, open - 1, std::memory_order_acq_rel))
      continue;
    // The part taken above keeps the job, and so work_, alive.
    work_.call(work_.callable, static_cast<uint32_t>(open) - 1, thread);
    done_.fetch_add(1, std::memory_order_release);
    open = open_.load(std::memory_order_acquire);
  }
}

void ThreadTeam::share(int64_t parts, Work work) {
  work_ = work;
  done_.store(0);
  uint64_t job = job_.load() + uint64_t(1);
  open_.store(job << 32 | static_cast<uint32_t>(parts), std::memory_order_release);
  job_.store(static_cast<uint32_t>(job), std::memory_order_release);
  job_.notify_all();
  takeParts(0);
  while (done_.load(std::memory_order_acquire) != static_cast<uint32_t>(parts))
    relax();
}

void ThreadTeam::help(unsigned thread) {
  uint32_t seen = 0;
  while (true) {
    for (int i = 0; i < kSpins && job_.load(std::memory_order_acquire) == seen; ++i)
      relax();
    job_.wait(seen, std::memory_order_acquire);
    seen = job_.load(std::memory_order_acquire);
    if (stop_)
      return;
    takeParts(thread);
  }
}
