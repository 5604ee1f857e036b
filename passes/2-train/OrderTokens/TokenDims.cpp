#include "passes/2-train/OrderTokens/TokenDims.h"

#include "dialects/graph/Build.h"
#include "dialects/graph/GraphAttrs.h"

using namespace mlir;
using namespace llmc::graph;

namespace llmc::train {
namespace {

bool isAttention(Operation *op) { return isa<AttentionOp>(op); }

// Returns the factor of tokens in a dimension: the minor one where rows are merged with them.
int64_t factorOf(const TensorFactors &tensor, int64_t dim) {
  return tensor[dim].empty() ? -1 : static_cast<int64_t>(tensor[dim].back());
}

} // namespace

void TokenDims::fail(Operation *op, StringRef why) {
  if (problem.empty())
    problem = (Twine(op->getName().getStringRef()) + " " + why).str();
}

void TokenDims::mark(Value value, int64_t dim) {
  auto [it, isNew] = dims.insert({value, dim});
  if (isNew)
    worklist.push_back(value);
  else if (it->second != dim)
    fail(value.getDefiningOp() ? value.getDefiningOp() : value.getParentBlock()->getParentOp(),
         "has tokens in two dimensions of one value");
}

void TokenDims::run() {
  while (!worklist.empty() && problem.empty()) {
    Value value = worklist.pop_back_val();
    if (Operation *op = value.getDefiningOp())
      visit(op);
    else if (auto repeat = dyn_cast<RepeatOp>(value.getParentBlock()->getParentOp()))
      visitRepeat(repeat);
    for (Operation *user : llvm::to_vector(value.getUsers()))
      visit(user);
  }
}

void TokenDims::visit(Operation *op) {
  if (isa<func::ReturnOp>(op))
    return visitReturn(op);
  if (auto repeat = dyn_cast<RepeatOp>(op->hasTrait<OpTrait::IsTerminator>() ? op->getParentOp() : op))
    return visitRepeat(repeat);
  if (isa<GraphOpInterface>(op))
    visitRule(op);
}

// Lets values through that are returned for differentiation alone: no user sees them.
void TokenDims::visitReturn(Operation *op) {
  auto func = cast<func::FuncOp>(op->getParentOp());
  for (OpOperand &use : op->getOpOperands())
    if (unsigned i = use.getOperandNumber();
        of(use.get()) >= 0 && !func.getResultAttr(i, kPrimal) && !func.getResultAttr(i, kCotangent))
      fail(op, "returns values that have tokens");
}

// Ties what enters and leaves a repeat to what its body has; stacked values have layers before all else.
void TokenDims::visitRepeat(RepeatOp op) {
  Block &body = op.getBlock();
  int64_t carried = op.getCarried().size(), stacked = op.getStacked().size();
  auto tie = [&](Value outer, Value inner, bool isStacked) {
    if (int64_t dim = of(outer); dim >= isStacked)
      mark(inner, dim - isStacked);
    else if (dim == 0)
      fail(op, "has a layer for each token");
    if (int64_t dim = of(inner); dim >= 0)
      mark(outer, dim + isStacked);
  };
  for (auto [i, operand] : llvm::enumerate(op->getOperands()))
    tie(operand, body.getArgument(i), int64_t(i) >= carried && int64_t(i) < carried + stacked);
  for (auto [i, yielded] : llvm::enumerate(body.getTerminator()->getOperands()))
    tie(op->getResult(i), yielded, int64_t(i) >= carried);
  for (int64_t i = 0; i < carried; ++i) { // what is carried comes back in
    if (int64_t dim = of(body.getArgument(i)); dim >= 0)
      mark(body.getTerminator()->getOperand(i), dim);
    if (int64_t dim = of(body.getTerminator()->getOperand(i)); dim >= 0)
      mark(body.getArgument(i), dim);
  }
}

void TokenDims::visitRule(Operation *op) {
  ShardingRule rule = cast<GraphOpInterface>(op).getShardingRule();
  llvm::SmallDenseSet<unsigned> found; // factors that are tokens
  for (auto [operand, tensor] : llvm::zip(op->getOperands(), rule.operands)) {
    int64_t dim = of(operand);
    if (dim < 0)
      continue;
    int64_t factor = factorOf(tensor, dim);
    if (factor < 0)
      return fail(op, "broadcasts a single token");
    if (rule.factors[factor].kind == FactorKind::Replicated && !isAttention(op))
      return fail(op, "depends on the order of tokens");
    found.insert(factor);
  }
  for (auto [result, tensor] : llvm::zip(op->getResults(), rule.results)) {
    int64_t dim = of(result);
    int64_t factor = dim < 0 ? -1 : factorOf(tensor, dim);
    if (factor >= 0 && (rule.factors[factor].kind != FactorKind::Replicated || isAttention(op)))
      found.insert(factor);
  }
  auto markAll = [&](Value value, const TensorFactors &tensor) {
    for (int64_t dim = 0; dim < int64_t(tensor.size()); ++dim)
      for (unsigned factor : tensor[dim])
        if (found.contains(factor)) {
          if (factor != tensor[dim].back())
            return fail(op, "merges tokens with what belongs to each of them");
          mark(value, dim);
        }
  };
  for (auto [operand, tensor] : llvm::zip(op->getOperands(), rule.operands))
    markAll(operand, tensor);
  for (auto [result, tensor] : llvm::zip(op->getResults(), rule.results))
    markAll(result, tensor);
}

bool TokenDims::isRoot(Value value) const {
  Operation *op = value.getDefiningOp();
  if (!op)
    return isa<func::FuncOp>(value.getParentBlock()->getParentOp());
  if (isa<RepeatOp>(op))
    return false;
  ShardingRule rule = cast<GraphOpInterface>(op).getShardingRule();
  int64_t factor = factorOf(rule.results[cast<OpResult>(value).getResultNumber()], of(value));
  bool isFollowed = factor >= 0 && rule.factors[factor].kind != FactorKind::Replicated;
  return op->getNumOperands() == 0 || !(isFollowed || isAttention(op));
}

} // namespace llmc::train
