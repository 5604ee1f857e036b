#include "test/planfile/PlanBuilder.h"

#include "lib/planfile/Check.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <vector>

using namespace llmc::planfile;

namespace llmc::test {
namespace {

constexpr uint64_t kTensor = 64; // bytes of x, y and a parameter: 16 floats

enum KernelIndex : uint32_t { Step, Loss, Norm, Sgd, MatmulFallback };
enum OriginIndex : uint32_t { Layer, Border, Gradient, TiedGradient, Clip };

std::unique_ptr<BufferRefT> copyOf(const BufferRefT &buffer) {
  return std::make_unique<BufferRefT>(buffer);
}

struct Use {
  BufferRefT buffer;
  Access access;
};

// One stage under construction.
class StageBuilder {
public:
  StageBuilder(ProgramT &program, const PlanShape &shape, unsigned index)
      : shape(shape), stage(*program.stages[index]), index(index),
        first(index == 0), last(index + 1 == shape.stages) {}

  void build() {
    slots = shape.gpipe ? shape.microBatches
                        : std::min(shape.microBatches, shape.stages - index);
    stage.pools.push_back(std::make_unique<PoolT>());
    stage.pools.back()->slots = slots;
    stage.streams = 4;
    stage.events = EventCount;
    stage.chunks.push_back(std::make_unique<ChunkT>());
    stage.chunks.back()->first_layer = stage.chunks.back()->last_layer = static_cast<int>(index);
    addStates();
    addBuffers();
    begin();
    forward();
    backward(ProcedureKind::Backward);
    backward(ProcedureKind::BackwardLast);
    update();
    if (shape.exchange)
      scheduleExchanges();
    else
      schedule();
    stage.arena_bytes = top;
  }

  std::map<std::string, BufferRefT> buffers;

private:
  BufferRefT allocate(const std::string &name, uint64_t bytes, bool slotted) {
    BufferRefT buffer;
    buffer.offset = top;
    buffer.size = bytes;
    buffer.slot_stride = slotted ? bytes : 0;
    top += slotted ? bytes * slots : bytes;
    buffers[name] = buffer;
    return buffer;
  }

  void addState(const std::string &name, StateRole role, std::vector<int64_t> shape,
                bool owner, const ViewT *view) {
    auto state = std::make_unique<StateShardT>();
    state->name = name;
    state->role = role;
    state->global_shape = state->local_shape = shape;
    uint64_t elements = 1;
    for (int64_t dim : shape) {
      state->dims.push_back(std::make_unique<DimShardingT>());
      elements *= static_cast<uint64_t>(dim);
    }
    if (view)
      state->view = std::make_unique<ViewT>(*view);
    state->owner = owner;
    state->buffer = copyOf(allocate(name + (role == StateRole::Parameter ? "" : ".grad"),
                                    elements * 4, false));
    stage.states.push_back(std::move(state));
  }

  void addParameter(const std::string &name, uint32_t source, std::vector<int64_t> shape,
                    int64_t offset, std::vector<int64_t> strides, bool owner = true) {
    ViewT view;
    view.source = source;
    view.offset = offset;
    view.strides = strides;
    addState(name, StateRole::Parameter, shape, owner, &view);
    addState(name, StateRole::Accumulator, shape, owner, &view);
    parameters.push_back(name);
  }

  void addStates() {
    if (first) {
      addParameter("q", 0, {4, 4}, 0, {12, 1});
      addParameter("k", 0, {4, 4}, 4, {12, 1});
      addParameter("v", 0, {4, 4}, 8, {12, 1});
    } else {
      addParameter("w" + std::to_string(index), index + 1, {4, 4}, 0, {1, 4});
    }
    if (first || last)
      addParameter("emb", 1, {8, 2}, 0, {2, 1}, /*owner=*/first);
    if (last)
      addState("loss.sum", StateRole::Accumulator, {}, true, nullptr);
    auto lr = std::make_unique<HostScalarT>();
    lr->name = "lr";
    lr->buffer = copyOf(allocate("lr", 4, false));
    stage.host_scalars.push_back(std::move(lr));
  }

