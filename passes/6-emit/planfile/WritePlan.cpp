// Writes stages, procedures and instructions, one table per op.
#include "passes/6-emit/Emit.h"
#include "passes/6-emit/matmul/Equation.h"
#include "passes/6-emit/planfile/PlanWriter.h"

#include "dialects/parallel/Annotations.h"
#include "dialects/plan/ValueVersions.h"
#include "lib/planfile/Check.h"

#include "llvm/ADT/TypeSwitch.h"

#include <numeric>

using namespace mlir;

namespace llmc::emit {

using namespace planfile;

DType dtypeOf(Type element) {
  if (element.isF32())
    return DType::F32;
  if (element.isF64())
    return DType::F64;
  if (element.isBF16())
    return DType::BF16;
  if (element.isF16())
    return DType::F16;
  unsigned bits = element.getIntOrFloatBitWidth();
  return bits == 64 ? DType::I64 : bits == 32 ? DType::I32 : bits == 1 ? DType::I1 : DType::U8;
}

std::unique_ptr<BufferRefT> bufferRef(Value buffer, ArrayRef<int64_t> lanes) {
  auto ref = std::make_unique<BufferRefT>();
  ref->size = cast<plan::BufferType>(buffer.getType()).getByteSize();
  auto op = buffer.getDefiningOp<plan::BufferOp>();
  for (; op.getParent(); op = op.getParent().getDefiningOp<plan::BufferOp>())
    ref->offset += op.getDisplacement().value_or(0);
  ref->offset += op.getOffset().value_or(0);
  ref->slot_stride = op.getSlotStride().value_or(0);
  auto lane = llvm::find(lanes, op.getPool().value_or(0));
  if (ref->slot_stride && lane != lanes.end())
    ref->lane = lane - lanes.begin();
  return ref;
}

// Returns a buffer operand of an instruction, with the number of the tensor that has its bytes
// at that point.
std::unique_ptr<BufferRefT> PlanWriter::operandRef(Operation *op, unsigned index) {
  Value buffer = op->getOperand(index);
  auto ref = bufferRef(buffer, lanes);
  auto lives = op->getAttrOfType<DenseI64ArrayAttr>(plan::kValueVersions);
  int64_t life = lives && index < lives.size() ? lives[index] : 0;
  auto root = buffer.getDefiningOp<plan::BufferOp>();
  while (root.getParent())
    root = root.getParent().getDefiningOp<plan::BufferOp>();
  if (root.getSpace() == plan::Space::scratch || life > 0)
    ref->tensor = tensors.try_emplace({root, life}, tensors.size() + 1).first->second;
  return ref;
}

//===-- Names ---------------------------------------------------------------===//

FailureOr<uint32_t> PlanWriter::axisNamed(Operation *op, StringRef name) {
  int index = mesh.getIndex(name);
  if (index < 0)
    return op->emitOpError("names axis '") << name << "', which the mesh does not have";
  return static_cast<uint32_t>(index);
}

FailureOr<uint32_t> PlanWriter::kernelNamed(Operation *op, std::optional<StringRef> name) {
  if (!name)
    return op->emitOpError("has no kernel: phase emit comes before the plan file");
  auto it = kernels.find(*name);
  if (it == kernels.end())
    return op->emitOpError("names kernel '") << *name << "', which does not exist";
  return it->second;
}

//===-- Instructions --------------------------------------------------------===//

static std::unique_ptr<CoordExprT> coordExpr(ArrayRef<int64_t> terms) {
  auto expr = std::make_unique<CoordExprT>();
  expr->base = terms[0];
  expr->coefs = terms.drop_front().vec();
  return expr;
}

template <class Op> static std::unique_ptr<AttentionT> attentionOf(Op op, bool backward) {
  auto shape = [](Value value) { return cast<RankedTensorType>(value.getType()).getShape(); };
  auto attention = std::make_unique<AttentionT>();
  auto q = shape(op.getQ()), k = shape(op.getK());
  attention->batch = q[0], attention->queries = q[1], attention->heads = q[2], attention->head_dim = q[3];
  attention->keys = k[1], attention->kv_heads = k[2], attention->value_dim = shape(op.getV())[3];
  attention->window = op.getWindow().value_or(0);
  attention->causal = op.getCausal();
  attention->backward = backward;
  return attention;
}

FailureOr<std::unique_ptr<LaunchT>> PlanWriter::launchOf(plan::LaunchOp op) {
  auto kernel = kernelNamed(op, op.getKernel());
  if (failed(kernel))
    return failure();
  auto launch = std::make_unique<LaunchT>();
  launch->kernel = *kernel;
  for (unsigned i = 0; i < op->getNumOperands(); ++i) {
    auto operand = std::make_unique<OperandT>();
    operand->buffer = operandRef(op, i);
    operand->access = i < op.getReads().size() ? Access::Read : Access::Write;
    launch->operands.push_back(std::move(operand));
  }
  if (ArrayAttr scalars = op.getScalarsAttr())
    for (auto terms : scalars.getAsRange<DenseI64ArrayAttr>())
      launch->scalars.push_back(coordExpr(terms.asArrayRef()));
  if (auto extents = op.getExtents())
    for (int64_t extent : *extents)
      launch->scalars.push_back(coordExpr({extent}));
  launch->rows = *op.getRows();
  for (Operation &body : op.getBody().front()) {
    if (auto graphOp = dyn_cast<graph::GraphOpInterface>(body)) {
      auto visible = body.getAttrOfType<FloatAttr>(parallel::kVisible);
      launch->flops += graphOp.getFlops() * (visible ? visible.getValueAsDouble() : 1);
    }
    if (auto attention = dyn_cast<graph::AttentionOp>(body))
      launch->attention = attentionOf(attention, /*backward=*/false);
    else if (auto grad = dyn_cast<graph::AttentionGradOp>(body))
      launch->attention = attentionOf(grad, /*backward=*/true);
  }
  if (op.getRoutes()) {
    auto routes = routesOf(op);
    if (failed(routes))
      return failure();
    launch->routes = std::move(*routes);
  }
  return launch;
}

// Returns what a launch tells of the routes that it writes.
FailureOr<std::unique_ptr<RoutesT>> PlanWriter::routesOf(plan::LaunchOp op) {
  plan::RoutesAttr attribute = *op.getRoutes();
  auto cuts = dimsOf(op, attribute.getDims());
  if (failed(cuts))
    return failure();
  auto routes = std::make_unique<RoutesT>();
  routes->router = attribute.getRouter().str();
  routes->global_shape = attribute.getShape().asArrayRef().vec();
  routes->local_shape = cast<plan::BufferType>(op.getWrites()[0].getType()).getTensor().getShape().vec();
  routes->dims = std::move(*cuts);
  Operation *by = &op.getBody().front().front();
  if (auto limit = dyn_cast<graph::LimitRoutesOp>(by)) {
    routes->kind = RoutesKind::Limited;
    routes->experts = limit.getExperts();
    return routes;
  }
  auto route = cast<graph::RouteOp>(by);
  routes->kind = RoutesKind::Chosen;
  routes->experts = route.getScores().getType().getShape().back();
  routes->groups = route.getGroups();
  routes->kept_groups = route.getKeptGroups();
  routes->group_terms = route.getGroupTerms();
  return routes;
}

// Narrows `ref` to the bytes from `element` on that a strided matrix of `sizes` touches.
static std::unique_ptr<BufferRefT> matrixRef(std::unique_ptr<BufferRefT> ref, Value buffer,
                                             int64_t element,
                                             const std::array<int64_t, 3> &strides,
                                             const std::array<int64_t, 3> &sizes) {
  int64_t bytes = ref->size / cast<plan::BufferType>(buffer.getType()).getTensor().getNumElements();
  int64_t last = 0;
  for (auto [stride, size] : llvm::zip(strides, sizes))
    last += stride * (size - 1);
  ref->offset += element * bytes;
  ref->size = (last + 1) * bytes;
  return ref;
}

static DType elementTypeOf(Value buffer) {
  return dtypeOf(cast<plan::BufferType>(buffer.getType()).getTensor().getElementType());
}

// Writes an equation as one call, or as several where letters lie apart in memory.
LogicalResult PlanWriter::writeMatmul(plan::MatmulOp op, const InstructionT &common,
                                      Instructions &out) {
  auto shape = [](Value v) { return cast<plan::BufferType>(v.getType()).getTensor().getShape(); };
  auto calls = matmulCalls(op.getEquation(), shape(op.getLhs()), shape(op.getRhs()),
                           shape(op.getOut()), op.getAccumulate());
  if (failed(calls))
    return op.emitOpError("equation does not fit the buffers");
  const MatmulShape &s = calls->shape;
  Value a = calls->swapped ? op.getRhs() : op.getLhs(),
        b = calls->swapped ? op.getLhs() : op.getRhs();
  for (const MatmulCalls::Call &call : calls->calls) {
    auto fallback =
        kernelNamed(op, call.accumulate ? op.getFallbackAccumulate() : op.getFallback());
    if (failed(fallback))
      return failure();
    auto matmul = std::make_unique<MatmulT>();
    matmul->a_type = elementTypeOf(a);
    matmul->b_type = elementTypeOf(b);
    matmul->c_type = elementTypeOf(op.getOut());
    matmul->batch = s.batch, matmul->m = s.m, matmul->n = s.n, matmul->k = s.k;
    matmul->a = matrixRef(operandRef(op, calls->swapped), a, call.a, s.a, {s.batch, s.m, s.k});
    matmul->b = matrixRef(operandRef(op, !calls->swapped), b, call.b, s.b, {s.batch, s.k, s.n});
    matmul->c = matrixRef(operandRef(op, 2), op.getOut(), call.c, s.c, {s.batch, s.m, s.n});
    matmul->a_strides.assign(s.a.begin(), s.a.end());
    matmul->b_strides.assign(s.b.begin(), s.b.end());
    matmul->c_strides.assign(s.c.begin(), s.c.end());
    matmul->accumulate = call.accumulate;
    matmul->fallback = *fallback;
    auto instruction = std::make_unique<InstructionT>(common);
    instruction->body.Set(std::move(*matmul));
    out.push_back(std::move(instruction));
  }
  return success();
}

FailureOr<std::unique_ptr<MatmulT>> PlanWriter::groupedOf(plan::GroupedMatmulOp op) {
  auto rank = [](Value v) { return cast<plan::BufferType>(v.getType()).getTensor().getRank(); };
  auto fallback = kernelNamed(op, op.getAccumulate() ? op.getFallbackAccumulate() : op.getFallback());
  if (failed(fallback))
    return failure();
  const MatmulShape s = groupedShape(op);
  auto matmul = std::make_unique<MatmulT>();
  matmul->a_type = elementTypeOf(op.getLhs());
  matmul->b_type = elementTypeOf(op.getRhs());
  matmul->c_type = elementTypeOf(op.getOut());
  matmul->batch = s.batch, matmul->m = s.m, matmul->n = s.n, matmul->k = s.k;
  matmul->a = operandRef(op, 0);
  matmul->b = operandRef(op, 1);
  matmul->c = operandRef(op, 3);
  matmul->a_strides.assign(s.a.begin(), s.a.end());
  matmul->b_strides.assign(s.b.begin(), s.b.end());
  matmul->c_strides.assign(s.c.begin(), s.c.end());
  matmul->accumulate = op.getAccumulate();
  matmul->fallback = *fallback;
  auto routing = std::make_unique<RoutingT>();
  routing->form = op.isOuter() ? RoutingForm::Terms : RoutingForm::Rows;
  routing->routes = operandRef(op, 2);
  routing->first = coordExpr(op.getOffset() ? llvm::to_vector(*op.getOffset()) : SmallVector<int64_t>{0});
  auto shareOf = [&](Value rows) {
    auto routes = cast<plan::BufferType>(op.getRoutes().getType()).getTensor().getShape();
    return rank(rows) == int64_t(routes.size()) ? routes.back() : int64_t(1);
  };
  routing->a_share = shareOf(op.getLhs());
  routing->b_share = op.isOuter() ? shareOf(op.getRhs()) : 1;
  matmul->routing = std::move(routing);
  return matmul;
}

FailureOr<std::unique_ptr<CollectiveT>> PlanWriter::collectiveOf(plan::CollectiveOp op) {
  auto tensor = [](Value v) { return cast<plan::BufferType>(v.getType()).getTensor(); };
  auto c = std::make_unique<CollectiveT>();
  switch (op.getKind()) {
  case plan::CollectiveKind::all_reduce:
    c->kind = CollectiveKind::AllReduce;
    break;
  case plan::CollectiveKind::all_gather:
    c->kind = CollectiveKind::AllGather;
    break;
  case plan::CollectiveKind::reduce_scatter:
    c->kind = CollectiveKind::ReduceScatter;
    break;
  case plan::CollectiveKind::broadcast:
    c->kind = CollectiveKind::Broadcast;
    break;
  case plan::CollectiveKind::all_to_all:
    c->kind = CollectiveKind::AllToAll;
    break;
  case plan::CollectiveKind::exchange_rows:
    c->kind = CollectiveKind::ExchangeRows;
    c->rows = std::make_unique<RowCountsT>();
    c->rows->row = tensor(op.getSrc()).getShape().back();
    c->rows->sent = operandRef(op, 2);
    c->rows->received = operandRef(op, 3);
    break;
  }
  c->reduce = op.getReduce() == graph::ReduceKind::max ? ReduceKind::Max : ReduceKind::Sum;
  c->dtype = dtypeOf(tensor(op.getSrc()).getElementType());
  for (auto axis : op.getAxes().getAsRange<StringAttr>()) {
    auto index = axisNamed(op, axis.getValue());
    if (failed(index))
      return failure();
    c->axes.push_back(*index);
  }
  if (auto members = op.getMembers())
    c->members.assign(members->begin(), members->end());
  c->src = operandRef(op, 0);
  c->dst = operandRef(op, 1);
  bool scatters = op.getKind() == plan::CollectiveKind::reduce_scatter;
  c->count = tensor(scatters ? op.getDst() : op.getSrc()).getNumElements();
  c->slices = op.getSlices().value_or(1);
  if (op.getKind() != plan::CollectiveKind::all_to_all)
    return c;
  uint64_t members = c->members.size();
  if (members == 0)
    members = std::accumulate(
        c->axes.begin(), c->axes.end(), uint64_t(1),
        [&](uint64_t size, uint32_t axis) { return size * mesh.getSizes()[axis]; });
  if (c->count % members != 0)
    return op.emitOpError("exchanges ") << c->count << " elements in a group of " << members
                                        << ", whose parts are not equal";
  c->count /= members;
  return c;
}

template <typename Message, typename Op>
void PlanWriter::fillMessage(Message &message, Op op, uint32_t axis) {
  message.axis = axis;
  message.delta = op.getDelta();
  message.channel = op.getChannel();
  message.wrap = op.getWrap();
  message.grouped = op.getGrouped();
  for (unsigned part = 0; part < op.getParts().size(); ++part) {
    message.parts.push_back(operandRef(op, part));
    // An exchange says the lane of a message; within a computation that of the buffer's pool is it.
    if (auto lane = op.getLane())
      message.parts.back()->lane = *lane;
  }
}

FailureOr<BodyUnion> PlanWriter::bodyOf(Operation &op) {
  BodyUnion body;
  if (auto grouped = dyn_cast<plan::GroupedMatmulOp>(op)) {
    auto table = groupedOf(grouped);
    if (failed(table))
      return failure();
    body.Set(std::move(**table));
  } else if (auto launch = dyn_cast<plan::LaunchOp>(op)) {
    auto table = launchOf(launch);
    if (failed(table))
      return failure();
    body.Set(std::move(**table));
  } else if (auto collective = dyn_cast<plan::CollectiveOp>(op)) {
    auto table = collectiveOf(collective);
    if (failed(table))
      return failure();
    body.Set(std::move(**table));
  } else if (isa<plan::SendOp, plan::RecvOp>(op)) {
    auto axis = axisNamed(&op, op.getAttrOfType<StringAttr>("axis").getValue());
    if (failed(axis))
      return failure();
    if (auto send = dyn_cast<plan::SendOp>(op)) {
      SendT table;
      fillMessage(table, send, *axis);
      body.Set(std::move(table));
    } else {
      RecvT table;
      fillMessage(table, cast<plan::RecvOp>(op), *axis);
      body.Set(std::move(table));
    }
  } else if (auto copy = dyn_cast<plan::CopyOp>(op)) {
    CopyT table;
    table.src = operandRef(copy, 0);
    table.dst = operandRef(copy, 1);
    body.Set(std::move(table));
  } else if (auto fill = dyn_cast<plan::FillOp>(op)) {
    FillT table;
    table.dst = operandRef(fill, 0);
    body.Set(std::move(table));
  } else if (auto feed = dyn_cast<plan::FeedOp>(op)) {
    auto input = inputs.find(feed.getInput());
    if (input == inputs.end())
      return feed.emitOpError("feeds '") << feed.getInput() << "', which no buffer is bound to";
    FeedT table;
    table.input = input->second;
    table.dst = operandRef(feed, 0);
    body.Set(std::move(table));
  } else if (auto record = dyn_cast<plan::RecordOp>(op)) {
    RecordT table;
    table.event = record.getEvent();
    table.whole_step = record.getWholeStep();
    table.lane = record.getLane().value_or(0);
    body.Set(std::move(table));
  } else if (auto wait = dyn_cast<plan::WaitOp>(op)) {
    WaitT table;
    table.event = wait.getEvent();
    table.whole_step = wait.getWholeStep();
    table.lane = wait.getLane().value_or(0);
    body.Set(std::move(table));
  } else {
    return op.emitOpError("has no instruction in the plan file");
  }
  return body;
}

LogicalResult PlanWriter::writeInstruction(Operation &op, Phase phase, Instructions &out) {
  InstructionT common;
  common.stream = op.getAttrOfType<IntegerAttr>("stream").getInt();
  common.phase = phase;
  common.origin = originOf(op);
  if (auto matmul = dyn_cast<plan::MatmulOp>(op))
    return writeMatmul(matmul, common, out);
  auto body = bodyOf(op);
  if (failed(body))
    return failure();
  auto instruction = std::make_unique<InstructionT>(common);
  instruction->body = std::move(*body);
  out.push_back(std::move(instruction));
  return success();
}

//===-- Stages --------------------------------------------------------------===//

static ProcedureKind kindOf(plan::ProcedureKind kind) {
  switch (kind) {
  case plan::ProcedureKind::forward:
    return ProcedureKind::Forward;
  case plan::ProcedureKind::backward:
    return ProcedureKind::Backward;
  case plan::ProcedureKind::backward_last:
    return ProcedureKind::BackwardLast;
  case plan::ProcedureKind::update:
    return ProcedureKind::Update;
  case plan::ProcedureKind::begin:
    return ProcedureKind::Begin;
  case plan::ProcedureKind::weight:
    return ProcedureKind::Weight;
  case plan::ProcedureKind::weight_last:
    return ProcedureKind::WeightLast;
  case plan::ProcedureKind::exchange:
    return ProcedureKind::Exchange;
  }
  return ProcedureKind::Forward;
}

// Returns the phase of an instruction. What is sent to later stages are activations, what is
// sent to earlier ones are gradients.
static Phase phaseOf(plan::ProcedureOp procedure, Operation &op) {
  switch (procedure.getKind()) {
  case plan::ProcedureKind::begin:
  case plan::ProcedureKind::forward:
    return Phase::Forward;
  case plan::ProcedureKind::backward:
  case plan::ProcedureKind::backward_last:
  case plan::ProcedureKind::weight:
  case plan::ProcedureKind::weight_last:
    return Phase::Backward;
  case plan::ProcedureKind::exchange: {
    Operation *message = &op;
    while (message && !isa<plan::SendOp, plan::RecvOp>(message))
      message = isa<plan::WaitOp>(op) ? message->getNextNode() : message->getPrevNode();
    auto delta = message ? message->getAttrOfType<IntegerAttr>("delta") : IntegerAttr();
    bool up = delta && (delta.getInt() > 0) == isa<plan::SendOp>(message);
    return up ? Phase::Forward : Phase::Backward;
  }
  case plan::ProcedureKind::update:
    return Phase::Update;
  }
  return Phase::Forward;
}

LogicalResult PlanWriter::writeProcedure(plan::ProcedureOp op, StageT &stage) {
  auto procedure = std::make_unique<ProcedureT>();
  procedure->name = op.getSymName().str();
  procedure->kind = kindOf(op.getKind());
  procedure->chunk = op.getChunk().value_or(0);
  // The main pool of chunk i is pool i.
  lanes.assign(1, op.getChunk().value_or(0));
  if (auto given = op.getLanes())
    lanes.assign(given->begin(), given->end());
  for (Operation &instruction : op.getBody().front()) {
    if (failed(writeInstruction(instruction, phaseOf(op, instruction), procedure->instructions)))
      return failure();
    uint32_t stream = instruction.getAttrOfType<IntegerAttr>("stream").getInt();
    stage.streams = std::max(stage.streams, stream + 1);
    if (auto event = instruction.getAttrOfType<IntegerAttr>("event"))
      stage.events = std::max<uint32_t>(stage.events, event.getInt() + 1);
  }
  stage.procedures.push_back(std::move(procedure));
  return success();
}

LogicalResult PlanWriter::writeStage(plan::StageOp op) {
  auto stage = std::make_unique<StageT>();
  tensors.clear();
  if (!op.getArenaBytes())
    return op.emitOpError("has no arena: phase schedule comes before the plan file");
  stage->arena_bytes = *op.getArenaBytes();
  stage->streams = 1;
  for (auto row : op.getChunks().getAsRange<plan::ChunkAttr>()) {
    auto chunk = std::make_unique<ChunkT>();
    chunk->first_layer = row.getFirstLayer();
    chunk->last_layer = row.getLastLayer();
    stage->chunks.push_back(std::move(chunk));
  }
  for (auto row : op.getPools().getAsRange<plan::PoolAttr>()) {
    auto pool = std::make_unique<PoolT>();
    pool->chunk = row.getChunk();
    pool->slots = row.getSlots();
    stage->pools.push_back(std::move(pool));
  }
  if (failed(writeBindings(op, *stage)))
    return failure();
  llvm::StringMap<uint32_t> procedures;
  for (auto procedure : op.getBody().getOps<plan::ProcedureOp>()) {
    procedures[procedure.getSymName()] = stage->procedures.size();
    if (failed(writeProcedure(procedure, *stage)))
      return failure();
  }
  for (auto row : op.getTable().getAsRange<plan::EntryAttr>()) {
    auto entry = std::make_unique<EntryT>();
    entry->procedure = procedures.lookup(row.getProcedure().getValue());
    entry->micro_batch = row.getMicroBatch();
    entry->slot = row.getSlot();
    entry->pool = row.getPool();
    for (plan::LaneAttr lane : row.getAlso())
      entry->more.push_back(SlotRef(lane.getPool(), lane.getMicroBatch(), lane.getSlot()));
    stage->table.push_back(std::move(entry));
  }
  program.stages.push_back(std::move(stage));
  return success();
}

LogicalResult PlanWriter::run() {
  program.version = kPlanVersion;
  if (failed(writeMesh()) || failed(writeSources()))
    return failure();
  writeModel();
  writeOptions();
  writeFiles();
  writeKernels();
  writeOps();
  if (program.mode == Mode::Infer && failed(listInputs()))
    return failure();
  SmallVector<plan::StageOp> stages(module.getOps<plan::StageOp>());
  llvm::sort(stages, [](plan::StageOp x, plan::StageOp y) { return x.getStage() < y.getStage(); });
  for (plan::StageOp stage : stages)
    if (failed(writeStage(stage)))
      return failure();
  writeRoom();
  updateLiveBytes(program);
  return success();
}

LogicalResult writePlan(ModuleOp module, ProgramT &program) {
  return PlanWriter(module, program).run();
}

} // namespace llmc::emit
