#include "passes/4-partition/PadDims/DimClasses.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/IntEqClasses.h"
#include "llvm/ADT/MapVector.h"

#include <numeric>

using namespace mlir;
using namespace llmc;
using namespace llmc::parallel;
using graph::FactorKind;

namespace {
class Collector {
public:
  Collector(ModuleOp module, MeshAttr mesh) : module(module), mesh(mesh), symbols(module) {}

  SmallVector<DimClass> run() {
    module.walk<WalkOrder::PreOrder>([&](Operation *op) { visit(op); });
    llvm::MapVector<unsigned, DimClass> byLeader;
    for (auto [id, node] : llvm::enumerate(nodes))
      merge(byLeader[classes.findLeader(id)], node);
    return llvm::map_to_vector(byLeader, [](auto &entry) { return std::move(entry.second); });
  }

private:
  struct Node {
    Value value;
    Operation *state = nullptr;
    int64_t dim = 0, size = 0, multiple = 1;
    bool isIndexed = false, isFixed = false, isCropped = false;
  };

  static void merge(DimClass &c, const Node &node) {
    c.size = node.size;
    c.multiple = std::lcm(c.multiple, node.multiple);
    c.mayGrow |= node.isIndexed || node.isCropped;
    c.isFixed |= node.isFixed;
    if (node.state)
      c.states.push_back({node.state, node.dim});
    else
      c.dims.push_back({node.value, node.dim});
  }

  void tie(unsigned a, unsigned b) { classes.join(a, b); }

  // Returns the number of a dimension, and whether it is new: then `nodes` has an empty node for it.
  std::pair<unsigned, bool> find(const void *key, int64_t dim) {
    auto [entry, isNew] = ids.try_emplace({key, dim}, nodes.size());
    if (isNew) {
      nodes.emplace_back().dim = dim;
      classes.grow(nodes.size());
    }
    return {entry->second, isNew};
  }
  static Axes axesOf(ShardingAttr sharding, int64_t dim) {
    return Axes(sharding.getDims()[dim].getAsRange<StringAttr>());
  }
  unsigned at(Value value, int64_t dim) {
    auto [id, isNew] = find(value.getAsOpaquePointer(), dim);
    if (!isNew)
      return id;
    Node &node = nodes[id];
    node.value = value;
    node.size = cast<RankedTensorType>(value.getType()).getShape()[dim];
    node.multiple = getGroupSize(mesh, axesOf(getSharding(value), dim));
    return id;
  }
  unsigned at(graph::StateOp state, int64_t dim) {
    auto [id, isNew] = find(state.getOperation(), dim);
    if (!isNew)
      return id;
    Node &node = nodes[id];
    node.state = state;
    node.size = cast<RankedTensorType>(state.getType()).getShape()[dim];
    if (auto sharding = state->getAttrOfType<ShardingAttr>(kSharding))
      node.multiple = getGroupSize(mesh, axesOf(sharding, dim));
    return id;
  }

  void tieAll(Value a, int64_t firstA, Value b, int64_t firstB) {
    int64_t rank = cast<RankedTensorType>(a.getType()).getRank() - firstA;
    for (int64_t d = 0; d < rank; ++d)
      tie(at(a, firstA + d), at(b, firstB + d));
  }
  // Requires that the cuts that a use asks for divide the class as well.
  void require(OpOperand &use) {
    for (auto [d, axes] : llvm::enumerate(getAxes(getRequired(use)))) {
      unsigned id = at(use.get(), d);
      if (!axes.empty())
        nodes[id].multiple = std::lcm(nodes[id].multiple, getGroupSize(mesh, axes));
    }
  }

  void visit(Operation *op) {
    for (OpOperand &use : op->getOpOperands())
      if (isa<RankedTensorType>(use.get().getType()))
        require(use);
    if (auto graphOp = dyn_cast<graph::GraphOpInterface>(op))
      return visitCompute(graphOp);
    if (auto repeat = dyn_cast<graph::RepeatOp>(op))
      return visitRepeat(repeat);
    if (auto func = dyn_cast<func::FuncOp>(op))
      return visitFunction(func);
  }

