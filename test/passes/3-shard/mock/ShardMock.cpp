// Tactic `mock`: the widest product of a layer is cut by columns over axes that belong to
// rows elsewhere, as experts will be: half of dp and all of cp.
//
// It exists to show what a tactic needs: this room, and one line that says where it
// stands. Nothing else knows of it.
#include "test/passes/3-shard/mock/ShardMock.h"

#include "dialects/graph/Build.h"
#include "mlir/Pass/Pass.h"
#include "passes/3-shard/Propagation.h"

using namespace mlir;

namespace llmc::test {
namespace {

int64_t columnsOf(graph::MatmulOp op) {
  return graph::shapeOf(op->getOperand(1)).back();
}

// The product with the most output features of each repeat in the forward.
SmallVector<graph::MatmulOp> findWidest(func::FuncOp func) {
  SmallVector<graph::MatmulOp> widest;
  func.walk([&](graph::RepeatOp repeat) {
    graph::MatmulOp best;
    for (auto op : repeat.getBlock().getOps<graph::MatmulOp>())
      if (!op->hasAttr(parallel::kBackward) && isa<BlockArgument>(op->getOperand(1)) &&
          (!best || columnsOf(op) > columnsOf(best)))
        best = op;
    if (best)
      widest.push_back(best);
  });
  return widest;
}

struct ShardMock : PassWrapper<ShardMock, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ShardMock)

  StringRef getArgument() const override { return "test-shard-mock"; }

  void runOnOperation() override {
    parallel::MeshAttr mesh = parallel::getMesh(getOperation());
    AxisPropagation axis(getOperation(), mesh.getAxes(planfile::AxisRole::Expert), {"mock"});
    for (graph::MatmulOp op : findWidest(parallel::getStepFunction(getOperation())))
      axis.cut(op->getOperand(1), graph::shapeOf(op->getOperand(1)).size() - 1,
               parallel::getNodeName(op.getLoc()));
    axis.write();
  }
};

} // namespace

void registerShardMock() { PassRegistration<ShardMock>(); }

} // namespace llmc::test
