// The checkers on correct plans, and on plans with one planted fault each.
#include "lib/planfile/Check.h"
#include "lib/planfile/Program.h"
#include "test/planfile/PlanBuilder.h"

#include <algorithm>
#include <chrono>
#include <gtest/gtest.h>
#include <set>

using namespace llmc;
using namespace llmc::planfile;
using namespace llmc::test;

namespace {

const PlanShape kOneForwardOneBackward = {};
const PlanShape kGPipe = {.gpipe = true};
const std::vector<PlanShape> kShapes = {kOneForwardOneBackward,
                                        kGPipe,
                                        {.stages = 1},
                                        {.stages = 4, .microBatches = 8, .dp = 1, .launches = 3},
                                        {.gpipe = true, .stages = 3, .microBatches = 5},
                                        {.stages = 3, .microBatches = 1}};

std::set<std::string> checkersOf(const std::vector<Finding> &findings) {
  std::set<std::string> names;
  for (const Finding &finding : findings)
    names.insert(finding.checker);
  return names;
}

// The fault must be found by `checker`, with a message that has `words`.
void expectFound(const ProgramT &program, const std::string &checker, const std::string &words) {
  std::vector<Finding> findings = checkAll(program);
  bool found = std::any_of(findings.begin(), findings.end(), [&](const Finding &finding) {
    return finding.checker == checker && finding.message.find(words) != std::string::npos;
  });
  EXPECT_TRUE(found) << checker + " did not say '" + words + "':\n" + formatFindings(findings);
}

size_t findInstruction(const ProcedureT &procedure, Body type, size_t nth = 0) {
  for (size_t i = 0; i < procedure.instructions.size(); ++i)
    if (procedure.instructions[i]->body.type == type && nth-- == 0)
      return i;
  throw std::logic_error("no such instruction");
}

void erase(ProcedureT &procedure, size_t index) {
  procedure.instructions.erase(procedure.instructions.begin() + static_cast<ptrdiff_t>(index));
}

void moveTo(ProcedureT &procedure, size_t from, size_t to) {
  auto inst = std::move(procedure.instructions[from]);
  erase(procedure, from);
  procedure.instructions.insert(procedure.instructions.begin() + static_cast<ptrdiff_t>(to),
                                std::move(inst));
}

void shrinkSlots(ProgramT &program, unsigned stage) {
  StageT &s = *program.stages[stage];
  uint32_t slots = --s.pools.front()->slots;
  for (auto &entry : s.table)
    if (s.procedures[entry->procedure]->kind != ProcedureKind::Update &&
        s.procedures[entry->procedure]->kind != ProcedureKind::Begin)
      entry->slot = entry->micro_batch % slots;
  updateLiveBytes(program);
}

StateShardT &stateOf(ProgramT &program, unsigned stage, const std::string &name, StateRole role) {
  for (auto &state : program.stages[stage]->states)
    if (state->name == name && state->role == role)
      return *state;
  throw std::logic_error("no such state");
}

} // namespace

TEST(CheckPlan, CorrectPlansPass) {
  for (PlanShape shape : kShapes) {
    if (shape.gpipe || shape.stages == 1 || shape.microBatches == 1)
      EXPECT_EQ(formatFindings(checkAll(makePlan(shape))), "");
    shape.exchange = true;
    EXPECT_EQ(formatFindings(checkAll(makePlan(shape))), "");
  }
}

// Messages inside of forward and backward: each stage issues its send before the receive
// that its neighbour's send waits for.
TEST(CheckPlan, MessagesInsideOfPassesHangADevice) {
  for (PlanShape shape : kShapes) {
    if (shape.gpipe || shape.stages == 1 || shape.microBatches == 1)
      continue;
    std::vector<Finding> findings = checkAll(makePlan(shape));
    EXPECT_EQ(checkersOf(findings) == std::set<std::string>{"launch-order"}, true);
    EXPECT_EQ(findings.size(), 1u);
    EXPECT_TRUE(formatFindings(findings).find("orders that form a cycle") != std::string::npos)
        << formatFindings(findings);
  }
  expectFound(makePlan(kOneForwardOneBackward), "launch-order",
              "stage 0 send F1 to stage 1 (forward");
  expectFound(makePlan(kOneForwardOneBackward), "launch-order",
              "which waits for stage 1 send B0 to stage 0 (backward");
}

// --- happens-before ---

