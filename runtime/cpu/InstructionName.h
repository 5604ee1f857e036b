// Names instructions for the tables of --profile and --trace. The test is test/numerics/traces.py
// (trains: names of launches).
#ifndef LLMC_RUNTIME_CPU_INSTRUCTIONNAME_H
#define LLMC_RUNTIME_CPU_INSTRUCTIONNAME_H

#include "runtime/plan/StageProgram.h"

#include <string>

namespace llmc::runtime {

// Returns the name of an op of `stage`; equal names do equal work. `byLibrary` tells who computes a product.
std::string nameOf(const planfile::ProgramT &program, const StageProgram &stage, const Op &op, bool byLibrary);

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_CPU_INSTRUCTIONNAME_H
