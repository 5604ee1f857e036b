// Marks attention as a ring, and gives causal rings their positions.
#include "passes/3-shard/Passes.h"

#include "dialects/graph/Build.h"
#include "dialects/parallel/Annotations.h"

namespace llmc {
#define GEN_PASS_DEF_MARKRINGS
#include "passes/3-shard/Passes.h.inc"

using namespace mlir;
using namespace parallel;
using graph::shapeOf;
namespace {

// Returns why the keys of an attention cannot go around a ring; empty if they can.
template <typename Op> std::string describeMisfit(Op op) {
  int64_t rows = shapeOf(op.getQ())[1], keys = shapeOf(op.getK())[1];
  if (rows != keys)
    return (Twine("has ") + Twine(rows) + " rows and " + Twine(keys) +
            " keys, as with a cache of keys; a ring shares out one sequence").str();
  if (Value mask = op.getMask(); mask && shapeOf(mask)[2] != 1)
    return "has a mask that differs between rows, which does not travel with the keys";
  return "";
}

struct MarkRings : impl::MarkRingsBase<MarkRings> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    MeshAttr mesh = getMesh(module);
    if (!mesh || mesh.getSize(planfile::AxisRole::Context) == 1)
      return;
    if (size_t axes = mesh.getAxes(planfile::AxisRole::Context).size(); axes > 1) {
      module.emitError("cp consists of ") << axes << " axes of the mesh, and a ring goes along one; use --cp-kind heads";
      return signalPassFailure();
    }
    bool ok = true;
    module.walk([&](Operation *op) {
      if (auto attention = dyn_cast<graph::AttentionOp>(op))
        ok &= mark(attention);
      else if (auto grad = dyn_cast<graph::AttentionGradOp>(op))
        ok &= mark(grad);
    });
    if (!ok)
      signalPassFailure();
  }

private:
  template <typename Op> bool mark(Op op) {
    if (std::string misfit = describeMisfit(op); !misfit.empty()) {
      op.emitOpError() << misfit << "; use --cp-kind heads";
      return false;
    }
    ++numRings;
    op.setRing(true);
    if (op.getCausal() && op.getPositions().empty()) {
      OpBuilder builder(op);
      auto type = RankedTensorType::get({shapeOf(op.getQ())[1]}, builder.getI64Type());
      Value positions = graph::IotaOp::create(builder, op.getLoc(), type, Value(), 0);
      SmallVector<Value> further(op.getFurther());
      further.insert(further.begin() + op.hasMask(), {positions, positions});
      op.getFurtherMutable().assign(further);
    }
    return true;
  }
};

} // namespace
} // namespace llmc
