#include "test/passes/5-schedule/Runner.h"

#include "dialects/graph/Evaluate.h"
#include "dialects/parallel/Machine.h"
#include "dialects/plan/Plan.h"
#include <cmath>
#include <deque>
#include <optional>

using namespace mlir;

namespace llmc::test {
namespace {

using graph::Tensor;
using parallel::ShardingAttr;

std::vector<int64_t> shapeOf(Type type) { return cast<RankedTensorType>(type).getShape().vec(); }
RankedTensorType tensorOf(Value buffer) { return cast<plan::BufferType>(buffer.getType()).getTensor(); }
int64_t bytesOf(Value buffer) { return cast<plan::BufferType>(buffer.getType()).getByteSize(); }

int64_t addressOf(Value buffer, int64_t slot) {
  auto op = buffer.getDefiningOp<plan::BufferOp>();
  int64_t at = 0;
  for (; op.getParent(); op = op.getParent().getDefiningOp<plan::BufferOp>())
    at += op.getDisplacement().value_or(0);
  return at + *op.getOffset() + slot * op.getSlotStride().value_or(0);
}

// An element of any type is one double at its first byte.
class Arena {
public:
  explicit Arena(int64_t bytes) : bytes(bytes, std::nan("")) {}

  Tensor load(Value buffer, int64_t slot) const {
    Tensor value(tensorOf(buffer).getShape().vec());
    int64_t at = addressOf(buffer, slot), step = bytesOf(buffer) / std::max<int64_t>(value.size(), 1);
    for (int64_t i = 0; i < value.size(); ++i)
      value.data[i] = bytes.at(at + i * step);
    return value;
  }
  void store(Value buffer, int64_t slot, const Tensor &value) {
    int64_t at = addressOf(buffer, slot), step = bytesOf(buffer) / std::max<int64_t>(value.size(), 1);
    for (int64_t i = 0; i < value.size(); ++i)
      bytes.at(at + i * step) = value.data[i];
  }

private:
  std::vector<double> bytes;
};

// One execution of an instruction; a wait knows the record that it waits for.
struct Issued {
  Operation *op;
  int64_t slot, microBatch, number; // in issue order of the rank
  int64_t record = -1;
};

struct Rank {
  plan::StageOp stage;
  Arena arena;
  std::map<int64_t, std::deque<Issued>> streams;
  std::vector<bool> done;
};

class PlanRun {
public:
  PlanRun(ModuleOp module, const parallel::StepInput &input, std::mt19937 &random)
      : module(module), input(input), random(random), mesh(parallel::getMesh(module)), machine(mesh) {}

  FailureOr<parallel::StepOutput> run();

private:
  void issue(Rank &rank);
  LogicalResult place(int64_t rank);
  LogicalResult advance(int64_t rank, int64_t stream, bool &moved);
  LogicalResult execute(int64_t rank, const Issued &issued);
  LogicalResult launch(Rank &rank, int64_t number, plan::LaunchOp op, int64_t slot);
  LogicalResult collect(ArrayRef<std::pair<int64_t, int64_t>> members);
  bool receive(int64_t rank, const Issued &issued);
  std::vector<int64_t> groupOf(int64_t rank, plan::CollectiveOp op);
  void finish(int64_t rank, int64_t stream, size_t place = 0);
  LogicalResult gather(parallel::StepOutput &output);

  graph::StateOp stateOf(plan::BufferOp buffer) {
    auto binding = buffer.getBinding();
    auto name = binding ? binding->getAs<FlatSymbolRefAttr>("state") : FlatSymbolRefAttr();
    return name ? module.lookupSymbol<graph::StateOp>(name.getAttr()) : graph::StateOp();
  }
  static ShardingAttr shardingOf(graph::StateOp state) {
    if (auto sharding = state->getAttrOfType<ShardingAttr>(parallel::kSharding))
      return sharding;
    return ShardingAttr::getReplicated(state.getContext(), shapeOf(state.getType()).size());
  }
  static std::vector<int64_t> validShape(graph::StateOp state) {
    std::vector<int64_t> shape = shapeOf(state.getType());
    if (auto valid = state.getValidShape())
      for (auto [i, size] : llvm::enumerate(valid->getAsRange<IntegerAttr>()))
        shape[i] = size.getInt();
    return shape;
  }
  static int64_t firstLayer(plan::BufferOp buffer) {
    auto layer = buffer.getBinding()->getAs<IntegerAttr>("layer_first");
    return layer ? layer.getInt() : 0;
  }

