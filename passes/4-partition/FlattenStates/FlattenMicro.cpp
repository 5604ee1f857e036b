// Rewrites the forward and the backward of a stage for flat parameters and gradients.
#include "passes/4-partition/FlattenStates/Flatten.h"

#include "dialects/graph/Build.h"
#include "passes/4-partition/FlattenStates/StackedOperands.h"
#include "passes/4-partition/MapLayers.h"
#include "passes/4-partition/Origin.h"

using namespace mlir;
using namespace llmc;
using namespace llmc::flat;
using namespace llmc::parallel;
using graph::Role;

//===-- Bindings --------------------------------------------------------------===//

static DictionaryAttr bindingsOf(const Bucket &bucket, Role role, bool isWhole) {
  Builder b(bucket.axes.getContext());
  NamedAttrList attrs;
  attrs.set(kFlat, bucket.bindingOf(role, isWhole));
  if (bucket.isStacked())
    attrs.set(kLayers, bucket.layers);
  return attrs.getDictionary(b.getContext());
}

BlockArgument flat::addFlatArgument(func::FuncOp func, const Bucket &bucket, Role role,
                                    Type element, bool isWhole) {
  unsigned index = func.getNumArguments();
  (void)func.insertArgument(index, bucket.typeOf(element, isWhole),
                            bindingsOf(bucket, role, isWhole), bucket.location);
  return func.getArgument(index);
}

static void addResult(func::FuncOp func, Value value, DictionaryAttr attrs) {
  unsigned index = func.getNumResults();
  Operation *ret = func.getBody().front().getTerminator();
  ret->insertOperands(index, value);
  (void)func.insertResult(index, value.getType(), attrs);
}

void flat::addFlatResult(func::FuncOp func, const Bucket &bucket, Role role, Value value,
                         bool isWhole) {
  addResult(func, value, bindingsOf(bucket, role, isWhole));
}

void flat::eraseResults(func::FuncOp func, const llvm::BitVector &gone) {
  func.getBody().front().getTerminator()->eraseOperands(gone);
  (void)func.eraseResults(gone);
}

//===-- Collectives -----------------------------------------------------------===//

Value flat::partOf(OpBuilder &builder, Location loc, Value whole, const BucketTensor &tensor) {
  graph::Build b(builder, loc);
  return b.reshape(b.slice(whole, 0, tensor.begin, tensor.begin + tensor.size()), tensor.shape);
}

static std::string firstName(const Bucket &bucket) {
  StringRef name = getNodeName(bucket.location);
  return name.empty() ? bucket.tensors.front().name().str() : name.str();
}

// Describes the flat tensor that a collective moves.
static ArrayAttr describeFlat(const Bucket &bucket, Type element, bool isScatter) {
  MLIRContext *context = bucket.axes.getContext();
  Axes axes(bucket.axes.getAsRange<StringAttr>());
  auto type = RankedTensorType::get({bucket.length}, element);
  ShardingAttr cut = makeSharding(context, {axes}), whole = makeSharding(context, {Axes()});
  ShardingAttr partial = makeSharding(context, {Axes()}, axes);
  std::vector<std::string> names; // those of a layer are in its location
  if (!bucket.isStacked())
    for (StringAttr name : getNodeNames(bucket.location))
      names.push_back(name.str());
  return ArrayAttr::get(context, describeTensor(type, names, isScatter ? partial : cut,
                                                isScatter ? cut : whole));
}

static DictionaryAttr originOf(const Bucket &bucket, StringRef rule, Type element, bool isScatter) {
  Builder b(bucket.axes.getContext());
  return b.getDictionaryAttr(
      {b.getNamedAttr("node", b.getStringAttr(firstName(bucket))),
       b.getNamedAttr("rule", b.getStringAttr(rule)),
       b.getNamedAttr("tactic", b.getStringAttr("state")),
       b.getNamedAttr("tensors", describeFlat(bucket, element, isScatter))});
}

