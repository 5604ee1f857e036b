#include "runtime/compute/GroupedProduct.h"

#include "lib/support/ElementType.h"

#include <algorithm>
#include <cstring>
#include <new>

using namespace llmc;
using namespace llmc::runtime;
using planfile::DType;

namespace {

constexpr int64_t kChunkRows = 256;    // of a product by rows that one thread multiplies at once
constexpr int64_t kEvenRows = 320;     // of one whose rows are shared evenly
constexpr int64_t kSumRows = 1024;     // that are added to a sum at once
// Bounds the columns of a sum that one thread computes at once: each block packs all of A again, and few groups
// need several blocks to keep threads busy. Where sums are cut along their longer side, blocks may be smaller.
constexpr int64_t kBlockColumns = 1024, kBlockColumnsOfFew = 256, kBlockOfLonger = 512, kFewGroups = 4;
constexpr int64_t kKernelRows = 64;    // of a sum that the kernel computes at once
constexpr double kLeastFlops = 1e6;    // fewer end before a helper is awake

// Calls work(part, thread) for all parts, on one thread if they are small: that changes no bits.
template <class F> void share(ThreadTeam &team, int64_t parts, double flops, F work) {
  if (flops >= kLeastFlops)
    return team.run(parts, work);
  for (int64_t part = 0; part < parts; ++part)
    work(part, 0u);
}

} // namespace

std::byte *AlignedBytes::atLeast(size_t size) {
  constexpr size_t kAlign = 64;
  if (size > size_) {
    size_t rounded = (size + kAlign - 1) / kAlign * kAlign;
    bytes_.reset(static_cast<std::byte *>(std::aligned_alloc(kAlign, rounded)));
    if (!bytes_)
      throw std::bad_alloc();
    size_ = rounded;
  }
  return bytes_.get();
}

// Describes rows that are read: `columns` elements each, one row every `stride` bytes, of which `shared`
// routes in a row have the same.
struct GroupedProduct::Operand {
  std::byte *data;
  int64_t columns;
  uint64_t size; // bytes of an element
  int64_t stride, shared;

  // Returns whether the rows lie one behind the other, as copies of them would.
  bool isTogether(std::span<const int64_t> rows) const {
    return shared == 1 && stride == columns * int64_t(size) &&
           rows.back() - rows.front() == int64_t(rows.size()) - 1;
  }
  std::byte *row(int64_t route) const { return data + route / shared * stride; }

  // Copies columns [first, first + count) of rows to those of `to`, which has `padded` rows of all columns;
  // the last ones become zeros.
  void copy(std::span<const int64_t> rows, int64_t padded, int64_t first, int64_t count, std::byte *to) const {
    uint64_t whole = columns * size, offset = first * size, bytes = count * size;
    for (size_t i = 0; i < rows.size(); ++i)
      std::memcpy(to + i * whole + offset, row(rows[i]) + offset, bytes);
    for (auto i = static_cast<int64_t>(rows.size()); i < padded; ++i)
      std::memset(to + i * whole + offset, 0, bytes);
  }
  // Returns where columns of rows are one row behind the other: in place, or in `copies`.
  std::byte *gather(std::span<const int64_t> rows, int64_t padded, int64_t first, int64_t count,
                    AlignedBytes &copies) const {
    if (padded == int64_t(rows.size()) && isTogether(rows))
      return row(rows.front());
    std::byte *to = copies.atLeast(padded * columns * size);
    copy(rows, padded, first, count, to);
    return to;
  }
};

GroupedProduct::GroupedProduct(const planfile::MatmulT &what, MatmulLibrary *library)
    : what_(what), aSize_(planfile::byteSize(what.a_type)), bSize_(planfile::byteSize(what.b_type)),
      cSize_(planfile::byteSize(what.c_type)) {
  if (library && prepare(*library))
    library_ = library;
}

bool GroupedProduct::sumsWide() const { return what_.c_type != DType::F32; }

GroupedProduct::Operand GroupedProduct::operandA(const Call &call) const {
  int64_t columns = byRows() ? what_.k : what_.m, stride = what_.a_strides[byRows() ? 1 : 2];
  return {call.a, columns, aSize_, stride * int64_t(aSize_), what_.routing->a_share};
}

GroupedProduct::Operand GroupedProduct::operandB(const Call &call) const {
  return {call.b, what_.n, bSize_, what_.b_strides[1] * int64_t(bSize_), what_.routing->b_share};
}

bool GroupedProduct::prepareSizes(MatmulLibrary &library, MatmulShape shape, int64_t MatmulShape::*rows,
                                  Ids &ids) {
  for (size_t i = 0; i < kSizes.size(); ++i) {
    shape.*rows = kSizes[i];
    ids[i] = library.prepare(shape);
    if (ids[i] < 0)
      return false;
  }
  return true;
}

