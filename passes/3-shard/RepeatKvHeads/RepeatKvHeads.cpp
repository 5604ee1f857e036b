// Gives each rank that shares a kv head a copy, so that heads can be cut over all ranks.
#include "passes/3-shard/Passes.h"

#include "dialects/graph/Build.h"
#include "dialects/parallel/Annotations.h"
#include "passes/3-shard/RepeatKvHeads/Regroup.h"
#include "passes/3-shard/RepeatKvHeads/Repeater.h"
#include <numeric>

namespace llmc {
#define GEN_PASS_DEF_REPEATKVHEADS
#include "passes/3-shard/Passes.h.inc"

using namespace mlir;
using namespace parallel;
using graph::shapeOf;
namespace {
struct RepeatKvHeads : impl::RepeatKvHeadsBase<RepeatKvHeads> {
  void runOnOperation() override {
    MeshAttr mesh = getMesh(getOperation());
    if (!mesh)
      return;
    SmallVector<Operation *> attentions;
    bool anyRing = false;
    getOperation().walk([&](Operation *op) {
      anyRing |= graph::isRing(op);
      if (isa<graph::AttentionOp, graph::AttentionGradOp>(op))
        attentions.push_back(op);
    });
    // Attention is cut by heads over both axes, a ring over tp alone.
    int64_t parts = mesh.getSize(planfile::AxisRole::Tensor) *
                    (anyRing ? 1 : mesh.getSize(planfile::AxisRole::Context));
    if (parts <= 1)
      return;
    for (Operation *op : attentions) {
      unsigned q = isa<graph::AttentionGradOp>(op) ? 1 : 0; // then k and v
      int64_t heads = shapeOf(op->getOperand(q))[2], kvHeads = shapeOf(op->getOperand(q + 1))[2];
      if (kvHeads > 1 && kvHeads % parts != 0 && heads % parts == 0)
        repeat(op, q, kvHeads, std::lcm(kvHeads, parts));
    }
    SmallVector<Operation *> others;
    getOperation().walk([&](Operation *op) {
      if (isa<graph::BroadcastOp, graph::ReshapeOp>(op))
        others.push_back(op);
    });
    for (Operation *op : others)
      numRegrouped += regroupHeads(op, parts);
  }

  // Repeats the kv heads of one attention: they are dimension 2 of k, v and their gradients.
  void repeat(Operation *op, unsigned q, int64_t kvHeads, int64_t heads) {
    Repeater repeater(op, kvHeads, heads);
    repeater.repeatOperand(q + 1, 2);
    repeater.repeatOperand(q + 2, 2);
    if (isa<graph::AttentionGradOp>(op)) {
      repeater.sumResult(1, 2);
      repeater.sumResult(2, 2);
    }
    ++numRepeated;
  }
};

} // namespace
} // namespace llmc
