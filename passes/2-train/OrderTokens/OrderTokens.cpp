// Reorders tokens in three steps: finds what has them, lets the loader permute the inputs, and puts what
// depends on places alone into the same order.
#include "dialects/graph/Build.h"
#include "dialects/graph/GraphAttrs.h"
#include "passes/2-train/OrderTokens/TokenDims.h"
#include "passes/2-train/Passes.h"

using namespace mlir;
using namespace llmc;
using namespace llmc::graph;
using namespace llmc::train;

namespace llmc {
#define GEN_PASS_DEF_ORDERTOKENS
#include "passes/2-train/Passes.h.inc"
} // namespace llmc

namespace {

class OrderTokens : public llmc::impl::OrderTokensBase<OrderTokens> {
public:
  using OrderTokensBase::OrderTokensBase;

private:
  void runOnOperation() override;

  TokenDims follow(func::FuncOp func);
  LogicalResult reorder(func::FuncOp func);
  void keepOrder(func::FuncOp func);
  bool isInput(func::FuncOp func, Value value) const;
  bool isLearned(func::FuncOp func, Value value) const;
  std::string describeMisfit(func::FuncOp func, const TokenDims &tokens) const;
  SmallVector<int64_t> order() const;
  Value positionsIn(Block &block, Location loc);
  void lookUp(Value value, int64_t dim);