  void addBuffers() {
    allocate("norm", 4, false);
    if (last) {
      auto loss = std::make_unique<StepOutputT>();
      loss->name = "loss";
      loss->buffer = copyOf(allocate("loss", 4, false));
      stage.outputs.push_back(std::move(loss));
      allocate("labels", 32, true);
    }
    allocate("x", kTensor, true);
    allocate("y", kTensor, true);
    for (unsigned i = 1; i < shape.launches; ++i)
      allocate("h" + std::to_string(i - 1), kTensor, true);
    if (!last)
      allocate("dy", kTensor, true);
    if (!first)
      allocate("dx", kTensor, true);
  }

  ProcedureT &addProcedure(const std::string &name, ProcedureKind kind) {
    stage.procedures.push_back(std::make_unique<ProcedureT>());
    procedure = stage.procedures.back().get();
    procedure->name = name;
    procedure->kind = kind;
    phase = kind == ProcedureKind::Update    ? Phase::Update
            : kind == ProcedureKind::Forward ? Phase::Forward
                                             : Phase::Backward;
    return *procedure;
  }

  template <class T>
  void emit(Stream stream, uint32_t origin, T body) {
    auto inst = std::make_unique<InstructionT>();
    inst->stream = stream;
    inst->phase = phase;
    inst->origin = origin;
    inst->body.Set(std::move(body));
    procedure->instructions.push_back(std::move(inst));
  }

  void launch(uint32_t kernel, const std::vector<Use> &uses) {
    LaunchT body;
    body.kernel = kernel;
    body.rows = 4;
    for (const Use &use : uses) {
      auto operand = std::make_unique<OperandT>();
      operand->buffer = copyOf(use.buffer);
      operand->access = use.access;
      body.operands.push_back(std::move(operand));
    }
    emit(Compute, kernel == Norm || kernel == Sgd ? Clip : Layer, std::move(body));
  }

  void record(Stream stream, Event event, bool wholeStep = false, uint8_t lane = 0) {
    RecordT body;
    body.lane = lane;
    body.event = event;
    body.whole_step = wholeStep;
    emit(stream, Border, body);
  }

  void wait(Stream stream, Event event, bool wholeStep = false, uint8_t lane = 0) {
    WaitT body;
    body.lane = lane;
    body.event = event;
    body.whole_step = wholeStep;
    emit(stream, Border, body);
  }

  void feed(uint32_t input, const std::string &name) {
    FeedT body;
    body.input = input;
    body.dst = copyOf(buffers[name]);
    emit(Compute, Layer, std::move(body));
  }

  // On the send stream, after what stream 0 has done.
  void send(const std::string &name, int delta, Event ready, Event sent) {
    record(Compute, ready);
    if (shape.exchange)
      return;
    wait(SendStream, ready);
    SendT body;
    body.axis = 1;
    body.delta = delta;
    body.channel = delta > 0 ? 0 : 1;
    body.parts.push_back(copyOf(buffers[name]));
    emit(SendStream, Border, std::move(body));
    record(SendStream, sent);
  }

  // On the receive stream; stream 0 goes on when the message is there.
  void receive(const std::string &name, int delta, Event free, Event ready) {
    if (shape.exchange)
      return wait(Compute, ready);
    wait(RecvStream, free);
    RecvT body;
    body.axis = 1;
    body.delta = delta;
    body.channel = delta < 0 ? 0 : 1;
    body.parts.push_back(copyOf(buffers[name]));
    emit(RecvStream, Border, std::move(body));
    record(RecvStream, ready);
    wait(Compute, ready);
  }

  void allReduce(const std::string &name, uint32_t origin, std::vector<uint32_t> axes,
                 std::vector<uint32_t> members = {}) {
    CollectiveT body;
    body.axes = std::move(axes);
    body.members = std::move(members);
    body.src = copyOf(buffers[name]);
    body.dst = copyOf(buffers[name]);
    body.count = buffers[name].size / 4;
    emit(Reduce, origin, std::move(body));
  }

  void begin() {
    addProcedure("begin", ProcedureKind::Begin);
    for (const auto &state : stage.states) {
      if (state->role != StateRole::Accumulator)
        continue;
      FillT body;
      body.dst = copyOf(*state->buffer);
      emit(Compute, Layer, std::move(body));
    }
  }

