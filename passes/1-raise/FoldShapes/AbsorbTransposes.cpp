// Folds a transpose beside a matmul into its equation.
#include "passes/1-raise/Equation.h"
#include "passes/1-raise/Patterns.h"

using namespace mlir;
using namespace llmc;
using namespace llmc::graph;
using namespace llmc::raise;

namespace {

struct AbsorbOperandTranspose : OpRewritePattern<MatmulOp> {
  using OpRewritePattern::OpRewritePattern;

  // Returns whether `value` is a transpose; `letters` and `value` then become those of its operand.
  static bool absorb(std::string &letters, Value &value) {
    auto transpose = value.getDefiningOp<TransposeOp>();
    if (!transpose)
      return false;
    std::string before(letters.size(), ' ');
    for (auto [i, dim] : llvm::enumerate(transpose.getPermutation()))
      before[dim] = letters[i];
    letters = before;
    value = transpose.getOperand();
    return true;
  }

  LogicalResult matchAndRewrite(MatmulOp op, PatternRewriter &rewriter) const override {
    Equation equation = equationOf(op);
    Value lhs = op.getLhs(), rhs = op.getRhs();
    bool left = absorb(equation.lhs, lhs), right = absorb(equation.rhs, rhs);
    if (!left && !right)
      return failure();
    rewriter.replaceOpWithNewOp<MatmulOp>(op, op.getType(), equation.str(), lhs, rhs);
    return success();
  }
};

struct AbsorbResultTranspose : OpRewritePattern<TransposeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(TransposeOp op, PatternRewriter &rewriter) const override {
    auto matmul = op.getOperand().getDefiningOp<MatmulOp>();
    if (!matmul || !matmul->hasOneUse())
      return rewriter.notifyMatchFailure(op, "no matmul that it alone reads");
    Equation equation = equationOf(matmul);
    std::string out;
    for (int64_t dim : op.getPermutation())
      out += equation.result[dim];
    equation.result = out;
    Value product = MatmulOp::create(rewriter, matmul.getLoc(), op.getType(), equation.str(),
                                     matmul.getLhs(), matmul.getRhs());
    rewriter.replaceOp(op, product);
    return success();
  }
};

} // namespace

void raise::populateAbsorbTransposes(RewritePatternSet &patterns) {
  patterns.add<AbsorbOperandTranspose, AbsorbResultTranspose>(patterns.getContext());
  populateSinkTransposes(patterns);
}
