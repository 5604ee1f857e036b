// Measures what this machine can do at this moment, which a profile prints beside its times.
// Tested by test/runtime/CpuTest.cpp (SpeedIsMeasured).
#ifndef LLMC_RUNTIME_COMPUTE_MACHINESPEED_H
#define LLMC_RUNTIME_COMPUTE_MACHINESPEED_H

namespace llmc::runtime {

// Holds measured speeds.
struct MachineSpeed {
  unsigned threads = 1;            // used for the measurement
  double copyBytesPerSecond = 0;   // of a large copy, bytes read plus bytes written
  double matmulFlopsPerSecond = 0; // of oneDNN in float32; 0: no usable oneDNN
};

// Measures on `threads` threads, which takes about a fifth of a second.
MachineSpeed measureMachineSpeed(unsigned threads);

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_COMPUTE_MACHINESPEED_H
