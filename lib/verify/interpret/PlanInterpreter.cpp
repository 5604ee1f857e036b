// Lays out the arenas of all ranks and runs their instructions in issue order.
#include "lib/verify/interpret/PlanInterpreter.h"

#include "lib/verify/interpret/PlanInterpreterParts.h"

#include "llvm/ADT/TypeSwitch.h"

#include <cmath>
#include <numeric>

using namespace mlir;

namespace llmc::verify::plan_interpreter {

RankedTensorType tensorOf(Value buffer) {
  return cast<plan::BufferType>(buffer.getType()).getTensor();
}

static int64_t elementBytes(Value buffer) {
  return cast<plan::BufferType>(buffer.getType()).getByteSize() /
         std::max<int64_t>(1, tensorOf(buffer).getNumElements());
}

//===-- Preparing -----------------------------------------------------------===//

void PlanInterpreter::placeBuffers(Stage &stage) {
  int64_t granule = 0;
  for (auto buffer : stage.op.getBody().getOps<plan::BufferOp>())
    for (int64_t bytes : {elementBytes(buffer), int64_t(buffer.getOffset().value_or(0)),
                          int64_t(buffer.getDisplacement().value_or(0)),
                          int64_t(buffer.getSlotStride().value_or(0))})
      granule = std::gcd(granule, bytes);
  stage.granule = std::max<int64_t>(granule, 1);
  for (auto buffer : stage.op.getBody().getOps<plan::BufferOp>()) {
    CellRange place;
    if (buffer.getParent()) {
      place = stage.cellRanges[buffer.getParent()];
      place.offset += buffer.getDisplacement().value_or(0) / stage.granule;
    } else {
      place.offset = buffer.getOffset().value_or(0) / stage.granule;
      place.stride = buffer.getSlotStride().value_or(0) / stage.granule;
    }
    place.pool = buffer.getPool().value_or(place.pool);
    place.step = elementBytes(buffer) / stage.granule;
    place.shape = tensorOf(buffer).getShape().vec();
    place.cells = tensorOf(buffer).getNumElements() * place.step;
    stage.cellRanges[buffer] = place;
  }
}

// Returns the axes that a binding names: those over which it cuts dims, and of a flat buffer.
static SmallVector<StringAttr> axesIn(Attribute binding) {
  SmallVector<StringAttr> axes;
  auto addDims = [&](ArrayAttr dims) {
    if (dims)
      for (auto dim : dims.getAsRange<ArrayAttr>())
        llvm::append_range(axes, dim.getAsRange<StringAttr>());
  };
  llvm::TypeSwitch<Attribute>(binding)
      .Case<plan::StateBindingAttr, plan::InputBindingAttr, plan::OutputBindingAttr>(
          [&](auto own) { addDims(own.getDims()); })
      .Case([&](plan::FlatBindingAttr flat) {
        llvm::append_range(axes, flat.getAxes());
        for (plan::FlatPartAttr part : flat.getParts())
          addDims(part.getState().getDims());
      });
  return axes;
}

// Checks that the mesh has the axes that the binding of a buffer names.
LogicalResult PlanInterpreter::checkAxes(plan::BufferOp op) const {
  if (!op.getBindingAttr())
    return success();
  for (StringAttr axis : axesIn(op.getBindingAttr()))
    if (mesh.getIndex(axis.getValue()) < 0)
      return op.emitOpError("names axis ") << axis << ", which is not in the mesh " << mesh;
  return success();
}

LogicalResult PlanInterpreter::prepare() {
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
    for (auto buffer : op.getBody().getOps<plan::BufferOp>())
      if (failed(checkAxes(buffer)))
        return failure();
  }
  for (int64_t id = 0; id < mesh.getNumRanks(); ++id) {
    Rank &rank = ranks.emplace_back();
    rank.id = id;
    rank.coordinate.resize(mesh.getSizes().size());
    for (size_t i = mesh.getSizes().size(), rest = id; i-- > 0; rest /= mesh.getSizes()[i])
      rank.coordinate[i] = rest % mesh.getSizes()[i];
    StringAttr axis = mesh.getStageAxis();
    rank.stage = &stages[axis ? rank.coordinate[mesh.getIndex(axis.getValue())] : 0];
    rank.slots.assign(rank.stage->op.getPools().size(), 0);
    rank.cells.assign(*rank.stage->op.getArenaBytes() / rank.stage->granule + 1, NAN);
  }
  return success();
}

//===-- Running -------------------------------------------------------------===//

// Selects, in each pool, the slot of the instruction's lanes; returns its own lane.
FailureOr<plan::LaneAttr> PlanInterpreter::takeSlots(Rank &rank, Operation &op,
                                                 plan::EntryAttr entry) const {
  auto take = [&](plan::LaneAttr lane) { rank.slots[lane.getPool()] = lane.getSlot(); };
  auto own = op.getAttrOfType<IntegerAttr>("lane");
  plan::LaneAttr lane = entry.getLane(own ? own.getInt() : 0);
  if (!lane)
    return op.emitOpError("names lane ") << own.getInt() << ", which its table entry lacks";
  for (int64_t k = 0; plan::LaneAttr other = entry.getLane(k); ++k)
    take(other);
  take(lane); // Select its own last: an exchange may have two slots of one pool.
  return lane;
}

