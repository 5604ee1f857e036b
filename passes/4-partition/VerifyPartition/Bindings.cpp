#include "passes/4-partition/VerifyPartition/Bindings.h"

#include "dialects/graph/GraphAttrs.h"
#include "llvm/Support/InterleavedRange.h"

using namespace mlir;
using namespace llmc;
using namespace llmc::parallel;

Attribute Binding::get(StringRef name) const {
  auto f = const_cast<func::FuncOp &>(func);
  return isResult ? f.getResultAttr(index, name) : f.getArgAttr(index, name);
}
Type Binding::type() const {
  auto f = const_cast<func::FuncOp &>(func);
  return isResult ? f.getResultTypes()[index] : f.getArgumentTypes()[index];
}
int64_t Binding::virtualStage() const { return getVirtualStage(func); }
int64_t Binding::stage() const { return func->getAttrOfType<IntegerAttr>(kStage).getInt(); }
StringRef Binding::procedure() const {
  return func->getAttrOfType<StringAttr>(kProcedure).getValue();
}
std::string Binding::text() const {
  auto f = const_cast<func::FuncOp &>(func);
  return ((isResult ? "result " : "argument ") + Twine(index) + " of @" + f.getSymName()).str();
}
InFlightDiagnostic Binding::error() const {
  return const_cast<func::FuncOp &>(func).emitError();
}

SmallVector<Binding> llmc::collectBindings(ModuleOp module) {
  SmallVector<Binding> bindings;
  for (auto func : module.getOps<func::FuncOp>()) {
    for (unsigned i = 0; i < func.getNumArguments(); ++i)
      bindings.push_back({func, i, false});
    for (unsigned i = 0; i < func.getNumResults(); ++i)
      bindings.push_back({func, i, true});
  }
  return bindings;
}

LogicalResult llmc::verifyBound(ArrayRef<Binding> bindings) {
  bool ok = true;
  for (const Binding &binding : bindings) {
    int count = 0;
    for (StringRef name : {StringRef(kState), StringRef(kFlat), StringRef(kInput), StringRef(kScalar),
                           StringRef(kOutput), StringRef(kStageBoundary), StringRef(kResidual)})
      count += bool(binding.get(name));
    if (count == 1)
      continue;
    ok = false;
    binding.error() << "C5: " << binding.text() << " has " << count
                    << " bindings, expected one of state, flat, input, scalar, output, boundary, residual";
  }
  return success(ok);
}

//===-- Stage boundaries and residuals ----------------------------------------===//

// Maps numbers to the bindings on one side of a stage boundary, or of a stage's residuals.
using Side = llvm::MapVector<int64_t, Binding>;

static Side collectSide(ArrayRef<Binding> ofStage, StringRef name, StringRef procedure,
                        bool isResult) {
  Side side;
  for (const Binding &binding : ofStage)
    if (binding.isResult == isResult && binding.procedure() == procedure)
      if (auto number = dyn_cast_or_null<IntegerAttr>(binding.get(name)))
        side.insert({number.getInt(), binding});
  return side;
}

static bool agree(StringRef rule, const Side &made, const Side &read, StringRef what) {
  bool ok = true;
  for (auto &[number, from] : made) {
    auto found = read.find(number);
    if (found == read.end()) {
      ok = false;
      from.error() << rule << ": " << what << " " << number << ", " << from.text()
                   << ", is read by no one";
      continue;
    }
    const Binding &to = found->second;
    if (from.type() != to.type() || from.get(kSharding) != to.get(kSharding)) {
      ok = false;
      to.error() << rule << ": " << what << " " << number << " is " << from.type() << " in "
                 << from.text() << " and " << to.type() << " in " << to.text();
    }
  }
  for (auto &[number, to] : read)
    if (made.find(number) == made.end()) {
      ok = false;
      to.error() << rule << ": " << what << " " << number << ", " << to.text()
                 << ", is made by no one";
    }
  for (auto &[number, from] : made)
    if (number < 0 || number >= static_cast<int64_t>(made.size())) {
      ok = false;
      from.error() << rule << ": numbers run from 0 to " << made.size() - 1 << ", got " << number;
    }
  return ok;
}

LogicalResult llmc::verifyPairs(ArrayRef<Binding> bindings, int64_t stages) {
  bool ok = true;
  std::map<int64_t, SmallVector<Binding>> of; // each virtual stage
  for (const Binding &binding : bindings)
    of[binding.virtualStage()].push_back(binding);
  for (int64_t k = -1; k < stages; ++k) {
    // k = -1 and k = stages - 1 are the ends: both sides must be empty.
    ok &= agree("C6", collectSide(of[k], kStageBoundary, "forward", true),
                collectSide(of[k + 1], kStageBoundary, "forward", false), "boundary");
    ok &= agree("C6", collectSide(of[k + 1], kStageBoundary, "backward", true),
                collectSide(of[k], kStageBoundary, "backward", false), "boundary");
    ok &= agree("C7", collectSide(of[k], kResidual, "forward", true),
                collectSide(of[k], kResidual, "backward", false), "residual");
  }
  return success(ok);
}

