// Three ideas, each in a file of its own, applied together to a fixpoint.
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
    // With one row a batch dim is a one in front. Whether it is there for the
    // sake of a broadcast can be told only when no merged dims are left.
    if (failed(fold(false)) || failed(fold(true)))
      signalPassFailure();
  }

  LogicalResult fold(bool dropLeadingOnes) {
    RewritePatternSet patterns(&getContext());
    raise::populateFoldConstants(patterns); // what moved meets constants
    raise::populateDropIdentities(patterns);
    raise::populateSinkMerges(patterns);
    raise::populateAbsorbTransposes(patterns);
    if (dropLeadingOnes)
      raise::populateDropLeadingOnes(patterns);
    return raise::applyToFixpoint(getOperation(), std::move(patterns));
  }
};

} // namespace
