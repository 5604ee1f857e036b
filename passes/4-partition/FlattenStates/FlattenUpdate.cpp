// Rewrites the update of a stage for flat states.
#include "passes/4-partition/FlattenStates/Flatten.h"

#include "dialects/graph/Build.h"
#include "llvm/ADT/MapVector.h"
#include "mlir/IR/IRMapping.h"
#include "passes/4-partition/Origin.h"

#include <numeric>

using namespace mlir;
using namespace llmc;
using namespace llmc::flat;
using namespace llmc::parallel;
using graph::Role;

namespace {

// Writes, beside the ops of a bucket's first parameter, those of the flat tensors.
class UpdateFlattener {
public:
  UpdateFlattener(func::FuncOp func, const Bucket &bucket, graph::StateOp sum,
                  Norms &norms, SmallVectorImpl<Value> &zeros)
      : func(func), bucket(bucket), sum(sum), norms(norms), zeros(zeros) {}
  void run();

private:
  void mapArguments();
  Value scattered(OpBuilder &builder, AllReduceOp op);
  void cloneOp(Operation &op);
  void cloneNorm(graph::ReduceOp op);
  void returnStates();
  void dropNorms(const BucketTensor &tensor);

  func::FuncOp func;
  const Bucket &bucket;
  graph::StateOp sum;
  Norms &norms;
  SmallVectorImpl<Value> &zeros;
  SmallVector<BlockArgument, 4> args; // of the first parameter's states
  DenseMap<Value, Value> flats;       // of the first parameter's values
  Value gradient;               // the argument of whole gradients, or of a rank's part
};

} // namespace

// Describes what a sum of flat parts over other ranks moves, in place of the tensor that it was made
// for: the parts of one layer after the other.
static void describeParts(Operation *sum, const Bucket &bucket) {
  auto origin = sum->getAttrOfType<DictionaryAttr>(kOrigin);
  if (!origin || !origin.get("tensors"))
    return;
  MLIRContext *context = sum->getContext();
  Axes cut(bucket.axes.getAsRange<StringAttr>()), summed;
  for (Attribute axis : sum->getAttrOfType<ArrayAttr>("axes"))
    summed.push_back(cast<StringAttr>(axis));
  SmallVector<Axes> dims(bucket.isStacked());
  dims.push_back(cut);
  ShardingAttr needed = makeSharding(context, dims);
  Type type = bucket.typeOf(graph::elementOf(sum->getResult(0)), /*isWhole=*/true);
  NamedAttrList fields(origin);
  fields.set("tensors", ArrayAttr::get(context, describeTensor(type, {}, withUnreduced(needed, summed),
                                                               needed)));
  // Names the tactic of these axes: the one that the sum was made for may have been reduced before.
  fields.set("tactic", StringAttr::get(context, getTactic(sum->getParentOfType<ModuleOp>(), summed.front())));
  sum->setAttr(kOrigin, fields.getDictionary(context));
}

void UpdateFlattener::mapArguments() {
  const BucketTensor &first = bucket.tensors.front();
  args = updateArguments(func, first);
  bool hasMaster = bool(Bucket::stateOf(first, Role::master));
  OpBuilder start = OpBuilder::atBlockBegin(&func.getBody().front());
  const Role roles[] = {hasMaster ? Role::master : Role::parameter, Role::accumulator,
                        Role::moment1, Role::moment2};
  for (auto [arg, role] : llvm::zip(args, roles)) {
    if (!arg)
      continue;
    Type element = graph::elementOf(arg);
    if (role == Role::accumulator) {
      if (sum) {
        unsigned index = func.getNumArguments();
        Builder b(func.getContext());
        (void)func.insertArgument(
            index, sum.getType(),
            b.getDictionaryAttr(b.getNamedAttr(kState, FlatSymbolRefAttr::get(sum))),
            bucket.location);
        gradient = func.getArgument(index);
      } else {
        gradient = addFlatArgument(func, bucket, role, element, /*isWhole=*/false);
      }
      continue;
    }
    bool isWhole = role == Role::parameter && bucket.zero < 3;
    Value value = addFlatArgument(func, bucket, role, element, isWhole);
    // A parameter that is its own master is whole; each rank updates its part of it.
    if (isWhole)
      value = AllSliceOp::create(start, bucket.location, bucket.typeOf(element, false), value,
                                 bucket.axes, /*dim=*/bucket.isStacked());
    flats[arg] = value;
  }
}

