// All-to-all, and messages around an axis.
#include "PlanBuilder.h"

#include <algorithm>

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
