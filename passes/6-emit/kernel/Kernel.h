// Builds one kernel in a small language for emitters: scalars or short vectors, loops, loads and
// stores through pointers. Tests: test/passes/6-emit/KernelTest.cpp.
//
// Every kernel is `func.func @name(%buffers: !llvm.ptr, %scalars: !llvm.ptr,
// %begin: i64, %end: i64)` and computes the rows [begin, end) of its outermost loop, so that
// any partition of the rows gives the same bits.
#ifndef LLMC_PASSES_EMIT_KERNEL_KERNEL_H
#define LLMC_PASSES_EMIT_KERNEL_KERNEL_H

#include "dialects/plan/Plan.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "passes/6-emit/kernel/KernelTarget.h"
#include "passes/6-emit/kernel/LoopKinds.h"
#include <functional>

namespace llmc::emit {

using mlir::Location;
using mlir::OpBuilder;
using mlir::Type;
using mlir::Value;

class Kernel {
public:
  // Appends an empty kernel to `module`.
  Kernel(mlir::ModuleOp module, llvm::StringRef name, Location loc, const KernelTarget &target);

  const KernelTarget &target;
  unsigned lanes() const { return target.lanes; }

  OpBuilder b;
  Location loc;
  mlir::func::FuncOp func;
  Value begin, end;

  // Counts the rows of the launch. The emitter sets it; the function itself never reads it.
  int64_t rows = 1;
  // Lists sizes that this launch passes as further scalars, after its own.
  llvm::SmallVector<int64_t, 2> extents;

  // Marks the function as one without a body, because a library does its work.
  void leaveToLibrary() { func->setAttr(kLibrary, b.getUnitAttr()); }

  // Returns the pointer of buffer `i` or the value of scalar `i` (i64), loaded in the prologue.
  Value buffer(unsigned i);
  Value scalar(unsigned i);
  // Returns a pointer to constant data, which becomes a global of the object.
  Value constantData(mlir::DenseElementsAttr data);
  // Allocates uninitialised scratch on the stack of the call, 64-byte aligned.
  Value stackArray(Type element, int64_t count);

  // Builds integer arithmetic on i64, folded where operands are constant.
  Value index(int64_t value);
  Value add(Value x, Value y);
  Value sub(Value x, Value y);
  Value mul(Value x, int64_t factor);
  Value mul(Value x, Value y);
  Value divFloor(Value x, int64_t divisor); // x >= 0
  Value divFloor(Value x, Value y);         // x >= 0, y > 0
  Value modulo(Value x, int64_t divisor);   // x >= 0
  Value min(Value x, Value y);
  Value max(Value x, Value y);

  // Builds addresses and accesses to elements of a type in memory: float32, float64, bfloat16,
  // float16 or integers; an i1 is a byte there. A `width` of 1 means a scalar, a greater one a
  // vector of as many elements. A load gives values of computingType(element), to which it widens
  // narrow floats; a store rounds such values to `element` (null: that of the value).
  Value address(Value base, Value element, Type type);
  Value load(Value pointer, Type element, unsigned width = 1);
  void store(Value value, Value pointer, Type element = {});
  // Accesses the elements whose lane `mask` has; a load gives zeros for the others.
  Value loadMasked(Value pointer, Type element, Value mask);
  void storeMasked(Value value, Value pointer, Value mask, Type element = {});
  // Stores vectors of lanes() elements or more non-temporally, shorter ones as store() does;
  // `pointer` must be a multiple of the size of lanes() elements.
  void storeNonTemporal(Value value, Value pointer, Type element = {});

  // Builds for (i = low; i < high; i += step), carrying values. Unless its kind is `InOrder`,
  // the loop promises that its iterations are independent, so that threads may share them;
  // carried values are then partial sums or maxima, to be passed to combined().
  enum class LoopKind { InOrder, Rows, Elements, Terms };
  using LoopBody =
      std::function<void(Value i, mlir::ValueRange carried, llvm::SmallVectorImpl<Value> &next)>;
  llvm::SmallVector<Value> loop(Value low, Value high, int64_t step, mlir::ValueRange init,
                                const LoopBody &body, LoopKind walk = LoopKind::InOrder);
  void loop(Value low, Value high, int64_t step, const std::function<void(Value)> &body,
            LoopKind walk = LoopKind::InOrder);
  void eachRow(Value low, Value high, const std::function<void(Value)> &body) {
    loop(low, high, 1, body, LoopKind::Rows);
  }
  void ifThen(Value condition, const std::function<void()> &body);
  void ifElse(Value condition, const std::function<void()> &then,
              const std::function<void()> &otherwise);

  // Builds the fence after which other threads see non-temporal stores.
  void fence();

  // Builds loops over [low, high) in vectors of `width` elements (lanes() if 0), then over what
  // is left in vectors of lanes() and, if the length `size` is known at compile time, as one
  // narrower vector, otherwise one by one. For threads, vectors of a known length all have one
  // width, and the last may reach past the end, where it will do nothing. What a loop writes to
  // element i of a stack array, later loops may read at i.
  void vectors(Value low, Value high, std::optional<int64_t> size,
               const std::function<void(Value i, unsigned width)> &body, unsigned width = 0);
  // Returns the width of those vectors along `size` elements; widthDividing() returns that of
  // vectors none of which passes the end.
  unsigned widthAlong(std::optional<int64_t> size, unsigned width) const;
  unsigned widthDividing(std::optional<int64_t> size, unsigned width) const;
  // Marks `total`, made from what loops over elements carried, as a sum or maximum to be
  // combined over all threads; the second form marks the results of a loop over terms.
  void combined(Value total, bool isMax);
  void combined(mlir::ValueRange totals, llvm::ArrayRef<bool> areMax);

private:
  mlir::ModuleOp module;
  llvm::DenseMap<unsigned, Value> buffers, scalars;
  int64_t walkedArrays = 0; // on the stack
  mlir::Operation *prologueEnd = nullptr;
  Value prologue(const std::function<Value()> &make);
  Value loaded(Value stored, Type element);
  Value stored(Value value, Type element);
};

// Returns the type of a scalar or vector of `width` elements.
Type typeOf(Type element, unsigned width);
unsigned widthOf(Type type);
Type elementOf(Type type);
// Returns whether an element of memory is a float that is computed with as float32: bfloat16 or
// float16.
bool isNarrow(Type element);
// Returns whether kernels read and write such elements.
bool isKernelElement(Type element);
// Returns the type in which an element of memory is computed with, and the one in which it is
// only moved: as an integer where it is narrow, so that its bits stay as they are.
Type computingType(Type element);
Type movedType(Type element);
// Returns the bytes of an element in a buffer.
int64_t storageBytes(Type element);

} // namespace llmc::emit

#endif // LLMC_PASSES_EMIT_KERNEL_KERNEL_H
