#include "test/planfile/ChunkPlan.h"

#include "lib/planfile/Check.h"
#include "lib/planfile/Program.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <vector>

using namespace llmc::planfile;

namespace llmc::test {
namespace {

constexpr uint64_t kBytes = kChunkFloats * 4;

enum Pass { F, B, W, kPasses };
enum Stream : uint8_t { Compute, Messages, Reduce, kStreams };
enum Event : uint32_t {
  XHere, XFree, YReady, YSent, DyHere, DyFree, DxReady, DxSent,
  kSlotEvents, // then two a chunk: its gradients are summed here, over all ranks
};

// Identifies a message over a stage boundary: of a pass, a chunk of this stage and a micro-batch.
struct Cargo {
  bool sends;
  Pass pass;
  uint32_t chunk, microBatch;
};

// Records the round in which each place runs each micro-batch of a pass: -1 until it has run.
class Rounds {
public:
  explicit Rounds(const ChunkShape &shape)
      : shape(shape), places(shape.stages * shape.chunks) {
    for (auto &pass : ran)
      pass.assign(places, std::vector<int>(shape.microBatches, -1));
  }

  struct Step {
    Pass pass;
    uint32_t chunk, microBatch;
  };
  // The next step of a stage in round `now`, if any can run.
  bool pick(uint32_t stage, int now, Step &step) {
    for (Pass pass : {B, F, W})
      for (uint32_t c = shape.chunks; c-- > 0;) {
        uint32_t place = c * shape.stages + stage;
        auto &of = ran[pass][place];
        auto next = std::find(of.begin(), of.end(), -1);
        if (next == of.end() || !ready(pass, place, static_cast<int>(next - of.begin()), now))
          continue;
        *next = now;
        step = {pass, c, static_cast<uint32_t>(next - of.begin())};
        return true;
      }
    return false;
  }
  bool allRan() const {
    return std::all_of(ran[W].begin(), ran[W].end(), [](const auto &of) { return of.back() >= 0; });
  }

private:
  bool before(Pass pass, uint32_t place, int m, int now) const {
    return m < 0 || (ran[pass][place][m] >= 0 && ran[pass][place][m] < now);
  }
  // The slot of micro-batch `m` at a place is no longer that of an earlier one.
  bool isFree(uint32_t place, int m, unsigned slots, int now) const {
    return before(W, place, m - static_cast<int>(slots), now);
  }
  bool ready(Pass pass, uint32_t place, int m, int now) const {
    bool first = place == 0, last = place + 1 == places;
    switch (pass) {
    case F:
      return (first ? isFree(place, m, shape.activations, now) : before(F, place - 1, m, now)) &&
             (last || isFree(place + 1, m, shape.activations, now));
    case B:
      return before(F, place, m, now) &&
             (last ? isFree(place, m, shape.gradients, now) : before(B, place + 1, m, now)) &&
             (first || isFree(place - 1, m, shape.gradients, now));
    default:
      return before(B, place, m, now);
    }
  }

  const ChunkShape &shape;
  uint32_t places;
  std::vector<std::vector<int>> ran[kPasses]; // by place and micro-batch
};

std::unique_ptr<BufferRefT> onLane(BufferRefT buffer, uint32_t lane) {
  buffer.lane = static_cast<uint8_t>(lane);
  return std::make_unique<BufferRefT>(buffer);
}

class StageBuilder {
public:
  StageBuilder(const ChunkShape &shape, StageT &stage, uint32_t index)
      : shape(shape), stage(stage), index(index),
        lastPlace(shape.stages * shape.chunks - 1) {
    stage.streams = kStreams;
    stage.events = kSlotEvents + 2 * shape.chunks;
    for (uint32_t c = 0; c < shape.chunks; ++c) {
      auto chunk = std::make_unique<ChunkT>();
      chunk->first_layer = chunk->last_layer = static_cast<int>(placeOf(c));
      stage.chunks.push_back(std::move(chunk));
      for (unsigned slots : {shape.activations, shape.gradients}) {
        auto pool = std::make_unique<PoolT>();
        pool->chunk = c;
        pool->slots = slots;
        stage.pools.push_back(std::move(pool));
      }
    }
    layOut();
    buildBegin();
    for (uint32_t c = 0; c < shape.chunks; ++c) {
      buildForward(c);
      buildBackward(c);
      buildWeight(c, ProcedureKind::Weight);
      buildWeight(c, ProcedureKind::WeightLast);
    }
    buildUpdate();
    addRow(procedures["begin"]);
  }

