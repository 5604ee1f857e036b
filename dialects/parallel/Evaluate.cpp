#include "dialects/parallel/Evaluate.h"

#include "dialects/graph/Evaluate.h"
#include "dialects/parallel/LockstepInterpreter.h"

using namespace mlir;
using namespace llmc;
using namespace llmc::parallel;
using graph::StateOp;

static std::vector<int64_t> shapeOf(Type type) {
  return cast<RankedTensorType>(type).getShape().vec();
}

// Returns the name that an argument or result is bound to under `key`; empty if there is none.
static std::string nameOf(DictionaryAttr attrs, StringRef key) {
  Attribute attr = attrs ? attrs.get(key) : Attribute();
  if (auto symbol = dyn_cast_or_null<FlatSymbolRefAttr>(attr))
    return symbol.getValue().str();
  auto text = dyn_cast_or_null<StringAttr>(attr);
  return text ? text.str() : "";
}

// Returns the caller's tensor of that name; fails with a diagnostic on `func` if it is missing or
// has another shape.
static FailureOr<Tensor> lookup(const NamedTensors &named, const std::string &name,
                                const std::vector<int64_t> &shape, Operation *func) {
  auto found = named.find(name);
  if (found == named.end())
    return func->emitError("no value is given for the input ") << name;
  if (found->second.shape != shape)
    return func->emitError("the value given for ") << name << " has another shape";
  return found->second;
}

// Returns an input as the loader makes it: block b of the permuted dim is block block_order[b] of
// what the user gives.
static FailureOr<Tensor> load(Tensor given, DictionaryAttr attrs, Operation *func) {
  auto loader = attrs ? attrs.getAs<graph::LoaderAttr>(graph::kLoader) : graph::LoaderAttr();
  if (!loader || !loader.isPermuted())
    return given;
  if (std::string fault = loader.describeMisfit(given.shape, /*isShard=*/false); !fault.empty())
    return func->emitError() << fault << ", got " << loader;
  ArrayRef<int64_t> order = loader.getBlockOrder();
  int64_t dim = loader.getPermutedDim(), blocks = order.size();
  int64_t run = given.strides()[dim] * (given.shape[dim] / blocks);
  Tensor loaded(given.shape);
  for (int64_t i = 0; i * run < given.size(); ++i)
    std::copy_n(given.data.begin() + (i / blocks * blocks + order[i % blocks]) * run, run,
                loaded.data.begin() + i * run);
  return loaded;
}

static void multiply(Tensor &tensor, int64_t by) {
  for (double &x : tensor.data)
    x *= double(by);
}

//===-- One rank ----------------------------------------------------------------===//

namespace {
class SingleRankStep {
public:
  SingleRankStep(ModuleOp module, const StepInput &input) : module(module), input(input) {}

  FailureOr<StepOutput> run() {
    for (auto state : module.getOps<StateOp>()) {
      Tensor &value = output.states[state.getSymName().str()];
      value = Tensor(shapeOf(state.getType()));
      auto given = input.states.find(state.getSymName().str());
      if (given != input.states.end() && state.getRole() != graph::Role::accumulator)
        value = given->second;
    }
    bool infer = isInference(module);
    for (const NamedTensors &batch : input.microBatches) {
      if (failed(call(infer ? "forward" : "micro", batch)))
        return failure();
      if (input.ended)
        input.ended();
    }
    for (auto state : module.getOps<StateOp>())
      if (state.getRole() == graph::Role::accumulator)
        multiply(output.states[state.getSymName().str()], input.repeats);
    if (input.beforeUpdate)
      input.beforeUpdate(0, output.states);
    if (!infer && failed(call("update", input.scalars)))
      return failure();
    if (input.afterUpdate)
      input.afterUpdate(0, output.states);
    return std::move(output);
  }

private:
  LogicalResult call(StringRef name, const NamedTensors &given) {
    auto func = module.lookupSymbol<func::FuncOp>(name);
    if (!func)
      return module.emitError("has neither stages nor @") << name;
    std::vector<Tensor> arguments;
    for (unsigned i = 0; i < func.getNumArguments(); ++i) {
      DictionaryAttr attrs = func.getArgAttrDict(i);
      std::string state = nameOf(attrs, kState), scalar = nameOf(attrs, kScalar);
      FailureOr<Tensor> value =
          lookup(!state.empty()    ? output.states
                 : !scalar.empty() ? input.scalars
                                   : given,
                 !state.empty()    ? state
                 : !scalar.empty() ? scalar
                                   : nameOf(attrs, kInput),
                 shapeOf(func.getArgumentTypes()[i]), func);
      if (succeeded(value))
        value = load(std::move(*value), func.getArgAttrDict(i), func);
      if (failed(value))
        return failure();
      arguments.push_back(std::move(*value));
    }
    auto results = graph::evaluate(func, arguments, nullptr, input.rounding,
                                   input.observeResults ? graph::Observe(input.observeResults) : nullptr);
    if (failed(results))
      return failure();
    for (auto [i, value] : llvm::enumerate(*results)) {
      std::string state = nameOf(func.getResultAttrDict(i), kState);
      if (state.empty())
        output.outputs[nameOf(func.getResultAttrDict(i), kOutput)] = std::move(value);
      else
        output.states[state] = std::move(value);
    }
    return success();
  }

