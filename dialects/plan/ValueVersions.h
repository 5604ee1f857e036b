// Distinguishes values that occupy the same bytes one after the other. BuildProcedures writes the
// attribute, WritePlan turns it into tensor numbers of the plan file, and the checker `tensors`
// reads those. Tests: test/passes/5-schedule/build-procedures.mlir and
// test/planfile/CheckRemovalTest.cpp.
#ifndef LLMC_DIALECTS_PLAN_VALUEVERSIONS_H
#define LLMC_DIALECTS_PLAN_VALUEVERSIONS_H

#include "llvm/ADT/StringRef.h"

namespace llmc::plan {

// Names the attribute that numbers, for each buffer operand of an instruction, which of the values
// that occupy its bytes one after the other is meant: array<i64>, absent if all are 0. A value that
// an operation in place overwrites is 0, its result is 1, and so on.
inline constexpr llvm::StringLiteral kValueVersions = "plan.value_versions";

} // namespace llmc::plan

#endif // LLMC_DIALECTS_PLAN_VALUEVERSIONS_H
