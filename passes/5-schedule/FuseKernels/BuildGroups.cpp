// Builds groups as ops, cuts their column sums into sums of a few rows, and sorts the block.
#include "passes/5-schedule/FuseKernels/Fusion.h"

#include "dialects/graph/Build.h"
#include "mlir/IR/IRMapping.h"
#include <queue>

using namespace mlir;
using namespace llmc::graph;

namespace llmc::fusion {

// Bounds the rows that one column sum adds at a time: few enough that workers can share a launch,
// many enough that little is left to add.
static constexpr int64_t kMostRows = 32;

static RankedTensorType withShape(Type type, ArrayRef<int64_t> shape) {
  return RankedTensorType::get(shape, cast<RankedTensorType>(type).getElementType());
}

namespace {

// Builds the plan.group of one group.
class Builder {
public:
  Builder(FusionGroup &group, llvm::DenseSet<Operation *> &whole)
      : group(group), whole(whole), columns(group.has(FusionRole::Column)),
        builder(group.members.back()), b(builder, locationOf(group)) {
    llvm::copy(group.members, std::back_inserter(ops));
    llvm::sort(ops, [](Operation *x, Operation *y) { return x->isBeforeInBlock(y); });
    builder.setInsertionPoint(ops.back());
    collapsed = collapse(group.shape);
  }
  void run();

private:
  static Location locationOf(const FusionGroup &group) {
    SmallVector<Location> parts;
    for (Operation *op : group.members)
      parts.push_back(op->getLoc());
    return FusedLoc::get(parts[0].getContext(), parts);
  }
  SmallVector<int64_t> collapse(ArrayRef<int64_t> shape) const;
  Type typeInside(Operation *op, Type type, bool isRow) const;
  Value inputFor(Value value, Type type);
  Value operandFor(Operation *op, unsigned i);
  Value copyInPlace(Operation *op, Type type);
  // Returns a value as the group has it: its own, a clone, or an input of the type.
  Value inside(Value value, Type type);
  void copyMember(Operation *op);
  bool isWanted(Value value) const;
  void replace(Operation *made);
  void addUp(Value part, ReduceOp column);

