#include "passes/6-emit/Group.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/SmallSet.h"

using namespace mlir;

namespace llmc::emit {

static ArrayRef<int64_t> shapeOf(Value tensor) {
  return cast<RankedTensorType>(tensor.getType()).getShape();
}
static Type elementTypeOf(Value tensor) {
  return cast<RankedTensorType>(tensor.getType()).getElementType();
}

Group::Group(Kernel &kernel, unsigned reads, ArrayRef<int64_t> shape, ArrayRef<bool> reduced,
             ArrayRef<bool> columns)
    : kernel(kernel), reads(reads), shape(shape), reduced(reduced), columns(columns) {
  this->columns.resize(shape.size(), false);
}

//===-- Maps ----------------------------------------------------------------===//

IndexMap Group::fullMap() const {
  IndexMap map;
  for (size_t d = 0; d < shape.size(); ++d)
    map.push_back({static_cast<int>(d), 1, 0});
  return map;
}

IndexMap Group::keptMap() const {
  IndexMap map;
  for (size_t d = 0; d < shape.size(); ++d)
    if (!reduced[d])
      map.push_back({static_cast<int>(d), 1, 0});
  return map;
}

IndexMap Group::columnMap() const {
  IndexMap map;
  for (size_t d = 0; d < shape.size(); ++d)
    if (!columns[d])
      map.push_back({static_cast<int>(d), 1, 0});
  return map;
}

// Aligned at the last dim, as NumPy broadcasts.
static IndexMap broadcastMap(ArrayRef<int64_t> from, ArrayRef<int64_t> to, const IndexMap &map) {
  IndexMap result;
  size_t lead = to.size() - from.size();
  for (size_t d = 0; d < from.size(); ++d)
    result.push_back(from[d] == 1 && to[lead + d] != 1 ? DimIndex{} : map[lead + d]);
  return result;
}

IndexMap Group::heroMap(Operation *op, unsigned i) const {
  auto operandShape = shapeOf(op->getOperand(i));
  if (lookupHero(op)->leadingOperands >> i & 1)
    return llvm::to_vector_of<DimIndex, 4>(ArrayRef(fullMap()).take_front(operandShape.size()));
  return broadcastMap(operandShape, shape, fullMap());
}

// A reshape that only adds or drops dims of size 1.
static FailureOr<IndexMap> reshapeMap(ArrayRef<int64_t> from, ArrayRef<int64_t> to,
                                      const IndexMap &map) {
  IndexMap result;
  size_t t = 0;
  for (int64_t size : from) {
    if (size == 1) {
      result.push_back({});
      continue;
    }
    while (t < to.size() && to[t] == 1)
      ++t;
    if (t == to.size() || to[t] != size)
      return failure();
    result.push_back(map[t++]);
  }
  return result;
}

FailureOr<IndexMap> operandMap(Operation *op, unsigned i, const IndexMap &map) {
  auto from = shapeOf(op->getOperand(i)), to = shapeOf(op->getResult(0));
  if (from.empty())
    return IndexMap();
  if (auto transpose = dyn_cast<graph::TransposeOp>(op)) {
    IndexMap result(map.size());
    for (auto [d, source] : llvm::enumerate(transpose.getPermutation()))
      result[source] = map[d];
    return result;
  }
  if (auto slice = dyn_cast<graph::SliceOp>(op)) {
    IndexMap result = map;
    for (size_t d = 0; d < result.size(); ++d) {
      int64_t step = slice.getSteps()[d];
      result[d].scale *= step;
      result[d].offset = result[d].offset * step + slice.getStarts()[d];
    }
    return result;
  }
  if (isa<graph::ReshapeOp>(op))
    return reshapeMap(from, to, map);
  if (isa<graph::OneHotOp>(op))
    return IndexMap(map.begin(), map.end() - 1);
  if (isa<graph::BroadcastOp, graph::MaskTailOp>(op) || lookupElement(op))
    return broadcastMap(from, to, map);
  return failure();
}

// The dim whose index an op looks at, if it does.
static std::optional<unsigned> indexedDim(Operation *op) {
  if (auto iota = dyn_cast<graph::IotaOp>(op))
    return iota.getDim();
  if (auto mask = dyn_cast<graph::MaskTailOp>(op))
    return mask.getDim();
  if (auto oneHot = dyn_cast<graph::OneHotOp>(op))
    return cast<RankedTensorType>(oneHot.getResult().getType()).getRank() - 1;
  return std::nullopt;
}

//===-- Step 1: accesses ----------------------------------------------------===//

unsigned Group::intern(const IndexMap &map) {
  auto *it = llvm::find(maps, map);
  if (it == maps.end())
    maps.push_back(map), it = std::prev(maps.end());
  return it - maps.begin();
}

int Group::find(Value tensor, const IndexMap &map) const {
  for (auto [i, access] : llvm::enumerate(accesses))
    if (access.tensor == tensor && access.map == map)
      return i;
  return -1;
}

void Group::addAccess(Access access, ArrayRef<int64_t> tensorShape) {
  access.strides.assign(shape.size(), 0);
  int64_t stride = 1;
  for (size_t d = tensorShape.size(); d-- > 0; stride *= tensorShape[d]) {
    const DimIndex &dim = access.map[d];
    access.offset += dim.offset * stride;
    if (dim.loop >= 0)
      access.strides[dim.loop] += dim.scale * stride;
  }
  accesses.push_back(std::move(access));
}

void Group::requireStore(unsigned buffer, RankedTensorType type, const IndexMap &map) {
  Access access;
  access.map = map;
  access.element = type.getElementType();
  access.buffer = buffer;
  addAccess(std::move(access), type.getShape());
}

LogicalResult Group::require(Value tensor, const IndexMap &map) {
  if (find(tensor, map) >= 0)
    return success();
  Access access;
  access.tensor = tensor;
  access.map = map;
  access.element = elementTypeOf(tensor);
  if (auto argument = dyn_cast<BlockArgument>(tensor)) {
    (argument.getArgNumber() < reads ? access.buffer : access.scalar) =
        argument.getArgNumber() < reads ? argument.getArgNumber() : argument.getArgNumber() - reads;
    addAccess(std::move(access), shapeOf(tensor));
    return success();
  }
  Operation *op = tensor.getDefiningOp();
  if (auto constant = dyn_cast<graph::ConstantOp>(op)) {
    auto data = dyn_cast<DenseElementsAttr>(constant.getValue());
    if (!data)
      return op->emitOpError("kernel constants are dense, got ") << constant.getValue();
    access.data = data;
    addAccess(std::move(access), shapeOf(tensor));
    return success();
  }
  if (lookupHero(op)) {
    for (unsigned i = 0; i < op->getNumOperands(); ++i)
      if (failed(require(op->getOperand(i), heroMap(op, i))))
        return failure();
    // Along a dim of one element all indices are the same.
    auto isSame = [&](const IndexMap &other) {
      if (map.size() != other.size())
        return false;
      for (auto [d, size] : llvm::enumerate(shapeOf(tensor)))
        if (size != 1 && map[d] != other[d])
          return false;
      return true;
    };
    if (isSame(fullMap()) || isSame(keptMap()))
      return success();
    return op->emitOpError("is read where its kernel has no value of it");
  }
  if (auto dim = indexedDim(op)) {
    access.map = IndexMap{map[*dim]};
    access.element = kernel.b.getI64Type();
    if (find(tensor, access.map) < 0)
      addAccess(std::move(access), {shapeOf(tensor)[*dim]});
  } else if (!lookupElement(op) && op->getNumOperands() == 0) {
    return op->emitOpError("has no entry among the kernels");
  }
  for (unsigned i = 0; i < op->getNumOperands(); ++i) {
    auto operand = operandMap(op, i, map);
    if (failed(operand))
      return op->emitOpError("cannot be read at one point of a kernel's loops");
    if (failed(require(op->getOperand(i), *operand)))
      return failure();
  }
  return success();
}

//===-- Step 2: loops -------------------------------------------------------===//

void Group::fuseLoops() {
  // Original dims of each loop, outermost first.
  SmallVector<SmallVector<unsigned>> members;
  auto walksAsOne = [&](unsigned outer, unsigned inner) {
    return reduced[outer] == reduced[inner] && columns[outer] == columns[inner] && llvm::all_of(accesses, [&](const Access &access) {
             return access.strides[outer] == access.strides[inner] * shape[inner];
           });
  };
  for (unsigned d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1)
      continue;
    if (!members.empty() && walksAsOne(members.back().back(), d))
      members.back().push_back(d);
    else
      members.push_back({d});
  }
  for (auto &dims : members) {
    int64_t size = 1;
    for (unsigned d : dims)
      size *= shape[d];
    loops.push_back({size, reduced[dims.back()], columns[dims.back()], loops.empty()});
  }
  for (Access &access : accesses) {
    SmallVector<int64_t, 4> strides;
    for (auto &dims : members)
      strides.push_back(access.strides[dims.back()]);
    access.strides = strides;
  }
  // Single elements are a flat tensor of one row, so that they share its kernel.
  if (loops.empty() && llvm::none_of(reduced, [](bool r) { return r; })) {
    loops.push_back({1, false, false, true});
    for (Access &access : accesses)
      access.strides.assign(1, access.buffer >= 0 ? 1 : 0);
    return;
  }
  // The nest has at least one loop of rows; a group with a hero one that it reduces.
  auto addLoop = [&](bool isReduced, bool front) {
    loops.insert(front ? loops.begin() : loops.end(), Loop{1, isReduced});
    for (Access &access : accesses)
      access.strides.insert(front ? access.strides.begin() : access.strides.end(), 0);
  };
  if (llvm::is_contained(reduced, true) &&
      llvm::none_of(loops, [](const Loop &loop) { return loop.reduced; }))
    addLoop(/*isReduced=*/true, /*front=*/false);
  if (llvm::all_of(loops, [](const Loop &loop) { return loop.reduced || loop.column; }))
    addLoop(/*isReduced=*/false, /*front=*/true);
}