TEST(CheckPlan, SlotsShrunkByOne) {
  for (const PlanShape &shape : kShapes) {
    ProgramT correct = makePlan(shape);
    for (unsigned s = 0; s < shape.stages; ++s) {
      if (correct.stages[s]->pools.front()->slots < 2)
        continue;
      ProgramT program = makePlan(shape);
      shrinkSlots(program, s);
      expectFound(program, "happens-before", "belongs to another micro-batch");
      expectFound(program, "conservation", "still holds micro-batch");
    }
  }
}

// A stage whose memory was planned for one slot has no slot strides; its second
// micro-batch is caught all the same.
TEST(CheckPlan, SlotsShrunkBeforeMemoryPlanning) {
  ProgramT program = makePlan(kOneForwardOneBackward);
  for (const char *name : {"x", "y", "dy"}) {
    BufferRefT from = bufferOf(program, 0, name), to = from;
    to.slot_stride = 0;
    moveBuffer(program, 0, from, to);
  }
  shrinkSlots(program, 0);
  expectFound(program, "happens-before", "belongs to another micro-batch");
}

// Every wait is removed in turn. It must be missed, or be one whose order also
// follows another way, known from the schedule and listed here.
TEST(CheckPlan, EachWaitRemoved) {
  struct Redundant {
    unsigned stage;
    ProcedureKind kind;
    uint32_t event;
  };
  auto run = [](const PlanShape &shape, const std::vector<Redundant> &redundant) {
    ProgramT correct = makePlan(shape);
    for (unsigned s = 0; s < shape.stages; ++s)
      for (const auto &procedure : correct.stages[s]->procedures)
        for (size_t i = 0; i < procedure->instructions.size(); ++i) {
          const WaitT *wait = procedure->instructions[i]->body.AsWait();
          if (!wait)
            continue;
          ProgramT program = makePlan(shape);
          erase(procedureOf(program, s, procedure->kind), i);
          bool missed = !checkHappensBefore(program).empty();
          bool expected = std::none_of(redundant.begin(), redundant.end(), [&](const Redundant &r) {
            return r.stage == s && r.kind == procedure->kind && r.event == wait->event;
          });
          EXPECT_TRUE(missed == expected)
              << "wait for event " + std::to_string(wait->event) + " of stage " +
                     std::to_string(s) + " " + procedure->name +
                     (missed ? " is missed, expected redundant" : " is not missed");
        }
  };
  using enum ProcedureKind;
  // Stage 0 reuses a slot only after the gradient of its former micro-batch came
  // back and was used: so its activation has been taken, its buffers are free.
  run(kOneForwardOneBackward,
      {{0, Forward, YSent}, {0, Backward, DyFree}, {0, BackwardLast, DyFree}});
  // A slot a micro-batch: only the next step reuses one, and the update joins all stages.
  run(kGPipe, {{0, Forward, YSent},
               {0, Backward, DyFree},
               {0, BackwardLast, DyFree},
               {1, Forward, XFree},
               {1, Backward, DxSent},
               {1, BackwardLast, DxSent}});
}

TEST(CheckPlan, RecordMoved) {
  // Before the launch whose result it announces.
  ProgramT program = makePlan(kOneForwardOneBackward);
  ProcedureT &forward = procedureOf(program, 0, ProcedureKind::Forward);
  moveTo(forward, findInstruction(forward, Body::Record),
         findInstruction(forward, Body::Launch));
  expectFound(program, "happens-before", "with nothing that orders the two");

  // Before the reduction that the update waits for.
  program = makePlan(kOneForwardOneBackward);
  ProcedureT &last = procedureOf(program, 1, ProcedureKind::BackwardLast);
  moveTo(last, last.instructions.size() - 1, findInstruction(last, Body::Collective));
  expectFound(program, "happens-before", "all_reduce over dp");
}

