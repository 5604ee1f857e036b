// Prices instructions on the processors that llmc calibrate measured. Tests: test/simulate,
// test/numerics/calibrated.py.
#ifndef LLMC_LIB_SIMULATE_HOSTPRICES_H
#define LLMC_LIB_SIMULATE_HOSTPRICES_H

#include "lib/cost/Host.h"
#include "lib/simulate/Prices.h"

namespace llmc::simulate {

// Holds what the time of one instruction depends on: what llmc calibrate fits HostRates to, and what a price is made of.
struct Work {
  enum Kind : uint8_t { Launch, Product, OwnProduct, RoutedProduct, Copy, Collective, Message, Issue } kind = Issue;
  bool isShared = false; // of a launch: helpers take part in it
  double instructions = 0, nearBytes = 0, farBytes = 0; // of a launch
  double attentionFlops = 0, attentionGradFlops = 0;    // of a launch, instead of instructions
  double flops = 0;
  double members = 1; // of a collective
  double bytes = 0; // copied, or read and written by all members of a collective
  std::string product; // key of HostRates::products
  double batch = 1, rows = 0, columns = 0, depth = 0; // of a product, or of one expert's
};

// Returns the work of an instruction on `host`.
Work workOf(const planfile::ProgramT &program, const runtime::StageProgram &stage, const runtime::Op &op,
            const cost::HostMachine &host, const cost::HostRates &rates);

class HostPrices final : public Prices {
public:
  // Borrows all of them. Prices a rank of `threads` threads.
  HostPrices(const planfile::ProgramT &program, const cost::HostMachine &host, unsigned threads)
      : program_(program), host_(host), rates_(host.of(threads)) {}

  double compute(const runtime::StageProgram &stage, const runtime::Op &op) const override { return host_.issue + price(stage, op); }
  double collective(const runtime::StageProgram &stage, const runtime::Op &op) const override { return price(stage, op); }
  double message(const runtime::StageProgram &stage, const runtime::Op &op) const override { return price(stage, op); }
  double issue(const runtime::StageProgram &, const runtime::Op &) const override { return host_.issue; }
  double wake() const override { return host_.wake; }
  double step() const override { return host_.step; }

private:
  double price(const runtime::StageProgram &stage, const runtime::Op &op) const;

  const planfile::ProgramT &program_;
  const cost::HostMachine &host_;
  const cost::HostRates &rates_;
  mutable std::map<const runtime::Op *, double> known_;
};

// Returns the seconds of a product by the grid alone.
double gridTimeOf(const Work &work, const cost::HostRates &rates);
// Returns the seconds of some work beside HostMachine::issue.
double timeOf(const Work &work, const cost::HostRates &rates);

} // namespace llmc::simulate

#endif // LLMC_LIB_SIMULATE_HOSTPRICES_H