// Builds the rank's part of the sum over the data axes, summed over the other axes of `op` too.
Value UpdateFlattener::scattered(OpBuilder &builder, AllReduceOp op) {
  Value value = sum ? scatterFlat(builder, bucket, gradient,
                                  "gradients of a step: each rank keeps the sum of its part")
                    : gradient;
  SmallVector<Attribute> rest;
  for (Attribute axis : op.getAxes())
    if (!llvm::is_contained(bucket.axes, axis))
      rest.push_back(axis);
  if (rest.empty())
    return value;
  auto more = AllReduceOp::create(builder, op.getLoc(), value.getType(), value,
                                  builder.getArrayAttr(rest), op.getKind(), DenseI64ArrayAttr());
  more->setAttr(kOrigin, op->getAttr(kOrigin));
  describeParts(more, bucket);
  return more;
}

// Sums the squares of the part of the bucket; the first parameter's sum stands for all.
void UpdateFlattener::cloneNorm(graph::ReduceOp op) {
  OpBuilder builder(op);
  Value value = flats.lookup(op.getOperand());
  SmallVector<int64_t> dims(graph::shapeOf(value).size());
  std::iota(dims.begin(), dims.end(), 0);
  Value norm = graph::Build(builder, bucket.location)
                   .reduce(value, graph::ReduceKind::sum_squares, dims);
  op.getResult().replaceAllUsesWith(norm);
  norms.push_back({norm, bucket.axes});
}

void UpdateFlattener::cloneOp(Operation &op) {
  OpBuilder builder(&op);
  if (auto reduce = dyn_cast<AllReduceOp>(op); reduce && reduce.getOperand() == args[1]) {
    flats[reduce.getResult()] = scattered(builder, reduce);
    return;
  }
  if (llvm::none_of(op.getOperands(), [&](Value v) { return flats.contains(v); }))
    return;
  if (isNorm(&op))
    return cloneNorm(cast<graph::ReduceOp>(op));
  SmallVector<Value> operands;
  for (Value operand : op.getOperands()) {
    Value known = flats.lookup(operand);
    operands.push_back(known ? known : operand);
  }
  SmallVector<Type> types;
  for (Value result : op.getResults())
    types.push_back(bucket.typeOf(graph::elementOf(result), /*isWhole=*/false));
  Operation *clone;
  if (isa<AllReduceOp>(op)) {
    IRMapping map;
    map.map(op.getOperands(), operands);
    clone = builder.clone(op, map);
    clone->getResult(0).setType(types.front());
    describeParts(clone, bucket);
  } else {
    clone = graph::cloneForTypes(builder, &op, operands, types);
  }
  for (auto [from, to] : llvm::zip(op.getResults(), clone->getResults()))
    flats[from] = to;
}

void UpdateFlattener::returnStates() {
  Operation *ret = func.getBody().front().getTerminator();
  OpBuilder builder(ret);
  for (Role role : {Role::parameter, Role::master, Role::accumulator, Role::moment1, Role::moment2}) {
    OpOperand *use = resultOf(func, Bucket::stateOf(bucket.tensors.front(), role));
    Value value = use ? flats.lookup(use->get()) : Value();
    if (!value)
      continue;
    bool isWhole = role == Role::parameter && bucket.zero < 3;
    if (isWhole)
      value = gatherFlat(builder, bucket, value, "each rank has updated its part of the weights");
    addFlatResult(func, bucket, role, value, isWhole);
  }
  llvm::BitVector gone(func.getNumResults());
  for (const BucketTensor &tensor : bucket.tensors)
    for (Role role : {Role::parameter, Role::master, Role::accumulator, Role::moment1, Role::moment2})
      if (OpOperand *use = resultOf(func, Bucket::stateOf(tensor, role)))
        gone.set(use->getOperandNumber());
  eraseResults(func, gone);
}

// Replaces the sums of squares of a parameter that the bucket's sum covers by zero.
void UpdateFlattener::dropNorms(const BucketTensor &tensor) {
  llvm::DenseSet<Value> own;
  for (BlockArgument arg : updateArguments(func, tensor))
    if (arg)
      own.insert(arg);
  for (Operation &op : llvm::make_early_inc_range(func.getBody().front().without_terminator())) {
    if (llvm::none_of(op.getOperands(), [&](Value v) { return own.contains(v); }))
      continue;
    if (!isNorm(&op)) {
      own.insert(op.result_begin(), op.result_end());
      continue;
    }
    OpBuilder builder(&op);
    Value zero = graph::Build(builder, op.getLoc()).constantLike(0, op.getResult(0));
    op.getResult(0).replaceAllUsesWith(zero);
    zeros.push_back(zero);
  }
}

