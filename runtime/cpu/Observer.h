// Declares what may watch the steps of a StreamEngine. Without an observer nothing is called. The
// test is test/runtime/TraceTest.cpp.
#ifndef LLMC_RUNTIME_CPU_OBSERVER_H
#define LLMC_RUNTIME_CPU_OBSERVER_H

#include "runtime/cpu/Rank.h"

#include <cstdint>

namespace llmc::runtime {

// Receives steps from the thread that runs them, and all else from the worker of the site.
class Observer {
public:
  // Holds when a try began, in nanoseconds.
  struct Start {
    uint64_t wall = 0, processor = 0;
  };

  virtual ~Observer() = default;
  virtual void beginStep() = 0;
  virtual void endStep(bool good) = 0;
  // Measures the time in which a worker drives a rank; endAdvance() gets what beginAdvance()
  // returned.
  virtual uint64_t beginAdvance() = 0;
  virtual void endAdvance(unsigned worker, uint64_t start) = 0;
  // Measures each try of an instruction; `ended` states that the try completed it.
  virtual Start beginTry(const Site &site) = 0;
  virtual void endTry(const Site &site, const Start &start, bool ended) = 0;
};

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_CPU_OBSERVER_H
