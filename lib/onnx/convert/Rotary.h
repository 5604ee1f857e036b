// Builds rotary positions for the ops of ONNX and com.microsoft, and inside of attention.
// Tested by test/conformance.
#ifndef LLMC_LIB_ONNX_CONVERT_ROTARY_H
#define LLMC_LIB_ONNX_CONVERT_ROTARY_H

#include "lib/onnx/convert/Formula.h"

namespace llmc::onnximport {

// Holds the cosines and sines of the positions, [batch | 1, rows, half] each.
struct RotaryTables {
  mlir::Value cos, sin;
};

// Gathers rows of the tables (operands `cos` and `sin`, [positions, half]) by positions [batch | 1,
// rows]: `known`, or `computed` if that is null. Fails if the tables differ in shape or a known
// position is out of range.
support::Result<RotaryTables> tablesAt(NodeAdaptor &call, size_t cos, size_t sin,
                                       const HostTensor *known, mlir::Value computed);

// Rotates x [batch, rows, heads, dim]. Fails if the tables do not fit.
support::Result<mlir::Value> rotate(NodeAdaptor &call, mlir::Value x, const RotaryTables &tables,
                                    bool interleaved);

} // namespace llmc::onnximport

#endif // LLMC_LIB_ONNX_CONVERT_ROTARY_H
