// Where an external tensor's file is, and whether it may be opened.
#ifndef LLMC_LIB_ONNX_FILE_EXTERNALDATA_H
#define LLMC_LIB_ONNX_FILE_EXTERNALDATA_H

#include "lib/support/Error.h"
#include "onnx-ml.pb.h"

namespace llmc::onnximport {

struct ExternalPlace {
  std::string location; // as written
  std::string path;     // resolved
  uint64_t offset = 0;
  std::optional<uint64_t> length;
};

// `modelPath` is the .onnx file. A location is relative, does not climb out by
// "..", and must end inside the folder in which the model is named or the one
// in which it really lies (model caches are folders of symbolic links).
support::Result<ExternalPlace> externalPlace(const std::string &modelPath,
                                             const ::onnx::TensorProto &tensor);

} // namespace llmc::onnximport

#endif // LLMC_LIB_ONNX_FILE_EXTERNALDATA_H