  void forward() {
    addProcedure("forward", ProcedureKind::Forward);
    if (first)
      feed(0, "x");
    else
      receive("x", -1, XFree, XReady);
    if (!last)
      wait(Compute, YSent);
    std::vector<Use> uses = {{buffers["x"], Access::Read}};
    for (const std::string &name : parameters)
      uses.push_back({buffers[name], Access::Read});
    for (unsigned i = 1; i < shape.launches; ++i) {
      std::vector<Use> inner = uses;
      inner.push_back({buffers["h" + std::to_string(i - 1)], Access::Write});
      launch(Step, inner);
      uses.front().buffer = buffers["h" + std::to_string(i - 1)];
    }
    uses.push_back({buffers["y"], Access::Write});
    launch(Step, uses);
    if (last) {
      feed(1, "labels");
      launch(Loss, {{buffers["y"], Access::Read},
                    {buffers["labels"], Access::Read},
                    {buffers["loss.sum.grad"], Access::ReadWrite}});
    } else {
      send("y", 1, YReady, YSent);
    }
  }

  void backward(ProcedureKind kind) {
    addProcedure(kind == ProcedureKind::Backward ? "backward" : "backward_last", kind);
    if (!last)
      receive("dy", 1, DyFree, DyReady);
    if (!first)
      wait(Compute, DxSent);
    std::vector<Use> uses = {{buffers["x"], Access::Read},
                             {buffers["y"], Access::Read},
                             {buffers[last ? "labels" : "dy"], Access::Read}};
    for (unsigned i = 1; i < std::min(shape.launches, 9u); ++i)
      uses.push_back({buffers["h" + std::to_string(i - 1)], Access::Read});
    for (const std::string &name : parameters)
      uses.push_back({buffers[name + ".grad"], Access::ReadWrite});
    launch(Step, uses);
    if (!first)
      multiply();
    if (!last)
      record(Compute, DyFree);
    if (!first) {
      record(Compute, XFree);
      send("dx", -1, DxReady, DxSent);
    }
    if (kind == ProcedureKind::BackwardLast) {
      record(Compute, GradsReady, true);
      wait(Reduce, GradsReady, true);
      for (const std::string &name : parameters)
        allReduce(name + ".grad", Gradient, {0});
      record(Reduce, GradsReduced, true);
    }
  }

  // dx = x * W^T, as a library call.
  void multiply() {
    MatmulT body;
    body.batch = 1;
    body.m = body.n = body.k = 4;
    body.a = copyOf(buffers["x"]);
    body.b = copyOf(buffers[parameters[0]]);
    body.c = copyOf(buffers["dx"]);
    body.a_strides = {16, 4, 1};
    body.b_strides = {16, 1, 4};
    body.c_strides = {16, 4, 1};
    body.fallback = MatmulFallback;
    emit(Compute, Layer, std::move(body));
  }

  void update() {
    addProcedure("update", ProcedureKind::Update);
    wait(Compute, GradsReduced, true);
    std::vector<Use> norm, sgd = {{buffers["lr"], Access::Read}, {buffers["norm"], Access::Read}};
    for (const std::string &name : parameters) {
      norm.push_back({buffers[name + ".grad"], Access::Read});
      sgd.push_back({buffers[name + ".grad"], Access::Read});
      sgd.push_back({buffers[name], Access::ReadWrite});
    }
    norm.push_back({buffers["norm"], Access::Write});
    launch(Norm, norm);
    record(Compute, NormReady, true);
    wait(Reduce, NormReady, true);
    if (shape.stages > 1 && (first || last))
      allReduce("emb.grad", TiedGradient, {1}, {0, shape.stages - 1});
    allReduce("norm", Clip, {0, 1});
    record(Reduce, NormReduced, true);
    wait(Compute, NormReduced, true);
    launch(Sgd, sgd);
    if (last)
      launch(Loss, {{buffers["loss.sum.grad"], Access::Read}, {buffers["loss"], Access::Write}});
  }

  // One row with a message of a micro-batch, or a send and the receive that follows it.
  struct Cargo {
    const char *name; // "x" and "dy" are received, "y" and "dx" sent
    unsigned microBatch;
  };
  void exchange(std::vector<Cargo> cargo) {
    std::erase_if(cargo, [&](const Cargo &one) { return !buffersToMove.count(one.name); });
    if (cargo.empty())
      return;
    std::string name = "exchange";
    for (const Cargo &one : cargo)
      name += std::string("_") + one.name;
    auto known = std::find_if(stage.procedures.begin(), stage.procedures.end(),
                              [&](const auto &p) { return p->name == name; });
    auto index = static_cast<uint32_t>(known - stage.procedures.begin());
    if (known == stage.procedures.end())
      buildExchange(name, cargo);
    auto entry = std::make_unique<EntryT>();
    entry->procedure = index;
    entry->micro_batch = cargo[0].microBatch;
    entry->slot = cargo[0].microBatch % slots;
    if (cargo.size() > 1)
      entry->more.push_back(SlotRef(0, cargo[1].microBatch, cargo[1].microBatch % slots));
    stage.table.push_back(std::move(entry));
  }

