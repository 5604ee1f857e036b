#include "passes/6-emit/simt/Combine.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace llmc::emit {

Combiner::Combiner(func::FuncOp kernel)
    : kernel(kernel), b(kernel.getContext()), loc(kernel.getLoc()) {}

Value Combiner::keep(Value value) {
  made.insert(value.getDefiningOp());
  return value;
}
Value Combiner::constant(int64_t value) {
  return arith::ConstantOp::create(b, loc, b.getI64IntegerAttr(value));
}

// Combines two values as Reducer::accumulate() does.
Value Combiner::two(Value x, Value y) {
  Type type = getElementTypeOrSelf(x.getType());
  bool isFloat = isa<FloatType>(type);
  if (type.isInteger(1))
    return keep(arith::OrIOp::create(b, loc, x, y));
  if (isMax && isFloat) {
    Value less = keep(arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OLT, x, y));
    return keep(arith::SelectOp::create(b, loc, less, y, x));
  }
  if (isMax)
    return keep(arith::MaxSIOp::create(b, loc, x, y));
  if (isFloat)
    return keep(arith::AddFOp::create(b, loc, x, y));
  return keep(arith::AddIOp::create(b, loc, x, y));
}

//===-- Within a warp -------------------------------------------------------===//

Value Combiner::shuffle32(Value x, int64_t distance) {
  auto op = gpu::ShuffleOp::create(b, loc, x, distance, kWarp, gpu::ShuffleMode::XOR);
  return keep(op.getShuffleResult());
}

// Returns the value of the lane whose number differs in `distance`.
Value Combiner::fromLane(Value x, int64_t distance) {
  Type type = x.getType(), i32 = b.getI32Type(), i64 = b.getI64Type();
  unsigned bits = type.getIntOrFloatBitWidth();
  if (bits < 32) {
    Value wide = shuffle32(keep(arith::ExtUIOp::create(b, loc, i32, x)), distance);
    return keep(arith::TruncIOp::create(b, loc, type, wide));
  }
  if (bits == 32)
    return shuffle32(x, distance);
  Value whole = isa<FloatType>(type) ? keep(arith::BitcastOp::create(b, loc, i64, x)) : x;
  Value half = constant(32);
  Value low = keep(arith::TruncIOp::create(b, loc, i32, whole));
  Value high = keep(arith::ShRUIOp::create(b, loc, whole, half));
  high = shuffle32(keep(arith::TruncIOp::create(b, loc, i32, high)), distance);
  low = shuffle32(low, distance);
  high = arith::ShLIOp::create(b, loc, arith::ExtUIOp::create(b, loc, i64, high), half);
  whole = arith::OrIOp::create(b, loc, high, arith::ExtUIOp::create(b, loc, i64, low));
  return isa<FloatType>(type) ? arith::BitcastOp::create(b, loc, type, whole).getResult() : whole;
}

//===-- Among warps ---------------------------------------------------------===//

Operation *Combiner::makeShared(StringRef suffix, int64_t alignment) {
  OpBuilder top = OpBuilder::atBlockBegin(kernel->getParentOfType<ModuleOp>().getBody());
  return LLVM::GlobalOp::create(top, loc, LLVM::LLVMArrayType::get(top.getI64Type(), 0),
                                /*isConstant=*/false, LLVM::Linkage::Internal,
                                (kernel.getName() + suffix).str(), Attribute(), alignment,
                                /*addrSpace=*/3);
}

// Combines among warps through shared slots. They are not written again before all have read
// them: another sum's barrier lies between, or, if there is none (`isAlone`), one of its own.
Value Combiner::overWarps(Value part, int64_t warps, Value id, bool isAlone) {
  Type pointer = LLVM::LLVMPointerType::get(b.getContext(), /*addressSpace=*/3);
  Type slotType = b.getI64Type(), type = part.getType();
  if (!shared)
    shared = makeShared("_shared", kSlotBytes);
  auto global = cast<LLVM::GlobalOp>(shared);
  Value base = LLVM::AddressOfOp::create(b, loc, pointer, global.getSymName());
  auto slot = [&](Value number) -> Value {
    Value place = arith::AddIOp::create(b, loc, number, constant(slots));
    return LLVM::GEPOp::create(b, loc, pointer, slotType, base, ArrayRef<LLVM::GEPArg>{place});
  };
  bool isBit = type.isInteger(1);
  Type stored = isBit ? b.getI8Type() : type;
  if (isAlone)
    gpu::BarrierOp::create(b, loc);
  Value lane = arith::RemUIOp::create(b, loc, id, constant(kWarp));
  Value isFirst = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, lane, constant(0));
  auto branch = scf::IfOp::create(b, loc, isFirst, /*withElseRegion=*/false);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(branch.thenBlock()->getTerminator());
    Value place = slot(arith::DivUIOp::create(b, loc, id, constant(kWarp)));
    Value value = isBit ? keep(arith::ExtUIOp::create(b, loc, stored, part)) : part;
    made.insert(LLVM::StoreOp::create(b, loc, value, place, kSlotBytes));
  }
  gpu::BarrierOp::create(b, loc);
  Value total;
  for (int64_t warp = 0; warp < warps; ++warp) {
    Value value = LLVM::LoadOp::create(b, loc, stored, slot(constant(warp)), kSlotBytes);
    if (isBit)
      value = arith::TruncIOp::create(b, loc, type, value);
    total = total ? two(total, value) : value;
  }
  slots += warps;
  global.setGlobalType(LLVM::LLVMArrayType::get(slotType, slots));
  return total;
}

