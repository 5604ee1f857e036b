#include "test/passes/4-partition/Annotate.h"

using namespace mlir;
using namespace llmc::parallel;
using llmc::graph::FactorKind;
using llmc::graph::GraphOpInterface;
using llmc::graph::RepeatOp;
using llmc::graph::ShardingRule;
using llmc::graph::StateOp;

namespace llmc::test {

std::map<std::string, std::vector<std::string>> tensorCuts() {
  return {{"wte", {"tp", ""}}, {"wq", {"", "tp"}}, {"bq", {"tp"}},     {"wk", {"", "tp"}},
          {"bk", {"tp"}},      {"wv", {"", "tp"}}, {"bv", {"tp"}},     {"wo", {"tp", ""}},
          {"w1", {"", "tp"}},  {"c1", {"tp"}},     {"w2", {"tp", ""}}};
}

namespace {

class Annotator {
public:
  Annotator(ModuleOp module, const Layout &layout, std::mt19937 *random)
      : module(module), context(module.getContext()), layout(layout), random(random) {}

  void run() {
    Builder builder(context);
    SmallVector<StringAttr> names;
    for (const char *name : {"dp", "pp", "tp"})
      names.push_back(builder.getStringAttr(name));
    mesh = MeshAttr::get(context, names, {layout.dp, layout.pp, layout.tp});
    module->setAttr(kMesh, mesh);
    for (auto state : module.getOps<StateOp>())
      state->setAttr(kSharding, layoutOf(state));
    for (auto func : module.getOps<func::FuncOp>()) {
      // @update handles layers as a dimension, which must not be cut.
      if (func.getSymName() == "update" && layout.pp > 1)
        this->random = nullptr;
      annotateFunction(func);
    }
  }

private:
  // All states of a parameter lie like it.
  ShardingAttr layoutOf(StateOp state) {
    if (auto of = state.getOf())
      return layoutOf(module.lookupSymbol<StateOp>(*of));
    auto known = drawn.find(state.getSymName().str());
    if (known != drawn.end())
      return known->second;
    auto type = cast<RankedTensorType>(state.getType());
    SmallVector<Axes> dims(type.getRank());
    unsigned lead = state.getStacked();
    if (auto found = layout.states.find(state.getSymName().str()); found != layout.states.end())
      for (auto [d, axis] : llvm::enumerate(found->second))
        if (!axis.empty())
          dims[lead + d].push_back(StringAttr::get(context, axis));
    if (random)
      for (size_t d = lead; d < dims.size(); ++d)
        dims[d].clear();
    if (random && type.getRank() > lead)
      drawDims(dims, type.getShape(), lead);
    return drawn[state.getSymName().str()] = makeSharding(context, dims);
  }

  // Cuts one dimension, or none, where it divides.
  void drawDims(SmallVectorImpl<Axes> &dims, ArrayRef<int64_t> shape, unsigned first) {
    for (const char *axis : {"dp", "tp"}) {
      size_t d = first + (*random)() % (shape.size() - first + 1);
      if (d < shape.size() && shape[d] % (getGroupSize(mesh, dims[d]) * mesh.getSize(axis)) == 0)
        dims[d].push_back(StringAttr::get(context, axis));
    }
  }

  void annotateFunction(func::FuncOp func) {
    for (BlockArgument arg : func.getArguments()) {
      auto name = func.getArgAttrOfType<FlatSymbolRefAttr>(arg.getArgNumber(), kState);
      int64_t rank = cast<RankedTensorType>(arg.getType()).getRank();
      SmallVector<Axes> dims(rank);
      if (rank && !name)
        dims[0].push_back(StringAttr::get(context, "dp"));
      setSharding(arg, name ? layoutOf(module.lookupSymbol<StateOp>(name.getAttr()))
                            : makeSharding(context, dims));
    }
    annotateBlock(func.getBody().front());
    if (!random) // once more, now that what stands behind is known
      annotateBlock(func.getBody().front());
    for (OpOperand &use : func.getBody().front().getTerminator()->getOpOperands())
      if (auto name = func.getResultAttrOfType<FlatSymbolRefAttr>(use.getOperandNumber(), kState))
        setRequired(use, layoutOf(module.lookupSymbol<StateOp>(name.getAttr())));
  }

