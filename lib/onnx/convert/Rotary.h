// Rotary positions, by the standard's op, com.microsoft's, and inside of attention.
#ifndef LLMC_LIB_ONNX_CONVERT_ROTARY_H
#define LLMC_LIB_ONNX_CONVERT_ROTARY_H

#include "lib/onnx/convert/Formula.h"

namespace llmc::onnximport {

// Cosines and sines of the positions, [batch | 1, rows, half].
struct RotaryTables {
  mlir::Value cos, sin;
};

// Rows of the tables (operands `cos` and `sin`, [positions, half]) by known
// positions, [batch | 1, rows], or computed ones. Fails where a position that is
// known is outside.
support::Result<RotaryTables> tablesAt(Call &call, size_t cos, size_t sin,
                                       const HostTensor *known, mlir::Value computed);

// x [batch, rows, heads, dim]; fails where the tables do not fit.
support::Result<mlir::Value> rotate(Call &call, mlir::Value x, const RotaryTables &tables,
                                    bool interleaved);

} // namespace llmc::onnximport

#endif // LLMC_LIB_ONNX_CONVERT_ROTARY_H
