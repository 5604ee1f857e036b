#include "passes/6-emit/kernel/CountInstructions.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"

#include <algorithm>
#include <cmath>

using namespace mlir;

namespace {

std::optional<int64_t> constantOf(Value value) {
  IntegerAttr attribute;
  if (!matchPattern(value, m_Constant(&attribute)))
    return std::nullopt;
  return attribute.getInt();
}

class Counter {
public:
  Counter(func::FuncOp kernel, unsigned lanes)
      : end_(kernel.getArgument(3)), lanes_(lanes) {}

  // Counts what one row takes of a block that runs once for a launch: what its loops over rows do. Of loops that follow
  // one another those with the widest steps have most of the rows; the others have what is left at an edge.
  double countRows(Block &block) const {
    double sum = 0, widest = 0;
    for (auto loop : block.getOps<scf::ForOp>())
      if (isOfRows(loop))
        widest = std::max(widest, stepOf(loop));
    for (Operation &op : block) {
      if (auto choice = dyn_cast<scf::IfOp>(op))
        sum += countRows(choice.elseBlock() ? *choice.elseBlock() : *choice.thenBlock());
      auto loop = dyn_cast<scf::ForOp>(op);
      if (!loop)
        continue;
      if (!isOfRows(loop))
        sum += trips(loop) * countRows(*loop.getBody());
      else if (stepOf(loop) == widest)
        sum += count(*loop.getBody()) / widest;
    }
    return sum;
  }

private:
  double count(Block &block) const {
    double sum = 0;
    for (Operation &op : block)
      sum += count(op);
    return sum;
  }

  // Returns whether a number was computed of the last row of a launch.
  bool isOfEnd(Value value, int depth = 8) const {
    if (value == end_)
      return true;
    Operation *op = value.getDefiningOp();
    return op && depth > 0 && isa<arith::ArithDialect>(op->getDialect()) &&
           llvm::any_of(op->getOperands(), [&](Value operand) { return isOfEnd(operand, depth - 1); });
  }
  bool isOfRows(scf::ForOp loop) const { return isOfEnd(loop.getUpperBound()); }
  static double stepOf(scf::ForOp loop) { return double(constantOf(loop.getStep()).value_or(1)); }

  // Returns how many numbers lie between two bounds, if the code says it.
  std::optional<double> span(Value low, Value high) const {
    if (auto least = high.getDefiningOp<arith::MinSIOp>()) {
      auto first = span(low, least.getLhs()), second = span(low, least.getRhs());
      return first && second ? std::min(*first, *second) : first ? first : second;
    }
    if (auto sum = high.getDefiningOp<arith::AddIOp>())
      for (auto [x, y] : {std::pair(sum.getLhs(), sum.getRhs()), std::pair(sum.getRhs(), sum.getLhs())})
        if (x == low)
          return constantOf(y);
    std::optional<int64_t> from = constantOf(low), to = constantOf(high);
    return from && to ? std::optional<double>(*to - *from) : std::nullopt;
  }

  double trips(scf::ForOp loop) const {
    std::optional<double> length = span(loop.getLowerBound(), loop.getUpperBound());
    return length ? std::ceil(std::max(0.0, *length) / stepOf(loop)) : 1;
  }

  double vectors(Type type) const {
    auto vector = dyn_cast<VectorType>(type);
    if (!vector)
      return 1;
    double bits = std::max<double>(32, vector.getElementTypeBitWidth());
    return std::max(1.0, double(vector.getNumElements()) * bits / (32.0 * lanes_));
  }

  double count(Operation &op) const {
    if (auto loop = dyn_cast<scf::ForOp>(op))
      return trips(loop) * count(*loop.getBody());
    if (auto choice = dyn_cast<scf::IfOp>(op)) {
      double then = count(*choice.thenBlock()), otherwise = choice.elseBlock() ? count(*choice.elseBlock()) : 0;
      return choice.elseBlock() ? otherwise : then;
    }
    // Takes what only moves names or addresses for free.
    if (isa<arith::ConstantOp, LLVM::GEPOp, LLVM::AllocaOp, scf::YieldOp, func::ReturnOp, vector::ExtractStridedSliceOp,
            LLVM::AddressOfOp, arith::BitcastOp>(op))
      return 0;
    if (auto store = dyn_cast<LLVM::StoreOp>(op))
      return vectors(store.getValue().getType());
    if (auto reduction = dyn_cast<vector::ReductionOp>(op))
      return 2 * std::log2(double(lanes_)) * vectors(reduction.getSourceVectorType());
    double each = op.getNumResults() ? vectors(op.getResult(0).getType()) : 1;
    if (isa<arith::DivFOp, math::SqrtOp, arith::DivSIOp, arith::DivUIOp, arith::RemSIOp, arith::RemUIOp>(op))
      return 8 * each;
    return each;
  }

  Value end_;
  unsigned lanes_;
};

} // namespace

double llmc::emit::countInstructions(func::FuncOp kernel, unsigned lanes) {
  if (kernel.isExternal())
    return 0;
  return Counter(kernel, lanes).countRows(kernel.getBody().front());
}