bool GroupedProduct::prepare(MatmulLibrary &library) {
  shape_.aType = what_.a_type, shape_.bType = what_.b_type, shape_.cType = what_.c_type;
  shape_.m = what_.m, shape_.n = what_.n, shape_.k = what_.k;
  if (!byRows())
    return prepareBlocks(library);
  shape_.a[1] = what_.k, shape_.a[2] = 1;
  shape_.b[1] = what_.b_strides[1], shape_.b[2] = what_.b_strides[2];
  shape_.c[1] = what_.n, shape_.c[2] = 1;
  // Prepares products by transposed weights, which are packed faster so (bench/experts.py: by a twentieth of its time).
  anySize_ = MatmulLibrary::multipliesAnySize(shape_) && shape_.b[2] == 1;
  return anySize_ || prepareSizes(library, shape_, &MatmulShape::m, rowIds_);
}

bool GroupedProduct::prepareBlocks(MatmulLibrary &library) {
  shape_.a[1] = 1, shape_.a[2] = what_.m;
  shape_.b[1] = what_.n, shape_.b[2] = 1;
  shape_.c[1] = what_.c_strides[1], shape_.c[2] = 1;
  if (sumsWide() && what_.c_type != DType::BF16)
    return false; // round() knows no other type
  if (sumsWide())
    shape_.cType = DType::F32;
  anySize_ = !sumsWide() && MatmulLibrary::multipliesAnySize(shape_);
  const bool isFew = what_.batch < kFewGroups, cutsRows = anySize_ && what_.m > what_.n;
  const int64_t longest = anySize_ ? kBlockOfLonger : kBlockColumns, step = isFew && !anySize_ ? kBlockColumnsOfFew : longest;
  const int64_t side = cutsRows ? what_.m : what_.n;
  for (int64_t first = 0; first < side; first += step) {
    Block &block = blocks_.emplace_back();
    block.rows = what_.m, block.count = what_.n;
    (cutsRows ? block.firstRow : block.first) = first;
    (cutsRows ? block.rows : block.count) = std::min(step, side - first);
    MatmulShape shape = shape_;
    shape.n = block.count;
    if (sumsWide())
      shape.c[1] = block.count;
    for (bool adds : {false, true}) {
      shape.accumulate = adds;
      if (!anySize_ && !prepareSizes(library, shape, &MatmulShape::k, adds ? block.add : block.write))
        return false;
    }
  }
  return true;
}

// Takes away from `rows` those that are multiplied next: an even share of at most so many or, where sizes are prepared,
// as many as the largest size of which they fill seven eighths, else as the last size.
GroupedProduct::Piece GroupedProduct::takePiece(std::span<const int64_t> &rows, int64_t most) const {
  auto left = int64_t(rows.size());
  Piece piece;
  if (!library_ || anySize_) {
    int64_t pieces = (left + most - 1) / most;
    piece.padded = (left + pieces - 1) / pieces;
  } else {
    piece.size = 0;
    while (size_t(piece.size) + 1 < kSizes.size() && kSizes[piece.size] - kSizes[piece.size] / 8 > left)
      ++piece.size;
    piece.padded = kSizes[piece.size];
  }
  piece.rows = rows.first(size_t(std::min(left, piece.padded)));
  rows = rows.subspan(piece.rows.size());
  return piece;
}

// Lists the rows of each group in order; those of no group come last.
void GroupedProduct::sortRows(const Call &call, GroupedScratch &scratch) const {
  int64_t count = byRows() ? what_.m : what_.k, groups = what_.batch;
  auto groupOf = [&](int64_t route) {
    // Subtracts as unsigned, since the difference of any two numbers must be safe.
    uint64_t group = static_cast<uint64_t>(route) - static_cast<uint64_t>(call.first);
    return route >= call.first && group < uint64_t(groups) ? static_cast<int64_t>(group) : groups;
  };
  std::vector<int64_t> &begin = scratch.begin;
  begin.assign(groups + 2, 0);
  scratch.rows.resize(count);
  for (int64_t i = 0; i < count; ++i)
    ++begin[groupOf(call.routes[i]) + 1];
  for (int64_t g = 0; g <= groups; ++g)
    begin[g + 1] += begin[g];
  for (int64_t i = 0; i < count; ++i)
    scratch.rows[begin[groupOf(call.routes[i])]++] = i;
  // Each beginning has become its end, that of the one before: moves them back.
  for (int64_t g = groups; g >= 0; --g)
    begin[g + 1] = begin[g];
  begin[0] = 0;
}