  void annotateBlock(Block &block) {
    for (Operation &op : block.without_terminator()) {
      if (auto repeat = dyn_cast<RepeatOp>(op))
        annotateRepeat(repeat);
      else
        annotateOp(cast<GraphOpInterface>(op));
    }
  }

  void annotateOp(GraphOpInterface op) {
    ShardingRule rule = op.getShardingRule();
    FactorAxes axes(rule.factors.size());
    if (random)
      draw(rule, axes);
    else {
      take(op, rule, axes);
      ask(op, rule, axes);
    }
    for (auto [i, dims] : llvm::enumerate(rule.operands))
      setRequired(op->getOpOperand(i), shardingOf(context, dims, axes));
    for (auto [i, dims] : llvm::enumerate(rule.results))
      setSharding(op->getResult(i), withUnreduced(shardingOf(context, dims, axes),
                                                  unreducedOf(rule, dims, axes),
                                                  unreducedKindOf(rule, axes)));
  }

  static bool isUsed(const FactorAxes &axes, StringAttr axis) {
    return llvm::any_of(axes, [&](const Axes &list) { return llvm::is_contained(list, axis); });
  }

  void take(GraphOpInterface op, const ShardingRule &rule, FactorAxes &axes) {
    for (auto [i, dims] : llvm::enumerate(rule.operands)) {
      SmallVector<Axes> cuts = getAxes(getSharding(op->getOperand(i)));
      for (auto [d, factors] : llvm::enumerate(dims)) {
        auto parts = splitAxes(rule, factors, cuts[d], mesh);
        if (failed(parts))
          continue;
        for (auto [factor, part] : llvm::zip(factors, *parts))
          for (StringAttr axis : part)
            if (rule.factors[factor].kind != FactorKind::Replicated && !isUsed(axes, axis))
              axes[factor].push_back(axis);
      }
    }
  }

  // A factor that only the result has is cut as its first user's other operand is.
  void ask(GraphOpInterface op, const ShardingRule &rule, FactorAxes &axes) {
    for (OpOperand &use : op->getResult(0).getUses()) {
      auto user = dyn_cast<GraphOpInterface>(use.getOwner());
      if (!user)
        continue;
      ShardingRule of = user.getShardingRule();
      FactorAxes wanted(of.factors.size());
      take(user, of, wanted);
      SmallVector<Axes> cuts = getAxes(shardingOf(context, of.operands[use.getOperandNumber()], wanted));
      for (auto [d, factors] : llvm::enumerate(rule.results[0]))
        for (StringAttr axis : cuts[d])
          if (factors.size() == 1 && !isUsed(axes, axis))
            axes[factors[0]].push_back(axis);
    }
  }

  // A factor of a merged dimension may only be cut if it stands first there.
  static bool isLeading(const ShardingRule &rule, unsigned factor) {
    auto leads = [&](const graph::TensorFactors &dims) {
      return llvm::all_of(dims, [&](const graph::DimFactors &dim) {
        return !llvm::is_contained(dim, factor) || dim.front() == factor;
      });
    };
    return llvm::all_of(rule.operands, leads) && llvm::all_of(rule.results, leads);
  }

  void draw(const ShardingRule &rule, FactorAxes &axes) {
    bool anyMax = llvm::any_of(rule.factors, [](const graph::Factor &factor) {
      return factor.kind == FactorKind::ReducedMax;
    });
    for (const char *name : {"dp", "tp"}) {
      unsigned factor = (*random)() % (rule.factors.size() + 1);
      if (factor == rule.factors.size() || rule.factors[factor].kind == FactorKind::Replicated ||
          !isLeading(rule, factor) || (anyMax && rule.factors[factor].kind == FactorKind::ReducedSum))
        continue;
      int64_t group = getGroupSize(mesh, axes[factor]) * mesh.getSize(name);
      if (rule.factors[factor].size % group == 0)
        axes[factor].push_back(StringAttr::get(context, name));
    }
  }

