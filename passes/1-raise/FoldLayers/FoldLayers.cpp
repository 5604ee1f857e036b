// Turns the layers that FindLayers finds into graph.repeat.
#include "dialects/graph/GraphAttrs.h"
#include "dialects/graph/Repeat.h"
#include "passes/1-raise/FoldLayers/FindLayers.h"
#include "passes/1-raise/Parameters.h"
#include "passes/1-raise/Passes.h"

#include "mlir/Transforms/RegionUtils.h"

using namespace mlir;
using namespace llmc;
using namespace llmc::graph;
using namespace llmc::raise;

namespace llmc {
#define GEN_PASS_DEF_FOLDLAYERS
#include "passes/1-raise/Passes.h.inc"
} // namespace llmc

// Returns the ops that may be part of a layer, in order.
static SmallVector<Operation *> candidateOps(func::FuncOp func) {
  SmallVector<Operation *> ops;
  for (Operation &op : func.getBody().front().without_terminator())
    if (!isa<ConstantOp>(op))
      ops.push_back(&op);
  return ops;
}

namespace {

class Folder {
public:
  Folder(func::FuncOp func, SmallVector<Operation *> ops, Layers layers)
      : func(func), parameters(func), ops(std::move(ops)), layers(std::move(layers)) {}

  // Returns whether parameters have views, and each as many as those that are stacked with it: one,
  // or one for each expert.
  bool canStack() {
    return llvm::all_of(layers.stacked, [&](const auto &values) {
      size_t count = parameters.viewsOf(values[0]).size();
      int64_t viewedDims = count ? parameters.stateOf(values[0]).getViewedDims() : 0;
      return count && llvm::all_of(values, [&](Value value) {
               return parameters.viewsOf(value).size() == count &&
                      parameters.stateOf(value).getViewedDims() == viewedDims;
             });
    });
  }

  void fold() {
    RepeatOp repeat = create();
    fillBody(repeat);
    exportResults(repeat);
    for (auto [carried, result] : llvm::zip(layers.carried, repeat.getCarriedResults()))
      at(layers.count - 1, carried.op)->getResult(carried.result).replaceAllUsesWith(result);
    for (int64_t i = layers.end(); i-- > layers.start;)
      ops[i]->erase();
    parameters.eraseUnused();
  }

private:
  Operation *at(int64_t group, int64_t op) const {
    return ops[layers.start + group * layers.period + op];
  }

  // Fuses the locations of one op in all layers, layer by layer (see graph::unrollRepeat).
  Location locationOf(int64_t op) const {
    SmallVector<Location> locations;
    for (int64_t group = 0; group < layers.count; ++group)
      locations.push_back(at(group, op)->getLoc());
    MLIRContext *context = locations.front().getContext();
    return FusedLoc::get(locations, StringAttr::get(context, graph::kLayersLocation), context);
  }

  BlockArgument stack(ArrayRef<Value> values) {
    SmallVector<ViewAttr> views;
    SmallVector<Location> locations;
    for (Value value : values) {
      llvm::append_range(views, parameters.viewsOf(value));
      locations.push_back(value.getLoc());
    }
    SmallVector<int64_t> shape{layers.count};
    llvm::append_range(shape, shapeOf(values[0]));
    return parameters.add(RankedTensorType::get(shape, elementOf(values[0])), views,
                          /*stacked=*/true, FusedLoc::get(func.getContext(), locations));
  }

  // Moves a constant before the first layer: a model may define each where it uses it.
  void hoist(Value value) {
    if (auto constant = value.getDefiningOp<ConstantOp>();
        constant && constant->getBlock() == at(0, 0)->getBlock() && at(0, 0)->isBeforeInBlock(constant))
      constant->moveBefore(at(0, 0));
  }

  // Concatenates the values of all groups along a new leading dim.
  Value gather(ArrayRef<Value> values) {
    OpBuilder builder(at(0, 0));
    Build build(builder, values[0].getLoc());
    SmallVector<Value> rows;
    for (Value value : values) {
      SmallVector<int64_t> shape{1};
      llvm::append_range(shape, shapeOf(value));
      hoist(value);
      rows.push_back(build.reshape(value, shape));
    }
    return build.concat(rows, 0);
  }

  bool isCarried(const Layers::Exported &exported) const {
    return llvm::any_of(layers.carried, [&](const Layers::Carried &carried) {
      return carried.op == exported.op && carried.result == exported.result;
    });
  }

  // Replaces what is used of each group by itself by a slice of a stacked result.
  void exportResults(RepeatOp repeat) {
    llvm::DenseSet<Operation *> folded(ops.begin() + layers.start, ops.begin() + layers.end());
    OpBuilder builder(repeat->getContext());
    builder.setInsertionPointAfter(repeat);
    for (auto [exported, stacked] : llvm::zip(layers.exported, repeat.getStackedResults()))
      for (int64_t group = 0; group < layers.count; ++group) {
        OpResult result = at(group, exported.op)->getResult(exported.result);
        if (group == layers.count - 1 && isCarried(exported))
          continue; // leaves with the last layer as it is
        Build build(builder, result.getLoc());
        Value own = build.reshape(build.slice(stacked, 0, group, group + 1), shapeOf(result));
        result.replaceUsesWithIf(
            own, [&](OpOperand &use) { return !folded.contains(use.getOwner()); });
      }
  }

