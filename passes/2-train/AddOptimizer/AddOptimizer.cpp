// Adds @update in three steps: sums over the step (tokens, loss, norm of the mean gradient); one
// factor that clips; one optimizer step per parameter, stacked layers at once.
#include "dialects/graph/Build.h"
#include "dialects/graph/GraphAttrs.h"
#include "passes/2-train/Passes.h"

#include <limits>

using namespace mlir;
using namespace llmc;
using namespace llmc::graph;

namespace llmc {
#define GEN_PASS_DEF_ADDOPTIMIZER
#include "passes/2-train/Passes.h.inc"
} // namespace llmc

namespace {

constexpr double kNormEpsilon = 1e-6; // as in torch.nn.utils.clip_grad_norm_

// Holds a parameter and what belongs to it. The values are those that @update takes, then those
// that it returns.
struct Parameter {
  StateOp state, master, accumulator, m, v; // `master` is null where the parameter is in f32
  Value weight, gradient, moment1, moment2; // `weight` is that of the master, if there is one
  Value rounded;                            // the new parameter, where there is a master
  double biasRate = 0; // of a router's bias, whose accumulator counts the tokens of each expert; else 0
  StateOp updated() const { return master ? master : state; }
};

// Returns the name of the output of which a state is the sum.
StringRef outputOf(StateOp state) { return state->getAttrOfType<StringAttr>(graph::kSumOf).getValue(); }

class AddOptimizer : public llmc::impl::AddOptimizerBase<AddOptimizer> {
public:
  using AddOptimizerBase::AddOptimizerBase;

private:
  void runOnOperation() override;

  LogicalResult collect();
  StateOp addCompanion(Parameter &parameter, StringRef suffix, Role role, StateOp behind, SymbolTable &symbols);
  void addMasters(SymbolTable &symbols);
  void addMoments(SymbolTable &symbols);
  void makeFunction(OpBuilder &builder);
  void buildStep(OpBuilder &builder);
  void returnResults(OpBuilder &builder, Value loss, Value norm);
  void updateParameter(OpBuilder &builder, Parameter &parameter, Value factor);
  void takeStep(OpBuilder &builder, Parameter &parameter, Value factor);
  void balance(OpBuilder &builder, Parameter &parameter);
  Location named(StringRef name) {
    return NameLoc::get(StringAttr::get(&getContext(), name));
  }

