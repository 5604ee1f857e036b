// Checks what an instruction names: buffers of its stage, axes of the mesh, sizes that fit.
#include "lib/planfile/Bounds.h"
#include "lib/planfile/Routes.h"

using namespace llmc;
using namespace llmc::planfile;
using support::error;
using support::ok;
using support::Status;
using support::text;

Status Bounds::checkInstruction(const InstructionT &instruction) {
  if (instruction.stream >= stage->streams)
    return error("stream ", unsigned(instruction.stream), " of ", stage->streams);
  if (!inEnum(instruction.phase, Phase::MAX))
    return error("unknown phase");
  if (instruction.origin >= program.origins.size())
    return error("origin ", instruction.origin, " of ", program.origins.size());
  if (!inEnum(instruction.body.type, Body::MAX) || !instruction.body.value)
    return error("unknown or empty body");
  std::optional<Message> message = messageOf(instruction);
  if (Status s = message ? checkMessage(*message) : checkBody(instruction.body); !s)
    return error(toString(instruction.body.type), ": ", s.message());
  return ok();
}

Status Bounds::checkBody(const BodyUnion &body) {
  switch (body.type) {
  case Body::Launch:
    return checkLaunch(*body.AsLaunch());
  case Body::Matmul:
    return checkMatmul(*body.AsMatmul());
  case Body::Collective:
    return checkCollective(*body.AsCollective());
  case Body::Copy: {
    const CopyT &copy = *body.AsCopy();
    if (Status s = checkBuffer("source", copy.src.get()); !s)
      return s;
    if (Status s = checkBuffer("destination", copy.dst.get()); !s)
      return s;
    if (copy.src->size != copy.dst->size)
      return error("copies ", copy.src->size, " bytes to ", copy.dst->size);
    return ok();
  }
  case Body::Fill:
    return checkBuffer("destination", body.AsFill()->dst.get());
  case Body::Feed: {
    const FeedT &feed = *body.AsFeed();
    if (feed.input >= program.inputs.size())
      return error("input ", feed.input, " of ", program.inputs.size());
    const InputBindingT &input = *program.inputs[feed.input];
    return checkBuffer("destination", feed.dst.get(),
                       *elements(input.local_shape, 0) * byteSize(input.dtype),
                       byteSize(input.dtype));
  }
  case Body::Record:
  case Body::Wait: {
    const RecordT *record = body.AsRecord();
    uint32_t event = record ? record->event : body.AsWait()->event;
    uint32_t lane = record ? record->lane : body.AsWait()->lane;
    if (event >= stage->events)
      return error("event ", event, " of ", stage->events);
    if (lane >= lastSlots.size())
      return error("lane ", lane, " of ", lastSlots.size());
    return ok();
  }
  case Body::Send:
  case Body::Recv:
  case Body::NONE:
    break;
  }
  return error("unknown body");
}

Status Bounds::checkLaunch(const LaunchT &launch) {
  if (launch.kernel >= program.kernels.size())
    return error("kernel ", launch.kernel, " of ", program.kernels.size());
  if (launch.rows < 0 || static_cast<uint64_t>(launch.rows) > kMaxElements)
    return error(launch.rows, " rows");
  if (launch.operands.size() > kMaxOperands || launch.scalars.size() > kMaxOperands)
    return error("more than ", kMaxOperands, " operands or scalars");
  for (const auto &operand : launch.operands) {
    if (!inEnum(operand->access, Access::MAX))
      return error("unknown access");
    if (Status s = checkBuffer("operand", operand->buffer.get()); !s)
      return s;
  }
  for (const auto &scalar : launch.scalars)
    if (scalar->coefs.size() > program.mesh->axes.size())
      return error("a scalar of ", scalar->coefs.size(), " coordinates");
  return launch.routes ? checkRoutes(launch, *launch.routes) : ok();
}

