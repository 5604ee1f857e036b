// Implements tactic `state`: marks states that the ranks of a data group share out.
#include "passes/3-shard/Passes.h"

#include "dialects/graph/GraphAttrs.h"
#include "dialects/parallel/Annotations.h"

namespace llmc {
#define GEN_PASS_DEF_SHARDSTATE
#include "passes/3-shard/Passes.h.inc"

using namespace mlir;
using namespace parallel;
namespace {

// Returns the least stage of ZeRO that shares out a state; above 3: none does.
int stageOf(graph::StateOp state) {
  switch (state.getRole()) {
  case graph::Role::master:
  case graph::Role::moment1:
  case graph::Role::moment2:
    return 1;
  case graph::Role::accumulator:
    return state.getOf() ? 2 : 4; // the step's own sums are scalars
  case graph::Role::parameter:
    return 3;
  }
  llvm_unreachable("a state has one of the roles");
}

struct ShardState : impl::ShardStateBase<ShardState> {
  using ShardStateBase::ShardStateBase;
  void runOnOperation() override {
    ModuleOp module = getOperation();
    MeshAttr mesh = getMesh(module);
    if (!mesh || zero < 0 || zero > 3) {
      if (!mesh)
        module.emitError("tactic state needs parallel.mesh");
      else
        module.emitError("zero is ") << int(zero) << ", expected 0 to 3";
      return signalPassFailure();
    }
    if (isInference(module))
      return;
    SymbolTable symbols(module);
    for (auto state : module.getOps<graph::StateOp>()) {
      auto of = state.getOf() ? symbols.lookup<graph::StateOp>(*state.getOf()) : state;
      if (of && of->hasAttr(graph::kBiasRate)) // its update reads all experts
        continue;
      SmallVector<Attribute> axes = sharersOf(state, mesh);
      if (!axes.empty() && stageOf(state) <= zero)
        state->setAttr(kFlatAxes, ArrayAttr::get(&getContext(), axes));
    }
  }

  // Returns the axes of data-parallel ranks that hold the same of a state: those that do not cut it, as the
  // axes of ep cut experts.
  static SmallVector<Attribute> sharersOf(graph::StateOp state, MeshAttr mesh) {
    SmallVector<Axes> cuts;
    if (auto sharding = state->getAttrOfType<ShardingAttr>(kSharding))
      cuts = getAxes(sharding);
    SmallVector<Attribute> axes;
    for (planfile::AxisRole role : {planfile::AxisRole::Data, planfile::AxisRole::Context})
      for (StringAttr axis : mesh.getAxes(role))
        if (mesh.getSize(axis.getValue()) > 1 && !llvm::is_contained(axes, axis) &&
            llvm::none_of(cuts, [&](const Axes &dim) { return llvm::is_contained(dim, axis); }))
          axes.push_back(axis);
    return axes;
  }
};

} // namespace
} // namespace llmc
