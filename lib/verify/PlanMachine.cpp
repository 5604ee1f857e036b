#include "lib/verify/PlanMachine.h"

#include "dialects/graph/Evaluate.h"
#include "dialects/parallel/Annotations.h"
#include "lib/verify/Sources.h"

#include <cmath>
#include <deque>
#include <numeric>

using namespace mlir;

namespace llmc::verify {
namespace {

// Bytes of a buffer, as cells of the model: one double for `granule` bytes.
struct Place {
  int64_t offset = 0, stride = 0; // in cells; of slot 0, and from slot to slot
  int64_t step = 1, cells = 0;    // cells of an element, of the whole buffer
  std::vector<int64_t> shape;
};

struct Stage {
  plan::StageOp op;
  int64_t granule = 1;
  llvm::DenseMap<Value, Place> places;
  llvm::StringMap<plan::ProcedureOp> procedures;
  SmallVector<plan::EntryAttr> table;
};

struct Rank {
  int64_t id = 0;
  Stage *stage = nullptr;
  SmallVector<int64_t> coordinate;
  std::vector<double> cells;
  size_t entry = 0;
  Block::iterator next;
  bool entered = false; // `next` belongs to `entry`
  bool posted = false;  // of the collective where the rank stands
  bool done() const { return entry == stage->table.size(); }
};

// The collective that a group is assembling.
struct Meeting {
  std::vector<int64_t> group;
  std::map<int64_t, Tensor> parts;   // by rank
  std::map<int64_t, Tensor> results; // not fetched yet
};

class PlanMachine {
public:
  PlanMachine(ModuleOp module, const Trial &trial) : module(module), trial(trial) {}
  FailureOr<Outcome> run();

private:
  LogicalResult prepare();
  void placeBuffers(Stage &stage);
  void fillStates();
  LogicalResult step(const StepData &data);
  LogicalResult advance(Rank &rank, bool &moved);
  FailureOr<bool> execute(Rank &rank, Operation &op, int64_t slot, int64_t microBatch);
  LogicalResult launch(Rank &rank, plan::LaunchOp op, int64_t slot);
  void matmul(Rank &rank, plan::MatmulOp op, int64_t slot);
  FailureOr<bool> collective(Rank &rank, plan::CollectiveOp op, int64_t slot);
  FailureOr<int64_t> peer(const Rank &rank, Operation &op, StringRef axis, int64_t delta);
  LogicalResult feed(Rank &rank, plan::FeedOp op, int64_t slot, int64_t microBatch);

  Tensor read(const Rank &rank, Value buffer, int64_t slot) const;
  void write(Rank &rank, Value buffer, int64_t slot, const Tensor &value) const;
  double readScalar(StringRef name);
  NamedTensors gather(StringRef role, double &replicaError);
  NamedTensors gatherResults(double &replicaError);
  template <typename F> void forEachState(StringRef role, F f);
  template <typename F>
  void forEachElement(const Rank &rank, plan::BufferOp op, ArrayRef<int64_t> global, F f) const;

