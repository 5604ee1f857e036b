#include "passes/3-shard/AssignStages/SplitStacks.h"

#include "dialects/graph/Build.h"

using namespace mlir;

namespace llmc {
using namespace parallel;

namespace {
struct Range {
  int64_t stage, first, limit; // of layers
};
} // namespace

static SmallVector<Range> rangesOf(graph::RepeatOp op) {
  SmallVector<Range> ranges;
  int64_t first = 0;
  if (auto layers = op->getAttrOfType<DenseI64ArrayAttr>(kLayers))
    for (auto [stage, count] : llvm::enumerate(layers.asArrayRef())) {
      if (count > 0)
        ranges.push_back({static_cast<int64_t>(stage), first, first + count});
      first += count;
    }
  return ranges;
}

static bool isStacked(OpResult result) {
  auto repeat = dyn_cast<graph::RepeatOp>(result.getOwner());
  return repeat && result.getResultNumber() >= repeat.getCarried().size();
}

std::optional<int64_t> stageOfStackedSlice(Operation *op) {
  auto slice = dyn_cast<graph::SliceOp>(op);
  auto stacked = slice ? dyn_cast<OpResult>(slice.getOperand()) : OpResult();
  if (!stacked || !isStacked(stacked) || slice.getStarts()[0] >= slice.getLimits()[0])
    return std::nullopt;
  for (Range range : rangesOf(cast<graph::RepeatOp>(stacked.getOwner())))
    if (slice.getStarts()[0] >= range.first && slice.getLimits()[0] <= range.limit)
      return range.stage;
  return std::nullopt;
}

static bool isState(Value value) {
  auto arg = dyn_cast<BlockArgument>(value);
  auto func = arg ? dyn_cast<func::FuncOp>(arg.getOwner()->getParentOp()) : func::FuncOp();
  return func && func.getArgAttr(arg.getArgNumber(), kState);
}

// Returns layers [first, limit) of a stacked value: of a concatenation the operands themselves if
// parts begin and end there, else a new slice.
static Value layersOf(graph::Build &at, Value stacked, int64_t first, int64_t limit) {
  auto concat = stacked.getDefiningOp<graph::ConcatOp>();
  SmallVector<Value> parts;
  int64_t begin = 0, covered = 0;
  if (concat && concat.getDim() == 0)
    for (Value part : concat.getInputs()) {
      int64_t end = begin + graph::shapeOf(part)[0];
      if (begin >= first && end <= limit) {
        parts.push_back(part);
        covered += end - begin;
      }
      begin = end;
    }
  if (covered != limit - first)
    return at.slice(stacked, 0, first, limit);
  return parts.size() == 1 ? parts.front() : at.concat(parts, 0);
}

// Marks as backward a concatenation and the slices that it joins, which layersOf() has made.
static void markBackward(Value concat) {
  Operation *op = concat.getDefiningOp();
  auto unit = UnitAttr::get(op->getContext());
  op->setAttr(kBackward, unit);
  for (Value part : op->getOperands())
    if (auto slice = part.getDefiningOp<graph::SliceOp>())
      slice->setAttr(kBackward, unit);
}

static void eraseUnused(Value stacked) {
  if (auto concat = stacked.getDefiningOp<graph::ConcatOp>(); concat && concat->use_empty())
    concat.erase();
}

void groupStacks(ArrayRef<graph::RepeatOp> repeats) {
  DenseMap<Value, Value> grouped;
  for (graph::RepeatOp op : repeats) {
    SmallVector<Range> ranges = rangesOf(op);
    unsigned carried = op.getCarried().size();
    for (auto [i, stacked] : llvm::enumerate(llvm::to_vector(op.getStacked()))) {
      Operation *made = stacked.getDefiningOp();
      if (!made || isa<graph::RepeatOp>(made))
        continue;
      Value &whole = grouped[stacked];
      if (!whole) {
        OpBuilder builder(op.getContext());
        builder.setInsertionPointAfter(made); // before its readers
        graph::Build at(builder, stacked.getLoc());
        SmallVector<Value> parts;
        for (Range range : ranges)
          parts.push_back(layersOf(at, stacked, range.first, range.limit));
        whole = at.concat(parts, 0);
        if (made->hasAttr(kBackward))
          markBackward(whole);
      }
      op->setOperand(carried + i, whole);
    }
  }
  for (auto [stacked, whole] : grouped)
    eraseUnused(stacked);
}

void splitStacks(graph::RepeatOp op) {
  SmallVector<Range> ranges = rangesOf(op);
  OpBuilder builder(op);
  unsigned carried = op.getCarried().size();
  for (auto [i, stacked] : llvm::enumerate(llvm::to_vector(op.getStacked()))) {
    if (isState(stacked))
      continue;
    graph::Build at(builder, stacked.getLoc());
    SmallVector<Value> parts;
    for (Range range : ranges)
      parts.push_back(layersOf(at, stacked, range.first, range.limit));
    op->setOperand(carried + i, at.concat(parts, 0));
    eraseUnused(stacked);
  }
  builder.setInsertionPointAfter(op);
  for (Value stacked : op.getStackedResults()) {
    graph::Build at(builder, stacked.getLoc());
    Value whole;
    for (OpOperand &use : llvm::make_early_inc_range(stacked.getUses())) {
      if (stageOfStackedSlice(use.getOwner()))
        continue;
      if (!whole) {
        SmallVector<Value> parts;
        for (Range range : ranges)
          parts.push_back(at.slice(stacked, 0, range.first, range.limit));
        whole = at.concat(parts, 0);
      }
      use.set(whole);
    }
  }
}

} // namespace llmc
