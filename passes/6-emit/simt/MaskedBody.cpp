// Copies the body of a loop for a vector that is not all inside of its row.
#include "passes/6-emit/simt/Steps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace llmc::emit {

namespace {

class MaskedBody {
public:
  MaskedBody(OpBuilder &b, scf::ForOp walk, IRMapping &map)
      : b(b), loc(walk.getLoc()), walk(walk), map(map), width(*constantOf(walk.getStep())) {}

  FailureOr<SmallVector<Value>> copy(Value i, const VectorBounds &edge, Value isActive);

private:
  OpBuilder &b;
  Location loc;
  scf::ForOp walk;
  IRMapping &map;
  int64_t width;
  Value inside; // of each lane

  // Returns whether `pointer` is thread-local or shared memory, which has room for the elements
  // outside, too.
  bool isKept(Value pointer) {
    return cast<LLVM::LLVMPointerType>(pointer.getType()).getAddressSpace() !=
           kGlobalMemory;
  }
  Value splat(Value x, Type type) { return vector::BroadcastOp::create(b, loc, type, x); }
  void makeMask(Value i, const VectorBounds &edge, Value isActive);
  bool follows(Value value);
  LogicalResult guard(LLVM::LoadOp original);
  LogicalResult guard(LLVM::StoreOp original);
};

} // namespace

void MaskedBody::makeMask(Value i, const VectorBounds &edge, Value isActive) {
  auto type = VectorType::get({width}, b.getI64Type());
  auto numbers = llvm::to_vector(llvm::seq<int64_t>(0, width));
  Value lanes = arith::ConstantOp::create(
      b, loc, DenseElementsAttr::get(type, ArrayRef<int64_t>(numbers)));
  auto compare = [&](arith::CmpIPredicate predicate, Value bound) -> Value {
    return arith::CmpIOp::create(b, loc, predicate, lanes, splat(bound, type));
  };
  inside = compare(arith::CmpIPredicate::slt, arith::SubIOp::create(b, loc, edge.high, i));
  auto demand = [&](Value also) { inside = arith::AndIOp::create(b, loc, inside, also); };
  if (edge.hasHead)
    demand(compare(arith::CmpIPredicate::sge, arith::SubIOp::create(b, loc, edge.low, i)));
  if (isActive)
    demand(splat(isActive, inside.getType()));
}

// Returns whether `value` differs from iteration to iteration.
bool MaskedBody::follows(Value value) {
  if (value == walk.getInductionVar() || llvm::is_contained(walk.getRegionIterArgs(), value))
    return true;
  Operation *op = value.getDefiningOp();
  if (!op) // of a loop inside
    return walk->isProperAncestor(value.getParentBlock()->getParentOp());
  return walk->isProperAncestor(op) && (op->getNumRegions() || llvm::any_of(op->getOperands(), [&](Value v) {
           return follows(v);
         }));
}

LogicalResult MaskedBody::guard(LLVM::LoadOp original) {
  if (isKept(original.getAddr()) || !follows(original.getAddr()))
    return success();
  auto load = cast<LLVM::LoadOp>(map.lookup(original.getOperation()));
  b.setInsertionPoint(load);
  Type type = load.getType();
  Value zero = arith::ConstantOp::create(b, loc, b.getZeroAttr(type));
  auto bytes = llvm::divideCeil(getElementTypeOrSelf(type).getIntOrFloatBitWidth(), 8);
  if (auto vector = dyn_cast<VectorType>(type); vector && vector.getNumElements() == width) {
    auto masked = LLVM::MaskedLoadOp::create(b, loc, type, load.getAddr(), inside, zero, bytes);
    load.getRes().replaceAllUsesWith(masked.getRes());
    load.erase();
    return success();
  }
  // A scalar load must feed a single lane, whose bit of the mask guards it.
  Operation *user = load;
  do
    user = user->hasOneUse() ? *user->getUsers().begin() : nullptr;
  while (isa_and_nonnull<arith::CmpIOp>(user) || // of a bit
         isa_and_nonnull<arith::ExtUIOp, arith::ShLIOp, arith::BitcastOp, arith::ExtFOp>(
             user)); // of a narrow float
  auto insert = dyn_cast_or_null<vector::InsertOp>(user);
  if (!insert || insert.getStaticPosition().size() != 1 || insert.hasDynamicPosition() ||
      cast<VectorType>(insert.getType()).getNumElements() != width)
    return original.emitOpError("reads past the end of a row");
  Value isInside =
      vector::ExtractOp::create(b, loc, inside, ArrayRef<int64_t>(insert.getStaticPosition()));
  auto branch = scf::IfOp::create(b, loc, TypeRange{type}, isInside, /*withElseRegion=*/true);
  load.getRes().replaceAllUsesWith(branch.getResult(0));
  b.setInsertionPointToEnd(branch.thenBlock());
  auto yield = scf::YieldOp::create(b, loc, load.getRes());
  load->moveBefore(yield);
  b.setInsertionPointToEnd(branch.elseBlock());
  scf::YieldOp::create(b, loc, zero);
  return success();
}

LogicalResult MaskedBody::guard(LLVM::StoreOp original) {
  if (isKept(original.getAddr()))
    return success();
  auto store = cast<LLVM::StoreOp>(map.lookup(original.getOperation()));
  auto vector = dyn_cast<VectorType>(store.getValue().getType());
  if (!vector || vector.getNumElements() != width)
    return original.emitOpError("writes past the end of a row");
  b.setInsertionPoint(store);
  auto bytes = llvm::divideCeil(vector.getElementType().getIntOrFloatBitWidth(), 8);
  LLVM::MaskedStoreOp::create(b, loc, store.getValue(), store.getAddr(), inside, bytes);
  store.erase();
  return success();
}

FailureOr<SmallVector<Value>> MaskedBody::copy(Value i, const VectorBounds &edge, Value isActive) {
  makeMask(i, edge, isActive);
  for (Operation &op : walk.getBody()->without_terminator())
    b.clone(op, map);
  auto place = b.saveInsertionPoint();
  bool isGood = true;
  walk.walk([&](Operation *op) {
    if (auto load = dyn_cast<LLVM::LoadOp>(op))
      isGood = isGood && succeeded(guard(load));
    else if (auto store = dyn_cast<LLVM::StoreOp>(op))
      isGood = isGood && succeeded(guard(store));
  });
  b.restoreInsertionPoint(place);
  SmallVector<Value> next;
  for (auto [result, before] :
       llvm::zip(walk.getBody()->getTerminator()->getOperands(), walk.getRegionIterArgs())) {
    Value after = map.lookupOrDefault(result), old = map.lookup(before);
    auto vector = dyn_cast<VectorType>(after.getType());
    bool isLanes = vector && vector.getNumElements() == width;
    if (after != old && !isLanes)
      return walk.emitOpError("carries what no lane holds");
    next.push_back(after == old
                       ? old
                       : arith::SelectOp::create(b, loc, inside, after, old).getResult());
  }
  if (!isGood)
    return failure();
  return next;
}

FailureOr<SmallVector<Value>> copyMasked(OpBuilder &b, scf::ForOp walk, IRMapping &map, Value i,
                                         const VectorBounds &edge, Value isActive) {
  return MaskedBody(b, walk, map).copy(i, edge, isActive);
}

} // namespace llmc::emit
