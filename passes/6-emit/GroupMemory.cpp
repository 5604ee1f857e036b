// Reads across the vector loop, in squares, and writes, past the cache where that pays.
#include "passes/6-emit/Group.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/SmallSet.h"

using namespace mlir;

namespace llmc::emit {

//===-- Reads across the vector loop ----------------------------------------===//

bool Group::isCrossed(const Access &access) const {
  int64_t last = access.strides.back();
  return access.tensor && access.buffer >= 0 && last != 0 && last != 1 &&
         !access.element.isInteger(1) &&
         llvm::is_contained(ArrayRef(access.strides).drop_back(), 1);
}

std::optional<unsigned> Group::crossedLoop() const {
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

// In log2(n) rounds: in each, pairs of rows swap every other block of their lanes.
static void transposeSquare(Kernel &k, MutableArrayRef<Value> rows) {
  int64_t n = rows.size();
  for (int64_t block = 1; block < n; block *= 2) {
    SmallVector<int64_t> low, high;
    for (int64_t lane = 0; lane < n; ++lane) {
      low.push_back(lane & block ? n + lane - block : lane);
      high.push_back(lane & block ? n + lane : lane + block);
    }
    for (int64_t i = 0; i < n; ++i) {
      if (i & block)
        continue;
      Value x = rows[i], y = rows[i + block];
      rows[i] = vector::ShuffleOp::create(k.b, k.loc, x, y, low);
      rows[i + block] = vector::ShuffleOp::create(k.b, k.loc, x, y, high);
    }
  }
}

std::vector<Value> Group::crossedSquares() {
  std::vector<Value> squares(accesses.size());
  if (!crossedLoop())
    return squares;
  for (auto [access, place] : llvm::zip(accesses, squares))
    if (isCrossed(access))
      place = kernel.stackArray(access.element, kernel.lanes() * kernel.lanes());
  return squares;
}

void Group::loadSquares(ArrayRef<Value> squares, const Point &corner) {
  unsigned last = loops.size() - 1, lanes = kernel.lanes();
  for (auto [access, place] : llvm::zip(accesses, squares)) {
    if (!place)
      continue;
    Value base = kernel.buffer(access.buffer);
    SmallVector<Value> rows;
    for (unsigned i = 0; i < lanes; ++i) {
      Point at = corner.inside(last, kernel.add(corner.index[last], kernel.index(i)));
      Value pointer = kernel.address(base, linear(access, at), access.element);
      rows.push_back(kernel.load(pointer, access.element, lanes));
    }
    transposeSquare(kernel, rows);
    for (auto [i, row] : llvm::enumerate(rows))
      kernel.store(row, kernel.address(place, kernel.index(i * lanes), access.element));
  }
}

void Group::takeFromSquares(ArrayRef<Value> squares, Value r, Point &point) {
  unsigned lanes = kernel.lanes();
  for (auto [number, place] : llvm::enumerate(squares))
    if (place) {
      Type element = accesses[number].element;
      Value row = kernel.address(place, kernel.mul(r, lanes), element);
      point.loaded[number] = kernel.load(row, element, lanes);
    }
}

void Group::readAhead(const Access &access, Value base, Value first, unsigned width) {
  constexpr int64_t kLine = 64;
  int64_t next = 0;
  for (auto [loop, stride] : llvm::zip(loops, access.strides))
    next = loop.reduced || stride == 0 ? next : stride;
  if (next == 0)
    return;
  int64_t size = storageBytes(access.element);
  for (int64_t byte = 0; byte < width * size; byte += kLine) {
    Value place = kernel.add(first, kernel.index(next + byte / size));
    LLVM::Prefetch::create(kernel.b, kernel.loc, kernel.address(base, place, access.element),
                           /*rw=*/0, /*hint=*/2, /*cache=*/1);
  }
}

//===-- Writes --------------------------------------------------------------===//

// Results that no cache keeps until someone reads them.
static constexpr int64_t kPastCacheBytes = 32 << 20;

// Floats of the longest vector: what a kernel takes is the same for all targets.
static constexpr int64_t kLongest = 16;

Value Group::writesPastCache(unsigned scalars) {
  Kernel &k = kernel;
  if (loops.size() > 1 && loops.back().size % kLongest)
    return {};
  int64_t bytes = 0; // of a row
  SmallVector<unsigned> written;
  for (const Access &access : accesses) {
    ArrayRef<int64_t> strides = access.strides;
    if (access.tensor || strides.back() == 0)
      continue;
    if (!access.element.isF32() || strides.back() != 1 || access.offset % kLongest ||
        llvm::any_of(strides.drop_back(), [](int64_t stride) { return stride % kLongest; }))
      return {};
    int64_t points = 1;
    for (auto [loop, stride] : llvm::zip(ArrayRef(loops).drop_front(), strides.drop_front()))
      points *= stride ? loop.size : 1;
    bytes += 4 * points;
    written.push_back(access.buffer);
  }
  if (written.empty())
    return {};
  // How much is written belongs to the launch.
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
  for (unsigned buffer : written) {
    Value at = number(buffer);
    Value rest = arith::AndIOp::create(k.b, k.loc, at, k.index(4 * kLongest - 1));
    demand(compare(arith::CmpIPredicate::eq, rest, k.index(0)));
    // What replaces a read is in the cache already.
    for (const Access &access : accesses)
      if (access.tensor && access.buffer >= 0 &&
          compared.insert({buffer, static_cast<unsigned>(access.buffer)}).second)
        demand(compare(arith::CmpIPredicate::ne, at, number(access.buffer)));
  }
  return result;
}

void Group::pastCache(const std::function<void()> &body) {
  isPastCache = true;
  body();
  isPastCache = false;
}

void Group::pastCacheIf(Value condition, const std::function<void()> &body) {
  if (condition)
    kernel.ifElse(condition, [&] { pastCache(body); }, body);
  else
    body();
}

void Group::store(unsigned buffer, Value value, Point &point) {
  for (const Access &access : accesses) {
    if (access.tensor || access.buffer != static_cast<int>(buffer))
      continue;
    Value base = kernel.buffer(buffer), first = linear(access, point);
    Value pointer = kernel.address(base, first, access.element);
    if (isPastCache && access.strides.back() == 1)
      kernel.storePastCache(spread(value, point), pointer);
    else
      kernel.store(spread(value, point), pointer);
    return;
  }
}

} // namespace llmc::emit
