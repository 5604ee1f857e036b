// Emits kernels that reduce: for each row its reduction roots in order, then one traversal that
// writes whole rows and adds them to sums over columns.
#include "passes/6-emit/kernel/KernelEmitters.h"
#include "passes/6-emit/group/Reduction.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace llmc::emit {

static ArrayRef<int64_t> shapeOf(Value tensor) {
  return cast<RankedTensorType>(tensor.getType()).getShape();
}

// Returns whether `op` sums over all dims between the first and the last, which can be done a
// few rows at a time.
static bool isColumnSum(Operation *op) {
  auto reduce = dyn_cast<graph::ReduceOp>(op);
  if (!reduce)
    return false;
  size_t rank = shapeOf(reduce.getOperand()).size();
  return rank >= 3 && reduce.getDims().size() == rank - 2 &&
         llvm::all_of(reduce.getDims(), [&](int64_t dim) {
           return dim > 0 && dim + 1 < static_cast<int64_t>(rank);
         });
}

// Bounds the rows that are summed in the terms' own type, which loses less than rounding the
// result to that type does; wider sums would take more memory than the rows themselves.
static constexpr int64_t kMostInOwnType = 32;

static int64_t rowsOf(graph::ReduceOp columnSum) {
  int64_t rows = 1;
  for (int64_t size : shapeOf(columnSum.getOperand()).drop_front().drop_back())
    rows *= size;
  return rows;
}

// Returns whether column sums can be carried while rows are computed. Their results are known
// only when all rows are done, so nothing in the kernel may read them, and the other reduction
// roots must reduce rows. Otherwise such sums are reductions like any other.
static bool keepsColumns(Block &body) {
  return llvm::all_of(body, [](Operation &op) {
    if (isColumnSum(&op))
      return llvm::all_of(op.getUsers(), [](Operation *user) {
        return user->hasTrait<OpTrait::IsTerminator>();
      });
    const ReductionRoot *root = lookupReductionRoot(&op);
    auto reduced = root ? root->reducedDims(&op) : SmallVector<bool, 4>();
    return llvm::count(reduced, true) == (reduced.empty() || !reduced.back() ? 0 : 1);
  });
}

namespace {

// Holds a sum over columns: one value for each in `carried`, on the stack.
struct ColumnSum {
  graph::ReduceOp op;
  Reducer::Accumulator kind;
  Type wide;
  Value carried;
};

struct RowKernel {
  FusedGroup &group;
  LaunchBody body;
  SmallVector<Operation *> roots;
  SmallVector<ColumnSum> columns;
  SmallVector<unsigned> keptLoops, columnLoops;
  unsigned outerLoop = 0;
  Value outerSize;
  Value nonTemporal = {}; // i1: whether whole rows are stored non-temporally; or null

  bool isFull(Value result) {
    return result.getDefiningOp() && !isColumn(result) && shapeOf(result) == space();
  }
  bool isColumn(Value result) {
    return llvm::any_of(columns, [&](ColumnSum &sum) { return sum.op.getResult() == result; });
  }
  // Returns whether a last traversal of the row writes rows or adds to columns.
  bool writesRows() {
    return !columns.empty() || llvm::any_of(body.results(), [&](Value v) { return isFull(v); });
  }
  ArrayRef<int64_t> space() {
    return roots.empty() ? shapeOf(columns[0].op.getOperand()) : shapeOf(roots[0]->getOperand(0));
  }

  LogicalResult declare();
  void emit();
  void emitKept(ArrayRef<unsigned> rest, Point &point);
  void emitRows(ArrayRef<unsigned> rest, Point &point);
  void emitRow(Point &row);
  void finishRow(Reducer &reducer);
  void keep(Reducer &reducer, Value tensor);
  void addToColumns(Reducer &reducer, Point &point, ArrayRef<Value> terms);
  Value columnTerm(ColumnSum &sum, Point &point);
  void eachColumn(Point &point, const std::function<void(Point &)> &work);
};

} // namespace

//===-- What is read and written --------------------------------------------===//