// Executes one instruction; returns false if the rank must wait. A sent message is queued until
// it is received.
FailureOr<bool> PlanInterpreter::execute(Rank &rank, Operation &op, plan::EntryAttr entry) {
  FailureOr<plan::LaneAttr> lane = takeSlots(rank, op, entry);
  if (failed(lane))
    return failure();
  if (auto together = dyn_cast<plan::CollectiveOp>(op))
    return collective(rank, together);
  if (auto send = dyn_cast<plan::SendOp>(op)) {
    auto to = peer(rank, op, send.getAxis(), send.getDelta(), send.getWrap());
    if (failed(to))
      return failure();
    auto &message = messages[{rank.id, *to, send.getChannel()}].emplace_back();
    for (Value part : send.getParts())
      message.push_back(read(rank, part));
    return true;
  }
  if (auto recv = dyn_cast<plan::RecvOp>(op)) {
    auto from = peer(rank, op, recv.getAxis(), recv.getDelta(), recv.getWrap());
    if (failed(from))
      return failure();
    auto &queue = messages[{*from, rank.id, recv.getChannel()}];
    if (queue.empty())
      return false;
    if (failed(writeParts(rank, recv, queue.front())))
      return failure();
    queue.pop_front();
    return true;
  }
  return executeAlone(rank, op, (*lane).getMicroBatch());
}

// Writes a message to the buffers of its receive.
LogicalResult PlanInterpreter::writeParts(Rank &rank, plan::RecvOp recv,
                                      const std::vector<Tensor> &message) {
  if (message.size() != recv.getParts().size())
    return recv.emitOpError("gets ") << message.size() << " parts";
  for (auto [part, value] : llvm::zip(recv.getParts(), message)) {
    if (value.shape != tensorOf(part).getShape().vec())
      return recv.emitOpError("gets a part of another shape");
    write(rank, part, value);
  }
  return success();
}

// Executes an instruction that involves no other rank.
FailureOr<bool> PlanInterpreter::executeAlone(Rank &rank, Operation &op, int64_t microBatch) {
  if (auto launchOp = dyn_cast<plan::LaunchOp>(op))
    return failed(launch(rank, launchOp)) ? FailureOr<bool>() : true;
  if (auto feedOp = dyn_cast<plan::FeedOp>(op))
    return failed(feed(rank, feedOp, microBatch)) ? FailureOr<bool>() : true;
  if (auto product = dyn_cast<plan::MatmulOp>(op))
    matmul(rank, product);
  else if (auto grouped = dyn_cast<plan::GroupedMatmulOp>(op))
    groupedMatmul(rank, grouped);
  else if (auto copy = dyn_cast<plan::CopyOp>(op))
    write(rank, copy.getDst(), read(rank, copy.getSrc()));
  else if (auto fill = dyn_cast<plan::FillOp>(op))
    write(rank, fill.getDst(), Tensor(tensorOf(fill.getDst()).getShape().vec()));
  else if (!isa<plan::RecordOp, plan::WaitOp>(op))
    return op.emitOpError("has no reference meaning");
  return true;
}

LogicalResult PlanInterpreter::advance(Rank &rank, bool &moved) {
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

void PlanInterpreter::setScalars() {
  for (Rank &rank : ranks)
    for (auto buffer : rank.stage->op.getBody().getOps<plan::BufferOp>())
      if (auto binding = buffer.getBindingAs<plan::ScalarBindingAttr>())
        if (auto found = data->scalars.find(binding.getScalar().str());
            found != data->scalars.end())
          rank.cells[rank.stage->cellRanges.find(buffer)->second.offset] = found->second;
}

LogicalResult PlanInterpreter::step(const StepData &stepData) {
  StepData whole{allRows(stepData), stepData.scalars};
  data = &whole;
  setScalars();
  for (Rank &rank : ranks)
    rank.entry = 0;
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

FailureOr<Outcome> PlanInterpreter::run() {
  if (failed(prepare()))
    return failure();
  fillStates(statesFromSources(module, trial.weights));
  Outcome outcome;
  if (parallel::isInference(module)) {
    if (failed(step(trial.steps.front())))
      return failure();
    outcome.results = gatherResults(outcome.maxReplicaDifference);
    return outcome;
  }
  for (const StepData &stepData : trial.steps) {
    if (failed(step(stepData)))
      return failure();
    outcome.losses.push_back(readScalar("loss"));
    if (outcome.losses.size() > 1)
      continue;
    for (const std::string &name : scalarNames())
      if (name != "loss")
        outcome.outputs[name] = readScalar(name);
    outcome.gradients =
        sourcesFromStates(module, gather(graph::Role::accumulator, outcome.maxReplicaDifference),
                          graph::Role::accumulator);
  }
  outcome.weights = sourcesFromStates(
      module, gather(graph::Role::parameter, outcome.maxReplicaDifference), graph::Role::parameter);
  return outcome;
}

} // namespace llmc::verify::machine

namespace llmc::verify {

FailureOr<Outcome> interpretPlan(ModuleOp module, const Trial &trial) {
  return plan_interpreter::PlanInterpreter(module, trial).run();
}

FailureOr<parallel::StepOutput> interpretStep(ModuleOp module, const parallel::StepInput &input,
                                              std::mt19937 &random) {
  Trial trial;
  StepData &step = trial.steps.emplace_back();
  for (const auto &[name, value] : input.scalars)
    step.scalars[name] = value.data.at(0);
  // Concatenate the micro-batches: they are the rows of the step.
  for (const NamedTensors &microBatch : input.microBatches)
    for (const auto &[name, rows] : microBatch) {
      auto [it, isNew] = step.inputs.try_emplace(name, rows);
      if (isNew)
        continue;
      Tensor &all = it->second;
      all.data.insert(all.data.end(), rows.data.begin(), rows.data.end());
      if (!all.shape.empty())
        all.shape[0] += rows.shape[0];
    }
  return plan_interpreter::PlanInterpreter(module, trial).runDrawn(input.states, random);
}

} // namespace llmc::verify
