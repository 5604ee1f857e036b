// Verifies reshard and the collectives.
#include "dialects/parallel/Annotations.h"
#include "dialects/parallel/Parallel.h"

#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace llmc::parallel;

// Checks C3 of every collective and of axis_offset: axes are distinct and in the mesh, and there
// is at least one. Returns the size of the group.
static FailureOr<int64_t> verifyAxes(Operation *op, ArrayAttr axes) {
  MeshAttr mesh = getMesh(op);
  llvm::StringSet<> seen;
  int64_t size = 1;
  if (axes.empty())
    return op->emitOpError("C3: a group needs at least one axis");
  for (Attribute attr : axes) {
    StringRef axis = cast<StringAttr>(attr).getValue();
    if (!seen.insert(axis).second)
      return op->emitOpError("C3: axis \"") << axis << "\" stands twice in the group";
    if (mesh && mesh.getIndex(axis) < 0)
      return op->emitOpError("C3: axis \"") << axis << "\" is not in the mesh " << mesh;
    size *= mesh ? mesh.getSize(axis) : 1;
  }
  return size;
}

// Checks C1: operand and result have one rank and element type, and `dim`, called `name`, is in
// range.
static LogicalResult verifyDim(Operation *op, StringRef name, int64_t dim) {
  auto from = cast<RankedTensorType>(op->getOperand(0).getType());
  auto to = cast<RankedTensorType>(op->getResult(0).getType());
  if (dim < 0 || dim >= from.getRank() || from.getRank() != to.getRank() ||
      from.getElementType() != to.getElementType())
    return op->emitOpError("C1: operand and result have one rank and element type, and `")
           << name << "` " << dim << " lies in it, got " << from << " and " << to;
  return success();
}

// Checks that the group multiplies (`grows`) or divides `dim`, and that the result has that shape.
static LogicalResult verifyScaled(Operation *op, ArrayAttr axes, int64_t dim, bool grows) {
  FailureOr<int64_t> group = verifyAxes(op, axes);
  if (failed(group) || failed(verifyDim(op, "dim", dim)))
    return failure();
  auto from = cast<RankedTensorType>(op->getOperand(0).getType());
  auto to = cast<RankedTensorType>(op->getResult(0).getType());
  if (!getMesh(op))
    return success();
  SmallVector<int64_t> expected(from.getShape());
  if (!grows && expected[dim] % *group != 0)
    return op->emitOpError("C2: the group of ")
           << *group << " does not divide dim " << dim << " of " << from;
  expected[dim] = grows ? expected[dim] * *group : expected[dim] / *group;
  if (ArrayRef<int64_t>(expected) != to.getShape())
    return op->emitOpError("C2: a group of ") << *group << " makes "
                                              << RankedTensorType::get(expected, from.getElementType())
                                              << " of " << from << ", got " << to;
  return success();
}

LogicalResult AxisOffsetOp::verify() { return verifyAxes(*this, getAxes()); }

LogicalResult ReshardOp::verify() {
  int64_t rank = cast<RankedTensorType>(getOperand().getType()).getRank();
  if (static_cast<int64_t>(getFrom().getDims().size()) != rank ||
      static_cast<int64_t>(getTo().getDims().size()) != rank)
    return emitOpError("C1: shardings have one entry per dimension, got ")
           << getFrom() << " and " << getTo() << " for rank " << rank;
  for (StringAttr axis : getTo().getUnreduced())
    if (!getFrom().isUnreducedOver(axis.getValue()) || getFrom().getKind() != getTo().getKind())
      return emitOpError("C2: the result is unreduced over ")
             << axis << " where the operand is not";
  return success();
}

LogicalResult AllReduceOp::verify() {
  if (getMembers() && getAxes().size() != 1)
    return emitOpError("C2: `members` needs a single axis, got ") << getAxes();
  FailureOr<int64_t> group = verifyAxes(*this, getAxes());
  if (failed(group))
    return failure();
  std::optional<ArrayRef<int64_t>> members = getMembers();
  if (members && getMesh(*this))
    for (int64_t member : *members)
      if (member < 0 || member >= *group)
        return emitOpError("C2: member ") << member << " is outside of axis " << getAxes()[0]
                                          << " of size " << *group;
  return success();
}

LogicalResult AllGatherOp::verify() {
  return verifyScaled(*this, getAxes(), getDim(), /*grows=*/true);
}

LogicalResult ReduceScatterOp::verify() {
  return verifyScaled(*this, getAxes(), getDim(), /*grows=*/false);
}

LogicalResult AllToAllOp::verify() {
  FailureOr<int64_t> group = verifyAxes(*this, getAxes());
  if (failed(group) || failed(verifyDim(*this, "split", getSplit())) ||
      failed(verifyDim(*this, "concat", getConcat())))
    return failure();
  if (!getMesh(*this))
    return success();
  auto from = cast<RankedTensorType>(getOperand().getType());
  auto to = cast<RankedTensorType>(getResult().getType());
  SmallVector<int64_t> expected(from.getShape());
  if (expected[getSplit()] % *group != 0)
    return emitOpError("C2: the group of ")
           << *group << " does not divide dim " << getSplit() << " of " << from;
  expected[getSplit()] /= *group;
  expected[getConcat()] *= *group;
  if (ArrayRef<int64_t>(expected) != to.getShape())
    return emitOpError("C2: a group of ")
           << *group << " makes " << RankedTensorType::get(expected, from.getElementType())
           << " of " << from << ", got " << to;
  return success();
}

LogicalResult ShiftOp::verify() {
  if (getAxes().size() != 1)
    return emitOpError("C1: a ring has a single axis, got ") << getAxes();
  FailureOr<int64_t> group = verifyAxes(*this, getAxes());
  if (failed(group))
    return failure();
  int64_t distance = getDistance();
  if (getMesh(*this) && (distance < 1 || distance >= *group))
    return emitOpError("C2: distance ") << distance << " is outside of a ring of " << *group;
  return success();
}

LogicalResult ExchangeRowsOp::verify() {
  FailureOr<int64_t> group = verifyAxes(*this, getAxes());
  if (failed(group))
    return failure();
  auto from = cast<RankedTensorType>(getOperand().getType());
  auto to = cast<RankedTensorType>(getResult().getType());
  if (from.getElementType() != to.getElementType() || from.getRank() == 0 || to.getRank() == 0 ||
      from.getShape().back() != to.getShape().back())
    return emitOpError("C1: rows have one element type and size, got ") << from << " and " << to;
  for (Value counts : {getSent(), getReceived()})
    if (auto type = cast<RankedTensorType>(counts.getType());
        type.getRank() != 1 || (getMesh(*this) && type.getDimSize(0) != *group))
      return emitOpError("C2: counts are ") << type << ", expected one for each member of the group";
  return success();
}

LogicalResult AllSliceOp::verify() {
  return verifyScaled(*this, getAxes(), getDim(), /*grows=*/false);
}