static Value gatherLayer(OpBuilder &builder, const Bucket &bucket, Value part, StringRef rule) {
  auto type = RankedTensorType::get({bucket.length}, graph::elementOf(part));
  auto gather =
      AllGatherOp::create(builder, bucket.location, type, part, bucket.axes, /*dim=*/0);
  gather->setAttr(kOrigin, originOf(bucket, rule, graph::elementOf(part), /*isScatter=*/false));
  return gather;
}

Value flat::gatherFlat(OpBuilder &builder, const Bucket &bucket, Value part, StringRef rule) {
  if (graph::shapeOf(part).size() == 1)
    return gatherLayer(builder, bucket, part, rule);
  return mapLayers(builder, bucket.location, part, [&](OpBuilder &inner, Value slice) {
    return gatherLayer(inner, bucket, slice, rule);
  });
}

static Value scatterLayer(OpBuilder &builder, const Bucket &bucket, Value whole, StringRef rule) {
  auto type =
      RankedTensorType::get({bucket.length / bucket.members}, graph::elementOf(whole));
  auto scatter = ReduceScatterOp::create(builder, bucket.location, type, whole, bucket.axes,
                                         /*dim=*/0, graph::ReduceKind::sum);
  scatter->setAttr(kOrigin, originOf(bucket, rule, graph::elementOf(whole), /*isScatter=*/true));
  return scatter;
}

Value flat::scatterFlat(OpBuilder &builder, const Bucket &bucket, Value whole, StringRef rule) {
  if (graph::shapeOf(whole).size() == 1)
    return scatterLayer(builder, bucket, whole, rule);
  return mapLayers(builder, bucket.location, whole, [&](OpBuilder &inner, Value slice) {
    return scatterLayer(inner, bucket, slice, rule);
  });
}

//===-- Parameters ------------------------------------------------------------===//

static constexpr llvm::StringLiteral kBeforeUse = "weights are gathered before they are used";

// Replaces the arguments that are stacked operands of repeats.
static void flattenLayers(const Bucket &bucket, const llvm::MapVector<Value, size_t> &args,
                          Value flatArg) {
  llvm::SetVector<graph::RepeatOp> repeats;
  for (auto [arg, number] : args)
    for (Operation *user : arg.getUsers())
      if (auto repeat = dyn_cast<graph::RepeatOp>(user);
          repeat && llvm::is_contained(repeat.getStacked(), arg))
        repeats.insert(repeat);
  for (graph::RepeatOp repeat : repeats) {
    StackedEdit edit;
    edit.dropped = args;
    edit.added = flatArg;
    Value whole; // of the layer
    edit.tensorOf = [&](OpBuilder &builder, BlockArgument slice, size_t number) {
      if (!whole)
        whole = bucket.zero == 3 ? gatherFlat(builder, bucket, slice, kBeforeUse) : Value(slice);
      return partOf(builder, bucket.location, whole, bucket.tensors[number]);
    };
    editStacked(repeat, edit, bucket.tensors.size());
  }
}

// Returns the first op that reads one of the arguments; null if none does.
static Operation *firstUser(func::FuncOp func, const llvm::MapVector<Value, size_t> &args) {
  for (Operation &op : func.getBody().front())
    if (llvm::any_of(op.getOperands(), [&](Value v) { return args.count(v); }))
      return &op;
  return nullptr;
}