  ModuleOp module;
  const Trial &trial;
  parallel::MeshAttr mesh;
  std::vector<Stage> stages;
  std::vector<Rank> ranks;
  const StepData *data = nullptr;
  std::map<std::tuple<std::vector<int64_t>, int64_t>, Meeting> meetings; // by group and stream
  std::map<std::tuple<int64_t, int64_t, int64_t>, std::deque<std::vector<Tensor>>> messages;
  llvm::DenseMap<Operation *, std::unique_ptr<Block>> products; // a graph.matmul for each
};

RankedTensorType tensorOf(Value buffer) {
  return cast<plan::BufferType>(buffer.getType()).getTensor();
}
int64_t elementBytes(Value buffer) {
  return cast<plan::BufferType>(buffer.getType()).getByteSize() /
         std::max<int64_t>(1, tensorOf(buffer).getNumElements());
}

//===-- Preparing -----------------------------------------------------------===//

void PlanMachine::placeBuffers(Stage &stage) {
  int64_t granule = 0;
  for (auto buffer : stage.op.getBody().getOps<plan::BufferOp>())
    for (int64_t bytes : {elementBytes(buffer), int64_t(buffer.getOffset().value_or(0)),
                          int64_t(buffer.getDisplacement().value_or(0)),
                          int64_t(buffer.getSlotStride().value_or(0))})
      granule = std::gcd(granule, bytes);
  stage.granule = std::max<int64_t>(granule, 1);
  for (auto buffer : stage.op.getBody().getOps<plan::BufferOp>()) {
    Place place;
    if (buffer.getParent()) {
      place = stage.places[buffer.getParent()];
      place.offset += buffer.getDisplacement().value_or(0) / stage.granule;
    } else {
      place.offset = buffer.getOffset().value_or(0) / stage.granule;
      place.stride = buffer.getSlotStride().value_or(0) / stage.granule;
    }
    place.step = elementBytes(buffer) / stage.granule;
    place.shape = tensorOf(buffer).getShape().vec();
    place.cells = tensorOf(buffer).getNumElements() * place.step;
    stage.places[buffer] = place;
  }
}

LogicalResult PlanMachine::prepare() {
  mesh = parallel::getMesh(module);
  SmallVector<plan::StageOp> ops(module.getOps<plan::StageOp>());
  llvm::sort(ops, [](plan::StageOp x, plan::StageOp y) { return x.getStage() < y.getStage(); });
  if (!mesh || static_cast<int64_t>(ops.size()) != mesh.getSize("pp"))
    return module.emitError("has ") << ops.size() << " plan.stage ops for its mesh";
  for (plan::StageOp op : ops) {
    if (!op.getArenaBytes())
      return op.emitOpError("has no arena_bytes");
    Stage &stage = stages.emplace_back();
    stage.op = op;
    for (auto procedure : op.getBody().getOps<plan::ProcedureOp>())
      stage.procedures[procedure.getSymName()] = procedure;
    llvm::append_range(stage.table, op.getTable().getAsRange<plan::EntryAttr>());
    placeBuffers(stage);
  }
  for (int64_t id = 0; id < mesh.getNumRanks(); ++id) {
    Rank &rank = ranks.emplace_back();
    rank.id = id;
    rank.coordinate.resize(mesh.getSizes().size());
    for (size_t i = mesh.getSizes().size(), rest = id; i-- > 0; rest /= mesh.getSizes()[i])
      rank.coordinate[i] = rest % mesh.getSizes()[i];
    rank.stage = &stages[rank.coordinate[mesh.getIndex("pp")]];
    rank.cells.assign(*rank.stage->op.getArenaBytes() / rank.stage->granule + 1, NAN);
  }
  return success();
}

//===-- States --------------------------------------------------------------===//

// Calls f(buffer, state) for every bound state of a role, on every rank that has it.
template <typename F> void PlanMachine::forEachState(StringRef role, F f) {
  for (Rank &rank : ranks)
    for (auto buffer : rank.stage->op.getBody().getOps<plan::BufferOp>()) {
      DictionaryAttr binding = buffer.getBindingAttr();
      auto symbol = binding ? binding.getAs<FlatSymbolRefAttr>("state") : FlatSymbolRefAttr();
      auto own = binding ? binding.getAs<StringAttr>("role") : StringAttr();
      if (symbol && own && own.getValue() == role)
        f(rank, buffer, symbol.getValue().str());
    }
}

// Calls f(cell, global element) for the elements of a bound state that are no padding.
template <typename F>
void PlanMachine::forEachElement(const Rank &rank, plan::BufferOp op, ArrayRef<int64_t> global,
                                 F f) const {
  const Place &place = rank.stage->places.find(op)->second;
  DictionaryAttr binding = op.getBindingAttr();
  auto dims = binding.getAs<ArrayAttr>("dims");
  auto first = binding.getAs<IntegerAttr>("layer_first");
  SmallVector<int64_t> starts;
  if (first)
    starts.push_back(first.getInt());
  for (auto axes : dims.getAsRange<ArrayAttr>()) {
    int64_t part = 0;
    for (auto axis : axes.getAsRange<StringAttr>())
      part = part * mesh.getSize(axis.getValue()) + rank.coordinate[mesh.getIndex(axis.getValue())];
    starts.push_back(part * place.shape[starts.size()]);
  }
  if (starts.size() != global.size() || place.shape.size() != global.size())
    return;
  int64_t count = tensorOf(op).getNumElements();
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i, element = 0, scale = 1;
    bool valid = true;
    for (size_t d = global.size(); d-- > 0;) {
      int64_t at = starts[d] + rest % place.shape[d];
      rest /= place.shape[d];
      valid &= at < global[d];
      element += at * scale;
      scale *= global[d];
    }
    if (valid)
      f(place.offset + i * place.step, element);
  }
}

void PlanMachine::fillStates() {
  NamedTensors states = statesFromSources(module, trial.weights);
  for (StringRef role : {"parameter", "master", "moment1", "moment2"})
    forEachState(role, [&](Rank &rank, plan::BufferOp op, const std::string &name) {
      const Place &place = rank.stage->places.find(op)->second;
      std::fill_n(rank.cells.begin() + place.offset, place.cells, 0.0);
      auto found = states.find(name);
      if (found != states.end())
        forEachElement(rank, op, found->second.shape, [&](int64_t cell, int64_t element) {
          rank.cells[cell] = found->second.data[element];
        });
    });
}

NamedTensors PlanMachine::gather(StringRef role, double &replicaError) {
  NamedTensors states;
  std::map<std::string, std::vector<bool>> seen;
  forEachState(role, [&](Rank &rank, plan::BufferOp op, const std::string &name) {
    auto state = module.lookupSymbol<graph::StateOp>(name);
    if (!state || (role == "accumulator" && !state.getOf()))
      return;
    Tensor &whole = states[name];
    std::vector<bool> &have = seen[name];
    if (whole.shape.empty() && whole.data.empty()) {
      whole = Tensor(validShape(state));
      have.resize(whole.size());
      std::fill(whole.data.begin(), whole.data.end(), NAN);
    }
    forEachElement(rank, op, whole.shape, [&](int64_t cell, int64_t element) {
      double value = rank.cells[cell];
      if (have[element]) {
        double difference = std::abs(whole.data[element] - value);
        replicaError = std::max(replicaError, std::isnan(difference) ? INFINITY : difference);
        return;
      }
      have[element] = true;
      whole.data[element] = value;
    });
  });
  return states;
}

// Of an inference: the parts of every output that ranks hold.
NamedTensors PlanMachine::gatherResults(double &replicaError) {
  NamedTensors results;
  std::map<std::string, std::vector<bool>> seen;
  for (Rank &rank : ranks)
    for (auto buffer : rank.stage->op.getBody().getOps<plan::BufferOp>()) {
      DictionaryAttr binding = buffer.getBindingAttr();
      auto name = binding ? binding.getAs<StringAttr>("output") : StringAttr();
      auto valid = binding ? binding.getAs<DenseI64ArrayAttr>("valid_shape") : DenseI64ArrayAttr();
      if (!name || !valid)
        continue;
      auto [entry, isNew] = results.try_emplace(name.str(), Tensor(valid.asArrayRef().vec()));
      Tensor &whole = entry->second;
      std::vector<bool> &have = seen[name.str()];
      if (isNew) {
        have.resize(whole.size());
        std::fill(whole.data.begin(), whole.data.end(), NAN);
      }
      forEachElement(rank, buffer, whole.shape, [&](int64_t cell, int64_t element) {
        double value = rank.cells[cell], &other = whole.data[element];
        if (have[element] && !(std::isnan(value) && std::isnan(other)) && value != other)
          replicaError = std::max(replicaError, std::isnan(value - other) ? INFINITY
                                                                          : std::abs(value - other));
        have[element] = true;
        other = value;
      });
    }
  return results;
}

double PlanMachine::readScalar(StringRef name) {
  for (Rank &rank : llvm::reverse(ranks))
    for (auto buffer : rank.stage->op.getBody().getOps<plan::BufferOp>())
      if (DictionaryAttr binding = buffer.getBindingAttr())
        if (auto output = binding.getAs<StringAttr>("output"); output && output.getValue() == name)
          return rank.cells[rank.stage->places.find(buffer)->second.offset];
  return NAN;
}

//===-- Instructions --------------------------------------------------------===//

Tensor PlanMachine::read(const Rank &rank, Value buffer, int64_t slot) const {
  const Place &place = rank.stage->places.find(buffer)->second;
  Tensor value(place.shape);
  const double *from = &rank.cells[place.offset + slot * place.stride];
  for (int64_t i = 0, n = value.size(); i < n; ++i)
    value.data[i] = from[i * place.step];
  return value;
}

void PlanMachine::write(Rank &rank, Value buffer, int64_t slot, const Tensor &value) const {
  const Place &place = rank.stage->places.find(buffer)->second;
  double *to = &rank.cells[place.offset + slot * place.stride];
  for (int64_t i = 0, n = value.size(); i < n; ++i) {
    to[i * place.step] = value.data[i];
    for (int64_t k = 1; k < place.step; ++k)
      to[i * place.step + k] = NAN; // the other bytes of a wide element
  }
}

LogicalResult PlanMachine::launch(Rank &rank, plan::LaunchOp op, int64_t slot) {
  Block &body = op.getBody().front();
  llvm::DenseMap<Value, Tensor> values;
  for (auto [i, buffer] : llvm::enumerate(op.getReads()))
    values[body.getArgument(i)] = read(rank, buffer, slot);
  if (ArrayAttr scalars = op.getScalarsAttr())
    for (auto [i, terms] : llvm::enumerate(scalars.getAsRange<DenseI64ArrayAttr>())) {
      Tensor scalar(std::vector<int64_t>{});
      scalar.data[0] = terms[0];
      for (size_t k = 1; k < static_cast<size_t>(terms.size()); ++k)
        scalar.data[0] += terms[k] * rank.coordinate[k - 1];
      values[body.getArgument(op.getReads().size() + i)] = scalar;
    }
  for (Operation &inner : body.without_terminator()) {
    auto graphOp = dyn_cast<graph::GraphOpInterface>(&inner);
    if (!graphOp)
      return inner.emitOpError("cannot be evaluated");
    SmallVector<const Tensor *> inputs;
    for (Value operand : inner.getOperands())
      inputs.push_back(&values[operand]);
    std::vector<Tensor> outputs = graph::evaluateOp(graphOp, inputs);
    for (auto [result, output] : llvm::zip(inner.getResults(), outputs))
      values[result] = std::move(output);
  }
  for (auto [buffer, value] : llvm::zip(op.getWrites(), body.getTerminator()->getOperands()))
    write(rank, buffer, slot, values[value]);
  return success();
}

void PlanMachine::matmul(Rank &rank, plan::MatmulOp op, int64_t slot) {
  auto &block = products[op];
  if (!block) {
    block = std::make_unique<Block>();
    Value a = block->addArgument(tensorOf(op.getLhs()), op.getLoc());
    Value b = block->addArgument(tensorOf(op.getRhs()), op.getLoc());
    OpBuilder builder(op.getContext());
    builder.setInsertionPointToEnd(block.get());
    graph::MatmulOp::create(builder, op.getLoc(), tensorOf(op.getOut()), op.getEquation(), a, b);
  }
  Tensor a = read(rank, op.getLhs(), slot), b = read(rank, op.getRhs(), slot);
  Tensor product = graph::evaluateOp(cast<graph::GraphOpInterface>(block->front()), {&a, &b})[0];
  if (op.getAccumulate()) {
    Tensor before = read(rank, op.getOut(), slot);
    for (int64_t i = 0; i < product.size(); ++i)
      product.data[i] += before.data[i];
  }
  write(rank, op.getOut(), slot, product);
}

// This rank's rows of the step: [(micro * dp + dp coordinate) * rows, ...); all of an
// input that is not cut.
LogicalResult PlanMachine::feed(Rank &rank, plan::FeedOp op, int64_t slot, int64_t microBatch) {
  auto found = data->inputs.find(op.getInput().str());
  if (found == data->inputs.end())
    return op.emitOpError("no value is given for the input ") << op.getInput();
  Tensor own(tensorOf(op.getDst()).getShape().vec());
  int64_t place = microBatch * mesh.getSize("dp") + rank.coordinate[mesh.getIndex("dp")];
  if (own.size() == found->second.size())
    place = 0;
  if ((place + 1) * own.size() > found->second.size())
    return op.emitOpError("micro-batch ") << microBatch << " is not in the step";
  std::copy_n(found->second.data.begin() + place * own.size(), own.size(), own.data.begin());
  write(rank, op.getDst(), slot, own);
  return success();
}

FailureOr<int64_t> PlanMachine::peer(const Rank &rank, Operation &op, StringRef axis, int64_t delta) {
  int index = mesh.getIndex(axis);
  int64_t at = index < 0 ? -1 : rank.coordinate[index] + delta;
  if (index < 0 || at < 0 || at >= mesh.getSizes()[index])
    return op.emitOpError("talks to a rank beyond the mesh: ") << axis << " " << at;
  int64_t stride = 1;
  for (size_t i = index + 1; i < mesh.getSizes().size(); ++i)
    stride *= mesh.getSizes()[i];
  return rank.id + delta * stride;
}

//===-- Collectives ---------------------------------------------------------===//

static std::vector<int64_t> groupOf(parallel::MeshAttr mesh, const Rank &rank, plan::CollectiveOp op) {
  std::vector<int64_t> group(1, 0), sizes(mesh.getSizes().begin(), mesh.getSizes().end());
  auto idOf = [&](ArrayRef<int64_t> coordinate) {
    int64_t id = 0;
    for (size_t i = 0; i < sizes.size(); ++i)
      id = id * sizes[i] + coordinate[i];
    return id;
  };
  std::vector<SmallVector<int64_t>> places = {rank.coordinate};
  for (auto axis : op.getAxes().getAsRange<StringAttr>()) {
    int index = mesh.getIndex(axis.getValue());
    if (index < 0)
      return {};
    SmallVector<int64_t> along;
    if (op.getMembers())
      llvm::append_range(along, *op.getMembers());
    else
      llvm::append_range(along, llvm::seq<int64_t>(0, sizes[index]));
    std::vector<SmallVector<int64_t>> next;
    for (auto &place : places)
      for (int64_t c : along) {
        next.push_back(place);
        next.back()[index] = c;
      }
    places = std::move(next);
  }
  group.clear();
  for (auto &place : places)
    group.push_back(idOf(place));
  return group;
}

// What member `index` gets.
static Tensor combine(plan::CollectiveOp op, const std::vector<const Tensor *> &parts, size_t index,
                      const std::vector<int64_t> &shape) {
  Tensor result(shape);
  auto reduce = [&](int64_t from, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      double total = parts[0]->data[from + i];
      for (size_t k = 1; k < parts.size(); ++k)
        total = op.getReduce() == graph::ReduceKind::max ? std::max(total, parts[k]->data[from + i])
                                                         : total + parts[k]->data[from + i];
      result.data[i] = total;
    }
  };
  switch (op.getKind()) {
  case plan::CollectiveKind::all_reduce:
    reduce(0, result.size());
    break;
  case plan::CollectiveKind::reduce_scatter:
    reduce(index * result.size(), result.size());
    break;
  case plan::CollectiveKind::broadcast:
    result.data = parts[0]->data;
    break;
  case plan::CollectiveKind::all_gather:
    for (size_t k = 0; k < parts.size(); ++k)
      std::copy(parts[k]->data.begin(), parts[k]->data.end(),
                result.data.begin() + k * parts[k]->size());
    break;
  }
  return result;
}

