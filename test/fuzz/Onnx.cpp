#include "lib/onnx/Import.h"
#include "Model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  llmc::test::importModel(llmc::test::view(data, size), llmc::importOnnx, 8,
                          {{"batch", 1}, {"sequence", 8}});
  return 0;
}