LogicalResult RowKernel::declare() {
  for (Operation *root : roots)
    if (failed(group.require(root->getResult(0), group.fullMap())))
      return failure();
  for (ColumnSum &sum : columns)
    if (failed(group.require(sum.op.getOperand(), group.fullMap())))
      return failure();
  for (auto [i, result] : llvm::enumerate(body.results())) {
    IndexMap map = isColumn(result)  ? group.columnMap()
                   : isFull(result) ? group.fullMap()
                                    : group.keptMap();
    auto type = cast<RankedTensorType>(result.getType());
    if (type.getRank() != static_cast<int64_t>(map.size()))
      return body.block.getParentOp()->emitError()
             << "a reduction kernel writes whole rows or one element a row, got " << type;
    if (!isColumn(result) && failed(group.require(result, map)))
      return failure();
    group.requireStore(body.reads + i, type, map);
  }
  return success();
}

//===-- Values that are read more than once ---------------------------------===//

static bool isSlow(Operation *op) {
  return isa<graph::ExpOp, graph::LogOp, graph::TanhOp, graph::ErfOp, graph::SigmoidOp,
             graph::GeluOp, graph::GeluGradOp, graph::SinOp, graph::CosOp, graph::PowOp,
             graph::PowerOp, graph::SoftmaxOp>(op);
}

// Returns the cost of computing an element once, in simple vector instructions.
static unsigned costOf(Value tensor, llvm::SmallDenseSet<Value> &seen) {
  if (!seen.insert(tensor).second)
    return 0;
  Operation *op = tensor.getDefiningOp();
  if (!op)
    return 1;
  if (isa<graph::ConstantOp>(op) || lookupReductionRoot(op))
    return 0;
  unsigned cost = isSlow(op) ? 12
                  : isa<graph::DivOp, graph::SqrtOp, graph::RsqrtOp>(op) ? 4
                                                                          : 1;
  for (Value operand : op->getOperands())
    cost += costOf(operand, seen);
  return cost;
}

// Computes `tensor` once for the row and keeps it on the stack where that is cheaper, so that
// later traversals load it.
void RowKernel::keep(Reducer &reducer, Value tensor) {
  Type element = computingType(getElementTypeOrSelf(tensor.getType()));
  Operation *def = tensor.getDefiningOp();
  if (!def || lookupReductionRoot(def) || !lookupElementwise(def) || !element.isF32())
    return;
  unsigned walks = writesRows(); // the last one, which writes
  for (Operation *root : roots)
    for (Value operand : root->getOperands())
      walks += operand == tensor ? lookupReductionRoot(root)->walks : 0;
  llvm::SmallDenseSet<Value> seen;
  unsigned cost = costOf(tensor, seen);
  if (walks * cost <= cost + 1 + walks)
    return;
  Value kept = reducer.rowArray(element);
  if (!kept)
    return;
  Kernel &k = group.kernel;
  reducer.forEach([&](Point &point) {
    k.store(group.at(tensor, group.fullMap(), point), k.address(kept, point.index.back(), element));
  });
  group.defineElements(tensor, [this, kept, element](Point &point) {
    Kernel &k = group.kernel;
    return k.load(k.address(kept, point.index.back(), element), element, point.width);
  });
}

//===-- Sums over columns ---------------------------------------------------===//

Value RowKernel::columnTerm(ColumnSum &sum, Point &point) {
  Math m = group.math();
  Value x = group.at(sum.op.getOperand(), group.fullMap(), point);
  if (sum.op.getKind() != graph::ReduceKind::sum_squares)
    return x;
  return isa<FloatType>(sum.kind.element) ? m.mul(x, x)
                                          : arith::MulIOp::create(m.b, m.loc, x, x).getResult();
}

void RowKernel::addToColumns(Reducer &reducer, Point &point, ArrayRef<Value> terms) {
  Kernel &k = group.kernel;
  for (auto [sum, term] : llvm::zip(columns, terms)) {
    Value place = k.address(sum.carried, point.index.back(), sum.wide);
    Value carried = k.load(place, sum.wide, point.width);
    k.store(reducer.accumulate(sum.kind, carried, term), place);
  }
}