TEST(CheckPlan, OverlappingBuffers) {
  for (const PlanShape &shape : {kOneForwardOneBackward, kGPipe}) {
    // The gradient arrives over the second half of an activation.
    ProgramT program = makePlan(shape);
    BufferRefT dy = bufferOf(program, 0, "dy"), to = bufferOf(program, 0, "y");
    to.offset += 32;
    moveBuffer(program, 0, dy, to);
    updateLiveBytes(program);
    expectFound(program, "happens-before", "partly overwritten");

    // The message buffer in both directions is one.
    program = makePlan(shape);
    moveBuffer(program, 1, bufferOf(program, 1, "dx"), bufferOf(program, 1, "x"));
    updateLiveBytes(program);
    expectFound(program, "memory", "writes operand");

    // An activation over a parameter.
    program = makePlan(shape);
    to = *stateOf(program, 0, "k", StateRole::Parameter).buffer;
    to.slot_stride = bufferOf(program, 0, "y").slot_stride;
    moveBuffer(program, 0, bufferOf(program, 0, "y"), to);
    updateLiveBytes(program);
    expectFound(program, "conservation", "writes into parameter");
  }
}

// The second step overwrites what the first still reads.
TEST(CheckPlan, NextStepTooEarly) {
  ProgramT program = makePlan(kOneForwardOneBackward);
  ProcedureT &update = procedureOf(program, 0, ProcedureKind::Update);
  // A reduction that nothing waits for, read by nobody in this step.
  auto copy = std::make_unique<InstructionT>(*update.instructions[findInstruction(
      update, Body::Collective, 1)]);
  update.instructions.push_back(std::move(copy));
  ProcedureT &other = procedureOf(program, 1, ProcedureKind::Update);
  other.instructions.push_back(std::make_unique<InstructionT>(
      *other.instructions[findInstruction(other, Body::Collective, 1)]));
  updateLiveBytes(program);
  expectFound(program, "happens-before", "with nothing that orders the two");
}

TEST(CheckPlan, UninitialisedRead) {
  ProgramT program = makePlan(kOneForwardOneBackward);
  ProcedureT &forward = procedureOf(program, 0, ProcedureKind::Forward);
  erase(forward, findInstruction(forward, Body::Feed));
  updateLiveBytes(program);
  expectFound(program, "happens-before", "that nothing has written");

  // Two bytes more than were written.
  program = makePlan(kOneForwardOneBackward);
  ProcedureT &update = procedureOf(program, 1, ProcedureKind::Update);
  update.instructions[1]->body.AsLaunch()->operands.back()->buffer->size = 2;
  updateLiveBytes(program);
  expectFound(program, "happens-before", "that nothing has written");
}

// --- collectives ---

TEST(CheckPlan, UnmatchedCollective) {
  ProgramT program = makePlan(kOneForwardOneBackward);
  ProcedureT &update = procedureOf(program, 1, ProcedureKind::Update);
  erase(update, findInstruction(update, Body::Collective));
  updateLiveBytes(program);
  expectFound(program, "collectives", "stage 1 issues none");
}

TEST(CheckPlan, WrongCount) {
  ProgramT program = makePlan(kOneForwardOneBackward);
  ProcedureT &update = procedureOf(program, 1, ProcedureKind::Update);
  CollectiveT &tied =
      *update.instructions[findInstruction(update, Body::Collective)]->body.AsCollective();
  --tied.count;
  expectFound(program, "collectives", "needs buffers of");
  expectFound(program, "collectives", "must issue the same sequence");
  tied.count += 1;
  tied.reduce = ReduceKind::Max;
  expectFound(program, "collectives", "all_reduce max");
}

TEST(CheckPlan, WrongGroup) {
  ProgramT program = makePlan({.stages = 3});
  ProcedureT &update = procedureOf(program, 2, ProcedureKind::Update);
  update.instructions[findInstruction(update, Body::Collective)]->body.AsCollective()->members = {
      1, 2};
  expectFound(program, "collectives", "must issue the same sequence");
}

TEST(CheckPlan, WrongPeer) {
  ProgramT program = makePlan({.stages = 3});
  ProcedureT &forward = procedureOf(program, 1, ProcedureKind::Forward);
  forward.instructions[findInstruction(forward, Body::Send)]->body.AsSend()->delta = -1;
  expectFound(program, "collectives", "the first without a partner");

  // Out of the mesh; checkBounds refuses it before the checkers would.
  program = makePlan(kOneForwardOneBackward);
  ProcedureT &first = procedureOf(program, 0, ProcedureKind::Forward);
  first.instructions[findInstruction(first, Body::Send)]->body.AsSend()->delta = -1;
  EXPECT_TRUE(checkersOf(checkAll(program)) == std::set<std::string>{"bounds"});
  EXPECT_TRUE(!checkCollectives(program).empty());
}

