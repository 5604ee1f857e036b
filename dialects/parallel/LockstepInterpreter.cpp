#include "dialects/parallel/LockstepInterpreter.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

using namespace mlir;
using namespace llmc;
using namespace llmc::parallel;
using graph::RepeatOp;

//===-- Ranks -------------------------------------------------------------------===//

LockstepInterpreter::LockstepInterpreter(MeshAttr mesh, graph::Rounding rounding, Observer observe)
    : mesh(mesh), rounding(rounding), observe(std::move(observe)), values(mesh.getNumRanks()) {}

int64_t LockstepInterpreter::coordinate(int64_t rank, StringRef axis) const {
  int index = mesh.getIndex(axis);
  if (index < 0)
    return 0;
  for (size_t i = mesh.getSizes().size(); i-- > static_cast<size_t>(index) + 1;)
    rank /= mesh.getSizes()[i];
  return rank % mesh.getSizes()[index];
}

int64_t LockstepInterpreter::coordinate(int64_t rank, ArrayRef<StringAttr> axes) const {
  int64_t index = 0;
  for (StringAttr axis : axes)
    index = index * mesh.getSize(axis.getValue()) + coordinate(rank, axis.getValue());
  return index;
}

int64_t LockstepInterpreter::stageOf(int64_t rank) const {
  StringAttr axis = mesh.getStageAxis();
  return axis ? coordinate(rank, axis.getValue()) : 0;
}

SmallVector<int64_t> LockstepInterpreter::ranksOfStage(int64_t stage) const {
  SmallVector<int64_t> ranks;
  for (int64_t rank = 0; rank < numRanks(); ++rank)
    if (stageOf(rank) == stage)
      ranks.push_back(rank);
  return ranks;
}

int64_t LockstepInterpreter::neighbour(int64_t rank, int64_t stage) const {
  StringAttr axis = mesh.getStageAxis();
  if (!axis)
    return rank;
  int64_t stride = 1;
  for (size_t i = mesh.getIndex(axis.getValue()) + 1; i < mesh.getSizes().size(); ++i)
    stride *= mesh.getSizes()[i];
  return rank + (stage - stageOf(rank)) * stride;
}

SmallVector<int64_t> LockstepInterpreter::startsOf(int64_t rank, ShardingAttr sharding,
                                       ArrayRef<int64_t> localShape) const {
  SmallVector<int64_t> starts;
  for (auto [size, axes] : llvm::zip(localShape, getAxes(sharding)))
    starts.push_back(size * coordinate(rank, axes));
  return starts;
}

Tensor LockstepInterpreter::partOf(const Tensor &whole, int64_t rank, ShardingAttr sharding) const {
  Tensor part = whole;
  for (auto [d, axes] : llvm::enumerate(getAxes(sharding)))
    if (!axes.empty())
      part = slicePart(part, d, getGroupSize(mesh, axes), coordinate(rank, axes));
  return part;
}

//===-- Ops ---------------------------------------------------------------------===//

static Axes axesOf(Operation *op) {
  return Axes(op->getAttrOfType<ArrayAttr>("axes").getAsRange<StringAttr>());
}
// Returns whether all stages take part in a collective, so that none of them can run it alone.
static bool crossesStages(Operation *op, MeshAttr mesh) {
  return isa<CollectiveOpInterface>(op) && llvm::is_contained(axesOf(op), mesh.getStageAxis());
}

void LockstepInterpreter::set(int64_t rank, Value value, Tensor tensor) {
  if (rounding == graph::Rounding::ToTypes)
    graph::roundTo(value.getType(), tensor);
  values[rank][value] = std::make_shared<Tensor>(std::move(tensor));
}

void LockstepInterpreter::findLastUses(Block *block) {
  auto note = [&](Value value) {
    Operation *last = value.getDefiningOp();
    for (Operation *user : value.getUsers()) {
      Operation *reader = block->findAncestorOpInBlock(*user);
      if (!last || last->isBeforeInBlock(reader))
        last = reader;
    }
    if (last && !last->hasTrait<OpTrait::IsTerminator>())
      lastUses[last].push_back(value);
  };
  llvm::for_each(block->getArguments(), note);
  for (Operation &op : *block)
    llvm::for_each(op.getResults(), note);
}

void LockstepInterpreter::release(Operation *op, ArrayRef<int64_t> ranks) {
  if (walked.insert(op->getBlock()).second)
    findLastUses(op->getBlock());
  auto found = lastUses.find(op);
  if (found == lastUses.end())
    return;
  for (int64_t rank : ranks)
    for (Value value : found->second)
      values[rank].erase(value);
}

