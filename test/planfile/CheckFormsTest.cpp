// The checkers on messages around an axis, exchanges, flat buffers, states that are cut in their
// own way and permuted inputs, with one planted fault each.
#include "lib/planfile/Check.h"
#include "lib/planfile/Program.h"
#include "test/planfile/PlanBuilder.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <stdexcept>

using namespace llmc;
using namespace llmc::planfile;
using namespace llmc::test;

namespace {

void expectClean(const ProgramT &program) {
  std::vector<Finding> findings = checkAll(program);
  EXPECT_TRUE(findings.empty()) << formatFindings(findings);
}

void expectFound(const ProgramT &program, const std::string &checker, const std::string &words) {
  std::vector<Finding> findings = checkAll(program);
  bool found = std::any_of(findings.begin(), findings.end(), [&](const Finding &finding) {
    return finding.checker == checker && finding.message.find(words) != std::string::npos;
  });
  EXPECT_TRUE(found) << checker + " did not say '" + words + "':\n" + formatFindings(findings);
}

uint32_t axisNamed(const ProgramT &program, const std::string &name) {
  for (uint32_t i = 0; i < program.mesh->axes.size(); ++i)
    if (program.mesh->axes[i]->name == name)
      return i;
  throw std::logic_error("no such axis");
}

StateShardT &stateOf(ProgramT &program, const std::string &name, StateRole role) {
  for (auto &state : program.stages[0]->states)
    if (state->name == name && state->role == role)
      return *state;
  throw std::logic_error("no such state");
}

std::unique_ptr<BufferRefT> ref(uint64_t offset, uint64_t size) {
  auto made = std::make_unique<BufferRefT>();
  made->offset = offset;
  made->size = size;
  return made;
}

// Puts instructions at the end of the update of a plan of one stage.
class Extended {
public:
  explicit Extended(unsigned dp) : program(makePlan({.stages = 1, .dp = dp})) {
    StageT &stage = *program.stages[0];
    a = stage.arena_bytes;
    b = a + 64;
    stage.arena_bytes += 128;
    event = stage.events;
    stage.events += 3;
  }
  template <class BodyT> size_t add(BodyT body, uint8_t stream) {
    auto instruction = std::make_unique<InstructionT>();
    instruction->stream = stream;
    instruction->phase = Phase::Update;
    instruction->body.Set(std::move(body));
    list().push_back(std::move(instruction));
    return list().size() - 1;
  }
  std::vector<std::unique_ptr<InstructionT>> &list() {
    return procedureOf(program, 0, ProcedureKind::Update).instructions;
  }
  void fill() {
    FillT body;
    body.dst = ref(a, 16);
    add(std::move(body), Compute);
  }
  size_t copyBack() {
    CopyT body;
    body.src = ref(b, 16), body.dst = ref(a, 16);
    return add(std::move(body), Compute);
  }
  void record(uint32_t k, uint8_t stream) {
    RecordT body;
    body.event = event + k, body.whole_step = true;
    add(std::move(body), stream);
  }
  size_t wait(uint32_t k, uint8_t stream) {
    WaitT body;
    body.event = event + k, body.whole_step = true;
    return add(std::move(body), stream);
  }
  void erase(size_t index) { list().erase(list().begin() + static_cast<ptrdiff_t>(index)); }

  ProgramT program;
  uint64_t a = 0, b = 0;
  uint32_t event = 0;
};

// One hop of a ring over dp.
struct Ring : Extended {
  Ring() : Extended(4) {
    fill();
    record(0, Compute);
    waits = wait(0, SendStream);
    SendT out;
    out.axis = axisNamed(program, "dp"), out.delta = 1, out.channel = 7, out.wrap = true;
    out.parts.push_back(ref(a, 16));
    send = add(std::move(out), SendStream);
    RecvT in;
    in.axis = axisNamed(program, "dp"), in.delta = -1, in.channel = 7, in.wrap = true;
    in.parts.push_back(ref(b, 16));
    in.grouped = true;
    receive = add(std::move(in), SendStream);
    record(1, SendStream);
    ended = wait(1, Compute);
    copyBack();
    updateLiveBytes(program);
  }
  size_t waits, send, receive, ended;
};

} // namespace

TEST(CheckForms, RingWithinAStage) {
  expectClean(Ring().program);

  Ring otherWay;
  otherWay.list()[otherWay.receive]->body.AsRecv()->delta = 1;
  expectFound(otherWay.program, "collectives", "sends 1 messages to stage 0 on channel 7");
  otherWay.list()[otherWay.receive]->body.AsRecv()->delta = 3; // the same rank
  expectClean(otherWay.program);

  Ring notAround;
  notAround.list()[notAround.send]->body.AsSend()->wrap = false;
  expectFound(notAround.program, "bounds", "wrapping around the axis");

  Ring parts;
  parts.list()[parts.receive]->body.AsRecv()->parts[0]->size = 12;
  expectFound(parts.program, "collectives", "message parts differ");

  // All ranks send, and none receives.
  Ring torn;
  torn.list()[torn.receive]->body.AsRecv()->grouped = false;
  expectFound(torn.program, "launch-order", "which waits for");
}

// Checks that the instructions of a peer do not order those of a rank itself.
TEST(CheckForms, RingOrdersNothingOfOneRank) {
  for (size_t Ring::*wait : {&Ring::waits, &Ring::ended}) {
    Ring ring;
    ring.erase(ring.*wait);
    updateLiveBytes(ring.program);
    std::vector<Finding> findings = checkHappensBefore(ring.program);
    EXPECT_TRUE(!findings.empty());
  }
}

