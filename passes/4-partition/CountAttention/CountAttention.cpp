// Counts pairs of rows and keys by the positions that a rank computes for them.
#include "dialects/graph/Build.h"
#include "dialects/graph/Evaluate.h"
#include "dialects/parallel/Parallel.h"
#include "dialects/parallel/Annotations.h"
#include "passes/4-partition/Passes.h"
#include "passes/4-partition/PlaceValues.h"

namespace llmc {
#define GEN_PASS_DEF_COUNTATTENTION
#include "passes/4-partition/Passes.h.inc"

using namespace mlir;
using namespace parallel;
using graph::shapeOf;
using graph::Tensor;
namespace {

struct CountAttention : impl::CountAttentionBase<CountAttention> {
  void runOnOperation() override {
    MeshAttr mesh = getMesh(getOperation());
    if (!mesh)
      return;
    SmallVector<double> flops(mesh.getSize(planfile::AxisRole::Context), 0);
    bool any = false;
    for (auto func : getOperation().getOps<func::FuncOp>()) {
      PlaceValues places(mesh);
      func.walk([&](Operation *op) {
        if (auto attention = dyn_cast<graph::AttentionOp>(op))
          any = true, count(attention, places, flops);
        else if (auto grad = dyn_cast<graph::AttentionGradOp>(op))
          any = true, count(grad, places, flops);
      });
    }
    if (any)
      getOperation()->setAttr("plan.attention_flops", Builder(&getContext()).getF64ArrayAttr(flops));
  }

private:
  template <typename Op> static void count(Op op, PlaceValues &places, MutableArrayRef<double> flops) {
    double times = 1; // layers
    for (auto repeat = op->template getParentOfType<graph::RepeatOp>(); repeat;
         repeat = repeat->template getParentOfType<graph::RepeatOp>())
      times *= static_cast<double>(repeat.getCount());
    ArrayRef<int64_t> q = shapeOf(op.getQ());
    double all = double(q[1]) * double(shapeOf(op.getK())[1]);
    double shares = 0;
    for (auto [coordinate, sum] : llvm::enumerate(flops)) {
      double share = 1;
      if (!op.getPositions().empty()) {
        const Tensor *rows = places.of(op.getPositions()[0], coordinate);
        const Tensor *keys = places.of(op.getPositions()[1], coordinate);
        if (rows && keys)
          share = countVisible(*rows, *keys, op.getOffset(), op.getWindow()) / all;
      }
      sum += times * share * cast<graph::GraphOpInterface>(op.getOperation()).getFlops();
      shares += share;
    }
    if (double mean = shares / double(flops.size()); mean != 1)
      op->setAttr(kVisible, Builder(op.getContext()).getF64FloatAttr(mean));
  }
};

} // namespace
} // namespace llmc