  void visitCompute(graph::GraphOpInterface op) {
    graph::ShardingRule rule = op.getShardingRule();
    bool looksUp = isa<graph::GatherOp, graph::ScatterAddOp, graph::TakeAlongOp, graph::OneHotOp>(
        op.getOperation());
    // A merged dimension has another size than its factors: none of them grows.
    SmallVector<bool> merged(rule.factors.size(), false);
    for (ArrayRef<graph::TensorFactors> tensors :
         {ArrayRef<graph::TensorFactors>(rule.operands), ArrayRef<graph::TensorFactors>(rule.results)})
      for (const graph::TensorFactors &dims : tensors)
        for (const graph::DimFactors &factors : dims)
          for (unsigned factor : factors)
            merged[factor] = merged[factor] || factors.size() > 1;
    SmallVector<int> first(rule.factors.size(), -1);
    auto tensor = [&](Value value, const graph::TensorFactors &dims) {
      for (auto [d, factors] : llvm::enumerate(dims)) {
        unsigned id = at(value, d);
        for (unsigned factor : factors) {
          nodes[id].isFixed |= merged[factor] || rule.factors[factor].kind == FactorKind::Replicated;
          nodes[id].isIndexed |= looksUp && static_cast<int>(factor) == rule.offsetFactor;
          if (factors.size() > 1)
            continue;
          if (first[factor] < 0)
            first[factor] = id;
          tie(first[factor], id);
        }
      }
    };
    for (auto [i, dims] : llvm::enumerate(rule.operands))
      tensor(op->getOperand(i), dims);
    for (auto [i, dims] : llvm::enumerate(rule.results))
      tensor(op->getResult(i), dims);
  }

  void visitRepeat(graph::RepeatOp op) {
    Block &body = op.getBlock();
    unsigned carried = op.getCarried().size(), stacked = op.getStacked().size();
    for (OpOperand &use : op->getOpOperands()) {
      unsigned i = use.getOperandNumber();
      tieAll(use.get(), i >= carried && i < carried + stacked, body.getArgument(i), 0);
    }
    for (OpResult result : op->getResults()) {
      unsigned i = result.getResultNumber();
      Value inner = body.getTerminator()->getOperand(i);
      tieAll(result, i >= carried, inner, 0);
      if (i < carried)
        tieAll(inner, 0, body.getArgument(i), 0);
    }
  }

  void tieToState(Value value, Attribute name) {
    auto symbol = dyn_cast_or_null<FlatSymbolRefAttr>(name);
    auto state = symbol ? symbols.lookup<graph::StateOp>(symbol.getAttr()) : graph::StateOp();
    int64_t rank = state ? cast<RankedTensorType>(value.getType()).getRank() : 0;
    for (int64_t d = 0; d < rank; ++d)
      tie(at(value, d), at(state, d));
  }
  void visitFunction(func::FuncOp func) {
    for (BlockArgument arg : func.getArguments()) {
      tieToState(arg, func.getArgAttr(arg.getArgNumber(), kState));
      int64_t rank = cast<RankedTensorType>(arg.getType()).getRank();
      for (int64_t d = 0; d < rank; ++d)
        nodes[at(arg, d)].isFixed |= bool(func.getArgAttr(arg.getArgNumber(), kInput));
    }
    for (OpOperand &use : func.getBody().front().getTerminator()->getOpOperands()) {
      tieToState(use.get(), func.getResultAttr(use.getOperandNumber(), kState));
      if (!func.getResultAttr(use.getOperandNumber(), kOutput))
        continue;
      for (int64_t d = 0; d < cast<RankedTensorType>(use.get().getType()).getRank(); ++d)
        nodes[at(use.get(), d)].isCropped = true;
    }
  }

  ModuleOp module;
  MeshAttr mesh;
  SymbolTable symbols;
  llvm::DenseMap<std::pair<const void *, int64_t>, unsigned> ids;
  std::vector<Node> nodes;
  llvm::IntEqClasses classes;
};
} // namespace

SmallVector<DimClass> llmc::collectDimClasses(ModuleOp module, MeshAttr mesh) {
  return Collector(module, mesh).run();
}
