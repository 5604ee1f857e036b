// Values as other values moved: reshaped, transposed, repeated, times a number.
#ifndef LLMC_PASSES_RAISE_MOVEMENT_H
#define LLMC_PASSES_RAISE_MOVEMENT_H

#include "passes/1-raise/Constants.h"

namespace llmc::raise {

// `factor` times elements of `base`. Each dim of the value is made of parts,
// outermost first: a size and the distance of its steps in base's elements,
// row-major; 0 repeats. Parts of size 1 are left out.
struct Movement {
  struct Part {
    int64_t size, stride;
  };
  using Parts = llvm::SmallVector<Part, 2>;

  mlir::Value base;
  double factor = 1;
  llvm::SmallVector<Parts, 4> dims;
  int64_t ops = 0; // that stand between
};

// The parts of a dim of this size that lies whole in its base.
Movement::Parts wholeDim(int64_t size, int64_t stride);

// Deals the parts of all dims out to dims of other sizes; neighbouring parts that are
// one run of elements become one. Whether strides can say it.
bool regroup(llvm::SmallVectorImpl<Movement::Parts> &dims, llvm::ArrayRef<int64_t> shape);

// As far up as strides can say.
Movement movementOf(mlir::Value value);

// How often each element of dim `dim` stands there, one after the other
// (repeat_interleave, not tile); 1 if it is not repeated.
int64_t repeatsOf(const Movement &movement, size_t dim);

// The value without the factor and without the repeats of dim `dim`; null if
// anything else is repeated. Builds at most a reshape, a transpose and a reshape.
mlir::Value rebuild(graph::Build &build, const Movement &movement, size_t dim);

// How many ops `rebuild` builds.
int64_t opsToRebuild(const Movement &movement, size_t dim);

} // namespace llmc::raise

#endif // LLMC_PASSES_RAISE_MOVEMENT_H
