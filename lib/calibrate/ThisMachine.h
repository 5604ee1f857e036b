// Describes the machine on which llmc runs. Tests: test/numerics/calibrated.py.
#ifndef LLMC_LIB_CALIBRATE_THISMACHINE_H
#define LLMC_LIB_CALIBRATE_THISMACHINE_H

#include <string>

namespace llmc::calibrate {

struct ThisMachine {
  unsigned cores = 1;  // that this process may use
  std::string kernels; // that programs run here (HostMachine::kernels); empty: they do not
  double memoryBytes = 0; // free now
  double copyBytes = 0, flops = 0; // a second, of all cores: read and written by a copy; of products, 0 without the library
};

// Measures it, in about a fifth of a second.
ThisMachine measureThisMachine();

} // namespace llmc::calibrate

#endif // LLMC_LIB_CALIBRATE_THISMACHINE_H