  RepeatOp create() {
    SmallVector<Value> carried, stacked;
    for (const Layers::Carried &value : layers.carried)
      carried.push_back(value.initial);
    for (const auto &values : layers.stacked)
      stacked.push_back(stack(values));
    for (const auto &values : layers.gathered)
      stacked.push_back(gather(values));
    // Captured scalars are cloned into the body instead.
    for (const auto &operands : layers.operands)
      for (const Layers::Operand &operand : operands)
        if (operand.kind == Layers::Operand::Captured)
          captured.insert(layers.captured[operand.index]);
    for (Value value : captured)
      hoist(value);

    // Insert before the first layer, where everything that it takes is defined.
    OpBuilder builder(at(0, 0));
    SmallVector<Location> locations;
    for (int64_t op = 0; op < layers.period; ++op)
      locations.push_back(locationOf(op));
    return RepeatOp::create(builder, FusedLoc::get(func.getContext(), locations),
                            ValueRange(carried).getTypes(), stackedTypes(),
                            builder.getI64IntegerAttr(layers.count), UnitAttr(), carried, stacked,
                            captured.getArrayRef());
  }

  SmallVector<Type> stackedTypes() const {
    SmallVector<Type> types;
    for (const Layers::Exported &exported : layers.exported) {
      Value result = at(0, exported.op)->getResult(exported.result);
      SmallVector<int64_t> shape{layers.count};
      llvm::append_range(shape, shapeOf(result));
      types.push_back(RankedTensorType::get(shape, elementOf(result)));
    }
    return types;
  }

  void fillBody(RepeatOp repeat) {
    Block &block = repeat.getBody().emplaceBlock();
    for (Value value : repeat.getCarried())
      block.addArgument(value.getType(), value.getLoc());
    for (Value value : repeat.getStacked())
      block.addArgument(RankedTensorType::get(shapeOf(value).drop_front(), elementOf(value)),
                        value.getLoc());
    for (Value value : repeat.getCaptured())
      block.addArgument(value.getType(), value.getLoc());

    OpBuilder builder = OpBuilder::atBlockBegin(&block);
    llvm::DenseMap<Value, Value> scalars;
    SmallVector<Operation *> body;
    for (int64_t op = 0; op < layers.period; ++op) {
      SmallVector<Value> operands;
      for (const Layers::Operand &from : layers.operands[op])
        operands.push_back(bodyValue(from, block, body, builder, scalars));
      Operation *copy = at(0, op)->clone();
      copy->setOperands(operands);
      copy->setLoc(locationOf(op));
      body.push_back(builder.insert(copy));
    }
    SmallVector<Value> yielded;
    for (const Layers::Carried &carried : layers.carried)
      yielded.push_back(body[carried.op]->getResult(carried.result));
    for (const Layers::Exported &exported : layers.exported)
      yielded.push_back(body[exported.op]->getResult(exported.result));
    YieldOp::create(builder, repeat.getLoc(), yielded);
  }

  Value bodyValue(const Layers::Operand &from, Block &block, ArrayRef<Operation *> body,
                  OpBuilder &builder, llvm::DenseMap<Value, Value> &scalars) {
    using Operand = Layers::Operand;
    switch (from.kind) {
    case Operand::Internal:
      return body[from.index]->getResult(from.result);
    case Operand::Carried:
      return block.getArgument(from.index);
    case Operand::Stacked:
      return block.getArgument(layers.carried.size() + from.index);
    case Operand::Gathered:
      return block.getArgument(layers.carried.size() + layers.stacked.size() + from.index);
    case Operand::Captured: {
      Value value = layers.captured[from.index];
      auto place = llvm::find(captured, value) - captured.begin();
      return block.getArgument(layers.carried.size() + layers.stacked.size() +
                               layers.gathered.size() + place);
    }
    case Operand::Cloned: {
      Value value = layers.captured[from.index];
      Value &clone = scalars[value];
      if (!clone)
        clone = builder.clone(*value.getDefiningOp())->getResult(0);
      return clone;
    }
    }
    llvm_unreachable("all kinds of operands are listed");
  }

  func::FuncOp func;
  Parameters parameters;
  SmallVector<Operation *> ops;
  Layers layers;
  llvm::SetVector<Value> captured;
};

struct FoldLayers : llmc::impl::FoldLayersBase<FoldLayers> {
  void runOnOperation() override {
    int64_t total = 0;
    for (auto func : getOperation().getOps<func::FuncOp>())
      if (!func.isExternal())
        total += foldAll(func);
    setLayers(total);
  }

  int64_t foldAll(func::FuncOp func) {
    while (true) {
      SmallVector<Operation *> ops = candidateOps(func);
      auto layers = findLayers(ops);
      if (!layers)
        layers = findSingleLayer(ops);
      if (!layers)
        break;
      Folder folder(func, std::move(ops), std::move(*layers));
      if (!folder.canStack())
        break;
      folder.fold();
      ++numRepeats;
    }
    int64_t total = 0;
    for (auto repeat : func.getBody().front().getOps<RepeatOp>())
      total += repeat.getCount() * graph::layersInBody(repeat);
    if (total) {
      IRRewriter rewriter(func.getContext());
      (void)runRegionDCE(rewriter, func->getRegions());
    }
    return total;
  }

  void setLayers(int64_t total) {
    auto model = getOperation()->getAttrOfType<DictionaryAttr>(graph::kModel);
    NamedAttrList attributes(model);
    attributes.set("layers", Builder(&getContext()).getI64IntegerAttr(std::max<int64_t>(total, 1)));
    getOperation()->setAttr(graph::kModel, attributes.getDictionary(&getContext()));
  }
};

} // namespace