//===-- Step 3: code --------------------------------------------------------===//

bool Group::isUniform(const Access &access, const Point &point) const {
  for (auto [stride, index] : llvm::zip(access.strides, point.index))
    if (stride != 0 && !index)
      return false;
  return true;
}

// Index of the (first) element, relative to the tensor.
Value Group::linear(const Access &access, const Point &point) {
  Value sum;
  for (auto [stride, index] : llvm::zip(access.strides, point.index)) {
    if (stride == 0)
      continue;
    Value term = kernel.mul(index, stride);
    sum = sum ? kernel.add(sum, term) : term;
  }
  if (!sum)
    return kernel.index(access.offset);
  return access.offset ? kernel.add(sum, kernel.index(access.offset)) : sum;
}

// Of the vector loop, which a point of more than one element has entered last.
static int64_t lastStride(ArrayRef<int64_t> strides) { return strides.back(); }

Value Group::spread(Value value, const Point &point) {
  if (widthOf(value.getType()) == point.width)
    return value;
  return vector::BroadcastOp::create(kernel.b, kernel.loc, typeOf(value.getType(), point.width),
                                     value);
}

void Group::preload(Point &point) {
  for (auto [i, access] : llvm::enumerate(accesses)) {
    bool isRead = access.tensor && (access.buffer >= 0 || access.scalar >= 0);
    if (isRead && !point.loaded.contains(i) && isUniform(access, point)) {
      Point here = point;
      here.width = 1;
      point.loaded[i] = load(i, here);
    }
  }
}

