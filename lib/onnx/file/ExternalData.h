// Resolves the file of an external tensor, and checks that it may be opened.
// Tested by test/import/Storage.cpp and Refusals.cpp.
#ifndef LLMC_LIB_ONNX_FILE_EXTERNALDATA_H
#define LLMC_LIB_ONNX_FILE_EXTERNALDATA_H

#include "lib/support/Error.h"
#include "onnx-ml.pb.h"

namespace llmc::onnximport {

// Describes where an external tensor is stored.
struct ExternalLocation {
  std::string location; // as written, relative to the model
  std::string path;     // with the model's folder
  uint64_t offset = 0;  // bytes
  std::optional<uint64_t> length; // bytes, if given
};

// Resolves the external data of a tensor of the .onnx file `modelPath`. Fails unless the location
// is relative, has no "..", and names a regular file which, with symbolic links resolved, lies
// inside the folder of the model's path or of the file that this path links to (model caches are
// folders of symbolic links).
support::Result<ExternalLocation> resolveExternalData(const std::string &modelPath,
                                             const ::onnx::TensorProto &tensor);

} // namespace llmc::onnximport

#endif // LLMC_LIB_ONNX_FILE_EXTERNALDATA_H
