// Applies three ideas, each in a file of its own, together to a fixpoint.
#include "passes/1-raise/Passes.h"
#include "passes/1-raise/Patterns.h"

using namespace mlir;
using namespace llmc;

namespace llmc {
#define GEN_PASS_DEF_FOLDSHAPES
#include "passes/1-raise/Passes.h.inc"
} // namespace llmc

namespace {

struct FoldShapes : llmc::impl::FoldShapesBase<FoldShapes> {
  void runOnOperation() override {
    // With one row a batch dim is a leading 1. Only when no merged dims are left can it be told
    // whether that 1 serves a broadcast alone.
    if (failed(fold(false)) || failed(fold(true)))
      signalPassFailure();
  }

  LogicalResult fold(bool dropLeadingOnes) {
    RewritePatternSet patterns(&getContext());
    raise::populateFoldConstants(patterns); // an op that moved may have constant operands
    raise::populateDropIdentities(patterns);
    raise::populateSinkMerges(patterns);
    raise::populateAbsorbTransposes(patterns);
    if (dropLeadingOnes)
      raise::populateDropLeadingOnes(patterns);
    return raise::applyToFixpoint(getOperation(), std::move(patterns));
  }
};

} // namespace