Value Group::load(unsigned number, Point &point) {
  Access &access = accesses[number];
  if (Value value = point.loaded.lookup(number))
    return spread(value, point);
  if (access.scalar >= 0)
    return spread(kernel.scalar(access.scalar), point);
  if (access.data && access.data.isSplat()) {
    Attribute value = access.data.getSplatValue<Attribute>();
    Type type = typeOf(access.element, point.width);
    if (point.width > 1)
      value = DenseElementsAttr::get(cast<VectorType>(type), value);
    return arith::ConstantOp::create(kernel.b, kernel.loc, cast<TypedAttr>(value));
  }
  Value base = access.data ? kernel.constantData(access.data) : kernel.buffer(access.buffer);
  Value first = linear(access, point);
  int64_t stride = lastStride(access.strides);
  if (point.width == 1 || stride == 1)
    return kernel.load(kernel.address(base, first, access.element), access.element, point.width);
  if (stride == 0)
    return spread(kernel.load(kernel.address(base, first, access.element), access.element), point);
  Value result = arith::ConstantOp::create(
      kernel.b, kernel.loc, kernel.b.getZeroAttr(typeOf(access.element, point.width)));
  for (unsigned lane = 0; lane < point.width; ++lane) {
    Value element = kernel.add(first, kernel.index(lane * stride));
    Value value = kernel.load(kernel.address(base, element, access.element), access.element);
    result = vector::InsertOp::create(kernel.b, kernel.loc, value, result, lane);
  }
  return result;
}

