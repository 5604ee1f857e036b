// Writes the functions forward_K and backward_K of the analyzed procedures.
#include "passes/4-partition/SplitStages/MicroSplitter.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace llmc;
using namespace llmc::parallel;
using namespace llmc::stages;
using graph::RepeatOp;

bool MicroSplitter::isStacked(Item item) const {
  if (item.second < 0)
    return false;
  auto repeat = item.first.getDefiningOp<RepeatOp>();
  return !repeat || cast<OpResult>(item.first).getResultNumber() >= repeat.getCarried().size();
}

RankedTensorType MicroSplitter::typeOf(Item item) const {
  auto type = cast<RankedTensorType>(item.first.getType());
  if (!isStacked(item))
    return type;
  auto repeat = item.first.getDefiningOp<RepeatOp>();
  auto &counts = repeat ? layers.find(repeat.getOperation())->second
                        : stackedBy.find(item.first)->second;
  SmallVector<int64_t> shape(type.getShape());
  shape[0] = counts[item.second];
  return RankedTensorType::get(shape, type.getElementType());
}

Value MicroSplitter::lookup(StageFunction &procedure, Item item, OpBuilder &builder) {
  if (Value value = procedure.values.lookup(item))
    return value;
  Operation *op = item.first.getDefiningOp(); // free or an alias: recomputed
  IRMapping map;
  for (Value operand : op->getOperands())
    map.map(operand, lookup(procedure, normal(operand), builder));
  Operation *clone = builder.clone(*op, map);
  for (auto [from, to] : llvm::zip(op->getResults(), clone->getResults()))
    procedure.values[{from, -1}] = to;
  return procedure.values.lookup(item);
}

void MicroSplitter::writeRepeat(StageFunction &procedure, const Unit &unit, OpBuilder &builder) {
  auto op = cast<RepeatOp>(unit.op);
  ArrayRef<int64_t> counts = layers.find(unit.op)->second;
  SmallVector<Value> carried, stacked, captured;
  for (auto [i, value] : llvm::enumerate(op.getCarried())) {
    int64_t before = partWith(op->getResult(i), unit.part);
    carried.push_back(lookup(procedure, before >= 0 ? Item{op->getResult(i), before} : normal(value), builder));
  }
  for (Value value : op.getStacked())
    stacked.push_back(lookup(procedure,
                             pieceOf(value, unit.part, op).value_or(Item{value, unit.part}), builder));
  for (Value value : op.getCaptured())
    captured.push_back(lookup(procedure, normal(value), builder));
  SmallVector<Type> carriedTypes(op.getCarriedResults().getTypes()), stackedTypes;
  for (Value result : op.getStackedResults())
    stackedTypes.push_back(typeOf({result, unit.part}));
  auto part = RepeatOp::create(builder, op.getLoc(), carriedTypes, stackedTypes,
                               static_cast<uint64_t>(counts[unit.part]), op.getReverse(), carried,
                               stacked, captured);
  part->setDiscardableAttrs(op->getDiscardableAttrDictionary());
  part->removeDiscardableAttr(kLayers);
  IRMapping map;
  op.getBody().cloneInto(&part.getBody(), map);
  for (auto [from, to] : llvm::zip(op->getResults(), part->getResults()))
    procedure.values[{from, unit.part}] = to;
}

static void shiftSlice(graph::SliceOp slice, int64_t by) {
  SmallVector<int64_t> starts(slice.getStarts()), limits(slice.getLimits());
  starts[0] += by;
  limits[0] += by;
  slice.setStarts(starts);
  slice.setLimits(limits);
}

void MicroSplitter::writeUnit(StageFunction &procedure, const Unit &unit, OpBuilder &builder) {
  if (unit.part >= 0)
    return writeRepeat(procedure, unit, builder);
  IRMapping map;
  std::optional<Item> sliced = slicedItem(unit.op);
  for (Value operand : unit.op->getOperands())
    map.map(operand, lookup(procedure, sliced.value_or(itemOn(unit.stage, operand)), builder));
  Operation *clone = builder.clone(*unit.op, map);
  if (sliced) // layers are counted from the stage's first one
    shiftSlice(cast<graph::SliceOp>(clone),
               -firstLayer(sliced->first.getDefiningOp(), sliced->second));
  for (auto [from, to] : llvm::zip(unit.op->getResults(), clone->getResults()))
    procedure.values[{from, -1}] = to;
}

