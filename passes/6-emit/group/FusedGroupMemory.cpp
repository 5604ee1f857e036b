// Emits reads across the vector loop, in square tiles, and non-temporal stores where they pay.
// Large launches are tested by test/passes/6-emit/LargeCases.cpp.
#include "passes/6-emit/group/FusedGroup.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/SmallSet.h"

#include <numeric>

using namespace mlir;

namespace llmc::emit {

// Prefetches into the second-level cache: in the first, lines that lie far apart evict each
// other.
static void fetch(Kernel &k, Value pointer) {
  LLVM::Prefetch::create(k.b, k.loc, pointer, /*rw=*/0, /*hint=*/2, /*cache=*/1);
}

//===-- Reads across the vector loop ----------------------------------------===//

bool FusedGroup::isCrossed(const Access &access) const {
  int64_t last = access.strides.back();
  return access.tensor && access.buffer >= 0 && last != 0 && last != 1 &&
         !access.element.isInteger(1) &&
         llvm::is_contained(ArrayRef(access.strides).drop_back(), 1);
}

std::optional<unsigned> FusedGroup::transposedLoop() const {
  std::optional<unsigned> crossed;
  if (kernel.target.threads)
    return crossed;
  for (const Access &access : accesses) {
    if (!isCrossed(access))
      continue;
    for (unsigned loop = 0; loop + 1 < loops.size(); ++loop)
      if (access.strides[loop] == 1) {
        if (crossed && *crossed != loop)
          return std::nullopt;
        crossed = loop;
      }
  }
  return crossed;
}

// Shuffles two vectors: lane i of the result is lane(i) of their concatenation.
static Value shuffle(Kernel &k, Value x, Value y, llvm::function_ref<int64_t(int64_t)> lane) {
  auto lanes = llvm::map_to_vector(llvm::seq<int64_t>(0, widthOf(x.getType())), lane);
  return vector::ShuffleOp::create(k.b, k.loc, x, y, lanes);
}

// Transposes groups of four lanes: from n vectors of n groups each, returns n vectors that hold
// group 0 of each, group 1 of each, and so on.
static SmallVector<Value> transposeGroups(Kernel &k, ArrayRef<Value> vectors) {
  if (vectors.size() == 1)
    return {vectors[0]};
  SmallVector<Value> halves[2], result;
  for (size_t i = 0; i < vectors.size(); i += 2)
    for (int64_t odd : {0, 1})
      halves[odd].push_back(shuffle(k, vectors[i], vectors[i + 1], [&](int64_t lane) {
        return (lane / 4 * 2 + odd) * 4 + lane % 4;
      }));
  auto even = transposeGroups(k, halves[0]), odd = transposeGroups(k, halves[1]);
  for (size_t i = 0; i < even.size(); ++i)
    result.append({even[i], odd[i]});
  return result;
}

// Transposes a square tile: first within groups of four lanes, by shuffles that are single
// instructions (of neighbours, then of pairs), then the groups.
static void transposeSquare(Kernel &k, MutableArrayRef<Value> rows) {
  int64_t n = rows.size();
  auto zip = [&](Value x, Value y, int64_t block, int64_t half) {
    return shuffle(k, x, y, [&](int64_t lane) {
      int64_t inside = lane % 4, source = half * 2 + inside / (2 * block) + inside % block;
      return lane / 4 * 4 + source + (inside / block % 2 ? n : 0);
    });
  };
  for (int64_t i = 0; i < n; i += 4) {
    Value low = zip(rows[i], rows[i + 1], 1, 0), high = zip(rows[i], rows[i + 1], 1, 1);
    Value low2 = zip(rows[i + 2], rows[i + 3], 1, 0), high2 = zip(rows[i + 2], rows[i + 3], 1, 1);
    rows[i] = zip(low, low2, 2, 0), rows[i + 1] = zip(low, low2, 2, 1);
    rows[i + 2] = zip(high, high2, 2, 0), rows[i + 3] = zip(high, high2, 2, 1);
  }
  for (int64_t first = 0; first < 4; ++first) {
    SmallVector<Value> column;
    for (int64_t i = first; i < n; i += 4)
      column.push_back(rows[i]);
    for (auto [group, vector] : llvm::enumerate(transposeGroups(k, column)))
      rows[4 * group + first] = vector;
  }
}

std::vector<Value> FusedGroup::allocateTiles() {
  std::vector<Value> places(accesses.size());
  for (auto [access, place] : llvm::zip(accesses, places))
    if (isCrossed(access))
      place = kernel.stackArray(computingType(access.element), kernel.lanes() * kernel.lanes());
  return places;
}

FusedGroup::TransposedTiles FusedGroup::readTransposedTiles(const Point &corner) {
  unsigned last = loops.size() - 1, lanes = kernel.lanes();
  TransposedTiles squares(accesses.size());
  for (auto [access, rows] : llvm::zip(accesses, squares)) {
    if (!isCrossed(access))
      continue;
    Value base = kernel.buffer(access.buffer);
    for (unsigned i = 0; i < lanes; ++i) {
      Point at = corner.inside(last, kernel.add(corner.index[last], kernel.index(i)));
      Value pointer = kernel.address(base, linear(access, at), access.element);
      rows.push_back(kernel.load(pointer, access.element, lanes));
    }
    transposeSquare(kernel, rows);
  }
  return squares;
}

void FusedGroup::storeTiles(const TransposedTiles &squares, ArrayRef<Value> places) {
  for (auto [access, rows, place] : llvm::zip(accesses, squares, places))
    for (auto [i, row] : llvm::enumerate(rows))
      kernel.store(row, kernel.address(place, kernel.index(i * kernel.lanes()),
                                       computingType(access.element)));
}

void FusedGroup::useTileRow(const TransposedTiles &squares, unsigned r, Point &point) {
  for (auto [number, rows] : llvm::enumerate(squares))
    if (!rows.empty())
      point.loaded[number] = rows[r];
}

void FusedGroup::prefetchTiles(const Point &corner, int64_t height, int64_t width) {
  constexpr int64_t kLine = 64;
  unsigned last = loops.size() - 1;
  for (const Access &access : accesses) {
    if (!isCrossed(access))
      continue;
    int64_t size = storageBytes(access.element);
    kernel.loop(kernel.index(0), kernel.index(width), 1, [&](Value i) {
      Point at = corner.inside(last, kernel.add(corner.index[last], i));
      Value first = linear(access, at), base = kernel.buffer(access.buffer);
      for (int64_t byte = 0; byte < height * size; byte += kLine) {
        Value element = kernel.add(first, kernel.index(byte / size));
        fetch(kernel, kernel.address(base, element, access.element));
      }
    });
  }
}

void FusedGroup::loadTileRow(ArrayRef<Value> places, Value r, Point &point) {
  unsigned lanes = kernel.lanes();
  for (auto [number, place] : llvm::enumerate(places))
    if (place) {
      Type element = computingType(accesses[number].element);
      Value row = kernel.address(place, kernel.mul(r, lanes), element);
      point.loaded[number] = kernel.load(row, element, lanes);
    }
}

// Returns how many iterations ahead a loop may prefetch whose iterations lie `stride` bytes
// apart: lines whose addresses differ by a multiple of 64 KiB share the 8 ways of one set of a
// second-level cache, of which half are left for what is being read.
static int64_t turnsAhead(int64_t stride) {
  constexpr int64_t kMost = 64, kWay = 64 << 10, kPlaces = 4;
  return std::min(kMost, kPlaces * (kWay / std::gcd(stride, kWay)));
}

void FusedGroup::readAhead(const Access &access, Value base, Value first, unsigned width) {
  constexpr int64_t kLine = 64;
  int64_t next = 0;
  for (auto [loop, stride] : llvm::zip(loops, access.strides))
    next = loop.reduced || stride == 0 ? next : stride;
  int64_t size = storageBytes(access.element);
  if (prefetchedLoop)
    next = turnsAhead(access.strides[*prefetchedLoop] * size) * access.strides[*prefetchedLoop];
  if (next == 0)
    return;
  for (int64_t byte = 0; byte < width * size; byte += kLine) {
    Value place = kernel.add(first, kernel.index(next + byte / size));
    fetch(kernel, kernel.address(base, place, access.element));
  }
}

void FusedGroup::prefetchPieces(const Point &point, unsigned loop) {
  constexpr int64_t kLine = 64, kLongest = 4096, kAhead = 4096;
  if (kernel.target.threads || loop + 2 != loops.size())
    return;
  for (const Access &access : accesses) {
    int64_t element = storageBytes(access.element), bytes = loops.back().size * element;
    int64_t turns = llvm::divideCeil(kAhead, bytes), stride = access.strides[loop];
    if (!access.tensor || access.buffer < 0 || access.strides.back() != 1 || bytes < kLine ||
        bytes > kLongest || stride <= loops.back().size || loops[loop].size < 4 * turns)
      continue;
    Point at = point.inside(loop + 1, kernel.index(0));
    at.index[loop] = kernel.add(point.index[loop], kernel.index(turns));
    Value first = linear(access, at), base = kernel.buffer(access.buffer);
    for (int64_t byte = 0; byte < bytes; byte += kLine) {
      Value place = kernel.add(first, kernel.index(byte / element));
      fetch(kernel, kernel.address(base, place, access.element));
    }
  }
}

//===-- Writes --------------------------------------------------------------===//

// Bounds from below the bytes of results that no cache keeps until they are read.
static constexpr int64_t kPastCacheBytes = 32 << 20;

// Counts the elements of the longest vector: what a kernel takes is the same for all targets.
static constexpr int64_t kLongest = 16;

Value FusedGroup::nonTemporalCondition(unsigned scalars) {
  Kernel &k = kernel;
  if (loops.size() > 1 && loops.back().size % kLongest)
    return {};
  int64_t bytes = 0; // of a row
  SmallVector<const Access *> written;
  for (const Access &access : accesses) {
    ArrayRef<int64_t> strides = access.strides;
    if (access.tensor || strides.back() == 0)
      continue;
    if (!computingType(access.element).isF32() || strides.back() != 1 || access.offset % kLongest ||
        llvm::any_of(strides.drop_back(), [](int64_t stride) { return stride % kLongest; }))
      return {};
    int64_t points = 1;
    for (auto [loop, stride] : llvm::zip(ArrayRef(loops).drop_front(), strides.drop_front()))
      points *= stride ? loop.size : 1;
    bytes += storageBytes(access.element) * points;
    written.push_back(&access);
  }
  if (written.empty())
    return {};
  // The launch passes its number of rows, which decides how much is written.
  unsigned extent = scalars + k.extents.size();
  k.extents.push_back(k.rows);
  if (k.target.threads)
    return {};
  auto compare = [&](arith::CmpIPredicate predicate, Value x, Value y) -> Value {
    return arith::CmpIOp::create(k.b, k.loc, predicate, x, y);
  };
  auto number = [&](unsigned buffer) -> Value {
    return LLVM::PtrToIntOp::create(k.b, k.loc, k.b.getI64Type(), k.buffer(buffer));
  };
  Value result = compare(arith::CmpIPredicate::sge, k.mul(k.scalar(extent), bytes),
                         k.index(kPastCacheBytes));
  auto demand = [&](Value condition) {
    result = arith::AndIOp::create(k.b, k.loc, result, condition);
  };
  llvm::SmallSet<std::pair<unsigned, unsigned>, 8> compared;
  for (const Access *result : written) {
    unsigned buffer = result->buffer;
    Value at = number(buffer);
    int64_t vector = storageBytes(result->element) * kLongest;
    Value rest = arith::AndIOp::create(k.b, k.loc, at, k.index(vector - 1));
    demand(compare(arith::CmpIPredicate::eq, rest, k.index(0)));
    // A result that replaces a read is in the cache already.
    for (const Access &access : accesses)
      if (access.tensor && access.buffer >= 0 &&
          compared.insert({buffer, static_cast<unsigned>(access.buffer)}).second)
        demand(compare(arith::CmpIPredicate::ne, at, number(access.buffer)));
  }
  return result;
}

void FusedGroup::nonTemporal(const std::function<void()> &body) {
  storesNonTemporally = true;
  body();
  storesNonTemporally = false;
}

void FusedGroup::nonTemporalIf(Value condition, const std::function<void()> &body) {
  if (condition)
    kernel.ifElse(condition, [&] { nonTemporal(body); }, body);
  else
    body();
}

void FusedGroup::store(unsigned buffer, Value value, Point &point) {
  for (const Access &access : accesses) {
    if (access.tensor || access.buffer != static_cast<int>(buffer))
      continue;
    Value base = kernel.buffer(buffer), first = linear(access, point);
    Value pointer = kernel.address(base, first, access.element);
    if (storesNonTemporally && access.strides.back() == 1)
      kernel.storeNonTemporal(spread(value, point), pointer, access.element);
    else
      kernel.store(spread(value, point), pointer, access.element);
    return;
  }
}

} // namespace llmc::emit
