#include "passes/4-partition/FlattenStates/Buckets.h"

#include "dialects/graph/Build.h"
#include "dialects/graph/Repeat.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/InterleavedRange.h"

using namespace mlir;
using namespace llmc;
using namespace llmc::flat;
using namespace llmc::parallel;
using graph::Role;
using graph::StateOp;

//===-- Buckets ---------------------------------------------------------------===//

RankedTensorType Bucket::typeOf(Type element, bool isWhole) const {
  SmallVector<int64_t> shape;
  if (isStacked())
    shape.push_back(layers[1]);
  shape.push_back(isWhole ? length : length / members);
  return RankedTensorType::get(shape, element);
}

StateOp Bucket::stateOf(const BucketTensor &tensor, Role role) {
  if (role == Role::parameter)
    return tensor.parameter;
  const auto *state =
      llvm::find_if(tensor.others, [&](StateOp other) { return other.getRole() == role; });
  return state == tensor.others.end() ? StateOp() : *state;
}

FlatAttr Bucket::bindingOf(Role role, bool isWhole) const {
  MLIRContext *context = axes.getContext();
  SmallVector<FlatPartAttr> parts;
  for (const BucketTensor &tensor : tensors)
    parts.push_back(FlatPartAttr::get(context, FlatSymbolRefAttr::get(stateOf(tensor, role)),
                                      tensor.begin, DenseI64ArrayAttr::get(context, tensor.shape)));
  return FlatAttr::get(context, isWhole ? ArrayAttr::get(context, {}) : axes, parts);
}

// Returns a location that names the parameters of a bucket. Experts have many.
static Location locationOf(const Bucket &bucket) {
  MLIRContext *context = bucket.axes.getContext();
  StateOp first = bucket.tensors.front().parameter;
  size_t count = bucket.isStacked() ? cast<RankedTensorType>(first.getType()).getDimSize(0) : 1;
  SmallVector<Location> ofLayers;
  for (size_t layer = 0; layer < count; ++layer) {
    SmallVector<Location> names;
    for (const BucketTensor &tensor : bucket.tensors) {
      StateOp state = tensor.parameter;
      size_t views = state.getViews() ? state.getViews()->size() / count : 0; // of a layer: one for each expert
      for (size_t view = layer * views; view < (layer + 1) * views; ++view)
        names.push_back(NameLoc::get(
            StringAttr::get(context, cast<graph::ViewAttr>((*state.getViews())[view]).getSource().getValue())));
    }
    ofLayers.push_back(FusedLoc::get(context, names));
  }
  return bucket.isStacked() ? FusedLoc::get(context, ofLayers, StringAttr::get(context, graph::kLayersLocation))
                     : ofLayers.front();
}

//===-- Bindings --------------------------------------------------------------===//

// Returns the first of a list of dictionaries, of arguments or results, that binds a state; -1 if none does.
static int64_t bindingOf(ArrayAttr dictionaries, StateOp state) {
  if (!state || !dictionaries)
    return -1;
  // Compares attributes of one context, which is faster than names.
  auto name = FlatSymbolRefAttr::get(state);
  auto key = StringAttr::get(state.getContext(), kState);
  for (auto [i, dictionary] : llvm::enumerate(dictionaries.getAsRange<DictionaryAttr>()))
    if (dictionary.get(key) == name)
      return int64_t(i);
  return -1;
}

BlockArgument flat::argumentOf(func::FuncOp func, StateOp state) {
  int64_t i = bindingOf(func.getAllArgAttrs(), state);
  return i < 0 ? BlockArgument() : func.getArgument(i);
}

OpOperand *flat::resultOf(func::FuncOp func, StateOp state) {
  int64_t i = bindingOf(func.getAllResultAttrs(), state);
  return i < 0 ? nullptr : &func.getBody().front().getTerminator()->getOpOperand(i);
}

SmallVector<BlockArgument, 4> flat::updateArguments(func::FuncOp update, const BucketTensor &tensor) {
  StateOp master = Bucket::stateOf(tensor, Role::master);
  SmallVector<BlockArgument, 4> args;
  for (StateOp state : {master ? master : tensor.parameter, Bucket::stateOf(tensor, Role::accumulator),
                        Bucket::stateOf(tensor, Role::moment1),
                        Bucket::stateOf(tensor, Role::moment2)})
    args.push_back(argumentOf(update, state));
  return args;
}

//===-- Classes of parameters -------------------------------------------------===//

bool flat::isElementwise(Operation *op) {
  auto compute = dyn_cast<graph::GraphOpInterface>(op);
  return compute && compute.getEmitClass() == graph::EmitClass::Elementwise;
}