  ModuleOp module;
  const StepInput &input;
  StepOutput output;
};

//===-- All ranks ---------------------------------------------------------------===//

class StagedStep {
public:
  StagedStep(ModuleOp module, MeshAttr mesh, const StepInput &input)
      : module(module), mesh(mesh), input(input), machine(mesh, input.rounding, input.observeRanks), symbols(module),
        stages(mesh.getSize(planfile::AxisRole::Stages)), virtualStages(getNumVirtualStages(module)),
        infer(isInference(module)), states(mesh.getNumRanks()), residuals(mesh.getNumRanks()) {}

  FailureOr<StepOutput> run() {
    findLayers();
    if (failed(placeStates()))
      return failure();
    for (const NamedTensors &batch : input.microBatches) {
      if (failed(runMicroBatch(batch)))
        return failure();
      if (input.ended)
        input.ended();
    }
    for (auto state : module.getOps<StateOp>())
      for (NamedTensors &own : states)
        for (const std::string &key : {state.getSymName().str(), (kFlatPrefix + state.getSymName()).str()})
          if (auto found = own.find(key);
              found != own.end() && state.getRole() == graph::Role::accumulator)
            multiply(found->second, input.repeats);
    visitRanks(input.beforeUpdate);
    SmallVector<int64_t> all = llvm::to_vector(llvm::seq<int64_t>(0, stages));
    if (!infer && failed(call("update", all, input.scalars, 0)))
      return failure();
    visitRanks(input.afterUpdate);
    if (failed(infer ? gatherOutputs() : gatherStates()))
      return failure();
    output.collectives = machine.collectives;
    return std::move(output);
  }

private:
  // Collects an output of an inference from its shards.
  struct Whole {
    Tensor value;
    std::vector<bool> seen;
    std::vector<int64_t> valid; // its shape without padding
  };

  void visitRanks(const std::function<void(int64_t, NamedTensors &)> &visit) {
    for (auto [rank, own] : llvm::enumerate(states))
      if (visit)
        visit(rank, own);
  }
  func::FuncOp function(StringRef procedure, int64_t stage) {
    return module.lookupSymbol<func::FuncOp>((procedure + "_" + Twine(stage)).str());
  }
  static ShardingAttr shardingOf(DictionaryAttr attrs, Type type) {
    auto sharding = attrs ? attrs.getAs<ShardingAttr>(kSharding) : ShardingAttr();
    return sharding ? sharding
                    : ShardingAttr::getReplicated(type.getContext(),
                                                  cast<RankedTensorType>(type).getRank());
  }

