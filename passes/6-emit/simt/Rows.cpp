// Merges loops over rows and splits their range over blocks.
#include "passes/6-emit/simt/Steps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace llmc::emit {

bool isLoopOfKind(Operation *op, StringRef kind) {
  auto walk = isa<scf::ForOp>(op) ? op->getAttrOfType<StringAttr>(kLoopKind) : StringAttr();
  return walk && walk.getValue() == kind;
}

std::optional<int64_t> constantOf(Value value) {
  IntegerAttr number;
  if (auto op = value.getDefiningOp<arith::ConstantOp>())
    number = dyn_cast<IntegerAttr>(op.getValue());
  return number ? std::optional<int64_t>(number.getInt()) : std::nullopt;
}

// Writes a number as a base, null for none, and what is added to it.
static std::pair<Value, int64_t> offsetFrom(Value value) {
  if (auto number = constantOf(value))
    return {Value(), *number};
  if (auto sum = value.getDefiningOp<arith::AddIOp>()) {
    if (auto number = constantOf(sum.getRhs()))
      return {sum.getLhs(), *number};
    if (auto number = constantOf(sum.getLhs()))
      return {sum.getRhs(), *number};
  }
  return {value, 0};
}

std::optional<int64_t> lengthOf(scf::ForOp loop) {
  Value low = loop.getLowerBound(), high = loop.getUpperBound();
  auto [lowBase, lowOffset] = offsetFrom(low);
  auto [highBase, highOffset] = offsetFrom(high);
  if (lowBase == highBase)
    return highOffset - lowOffset;
  if (highBase == low) // which may be a sum itself
    return highOffset;
  return std::nullopt;
}

std::optional<int64_t> tripCount(scf::ForOp loop) {
  auto step = constantOf(loop.getStep()), length = lengthOf(loop);
  if (!step || !length)
    return std::nullopt;
  return *length <= 0 ? 0 : llvm::divideCeil(*length, *step);
}

static Value beginOf(func::FuncOp kernel) {
  return kernel.getArgument(kernel.getNumArguments() - 2);
}
static Value endOf(func::FuncOp kernel) { return kernel.getArgument(kernel.getNumArguments() - 1); }

//===-- Merging -------------------------------------------------------------===//

// Returns the only loop over rows, if nothing else uses the range; else null.
static scf::ForOp onlyRows(func::FuncOp kernel) {
  for (scf::ForOp loop : kernel.getBody().front().getOps<scf::ForOp>())
    if (isLoopOfKind(loop, kRows) && loop.getLowerBound() == beginOf(kernel) &&
        loop.getUpperBound() == endOf(kernel) && beginOf(kernel).hasOneUse() &&
        endOf(kernel).hasOneUse())
      return loop;
  return nullptr;
}

// Returns the loop over rows that is all that `outer` does except for loads; else null.
static scf::ForOp innerRows(scf::ForOp outer) {
  scf::ForOp inner;
  for (Operation &op : outer.getBody()->without_terminator()) {
    if (isLoopOfKind(&op, kRows) && !inner)
      inner = cast<scf::ForOp>(op);
    else if (op.getNumRegions() || isa<LLVM::StoreOp>(op))
      return nullptr;
  }
  bool isSimple = inner && inner.getInitArgs().empty() && inner->getNextNode()->hasTrait<OpTrait::IsTerminator>() &&
                  constantOf(inner.getLowerBound()) == 0 && constantOf(inner.getUpperBound());
  return isSimple ? inner : nullptr;
}

// Makes iteration t of the loop compute part t % parts of row t / parts.
Value splitRows(scf::ForOp rows, int64_t parts) {
  OpBuilder b(rows);
  Location loc = rows.getLoc();
  auto constant = [&]() -> Value {
    return arith::ConstantOp::create(b, loc, b.getI64IntegerAttr(parts));
  };
  auto times = [&](Value x) -> Value { return arith::MulIOp::create(b, loc, x, constant()); };
  rows.setLowerBound(times(rows.getLowerBound()));
  rows.setUpperBound(times(rows.getUpperBound()));
  b.setInsertionPointToStart(rows.getBody());
  Value turn = rows.getInductionVar(), n = constant();
  auto row = arith::DivUIOp::create(b, loc, turn, n);
  auto part = arith::RemUIOp::create(b, loc, turn, n);
  turn.replaceUsesWithIf(row, [&](OpOperand &use) {
    return use.getOwner() != row && use.getOwner() != part;
  });
  return part;
}

