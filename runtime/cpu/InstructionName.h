// Names instructions for the tables of --profile and --trace. The test is test/numerics/traces.py
// (trains: names of launches).
#ifndef LLMC_RUNTIME_CPU_INSTRUCTIONNAME_H
#define LLMC_RUNTIME_CPU_INSTRUCTIONNAME_H

#include "runtime/cpu/KernelRunner.h"

#include <string>

namespace llmc::runtime {

// Returns the name of an op of `stage`; equal names do equal work.
std::string nameOf(const planfile::ProgramT &program, const KernelRunner &kernels,
                   const StageProgram &stage, const Op &op);

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_CPU_INSTRUCTIONNAME_H