LogicalResult LockstepInterpreter::execute(Operation *op, ArrayRef<int64_t> ranks) {
  if (auto repeat = dyn_cast<RepeatOp>(op))
    return executeRepeat(repeat, ranks);
  if (isa<CollectiveOpInterface>(op))
    return executeGroups(ranks, [&](int64_t) { return op; });
  if (auto offset = dyn_cast<AxisOffsetOp>(op)) {
    for (int64_t rank : ranks) {
      Tensor value(std::vector<int64_t>{});
      value.data[0] = offset.getStride() * coordinate(rank, axesOf(op));
      set(rank, offset.getResult(), std::move(value));
    }
    return success();
  }
  auto graphOp = dyn_cast<graph::GraphOpInterface>(op);
  if (!graphOp)
    return op->emitOpError("cannot be evaluated");
  for (int64_t rank : ranks) {
    SmallVector<const Tensor *> inputs;
    for (Value operand : op->getOperands())
      inputs.push_back(values[rank][operand].get());
    if (observe)
      observe(rank, op, inputs);
    std::vector<Tensor> outputs;
    for (Value result : op->getResults())
      outputs.emplace_back(cast<RankedTensorType>(result.getType()).getShape().vec());
    graphOp.evaluate(inputs, outputs);
    for (auto [result, output] : llvm::zip(op->getResults(), outputs))
      set(rank, result, std::move(output));
  }
  return success();
}

// Returns slice i of a stacked tensor.
static Tensor layerOf(const Tensor &stacked, int64_t i) {
  Tensor part(std::vector<int64_t>(stacked.shape.begin() + 1, stacked.shape.end()));
  std::copy_n(stacked.data.begin() + i * part.size(), part.size(), part.data.begin());
  return part;
}

LogicalResult LockstepInterpreter::executeRepeat(RepeatOp op, ArrayRef<int64_t> ranks) {
  unsigned carried = op.getCarried().size(), stacked = op.getStacked().size();
  Block &body = op.getBlock();
  int64_t count = op.getCount();
  for (int64_t rank : ranks) {
    for (unsigned i = 0; i < carried; ++i)
      values[rank][op->getResult(i)] = Held(values[rank][op->getOperand(i)]);
    for (Value result : op.getStackedResults())
      set(rank, result, Tensor(cast<RankedTensorType>(result.getType()).getShape().vec()));
  }
  for (int64_t step = 0; step < count; ++step) {
    int64_t layer = op.getReverse() ? count - 1 - step : step;
    for (int64_t rank : ranks)
      for (BlockArgument arg : body.getArguments()) {
        unsigned i = arg.getArgNumber();
        Held from = values[rank][i < carried ? Value(op->getResult(i)) : op->getOperand(i)];
        if (i >= carried && i < carried + stacked)
          set(rank, arg, layerOf(*from, layer));
        else
          values[rank][arg] = std::move(from);
      }
    for (Operation &inner : body.without_terminator()) {
      if (failed(execute(&inner, ranks)))
        return failure();
      release(&inner, ranks);
    }
    for (int64_t rank : ranks)
      for (OpResult result : op->getResults()) {
        Held value = values[rank][body.getTerminator()->getOperand(result.getResultNumber())];
        if (result.getResultNumber() < carried)
          values[rank][result] = std::move(value);
        else
          llvm::copy(value->data, values[rank][result]->data.begin() + layer * value->size());
      }
  }
  return success();
}

//===-- Collectives ---------------------------------------------------------------===//

// Splits `ranks` into groups of the op's axes, in row-major order over them.
LogicalResult LockstepInterpreter::executeGroups(ArrayRef<int64_t> ranks,
                                     function_ref<Operation *(int64_t)> opOf) {
  Operation *op = opOf(ranks.front());
  Axes axes = axesOf(op), others;
  for (StringAttr name : mesh.getNames())
    if (!llvm::is_contained(axes, name))
      others.push_back(name);
  std::map<int64_t, std::map<int64_t, int64_t>> groups;
  for (int64_t rank : ranks)
    groups[coordinate(rank, others)][coordinate(rank, axes)] = rank;
  auto listed = cast<CollectiveOpInterface>(op).getMembers();
  size_t expected = listed ? listed->size() : getGroupSize(mesh, axes);
  for (auto &[other, members] : groups) {
    if (members.size() != expected)
      return op->emitOpError("has a group of ") << members.size() << ", expected " << expected;
    SmallVector<int64_t> group;
    for (auto &[coordinate, rank] : members)
      group.push_back(rank);
    executeGroup(group, opOf);
    ++collectives;
  }
  return success();
}

