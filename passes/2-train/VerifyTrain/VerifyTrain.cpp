// Checks, at the end of the phase, that every parameter is trained exactly once.
#include "dialects/graph/Build.h"
#include "dialects/graph/GraphAttrs.h"
#include "passes/2-train/Passes.h"

using namespace mlir;
using namespace llmc;
using namespace llmc::graph;

namespace llmc {
#define GEN_PASS_DEF_VERIFYTRAIN
#include "passes/2-train/Passes.h.inc"
} // namespace llmc

namespace {

// Lists the states that a function binds among its arguments and results, in order.
struct Bindings {
  SmallVector<StateOp> arguments, results;
  bool takes(StateOp state) const { return llvm::is_contained(arguments, state); }
  bool returns(StateOp state) const { return llvm::is_contained(results, state); }
};

class VerifyTrain : public llmc::impl::VerifyTrainBase<VerifyTrain> {
  void runOnOperation() override;

  void checkFunctions();                                    // C1
  Bindings bindingsOf(func::FuncOp function);               // C2, C3
  void checkParameters();                                   // C4, C5, C9
  void checkMicroResults();                                 // C6
  void checkDirection(Block &block, bool insideBackward);   // C7
  void checkUses();                                         // C8
  void checkOutputs();                                      // C10

  InFlightDiagnostic fail(Operation *op) {
    failedOnce = true;
    return op->emitError();
  }