bool flat::isNorm(Operation *op) {
  auto reduce = dyn_cast<graph::ReduceOp>(op);
  return reduce && reduce.getKind() == graph::ReduceKind::sum_squares &&
         graph::shapeOf(reduce.getResult()).empty();
}

namespace {

// Writes what @update does with the states of a parameter, without names and shapes: parameters of
// one bucket have equal texts.
class Signature {
public:
  Signature(func::FuncOp update, ArrayRef<BlockArgument> args) : update(update) {
    for (BlockArgument arg : args)
      if (arg)
        numbers.insert({arg, numbers.size()});
  }
  FailureOr<std::string> write();

private:
  void writeOp(Operation &op);
  void writeShared(Value value);

  func::FuncOp update;
  DenseMap<Value, size_t> numbers; // of the values that are tensors of the parameter's shape
  std::string text;
  llvm::raw_string_ostream out{text};
};

// Writes a value that is not of the parameter alone, as a rate or the norm: arithmetic on rates by what
// it computes, since each parameter may have its own copy; others by what they are.
void Signature::writeShared(Value value) {
  Operation *op = value.getDefiningOp();
  bool isOfRates = op && isElementwise(op) && op->getNumOperands() > 0 &&
                   llvm::all_of(op->getOperands(), llvm::IsaPred<BlockArgument>) &&
                   graph::shapeOf(value).empty();
  if (!isOfRates) {
    out << " @" << value.getAsOpaquePointer();
    return;
  }
  out << " (" << op->getName();
  for (Value operand : op->getOperands())
    out << " @" << operand.getAsOpaquePointer();
  out << ')';
}

void Signature::writeOp(Operation &op) {
  out << op.getName();
  for (NamedAttribute attribute : op.getAttrDictionary())
    if (attribute.getName() != kOrigin && attribute.getName() != "dims")
      out << ' ' << attribute.getName() << '=' << attribute.getValue();
  for (Value operand : op.getOperands()) {
    auto number = numbers.find(operand);
    if (number != numbers.end())
      out << " %" << number->second << ':' << graph::elementOf(operand);
    else
      writeShared(operand);
  }
  out << ';';
}

FailureOr<std::string> Signature::write() {
  for (Operation &op : update.getBody().front()) {
    if (llvm::none_of(op.getOperands(), [&](Value v) { return numbers.contains(v); }))
      continue;
    if (isa<func::ReturnOp>(op)) {
      for (OpOperand &use : op.getOpOperands())
        if (auto number = numbers.find(use.get()); number != numbers.end())
          out << " result " << number->second;
      continue;
    }
    if (!isElementwise(&op) && !isNorm(&op) && !isa<AllReduceOp>(op))
      return op.emitOpError("F1: does not compute each element alone, so that states cannot be "
                            "shared out in flat buckets; use --zero 0");
    writeOp(op);
    if (!isNorm(&op))
      for (Value result : op.getResults())
        numbers.insert({result, numbers.size()});
  }
  return text;
}

} // namespace

// Returns the data-parallel sum of an accumulator, over all `axes`; null if there is none.
static AllReduceOp sumOver(BlockArgument accumulator, ArrayAttr axes) {
  if (!accumulator || !accumulator.hasOneUse())
    return {};
  auto sum = dyn_cast<AllReduceOp>(*accumulator.getUsers().begin());
  bool covers = sum && !sum.getMembers() && llvm::all_of(axes, [&](Attribute axis) {
                  return llvm::is_contained(sum.getAxes(), axis);
                });
  return covers ? sum : AllReduceOp();
}

// Returns where a value is read first: the number of repeats before its first user, so that tensors
// before the layers and behind them are told apart.
static int64_t placeOf(Value value) {
  int64_t place = 0;
  for (Operation &op : *value.getParentBlock()) {
    if (llvm::is_contained(op.getOperands(), value))
      return place;
    place += isa<graph::RepeatOp>(op);
  }
  return place;
}

// Returns the repeat that adds to an accumulator, or null.
static Operation *layersOf(ArrayRef<func::FuncOp> backwards, StateOp accumulator) {
  for (func::FuncOp backward : backwards)
    if (OpOperand *result = resultOf(backward, accumulator))
      return result->get().getDefiningOp<graph::RepeatOp>().getOperation();
  return nullptr;
}

