// Checks every token of the data before the run starts where that is quick, else during the
// first steps. The test is test/runtime/TokenFileTest.cpp.
#ifndef LLMC_RUNTIME_DATA_TOKENCHECK_H
#define LLMC_RUNTIME_DATA_TOKENCHECK_H

#include "lib/support/Error.h"
#include "lib/support/Progress.h"
#include "runtime/data/TokenFile.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace llmc::runtime {

// Owns the thread of one check.
class TokenCheck {
public:
  // Starts to check on a thread of its own. Files and progress must outlive this object.
  TokenCheck(std::vector<const TokenFile *> files, support::Progress &progress);
  TokenCheck(const TokenCheck &) = delete;
  ~TokenCheck(); // abandons the rest

  // Waits at most `seconds` for the check to end; then returns the same as poll().
  support::Status wait(double seconds);
  // Fails once a bad token, or a file that cannot be read, was found; never waits.
  support::Status poll();
  bool done() const { return done_; }

private:
  void run(support::Progress &progress);
  support::Status checkFile(const TokenFile &file, support::Progress::Phase &phase);

  std::vector<const TokenFile *> files_;
  std::mutex mutex_;
  std::condition_variable ended_;
  std::string problem_;
  std::atomic<bool> failed_{false}, done_{false}, stop_{false};
  std::thread thread_;
};

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_DATA_TOKENCHECK_H