// Checks that routes lie in the last operand, that the ranks' shards are those of whole rows of tokens, and
// that all launches of a router agree on them.
Status Bounds::checkRoutes(const LaunchT &launch, const RoutesT &routes) {
  auto fail = [&](const auto &...what) { return error("routes of '", routes.router, "': ", what...); };
  if (routes.router.empty() || !inEnum(routes.kind, RoutesKind::MAX))
    return fail("no name, or unknown kind");
  std::optional<uint64_t> count = elements(routes.local_shape);
  if (!count || !elements(routes.global_shape) || routes.local_shape.size() < 2 ||
      routes.local_shape.size() != routes.global_shape.size() || routes.dims.size() > routes.local_shape.size() ||
      routes.local_shape.back() != routes.global_shape.back())
    return fail("bad shapes");
  if (Status s = checkCut(routes.global_shape, routes.local_shape, routes.dims); !s)
    return fail(s.message());
  if (!RoutesLayout::fits(program, routes))
    return fail("of no whole rows of tokens");
  size_t operands = launch.operands.size();
  if (operands != 2 && (operands != 3 || routes.kind != RoutesKind::Chosen))
    return fail(operands, " operands");
  if (launch.operands.back()->access != Access::Write)
    return fail("the last operand is not written");
  if (Status s = checkBuffer("routes", launch.operands.back()->buffer.get(), *count * 8, 8); !s)
    return s;
  uint64_t choices = static_cast<uint64_t>(routes.local_shape.back());
  if (Status s = routes.kind == RoutesKind::Chosen ? checkChoice(launch, routes, choices) : ok(); !s)
    return fail(s.message());
  const RoutesT *&first = routers[{routes.router, routes.kind}];
  first = first ? first : &routes;
  if (first->global_shape != routes.global_shape || first->experts != routes.experts)
    return fail("other shapes or experts than elsewhere");
  return ok();
}

// Checks the scores by which a launch chooses, and from which groups.
Status Bounds::checkChoice(const LaunchT &launch, const RoutesT &routes, uint64_t choices) {
  int64_t experts = routes.experts, groups = routes.groups, kept = routes.kept_groups, terms = routes.group_terms;
  if (experts < 1 || experts > INT32_MAX || groups < 1 || experts % groups != 0 || kept < 1 || kept > groups ||
      terms < 1 || terms > experts / groups || choices > static_cast<uint64_t>(experts / groups * kept))
    return error("chooses ", choices, " of ", experts, " experts, in ", kept, " of ", groups, " groups by ", terms,
                 " scores");
  uint64_t tokens = *elements(routes.local_shape) / choices;
  if (tokens > kMaxElements / static_cast<uint64_t>(experts))
    return error("scores of ", tokens, " tokens");
  for (const auto &operand : launch.operands)
    if (operand != launch.operands.back() && operand->access != Access::Read)
      return error("scores or biases are not read");
  if (Status s = checkBuffer("scores", launch.operands[0]->buffer.get(), tokens * experts * 4, 4); !s)
    return s;
  return launch.operands.size() < 3 ? ok() : checkBuffer("biases", launch.operands[1]->buffer.get(), experts * 4, 4);
}

Status Bounds::checkMatmul(const MatmulT &matmul) {
  if (Status s = checkTypes(matmul); !s)
    return s;
  if (matmul.fallback >= program.kernels.size())
    return error("fallback kernel ", matmul.fallback, " of ", program.kernels.size());
  if (matmul.routing)
    return checkGrouped(matmul, *matmul.routing);
  // Bounds the elements of each of the three tensors; the work of the product is not bounded.
  if (!elements({matmul.batch, matmul.m, matmul.n}) || !elements({matmul.batch, matmul.m, matmul.k}) ||
      !elements({matmul.batch, matmul.k, matmul.n}))
    return error("bad sizes");
  if (Status s = checkMatrix("a", matmul.a_type, matmul.a.get(), matmul.a_strides,
                             {matmul.batch, matmul.m, matmul.k});
      !s)
    return s;
  if (Status s = checkMatrix("b", matmul.b_type, matmul.b.get(), matmul.b_strides,
                             {matmul.batch, matmul.k, matmul.n});
      !s)
    return s;
  if (Status s = checkMatrix("c", matmul.c_type, matmul.c.get(), matmul.c_strides,
                             {matmul.batch, matmul.m, matmul.n});
      !s)
    return s;
  return checkWrites(matmul, {matmul.batch, matmul.m, matmul.n});
}