  // Finds the layers of a split state that each stage holds, and the flat tensors of each stage.
  void findLayers() {
    for (auto func : module.getOps<func::FuncOp>()) {
      auto stage = func->getAttrOfType<IntegerAttr>(kStage);
      auto note = [&](DictionaryAttr attrs, Type type) {
        auto range = attrs ? attrs.getAs<DenseI64ArrayAttr>(kLayers) : DenseI64ArrayAttr();
        auto flat = attrs ? attrs.getAs<FlatAttr>(kFlat) : FlatAttr();
        if (range && stage)
          for (const std::string &state : statesOf(attrs))
            layers[{state, stage.getInt()}] = {range[0], range[1]};
        if (flat && stage)
          flats[stage.getInt()].insert({flat.getFirstState(),
                                        {flat, bool(range), cast<RankedTensorType>(type).getShape().back()}});
      };
      for (unsigned i = 0; i < func.getNumArguments(); ++i)
        note(func.getArgAttrDict(i), func.getArgumentTypes()[i]);
      for (unsigned i = 0; i < func.getNumResults(); ++i)
        note(func.getResultAttrDict(i), func.getResultTypes()[i]);
    }
  }

  // Returns the states that an argument or result is bound to.
  static SmallVector<std::string> statesOf(DictionaryAttr attrs) {
    if (auto flat = attrs.getAs<FlatAttr>(kFlat))
      return llvm::map_to_vector(flat.getParts(), [](FlatPartAttr part) {
        return part.getState().getValue().str();
      });
    return {nameOf(attrs, kState)};
  }
  // Returns the name under which a rank keeps what an argument or result is bound to.
  static std::string keyOf(DictionaryAttr attrs) {
    auto flat = attrs ? attrs.getAs<FlatAttr>(kFlat) : FlatAttr();
    return flat ? keyOf(flat) : nameOf(attrs, kState);
  }
  static std::string keyOf(FlatAttr flat) { return (kFlatPrefix + flat.getFirstState()).str(); }

  // Returns the stages that hold a state.
  SmallVector<int64_t> holdersOf(StateOp state) {
    SmallVector<int64_t> holders;
    if (auto list = state->getAttrOfType<ArrayAttr>(kStages))
      for (auto stage : list.getAsRange<IntegerAttr>())
        holders.push_back(stage.getInt());
    return holders;
  }
  static std::vector<int64_t> validShape(StateOp state) {
    if (!state.getValidShape())
      return shapeOf(state.getType());
    std::vector<int64_t> shape;
    for (auto size : state.getValidShape()->getAsRange<IntegerAttr>())
      shape.push_back(size.getInt());
    return shape;
  }
  // Returns the first layer and the number of layers that a stage holds; {0, -1} for all.
  std::pair<int64_t, int64_t> layersOf(StringRef state, int64_t stage) {
    auto found = layers.find({state.str(), stage});
    return found == layers.end() ? std::pair<int64_t, int64_t>(0, -1) : found->second;
  }
  static ShardingAttr shardingOf(StateOp state) {
    return shardingOf(state->getDiscardableAttrDictionary(), state.getType());
  }

  LogicalResult placeStates() {
    for (auto state : module.getOps<StateOp>()) {
      std::string name = state.getSymName().str();
      Tensor whole(shapeOf(state.getType())), valid(validShape(state));
      bool isZero = state.getRole() == graph::Role::accumulator;
      if (auto given = input.states.find(name); given != input.states.end() && !isZero) {
        if (given->second.shape != valid.shape)
          return state.emitOpError("the value given has another shape");
        valid = given->second;
      }
      if (!isZero) // padding: anything finite (and of a second moment not negative)
        std::fill(whole.data.begin(), whole.data.end(), 3.25);
      placePart(whole, valid, SmallVector<int64_t>(whole.shape.size(), 0));
      for (int64_t stage : holdersOf(state)) {
        auto [first, count] = layersOf(name, stage);
        Tensor own = count < 0 ? whole : takeLayers(whole, first, count);
        for (int64_t rank : machine.ranksOfStage(stage))
          states[rank][name] = machine.partOf(own, rank, shardingOf(state));
      }
    }
    for (auto &[stage, list] : flats)
      for (auto &[first, flat] : list)
        for (int64_t rank : machine.ranksOfStage(stage))
          pack(rank, flat);
    return success();
  }

  //===-- Flat tensors --------------------------------------------------------===//

