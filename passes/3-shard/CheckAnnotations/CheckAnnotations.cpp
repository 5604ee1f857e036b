// Compares the cuts of weights with those that the model's file asks for.
#include "passes/3-shard/Passes.h"

#include "dialects/parallel/Annotations.h"
#include "mlir/IR/SymbolTable.h"

namespace llmc {
#define GEN_PASS_DEF_CHECKANNOTATIONS
#include "passes/3-shard/Passes.h.inc"

using namespace mlir;
using namespace parallel;
namespace {

// Returns in how many parts each dimension of a source is cut where this state holds it. A
// dimension of the state belongs to the source dimension within whose extent its stride lies.
SmallVector<int64_t> partsOf(graph::StateOp state, graph::ViewAttr view, ArrayRef<int64_t> shape,
                             MeshAttr mesh) {
  SmallVector<int64_t> parts(shape.size(), 1);
  auto sharding = state->getAttrOfType<ShardingAttr>(kSharding);
  if (!sharding)
    return parts;
  SmallVector<Axes> dims = getAxes(sharding);
  for (auto [i, step] : llvm::enumerate(view.getStrides())) {
    int64_t inner = 1;
    for (size_t d = shape.size(); d-- > 0; inner *= shape[d])
      if (step >= inner && step < inner * shape[d])
        parts[d] *= getGroupSize(mesh, dims[i + state.getStacked()]);
  }
  return parts;
}

std::string textOf(ArrayRef<int64_t> parts) {
  std::string text;
  llvm::raw_string_ostream out(text);
  llvm::interleaveComma(parts, out);
  return "[" + text + "]";
}

struct CheckAnnotations : impl::CheckAnnotationsBase<CheckAnnotations> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    MeshAttr mesh = getMesh(module);
    SymbolTable symbols(module);
    for (auto state : module.getOps<graph::StateOp>()) {
      if (!mesh || state.getRole() != graph::Role::parameter || !state.getViews())
        continue;
      for (auto view : state.getViews()->getAsRange<graph::ViewAttr>()) {
        auto source = symbols.lookup<graph::SourceOp>(view.getSource().getAttr());
        auto annotation = source ? source->getAttrOfType<DictionaryAttr>(graph::kAnnotation)
                                 : DictionaryAttr();
        auto cuts = annotation ? annotation.getAs<DenseI64ArrayAttr>("cuts") : nullptr;
        if (!cuts)
          continue;
        auto shape = cast<RankedTensorType>(source.getType()).getShape();
        SmallVector<int64_t> parts = partsOf(state, view, shape, mesh);
        if (llvm::all_of(llvm::zip(cuts.asArrayRef(), parts), [](auto pair) {
              auto [wanted, got] = pair;
              return wanted == 0 || wanted == got; // 0: not stated
            }))
          continue;
        source.emitError("the model annotates node '")
            << annotation.getAs<StringAttr>("node").getValue() << "' with weight '"
            << source.getSymName() << "' cut in " << textOf(cuts.asArrayRef())
            << " parts, the tensor tactic cuts it in " << textOf(parts)
            << ": choose another tp, or leave the annotation out";
        signalPassFailure();
      }
    }
  }
};
} // namespace
} // namespace llmc