Status Bounds::checkWrites(const MatmulT &matmul, const int64_t (&sizes)[3]) {
  for (int i = 0; i < 3; ++i)
    if (matmul.c_strides[i] == 0 && sizes[i] > 1)
      return error("writes elements of c more than once");
  return ok();
}

// Checks a product of routed rows: what has no group is one matrix, of dense rows.
Status Bounds::checkGrouped(const MatmulT &matmul, const RoutingT &routing) {
  if (!inEnum(routing.form, RoutingForm::MAX))
    return error("unknown form of routing");
  bool byRows = routing.form == RoutingForm::Rows;
  int64_t m = matmul.m, n = matmul.n, k = matmul.k, batch = matmul.batch;
  if (!elements({m, n}) || !elements({m, k}) || !elements({k, n}) ||
      !(byRows ? elements({batch, k, n}) : elements({batch, m, n})))
    return error("bad sizes");
  if (byRows && matmul.accumulate)
    return error("a product of routed rows accumulates, only that of routed terms may");
  int64_t rows = byRows ? m : k, aShare = routing.a_share, bShare = routing.b_share;
  if (aShare < 1 || rows % aShare != 0 || bShare < 1 || rows % bShare != 0 || (byRows && bShare != 1))
    return error("shares of ", aShare, " and ", bShare, " of ", rows, " routed rows",
                 byRows ? ", the second is 1 for weights" : "");
  if (Status s = checkBuffer("routes", routing.routes.get(), static_cast<uint64_t>(rows) * 8, 8); !s)
    return s;
  if (!routing.first || routing.first->coefs.size() > program.mesh->axes.size())
    return error("the first group is missing or of more coordinates than the mesh has");
  int64_t a[3] = {1, byRows ? m / aShare : m, byRows ? k : k / aShare};
  int64_t b[3] = {byRows ? batch : 1, byRows ? k : k / bShare, n}, c[3] = {byRows ? 1 : batch, m, n};
  if (Status s = checkMatrix("a", matmul.a_type, matmul.a.get(), matmul.a_strides, a); !s)
    return s;
  if (Status s = checkMatrix("b", matmul.b_type, matmul.b.get(), matmul.b_strides, b); !s)
    return s;
  if (Status s = checkMatrix("c", matmul.c_type, matmul.c.get(), matmul.c_strides, c); !s)
    return s;
  if (matmul.a_strides[0] != 0 || (byRows ? matmul.c_strides : matmul.b_strides)[0] != 0)
    return error("a or ", byRows ? "c" : "b", " has a stride for the group, and is one matrix for all");
  if (matmul.a_strides[byRows ? 2 : 1] != 1 || matmul.c_strides[2] != 1 || (!byRows && matmul.b_strides[2] != 1))
    return error("routed rows are not dense, their elements need the stride 1");
  return checkWrites(matmul, c);
}

Status Bounds::checkTypes(const MatmulT &matmul) {
  for (DType type : {matmul.a_type, matmul.b_type, matmul.c_type})
    if (!inEnum(type, DType::MAX))
      return error("unknown dtype");
  bool same = matmul.a_type == matmul.b_type && matmul.b_type == matmul.c_type;
  bool plain = same && (matmul.c_type == DType::F32 || matmul.c_type == DType::F64);
  bool narrow = (matmul.a_type == DType::BF16 || matmul.a_type == DType::F16) &&
                matmul.b_type == matmul.a_type &&
                (matmul.c_type == matmul.a_type || matmul.c_type == DType::F32);
  if (plain || narrow)
    return ok();
  return error(toString(matmul.a_type), " by ", toString(matmul.b_type), " to ",
               toString(matmul.c_type),
               ", which no product takes; f32 by f32 to f32, f64 by f64 to f64, bf16 by bf16 "
               "to bf16 or f32, and f16 by f16 to f16 or f32 are those that there are");
}

