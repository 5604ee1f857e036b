// Builds norms over the last dim for several ops of ONNX and com.microsoft.
// Tested by test/conformance.
#ifndef LLMC_LIB_ONNX_CONVERT_NORMS_H
#define LLMC_LIB_ONNX_CONVERT_NORMS_H

#include "lib/onnx/convert/Formula.h"

namespace llmc::onnximport {

// Holds the results of a norm.
struct Normalized {
  mlir::Value y, mean, rstd; // mean is null for an RMS norm; both without the last dim
};

Normalized layerNorm(NodeAdaptor &call, mlir::Value x, mlir::Value scale, mlir::Value bias,
                     double epsilon);
Normalized rmsNorm(NodeAdaptor &call, mlir::Value x, mlir::Value scale, double epsilon);

// Returns operand `i`, broadcast to the normalized dims, as one vector with `role`; a vector of
// `otherwise` if the operand, or the program's, is left out. Fails if it does not broadcast.
support::Result<mlir::Value> normVector(NodeAdaptor &call, size_t i, llvm::ArrayRef<int64_t> normal,
                                        UseKind role, double otherwise);

} // namespace llmc::onnximport

#endif // LLMC_LIB_ONNX_CONVERT_NORMS_H