//===-- States ----------------------------------------------------------------===//

static SmallVector<int64_t> holdersOf(graph::StateOp state) {
  SmallVector<int64_t> holders;
  if (auto list = state->getAttrOfType<ArrayAttr>(kStages))
    for (Attribute entry : list)
      if (auto number = dyn_cast<IntegerAttr>(entry))
        holders.push_back(number.getInt());
  return holders;
}

// Checks C8 for one binding.
static LogicalResult verifyPart(const Binding &binding, graph::StateOp state, MeshAttr mesh) {
  auto type = cast<RankedTensorType>(state.getType());
  SmallVector<int64_t> shape(type.getShape());
  if (auto layers = dyn_cast_or_null<DenseI64ArrayAttr>(binding.get(kLayers))) {
    if (layers.size() != 2 || shape.empty() || layers[0] < 0 || layers[1] < 1 ||
        layers[0] + layers[1] > shape[0])
      return binding.error() << "C8: " << binding.text() << " has layers " << layers
                             << ", expected first and count within " << type;
    shape[0] = layers[1];
  }
  auto sharding = state->getAttrOfType<ShardingAttr>(kSharding);
  if (!sharding)
    sharding = ShardingAttr::getReplicated(state.getContext(), type.getRank());
  auto part = RankedTensorType::get(shape, type.getElementType());
  if (!dividesEvenly(part, sharding, mesh) || getLocalType(part, sharding, mesh) != binding.type())
    return binding.error() << "C8: " << binding.text() << " is " << binding.type() << ", state @"
                           << state.getSymName() << " is " << type << " cut as " << sharding;
  if (!llvm::is_contained(holdersOf(state), binding.stage()))
    return binding.error() << "C8: " << binding.text() << " stands in stage " << binding.stage()
                           << ", state @" << state.getSymName() << " is held by stages "
                           << llvm::interleaved_array(holdersOf(state));
  return success();
}

// Checks C8 for one binding to a flat tensor: states of the stage, with the shapes of their parts of
// one layer, in a tensor of equal parts of all of them.
static LogicalResult verifyFlat(const Binding &binding, FlatAttr flat, SymbolTable &symbols,
                                MeshAttr mesh) {
  auto type = cast<RankedTensorType>(binding.type());
  auto layers = dyn_cast_or_null<DenseI64ArrayAttr>(binding.get(kLayers));
  for (FlatPartAttr part : flat.getParts()) {
    auto state = symbols.lookup<graph::StateOp>(part.getState().getAttr());
    if (!state)
      return binding.error() << "C8: " << binding.text() << " names no state, got "
                             << part.getState();
    auto first = symbols.lookup<graph::StateOp>(flat.getParts().front().getState().getAttr());
    if (state.getRole() != first.getRole())
      return binding.error() << "C8: " << binding.text() << " has parts of one role, got @"
                             << first.getSymName() << " and @" << state.getSymName();
    auto sharding = state->getAttrOfType<ShardingAttr>(kSharding);
    auto global = cast<RankedTensorType>(state.getType());
    auto local = sharding ? getLocalType(global, sharding, mesh) : global;
    if (local.getShape().drop_front(bool(layers)) != part.getShape().asArrayRef() ||
        local.getElementType() != type.getElementType() ||
        !llvm::is_contained(holdersOf(state), binding.stage()))
      return binding.error() << "C8: " << binding.text() << " has " << part << " of " << type
                             << ", its state is " << global << ", a rank's part " << local
                             << ", held by stages " << llvm::interleaved_array(holdersOf(state));
  }
  int64_t ranks = getGroupSize(mesh, flat.getAxisNames());
  FlatPartAttr last = flat.getParts().back();
  int64_t elements = last.getBegin() + last.getNumElements();
  bool fits = type.getRank() == (layers ? 2 : 1) && (!layers || type.getDimSize(0) == layers[1]);
  if (!fits || type.getShape().back() * ranks < elements)
    return binding.error() << "C8: " << binding.text() << " is " << type << ", expected one of "
                           << ranks << " equal parts of " << elements << " elements"
                           << (layers ? " a layer" : "");
  return success();
}