FailureOr<bool> PlanMachine::collective(Rank &rank, plan::CollectiveOp op, int64_t slot) {
  std::vector<int64_t> group = groupOf(mesh, rank, op);
  int64_t self = llvm::find(group, rank.id) - group.begin();
  if (group.empty() || self == static_cast<int64_t>(group.size()))
    return op.emitOpError("rank ") << rank.id << " is no member of the group";
  Meeting &meeting = meetings[{group, op->getAttrOfType<IntegerAttr>("stream").getInt()}];
  if (!rank.posted) {
    if (meeting.parts.count(rank.id) || meeting.results.count(rank.id))
      return false;
    meeting.parts[rank.id] = read(rank, op.getSrc(), slot);
    rank.posted = true;
  }
  if (meeting.parts.size() == group.size()) {
    std::vector<const Tensor *> parts;
    for (int64_t member : group) {
      parts.push_back(&meeting.parts[member]);
      if (parts.back()->size() != parts.front()->size())
        return op.emitOpError("members bring ") << parts.front()->size() << " and "
                                                << parts.back()->size() << " elements";
    }
    std::vector<int64_t> shape = tensorOf(op.getDst()).getShape().vec();
    int64_t expected = op.getKind() == plan::CollectiveKind::all_gather
                           ? parts[0]->size() * int64_t(group.size())
                       : op.getKind() == plan::CollectiveKind::reduce_scatter
                           ? parts[0]->size() / int64_t(group.size())
                           : parts[0]->size();
    if (Tensor::count(shape) != expected)
      return op.emitOpError("group of ") << group.size() << " does not fit its buffers";
    for (size_t i = 0; i < group.size(); ++i)
      meeting.results[group[i]] = combine(op, parts, i, shape);
    meeting.parts.clear();
  }
  auto result = meeting.results.find(rank.id);
  if (result == meeting.results.end())
    return false;
  result->second.shape = tensorOf(op.getDst()).getShape().vec();
  if (result->second.size() != Tensor::count(result->second.shape))
    return op.emitOpError("members disagree on the size");
  write(rank, op.getDst(), slot, result->second);
  meeting.results.erase(result);
  rank.posted = false;
  return true;
}

