// Describes in which types a program computes and keeps its states, for people. Test:
// test/numerics/precision.py (lines).
#ifndef LLMC_LIB_PLANFILE_PRECISION_H
#define LLMC_LIB_PLANFILE_PRECISION_H

#include "lib/planfile/Program.h"

#include <optional>
#include <string>

namespace llmc::planfile {

// Returns "fp32", or "bf16: weights, activations, messages; fp32: masters, ..." as the states of the
// program have it.
std::string precisionNote(const ProgramT &program);

// Returns the type in which data-parallel ranks add gradients on a stage; none if none do.
std::optional<DType> reductionType(const ProgramT &program, const StageT &stage);

// Returns the name that --precision has for a type, "fp32", "bf16" or "fp16"; else the plan's.
std::string typeName(DType type);

} // namespace llmc::planfile

#endif // LLMC_LIB_PLANFILE_PRECISION_H