// Checks C9: the layers that the stages name for one state.
static LogicalResult verifyLayers(graph::StateOp state, ArrayRef<Binding> uses) {
  if (holdersOf(state).empty())
    return state.emitOpError("C9: is held by no stage");
  std::map<int64_t, std::pair<int64_t, int64_t>> parts; // by stage
  for (const Binding &use : uses) {
    auto layers = dyn_cast_or_null<DenseI64ArrayAttr>(use.get(kLayers));
    std::pair<int64_t, int64_t> part = {layers ? layers[0] : -1, layers ? layers[1] : 0};
    auto [entry, inserted] = parts.try_emplace(use.stage(), part);
    if (!inserted && entry->second != part)
      return use.error() << "C9: " << use.text() << " names other layers of @"
                         << state.getSymName() << " than its stage does elsewhere";
  }
  if (llvm::all_of(parts, [](auto &entry) { return entry.second.first < 0; }))
    return success();
  int64_t next = 0;
  for (auto &[stage, part] : parts) {
    if (part.first != next)
      return state.emitOpError("C9: stage ")
             << stage << " begins with layer " << part.first << ", expected " << next;
    next += part.second;
  }
  int64_t all = cast<RankedTensorType>(state.getType()).getShape()[0];
  if (next != all)
    return state.emitOpError("C9: its stages hold ") << next << " of " << all << " layers";
  return success();
}

LogicalResult llmc::verifyStates(ModuleOp module, ArrayRef<Binding> bindings) {
  bool ok = true;
  SymbolTable symbols(module);
  MeshAttr mesh = getMesh(module);
  std::map<std::string, SmallVector<Binding>> uses;
  for (const Binding &binding : bindings) {
    if (auto flat = dyn_cast_or_null<FlatAttr>(binding.get(kFlat))) {
      ok &= succeeded(verifyFlat(binding, flat, symbols, mesh));
      for (FlatPartAttr part : flat.getParts())
        uses[part.getState().getValue().str()].push_back(binding);
      continue;
    }
    auto name = dyn_cast_or_null<FlatSymbolRefAttr>(binding.get(kState));
    if (!name)
      continue;
    auto state = symbols.lookup<graph::StateOp>(name.getValue());
    if (!state) {
      ok = false;
      binding.error() << "C8: " << binding.text() << " names no state, got " << name;
      continue;
    }
    ok &= succeeded(verifyPart(binding, state, mesh));
    uses[name.getValue().str()].push_back(binding);
  }
  for (auto state : module.getOps<graph::StateOp>()) {
    SmallVector<Binding> &own = uses[state.getSymName().str()];
    if (failed(verifyLayers(state, own))) {
      ok = false;
      continue;
    }
    if (isInference(module) || (state.getRole() == graph::Role::accumulator && !state.getOf()))
      continue; // nothing is updated; the step's own sums are not parameters' affairs
    for (int64_t stage : holdersOf(state))
      if (llvm::none_of(own, [&](const Binding &use) {
            return use.isResult && use.procedure() == "update" && use.stage() == stage;
          })) {
        ok = false;
        state.emitOpError("C10: is held by stage ") << stage << ", which does not update it";
      }
  }
  return success(ok);
}

//===-- What an inference takes and gives -------------------------------------===//

LogicalResult llmc::verifyOutputs(ModuleOp module, ArrayRef<Binding> bindings) {
  bool ok = true;
  MeshAttr mesh = getMesh(module);
  std::map<std::string, DictionaryAttr> inputs;
  if (auto list = module->getAttrOfType<ArrayAttr>(graph::kInputs))
    for (auto entry : list.getAsRange<DictionaryAttr>())
      inputs[entry.getAs<StringAttr>("name").str()] = entry;
  std::map<std::string, std::string> outputs; // name -> its binding
  for (const Binding &binding : bindings) {
    if (auto name = dyn_cast_or_null<StringAttr>(binding.get(kOutput))) {
      auto [entry, inserted] = outputs.try_emplace(name.str(), binding.text());
      if (!inserted) {
        ok = false;
        binding.error() << "C11: " << binding.text() << " is output " << name << ", and "
                        << entry->second << " too";
      }
    }
    auto name = dyn_cast_or_null<StringAttr>(binding.get(kInput));
    if (!name)
      continue;
    DictionaryAttr input = inputs[name.str()];
    auto type = input ? input.getAs<TypeAttr>("type") : TypeAttr();
    auto sharding = input ? input.getAs<ShardingAttr>("sharding") : ShardingAttr();
    if (type && sharding && getLocalType(type.getValue(), sharding, mesh) == binding.type())
      continue;
    ok = false;
    binding.error() << "C11: " << binding.text() << " is " << binding.type() << ", input " << name
                    << " of graph.inputs is " << (input ? Attribute(input) : name);
  }
  return success(ok);
}
