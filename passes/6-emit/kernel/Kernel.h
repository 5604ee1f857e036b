// One kernel under construction, and the small language in which emitters
// write it: scalars or short vectors, loops, loads and stores through pointers.
//
// Every kernel is `func.func @name(%buffers: !llvm.ptr, %scalars: !llvm.ptr,
// %begin: i64, %end: i64)` and computes the rows [begin, end) of its outermost
// loop, so that any partition of the rows gives the same bits.
#ifndef LLMC_PASSES_EMIT_KERNEL_KERNEL_H
#define LLMC_PASSES_EMIT_KERNEL_KERNEL_H

#include "dialects/plan/Plan.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "passes/6-emit/kernel/KernelTarget.h"
#include "passes/6-emit/kernel/Walks.h"
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

  // Size of the row range. Set by the emitter, belongs to a launch and not to
  // the kernel (the function never looks at it).
  int64_t rows = 1;
  // Sizes that this launch passes as further scalars, after its own.
  llvm::SmallVector<int64_t, 2> extents;

  // Says that there is nothing here to run, since a library will do it.
  void leaveToLibrary() { func->setAttr(kLibrary, b.getUnitAttr()); }

  // Pointer of buffer `i` and value of scalar `i` (i64), loaded at the top.
  Value buffer(unsigned i);
  Value scalar(unsigned i);
  // Pointer to constant data that travels inside the object.
  Value constantData(mlir::DenseElementsAttr data);
  // Uninitialised scratch of the call, 64-byte aligned.
  Value stackArray(Type element, int64_t count);

  // Integer arithmetic on i64, folded where it can be.
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

  // Elements are float32, float64 or integers; an i1 is a byte in memory.
  // `width` 1 means a scalar, more a vector of so many elements.
  Value address(Value base, Value element, Type type);
  Value load(Value pointer, Type element, unsigned width = 1);
  void store(Value value, Value pointer);
  // Vectors of lanes() elements or more go past the cache; `pointer` is a multiple of
  // the size of lanes() elements.
  void storePastCache(Value value, Value pointer);

  // for (i = low; i < high; i += step), carrying values. A walk that is not `InOrder`
  // promises that its turns do not look at each other, so that threads may share them;
  // its carried values are then sums or maxima so far, to be combined().
  enum class Walk { InOrder, Rows, Elements, Terms };
  using LoopBody =
      std::function<void(Value i, mlir::ValueRange carried, llvm::SmallVectorImpl<Value> &next)>;
  llvm::SmallVector<Value> loop(Value low, Value high, int64_t step, mlir::ValueRange init,
                                const LoopBody &body, Walk walk = Walk::InOrder);
  void loop(Value low, Value high, int64_t step, const std::function<void(Value)> &body,
            Walk walk = Walk::InOrder);
  void eachRow(Value low, Value high, const std::function<void(Value)> &body) {
    loop(low, high, 1, body, Walk::Rows);
  }
  void ifThen(Value condition, const std::function<void()> &body);
  void ifElse(Value condition, const std::function<void()> &then,
              const std::function<void()> &otherwise);

  // Until it has run, other threads may not see what was stored past the cache.
  void fence();

  // The range in vectors of `width` elements (lanes() if 0), what is left over in vectors
  // of lanes() and then, if the length `size` is known now, as one narrower vector,
  // otherwise one by one. For threads the vectors of a known length are all of one width, and
  // the last of them may reach past the end, where they will do nothing.
  // What a walk writes to element i of a stack array, later walks may read at i.
  void vectors(Value low, Value high, std::optional<int64_t> size,
               const std::function<void(Value i, unsigned width)> &body, unsigned width = 0);
  // Of those vectors along `size` elements; and of vectors none of which reaches past the end.
  unsigned widthAlong(std::optional<int64_t> size, unsigned width) const;
  unsigned widthDividing(std::optional<int64_t> size, unsigned width) const;
  // Says that `total`, from what walks over elements carried, is the sum or the maximum of
  // all of it; the same of the results of a walk over terms.
  void combined(Value total, bool isMax);
  void combined(mlir::ValueRange totals, llvm::ArrayRef<bool> areMax);

private:
  mlir::ModuleOp module;
  llvm::DenseMap<unsigned, Value> buffers, scalars;
  int64_t walkedArrays = 0; // on the stack
  mlir::Operation *prologueEnd = nullptr;
  Value prologue(const std::function<Value()> &make);
};

// The type of a scalar or vector of `width` elements.
Type typeOf(Type element, unsigned width);
unsigned widthOf(Type type);
Type elementOf(Type type);
// Bytes of an element in a buffer.
int64_t storageBytes(Type element);

} // namespace llmc::emit

#endif // LLMC_PASSES_EMIT_KERNEL_KERNEL_H