LogicalResult flat::flattenWeights(func::FuncOp func, const Bucket &bucket) {
  llvm::MapVector<Value, size_t> args;
  for (auto [number, tensor] : llvm::enumerate(bucket.tensors))
    if (BlockArgument arg = argumentOf(func, tensor.parameter))
      args.insert({arg, number});
  if (args.empty())
    return success();
  Type element = graph::elementOf(args.front().first);
  BlockArgument flatArg =
      addFlatArgument(func, bucket, Role::parameter, element, /*isWhole=*/bucket.zero < 3);
  if (bucket.isStacked())
    flattenLayers(bucket, args, flatArg);
  if (Operation *user = firstUser(func, args)) {
    OpBuilder builder(user);
    Location loc = bucket.location;
    graph::Build b(builder, loc);
    Value whole = bucket.zero == 3 ? gatherFlat(builder, bucket, flatArg, kBeforeUse) : flatArg;
    for (auto [arg, number] : args) {
      const BucketTensor &tensor = bucket.tensors[number];
      int64_t dim = bucket.isStacked();
      Value part = b.slice(whole, dim, tensor.begin, tensor.begin + tensor.size());
      arg.replaceAllUsesWith(b.reshape(part, graph::shapeOf(arg)));
    }
  }
  llvm::BitVector gone(func.getNumArguments());
  for (auto [arg, number] : args)
    gone.set(cast<BlockArgument>(arg).getArgNumber());
  (void)func.eraseArguments(gone);
  return success();
}

//===-- Gradients -------------------------------------------------------------===//

namespace {

// Rewrites what @backward_K adds to the accumulators of a bucket.
class GradientFlattener {
public:
  GradientFlattener(func::FuncOp func, const Bucket &bucket, graph::StateOp sum)
      : func(func), bucket(bucket), sum(sum), loc(bucket.location) {}
  LogicalResult run();

private:
  // Builds what an accumulator is at the start: its part of the sums, or zeros, to which nothing
  // has been added.
  Value begin(OpBuilder &builder, Value slice, size_t number);
  // Builds the new sums of one layer.
  Value end(OpBuilder &builder, Value slice, ArrayRef<Value> added);
  LogicalResult flattenLayers();
  void flattenTop();
  void bind();

  func::FuncOp func;
  const Bucket &bucket;
  graph::StateOp sum;
  Location loc;
  Type element;
  Value flatArg, result;
  llvm::MapVector<Value, size_t> args;
  SmallVector<Value> results; // of each tensor; null where it has none
};

} // namespace

// Replaces 0 + x by x.
static void dropZero(Value zero) {
  for (Operation *user : llvm::make_early_inc_range(zero.getUsers()))
    if (auto add = dyn_cast<graph::AddOp>(user); add && add.getType() == zero.getType()) {
      Value other = add.getLhs() == zero ? add.getRhs() : add.getLhs();
      if (other.getType() != add.getType())
        continue;
      add.getResult().replaceAllUsesWith(other);
      add->erase();
    }
  if (zero.use_empty())
    zero.getDefiningOp()->erase();
}

Value GradientFlattener::begin(OpBuilder &builder, Value slice, size_t number) {
  const BucketTensor &tensor = bucket.tensors[number];
  if (sum)
    return partOf(builder, loc, slice, tensor);
  auto type = RankedTensorType::get(tensor.shape, element);
  return graph::ConstantOp::create(
      builder, loc, type, DenseElementsAttr::get(type, builder.getFloatAttr(element, 0.0)));
}

Value GradientFlattener::end(OpBuilder &builder, Value slice, ArrayRef<Value> added) {
  graph::Build b(builder, loc);
  auto untouched = [&](int64_t from, int64_t size) -> Value {
    if (sum)
      return b.slice(slice, 0, from, from + size);
    auto type = RankedTensorType::get({size}, element);
    return graph::ConstantOp::create(
        builder, loc, type, DenseElementsAttr::get(type, builder.getFloatAttr(element, 0.0)));
  };
  SmallVector<Value> parts;
  for (auto [value, tensor] : llvm::zip(added, bucket.tensors))
    parts.push_back(value ? b.reshape(value, {tensor.size()})
                          : untouched(tensor.begin, tensor.size()));
  parts.push_back(untouched(bucket.length - bucket.padding(), bucket.padding()));
  Value whole = b.concat(parts, 0);
  if (sum)
    return whole;
  Value part = scatterFlat(builder, bucket, whole,
                           "gradients of a micro-batch: each rank keeps the sum of its part");
  return b.add(slice, part);
}

