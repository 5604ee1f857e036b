// After checkBounds() holds, nothing that the executor follows can leave the
// plan's own tables, the mesh or the arena. Whether the plan computes the right
// thing in the right order is the business of the checkers (Check*.cpp).
#include "lib/planfile/Program.h"

#include <algorithm>
#include <set>

using namespace llmc;
using namespace llmc::planfile;
using support::error;
using support::ok;
using support::Status;
using support::text;

namespace {

constexpr uint64_t kMaxBytes = uint64_t(1) << 46;
constexpr uint64_t kMaxElements = uint64_t(1) << 44;
constexpr size_t kMaxOperands = 32;

template <class E>
bool inEnum(E value, E largest) {
  return static_cast<unsigned>(value) <= static_cast<unsigned>(largest);
}

// Product of a shape; nullopt if a dim is less than `least` (0 or 1) or the
// product is absurd.
std::optional<uint64_t> elements(const std::vector<int64_t> &shape, int64_t least = 1) {
  uint64_t count = 1;
  bool empty = false;
  for (int64_t dim : shape) {
    if (dim < least || static_cast<uint64_t>(dim) > kMaxElements / count)
      return std::nullopt;
    empty |= dim == 0;
    count *= static_cast<uint64_t>(std::max<int64_t>(dim, 1));
  }
  return empty ? 0 : count;
}

// Checks one program; the members say where it stands.
class Bounds {
public:
  explicit Bounds(const ProgramT &program) : program(program) {}
  Status run();

private:
  Status checkMesh();
  Status checkSources();
  Status checkDescriptions();
  Status checkTensor(const TensorInfoT &tensor);
  Status checkInput(const InputBindingT &input);
  Status checkInputOfRun(const InputBindingT &input);
  Status checkStage(uint32_t index);
  Status checkInstruction(const InstructionT &instruction);
  Status checkBody(const BodyUnion &body);
  Status checkLaunch(const LaunchT &launch);
  Status checkMatmul(const MatmulT &matmul);
  Status checkMatrix(const char *name, DType dtype, const BufferRefT *ref,
                     const std::vector<int64_t> &strides, const int64_t (&sizes)[3]);
  Status checkCollective(const CollectiveT &collective);
  Status checkMessage(uint32_t axis, int32_t delta,
                      const std::vector<std::unique_ptr<BufferRefT>> &parts);
  Status checkState(const StateShardT &state);
  Status checkCut(const std::vector<int64_t> &global, const std::vector<int64_t> &local,
                  const std::vector<std::unique_ptr<DimShardingT>> &dims);
  Status checkView(const StateShardT &state);
  Status checkResult(const OutputBindingT &result);
  // `least`: bytes that the buffer must have; `align`: what its start must divide.
  Status checkBuffer(const char *name, const BufferRefT *ref, uint64_t least = 0,
                     uint64_t align = 1);
  bool overlap(const BufferRefT &a, const BufferRefT &b) const;
  bool axesValid(const std::vector<uint32_t> &axes, std::set<uint32_t> &seen) const;