  func::FuncOp micro, update;
  Bindings microStates, updateStates;
  bool failedOnce;
};

void VerifyTrain::checkFunctions() {
  micro = getOperation().lookupSymbol<func::FuncOp>("micro");
  update = getOperation().lookupSymbol<func::FuncOp>("update");
  for (auto [name, function] : {std::pair("micro", micro), {"update", update}})
    if (!function || function.isExternal())
      fail(getOperation()) << "C1: the module has no function @" << name << " with a body";
  if (Operation *forward = getOperation().lookupSymbol("forward"))
    fail(forward) << "C1: @forward is still there, expected @micro in its place";
}

Bindings VerifyTrain::bindingsOf(func::FuncOp function) {
  Bindings bindings;
  auto read = [&](Attribute attribute, Type type, StringRef what, unsigned index,
                  SmallVectorImpl<StateOp> &states) {
    if (!attribute)
      return;
    auto symbol = dyn_cast<FlatSymbolRefAttr>(attribute);
    auto state = symbol ? getOperation().lookupSymbol<StateOp>(symbol.getValue()) : StateOp();
    if (!state) {
      fail(function) << "C2: " << what << " " << index << " is bound to " << attribute
                     << ", which is no graph.state";
      return;
    }
    if (state.getType() != type)
      fail(function) << "C2: " << what << " " << index << " has type " << type << ", expected "
                     << state.getType() << ", the type of @" << state.getSymName();
    if (llvm::is_contained(states, state))
      fail(function) << "C3: @" << state.getSymName() << " is bound twice among the " << what
                     << "s";
    states.push_back(state);
  };
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    read(function.getArgAttr(i, graph::kState), function.getArgumentTypes()[i], "argument", i,
         bindings.arguments);
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    read(function.getResultAttr(i, graph::kState), function.getResultTypes()[i], "result", i,
         bindings.results);
  return bindings;
}

void VerifyTrain::checkParameters() {
  DenseMap<StringAttr, SmallVector<StateOp>> companions;
  for (auto state : getOperation().getOps<StateOp>())
    if (state.getOf())
      companions[state.getOfAttr().getAttr()].push_back(state);
  for (auto parameter : getOperation().getOps<StateOp>()) {
    if (parameter.getRole() != Role::parameter)
      continue;
    StringRef name = parameter.getSymName();
    if (!microStates.takes(parameter))
      fail(parameter) << "C4: parameter @" << name << " is no argument of @micro";
    auto isMaster = [](StateOp state) { return state.getRole() == Role::master; };
    bool hasMaster = llvm::any_of(companions.lookup(parameter.getSymNameAttr()), isMaster);
    if (!hasMaster && !updateStates.takes(parameter))
      fail(parameter) << "C4: parameter @" << name
                      << " is no argument of @update and has no master";
    Type element = cast<ShapedType>(parameter.getType()).getElementType();
    if (hasMaster != (element.getIntOrFloatBitWidth() < 32))
      fail(parameter) << "C11: parameter @" << name << " in " << element << " has "
                      << (hasMaster ? "a" : "no") << " master, expected one for low types alone";
    if (!updateStates.returns(parameter))
      fail(parameter) << "C9: @update does not return parameter @" << name;
    int64_t accumulators = 0;
    for (StateOp state : companions.lookup(parameter.getSymNameAttr())) {
      accumulators += state.getRole() == Role::accumulator;
      auto shape = cast<ShapedType>(state.getType()).getShape();
      if (shape != cast<ShapedType>(parameter.getType()).getShape())
        fail(state) << "C5: @" << state.getSymName() << " has type " << state.getType()
                    << ", expected the shape of @" << name << ", " << parameter.getType();
      if (!updateStates.takes(state) || !updateStates.returns(state))
        fail(state) << "C9: @update does not take and return @" << state.getSymName()
                    << ", which belongs to parameter @" << name;
    }
    if (accumulators != 1)
      fail(parameter) << "C5: parameter @" << name << " has " << accumulators
                      << " accumulators, expected 1";
  }
}

void VerifyTrain::checkMicroResults() {
  SmallVector<StateOp> expected;
  for (StateOp state : microStates.arguments)
    if (state.getRole() == Role::accumulator)
      expected.push_back(state);
  for (auto state : getOperation().getOps<StateOp>())
    if (state.getRole() == Role::accumulator && !microStates.takes(state))
      fail(state) << "C6: accumulator @" << state.getSymName() << " is no argument of @micro";
  if (micro.getNumResults() != microStates.results.size() || microStates.results != expected) {
    auto diagnostic = fail(micro) << "C6: @micro returns";
    auto list = [&](ArrayRef<StateOp> states) {
      for (StateOp state : states)
        diagnostic << " @" << state.getSymName();
    };
    list(microStates.results);
    diagnostic << " in " << micro.getNumResults()
               << " results, expected its accumulators in argument order:";
    list(expected);
  }
}

void VerifyTrain::checkDirection(Block &block, bool insideBackward) {
  for (Operation &op : block) {
    bool isBackward = op.hasAttr(graph::kBackward);
    bool isTerminator = op.hasTrait<OpTrait::IsTerminator>();
    if (insideBackward && !isBackward && !isTerminator)
      fail(&op) << "C7: a forward op stands in the body of a backward repeat";
    bool isReturn = isTerminator && isa<func::FuncOp>(block.getParentOp());
    if (!isBackward && !isReturn && !insideBackward)
      for (auto [i, operand] : llvm::enumerate(op.getOperands()))
        if (Operation *made = operand.getDefiningOp(); made && made->hasAttr(graph::kBackward)) {
          auto diagnostic = fail(&op) << "C7: operand " << i << " of a forward op is a backward "
                                         "value; forward must not wait for backward";
          diagnostic.attachNote(made->getLoc()) << "made by this backward op";
        }
    for (Region &region : op.getRegions())
      for (Block &inner : region)
        checkDirection(inner, isBackward);
  }
}

void VerifyTrain::checkUses() {
  micro.getBody().walk([&](Operation *op) {
    if (isOpTriviallyDead(op))
      fail(op) << "C8: nothing reads the results of this op";
    if (auto repeat = dyn_cast<RepeatOp>(op))
      for (auto [i, result] : llvm::enumerate(repeat.getStackedResults()))
        if (result.use_empty())
          fail(op) << "C8: nothing reads stacked result " << i << " of this repeat";
  });
}

void VerifyTrain::checkOutputs() {
  std::map<StringRef, int> seen;
  auto scalar = RankedTensorType::get({}, Float32Type::get(&getContext()));
  for (unsigned i = 0; i < update.getNumResults(); ++i)
    if (auto name = update.getResultAttrOfType<StringAttr>(i, graph::kOutput)) {
      ++seen[name.getValue()];
      if (update.getResultTypes()[i] != scalar)
        fail(update) << "C10: output " << name << " has type " << update.getResultTypes()[i]
                     << ", expected " << scalar;
    }
  for (StringRef name : {"loss", "grad_norm", "tokens"})
    if (seen[name] != 1)
      fail(update) << "C10: @update returns output \"" << name << "\" " << seen[name]
                   << " times, expected once";
}

void VerifyTrain::runOnOperation() {
  failedOnce = false;
  checkFunctions();
  if (failedOnce)
    return signalPassFailure();
  microStates = bindingsOf(micro);
  updateStates = bindingsOf(update);
  checkParameters();
  checkMicroResults();
  checkDirection(micro.getBody().front(), /*insideBackward=*/false);
  checkUses();
  checkOutputs();
  if (failedOnce)
    signalPassFailure();
  markAllAnalysesPreserved();
}

} // namespace