void MicroSplitter::writeReturn(StageFunction &procedure, OpBuilder &builder) {
  func::FuncOp func = procedure.func;
  SmallVector<Value> values;
  SmallVector<Attribute> shardings;
  SmallVector<std::pair<StringRef, Attribute>> bindings;
  auto add = [&](Item item, StringRef name, Attribute binding) {
    values.push_back(lookup(procedure, item, builder));
    shardings.push_back(getSharding(item.first));
    bindings.push_back({name, binding});
  };
  for (auto [i, item] : llvm::enumerate(procedure.bordersOut))
    add(item, kStageBoundary, builder.getI64IntegerAttr(i));
  if (!procedure.backward)
    for (auto [i, item] : llvm::enumerate(procedure.residuals))
      add(item, kResidual, builder.getI64IntegerAttr(i));
  for (auto &[item, state] : procedure.states)
    add(item, kState, state);
  unsigned firstOutput = bindings.size();
  for (auto &[item, index] : procedure.outputs)
    add(item, kOutput, micro.getResultAttr(index, kOutput));
  auto ret = func::ReturnOp::create(builder, micro.getLoc(), values);
  ret->setAttr(kIn, builder.getArrayAttr(shardings));
  func.setFunctionType(builder.getFunctionType(func.getArgumentTypes(), ValueRange(values).getTypes()));
  SmallVector<NamedAttrList> attributes(bindings.size());
  for (auto [list, binding] : llvm::zip(attributes, bindings)) {
    if (binding.first == kState)
      bindState(list, binding.second, split, procedure.stage);
    else
      list.set(binding.first, binding.second);
  }
  for (auto [i, output] : llvm::enumerate(procedure.outputs))
    if (Attribute shape = micro.getResultAttr(output.second, kValidShape))
      attributes[firstOutput + i].set(kValidShape, shape);
  setResultAttributes(func, attributes);
}

void MicroSplitter::write(StageFunction &procedure) {
  SmallVector<Type> types;
  SmallVector<Item> items(procedure.args);
  // Orders the arguments as @micro does, so that equal stages have equal signatures.
  llvm::stable_sort(items, [](Item a, Item b) {
    return cast<BlockArgument>(a.first).getArgNumber() < cast<BlockArgument>(b.first).getArgNumber();
  });
  items.append(procedure.bordersIn);
  if (procedure.backward)
    items.append(procedure.residuals);
  for (Item item : items)
    types.push_back(typeOf(item));
  procedure.func = makeProcedure(split, procedure.backward ? "backward" : "forward",
                                 procedure.stage, types, micro.getLoc());
  func::FuncOp func = procedure.func;
  OpBuilder builder = OpBuilder::atBlockEnd(&func.getBody().front());
  size_t borders = procedure.args.size(), residuals = borders + procedure.bordersIn.size();
  SmallVector<NamedAttrList> attributes(items.size());
  for (auto [i, item] : llvm::enumerate(items)) {
    procedure.values[item] = func.getArgument(i);
    func.getArgument(i).setLoc(item.first.getLoc());
    attributes[i].set(kSharding, getSharding(item.first));
    if (i >= residuals) {
      attributes[i].set(kResidual, builder.getI64IntegerAttr(i - residuals));
    } else if (i >= borders) {
      attributes[i].set(kStageBoundary, builder.getI64IntegerAttr(i - borders));
    } else {
      unsigned arg = cast<BlockArgument>(item.first).getArgNumber();
      if (Attribute state = micro.getArgAttr(arg, kState))
        bindState(attributes[i], state, split, procedure.stage);
      else
        for (StringRef key : {StringRef(kInput), StringRef(kScalar), StringRef(kLoader)})
          if (Attribute value = micro.getArgAttr(arg, key))
            attributes[i].set(key, value);
    }
  }
  setArgumentAttributes(func, attributes);
  for (const Unit &unit : procedure.units)
    writeUnit(procedure, unit, builder);
  writeReturn(procedure, builder);
  removeDeadOps(func);
}
