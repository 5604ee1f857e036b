// What converters share to write formulas with.
#ifndef LLMC_LIB_ONNX_CONVERT_FORMULA_H
#define LLMC_LIB_ONNX_CONVERT_FORMULA_H

#include "lib/onnx/convert/Conversion.h"

namespace llmc::onnximport {

// An elementwise op of `graph`.
template <class Op, class... Args>
mlir::Value make(Call &call, Args... args) {
  return Op::create(call.build.builder, call.build.loc, args...);
}

// The operands from `first` on (the others are conditions) of a broadcasting op,
// kept small where that gives the same shape. Fails if one is missing, shapes do
// not broadcast or element types differ.
support::Result<std::vector<mlir::Value>> broadcastOperands(Call &call, size_t first);

// Fails unless operands 0 ... count - 1 are floats.
support::Status needFloats(Call &call, size_t count);
// The integers of an operand that must be known.
support::Result<Shape> knownIntegers(Call &call, size_t i);

inline mlir::Value maximum(Call &call, mlir::Value a, mlir::Value b) {
  return make<graph::MaximumOp>(call, a, b);
}
inline mlir::Value minimum(Call &call, mlir::Value a, mlir::Value b) {
  return make<graph::MinimumOp>(call, a, b);
}
inline mlir::Value integers(Call &call, mlir::Value x) {
  return call.build.cast(x, call.build.builder.getI64Type());
}
inline mlir::Value floats(Call &call, mlir::Value x) {
  return call.build.cast(x, call.build.builder.getF32Type());
}

// 0, 1, ... along one dim (i64).
mlir::Value indices(Call &call, int64_t size);
// The same as a tensor of `rank` dims, the others 1.
mlir::Value indicesAlong(Call &call, int64_t size, int64_t dim, int64_t rank);
// i64 modulo `size` > 0, in 0 ... size - 1.
mlir::Value modulo(Call &call, mlir::Value x, int64_t size);

// x -> [product of dims before, dim, product of those after] and back by reshape.
Shape threeDims(llvm::ArrayRef<int64_t> shape, int64_t dim);

// Elements `at` (known, each in range) along a dim: a slice where they are evenly
// spaced, else a gather.
mlir::Value takeAt(Call &call, mlir::Value x, int64_t dim, llvm::ArrayRef<int64_t> at);
// Rows of a table by computed ids of any shape.
mlir::Value takeRows(Call &call, mlir::Value table, mlir::Value ids);
// Adds `size` to negative ids.
mlir::Value fromEnd(Call &call, mlir::Value ids, int64_t size);

// Sums, products, ... over dims; the result keeps them as 1.
mlir::Value reduceKept(Call &call, mlir::Value x, graph::ReduceKind kind,
                       llvm::ArrayRef<int64_t> dims);
mlir::Value minimumKept(Call &call, mlir::Value x, llvm::ArrayRef<int64_t> dims);
mlir::Value productKept(Call &call, mlir::Value x, llvm::ArrayRef<int64_t> dims);
mlir::Value meanKept(Call &call, mlir::Value x, llvm::ArrayRef<int64_t> dims);

// Over the last dim.
mlir::Value softmaxOf(Call &call, mlir::Value x);
mlir::Value logSoftmaxOf(Call &call, mlir::Value x);

// The permutation that swaps two dims.
Shape swapped(int64_t rank, int64_t a, int64_t b);
// The permutation that moves dim `from` to place `to`.
Shape moved(int64_t rank, int64_t from, int64_t to);

// Rounds to a type of 8 bits or less, all of whose values are looked up.
mlir::Value roundToSmall(Call &call, mlir::Value x, Element element, Overflow overflow);
// Rounds a number that is not negative to float32, also where it is computed in double:
// what is a float32 stays as it is.
mlir::Value roundToFloat32(Call &call, mlir::Value x);
// The same for a number of any sign whose nearest integer of `bits` bits is asked for next:
// it is rounded where it may lie between two of them.
mlir::Value roundBeforeInteger(Call &call, mlir::Value x, int bits);
// i64 modulo 2^width, in the range of the type; `x` itself for 32 bits and more.
mlir::Value wrapToSmall(Call &call, mlir::Value x, Element element);

} // namespace llmc::onnximport

#endif // LLMC_LIB_ONNX_CONVERT_FORMULA_H