// Cuts the rows of the first groups into chunks of at most so many rows; a group without rows has one of none. The
// largest come first, so that threads, of which each takes the next when it is done, end together.
void GroupedProduct::cutChunks(GroupedScratch &scratch, int64_t groups, int64_t most) {
  scratch.chunks.clear();
  for (int64_t g = 0; g < groups; ++g) {
    int64_t begin = scratch.begin[g], end = scratch.begin[g + 1];
    scratch.chunks.push_back({g, begin, std::min(most, end - begin)});
    for (int64_t i = begin + most; i < end; i += most)
      scratch.chunks.push_back({g, i, std::min(most, end - i)});
  }
  std::stable_sort(scratch.chunks.begin(), scratch.chunks.end(),
                   [](const auto &a, const auto &b) { return a.count > b.count; });
}

bool GroupedProduct::run(const Call &call, ThreadTeam &team, GroupedScratch &scratch) {
  sortRows(call, scratch);
  int64_t routed = scratch.begin[what_.batch];
  uint64_t flops = 2 * uint64_t(routed) * uint64_t(what_.n) * uint64_t(byRows() ? what_.k : what_.m);
  calls_.fetch_add(1, std::memory_order_relaxed);
  flops_.fetch_add(flops, std::memory_order_relaxed);
  if (!byRows() && !library_) {
    sumByKernel(call, team, scratch);
    return true;
  }
  cutChunks(scratch, what_.batch + byRows(), byRows() ? (anySize_ ? kEvenRows : kChunkRows) : std::max<int64_t>(what_.k, 1));
  std::atomic<bool> good{true};
  int64_t blocks = byRows() ? 1 : int64_t(blocks_.size());
  share(team, int64_t(scratch.chunks.size()) * blocks, double(flops), [&](int64_t part, unsigned thread) {
    const GroupedScratch::Chunk &chunk = scratch.chunks[part / blocks];
    std::span<const int64_t> rows(scratch.rows.data() + chunk.first, size_t(chunk.count));
    GroupedScratch::Copies &copies = scratch.ofThreads[thread];
    bool done = byRows() ? multiplyRows(call, rows, chunk.group, thread, copies)
                         : sumBlock(call, rows, chunk.group, blocks_[part % blocks], thread, copies);
    if (!done)
      good.store(false, std::memory_order_relaxed);
  });
  return good;
}

// Computes some rows of C: products with the weights of their group, or zeros if they have none.
bool GroupedProduct::multiplyRows(const Call &call, std::span<const int64_t> rows, int64_t group, unsigned thread,
                                  GroupedScratch::Copies &copies) const {
  if (group == what_.batch) {
    for (int64_t row : rows)
      std::memset(call.c + row * what_.c_strides[1] * int64_t(cSize_), 0, what_.n * cSize_);
    return true;
  }
  while (!rows.empty())
    if (!multiplyPiece(call, takePiece(rows, kEvenRows), group, thread, copies))
      return false;
  return true;
}

// Multiplies rows of one group by the library or, without one, by the kernel.
bool GroupedProduct::multiplyPiece(const Call &call, const Piece &piece, int64_t group, unsigned thread,
                                   GroupedScratch::Copies &copies) const {
  int64_t n = what_.n, k = what_.k, padded = piece.padded;
  std::byte *a = operandA(call).gather(piece.rows, padded, 0, k, copies.a);
  std::byte *b = call.b + group * what_.b_strides[0] * int64_t(bSize_);
  Operand result{call.c, n, cSize_, what_.c_strides[1] * int64_t(cSize_), 1};
  bool inPlace = padded == int64_t(piece.rows.size()) && result.isTogether(piece.rows);
  std::byte *c = inPlace ? result.row(piece.rows.front()) : copies.c.atLeast(padded * n * cSize_);
  if (!library_) {
    void *buffers[] = {a, b, c};
    const int64_t scalars[] = {1, padded, n, k, 0, k, 1, what_.b_strides[0], what_.b_strides[1],
                               what_.b_strides[2], 0, n, 1};
    call.fallback(buffers, scalars, 0, padded);
  } else if (anySize_) {
    MatmulShape shape = shape_;
    shape.m = padded;
    if (!library_->multiply(shape, call.firstThread + thread, a, b, c))
      return false;
  } else if (!library_->execute(rowIds_[piece.size], call.firstThread + thread, a, b, c)) {
    return false;
  }
  for (size_t i = 0; !inPlace && i < piece.rows.size(); ++i)
    std::memcpy(result.row(piece.rows[i]), c + i * n * cSize_, n * cSize_);
  return true;
}

