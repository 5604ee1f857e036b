#include "runtime/states/WeightsCheck.h"

#include "lib/support/Hash.h"

#include <algorithm>
#include <sys/resource.h>
#include <unistd.h>

using namespace llmc;
using namespace llmc::runtime;
using support::error;
using support::ok;
using support::Status;
using Clock = std::chrono::steady_clock;

WeightsCheck::WeightsCheck(std::vector<File> files)
    : files_(std::move(files)), left_(new std::atomic<uint64_t>[files_.size()]) {
  for (size_t f = 0; f < files_.size(); ++f) {
    uint64_t chunks = support::hashChunkCount(files_[f].file->size());
    hashes_.emplace_back(chunks);
    left_[f] = chunks;
    for (uint64_t c = 0; c < chunks; ++c)
      parts_.push_back({f, c});
  }
}

WeightsCheck::~WeightsCheck() {
  stop_ = true;
  join();
}

void WeightsCheck::join() {
  for (std::thread &thread : threads_)
    if (thread.joinable())
      thread.join();
}

bool WeightsCheck::takePart() {
  size_t index = next_++;
  if (stop_ || index >= parts_.size())
    return false;
  const Part &part = parts_[index];
  support::Result<uint64_t> hash = support::chunkHash(*files_[part.file].file, part.chunk);
  if (hash) {
    hashes_[part.file][part.chunk] = *hash;
  } else {
    std::lock_guard lock(mutex_);
    if (changed_.empty())
      changed_ = hash.message();
  }
  if (--left_[part.file] == 0)
    end(part.file);
  ++done_;
  return true;
}

void WeightsCheck::end(size_t file) {
  if (support::fileHash(hashes_[file]) == files_[file].hash)
    return;
  std::lock_guard lock(mutex_);
  if (changed_.empty())
    changed_ = support::text("'", files_[file].file->path(),
                             "' has changed since the model was "
                             "compiled; compile again, or give --weights");
}

void WeightsCheck::wait(Clock::time_point end, const Compared &compared) const {
  while (done_ < parts_.size() && Clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (compared)
      compared(done_ * support::kHashChunk);
  }
}

// Starts a thread for each processor; all but the first end once the check is in the
// background.
Status WeightsCheck::begin(const Compared &compared, std::chrono::milliseconds patience) {
  unsigned count =
      std::min<size_t>(std::max(1u, std::thread::hardware_concurrency()), parts_.size());
  for (unsigned i = 0; i < count; ++i)
    threads_.emplace_back([this, i] {
      while (!(i > 0 && background_) && takePart())
        if (background_)
          ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), 19);
    });
  wait(Clock::now() + patience, compared);
  background_ = true;
  return poll();
}

Status WeightsCheck::poll() {
  std::lock_guard lock(mutex_);
  return changed_.empty() ? ok() : Status(error(changed_));
}

Status WeightsCheck::finish(const Compared &compared) {
  size_t before = done_;
  while (takePart()) // alongside the background thread
    if (compared)
      compared((done_ - before) * support::kHashChunk);
  join();
  return poll();
}

uint64_t WeightsCheck::bytesLeft() const { return (parts_.size() - done_) * support::kHashChunk; }
