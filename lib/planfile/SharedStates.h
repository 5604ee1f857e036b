// Tells what data-parallel ranks share out of their states, the stage of ZeRO (Rajbhandari et al.,
// 2020), as the states of a program show it. Tests: test/numerics/explain.py (stages of ZeRO),
// test/verify/OverflowTest.cpp.
#ifndef LLMC_LIB_PLANFILE_SHAREDSTATES_H
#define LLMC_LIB_PLANFILE_SHAREDSTATES_H

#include "lib/planfile/Program.h"

#include <cstdint>
#include <string>

namespace llmc::planfile {

// Returns the stage of ZeRO: 0 nothing is shared out; 1 masters and moments; 2 sums of gradients
// too; 3 weights too.
int zeroStage(const StageT &stage);

// Holds the bytes of one rank's part of the model, had it none of the other ranks to share with.
struct StateBytes {
  uint64_t weights = 0, gradients = 0, optimizer = 0; // optimizer: masters and moments
  uint64_t readAgain = 0; // of the weights those that backward reads, as no embedding's
  uint64_t reduced = 0;   // gradients in the type in which ranks add them

  // Returns the bytes that one of `ranks` ranks keeps at a stage of ZeRO: states, and at stages 0 and 1
  // the sums of gradients that it receives beside its own.
  uint64_t kept(int zero, uint64_t ranks) const;
  // Returns the payload that a rank moves in a step: stage 0 sums gradients once; 1 scatters them
  // once and gathers the weights; 2 scatters them in each micro-batch; 3 gathers the weights in
  // each forward, and what backward reads of them there, instead (Rajbhandari et al., 2020, section 7).
  uint64_t moved(int zero, uint64_t microBatches) const;
};
StateBytes stateBytesOf(const ProgramT &program, const StageT &stage);

// Returns "a rank keeps 1/8 of masters and moments", "... all of ..." where nothing is shared
// out; "" for an inference.
std::string statesNote(const ProgramT &program);

} // namespace llmc::planfile

#endif // LLMC_LIB_PLANFILE_SHAREDSTATES_H