  void addStep(const Rounds::Step &step) {
    bool last = step.pass == W && step.microBatch + 1 == shape.microBatches;
    const char *names[] = {"forward", "backward", "weight"};
    EntryT &entry = addRow(procedures[names[step.pass] + std::string(last ? "_last" : "") +
                                      std::to_string(step.chunk)]);
    SlotRef act = slot(F, step.chunk, step.microBatch), grad = slot(B, step.chunk, step.microBatch);
    setLane(entry, 0, act);
    if (step.pass != F)
      setLane(entry, 1, grad);
  }

  // One row for all that the stage sends and receives in a round.
  void addExchange(const std::vector<Cargo> &cargo) {
    if (cargo.empty())
      return;
    std::string key = "exchange";
    for (const Cargo &one : cargo)
      key += std::string(one.sends ? "_send" : "_receive") + (one.pass == F ? "F" : "B") +
             std::to_string(one.chunk);
    if (!procedures.count(key))
      buildExchange(key, cargo);
    EntryT &entry = addRow(procedures[key]);
    for (uint32_t lane = 0; lane < cargo.size(); ++lane)
      setLane(entry, lane, slot(cargo[lane].pass, cargo[lane].chunk, cargo[lane].microBatch));
  }

  void finish() {
    addRow(procedures["update"]);
    stage.arena_bytes = top;
  }

private:
  uint32_t placeOf(uint32_t chunk) const { return chunk * shape.stages + index; }

  SlotRef slot(Pass pass, uint32_t chunk, uint32_t m) const {
    return SlotRef(2 * chunk + (pass == F ? 0 : 1), m,
                   m % (pass == F ? shape.activations : shape.gradients));
  }

  EntryT &addRow(uint32_t procedure) {
    stage.table.push_back(std::make_unique<EntryT>());
    stage.table.back()->procedure = procedure;
    return *stage.table.back();
  }

  static void setLane(EntryT &entry, uint32_t lane, SlotRef at) {
    if (lane > 0) {
      entry.more.resize(std::max<size_t>(entry.more.size(), lane));
      entry.more[lane - 1] = at;
      return;
    }
    entry.pool = at.pool();
    entry.micro_batch = at.micro_batch();
    entry.slot = at.slot();
  }

  BufferRefT allocate(uint64_t bytes, unsigned slots = 0) {
    BufferRefT buffer;
    buffer.offset = top;
    buffer.size = bytes;
    buffer.slot_stride = slots ? bytes : 0;
    top += bytes * std::max(slots, 1u);
    return buffer;
  }

  BufferRefT addState(const std::string &name, StateRole role, int64_t source) {
    auto state = std::make_unique<StateShardT>();
    state->name = name;
    state->role = role;
    state->owner = true;
    if (source >= 0) {
      state->global_shape = state->local_shape = {int64_t(kChunkFloats)};
      state->dims.push_back(std::make_unique<DimShardingT>());
      state->view = std::make_unique<ViewT>();
      state->view->source = static_cast<uint32_t>(source);
      state->view->strides = {1};
    }
    BufferRefT buffer = allocate(source >= 0 ? kBytes : 4);
    state->buffer = std::make_unique<BufferRefT>(buffer);
    stage.states.push_back(std::move(state));
    return buffer;
  }

