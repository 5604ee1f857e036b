#include "runtime/Reduction.h"

#include <cstring>

using namespace llmc;
using namespace llmc::runtime;
using planfile::DType;
using planfile::ReduceKind;

namespace {

template <class T>
struct Sum {
  static T apply(T a, T b) { return a + b; }
};

// Integers wrap.
template <>
struct Sum<int64_t> {
  static int64_t apply(int64_t a, int64_t b) {
    return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  }
};
template <>
struct Sum<int32_t> {
  static int32_t apply(int32_t a, int32_t b) {
    return static_cast<int32_t>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b));
  }
};

// A NaN of either side stays.
template <class T>
struct Max {
  static T apply(T a, T b) { return a > b || a != a ? a : b; }
};

template <class T, template <class> class F>
void combine(std::span<std::byte *const> sources, uint64_t offset, uint64_t bytes,
             std::byte *scratch) {
  T *result = reinterpret_cast<T *>(scratch);
  std::memcpy(result, sources[0] + offset, bytes);
  for (size_t i = 1; i < sources.size(); ++i) {
    const T *other = reinterpret_cast<const T *>(sources[i] + offset);
    for (uint64_t j = 0; j < bytes / sizeof(T); ++j)
      result[j] = F<T>::apply(result[j], other[j]);
  }
}

template <class T>
void combine(ReduceKind kind, std::span<std::byte *const> sources, uint64_t offset,
             uint64_t bytes, std::byte *scratch) {
  if (kind == ReduceKind::Sum)
    combine<T, Sum>(sources, offset, bytes, scratch);
  else
    combine<T, Max>(sources, offset, bytes, scratch);
}

} // namespace

void runtime::reduceChunk(DType type, ReduceKind kind, std::span<std::byte *const> sources,
                          uint64_t offset, uint64_t bytes, std::byte *scratch) {
  switch (type) {
  case DType::F32:
    return combine<float>(kind, sources, offset, bytes, scratch);
  case DType::F64:
    return combine<double>(kind, sources, offset, bytes, scratch);
  case DType::I64:
    return combine<int64_t>(kind, sources, offset, bytes, scratch);
  case DType::I32:
    return combine<int32_t>(kind, sources, offset, bytes, scratch);
  default:
    return; // refused by checkBounds
  }
}