//===-- Running -------------------------------------------------------------===//

// False: the rank must wait.
FailureOr<bool> PlanMachine::execute(Rank &rank, Operation &op, int64_t slot, int64_t microBatch) {
  if (auto launchOp = dyn_cast<plan::LaunchOp>(op))
    return failed(launch(rank, launchOp, slot)) ? FailureOr<bool>() : true;
  if (auto product = dyn_cast<plan::MatmulOp>(op)) {
    matmul(rank, product, slot);
    return true;
  }
  if (auto together = dyn_cast<plan::CollectiveOp>(op))
    return collective(rank, together, slot);
  if (auto feedOp = dyn_cast<plan::FeedOp>(op))
    return failed(feed(rank, feedOp, slot, microBatch)) ? FailureOr<bool>() : true;
  if (auto copy = dyn_cast<plan::CopyOp>(op)) {
    Tensor value = read(rank, copy.getSrc(), slot);
    write(rank, copy.getDst(), slot, value);
    return true;
  }
  if (auto fill = dyn_cast<plan::FillOp>(op)) {
    write(rank, fill.getDst(), slot, Tensor(tensorOf(fill.getDst()).getShape().vec()));
    return true;
  }
  if (auto send = dyn_cast<plan::SendOp>(op)) {
    auto to = peer(rank, op, send.getAxis(), send.getDelta());
    if (failed(to))
      return failure();
    auto &message = messages[{rank.id, *to, send.getChannel()}].emplace_back();
    for (Value part : send.getParts())
      message.push_back(read(rank, part, slot));
    return true;
  }
  if (auto recv = dyn_cast<plan::RecvOp>(op)) {
    auto from = peer(rank, op, recv.getAxis(), recv.getDelta());
    if (failed(from))
      return failure();
    auto &queue = messages[{*from, rank.id, recv.getChannel()}];
    if (queue.empty())
      return false;
    if (queue.front().size() != recv.getParts().size())
      return op.emitOpError("gets ") << queue.front().size() << " parts";
    for (auto [part, value] : llvm::zip(recv.getParts(), queue.front())) {
      if (value.shape != tensorOf(part).getShape().vec())
        return op.emitOpError("gets a part of another shape");
      write(rank, part, slot, value);
    }
    queue.pop_front();
    return true;
  }
  if (isa<plan::RecordOp, plan::WaitOp>(op))
    return true;
  return op.emitOpError("has no reference meaning");
}

