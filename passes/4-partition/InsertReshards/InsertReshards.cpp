#include "dialects/graph/Build.h"
#include "dialects/parallel/Annotations.h"
#include "passes/4-partition/Origin.h"
#include "passes/4-partition/Passes.h"

namespace llmc {
#define GEN_PASS_DEF_INSERTRESHARDS
#include "passes/4-partition/Passes.h.inc"
} // namespace llmc

using namespace mlir;
using namespace llmc;
using namespace llmc::parallel;

//===-- Axes of size 1 ------------------------------------------------------===//

static Attribute withoutUnit(Attribute attr, MeshAttr mesh) {
  if (auto sharding = dyn_cast_or_null<ShardingAttr>(attr))
    return withoutUnitAxes(sharding, mesh);
  auto list = dyn_cast_or_null<ArrayAttr>(attr);
  if (!list)
    return attr;
  SmallVector<Attribute> entries;
  for (Attribute entry : list)
    entries.push_back(withoutUnit(entry, mesh));
  return ArrayAttr::get(attr.getContext(), entries);
}

static void dropUnitAxes(ModuleOp module, MeshAttr mesh) {
  if (llvm::none_of(mesh.getSizes(), [](int64_t size) { return size == 1; }))
    return;
  llvm::DenseMap<Attribute, Attribute> known; // many ops have equal shardings
  auto without = [&](Attribute attr) {
    Attribute &made = known[attr];
    return made ? made : made = withoutUnit(attr, mesh);
  };
  module.walk([&](Operation *op) {
    for (StringRef name : {StringRef(kIn), StringRef(kOut), StringRef(kArgs), StringRef(kSharding)})
      if (Attribute attr = op->getDiscardableAttr(name))
        if (Attribute made = without(attr); made != attr)
          op->setDiscardableAttr(name, made);
    if (auto func = dyn_cast<func::FuncOp>(op))
      for (unsigned i = 0; i < func.getNumArguments(); ++i)
        if (Attribute attr = func.getArgAttr(i, kSharding))
          if (Attribute made = without(attr); made != attr)
            func.setArgAttr(i, kSharding, made);
  });
}

//===-- Reshards ------------------------------------------------------------===//

// Returns the axes that the reshard takes away or adds, those of reductions first.
static Axes changedAxes(ShardingAttr from, ShardingAttr to) {
  Axes changed;
  for (StringAttr axis : from.getUnreduced())
    if (!to.isUnreducedOver(axis.getValue()))
      changed.push_back(axis);
  auto add = [&](ShardingAttr a, ShardingAttr b) {
    for (auto [x, y] : llvm::zip(getAxes(a), getAxes(b)))
      for (StringAttr axis : x)
        if (!llvm::is_contained(y, axis) && !llvm::is_contained(changed, axis))
          changed.push_back(axis);
  };
  add(from, to);
  add(to, from);
  for (size_t d = 0; changed.empty() && d < from.getDims().size(); ++d)
    changed = getAxes(from)[d]; // only their order
  return changed;
}

// Returns whether the reshard only gathers, so that the tensor becomes larger.
static bool onlyGathers(ShardingAttr from, ShardingAttr to) {
  if (from.getUnreduced() != to.getUnreduced())
    return false;
  for (auto [x, y] : llvm::zip(getAxes(from), getAxes(to)))
    for (StringAttr axis : y)
      if (!llvm::is_contained(x, axis))
        return false;
  return true;
}

// Returns what a cast to a wider type was made of, which moves in fewer bytes; else the value.
static Value asNarrow(Value value) {
  auto cast = value.getDefiningOp<graph::CastOp>();
  if (!cast || !graph::isFloat(value) || !graph::isFloat(cast.getOperand()) ||
      getSharding(cast.getOperand()) != getSharding(value))
    return value;
  auto bits = [](Value v) { return graph::elementOf(v).getIntOrFloatBitWidth(); };
  return bits(cast.getOperand()) < bits(value) ? cast.getOperand() : value;
}

namespace {
struct InsertReshards : llmc::impl::InsertReshardsBase<InsertReshards> {
  void runOnOperation() override;
  LogicalResult bridge(OpOperand &use);

  // Maps a value, a sharding and, if the reshard is placed before its first user, that user's stage
  // and direction to what was made of the value for them.
  std::map<std::tuple<void *, const void *, const void *, bool>, Value> made;
};
} // namespace

LogicalResult InsertReshards::bridge(OpOperand &use) {
  Value value = use.get();
  ShardingAttr from = getSharding(value), to = getRequired(use);
  if (from == to)
    return success();
  Operation *user = use.getOwner(), *producer = value.getDefiningOp();
  for (StringAttr axis : to.getUnreduced())
    if (!from.isUnreducedOver(axis.getValue()))
      return user->emitOpError("operand ")
             << use.getOperandNumber() << " is required unreduced over " << axis
             << " where it is defined as " << from << "; partial sums cannot be made";
  bool atUser = !producer || (onlyGathers(from, to) && !isa<func::ReturnOp>(user));
  Operation *like = atUser ? user : producer;
  Attribute stage = like->getAttr(kStage);
  bool backward = like->hasAttr(kBackward);
  Value &moved = made[{value.getAsOpaquePointer(), to.getAsOpaquePointer(),
                       atUser ? stage.getAsOpaquePointer() : nullptr, backward && atUser}];
  if (!moved) {
    OpBuilder builder(user);
    if (!atUser)
      builder.setInsertionPointAfter(producer);
    auto mark = [&](Operation *op) {
      if (stage)
        op->setAttr(kStage, stage);
      if (backward)
        op->setAttr(kBackward, builder.getUnitAttr());
    };
    // Sums are added in the type that they have.
    bool sums = from.getUnreduced() != to.getUnreduced();
    Value sent = sums ? value : asNarrow(value);
    auto reshard = ReshardOp::create(builder, value.getLoc(), sent.getType(), sent, from, to);
    reshard->setAttr(kOrigin, makeOrigin(sent, changedAxes(from, to),
                                         sums ? "partial sums" : "used otherwise than made"));
    mark(reshard);
    moved = reshard.getResult();
    if (sent != value) {
      auto cast = graph::CastOp::create(builder, value.getLoc(), value.getType(), moved);
      cast->setAttr(kIn, builder.getArrayAttr(to));
      cast->setAttr(kOut, builder.getArrayAttr(to));
      mark(cast);
      moved = cast.getResult();
    }
  }
  use.set(moved);
  return success();
}

void InsertReshards::runOnOperation() {
  ModuleOp module = getOperation();
  MeshAttr mesh = getMesh(module);
  if (!mesh) {
    module.emitError("no mesh: the module needs the attribute `parallel.mesh`");
    return signalPassFailure();
  }
  if (failed(verifyAnnotations(module)))
    return signalPassFailure();
  dropUnitAxes(module, mesh);
  made.clear();
  SmallVector<OpOperand *> uses;
  module.walk([&](Operation *op) {
    for (OpOperand &use : op->getOpOperands())
      if (isa<RankedTensorType>(use.get().getType()) && !isa<ReshardOp>(op))
        uses.push_back(&use);
  });
  for (OpOperand *use : uses)
    if (failed(bridge(*use)))
      return signalPassFailure();
}
