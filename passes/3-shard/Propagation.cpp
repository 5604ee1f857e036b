// Propagates the mesh axes of a tactic over a whole module, from its seeds to a fixpoint.
#include "passes/3-shard/Propagation.h"

#include "dialects/graph/Build.h"

namespace llmc {
using namespace mlir;
using namespace parallel;
using graph::FactorKind;

// Returns the axes of the factors of an op; none where its annotations contradict its rule, which has been reported.
static FactorAxes readOr(Operation *op, const graph::ShardingRule &rule) {
  FailureOr<FactorAxes> axes = readFactorAxes(op, rule);
  return succeeded(axes) ? *axes : FactorAxes(rule.factors.size());
}

AxisPropagation::AxisPropagation(ModuleOp module, ArrayRef<StringAttr> axes, Options options)
    : module(module), axis(axes.front()), rest(axes.drop_front()), options(options),
      mesh(getMesh(module)) {
  module.walk([&](Operation *op) {
    auto compute = dyn_cast<graph::GraphOpInterface>(op);
    if (!compute)
      return;
    auto made = std::make_unique<Known>(Known{compute.getShardingRule(), {}});
    made->earlier = readOr(op, made->rule);
    known[op] = std::move(made);
  });
  for (auto state : module.getOps<graph::StateOp>())
    stateOps[state.getSymNameAttr()] = state;
  buildTies();
}

AxisPropagation::AxisPropagation(AxisPropagation &first)
    : module(first.module), axis(first.rest.front()), rest(ArrayRef(first.rest).drop_front()), options(first.options),
      mesh(first.mesh), known(std::move(first.known)), stateOps(std::move(first.stateOps)), ties(std::move(first.ties)),
      states(std::move(first.states)), inputs(std::move(first.inputs)) {
  for (auto [op, factor] : first.factors)
    known[op]->earlier = readOr(op, known[op]->rule);
}

void AxisPropagation::tie(Value a, Value b, int64_t shift) {
  ties[a].push_back({b, shift});
  ties[b].push_back({a, -shift});
}

// Ties values that have one sharding: operands and results of a repeat to the values in its body,
// all uses of a state by name, and the accumulator and moments of a parameter to the parameter. A constant at which
// several sums of layers begin ties none of them to another: each takes its part.
void AxisPropagation::buildTies() {
  module.walk([&](graph::RepeatOp op) {
    Block &body = op.getBlock();
    Operation *yield = body.getTerminator();
    int64_t carried = op.getCarried().size(), stacked = op.getStacked().size();
    for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
      bool isStacked = int64_t(i) >= carried && int64_t(i) < carried + stacked;
      if (operand.getDefiningOp<graph::ConstantOp>() && !operand.hasOneUse())
        continue;
      tie(operand, body.getArgument(i), isStacked ? 1 : 0);
    }
    for (auto [i, result] : llvm::enumerate(op->getResults())) {
      tie(result, yield->getOperand(i), int64_t(i) < carried ? 0 : 1);
      if (int64_t(i) < carried)
        tie(body.getArgument(i), yield->getOperand(i), 0);
    }
  });
  llvm::DenseMap<Attribute, Value> first;
  auto bind = [&](FlatSymbolRefAttr name, Value value) {
    graph::StateOp state = stateOf(name);
    if (!state)
      return;
    states.insert(value);
    // A state of any other role has the sharding of its parameter.
    FlatSymbolRefAttr key = state.getOfAttr() ? state.getOfAttr() : name;
    auto [it, isNew] = first.insert({key, value});
    if (!isNew && it->second != value)
      tie(it->second, value, 0);
  };
  for (auto func : module.getOps<func::FuncOp>()) {
    for (BlockArgument arg : func.getArguments()) {
      if (auto name = func.getArgAttrOfType<FlatSymbolRefAttr>(arg.getArgNumber(), kState))
        bind(name, arg);
      if (func.getArgAttr(arg.getArgNumber(), kInput))
        inputs.insert(arg);
    }
    for (auto [i, value] : llvm::enumerate(func.getBody().front().getTerminator()->getOperands()))
      if (auto name = func.getResultAttrOfType<FlatSymbolRefAttr>(i, kState))
        bind(name, value);
  }
}

