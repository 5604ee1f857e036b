// A transpose beside a matmul is part of its equation. Transposes that stand
// further away move there through ops that work on each element alone.
#include "passes/1-raise/Constants.h"
#include "passes/1-raise/Equation.h"
#include "passes/1-raise/Patterns.h"

using namespace mlir;
using namespace llmc;
using namespace llmc::graph;
using namespace llmc::raise;

namespace {

struct AbsorbOperandTranspose : OpRewritePattern<MatmulOp> {
  using OpRewritePattern::OpRewritePattern;

  // The letters of the value before the transpose; `value` becomes that value.
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
      return failure();
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

struct SinkTransposeThroughElementwise : RewritePattern {
  explicit SinkTransposeThroughElementwise(MLIRContext *context)
      : RewritePattern(MatchAnyOpTypeTag(), 1, context) {}

  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    if (!isElementwise(op) && !isa<CastOp>(op))
      return failure();
    TransposeOp first;
    SmallVector<Value> operands;
    for (Value operand : op->getOperands()) {
      auto transpose = operand.getDefiningOp<TransposeOp>();
      if (transpose && shapeOf(operand) == shapeOf(op->getResult(0))) {
        if (first && first.getPermutation() != transpose.getPermutation())
          return failure();
        first = transpose;
        operands.push_back(transpose.getOperand());
      } else if (shapeOf(operand).empty()) {
        operands.push_back(operand);
      } else {
        return failure();
      }
    }
    if (!first)
      return failure();
    auto type = RankedTensorType::get(shapeOf(first.getOperand()), elementOf(op->getResult(0)));
    Operation *copy = cloneForTypes(rewriter, op, operands, type);
    rewriter.replaceOpWithNewOp<TransposeOp>(op, op->getResultTypes()[0], copy->getResult(0),
                                             first.getPermutation());
    return success();
  }
};

} // namespace

void raise::populateAbsorbTransposes(RewritePatternSet &patterns) {
  patterns.add<AbsorbOperandTranspose, AbsorbResultTranspose, SinkTransposeThroughElementwise>(
      patterns.getContext());
}