  const ProgramT &program;
  const StageT *stage = nullptr;
  uint32_t stageIndex = 0;
  std::set<std::string> results; // names seen so far
};

Status Bounds::run() {
  if (!inEnum(program.mode, Mode::MAX) || !inEnum(program.optimizer, OptimizerKind::MAX))
    return error("plan: unknown mode or optimizer");
  if (!program.model)
    return error("plan: no model");
  if (Status s = checkMesh(); !s)
    return s;
  if (program.micro_batch == 0 || program.micro_batches == 0 || program.global_batch == 0)
    return error("plan: an empty batch");
  if (program.mode == Mode::Infer && program.micro_batches != 1)
    return error("plan: a run for inference in ", program.micro_batches, " micro-batches");
  if (Status s = checkSources(); !s)
    return s;
  if (Status s = checkDescriptions(); !s)
    return s;
  for (const auto &input : program.inputs)
    if (Status s = checkInput(*input); !s)
      return s;
  for (uint32_t i = 0; i < program.stages.size(); ++i)
    if (Status s = checkStage(i); !s)
      return error("plan: stage ", i, ": ", s.message());
  return ok();
}

Status Bounds::checkMesh() {
  if (!program.mesh || program.mesh->axes.empty() || program.mesh->axes.size() > 16)
    return error("plan: a mesh needs 1 to 16 axes");
  uint64_t ranks = 1;
  for (const auto &axis : program.mesh->axes) {
    if (axis->size == 0 || axis->size > (1u << 20))
      return error("plan: axis '", axis->name, "' of size ", axis->size);
    ranks *= axis->size;
    if (ranks > (1u << 20))
      return error("plan: more than ", 1u << 20, " ranks");
  }
  if (program.stage_axis >= program.mesh->axes.size())
    return error("plan: stage axis ", program.stage_axis, " of ", program.mesh->axes.size());
  if (program.stages.size() != program.mesh->axes[program.stage_axis]->size)
    return error("plan: ", program.stages.size(), " stages on an axis of size ",
                 program.mesh->axes[program.stage_axis]->size);
  return ok();
}

Status Bounds::checkSources() {
  for (const auto &source : program.sources) {
    auto fail = [&](const std::string &why) {
      return error("plan: source '", source->name, "': ", why);
    };
    if (!inEnum(source->dtype, DType::MAX) || !inEnum(source->init, InitKind::MAX))
      return fail("unknown dtype or init");
    std::optional<uint64_t> count = elements(source->shape);
    if (!count)
      return fail("bad shape");
    if (!source->transposed_aliases.empty() && source->shape.size() != 2)
      return fail("only a matrix has transposed aliases");
    if (source->file < -1 || source->file >= static_cast<int64_t>(program.files.size()))
      return fail(text("file ", source->file, " of ", program.files.size()));
    if (source->file == -1)
      continue;
    uint64_t size = program.files[source->file]->byte_size;
    if (source->byte_size != *count * byteSize(source->dtype) || source->byte_size > size ||
        source->file_offset > size - source->byte_size)
      return fail("its bytes do not lie in its file");
  }
  return ok();
}

// What is there for people alone; who prints it follows its axes.
Status Bounds::checkTensor(const TensorInfoT &tensor) {
  if (!inEnum(tensor.dtype, DType::MAX) || !elements(tensor.shape, 0))
    return error("bad dtype or shape");
  for (const LayoutT *layout : {tensor.layout.get(), tensor.needed.get()}) {
    std::set<uint32_t> seen;
    if (!layout)
      continue;
    if (!inEnum(layout->reduce, ReduceKind::MAX) || layout->dims.size() > tensor.shape.size())
      return error("bad layout");
    for (const auto &dim : layout->dims)
      if (!axesValid(dim->axes, seen))
        return error("cut over bad axes");
    if (!axesValid(layout->unreduced, seen))
      return error("unreduced over bad axes");
  }
  return ok();
}

Status Bounds::checkDescriptions() {
  for (size_t i = 0; i < program.origins.size(); ++i)
    for (const auto &tensor : program.origins[i]->tensors)
      if (Status s = checkTensor(*tensor); !s)
        return error("plan: origin ", i, ": ", s.message());
  for (const auto &op : program.ops) {
    for (const auto *list : {&op->operands, &op->results})
      for (const auto &tensor : *list)
        if (Status s = checkTensor(*tensor); !s)
          return error("plan: description of ", op->op, ": ", s.message());
    if (!op->layers.empty() && op->layers.size() != op->names.size())
      return error("plan: description of ", op->op, ": layers for some names only");
    for (const auto &cut : op->cuts)
      if (cut->axis >= program.mesh->axes.size())
        return error("plan: description of ", op->op, ": axis ", cut->axis);
  }
  return ok();
}

// One run takes all of the input, cut along its first dim or not at all.
Status Bounds::checkInputOfRun(const InputBindingT &input) {
  auto fail = [&](const char *why) { return error("plan: input '", input.name, "' ", why); };
  std::set<uint32_t> seen;
  if (!inEnum(input.dtype, DType::MAX) || !inEnum(input.default_value, InputDefault::MAX) ||
      !axesValid(input.batch_axes, seen) || seen.count(program.stage_axis) || input.limit < 0)
    return fail("is malformed");
  if (!elements(input.local_shape, 0) || !elements(input.global_shape, 0))
    return fail("has a bad shape");
  std::vector<int64_t> whole = input.local_shape;
  if (whole.empty() && !input.batch_axes.empty())
    return fail("is cut, but has no dims");
  for (uint32_t axis : input.batch_axes) {
    int64_t parts = program.mesh->axes[axis]->size;
    if (static_cast<uint64_t>(whole[0]) > kMaxElements / static_cast<uint64_t>(parts))
      return fail("has a bad shape");
    whole[0] *= parts;
  }
  if (whole != input.global_shape)
    return fail("is not the sum of its parts");
  return ok();
}

Status Bounds::checkInput(const InputBindingT &input) {
  if (program.mode == Mode::Infer)
    return checkInputOfRun(input);
  std::optional<uint64_t> count = elements(input.local_shape);
  std::set<uint32_t> seen;
  if (!inEnum(input.dtype, DType::MAX) || !inEnum(input.default_value, InputDefault::MAX) ||
      !count || input.local_shape.empty() || !axesValid(input.batch_axes, seen) ||
      seen.count(program.stage_axis) || input.limit < 0)
    return error("plan: input '", input.name, "' is malformed");
  uint64_t rows = static_cast<uint64_t>(input.local_shape[0]) * program.micro_batches;
  for (uint32_t axis : input.batch_axes)
    rows *= program.mesh->axes[axis]->size;
  if (rows != program.global_batch)
    return error("plan: input '", input.name, "' covers ", rows, " rows of a global batch of ",
                 program.global_batch);
  return ok();
}

Status Bounds::checkStage(uint32_t index) {
  stageIndex = index;
  stage = program.stages[index].get();
  if (stage->arena_bytes > kMaxBytes)
    return error("an arena of ", stage->arena_bytes, " bytes");
  if (stage->slots == 0 || stage->slots > (1u << 20) || stage->streams == 0 ||
      stage->streams > 256 || stage->events > (1u << 20))
    return error("bad number of slots, streams or events");
  if (uint64_t(stage->slots) * stage->streams * stage->events > (uint64_t(1) << 28))
    return error("too many events");
  for (const auto &procedure : stage->procedures) {
    if (!inEnum(procedure->kind, ProcedureKind::MAX))
      return error("procedure '", procedure->name, "': unknown kind");
    for (size_t i = 0; i < procedure->instructions.size(); ++i)
      if (Status s = checkInstruction(*procedure->instructions[i]); !s)
        return error("procedure '", procedure->name, "', instruction ", i, ": ", s.message());
  }
  for (size_t i = 0; i < stage->table.size(); ++i) {
    const EntryT &entry = *stage->table[i];
    if (entry.procedure >= stage->procedures.size() || entry.slot >= stage->slots ||
        entry.micro_batch >= program.micro_batches)
      return error("table entry ", i, ": procedure, slot or micro-batch out of range");
  }
  std::set<std::pair<std::string, StateRole>> names;
  for (const auto &state : stage->states) {
    if (Status s = checkState(*state); !s)
      return error("state '", state->name, "': ", s.message());
    if (!names.insert({state->name, state->role}).second)
      return error("state '", state->name, "' appears twice as ", toString(state->role));
  }
  for (const auto &scalar : stage->host_scalars)
    if (Status s = checkBuffer("buffer", scalar->buffer.get(), 4, 4); !s)
      return error("scalar '", scalar->name, "': ", s.message());
  for (const auto &output : stage->outputs)
    if (Status s = checkBuffer("buffer", output->buffer.get(), 4, 4); !s)
      return error("output '", output->name, "': ", s.message());
  for (const auto &result : stage->results)
    if (Status s = checkResult(*result); !s)
      return error("result '", result->name, "': ", s.message());
  return ok();
}

Status Bounds::checkInstruction(const InstructionT &instruction) {
  if (instruction.stream >= stage->streams)
    return error("stream ", unsigned(instruction.stream), " of ", stage->streams);
  if (!inEnum(instruction.phase, Phase::MAX))
    return error("unknown phase");
  if (instruction.origin >= program.origins.size())
    return error("origin ", instruction.origin, " of ", program.origins.size());
  if (!inEnum(instruction.body.type, Body::MAX) || !instruction.body.value)
    return error("unknown or empty body");
  if (Status s = checkBody(instruction.body); !s)
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
  case Body::Send:
    return checkMessage(body.AsSend()->axis, body.AsSend()->delta, body.AsSend()->parts);
  case Body::Recv:
    return checkMessage(body.AsRecv()->axis, body.AsRecv()->delta, body.AsRecv()->parts);
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
    uint32_t event = body.type == Body::Record ? body.AsRecord()->event : body.AsWait()->event;
    if (event >= stage->events)
      return error("event ", event, " of ", stage->events);
    return ok();
  }
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
  return ok();
}