// Returns `axes`, then this axis, then the axes of the product that are still to come: a cut must
// leave room for them. An op that uses one of them already takes no second cut over it.
Axes AxisPropagation::withProduct(Axes axes, Operation *op) const {
  axes.push_back(axis);
  for (StringAttr other : rest)
    if (!llvm::is_contained(axes, other) && !(op && usesAxis(op, other)))
      axes.push_back(other);
  return axes;
}

bool AxisPropagation::canCut(Value value, int64_t dim) const {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!type || dim < 0 || dim >= type.getRank())
    return false;
  SmallVector<Axes> axes = getAxes(getSharding(value));
  for (const Axes &list : axes)
    if (llvm::is_contained(list, axis))
      return false;
  int64_t parts = getGroupSize(mesh, withProduct(axes[dim], nullptr));
  return type.getDimSize(dim) % parts == 0 || padded.contains({value, dim});
}

int64_t AxisPropagation::dimOf(Value value) const {
  auto it = dims.find(value);
  return it == dims.end() ? -1 : it->second;
}

int64_t AxisPropagation::factorOf(Operation *op) const {
  auto it = factors.find(op);
  return it == factors.end() ? -1 : it->second;
}

const graph::ShardingRule &AxisPropagation::ruleOf(Operation *op) const {
  return knownOf(op).rule;
}

int64_t AxisPropagation::factorFor(Operation *op, const graph::TensorFactors &tensor, int64_t dim,
                                   Value value) const {
  const auto &[rule, before] = knownOf(op);
  const graph::DimFactors &dimFactors = tensor[dim];
  Axes axes;
  for (unsigned factor : dimFactors)
    axes.append(before[factor].begin(), before[factor].end());
  axes = withProduct(axes, op);
  FailureOr<SmallVector<Axes>> parts = splitAxes(rule, dimFactors, axes, mesh);
  if (failed(parts))
    return -1;
  for (auto [factor, part] : llvm::zip(dimFactors, *parts)) {
    if (!llvm::is_contained(part, axis))
      continue;
    if (part.back() != axes.back()) // one factor takes the product, or none
      return -1;
    int64_t size = rule.factors[factor].size;
    bool divides = size % getGroupSize(mesh, part) == 0 || padded.contains({value, dim});
    return divides && rule.factors[factor].kind != FactorKind::Replicated ? int64_t(factor) : -1;
  }
  return -1;
}

void AxisPropagation::assign(Value value, int64_t dim) {
  if (dims.count(value) || !canCut(value, dim) || (inputs.contains(value) && !seededInputs.contains(value)) ||
      isKept(value, dim) || (!options.mayCutStates && states.contains(value)))
    return;
  dims[value] = dim;
  valueSeeds[value] = currentSeed.node;
  if (Operation *def = value.getDefiningOp())
    worklist.push_back(def);
  for (Operation *user : value.getUsers())
    worklist.push_back(user);
  auto it = ties.find(value);
  if (it == ties.end())
    return;
  // Copies the list, since assigning grows the map.
  for (auto [other, shift] : llvm::to_vector(it->second)) {
    if (padded.contains({value, dim}))
      padded.insert({other, dim - shift});
    assign(other, dim - shift);
  }
}

// Returns whether the axis cuts this factor in every tensor of the op. A merged dimension lists its
// axes without the factors that they cut: they fill the major factors first. Where the axis would
// cut another factor (elements of heads that are merged with the heads), the op takes the value
// whole.
bool AxisPropagation::isExpressible(Operation *op, unsigned factor) const {
  const graph::ShardingRule &rule = ruleOf(op);
  // Leaves the tokens of a ring to the ranks of a context: it goes along their axis alone.
  if (graph::isRing(op) && !mesh.isOf(axis, planfile::AxisRole::Context) &&
      llvm::is_contained(rule.operands[0][1], factor))
    return false;
  auto lands = [&](Value value, const graph::TensorFactors &tensor) {
    for (int64_t d = 0; d < int64_t(tensor.size()); ++d)
      if (tensor[d].size() > 1 && llvm::is_contained(tensor[d], factor) &&
          factorFor(op, tensor, d, value) != int64_t(factor))
        return false;
    return true;
  };
  for (auto [operand, tensor] : llvm::zip(op->getOperands(), rule.operands))
    if (!lands(operand, tensor))
      return false;
  for (auto [result, tensor] : llvm::zip(op->getResults(), rule.results))
    if (!lands(result, tensor))
      return false;
  return true;
}

