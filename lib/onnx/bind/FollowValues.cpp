// Propagates annotations of values to the weights that decide how these are sharded.
#include "dialects/graph/Build.h"
#include "dialects/graph/GraphAttrs.h"
#include "lib/onnx/file/Annotations.h"
#include "lib/onnx/file/Node.h"
#include "mlir/IR/SymbolTable.h"

using namespace mlir;
using namespace llmc;
using namespace llmc::onnximport;
using llmc::support::error;
using llmc::support::Status;

namespace {

// Finds all dimensions of arguments that are sharded with a dimension of a value.
class Tracer {
public:
  using Place = std::pair<Value, int64_t>;

  SmallVector<std::pair<BlockArgument, int64_t>> run(Value value, int64_t dim) {
    reach(value, dim);
    for (size_t i = 0; i < open.size(); ++i) {
      auto [at, d] = open[i];
      if (auto result = dyn_cast<OpResult>(at))
        cross(result.getOwner(), ruleOf(result.getOwner()).results, result.getResultNumber(), d);
      for (OpOperand &use : at.getUses())
        cross(use.getOwner(), ruleOf(use.getOwner()).operands, use.getOperandNumber(), d);
    }
    return arguments;
  }

private:
  const graph::ShardingRule &ruleOf(Operation *op) {
    auto [it, isNew] = rules.try_emplace(op);
    auto compute = dyn_cast<graph::GraphOpInterface>(op);
    if (isNew && compute)
      it->second = compute.getShardingRule();
    return it->second;
  }

  void reach(Value value, int64_t dim) {
    if (!seen.insert({value, dim}).second)
      return;
    auto argument = dyn_cast<BlockArgument>(value);
    if (argument)
      arguments.push_back({argument, dim});
    if (!argument || open.empty()) // an argument ends the search unless it is the start
      open.push_back({value, dim});
  }

  // Reaches the dimensions that share the factor of dimension `dim` of tensor `index` of an op.
  void cross(Operation *op, ArrayRef<graph::TensorFactors> tensors, size_t index, int64_t dim) {
    if (index >= tensors.size() || tensors[index][dim].empty())
      return;
    const graph::ShardingRule &rule = ruleOf(op);
    unsigned factor = tensors[index][dim].front();
    if (rule.factors[factor].kind == graph::FactorKind::Replicated)
      return;
    auto visit = [&](Value other, const graph::TensorFactors &tensor) {
      for (auto [d, factors] : llvm::enumerate(tensor))
        if (!factors.empty() && factors.front() == factor)
          reach(other, d);
    };
    for (auto [other, tensor] : llvm::zip(op->getOperands(), rule.operands))
      visit(other, tensor);
    for (auto [other, tensor] : llvm::zip(op->getResults(), rule.results))
      visit(other, tensor);
  }

  llvm::DenseMap<Operation *, graph::ShardingRule> rules;
  llvm::DenseSet<Place> seen;
  SmallVector<Place> open;
  SmallVector<std::pair<BlockArgument, int64_t>> arguments;
};

// Returns the dimension of the source that a dimension of a parameter strides along, or -1.
int64_t sourceDim(graph::ViewAttr view, ArrayRef<int64_t> shape, int64_t dim) {
  int64_t inner = 1, step = view.getStrides()[dim];
  for (int64_t d = shape.size(); d-- > 0; inner *= shape[d])
    if (step >= inner && step < inner * shape[d])
      return d;
  return -1;
}

class Follower {
public:
  Follower(func::FuncOp forward, const CompileOptions &options) : forward(forward), options(options) {}

