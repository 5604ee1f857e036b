// Prices the instructions of a plan, in seconds: on processors that were measured (HostPrices.h) or on the accelerators
// of a cluster (DevicePrices.h). Tests: test/simulate.
#ifndef LLMC_LIB_SIMULATE_PRICES_H
#define LLMC_LIB_SIMULATE_PRICES_H

#include "runtime/plan/StageProgram.h"

namespace llmc::simulate {

class Prices {
public:
  virtual ~Prices() = default;
  // Returns the seconds of a Launch, Matmul, Copy, Fill or Feed, on one rank.
  virtual double compute(const runtime::StageProgram &stage, const runtime::Op &op) const = 0;
  // Returns the seconds of a Collective from when its last member has come: on workers, of one that does all of it.
  virtual double collective(const runtime::StageProgram &stage, const runtime::Op &op) const = 0;
  // Returns the seconds of a Send or Recv from when both ends have come.
  virtual double message(const runtime::StageProgram &stage, const runtime::Op &op) const = 0;
  // Returns the seconds of any instruction beside those above: what it takes to issue one.
  virtual double issue(const runtime::StageProgram &stage, const runtime::Op &op) const = 0;
  // Returns the seconds until a worker runs a rank that was woken for it, and those of a step beside its instructions.
  virtual double wake() const { return 0; }
  virtual double step() const { return 0; }
};

} // namespace llmc::simulate

#endif // LLMC_LIB_SIMULATE_PRICES_H
