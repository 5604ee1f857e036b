// Reads a rank's shard of a tensor from a file, in ascending order of file offsets. The test
// is test/runtime/ShardReaderTest.cpp.
#ifndef LLMC_RUNTIME_STATES_SHARDREADER_H
#define LLMC_RUNTIME_STATES_SHARDREADER_H

#include "lib/planfile/Program.h"
#include "lib/support/ElementType.h"
#include "lib/support/Error.h"
#include "lib/support/File.h"
#include "runtime/plan/Shard.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace llmc::runtime {

// Describes the scales of a quantized tensor: one for each block of `rows` x `columns` of it;
// blocks at an edge are smaller.
struct StoredScales {
  const support::ReadableFile *file = nullptr;
  uint64_t offset = 0;
  support::ElementType type = support::ElementType::F32;
  int64_t rows = 1, columns = 1; // elements of a block
};

// Describes a source tensor of floats of any width in a file.
struct StoredTensor {
  const support::ReadableFile *file = nullptr;
  uint64_t offset = 0; // of its first byte
  support::ElementType type = support::ElementType::F32;
  std::vector<int64_t> shape; // of the source
  bool transposed = false;    // rank 2 only: the file holds the transpose
  std::optional<StoredScales> scales = std::nullopt; // factors of its numbers, if it is quantized
};

// Reads the elements of `shard`, which `view` maps into the source, into `to` in the shard's
// local shape; padding is not written. Reads runs of the file in ascending order and skips
// gaps of a page or more. T is float, double, support::BfloatNumber or support::HalfNumber, whose
// elements are those that float would have, rounded. Fails if the file cannot be read.
template <class T>
support::Status readShard(const StoredTensor &tensor, const Shard &shard,
                          const planfile::ViewT &view, T *to);

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_STATES_SHARDREADER_H