// Calls `work` for vectors along the last loop, at one point of the kept loops.
void RowKernel::eachColumn(Point &point, const std::function<void(Point &)> &work) {
  Kernel &k = group.kernel;
  unsigned loop = group.loops.size() - 1;
  int64_t size = group.loops[loop].size;
  k.vectors(k.index(0), k.index(size), size, [&](Value i, unsigned width) {
    Point inner = point.inside(loop, i, width);
    work(inner);
  });
}

//===-- Loops ---------------------------------------------------------------===//

// Emits all reduction roots in order, then whatever the launch writes.
void RowKernel::emitRow(Point &row) {
  Reducer reducer(group, row, outerLoop, outerSize);
  bool isSlowRow = llvm::any_of(body.block, [](Operation &op) { return isSlow(&op); });
  reducer.ahead = isSlowRow         ? Reducer::Ahead::SecondWalk
                  : columns.empty() ? Reducer::Ahead::Never
                                    : Reducer::Ahead::EveryWalk;
  for (Operation *root : roots) {
    for (Value operand : root->getOperands())
      if (shapeOf(operand) == space())
        keep(reducer, operand);
    lookupReductionRoot(root)->emit(reducer, root);
  }
  for (auto [i, result] : llvm::enumerate(body.results()))
    if (!isFull(result) && !isColumn(result))
      group.store(body.reads + i, group.at(result, group.keptMap(), row), row);
  finishRow(reducer);
}

// Emits the last traversal of a row. All loads of a point come before its stores, so that a
// write may replace a read.
void RowKernel::finishRow(Reducer &reducer) {
  if (!writesRows())
    return;
  auto writePoint = [&](Point &point) {
    SmallVector<std::pair<unsigned, Value>> values;
    for (auto [i, result] : llvm::enumerate(body.results()))
      if (isFull(result))
        values.push_back({i, group.at(result, group.fullMap(), point)});
    SmallVector<Value> terms;
    for (ColumnSum &sum : columns)
      terms.push_back(columnTerm(sum, point));
    for (auto [i, value] : values)
      group.store(body.reads + i, value, point);
    addToColumns(reducer, point, terms);
  };
  unsigned walks = reducer.walks;
  group.nonTemporalIf(nonTemporal, [&] {
    reducer.walks = walks;
    reducer.forEach(writePoint);
  });
}

// Emits the loops over the rows that a column sum adds.
void RowKernel::emitRows(ArrayRef<unsigned> rest, Point &point) {
  Kernel &k = group.kernel;
  group.preload(point);
  if (rest.empty())
    return emitRow(point);
  k.loop(k.index(0), k.index(group.loops[rest[0]].size), 1, [&](Value i) {
    Point inner = point.inside(rest[0], i);
    emitRows(rest.drop_front(), inner);
  });
}

void RowKernel::emitKept(ArrayRef<unsigned> rest, Point &point) {
  Kernel &k = group.kernel;
  group.preload(point);
  if (rest.empty() && columns.empty())
    return emitRow(point);
  if (rest.empty()) {
    eachColumn(point, [&](Point &at) {
      for (ColumnSum &sum : columns)
        k.store(identity(k, sum.kind.isMax, sum.wide, at.width),
                k.address(sum.carried, at.index.back(), sum.wide));
    });
    emitRows(columnLoops, point);
    eachColumn(point, [&](Point &at) {
      for (ColumnSum &sum : columns) {
        Value total = k.load(k.address(sum.carried, at.index.back(), sum.wide), sum.wide, at.width);
        Type type = typeOf(sum.kind.element, at.width);
        if (total.getType() != type)
          total = arith::TruncFOp::create(k.b, k.loc, type, total);
        for (auto [i, result] : llvm::enumerate(body.results()))
          if (result == sum.op.getResult())
            group.store(body.reads + i, total, at);
      }
    });
    return;
  }
  bool isRows = rest.size() == keptLoops.size();
  int64_t size = group.loops[rest[0]].size;
  Value low = isRows ? k.begin : k.index(0), high = isRows ? k.end : k.index(size);
  bool isVector = rest[0] == group.loops.size() - 1;
  if (isVector)
    return k.vectors(
        low, high, isRows ? std::nullopt : std::optional<int64_t>(size),
        [&](Value i, unsigned width) {
          Point inner = point.inside(rest[0], i, width);
          emitRow(inner);
        },
        k.widthDividing(isRows ? std::nullopt : std::optional<int64_t>(size), k.target.columnLanes));
  k.eachRow(low, high, [&](Value i) {
    Point inner = point.inside(rest[0], i);
    emitKept(rest.drop_front(), inner);
  });
}