  FusionGroup &group;
  llvm::DenseSet<Operation *> &whole;
  bool columns;
  OpBuilder builder;
  Build b;
  SmallVector<Operation *> ops;
  SmallVector<int64_t> collapsed; // the space's shape inside, if there are column sums
  llvm::MapVector<std::pair<Value, Type>, Value> inputs; // with the type inside -> as outside
  SmallVector<std::pair<Value, Type>> wanted;             // results and their types inside
  OpBuilder *inner = nullptr;
  Block *body = nullptr;
  IRMapping map;
};

} // namespace

// Returns [..., C] as [P, R, C], where R is the largest divisor that is at most kMostRows.
SmallVector<int64_t> Builder::collapse(ArrayRef<int64_t> shape) const {
  if (!columns)
    return llvm::to_vector(shape);
  int64_t rows = 1;
  for (int64_t size : shape.drop_back())
    rows *= size;
  int64_t few = std::max<int64_t>(1, std::min(rows, kMostRows));
  while (rows % few)
    --few;
  return {rows / few, few, shape.back()};
}

Type Builder::typeInside(Operation *op, Type type, bool isRow) const {
  auto own = cast<RankedTensorType>(type).getShape();
  ArrayRef<int64_t> shape = group.shape, now = collapsed;
  if (!columns)
    return type;
  if (!isRow && own == shape)
    return withShape(type, now);
  if (isRow && own == shape.drop_back())
    return withShape(type, now.drop_back());
  if (own.size() == shape.size() && own.back() == 1 && own.drop_back() == shape.drop_back())
    return withShape(type, {now[0], now[1], 1});
  return type;
}

// Returns the block argument for `value`, which is defined outside of the group.
Value Builder::inputFor(Value value, Type type) {
  auto [it, isNew] = inputs.insert({{value, type}, Value()});
  if (isNew)
    it->second = body->addArgument(type, value.getLoc());
  return it->second;
}

// Clones a constant, index, slice, broadcast or cast into the group, with what it reads in place.
Value Builder::copyInPlace(Operation *op, Type type) {
  SmallVector<Value> operands;
  for (Value operand : op->getOperands()) {
    Type own = operand.getType();
    if (isa<CastOp>(op)) // reads the shape that it writes
      own = cast<RankedTensorType>(type).clone(elementOf(operand));
    operands.push_back(inside(operand, own));
  }
  return cloneForTypes(*inner, op, operands, type)->getResult(0);
}

Value Builder::inside(Value value, Type type) {
  if (Value known = map.lookupOrNull(value))
    return known;
  Operation *def = value.getDefiningOp();
  return def && isRecomputedByReaders(def) ? copyInPlace(def, type) : inputFor(value, type);
}

Value Builder::operandFor(Operation *op, unsigned i) {
  Value operand = op->getOperand(i);
  FusionRole role = group.roles.lookup(op);
  Type type = typeInside(op, operand.getType(), role == FusionRole::Row || isRowOperand(op, i));
  // A scatter's kernel reads buffers alone.
  return isa<ScatterAddOp>(op) ? inputFor(operand, type) : inside(operand, type);
}

// Returns what a column sum adds in the type of its parts, which are rounded to no low type.
static Value inSumType(Build &b, Value terms, ReduceOp reduce) {
  Type element = elementOf(reduce.getResult());
  bool isLow = isa<FloatType>(element) && element.getIntOrFloatBitWidth() < 32;
  return b.cast(terms, isLow ? Type(b.builder.getF32Type()) : element);
}

void Builder::copyMember(Operation *op) {
  SmallVector<Value> operands;
  for (unsigned i = 0; i < op->getNumOperands(); ++i)
    operands.push_back(operandFor(op, i));
  FusionRole role = group.roles.lookup(op);
  if (role == FusionRole::Column) {
    auto reduce = cast<ReduceOp>(op);
    Build at(*inner, op->getLoc());
    map.map(reduce.getResult(),
            at.reduce(inSumType(at, operands[0], reduce), reduce.getKind(), {1}));
    return;
  }
  if (auto reduce = dyn_cast<ReduceOp>(op); reduce && columns) { // the last dim, where it is now
    Build at(*inner, op->getLoc());
    int64_t last = collapsed.size() - 1;
    Value whole = at.cast(operands[0], elementOf(reduce.getResult()));
    map.map(reduce.getResult(), at.reduce(whole, reduce.getKind(), {last}));
    return;
  }
  SmallVector<Type> types;
  for (Value result : op->getResults()) {
    bool isRow = role == FusionRole::Row || shapeOf(result) != ArrayRef(group.shape);
    types.push_back(typeInside(op, result.getType(), isRow));
  }
  Operation *copy = cloneForTypes(*inner, op, operands, types);
  copy->setDiscardableAttrs(DictionaryAttr::get(copy->getContext()));
  map.map(op->getResults(), copy->getResults());
}

// Returns whether an op outside of the group reads `value`.
bool Builder::isWanted(Value value) const {
  return llvm::any_of(value.getUsers(),
                      [&](Operation *user) { return !group.members.contains(user); });
}

// Replaces the column sum by the reduction of its parts.
void Builder::addUp(Value part, ReduceOp column) {
  Build after(builder, column.getLoc());
  auto kind = column.getKind() == ReduceKind::max ? ReduceKind::max : ReduceKind::sum;
  Value sum = after.reduce(part, kind, {0});
  whole.insert(sum.getDefiningOp());
  column.getResult().replaceAllUsesWith(after.cast(sum, elementOf(column.getResult())));
}

void Builder::run() {
  Block scratch;
  body = &scratch;
  OpBuilder inside(builder.getContext());
  inside.setInsertionPointToEnd(body);
  inner = &inside;
  for (Operation *op : ops)
    copyMember(op);
  SmallVector<Value> results, yielded;
  for (Operation *op : ops)
    for (Value result : op->getResults())
      if (isWanted(result) && !isUnitReshape(op)) {
        results.push_back(result);
        yielded.push_back(map.lookup(result));
      }
  // Outside of the group, the result of a reshape is a view of its operand.
  for (Operation *op : ops)
    if (isUnitReshape(op) && isWanted(op->getResult(0)) && !llvm::is_contained(results, op->getOperand(0)) &&
        group.contains(op->getOperand(0))) {
      results.push_back(op->getOperand(0));
      yielded.push_back(map.lookup(op->getOperand(0)));
    }
  SmallVector<Value> operands;
  for (auto &[key, argument] : inputs)
    operands.push_back(b.reshape(key.first, cast<RankedTensorType>(key.second).getShape()));
  auto made = plan::GroupOp::create(builder, b.loc, TypeRange(ValueRange(yielded)), operands);
  plan::YieldOp::create(inside, b.loc, yielded);
  made.getBody().push_back(new Block);
  Block &block = made.getBody().front();
  for (BlockArgument argument : body->getArguments())
    argument.replaceAllUsesWith(block.addArgument(argument.getType(), argument.getLoc()));
  block.getOperations().splice(block.end(), body->getOperations());

  llvm::SmallPtrSet<Operation *, 16> inGroup(ops.begin(), ops.end());
  for (auto [old, value] : llvm::zip(results, made.getResults())) {
    Operation *def = old.getDefiningOp();
    if (group.roles.lookup(def) == FusionRole::Column) {
      addUp(value, cast<ReduceOp>(def));
      continue;
    }
    Value outside = b.reshape(value, shapeOf(old));
    old.replaceUsesWithIf(outside, [&](OpOperand &use) {
      return !inGroup.contains(use.getOwner()) || isUnitReshape(use.getOwner());
    });
  }
  for (Operation *op : llvm::reverse(ops)) {
    if (isUnitReshape(op) && !op->use_empty())
      continue; // a view of a result
    op->erase();
  }
}

// Sorts the block topologically: otherwise ops keep their order, and a group has the position of
// its last member.
static void sortBlock(Block &block) {
  llvm::DenseMap<Operation *, int64_t> place;
  llvm::DenseMap<Operation *, unsigned> missing;
  auto less = [&](Operation *x, Operation *y) { return place[x] > place[y]; };
  std::priority_queue<Operation *, std::vector<Operation *>, decltype(less)> ready(less);
  for (Operation &op : block.without_terminator())
    place[&op] = place.size();
  for (Operation &op : block.without_terminator()) {
    llvm::SmallPtrSet<Operation *, 8> defs;
    for (Value operand : op.getOperands())
      if (Operation *def = operand.getDefiningOp(); def && def->getBlock() == &block)
        defs.insert(def);
    missing[&op] = defs.size();
    if (defs.empty())
      ready.push(&op);
  }
  Operation *end = block.getTerminator();
  while (!ready.empty()) {
    Operation *op = ready.top();
    ready.pop();
    op->moveBefore(end);
    llvm::SmallPtrSet<Operation *, 8> users;
    for (Operation *user : op->getUsers())
      if (user->getBlock() == &block && user != end && users.insert(user).second && --missing[user] == 0)
        ready.push(user);
  }
}

void buildGroups(Block &block, MutableArrayRef<FusionGroup> groups,
                 llvm::DenseSet<Operation *> &whole) {
  for (FusionGroup &group : groups)
    Builder(group, whole).run();
  // Erases constants and slices that all their readers have cloned.
  SmallVector<Operation *> ops;
  for (Operation &op : llvm::reverse(block.without_terminator()))
    ops.push_back(&op);
  for (Operation *op : ops)
    if (op->use_empty() && isRecomputedByReaders(op))
      op->erase();
  sortBlock(block);
}

} // namespace llmc::fusion
