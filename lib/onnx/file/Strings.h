// Strings: no op of `graph` computes with them, but a file may compare constants of them.
#ifndef LLMC_LIB_ONNX_FILE_STRINGS_H
#define LLMC_LIB_ONNX_FILE_STRINGS_H

#include "onnx-ml.pb.h"

namespace llmc::onnximport {

// Turns every Equal of two stored string tensors in the main graph into a constant of
// truths, and removes stored strings that nothing reads any more. What broadcasts not is
// left as it is, to be refused like any other use of strings.
void foldStrings(::onnx::ModelProto &model);

} // namespace llmc::onnximport

#endif // LLMC_LIB_ONNX_FILE_STRINGS_H
