// Replaces the tables of buffers and scalars by parameters of their own.
#include "passes/6-emit/simt/Steps.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace llmc::emit {

// Moves `pointer`, and all that is computed from it, to global memory.
static void moveToGlobal(Value pointer, Type global) {
  pointer.setType(global);
  for (Operation *user : pointer.getUsers())
    if (auto gep = dyn_cast<LLVM::GEPOp>(user); gep && gep.getBase() == pointer)
      moveToGlobal(gep.getRes(), global);
}

// Returns the slot of `table` that `address` points to, if it is one.
static std::optional<int64_t> slotOf(Value address, Value table) {
  if (address == table)
    return 0;
  auto gep = address.getDefiningOp<LLVM::GEPOp>();
  if (!gep || gep.getBase() != table || !gep.getDynamicIndices().empty())
    return std::nullopt;
  return gep.getRawConstantIndices()[0];
}

// Moves data that travels with the kernel to global memory, too.
static void moveConstants(func::FuncOp kernel, Type global) {
  auto module = kernel->getParentOfType<ModuleOp>();
  kernel.walk([&](LLVM::AddressOfOp address) {
    auto data = module.lookupSymbol<LLVM::GlobalOp>(address.getGlobalName());
    data.setAddrSpace(cast<LLVM::LLVMPointerType>(global).getAddressSpace());
    moveToGlobal(address.getRes(), global);
  });
}

LogicalResult flattenParameters(func::FuncOp kernel) {
  auto counts = kernel->getAttrOfType<DenseI64ArrayAttr>(kParameters);
  if (!counts || counts.size() != 2 || kernel.getNumArguments() != 4)
    return kernel.emitOpError("was not emitted for threads");
  MLIRContext *context = kernel.getContext();
  Type global = LLVM::LLVMPointerType::get(context, /*addressSpace=*/1);
  Type i64 = IntegerType::get(context, 64);
  Block &entry = kernel.getBody().front();
  Location loc = kernel.getLoc();
  SmallVector<Value> buffers, scalars;
  for (int64_t i = 0; i < counts[0]; ++i)
    buffers.push_back(entry.insertArgument(2 + i, global, loc));
  for (int64_t i = 0; i < counts[1]; ++i)
    scalars.push_back(entry.insertArgument(2 + counts[0] + i, i64, loc));
  SmallVector<Operation *> dead;
  auto result = kernel.walk([&](LLVM::LoadOp load) {
    for (unsigned kind : {0, 1}) {
      ArrayRef<Value> values = kind ? scalars : buffers;
      auto slot = slotOf(load.getAddr(), entry.getArgument(kind));
      if (!slot)
        continue;
      if (*slot >= static_cast<int64_t>(values.size()))
        return WalkResult(load.emitOpError("reads past the parameters of its kernel"));
      load.getRes().replaceAllUsesWith(values[*slot]);
      dead.push_back(load);
      if (Operation *gep = load.getAddr().getDefiningOp(); gep && gep->hasOneUse())
        dead.push_back(gep);
    }
    return WalkResult::advance();
  });
  if (result.wasInterrupted())
    return failure();
  for (Operation *op : dead)
    op->erase();
  for (Value buffer : buffers)
    moveToGlobal(buffer, global);
  moveConstants(kernel, global);
  entry.eraseArguments(0, 2);
  kernel.setFunctionType(FunctionType::get(context, entry.getArgumentTypes(), {}));
  for (int64_t i = 0; i < counts[0]; ++i)
    kernel.setArgAttr(i, LLVM::LLVMDialect::getAlignAttrName(),
                      IntegerAttr::get(i64, kBufferAlignment));
  kernel->removeAttr(kParameters);
  return success();
}

} // namespace llmc::emit
