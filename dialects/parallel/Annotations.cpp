#include "dialects/parallel/Annotations.h"

#include "dialects/parallel/Gradients.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace llmc;
using namespace llmc::parallel;
using graph::ReduceKind;

MeshAttr llmc::parallel::getMesh(Operation *op) {
  for (; op; op = op->getParentOp())
    if (auto mesh = op->getAttrOfType<MeshAttr>(kMesh))
      return mesh;
  return {};
}

bool llmc::parallel::areOverReplicas(Operation *op, ArrayAttr axes) {
  MeshAttr mesh = getMesh(op);
  return mesh && llvm::any_of(axes.getAsRange<StringAttr>(), [&](StringAttr axis) {
    return mesh.isOf(axis, planfile::AxisRole::Data) || mesh.isOf(axis, planfile::AxisRole::Context);
  });
}

bool llmc::parallel::scattersGradients(ReduceScatterOp op) {
  auto origin = op->getAttrOfType<DictionaryAttr>(kOrigin);
  auto tactic = origin ? origin.getAs<StringAttr>("tactic") : StringAttr();
  return areOverReplicas(op, op.getAxes()) && tactic && tactic == "state";
}

bool llmc::parallel::isInference(ModuleOp module) {
  auto mode = module->getAttrOfType<StringAttr>(graph::kMode);
  return mode && mode.getValue() == "infer";
}

func::FuncOp llmc::parallel::getStepFunction(ModuleOp module) {
  return module.lookupSymbol<func::FuncOp>(isInference(module) ? "forward" : "micro");
}

int64_t llmc::parallel::getNumVirtualStages(ModuleOp module) {
  auto layers = module->getAttrOfType<DenseI64ArrayAttr>(kStageLayers);
  MeshAttr mesh = getMesh(module);
  int64_t stages = mesh ? mesh.getSize(planfile::AxisRole::Stages) : 1;
  // A list of other stages than the mesh has belongs to another mesh.
  return layers && !layers.empty() && layers.size() % stages == 0 ? layers.size() : stages;
}

int64_t llmc::parallel::getVirtualStage(func::FuncOp func) {
  MeshAttr mesh = getMesh(func);
  auto stage = func->getAttrOfType<IntegerAttr>(kStage), chunk = func->getAttrOfType<IntegerAttr>(kChunk);
  int64_t stages = mesh ? mesh.getSize(planfile::AxisRole::Stages) : 1;
  return (stage ? stage.getInt() : 0) + (chunk ? chunk.getInt() : 0) * stages;
}

int64_t llmc::parallel::getGroupSize(MeshAttr mesh, ArrayRef<StringAttr> axes) {
  int64_t size = 1;
  for (StringAttr axis : axes)
    size *= mesh ? mesh.getSize(axis.getValue()) : 1;
  return size;
}

//===-- Reading and writing -----------------------------------------------===//

static ShardingAttr replicated(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return ShardingAttr::getReplicated(type.getContext(), tensor ? tensor.getRank() : 0);
}

static ShardingAttr getEntry(Operation *op, StringRef name, unsigned i, Type type) {
  auto list = dyn_cast_or_null<ArrayAttr>(op->getDiscardableAttr(name));
  if (!list || i >= list.size())
    return replicated(type);
  auto entry = dyn_cast<ShardingAttr>(list[i]);
  return entry ? entry : replicated(type);
}

static void setEntry(Operation *op, StringRef name, TypeRange types, unsigned i,
                     ShardingAttr sharding) {
  SmallVector<Attribute> list;
  for (auto [k, type] : llvm::enumerate(types))
    list.push_back(k == i ? sharding : getEntry(op, name, k, type));
  op->setDiscardableAttr(name, ArrayAttr::get(op->getContext(), list));
}

ShardingAttr llmc::parallel::getSharding(Value value) {
  if (auto result = dyn_cast<OpResult>(value)) {
    if (auto reshard = dyn_cast<ReshardOp>(result.getOwner()))
      return reshard.getTo();
    return getEntry(result.getOwner(), kOut, result.getResultNumber(), value.getType());
  }
  auto arg = cast<BlockArgument>(value);
  Operation *parent = arg.getOwner()->getParentOp();
  if (auto func = dyn_cast<func::FuncOp>(parent)) {
    auto attr = func.getArgAttrOfType<ShardingAttr>(arg.getArgNumber(), kSharding);
    return attr ? attr : replicated(value.getType());
  }
  return getEntry(parent, kArgs, arg.getArgNumber(), value.getType());
}

