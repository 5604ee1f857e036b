// Implements tactic `expert`: each rank of ep has a part of the experts, and each rank of etp a part of what
// an expert computes (Lepikhin et al., 2020, "GShard"; Shoeybi et al., 2019, for the latter).
#include "passes/3-shard/Passes.h"

#include "dialects/graph/Build.h"
#include "passes/3-shard/Propagation.h"

namespace llmc {
#define GEN_PASS_DEF_SHARDEXPERT
#include "passes/3-shard/Passes.h.inc"

using namespace mlir;
using namespace parallel;
using graph::GroupedMatmulOp;
using graph::shapeOf;
namespace {

struct ShardExpert : impl::ShardExpertBase<ShardExpert> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    MeshAttr mesh = getMesh(module);
    func::FuncOp func = getStepFunction(module);
    if (!mesh || !func) {
      module.emitError("tactic expert needs @") << (isInference(module) ? "forward" : "micro")
                                                << " and parallel.mesh";
      return signalPassFailure();
    }
    SmallVector<GroupedMatmulOp> products;
    func.walk<WalkOrder::PreOrder>([&](GroupedMatmulOp op) {
      if (!op->hasAttr(kBackward))
        products.push_back(op);
    });
    if (failed(cutExperts(products, mesh)) || failed(cutFeatures(products, mesh)))
      signalPassFailure();
  }

private:
  LogicalResult cutExperts(ArrayRef<GroupedMatmulOp> products, MeshAttr mesh) {
    int64_t parts = mesh.getSize(planfile::AxisRole::Expert);
    if (parts == 1 || products.empty())
      return success();
    AxisPropagation axis(getOperation(), mesh.getAxes(planfile::AxisRole::Expert), {"expert"});
    for (GroupedMatmulOp op : products) {
      if (!op.getExchanged())
        return op.emitError("multiplies rows that are not at the ranks of their experts");
      if (axis.dimOf(op.getWeights()) >= 0)
        continue;
      if (!axis.canCut(op.getWeights(), 0))
        return refuse(op, shapeOf(op.getWeights())[0], "experts", planfile::AxisRole::Expert, parts);
      ++numSeeds;
      axis.cut(op.getWeights(), 0, getNodeName(op.getLoc()));
    }
    axis.write();
    return success();
  }

  // Cuts features of a product whose rows are whole: that of a block which begins here.
  LogicalResult cutFeatures(ArrayRef<GroupedMatmulOp> products, MeshAttr mesh) {
    int64_t parts = mesh.getSize(planfile::AxisRole::ExpertTensor);
    if (parts == 1)
      return success();
    AxisPropagation axis(getOperation(), mesh.getAxes(planfile::AxisRole::ExpertTensor), {"expert"});
    for (GroupedMatmulOp op : products) {
      if (axis.factorOf(op) >= 0 || !feedsProduct(op.getResult(), op))
        continue;
      int64_t dim = op.getTransposed() ? 1 : 2, features = shapeOf(op.getWeights())[dim];
      if (!axis.canCut(op.getWeights(), dim))
        return refuse(op, features, "features of an expert", planfile::AxisRole::ExpertTensor, parts);
      ++numSeeds;
      axis.cut(op.getWeights(), dim, getNodeName(op.getLoc()));
    }
    axis.write();
    return success();
  }

  // Returns whether what is computed of the value row by row enters another product by the same routes, whose
  // terms the features then are.
  static bool feedsProduct(Value value, GroupedMatmulOp from) {
    return llvm::any_of(value.getUsers(), [&](Operation *user) {
      if (user->hasAttr(kBackward) || user->getNumResults() != 1)
        return false;
      if (auto product = dyn_cast<GroupedMatmulOp>(user))
        return product.getOperand() == value && product.getRoutes() == from.getRoutes();
      auto compute = dyn_cast<graph::GraphOpInterface>(user);
      return compute && compute.getEmitClass() == graph::EmitClass::Elementwise &&
             shapeOf(user->getResult(0)) == shapeOf(value) && feedsProduct(user->getResult(0), from);
    });
  }

  static LogicalResult refuse(Operation *op, int64_t shared, StringRef noun, planfile::AxisRole role, int64_t parts) {
    StringRef name = planfile::nameOf(role);
    InFlightDiagnostic error = op->emitError("has ") << shared << " " << noun << ", which " << name << " = " << parts
                                                     << " ranks cannot share; valid sizes of " << name << " are";
    for (int64_t size = 1; size <= shared && size <= 4096; ++size)
      if (shared % size == 0)
        error << " " << size;
    return error;
  }
};

} // namespace
} // namespace llmc
