#include "dialects/parallel/WantedStages.h"

#include "dialects/parallel/Annotations.h"
#include "mlir/IR/SymbolTable.h"
#include "llvm/Support/InterleavedRange.h"

using namespace mlir;
using namespace llmc;
using namespace llmc::parallel;

namespace {

struct Wanted {
  StringRef weight;
  ArrayRef<int64_t> stages;
  StringRef node;
};

graph::StateOp stateOf(Value value, const SymbolTable &symbols) {
  auto argument = dyn_cast<BlockArgument>(value);
  auto func = argument ? dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp()) : nullptr;
  auto name = func ? func.getArgAttrOfType<FlatSymbolRefAttr>(argument.getArgNumber(), kState)
                   : FlatSymbolRefAttr();
  return name ? symbols.lookup<graph::StateOp>(name.getAttr()) : nullptr;
}

// Returns the stages that the file asks for the weight of view `i` of a state, if any.
std::optional<Wanted> wantedOf(graph::StateOp state, int64_t i, const SymbolTable &symbols) {
  auto view = cast<graph::ViewAttr>((*state.getViews())[i]);
  auto source = symbols.lookup<graph::SourceOp>(view.getSource().getAttr());
  auto annotation = source ? source->getAttrOfType<DictionaryAttr>(graph::kAnnotation) : nullptr;
  auto stages = annotation ? annotation.getAs<DenseI64ArrayAttr>("stages") : nullptr;
  if (!stages || stages.empty())
    return std::nullopt;
  return Wanted{source.getSymName(), stages.asArrayRef(), annotation.getAs<StringAttr>("node").getValue()};
}

InFlightDiagnostic refuse(Operation *op, const Wanted &wanted) {
  return op->emitError("the model annotates node '")
         << wanted.node << "' (weight '" << wanted.weight << "') for pipeline stage "
         << llvm::interleaved(wanted.stages);
}

// Returns the stage that the file asks for one group of layers, null if none. Fails with an error
// where two weights of the group are annotated differently.
FailureOr<std::optional<Wanted>> wantedGroup(graph::RepeatOp repeat, int64_t group, const SymbolTable &symbols) {
  std::optional<Wanted> out;
  for (Value operand : repeat.getStacked()) {
    graph::StateOp state = stateOf(operand, symbols);
    if (!state || !state.getStacked() || !state.getViews() ||
        int64_t(state.getViews()->size()) != int64_t(repeat.getCount()))
      continue;
    std::optional<Wanted> own = wantedOf(state, group, symbols);
    if (own && own->stages.size() > 1)
      continue; // used in several: it decides nothing for this layer
    if (own && out && own->stages != out->stages) {
      auto text = refuse(repeat, *own) << " and node '" << out->node << "' for "
                                       << llvm::interleaved(out->stages)
                                       << ": they belong to layers that run as one";
      return failure();
    }
    if (own)
      out = own;
  }
  return out;
}

} // namespace

FailureOr<SmallVector<int64_t>>
llmc::parallel::readWantedGroups(ArrayRef<graph::RepeatOp> repeats, int64_t stages) {
  SmallVector<int64_t> counts(stages, 0);
  int64_t stage = 0, open = 0; // groups before the first annotated one
  bool any = false;
  if (repeats.empty())
    return SmallVector<int64_t>();
  SymbolTable symbols(repeats.front()->getParentOfType<ModuleOp>()); // of as many sources as there are tensors
  for (graph::RepeatOp repeat : repeats)
    for (int64_t group = 0; group < int64_t(repeat.getCount()); ++group) {
      auto wanted = wantedGroup(repeat, group, symbols);
      if (failed(wanted))
        return failure();
      if (!*wanted) {
        ++(any ? counts[stage] : open);
        continue;
      }
      const Wanted &own = **wanted;
      int64_t wantedStage = own.stages.front();
      if ((wantedStage != stage && wantedStage != stage + 1) || wantedStage >= stages) {
        refuse(repeat, own) << ", layers before it are on stage " << stage << " of " << stages
                            << ": stages follow each other, none is left out";
        return failure();
      }
      if (!any && wantedStage == 1 && open == 0) {
        refuse(repeat, own) << ", no layer is on stage 0 of " << stages;
        return failure();
      }
      counts[0] += std::exchange(open, 0);
      stage = wantedStage;
      any = true;
      ++counts[stage];
    }
  if (!any)
    return SmallVector<int64_t>();
  if (stage + 1 != stages) {
    repeats.front()->emitError("the model's annotations end with pipeline stage ")
        << stage << ", the mesh has " << stages << ": use pp = " << stage + 1;
    return failure();
  }
  return counts;
}

LogicalResult llmc::parallel::checkWantedStages(func::FuncOp func) {
  SymbolTable symbols(func->getParentOfType<ModuleOp>());
  for (BlockArgument argument : func.getArguments()) {
    graph::StateOp state = stateOf(argument, symbols);
    if (!state || state.getStacked() || !state.getViews() ||
        state.getRole() != graph::Role::parameter)
      continue;
    std::optional<Wanted> wanted = wantedOf(state, 0, symbols);
    if (!wanted)
      continue;
    for (Operation *user : argument.getUsers()) {
      auto stage = user->getAttrOfType<IntegerAttr>(kStage);
      if (!stage || user->hasAttr(kBackward))
        continue;
      MeshAttr mesh = getMesh(func); // whose stages the file means: of virtual stages there are more
      int64_t own = stage.getInt() % (mesh ? mesh.getSize(planfile::AxisRole::Stages) : 1);
      if (llvm::is_contained(wanted->stages, own))
        continue;
      refuse(user, *wanted) << ", it stands on stage " << own
                            << ": what is before the layers is on the first stage, what is "
                               "behind them on the last";
      return failure();
    }
  }
  return success();
}