TEST(CheckForms, ExchangeOfEqualParts) {
  auto make = [](uint64_t src, uint64_t dst) {
    Extended made(4);
    made.fill();
    CollectiveT all;
    all.kind = CollectiveKind::AllToAll;
    all.axes = {axisNamed(made.program, "dp")};
    all.count = 1;
    all.src = ref(made.a, src);
    all.dst = ref(made.b, dst);
    made.add(std::move(all), Compute);
    made.copyBack();
    updateLiveBytes(made.program);
    return std::move(made.program);
  };
  expectClean(make(16, 16));
  expectFound(make(16, 12), "bounds", "destination has 12 bytes, 16 are needed");
  expectFound(make(16, 20), "collectives", "needs buffers of 16 and 16 bytes, got 16 and 20");
  expectFound(make(20, 16), "collectives", "all_to_all over dp of 1 elements in a group of 4");
}

TEST(CheckForms, CompanionsHaveTheirOwnSharding) {
  ProgramT program = makePlan({.dp = 2, .exchange = true});
  StateShardT &accumulator = stateOf(program, "v", StateRole::Accumulator);
  accumulator.dims[0]->axes = {axisNamed(program, "dp")};
  accumulator.local_shape[0] = (accumulator.local_shape[0] + 1) / 2;
  expectClean(program);
  --accumulator.global_shape[0];
  expectFound(program, "conservation", "of its elements, which has others");
}

TEST(CheckForms, FlatBuffers) {
  auto make = [] {
    ProgramT program = makePlan({.dp = 2, .exchange = true});
    StageT &stage = *program.stages[0];
    auto group = std::make_unique<FlatGroupT>();
    group->buffer = ref(stage.arena_bytes, 0);
    uint64_t end = 0;
    for (const char *name : {"q", "k", "v"}) {
      StateShardT &state = stateOf(program, name, StateRole::Parameter);
      state.flat = std::make_unique<FlatPartT>();
      state.flat->begin = end;
      BufferRefT from = *state.buffer, to = from;
      to.offset = stage.arena_bytes;
      stage.arena_bytes += to.size;
      moveBuffer(program, 0, from, to);
      end += from.size / 4;
    }
    group->length = end;
    group->buffer->size = end * 4;
    for (const char *name : {"q", "k", "v"})
      stateOf(program, name, StateRole::Parameter).buffer =
          std::make_unique<BufferRefT>(*group->buffer);
    stage.flat_groups.push_back(std::move(group));
    updateLiveBytes(program);
    return program;
  };
  expectClean(make());
  ProgramT program = make();
  ++stateOf(program, "k", StateRole::Parameter).flat->begin;
  expectFound(program, "conservation", "state 'k' begins at element");
  program = make();
  --stateOf(program, "k", StateRole::Parameter).flat->begin;
  expectFound(program, "conservation", "where the tensors before it end");
  program = make();
  ++program.stages[0]->flat_groups[0]->length;
  expectFound(program, "bounds", "flat group 0: buffer has");
  program = make();
  --program.stages[0]->flat_groups[0]->length;
  expectFound(program, "bounds", "flat group 0: has");
  // Another state's bytes.
  program = make();
  uint64_t taken = stateOf(program, "q", StateRole::Accumulator).buffer->offset;
  program.stages[0]->flat_groups[0]->buffer->offset = taken;
  for (const char *name : {"q", "k", "v"})
    stateOf(program, name, StateRole::Parameter).buffer->offset = taken;
  expectFound(program, "memory", "flat group 0");
}

// Two tensors of which each rank over dp has one, in the same bytes.
TEST(CheckForms, StatesOfSomeRanks) {
  auto make = [](uint32_t at) {
    ProgramT program = makePlan({.dp = 2, .exchange = true});
    uint32_t place = 0;
    for (const char *name : {"q", "k"})
      for (auto &state : program.stages[0]->states)
        if (state->name == name) {
          state->only_axes = {axisNamed(program, "dp")};
          state->only_at = name[0] == 'q' ? 0 : at;
          place += 1;
        }
    EXPECT_TRUE(place >= 4);
    StateShardT &q = stateOf(program, "q", StateRole::Parameter);
    stateOf(program, "k", StateRole::Parameter).buffer = std::make_unique<BufferRefT>(*q.buffer);
    return program;
  };
  auto overlaps = [](const ProgramT &program) {
    std::vector<Finding> findings = checkMemory(program);
    return std::any_of(findings.begin(), findings.end(), [](const Finding &finding) {
      return finding.message.find("parameter 'q'") != std::string::npos ||
             finding.message.find("parameter 'k'") != std::string::npos;
    });
  };
  EXPECT_TRUE(!overlaps(make(1)));
  EXPECT_TRUE(overlaps(make(0))); // both on the same ranks
}

TEST(CheckForms, PermutedInputs) {
  ProgramT program = makePlan({.dp = 2, .exchange = true});
  auto input = std::make_unique<InputBindingT>();
  input->name = "zig";
  input->dtype = DType::I64;
  input->local_shape = {program.global_batch / program.micro_batches / 2, 8};
  input->batch_axes = {axisNamed(program, "dp")};
  input->permuted_dim = 1;
  input->block_order = {0, 3, 1, 2};
  program.inputs.push_back(std::move(input));
  expectClean(program);
  program.inputs.back()->block_order = {0, 3, 1, 1};
  expectFound(program, "conservation", "block 1 of dim 1 of input 'zig' is fed 2 times");
  expectFound(program, "conservation", "block 2 of dim 1 of input 'zig' is fed 0 times");
}
