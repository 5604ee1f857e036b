// The checkers on interleaved chunks, split backwards, slot pools of several lifetimes,
// wrapping messages and message groups, and on faults planted there.
#include "lib/planfile/Check.h"
#include "lib/planfile/Trace.h"
#include "lib/planfile/Program.h"
#include "test/planfile/ChunkPlan.h"

#include <algorithm>
#include <functional>
#include <gtest/gtest.h>
#include <set>

using namespace llmc;
using namespace llmc::planfile;
using namespace llmc::test;

namespace {

const std::vector<ChunkShape> kShapes = {{},
                                         {.microBatches = 1},
                                         {.stages = 4, .microBatches = 8, .activations = 4},
                                         {.stages = 3, .chunks = 3, .microBatches = 5, .gradients = 2},
                                         {.chunks = 1, .microBatches = 6, .dp = 1}};

// The fault must be found by `checker`, with a message that has all of `words`.
void expectFound(const ProgramT &program, const std::string &checker,
                 const std::vector<std::string> &words) {
  std::vector<Finding> findings = checkAll(program);
  bool found = std::any_of(findings.begin(), findings.end(), [&](const Finding &finding) {
    return finding.checker == checker &&
           std::all_of(words.begin(), words.end(), [&](const std::string &word) {
             return finding.message.find(word) != std::string::npos;
           });
  });
  EXPECT_TRUE(found) << checker + " did not say '" + words.front() + "':\n" +
                            formatFindings(findings);
}

// The first exchange of a stage with as many messages or more.
ProcedureT &exchangeOf(ProgramT &program, unsigned stage, size_t messages) {
  for (auto &procedure : program.stages[stage]->procedures) {
    size_t count = 0;
    for (const auto &inst : procedure->instructions)
      count += messageOf(*inst).has_value();
    if (procedure->kind == ProcedureKind::Exchange && count >= messages)
      return *procedure;
  }
  throw std::logic_error("no such exchange");
}

size_t firstMessage(const ProcedureT &procedure, Body type) {
  for (size_t i = 0; i < procedure.instructions.size(); ++i)
    if (procedure.instructions[i]->body.type == type)
      return i;
  throw std::logic_error("no such message");
}

// Rows of the table that run a kind on a chunk, in order.
std::vector<size_t> rowsOf(const StageT &stage, std::set<ProcedureKind> kinds, uint32_t chunk) {
  std::vector<size_t> rows;
  for (size_t row = 0; row < stage.table.size(); ++row) {
    const ProcedureT &procedure = *stage.procedures[stage.table[row]->procedure];
    if (kinds.count(procedure.kind) && procedure.chunk == chunk)
      rows.push_back(row);
  }
  return rows;
}

void ungroup(InstructionT &inst) {
  if (SendT *send = inst.body.AsSend())
    send->grouped = false;
  if (RecvT *recv = inst.body.AsRecv())
    recv->grouped = false;
}

} // namespace

TEST(Chunk, PlansPass) {
  for (const ChunkShape &shape : kShapes) {
    auto program = makeChunkPlan(shape);
    EXPECT_EQ(formatFindings(checkAll(*program)), "");
    EXPECT_TRUE(bool(readProgram(writeProgram(*program))));
  }
}

TEST(Chunk, PlanHasAllForms) {
  auto program = makeChunkPlan({});
  size_t grouped = 0, wrapping = 0;
  for (uint32_t s = 0; s < program->stages.size(); ++s)
    for (const auto &procedure : program->stages[s]->procedures)
      for (const auto &inst : procedure->instructions)
        if (auto message = messageOf(*inst)) {
          grouped += message->grouped;
          wrapping += int64_t(s) + message->delta != peerStage(*program, s, *message);
        }
  EXPECT_TRUE(grouped > 4 && wrapping > 2);
  for (const auto &stage : program->stages)
    EXPECT_EQ(stage->pools.size(), 4u);
}

// --- launch order ---

// Groups whose messages become one after the other: both ends send first.
TEST(Chunk, TornGroupIsFoundAndNamed) {
  auto program = makeChunkPlan({});
  for (auto &stage : program->stages)
    for (auto &procedure : stage->procedures)
      for (auto &inst : procedure->instructions)
        ungroup(*inst);
  expectFound(*program, "launch-order",
              {"orders that form a cycle", "stage 0 send F1 of chunk 0 to stage 1",
               "stage 1 send F0 of chunk 0 to stage 0"});
}

// One end alone may take its messages one by one, as long as the other end offers both.
TEST(Chunk, GroupOfOneEndIsEnough) {
  auto program = makeChunkPlan({});
  for (auto &procedure : program->stages[0]->procedures)
    for (auto &inst : procedure->instructions)
      ungroup(*inst);
  EXPECT_EQ(formatFindings(checkLaunchOrder(*program)), "");
}