Status Bounds::checkMatmul(const MatmulT &matmul) {
  if (matmul.dtype != DType::F32 && matmul.dtype != DType::F64)
    return error("of dtype ", toString(matmul.dtype));
  if (matmul.fallback >= program.kernels.size())
    return error("fallback kernel ", matmul.fallback, " of ", program.kernels.size());
  // Of each of the three tensors; how much work the product is has no bound.
  if (!elements({matmul.batch, matmul.m, matmul.n}) || !elements({matmul.batch, matmul.m, matmul.k}) ||
      !elements({matmul.batch, matmul.k, matmul.n}))
    return error("bad sizes");
  if (Status s = checkMatrix("a", matmul.dtype, matmul.a.get(), matmul.a_strides,
                             {matmul.batch, matmul.m, matmul.k});
      !s)
    return s;
  if (Status s = checkMatrix("b", matmul.dtype, matmul.b.get(), matmul.b_strides,
                             {matmul.batch, matmul.k, matmul.n});
      !s)
    return s;
  if (Status s = checkMatrix("c", matmul.dtype, matmul.c.get(), matmul.c_strides,
                             {matmul.batch, matmul.m, matmul.n});
      !s)
    return s;
  for (int i = 0; i < 3; ++i)
    if (matmul.c_strides[i] == 0 && (i == 0 ? matmul.batch : i == 1 ? matmul.m : matmul.n) > 1)
      return error("writes elements of c more than once");
  return ok();
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
  if (reduces && c.dtype != DType::F32 && c.dtype != DType::F64 && c.dtype != DType::I64 &&
      c.dtype != DType::I32)
    return error("no reduction of dtype ", toString(c.dtype));
  std::set<uint32_t> seen;
  if (c.axes.empty() || !axesValid(c.axes, seen))
    return error("bad axes");
  uint64_t members = 1;
  for (uint32_t axis : c.axes)
    members *= program.mesh->axes[axis]->size;
  if (!c.members.empty()) {
    // Only stages differ in what they run, so only they can stay away.
    if (c.axes.size() != 1 || c.axes[0] != program.stage_axis)
      return error("members of an axis that does not pick stages");
    members = c.members.size();
    bool self = false;
    for (size_t i = 0; i < c.members.size(); ++i) {
      if (c.members[i] >= program.stages.size() || (i > 0 && c.members[i] <= c.members[i - 1]))
        return error("members out of order or out of the mesh");
      self |= c.members[i] == stageIndex;
    }
    if (!self)
      return error("this stage is not among the members");
  }
  if (c.count == 0 || c.count > kMaxElements / members)
    return error("of ", c.count, " elements");
  uint64_t shard = c.count * byteSize(c.dtype);
  bool gathers = c.kind == CollectiveKind::AllGather;
  bool scatters = c.kind == CollectiveKind::ReduceScatter;
  if (Status s = checkBuffer("source", c.src.get(), scatters ? shard * members : shard,
                             byteSize(c.dtype));
      !s)
    return s;
  if (Status s = checkBuffer("destination", c.dst.get(), gathers ? shard * members : shard,
                             byteSize(c.dtype));
      !s)
    return s;
  bool same = c.src->offset == c.dst->offset && c.src->slot_stride == c.dst->slot_stride;
  if (!(same && !gathers && !scatters) && overlap(*c.src, *c.dst))
    return error("source and destination overlap");
  return ok();
}