TEST(CheckPlan, WrongChannelAndParts) {
  ProgramT program = makePlan(kOneForwardOneBackward);
  ProcedureT &forward = procedureOf(program, 1, ProcedureKind::Forward);
  RecvT &recv = *forward.instructions[findInstruction(forward, Body::Recv)]->body.AsRecv();
  recv.channel = 7;
  expectFound(program, "collectives", "the first without a partner");
  recv.channel = 0;
  recv.parts[0]->size /= 2;
  updateLiveBytes(program);
  expectFound(program, "collectives", "message parts differ");
}

// --- launch order ---

TEST(CheckPlan, InvertedLaunchOrder) {
  for (const PlanShape &shape : {PlanShape{.exchange = true}, kGPipe}) {
    ProgramT program = makePlan(shape);
    ProcedureT &update = procedureOf(program, 1, ProcedureKind::Update);
    size_t tied = findInstruction(update, Body::Collective);
    moveTo(update, tied, tied + 1);
    std::vector<Finding> findings = checkLaunchOrder(program);
    EXPECT_EQ(findings.size(), 2u); // between ranks, and between their streams
    expectFound(program, "launch-order", "all_reduce over pp[0,1]");
    expectFound(program, "launch-order", "all_reduce over dpxpp");
  }
}

// Two streams hide the cycle from the streams, not from the device they share.
TEST(CheckPlan, InvertedLaunchOrderOnTwoStreams) {
  ProgramT program = makePlan({.exchange = true});
  for (unsigned s = 0; s < 2; ++s) {
    ProcedureT &update = procedureOf(program, s, ProcedureKind::Update);
    size_t tied = findInstruction(update, Body::Collective);
    update.instructions[tied]->stream = SendStream;
    if (s == 1)
      moveTo(update, tied, tied + 1);
  }
  std::vector<Finding> findings = checkLaunchOrder(program);
  EXPECT_EQ(findings.size(), 1u);
  EXPECT_TRUE(!findings.empty() &&
              findings[0].message.find("orders that form a cycle") != std::string::npos);
}

// Both ends send first, where a group offered both of their messages at once.
TEST(CheckPlan, TornGroupsOfOneForwardOneBackward) {
  ProgramT program = makePlan({.exchange = true});
  for (auto &stage : program.stages)
    for (auto &procedure : stage->procedures)
      for (auto &inst : procedure->instructions)
        if (RecvT *recv = inst->body.AsRecv())
          recv->grouped = false;
  expectFound(program, "launch-order", "stage 0 send F1 to stage 1 (exchange_y_dy[2]); which waits "
                                       "for stage 1 send B0 to stage 0 (exchange_dx_x[2])");
}

// A receive behind the record of its arrival, in a plan whose messages have rows.
TEST(CheckPlan, LateReceivesOfOneForwardOneBackward) {
  ProgramT correct = makePlan({.stages = 3, .exchange = true});
  unsigned late = 0;
  for (unsigned s = 0; s < 3; ++s)
    for (size_t p = 0; p < correct.stages[s]->procedures.size(); ++p)
      for (size_t i = 0; i < correct.stages[s]->procedures[p]->instructions.size(); ++i) {
        ProgramT program = makePlan({.stages = 3, .exchange = true});
        ProcedureT &procedure = *program.stages[s]->procedures[p];
        RecvT *recv = procedure.instructions[i]->body.AsRecv();
        if (!recv)
          continue;
        recv->grouped = false;
        moveTo(procedure, i, procedure.instructions.size() - 1);
        expectFound(program, "happens-before", "with nothing that orders the two");
        ++late;
      }
  EXPECT_TRUE(late > 5);
}

// The k-th receive of a channel meets the k-th send: on two streams they could change places.
TEST(CheckPlan, ChannelOnTwoStreams) {
  ProgramT program = makePlan({.exchange = true});
  unsigned moved = 0;
  for (auto &procedure : program.stages[1]->procedures)
    for (auto &inst : procedure->instructions)
      if (inst->body.AsRecv() && !inst->body.AsRecv()->grouped && moved++ == 0)
        inst->stream = Compute;
  EXPECT_TRUE(moved > 0);
  expectFound(program, "collectives", "messages of one channel stand on streams");
}

