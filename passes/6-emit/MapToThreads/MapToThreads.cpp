#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Dominance.h"
#include "mlir/Transforms/CSE.h"
#include "passes/6-emit/Passes.h"
#include "passes/6-emit/simt/Steps.h"

namespace llmc {
#define GEN_PASS_DEF_MAPTOTHREADS
#include "passes/6-emit/Passes.h.inc"

using namespace mlir;

namespace emit {

//===-- Launches ------------------------------------------------------------===//

// Names the field that the attribute leaves out where it is 0, as in most kernels.
constexpr StringLiteral kScratchBytes = "scratch_bytes";

// Returns the fields of a launch with their names in the attribute.
static SmallVector<std::pair<StringRef, int64_t ThreadLaunch::*>> fields() {
  return {{"threads", &ThreadLaunch::threads},
          {"points_per_row", &ThreadLaunch::pointsPerRow},
          {"points_per_block", &ThreadLaunch::pointsPerBlock},
          {"blocks_per_sm", &ThreadLaunch::blocksPerSm},
          {"begin_multiple", &ThreadLaunch::beginMultiple},
          {"shared_bytes", &ThreadLaunch::sharedBytes},
          {kScratchBytes, &ThreadLaunch::scratchBytes}};
}

void ThreadLaunch::writeTo(func::FuncOp kernel) const {
  Builder b(kernel.getContext());
  SmallVector<NamedAttribute> entries;
  for (auto [name, field] : fields())
    if (name != kScratchBytes || scratchBytes > 0)
      entries.push_back(b.getNamedAttr(name, b.getI64IntegerAttr(this->*field)));
  kernel->setAttr(kLaunch, b.getDictionaryAttr(entries));
}

FailureOr<ThreadLaunch> ThreadLaunch::of(Operation *kernel) {
  ThreadLaunch launch;
  auto dictionary = kernel->getAttrOfType<DictionaryAttr>(kLaunch);
  for (auto [name, field] : fields()) {
    auto number = dictionary ? dictionary.getAs<IntegerAttr>(name) : IntegerAttr();
    if (dictionary && !number && name == kScratchBytes)
      continue;
    if (!number)
      return kernel->emitOpError("does not say how to launch it, ") << name << " is missing";
    launch.*field = number.getInt();
  }
  return launch;
}

//===-- All steps -----------------------------------------------------------===//

// Returns how many blocks per multiprocessor are worth while: four times as many as are
// resident, but at most 4 where each block repeats a loop that is not distributed.
static int64_t blocksPerSm(func::FuncOp kernel, const ThreadShape &shape) {
  bool repeatsWork = llvm::any_of(kernel.getBody().front().getOps<scf::ForOp>(),
                                  [](scf::ForOp loop) { return !loop->hasAttr(kLoopKind); });
  int64_t resident = 2048 / shape.threads;
  return repeatsWork ? std::min<int64_t>(resident, 4) : 4 * resident;
}

// Splits the rows of a launch over its blocks, and records in `launch` how.
static void splitRange(func::FuncOp kernel, const ThreadShape &shape, ThreadLaunch &launch) {
  bool areElements = rowsAreElements(kernel);
  launch.beginMultiple = areElements ? 4 : 1;
  bool isRowAThread = llvm::any_of(kernel.getBody().front().getOps<scf::ForOp>(), [](auto loop) {
    return isLoopOfKind(loop, kRows) && !containsElementLoop(loop);
  });
  launch.pointsPerBlock = areElements && addsColumns(kernel) ? 4 * kColumnVectors
                          : areElements    ? 4 * shape.threads
                          : isRowAThread ? shape.threads
                                         : shape.rows();
  launch.blocksPerSm = blocksPerSm(kernel, shape);
  splitOverBlocks(kernel, launch.pointsPerBlock);
}

LogicalResult mapToThreads(func::FuncOp kernel) {
  if (failed(flattenParameters(kernel)))
    return failure();
  addShortSumsInOrder(kernel);
  ThreadLaunch launch;
  VectorBoundsMap edges;
  launch.pointsPerRow = mergeRows(kernel);
  launch.pointsPerRow *= cutColumns(kernel, edges, launch.sharedBytes);
  alignVectorLoops(kernel, edges);
  ThreadShape shape = chooseShape(kernel);
  launch.threads = shape.threads;
  launch.scratchBytes = splitSum(kernel, shape.threads);
  if (launch.scratchBytes > 0) {
    launch.pointsPerRow = shape.threads;
    launch.blocksPerSm = 2048 / shape.threads;
  } else {
    splitRange(kernel, shape, launch);
  }
  auto shared = distribute(kernel, shape, edges);
  if (failed(shared))
    return failure();
  launch.sharedBytes += *shared;
  setAlignments(kernel, launch.beginMultiple);
  kernel.walk([](Operation *op) {
    op->removeAttr(kLoopKind);
    op->removeAttr(kCombined);
  });
  IRRewriter rewriter(kernel.getContext());
  DominanceInfo dominance(kernel);
  eliminateCommonSubExpressions(rewriter, dominance, kernel);
  launch.writeTo(kernel);
  return success();
}

} // namespace emit

namespace {

struct MapToThreads : impl::MapToThreadsBase<MapToThreads> {
  void runOnOperation() override {
    SmallVector<func::FuncOp> kernels;
    getOperation().walk([&](func::FuncOp kernel) {
      if (kernel->hasAttr(emit::kParameters) || kernel->hasAttr(emit::kLibrary))
        kernels.push_back(kernel);
    });
    for (func::FuncOp kernel : kernels) {
      if (kernel->hasAttr(emit::kLibrary))
        kernel.erase();
      else if (failed(emit::mapToThreads(kernel)))
        return signalPassFailure();
    }
  }
};

} // namespace
} // namespace llmc