bool AxisPropagation::usesAxis(Operation *op, StringAttr which) const {
  return llvm::any_of(llvm::zip(ruleOf(op).factors, knownOf(op).earlier), [&](const auto &pair) {
    const auto &[factor, axes] = pair;
    return factor.kind != FactorKind::Owned && llvm::is_contained(axes, which);
  });
}

// Returns whether the factor is in a dimension of a result that must stay whole.
bool AxisPropagation::cutsKept(Operation *op, unsigned factor) const {
  for (auto [result, tensor] : llvm::zip(op->getResults(), ruleOf(op).results))
    for (int64_t d = 0; d < int64_t(tensor.size()); ++d)
      if (llvm::is_contained(tensor[d], factor) && isKept(result, d))
        return true;
  return false;
}

// Returns whether the axis would cut two dimensions of a tensor of the op: an owned factor shares its axes with
// other factors, but no tensor can have both (weights of experts, whose features a shared bias has cut).
bool AxisPropagation::cutsTwice(Operation *op, unsigned factor) const {
  const auto &[rule, before] = knownOf(op);
  auto meets = [&](const graph::TensorFactors &tensor) {
    bool carries = false, isCut = false;
    for (const graph::DimFactors &dims : tensor)
      for (unsigned other : dims) {
        carries |= other == factor;
        isCut |= llvm::is_contained(before[other], axis);
      }
    return carries && isCut;
  };
  return llvm::any_of(rule.operands, meets) || llvm::any_of(rule.results, meets);
}

// Gives the axis to one factor of the op if one of its operands or results is cut.
void AxisPropagation::visit(Operation *op) {
  if (!known.count(op) || excluded.contains(op) || usesAxis(op, axis))
    return;
  if (factors.count(op))
    return spread(op, factors[op]);
  const graph::ShardingRule &rule = ruleOf(op);
  auto consider = [&](Value value, const graph::TensorFactors &tensor) {
    int64_t dim = dimOf(value);
    if (dim < 0 || factors.count(op))
      return;
    int64_t factor = factorFor(op, tensor, dim, value);
    if (factor < 0 || !isExpressible(op, factor) || cutsKept(op, factor) || cutsTwice(op, factor))
      return;
    factors[op] = factor;
    seeds[op] = currentSeed;
    spread(op, factor);
  };
  for (auto [operand, tensor] : llvm::zip(op->getOperands(), rule.operands))
    consider(operand, tensor);
  for (auto [result, tensor] : llvm::zip(op->getResults(), rule.results))
    consider(result, tensor);
}

// Cuts all operands and results of the op that carry the factor.
void AxisPropagation::spread(Operation *op, unsigned factor) {
  const graph::ShardingRule &rule = ruleOf(op);
  bool pads = false;
  auto carries = [&](const graph::TensorFactors &tensor, int64_t d) {
    return llvm::is_contained(tensor[d], factor);
  };
  auto each = [&](llvm::function_ref<void(Value, int64_t, bool)> act) {
    for (auto [operand, tensor] : llvm::zip(op->getOperands(), rule.operands))
      for (int64_t d = 0; d < int64_t(tensor.size()); ++d)
        if (carries(tensor, d))
          act(operand, d, tensor[d].size() == 1);
    for (auto [result, tensor] : llvm::zip(op->getResults(), rule.results))
      for (int64_t d = 0; d < int64_t(tensor.size()); ++d)
        if (carries(tensor, d))
          act(result, d, tensor[d].size() == 1);
  };
  each([&](Value v, int64_t d, bool) { pads |= padded.contains({v, d}) && dimOf(v) == d; });
  each([&](Value v, int64_t d, bool alone) {
    if (pads && alone)
      padded.insert({v, d});
    assign(v, d);
  });
}

