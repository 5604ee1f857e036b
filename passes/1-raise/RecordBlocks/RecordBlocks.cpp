// Counts the blocks that are run, folded layers as often as they repeat.
#include "dialects/graph/GraphAttrs.h"
#include "passes/1-raise/Constants.h"
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

// Returns whether a matmul is behind `value`, with or without a bias or a factor.
static bool hasProductBehind(Value value) {
  for (int depth = 0; depth < 3; ++depth) {
    Operation *op = value.getDefiningOp();
    if (isa_and_nonnull<MatmulOp>(op))
      return true;
    if (!isa_and_nonnull<AddOp, MulOp>(op))
      return false;
    value = op->getOperand(0);
  }
  return false;
}

// Returns whether `value` goes into a matmul, alone, squared or gated (times another value).
static bool feedsProduct(Value value, int depth) {
  return llvm::any_of(value.getUsers(), [&](Operation *user) {
    return isa<MatmulOp>(user) ||
           (depth > 0 && isa<MulOp, PowOp>(user) && feedsProduct(user->getResult(0), depth - 1));
  });
}

static bool isMlp(Operation *op) {
  if (!isa<GeluOp, ReluOp, SigmoidOp, TanhOp>(op) || !hasProductBehind(op->getOperand(0)))
    return false;
  return feedsProduct(op->getResult(0), 2);
}

// Returns whether only a bias or a function of each element is between `value` and a result.
static bool isResult(Value value) {
  return llvm::any_of(value.getUsers(), [&](Operation *user) {
    if (isa<func::ReturnOp>(user))
      return true;
    bool alone = llvm::all_of(user->getOperands(), [&](Value operand) {
      return operand == value || isParameter(operand) || operand.getDefiningOp<ConstantOp>();
    });
    return alone && (isElementwise(user) || isa<SliceOp, ReshapeOp>(user)) &&
           isResult(user->getResult(0));
  });
}

// Returns whether `op` looks tokens or positions up; experts have biases that are looked up by routes.
static bool isEmbedding(Operation *op) {
  auto gather = dyn_cast<GatherOp>(op);
  return gather && isParameter(gather.getTable()) && !isa_and_nonnull<RouteOp>(gather.getIds().getDefiningOp());
}

// Returns whether `op` chooses experts; groups of them are chosen for no product.
static bool isMixture(Operation *op) {
  return isa<RouteOp>(op) && llvm::any_of(op->getUsers(), [](Operation *user) { return isa<GroupedMatmulOp>(user); });
}

static bool isHead(Operation *op) {
  return isa<MatmulOp>(op) && llvm::any_of(op->getOperands(), isParameter) &&
         isResult(op->getResult(0));
}

// Returns how often an op is run: that of a layer once for each.
static int64_t timesOf(Operation *op) {
  int64_t times = 1;
  for (auto repeat = op->getParentOfType<RepeatOp>(); repeat; repeat = repeat->getParentOfType<RepeatOp>())
    times *= repeat.getCount();
  return times;
}

// Returns the parameters that one token uses, or 0 without mixtures. Of what products and lookups by routes read, a
// token uses the share of its experts.
static int64_t countActive(ModuleOp module) {
  int64_t active = 0, unused = 0;
  for (auto state : module.getOps<StateOp>())
    if (state.getRole() == Role::parameter)
      active += cast<RankedTensorType>(state.getType()).getNumElements();
  module.walk([&](RouteOp route) {
    llvm::SmallSetVector<Value, 4> tables; // those that several ops read count once
    for (Operation *user : route->getUsers()) {
      if (auto product = dyn_cast<GroupedMatmulOp>(user))
        tables.insert(product.getWeights());
      else if (auto gather = dyn_cast<GatherOp>(user); gather && gather.getIds() == route.getRoutes())
        tables.insert(gather.getTable());
    }
    for (Value table : tables) {
      int64_t experts = shapeOf(table)[0], choices = shapeOf(route.getRoutes()).back();
      unused += timesOf(route) * (typeOf(table).getNumElements() / experts) * (experts - choices);
    }
  });
  return unused > 0 ? active - unused : 0;
}

namespace {

struct RecordBlocks : llmc::impl::RecordBlocksBase<RecordBlocks> {
  void runOnOperation() override {
    static const StringRef kinds[] = {"attention", "rotary",   "mlp",       "mixture",
                                      "layer norm", "rms norm", "embedding", "head"};
    int64_t counts[std::size(kinds)] = {};
    getOperation().walk([&](Operation *op) {
      int64_t times = timesOf(op);
      bool is[] = {isa<AttentionOp>(op), isa<RotaryOp>(op),  isMlp(op),      isMixture(op),
                   isa<LayerNormOp>(op), isa<RmsNormOp>(op), isEmbedding(op), isHead(op)};
      for (size_t i = 0; i < std::size(kinds); ++i)
        counts[i] += is[i] ? times : 0;
    });
    SmallVector<std::string> blocks;
    for (auto [kind, count] : llvm::zip(kinds, counts))
      if (count)
        blocks.push_back((kind + " x" + Twine(count)).str());
    SmallVector<StringRef> names(blocks.begin(), blocks.end());
    NamedAttrList attributes(getOperation()->getAttrOfType<DictionaryAttr>(graph::kModel));
    Builder builder(&getContext());
    attributes.set("blocks", builder.getStrArrayAttr(names));
    // Leaves the number of a config, which is that of all files of the model.
    if (int64_t active = countActive(getOperation()); active && !attributes.get("active_parameters"))
      attributes.set("active_parameters", builder.getI64IntegerAttr(active));
    getOperation()->setAttr(graph::kModel, attributes.getDictionary(&getContext()));
  }
};

} // namespace
