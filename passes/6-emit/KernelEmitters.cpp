// Picks the emitter of a launch.
#include "passes/6-emit/kernel/KernelEmitters.h"
#include "passes/6-emit/group/FusedGroup.h"

#include "llvm/ADT/DenseMap.h"

using namespace mlir;

namespace llmc::emit {

OpEmitter lookupOpEmitter(Operation *op) {
  static const llvm::DenseMap<TypeID, OpEmitter> table = {
      {TypeID::get<graph::GatherOp>(), emitGather},
      {TypeID::get<graph::ScatterAddOp>(), emitScatterAdd},
      {TypeID::get<graph::TakeAlongOp>(), emitTakeAlong},
      {TypeID::get<graph::CumsumOp>(), emitCumsum},
      {TypeID::get<graph::ConcatOp>(), emitConcat},
      {TypeID::get<graph::PadOp>(), emitPad},
      {TypeID::get<graph::ReshapeOp>(), emitReshape},
      {TypeID::get<graph::AttentionOp>(), emitAttention},
      {TypeID::get<graph::AttentionGradOp>(), emitAttentionGrad},
      {TypeID::get<graph::RotaryOp>(), emitRotary},
      {TypeID::get<graph::RouteOp>(), emitRoute},
      {TypeID::get<graph::LimitRoutesOp>(), emitLimitRoutes},
      {TypeID::get<graph::SortRoutesOp>(), emitSortRoutes},
      {TypeID::get<graph::ArrivedRoutesOp>(), emitArrivedRoutes},
      {TypeID::get<graph::CountSourcesOp>(), emitCountSources},
      {TypeID::get<graph::PackRowsOp>(), emitPackRows},
      {TypeID::get<graph::UnpackRowsOp>(), emitUnpackRows},
      {TypeID::get<graph::MatmulOp>(), emitMatmulOp},
  };
  return table.lookup(op->getName().getTypeID());
}

// Emits an op with a kernel of its own, which reads and writes whole buffers and so must be
// alone in its launch.
static LogicalResult emitAlone(Kernel &kernel, LaunchBody body, Operation *op) {
  for (Value operand : op->getOperands())
    if (!isa<BlockArgument>(operand))
      return op->emitOpError("must read the launch's buffers directly");
  if (!llvm::equal(body.results(), op->getResults()))
    return op->emitOpError("must be all that its launch writes");
  return lookupOpEmitter(op)(kernel, body, op);
}

static LogicalResult emitFamily(Kernel &kernel, LaunchBody body) {
  if (body.results().empty())
    return body.block.getParentOp()->emitError() << "a launch must write something";
  for (Type type : body.block.getArgumentTypes())
    if (!isKernelElement(getElementTypeOrSelf(type)))
      return body.block.getParentOp()->emitError()
             << "cpu kernels read f32, bf16, f16 and integers, got " << type;
  // A launch without elements gets a kernel without a body, over no rows.
  if (llvm::all_of(body.results(), [](Value result) {
        return cast<RankedTensorType>(result.getType()).getNumElements() == 0;
      })) {
    kernel.rows = 0;
    return success();
  }
  size_t ops = std::distance(body.block.begin(), body.block.end()) - 1;
  Operation &first = body.block.front();
  if (ops == 2 && isa<graph::ScatterAddOp>(first) && isa<graph::AddOp>(first.getNextNode()) &&
      llvm::is_contained(first.getNextNode()->getOperands(), first.getResult(0)))
    return emitScatterInto(kernel, body, &first, first.getNextNode());
  bool hasHero = false;
  for (Operation &op : body.block) {
    if (lookupOpEmitter(&op) && (ops == 1 || !isa<graph::ReshapeOp>(op)))
      return emitAlone(kernel, body, &op);
    hasHero |= lookupReductionRoot(&op) != nullptr;
  }
  return hasHero ? emitReduction(kernel, body) : emitElementwise(kernel, body);
}

// Returns whether libraries compute this launch on processors other than the CPU.
static bool isLibraryCall(Block &body) {
  return llvm::any_of(body, [](Operation &op) {
    return isa<graph::MatmulOp, graph::AttentionOp, graph::AttentionGradOp>(op);
  });
}

LogicalResult emitLaunch(Kernel &kernel, LaunchBody body) {
  if (kernel.target.threads && isLibraryCall(body.block)) {
    kernel.leaveToLibrary();
    return success();
  }
  if (failed(emitFamily(kernel, body)))
    return failure();
  size_t scalars = body.block.getNumArguments() - body.reads + kernel.extents.size();
  if (kernel.target.threads)
    kernel.func->setAttr(
        kParameters, kernel.b.getDenseI64ArrayAttr(
                         {static_cast<int64_t>(body.reads + body.results().size()),
                          static_cast<int64_t>(scalars)}));
  return success();
}

} // namespace llmc::emit