// A member of a collective may read what it brings as soon as it arrives: that another member
// waits for its own part orders nothing here.
TEST(CheckPlan, WaitOfAMemberRemoved) {
  ProgramT correct = makePlan({.stages = 3, .exchange = true});
  unsigned tried = 0;
  for (unsigned s = 0; s < 3; ++s) {
    ProcedureT &update = procedureOf(correct, s, ProcedureKind::Update);
    for (size_t i = 0; i < update.instructions.size(); ++i) {
      const WaitT *wait = update.instructions[i]->body.AsWait();
      bool before = wait && update.instructions[i]->stream != Compute;
      for (size_t k = i + 1; before && k < update.instructions.size(); ++k)
        if (update.instructions[k]->stream == update.instructions[i]->stream) {
          before = update.instructions[k]->body.AsCollective();
          break;
        }
      if (!before)
        continue;
      ProgramT program = makePlan({.stages = 3, .exchange = true});
      auto &list = procedureOf(program, s, ProcedureKind::Update).instructions;
      list.erase(list.begin() + static_cast<ptrdiff_t>(i));
      expectFound(program, "happens-before", "with nothing that orders the two");
      ++tried;
    }
  }
  EXPECT_TRUE(tried > 0);
}

// Sends of the warm-up wait for receives that stand behind other sends.
TEST(CheckPlan, MessagesOnTheComputeStream) {
  ProgramT program = makePlan(kOneForwardOneBackward);
  for (auto &stage : program.stages)
    for (auto &procedure : stage->procedures)
      for (auto &inst : procedure->instructions)
        inst->stream = Compute;
  expectFound(program, "launch-order", "which waits for");
}

// --- conservation ---

TEST(CheckPlan, MissingMicroBatch) {
  ProgramT program = makePlan(kGPipe);
  for (auto &stage : program.stages)
    stage->table.erase(stage->table.begin() + 3); // forward of micro-batch 2
  updateLiveBytes(program);
  expectFound(program, "conservation", "never goes forward");

  program = makePlan(kOneForwardOneBackward);
  for (auto &stage : program.stages)
    std::erase_if(stage->table, [&](const auto &entry) {
      return entry->micro_batch == 2 &&
             stage->procedures[entry->procedure]->kind == ProcedureKind::Backward;
    });
  updateLiveBytes(program);
  expectFound(program, "conservation", "never goes backward");
}

TEST(CheckPlan, BadTables) {
  ProgramT program = makePlan(kOneForwardOneBackward);
  StageT &stage = *program.stages[0];
  std::swap(stage.table[1], stage.table[3]); // backward 0 before forward 0
  expectFound(program, "conservation", "before it went forward");

  program = makePlan(kOneForwardOneBackward);
  auto &table = program.stages[1]->table;
  table.push_back(std::make_unique<EntryT>(*table.back()));
  expectFound(program, "conservation", "update must run once");
  table.pop_back();
  table.pop_back();
  expectFound(program, "conservation", "runs 0 updates");

  program = makePlan(kGPipe);
  program.stages[0]->table[6]->slot = 0; // backward of micro-batch 1
  expectFound(program, "conservation", "goes forward in slot 1 and backward in slot 0");
}

TEST(CheckPlan, DuplicatedLayer) {
  ProgramT program = makePlan(kOneForwardOneBackward);
  ChunkT &chunk = *program.stages[1]->chunks.front();
  chunk.first_layer = 0;
  expectFound(program, "conservation", "layers 0 to 1 follow layer");
  chunk.first_layer = chunk.last_layer = 2;
  expectFound(program, "conservation", "layers 2 to 2 follow layer 0");
  chunk.last_layer = -1;
  expectFound(program, "conservation", "up to 0 of a model with 2 layers");
}

TEST(CheckPlan, LostParameter) {
  ProgramT program = makePlan(kOneForwardOneBackward);
  std::erase_if(program.stages[0]->states, [](const auto &s) { return s->name == "k"; });
  expectFound(program, "conservation", "tensor 'qkv' must lie in");
  expectFound(program, "conservation", "elements [4, 8) of each 12 belong to none");

  // Local parts that do not add up to the whole.
  program = makePlan(kOneForwardOneBackward);
  StateShardT &state = stateOf(program, 0, "k", StateRole::Parameter);
  state.global_shape[0] = 5;
  EXPECT_TRUE(!checkConservation(program).empty());
}

