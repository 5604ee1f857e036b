// Implements checkBounds(): after it nothing that the executor follows can leave the plan's own
// tables, the mesh or the arena. Whether the plan computes the right thing in the right order is
// for the checkers (Check*.cpp).
#include "lib/planfile/Bounds.h"

#include "lib/planfile/Elements.h"
#include "lib/planfile/Inputs.h"
#include "lib/support/Checkpoint.h"

#include <tuple>

using namespace llmc;
using namespace llmc::planfile;
using support::error;
using support::ok;
using support::Status;
using support::text;

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
  std::set<std::string> names;
  for (const auto &product : program.mesh->names) {
    std::set<uint32_t> seen;
    if (!names.insert(product->name).second || !axesValid(product->axes, seen) ||
        !std::is_sorted(product->axes.begin(), product->axes.end()))
      return error("plan: the product of axes '", product->name, "' is malformed");
  }
  if (program.stage_axis >= program.mesh->axes.size())
    return error("plan: stage axis ", program.stage_axis, " of ", program.mesh->axes.size());
  if (program.stages.size() != program.mesh->axes[program.stage_axis]->size)
    return error("plan: ", program.stages.size(), " stages on an axis of size ",
                 program.mesh->axes[program.stage_axis]->size);
  return ok();
}

bool Bounds::liesIn(int64_t file, uint64_t offset, uint64_t bytes) const {
  if (file < 0 || file >= static_cast<int64_t>(program.files.size()))
    return false;
  uint64_t size = program.files[static_cast<size_t>(file)]->byte_size;
  return bytes <= size && offset <= size - bytes;
}

// Returns what is wrong with how a source tensor is quantized; "" if nothing is.
std::string Bounds::codingFault(const SourceTensorT &source) const {
  if (!inEnum(source.coding, Coding::MAX))
    return "unknown coding";
  const ScalesT *scales = source.scales.get();
  if (source.coding == Coding::Plain)
    return scales ? "scales of numbers that are not quantised" : "";
  if (source.dtype != DType::U8 || source.file < 0)
    return "quantised numbers that are no bytes of a file";
  if (!scales)
    return "";
  if (scales->dtype != DType::F32 && scales->dtype != DType::F16 && scales->dtype != DType::BF16 &&
      scales->dtype != DType::U8)
    return "its scales have a bad dtype";
  if (scales->block.size() != 2 || scales->block[0] < 1 || scales->block[1] < 1)
    return "its scales have no block of two sizes";
  auto count = support::scaleCount(storedShape(source), scales->block[0], scales->block[1]);
  if (!count || scales->byte_size != support::byteSize(elementType(*scales), *count) ||
      !liesIn(scales->file, scales->file_offset, scales->byte_size))
    return "its scales do not lie in their file";
  return "";
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
    if ((!source->transposed_aliases.empty() || source->transposed) && source->shape.size() != 2)
      return fail("only a matrix has transposed aliases, or lies transposed");
    if (std::string fault = codingFault(*source); !fault.empty())
      return fail(fault);
    if (source->file < -1 || source->file >= static_cast<int64_t>(program.files.size()))
      return fail(text("file ", source->file, " of ", program.files.size()));
    if (source->file == -1)
      continue;
    if (source->byte_size != support::byteSize(elementType(*source), *count) ||
        !liesIn(source->file, source->file_offset, source->byte_size))
      return fail("its bytes do not lie in its file");
  }
  return ok();
}

// Checks a description for people; the code that prints it follows its axes.
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

// Checks that no axis cuts two dims, that the whole input is of a sane size, and that a dim which
// the loader permutes consists of equal blocks.
Status Bounds::checkInputCuts(const InputBindingT &input) {
  auto fail = [&](const char *why) { return error("plan: input '", input.name, "' ", why); };
  std::set<uint32_t> seen;
  bool valid = axesValid(input.batch_axes, seen);
  for (const auto &dim : input.dims)
    valid &= axesValid(dim->axes, seen);
  if (!inEnum(input.dtype, DType::MAX) || !inEnum(input.default_value, InputDefault::MAX) ||
      !valid || seen.count(program.stage_axis) || input.limit < 0)
    return fail("is malformed");
  size_t dims = input.local_shape.size();
  if (!input.dims.empty() && input.dims.size() >= dims)
    return fail("is cut along more dims than it has");
  if (dims == 0 && !input.batch_axes.empty())
    return fail("is cut, but has no dims");
  uint64_t count = 1;
  for (int64_t dim : input.local_shape)
    count *= static_cast<uint64_t>(std::max<int64_t>(dim, 1));
  for (uint32_t axis : seen) {
    count *= program.mesh->axes[axis]->size;
    if (count > kMaxElements)
      return fail("has a bad shape");
  }
  if (input.permuted_dim == 0)
    return input.block_order.empty() ? ok() : fail("has blocks, but no dim that is permuted");
  if (input.permuted_dim >= dims || input.block_order.empty())
    return fail("is permuted along a dim that it does not have, or without blocks");
  auto size = static_cast<uint64_t>(wholeShape(*program.mesh, input)[input.permuted_dim]);
  for (uint32_t block : input.block_order)
    if (size % input.block_order.size() != 0 || block >= input.block_order.size())
      return fail("is permuted in blocks that do not fit");
  return ok();
}

