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
    RewritePatternSet patterns(&getContext());
    raise::populateFoldConstants(patterns); // what moved meets constants
    raise::populateDropIdentities(patterns);
    raise::populateSinkMerges(patterns);
    raise::populateAbsorbTransposes(patterns);
    if (failed(raise::applyToFixpoint(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};

} // namespace
