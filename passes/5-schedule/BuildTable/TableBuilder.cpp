#include "passes/5-schedule/BuildTable/TableBuilder.h"

#include "passes/5-schedule/Buffers.h"
#include "passes/5-schedule/Streams.h"

namespace llmc {

using namespace mlir;

// Returns the kind of step that a procedure is; nullopt for others.
static std::optional<StepKind> stepOf(plan::ProcedureKind kind) {
  switch (kind) {
  case plan::ProcedureKind::forward:
    return StepKind::F;
  case plan::ProcedureKind::backward:
  case plan::ProcedureKind::backward_last:
    return StepKind::B;
  case plan::ProcedureKind::weight:
  case plan::ProcedureKind::weight_last:
    return StepKind::W;
  case plan::ProcedureKind::begin:
  case plan::ProcedureKind::update:
  case plan::ProcedureKind::exchange:
    break;
  }
  return std::nullopt;
}

// Returns the pools that a procedure names, or the main pool of its chunk.
static SmallVector<int64_t> poolsOf(plan::ProcedureOp procedure) {
  if (auto lanes = procedure.getLanes(); lanes && !lanes->empty())
    return SmallVector<int64_t>(*lanes);
  return {static_cast<int64_t>(procedure.getChunk().value_or(0))};
}

TableBuilder::TableBuilder(plan::StageOp stage, std::vector<Step> given)
    : steps(std::move(given)), stage(stage), context(stage.getContext()) {
  std::map<int64_t, std::set<StepKind>> kinds; // of the steps that touch a pool
  for (auto procedure : stage.getBody().getOps<plan::ProcedureOp>())
    if (auto kind = stepOf(procedure.getKind()))
      for (int64_t pool : poolsOf(procedure))
        kinds[pool].insert(*kind);
  for (auto [i, pool] : llvm::enumerate(stage.getPools().getAsRange<plan::PoolAttr>()))
    slots.push_back(assignSlots(steps, pool.getChunk(), kinds[i]));
}

// Returns a step's micro-batch with its slot of a pool; slot 0 if the pool does not know it.
plan::LaneAttr TableBuilder::laneOf(size_t step, int64_t pool) const {
  auto slot = slots[pool].of.find(steps[step].microBatch);
  return plan::LaneAttr::get(context, steps[step].microBatch, slot == slots[pool].of.end() ? 0 : slot->second, pool);
}

// Returns the pool in which a message lies.
int64_t TableBuilder::poolOf(const MessageEnd &end) {
  plan::ProcedureOp exchange = exchangeOf(end);
  return exchange ? poolsOf(exchange).front() : steps[end.step].chunk;
}

plan::LaneAttr TableBuilder::laneOf(const MessageEnd &end) { return laneOf(end.step, poolOf(end)); }

int64_t TableBuilder::freedBy(size_t needed) {
  const Slots &own = slots[poolOf({false, needed})];
  auto before = own.freedBy.find(steps[needed].microBatch);
  return before == own.freedBy.end() ? -1 : before->second;
}

// Returns the procedure of that name, null if there is none. Caches it: a table has many rows of
// few names, and a lookup walks the stage.
plan::ProcedureOp TableBuilder::find(StringRef name) {
  auto [it, isNew] = procedures.try_emplace(name);
  if (isNew)
    it->second = stage.lookupSymbol<plan::ProcedureOp>(name);
  return it->second;
}

// Returns the exchange of a message; null if there is none.
plan::ProcedureOp TableBuilder::exchangeOf(const MessageEnd &end) {
  const Step &step = steps[end.step];
  return find(getProcedureName(getExchangeName(end.sends, step.kind == StepKind::F), step.chunk));
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

void TableBuilder::add(plan::ProcedureOp procedure, plan::LaneAttr lane, ArrayRef<plan::LaneAttr> also) {
  used.insert(procedure.getSymName());
  table.push_back(plan::EntryAttr::get(
      context, FlatSymbolRefAttr::get(context, procedure.getSymName()), lane.getMicroBatch(),
      lane.getSlot(), lane.getPool(), also));
}

bool TableBuilder::mayJoin(size_t sent, size_t needed) {
  MessageEnd from{true, sent}, to{false, needed};
  plan::ProcedureOp send = exchangeOf(from), receive = exchangeOf(to);
  if (!send || !receive || laneOf(from).getPool() != laneOf(to).getPool() ||
      laneOf(from).getSlot() != laneOf(to).getSlot())
    return true;
  DenseSet<Operation *> roots;
  send.walk([&](plan::SendOp op) {
    for (Value part : op.getParts())
      roots.insert(rootOf(part).first);
  });
  bool clear = true;
  receive.walk([&](plan::RecvOp op) {
    for (Value part : op.getParts())
      clear &= !roots.contains(rootOf(part).first);
  });
  return clear;
}

// Returns the exchange of several messages: the waits of all, then the messages as one group, then
// the records of all.
plan::ProcedureOp TableBuilder::group(ArrayRef<plan::ProcedureOp> parts) {
  if (parts.size() == 1)
    return parts.front();
  std::string name;
  for (plan::ProcedureOp part : parts)
    name += (name.empty() ? "" : "_") + part.getSymName().str();
  if (plan::ProcedureOp known = find(name))
    return known;
  OpBuilder b(parts.back());
  auto all = plan::ProcedureOp::create(b, stage.getLoc(), name, plan::ProcedureKind::exchange,
                                       IntegerAttr(), DenseI64ArrayAttr());
  b.setInsertionPointToStart(b.createBlock(&all.getBody()));
  bool isFirst = true;
  auto append = [&](auto wanted) {
    for (auto [lane, part] : llvm::enumerate(parts))
      for (Operation &op : plan::ProcedureOp(part).getBody().front()) {
        if (!wanted(op))
          continue;
        Operation *copy = b.clone(op);
        if (lane)
          copy->setAttr("lane", b.getI64IntegerAttr(lane));
        if (isa<plan::SendOp, plan::RecvOp>(copy) && !std::exchange(isFirst, false))
          copy->setAttr("grouped", b.getUnitAttr());
      }
  };
  append([](Operation &op) { return isa<plan::WaitOp>(op); });
  append([](Operation &op) { return isa<plan::SendOp, plan::RecvOp>(op); });
  append([](Operation &op) { return isa<plan::RecordOp>(op); });
  return procedures[name] = all;
}

void TableBuilder::addExchange(const Exchange &exchange) {
  SmallVector<plan::ProcedureOp> parts;
  SmallVector<plan::LaneAttr> lanes;
  for (const MessageEnd &end : exchange.ends)
    if (plan::ProcedureOp part = exchangeOf(end)) {
      parts.push_back(part);
      lanes.push_back(laneOf(end));
    }
  if (!parts.empty())
    add(group(parts), lanes.front(), ArrayRef(lanes).drop_front());
}

LogicalResult TableBuilder::addStep(size_t i) {
  const Step &step = steps[i];
  plan::ProcedureOp procedure = procedureOf(step, last[{step.chunk, step.kind}] == i);
  if (!procedure)
    return stage.emitError("has no procedure for the ")
           << (step.kind == StepKind::F ? "forward" : step.kind == StepKind::B ? "backward" : "weight gradients")
           << " of micro-batch " << step.microBatch << ", chunk " << step.chunk;
  SmallVector<plan::LaneAttr> lanes;
  for (int64_t pool : poolsOf(procedure))
    lanes.push_back(laneOf(i, pool));
  add(procedure, lanes.front(), ArrayRef(lanes).drop_front());
  return success();
}

LogicalResult TableBuilder::run(bool infer, ArrayRef<Exchange> exchanges) {
  for (auto [i, step] : llvm::enumerate(steps))
    last[{step.chunk, step.kind}] = i;
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
  for (size_t i = 0; i <= steps.size(); ++i) {
    while (!exchanges.empty() && exchanges.front().after == i) {
      addExchange(exchanges.front());
      exchanges = exchanges.drop_front();
    }
    if (i < steps.size() && failed(addStep(i)))
      return failure();
  }
  if (failed(addOnce("update")))
    return failure();
  for (auto procedure : llvm::to_vector(stage.getBody().getOps<plan::ProcedureOp>()))
    if (!used.count(procedure.getSymName()))
      procedure.erase();
  SmallVector<Attribute> pools;
  for (auto [pool, own] : llvm::zip(stage.getPools().getAsRange<plan::PoolAttr>(), slots))
    pools.push_back(plan::PoolAttr::get(context, pool.getChunk(), std::max<int64_t>(own.count, 1)));
  stage.setPoolsAttr(ArrayAttr::get(context, pools));
  stage.setTableAttr(ArrayAttr::get(context, table));
  return success();
}

} // namespace llmc