  // Describes a flat tensor of a stage; a stacked one has one of `attr` for each layer.
  struct Flat {
    FlatAttr attr;
    bool isStacked;
    int64_t share; // elements of a rank's part of one layer
  };
  // Calls f(element of the rank's part, element of the state's part) for what a rank holds of a
  // tensor: `index` is the rank's place among the sharers.
  template <typename F>
  void forEachElement(const Flat &flat, FlatPartAttr part, int64_t index, int64_t layers, F f) {
    int64_t share = flat.share, size = part.getNumElements();
    for (int64_t layer = 0; layer < layers; ++layer)
      for (int64_t i = 0; i < size; ++i) {
        int64_t at = part.getBegin() + i - index * share;
        if (at >= 0 && at < share)
          f(layer * share + at, layer * size + i);
      }
  }

  // Replaces the states of a rank that lie in a flat tensor by the rank's part of it. Padding holds
  // zeros.
  void pack(int64_t rank, const Flat &flat) {
    int64_t layers = flat.isStacked ? states[rank][flat.attr.getFirstState().str()].shape[0] : 1;
    std::vector<int64_t> shape;
    if (flat.isStacked)
      shape.push_back(layers);
    shape.push_back(flat.share);
    Tensor packed(shape);
    int64_t index = machine.coordinate(rank, flat.attr.getAxisNames());
    for (FlatPartAttr part : flat.attr.getParts()) {
      std::string name = part.getState().getValue().str();
      const Tensor &own = states[rank][name];
      forEachElement(flat, part, index, layers, [&](int64_t to, int64_t from) {
        packed.data[to] = own.data[from];
      });
      states[rank].erase(name);
    }
    states[rank][keyOf(flat.attr)] = std::move(packed);
  }

  // Puts the states of a stage's ranks together again from their parts of a flat tensor.
  void unpack(int64_t stage, const Flat &flat) {
    SmallVector<int64_t> ranks = machine.ranksOfStage(stage);
    std::map<int64_t, Tensor> parts;
    for (int64_t rank : ranks)
      parts[rank] = std::move(states[rank][keyOf(flat.attr)]);
    for (int64_t rank : ranks)
      for (FlatPartAttr part : flat.attr.getParts()) {
        std::vector<int64_t> shape;
        if (flat.isStacked)
          shape.push_back(parts[rank].shape[0]);
        llvm::append_range(shape, part.getShape().asArrayRef());
        Tensor &own = states[rank][part.getState().getValue().str()] = Tensor(shape);
        for (int64_t other : ranks)
          if (sharesWith(rank, other, flat))
            forEachElement(flat, part, machine.coordinate(other, flat.attr.getAxisNames()),
                           flat.isStacked ? shape[0] : 1, [&](int64_t from, int64_t to) {
                             own.data[to] = parts[other].data[from];
                           });
      }
  }
  // Returns whether two ranks differ along the axes of a flat tensor alone.
  bool sharesWith(int64_t rank, int64_t other, const Flat &flat) {
    SmallVector<StringAttr> axes = flat.attr.getAxisNames();
    return llvm::all_of(mesh.getNames(), [&](StringAttr axis) {
      return llvm::is_contained(axes, axis) ||
             machine.coordinate(rank, axis.getValue()) == machine.coordinate(other, axis.getValue());
    });
  }
  static Tensor takeLayers(const Tensor &whole, int64_t first, int64_t count) {
    std::vector<int64_t> shape = whole.shape;
    int64_t layer = whole.size() / shape[0];
    shape[0] = count;
    Tensor part(shape);
    std::copy_n(whole.data.begin() + first * layer, count * layer, part.data.begin());
    return part;
  }

  LogicalResult runMicroBatch(const NamedTensors &batch) {
    for (int64_t stage = 0; stage < virtualStages; ++stage)
      if (failed(call("forward", {stage}, batch, 1)))
        return failure();
    for (int64_t stage = infer ? 0 : virtualStages; stage-- > 0;)
      if (failed(call("backward", {stage}, batch, -1)))
        return failure();
    return success();
  }

