// Measures values of the IR. Tests: test/predict/TableTest.cpp.
#ifndef LLMC_LIB_PREDICT_VALUES_H
#define LLMC_LIB_PREDICT_VALUES_H

#include "mlir/IR/Value.h"

namespace llmc::predict {

// Returns the elements of a tensor type, and the bytes of a tensor; 0 of all else.
double elementsOf(mlir::Type type);
double bytesOf(mlir::Value value);

// Follows a value to what holds its elements: through views, and from a gathered tensor to the part that is kept.
mlir::Value rootOf(mlir::Value value);

// Follows a value through views to what has its bytes.
mlir::Value wholeOf(mlir::Value value);

// Returns whether an op, which may be null, computes one expression for each element.
bool isElementwise(mlir::Operation *op);

} // namespace llmc::predict

#endif // LLMC_LIB_PREDICT_VALUES_H