void RowKernel::emit() {
  Kernel &kernel = group.kernel;
  group.fuseLoops();
  for (auto [i, loop] : llvm::enumerate(group.loops))
    if (loop.column)
      columnLoops.push_back(i);
    else if (!loop.reduced)
      keptLoops.push_back(i);
  kernel.rows = group.loops[keptLoops[0]].size;
  // The outermost loop in memory is first, or follows a row loop of size 1.
  for (auto [i, loop] : llvm::enumerate(group.loops))
    if (loop.outermost && loop.reduced && columns.empty()) { // their array is static
      kernel.extents.push_back(loop.size);
      outerLoop = i;
      outerSize = kernel.scalar(body.block.getNumArguments() - body.reads);
    }
  for (ColumnSum &sum : columns) {
    Type storage = sum.wide.isInteger(1) ? kernel.b.getI8Type() : sum.wide;
    sum.carried = kernel.stackArray(storage, group.loops.back().size);
  }
  if (group.loops.back().reduced && !outerSize)
    nonTemporal = group.nonTemporalCondition(body.block.getNumArguments() - body.reads);
  Point start(group.loops.size());
  emitKept(keptLoops, start);
  if (nonTemporal)
    kernel.ifThen(nonTemporal, [&] { kernel.fence(); });
}

LogicalResult emitReduction(Kernel &kernel, LaunchBody body) {
  SmallVector<Operation *> roots;
  SmallVector<ColumnSum> columns;
  Operation *first = nullptr;
  bool hasColumns = keepsColumns(body.block);
  for (Operation &op : body.block) {
    if (!lookupReductionRoot(&op))
      continue;
    first = first ? first : &op;
    if (!hasColumns || !isColumnSum(&op)) {
      roots.push_back(&op);
      continue;
    }
    auto reduce = cast<graph::ReduceOp>(op);
    bool isMax = reduce.getKind() == graph::ReduceKind::max;
    Type element = computingType(getElementTypeOrSelf(reduce.getResult().getType()));
    bool isShort = isMax || rowsOf(reduce) <= kMostInOwnType;
    columns.push_back({reduce, {isMax, element}, isShort ? element : wideType(element), {}});
  }
  auto space = shapeOf(first->getOperand(0));
  SmallVector<bool> reduced(space.size(), false), summed(space.size(), false);
  if (!columns.empty()) { // rows are taken one by one
    reduced.back() = true;
    for (size_t d = 1; d + 1 < space.size(); ++d)
      summed[d] = true;
  } else {
    llvm::copy(lookupReductionRoot(first)->reducedDims(first), reduced.begin());
  }
  for (Operation &op : body.block)
    if (lookupReductionRoot(&op) && (shapeOf(op.getOperand(0)) != space ||
                            (!(hasColumns && isColumnSum(&op)) &&
                             ArrayRef<bool>(lookupReductionRoot(&op)->reducedDims(&op)) != ArrayRef(reduced))))
      return op.emitOpError("reduces other dims than the first reduction of its kernel");
  FusedGroup group(kernel, body.reads, space, reduced, summed);
  RowKernel rows{group, body, roots, columns, {}, {}, 0, {}};
  if (failed(rows.declare()))
    return failure();
  rows.emit();
  return success();
}

} // namespace llmc::emit