  FailureOr<Tensor> argument(func::FuncOp func, int64_t stage, unsigned i, int64_t rank,
                             const NamedTensors &given) {
    DictionaryAttr attrs = func.getArgAttrDict(i);
    std::vector<int64_t> shape = shapeOf(func.getArgumentTypes()[i]);
    auto number = [&](StringRef key) { return attrs.getAs<IntegerAttr>(key).getInt(); };
    if (std::string name = keyOf(attrs); !name.empty())
      return lookup(states[rank], name, shape, func);
    if (std::string name = nameOf(attrs, kScalar); !name.empty())
      return lookup(input.scalars, name, shape, func);
    if (std::string name = nameOf(attrs, kInput); !name.empty()) {
      auto found = given.find(name);
      if (found == given.end())
        return func.emitError("no value is given for the input ") << name;
      FailureOr<Tensor> loaded = load(found->second, attrs, func);
      if (failed(loaded))
        return failure();
      Tensor part = machine.partOf(*loaded, rank, shardingOf(attrs, func.getArgumentTypes()[i]));
      if (part.shape != shape)
        return func.emitError("the value given for ") << name << " has another shape";
      return part;
    }
    const char *key = attrs.get(kStageBoundary) ? kStageBoundary.data() : kResidual.data();
    if (!attrs.get(key))
      return func.emitError("argument ") << i << " is bound to nothing";
    auto &from = attrs.get(kStageBoundary) ? boundaries[rank] : residuals[rank][stage];
    auto found = from.find(number(key));
    if (found == from.end() || found->second.shape != shape)
      return func.emitError("argument ") << i << ": nobody made its " << key;
    return found->second;
  }

  // Runs a procedure of some virtual stages, one at most of each stage; its stage-boundary results go
  // `direction` virtual stages further.
  LogicalResult call(StringRef procedure, ArrayRef<int64_t> which, const NamedTensors &given,
                     int64_t direction) {
    SmallVector<func::FuncOp> funcs(stages);
    std::vector<LockstepInterpreter::Tensors> arguments(machine.numRanks());
    for (int64_t stage : which) {
      func::FuncOp func = funcs[stage % stages] = function(procedure, stage);
      if (!func)
        return module.emitError("stage ") << stage << " has no " << procedure;
      for (int64_t rank : machine.ranksOfStage(stage % stages))
        for (unsigned i = 0; i < func.getNumArguments(); ++i) {
          FailureOr<Tensor> value = argument(func, stage, i, rank, given);
          if (failed(value))
            return failure();
          arguments[rank].push_back(std::move(*value));
        }
    }
    auto results = machine.run(funcs, std::move(arguments));
    if (failed(results))
      return failure();
    if (direction)
      boundaries.clear();
    for (int64_t stage : which)
      for (int64_t rank : machine.ranksOfStage(stage % stages))
        for (auto [i, value] : llvm::enumerate((*results)[rank]))
          store(funcs[stage % stages].getResultAttrDict(i), stage, rank, direction, std::move(value));
    return success();
  }

  void store(DictionaryAttr attrs, int64_t stage, int64_t rank, int64_t direction, Tensor value) {
    if (std::string name = keyOf(attrs); !name.empty())
      states[rank][name] = std::move(value);
    else if (auto number = attrs.getAs<IntegerAttr>(kStageBoundary))
      boundaries[machine.neighbour(rank, (stage + direction + virtualStages) % stages)][number.getInt()] =
          std::move(value);
    else if (auto number = attrs.getAs<IntegerAttr>(kResidual))
      residuals[rank][stage][number.getInt()] = std::move(value);
    else if (std::string name = nameOf(attrs, kOutput); !name.empty() && infer) {
      placeOutput(wholes[name], attrs, rank, value);
    } else if (!name.empty()) {
      auto [entry, inserted] = output.outputs.try_emplace(name, value);
      for (int64_t i = 0; !inserted && i < value.size(); ++i)
        note(entry->second.data[i], value.data[i]);
    }
  }
  void note(double a, double b) {
    // Count a NaN on one side only as a difference too; infinities may be equal.
    if (a != b && !(std::isnan(a) && std::isnan(b)))
      output.maxReplicaDifference = std::max(output.maxReplicaDifference,
                                     std::isnan(a - b) ? INFINITY : std::abs(a - b));
  }

  void placeOutput(Whole &whole, DictionaryAttr attrs, int64_t rank, const Tensor &part) {
    auto sharding = attrs.getAs<ShardingAttr>(kSharding);
    std::vector<int64_t> shape = part.shape;
    SmallVector<int64_t> starts(shape.size(), 0);
    if (sharding) {
      starts = machine.startsOf(rank, sharding, part.shape);
      for (auto [d, axes] : llvm::enumerate(getAxes(sharding)))
        shape[d] *= getGroupSize(mesh, axes);
    }
    if (whole.seen.empty()) {
      whole.value = Tensor(shape);
      whole.seen.resize(whole.value.size());
      auto valid = attrs.getAs<DenseI64ArrayAttr>(kValidShape);
      whole.valid = valid ? valid.asArrayRef().vec() : shape;
    }
    mergePart(whole.value, part, starts, whole.seen, /*compare=*/true);
  }

