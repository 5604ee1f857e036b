#include "runtime/transport/Reduction.h"

#include "lib/support/ElementType.h"

#include <algorithm>
#include <cstring>

using namespace llmc;
using namespace llmc::runtime;
using planfile::DType;
using planfile::ReduceKind;

namespace {

// Adds; integers are passed as unsigned types, so that they wrap.
struct Sum {
  template <class V>
  static void apply(V &a, const V &b) {
    a += b;
  }
};

// Keeps the larger operand; a NaN on either side is kept.
struct Max {
  template <class V>
  static void apply(V &a, const V &b) {
    a = ((a > b) | (a != a)) ? a : b;
  }
};

#define LLMC_INLINE inline __attribute__((always_inline))

// Reduces `Count` values of type V at byte `at`, in registers.
template <class V, int Count, class F>
LLMC_INLINE void reduceBlock(const OffsetBuffers &sources, const OffsetBuffers &destinations,
                             uint64_t at) {
  V sum[Count], other[Count];
  std::memcpy(sum, sources[0] + at, sizeof sum);
  for (size_t i = 1; i < sources.size(); ++i) {
    std::memcpy(other, sources[i] + at, sizeof other);
#pragma clang loop unroll(full)
    for (int j = 0; j < Count; ++j)
      F::apply(sum[j], other[j]);
  }
  for (size_t i = 0; i < destinations.size(); ++i)
    std::memcpy(destinations[i] + at, sum, sizeof sum);
}

// Reduces in blocks of four 64-byte vectors, the widest registers; for narrower ones the
// compiler splits each vector.
template <class T, class F>
LLMC_INLINE void reduce(const OffsetBuffers &sources, const OffsetBuffers &destinations,
                        uint64_t bytes) {
  typedef T Vector __attribute__((vector_size(64)));
  constexpr int count = 4;
  uint64_t at = 0;
  for (; at + count * sizeof(Vector) <= bytes; at += count * sizeof(Vector))
    reduceBlock<Vector, count, F>(sources, destinations, at);
  for (; at < bytes; at += sizeof(T))
    reduceBlock<T, 1, F>(sources, destinations, at);
}

// Converts 16-bit floats, held as their bits, without a branch, so that loops over wide() and
// narrow() vectorize.
struct Brain {
  static LLMC_INLINE float wide(uint16_t bits) { return support::bfloatToFloat(bits); }
  static LLMC_INLINE uint16_t narrow(float value) { return support::floatToBfloat(value); }
};
struct Half {
  static LLMC_INLINE float wide(uint16_t bits) { return support::halfToFloat(bits); }
  static LLMC_INLINE uint16_t narrow(float value) { return support::floatToHalf(value); }
};

// Sums `count` 16-bit floats at byte `at` in float32, in the order of the group, and rounds
// once, where the sum is stored.
template <class Format>
LLMC_INLINE void sumNarrow(const OffsetBuffers &sources, const OffsetBuffers &destinations,
                           uint64_t at, int count) {
  constexpr int most = 64;
  float sum[most];
  uint16_t bits[most];
  std::memcpy(bits, sources[0] + at, static_cast<size_t>(count) * sizeof(uint16_t));
  for (int j = 0; j < count; ++j)
    sum[j] = Format::wide(bits[j]);
  for (size_t i = 1; i < sources.size(); ++i) {
    std::memcpy(bits, sources[i] + at, static_cast<size_t>(count) * sizeof(uint16_t));
    for (int j = 0; j < count; ++j)
      sum[j] += Format::wide(bits[j]);
  }
  for (int j = 0; j < count; ++j)
    bits[j] = Format::narrow(sum[j]);
  for (size_t i = 0; i < destinations.size(); ++i)
    std::memcpy(destinations[i] + at, bits, static_cast<size_t>(count) * sizeof(uint16_t));
}

// Reduces to the maximum, which is one of the operands: its bits are stored unchanged.
template <class Format>
LLMC_INLINE void maxNarrow(const OffsetBuffers &sources, const OffsetBuffers &destinations,
                           uint64_t at, int count) {
  constexpr int most = 64;
  uint16_t largest[most], bits[most];
  std::memcpy(largest, sources[0] + at, static_cast<size_t>(count) * sizeof(uint16_t));
  for (size_t i = 1; i < sources.size(); ++i) {
    std::memcpy(bits, sources[i] + at, static_cast<size_t>(count) * sizeof(uint16_t));
    for (int j = 0; j < count; ++j) {
      float a = Format::wide(largest[j]), b = Format::wide(bits[j]);
      largest[j] = ((a > b) | (a != a)) ? largest[j] : bits[j];
    }
  }
  for (size_t i = 0; i < destinations.size(); ++i)
    std::memcpy(destinations[i] + at, largest, static_cast<size_t>(count) * sizeof(uint16_t));
}

template <class Format>
LLMC_INLINE void reduceNarrow(ReduceKind kind, const OffsetBuffers &sources,
                              const OffsetBuffers &destinations, uint64_t bytes) {
  constexpr int block = 64;
  constexpr uint64_t size = sizeof(uint16_t);
  for (uint64_t at = 0; at < bytes; at += block * size) {
    int count = static_cast<int>(std::min<uint64_t>(block, (bytes - at) / size));
    if (kind == ReduceKind::Sum)
      sumNarrow<Format>(sources, destinations, at, count);
    else
      maxNarrow<Format>(sources, destinations, at, count);
  }
}

LLMC_INLINE void reduceAny(DType type, ReduceKind kind, const OffsetBuffers &sources,
                           const OffsetBuffers &destinations, uint64_t bytes) {
  bool sum = kind == ReduceKind::Sum;
  switch (type) {
  case DType::F32:
    return sum ? reduce<float, Sum>(sources, destinations, bytes)
               : reduce<float, Max>(sources, destinations, bytes);
  case DType::F64:
    return sum ? reduce<double, Sum>(sources, destinations, bytes)
               : reduce<double, Max>(sources, destinations, bytes);
  case DType::I64:
    return sum ? reduce<uint64_t, Sum>(sources, destinations, bytes)
               : reduce<int64_t, Max>(sources, destinations, bytes);
  case DType::I32:
    return sum ? reduce<uint32_t, Sum>(sources, destinations, bytes)
               : reduce<int32_t, Max>(sources, destinations, bytes);
  case DType::BF16:
    return reduceNarrow<Brain>(kind, sources, destinations, bytes);
  case DType::F16:
    return reduceNarrow<Half>(kind, sources, destinations, bytes);
  default:
    return; // refused by checkBounds
  }
}

void reduceBaseline(DType type, ReduceKind kind, const OffsetBuffers &sources,
                    const OffsetBuffers &destinations, uint64_t bytes) {
  reduceAny(type, kind, sources, destinations, bytes);
}

#if defined(__x86_64__)
// Compiles the same reduction for wider registers: it is elementwise, so the bits are equal.
__attribute__((target("avx2"))) void reduceAvx2(DType type, ReduceKind kind,
                                                const OffsetBuffers &sources,
                                                const OffsetBuffers &destinations, uint64_t bytes) {
  reduceAny(type, kind, sources, destinations, bytes);
}

__attribute__((target("avx512f"))) void reduceAvx512(DType type, ReduceKind kind,
                                                     const OffsetBuffers &sources,
                                                     const OffsetBuffers &destinations,
                                                     uint64_t bytes) {
  reduceAny(type, kind, sources, destinations, bytes);
}
#endif

using Reduce = void (*)(DType, ReduceKind, const OffsetBuffers &, const OffsetBuffers &, uint64_t);

Reduce bestOfThisProcessor() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f"))
    return reduceAvx512;
  if (__builtin_cpu_supports("avx2"))
    return reduceAvx2;
#endif
  return reduceBaseline;
}

} // namespace

void runtime::reduceTo(DType type, ReduceKind kind, const OffsetBuffers &sources, const OffsetBuffers &destinations,
                       uint64_t bytes) {
  static const Reduce best = bestOfThisProcessor();
  best(type, kind, sources, destinations, bytes);
}