void AxisPropagation::allowPadding(Value value, int64_t dim) {
  requests.push_back({Request::Pad, value, dim, "", ""});
  padded.insert({value, dim});
}

StringRef AxisPropagation::seedOf(Value value) const {
  auto it = valueSeeds.find(value);
  return it == valueSeeds.end() ? StringRef() : StringRef(it->second);
}

void AxisPropagation::pin(Value value, int64_t dim) {
  requests.push_back({Request::Pin, value, dim, "", ""});
  insertTied(pinned, value, dim);
}

void AxisPropagation::keep(Value value, int64_t dim) {
  requests.push_back({Request::Keep, value, dim, "", ""});
  insertTied(kept, value, dim);
}

void AxisPropagation::exclude(Operation *op) {
  requests.push_back({Request::Exclude, {}, 0, "", "", op});
  excluded.insert(op);
}

void AxisPropagation::take(Operation *op, unsigned factor, StringRef seed) {
  requests.push_back({Request::Take, {}, int64_t(factor), seed.str(), "", op});
  currentSeed = {seed.str(), options.tactic.str()};
  factors[op] = factor;
  seeds[op] = currentSeed;
  for (auto [result, tensor] : llvm::zip(op->getResults(), ruleOf(op).results))
    for (auto [d, carried] : llvm::enumerate(tensor))
      if (llvm::is_contained(carried, factor))
        assign(result, d);
  while (!worklist.empty())
    visit(worklist.pop_back_val());
}

// Adds a dimension of a value, and of all values that are tied to it.
void AxisPropagation::insertTied(Dims &dims, Value value, int64_t dim) {
  if (!dims.insert({value, dim}).second)
    return;
  auto it = ties.find(value);
  if (it == ties.end())
    return;
  for (auto [other, shift] : it->second)
    insertTied(dims, other, dim - shift);
}

void AxisPropagation::cut(Value value, int64_t dim, StringRef seed, StringRef tactic) {
  requests.push_back({Request::Cut, value, dim, seed.str(), tactic.str()});
  currentSeed = {seed.str(), (tactic.empty() ? options.tactic : tactic).str()};
  seededInputs.insert(value);
  assign(value, dim);
  while (!worklist.empty())
    visit(worklist.pop_back_val());
}

//===-- Writing ---------------------------------------------------------------===//

ShardingAttr AxisPropagation::shardingOf(Value value) const {
  ShardingAttr before = getSharding(value);
  int64_t dim = dimOf(value);
  if (dim < 0)
    return before;
  SmallVector<Axes> axes = getAxes(before);
  axes[dim].push_back(axis);
  return makeSharding(before.getContext(), axes, before.getUnreduced(), before.getKind());
}

static StringRef describe(Operation *op, const graph::ShardingRule &rule, unsigned factor) {
  bool reduced = rule.factors[factor].kind == FactorKind::ReducedSum ||
                 rule.factors[factor].kind == FactorKind::ReducedMax;
  bool isGrouped = isa<graph::GroupedMatmulOp, graph::GroupedOuterOp>(op);
  if (rule.offsetFactor == int(factor))
    return isGrouped ? "experts" : "vocabulary cut";
  if (isGrouped || isa<graph::MatmulOp>(op))
    return reduced ? "row cut" : "column cut";
  if (isa<graph::AttentionOp, graph::AttentionGradOp>(op))
    return "heads";
  return reduced ? "partial reduction" : "follows";
}