LogicalResult PlanMachine::advance(Rank &rank, bool &moved) {
  while (!rank.done()) {
    plan::EntryAttr entry = rank.stage->table[rank.entry];
    plan::ProcedureOp procedure = rank.stage->procedures.lookup(entry.getProcedure().getValue());
    Block &body = procedure.getBody().front();
    if (!rank.entered) {
      rank.next = body.begin();
      rank.entered = true;
    }
    for (; rank.next != body.end(); ++rank.next) {
      FailureOr<bool> done = execute(rank, *rank.next, entry.getSlot(), entry.getMicroBatch());
      if (failed(done))
        return failure();
      if (!*done)
        return success();
      moved = true;
    }
    rank.entered = false;
    ++rank.entry;
  }
  return success();
}

LogicalResult PlanMachine::step(const StepData &stepData) {
  data = &stepData;
  for (Rank &rank : ranks) {
    rank.entry = 0;
    for (auto buffer : rank.stage->op.getBody().getOps<plan::BufferOp>())
      if (DictionaryAttr binding = buffer.getBindingAttr())
        if (auto scalar = binding.getAs<StringAttr>("scalar"))
          if (auto found = data->scalars.find(scalar.str()); found != data->scalars.end())
            rank.cells[rank.stage->places.find(buffer)->second.offset] = found->second;
  }
  auto busy = [](const Rank &rank) { return !rank.done(); };
  while (llvm::any_of(ranks, busy)) {
    bool moved = false;
    for (Rank &rank : ranks)
      if (failed(advance(rank, moved)))
        return failure();
    if (moved)
      continue;
    Rank &rank = *llvm::find_if(ranks, busy);
    return rank.next->emitOpError("rank ") << rank.id << " waits here for ever";
  }
  for (const auto &[key, queue] : messages)
    if (!queue.empty())
      return module.emitError("rank ") << std::get<0>(key) << " sent rank " << std::get<1>(key)
                                       << " a message that nobody received";
  return success();
}

FailureOr<Outcome> PlanMachine::run() {
  if (failed(prepare()))
    return failure();
  fillStates();
  Outcome outcome;
  if (parallel::isInference(module)) {
    if (failed(step(trial.steps.front())))
      return failure();
    outcome.results = gatherResults(outcome.replicaError);
    return outcome;
  }
  for (const StepData &stepData : trial.steps) {
    if (failed(step(stepData)))
      return failure();
    outcome.losses.push_back(readScalar("loss"));
    if (outcome.losses.size() > 1)
      continue;
    for (const char *name : {"grad_norm", "tokens"})
      outcome.outputs[name] = readScalar(name);
    outcome.gradients = sourcesFromStates(module, gather("accumulator", outcome.replicaError),
                                          graph::Role::accumulator);
  }
  outcome.weights = sourcesFromStates(module, gather("parameter", outcome.replicaError),
                                      graph::Role::parameter);
  return outcome;
}

} // namespace

FailureOr<Outcome> interpretPlan(ModuleOp module, const Trial &trial) {
  return PlanMachine(module, trial).run();
}

} // namespace llmc::verify