  void layOut() {
    for (uint32_t c = 0; c < shape.chunks; ++c) {
      std::string name = "w" + std::to_string(placeOf(c));
      weight.push_back(addState(name, StateRole::Parameter, placeOf(c)));
      gradient.push_back(addState(name, StateRole::Accumulator, placeOf(c)));
    }
    lr = allocate(4);
    stage.host_scalars.push_back(std::make_unique<HostScalarT>());
    stage.host_scalars.back()->name = "lr";
    stage.host_scalars.back()->buffer = std::make_unique<BufferRefT>(lr);
    if (index + 1 == shape.stages) {
      sum = addState("loss.sum", StateRole::Accumulator, -1);
      loss = allocate(4);
      stage.outputs.push_back(std::make_unique<StepOutputT>());
      stage.outputs.back()->name = "loss";
      stage.outputs.back()->buffer = std::make_unique<BufferRefT>(loss);
      label = allocate(kBytes, shape.activations);
    }
    for (uint32_t c = 0; c < shape.chunks; ++c) {
      x.push_back(allocate(kBytes, shape.activations));
      y.push_back(allocate(kBytes, shape.activations));
      dy.push_back(allocate(kBytes, shape.gradients));
      dx.push_back(allocate(kBytes, shape.gradients));
    }
  }

  void begin(const std::string &name, ProcedureKind kind, Phase inPhase, uint32_t chunk = 0) {
    procedures[name] = static_cast<uint32_t>(stage.procedures.size());
    stage.procedures.push_back(std::make_unique<ProcedureT>());
    stage.procedures.back()->name = name;
    stage.procedures.back()->kind = kind;
    stage.procedures.back()->chunk = chunk;
    phase = inPhase;
  }

  template <class T>
  void emit(Stream stream, T body) {
    auto inst = std::make_unique<InstructionT>();
    inst->stream = stream;
    inst->phase = phase;
    inst->body.Set(std::move(body));
    stage.procedures.back()->instructions.push_back(std::move(inst));
  }

  void launch(ChunkKernel kernel, std::vector<std::unique_ptr<BufferRefT>> buffers) {
    LaunchT body;
    body.kernel = static_cast<uint32_t>(kernel);
    body.rows = 1;
    for (size_t i = 0; i < buffers.size(); ++i) {
      auto operand = std::make_unique<OperandT>();
      bool last = i + 1 == buffers.size();
      bool adds = (kernel == ChunkKernel::Loss && i == 2) ||
                  (last && (kernel == ChunkKernel::AddWeight || kernel == ChunkKernel::Update));
      operand->access = adds ? Access::ReadWrite : last ? Access::Write : Access::Read;
      operand->buffer = std::move(buffers[i]);
      body.operands.push_back(std::move(operand));
    }
    emit(Compute, std::move(body));
  }

  template <class... Refs>
  static std::vector<std::unique_ptr<BufferRefT>> list(Refs... buffers) {
    std::vector<std::unique_ptr<BufferRefT>> all;
    (all.push_back(std::move(buffers)), ...);
    return all;
  }

  template <class T>
  void event(Stream stream, uint32_t which, uint32_t lane, bool wholeStep = false) {
    T body;
    body.event = which;
    body.lane = static_cast<uint8_t>(lane);
    body.whole_step = wholeStep;
    emit(stream, body);
  }

  void feed(uint32_t input, const BufferRefT &to) {
    FeedT body;
    body.input = input;
    body.dst = onLane(to, 0);
    emit(Compute, std::move(body));
  }

  void buildBegin() {
    begin("begin", ProcedureKind::Begin, Phase::Forward);
    for (const auto &state : stage.states)
      if (state->role == StateRole::Accumulator) {
        FillT body;
        body.dst = onLane(*state->buffer, 0);
        emit(Compute, std::move(body));
      }
  }

