#include "passes/4-partition/SplitStages/SplitStages.h"
#include "dialects/graph/GraphAttrs.h"
#include "passes/4-partition/Passes.h"

#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/MapVector.h"

namespace llmc {
#define GEN_PASS_DEF_SPLITSTAGES
#include "passes/4-partition/Passes.h.inc"
} // namespace llmc

using namespace mlir;
using namespace llmc;
using namespace llmc::parallel;

std::string StageSplit::rootOf(StringRef name) {
  auto state = symbols.lookup<graph::StateOp>(name);
  return state && state.getOf() ? state.getOf()->str() : name.str();
}

func::FuncOp llmc::makeProcedure(StageSplit &split, StringRef name, int64_t stage,
                                 ArrayRef<Type> args, Location loc) {
  OpBuilder builder = OpBuilder::atBlockEnd(split.module.getBody());
  auto func = func::FuncOp::create(builder, loc, (name + "_" + Twine(stage)).str(),
                                   builder.getFunctionType(args, {}));
  func->setAttr(kStage, builder.getI64IntegerAttr(stage % split.stagesOfMesh));
  if (int64_t chunk = stage / split.stagesOfMesh)
    func->setAttr(kChunk, builder.getI64IntegerAttr(chunk));
  func->setAttr(kProcedure, builder.getStringAttr(name));
  func.addEntryBlock();
  return func;
}

void llmc::bindState(NamedAttrList &attributes, Attribute state, StageSplit &split, int64_t stage) {
  attributes.set(kState, state);
  StateGroup &family = split.stateGroupOf(cast<FlatSymbolRefAttr>(state).getValue());
  if (family.isSplit())
    attributes.set(kLayers, DenseI64ArrayAttr::get(state.getContext(), {family.firstLayer(stage), family.layers[stage]}));
}

static SmallVector<DictionaryAttr> asDictionaries(MLIRContext *context, ArrayRef<NamedAttrList> attributes) {
  return llvm::map_to_vector(attributes, [&](const NamedAttrList &list) { return list.getDictionary(context); });
}

void llmc::setArgumentAttributes(func::FuncOp func, ArrayRef<NamedAttrList> attributes) {
  func.setAllArgAttrs(asDictionaries(func.getContext(), attributes));
}

void llmc::setResultAttributes(func::FuncOp func, ArrayRef<NamedAttrList> attributes) {
  func.setAllResultAttrs(asDictionaries(func.getContext(), attributes));
}

void llmc::removeDeadOps(func::FuncOp func) {
  IRRewriter rewriter(func.getContext());
  (void)runRegionDCE(rewriter, func->getRegions());
}

void llmc::removeUnusedArguments(func::FuncOp func) {
  llvm::BitVector unused(func.getNumArguments());
  for (BlockArgument arg : func.getArguments())
    if (arg.use_empty())
      unused.set(arg.getArgNumber());
  (void)func.eraseArguments(unused);
}

namespace {
struct SplitStages : llmc::impl::SplitStagesBase<SplitStages> {
  void runOnOperation() override;
  LogicalResult checkRanges(StageSplit &split);
  LogicalResult markStates(StageSplit &split);
};
} // namespace

// Checks S5: the layers of a state are in one chunk.
LogicalResult SplitStages::checkRanges(StageSplit &split) {
  for (auto &[name, family] : split.stateGroups) {
    std::set<int64_t> chunks;
    for (auto [k, count] : llvm::enumerate(family.layers))
      if (count > 0)
        chunks.insert(k / split.stagesOfMesh);
    Operation *state = split.symbols.lookup(name);
    if (chunks.size() > 1)
      return (state ? state : split.module.getOperation())->emitError("S5: the layers of @")
             << name << " are in several chunks, got " << llvm::interleaved_array(family.layers)
             << " of virtual stages; each chunk needs a state of its own";
  }
  return success();
}

// Writes the holders of every state to its `parallel.stages`.
LogicalResult SplitStages::markStates(StageSplit &split) {
  for (auto state : split.module.getOps<graph::StateOp>()) {
    StateGroup &family = split.stateGroupOf(state.getSymName());
    Builder builder(state.getContext());
    SmallVector<Attribute> holders;
    for (int64_t stage : family.holders)
      holders.push_back(builder.getI64IntegerAttr(stage));
    state->setAttr(kStages, builder.getArrayAttr(holders));
  }
  return success();
}

