// Distinguishes values that occupy the same bytes one after the other.
#ifndef LLMC_DIALECTS_PLAN_LIVES_H
#define LLMC_DIALECTS_PLAN_LIVES_H

#include "llvm/ADT/StringRef.h"

namespace llmc::plan {

// Records, on an instruction where one of them is not 0, the life of each buffer operand,
// array<i64>. Values of different lives occupy the same bytes one after the other (an operation in
// place).
inline constexpr llvm::StringLiteral kLives = "plan.lives";

} // namespace llmc::plan

#endif // LLMC_DIALECTS_PLAN_LIVES_H
