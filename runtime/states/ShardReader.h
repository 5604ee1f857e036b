// A rank's shard of a tensor in a file, read in place order of the file.
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

// One scale for each block of rows and columns of a file's tensor; those at an edge are smaller.
struct StoredScales {
  const support::ReadableFile *file = nullptr;
  uint64_t offset = 0;
  support::ElementType type = support::ElementType::F32;
  int64_t rows = 1, columns = 1; // of a block
};

// A source tensor of floats of any width.
struct StoredTensor {
  const support::ReadableFile *file = nullptr;
  uint64_t offset = 0; // of its first byte
  support::ElementType type = support::ElementType::F32;
  std::vector<int64_t> shape; // of the source
  bool transposed = false;    // two dims: the file holds the transpose
  std::optional<StoredScales> scales = std::nullopt; // which its numbers are times
};

// Reads the elements of `shard`, which `view` places in the source, to `to` in the
// shard's local shape; padding is not written. Reads runs of the file in ascending
// order and leaves out what lies a page or more from anything that is needed. T is float or double.
template <class T>
support::Status readShard(const StoredTensor &tensor, const Shard &shard,
                          const planfile::ViewT &view, T *to);

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_STATES_SHARDREADER_H