// Rewrites the repeat that adds to accumulators of layers.
LogicalResult GradientFlattener::flattenLayers() {
  graph::RepeatOp repeat;
  StackedEdit edit;
  for (auto [number, value] : llvm::enumerate(results)) {
    if (!value)
      continue;
    auto own = value.getDefiningOp<graph::RepeatOp>();
    if (!own || (repeat && own != repeat) || !value.use_empty())
      return func.emitError("F2: gradients of @")
             << bucket.tensors[number].name()
             << " are not added up in its layers; use --zero 0";
    repeat = own;
    edit.droppedResults.insert({value, number});
  }
  for (auto [arg, number] : args)
    if (llvm::any_of(arg.getUsers(), [&](Operation *user) { return user != repeat; }))
      return func.emitError("F2: gradients of @")
             << bucket.tensors[number].name()
             << " are read outside of its layers; use --zero 0";
  edit.dropped = args;
  edit.added = flatArg;
  SmallVector<Value> zeros;
  edit.tensorOf = [&](OpBuilder &builder, BlockArgument slice, size_t number) {
    Value value = begin(builder, slice, number);
    if (!sum)
      zeros.push_back(value);
    return value;
  };
  edit.yield = [&](OpBuilder &builder, BlockArgument slice, ArrayRef<Value> yielded) {
    return end(builder, slice, yielded);
  };
  result = editStacked(repeat, edit, bucket.tensors.size());
  for (Value zero : zeros)
    dropZero(zero);
  return success();
}

void GradientFlattener::flattenTop() {
  OpBuilder start = OpBuilder::atBlockBegin(&func.getBody().front());
  SmallVector<Value> zeros;
  for (auto [arg, number] : args) {
    Value value = begin(start, flatArg, number);
    arg.replaceAllUsesWith(value);
    if (!sum)
      zeros.push_back(value);
  }
  // A result may be an accumulator to which nothing was added.
  for (auto [arg, number] : args)
    if (results[number] == arg)
      results[number] = Value();
  OpBuilder builder(func.getBody().front().getTerminator());
  result = end(builder, flatArg, results);
  for (Value zero : zeros)
    dropZero(zero);
}

void GradientFlattener::bind() {
  if (!sum) {
    flatArg = addFlatArgument(func, bucket, Role::accumulator, element, /*isWhole=*/false);
    return;
  }
  Builder b(func.getContext());
  unsigned index = func.getNumArguments();
  (void)func.insertArgument(
      index, sum.getType(),
      b.getDictionaryAttr(b.getNamedAttr(kState, FlatSymbolRefAttr::get(sum))), loc);
  flatArg = func.getArgument(index);
}

LogicalResult GradientFlattener::run() {
  llvm::BitVector gone(func.getNumResults());
  for (auto [number, tensor] : llvm::enumerate(bucket.tensors)) {
    graph::StateOp state = Bucket::stateOf(tensor, Role::accumulator);
    element = cast<RankedTensorType>(state.getType()).getElementType();
    if (BlockArgument arg = argumentOf(func, state))
      args.insert({arg, number});
    OpOperand *use = resultOf(func, state);
    results.push_back(use ? use->get() : Value());
    if (use)
      gone.set(use->getOperandNumber());
  }
  if (gone.none())
    return success();
  eraseResults(func, gone);
  bind();
  if (bucket.isStacked()) {
    if (failed(flattenLayers()))
      return failure();
  } else {
    flattenTop();
  }
  if (sum) {
    Builder b(func.getContext());
    addResult(func, result, b.getDictionaryAttr(b.getNamedAttr(kState, FlatSymbolRefAttr::get(sum))));
  } else {
    addFlatResult(func, bucket, Role::accumulator, result, /*isWhole=*/false);
  }
  llvm::BitVector old(func.getNumArguments());
  for (auto [arg, number] : args)
    old.set(cast<BlockArgument>(arg).getArgNumber());
  (void)func.eraseArguments(old);
  return success();
}

LogicalResult flat::flattenGradients(func::FuncOp backward, const Bucket &bucket,
                                     graph::StateOp sum) {
  return GradientFlattener(backward, bucket, sum).run();
}