TEST(Chunk, InvertedExchangesAreFound) {
  auto program = makeChunkPlan({});
  auto &table = program->stages[0]->table;
  std::vector<size_t> rows = rowsOf(*program->stages[0], {ProcedureKind::Exchange}, 0);
  size_t inCycles = 0;
  for (size_t i = 1; i < rows.size(); ++i) {
    if (table[rows[i]]->procedure == table[rows[i - 1]]->procedure)
      continue;
    std::swap(table[rows[i - 1]], table[rows[i]]);
    EXPECT_TRUE(!checkAll(*program).empty());
    for (const Finding &finding : checkLaunchOrder(*program))
      inCycles += finding.message.find("orders that form a cycle") != std::string::npos;
    std::swap(table[rows[i - 1]], table[rows[i]]);
  }
  EXPECT_TRUE(inCycles > 2);
}

// --- happens-before ---

// The group goes on before the message is there: who waits for it waits for too little.
TEST(Chunk, LateReceiveIsFound) {
  auto program = makeChunkPlan({});
  ProcedureT &exchange = exchangeOf(*program, 0, 2);
  auto &list = exchange.instructions;
  size_t at = firstMessage(exchange, Body::Recv);
  ungroup(*list[at]);
  std::rotate(list.begin() + at, list.begin() + at + 1, list.end());
  expectFound(*program, "happens-before", {"with nothing that orders the two"});
}

TEST(Chunk, MembersOfAGroupAreNotOrdered) {
  auto program = makeChunkPlan({});
  ProcedureT &exchange = exchangeOf(*program, 0, 2);
  const BufferRefT &sent =
      *exchange.instructions[firstMessage(exchange, Body::Send)]->body.AsSend()->parts[0];
  RecvT &recv = *exchange.instructions[firstMessage(exchange, Body::Recv)]->body.AsRecv();
  recv.parts[0] = std::make_unique<BufferRefT>(sent);
  std::vector<Finding> findings = checkHappensBefore(*program);
  bool found = std::any_of(findings.begin(), findings.end(), [](const Finding &finding) {
    return finding.message.find("is read by stage 0, exchange") != std::string::npos &&
           finding.message.find("send to pp") != std::string::npos &&
           finding.message.find("with nothing that orders the two") != std::string::npos;
  });
  EXPECT_TRUE(found) << formatFindings(findings);
}

// The buffers of a pool on top of those of another chunk's.
TEST(Chunk, PoolSharedByTwoChunksIsFound) {
  auto program = makeChunkPlan({});
  StageT &stage = *program->stages[0];
  const EntryT *entry0 = stage.table[rowsOf(stage, {ProcedureKind::Forward}, 0)[0]].get();
  const EntryT *entry1 = stage.table[rowsOf(stage, {ProcedureKind::Forward}, 1)[0]].get();
  auto xOf = [&](const EntryT &entry) -> BufferRefT {
    for (const auto &inst : stage.procedures[entry.procedure]->instructions)
      if (const LaunchT *launch = inst->body.AsLaunch())
        return *launch->operands[0]->buffer;
    throw std::logic_error("no launch");
  };
  BufferRefT from = xOf(*entry1), to = xOf(*entry0);
  for (auto &procedure : stage.procedures)
    for (auto &inst : procedure->instructions) {
      auto move = [&](BufferRefT &buffer) {
        if (buffer.offset == from.offset)
          buffer.offset = to.offset;
      };
      if (LaunchT *launch = inst->body.AsLaunch())
        for (auto &operand : launch->operands)
          move(*operand->buffer);
      if (RecvT *recv = inst->body.AsRecv())
        move(*recv->parts[0]);
    }
  expectFound(*program, "happens-before", {"which belongs to another micro-batch or chunk"});
}

// --- conservation ---