  void buildExchange(const std::string &name, const std::vector<Cargo> &cargo) {
    struct Crossing {
      Event before, after;
      bool sends;
      int delta;
    };
    static const std::map<std::string, Crossing> borders = {
        {"x", {XFree, XReady, false, -1}},
        {"y", {YReady, YSent, true, 1}},
        {"dy", {DyFree, DyReady, false, 1}},
        {"dx", {DxReady, DxSent, true, -1}}};
    addProcedure(name, ProcedureKind::Exchange);
    for (uint8_t lane = 0; lane < cargo.size(); ++lane)
      wait(SendStream, borders.at(cargo[lane].name).before, false, lane);
    for (uint8_t lane = 0; lane < cargo.size(); ++lane) {
      const Crossing &border = borders.at(cargo[lane].name);
      auto fill = [&](auto body) {
        bool forward = border.sends == (border.delta > 0);
        phase = forward ? Phase::Forward : Phase::Backward;
        body.axis = 1;
        body.delta = border.delta;
        body.channel = forward ? 0 : 1;
        body.grouped = lane > 0;
        body.parts.push_back(copyOf(buffers[cargo[lane].name]));
        body.parts[0]->lane = lane;
        emit(SendStream, OriginIndex::Border, std::move(body));
      };
      border.sends ? fill(SendT()) : fill(RecvT());
    }
    for (uint8_t lane = 0; lane < cargo.size(); ++lane)
      record(SendStream, borders.at(cargo[lane].name).after, false, lane);
  }

  // Megatron's order: forwards to fill the pipeline, then one of each, then the rest.
  void scheduleExchanges() {
    for (const char *name : {"x", "dx"})
      if (!first)
        buffersToMove.insert(name);
    for (const char *name : {"y", "dy"})
      if (!last)
        buffersToMove.insert(name);
    unsigned m = shape.microBatches;
    unsigned ahead = shape.gpipe ? m : std::min(m, shape.stages - index - 1);
    auto forward = [&](unsigned i) { row(ProcedureKind::Forward, i, i % slots); };
    auto backward = [&](unsigned i) {
      row(i + 1 == m ? ProcedureKind::BackwardLast : ProcedureKind::Backward, i, i % slots);
    };
    row(ProcedureKind::Begin, 0, 0);
    for (unsigned i = 0; i < ahead; ++i) {
      exchange({{"x", i}});
      forward(i);
      exchange({{"y", i}});
    }
    if (ahead < m)
      exchange({{"x", ahead}});
    for (unsigned i = 0; i + ahead < m; ++i) {
      forward(ahead + i);
      exchange({{"y", ahead + i}, {"dy", i}});
      backward(i);
      if (i + ahead + 1 < m)
        exchange({{"dx", i}, {"x", ahead + i + 1}});
      else
        exchange({{"dx", i}});
    }
    for (unsigned i = m - ahead; i < m; ++i) {
      exchange({{"dy", i}});
      backward(i);
      exchange({{"dx", i}});
    }
    row(ProcedureKind::Update, 0, 0);
  }

  void row(ProcedureKind kind, unsigned microBatch, unsigned slot) {
    auto entry = std::make_unique<EntryT>();
    for (size_t p = 0; p < stage.procedures.size(); ++p)
      if (stage.procedures[p]->kind == kind)
        entry->procedure = static_cast<uint32_t>(p);
    entry->micro_batch = microBatch;
    entry->slot = slot;
    stage.table.push_back(std::move(entry));
  }

  void schedule() {
    unsigned m = shape.microBatches;
    unsigned ahead = shape.gpipe ? m : std::min(m, shape.stages - index);
    row(ProcedureKind::Begin, 0, 0);
    for (unsigned f = 0; f < ahead; ++f)
      row(ProcedureKind::Forward, f, f % slots);
    for (unsigned b = 0; b < m; ++b) {
      row(b + 1 == m ? ProcedureKind::BackwardLast : ProcedureKind::Backward, b,
          b % slots);
      if (b + ahead < m)
        row(ProcedureKind::Forward, b + ahead, (b + ahead) % slots);
    }
    row(ProcedureKind::Update, 0, 0);
  }