void LockstepInterpreter::executeGroup(ArrayRef<int64_t> group,
                                       function_ref<Operation *(int64_t)> opOf) {
  SmallVector<const Tensor *> parts;
  for (int64_t rank : group)
    for (Value operand : opOf(rank)->getOperands())
      parts.push_back(values[rank][operand].get());
  auto op = cast<CollectiveOpInterface>(opOf(group.front()));
  SmallVector<Tensor> results;
  for (size_t i = 0; i < group.size(); ++i)
    results.push_back(op.evaluateMember(parts, i));
  for (auto [rank, result] : llvm::zip(group, results))
    set(rank, opOf(rank)->getResult(0), std::move(result));
}

//===-- Stages --------------------------------------------------------------------===//

// Runs a stage up to the next op in which other stages take part.
LogicalResult LockstepInterpreter::advance(Stage &stage) {
  for (; stage.next != stage.end; ++stage.next) {
    if (crossesStages(&*stage.next, mesh)) {
      stage.blocked = true;
      return success();
    }
    if (failed(execute(&*stage.next, stage.ranks)))
      return failure();
    release(&*stage.next, stage.ranks);
  }
  return success();
}

// Runs one collective for which all participants wait; fails if stages wait and none is ready.
LogicalResult LockstepInterpreter::unblock(MutableArrayRef<Stage> stages) {
  for (Stage &first : stages) {
    if (!first.blocked)
      continue;
    Operation *op = &*first.next;
    SmallVector<int64_t> members;
    if (auto listed = cast<CollectiveOpInterface>(op).getMembers())
      llvm::append_range(members, *listed);
    else
      llvm::append_range(members, llvm::seq<int64_t>(0, stages.size()));
    bool ready = llvm::all_of(members, [&](int64_t k) {
      return stages[k].blocked && stages[k].next->getName() == op->getName() &&
             stages[k].next->getAttr("members") == op->getAttr("members") &&
             axesOf(&*stages[k].next) == axesOf(op) &&
             stages[k].next->getOperand(0).getType() == op->getOperand(0).getType();
    });
    if (!ready)
      continue;
    SmallVector<int64_t> ranks;
    for (int64_t k : members)
      llvm::append_range(ranks, stages[k].ranks);
    llvm::sort(ranks);
    auto opOf = [&](int64_t rank) { return &*stages[stageOf(rank)].next; };
    if (failed(executeGroups(ranks, opOf)))
      return failure();
    for (int64_t k : members) {
      stages[k].blocked = false;
      release(&*stages[k].next, stages[k].ranks);
      ++stages[k].next;
    }
    return success();
  }
  for (Stage &stage : stages)
    if (stage.blocked)
      return stage.next->emitOpError("waits for stages that never come to it");
  return success();
}

FailureOr<std::vector<LockstepInterpreter::Tensors>>
LockstepInterpreter::run(ArrayRef<func::FuncOp> funcs, std::vector<Tensors> arguments) {
  SmallVector<Stage> stages(funcs.size());
  for (auto [k, func] : llvm::enumerate(funcs)) {
    if (!func)
      continue;
    Stage &stage = stages[k];
    Block &body = const_cast<func::FuncOp &>(func).getBody().front();
    stage.next = body.begin();
    stage.end = std::prev(body.end());
    stage.ranks = ranksOfStage(k);
    for (int64_t rank : stage.ranks)
      for (auto [arg, value] : llvm::zip(body.getArguments(), arguments[rank]))
        set(rank, arg, std::move(value));
  }
  auto isBusy = [](const Stage &stage) { return stage.next != stage.end; };
  auto inUse = [&](Stage &stage) { return !stage.ranks.empty() && isBusy(stage); };
  while (true) {
    for (Stage &stage : stages)
      if (inUse(stage) && !stage.blocked && failed(advance(stage)))
        return failure();
    if (llvm::none_of(stages, inUse))
      break;
    if (failed(unblock(stages)))
      return failure();
  }
  std::vector<Tensors> results(numRanks());
  for (auto [k, func] : llvm::enumerate(funcs))
    for (int64_t rank : stages[k].ranks) {
      Operation *ret = const_cast<func::FuncOp &>(func).getBody().front().getTerminator();
      for (Value operand : ret->getOperands())
        results[rank].push_back(*values[rank][operand]);
    }
  for (Values &own : values)
    own.clear();
  return results;
}
