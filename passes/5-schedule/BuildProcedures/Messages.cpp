// Builds the exchanges between stages, and the events between them and the procedures.
//
// Messages of all directions are on one stream, each in an exchange of its own; BuildTable, which
// knows which of them follow each other, groups them.
#include "dialects/graph/GraphAttrs.h"
#include "dialects/parallel/Annotations.h"
#include "passes/5-schedule/BuildProcedures/StageBuilder.h"

namespace llmc {

using namespace mlir;

static BoundaryValues leaving(func::FuncOp func) {
  return boundaryValuesOf(func.getBody().front().getTerminator()->getOperands(),
                  [&](unsigned i) { return func.getResultAttrDict(i); });
}

static BoundaryValues entering(func::FuncOp func) {
  return boundaryValuesOf(ValueRange(func.getArguments()),
                  [&](unsigned i) { return func.getArgAttrDict(i); });
}

// Allocates the events of each chunk. A slot may be received into again when its micro-batch has
// run its weight gradients, where backward is whole its backward, in an inference its forward.
void StageBuilder::allocateEvents() {
  EventAllocator events(stageOp);
  auto takeIf = [&](int64_t &event, bool needed) {
    if (needed)
      event = events.take();
  };
  for (auto [functions, chunk] : llvm::zip(functions.chunks, chunks)) {
    bool out = !leaving(functions.forward).values.empty();
    bool in = !entering(functions.forward).values.empty();
    takeIf(chunk.forward.done, out || (in && !functions.backward));
    takeIf(chunk.forward.sent, out);
    takeIf(chunk.forward.arrived, in);
    if (!functions.backward)
      continue;
    bool outBack = !leaving(functions.backward).values.empty();
    bool inBack = !entering(functions.backward).values.empty();
    bool received = in || inBack;
    takeIf(chunk.weightDone, functions.weight && received);
    takeIf(chunk.backward.done, outBack || received);
    takeIf(chunk.backward.sent, outBack);
    takeIf(chunk.backward.arrived, inBack);
  }
}

// Builds the waits for messages that the procedure needs, and for the last message that left its
// slot; then feeds inputs.
void StageBuilder::buildPrologue(func::FuncOp func, plan::ProcedureKind kind) {
  if (kind == plan::ProcedureKind::update)
    return;
  if (kind == plan::ProcedureKind::weight)
    return buildFeeds(func);
  bool forward = kind == plan::ProcedureKind::forward;
  Location loc = func.getLoc();
  Direction &events = direction(forward);
  if (events.sent >= 0)
    plan::WaitOp::create(b, loc, events.sent, false, IntegerAttr(), kCompute,
                         leaving(func).originOf(mesh, forward));
  if (events.arrived >= 0)
    plan::WaitOp::create(b, loc, events.arrived, false, IntegerAttr(), kCompute,
                         entering(func).originOf(mesh, forward));
  buildFeeds(func);
}

// Builds the feeds of inputs that no procedure of the chunk before has fed.
void StageBuilder::buildFeeds(func::FuncOp func) {
  for (BlockArgument arg : func.getArguments()) {
    auto input = func.getArgAttrOfType<StringAttr>(arg.getArgNumber(), graph::kInput);
    if (!input || !fed.insert({chunk, input.str()}).second)
      continue;
    auto origin = plan::OriginAttr::get(b.getContext(), "feed", {input}, "", "");
    plan::FeedOp::create(b, func.getLoc(), input, bufferOf(arg), b.getI64IntegerAttr(kCompute), origin);
  }
}

// Copies results that could not be written to their allocation, and records that the procedure has
// run.
void StageBuilder::buildEpilogue(func::FuncOp func, plan::ProcedureKind kind,
                                 const Bindings &returned) {
  Location loc = func.getLoc();
  Operation *ret = func.getBody().front().getTerminator();
  for (auto [i, value] : llvm::enumerate(ret->getOperands())) {
    if (returned[i] && !(places->lookup(value) == returned[i])) {
      ++copies;
      auto copy = plan::CopyOp::create(b, loc, bufferOf(value), buffer(returned[i], value.getType()),
                                       b.getI64IntegerAttr(kCompute), getOrigin(ret));
      setLives(copy, {value});
    }
    if (auto id = func.getResultAttrOfType<IntegerAttr>(i, parallel::kResidual))
      chunks[chunk].residuals[id.getInt()] = places->lookup(value);
  }
  if (kind == plan::ProcedureKind::update)
    return;
  if (kind == plan::ProcedureKind::weight) {
    if (int64_t done = chunks[chunk].weightDone; done >= 0)
      plan::RecordOp::create(b, loc, done, false, IntegerAttr(), kCompute, leaving(func).originOf(mesh, false));
    return;
  }
  bool forward = kind == plan::ProcedureKind::forward;
  if (int64_t done = direction(forward).done; done >= 0)
    plan::RecordOp::create(b, loc, done, false, IntegerAttr(), kCompute,
                           leaving(func).originOf(mesh, forward));
  buildReceive(func, forward);
  buildSend(func, forward);
}

plan::ProcedureOp StageBuilder::newExchange(Location loc, bool send, bool forward) {
  return newProcedure(loc, getExchangeName(send, forward), plan::ProcedureKind::exchange);
}

// Builds the exchange that sends results. The next chunk of the model is on the next stage; after
// the last stage, on the first.
void StageBuilder::buildSend(func::FuncOp func, bool forward) {
  BoundaryValues out = leaving(func);
  if (out.values.empty())
    return;
  Location loc = func.getLoc();
  plan::OriginAttr origin = out.originOf(mesh, forward);
  SmallVector<Value> parts;
  for (Value value : out.values) {
    parts.push_back(bufferOf(value));
    sent.insert(places->lookup(value).root);
  }
  bool wrap = stage == (forward ? stages - 1 : 0);
  int64_t toChunk = wrap ? chunk + (forward ? 1 : -1) : chunk;
  OpBuilder::InsertionGuard guard(b);
  newExchange(loc, /*send=*/true, forward);
  const Direction &events = direction(forward);
  plan::WaitOp::create(b, loc, events.done, false, IntegerAttr(), kMessages, origin);
  plan::SendOp::create(b, loc, parts, mesh.getStageAxis(), b.getI64IntegerAttr(forward ? 1 : -1),
                       b.getI64IntegerAttr(channelTo(forward, toChunk)),
                       wrap ? b.getUnitAttr() : UnitAttr(), UnitAttr(), IntegerAttr(),
                       b.getI64IntegerAttr(kMessages), origin);
  plan::RecordOp::create(b, loc, events.sent, false, IntegerAttr(), kMessages, origin);
}

void StageBuilder::buildReceive(func::FuncOp func, bool forward) {
  BoundaryValues in = entering(func);
  if (in.values.empty())
    return;
  Location loc = func.getLoc();
  plan::OriginAttr origin = in.originOf(mesh, forward);
  SmallVector<Value> parts;
  for (Value value : in.values)
    parts.push_back(bufferOf(value));
  bool wrap = stage == (forward ? 0 : stages - 1);
  OpBuilder::InsertionGuard guard(b);
  newExchange(loc, /*send=*/false, forward);
  const Chunk &events = chunks[chunk];
  int64_t free = !functions.update          ? events.forward.done
                 : events.weightDone >= 0 ? events.weightDone
                                          : events.backward.done;
  plan::WaitOp::create(b, loc, free, false, IntegerAttr(), kMessages, origin);
  plan::RecvOp::create(b, loc, parts, mesh.getStageAxis(), b.getI64IntegerAttr(forward ? -1 : 1),
                       b.getI64IntegerAttr(channelTo(forward, chunk)),
                       wrap ? b.getUnitAttr() : UnitAttr(), UnitAttr(), IntegerAttr(),
                       b.getI64IntegerAttr(kMessages), origin);
  plan::RecordOp::create(b, loc, direction(forward).arrived, false, IntegerAttr(), kMessages,
                         origin);
}

} // namespace llmc
