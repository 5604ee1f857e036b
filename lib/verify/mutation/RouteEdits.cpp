// Derives edits of mixtures of experts: what a pass that routes rows, counts or limits them might get wrong.
#include "dialects/graph/Build.h"
#include "dialects/parallel/Collectives.h"
#include "lib/verify/mutation/IrEdits.h"

using namespace mlir;
using namespace llmc::graph;

namespace llmc::verify {

namespace {

// Returns a tensor with the elements of a dim in reverse order.
Value reversed(Build &b, Value value, int64_t dim) {
  SmallVector<Value> parts;
  for (int64_t i = shapeOf(value)[dim]; i-- > 0;)
    parts.push_back(b.slice(value, dim, i, i + 1));
  return b.concat(parts, dim);
}

// Limits routes that `reorder`, which is its own inverse, has put into another order.
void limitInOrder(Operation *op, function_ref<Value(Build &, Value)> reorder) {
  OpBuilder builder(op);
  Build b(builder, op->getLoc());
  op->setOperand(0, reorder(b, op->getOperand(0)));
  Value result = op->getResult(0);
  SmallPtrSet<Operation *, 8> readers(result.user_begin(), result.user_end());
  result.setType(cast<RankedTensorType>(op->getOperand(0).getType()));
  builder.setInsertionPointAfter(op);
  Value back = reorder(b, result);
  result.replaceUsesWithIf(back, [&](OpOperand &use) { return readers.contains(use.getOwner()); });
}

Value tokensReversed(Build &b, Value routes) { return reversed(b, routes, typeOf(routes).getRank() - 2); }

Value choicesBeforeTokens(Build &b, Value routes) {
  SmallVector<int64_t> order = llvm::to_vector(llvm::seq<int64_t>(typeOf(routes).getRank()));
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return b.transpose(routes, order);
}

// Exchanges experts 0 and 1 in an operand that has routes.
void swapExperts(Operation *op, unsigned operand) {
  OpBuilder builder(op);
  Build b(builder, op->getLoc());
  Value routes = op->getOperand(operand), zero = b.constantLike(0, routes), one = b.constantLike(1, routes);
  Value second = b.select(b.compare(routes, one, Predicate::eq), zero, routes);
  op->setOperand(operand, b.select(b.compare(routes, zero, Predicate::eq), one, second));
}

// Adds `more` to one of the numbers that a result has; none becomes less than 0.
void miscount(Operation *op, unsigned result, int64_t element, int64_t more) {
  OpBuilder builder(op->getContext());
  builder.setInsertionPointAfter(op);
  Build b(builder, op->getLoc());
  Value counts = op->getResult(result);
  auto type = typeOf(counts);
  SmallVector<int64_t> change(type.getNumElements(), 0);
  change[element] = more;
  Value by = ConstantOp::create(builder, op->getLoc(), type, DenseElementsAttr::get(type, ArrayRef<int64_t>(change)));
  Value sum = b.add(counts, by), zero = b.constantLike(0, counts);
  Value wrong = b.select(b.compare(sum, zero, Predicate::lt), zero, sum);
  counts.replaceUsesWithIf(wrong, [&](OpOperand &use) { return use.getOwner() != sum.getDefiningOp(); });
}

// Returns whether a value has numbers of rows, one for each rank of a group.
bool isCounts(Value value) {
  Operation *op = value.getDefiningOp();
  return (isa<SortRoutesOp>(op) && value == cast<SortRoutesOp>(op).getCounts()) || isa<CountSourcesOp>(op) ||
         (isa<parallel::AllToAllOp>(op) && typeOf(value).getRank() == 1 && elementOf(value).isInteger(64));
}

} // namespace

void addRouteEdits(Operation *op, std::vector<IrEdit> &edits) {
  auto offer = [&](std::string change, std::function<void(Operation *)> rewire) {
    edits.push_back({"routes", std::move(change), {}, {}, std::move(rewire)});
  };
  if (isa<LimitRoutesOp>(op)) {
    offer("later tokens first", [](Operation *op) { limitInOrder(op, tokensReversed); });
    // Leaves out the order of one token's choices: they are different experts, which each fill up alone.
    offer("best choices of all tokens first", [](Operation *op) { limitInOrder(op, choicesBeforeTokens); });
  }
  if (auto take = dyn_cast<TakeAlongOp>(op); take && take.getIds().getDefiningOp<RouteOp>())
    offer("weights of the other choices", [](Operation *op) {
      OpBuilder builder(op);
      Build b(builder, op->getLoc());
      auto take = cast<TakeAlongOp>(op);
      take.getIdsMutable().assign(reversed(b, take.getIds(), typeOf(take.getIds()).getRank() - 1));
    });
  auto product = dyn_cast<GroupedMatmulOp>(op);
  auto outer = dyn_cast<GroupedOuterOp>(op);
  if (product || outer) {
    offer("experts 0 and 1 exchanged", [](Operation *op) { swapExperts(op, 2); });
    if (product ? product.getOffset() : outer.getOffset())
      offer("without its offset", [](Operation *op) {
        if (auto product = dyn_cast<GroupedMatmulOp>(op))
          product.getOffsetMutable().clear();
        else
          cast<GroupedOuterOp>(op).getOffsetMutable().clear();
      });
  }
  for (unsigned r = 0; r < op->getNumResults(); ++r)
    if (isCounts(op->getResult(r))) {
      int64_t last = typeOf(op->getResult(r)).getNumElements() - 1;
      offer("one row more at the first", [r](Operation *op) { miscount(op, r, 0, 1); });
      offer("one row less at the last", [r, last](Operation *op) { miscount(op, r, last, -1); });
    }
}

} // namespace llmc::verify
