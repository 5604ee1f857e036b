// Counts the blocks that are run, folded layers as often as they repeat.
#include "passes/1-raise/Parameters.h"
#include "passes/1-raise/Passes.h"

using namespace mlir;
using namespace llmc;
using namespace llmc::graph;
using namespace llmc::raise;

namespace llmc {
#define GEN_PASS_DEF_RECORDBLOCKS
#include "passes/1-raise/Passes.h.inc"
} // namespace llmc

// The matmul behind `value`, with or without a bias.
static MatmulOp productBehind(Value value) {
  if (auto sum = value.getDefiningOp<AddOp>())
    value = sum.getLhs();
  return value.getDefiningOp<MatmulOp>();
}

static bool isMlp(Operation *op) {
  if (!isa<GeluOp, ReluOp>(op) || !productBehind(op->getOperand(0)))
    return false;
  return llvm::any_of(op->getUsers(), [](Operation *user) { return isa<MatmulOp>(user); });
}

static bool isHead(Operation *op) {
  auto matmul = dyn_cast<MatmulOp>(op);
  if (!matmul || !isParameter(matmul.getRhs()))
    return false;
  return llvm::any_of(op->getUsers(), [](Operation *user) { return isa<func::ReturnOp>(user); });
}

namespace {

struct RecordBlocks : llmc::impl::RecordBlocksBase<RecordBlocks> {
  void runOnOperation() override {
    static const StringRef kinds[] = {"attention", "mlp", "layer norm", "embedding", "head"};
    int64_t counts[std::size(kinds)] = {};
    getOperation().walk([&](Operation *op) {
      int64_t times = 1;
      for (auto repeat = op->getParentOfType<RepeatOp>(); repeat;
           repeat = repeat->getParentOfType<RepeatOp>())
        times *= repeat.getCount();
      bool is[] = {isa<AttentionOp>(op), isMlp(op), isa<LayerNormOp>(op),
                   isa<GatherOp>(op) && isParameter(op->getOperand(0)), isHead(op)};
      for (size_t i = 0; i < std::size(kinds); ++i)
        counts[i] += is[i] ? times : 0;
    });
    SmallVector<std::string> blocks;
    for (auto [kind, count] : llvm::zip(kinds, counts))
      if (count)
        blocks.push_back((kind + " x" + Twine(count)).str());
    SmallVector<StringRef> names(blocks.begin(), blocks.end());
    NamedAttrList attributes(getOperation()->getAttrOfType<DictionaryAttr>("graph.model"));
    attributes.set("blocks", Builder(&getContext()).getStrArrayAttr(names));
    getOperation()->setAttr("graph.model", attributes.getDictionary(&getContext()));
  }
};

} // namespace