  ShardingAttr definition(Value value) { return getSharding(value).getReduced(); }
  ShardingAttr redraw(Type type, ShardingAttr sharding) {
    if (!random)
      return sharding;
    auto tensor = cast<RankedTensorType>(type);
    SmallVector<Axes> dims(tensor.getRank());
    drawDims(dims, tensor.getShape(), 0);
    return makeSharding(context, dims);
  }

  void annotateRepeat(RepeatOp op) {
    Block &body = op.getBlock();
    unsigned carried = op.getCarried().size(), stacked = op.getStacked().size();
    for (OpOperand &use : op->getOpOperands()) {
      unsigned i = use.getOperandNumber();
      bool isStacked = i >= carried && i < carried + stacked;
      ShardingAttr inner = definition(use.get());
      // A stack of values that something outside the layers made may be cut there.
      inner = isStacked ? dropLeading(inner) : inner;
      if (i < carried)
        inner = redraw(use.get().getType(), inner);
      setSharding(body.getArgument(i), inner);
      setRequired(use, isStacked ? addLeading(inner) : inner);
    }
    annotateBlock(body);
    for (OpOperand &use : body.getTerminator()->getOpOperands()) {
      unsigned i = use.getOperandNumber();
      ShardingAttr inner = i < carried ? getSharding(body.getArgument(i)) : definition(use.get());
      // The result of a state lies like the state.
      auto ret = op->getResult(i).use_empty() ? func::ReturnOp()
                                              : dyn_cast<func::ReturnOp>(*op->getResult(i).user_begin());
      if (ret)
        if (auto name = ret->getParentOfType<func::FuncOp>().getResultAttrOfType<FlatSymbolRefAttr>(
                op->getResult(i).use_begin()->getOperandNumber(), kState))
          inner = dropLeading(layoutOf(module.lookupSymbol<StateOp>(name.getAttr())));
      setRequired(use, inner);
      setSharding(op->getResult(i), i < carried ? inner : addLeading(inner));
    }
  }

  ModuleOp module;
  MLIRContext *context;
  const Layout &layout;
  std::mt19937 *random;
  MeshAttr mesh;
  std::map<std::string, ShardingAttr> drawn;
};

} // namespace

void annotate(ModuleOp module, const Layout &layout, std::mt19937 *random) {
  Annotator(module, layout, random).run();
  if (layout.pp > 1)
    markStages(module.lookupSymbol<func::FuncOp>("micro"), layout);
}

// Ops that `value` is made of, up to arguments.
static void addSlice(Value value, DenseSet<Operation *> &slice) {
  Operation *op = value.getDefiningOp();
  if (!op || !slice.insert(op).second)
    return;
  for (Value operand : op->getOperands())
    addSlice(operand, slice);
}

void markStages(func::FuncOp micro, const Layout &layout) {
  Builder builder(micro.getContext());
  DenseSet<Operation *> beforeForward, beforeBackward;
  for (auto repeat : micro.getOps<RepeatOp>()) {
    repeat->setAttr(kLayers, builder.getI64ArrayAttr(layout.layers));
    for (Value carried : repeat.getCarried())
      addSlice(carried, repeat->hasAttr(kBackward) ? beforeBackward : beforeForward);
  }
  for (Operation &op : micro.getBody().front().without_terminator()) {
    if (isa<RepeatOp>(op))
      continue;
    bool backward = op.hasAttr(kBackward);
    DenseSet<Operation *> readers;
    // Backward ops that do not depend on the layers' cotangents are the head's.
    bool first = backward ? false : beforeForward.contains(&op);
    if (backward) {
      DenseSet<Operation *> made;
      for (Value operand : op.getOperands())
        addSlice(operand, made);
      first = llvm::any_of(made, [](Operation *producer) {
        return isa<RepeatOp>(producer) && producer->hasAttr(kBackward);
      });
    }
    op.setAttr(kStage, builder.getI64IntegerAttr(first ? 0 : layout.pp - 1));
  }
}

} // namespace llmc::test
