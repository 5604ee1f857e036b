// Finds the product, scale, softcap and masks in the operand of an attention's softmax. Tests:
// test/passes/1-raise/raise-attention.mlir (@scaled_mask, @softcap, @bounded).
#ifndef LLMC_PASSES_RAISE_RAISEATTENTION_SCORES_H
#define LLMC_PASSES_RAISE_RAISEATTENTION_SCORES_H

#include "passes/1-raise/RaiseAttention/Masks.h"

#include <cmath>
#include <limits>

namespace llmc::raise {

// Describes a mask. Either max(factor * value, floor) is added to the scores, or the value chooses:
// where it does not see a key, `hidden` replaces the score.
struct Mask {
  mlir::Value value; // i1 if chosen
  bool added = false;
  bool negated = false; // chosen: seen where false
  double hidden = 0;
  double factor = 1, floor = -std::numeric_limits<double>::infinity();

  bool isUnscaled() const { return factor == 1 && std::isinf(floor); }
};

// Describes softcap(scale * product), masked. A mask broadcasts to the product's shape.
struct Scores {
  graph::MatmulOp product;
  double scale = 1, softcap = 0;
  Visibility visibility;              // proven from values
  llvm::SmallVector<Mask, 2> masks;   // all others
};

// Returns the scores behind `value`, the operand of a softmax; nullopt if they have another form.
// Nothing flows back to a mask: only where the model `infers` may one be computed from a parameter.
std::optional<Scores> scoresOf(mlir::Value value, MaskReader &reader, bool infers);

// Builds one operand of graph.attention from all masks of `scores`, in their own shape; returns
// null if there are none.
mlir::Value buildMask(graph::Build &build, const Scores &scores);

// Returns `value` without factors that are constant scalars; multiplies `scale` by them.
mlir::Value withoutFactors(mlir::Value value, double &scale);

} // namespace llmc::raise

#endif // LLMC_PASSES_RAISE_RAISEATTENTION_SCORES_H
