// Reads masks that constants give, or ops on constants and positions, line by line: a mask of
// 131,072 x 131,072 is never held. Tests: test/passes/1-raise/raise-attention-symbolic.mlir.
#ifndef LLMC_PASSES_RAISE_RAISEATTENTION_KNOWNMASK_H
#define LLMC_PASSES_RAISE_RAISEATTENTION_KNOWNMASK_H

#include "lib/support/Definition.h"
#include "passes/1-raise/Constants.h"

namespace llmc::raise {

// Holds the elements of a mask by their definition. Masks with the same key have the same elements.
struct KnownMask {
  support::DefinitionRef elements; // of at least one dim
  std::string key;
  bool logical = false; // i1
};

// Returns the mask that `value` is; nullopt unless constants and positions alone define it, by
// comparison, logic, choice, arithmetic and movement.
std::optional<KnownMask> knownMask(mlir::Value value);
// Returns max(factor * mask, floor), or the negation of a logical mask.
KnownMask scaled(const KnownMask &mask, double factor, double floor);
KnownMask negated(const KnownMask &mask);

// Calls visit(row, line) for the lines along the last dim until it returns false: those that differ
// by their definition, in row-major order. `row` is the index along the dim before the last, or 0.
// Returns whether all were visited; false too if an element cannot be computed.
bool forEachLine(const KnownMask &mask,
                 llvm::function_ref<bool(int64_t row, const support::Runs &line)> visit);
// Returns whether `test` holds for all elements.
bool allElements(const KnownMask &mask, llvm::function_ref<bool(double)> test);

} // namespace llmc::raise

#endif // LLMC_PASSES_RAISE_RAISEATTENTION_KNOWNMASK_H
