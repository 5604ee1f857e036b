#include "passes/6-emit/group/FusedGroup.h"

using namespace mlir;

namespace llmc::emit {

static ArrayRef<int64_t> shapeOf(Value tensor) {
  return cast<RankedTensorType>(tensor.getType()).getShape();
}
static Type elementTypeOf(Value tensor) {
  return cast<RankedTensorType>(tensor.getType()).getElementType();
}

FusedGroup::FusedGroup(Kernel &kernel, unsigned reads, ArrayRef<int64_t> shape,
                       ArrayRef<bool> reduced, ArrayRef<bool> columns)
    : kernel(kernel), reads(reads), shape(shape), reduced(reduced), columns(columns) {
  this->columns.resize(shape.size(), false);
}

//===-- Maps ----------------------------------------------------------------===//

IndexMap FusedGroup::fullMap() const {
  IndexMap map;
  for (size_t d = 0; d < shape.size(); ++d)
    map.push_back({static_cast<int>(d), 1, 0});
  return map;
}

IndexMap FusedGroup::keptMap() const {
  IndexMap map;
  for (size_t d = 0; d < shape.size(); ++d)
    if (!reduced[d])
      map.push_back({static_cast<int>(d), 1, 0});
  return map;
}

IndexMap FusedGroup::columnMap() const {
  IndexMap map;
  for (size_t d = 0; d < shape.size(); ++d)
    if (!columns[d])
      map.push_back({static_cast<int>(d), 1, 0});
  return map;
}

// Returns the map of a tensor of shape `from` that broadcasts to `to`, aligned at the last dim
// as in NumPy.
static IndexMap broadcastMap(ArrayRef<int64_t> from, ArrayRef<int64_t> to, const IndexMap &map) {
  IndexMap result;
  size_t lead = to.size() - from.size();
  for (size_t d = 0; d < from.size(); ++d)
    result.push_back(from[d] == 1 && to[lead + d] != 1 ? DimIndex{} : map[lead + d]);
  return result;
}

IndexMap FusedGroup::rootOperandMap(Operation *op, unsigned i) const {
  auto operandShape = shapeOf(op->getOperand(i));
  if (lookupReductionRoot(op)->leadingOperands >> i & 1)
    return llvm::to_vector_of<DimIndex, 4>(ArrayRef(fullMap()).take_front(operandShape.size()));
  return broadcastMap(operandShape, shape, fullMap());
}

// Returns the map of a reshape that only adds or drops dims of size 1; fails for any other.
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
  if (isa<graph::BroadcastOp, graph::MaskTailOp>(op) || lookupElementwise(op))
    return broadcastMap(from, to, map);
  return failure();
}

std::optional<unsigned> indexedDim(Operation *op) {
  if (auto iota = dyn_cast<graph::IotaOp>(op))
    return iota.getDim();
  if (auto mask = dyn_cast<graph::MaskTailOp>(op))
    return mask.getDim();
  if (auto oneHot = dyn_cast<graph::OneHotOp>(op))
    return cast<RankedTensorType>(oneHot.getResult().getType()).getRank() - 1;
  return std::nullopt;
}

//===-- Step 1: accesses ----------------------------------------------------===//

unsigned FusedGroup::intern(const IndexMap &map) {
  auto *it = llvm::find(maps, map);
  if (it == maps.end())
    maps.push_back(map), it = std::prev(maps.end());
  return it - maps.begin();
}

int FusedGroup::find(Value tensor, const IndexMap &map) const {
  for (auto [i, access] : llvm::enumerate(accesses))
    if (access.tensor == tensor && access.map == map)
      return i;
  return -1;
}

void FusedGroup::addAccess(Access access, ArrayRef<int64_t> tensorShape) {
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

void FusedGroup::requireStore(unsigned buffer, RankedTensorType type, const IndexMap &map) {
  Access access;
  access.map = map;
  access.element = type.getElementType();
  access.buffer = buffer;
  addAccess(std::move(access), type.getShape());
}

LogicalResult FusedGroup::require(Value tensor, const IndexMap &map) {
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
  if (lookupReductionRoot(op)) {
    for (unsigned i = 0; i < op->getNumOperands(); ++i)
      if (failed(require(op->getOperand(i), rootOperandMap(op, i))))
        return failure();
    // Indices along a dim of one element are all the same.
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
  } else if (!lookupElementwise(op) && op->getNumOperands() == 0) {
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

void FusedGroup::fuseLoops() {
  // Collects the original dims of each loop, outermost first.
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
  // A tensor of one element becomes a flat tensor of one row, so that it shares that kernel.
  if (loops.empty() && llvm::none_of(reduced, [](bool r) { return r; })) {
    loops.push_back({1, false, false, true});
    for (Access &access : accesses)
      access.strides.assign(1, access.buffer >= 0 ? 1 : 0);
    return;
  }
  // The nest needs at least one loop of rows and, in a group with a reduction root, one that is
  // reduced.
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

} // namespace llmc::emit
