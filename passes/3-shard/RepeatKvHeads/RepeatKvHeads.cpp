// Ranks that share a kv head get a copy each, so that heads can be cut over all of them.
#include "passes/3-shard/Passes.h"

#include "dialects/graph/Build.h"
#include "dialects/parallel/Annotations.h"
#include <numeric>

namespace llmc {
#define GEN_PASS_DEF_REPEATKVHEADS
#include "passes/3-shard/Passes.h.inc"

using namespace mlir;
using namespace parallel;
using graph::Build;
using graph::shapeOf;
namespace {

// Between [batch, keys, kv heads, dim] and [kv heads, batch, keys, dim].
constexpr int64_t kHeadsFirst[] = {2, 0, 1, 3}, kHeadsThird[] = {1, 2, 0, 3};

class Repeater {
public:
  // kv heads become `heads`, a multiple of what they are.
  Repeater(Operation *op, int64_t kvHeads, int64_t heads)
      : op(op), builder(op), build(builder, op->getLoc()), kvHeads(kvHeads), heads(heads) {
    Type integer = builder.getI64Type();
    Value index = graph::IotaOp::create(builder, op->getLoc(),
                                        RankedTensorType::get({heads}, integer), Value(), 0);
    ids = build.div(index, build.constant(double(heads / kvHeads), integer));
  }

  void repeatOperand(unsigned i) {
    Value table = build.transpose(op->getOperand(i), kHeadsFirst);
    SmallVector<int64_t> shape(shapeOf(table));
    shape[0] = heads;
    auto type = RankedTensorType::get(shape, graph::elementOf(table));
    auto rows = graph::GatherOp::create(builder, op->getLoc(), type, table, ids, Value());
    rows->setAttr(kWhole, builder.getUnitAttr());
    op->setOperand(i, build.transpose(rows, kHeadsThird));
  }

  // Its type becomes that of the repeated heads; users see the sums over repeats.
  void sumResult(unsigned i) {
    Value result = op->getResult(i);
    auto type = cast<RankedTensorType>(result.getType());
    SmallVector<int64_t> shape(type.getShape());
    shape[2] = heads;
    result.setType(RankedTensorType::get(shape, type.getElementType()));
    builder.setInsertionPointAfter(op);
    Value updates = build.transpose(result, kHeadsFirst);
    SmallVector<int64_t> sums(shapeOf(updates));
    sums[0] = kvHeads;
    Value added = graph::ScatterAddOp::create(builder, op->getLoc(),
                                              RankedTensorType::get(sums, type.getElementType()),
                                              ids, updates, Value());
    Value whole = build.transpose(added, kHeadsThird);
    result.replaceAllUsesExcept(whole, updates.getDefiningOp());
  }

private:
  Operation *op;
  OpBuilder builder;
  Build build;
  int64_t kvHeads, heads;
  Value ids;
};

struct RepeatKvHeads : impl::RepeatKvHeadsBase<RepeatKvHeads> {
  void runOnOperation() override {
    MeshAttr mesh = getMesh(getOperation());
    int64_t parts = mesh ? mesh.getSize("tp") : 1;
    if (parts <= 1)
      return;
    SmallVector<Operation *> attentions;
    getOperation().walk([&](Operation *op) {
      if (isa<graph::AttentionOp, graph::AttentionGradOp>(op))
        attentions.push_back(op);
    });
    for (Operation *op : attentions) {
      unsigned q = isa<graph::AttentionGradOp>(op) ? 1 : 0; // then k and v
      int64_t heads = shapeOf(op->getOperand(q))[2], kvHeads = shapeOf(op->getOperand(q + 1))[2];
      if (kvHeads > 1 && kvHeads % parts != 0 && heads % parts == 0)
        repeat(op, q, kvHeads, std::lcm(kvHeads, parts));
    }
  }

  void repeat(Operation *op, unsigned q, int64_t kvHeads, int64_t heads) {
    Operation *before = op->getPrevNode();
    Repeater repeater(op, kvHeads, heads);
    repeater.repeatOperand(q + 1);
    repeater.repeatOperand(q + 2);
    Operation *after = op->getNextNode();
    if (isa<graph::AttentionGradOp>(op)) {
      repeater.sumResult(1);
      repeater.sumResult(2);
    }
    if (op->hasAttr(kBackward)) { // then so is what serves it
      Block::iterator first = before ? std::next(before->getIterator()) : op->getBlock()->begin();
      for (Operation &made : llvm::make_range(first, after->getIterator()))
        made.setAttr(kBackward, UnitAttr::get(op->getContext()));
    }
    ++numRepeated;
  }
};

} // namespace
} // namespace llmc