// Computes a block of the sum of a group, over its rows in order.
bool GroupedProduct::sumBlock(const Call &call, std::span<const int64_t> rows, int64_t group,
                              const Block &block, unsigned thread, GroupedScratch::Copies &copies) const {
  if (rows.empty()) {
    if (!what_.accumulate)
      clear(call, group, block);
    return true;
  }
  int64_t at = group * what_.c_strides[0] + block.firstRow * what_.c_strides[1] + block.first;
  std::byte *c = sumsWide() ? copies.c.atLeast(what_.m * block.count * sizeof(float)) : call.c + at * int64_t(cSize_);
  MatmulShape shape = shape_;
  shape.m = block.rows, shape.n = block.count;
  for (bool adds = what_.accumulate && !sumsWide(); !rows.empty(); adds = true) {
    Piece piece = takePiece(rows, kSumRows);
    std::byte *a = operandA(call).gather(piece.rows, piece.padded, block.firstRow, block.rows, copies.a) +
                   block.firstRow * int64_t(aSize_);
    std::byte *b = operandB(call).gather(piece.rows, piece.padded, block.first, block.count, copies.b) +
                   block.first * int64_t(bSize_);
    shape.k = piece.padded, shape.accumulate = adds;
    unsigned ofAll = call.firstThread + thread;
    if (anySize_ ? !library_->multiply(shape, ofAll, a, b, c)
                 : !library_->execute((adds ? block.add : block.write)[piece.size], ofAll, a, b, c))
      return false;
  }
  if (sumsWide())
    round(call, group, block, reinterpret_cast<const float *>(c));
  return true;
}

// Writes zeros to a block of the sum of a group.
void GroupedProduct::clear(const Call &call, int64_t group, const Block &block) const {
  for (int64_t i = block.firstRow; i < block.firstRow + block.rows; ++i)
    std::memset(call.c + (group * what_.c_strides[0] + i * what_.c_strides[1] + block.first) * int64_t(cSize_), 0,
                block.count * cSize_);
}

// Rounds sums to the type of C, which the library multiplies in f32 and bf16 alone.
void GroupedProduct::round(const Call &call, int64_t group, const Block &block, const float *sums) const {
  for (int64_t i = 0; i < what_.m; ++i) {
    auto *row = reinterpret_cast<uint16_t *>(call.c) + group * what_.c_strides[0] + i * what_.c_strides[1] +
                block.first;
    for (int64_t j = 0; j < block.count; ++j) {
      float before = what_.accumulate ? support::bfloatToFloat(row[j]) : 0;
      row[j] = support::floatToBfloat(before + sums[i * block.count + j]);
    }
  }
}

// Sums the terms of each group in one call of the kernel, which may be cut over rows of C alone: what it
// multiplies is first copied together, of all groups.
void GroupedProduct::sumByKernel(const Call &call, ThreadTeam &team, GroupedScratch &scratch) const {
  int64_t m = what_.m, n = what_.n, routed = scratch.begin[what_.batch];
  Operand x = operandA(call), y = operandB(call);
  std::byte *a = scratch.ofAll.a.atLeast(routed * m * aSize_), *b = scratch.ofAll.b.atLeast(routed * n * bSize_);
  double flops = 2 * double(routed) * double(m) * double(n);
  cutChunks(scratch, what_.batch, kChunkRows);
  share(team, int64_t(scratch.chunks.size()), flops, [&](int64_t part, unsigned) {
    const GroupedScratch::Chunk &chunk = scratch.chunks[part];
    std::span<const int64_t> rows(scratch.rows.data() + chunk.first, size_t(chunk.count));
    x.copy(rows, chunk.count, 0, m, a + chunk.first * m * int64_t(aSize_));
    y.copy(rows, chunk.count, 0, n, b + chunk.first * n * int64_t(bSize_));
  });
  int64_t blocks = (m + kKernelRows - 1) / kKernelRows;
  share(team, what_.batch * blocks, flops, [&](int64_t part, unsigned) {
    int64_t group = part / blocks, first = part % blocks * kKernelRows, begin = scratch.begin[group];
    int64_t count = scratch.begin[group + 1] - begin, last = std::min(m, first + kKernelRows);
    const auto &strides = what_.c_strides;
    std::byte *c = call.c + group * strides[0] * int64_t(cSize_);
    if (count > 0) {
      void *buffers[] = {a + begin * m * int64_t(aSize_), b + begin * n * int64_t(bSize_), c};
      const int64_t scalars[] = {1, m, n, count, 0, 1, m, 0, n, 1, strides[0], strides[1], strides[2]};
      return call.fallback(buffers, scalars, first, last);
    }
    for (int64_t i = first; !what_.accumulate && i < last; ++i)
      std::memset(c + i * strides[1] * int64_t(cSize_), 0, n * cSize_);
  });
}