Status Bounds::checkMessage(uint32_t axis, int32_t delta,
                            const std::vector<std::unique_ptr<BufferRefT>> &parts) {
  // Along any other axis every coordinate runs this instruction, the last too.
  if (axis != program.stage_axis)
    return error("along axis ", axis, ", only along the stages (", program.stage_axis, ")");
  int64_t peer = int64_t(stageIndex) + delta;
  if (delta == 0 || peer < 0 || peer >= static_cast<int64_t>(program.stages.size()))
    return error("to stage ", peer, " of ", program.stages.size());
  if (parts.empty())
    return error("no parts");
  for (const auto &part : parts)
    if (Status s = checkBuffer("part", part.get()); !s)
      return s;
  return ok();
}

Status Bounds::checkState(const StateShardT &state) {
  if (!inEnum(state.role, StateRole::MAX) || !inEnum(state.dtype, DType::MAX))
    return error("unknown role or dtype");
  size_t dims = state.global_shape.size();
  std::optional<uint64_t> count = elements(state.local_shape);
  if (!count || !elements(state.global_shape) || state.local_shape.size() != dims ||
      state.dims.size() != dims)
    return error("bad shapes");
  if (Status s = checkCut(state.global_shape, state.local_shape, state.dims); !s)
    return s;
  if (Status s = checkBuffer("buffer", state.buffer.get(), *count * byteSize(state.dtype),
                             byteSize(state.dtype));
      !s)
    return s;
  if (state.view)
    return checkView(state);
  if (state.role == StateRole::Parameter || state.role == StateRole::Master)
    return error("a ", toString(state.role), " without a source");
  return ok();
}