// The values of an index along a dim, as i64.
Value Group::integers(unsigned number, Point &point) {
  Access &access = accesses[number];
  Value first = spread(linear(access, point), point);
  int64_t stride = lastStride(access.strides);
  if (point.width == 1 || stride == 0)
    return first;
  SmallVector<int64_t> steps;
  for (unsigned lane = 0; lane < point.width; ++lane)
    steps.push_back(lane * stride);
  auto type = cast<VectorType>(first.getType());
  Value step = arith::ConstantOp::create(kernel.b, kernel.loc,
                                         DenseElementsAttr::get(type, ArrayRef<int64_t>(steps)));
  return arith::AddIOp::create(kernel.b, kernel.loc, first, step);
}

// iota, mask_tail, one_hot: `i` is the index along their dim.
static Value applyIndexed(Math m, Operation *op, Value i, ArrayRef<Value> in) {
  OpBuilder &b = m.b;
  auto plus = [&](Value offset) { i = arith::AddIOp::create(b, m.loc, i, offset); };
  auto compare = [&](arith::CmpIPredicate predicate, Value x, Value y) -> Value {
    return arith::CmpIOp::create(b, m.loc, predicate, x, y);
  };
  auto floats = [&](double value, Value like) { return m.f(value, like); };
  if (auto iota = dyn_cast<graph::IotaOp>(op)) {
    if (iota.getOffset())
      plus(in[0]);
    Type element = getElementTypeOrSelf(op->getResult(0).getType());
    Type type = typeOf(element, widthOf(i.getType()));
    if (isa<FloatType>(element))
      return arith::SIToFPOp::create(b, m.loc, type, i);
    return element.isInteger(64) ? i : arith::TruncIOp::create(b, m.loc, type, i).getResult();
  }
  if (auto mask = dyn_cast<graph::MaskTailOp>(op)) {
    if (mask.getOffset())
      plus(in[1]);
    Value isValid = compare(arith::CmpIPredicate::slt, i, m.i(mask.getValid(), i));
    bool isFloat = isa<FloatType>(elementOf(in[0].getType()));
    double value = mask.getValue().convertToDouble();
    return m.select(isValid, in[0],
                    isFloat ? floats(value, in[0]) : m.i(static_cast<int64_t>(value), in[0]));
  }
  auto oneHot = cast<graph::OneHotOp>(op);
  if (oneHot.getOffset())
    plus(in[2]);
  Value ids = in[0];
  if (elementOf(ids.getType()) != b.getI64Type())
    ids = arith::ExtSIOp::create(b, m.loc, i.getType(), ids);
  Value zero = arith::ConstantOp::create(b, m.loc, b.getZeroAttr(in[1].getType()));
  return m.select(compare(arith::CmpIPredicate::eq, i, ids), in[1], zero);
}

