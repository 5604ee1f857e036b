#include "PlanBuilder.h"

#include "runtime/transport/Reduction.h"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace llmc;
using namespace llmc::test;
using runtime::ExecutorOptions;
using runtime::Kernels;

namespace {

struct AxesCase {
  std::vector<uint32_t> axes;
  uint64_t count;
};

class AllReduce : public ::testing::TestWithParam<AxesCase> {};

// Every subset of the axes, with one and with many chunks; the stages split the
// middle axis.
TEST_P(AllReduce, AddsInGroupOrder) {
  const AxesCase &param = GetParam();
  uint64_t bytes = param.count * 4;
  for (unsigned workers : {1u, 2u, 4u}) {
    auto program = makeProgram({2, 2, 2}, 1, 2 * bytes);
    for (uint32_t stage = 0; stage < 2; ++stage)
      add(*program, stage,
          collective(CollectiveKind::AllReduce, param.axes, param.count, ref(0, bytes),
                     ref(bytes, bytes)));
    ExecutorOptions options;
    options.workers = workers;
    auto executor = makeExecutor(*program, kNone, options);
    for (uint32_t rank = 0; rank < 8; ++rank)
      for (uint64_t i = 0; i < param.count; ++i)
        at<float>(*executor, rank, 0)[i] = awkward(rank, i);
    auto status = executor->runStep({});
    ASSERT_TRUE(bool(status)) << status.message();
    const CollectiveT &what = *program->stages[0]->procedures[0]->instructions[0]->body.AsCollective();
    for (uint32_t rank = 0; rank < 8; ++rank) {
      std::vector<uint32_t> group = groupOf(*program->mesh, what, rank);
      ASSERT_EQ(group.size(), size_t(1) << param.axes.size());
      for (uint64_t i = 0; i < param.count; ++i) {
        float sum = awkward(group[0], i);
        for (size_t g = 1; g < group.size(); ++g)
          sum += awkward(group[g], i);
        ASSERT_EQ(at<float>(*executor, rank, bytes)[i], sum) << "rank " << rank << " at " << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Axes, AllReduce,
                         ::testing::Values(AxesCase{{0}, 5}, AxesCase{{1}, 5}, AxesCase{{2}, 5},
                                           AxesCase{{0, 2}, 7}, AxesCase{{0, 1}, 1},
                                           AxesCase{{0, 1, 2}, 3}, AxesCase{{2, 0}, 40001},
                                           AxesCase{{0, 1, 2}, 40001}));

TEST(Collectives, GroupOrderFollowsTheAxes) {
  auto program = makeProgram({2, 2, 2}, 1, 8);
  EXPECT_EQ(groupOf(*program->mesh, collective(CollectiveKind::AllReduce, {0, 2}, 1, nullptr, nullptr), 3),
            (std::vector<uint32_t>{2, 3, 6, 7}));
  EXPECT_EQ(groupOf(*program->mesh, collective(CollectiveKind::AllReduce, {2, 0}, 1, nullptr, nullptr), 3),
            (std::vector<uint32_t>{2, 6, 3, 7}));
}

TEST(Collectives, InPlaceMaxAndIntegers) {
  auto program = makeProgram({2, 1, 2}, 1, 64);
  add(*program, 0, collective(CollectiveKind::AllReduce, {0, 2}, 2, ref(0, 16), ref(0, 16), DType::I64));
  add(*program, 0,
      collective(CollectiveKind::AllReduce, {0, 2}, 2, ref(16, 8), ref(16, 8), DType::F32, ReduceKind::Max));
  add(*program, 0,
      collective(CollectiveKind::AllReduce, {2}, 1, ref(32, 8), ref(40, 8), DType::F64));
  auto executor = makeExecutor(*program, kNone);
  for (uint32_t rank = 0; rank < 4; ++rank) {
    at<int64_t>(*executor, rank, 0)[0] = rank + 1;
    at<int64_t>(*executor, rank, 0)[1] = -int64_t(rank);
    at<float>(*executor, rank, 16)[0] = rank == 2 ? 9.0f : -float(rank);
    at<float>(*executor, rank, 16)[1] = rank == 1 ? NAN : 1.0f;
    at<double>(*executor, rank, 32)[0] = 0.5 + rank;
  }
  ASSERT_TRUE(bool(executor->runStep({})));
  for (uint32_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(at<int64_t>(*executor, rank, 0)[0], 10);
    EXPECT_EQ(at<int64_t>(*executor, rank, 0)[1], -6);
    EXPECT_EQ(at<float>(*executor, rank, 16)[0], 9.0f);
    EXPECT_TRUE(std::isnan(at<float>(*executor, rank, 16)[1]));
    EXPECT_EQ(at<double>(*executor, rank, 40)[0], rank < 2 ? 2.0 : 6.0);
  }
}

// Whole registers and what is left over, every type and reduction, in place too.
TEST(Collectives, WideReductionsEqualPlainOnes) {
  auto check = []<class T>(DType type, ReduceKind kind, T) {
    constexpr size_t n = 333, ranks = 3;
    std::vector<std::vector<T>> values(ranks, std::vector<T>(n));
    std::vector<T> expected;
    for (size_t r = 0; r < ranks; ++r)
      for (size_t i = 0; i < n; ++i)
        values[r][i] = static_cast<T>(awkward(r, i)) - static_cast<T>(i * r % 11);
    if constexpr (std::is_floating_point_v<T>)
      values[1][7] = values[0][150] = values[2][332] = NAN;
    for (size_t i = 0; i < n; ++i) {
      T all = values[0][i];
      for (size_t r = 1; r < ranks; ++r) {
        T other = values[r][i];
        all = kind == ReduceKind::Sum ? all + other : all > other || all != all ? all : other;
      }
      expected.push_back(all);
    }
    std::vector<std::byte *> buffers;
    for (auto &value : values)
      buffers.push_back(reinterpret_cast<std::byte *>(value.data()));
    runtime::reduceTo(type, kind, {buffers}, {buffers}, n * sizeof(T));
    for (const auto &value : values)
      EXPECT_EQ(std::memcmp(value.data(), expected.data(), n * sizeof(T)), 0)
          << toString(type) << (kind == ReduceKind::Sum ? " sum" : " max");
  };
  for (ReduceKind kind : {ReduceKind::Sum, ReduceKind::Max}) {
    check(DType::F32, kind, 0.0f);
    check(DType::F64, kind, 0.0);
    check(DType::I32, kind, int32_t());
    check(DType::I64, kind, int64_t());
  }
}

TEST(Collectives, GatherScatterBroadcast) {
  constexpr uint64_t n = 9000, shard = n * 4; // more than a chunk
  auto program = makeProgram({1, 1, 4}, 1, 10 * shard);
  add(*program, 0, collective(CollectiveKind::AllGather, {2}, n, ref(0, shard), ref(shard, 4 * shard)));
  add(*program, 0,
      collective(CollectiveKind::ReduceScatter, {2}, n, ref(shard, 4 * shard), ref(5 * shard, shard)));
  add(*program, 0, collective(CollectiveKind::Broadcast, {2}, n, ref(0, shard), ref(6 * shard, shard)));
  auto executor = makeExecutor(*program, kNone);
  for (uint32_t rank = 0; rank < 4; ++rank)
    for (uint64_t i = 0; i < n; ++i)
      at<float>(*executor, rank, 0)[i] = float(rank * 10000 + i);
  ASSERT_TRUE(bool(executor->runStep({})));
  for (uint32_t rank = 0; rank < 4; ++rank)
    for (uint64_t i = 0; i < n; i += 7) {
      for (uint32_t other = 0; other < 4; ++other)
        ASSERT_EQ(at<float>(*executor, rank, shard)[other * n + i], float(other * 10000 + i));
      ASSERT_EQ(at<float>(*executor, rank, 5 * shard)[i], 4 * float(rank * 10000 + i));
      ASSERT_EQ(at<float>(*executor, rank, 6 * shard)[i], float(i));
    }
}

// Slices are gathered and scattered each for itself: rows of a tensor whose second dimension is cut.
TEST(Collectives, SlicesOfAShard) {
  constexpr uint64_t rows = 3, slice = 5000, n = rows * slice, shard = n * 4; // slices end within chunks
  auto program = makeProgram({1, 1, 4}, 1, 10 * shard);
  CollectiveT gather = collective(CollectiveKind::AllGather, {2}, n, ref(0, shard), ref(shard, 4 * shard));
  CollectiveT scatter = collective(CollectiveKind::ReduceScatter, {2}, n, ref(shard, 4 * shard), ref(5 * shard, shard));
  gather.slices = scatter.slices = rows;
  add(*program, 0, std::move(gather));
  add(*program, 0, std::move(scatter));
  auto executor = makeExecutor(*program, kNone);
  for (uint32_t rank = 0; rank < 4; ++rank)
    for (uint64_t i = 0; i < n; ++i)
      at<float>(*executor, rank, 0)[i] = float(rank * 20000 + i);
  ASSERT_TRUE(bool(executor->runStep({})));
  for (uint32_t rank = 0; rank < 4; ++rank)
    for (uint64_t i = 0; i < n; ++i) {
      for (uint32_t other = 0; other < 4; ++other)
        ASSERT_EQ(at<float>(*executor, rank, shard)[(i / slice * 4 + other) * slice + i % slice],
                  float(other * 20000 + i));
      ASSERT_EQ(at<float>(*executor, rank, 5 * shard)[i], 4 * float(rank * 20000 + i));
    }
}

TEST(Collectives, SlicesDivideTheShardOfAGatherOrAScatter) {
  for (auto [kind, count, slices, text] :
       {std::tuple(CollectiveKind::AllGather, 4, 3, "all_gather of 4 elements in 3 slices"),
        std::tuple(CollectiveKind::AllReduce, 4, 2, "all_reduce of 4 elements in 2 slices")}) {
    auto program = makeProgram({1, 1, 2}, 1, 64);
    CollectiveT wrong = collective(kind, {2}, count, ref(0, 16), kind == CollectiveKind::AllGather ? ref(16, 32) : ref(16, 16));
    wrong.slices = slices;
    add(*program, 0, std::move(wrong));
    auto status = planfile::checkBounds(*program);
    ASSERT_FALSE(bool(status));
    EXPECT_NE(status.message().find(text), std::string::npos) << status.message();
  }
}

// The first and the last of three stages reduce; the middle one takes no part.
TEST(Collectives, MembersOfTheStageAxis) {
  auto program = makeProgram({1, 3, 2}, 1, 8);
  for (uint32_t stage : {0u, 2u}) {
    CollectiveT tied = collective(CollectiveKind::AllReduce, {1}, 2, ref(0, 8), ref(0, 8));
    tied.members = {0, 2};
    add(*program, stage, std::move(tied));
  }
  auto executor = makeExecutor(*program, kNone);
  for (uint32_t rank = 0; rank < 6; ++rank)
    at<float>(*executor, rank, 0)[0] = float(1 << rank);
  ASSERT_TRUE(bool(executor->runStep({})));
  float expected[] = {1 + 16, 2 + 32, 4, 8, 1 + 16, 2 + 32};
  for (uint32_t rank = 0; rank < 6; ++rank)
    EXPECT_EQ(at<float>(*executor, rank, 0)[0], expected[rank]);
}

TEST(Collectives, MismatchIsAnErrorThatNamesBoth) {
  auto program = makeProgram({1, 2, 1}, 1, 16);
  add(*program, 0, collective(CollectiveKind::AllReduce, {1}, 2, ref(0, 8), ref(0, 8)));
  add(*program, 1, collective(CollectiveKind::AllReduce, {1}, 3, ref(0, 12), ref(0, 12)));
  auto executor = makeExecutor(*program, kNone);
  auto status = executor->runStep({});
  ASSERT_FALSE(bool(status));
  EXPECT_NE(status.message().find("all_reduce of 2 f32"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("all_reduce of 3 f32"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("node.a"), std::string::npos) << status.message();
}

} // namespace