// Returns a text that parameters of one bucket share; null if the parameter has no bucket.
static FailureOr<std::optional<std::string>> classOf(StageFunctions functions,
                                                     const BucketTensor &tensor, ArrayAttr axes) {
  StateOp parameter = tensor.parameter;
  auto args = updateArguments(functions.update, tensor);
  AllReduceOp sum = sumOver(args[1], axes);
  if (!sum || !args[0])
    return std::optional<std::string>();
  FailureOr<std::string> signature = Signature(functions.update, args).write();
  if (failed(signature))
    return failure();
  std::string text;
  llvm::raw_string_ostream out(text);
  out << parameter.getStacked() << graph::elementOf(args[1]) << ' ' << cast<ShapedType>(parameter.getType()).getElementType();
  if (Attribute layers = functions.update.getArgAttr(args[1].getArgNumber(), kLayers))
    out << layers;
  auto holders = parameter->getAttrOfType<ArrayAttr>(kStages);
  if (holders)
    out << holders;
  SmallVector<StringRef> cuts;
  if (auto sharding = parameter->getAttrOfType<ShardingAttr>(kSharding))
    for (const Axes &dim : getAxes(sharding))
      for (StringAttr axis : dim)
        cuts.push_back(axis.getValue());
  llvm::sort(cuts);
  out << llvm::interleaved_array(cuts);
  if (!parameter.getStacked() && holders && holders.size() > 1) {
    // Keeps apart what several stages hold: they add it up together, and places differ between stages.
    out << ' ' << parameter.getSymName();
  } else if (!parameter.getStacked()) {
    for (auto [chunk, forward] : llvm::enumerate(functions.forwards))
      if (BlockArgument weight = argumentOf(forward, parameter))
        out << " place " << chunk << ' ' << placeOf(weight);
  } else
    out << " layers "
        << layersOf(functions.backwards, Bucket::stateOf(tensor, Role::accumulator));
  out << *signature;
  return std::optional<std::string>(text);
}

// Returns the length of a flat tensor of `elements` for so many ranks. There is always some padding,
// so that a scaled-down model has the instructions of its original. Parts that are long enough for
// it to be little begin at multiples of 16 elements, where vectors and transports are fast.
static int64_t paddedLength(int64_t elements, int64_t members) {
  constexpr int64_t kVector = 16, kLong = 64 * kVector;
  int64_t unit = elements >= kLong * members ? kVector : 1;
  return llvm::alignTo(elements + 1, members * unit);
}

FailureOr<std::vector<Bucket>> flat::collectBuckets(ModuleOp module, StageFunctions functions) {
  MeshAttr mesh = getMesh(module);
  llvm::MapVector<StringRef, Bucket> buckets; // keys live in `names`
  llvm::BumpPtrAllocator names;
  DenseMap<StringAttr, SmallVector<StateOp, 4>> others;
  for (auto state : module.getOps<StateOp>())
    if (FlatSymbolRefAttr parameter = state.getOfAttr())
      others[parameter.getAttr()].push_back(state);
  for (auto parameter : module.getOps<StateOp>()) {
    if (parameter.getRole() != Role::parameter)
      continue;
    BucketTensor tensor;
    tensor.parameter = parameter;
    tensor.others = others.lookup(parameter.getSymNameAttr());
    StateOp moment = Bucket::stateOf(tensor, Role::moment1);
    StateOp master = Bucket::stateOf(tensor, Role::master);
    StateOp accumulator = Bucket::stateOf(tensor, Role::accumulator);
    int zero = parameter->hasAttr(kFlatAxes)                     ? 3
               : accumulator && accumulator->hasAttr(kFlatAxes) ? 2
                                                                  : 1;
    StateOp marked = zero == 3 ? parameter : zero == 2 ? accumulator : master ? master : moment;
    auto axes = marked ? marked->getAttrOfType<ArrayAttr>(kFlatAxes) : ArrayAttr();
    if (!axes)
      continue;
    auto key = classOf(functions, tensor, axes);
    if (failed(key))
      return failure();
    if (!*key)
      continue;
    auto [at, isNew] = buckets.insert({StringRef(**key).copy(names), Bucket()});
    Bucket &bucket = at->second;
    BlockArgument sums = updateArguments(functions.update, tensor)[1];
    ArrayRef<int64_t> shape = graph::shapeOf(sums);
    if (isNew) {
      bucket.axes = axes;
      bucket.members = getGroupSize(mesh, llvm::to_vector(axes.getAsRange<StringAttr>()));
      bucket.zero = zero;
      auto layers = functions.update.getArgAttrOfType<DenseI64ArrayAttr>(sums.getArgNumber(), kLayers);
      if (parameter.getStacked())
        bucket.layers = layers ? layers
                               : DenseI64ArrayAttr::get(module.getContext(), {0, shape[0]});
    }
    tensor.begin = bucket.length;
    tensor.shape.assign(shape.begin() + bucket.isStacked(), shape.end());
    bucket.length += tensor.size();
    bucket.tensors.push_back(tensor);
  }
  std::vector<Bucket> list;
  for (auto &[name, bucket] : buckets) {
    bucket.length = paddedLength(bucket.length, bucket.members);
    bucket.location = locationOf(bucket);
    list.push_back(std::move(bucket));
  }
  return list;
}
