#include "passes/6-emit/simt/Combine.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace llmc::emit {

Combiner::Combiner(func::FuncOp kernel, const ThreadShape &)
    : kernel(kernel), b(kernel.getContext()), loc(kernel.getLoc()) {}

Value Combiner::keep(Value value) {
  made.insert(value.getDefiningOp());
  return value;
}
Value Combiner::constant(int64_t value) {
  return arith::ConstantOp::create(b, loc, b.getI64IntegerAttr(value));
}

// As Reducer::accumulate does.
Value Combiner::two(Value x, Value y) {
  Type type = x.getType();
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

// The value of the lane whose number differs in `distance`.
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

// Slots are not written again before all have read them: another sum's barrier lies
// between, or, if there is none (`isAlone`), one of its own.
Value Combiner::overWarps(Value part, int64_t warps, Value id, bool isAlone) {
  Type pointer = LLVM::LLVMPointerType::get(b.getContext(), /*addressSpace=*/3);
  Type slotType = b.getI64Type(), type = part.getType();
  if (!shared) {
    OpBuilder top = OpBuilder::atBlockBegin(kernel->getParentOfType<ModuleOp>().getBody());
    shared = LLVM::GlobalOp::create(top, loc, LLVM::LLVMArrayType::get(slotType, 0),
                                    /*isConstant=*/false, LLVM::Linkage::Internal,
                                    (kernel.getName() + "_shared").str(), Attribute(),
                                    /*alignment=*/kSlotBytes, /*addrSpace=*/3);
  }
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
