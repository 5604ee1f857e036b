// Folds comparisons of constant strings: no op of `graph` computes with strings.
// Tested by test/conformance (test_equal_string).
#ifndef LLMC_LIB_ONNX_FILE_STRINGS_H
#define LLMC_LIB_ONNX_FILE_STRINGS_H

#include "onnx-ml.pb.h"

namespace llmc::onnximport {

// Replaces every Equal of two stored string tensors in the main graph by a boolean constant, and
// removes stored strings that nothing reads any more. Operands that do not broadcast are left
// alone, and are refused later like any other use of strings.
void foldStrings(::onnx::ModelProto &model);

} // namespace llmc::onnximport

#endif // LLMC_LIB_ONNX_FILE_STRINGS_H