TEST(CheckPlan, DoubleCountedRange) {
  ProgramT program = makePlan(kOneForwardOneBackward);
  stateOf(program, 0, "k", StateRole::Parameter).view->offset = 3;
  expectFound(program, "conservation", "elements [3, 4) of each 12 belong to two");

  // Both holders of the tied embedding claim it; then neither does.
  program = makePlan(kOneForwardOneBackward);
  stateOf(program, 1, "emb", StateRole::Parameter).owner = true;
  expectFound(program, "conservation", "belong to two");
  stateOf(program, 1, "emb", StateRole::Parameter).owner = false;
  stateOf(program, 0, "emb", StateRole::Parameter).owner = false;
  expectFound(program, "conservation", "no other stage owns it");
}

TEST(CheckPlan, LostGradient) {
  ProgramT program = makePlan(kOneForwardOneBackward);
  std::erase_if(program.stages[0]->states, [](const auto &s) {
    return s->name == "k" && s->role == StateRole::Accumulator;
  });
  expectFound(program, "conservation", "parameter 'k' needs one accumulator");

  // The last backward forgets one contribution. The sum over ranks that it begins, which
  // writes there too, is none.
  program = makePlan(kOneForwardOneBackward);
  ProcedureT &last = procedureOf(program, 0, ProcedureKind::BackwardLast);
  uint64_t offset = stateOf(program, 0, "v", StateRole::Accumulator).buffer->offset;
  for (auto &operand :
       last.instructions[findInstruction(last, Body::Launch)]->body.AsLaunch()->operands)
    if (operand->buffer->offset == offset)
      operand->access = Access::Read;
  expectFound(program, "conservation", "all but the last backward");
  std::erase_if(last.instructions, [&](const auto &inst) {
    const CollectiveT *c = inst->body.AsCollective();
    return c && c->src->offset == offset;
  });
  expectFound(program, "conservation", "all but the last backward");

  // A parameter that one stage reads and whose gradient another stage computes: its sum
  // over data-parallel ranks in the last backward is not a contribution that others lack.
  program = makePlan(kOneForwardOneBackward);
  for (ProcedureKind kind : {ProcedureKind::Backward, ProcedureKind::BackwardLast})
    for (auto &inst : procedureOf(program, 0, kind).instructions)
      if (LaunchT *launch = inst->body.AsLaunch())
        for (auto &operand : launch->operands)
          if (operand->buffer->offset == offset)
            operand->access = Access::Read;
  EXPECT_EQ(formatFindings(checkConservation(program)), "");

  // A parameter that no update writes.
  program = makePlan(kOneForwardOneBackward);
  ProcedureT &update = procedureOf(program, 0, ProcedureKind::Update);
  offset = stateOf(program, 0, "v", StateRole::Parameter).buffer->offset;
  for (auto &operand :
       update.instructions[findInstruction(update, Body::Launch, 1)]->body.AsLaunch()->operands)
    if (operand->buffer->offset == offset)
      operand->access = Access::Read;
  expectFound(program, "conservation", "written by no update");
}

// --- memory ---

TEST(CheckPlan, ArenaOverflow) {
  ProgramT program = makePlan(kOneForwardOneBackward);
  --program.stages[0]->arena_bytes;
  std::vector<Finding> findings = checkMemory(program);
  EXPECT_TRUE(!findings.empty() && findings[0].message.find("of an arena of") != std::string::npos);
  EXPECT_TRUE(checkersOf(checkAll(program)) == std::set<std::string>{"bounds"});
}

TEST(CheckPlan, WrongLiveBytes) {
  ProgramT program = makePlan(kOneForwardOneBackward);
  program.stages[1]->live_bytes -= 4;
  expectFound(program, "memory", "bytes are live at once");
}

TEST(CheckPlan, OverlappingStates) {
  ProgramT program = makePlan(kOneForwardOneBackward);
  stateOf(program, 0, "k", StateRole::Accumulator).buffer->offset -= 4;
  expectFound(program, "memory", "share arena bytes");
}

// --- cost ---

TEST(CheckPlan, HundredThousandInstructions) {
  ProgramT program = makePlan({.stages = 8, .microBatches = 64, .dp = 2, .launches = 180,
                               .exchange = true});
  size_t instances = 0;
  for (const auto &stage : program.stages)
    for (const auto &entry : stage->table)
      instances += stage->procedures[entry->procedure]->instructions.size();
  EXPECT_TRUE(instances > 100000);
  auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(formatFindings(checkAll(program)), "");
  double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::cout << "      " << instances << " instructions checked in " << seconds << " s\n";
  EXPECT_TRUE(seconds < 10);
}