  void buildForward(uint32_t c) {
    begin("forward" + std::to_string(c), ProcedureKind::Forward, Phase::Forward, c);
    if (placeOf(c) == 0)
      feed(0, x[c]);
    else
      event<WaitT>(Compute, XHere, 0);
    if (placeOf(c) == lastPlace)
      feed(1, label);
    else
      event<WaitT>(Compute, YSent, 0);
    launch(ChunkKernel::Forward, list(onLane(x[c], 0), onLane(weight[c], 0), onLane(y[c], 0)));
    if (placeOf(c) != lastPlace)
      event<RecordT>(Compute, YReady, 0);
  }

  void buildBackward(uint32_t c) {
    begin("backward" + std::to_string(c), ProcedureKind::Backward, Phase::Backward, c);
    if (placeOf(c) == lastPlace)
      launch(ChunkKernel::Loss, list(onLane(y[c], 0), onLane(label, 0), onLane(sum, 0), onLane(dy[c], 1)));
    else
      event<WaitT>(Compute, DyHere, 1);
    if (placeOf(c) != 0)
      event<WaitT>(Compute, DxSent, 1);
    launch(ChunkKernel::Backward, list(onLane(dy[c], 1), onLane(weight[c], 0), onLane(dx[c], 1)));
    if (placeOf(c) != 0)
      event<RecordT>(Compute, DxReady, 1);
  }

  void buildWeight(uint32_t c, ProcedureKind kind) {
    bool last = kind == ProcedureKind::WeightLast;
    begin((last ? "weight_last" : "weight") + std::to_string(c), kind, Phase::Backward, c);
    launch(ChunkKernel::AddWeight, list(onLane(x[c], 0), onLane(dy[c], 1), onLane(gradient[c], 0)));
    event<RecordT>(Compute, XFree, 0);
    event<RecordT>(Compute, DyFree, 1);
    if (!last)
      return;
    event<RecordT>(Compute, kSlotEvents + 2 * c, 0, true);
    event<WaitT>(Reduce, kSlotEvents + 2 * c, 0, true);
    CollectiveT body;
    body.axes = {0};
    body.src = onLane(gradient[c], 0);
    body.dst = onLane(gradient[c], 0);
    body.count = kChunkFloats;
    emit(Reduce, std::move(body));
    event<RecordT>(Reduce, kSlotEvents + 2 * c + 1, 0, true);
  }

  void buildUpdate() {
    begin("update", ProcedureKind::Update, Phase::Update);
    for (uint32_t c = 0; c < shape.chunks; ++c) {
      event<WaitT>(Compute, kSlotEvents + 2 * c + 1, 0, true);
      launch(ChunkKernel::Update, list(onLane(lr, 0), onLane(gradient[c], 0), onLane(weight[c], 0)));
    }
    if (loss.size)
      launch(ChunkKernel::ReadLoss, list(onLane(sum, 0), onLane(loss, 0)));
  }

  // Sends wait until their tensor is made, receives until its place is free.
  void buildExchange(const std::string &name, const std::vector<Cargo> &cargo) {
    begin(name, ProcedureKind::Exchange, Phase::Forward);
    auto each = [&](auto visit) {
      for (uint32_t lane = 0; lane < cargo.size(); ++lane) {
        phase = cargo[lane].pass == F ? Phase::Forward : Phase::Backward;
        visit(cargo[lane], lane);
      }
    };
    each([&](const Cargo &one, uint32_t lane) {
      event<WaitT>(Messages, one.pass == F ? (one.sends ? YReady : XFree)
                                           : (one.sends ? DxReady : DyFree), lane);
    });
    each([&](const Cargo &one, uint32_t lane) {
      auto fill = [&](auto body) {
        bool onwards = one.sends == (one.pass == F); // to or from the next place
        body.axis = 1;
        body.delta = onwards ? 1 : -1;
        body.channel = one.pass == F ? 0 : 1;
        body.wrap = true;
        body.grouped = lane > 0;
        const auto &from = one.pass == F ? (one.sends ? y : x) : (one.sends ? dx : dy);
        body.parts.push_back(onLane(from[one.chunk], lane));
        emit(Messages, std::move(body));
      };
      one.sends ? fill(SendT()) : fill(RecvT());
    });
    each([&](const Cargo &one, uint32_t lane) {
      event<RecordT>(Messages, one.pass == F ? (one.sends ? YSent : XHere)
                                             : (one.sends ? DxSent : DyHere), lane);
    });
  }