// Returns the origins of the cuts of an op, with that of this axis.
DictionaryAttr AxisPropagation::originOf(Operation *op, unsigned factor) {
  Builder b(op->getContext());
  auto before = dyn_cast_or_null<DictionaryAttr>(op->getDiscardableAttr(kOrigin));
  bool isTaken = excluded.contains(op); // against the cut of its neighbours
  StringRef rule = options.tactic == "data"                  ? StringRef("rows")
                   : options.tactic == "sequence"            ? StringRef("sequence")
                   : options.tactic == "context" && !isTaken ? StringRef("tokens")
                                                             : describe(op, ruleOf(op), factor);
  // The axes of experts may cut rows of their products too: the first cut is what is told.
  if (before && before.get(axis))
    return before;
  const Seed &seed = seeds[op];
  NamedAttrList entries(before);
  entries.set(axis, b.getDictionaryAttr({b.getNamedAttr("tactic", b.getStringAttr(seed.tactic)),
                                         b.getNamedAttr("rule", b.getStringAttr(rule)),
                                         b.getNamedAttr("seed", b.getStringAttr(seed.node))}));
  return entries.getDictionary(op->getContext());
}

void AxisPropagation::writeOp(Operation *op) {
  int64_t factor = factorOf(op);
  if (factor < 0)
    return;
  const graph::ShardingRule &rule = ruleOf(op);
  FactorAxes axes = knownOf(op).earlier;
  axes[factor].push_back(axis);
  MLIRContext *context = op->getContext();
  SmallVector<ShardingAttr> required, defined;
  for (OpOperand &use : op->getOpOperands()) {
    unsigned i = use.getOperandNumber();
    required.push_back(i < rule.operands.size() ? parallel::shardingOf(context, rule.operands[i], axes) : getRequired(use));
  }
  for (OpResult result : op->getResults()) {
    unsigned i = result.getResultNumber();
    if (i >= rule.results.size())
      defined.push_back(getSharding(result));
    else
      defined.push_back(withUnreduced(parallel::shardingOf(context, rule.results[i], axes),
                                      unreducedOf(rule, rule.results[i], axes), unreducedKindOf(rule, axes)));
  }
  setShardings(op, required, defined, originOf(op, factor));
}

// Writes one sharding for both sides of a repeat: that of the body argument for operands and
// carried results, that of the stacked result for the operand of the yield.
void AxisPropagation::writeRepeat(graph::RepeatOp op) {
  Block &body = op.getBlock();
  unsigned carried = op.getCarried().size(), stacked = op.getStacked().size();
  SmallVector<ShardingAttr> args, operands, results, yielded;
  for (BlockArgument arg : body.getArguments()) {
    unsigned i = arg.getArgNumber();
    args.push_back(shardingOf(arg));
    operands.push_back(i >= carried && i < carried + stacked ? addLeading(args[i]) : args[i]);
  }
  for (OpResult result : op->getResults()) {
    unsigned i = result.getResultNumber();
    results.push_back(i < carried ? args[i] : shardingOf(result).getReduced());
    yielded.push_back(i < carried ? results[i] : dropLeading(results[i]));
  }
  setArgumentShardings(op, args);
  setShardings(op, operands, results);
  setShardings(body.getTerminator(), yielded, {});
}

// Records the tactic of the axis, as origin of the collectives that no op alone asks for (the sum
// of a gradient over all micro-batches). Where tactics share an axis, the later one took what was
// left.
void AxisPropagation::recordTactic() {
  if (!factors.empty())
    setTactic(module, axis, options.tactic);
}

void AxisPropagation::write() {
  writeOwn();
  recordTactic();
  if (rest.empty())
    return;
  next.reset(new AxisPropagation(*this));
  for (const Request &request : requests)
    repeatOn(*next, request);
  next->write();
}

void AxisPropagation::repeatOn(AxisPropagation &other, const Request &request) const {
  switch (request.kind) {
  case Request::Cut:
    return other.cut(request.value, request.dim, request.seed, request.tactic);
  case Request::Take:
    return other.take(request.op, request.dim, request.seed);
  case Request::Exclude:
    return other.exclude(request.op);
  case Request::Pin:
    return other.pin(request.value, request.dim);
  case Request::Keep:
    return other.keep(request.value, request.dim);
  case Request::Pad:
    return other.allowPadding(request.value, request.dim);
  }
}

