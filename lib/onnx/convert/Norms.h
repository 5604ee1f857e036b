// Norms over the last dim, which several ops of ONNX are.
#ifndef LLMC_LIB_ONNX_CONVERT_NORMS_H
#define LLMC_LIB_ONNX_CONVERT_NORMS_H

#include "lib/onnx/convert/Formula.h"

namespace llmc::onnximport {

struct Normalized {
  mlir::Value y, mean, rstd; // mean is null for an RMS norm; both without the last dim
};

Normalized layerNorm(Call &call, mlir::Value x, mlir::Value scale, mlir::Value bias,
                     double epsilon);
Normalized rmsNorm(Call &call, mlir::Value x, mlir::Value scale, double epsilon);

// Operand `i`, broadcast to the normalised dims, as one vector; all `otherwise`
// where it is left out.
support::Result<mlir::Value> normVector(Call &call, size_t i, llvm::ArrayRef<int64_t> normal,
                                        Role role, double otherwise);

} // namespace llmc::onnximport

#endif // LLMC_LIB_ONNX_CONVERT_NORMS_H