Status Bounds::checkMatrix(const char *name, DType dtype, const BufferRefT *ref,
                           const std::vector<int64_t> &strides, const int64_t (&sizes)[3]) {
  if (strides.size() != 3)
    return error(name, " has ", strides.size(), " strides, not 3");
  uint64_t last = 0;
  for (int i = 0; i < 3; ++i) {
    uint64_t steps = static_cast<uint64_t>(sizes[i]) - 1;
    if (strides[i] < 0 || (steps > 0 && static_cast<uint64_t>(strides[i]) > kMaxElements / steps))
      return error(name, " has the stride ", strides[i]);
    last += steps * static_cast<uint64_t>(strides[i]);
  }
  return checkBuffer(name, ref, (last + 1) * byteSize(dtype), byteSize(dtype));
}

Status Bounds::checkCollective(const CollectiveT &c) {
  if (!inEnum(c.kind, CollectiveKind::MAX) || !inEnum(c.reduce, ReduceKind::MAX) ||
      !inEnum(c.dtype, DType::MAX))
    return error("unknown kind, reduction or dtype");
  bool reduces = c.kind == CollectiveKind::AllReduce || c.kind == CollectiveKind::ReduceScatter;
  if (reduces && (c.dtype == DType::I1 || c.dtype == DType::U8))
    return error("no reduction of dtype ", toString(c.dtype));
  std::set<uint32_t> seen;
  if (c.axes.empty() || !axesValid(c.axes, seen))
    return error("bad axes");
  uint64_t members = 1;
  for (uint32_t axis : c.axes)
    members *= program.mesh->axes[axis]->size;
  if (!c.members.empty()) {
    if (Status s = checkMembers(c); !s)
      return s;
    members = c.members.size();
  }
  if (c.count == 0 || c.count > kMaxElements / members)
    return error("of ", c.count, " elements");
  uint64_t shard = c.count * byteSize(c.dtype);
  bool gathers = c.kind == CollectiveKind::AllGather;
  bool scatters = c.kind == CollectiveKind::ReduceScatter;
  bool exchanges = c.kind == CollectiveKind::AllToAll;
  bool byRows = c.kind == CollectiveKind::ExchangeRows;
  if (byRows != (c.rows != nullptr))
    return error(toString(c.kind), byRows ? " lacks" : " has", " counts of rows");
  if (c.slices > 1 && ((!gathers && !scatters) || c.count % c.slices != 0))
    return error(toString(c.kind), " of ", c.count, " elements in ", c.slices, " slices");
  if (Status s = checkBuffer("source", c.src.get(),
                             scatters || exchanges ? shard * members : shard, byteSize(c.dtype));
      !s)
    return s;
  uint64_t least = byRows ? byteSize(c.dtype) : gathers || exchanges ? shard * members : shard;
  if (Status s = checkBuffer("destination", c.dst.get(), least, byteSize(c.dtype));
      !s)
    return s;
  if (byRows)
    return checkExchange(c, members);
  bool same = c.src->offset == c.dst->offset && c.src->slot_stride == c.dst->slot_stride;
  if (!(same && !gathers && !scatters && !exchanges) && overlap(*c.src, *c.dst))
    return error("source and destination overlap");
  return ok();
}

Status Bounds::checkMembers(const CollectiveT &c) {
  // Allows members on the stage axis only: just stages differ in what they run.
  if (c.axes.size() != 1 || c.axes[0] != program.stage_axis)
    return error("members of an axis that does not pick stages");
  bool self = false;
  for (size_t i = 0; i < c.members.size(); ++i) {
    if (c.members[i] >= program.stages.size() || (i > 0 && c.members[i] <= c.members[i - 1]))
      return error("members out of order or out of the mesh");
    self |= c.members[i] == stageIndex;
  }
  return self ? ok() : error("this stage is not among the members");
}

