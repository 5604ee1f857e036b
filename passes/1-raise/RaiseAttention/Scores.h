// What stands in the softmax of an attention.
#ifndef LLMC_PASSES_RAISE_RAISEATTENTION_SCORES_H
#define LLMC_PASSES_RAISE_RAISEATTENTION_SCORES_H

#include "passes/1-raise/RaiseAttention/Masks.h"

#include <cmath>
#include <limits>

namespace llmc::raise {

// `factor` times the value, at least `floor`, is added to the scores; or it chooses:
// where it is not seen, `hidden` stands instead.
struct Mask {
  mlir::Value value; // i1 if chosen
  bool added = false;
  bool negated = false; // chosen: seen where false
  double hidden = 0;
  double factor = 1, floor = -std::numeric_limits<double>::infinity();

  bool isAsItStands() const { return factor == 1 && std::isinf(floor); }
};

// softcap(scale * product), masked. A mask broadcasts to the product's shape.
struct Scores {
  graph::MatmulOp product;
  double scale = 1, softcap = 0;
  Visibility visibility;              // what is proven from values
  llvm::SmallVector<Mask, 2> masks;   // what is not
};

// The scores behind `value`, which is the operand of a softmax. Nothing flows back to a
// mask: only where the model `infers` may one be computed from a parameter.
std::optional<Scores> scoresOf(mlir::Value value, MaskReader &reader, bool infers);

// All masks of `scores` as one operand of graph.attention, in their own shape;
// null if there are none.
mlir::Value buildMask(graph::Build &build, const Scores &scores);

// `value` without factors that are numbers; `scale` collects them.
mlir::Value withoutFactors(mlir::Value value, double &scale);

} // namespace llmc::raise

#endif // LLMC_PASSES_RAISE_RAISEATTENTION_SCORES_H