  int64_t length = 0; // tokens of a row
  bool permutes = false;
  DenseMap<Block *, Value> positions;
};

bool OrderTokens::isInput(func::FuncOp func, Value value) const {
  auto arg = dyn_cast<BlockArgument>(value);
  return arg && arg.getOwner() == &func.getBody().front() && func.getArgAttr(arg.getArgNumber(), kInput);
}

// Returns whether a parameter of the function stands behind `value`.
bool OrderTokens::isLearned(func::FuncOp func, Value value) const {
  SmallVector<Value> open = {value};
  llvm::SmallPtrSet<Value, 16> seen;
  while (!open.empty()) {
    Value next = open.pop_back_val();
    if (!seen.insert(next).second)
      continue;
    if (Operation *op = next.getDefiningOp())
      llvm::append_range(open, op->getOperands());
    else if (next.getParentBlock() == &func.getBody().front() && !isInput(func, next))
      return true;
  }
  return false;
}

// Returns the block of the row that each place takes its tokens from.
SmallVector<int64_t> OrderTokens::order() const {
  SmallVector<int64_t> blocks;
  for (int64_t rank = 0; rank < ranks; ++rank)
    blocks.append({rank, 2 * ranks - 1 - rank});
  return blocks;
}

// Builds the positions of tokens, once for each block of ops.
Value OrderTokens::positionsIn(Block &block, Location loc) {
  Value &value = positions[&block];
  if (value)
    return value;
  OpBuilder builder = OpBuilder::atBlockBegin(&block);
  Build b(builder, loc);
  if (!permutes)
    return value = IotaOp::create(builder, loc, RankedTensorType::get({length}, builder.getI64Type()), Value(), 0);
  int64_t size = length / (2 * ranks);
  SmallVector<int64_t> starts = order();
  for (int64_t &start : starts)
    start *= size;
  int64_t count = starts.size();
  auto type = RankedTensorType::get({count, 1}, builder.getI64Type());
  Value start = ConstantOp::create(builder, loc, type, DenseElementsAttr::get(type, ArrayRef<int64_t>(starts)));
  Value within = IotaOp::create(builder, loc, RankedTensorType::get({count, size}, builder.getI64Type()), Value(), 1);
  return value = b.reshape(b.add(b.broadcast(start, {count, size}), within), {length});
}

// Puts a value that is in the order of the row into that of the ranks.
void OrderTokens::lookUp(Value value, int64_t dim) {
  Block &block = *value.getParentBlock();
  Value places = positionsIn(block, value.getLoc());
  OpBuilder builder(&getContext());
  builder.setInsertionPointAfterValue(value);
  if (places.getDefiningOp()->getBlock() == builder.getInsertionBlock() &&
      (builder.getInsertionPoint() == builder.getInsertionBlock()->end() ||
       !places.getDefiningOp()->isBeforeInBlock(&*builder.getInsertionPoint())))
    builder.setInsertionPointAfterValue(places);
  Build b(builder, value.getLoc());
  llvm::SmallPtrSet<Operation *, 4> own;
  Value result;
  if (auto iota = value.getDefiningOp<IotaOp>()) {
    if (static_cast<int64_t>(iota.getDim()) != dim)
      return; // the same at each token
    SmallVector<int64_t> shape(shapeOf(value).size(), 1);
    shape[dim] = length;
    result = b.cast(b.broadcast(b.reshape(places, shape), shapeOf(value)), elementOf(value));
  } else {
    SmallVector<int64_t> there, back; // permutations that move `dim` to the front, and back
    there.push_back(dim);
    for (int64_t d = 0; d < int64_t(shapeOf(value).size()); ++d)
      if (d != dim)
        there.push_back(d);
    back.resize(there.size());
    for (auto [i, d] : llvm::enumerate(there))
      back[d] = i;
    Value table = dim ? b.transpose(value, there) : value;
    if (table != value)
      own.insert(table.getDefiningOp());
    auto gather = GatherOp::create(builder, b.loc, table.getType(), table, places, Value());
    own.insert(gather);
    result = dim ? b.transpose(gather.getResult(), back) : gather.getResult();
  }
  ++numLookups;
  value.replaceAllUsesExcept(result, own);
}

std::string OrderTokens::describeMisfit(func::FuncOp func, const TokenDims &tokens) const {
  if (!tokens.misfit().empty())
    return tokens.misfit();
  for (auto [value, dim] : tokens.all())
    if (isInput(func, value) && dim != 1)
      return "an input has no rows before its tokens";
  std::string misfit;
  func.walk([&](AttentionOp op) {
    if ((tokens.of(op.getQ()) < 0) != (tokens.of(op.getK()) < 0))
      misfit = "graph.attention has keys of other tokens than its rows";
  });
  return misfit;
}

// Follows the tokens of all inputs that have as many as the first.
TokenDims OrderTokens::follow(func::FuncOp func) {
  TokenDims tokens;
  for (BlockArgument arg : func.getArguments())
    if (isInput(func, arg) && shapeOf(arg).size() == 2) {
      length = length ? length : shapeOf(arg)[1];
      if (shapeOf(arg)[1] == length)
        tokens.follow(arg, 1);
    }
  return tokens;
}

// Looks up what parameters give each place, in the order of the row.
void OrderTokens::keepOrder(func::FuncOp func) {
  TokenDims tokens = follow(func);
  if (!tokens.misfit().empty())
    return;
  SmallVector<std::pair<Value, int64_t>> learned;
  for (auto [value, dim] : tokens.all())
    if (!isInput(func, value) && tokens.isRoot(value) && isLearned(func, value))
      learned.push_back({value, dim});
  for (auto [value, dim] : learned)
    lookUp(value, dim);
}

LogicalResult OrderTokens::reorder(func::FuncOp func) {
  TokenDims tokens = follow(func);
  if (length % (2 * ranks) != 0) {
    int64_t blocks = 2 * ranks, below = length / blocks * blocks;
    InFlightDiagnostic error = func.emitError("T1: ")
                               << int64_t(ranks) << " ranks of a ring take two blocks each of a row, and " << blocks
                               << " blocks do not divide " << length << " tokens; the nearest valid number";
    error << (below ? "s are " : " is ");
    if (below)
      error << below << " and ";
    error << below + blocks << ", if the model has so many positions";
    if (length % ranks == 0)
      error << ", or use --cp-kind heads";
    return error;
  }
  if (std::string misfit = describeMisfit(func, tokens); !misfit.empty()) {
    func.emitRemark("tokens keep their order, so that ranks of a ring have unequal work in attention: ") << misfit;
    permutes = false;
    keepOrder(func);
    return success();
  }
  auto blockOrder = DenseI64ArrayAttr::get(&getContext(), order());
  SmallVector<std::pair<Value, int64_t>> roots;
  for (auto [value, dim] : tokens.all()) {
    if (isInput(func, value)) {
      unsigned number = cast<BlockArgument>(value).getArgNumber();
      auto loader = func.getArgAttrOfType<LoaderAttr>(number, kLoader);
      func.setArgAttr(number, kLoader,
                      LoaderAttr::get(&getContext(), loader ? loader.getDefaultValue() : InputDefault::required, 1,
                                      blockOrder));
      continue;
    }
    auto constant = value.getDefiningOp<ConstantOp>();
    if (tokens.isRoot(value) && !(constant && constant.getValue().isSplat()))
      roots.push_back({value, dim});
  }
  for (auto [value, dim] : roots)
    lookUp(value, dim);
  func.walk([&](AttentionOp op) {
    if (!op.getCausal() || !op.getPositions().empty() || tokens.of(op.getQ()) < 0)
      return;
    Value places = positionsIn(*op->getBlock(), op.getLoc());
    SmallVector<Value> further(op.getFurther());
    further.insert(further.begin() + op.hasMask(), {places, places});
    op.getFurtherMutable().assign(further);
  });
  return success();
}

void OrderTokens::runOnOperation() {
  if (ranks <= 1)
    return;
  for (auto func : getOperation().getOps<func::FuncOp>()) {
    positions.clear();
    length = 0;
    permutes = false;
    if (zigzag)
      func.walk([&](AttentionOp op) { permutes |= op.getCausal(); });
    if (!permutes)
      keepOrder(func);
    else if (failed(reorder(func)))
      return signalPassFailure();
  }
}

} // namespace