TEST(Chunk, PassesOfAChunkOnceEach) {
  using Change = std::function<void(StageT &, std::vector<size_t>)>;
  auto planted = [&](std::set<ProcedureKind> kinds, Change change, const std::string &words) {
    auto program = makeChunkPlan({});
    StageT &stage = *program->stages[1];
    change(stage, rowsOf(stage, kinds, 1));
    expectFound(*program, "conservation", {words});
  };
  using enum ProcedureKind;
  auto dropSecond = [](StageT &s, std::vector<size_t> rows) {
    s.table.erase(s.table.begin() + static_cast<ptrdiff_t>(rows[1]));
  };
  planted({Forward}, dropSecond, "never goes forward on chunk 1");
  planted({Backward}, dropSecond, "never goes backward on chunk 1");
  planted({Weight}, dropSecond, "never adds to its weights on chunk 1");
  planted({Weight}, [](StageT &s, std::vector<size_t> rows) {
    *s.table[rows[1]] = *s.table[rows[0]];
  }, "of chunk 1 must go through each pass once, it adds to its weights again");
  auto swapFirst = [](StageT &s, std::vector<size_t> rows) {
    std::swap(s.table[rows[0]], s.table[rows[1]]);
  };
  planted({Backward, Weight}, swapFirst, "adds to its weights before it went backward");
  planted({Weight, WeightLast}, [](StageT &s, std::vector<size_t> rows) {
    std::swap(s.table[rows[2]]->procedure, s.table[rows[3]]->procedure);
  }, "only the last backward of chunk 1");
  planted({Weight}, [](StageT &s, std::vector<size_t> rows) {
    s.procedures[s.table[rows[0]]->procedure]->kind = Backward;
  }, "must go through each pass once, it goes backward again");
  planted({Backward}, [](StageT &s, std::vector<size_t> rows) {
    s.procedures[s.table[rows[0]]->procedure]->kind = BackwardLast;
  }, "is split, so its weights start the reductions");
}

TEST(Chunk, PoolsAndLanesOfAnEntry) {
  using enum ProcedureKind;
  auto planted = [](std::set<ProcedureKind> kinds, const std::function<void(EntryT &)> &change,
                    const std::string &checker, const std::string &words) {
    auto program = makeChunkPlan({});
    StageT &stage = *program->stages[0];
    change(*stage.table[rowsOf(stage, kinds, 0)[1]]);
    expectFound(*program, checker, {words});
  };
  planted({Forward}, [](EntryT &e) { e.pool = 2; }, "conservation", "which is of chunk 1");
  planted({Forward}, [](EntryT &e) { e.pool = 4; }, "bounds", "pool, slot or micro-batch");
  planted({Forward}, [](EntryT &e) { e.slot = 2; }, "bounds", "pool, slot or micro-batch");
  planted({Forward}, [](EntryT &e) { e.slot = 0; }, "conservation", "still holds micro-batch 0");
  planted({Backward}, [](EntryT &e) { e.more.clear(); }, "bounds", "lane 1 of 1");
  planted({Backward}, [](EntryT &e) { e.more[0] = SlotRef(1, 3, 0); }, "conservation",
          "runs for micro-batches 1 and 3");
  planted({Weight}, [](EntryT &e) { e.slot = 0; }, "conservation",
          "goes forward in slot 1 and to its weights in slot 0");
}

TEST(Chunk, MessagesOfAChunkOnceEach) {
  auto program = makeChunkPlan({});
  StageT &stage = *program->stages[0];
  EntryT &entry = *stage.table[rowsOf(stage, {ProcedureKind::Exchange}, 0)[0]];
  entry.micro_batch = 1;
  entry.slot = 1;
  expectFound(*program, "conservation", {"runs 0 times for the micro-batch"});
  expectFound(*program, "conservation", {"runs 2 times for the micro-batch"});
  expectFound(*program, "collectives", {"meets the receive of another micro-batch"});
}

TEST(Chunk, LayersOfChunksOnceEach) {
  auto program = makeChunkPlan({});
  program->stages[0]->chunks[1]->first_layer = 1;
  expectFound(*program, "conservation", {"each layer must be held once"});
}

// --- bounds ---

TEST(Chunk, BoundsOfGroupsChunksAndPools) {
  auto planted = [](const std::function<void(ProgramT &)> &change, const std::string &words) {
    auto program = makeChunkPlan({});
    change(*program);
    expectFound(*program, "bounds", {words});
  };
  planted([](ProgramT &p) {
    ProcedureT &exchange = exchangeOf(p, 0, 1);
    exchange.instructions[firstMessage(exchange, Body::Send)]->body.AsSend()->grouped = true;
  }, "grouped, but not right behind a message of its stream");
  planted([](ProgramT &p) { exchangeOf(p, 0, 2).instructions[3]->stream = 2; },
          "grouped, but not right behind a message of its stream");
  planted([](ProgramT &p) { p.stages[0]->chunks.clear(); }, "chunks or pools");
  planted([](ProgramT &p) { p.stages[0]->pools.clear(); }, "chunks or pools");
  planted([](ProgramT &p) { p.stages[0]->pools[1]->chunk = 2; }, "a pool of chunk 2 of 2");
  planted([](ProgramT &p) { p.stages[0]->procedures[1]->chunk = 2; }, "chunk 2 of 2");
  planted([](ProgramT &p) { exchangeOf(p, 0, 2).instructions[0]->body.AsWait()->lane = 7; },
          "lane 7 of 2");
  planted([](ProgramT &p) {
    ProcedureT &exchange = exchangeOf(p, 0, 1);
    exchange.instructions[firstMessage(exchange, Body::Send)]->body.AsSend()->delta = 2;
  }, "around an axis of size 2");
}