  LogicalResult gatherOutputs() {
    for (auto &[name, whole] : wholes) {
      if (llvm::is_contained(whole.seen, false))
        return module.emitError("some elements of the output ") << name << " are on no rank";
      output.outputs[name] = crop(whole.value, whole.valid);
    }
    return success();
  }

  // Places a shard, and compares it with what another rank has placed before.
  void mergePart(Tensor &whole, const Tensor &part, ArrayRef<int64_t> starts,
                 std::vector<bool> &seen, bool compare) {
    Tensor before = whole;
    placePart(whole, part, starts);
    Tensor ones(part.shape), mark(whole.shape);
    std::fill(ones.data.begin(), ones.data.end(), 1);
    placePart(mark, ones, starts);
    for (int64_t i = 0; i < whole.size(); ++i) {
      if (mark.data[i] != 1)
        continue;
      if (seen[i] && compare)
        note(before.data[i], whole.data[i]);
      seen[i] = true;
    }
  }

  // Merges the shards of every state, and compares those that several ranks hold.
  LogicalResult gatherStates() {
    for (auto &[stage, list] : flats)
      for (auto &[first, flat] : list)
        unpack(stage, flat);
    for (auto state : module.getOps<StateOp>()) {
      std::string name = state.getSymName().str();
      Tensor whole(shapeOf(state.getType()));
      std::vector<bool> seen(whole.size(), false);
      for (int64_t stage : holdersOf(state))
        for (int64_t rank : machine.ranksOfStage(stage)) {
          const Tensor &part = states[rank][name];
          SmallVector<int64_t> starts = machine.startsOf(rank, shardingOf(state), part.shape);
          if (!starts.empty())
            starts[0] += layersOf(name, stage).first;
          mergePart(whole, part, starts, seen, !isUnreduced(state));
        }
      if (llvm::is_contained(seen, false))
        return state.emitOpError("some elements are on no rank");
      output.states[name] = crop(whole, validShape(state));
    }
    return success();
  }
  // Returns whether a state is one of the step's own sums, which each rank holds in part.
  static bool isUnreduced(StateOp state) {
    return state.getRole() == graph::Role::accumulator && !state.getOf();
  }
  static Tensor crop(const Tensor &whole, std::vector<int64_t> shape) {
    Tensor part(shape);
    std::vector<int64_t> to = part.strides(), from = whole.strides();
    for (int64_t i = 0; i < part.size(); ++i) {
      int64_t at = 0, rest = i;
      for (size_t d = 0; d < shape.size(); ++d) {
        at += rest / to[d] * from[d];
        rest %= to[d];
      }
      part.data[i] = whole.data[at];
    }
    return part;
  }

  ModuleOp module;
  MeshAttr mesh;
  const StepInput &input;
  LockstepInterpreter machine;
  SymbolTable symbols;
  int64_t stages, virtualStages;
  bool infer;
  std::map<std::string, Whole> wholes; // outputs of an inference
  std::map<std::pair<std::string, int64_t>, std::pair<int64_t, int64_t>> layers;
  std::map<int64_t, llvm::MapVector<StringRef, Flat>> flats; // of each stage, by the first state
  std::vector<NamedTensors> states; // per rank
  std::vector<std::map<int64_t, std::map<int64_t, Tensor>>> residuals; // of each rank, by virtual stage
  std::map<int64_t, std::map<int64_t, Tensor>> boundaries; // by receiving rank
  StepOutput output;
};
} // namespace

FailureOr<StepOutput> llmc::parallel::evaluateStep(ModuleOp module, const StepInput &input) {
  MeshAttr mesh = getMesh(module);
  if (mesh && module.lookupSymbol<func::FuncOp>("forward_0"))
    return StagedStep(module, mesh, input).run();
  return SingleRankStep(module, input).run();
}