  SmallVector<Parameter> parameters;
  StateOp lossState, tokensState;
  SmallVector<std::pair<StateOp, Value>> otherSums; // with the names of their outputs
  func::FuncOp update;
  Value lossSum, tokensSum, crossEntropy; // the last is null where the loss is nothing else
  // Tells whether the update takes place, and the output that says so; null: it always does.
  Value isFinite, skipped;
  std::map<std::string, Value> scalars;
};

// Collects the states that @micro binds, in argument order. The accumulators that belong to no
// parameter are the sums of loss and tokens, and those that have the name of an output.
LogicalResult AddOptimizer::collect() {
  auto micro = getOperation().lookupSymbol<func::FuncOp>("micro");
  if (!micro)
    return getOperation().emitError("needs a function @micro, found none; differentiate first");
  SymbolTable symbols(getOperation());
  SmallVector<StateOp> sums;
  DenseMap<StringAttr, StateOp> accumulators;
  for (unsigned i = 0; i < micro.getNumArguments(); ++i) {
    auto symbol = micro.getArgAttrOfType<FlatSymbolRefAttr>(i, graph::kState);
    auto state = symbol ? symbols.lookup<StateOp>(symbol.getValue()) : StateOp();
    if (!state)
      continue;
    if (state.getRole() == Role::parameter) {
      parameters.emplace_back().state = state;
      if (auto rate = state->getAttrOfType<FloatAttr>(graph::kBiasRate))
        parameters.back().biasRate = rate.getValueAsDouble();
      auto type = cast<RankedTensorType>(state.getType());
      Type element = type.getElementType();
      if (!element.isF32() && !element.isBF16() && !element.isF16())
        return state.emitOpError("is a parameter in ")
               << element << ", expected f32, bf16 or f16; import the model with f32 weights";
    } else if (state.getRole() == Role::accumulator) {
      if (state.getOf())
        accumulators[state.getOfAttr().getAttr()] = state;
      else if (state->hasAttr(graph::kSumOf))
        otherSums.push_back({state, Value()});
      else
        sums.push_back(state);
    }
  }
  for (Parameter &parameter : parameters) {
    parameter.accumulator = accumulators.lookup(parameter.state.getSymNameAttr());
    if (!parameter.accumulator)
      return parameter.state.emitOpError("has no accumulator in @micro; differentiate first");
  }
  if (sums.size() != 2)
    return micro.emitError("binds ") << sums.size()
                                     << " accumulators that belong to no parameter and have no graph.sum_of, expected "
                                        "two: the sum of the loss and the count of tokens";
  lossState = sums[0];
  tokensState = sums[1];
  return success();
}

// Adds a state of the parameter's shape in f32.
StateOp AddOptimizer::addCompanion(Parameter &parameter, StringRef suffix, Role role,
                                   StateOp behind, SymbolTable &symbols) {
  OpBuilder builder(parameter.state);
  auto type = cast<RankedTensorType>(parameter.state.getType()).clone(builder.getF32Type());
  auto state = StateOp::create(
      builder, parameter.state.getLoc(), (parameter.state.getSymName() + suffix).str(), type, role,
      FlatSymbolRefAttr::get(parameter.state),
      /*views=*/ArrayAttr(), parameter.state.getStacked(), /*valid_shape=*/ArrayAttr());
  state->remove();
  symbols.insert(state, std::next(Block::iterator(behind)));
  return state;
}

void AddOptimizer::addMasters(SymbolTable &symbols) {
  for (Parameter &parameter : parameters)
    if (!cast<RankedTensorType>(parameter.state.getType()).getElementType().isF32())
      parameter.master =
          addCompanion(parameter, ".master", Role::master, parameter.accumulator, symbols);
}

void AddOptimizer::addMoments(SymbolTable &symbols) {
  for (Parameter &parameter : parameters) {
    StateOp behind = parameter.master ? parameter.master : parameter.accumulator;
    parameter.m = addCompanion(parameter, ".m", Role::moment1, behind, symbols);
    parameter.v = addCompanion(parameter, ".v", Role::moment2, parameter.m, symbols);
  }
}

void AddOptimizer::makeFunction(OpBuilder &builder) {
  SmallVector<Type> types;
  SmallVector<Location> locs;
  SmallVector<DictionaryAttr> attributes;
  auto bind = [&](StateOp state) {
    types.push_back(state.getType());
    locs.push_back(state.getLoc());
    attributes.push_back(builder.getDictionaryAttr(
        builder.getNamedAttr(graph::kState, FlatSymbolRefAttr::get(state))));
  };
  for (Parameter &parameter : parameters)
    bind(parameter.updated());
  for (Parameter &parameter : parameters)
    bind(parameter.accumulator);
  bind(lossState);
  bind(tokensState);
  for (auto [state, sum] : otherSums)
    bind(state);
  for (Parameter &parameter : parameters)
    if (adamw) {
      bind(parameter.m);
      bind(parameter.v);
    }
  SmallVector<StringRef> names = {"lr", "weight_decay", "clip"};
  if (adamw)
    names = {"lr",           "beta1", "beta2",           "eps",
             "weight_decay", "clip",  "bias_correction1", "bias_correction2"};
  if (scaled)
    names.push_back("loss_scale");
  for (StringRef name : names) {
    types.push_back(RankedTensorType::get({}, builder.getF32Type()));
    locs.push_back(named(name));
    attributes.push_back(builder.getDictionaryAttr(
        builder.getNamedAttr(graph::kScalar, builder.getStringAttr(name))));
  }

  update = func::FuncOp::create(builder, builder.getUnknownLoc(), "update",
                                builder.getFunctionType(types, {}));
  update.setAllArgAttrs(attributes);
  Block *body = builder.createBlock(&update.getBody(), {}, types, locs);
  size_t next = 0;
  for (Parameter &parameter : parameters)
    parameter.weight = body->getArgument(next++);
  for (Parameter &parameter : parameters)
    parameter.gradient = body->getArgument(next++);
  lossSum = body->getArgument(next++);
  tokensSum = body->getArgument(next++);
  for (auto &[state, sum] : otherSums)
    sum = body->getArgument(next++);
  for (Parameter &parameter : parameters)
    if (adamw) {
      parameter.moment1 = body->getArgument(next++);
      parameter.moment2 = body->getArgument(next++);
    }
  for (StringRef name : names)
    scalars[name.str()] = body->getArgument(next++);
}

// Returns the names that a person knows: those of the parameter's tensors in the source.
Location locationOf(StateOp state) {
  SmallVector<Location> names;
  if (state.getViews())
    for (auto view : state.getViewsAttr().getAsRange<ViewAttr>()) {
      Location name = NameLoc::get(view.getSource().getAttr());
      if (!llvm::is_contained(names, name))
        names.push_back(name);
    }
  return names.empty() ? state.getLoc() : FusedLoc::get(state.getContext(), names);
}

// Returns whether weight decay applies: to matrices and tables, since scales of norms and biases
// would only shrink. A bias is a vector of its source, also where it is viewed as heads and dims.
bool decays(StateOp state) {
  int64_t rank = cast<RankedTensorType>(state.getType()).getRank() - (state.getStacked() ? 1 : 0);
  if (auto views = state.getViewsAttr(); views && !views.empty())
    if (auto source = SymbolTable::lookupNearestSymbolFrom<SourceOp>(
            state, cast<ViewAttr>(views[0]).getSource()))
      rank = std::min(rank, cast<RankedTensorType>(source.getType()).getRank());
  return rank >= 2;
}

void AddOptimizer::updateParameter(OpBuilder &builder, Parameter &p, Value factor) {
  Build b(builder, locationOf(p.state));
  Parameter old = p;
  if (p.biasRate > 0)
    balance(builder, p);
  else
    takeStep(builder, p, factor);
  if (!isFinite)
    return;
  // Selects rather than multiplies by zero, which would keep a NaN.
  p.weight = b.select(isFinite, p.weight, old.weight);
  if (!adamw)
    return;
  p.moment1 = b.select(isFinite, p.moment1, old.moment1);
  p.moment2 = b.select(isFinite, p.moment2, old.moment2);
}

void AddOptimizer::takeStep(OpBuilder &builder, Parameter &p, Value factor) {
  Build b(builder, locationOf(p.state));
  Value clipped = b.mul(p.gradient, factor);
  if (adamw) {
    auto step = AdamWOp::create(builder, b.loc, p.weight.getType(), p.moment1.getType(),
                                p.moment2.getType(), p.weight, clipped, p.moment1, p.moment2,
                                scalars["lr"], scalars["beta1"], scalars["beta2"], scalars["eps"],
                                scalars["weight_decay"], scalars["bias_correction1"],
                                scalars["bias_correction2"], decays(p.state));
    p.weight = step.getNewParam();
    p.moment1 = step.getNewM();
    p.moment2 = step.getNewV();
    return;
  }
  // As in AdamW, the decay reads the weight from before the step.
  Value step = b.mul(clipped, scalars["lr"]);
  if (decays(p.state))
    step = b.add(step, b.mul(p.weight, b.mul(scalars["lr"], scalars["weight_decay"])));
  p.weight = b.sub(p.weight, step);
}

// Moves the bias of each expert up where fewer tokens chose it than on average, and down where more did
// (Wang et al., 2024, "Auxiliary-Loss-Free Load Balancing Strategy for Mixture-of-Experts", algorithm 1). Counts are
// whole numbers, so that their sums do not depend on who adds them.
void AddOptimizer::balance(OpBuilder &builder, Parameter &p) {
  Build b(builder, locationOf(p.state));
  Type element = elementOf(p.weight);
  Value loads = b.cast(p.gradient, element);
  int64_t dim = typeOf(loads).getRank() - 1;
  Value sum = b.reduce(loads, ReduceKind::sum, {dim});
  Value mean = b.unreduce(b.div(sum, b.constant(double(shapeOf(loads)[dim]), element)), {dim}, shapeOf(loads));
  p.gradient = b.sub(loads, mean);
  Value zero = b.constant(0, element), rate = b.constant(p.biasRate, element);
  Value up = b.select(b.compare(p.gradient, zero, Predicate::lt), rate, zero);
  Value down = b.select(b.compare(p.gradient, zero, Predicate::gt), rate, zero);
  p.weight = b.add(p.weight, b.sub(up, down));
  if (adamw) {
    p.moment1 = b.mul(p.moment1, scalars["beta1"]);
    p.moment2 = b.mul(p.moment2, scalars["beta2"]);
  }
}

void AddOptimizer::buildStep(OpBuilder &builder) {
  Build counter(builder, named("token count"));
  Value one = counter.constant(1, builder.getF32Type());
  // A step whose labels are all ignored has loss and gradient zero.
  Value tokens = MaximumOp::create(builder, counter.loc, tokensSum, one);
  Value loss = Build(builder, named("loss")).div(lossSum, tokens);
  for (auto &[state, sum] : otherSums) {
    StringRef output = outputOf(state);
    // Is known before any weight changes, as the loss is: both decide whether the step counts.
    if (output == graph::kLostRows)
      sum = MaximumOp::create(builder, state.getLoc(), sum, counter.constant(0, builder.getF32Type()));
    if (output != graph::kAuxiliaryLoss)
      continue;
    Build b(builder, state.getLoc());
    crossEntropy = loss;
    loss = b.add(loss, b.div(sum, tokens));
  }
  Value divisor = tokens;
  if (scaled)
    divisor = Build(builder, named("loss scale")).mul(tokens, scalars["loss_scale"]);

  Build clip(builder, named("clip"));
  Value squares;
  for (Parameter &p : parameters) {
    if (p.biasRate > 0) // is no gradient
      continue;
    Build b(builder, locationOf(p.state));
    Type stored = elementOf(p.gradient);
    p.gradient = b.div(b.cast(p.gradient, builder.getF32Type()), divisor);
    // The mean takes the place of the sum in memory: in bf16 it is rounded, as Megatron-LM scales
    // its gradients in place, since f32 memory for all parameters would be needed until the norm is
    // known. A mean without loss scale may be too small for f16.
    if (stored.isBF16())
      p.gradient = b.cast(b.cast(p.gradient, stored), builder.getF32Type());
    SmallVector<int64_t> all = llvm::to_vector(llvm::seq<int64_t>(typeOf(p.gradient).getRank()));
    Value own = b.reduce(p.gradient, ReduceKind::sum_squares, all);
    squares = squares ? clip.add(squares, own) : own;
  }
  Value zero = clip.constant(0, builder.getF32Type());
  Value norm = SqrtOp::create(builder, clip.loc, squares ? squares : zero);
  Value limit = scalars["clip"];
  Value ratio = clip.div(limit, clip.add(norm, clip.constant(kNormEpsilon, elementOf(norm))));
  Value isOn = clip.compare(limit, zero, Predicate::gt);
  Value factor = clip.select(isOn, MinimumOp::create(builder, clip.loc, ratio, one), one);

  // The norm has seen every gradient of every rank: one number tells whether all are finite.
  if (skip) {
    Value largest = clip.constant(std::numeric_limits<float>::max(), elementOf(norm));
    Build b(builder, named("skipped"));
    skipped = b.select(b.compare(norm, largest, Predicate::le), zero, one);
    // Reads what ranks have agreed on: one of them may hold a number that no other has summed.
    isFinite = b.compare(skipped, zero, Predicate::eq);
  }
  for (Parameter &p : parameters) {
    updateParameter(builder, p, factor);
    if (p.master)
      p.rounded = Build(builder, locationOf(p.state))
                      .cast(p.weight, cast<RankedTensorType>(p.state.getType()).getElementType());
  }
  returnResults(builder, loss, norm);
}

void AddOptimizer::returnResults(OpBuilder &builder, Value loss, Value norm) {
  SmallVector<Value> results;
  SmallVector<NamedAttribute> bindings;
  auto give = [&](Value value, StringRef key, Attribute binding) {
    results.push_back(value);
    bindings.push_back(builder.getNamedAttr(key, binding));
  };
  for (Parameter &p : parameters)
    give(p.master ? p.rounded : p.weight, graph::kState, FlatSymbolRefAttr::get(p.state));
  for (Parameter &p : parameters)
    if (p.master)
      give(p.weight, graph::kState, FlatSymbolRefAttr::get(p.master));
  for (Parameter &p : parameters)
    give(Build(builder, locationOf(p.state))
             .cast(p.gradient, cast<RankedTensorType>(p.accumulator.getType()).getElementType()),
         graph::kState, FlatSymbolRefAttr::get(p.accumulator));
  for (Parameter &p : parameters)
    if (adamw) {
      give(p.moment1, graph::kState, FlatSymbolRefAttr::get(p.m));
      give(p.moment2, graph::kState, FlatSymbolRefAttr::get(p.v));
    }
  give(loss, graph::kOutput, builder.getStringAttr("loss"));
  give(norm, graph::kOutput, builder.getStringAttr("grad_norm"));
  give(tokensSum, graph::kOutput, builder.getStringAttr("tokens"));
  if (crossEntropy)
    give(crossEntropy, graph::kOutput, builder.getStringAttr(graph::kCrossEntropy));
  for (auto [state, sum] : otherSums)
    if (outputOf(state) != graph::kAuxiliaryLoss)
      give(sum, graph::kOutput, builder.getStringAttr(outputOf(state)));
  if (skipped)
    give(skipped, graph::kOutput, builder.getStringAttr("skipped"));
  func::ReturnOp::create(builder, update.getLoc(), results);
  update.setFunctionType(builder.getFunctionType(update.getArgumentTypes(),
                                                 TypeRange(ValueRange(results))));
  update.setAllResultAttrs(
      llvm::map_to_vector(bindings, [&](NamedAttribute binding) { return builder.getDictionaryAttr(binding); }));
}

void AddOptimizer::runOnOperation() {
  if (failed(collect()))
    return signalPassFailure();
  if (getOperation().lookupSymbol("update")) {
    getOperation().emitError("has a symbol @update already; the optimizer is added once");
    return signalPassFailure();
  }
  SymbolTable symbols(getOperation());
  addMasters(symbols);
  if (adamw)
    addMoments(symbols);
  OpBuilder builder = OpBuilder::atBlockEnd(getOperation().getBody());
  makeFunction(builder);
  buildStep(builder);
}

} // namespace
