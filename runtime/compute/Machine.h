// What this machine can do at this moment: the yardstick of a profile.
#ifndef LLMC_RUNTIME_COMPUTE_MACHINE_H
#define LLMC_RUNTIME_COMPUTE_MACHINE_H

namespace llmc::runtime {

struct Machine {
  unsigned threads = 1;            // that were used
  double copyBytesPerSecond = 0;   // of a large copy: bytes read and bytes written
  double matmulFlopsPerSecond = 0; // of the library; 0: there is none
};

// Takes about a fifth of a second, alone on `threads` threads.
Machine measureMachine(unsigned threads);

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_COMPUTE_MACHINE_H
