// Makes the change that a mutant describes.
#include "lib/verify/mutation/Mutants.h"

#include "lib/support/ElementType.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <set>

namespace llmc::verify {

using namespace planfile;

namespace {

// Returns the index, among the kernels appended to a mutable plan, of the one that doubles a
// type.
uint32_t doublerOf(DType type) {
  switch (type) {
  case DType::F64:
    return 1;
  case DType::I64:
    return 2;
  case DType::I32:
    return 3;
  case DType::BF16:
    return 4;
  case DType::F16:
    return 5;
  default:
    return 0;
  }
}
constexpr DType kDoubled[] = {DType::F32, DType::F64,  DType::I64,
                              DType::I32, DType::BF16, DType::F16};

template <class T>
void doubleRows(void *const *buffers, const int64_t *, int64_t begin, int64_t end) {
  T *data = static_cast<T *>(buffers[0]);
  for (int64_t i = begin; i < end; ++i)
    data[i] += data[i];
}

template <float (*Wide)(uint16_t), uint16_t (*Narrow)(float)>
void doubleNarrow(void *const *buffers, const int64_t *, int64_t begin, int64_t end) {
  auto *data = static_cast<uint16_t *>(buffers[0]);
  for (int64_t i = begin; i < end; ++i)
    data[i] = Narrow(2 * Wide(data[i]));
}

std::unique_ptr<InstructionT> makeInstruction(const InstructionT &like, BodyUnion body) {
  auto made = std::make_unique<InstructionT>();
  made->stream = like.stream;
  made->phase = like.phase;
  made->origin = like.origin;
  made->body = std::move(body);
  return made;
}

std::unique_ptr<InstructionT> makeCopy(const InstructionT &like, const BufferRefT &src,
                                       const BufferRefT &dst) {
  CopyT copy;
  copy.src = std::make_unique<BufferRefT>(src);
  copy.dst = std::make_unique<BufferRefT>(dst);
  BodyUnion body;
  body.Set(std::move(copy));
  return makeInstruction(like, std::move(body));
}

// Returns the copies that replace a collective which no longer communicates.
std::vector<std::unique_ptr<InstructionT>> localPart(const InstructionT &inst) {
  const CollectiveT &collective = *inst.body.AsCollective();
  BufferRefT src = *collective.src, dst = *collective.dst;
  std::vector<std::unique_ptr<InstructionT>> made;
  if (collective.kind == CollectiveKind::ReduceScatter)
    src.size = dst.size; // the first shard
  if (collective.kind == CollectiveKind::ExchangeRows)
    src.size = dst.size = std::min(src.size, dst.size); // as many rows as both have
  uint64_t end = dst.offset + dst.size;
  for (dst.size = src.size; dst.offset + src.size <= end; dst.offset += src.size)
    made.push_back(makeCopy(inst, src, dst));
  return made;
}

std::unique_ptr<InstructionT> makeDoubler(const ProgramT &program, InstructionT &inst) {
  const CollectiveT *collective = inst.body.AsCollective();
  DType type = collective ? collective->dtype : DType::F32;
  const BufferRefT *result = nullptr;
  if (collective)
    result = collective->dst.get();
  else if (const MatmulT *matmul = inst.body.AsMatmul())
    result = matmul->c.get(), type = matmul->c_type;
  else
    for (const auto &operand : inst.body.AsLaunch()->operands)
      if (static_cast<unsigned>(operand->access) & 2)
        result = operand->buffer.get();
  LaunchT launch;
  launch.kernel = static_cast<uint32_t>(program.kernels.size() - std::size(kDoubled)) +
                  doublerOf(type);
  launch.rows = static_cast<int64_t>(result->size / byteSize(type));
  auto operand = std::make_unique<OperandT>();
  operand->access = Access::ReadWrite;
  operand->buffer = std::make_unique<BufferRefT>(*result);
  launch.operands.push_back(std::move(operand));
  BodyUnion body;
  body.Set(std::move(launch));
  return makeInstruction(inst, std::move(body));
}

using Instructions = std::vector<std::unique_ptr<InstructionT>>;

// Replaces instruction `at` by others.
void replace(Instructions &list, int64_t at, Instructions by) {
  list.erase(list.begin() + at);
  list.insert(list.begin() + at, std::make_move_iterator(by.begin()),
              std::make_move_iterator(by.end()));
}

void changeCollective(const Mutant &mutant, size_t site, CollectiveT &collective) {
  if (mutant.fault == Fault::Group) {
    collective.axes = mutant.axes;
    collective.members = mutant.members[site];
  } else if (mutant.value == 1) {
    collective.kind = CollectiveKind::Broadcast;
  } else {
    collective.reduce =
        collective.reduce == ReduceKind::Sum ? ReduceKind::Max : ReduceKind::Sum;
  }
}

void changePeer(const Mutant &mutant, InstructionT &inst) {
  auto change = [&](auto &message) {
    if (mutant.value == 0)
      message.delta = -message.delta;
    else
      ++message.channel;
  };
  if (SendT *send = inst.body.AsSend())
    change(*send);
  else
    change(*inst.body.AsRecv());
}

void setLane(EntryT &entry, uint32_t lane, SlotRef to) {
  if (lane > 0) {
    entry.more[lane - 1] = to;
    return;
  }
  entry.pool = to.pool();
  entry.slot = to.slot();
}

void setGrouped(InstructionT &inst, bool grouped) {
  if (SendT *send = inst.body.AsSend())
    send->grouped = grouped;
  if (RecvT *recv = inst.body.AsRecv())
    recv->grouped = grouped;
}

// Moves a receive behind another instruction, out of its group. If it began the group, its
// successor does now.
void postLate(Instructions &list, int64_t at, int64_t behind) {
  if (!isGrouped(*list[at]))
    setGrouped(*list[at + 1], false);
  setGrouped(*list[at], false);
  std::rotate(list.begin() + at, list.begin() + at + 1, list.begin() + behind + 1);
}

// Removes an instruction. If it is a message that began a group, its successor begins it now.
void remove(Instructions &list, int64_t at) {
  if (messageOf(*list[at]) && !isGrouped(*list[at]) &&
      at + 1 < static_cast<int64_t>(list.size()))
    setGrouped(*list[at + 1], false);
  list.erase(list.begin() + at);
}

// Exchanges two instructions; messages take over the group of their new position.
void invert(Instructions &list, int64_t first, int64_t second) {
  bool grouped[2] = {isGrouped(*list[first]), isGrouped(*list[second])};
  std::swap(list[first], list[second]);
  setGrouped(*list[first], grouped[0]);
  setGrouped(*list[second], grouped[1]);
}

// Moves what one lane of a row, or a whole pool, holds to where another pool is.
void sharePool(const Mutant &mutant, ProgramT &program) {
  const PlanSite &site = mutant.sites.front();
  StageT &stage = *program.stages[site.stage];
  if (site.entry >= 0) {
    EntryT &entry = *stage.table[site.entry];
    SlotRef at = slotOf(entry, mutant.other);
    setLane(entry, mutant.other,
            SlotRef(mutant.value, at.micro_batch(), at.slot() % stage.pools[mutant.value]->slots));
    return;
  }
  std::set<BufferRefT *> buffers[2]; // of the old and of the new pool
  for (const auto &entry : stage.table)
    for (auto &inst : stage.procedures[entry->procedure]->instructions)
      for (BufferRefT *buffer : buffersOf(*inst))
        for (int i : {0, 1})
          if (buffer->slot_stride != 0 &&
              slotOf(*entry, buffer->lane).pool() == (i ? mutant.value : mutant.other))
            buffers[i].insert(buffer);
  uint64_t first[2] = {~uint64_t(0), ~uint64_t(0)};
  for (int i : {0, 1})
    for (const BufferRefT *buffer : buffers[i])
      first[i] = std::min(first[i], buffer->offset);
  for (BufferRefT *buffer : buffers[0])
    if (!buffers[1].empty())
      buffer->offset += first[1] - first[0];
}

void exchange(const Mutant &mutant, const PlanSite &site, ProgramT &program) {
  if (site.instruction < 0) {
    EntryT &entry = *program.stages[site.stage]->table[site.entry];
    SlotRef at = slotOf(entry, mutant.other);
    setLane(entry, mutant.other, SlotRef(at.pool(), at.micro_batch(), mutant.value));
    return;
  }
  std::vector<BufferRefT *> buffers = buffersOf(instructionAt(program, site));
  std::swap(*buffers[mutant.value], *buffers[mutant.other]);
}

// Changes a begin or a length by one element.
void changeFlat(const Mutant &mutant, StageT &stage) {
  uint64_t step = mutant.value ? ~uint64_t(0) : 1;
  if (mutant.other < stage.states.size()) {
    stage.states[mutant.other]->flat->begin += step;
    return;
  }
  auto group = static_cast<uint32_t>(mutant.other - stage.states.size());
  stage.flat_groups[group]->length += step;
}

// Removes the slot stride of every buffer of the stage on these bytes, so that all slots share
// slot 0.
void overlap(const Mutant &mutant, ProgramT &program) {
  const PlanSite &site = mutant.sites.front();
  BufferRefT lost = *buffersOf(instructionAt(program, site))[mutant.other];
  for (auto &procedure : program.stages[site.stage]->procedures)
    for (auto &inst : procedure->instructions)
      for (BufferRefT *buffer : buffersOf(*inst))
        if (buffer->slot_stride != 0 && buffer->offset < lost.offset + lost.size &&
            lost.offset < buffer->offset + buffer->size)
          buffer->slot_stride = 0;
}

} // namespace

MutablePlan makeMutable(const ProgramT &program, const runtime::Kernels &kernels) {
  ProgramT copy(program);
  std::vector<runtime::KernelFunction> functions;
  for (uint32_t i = 0; i < kernels.size(); ++i)
    functions.push_back(kernels[i]);
  for (runtime::KernelFunction doubler :
       {doubleRows<float>, doubleRows<double>, doubleRows<int64_t>, doubleRows<int32_t>,
        doubleNarrow<support::bfloatToFloat, support::floatToBfloat>,
        doubleNarrow<support::halfToFloat, support::floatToHalf>})
    functions.push_back(doubler);
  for (DType type : kDoubled) {
    auto kernel = std::make_unique<KernelT>();
    kernel->name = "double_" + std::string(toString(type));
    copy.kernels.push_back(std::move(kernel));
  }
  return {std::move(copy), runtime::Kernels(std::move(functions))};
}

std::vector<BufferRefT *> buffersOf(InstructionT &inst) {
  std::vector<BufferRefT *> buffers;
  auto add = [&](std::initializer_list<BufferRefT *> list) {
    buffers.insert(buffers.end(), list);
  };
  BodyUnion &body = inst.body;
  if (LaunchT *launch = body.AsLaunch())
    for (auto &operand : launch->operands)
      add({operand->buffer.get()});
  else if (MatmulT *matmul = body.AsMatmul())
    add({matmul->a.get(), matmul->b.get(), matmul->c.get()});
  else if (CollectiveT *collective = body.AsCollective())
    add({collective->src.get(), collective->dst.get()});
  else if (CopyT *copy = body.AsCopy())
    add({copy->src.get(), copy->dst.get()});
  else if (FillT *fill = body.AsFill())
    add({fill->dst.get()});
  else if (FeedT *feed = body.AsFeed())
    add({feed->dst.get()});
  else if (SendT *send = body.AsSend())
    for (auto &part : send->parts)
      add({part.get()});
  else if (RecvT *recv = body.AsRecv())
    for (auto &part : recv->parts)
      add({part.get()});
  if (MatmulT *matmul = body.AsMatmul(); matmul && matmul->routing)
    add({matmul->routing->routes.get()});
  if (CollectiveT *collective = body.AsCollective(); collective && collective->rows)
    add({collective->rows->sent.get(), collective->rows->received.get()});
  return buffers;
}

bool isGrouped(const InstructionT &inst) {
  std::optional<Message> message = messageOf(inst);
  return message && message->grouped;
}

InstructionT &instructionAt(ProgramT &program, const PlanSite &site) {
  return *program.stages[site.stage]->procedures[site.procedure]->instructions[site.instruction];
}
const InstructionT &instructionAt(const ProgramT &program, const PlanSite &site) {
  return instructionAt(const_cast<ProgramT &>(program), site);
}

void apply(const Mutant &mutant, ProgramT &program) {
  if (mutant.fault == Fault::Overlap)
    return overlap(mutant, program);
  if (mutant.fault == Fault::Pool)
    return sharePool(mutant, program);
  if (mutant.fault == Fault::Flat)
    return changeFlat(mutant, *program.stages[mutant.sites.front().stage]);
  // Apply from the back, since some changes move what follows.
  std::vector<size_t> order(mutant.sites.size());
  for (size_t i = 0; i < order.size(); ++i)
    order[i] = i;
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return mutant.sites[a].instruction > mutant.sites[b].instruction;
  });
  for (size_t i : order) {
    const PlanSite &site = mutant.sites[i];
    Instructions &list = program.stages[site.stage]->procedures[site.procedure]->instructions;
    switch (mutant.fault) {
    case Fault::Drop:
      replace(list, site.instruction, localPart(*list[site.instruction]));
      break;
    case Fault::Group:
    case Fault::Kind:
      changeCollective(mutant, i, *list[site.instruction]->body.AsCollective());
      break;
    case Fault::Wait:
    case Fault::Launch:
    case Fault::Product:
    case Fault::Fill:
    case Fault::Move:
      remove(list, site.instruction);
      break;
    case Fault::Scale:
      list.insert(list.begin() + site.instruction + 1,
                  makeDoubler(program, *list[site.instruction]));
      break;
    case Fault::Peer:
      changePeer(mutant, *list[site.instruction]);
      break;
    case Fault::Exchange:
    case Fault::Scratch:
    case Fault::Operands:
      exchange(mutant, site, program);
      break;
    case Fault::Overlap:
    case Fault::Flat:
      break;
    case Fault::Invert:
      invert(list, site.instruction, mutant.neighbours[i]);
      break;
    case Fault::Torn:
      setGrouped(*list[site.instruction], false);
      break;
    case Fault::Late:
      postLate(list, site.instruction, mutant.neighbours[i]);
      break;
    case Fault::Pool:
      break;
    }
  }
}

} // namespace llmc::verify