void UpdateFlattener::run() {
  for (const BucketTensor &tensor : ArrayRef(bucket.tensors).drop_front())
    dropNorms(tensor);
  mapArguments();
  for (Operation &op : llvm::make_early_inc_range(func.getBody().front().without_terminator()))
    cloneOp(op);
  returnStates();
}

void flat::flattenUpdate(func::FuncOp update, const Bucket &bucket, graph::StateOp sum,
                         Norms &norms, SmallVectorImpl<Value> &zeros) {
  UpdateFlattener(update, bucket, sum, norms, zeros).run();
}

//===-- Norm ------------------------------------------------------------------===//

// Removes zeros from the sums that they are terms of, but not from sums over stages, which others
// take part in.
static void dropZeros(ArrayRef<Value> zeros, StringAttr stages) {
  SmallVector<Value> pending(zeros);
  while (!pending.empty()) {
    Value zero = pending.pop_back_val();
    for (Operation *user : llvm::make_early_inc_range(zero.getUsers())) {
      if (auto add = dyn_cast<graph::AddOp>(user)) {
        Value other = add.getLhs() == zero ? add.getRhs() : add.getLhs();
        add.getResult().replaceAllUsesWith(other);
        add->erase();
        if (other == zero)
          pending.push_back(zero);
      } else if (auto sum = dyn_cast<AllReduceOp>(user);
                 sum && !llvm::is_contained(sum.getAxes(), Attribute(stages))) {
        sum.getResult().replaceAllUsesWith(zero);
        sum->erase();
        pending.push_back(zero);
      }
    }
    if (zero.use_empty() && !llvm::is_contained(pending, zero))
      zero.getDefiningOp()->erase();
  }
}

// Sums a value over `axes`: in the sum over other axes that makes it, if nothing else reads that.
static void sumOver(Value value, ArrayAttr axes) {
  MeshAttr mesh = getMesh(value.getParentBlock()->getParentOp());
  if (auto made = value.getDefiningOp<AllReduceOp>(); made && !made.getMembers()) {
    Axes all(made.getAxes().getAsRange<StringAttr>());
    llvm::append_range(all, axes.getAsRange<StringAttr>());
    SmallVector<StringAttr> ordered = mesh.inGroupOrder(all);
    made.setAxesAttr(ArrayAttr::get(value.getContext(),
                                    SmallVector<Attribute>(ordered.begin(), ordered.end())));
    setOriginField(made, "rule", "partial sums of flat states");
    return;
  }
  OpBuilder builder(value.getContext());
  builder.setInsertionPointAfterValue(value);
  auto sum = AllReduceOp::create(builder, value.getLoc(), value.getType(), value, axes,
                                 graph::ReduceKind::sum, DenseI64ArrayAttr());
  ShardingAttr whole = makeSharding(value.getContext(), {});
  Axes partial(axes.getAsRange<StringAttr>());
  NamedAttrList origin;
  origin.set("node", builder.getStringAttr("clip"));
  origin.set("rule", builder.getStringAttr("partial sums of flat states"));
  origin.set("tactic", builder.getStringAttr("state"));
  origin.set("tensors", builder.getArrayAttr(describeTensor(
                            value.getType(), {}, withUnreduced(whole, partial), whole)));
  sum->setAttr(kOrigin, origin.getDictionary(value.getContext()));
  value.replaceAllUsesExcept(sum, sum);
}

void flat::sumNorms(func::FuncOp update, ArrayRef<std::pair<Value, ArrayAttr>> norms, ArrayRef<Value> zeros) {
  StringAttr stages = getMesh(update).getStageAxis();
  dropZeros(zeros, stages);
  llvm::MapVector<Value, ArrayAttr> partial;
  for (auto [value, axes] : norms)
    partial.insert({value, axes});
  // Sums over stages end it: their members issue the same calls, whatever lies flat on each.
  auto staysPartial = [&](Operation *op) {
    auto reduce = dyn_cast<AllReduceOp>(op);
    return (isa<graph::AddOp>(op) ||
            (reduce && !llvm::is_contained(reduce.getAxes(), Attribute(stages)))) &&
           llvm::all_of(op->getOperands(), [&](Value operand) {
             auto at = partial.find(operand), first = partial.find(op->getOperand(0));
             return at != partial.end() && at->second == first->second;
           });
  };
  for (Operation &op : update.getBody().front())
    if (op.getNumOperands() && staysPartial(&op))
      partial.insert({op.getResult(0), partial.lookup(op.getOperand(0))});
  for (auto [value, axes] : partial)
    if (llvm::any_of(value.getUsers(), [&](Operation *user) { return !staysPartial(user); }))
      sumOver(value, axes);
}
