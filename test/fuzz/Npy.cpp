#include "lib/support/Npy.h"
#include "Fuzz.h"

using namespace llmc;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  auto file = support::NpyFile::open(test::fileWith(test::view(data, size)));
  if (!file)
    return 0;
  // Every element lies in the file.
  uint64_t count = *support::elementCount(file->shape());
  double sum = 0;
  int64_t integers = 0;
  for (uint64_t i = 0; i < count; ++i) {
    sum += support::readAsDouble(file->type(), file->data(), i);
    if (support::isInteger(file->type()))
      integers ^= support::readAsInteger(file->type(), file->data(), i);
  }
  volatile double keep = sum + double(integers);
  (void)keep;
  return 0;
}
