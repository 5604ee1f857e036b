// The machine: its ranks and how they take turns.
#include "lib/verify/PlanMachine.h"

#include "lib/verify/PlanMachineParts.h"

#include <cmath>
#include <numeric>

using namespace mlir;

namespace llmc::verify::machine {

RankedTensorType tensorOf(Value buffer) {
  return cast<plan::BufferType>(buffer.getType()).getTensor();
}

static int64_t elementBytes(Value buffer) {
  return cast<plan::BufferType>(buffer.getType()).getByteSize() /
         std::max<int64_t>(1, tensorOf(buffer).getNumElements());
}

//===-- Preparing -----------------------------------------------------------===//

void PlanMachine::placeBuffers(Stage &stage) {
  int64_t granule = 0;
  for (auto buffer : stage.op.getBody().getOps<plan::BufferOp>())
    for (int64_t bytes : {elementBytes(buffer), int64_t(buffer.getOffset().value_or(0)),
                          int64_t(buffer.getDisplacement().value_or(0)),
                          int64_t(buffer.getSlotStride().value_or(0))})
      granule = std::gcd(granule, bytes);
  stage.granule = std::max<int64_t>(granule, 1);
  for (auto buffer : stage.op.getBody().getOps<plan::BufferOp>()) {
    Place place;
    if (buffer.getParent()) {
      place = stage.places[buffer.getParent()];
      place.offset += buffer.getDisplacement().value_or(0) / stage.granule;
    } else {
      place.offset = buffer.getOffset().value_or(0) / stage.granule;
      place.stride = buffer.getSlotStride().value_or(0) / stage.granule;
    }
    place.step = elementBytes(buffer) / stage.granule;
    place.shape = tensorOf(buffer).getShape().vec();
    place.cells = tensorOf(buffer).getNumElements() * place.step;
    stage.places[buffer] = place;
  }
}

LogicalResult PlanMachine::prepare() {
  mesh = parallel::getMesh(module);
  SmallVector<plan::StageOp> ops(module.getOps<plan::StageOp>());
  llvm::sort(ops, [](plan::StageOp x, plan::StageOp y) { return x.getStage() < y.getStage(); });
  if (!mesh || static_cast<int64_t>(ops.size()) != mesh.getSize(planfile::AxisRole::Stages))
    return module.emitError("has ") << ops.size() << " plan.stage ops for its mesh";
  for (plan::StageOp op : ops) {
    if (!op.getArenaBytes())
      return op.emitOpError("has no arena_bytes");
    Stage &stage = stages.emplace_back();
    stage.op = op;
    for (auto procedure : op.getBody().getOps<plan::ProcedureOp>())
      stage.procedures[procedure.getSymName()] = procedure;
    llvm::append_range(stage.table, op.getTable().getAsRange<plan::EntryAttr>());
    placeBuffers(stage);
  }
  for (int64_t id = 0; id < mesh.getNumRanks(); ++id) {
    Rank &rank = ranks.emplace_back();
    rank.id = id;
    rank.coordinate.resize(mesh.getSizes().size());
    for (size_t i = mesh.getSizes().size(), rest = id; i-- > 0; rest /= mesh.getSizes()[i])
      rank.coordinate[i] = rest % mesh.getSizes()[i];
    StringAttr axis = mesh.getStageAxis();
    rank.stage = &stages[axis ? rank.coordinate[mesh.getIndex(axis.getValue())] : 0];
    rank.cells.assign(*rank.stage->op.getArenaBytes() / rank.stage->granule + 1, NAN);
  }
  return success();
}

//===-- Running -------------------------------------------------------------===//

// False: the rank must wait.
FailureOr<bool> PlanMachine::execute(Rank &rank, Operation &op, plan::EntryAttr entry) {
  auto ownLane = op.getAttrOfType<IntegerAttr>("lane");
  plan::LaneAttr lane = entry.getLane(ownLane ? ownLane.getInt() : 0);
  if (!lane)
    return op.emitOpError("names lane ") << ownLane.getInt() << ", which its table entry lacks";
  int64_t slot = lane.getSlot(), microBatch = lane.getMicroBatch();
  if (auto launchOp = dyn_cast<plan::LaunchOp>(op))
    return failed(launch(rank, launchOp, slot)) ? FailureOr<bool>() : true;
  if (auto product = dyn_cast<plan::MatmulOp>(op)) {
    matmul(rank, product, slot);
    return true;
  }
  if (auto together = dyn_cast<plan::CollectiveOp>(op))
    return collective(rank, together, slot);
  if (auto feedOp = dyn_cast<plan::FeedOp>(op))
    return failed(feed(rank, feedOp, slot, microBatch)) ? FailureOr<bool>() : true;
  if (auto copy = dyn_cast<plan::CopyOp>(op)) {
    Tensor value = read(rank, copy.getSrc(), slot);
    write(rank, copy.getDst(), slot, value);
    return true;
  }
  if (auto fill = dyn_cast<plan::FillOp>(op)) {
    write(rank, fill.getDst(), slot, Tensor(tensorOf(fill.getDst()).getShape().vec()));
    return true;
  }
  if (auto send = dyn_cast<plan::SendOp>(op)) {
    auto to = peer(rank, op, send.getAxis(), send.getDelta(), send.getWrap());
    if (failed(to))
      return failure();
    auto &message = messages[{rank.id, *to, send.getChannel()}].emplace_back();
    for (Value part : send.getParts())
      message.push_back(read(rank, part, slot));
    return true;
  }
  if (auto recv = dyn_cast<plan::RecvOp>(op)) {
    auto from = peer(rank, op, recv.getAxis(), recv.getDelta(), recv.getWrap());
    if (failed(from))
      return failure();
    auto &queue = messages[{*from, rank.id, recv.getChannel()}];
    if (queue.empty())
      return false;
    if (queue.front().size() != recv.getParts().size())
      return op.emitOpError("gets ") << queue.front().size() << " parts";
    for (auto [part, value] : llvm::zip(recv.getParts(), queue.front())) {
      if (value.shape != tensorOf(part).getShape().vec())
        return op.emitOpError("gets a part of another shape");
      write(rank, part, slot, value);
    }
    queue.pop_front();
    return true;
  }
  if (isa<plan::RecordOp, plan::WaitOp>(op))
    return true;
  return op.emitOpError("has no reference meaning");
}

LogicalResult PlanMachine::advance(Rank &rank, bool &moved) {
  while (!rank.done()) {
    plan::EntryAttr entry = rank.stage->table[rank.entry];
    plan::ProcedureOp procedure = rank.stage->procedures.lookup(entry.getProcedure().getValue());
    Block &body = procedure.getBody().front();
    if (!rank.entered) {
      rank.next = body.begin();
      rank.entered = true;
    }
    for (; rank.next != body.end(); ++rank.next) {
      FailureOr<bool> done = execute(rank, *rank.next, entry);
      if (failed(done))
        return failure();
      if (!*done)
        return success();
      moved = true;
    }
    rank.entered = false;
    ++rank.entry;
  }
  return success();
}

LogicalResult PlanMachine::step(const StepData &stepData) {
  data = &stepData;
  for (Rank &rank : ranks) {
    rank.entry = 0;
    for (auto buffer : rank.stage->op.getBody().getOps<plan::BufferOp>())
      if (DictionaryAttr binding = buffer.getBindingAttr())
        if (auto scalar = binding.getAs<StringAttr>("scalar"))
          if (auto found = data->scalars.find(scalar.str()); found != data->scalars.end())
            rank.cells[rank.stage->places.find(buffer)->second.offset] = found->second;
  }
  auto busy = [](const Rank &rank) { return !rank.done(); };
  while (llvm::any_of(ranks, busy)) {
    bool moved = false;
    for (Rank &rank : ranks)
      if (failed(advance(rank, moved)))
        return failure();
    if (moved)
      continue;
    Rank &rank = *llvm::find_if(ranks, busy);
    return rank.next->emitOpError("rank ") << rank.id << " waits here for ever";
  }
  for (const auto &[key, queue] : messages)
    if (!queue.empty())
      return module.emitError("rank ") << std::get<0>(key) << " sent rank " << std::get<1>(key)
                                       << " a message that nobody received";
  return success();
}

FailureOr<Outcome> PlanMachine::run() {
  if (failed(prepare()))
    return failure();
  fillStates();
  Outcome outcome;
  if (parallel::isInference(module)) {
    if (failed(step(trial.steps.front())))
      return failure();
    outcome.results = gatherResults(outcome.replicaError);
    return outcome;
  }
  for (const StepData &stepData : trial.steps) {
    if (failed(step(stepData)))
      return failure();
    outcome.losses.push_back(readScalar("loss"));
    if (outcome.losses.size() > 1)
      continue;
    for (const char *name : {"grad_norm", "tokens"})
      outcome.outputs[name] = readScalar(name);
    outcome.gradients = sourcesFromStates(module, gather("accumulator", outcome.replicaError),
                                          graph::Role::accumulator);
  }
  outcome.weights = sourcesFromStates(module, gather("parameter", outcome.replicaError),
                                      graph::Role::parameter);
  return outcome;
}

} // namespace llmc::verify::machine

namespace llmc::verify {

FailureOr<Outcome> interpretPlan(ModuleOp module, const Trial &trial) {
  return machine::PlanMachine(module, trial).run();
}

} // namespace llmc::verify