  const ChunkShape &shape;
  StageT &stage;
  uint32_t index, lastPlace;
  uint64_t top = 0;
  Phase phase = Phase::Forward;
  std::map<std::string, uint32_t> procedures;
  std::vector<BufferRefT> weight, gradient, x, y, dy, dx; // by chunk
  BufferRefT lr, sum, loss, label;
};

void addCommon(ProgramT &program, const ChunkShape &shape) {
  uint32_t places = shape.stages * shape.chunks;
  program.version = kPlanVersion;
  program.model = std::make_unique<ModelInfoT>();
  program.model->name = "chunks";
  program.model->layers = places;
  program.mesh = std::make_unique<MeshT>();
  for (auto [name, size] : std::initializer_list<std::pair<const char *, uint32_t>>{
           {"dp", shape.dp}, {"pp", shape.stages}, {"tp", 1u}}) {
    program.mesh->axes.push_back(std::make_unique<AxisT>());
    program.mesh->axes.back()->name = name;
    program.mesh->axes.back()->size = size;
  }
  program.stage_axis = 1;
  for (const char *name : {"forward", "loss", "backward", "add_weight", "update", "read_loss"}) {
    program.kernels.push_back(std::make_unique<KernelT>());
    program.kernels.back()->name = name;
  }
  program.origins.push_back(std::make_unique<OriginT>());
  for (const char *name : {"input", "labels"}) {
    auto input = std::make_unique<InputBindingT>();
    input->name = name;
    input->local_shape = {1, int64_t(kChunkFloats)};
    input->batch_axes = {0};
    program.inputs.push_back(std::move(input));
  }
  for (uint32_t place = 0; place < places; ++place) {
    auto source = std::make_unique<SourceTensorT>();
    source->name = "w" + std::to_string(place);
    source->shape = {int64_t(kChunkFloats)};
    program.sources.push_back(std::move(source));
  }
  program.schedule = "by hand";
  program.optimizer = OptimizerKind::Sgd;
  program.micro_batch = 1;
  program.micro_batches = shape.microBatches;
  program.global_batch = shape.microBatches * shape.dp;
}

} // namespace

std::unique_ptr<ProgramT> makeChunkPlan(const ChunkShape &shape) {
  auto program = std::make_unique<ProgramT>();
  addCommon(*program, shape);
  std::vector<StageBuilder> builders;
  for (uint32_t s = 0; s < shape.stages; ++s) {
    program->stages.push_back(std::make_unique<StageT>());
    builders.emplace_back(shape, *program->stages.back(), s);
  }
  Rounds rounds(shape);
  uint32_t places = shape.stages * shape.chunks;
  for (int now = 0; !rounds.allRan(); ++now) {
    std::vector<std::vector<Cargo>> sent(shape.stages), received(shape.stages);
    for (uint32_t s = 0; s < shape.stages; ++s) {
      Rounds::Step step;
      if (!rounds.pick(s, now, step))
        continue;
      builders[s].addStep(step);
      uint32_t place = step.chunk * shape.stages + s;
      uint32_t other = step.pass == F ? place + 1 : place - 1;
      if (step.pass == W || (step.pass == F && other == places) || (step.pass == B && place == 0))
        continue;
      sent[s].push_back({true, step.pass, step.chunk, step.microBatch});
      received[other % shape.stages].push_back(
          {false, step.pass, other / shape.stages, step.microBatch});
    }
    for (uint32_t s = 0; s < shape.stages; ++s) {
      sent[s].insert(sent[s].end(), received[s].begin(), received[s].end());
      builders[s].addExchange(sent[s]);
    }
  }
  for (uint32_t s = 0; s < shape.stages; ++s)
    builders[s].finish();
  updateLiveBytes(*program);
  return program;
}

} // namespace llmc::test
