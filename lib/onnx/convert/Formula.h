// Provides the building blocks of converters: elementwise ops, indices, reductions, rounding.
// Tested by test/conformance.
#ifndef LLMC_LIB_ONNX_CONVERT_FORMULA_H
#define LLMC_LIB_ONNX_CONVERT_FORMULA_H

#include "lib/onnx/convert/Conversion.h"

namespace llmc::onnximport {

// Builds an elementwise op of `graph` at the node's location.
template <class Op, class... Args>
mlir::Value make(NodeAdaptor &call, Args... args) {
  return Op::create(call.build.builder, call.build.loc, args...);
}

// Returns all operands of a broadcasting op, without dims that broadcasting restores if the result
// has the same shape then. Fails if one is missing, shapes do not broadcast, or the element types
// of those from `first` on (the others are conditions) differ.
support::Result<std::vector<mlir::Value>> broadcastOperands(NodeAdaptor &call, size_t first);

// Fails unless operands 0 ... count - 1 are floats.
support::Status needFloats(NodeAdaptor &call, size_t count);
// Returns the integers of operand `i`. Fails unless they are known.
support::Result<Shape> knownIntegers(NodeAdaptor &call, size_t i);

inline mlir::Value maximum(NodeAdaptor &call, mlir::Value a, mlir::Value b) {
  return make<graph::MaximumOp>(call, a, b);
}
inline mlir::Value minimum(NodeAdaptor &call, mlir::Value a, mlir::Value b) {
  return make<graph::MinimumOp>(call, a, b);
}
inline mlir::Value integers(NodeAdaptor &call, mlir::Value x) {
  return call.build.cast(x, call.build.builder.getI64Type());
}
inline mlir::Value floats(NodeAdaptor &call, mlir::Value x) {
  return call.build.cast(x, call.build.builder.getF32Type());
}

// Returns 0, 1, ..., size - 1 as i64 [size].
mlir::Value indices(NodeAdaptor &call, int64_t size);
// Returns 0, 1, ..., size - 1 along `dim` of a tensor of `rank` dims; the others are 1.
mlir::Value indicesAlong(NodeAdaptor &call, int64_t size, int64_t dim, int64_t rank);
// Returns x (i64) modulo `size` > 0, in 0 ... size - 1.
mlir::Value modulo(NodeAdaptor &call, mlir::Value x, int64_t size);

// Returns [product of the dims before `dim`, dim, product of the dims after it].
Shape threeDims(llvm::ArrayRef<int64_t> shape, int64_t dim);

// Takes the elements `at` (each in range) along a dim: by a slice if they are evenly spaced
// upward, else by a gather.
mlir::Value selectIndices(NodeAdaptor &call, mlir::Value x, int64_t dim,
                          llvm::ArrayRef<int64_t> at);
// Gathers rows (slices along dim 0) of a table by ids of any shape.
mlir::Value gatherRows(NodeAdaptor &call, mlir::Value table, mlir::Value ids);
// Returns whether the value holds numbers of chosen experts, or counts, alone, moved or not: they are not
// negative.
bool isRouteOrCount(mlir::Value value);
// Adds `size` to negative ids; returns those that cannot be negative as they are.
mlir::Value wrapNegativeIndices(NodeAdaptor &call, mlir::Value ids, int64_t size);

// Reduces over dims, which the result keeps as 1.
mlir::Value reduceKept(NodeAdaptor &call, mlir::Value x, graph::ReduceKind kind,
                       llvm::ArrayRef<int64_t> dims);
mlir::Value minimumKept(NodeAdaptor &call, mlir::Value x, llvm::ArrayRef<int64_t> dims);
mlir::Value productKept(NodeAdaptor &call, mlir::Value x, llvm::ArrayRef<int64_t> dims);
mlir::Value meanKept(NodeAdaptor &call, mlir::Value x, llvm::ArrayRef<int64_t> dims);

// Applies softmax, or its logarithm, over the last dim.
mlir::Value softmaxOf(NodeAdaptor &call, mlir::Value x);
mlir::Value logSoftmaxOf(NodeAdaptor &call, mlir::Value x);

// Returns the permutation that swaps two dims.
Shape swapped(int64_t rank, int64_t a, int64_t b);
// Returns the permutation that moves dim `from` to position `to`.
Shape moved(int64_t rank, int64_t from, int64_t to);

// Rounds to a float type of 8 bits or less, by a lookup in the table of its values. Reads the
// node's attribute `round_mode` for F8E8M0.
mlir::Value roundToSmall(NodeAdaptor &call, mlir::Value x, Element element, Overflow overflow);
// Rounds a number that is not negative to float32, so that an evaluation in double gives the same
// result; changes no float32.
mlir::Value roundToFloat32(NodeAdaptor &call, mlir::Value x);
// Rounds a number of any sign to float32 if it may lie between two integers of `bits` bits, to one
// of which it is rounded next.
mlir::Value roundBeforeInteger(NodeAdaptor &call, mlir::Value x, int bits);
// Returns x (i64) modulo 2^width, in the range of the type; `x` itself for floats, Bool, and types
// of 32 bits and more.
mlir::Value wrapToSmall(NodeAdaptor &call, mlir::Value x, Element element);

} // namespace llmc::onnximport

#endif // LLMC_LIB_ONNX_CONVERT_FORMULA_H
