// Compares files with their hashes, every byte: before the run starts where that is quick,
// else in the background of the run. The test is test/runtime/WeightsTest.cpp.
#ifndef LLMC_RUNTIME_STATES_WEIGHTSCHECK_H
#define LLMC_RUNTIME_STATES_WEIGHTSCHECK_H

#include "lib/support/Error.h"
#include "lib/support/File.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace llmc::runtime {

// Owns the threads that hash chunks of the files.
class WeightsCheck {
public:
  struct File {
    const support::ReadableFile *file = nullptr;
    uint64_t hash = 0; // by support::fileHash()
  };
  // Prepares to compare `files`, which must outlive this object; starts nothing.
  explicit WeightsCheck(std::vector<File> files);
  ~WeightsCheck(); // abandons what is not read yet

  // Receives now and then the number of bytes that the call has compared.
  using Compared = std::function<void(uint64_t bytes)>;

  // Compares on all processors for as long as `patience`; one thread of lowest priority then
  // compares the rest. Fails, like poll() and finish(), if a file is known to have changed
  // or cannot be read.
  static constexpr std::chrono::milliseconds kPatience{2000};
  support::Status begin(const Compared &compared = {},
                        std::chrono::milliseconds patience = kPatience);
  // Returns the first problem found until now, without waiting.
  support::Status poll();
  support::Status finish(const Compared &compared = {}); // compares the rest

  uint64_t bytesLeft() const;

private:
  struct Part {
    size_t file = 0;
    uint64_t chunk = 0;
  };
  bool takePart(); // false: none is left
  void end(size_t file);
  // Reports to `compared` until all is compared or `end` is reached.
  void wait(std::chrono::steady_clock::time_point end, const Compared &compared) const;
  void join();

  std::vector<File> files_;
  std::vector<Part> parts_;
  std::vector<std::vector<uint64_t>> hashes_;                   // by file, by chunk
  std::unique_ptr<std::atomic<uint64_t>[]> left_;               // chunks, by file
  std::atomic<size_t> next_{0}, done_{0};                       // parts
  std::atomic<bool> background_{false}, stop_{false};
  std::mutex mutex_;
  std::string changed_; // the first problem; empty: none
  std::vector<std::thread> threads_;
};

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_STATES_WEIGHTSCHECK_H