int64_t mergeRows(func::FuncOp kernel) {
  scf::ForOp outer = onlyRows(kernel);
  int64_t points = 1;
  while (outer) {
    scf::ForOp inner = innerRows(outer);
    if (!inner)
      break;
    int64_t size = *constantOf(inner.getUpperBound());
    points *= size;
    inner.getInductionVar().replaceAllUsesWith(splitRows(outer, size));
    inner.getBody()->getTerminator()->erase();
    outer.getBody()->getOperations().splice(inner->getIterator(),
                                            inner.getBody()->getOperations());
    inner.erase();
  }
  return points;
}

//===-- Blocks --------------------------------------------------------------===//

// Returns whether `value` is `range`, offset or clamped, but not multiplied.
static bool follows(Value value, Value range) {
  if (value == range)
    return true;
  Operation *op = value.getDefiningOp();
  return isa_and_nonnull<arith::AddIOp, arith::SubIOp, arith::MaxSIOp, arith::MinSIOp>(op) &&
         llvm::any_of(op->getOperands(), [&](Value v) { return follows(v, range); });
}

bool rowsAreElements(func::FuncOp kernel) {
  return llvm::any_of(kernel.getBody().front().getOps<scf::ForOp>(), [&](scf::ForOp loop) {
    return isLoopOfKind(loop, kElements) && follows(loop.getLowerBound(), beginOf(kernel));
  });
}

void splitOverBlocks(func::FuncOp kernel, int64_t granule) {
  // The range of merged rows is one of points, computed right before their loop.
  Value low = beginOf(kernel), high = endOf(kernel);
  OpBuilder b = OpBuilder::atBlockBegin(&kernel.getBody().front());
  for (scf::ForOp loop : kernel.getBody().front().getOps<scf::ForOp>())
    if (isLoopOfKind(loop, kRows) && loop.getLowerBound() != low) {
      low = loop.getLowerBound(), high = loop.getUpperBound();
      b.setInsertionPoint(loop);
    }
  Location loc = kernel.getLoc();
  Type i64 = b.getI64Type();
  llvm::SmallPtrSet<Operation *, 16> made;
  auto keep = [&](Value value) {
    made.insert(value.getDefiningOp());
    return value;
  };
  auto constant = [&](int64_t value) {
    return keep(arith::ConstantOp::create(b, loc, b.getI64IntegerAttr(value)));
  };
  auto wide = [&](Value index) { return keep(arith::IndexCastOp::create(b, loc, i64, index)); };
  auto add = [&](Value x, Value y) { return keep(arith::AddIOp::create(b, loc, x, y)); };
  auto mul = [&](Value x, Value y) { return keep(arith::MulIOp::create(b, loc, x, y)); };
  Value block = wide(keep(gpu::BlockIdOp::create(b, loc, gpu::Dimension::x)));
  Value blocks = wide(keep(gpu::GridDimOp::create(b, loc, gpu::Dimension::x)));
  // Computes ceil(length / (blocks * granule)) * granule.
  Value turn = mul(blocks, constant(granule));
  Value length = keep(arith::SubIOp::create(b, loc, high, low));
  Value rounded = add(length, keep(arith::SubIOp::create(b, loc, turn, constant(1))));
  Value part = mul(keep(arith::DivUIOp::create(b, loc, rounded, turn)), constant(granule));
  // A block past the end gets nothing, but begins at a multiple of the granule all the same.
  Value first = add(low, mul(block, part));
  Value cut = keep(arith::MinSIOp::create(b, loc, add(first, part), high));
  Value last = keep(arith::MaxSIOp::create(b, loc, first, cut));
  auto replace = [&](Value from, Value to) {
    from.replaceUsesWithIf(to, [&](OpOperand &use) { return !made.contains(use.getOwner()); });
  };
  replace(low, first);
  replace(high, last);
}

} // namespace llmc::emit