// Checks an input of an Infer program, of which one run takes all.
Status Bounds::checkInputOfRun(const InputBindingT &input) {
  if (!elements(input.local_shape, 0) || !elements(input.global_shape, 0))
    return error("plan: input '", input.name, "' has a bad shape");
  if (Status s = checkInputCuts(input); !s)
    return s;
  if (wholeShape(*program.mesh, input) != input.global_shape)
    return error("plan: input '", input.name, "' is not the sum of its parts");
  return ok();
}

Status Bounds::checkInput(const InputBindingT &input) {
  if (program.mode == Mode::Infer)
    return checkInputOfRun(input);
  std::optional<uint64_t> count = elements(input.local_shape);
  if (!count || input.local_shape.empty())
    return error("plan: input '", input.name, "' is malformed");
  if (Status s = checkInputCuts(input); !s)
    return s;
  bool isOfRows = input.default_value == InputDefault::RowIds || input.default_value == InputDefault::DropoutKeys;
  if (isOfRows && *count != static_cast<uint64_t>(input.local_shape[0]))
    return error("plan: input '", input.name, "' holds ",
                 input.default_value == InputDefault::RowIds ? "numbers" : "keys", " of rows, and ",
                 *count / static_cast<uint64_t>(input.local_shape[0]), " elements a row");
  // Stops at the first product above the global batch: it and each factor are below 2^32, so that
  // no product wraps.
  auto rows = static_cast<uint64_t>(input.local_shape[0]);
  auto times = [&](uint64_t factor) { rows *= rows > program.global_batch ? 1 : factor; };
  times(program.micro_batches);
  for (uint32_t axis : input.batch_axes)
    times(program.mesh->axes[axis]->size);
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
  if (stage->streams == 0 || stage->streams > 256 || stage->events > (1u << 20))
    return error("bad number of streams or events");
  if (Status s = checkChunks(); !s)
    return s;
  if (Status s = checkTable(); !s)
    return s;
  for (uint32_t p = 0; p < stage->procedures.size(); ++p) {
    enterProcedure(p);
    if (Status s = checkProcedure(*stage->procedures[p]); !s)
      return error("procedure '", stage->procedures[p]->name, "'", s.message());
  }
  entries.clear();
  lastSlots = {0}; // what follows is there once
  for (size_t i = 0; i < stage->flat_groups.size(); ++i)
    if (Status s = checkFlatGroup(*stage->flat_groups[i]); !s)
      return error("flat group ", i, ": ", s.message());
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

Status Bounds::checkChunks() {
  constexpr uint32_t most = 1u << 20;
  if (stage->chunks.empty() || stage->chunks.size() > most || stage->pools.empty() ||
      stage->pools.size() > most)
    return error("bad number of chunks or pools");
  for (const auto &chunk : stage->chunks)
    if (chunk->first_layer < 0 || chunk->last_layer < -1 || chunk->last_layer >= (1 << 30))
      return error("a chunk of layers ", chunk->first_layer, " to ", chunk->last_layer);
  uint64_t slots = 0;
  for (const auto &pool : stage->pools) {
    if (pool->chunk >= stage->chunks.size())
      return error("a pool of chunk ", pool->chunk, " of ", stage->chunks.size());
    if (pool->slots == 0 || (slots += pool->slots) > most)
      return error("bad number of slots");
  }
  if ((slots + 1) * stage->streams * stage->events > (uint64_t(1) << 28))
    return error("too many events");
  return ok();
}

Status Bounds::checkTable() {
  for (size_t i = 0; i < stage->table.size(); ++i) {
    const EntryT &entry = *stage->table[i];
    if (entry.procedure >= stage->procedures.size() || entry.more.size() > 255)
      return error("table entry ", i, ": procedure out of range, or more than 256 lanes");
    for (uint32_t lane = 0; lane <= entry.more.size(); ++lane) {
      SlotRef at = slotOf(entry, lane);
      if (at.pool() >= stage->pools.size() || at.slot() >= stage->pools[at.pool()]->slots ||
          at.micro_batch() >= program.micro_batches)
        return error("table entry ", i, ": pool, slot or micro-batch out of range");
    }
  }
  return ok();
}

// Selects the entries that run a procedure and the largest slot of each of their common lanes. A
// procedure that no entry runs is checked in slot 0 of every lane.
void Bounds::enterProcedure(uint32_t index) {
  entries.clear();
  lastSlots.assign(256, 0);
  for (const auto &entry : stage->table) {
    if (entry->procedure != index)
      continue;
    entries.push_back(entry.get());
    lastSlots.resize(std::min(lastSlots.size(), entry->more.size() + 1));
    for (uint32_t lane = 0; lane < lastSlots.size(); ++lane)
      lastSlots[lane] = std::max(lastSlots[lane], slotOf(*entry, lane).slot());
  }
}

Status Bounds::checkProcedure(const ProcedureT &procedure) {
  if (!inEnum(procedure.kind, ProcedureKind::MAX))
    return error(": unknown kind");
  if (procedure.chunk >= stage->chunks.size())
    return error(": chunk ", procedure.chunk, " of ", stage->chunks.size());
  const InstructionT *before = nullptr;
  size_t members = 0; // of the current message group
  for (size_t i = 0; i < procedure.instructions.size(); ++i) {
    const InstructionT &instruction = *procedure.instructions[i];
    if (Status s = checkInstruction(instruction); !s)
      return error(", instruction ", i, ": ", s.message());
    std::optional<Message> message = messageOf(instruction);
    if (message && message->grouped &&
        (!before || before->stream != instruction.stream || !messageOf(*before)))
      return error(", instruction ", i, ": ", toString(instruction.body.type),
                   ": grouped, but not right behind a message of its stream");
    members = message && message->grouped ? members + 1 : 1;
    if (members > kMaxGroupedMessages)
      return error(", instruction ", i, ": a group of more than ", kMaxGroupedMessages,
                   " messages");
    before = &instruction;
  }
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
  if (Status s = checkHolders(state); !s)
    return s;
  if (Status s = state.flat ? checkFlatPart(state, *count)
                            : checkBuffer("buffer", state.buffer.get(),
                                          *count * byteSize(state.dtype), byteSize(state.dtype));
      !s)
    return s;
  if (state.view)
    return checkView(state);
  if (state.role == StateRole::Parameter)
    return error("a ", toString(state.role), " without a source");
  if (state.role == StateRole::Master && !viewOf(*stage, state))
    return error("a ", toString(state.role),
                 " without a source, and no parameter of the stage has its name and shape");
  return ok();
}

// Checks that each axis cuts a state once: a dim of it, its flat buffer, or the ranks that hold
// it.
Status Bounds::checkHolders(const StateShardT &state) {
  std::set<uint32_t> seen;
  for (const auto &dim : state.dims)
    seen.insert(dim->axes.begin(), dim->axes.end());
  uint64_t places = 1;
  if (!axesValid(state.only_axes, seen))
    return error("held by a part of bad axes");
  for (uint32_t axis : state.only_axes)
    places *= program.mesh->axes[axis]->size;
  if (state.only_at >= places)
    return error("held by place ", state.only_at, " of ", places);
  if (state.flat && (state.flat->group >= stage->flat_groups.size() ||
                     !axesValid(stage->flat_groups[state.flat->group]->axes, seen)))
    return error("in flat group ", state.flat->group, " of ", stage->flat_groups.size(),
                 ", or cut twice over an axis");
  if (seen.count(program.stage_axis))
    return error("cut over the stages");
  return ok();
}

Status Bounds::checkFlatGroup(const FlatGroupT &group) {
  std::set<uint32_t> seen;
  if (!inEnum(group.dtype, DType::MAX) || !axesValid(group.axes, seen) ||
      seen.count(program.stage_axis))
    return error("unknown dtype or bad axes");
  uint64_t parts = 1;
  for (uint32_t axis : group.axes)
    parts *= program.mesh->axes[axis]->size;
  if (group.length == 0 || group.length > kMaxElements / parts)
    return error("of ", group.length, " elements a rank");
  uint64_t bytes = group.length * byteSize(group.dtype);
  if (Status s = checkBuffer("buffer", group.buffer.get(), bytes, byteSize(group.dtype)); !s)
    return s;
  if (group.buffer->size != bytes)
    return error("has ", group.buffer->size, " bytes for ", group.length, " elements");
  return ok();
}

// Checks a state in a flat buffer; checkHolders() has checked that the group is there.
Status Bounds::checkFlatPart(const StateShardT &state, uint64_t count) {
  const FlatGroupT &group = *stage->flat_groups[state.flat->group];
  uint64_t whole = group.length;
  for (uint32_t axis : group.axes)
    whole *= program.mesh->axes[axis]->size;
  auto placeOf = [](const BufferRefT &b) {
    return std::tuple(b.offset, b.slot_stride, b.size, b.lane);
  };
  if (state.dtype != group.dtype || !state.buffer ||
      placeOf(*state.buffer) != placeOf(*group.buffer))
    return error("its dtype or buffer is not that of flat group ", state.flat->group);
  if (count > whole || state.flat->begin > whole - count)
    return error("elements ", state.flat->begin, " to ", state.flat->begin + count,
                 " of a flat buffer of ", whole);
  return ok();
}

// Checks that the parts of all coordinates cover each dim; dims past the last of `dims` are
// whole.
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

Status planfile::checkBounds(const ProgramT &program) { return Bounds(program).run(); }
