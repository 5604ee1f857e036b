// Replaces a gather of consecutive rows of a table by a slice.
#include "passes/1-raise/Constants.h"
#include "passes/1-raise/Passes.h"
#include "passes/1-raise/Patterns.h"

using namespace mlir;
using namespace llmc;
using namespace llmc::graph;
using namespace llmc::raise;

namespace llmc {
#define GEN_PASS_DEF_RAISEPOSITIONS
#include "passes/1-raise/Passes.h.inc"
} // namespace llmc

// Returns the first of the ids if they are consecutive along the last dim and all other dims repeat
// them; else nullopt.
static std::optional<int64_t> firstOfConsecutive(const Tensor &ids) {
  if (ids.shape.empty() || ids.size() == 0)
    return std::nullopt;
  int64_t length = ids.shape.back();
  for (int64_t i = 0; i < ids.size(); ++i)
    if (ids.data[i] != ids.data[0] + i % length)
      return std::nullopt;
  return static_cast<int64_t>(ids.data[0]);
}

namespace {

struct RaiseGather : OpRewritePattern<GatherOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(GatherOp op, PatternRewriter &rewriter) const override {
    auto ids = constantOf(op.getIds());
    if (!ids || op.getOffset())
      return failure();
    auto first = firstOfConsecutive(*ids);
    int64_t length = ids->shape.empty() ? 0 : ids->shape.back();
    if (!first || *first < 0 || *first + length > shapeOf(op.getTable())[0])
      return rewriter.notifyMatchFailure(op, "ids are not consecutive rows of the table");
    Build build(rewriter, op.getLoc());
    Value rows = build.slice(op.getTable(), 0, *first, *first + length);
    rewriter.replaceOp(op, build.broadcast(rows, shapeOf(op.getResult())));
    return success();
  }
};

struct RaisePositions : llmc::impl::RaisePositionsBase<RaisePositions> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<RaiseGather>(&getContext());
    populateDropIdentities(patterns); // the sum behind it broadcasts by itself
    if (failed(applyToFixpoint(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};

} // namespace
