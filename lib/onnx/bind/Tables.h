// Recognizes computed tables (masks, positions, rotary tables) by their elements: these are never
// learned. Tested by test/import/Learned.cpp.
#ifndef LLMC_LIB_ONNX_BIND_TABLES_H
#define LLMC_LIB_ONNX_BIND_TABLES_H

#include "lib/onnx/file/HostTensor.h"

namespace llmc::onnximport {

// Returns whether all elements are equal; true if there are none.
bool isUniform(const HostTensor &tensor);
// Returns whether the tensor is a computed table: of integers, a mask, or a wave (isRotaryTable).
// Uniform tensors and those of one or two elements are none, since freshly initialized
// parameters look alike, unless their first element is so low that it hides scores.
bool isComputedTable(const HostTensor &tensor);
// Returns whether the elements are sines or cosines along the positions, or a geometric series
// of frequencies.
bool isRotaryTable(const HostTensor &tensor);
// Returns whether the elements are evenly spaced along the last dim, as distances are; false if
// that has less than 3 elements.
bool isLinear(const HostTensor &tensor);

} // namespace llmc::onnximport

#endif // LLMC_LIB_ONNX_BIND_TABLES_H