void AxisPropagation::writeOwn() {
  // Collects the shardings of values first: writing an op changes what getSharding returns for its
  // results.
  SmallVector<std::pair<func::FuncOp, SmallVector<ShardingAttr>>> arguments;
  llvm::DenseMap<Attribute, ShardingAttr> stateSharding;
  for (auto func : module.getOps<func::FuncOp>()) {
    SmallVector<ShardingAttr> &shardings = arguments.emplace_back(func, SmallVector<ShardingAttr>()).second;
    for (BlockArgument arg : func.getArguments()) {
      shardings.push_back(shardingOf(arg));
      if (auto name = func.getArgAttrOfType<FlatSymbolRefAttr>(arg.getArgNumber(), kState))
        stateSharding[name] = shardings.back();
    }
  }
  SmallVector<graph::RepeatOp> repeats;
  module.walk<WalkOrder::PreOrder>([&](graph::RepeatOp op) { repeats.push_back(op); });
  for (graph::RepeatOp op : repeats)
    writeRepeat(op);
  module.walk([&](Operation *op) {
    if (known.count(op))
      writeOp(op);
  });
  for (auto &[func, shardings] : arguments)
    setArgumentShardings(func, shardings);
  for (auto func : module.getOps<func::FuncOp>())
    writeReturn(func, stateSharding);
  for (auto [name, sharding] : stateSharding)
    if (graph::StateOp state = stateOf(cast<FlatSymbolRefAttr>(name)))
      state->setDiscardableAttr(kSharding, sharding);
}

// Writes what the return of a function requires: states as they come in, and of an output what makes it. The reader of an
// output joins its parts, but adds up no partial sums.
void AxisPropagation::writeReturn(func::FuncOp func, const llvm::DenseMap<Attribute, ShardingAttr> &stateSharding) {
  Operation *ret = func.getBody().front().getTerminator();
  SmallVector<ShardingAttr> required;
  bool isWritten = false;
  for (OpOperand &use : ret->getOpOperands()) {
    auto name = func.getResultAttrOfType<FlatSymbolRefAttr>(use.getOperandNumber(), kState);
    bool isState = name && stateSharding.count(name), isOutput = bool(func.getResultAttr(use.getOperandNumber(), kOutput));
    required.push_back(isState    ? stateSharding.lookup(name)
                       : isOutput ? getSharding(use.get()).getReduced()
                                  : getRequired(use));
    isWritten |= isState || isOutput;
  }
  if (isWritten)
    setShardings(ret, required, {});
}

// Returns whether a part under `to` lies inside a part under `from`.
static bool refines(ShardingAttr from, ShardingAttr to) {
  for (auto [whole, part] : llvm::zip(getAxes(from), getAxes(to)))
    if (whole.size() > part.size() || !std::equal(whole.begin(), whole.end(), part.begin()))
      return false;
  return true;
}

// Returns whether any axis of the product has cut the op or the value.
bool AxisPropagation::reaches(Operation *op, Value operand) const {
  return dimOf(operand) >= 0 || factorOf(op) >= 0 || (next && next->reaches(op, operand));
}

// Formats a sharding for a remark: "cut in dim 0 over dp, dim 2 over tp", or "whole".
static std::string cutText(ShardingAttr sharding) {
  std::string text;
  for (auto [dim, axes] : llvm::enumerate(getAxes(sharding)))
    for (auto [i, axis] : llvm::enumerate(axes))
      text += (i              ? ", "
               : text.empty() ? "cut in dim " + std::to_string(dim) + " over "
                              : ", dim " + std::to_string(dim) + " over ") +
              axis.str();
  return text.empty() ? "whole" : text;
}

unsigned AxisPropagation::reportConflicts() {
  unsigned count = 0;
  module.walk([&](Operation *op) {
    if (!isa<graph::GraphOpInterface>(op))
      return;
    for (OpOperand &use : op->getOpOperands()) {
      ShardingAttr has = getSharding(use.get()).getReduced(), wants = getRequired(use);
      if (has == wants || !reaches(op, use.get()))
        continue;
      // A tensor that is cut further for one use costs nothing.
      if (refines(has, wants))
        continue;
      ++count;
      op->emitRemark("operand ") << use.getOperandNumber() << " is " << cutText(has)
                                 << " but needed " << cutText(wants)
                                 << ": it will be resharded over axis " << axis.strref();
    }
  });
  return count;
}

} // namespace llmc
