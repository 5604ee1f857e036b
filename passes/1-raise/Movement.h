// Describes values as strided reads of other values: reshaped, transposed, repeated, scaled. Tests:
// test/passes/1-raise/raise-attention.mlir (@grouped, @nearly_grouped), raise-rotary.mlir.
#ifndef LLMC_PASSES_RAISE_MOVEMENT_H
#define LLMC_PASSES_RAISE_MOVEMENT_H

#include "passes/1-raise/Constants.h"

namespace llmc::raise {

// Describes a value as `factor` times elements of `base`. Each dim of the value consists of parts,
// outermost first: a size, and a stride in base's elements, row-major; stride 0 repeats. Parts of
// size 1 are left out.
struct Movement {
  struct Part {
    int64_t size, stride;
  };
  using Parts = llvm::SmallVector<Part, 2>;

  mlir::Value base;
  double factor = 1;
  llvm::SmallVector<Parts, 4> dims;
  int64_t ops = 0; // between base and the value
};

// Returns the parts of a dim of this size and stride, which is one dim of its base.
Movement::Parts contiguousDim(int64_t size, int64_t stride);

// Distributes the parts of all dims over dims of the sizes `shape` and merges neighbouring parts
// that are one run of elements. Returns whether strides can express it; if not, `dims` is
// unspecified.
bool regroup(llvm::SmallVectorImpl<Movement::Parts> &dims, llvm::ArrayRef<int64_t> shape);

// Traces `value` back through reshapes, transposes, broadcasts and factors to the farthest base of
// which strides can describe it.
Movement traceMovement(mlir::Value value);

// Returns how often each element repeats consecutively along dim `dim` (repeat_interleave, not
// tile); 1 if it does not.
int64_t repeatsOf(const Movement &movement, size_t dim);

// Builds the value without the factor and without the repeats of dim `dim`: at most a reshape, a
// transpose and a reshape. Returns null if anything else is repeated.
mlir::Value rebuild(graph::Build &build, const Movement &movement, size_t dim);

// Counts the ops that `rebuild` builds; the largest int64_t if it returns null.
int64_t opsToRebuild(const Movement &movement, size_t dim);

} // namespace llmc::raise

#endif // LLMC_PASSES_RAISE_MOVEMENT_H
