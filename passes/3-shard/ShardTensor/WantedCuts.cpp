#include "passes/3-shard/ShardTensor/WantedCuts.h"

#include "dialects/parallel/Annotations.h"
#include "mlir/IR/SymbolTable.h"

using namespace mlir;
using namespace llmc;
using namespace llmc::parallel;

namespace {

graph::StateOp parameterOf(BlockArgument argument, func::FuncOp func, const SymbolTable &symbols) {
  auto name = func.getArgAttrOfType<FlatSymbolRefAttr>(argument.getArgNumber(), kState);
  auto state = name ? symbols.lookup<graph::StateOp>(name.getAttr()) : graph::StateOp();
  return state && state.getRole() == graph::Role::parameter && state.getViews() ? state
                                                                                : graph::StateOp();
}

// Holds what the file asks for one view of a state: parts per dimension, 0 where it asks nothing.
struct ViewWish {
  SmallVector<int64_t> parts;
  std::string weight, node;
};

ViewWish wishOf(graph::StateOp state, graph::ViewAttr view, int64_t rank, const SymbolTable &symbols) {
  ViewWish wish{SmallVector<int64_t>(rank, 0), {}, {}};
  auto source = symbols.lookup<graph::SourceOp>(view.getSource().getAttr());
  auto annotation = source ? source->getAttrOfType<DictionaryAttr>(graph::kAnnotation) : nullptr;
  auto cuts = annotation ? annotation.getAs<DenseI64ArrayAttr>("cuts") : nullptr;
  if (!cuts)
    return wish;
  wish.weight = source.getSymName().str();
  wish.node = annotation.getAs<StringAttr>("node").getValue().str();
  auto shape = cast<RankedTensorType>(source.getType()).getShape();
  int64_t inner = 1;
  for (size_t d = shape.size(); d-- > 0; inner *= shape[d]) {
    bool isCut = false; // set by the major dimension; the others stay whole
    for (auto [i, step] : llvm::enumerate(view.getStrides()))
      if (step >= inner && step < inner * shape[d] && cuts[d] && !isCut) {
        wish.parts[i + state.getViewedDims()] = cuts[d];
        isCut = cuts[d] > 1;
      }
  }
  return wish;
}

} // namespace

InFlightDiagnostic WantedCut::refuse(Operation *op) const {
  return op->emitError("the model annotates node '")
         << node << "' with weight '" << weight << "' cut in " << parts << " along dimension " << dim;
}

FailureOr<SmallVector<WantedCut>> llmc::parallel::readWantedCuts(func::FuncOp func, int64_t parts) {
  SmallVector<WantedCut> wanted;
  SymbolTable symbols(func->getParentOfType<ModuleOp>());
  for (BlockArgument argument : func.getArguments()) {
    graph::StateOp state = parameterOf(argument, func, symbols);
    if (!state)
      continue;
    int64_t rank = cast<RankedTensorType>(argument.getType()).getRank();
    SmallVector<ViewWish> wishes;
    for (auto view : state.getViews()->getAsRange<graph::ViewAttr>())
      wishes.push_back(wishOf(state, view, rank, symbols));
    for (int64_t dim = 0; dim < rank; ++dim) {
      const ViewWish *said = nullptr;
      for (const ViewWish &wish : wishes) {
        if (!wish.parts[dim])
          continue;
        WantedCut one{argument, dim, wish.parts[dim], wish.weight, wish.node};
        if (said && said->parts[dim] != wish.parts[dim])
          return one.refuse(func) << ", and node '" << said->node << "' with weight '"
                                  << said->weight << "' in " << said->parts[dim]
                                  << ": they belong to layers that run as one";
        if (wish.parts[dim] != 1 && wish.parts[dim] != parts)
          return one.refuse(func) << ", tp is " << parts << ": choose a mesh that fits";
        if (!said)
          wanted.push_back(one);
        said = &wish;
      }
    }
  }
  return wanted;
}
