#include "runtime/data/TokenCheck.h"

#include <chrono>

using namespace llmc;
using namespace llmc::runtime;
using support::error;
using support::ok;
using support::Status;
using support::text;

TokenCheck::TokenCheck(std::vector<const TokenFile *> files, support::Progress &progress)
    : files_(std::move(files)), thread_([this, &progress] { run(progress); }) {}

TokenCheck::~TokenCheck() {
  stop_ = true;
  thread_.join();
}

// Checks a whole file, so that the message counts all bad tokens. If the run has begun
// meanwhile, poll() reports those found until then.
Status TokenCheck::checkFile(const TokenFile &file, support::Progress::Phase &phase) {
  constexpr uint64_t kTokens = 1 << 20;
  BadTokens bad;
  for (uint64_t at = 0; at < file.used() && !stop_; at += kTokens) {
    uint64_t count = std::min(kTokens, file.used() - at);
    if (Status s = file.check(at, count, bad); !s)
      return s;
    phase.add(count);
    if (bad.count == 0)
      continue;
    std::lock_guard lock(mutex_);
    problem_ = file.errorOf(bad).message();
    if (at + count < file.used())
      problem_ += text(" (of its first ", at + count, " tokens)");
    failed_ = true;
  }
  return ok();
}

void TokenCheck::run(support::Progress &progress) {
  uint64_t total = 0;
  for (const TokenFile *file : files_)
    total += file->used();
  {
    support::Progress::Phase phase(progress, "checking tokens", total);
    for (const TokenFile *file : files_) {
      Status status = failed_ ? Status(ok()) : checkFile(*file, phase);
      if (status)
        continue;
      std::lock_guard lock(mutex_);
      problem_ = status.message();
      failed_ = true;
    }
  }
  std::lock_guard lock(mutex_);
  done_ = true;
  ended_.notify_all();
}

Status TokenCheck::wait(double seconds) {
  std::unique_lock lock(mutex_);
  ended_.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return done_.load(); });
  lock.unlock();
  return poll();
}

Status TokenCheck::poll() {
  if (!failed_.load(std::memory_order_relaxed))
    return ok();
  std::lock_guard lock(mutex_);
  return error(problem_);
}
