// Holds what the emitters of routes share: integers in memory, and comparisons of them. Routes, places and
// counts may hold any integer: what is no expert, or no row, is never an address. Tests: the random cases of
// test/passes/6-emit/ExpertCases.cpp.
#ifndef LLMC_PASSES_EMIT_EXPERTS_ROUTEKERNEL_H
#define LLMC_PASSES_EMIT_EXPERTS_ROUTEKERNEL_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "passes/6-emit/kernel/KernelEmitters.h"

namespace llmc::emit {

// Bounds the experts that a kernel counts or compares on the stack.
inline constexpr int64_t kMostExperts = 8192;

inline llvm::ArrayRef<int64_t> shapeOf(Value tensor) {
  return mlir::cast<mlir::RankedTensorType>(tensor.getType()).getShape();
}
inline int64_t sizeOf(Value tensor) {
  return mlir::cast<mlir::RankedTensorType>(tensor.getType()).getNumElements();
}

// Fails with a diagnostic if there are more experts than a kernel has room for.
inline mlir::LogicalResult checkExperts(mlir::Operation *op, int64_t experts) {
  if (experts > kMostExperts)
    return op->emitOpError("has kernels for up to ") << kMostExperts << " experts, got " << experts;
  return mlir::success();
}

// Builds the code of one kernel.
struct RouteKernel {
  Kernel &k;
  LaunchBody body;
  mlir::Type i64;

  RouteKernel(Kernel &kernel, LaunchBody body) : k(kernel), body(body), i64(k.b.getI64Type()) {}

  Value read(Value tensor) { return k.buffer(mlir::cast<mlir::BlockArgument>(tensor).getArgNumber()); }
  Value written(unsigned result) { return k.buffer(body.reads + result); }
  Value load(Value base, Value i, unsigned width = 1) { return k.load(k.address(base, i, i64), i64, width); }
  void store(Value x, Value base, Value i) { k.store(x, k.address(base, i, i64)); }
  void fill(Value base, Value low, Value high, int64_t value) {
    k.loop(low, high, 1, [&](Value i) { store(k.index(value), base, i); });
  }
  Value compare(mlir::arith::CmpIPredicate predicate, Value x, Value y) {
    return mlir::arith::CmpIOp::create(k.b, k.loc, predicate, x, y);
  }
  Value less(Value x, Value y) { return compare(mlir::arith::CmpIPredicate::slt, x, y); }
  // Returns whether x is in [0, limit).
  Value isBelow(Value x, int64_t limit) {
    return compare(mlir::arith::CmpIPredicate::ult, x, k.index(limit));
  }
  Value both(Value x, Value y) { return mlir::arith::AndIOp::create(k.b, k.loc, x, y); }
  Value select(Value condition, Value x, Value y) {
    return mlir::arith::SelectOp::create(k.b, k.loc, condition, x, y);
  }
  // Returns 1 where the condition holds, else 0.
  Value one(Value condition) {
    return mlir::arith::ExtUIOp::create(k.b, k.loc, typeOf(i64, widthOf(condition.getType())), condition);
  }
  Value splat(Value x, unsigned width) {
    if (width == 1)
      return x;
    return mlir::vector::BroadcastOp::create(k.b, k.loc, mlir::VectorType::get({width}, i64), x);
  }
  Value reduced(mlir::vector::CombiningKind kind, Value x) {
    return widthOf(x.getType()) == 1 ? x : mlir::vector::ReductionOp::create(k.b, k.loc, kind, x).getResult();
  }
  // Returns the loop's last value of one integer.
  Value carry(Value low, Value high, int64_t step, Value init, const std::function<Value(Value i, Value x)> &body) {
    return k.loop(low, high, step, init, [&](Value i, mlir::ValueRange carried, llvm::SmallVectorImpl<Value> &next) {
      next.push_back(body(i, carried[0]));
    })[0];
  }
};

} // namespace llmc::emit

#endif // LLMC_PASSES_EMIT_EXPERTS_ROUTEKERNEL_H