void llmc::parallel::setSharding(Value value, ShardingAttr sharding) {
  if (auto result = dyn_cast<OpResult>(value))
    return setEntry(result.getOwner(), kOut, result.getOwner()->getResultTypes(),
                    result.getResultNumber(), sharding);
  auto arg = cast<BlockArgument>(value);
  Operation *parent = arg.getOwner()->getParentOp();
  if (auto func = dyn_cast<func::FuncOp>(parent))
    return func.setArgAttr(arg.getArgNumber(), kSharding, sharding);
  setEntry(parent, kArgs, arg.getOwner()->getArgumentTypes(), arg.getArgNumber(), sharding);
}

ShardingAttr llmc::parallel::getRequired(OpOperand &use) {
  if (auto reshard = dyn_cast<ReshardOp>(use.getOwner()))
    return reshard.getFrom();
  return getEntry(use.getOwner(), kIn, use.getOperandNumber(), use.get().getType());
}

void llmc::parallel::setRequired(OpOperand &use, ShardingAttr sharding) {
  setEntry(use.getOwner(), kIn, use.getOwner()->getOperandTypes(), use.getOperandNumber(),
           sharding);
}

static ArrayAttr listOf(MLIRContext *context, ArrayRef<ShardingAttr> shardings) {
  return ArrayAttr::get(context, SmallVector<Attribute>(shardings.begin(), shardings.end()));
}

void llmc::parallel::setShardings(Operation *op, ArrayRef<ShardingAttr> required, ArrayRef<ShardingAttr> defined,
                                  DictionaryAttr origin) {
  assert(required.size() == op->getNumOperands() && defined.size() == op->getNumResults());
  NamedAttrList attributes(op->getDiscardableAttrDictionary());
  if (!required.empty())
    attributes.set(kIn, listOf(op->getContext(), required));
  if (!defined.empty())
    attributes.set(kOut, listOf(op->getContext(), defined));
  if (origin)
    attributes.set(kOrigin, origin);
  op->setDiscardableAttrs(attributes.getDictionary(op->getContext()));
}

void llmc::parallel::setArgumentShardings(Operation *parent, ArrayRef<ShardingAttr> shardings) {
  if (shardings.empty())
    return;
  auto func = dyn_cast<func::FuncOp>(parent);
  if (!func)
    return parent->setDiscardableAttr(kArgs, listOf(parent->getContext(), shardings));
  SmallVector<DictionaryAttr> arguments;
  for (auto [i, sharding] : llvm::enumerate(shardings)) {
    NamedAttrList attributes(func.getArgAttrDict(i));
    attributes.set(kSharding, sharding);
    arguments.push_back(attributes.getDictionary(parent->getContext()));
  }
  func.setAllArgAttrs(arguments);
}

ShardingAttr llmc::parallel::getResultSharding(func::FuncOp func, unsigned i) {
  return getRequired(func.getBody().front().getTerminator()->getOpOperand(i));
}

//===-- Making shardings --------------------------------------------------===//

ShardingAttr llmc::parallel::makeSharding(MLIRContext *context, ArrayRef<Axes> dims,
                                          ArrayRef<StringAttr> unreduced, ReduceKind kind) {
  SmallVector<ArrayAttr> lists;
  for (const Axes &axes : dims)
    lists.push_back(ArrayAttr::get(context, SmallVector<Attribute>(axes.begin(), axes.end())));
  SmallVector<StringAttr> sorted(unreduced);
  llvm::sort(sorted, [](StringAttr a, StringAttr b) { return a.getValue() < b.getValue(); });
  return ShardingAttr::get(context, lists, sorted, sorted.empty() ? ReduceKind::sum : kind);
}

SmallVector<Axes> llmc::parallel::getAxes(ShardingAttr sharding) {
  SmallVector<Axes> dims;
  for (ArrayAttr list : sharding.getDims())
    dims.push_back(Axes(list.getAsRange<StringAttr>()));
  return dims;
}