Status Bounds::checkExchange(const CollectiveT &c, uint64_t members) {
  const RowCountsT &rows = *c.rows;
  uint64_t size = byteSize(c.dtype);
  if (rows.row == 0 || rows.row > c.count || c.count % rows.row != 0 || c.src->size != c.count * size ||
      c.dst->size % (rows.row * size) != 0)
    return error("source and destination of ", c.src->size, " and ", c.dst->size, " bytes, ", c.count,
                 " elements, are not whole rows of ", rows.row, " elements");
  if (Status s = checkBuffer("sent", rows.sent.get(), members * 8, 8); !s)
    return s;
  if (Status s = checkBuffer("received", rows.received.get(), members * 8, 8); !s)
    return s;
  for (const BufferRefT *read : {c.src.get(), rows.sent.get(), rows.received.get()})
    if (overlap(*read, *c.dst))
      return error("the destination overlaps ", read == c.src.get() ? "the source" : "a count of rows");
  return ok();
}

Status Bounds::checkMessage(const Message &message) {
  if (message.axis >= program.mesh->axes.size())
    return error("along axis ", message.axis, " of ", program.mesh->axes.size());
  int64_t size = program.mesh->axes[message.axis]->size, delta = message.delta;
  // Requires a wrap on any other axis than the stages', for its last coordinate runs the
  // instruction too.
  if (!message.wrap && message.axis != program.stage_axis)
    return error("along axis ", message.axis, ", only along the stages (", program.stage_axis,
                 "), or wrapping around the axis");
  int64_t peer = int64_t(stageIndex) + delta;
  if (!message.wrap && (delta == 0 || peer < 0 || peer >= size))
    return error("to stage ", peer, " of ", size);
  if (message.wrap && (delta == 0 || delta <= -size || delta >= size))
    return error("by ", delta, " around an axis of size ", size);
  if (message.parts->empty())
    return error("no parts");
  for (const auto &part : *message.parts)
    if (Status s = checkBuffer("part", part.get()); !s)
      return s;
  return ok();
}

Status Bounds::checkBuffer(const char *name, const BufferRefT *ref, uint64_t least,
                           uint64_t align) {
  if (!ref)
    return error(name, " is missing");
  if (ref->offset > kMaxBytes || ref->slot_stride > kMaxBytes || ref->size > kMaxBytes)
    return error(name, " is out of range");
  if (ref->lane >= lastSlots.size())
    return error(name, " is of lane ", unsigned(ref->lane), " of ", lastSlots.size());
  uint64_t last = lastSlots[ref->lane];
  if (last > 0 && ref->slot_stride > kMaxBytes / last)
    return error(name, " is out of range");
  uint64_t end = ref->offset + last * ref->slot_stride + ref->size;
  if (end > stage->arena_bytes)
    return error(name, " ends at byte ", end, " of an arena of ", stage->arena_bytes);
  if (ref->size < least)
    return error(name, " has ", ref->size, " bytes, ", least, " are needed");
  if (ref->offset % align != 0 || ref->slot_stride % align != 0)
    return error(name, " is not aligned to its elements");
  return ok();
}

bool Bounds::overlap(const BufferRefT &a, const BufferRefT &b) const {
  auto meet = [&](uint64_t slotOfA, uint64_t slotOfB) {
    uint64_t first = a.offset + slotOfA * a.slot_stride, second = b.offset + slotOfB * b.slot_stride;
    return first < second + b.size && second < first + a.size;
  };
  if (entries.empty() || (a.slot_stride == 0 && b.slot_stride == 0))
    return meet(0, 0);
  return std::any_of(entries.begin(), entries.end(), [&](const EntryT *entry) {
    return meet(slotOf(*entry, a.lane).slot(), slotOf(*entry, b.lane).slot());
  });
}

bool Bounds::axesValid(const std::vector<uint32_t> &axes, std::set<uint32_t> &seen) const {
  for (uint32_t axis : axes)
    if (axis >= program.mesh->axes.size() || !seen.insert(axis).second)
      return false;
  return true;
}