//===-- Among groups --------------------------------------------------------===//

// Combines among groups: each thread stores its part in the area and reads those of its column,
// in order.
void Combiner::combineGroups(scf::ForOp loop, int64_t groups, Value id, Value column,
                             int64_t columns) {
  if (loop.getNumResults() == 0)
    return;
  constexpr int64_t kAlignment = 16;
  if (!area)
    area = makeShared("_columns", kAlignment);
  auto global = cast<LLVM::GlobalOp>(area);
  Type pointer = LLVM::LLVMPointerType::get(b.getContext(), /*addressSpace=*/3);
  auto kinds = loop->getAttrOfType<ArrayAttr>(kCombined);
  b.setInsertionPointAfter(loop);
  Value base = LLVM::AddressOfOp::create(b, loc, pointer, global.getSymName());
  for (auto [part, kind] : llvm::zip(loop.getResults(), kinds)) {
    isMax = cast<StringAttr>(kind).getValue() == kMax;
    made.clear();
    auto vector = dyn_cast<VectorType>(part.getType());
    Type element = getElementTypeOrSelf(part.getType());
    bool isBit = element.isInteger(1);
    auto typeOf = [&](Type t) -> Type { return vector ? vector.clone(t) : t; };
    Type stored = typeOf(isBit ? b.getI8Type() : element);
    int64_t bytes = llvm::divideCeil(getElementTypeOrSelf(stored).getIntOrFloatBitWidth(), 8) *
                    (vector ? vector.getNumElements() : 1);
    bytes = llvm::PowerOf2Ceil(bytes);
    auto place = [&](Value thread) -> Value {
      Value offset = arith::MulIOp::create(b, loc, thread, constant(bytes));
      return LLVM::GEPOp::create(b, loc, pointer, b.getI8Type(), base,
                                 ArrayRef<LLVM::GEPArg>{offset});
    };
    int64_t alignment = std::min(bytes, kAlignment);
    gpu::BarrierOp::create(b, loc); // until all have read what lay there before
    Value value = isBit ? keep(arith::ExtUIOp::create(b, loc, stored, part)) : Value(part);
    made.insert(LLVM::StoreOp::create(b, loc, value, place(id), alignment));
    gpu::BarrierOp::create(b, loc);
    Value total;
    for (int64_t group = 0; group < groups; ++group) {
      Value thread = arith::AddIOp::create(b, loc, column, constant(group * columns));
      Value other = LLVM::LoadOp::create(b, loc, stored, place(thread), alignment);
      if (isBit)
        other = arith::TruncIOp::create(b, loc, typeOf(element), other);
      total = total ? two(total, other) : other;
    }
    part.replaceAllUsesExcept(total, made);
    areaSlots = std::max(areaSlots, groups * columns * bytes / kSlotBytes);
  }
  global.setGlobalType(LLVM::LLVMArrayType::get(b.getI64Type(), areaSlots));
}

//===-- All of it -----------------------------------------------------------===//

void Combiner::combine(Operation *op, int64_t size, Value id) {
  isMax = op->getAttrOfType<StringAttr>(kCombined).getValue() == kMax;
  int64_t siblings =
      llvm::count_if(*op->getBlock(), [](Operation &other) { return other.hasAttr(kCombined); });
  Value part = op->getResult(0), total = part;
  b.setInsertionPointAfter(op);
  made.clear();
  for (int64_t distance = std::min(size, kWarp) / 2; distance; distance /= 2)
    total = two(total, fromLane(total, distance));
  if (size > kWarp)
    total = overWarps(total, size / kWarp, id, siblings == 1);
  if (total != part)
    part.replaceAllUsesExcept(total, made);
}

} // namespace llmc::emit
