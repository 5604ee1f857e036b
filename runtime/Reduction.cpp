#include "runtime/Reduction.h"

#include <cstring>

using namespace llmc;
using namespace llmc::runtime;
using planfile::DType;
using planfile::ReduceKind;

namespace {

// Integers come unsigned, so that they wrap.
struct Sum {
  template <class V>
  static void apply(V &a, const V &b) {
    a += b;
  }
};

// A NaN of either side stays.
struct Max {
  template <class V>
  static void apply(V &a, const V &b) {
    a = ((a > b) | (a != a)) ? a : b;
  }
};

#define LLMC_INLINE inline __attribute__((always_inline))

// `Count` values of type V from `at` on, through registers.
template <class V, int Count, class F>
LLMC_INLINE void reduceBlock(const Places &sources, const Places &destinations, uint64_t at) {
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

// Registers of the widest processors; elsewhere the compiler takes several.
template <class T, class F>
LLMC_INLINE void reduce(const Places &sources, const Places &destinations, uint64_t bytes) {
  typedef T Vector __attribute__((vector_size(64)));
  constexpr int count = 4;
  uint64_t at = 0;
  for (; at + count * sizeof(Vector) <= bytes; at += count * sizeof(Vector))
    reduceBlock<Vector, count, F>(sources, destinations, at);
  for (; at < bytes; at += sizeof(T))
    reduceBlock<T, 1, F>(sources, destinations, at);
}

LLMC_INLINE void reduceAny(DType type, ReduceKind kind, const Places &sources,
                           const Places &destinations, uint64_t bytes) {
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
  default:
    return; // refused by checkBounds
  }
}

void reduceBaseline(DType type, ReduceKind kind, const Places &sources, const Places &destinations,
                    uint64_t bytes) {
  reduceAny(type, kind, sources, destinations, bytes);
}

#if defined(__x86_64__)
// The same sums, element by element: wider registers give the same bits.
__attribute__((target("avx2"))) void reduceAvx2(DType type, ReduceKind kind, const Places &sources,
                                                const Places &destinations, uint64_t bytes) {
  reduceAny(type, kind, sources, destinations, bytes);
}

__attribute__((target("avx512f"))) void reduceAvx512(DType type, ReduceKind kind, const Places &sources,
                                                     const Places &destinations, uint64_t bytes) {
  reduceAny(type, kind, sources, destinations, bytes);
}
#endif

using Reduce = void (*)(DType, ReduceKind, const Places &, const Places &, uint64_t);

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

void runtime::reduceTo(DType type, ReduceKind kind, const Places &sources, const Places &destinations,
                       uint64_t bytes) {
  static const Reduce best = bestOfThisProcessor();
  best(type, kind, sources, destinations, bytes);
}