// The parts of all coordinates cover each dim; dims past the last of `dims` are whole.
Status Bounds::checkCut(const std::vector<int64_t> &global, const std::vector<int64_t> &local,
                        const std::vector<std::unique_ptr<DimShardingT>> &dims) {
  std::set<uint32_t> seen;
  for (size_t d = 0; d < global.size(); ++d) {
    uint64_t parts = 1;
    if (d < dims.size()) {
      if (!axesValid(dims[d]->axes, seen) || seen.count(program.stage_axis))
        return error("dim ", d, " is cut over bad axes");
      for (uint32_t axis : dims[d]->axes)
        parts *= program.mesh->axes[axis]->size;
    }
    uint64_t part = static_cast<uint64_t>(local[d]);
    if (parts > kMaxElements / std::max<uint64_t>(part, 1) ||
        parts * part < static_cast<uint64_t>(global[d]))
      return error("dim ", d, ": ", parts, " parts of ", part, " do not cover ", global[d]);
  }
  return ok();
}

Status Bounds::checkResult(const OutputBindingT &result) {
  if (program.mode != Mode::Infer)
    return error("of a program that trains");
  if (!results.insert(result.name).second)
    return error("appears twice");
  if (!inEnum(result.dtype, DType::MAX))
    return error("unknown dtype");
  std::optional<uint64_t> count = elements(result.local_shape, 0);
  if (!count || !elements(result.global_shape, 0) ||
      result.local_shape.size() != result.global_shape.size() ||
      result.dims.size() > result.local_shape.size())
    return error("bad shapes");
  if (Status s = checkCut(result.global_shape, result.local_shape, result.dims); !s)
    return s;
  return checkBuffer("buffer", result.buffer.get(), *count * byteSize(result.dtype),
                     byteSize(result.dtype));
}

Status Bounds::checkView(const StateShardT &state) {
  const ViewT &view = *state.view;
  if (view.source >= program.sources.size() ||
      view.strides.size() != state.global_shape.size())
    return error("bad view");
  int64_t size = static_cast<int64_t>(*elements(program.sources[view.source]->shape));
  if (view.offset < 0 || view.offset >= size)
    return error("its view starts outside of the source");
  int64_t low = view.offset, high = view.offset;
  for (size_t d = 0; d < view.strides.size(); ++d) {
    int64_t steps = state.global_shape[d] - 1, stride = view.strides[d];
    if (steps > 0 && (stride > size / steps || stride < -(size / steps)))
      return error("its view leaves the source");
    (stride > 0 ? high : low) += steps * stride;
  }
  if (low < 0 || high >= size)
    return error("its view leaves the source");
  return ok();
}

Status Bounds::checkBuffer(const char *name, const BufferRefT *ref, uint64_t least,
                           uint64_t align) {
  if (!ref)
    return error(name, " is missing");
  if (ref->offset > kMaxBytes || ref->slot_stride > kMaxBytes || ref->size > kMaxBytes)
    return error(name, " is out of range");
  uint64_t last = stage->slots - 1;
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
  for (uint64_t slot = 0; slot < stage->slots; ++slot) {
    uint64_t first = a.offset + slot * a.slot_stride, second = b.offset + slot * b.slot_stride;
    if (first < second + b.size && second < first + a.size)
      return true;
  }
  return false;
}

bool Bounds::axesValid(const std::vector<uint32_t> &axes, std::set<uint32_t> &seen) const {
  for (uint32_t axis : axes)
    if (axis >= program.mesh->axes.size() || !seen.insert(axis).second)
      return false;
  return true;
}

} // namespace

Status planfile::checkBounds(const ProgramT &program) { return Bounds(program).run(); }
