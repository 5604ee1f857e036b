#include "test/verify/catalogue/KernelEdits.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/TypeUtilities.h"

#include <cmath>

using namespace mlir;

namespace llmc::catalogue {
namespace {

// Calls `change` for every op of the kernels; whether it said that it changed one.
template <typename Op = Operation *, typename F> Edit inKernels(std::string kernel, F change) {
  return [=](ModuleOp module) {
    bool changed = false;
    module.walk([&](func::FuncOp function) {
      if (function.getName().contains(kernel))
        function.walk([&](Op op) { changed |= change(op); });
    });
    return changed;
  };
}

bool isAbout(Attribute value, double number) {
  if (auto dense = dyn_cast<DenseFPElementsAttr>(value))
    return dense.isSplat() && isAbout(dense.getSplatValue<FloatAttr>(), number);
  auto real = dyn_cast<FloatAttr>(value);
  return real && std::abs(real.getValueAsDouble() - number) < 1e-5 * std::abs(number);
}

} // namespace

Edit replaceNumber(std::string kernel, double number, double other) {
  return inKernels<arith::ConstantOp>(std::move(kernel), [=](arith::ConstantOp op) {
    if (!isAbout(op.getValue(), number))
      return false;
    TypedAttr value = FloatAttr::get(getElementTypeOrSelf(op.getType()), other);
    if (auto type = dyn_cast<ShapedType>(op.getType()))
      value = DenseElementsAttr::get(type, Attribute(value));
    op.setValueAttr(value);
    return true;
  });
}

Edit leaveOutOps(std::string kernel, std::string name, unsigned operand) {
  return inKernels(std::move(kernel), [=](Operation *op) {
    if (op->getName().getStringRef() != name ||
        op->getOperand(operand).getType() != op->getResult(0).getType())
      return false;
    op->getResult(0).replaceAllUsesWith(op->getOperand(operand));
    return true;
  });
}

Edit renameOps(std::string kernel, std::string from, std::string to) {
  return inKernels(std::move(kernel), [=](Operation *op) {
    if (op->getName().getStringRef() != from)
      return false;
    OperationState state(op->getLoc(), to, op->getOperands(), op->getResultTypes());
    op->replaceAllUsesWith(OpBuilder(op).create(state));
    return true;
  });
}

Edit loseProducts(std::string kernel) { return leaveOutOps(std::move(kernel), "math.fma", 2); }

Edit sumInPlaceOfMaximum(std::string kernel) {
  return inKernels<arith::SelectOp>(std::move(kernel), [](arith::SelectOp op) {
    auto compare = op.getCondition().getDefiningOp<arith::CmpFOp>();
    if (!compare || compare.getPredicate() != arith::CmpFPredicate::OLT ||
        compare.getLhs() != op.getFalseValue() || compare.getRhs() != op.getTrueValue())
      return false;
    OpBuilder builder(op);
    Value sum =
        arith::AddFOp::create(builder, op.getLoc(), op.getFalseValue(), op.getTrueValue());
    op.replaceAllUsesWith(sum);
    return true;
  });
}

} // namespace llmc::catalogue