  ModuleOp module;
  const parallel::StepInput &input;
  std::mt19937 &random;
  parallel::MeshAttr mesh;
  parallel::Machine machine;
  std::vector<Rank> ranks;
  int64_t collectives = 0;
};

// All instructions of the step, by stream. A wait holds for the last record of
// its event issued before it (in the same slot, unless it is of the whole step).
void PlanRun::issue(Rank &rank) {
  std::map<std::pair<int64_t, int64_t>, int64_t> records;
  int64_t number = 0;
  for (auto entry : rank.stage.getTable().getAsRange<plan::EntryAttr>()) {
    auto procedure = rank.stage.lookupSymbol<plan::ProcedureOp>(entry.getProcedure().getAttr());
    for (Operation &op : procedure.getBody().front()) {
      auto own = op.getAttrOfType<IntegerAttr>("lane");
      plan::LaneAttr lane = entry.getLane(own ? own.getInt() : 0);
      Issued issued{&op, lane.getSlot(), lane.getMicroBatch(), number};
      if (isa<plan::RecordOp, plan::WaitOp>(op)) {
        std::pair<int64_t, int64_t> key = {op.getAttrOfType<IntegerAttr>("event").getInt(),
                                           op.hasAttr("whole_step") ? -1 : lane.getSlot()};
        if (isa<plan::RecordOp>(op))
          records[key] = number;
        else if (auto it = records.find(key); it != records.end())
          issued.record = it->second;
      }
      rank.streams[op.getAttrOfType<IntegerAttr>("stream").getInt()].push_back(issued);
      ++number;
    }
  }
  rank.done.assign(number, false);
}

// States and host scalars, before the step. Padding and accumulators hold
// numbers that must not matter.
LogicalResult PlanRun::place(int64_t r) {
  Rank &rank = ranks[r];
  for (auto buffer : rank.stage.getBody().getOps<plan::BufferOp>()) {
    if (auto binding = buffer.getBinding())
      if (auto name = binding->getAs<StringAttr>("scalar")) {
        auto found = input.scalars.find(name.str());
        if (found == input.scalars.end())
          return buffer.emitError("no value is given for ") << name;
        rank.arena.store(buffer, 0, found->second);
      }
    graph::StateOp state = stateOf(buffer);
    if (!state)
      continue;
    Tensor whole(shapeOf(state.getType()));
    std::fill(whole.data.begin(), whole.data.end(), 3.25);
    auto given = input.states.find(state.getSymName().str());
    if (state.getRole() != graph::Role::accumulator && given == input.states.end())
      return state.emitError("no value is given");
    if (state.getRole() != graph::Role::accumulator)
      parallel::placePart(whole, given->second, SmallVector<int64_t>(whole.shape.size(), 0));
    Tensor part = machine.partOf(whole, r, shardingOf(state));
    Tensor own(tensorOf(buffer).getShape().vec());
    int64_t skipped = part.size() == own.size() ? 0 : firstLayer(buffer) * (own.size() / own.shape[0]);
    std::copy_n(part.data.begin() + skipped, own.size(), own.data.begin());
    rank.arena.store(buffer, 0, own);
  }
  return success();
}

//===-- Instructions --------------------------------------------------------------===//

// Is `read` only read element by element, or row by row, where it is written too?
static bool readsWhole(plan::LaunchOp op, Value read) {
  auto shapeOf = [](Value value) { return cast<RankedTensorType>(value.getType()).getShape(); };
  for (auto [argument, buffer] : llvm::zip(op.getBody().front().getArguments(), op.getReads())) {
    if (buffer != read)
      continue;
    for (Operation *user : argument.getUsers()) {
      auto compute = dyn_cast<graph::GraphOpInterface>(user);
      bool elementwise = compute && compute.getEmitClass() == graph::EmitClass::Elementwise &&
                         shapeOf(user->getResult(0)) == shapeOf(argument);
      bool reduces = compute && (compute.getEmitClass() == graph::EmitClass::RowReduction ||
                                 isa<graph::ReduceOp>(user)) &&
                     shapeOf(user->getOperand(0)) == shapeOf(argument);
      if (!elementwise && !reduces)
        return false;
    }
  }
  return true;
}

LogicalResult PlanRun::launch(Rank &rank, int64_t r, plan::LaunchOp op, int64_t slot) {
  Block &body = op.getBody().front();
  for (Value write : op.getWrites())
    for (Value read : op.getReads()) {
      int64_t a = addressOf(write, slot), b = addressOf(read, slot);
      if (a >= b + bytesOf(read) || b >= a + bytesOf(write))
        continue;
      if (!readsWhole(op, read) || a != b || tensorOf(read) != tensorOf(write))
        return op.emitError("writes over what it still reads");
    }
  llvm::DenseMap<Value, Tensor> values;
  for (auto [i, read] : llvm::enumerate(op.getReads()))
    values[body.getArgument(i)] = rank.arena.load(read, slot);
  if (ArrayAttr scalars = op.getScalarsAttr())
    for (auto [i, scalar] : llvm::enumerate(scalars.getAsRange<DenseI64ArrayAttr>())) {
      Tensor value(std::vector<int64_t>{});
      value.data[0] = scalar[0];
      for (auto [axis, name] : llvm::enumerate(mesh.getNames()))
        value.data[0] += scalar[axis + 1] * machine.coordinate(r, name.getValue());
      values[body.getArgument(op.getReads().size() + i)] = value;
    }
  for (Operation &inner : body.without_terminator()) {
    SmallVector<const Tensor *> operands;
    for (Value operand : inner.getOperands())
      operands.push_back(&values.find(operand)->second);
    std::vector<Tensor> results = graph::evaluateOp(cast<graph::GraphOpInterface>(inner), operands);
    for (auto [result, value] : llvm::zip(inner.getResults(), results))
      values[result] = std::move(value);
  }
  for (auto [write, value] : llvm::zip(op.getWrites(), body.getTerminator()->getOperands()))
    rank.arena.store(write, slot, values.find(value)->second);
  return success();
}

// Sum of products over the letters that the result lacks.
Tensor multiply(StringRef equation, const Tensor &a, const Tensor &b, Tensor out) {
  auto [inputs, result] = equation.split("->");
  auto [lhs, rhs] = inputs.split(",");
  std::string letters = result.str();
  std::map<char, int64_t> sizes, index;
  for (auto [names, tensor] : {std::pair<StringRef, const Tensor *>(lhs, &a), {rhs, &b}})
    for (auto [letter, size] : llvm::zip(names, tensor->shape)) {
      if (letters.find(letter) == std::string::npos)
        letters += letter;
      sizes[letter] = size;
    }
  auto at = [&](StringRef names, const Tensor &tensor) {
    int64_t position = 0;
    for (auto [letter, stride] : llvm::zip(names, tensor.strides()))
      position += index[letter] * stride;
    return position;
  };
  int64_t total = 1;
  for (char letter : letters)
    total *= sizes[letter];
  for (int64_t i = 0; i < total; ++i) {
    int64_t rest = i;
    for (size_t k = letters.size(); k-- > 0; rest /= sizes[letters[k]])
      index[letters[k]] = rest % sizes[letters[k]];
    out.data[at(result, out)] += a.data[at(lhs, a)] * b.data[at(rhs, b)];
  }
  return out;
}

LogicalResult PlanRun::execute(int64_t r, const Issued &issued) {
  Rank &rank = ranks[r];
  int64_t slot = issued.slot;
  if (auto op = dyn_cast<plan::LaunchOp>(issued.op))
    return launch(rank, r, op, slot);
  if (auto op = dyn_cast<plan::MatmulOp>(issued.op)) {
    Tensor out(tensorOf(op.getOut()).getShape().vec());
    if (op.getAccumulate())
      out = rank.arena.load(op.getOut(), slot);
    rank.arena.store(op.getOut(), slot,
                     multiply(op.getEquation(), rank.arena.load(op.getLhs(), slot),
                              rank.arena.load(op.getRhs(), slot), out));
  } else if (auto op = dyn_cast<plan::CopyOp>(issued.op)) {
    rank.arena.store(op.getDst(), slot, rank.arena.load(op.getSrc(), slot));
  } else if (auto op = dyn_cast<plan::FillOp>(issued.op)) {
    rank.arena.store(op.getDst(), slot, Tensor(tensorOf(op.getDst()).getShape().vec()));
  } else if (auto op = dyn_cast<plan::FeedOp>(issued.op)) {
    const Tensor &whole = input.microBatches.at(issued.microBatch).at(op.getInput().str());
    SmallVector<StringAttr> axes = mesh.getAxes(planfile::AxisRole::Data);
    rank.arena.store(op.getDst(), slot,
                     parallel::slicePart(whole, 0, parallel::getGroupSize(mesh, axes),
                                         machine.coordinate(r, axes)));
  } else if (!isa<plan::RecordOp, plan::WaitOp>(issued.op)) {
    return issued.op->emitError("cannot be run");
  }
  return success();
}

std::vector<int64_t> PlanRun::groupOf(int64_t rank, plan::CollectiveOp op) {
  SmallVector<StringAttr> axes(op.getAxes().getAsRange<StringAttr>());
  std::vector<std::pair<int64_t, int64_t>> members; // by index in the group
  for (int64_t other = 0; other < machine.numRanks(); ++other) {
    bool same = llvm::all_of(mesh.getNames(), [&](StringAttr name) {
      return llvm::is_contained(axes, name) ||
             machine.coordinate(rank, name.getValue()) == machine.coordinate(other, name.getValue());
    });
    int64_t index = machine.coordinate(other, axes);
    if (same && (!op.getMembers() || llvm::is_contained(*op.getMembers(), index)))
      members.push_back({index, other});
  }
  llvm::sort(members);
  std::vector<int64_t> group;
  for (auto [index, other] : members)
    group.push_back(other);
  return group;
}

// All members (rank, stream) stand at one collective.
LogicalResult PlanRun::collect(ArrayRef<std::pair<int64_t, int64_t>> members) {
  std::vector<Tensor> parts;
  std::vector<Issued> heads;
  for (auto [rank, stream] : members) {
    heads.push_back(ranks[rank].streams[stream].front());
    auto op = cast<plan::CollectiveOp>(heads.back().op);
    if (op.getKind() != plan::CollectiveKind::all_reduce)
      return op.emitError("of this kind cannot be run");
    parts.push_back(ranks[rank].arena.load(op.getSrc(), heads.back().slot));
    if (parts[0].size() != parts.back().size())
      return op.emitError("meets one of another size");
  }
  bool max = cast<plan::CollectiveOp>(heads[0].op).getReduce() == graph::ReduceKind::max;
  for (Tensor &part : llvm::drop_begin(parts))
    for (int64_t i = 0; i < part.size(); ++i)
      parts[0].data[i] = max ? std::max(parts[0].data[i], part.data[i]) : parts[0].data[i] + part.data[i];
  for (auto [member, head] : llvm::zip(members, heads)) {
    ranks[member.first].arena.store(cast<plan::CollectiveOp>(head.op).getDst(), head.slot, parts[0]);
    finish(member.first, member.second);
  }
  ++collectives;
  return success();
}

// Messages at the head of a queue that start together.
static size_t groupAt(const std::deque<Issued> &queue) {
  size_t count = 0;
  while (count < queue.size() && isa<plan::SendOp, plan::RecvOp>(queue[count].op) &&
         (count == 0 || queue[count].op->hasAttr("grouped")))
    ++count;
  return count;
}

// Takes the message of a sender that stands at its send, or at a group that holds it.
bool PlanRun::receive(int64_t r, const Issued &issued) {
  auto recv = cast<plan::RecvOp>(issued.op);
  int64_t stage = machine.stageOf(r) + recv.getDelta();
  int64_t peer = machine.neighbour(r, stage);
  for (auto &[stream, queue] : ranks[peer].streams)
    for (size_t i = 0; i < groupAt(queue); ++i) {
      auto send = dyn_cast<plan::SendOp>(queue[i].op);
      if (!send || send.getChannel() != recv.getChannel() || send.getDelta() != -recv.getDelta())
        continue;
      for (auto [from, to] : llvm::zip(send.getParts(), recv.getParts()))
        ranks[r].arena.store(to, issued.slot, ranks[peer].arena.load(from, queue[i].slot));
      finish(peer, stream, i);
      return true;
    }
  return false;
}

void PlanRun::finish(int64_t rank, int64_t stream, size_t place) {
  auto &queue = ranks[rank].streams[stream];
  ranks[rank].done[queue[place].number] = true;
  queue.erase(queue.begin() + place);
}

// Runs the head of a stream, if it can run.
LogicalResult PlanRun::advance(int64_t r, int64_t stream, bool &moved) {
  auto &queue = ranks[r].streams[stream];
  if (queue.empty())
    return success();
  const Issued issued = queue.front();
  if (issued.record >= 0 && !ranks[r].done[issued.record])
    return success();
  if (size_t count = groupAt(queue)) {
    for (size_t i = 0; i < count; ++i) // sends end when their receivers take them
      if (isa<plan::RecvOp>(queue[i].op) && receive(r, Issued(queue[i]))) {
        finish(r, stream, i);
        moved = true;
        break;
      }
    return success();
  }
  if (auto op = dyn_cast<plan::CollectiveOp>(issued.op)) {
    std::vector<std::pair<int64_t, int64_t>> members;
    for (int64_t member : groupOf(r, op)) {
      auto &head = ranks[member].streams[stream];
      auto other = head.empty() ? plan::CollectiveOp() : dyn_cast<plan::CollectiveOp>(head.front().op);
      if (!other || other.getAxes() != op.getAxes() || other.getMembersAttr() != op.getMembersAttr())
        return success();
      members.push_back({member, stream});
    }
    moved = true;
    return collect(members);
  }
  moved = true;
  if (failed(execute(r, issued)))
    return failure();
  finish(r, stream);
  return success();
}

//===-- A step ----------------------------------------------------------------------===//

LogicalResult PlanRun::gather(parallel::StepOutput &output) {
  std::map<std::string, std::vector<bool>> seen;
  auto note = [&](double a, double b) {
    if (a != b && !(std::isnan(a) && std::isnan(b)))
      output.replicaError = std::max(output.replicaError, std::isnan(a - b) ? INFINITY : std::abs(a - b));
  };
  for (int64_t r = 0; r < machine.numRanks(); ++r)
    for (auto buffer : ranks[r].stage.getBody().getOps<plan::BufferOp>()) {
      Tensor part = ranks[r].arena.load(buffer, 0);
      if (auto binding = buffer.getBinding())
        if (auto name = binding->getAs<StringAttr>("output")) {
          auto [it, isNew] = output.outputs.try_emplace(name.str(), part);
          note(it->second.data[0], part.data[0]);
        }
      graph::StateOp state = stateOf(buffer);
      if (!state || (state.getRole() == graph::Role::accumulator && !state.getOf()))
        continue;
      Tensor &whole = output.states.try_emplace(state.getSymName().str(), validShape(state)).first->second;
      std::vector<bool> &known = seen[state.getSymName().str()];
      known.resize(whole.size());
      SmallVector<int64_t> starts = machine.startsOf(r, shardingOf(state), part.shape);
      if (!starts.empty())
        starts[0] += firstLayer(buffer);
      std::vector<int64_t> to = whole.strides(), from = part.strides();
      for (int64_t i = 0; i < part.size(); ++i) {
        int64_t at = 0, rest = i;
        bool padding = false;
        for (size_t d = 0; d < part.shape.size(); rest %= from[d], ++d) {
          int64_t index = starts[d] + rest / from[d];
          padding |= index >= whole.shape[d];
          at += index * to[d];
        }
        if (padding)
          continue;
        if (known[at])
          note(whole.data[at], part.data[i]);
        whole.data[at] = part.data[i];
        known[at] = true;
      }
    }
  for (auto &[name, known] : seen)
    if (llvm::is_contained(known, false))
      return module.emitError("some elements of ") << name << " are on no rank";
  return success();
}

FailureOr<parallel::StepOutput> PlanRun::run() {
  for (int64_t r = 0; r < machine.numRanks(); ++r) {
    plan::StageOp own;
    for (auto stage : module.getOps<plan::StageOp>())
      if (int64_t(stage.getStage()) == machine.stageOf(r))
        own = stage;
    if (!own)
      return module.emitError("rank ") << r << " has no stage";
    ranks.push_back({own, Arena(*own.getArenaBytes()), {}, {}});
    issue(ranks.back());
    if (failed(place(r)))
      return failure();
  }
  for (bool left = true, moved = true; left;) {
    if (!moved)
      return module.emitError("ranks wait for each other");
    left = moved = false;
    for (int64_t n = machine.numRanks(); n-- > 0;) {
      int64_t r = random() % machine.numRanks();
      for (auto &[stream, queue] : ranks[r].streams)
        for (int64_t burst = random() % 8; burst > 0; --burst)
          if (failed(advance(r, stream, moved)))
            return failure();
    }
    // Luck decides who moves, not whether anybody can.
    for (int64_t r = 0; r < machine.numRanks(); ++r)
      for (auto &[stream, queue] : ranks[r].streams) {
        if (!moved && failed(advance(r, stream, moved)))
          return failure();
        left |= !queue.empty();
      }
  }
  parallel::StepOutput output;
  if (failed(gather(output)))
    return failure();
  output.collectives = collectives;
  return output;
}

} // namespace

FailureOr<parallel::StepOutput> runPlan(ModuleOp module, const parallel::StepInput &input,
                                        std::mt19937 &random) {
  return PlanRun(module, input, random).run();
}

} // namespace llmc::test