  const PlanShape &shape;
  StageT &stage;
  unsigned index;
  uint32_t slots = 1;
  bool first, last;
  uint64_t top = 0;
  std::vector<std::string> parameters;
  std::set<std::string> buffersToMove; // over a border of the stage
  ProcedureT *procedure = nullptr;
  Phase phase = Phase::Forward;
};

void addSource(ProgramT &program, const std::string &name, std::vector<int64_t> shape) {
  auto source = std::make_unique<SourceTensorT>();
  source->name = name;
  source->shape = std::move(shape);
  program.sources.push_back(std::move(source));
}

void addInput(ProgramT &program, const std::string &name, DType dtype, int64_t columns) {
  auto input = std::make_unique<InputBindingT>();
  input->name = name;
  input->dtype = dtype;
  input->local_shape = {1, columns};
  input->batch_axes = {0};
  program.inputs.push_back(std::move(input));
}

void addCommon(ProgramT &program, const PlanShape &shape) {
  program.model = std::make_unique<ModelInfoT>();
  program.model->name = "toy";
  program.model->layers = shape.stages;
  program.model->blocks = {"linear x" + std::to_string(shape.stages)};
  program.mesh = std::make_unique<MeshT>();
  for (auto [name, size] : std::initializer_list<std::pair<const char *, uint32_t>>{
           {"dp", shape.dp}, {"pp", shape.stages}, {"tp", 1u}}) {
    auto axis = std::make_unique<AxisT>();
    axis->name = name;
    axis->size = size;
    program.mesh->axes.push_back(std::move(axis));
  }
  program.stage_axis = 1;
  for (const char *name : {"step", "loss", "norm", "sgd", "matmul"}) {
    program.kernels.push_back(std::make_unique<KernelT>());
    program.kernels.back()->name = name;
  }
  const char *const origins[][3] = {{"graph.matmul", "layer", ""},
                                    {"graph.repeat", "layer", "stages"},
                                    {"graph.add", "weight", "data"},
                                    {"graph.add", "emb", "stages"},
                                    {"clip", "", ""}};
  for (const auto &[op, node, tactic] : origins) {
    auto origin = std::make_unique<OriginT>();
    origin->op = op;
    if (*node)
      origin->nodes = {node};
    origin->tactic = tactic;
    program.origins.push_back(std::move(origin));
  }
  addInput(program, "input", DType::F32, 16);
  addInput(program, "labels", DType::I64, 4);
  addSource(program, "qkv", {4, 12});
  addSource(program, "emb", {8, 2});
  for (unsigned s = 1; s < shape.stages; ++s)
    addSource(program, "w" + std::to_string(s), {4, 4});
  program.schedule = shape.gpipe ? "gpipe" : "1f1b";
  program.optimizer = OptimizerKind::Sgd;
  program.micro_batch = 1;
  program.micro_batches = shape.microBatches;
  program.global_batch = shape.microBatches * shape.dp;
}

} // namespace

ProgramT makePlan(const PlanShape &shape) {
  ProgramT program;
  addCommon(program, shape);
  for (unsigned s = 0; s < shape.stages; ++s)
    program.stages.push_back(std::make_unique<StageT>());
  for (unsigned s = 0; s < shape.stages; ++s)
    StageBuilder(program, shape, s).build();
  updateLiveBytes(program);
  return program;
}

// Drops all but the forward and what it reads.
static void keepForward(StageT &stage, bool last) {
  std::erase_if(stage.procedures,
                [](const auto &p) { return p->kind != ProcedureKind::Forward; });
  ProcedureT &forward = *stage.procedures.front();
  if (last) // labels and their loss
    forward.instructions.resize(forward.instructions.size() - 2);
  std::erase_if(stage.table, [](const auto &) { return true; });
  stage.table.push_back(std::make_unique<EntryT>());
  std::erase_if(stage.states, [](const auto &s) { return s->role != StateRole::Parameter; });
  stage.host_scalars.clear();
  stage.outputs.clear();
  stage.pools.front()->slots = 1;
}

ProgramT makeInferencePlan(unsigned stages, unsigned dp) {
  PlanShape shape;
  shape.stages = stages;
  shape.microBatches = 1;
  shape.dp = dp;
  ProgramT program = makePlan(shape);
  program.mode = Mode::Infer;
  program.optimizer = OptimizerKind::None;
  program.inputs.resize(1);
  InputBindingT &input = *program.inputs.front();
  input.global_shape = input.local_shape;
  input.global_shape.front() *= dp;
  program.global_batch = program.micro_batch * dp;
  for (unsigned s = 0; s < stages; ++s) {
    StageT &stage = *program.stages[s];
    BufferRefT y = bufferOf(program, s, "y");
    keepForward(stage, s + 1 == stages);
    auto result = std::make_unique<OutputBindingT>();
    result->name = "y" + std::to_string(s);
    result->local_shape = {static_cast<int64_t>(kTensor / 4)};
    result->global_shape = {static_cast<int64_t>(kTensor / 4 * dp)};
    result->dims.push_back(std::make_unique<DimShardingT>());
    result->dims.front()->axes = {0};
    result->buffer = copyOf(y);
    result->buffer->slot_stride = 0;
    stage.results.push_back(std::move(result));
    if (s == 0)
      continue;
    auto free = std::make_unique<InstructionT>(); // what has been read may arrive again
    RecordT body;
    body.event = XFree;
    free->body.Set(body);
    stage.procedures.front()->instructions.push_back(std::move(free));
  }
  updateLiveBytes(program);
  return program;
}

ProcedureT &procedureOf(ProgramT &program, unsigned stage, ProcedureKind kind) {
  for (auto &procedure : program.stages[stage]->procedures)
    if (procedure->kind == kind)
      return *procedure;
  throw std::logic_error("no such procedure");
}

BufferRefT bufferOf(const ProgramT &program, unsigned stage, const std::string &name) {
  ProgramT &p = const_cast<ProgramT &>(program);
  auto find = [&](ProcedureKind kind, Body type, size_t nth) -> const BodyUnion & {
    for (auto &inst : procedureOf(p, stage, kind).instructions)
      if (inst->body.type == type && nth-- == 0)
        return inst->body;
    throw std::logic_error("no such instruction");
  };
  bool first = stage == 0;
  if (name == "x")
    return first ? *find(ProcedureKind::Forward, Body::Feed, 0).AsFeed()->dst
                 : *find(ProcedureKind::Forward, Body::Recv, 0).AsRecv()->parts[0];
  if (name == "y")
    return *find(ProcedureKind::Backward, Body::Launch, 0).AsLaunch()->operands[1]->buffer;
  if (name == "dy")
    return *find(ProcedureKind::Backward, Body::Recv, 0).AsRecv()->parts[0];
  if (name == "dx")
    return *find(ProcedureKind::Backward, Body::Send, 0).AsSend()->parts[0];
  if (name == "norm")
    return *find(ProcedureKind::Update, Body::Launch, 0).AsLaunch()->operands.back()->buffer;
  throw std::logic_error("no such buffer");
}

std::unique_ptr<BufferRefT> bytesAt(uint64_t offset, uint64_t size) {
  auto made = std::make_unique<BufferRefT>();
  made->offset = offset;
  made->size = size;
  return made;
}

void forEachRef(InstructionT &inst, const std::function<void(BufferRefT &)> &visit) {
  BodyUnion &body = inst.body;
  if (auto *launch = body.AsLaunch())
    for (auto &operand : launch->operands)
      visit(*operand->buffer);
  if (auto *matmul = body.AsMatmul())
    for (auto *ref : {matmul->a.get(), matmul->b.get(), matmul->c.get()})
      visit(*ref);
  if (auto *collective = body.AsCollective())
    for (auto *ref : {collective->src.get(), collective->dst.get()})
      visit(*ref);
  if (auto *send = body.AsSend())
    for (auto &part : send->parts)
      visit(*part);
  if (auto *recv = body.AsRecv())
    for (auto &part : recv->parts)
      visit(*part);
  if (auto *feed = body.AsFeed())
    visit(*feed->dst);
  if (auto *fill = body.AsFill())
    visit(*fill->dst);
}

void moveBuffer(ProgramT &program, unsigned stage, const BufferRefT &from, const BufferRefT &to) {
  for (auto &procedure : program.stages[stage]->procedures)
    for (auto &inst : procedure->instructions)
      forEachRef(*inst, [&](BufferRefT &ref) {
        if (ref.offset == from.offset && ref.size == from.size)
          ref = to;
      });
}

} // namespace llmc::test
