// Runs products of routed rows (planfile::Routing), each as one call over all groups: rows that do not lie
// together are copied so by their group, multiplied by the library or by the program's own kernel, and copied
// back. The test is test/runtime/GroupedProductTest.cpp.
//
// The cut into pieces depends on the routes and sizes alone, and each piece computes the same on any thread:
// the number of threads changes no bits. The work is that of the routed rows.
#ifndef LLMC_RUNTIME_COMPUTE_GROUPEDPRODUCT_H
#define LLMC_RUNTIME_COMPUTE_GROUPEDPRODUCT_H

#include "runtime/compute/Kernels.h"
#include "runtime/compute/MatmulLibrary.h"
#include "runtime/compute/ThreadTeam.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <span>
#include <vector>

namespace llmc::runtime {

// Owns bytes that are aligned to a cache line, and grows when more are asked for; growing drops them.
class AlignedBytes {
public:
  std::byte *atLeast(size_t size);

private:
  struct Free {
    void operator()(std::byte *bytes) const { std::free(bytes); }
  };
  std::unique_ptr<std::byte, Free> bytes_;
  size_t size_ = 0;
};

// Holds what the grouped products of one worker need while they run, so that a call allocates nothing once
// the largest has run.
struct GroupedScratch {
  explicit GroupedScratch(unsigned threads) : ofThreads(threads) {}

  // Refers to some rows of one group, `rows[first, first + count)`.
  struct Chunk {
    int64_t group = 0, first = 0, count = 0;
  };
  struct Copies {
    AlignedBytes a, b, c;
  };
  std::vector<int64_t> begin; // by group: its first index in `rows`, and the end of the last group
  std::vector<int64_t> rows;  // by group, ascending; then those without a group
  std::vector<Chunk> chunks;
  std::vector<Copies> ofThreads;
  Copies ofAll;
};

class GroupedProduct {
public:
  // Prepares what `library` needs, before its finish(); null: no library. Borrows `what`.
  GroupedProduct(const planfile::MatmulT &what, MatmulLibrary *library);

  struct Call {
    std::byte *a, *b, *c;
    const int64_t *routes;
    int64_t first;           // number of group 0
    KernelFunction fallback; // runs if the library does not
    unsigned firstThread;    // of the team, among those of the library
  };
  // Computes the product on the threads of the team. Returns false if the library failed.
  bool run(const Call &call, ThreadTeam &team, GroupedScratch &scratch);

  // Returns whether the library computes it.
  bool byLibrary() const { return library_ != nullptr; }
  // Counts the operations on routed rows in all calls, and the calls.
  uint64_t flops() const { return flops_.load(std::memory_order_relaxed); }
  uint64_t calls() const { return calls_.load(std::memory_order_relaxed); }

private:
  // Lists the rows of products that the library prepares. Where it does not multiply any count of rows, counts are
  // cut into these, the largest first, of which the last is padded with zero rows.
  static constexpr std::array<int64_t, 8> kSizes = {256, 128, 64, 48, 32, 24, 16, 8};
  using Ids = std::array<int, kSizes.size()>; // of products of the library, by size
  // Refers to rows and columns of C that are computed at once.
  struct Block {
    int64_t firstRow = 0, rows = 0, first = 0, count = 0;
    Ids write{}, add{};
  };
  // Refers to some rows of one group, how many rows they are multiplied as, and the size that is prepared (-1: none).
  struct Piece {
    std::span<const int64_t> rows;
    int64_t padded = 0;
    int size = -1;
  };
  struct Operand; // rows that are read (GroupedProduct.cpp)

  bool byRows() const { return what_.routing->form == planfile::RoutingForm::Rows; }
  bool sumsWide() const; // C is summed in f32 beside it, and rounded once
  bool prepare(MatmulLibrary &library);
  static bool prepareSizes(MatmulLibrary &library, MatmulShape shape, int64_t MatmulShape::*rows, Ids &ids);
  bool prepareBlocks(MatmulLibrary &library);
  Piece takePiece(std::span<const int64_t> &rows, int64_t most) const;
  void sortRows(const Call &call, GroupedScratch &scratch) const;
  static void cutChunks(GroupedScratch &scratch, int64_t groups, int64_t most);
  Operand operandA(const Call &call) const;
  Operand operandB(const Call &call) const;

  bool multiplyRows(const Call &call, std::span<const int64_t> rows, int64_t group, unsigned thread,
                    GroupedScratch::Copies &copies) const;
  bool multiplyPiece(const Call &call, const Piece &piece, int64_t group, unsigned thread,
                     GroupedScratch::Copies &copies) const;
  bool sumBlock(const Call &call, std::span<const int64_t> rows, int64_t group, const Block &block,
                unsigned thread, GroupedScratch::Copies &copies) const;
  void clear(const Call &call, int64_t group, const Block &block) const;
  void round(const Call &call, int64_t group, const Block &block, const float *sums) const;
  void sumByKernel(const Call &call, ThreadTeam &team, GroupedScratch &scratch) const;

  const planfile::MatmulT &what_;
  MatmulLibrary *library_ = nullptr; // null: the fallback runs
  uint64_t aSize_, bSize_, cSize_;   // bytes of an element
  bool anySize_ = false;             // the library multiplies any count of rows
  MatmulShape shape_;                // of a piece, but for its rows (of a sum: and its block)
  Ids rowIds_{};                     // of products by rows
  std::vector<Block> blocks_;        // of sums of terms
  std::atomic<uint64_t> flops_{0}, calls_{0};
};

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_COMPUTE_GROUPEDPRODUCT_H