ShardingAttr llmc::parallel::withUnreduced(ShardingAttr sharding, ArrayRef<StringAttr> axes,
                                           ReduceKind kind) {
  return makeSharding(sharding.getContext(), getAxes(sharding), axes, kind);
}

ShardingAttr llmc::parallel::dropLeading(ShardingAttr sharding) {
  return ShardingAttr::get(sharding.getContext(), sharding.getDims().drop_front(),
                           sharding.getUnreduced(), sharding.getKind());
}

ShardingAttr llmc::parallel::addLeading(ShardingAttr sharding) {
  SmallVector<ArrayAttr> dims = {ArrayAttr::get(sharding.getContext(), {})};
  dims.append(sharding.getDims().begin(), sharding.getDims().end());
  return ShardingAttr::get(sharding.getContext(), dims, sharding.getUnreduced(),
                           sharding.getKind());
}

ShardingAttr llmc::parallel::withoutUnitAxes(ShardingAttr sharding, MeshAttr mesh) {
  auto isUnit = [&](StringAttr axis) { return mesh.getSize(axis.getValue()) == 1; };
  SmallVector<Axes> dims = getAxes(sharding);
  for (Axes &axes : dims)
    llvm::erase_if(axes, isUnit);
  Axes unreduced(sharding.getUnreduced());
  llvm::erase_if(unreduced, isUnit);
  return makeSharding(sharding.getContext(), dims, unreduced, sharding.getKind());
}

RankedTensorType llmc::parallel::getLocalType(Type global, ShardingAttr sharding, MeshAttr mesh) {
  auto type = cast<RankedTensorType>(global);
  return RankedTensorType::get(sharding.getLocalShape(type.getShape(), mesh),
                               type.getElementType());
}

bool llmc::parallel::dividesEvenly(Type global, ShardingAttr sharding, MeshAttr mesh) {
  ArrayRef<int64_t> shape = cast<RankedTensorType>(global).getShape();
  for (auto [size, axes] : llvm::zip(shape, getAxes(sharding)))
    if (size % getGroupSize(mesh, axes) != 0)
      return false;
  return true;
}

StringRef llmc::parallel::getTactic(ModuleOp module, StringAttr axis) {
  auto tactics = module->getAttrOfType<DictionaryAttr>(kTactics);
  auto tactic = tactics ? tactics.getAs<StringAttr>(axis) : StringAttr();
  return tactic ? tactic.getValue() : StringRef("annotation");
}

void llmc::parallel::setTactic(ModuleOp module, StringAttr axis, StringRef tactic) {
  NamedAttrList entries(module->getAttrOfType<DictionaryAttr>(kTactics));
  entries.set(axis, StringAttr::get(module.getContext(), tactic));
  module->setAttr(kTactics, entries.getDictionary(module.getContext()));
}

// Collects in a set, since an update's location names every tensor of its bucket.
static void collectNodeNames(Location loc, llvm::SetVector<StringAttr> &names) {
  if (auto name = dyn_cast<NameLoc>(loc)) {
    names.insert(name.getName());
  } else if (auto fused = dyn_cast<FusedLoc>(loc)) {
    for (Location part : fused.getLocations())
      collectNodeNames(part, names);
  } else if (auto call = dyn_cast<CallSiteLoc>(loc)) {
    collectNodeNames(call.getCallee(), names);
  }
}
SmallVector<StringAttr> llmc::parallel::getNodeNames(Location loc) {
  llvm::SetVector<StringAttr> names;
  collectNodeNames(loc, names);
  return SmallVector<StringAttr>(names.getArrayRef());
}

StringRef llmc::parallel::getNodeName(Location loc) {
  if (auto name = dyn_cast<NameLoc>(loc))
    return name.getName().getValue();
  if (auto fused = dyn_cast<FusedLoc>(loc))
    for (Location part : fused.getLocations())
      if (StringRef name = getNodeName(part); !name.empty())
        return name;
  if (auto call = dyn_cast<CallSiteLoc>(loc))
    return getNodeName(call.getCallee());
  return {};
}