  Status follow(const AnnotatedValue &annotated, int64_t dim, int64_t parts) {
    const ValueAnnotation &said = *annotated.annotation;
    bool follows = false;
    for (auto [argument, d] : Tracer().run(annotated.value, dim)) {
      if (auto input = forward.getArgAttrOfType<StringAttr>(argument.getArgNumber(), graph::kInput)) {
        if (parts > 1 && (d != 0 || parts != options.dp))
          return error("node '", said.node, "' wants '", said.value, "' cut in ", parts,
                       " along axis ", dim, ", which is dimension ", d, " of input '",
                       input.getValue().str(), "': only its rows are cut, in dp = ", options.dp);
        follows = true;
      } else if (Status s = want(argument, d, parts, said, dim); !s) {
        return s;
      } else {
        follows = true;
      }
    }
    if (!follows && parts > 1)
      return error("node '", said.node, "' wants '", said.value, "' cut in ", parts, " along axis ",
                   dim, ", but no weight and no input is cut with it: leave the annotation out");
    return support::ok();
  }

private:
  Status want(BlockArgument argument, int64_t dim, int64_t parts, const ValueAnnotation &said,
              int64_t axis) {
    auto name = forward.getArgAttrOfType<FlatSymbolRefAttr>(argument.getArgNumber(), graph::kState);
    auto state = name ? SymbolTable::lookupNearestSymbolFrom<graph::StateOp>(forward, name)
                      : graph::StateOp();
    if (!state || !state.getViews())
      return support::ok();
    auto view = cast<graph::ViewAttr>((*state.getViews())[0]);
    auto source = SymbolTable::lookupNearestSymbolFrom<graph::SourceOp>(state, view.getSource());
    auto shape = cast<RankedTensorType>(source.getType()).getShape();
    int64_t d = sourceDim(view, shape, dim);
    if (d < 0)
      return support::ok();
    NamedAttrList list(source->getAttrOfType<DictionaryAttr>(graph::kAnnotation));
    SmallVector<int64_t> cuts(shape.size(), 0);
    if (auto before = dyn_cast_or_null<DenseI64ArrayAttr>(list.get("cuts")))
      cuts.assign(before.asArrayRef().begin(), before.asArrayRef().end());
    auto first = dyn_cast_or_null<StringAttr>(list.get("node"));
    bool elsewhere = parts > 1 && llvm::any_of(llvm::enumerate(cuts), [&](auto cut) {
      return cut.value() > 1 && int64_t(cut.index()) != d;
    });
    if (parts > 1 && ((cuts[d] && cuts[d] != parts) || elsewhere))
      return error("node '", said.node, "' wants '", said.value, "' cut in ", parts, " along axis ",
                   axis, ", which cuts weight '", source.getSymName().str(), "' along ", d,
                   "; node '", first ? first.getValue().str() : "", "' wants that cut otherwise");
    if (cuts[d])
      return support::ok(); // cut as wanted, or gathered where it is wanted whole
    cuts[d] = parts;
    Builder b(source.getContext());
    if (!first)
      list.set("node", b.getStringAttr(said.node));
    list.set("cuts", b.getDenseI64ArrayAttr(cuts));
    source->setAttr(graph::kAnnotation, list.getDictionary(b.getContext()));
    return support::ok();
  }

  func::FuncOp forward;
  const CompileOptions &options;
};

} // namespace

Status llmc::onnximport::followValues(func::FuncOp forward, llvm::ArrayRef<AnnotatedValue> values,
                                      const CompileOptions &options) {
  Follower follower(forward, options);
  for (bool whole : {false, true}) // cuts first: they take precedence over whole dims
    for (const AnnotatedValue &annotated : values) {
      int64_t rank = graph::shapeOf(annotated.value).size();
      SmallVector<int64_t> parts(rank, 1);
      for (auto [axis, count] : annotated.annotation->cuts) {
        auto dim = normalAxis(axis, rank);
        if (!dim)
          return error("node '", annotated.annotation->node, "' wants '",
                       annotated.annotation->value, "' cut along axis ", axis, " of ", rank);
        parts[*dim] = count;
      }
      for (int64_t dim = 0; dim < rank; ++dim)
        if ((parts[dim] == 1) == whole)
          if (Status s = follower.follow(annotated, dim, parts[dim]); !s)
            return s;
    }
  return support::ok();
}
