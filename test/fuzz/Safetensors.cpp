#include "lib/support/Safetensors.h"
#include "Fuzz.h"

#include <cstdlib>

using namespace llmc;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  auto file = support::SafetensorsFile::open(test::fileWith(test::view(data, size)));
  if (!file)
    return 0;
  unsigned sum = 0;
  for (const auto &[name, tensor] : file->tensors()) {
    auto count = support::elementCount(tensor.shape);
    if (!count || *count * support::byteSize(tensor.type) != tensor.byteSize)
      std::abort();
    for (size_t i = 0; i < tensor.byteSize; ++i)
      sum += unsigned(tensor.data[i]);
  }
  volatile unsigned keep = sum;
  (void)keep;
  return 0;
}