// The scalar that `value` repeats, or null.
static Value repeated(Value value) {
  if (!isa<VectorType>(value.getType()))
    return value;
  auto spread = value.getDefiningOp<vector::BroadcastOp>();
  return spread && !isa<VectorType>(spread.getSource().getType()) ? spread.getSource() : Value();
}

// one_hot of one id along the vector: the lane that it falls on is found once, with i64
// numbers, and compared in lanes as narrow as the values. Null for anything else.
Value Group::oneHotLane(graph::OneHotOp op, unsigned number, ArrayRef<Value> in, Point &point) {
  const Access &access = accesses[number];
  Value id = repeated(in[0]), offset = op.getOffset() ? repeated(in[2]) : kernel.index(0);
  if (point.width == 1 || lastStride(access.strides) != 1 || !id || !offset)
    return {};
  OpBuilder &b = kernel.b;
  Location loc = kernel.loc;
  Math m = math();
  if (!id.getType().isInteger(64))
    id = arith::ExtSIOp::create(b, loc, b.getI64Type(), id);
  Value distance = kernel.sub(kernel.sub(id, offset), linear(access, point));
  Value isHere = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, distance,
                                       kernel.index(point.width));
  Value lane = arith::TruncIOp::create(b, loc, b.getI32Type(), distance);
  lane = spread(m.select(isHere, lane, m.i(-1, lane)), point);
  auto numbers = llvm::to_vector(llvm::seq<int32_t>(0, point.width));
  Value lanes = arith::ConstantOp::create(
      b, loc, DenseElementsAttr::get(cast<VectorType>(lane.getType()), ArrayRef<int32_t>(numbers)));
  Value zero = arith::ConstantOp::create(b, loc, b.getZeroAttr(in[1].getType()));
  return m.select(arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, lanes, lane), in[1],
                  zero);
}

Value Group::at(Value tensor, const IndexMap &map, Point &point) {
  std::pair<Value, unsigned> key(tensor, intern(map));
  if (Value value = point.done.lookup(key))
    return value;
  Value value = compute(tensor, map, point);
  point.done[key] = value;
  return value;
}

Value Group::compute(Value tensor, const IndexMap &map, Point &point) {
  if (Value row = rowValues.lookup(tensor))
    return spread(row, point);
  if (auto it = elementValues.find(tensor); it != elementValues.end())
    return it->second(point);
  Operation *op = tensor.getDefiningOp();
  if (!op || isa<graph::ConstantOp>(op))
    return load(find(tensor, map), point);
  SmallVector<Value> in;
  for (unsigned i = 0; i < op->getNumOperands(); ++i)
    in.push_back(at(op->getOperand(i), *operandMap(op, i, map), point));
  if (auto oneHot = dyn_cast<graph::OneHotOp>(op))
    if (Value value =
            oneHotLane(oneHot, find(tensor, {map[*indexedDim(op)]}), in, point))
      return value;
  if (auto dim = indexedDim(op))
    return applyIndexed(math(), op, integers(find(tensor, {map[*dim]}), point), in);
  if (ElementEntry entry = lookupElement(op)) {
    Math m = math();
    SmallVector<Value> out;
    entry(m, op, in, out);
    for (auto [result, value] : llvm::zip(op->getResults(), out))
      point.done[{result, intern(map)}] = value;
    return out[cast<OpResult>(tensor).getResultNumber()];
  }
  return in[0]; // transpose, slice, broadcast, reshape
}

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