// Returns the rows without padding of the smallest table that `ids` index directly or reshaped; 0
// if none. The runtime checks inputs against it: a row outside of a table would silently be zeros.
static int64_t rowsIndexedBy(Value ids) {
  int64_t least = 0;
  auto take = [&](int64_t rows) { least = rows && (!least || rows < least) ? rows : least; };
  for (Operation *user : ids.getUsers()) {
    if (isa<graph::ReshapeOp, ReshardOp>(user))
      take(rowsIndexedBy(user->getResult(0)));
    auto gather = dyn_cast<graph::GatherOp>(user);
    if (!gather || gather.getIds() != ids || gather.getOffset())
      continue;
    int64_t rows = cast<RankedTensorType>(gather.getTable().getType()).getDimSize(0);
    // A cut table may be padded; its state records the valid rows.
    auto table = dyn_cast<BlockArgument>(gather.getTable());
    auto func = table ? dyn_cast<func::FuncOp>(table.getOwner()->getParentOp()) : func::FuncOp();
    auto symbol = func ? func.getArgAttrOfType<FlatSymbolRefAttr>(table.getArgNumber(), kState)
                       : FlatSymbolRefAttr();
    auto state = symbol ? func->getParentOfType<ModuleOp>().lookupSymbol<graph::StateOp>(
                              symbol.getAttr())
                        : graph::StateOp();
    if (auto valid = state ? state.getValidShape() : std::nullopt)
      rows = cast<IntegerAttr>((*valid)[0]).getInt();
    take(rows);
  }
  return least;
}

// Records in the module's list of inputs how each is cut and loaded. An input that nothing reads is
// replicated, with limit 0.
static void recordInputs(func::FuncOp forward) {
  ModuleOp module = forward->getParentOfType<ModuleOp>();
  Builder b(module.getContext());
  auto entry = [&](Attribute name, Type type, ShardingAttr sharding, int64_t limit = 0,
                   Attribute loader = {}) -> Attribute {
    SmallVector<NamedAttribute> entries = {b.getNamedAttr("name", name),
                                           b.getNamedAttr("type", TypeAttr::get(type)),
                                           b.getNamedAttr("sharding", sharding),
                                           b.getNamedAttr("limit", b.getI64IntegerAttr(limit))};
    if (loader)
      entries.push_back(b.getNamedAttr("loader", loader));
    return b.getDictionaryAttr(entries);
  };
  llvm::MapVector<Attribute, Attribute> inputs; // by name
  if (auto list = module->getAttrOfType<ArrayAttr>(graph::kInputs))
    for (auto input : list.getAsRange<DictionaryAttr>()) {
      Type type = input.getAs<TypeAttr>("type").getValue();
      inputs[input.get("name")] =
          entry(input.get("name"), type,
                ShardingAttr::getReplicated(module.getContext(),
                                            cast<RankedTensorType>(type).getRank()),
                0, input.get("loader"));
    }
  for (BlockArgument arg : forward.getArguments())
    if (Attribute name = forward.getArgAttr(arg.getArgNumber(), kInput))
      inputs[name] = entry(name, arg.getType(), getSharding(arg), rowsIndexedBy(arg),
                           forward.getArgAttr(arg.getArgNumber(), kLoader));
  SmallVector<Attribute> list;
  for (auto &[name, input] : inputs)
    list.push_back(input);
  module->setAttr(graph::kInputs, b.getArrayAttr(list));
}

void SplitStages::runOnOperation() {
  ModuleOp module = getOperation();
  func::FuncOp micro = getStepFunction(module);
  auto update = module.lookupSymbol<func::FuncOp>("update");
  bool infer = isInference(module);
  if (!micro || !(update || infer) || !getMesh(module)) {
    module.emitError(infer ? "an inference needs @forward and the attribute `parallel.mesh`"
                           : "a step needs @micro, @update and the attribute `parallel.mesh`");
    return signalPassFailure();
  }
  StageSplit split(module);
  if (failed(splitMicro(micro, split)) || failed(checkRanges(split)) || (!infer && failed(splitUpdate(update, split))) ||
      failed(markStates(split)))
    return signalPassFailure();
  if (infer)
    recordInputs(micro);
  micro.erase();
  if (update)
    update.erase();
}
