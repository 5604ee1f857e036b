#include "passes/5-schedule/BuildTable/TableBuilder.h"

#include "passes/5-schedule/Buffers.h"
#include "passes/5-schedule/Streams.h"

namespace llmc {

using namespace mlir;

void TableBuilder::assignSlots() {
  std::map<std::pair<int64_t, int64_t>, size_t> ends; // the last step of a micro-batch
  for (auto [i, step] : llvm::enumerate(steps)) {
    ends[{step.chunk, step.microBatch}] = i;
    last[{step.chunk, step.kind}] = i;
  }
  poolSlots.assign(stage.getChunks().size(), 1);
  std::vector<std::set<int64_t>> free(poolSlots.size()); // of the slots that were ever taken
  std::vector<int64_t> used(poolSlots.size(), 0);
  for (auto [i, step] : llvm::enumerate(steps)) {
    auto [it, isNew] = slots.insert({{step.chunk, step.microBatch}, 0});
    if (isNew) {
      std::set<int64_t> &lowest = free[step.chunk];
      it->second = lowest.empty() ? used[step.chunk]++ : *lowest.begin();
      lowest.erase(it->second);
      poolSlots[step.chunk] = std::max(poolSlots[step.chunk], used[step.chunk]);
    }
    if (ends[{step.chunk, step.microBatch}] == i)
      free[step.chunk].insert(it->second);
  }
}

plan::LaneAttr TableBuilder::laneOf(const Step &step) const {
  return plan::LaneAttr::get(context, step.microBatch,
                             slots.at({step.chunk, step.microBatch}), step.chunk);
}

// Returns the procedure of that name, null if there is none. Caches it: a table has many rows of
// few names, and a lookup walks the stage.
plan::ProcedureOp TableBuilder::find(StringRef name) {
  auto [it, isNew] = procedures.try_emplace(name);
  if (isNew)
    it->second = stage.lookupSymbol<plan::ProcedureOp>(name);
  return it->second;
}

// Returns the message that the step's procedure makes (`send`) or needs.
std::optional<TableBuilder::Message> TableBuilder::messageOf(const Step &step, bool send) {
  if (step.kind == StepKind::W)
    return std::nullopt;
  std::string name =
      getProcedureName(getExchangeName(send, step.kind == StepKind::F), step.chunk);
  auto procedure = find(name);
  if (!procedure)
    return std::nullopt;
  return Message{procedure, laneOf(step)};
}

// Returns the procedure of a step; null if the stage lacks it.
plan::ProcedureOp TableBuilder::procedureOf(const Step &step, bool isLast) {
  StringRef kind = step.kind == StepKind::F   ? "forward"
                   : step.kind == StepKind::B ? (isLast ? "backward_last" : "backward")
                                              : (isLast ? "weight_last" : "weight");
  auto ofChunk = [&](StringRef name) { return find(getProcedureName(name, step.chunk)); };
  if (plan::ProcedureOp found = ofChunk(kind))
    return found;
  // If backward is split, only W has a procedure for the last micro-batch.
  return step.kind == StepKind::B ? ofChunk("backward") : plan::ProcedureOp();
}

void TableBuilder::add(plan::ProcedureOp procedure, plan::LaneAttr lane,
                       std::optional<plan::LaneAttr> also) {
  used.insert(procedure.getSymName());
  table.push_back(plan::EntryAttr::get(
      context, FlatSymbolRefAttr::get(context, procedure.getSymName()), lane.getMicroBatch(),
      lane.getSlot(), lane.getPool(),
      also ? ArrayRef<plan::LaneAttr>(*also) : ArrayRef<plan::LaneAttr>()));
}

// Returns whether no byte that is sent is received into: the members of a group are not ordered.
bool TableBuilder::mayGroup(const Message &send, const Message &receive) const {
  if (send.lane.getPool() != receive.lane.getPool() ||
      send.lane.getSlot() != receive.lane.getSlot())
    return true;
  DenseSet<Operation *> roots;
  plan::ProcedureOp(send.procedure).walk([&](plan::SendOp op) {
    for (Value part : op.getParts())
      roots.insert(rootOf(part).first);
  });
  bool clear = true;
  plan::ProcedureOp(receive.procedure).walk([&](plan::RecvOp op) {
    for (Value part : op.getParts())
      clear &= !roots.contains(rootOf(part).first);
  });
  return clear;
}

// Returns the exchange of both messages: the waits of both, then the messages as one group, then
// the records of both.
plan::ProcedureOp TableBuilder::group(plan::ProcedureOp send, plan::ProcedureOp receive) {
  std::string name = (send.getSymName() + "_" + receive.getSymName()).str();
  if (plan::ProcedureOp known = find(name))
    return known;
  OpBuilder b(receive);
  auto both = plan::ProcedureOp::create(b, receive.getLoc(), name, plan::ProcedureKind::exchange,
                                        IntegerAttr(), DenseI64ArrayAttr());
  b.setInsertionPointToStart(b.createBlock(&both.getBody()));
  auto append = [&](auto wanted) {
    for (auto [lane, part] : llvm::enumerate(std::array{send, receive}))
      for (Operation &op : part.getBody().front())
        if (wanted(op)) {
          Operation *copy = b.clone(op);
          if (lane)
            copy->setAttr("lane", b.getI64IntegerAttr(lane));
          if (isa<plan::RecvOp>(copy))
            copy->setAttr("grouped", b.getUnitAttr());
        }
  };
  append([](Operation &op) { return isa<plan::WaitOp>(op); });
  append([](Operation &op) { return isa<plan::SendOp, plan::RecvOp>(op); });
  append([](Operation &op) { return isa<plan::RecordOp>(op); });
  return procedures[name] = both;
}

// Adds the message that waits, if there is one, and `received` to the table.
void TableBuilder::flush(std::optional<Message> received) {
  std::optional<Message> sent = std::exchange(leaving, std::nullopt);
  if (sent && received && mayGroup(*sent, *received)) {
    add(group(sent->procedure, received->procedure), sent->lane, received->lane);
    return;
  }
  if (sent)
    add(sent->procedure, sent->lane);
  if (received)
    add(received->procedure, received->lane);
}

// Returns whether the message for step `index` may be received before the previous step runs: the
// two steps have different slots. The caller checks that nothing leaves in between.
bool TableBuilder::mayComeEarly(size_t index) const {
  if (index >= steps.size())
    return false;
  plan::LaneAttr lane = laneOf(steps[index]), ahead = laneOf(steps[index - 1]);
  return lane.getPool() != ahead.getPool() || lane.getSlot() != ahead.getSlot();
}

LogicalResult TableBuilder::addStep(size_t i) {
  const Step &step = steps[i];
  plan::ProcedureOp procedure = procedureOf(step, last[{step.chunk, step.kind}] == i);
  if (!procedure)
    return stage.emitError("has no procedure for the ")
           << (step.kind == StepKind::F ? "forward" : step.kind == StepKind::B ? "backward" : "weight gradients")
           << " of micro-batch " << step.microBatch << ", chunk " << step.chunk;
  flush(received.count(i) ? std::nullopt : messageOf(step, /*send=*/false));
  std::optional<Message> sends = messageOf(step, /*send=*/true);
  // If nothing leaves after this step, the next message is posted before it.
  if (!sends && mayComeEarly(i + 1))
    if (std::optional<Message> next = messageOf(steps[i + 1], /*send=*/false)) {
      add(next->procedure, next->lane);
      received.insert(i + 1);
    }
  add(procedure, laneOf(step));
  leaving = sends;
  return success();
}

LogicalResult TableBuilder::run(bool infer) {
  assignSlots();
  auto addOnce = [&](StringRef name) -> LogicalResult {
    if (infer)
      return success();
    auto procedure = find(name);
    if (!procedure)
      return stage.emitError("has no procedure @") << name << ", which a step runs";
    add(procedure, plan::LaneAttr::get(context, 0, 0, 0));
    return success();
  };
  if (failed(addOnce("begin")))
    return failure();
  for (size_t i = 0; i < steps.size(); ++i)
    if (failed(addStep(i)))
      return failure();
  flush(std::nullopt);
  if (failed(addOnce("update")))
    return failure();
  for (auto procedure : llvm::to_vector(stage.getBody().getOps<plan::ProcedureOp>()))
    if (!used.count(procedure.getSymName()))
      procedure.erase();
  SmallVector<Attribute> pools;
  for (auto [chunk, slots] : llvm::enumerate(poolSlots))
    pools.push_back(plan::PoolAttr::get(context, chunk, slots));
  stage.setPoolsAttr(ArrayAttr::get(context, pools));
  stage.setTableAttr(ArrayAttr::get(context, table));
  return success();
}

} // namespace llmc
