// Prices instructions on the accelerators of a cluster, by the curves of lib/cost. Tests: test/simulate.
#ifndef LLMC_LIB_SIMULATE_DEVICEPRICES_H
#define LLMC_LIB_SIMULATE_DEVICEPRICES_H

#include "lib/cost/Kernels.h"
#include "lib/simulate/Prices.h"

#include <map>

namespace llmc::simulate {

class DevicePrices final : public Prices {
public:
  // Borrows the program. Takes the type of its products for the precision of `machine`'s choices.
  DevicePrices(const planfile::ProgramT &program, cost::Machine machine);

  double compute(const runtime::StageProgram &stage, const runtime::Op &op) const override;
  double collective(const runtime::StageProgram &stage, const runtime::Op &op) const override;
  double message(const runtime::StageProgram &stage, const runtime::Op &op) const override;
  // Returns 0: the host issues ahead of the device.
  double issue(const runtime::StageProgram &, const runtime::Op &) const override { return 0; }

  const cost::Machine &machine() const { return machine_; }

private:
  // Returns the seconds on a rank that waits for no other.
  double alone(const runtime::StageProgram &stage, const runtime::Op &op) const;
  double launch(const runtime::StageProgram &stage, const runtime::Op &op) const;
  double product(const planfile::MatmulT &matmul) const;

  const planfile::ProgramT &program_;
  cost::Machine machine_;
  double pace_ = 1;
  // Holds prices of products by their sizes: few shapes stand for many instructions.
  mutable std::map<const planfile::MatmulT *, double> products_;
};

} // namespace llmc::simulate

#endif // LLMC_LIB_SIMULATE_DEVICEPRICES_H
