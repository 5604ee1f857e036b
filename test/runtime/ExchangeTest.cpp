// All-to-all, exchanged rows, and messages around an axis.
#include "PlanBuilder.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace llmc;
using namespace llmc::test;
using runtime::ExecutorOptions;
using runtime::Kernels;

namespace {

// Writes scalars[0] + i / scalars[2] * 100000 + i % scalars[2] to element i of scalars[1].
void number(void *const *buffers, const int64_t *scalars, int64_t, int64_t) {
  for (int64_t i = 0; i < scalars[1]; ++i)
    static_cast<int64_t *>(buffers[0])[i] =
        scalars[0] + i / scalars[2] * 100000 + i % scalars[2];
}
const Kernels kNumber({number});

// `first`: what a rank's first element is, by its coordinate.
LaunchT numbers(ProgramT &program, uint64_t offset, int64_t count, int64_t part, CoordExprT first) {
  LaunchT made = launch(program, "number", refs(ref(offset, count * 8)), 1,
                        {std::move(first), expr(count), expr(part)});
  made.operands[0]->access = Access::Write;
  return made;
}

// Interleavings leave alone what the host reads after the step.
void keep(ProgramT &program, uint64_t offset, uint64_t size) {
  auto output = std::make_unique<StepOutputT>();
  output->name = "kept";
  output->buffer = ref(offset, size);
  program.stages[0]->outputs.push_back(std::move(output));
}

struct Exchange {
  std::vector<uint32_t> axes;
  uint64_t count; // elements of a part
};
class AllToAll : public ::testing::TestWithParam<Exchange> {};

// Part j of member i becomes part i of member j, in the order of the axes; by one thread, by
// several, and in drawn orders.
TEST_P(AllToAll, ExchangesParts) {
  const Exchange &param = GetParam();
  for (int run = 0; run < 4; ++run) {
    auto program = makeProgram({2, 1, 3}, 1, 1 << 21);
    uint64_t members = 1;
    for (uint32_t axis : param.axes)
      members *= program->mesh->axes[axis]->size;
    uint64_t n = param.count, bytes = members * n * 8;
    constexpr int64_t each = 1000000;
    add(*program, 0,
        numbers(*program, 0, int64_t(members * n), int64_t(n), expr(0, {3 * each, 0, each})));
    add(*program, 0,
        collective(CollectiveKind::AllToAll, param.axes, n, ref(0, bytes), ref(bytes, bytes),
                   DType::I64));
    const CollectiveT &what =
        *program->stages[0]->procedures[0]->instructions[1]->body.AsCollective();
    EXPECT_EQ(payloadBytes(*program->mesh, what), bytes);
    keep(*program, bytes, bytes);
    ExecutorOptions options;
    options.workers = run < 2 ? 1 + 2 * run : 0;
    if (run >= 2)
      options.interleaving = run;
    auto executor = makeExecutor(*program, kNumber, options);
    auto value = [&](uint32_t rank, uint64_t part, uint64_t i) {
      return int64_t(rank * each + part * 100000 + i);
    };
    auto status = executor->runStep({});
    ASSERT_TRUE(bool(status)) << status.message();
    for (uint32_t rank = 0; rank < 6; ++rank) {
      std::vector<uint32_t> group = groupOf(*program->mesh, what, rank);
      auto self = static_cast<uint64_t>(std::find(group.begin(), group.end(), rank) - group.begin());
      for (uint64_t i = 0; i < members * n; ++i)
        ASSERT_EQ(at<int64_t>(*executor, rank, bytes)[i], value(group[i / n], self, i % n))
            << "rank " << rank << " element " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Groups, AllToAll,
                         ::testing::Values(Exchange{{0}, 5}, Exchange{{2}, 1}, Exchange{{0, 2}, 7},
                                           Exchange{{2, 0}, 7}, Exchange{{2}, 20001}));

TEST(AllToAll, BoundsWantTheWholeBufferAtBothEnds) {
  auto make = [](uint64_t src, uint64_t dst, uint64_t at) {
    auto program = makeProgram({1, 1, 4}, 1, 4096);
    add(*program, 0, collective(CollectiveKind::AllToAll, {2}, 8, ref(0, src), ref(at, dst)));
    return checkBounds(*program).message();
  };
  EXPECT_EQ(make(128, 128, 128), "");
  EXPECT_NE(make(32, 128, 128).find("source has 32 bytes, 128 are needed"), std::string::npos);
  EXPECT_NE(make(128, 96, 128).find("destination has 96 bytes, 128 are needed"), std::string::npos);
  EXPECT_NE(make(128, 128, 0).find("overlap"), std::string::npos); // not in place
}

// Holds how many rows each member of a group sends to each, and expects from it.
struct RowCounts {
  std::vector<std::vector<int64_t>> sent, received;
};
RowCounts counts;

// Lists what each receives by what each sends.
RowCounts matching(std::vector<std::vector<int64_t>> sent) {
  RowCounts made{sent, sent};
  for (size_t i = 0; i < sent.size(); ++i)
    for (size_t j = 0; j < sent.size(); ++j)
      made.received[j][i] = sent[i][j];
  return made;
}

// Writes i + 1000000 * rank to element i of buffer 0, and the counts of the rank to the others; scalars:
// rank, elements.
void giveRows(void *const *buffers, const int64_t *scalars, int64_t, int64_t) {
  auto rank = static_cast<size_t>(scalars[0]);
  for (int64_t i = 0; i < scalars[1]; ++i)
    static_cast<int64_t *>(buffers[0])[i] = scalars[0] * 1000000 + i;
  std::copy(counts.sent[rank].begin(), counts.sent[rank].end(), static_cast<int64_t *>(buffers[1]));
  std::copy(counts.received[rank].begin(), counts.received[rank].end(), static_cast<int64_t *>(buffers[2]));
}
const Kernels kGiveRows({giveRows});

// Builds an exchange of rows of `row` elements along one axis: places in the arena are those of the source,
// the destination, and the two counts.
struct RowExchange {
  RowExchange(uint32_t members, uint64_t row, uint64_t rows, uint64_t room) {
    uint64_t src = rows * row * 8, dst = room * row * 8, each = members * 8;
    program = makeProgram({members, 1}, 1, src + dst + 2 * each);
    to = src;
    LaunchT give = launch(*program, "give", refs(ref(0, src), ref(src + dst, each), ref(src + dst + each, each)), 1,
                          {expr(0, {1, 0}), expr(int64_t(rows * row))});
    for (auto &operand : give.operands)
      operand->access = Access::Write;
    add(*program, 0, std::move(give));
    CollectiveT exchange =
        collective(CollectiveKind::ExchangeRows, {0}, rows * row, ref(0, src), ref(src, dst), DType::I64);
    exchange.rows = std::make_unique<RowCountsT>();
    exchange.rows->row = row;
    exchange.rows->sent = ref(src + dst, each);
    exchange.rows->received = ref(src + dst + each, each);
    add(*program, 0, std::move(exchange));
    keep(*program, src, dst);
  }
  std::unique_ptr<ProgramT> program;
  uint64_t to;
};

struct RowCase {
  std::vector<std::vector<int64_t>> sent;
  uint64_t row, rows, room;
};
class ExchangeRows : public ::testing::TestWithParam<RowCase> {};

// Each member gets the counted rows, one sender behind the other, as many as there is room for; the bytes
// behind them stay. By one thread, by several, and in drawn orders.
TEST_P(ExchangeRows, MovesTheCountedRows) {
  const auto &[sent, row, rows, room] = GetParam();
  counts = matching(sent);
  for (int run = 0; run < 4; ++run) {
    RowExchange plan(uint32_t(sent.size()), row, rows, room);
    ExecutorOptions options;
    options.workers = run < 2 ? 1 + 2 * run : 0;
    if (run >= 2)
      options.interleaving = run;
    auto executor = makeExecutor(*plan.program, kGiveRows, options);
    constexpr int64_t before = -77;
    for (uint32_t rank = 0; rank < sent.size(); ++rank)
      std::fill_n(at<int64_t>(*executor, rank, plan.to), room * row, before);
    auto status = executor->runStep({});
    ASSERT_TRUE(bool(status)) << status.message();
    uint64_t moved = 0;
    for (size_t rank = 0; rank < sent.size(); ++rank) {
      std::vector<int64_t> want;
      for (size_t from = 0; from < sent.size(); ++from) {
        int64_t first = 0;
        for (size_t to = 0; to < rank; ++to)
          first += sent[from][to];
        for (uint64_t i = 0; i < uint64_t(sent[from][rank]) * row; ++i)
          want.push_back(int64_t(from * 1000000 + uint64_t(first) * row + i));
      }
      want.resize(std::min(want.size(), size_t(room * row)));
      moved += want.size() * 8;
      const int64_t *got = at<int64_t>(*executor, uint32_t(rank), plan.to);
      EXPECT_EQ(std::vector<int64_t>(got, got + want.size()), want) << "rank " << rank << ", run " << run;
      for (size_t i = want.size(); run < 2 && i < room * row; ++i)
        ASSERT_EQ(got[i], before) << "rank " << rank << " element " << i;
    }
    EXPECT_EQ(executor->exchangedBytes(), moved);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Counts, ExchangeRows,
    ::testing::Values(RowCase{{{1, 2, 0}, {4, 0, 1}, {0, 0, 3}}, 5, 6, 8},
                      RowCase{{{0, 0}, {0, 0}}, 3, 4, 4},
                      RowCase{{{0, 4}, {4, 0}}, 1, 4, 4},
                      RowCase{{{2, 4}, {6, 0}}, 3, 6, 5},              // more than there is room for
                      RowCase{{{6, 0, 0}, {6, 0, 0}, {6, 0, 0}}, 2, 6, 1}, // no room but for the first
                      RowCase{{{7}}, 4, 8, 9},
                      RowCase{{{100, 900}, {500, 1}}, 33, 1000, 1500})); // many chunks

// Moves the less where one sends more than the other expects, or less: each to its place by the counts of its
// own side.
TEST(ExchangeRows, MovesTheLessOfBothCounts) {
  for (int run = 0; run < 3; ++run) {
    counts = matching({{1, 3}, {2, 1}});
    counts.received[1][0] = 2; // of the 3 that come
    counts.received[0][0] = 2; // of which one comes
    RowExchange plan(2, 1, 6, 8);
    ExecutorOptions options;
    if (run > 0)
      options.interleaving = run;
    auto executor = makeExecutor(*plan.program, kGiveRows, options);
    auto status = executor->runStep({});
    ASSERT_TRUE(bool(status)) << status.message();
    auto got = [&](uint32_t rank, uint64_t i) { return at<int64_t>(*executor, rank, plan.to)[i]; };
    EXPECT_EQ(got(0, 0), 0); // then one gap
    EXPECT_EQ(got(0, 2), 1000000);
    EXPECT_EQ(got(0, 3), 1000001);
    EXPECT_EQ(got(1, 0), 1);
    EXPECT_EQ(got(1, 1), 2);
    EXPECT_EQ(got(1, 2), 1000002);
    EXPECT_EQ(executor->exchangedBytes(), 6u * 8);
  }
}

TEST(ExchangeRows, CountsThatCannotBeAreAnError) {
  auto fault = [](RowCounts wrong) {
    counts = std::move(wrong);
    RowExchange plan(2, 4, 6, 8);
    auto executor = makeExecutor(*plan.program, kGiveRows);
    support::Status status = executor->runStep({});
    return status ? std::string() : status.message();
  };
  auto expect = [](const std::string &got, const std::string &text) {
    EXPECT_NE(got.find(text), std::string::npos) << got;
  };
  EXPECT_EQ(fault(matching({{1, 3}, {2, 0}})), "");
  expect(fault(matching({{1, -2}, {2, 0}})), "rank 0 sends -2 rows to rank 1, and has 5 of 6 left for it");
  expect(fault(matching({{5, 2}, {2, 0}})), "rank 0 sends 2 rows to rank 1, and has 1 of 6 left for it");
  constexpr int64_t most = std::numeric_limits<int64_t>::max();
  expect(fault(matching({{most, most}, {most, most}})), "and has 6 of 6 left for it");
  RowCounts other = matching({{1, 3}, {2, 0}});
  other.received[1][0] = -4;
  expect(fault(other), "rank 1 expects -4 rows of rank 0, which sends 3");
  other.received[1] = {most, most}; // has room for 8
  EXPECT_EQ(fault(other), "");
}

// A reader of all bytes finds no poison behind the rows: it must drop them, and NaNs show if it does not.
TEST(ExchangeRows, WhatIsBehindTheRowsMayBeRead) {
  counts = matching({{1, 2}, {0, 1}});
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    RowExchange plan(2, 4, 6, 8);
    LaunchT read = launch(*plan.program, "read", refs(ref(plan.to, 8 * 4 * 8)));
    read.operands[0]->access = Access::Read;
    add(*plan.program, 0, std::move(read));
    ExecutorOptions options;
    options.interleaving = seed;
    Kernels kernels({giveRows, [](void *const *, const int64_t *, int64_t, int64_t) {}});
    auto executor = makeExecutor(*plan.program, kernels, options);
    auto status = executor->runStep({});
    ASSERT_TRUE(bool(status)) << status.message();
    EXPECT_TRUE(std::isnan(*at<double>(*executor, 0, plan.to + 7 * 32))); // behind one row and none
    EXPECT_LT(*at<int64_t>(*executor, 0, plan.to + 7 * 32), 0);
  }
}

// Checks that the values of each rank go once around a ring of four and are added up on the way.
// Sends and receives have streams of their own, since a send blocks its stream.
TEST(Ring, AroundAnAxisWithinAStage) {
  for (int32_t delta : {1, -1, 3, -3})
    for (int run = 0; run < 4; ++run) {
      auto program = makeProgram({2, 1, 4}, 1, 64, 3, 1, 1, 16);
      program->stages[0]->events = 16;
      add(*program, 0, numbers(*program, 0, 1, 1, expr(1, {4, 0, 1})));
      CopyT first;
      first.src = ref(0, 8), first.dst = ref(8, 8);
      add(*program, 0, std::move(first));
      uint64_t held = 8, next = 16;
      for (uint32_t hop = 0; hop < 3; ++hop) {
        SendT out = send(2, delta, ref(held, 8));
        RecvT in = recv(2, -delta, ref(next, 8));
        out.wrap = in.wrap = true;
        add(*program, 0, record(4 * hop), 0);
        add(*program, 0, waitFor(4 * hop), 1);
        add(*program, 0, waitFor(4 * hop), 2);
        add(*program, 0, std::move(out), 1);
        add(*program, 0, std::move(in), 2);
        add(*program, 0, record(4 * hop + 1), 1);
        add(*program, 0, record(4 * hop + 2), 2);
        add(*program, 0, waitFor(4 * hop + 1), 0);
        add(*program, 0, waitFor(4 * hop + 2), 0);
        LaunchT join = launch(*program, "join", refs(ref(0, 8), ref(next, 8)));
        join.operands[1]->access = Access::Read;
        add(*program, 0, std::move(join));
        std::swap(held, next);
      }
      keep(*program, 0, 8);
      // Base ten digits, so that the order of arrival shows.
      Kernels kernels({number, [](void *const *b, const int64_t *, int64_t, int64_t) {
        int64_t *sum = static_cast<int64_t *>(b[0]);
        *sum = *sum * 10 + *static_cast<int64_t *>(b[1]);
      }});
      ExecutorOptions options;
      options.workers = run < 2 ? 1 + 2 * run : 0;
      if (run >= 2)
        options.interleaving = run;
      auto executor = makeExecutor(*program, kernels, options);
      auto status = executor->runStep({});
      ASSERT_TRUE(bool(status)) << status.message();
      for (uint32_t rank = 0; rank < 8; ++rank) {
        int64_t want = rank + 1;
        for (int hop = 1; hop < 4; ++hop)
          want = want * 10 + (rank / 4 * 4 + ((rank % 4 - hop * delta) % 4 + 4) % 4) + 1;
        EXPECT_EQ(*at<int64_t>(*executor, rank, 0), want) << "delta " << delta << " rank " << rank;
      }
    }
}

// Stages, of which even ones send first and odd ones receive first.
TEST(Ring, AroundTheStages) {
  auto program = makeProgram({1, 4, 2}, 1, 64);
  for (uint32_t stage = 0; stage < 4; ++stage)
    for (bool sends : {stage % 2 == 0, stage % 2 == 1}) {
      SendT out = send(1, 1, ref(0, 8));
      RecvT in = recv(1, -1, ref(8, 8));
      out.wrap = in.wrap = true;
      if (sends)
        add(*program, stage, std::move(out));
      else
        add(*program, stage, std::move(in));
    }
  auto executor = makeExecutor(*program, kNone);
  for (uint32_t rank = 0; rank < 8; ++rank)
    *at<int64_t>(*executor, rank, 0) = rank;
  auto status = executor->runStep({});
  ASSERT_TRUE(bool(status)) << status.message();
  for (uint32_t rank = 0; rank < 8; ++rank)
    EXPECT_EQ(*at<int64_t>(*executor, rank, 8), (rank + 6) % 8);
}

// All send first on one stream: nobody receives.
TEST(Ring, OneStreamForBothEndsBlocks) {
  auto program = makeProgram({1, 1, 4}, 1, 64);
  SendT out = send(2, 1, ref(0, 8));
  RecvT in = recv(2, -1, ref(8, 8));
  out.wrap = in.wrap = true;
  add(*program, 0, std::move(out));
  add(*program, 0, std::move(in));
  auto status = makeExecutor(*program, kNone)->runStep({});
  ASSERT_FALSE(bool(status));
  EXPECT_NE(status.message().find("waits for rank 1"), std::string::npos) << status.message();
}

} // namespace
