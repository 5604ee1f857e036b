// Computes the alignment of each vector access: the code generator emits one access of 16 bytes
// only where it is known to be aligned.
#include "passes/6-emit/simt/Steps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace llmc::emit {

namespace {

// Computes powers of two that divide a value or a pointer.
class Divisors {
public:
  Divisors(func::FuncOp kernel, int64_t beginMultiple)
      : begin(kernel.getArgument(kernel.getNumArguments() - 2)), beginMultiple(beginMultiple) {}

  int64_t of(Value value) {
    auto [it, isNew] = known.insert({value, kMost}); // a value that depends on itself finds this
    if (isNew) {
      int64_t divisor = std::min(compute(value), kMost);
      return known[value] = divisor;
    }
    return it->second;
  }
  int64_t ofPointer(Value pointer) {
    if (auto gep = pointer.getDefiningOp<LLVM::GEPOp>())
      return std::min(ofPointer(gep.getBase()), ofOffset(gep));
    if (auto array = pointer.getDefiningOp<LLVM::AllocaOp>())
      return array.getAlignment().value_or(1);
    if (pointer.getDefiningOp<LLVM::AddressOfOp>())
      return 8; // data is aligned to 64 bytes, what threads share to 8
    return kBufferAlignment;
  }

private:
  static constexpr int64_t kMost = 256;
  Value begin;
  int64_t beginMultiple;
  llvm::DenseMap<Value, int64_t> known;

  static int64_t powerIn(int64_t value) { return value ? value & -value : kMost; }

  int64_t ofOffset(LLVM::GEPOp gep) {
    int64_t bytes = llvm::divideCeil(gep.getElemType().getIntOrFloatBitWidth(), 8);
    if (gep.getDynamicIndices().empty())
      return powerIn(gep.getRawConstantIndices()[0] * bytes);
    return of(gep.getDynamicIndices()[0]) * bytes;
  }

  int64_t compute(Value value) {
    if (value == begin)
      return beginMultiple;
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      auto loop = dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp());
      return loop && argument == loop.getInductionVar()
                 ? std::min(of(loop.getLowerBound()), of(loop.getStep()))
                 : 1;
    }
    if (auto number = constantOf(value))
      return powerIn(*number);
    Operation *op = value.getDefiningOp();
    if (isa<arith::MulIOp>(op))
      return of(op->getOperand(0)) * of(op->getOperand(1));
    if (isa<arith::SelectOp>(op))
      return std::min(of(op->getOperand(1)), of(op->getOperand(2)));
    if (isa<arith::AddIOp, arith::SubIOp, arith::MaxSIOp, arith::MinSIOp, arith::RemUIOp>(op))
      return std::min(of(op->getOperand(0)), of(op->getOperand(1)));
    return 1;
  }
};

} // namespace

void setAlignments(func::FuncOp kernel, int64_t beginMultiple) {
  Divisors divisors(kernel, beginMultiple);
  auto bytesOf = [](Type type) {
    auto vector = dyn_cast<VectorType>(type);
    return llvm::divideCeil(getElementTypeOrSelf(type).getIntOrFloatBitWidth(), 8) *
           (vector ? vector.getNumElements() : 1);
  };
  auto state = [&](auto access, Type type) {
    if (!isa<VectorType>(type))
      return;
    int64_t natural = llvm::PowerOf2Ceil(bytesOf(type));
    int64_t alignment = std::min<int64_t>(divisors.ofPointer(access.getAddr()), natural);
    if (alignment > static_cast<int64_t>(access.getAlignment().value_or(1)))
      access.setAlignment(alignment);
  };
  kernel.walk([&](LLVM::LoadOp load) { state(load, load.getType()); });
  kernel.walk([&](LLVM::StoreOp store) { state(store, store.getValue().getType()); });
}

} // namespace llmc::emit
