#include "PlanBuilder.h"

#include "lib/support/ElementType.h"
#include "runtime/transport/Reduction.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstring>
#include <numeric>

using namespace llmc;
using namespace llmc::test;
using runtime::Executor;
using runtime::ExecutorOptions;
using runtime::Kernels;

namespace {

void setTo(void *const *buffers, const int64_t *scalars, int64_t, int64_t) {
  *static_cast<int64_t *>(buffers[0]) = scalars[0];
}
void copyOver(void *const *buffers, const int64_t *, int64_t, int64_t) {
  *static_cast<int64_t *>(buffers[1]) = *static_cast<int64_t *>(buffers[0]);
}

// Stream 0 waits for what stream 1 does, although it is looked at first.
TEST(Events, OrderStreams) {
  auto program = makeProgram({1, 1}, 1, 64, 2);
  add(*program, 0, launch(*program, "set", refs(ref(0, 8)), 1, {expr(7, {})}), 1);
  add(*program, 0, record(2), 1);
  add(*program, 0, waitFor(2), 0);
  add(*program, 0, launch(*program, "copy", refs(ref(0, 8), ref(8, 8))), 0);
  Kernels kernels({setTo, copyOver});
  auto executor = makeExecutor(*program, kernels);
  ASSERT_TRUE(bool(executor->runStep({})));
  EXPECT_EQ(*at<int64_t>(*executor, 0, 8), 7);
}

// A wait before any record of its slot passes; events start anew each step; a
// whole-step event has one instance for all slots.
TEST(Events, SlotsAndSteps) {
  auto program = makeProgram({1, 1}, 1, 64, 2, 2, 4);
  add(*program, 0, waitFor(0), 0);        // first use of each slot: no record yet
  add(*program, 0, record(1), 0);
  add(*program, 0, waitFor(1), 1);
  add(*program, 0, record(0), 1);
  add(*program, 0, record(3, true), 1);
  add(*program, 0, waitFor(3, true), 0);  // the next entry's stream 0 too
  auto executor = makeExecutor(*program, kNone);
  for (int step = 0; step < 3; ++step) {
    auto status = executor->runStep({});
    ASSERT_TRUE(bool(status)) << status.message();
  }
}

TEST(Blocked, ReportNamesRankInstructionOriginAndPartner) {
  auto program = makeProgram({1, 2}, 1, 32, 2);
  program->origins.push_back(origin("graph.matmul", {"h.3.mlp"}));
  add(*program, 0, recv(1, 1, ref(0, 8)));
  program->stages[0]->procedures[0]->instructions.back()->origin = 1;
  add(*program, 1, recv(1, -1, ref(0, 8)));
  add(*program, 1, record(0), 0);
  add(*program, 1, waitFor(0), 1);
  for (unsigned workers : {1u, 2u}) {
    ExecutorOptions options;
    options.workers = workers;
    auto executor = makeExecutor(*program, kNone, options);
    auto status = executor->runStep({});
    ASSERT_FALSE(bool(status));
    const std::string &report = status.message();
    for (const char *part :
         {"all ranks are blocked", "rank 0 (stage 0), stream 0: recv, instruction 0 of 'step'",
          "graph.matmul 'h.3.mlp'; waits for rank 1", "rank 1 (stage 1), stream 0: recv",
          "waits for rank 0", "rank 1 (stage 1), stream 1: wait",
          "waits for event 0 (0 of 1 recorded)"})
      EXPECT_NE(report.find(part), std::string::npos) << part << " not in\n" << report;
    EXPECT_FALSE(bool(executor->runStep({}))); // and it stays so
  }
}

TEST(Blocked, MissingMembersOfACollective) {
  auto program = makeProgram({1, 2, 2}, 1, 32);
  add(*program, 0, collective(CollectiveKind::AllReduce, {1, 2}, 1, ref(0, 4), ref(0, 4)));
  add(*program, 1, recv(1, -1, ref(0, 4)));
  auto status = makeExecutor(*program, kNone)->runStep({});
  ASSERT_FALSE(bool(status));
  EXPECT_NE(status.message().find("waits for rank 2, 3"), std::string::npos) << status.message();
}

// A rank that does nothing is done at once; a rank may have no instruction at all.
TEST(Executor, EmptyPlan) {
  auto program = makeProgram({2, 2}, 1, 0);
  auto executor = makeExecutor(*program, kNone);
  EXPECT_TRUE(bool(executor->runStep({})));
  EXPECT_TRUE(bool(executor->runStep({})));
}

TEST(Executor, CopyFillFeed) {
  auto program = makeProgram({2, 1}, 1, 64, 1, 1, 2);
  program->global_batch = 4;
  auto input = std::make_unique<InputBindingT>();
  input->name = "x";
  input->dtype = DType::I64;
  input->local_shape = {1, 1};
  input->batch_axes = {0};
  program->inputs.push_back(std::move(input));
  FeedT feed;
  feed.dst = ref(0, 8);
  add(*program, 0, std::move(feed));
  CopyT copy;
  copy.src = ref(0, 8);
  copy.dst = ref(8, 8);
  add(*program, 0, std::move(copy));
  FillT fill;
  fill.dst = ref(0, 8);
  add(*program, 0, std::move(fill));
  // Sums what was fed: micro-batch m of rank d is row 2m + d.
  add(*program, 0, launch(*program, "sum", refs(ref(8, 8), ref(16, 8))));
  Kernels kernels({[](void *const *b, const int64_t *, int64_t, int64_t) {
    int64_t *sum = static_cast<int64_t *>(b[1]);
    *sum = *sum * 100 + *static_cast<int64_t *>(b[0]);
  }});
  auto executor = makeExecutor(*program, kernels);
  std::vector<int64_t> batch = {1, 2, 3, 4};
  ASSERT_TRUE(bool(executor->runStep({reinterpret_cast<const std::byte *>(batch.data())})));
  EXPECT_EQ(*at<int64_t>(*executor, 0, 16), 103);
  EXPECT_EQ(*at<int64_t>(*executor, 1, 16), 204);
  EXPECT_EQ(*at<int64_t>(*executor, 0, 0), 0);
}

// Rows over dp, positions over tp, the innermost dim over cp or not at all: each rank gets its
// part of each micro-batch.
TEST(Executor, FeedOfPartsOfAnyDim) {
  for (bool inner : {false, true}) {
    auto program = makeProgram({2, 1, 2, 3}, 1, 512, 1, 1, 2);
    program->global_batch = 8;
    auto input = std::make_unique<InputBindingT>();
    input->name = "x";
    input->dtype = DType::I32;
    input->local_shape = {2, 3, 2};
    input->batch_axes = {0};
    input->dims.push_back(std::make_unique<DimShardingT>());
    input->dims[0]->axes = {2};
    if (inner) {
      input->dims.push_back(std::make_unique<DimShardingT>());
      input->dims[1]->axes = {3};
    }
    program->inputs.push_back(std::move(input));
    FeedT feed;
    feed.dst = ref(0, 48);
    add(*program, 0, std::move(feed));
    add(*program, 0, launch(*program, "keep", refs(ref(0, 48), ref(48, 48), ref(96, 48))));
    Kernels kernels({[](void *const *b, const int64_t *, int64_t, int64_t) {
      std::memcpy(b[1], b[2], 48); // the micro-batch before
      std::memcpy(b[2], b[0], 48);
    }});
    auto executor = makeExecutor(*program, kernels);
    int64_t positions = 6, width = inner ? 6 : 2;
    std::vector<int32_t> batch(8 * positions * width);
    std::iota(batch.begin(), batch.end(), 0);
    ASSERT_TRUE(bool(executor->runStep({reinterpret_cast<const std::byte *>(batch.data())})));
    for (uint32_t rank = 0; rank < executor->ranks(); ++rank) {
      std::vector<uint32_t> c = coordinateOf(*program->mesh, rank);
      for (int64_t micro = 0; micro < 2; ++micro)
        for (int64_t i = 0; i < 12; ++i) {
          int64_t row = (micro * 2 + c[0]) * 2 + i / 6, position = c[2] * 3 + i / 2 % 3;
          int64_t column = (inner ? c[3] * 2 : 0) + i % 2;
          ASSERT_EQ(at<int32_t>(*executor, rank, 48 + 48 * micro)[i],
                    (row * positions + position) * width + column);
        }
    }
  }
}

void squareRows(void *const *buffers, const int64_t *, int64_t begin, int64_t end) {
  auto *from = static_cast<float *>(buffers[0]), *to = static_cast<float *>(buffers[1]);
  for (int64_t i = begin * 1024; i < end * 1024; ++i)
    to[i] = from[i] * from[i] + 1;
}

// One rank uses several threads; every row is done exactly once.
TEST(Executor, LaunchIsSplitOverRows) {
  constexpr int64_t rows = 101;
  constexpr uint64_t bytes = rows * 1024 * 4;
  auto program = makeProgram({1, 1}, 1, 2 * bytes);
  add(*program, 0, launch(*program, "square", refs(ref(0, bytes), ref(bytes, bytes)), rows));
  Kernels kernels({squareRows});
  ExecutorOptions options;
  options.threadsPerRank = 3;
  auto executor = makeExecutor(*program, kernels, options);
  for (int64_t i = 0; i < rows * 1024; ++i)
    at<float>(*executor, 0, 0)[i] = float(i % 1000);
  for (int step = 0; step < 20; ++step) {
    std::fill_n(at<float>(*executor, 0, bytes), rows * 1024, 0.0f);
    ASSERT_TRUE(bool(executor->runStep({})));
    for (int64_t i = 0; i < rows * 1024; ++i)
      ASSERT_EQ(at<float>(*executor, 0, bytes)[i], float(i % 1000) * float(i % 1000) + 1);
  }
}

// Chooses expert 5 for each token.
void chooseFive(void *const *buffers, const int64_t *, int64_t begin, int64_t end) {
  std::fill(static_cast<int64_t *>(buffers[2]) + begin, static_cast<int64_t *>(buffers[2]) + end, 5);
}

// The caller sees the routes of each rank and micro-batch where they were written, and may change them.
TEST(Executor, RoutesAreShown) {
  auto program = makeProgram({2, 1}, 1, 1024, 1, 2, 2);
  LaunchT launched = launch(*program, "route", refs(ref(0, 2 * 8 * 4), ref(64, 8 * 4), ref(128, 2 * 8, 64)), 2);
  launched.routes = std::make_unique<RoutesT>();
  launched.routes->router = "gate";
  launched.routes->global_shape = {4, 1}, launched.routes->local_shape = {2, 1};
  launched.routes->dims.push_back(std::make_unique<DimShardingT>());
  launched.routes->dims.back()->axes = {0};
  launched.routes->experts = 8;
  for (const auto &operand : launched.operands)
    operand->access = operand == launched.operands.back() ? Access::Write : Access::Read;
  add(*program, 0, std::move(launched));
  Kernels kernels({chooseFive});
  ExecutorOptions options;
  std::vector<std::string> seen;
  options.workers = 1;
  options.routes = [&](const runtime::WrittenRoutes &written) {
    seen.push_back(support::text(written.of.router, " ", written.coordinate[0], " ", written.microBatch, " ",
                                 written.scores[15], " ", written.bias[7], " ", written.routes[1]));
    written.routes[1] = 3;
  };
  auto executor = makeExecutor(*program, kernels, options);
  for (uint32_t rank = 0; rank < 2; ++rank) {
    at<float>(*executor, rank, 0)[15] = 0.5f + float(rank);
    at<float>(*executor, rank, 64)[7] = 2;
  }
  ASSERT_TRUE(bool(executor->runStep({})));
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(seen, (std::vector<std::string>{"gate 0 0 0.5 2 5", "gate 0 1 0.5 2 5", "gate 1 0 1.5 2 5", "gate 1 1 1.5 2 5"}));
  for (uint64_t slot : {0, 1}) {
    EXPECT_EQ(at<int64_t>(*executor, 1, 128 + 64 * slot)[0], 5);
    EXPECT_EQ(at<int64_t>(*executor, 1, 128 + 64 * slot)[1], 3);
  }
}

// C += A B by nothing but its scalars: sizes, then the strides of A, B and C.
void fallbackMatmul(void *const *buffers, const int64_t *s, int64_t begin, int64_t end) {
  int64_t m = s[1], columns = s[2], depth = s[3];
  auto at = [&](int i, const int64_t *strides, int64_t batch, int64_t x, int64_t y) {
    return static_cast<float *>(buffers[i]) + batch * strides[0] + x * strides[1] + y * strides[2];
  };
  for (int64_t row = begin; row < end; ++row)
    for (int64_t n = 0; n < columns; ++n)
      for (int64_t k = 0; k < depth; ++k)
        *at(2, s + 10, row / m, row % m, n) +=
            *at(0, s + 4, row / m, row % m, k) * *at(1, s + 7, row / m, k, n);
}

// With and without oneDNN, with one thread and with two.
TEST(Executor, MatmulByLibraryAndByFallback) {
  MatmulT matmul;
  matmul.batch = 2, matmul.m = 6, matmul.n = 10, matmul.k = 8;
  matmul.a_strides = {48, 8, 1};
  matmul.b_strides = {80, 1, 8};
  matmul.c_strides = {60, 10, 1};
  matmul.accumulate = true;
  std::vector<float> results[2];
  for (bool library : {false, true}) {
    auto program = makeProgram({1, 1}, 1, 4096);
    program->kernels.push_back(std::make_unique<KernelT>());
    MatmulT copy = matmul;
    copy.a = ref(0, 96 * 4);
    copy.b = ref(1024, 160 * 4);
    copy.c = ref(2048, 120 * 4);
    add(*program, 0, std::move(copy));
    Kernels kernels({fallbackMatmul});
    ExecutorOptions options;
    options.useLibrary = library;
    options.threadsPerRank = 2;
    auto executor = makeExecutor(*program, kernels, options);
    for (int i = 0; i < 96; ++i)
      at<float>(*executor, 0, 0)[i] = float(i % 7) - 3;
    for (int i = 0; i < 160; ++i)
      at<float>(*executor, 0, 1024)[i] = float(i % 5) - 2;
    for (int i = 0; i < 120; ++i)
      at<float>(*executor, 0, 2048)[i] = float(i);
    ASSERT_TRUE(bool(executor->runStep({})));
    results[library].assign(at<float>(*executor, 0, 2048), at<float>(*executor, 0, 2048) + 120);
  }
  EXPECT_EQ(results[0], results[1]); // small integers: exact either way
  EXPECT_NE(results[0][5], 5.0f);
}

// As fallbackMatmul, but C = A B of bf16, summed in f32; C is of bf16 or f32 as `T` is.
template <class T> void narrowMatmul(void *const *buffers, const int64_t *s, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row)
    for (int64_t n = 0; n < s[2]; ++n) {
      float sum = 0;
      for (int64_t k = 0; k < s[3]; ++k)
        sum += support::bfloatToFloat(static_cast<uint16_t *>(buffers[0])[row * s[5] + k * s[6]]) *
               support::bfloatToFloat(static_cast<uint16_t *>(buffers[1])[k * s[8] + n * s[9]]);
      T *to = static_cast<T *>(buffers[2]) + row * s[11] + n * s[12];
      if constexpr (sizeof(T) == 2)
        *to = support::floatToBfloat(sum);
      else
        *to = sum;
    }
}

// The types of A, B and C are their own; by oneDNN where it has them, with rows of C and with
// columns of it dense.
TEST(Executor, MatmulOfNarrowTypes) {
  constexpr int64_t m = 40, n = 130, k = 64;
  for (DType type : {DType::BF16, DType::F32})
    for (bool turned : {false, true}) {
      std::vector<float> results[2];
      std::string notes[2];
      for (bool library : {false, true}) {
        auto program = makeProgram({1, 1}, 1, 1 << 16);
        program->kernels.push_back(std::make_unique<KernelT>());
        MatmulT matmul;
        matmul.a_type = matmul.b_type = DType::BF16;
        matmul.c_type = type;
        matmul.batch = 1, matmul.m = m, matmul.n = n, matmul.k = k;
        matmul.a_strides = {m * k, k, 1};
        matmul.b_strides = {k * n, n, 1};
        matmul.c_strides = turned ? std::vector<int64_t>{m * n, 1, m} : std::vector<int64_t>{m * n, n, 1};
        uint64_t size = byteSize(type);
        matmul.a = ref(0, m * k * 2);
        matmul.b = ref(8192, k * n * 2);
        matmul.c = ref(32768, m * n * size);
        add(*program, 0, std::move(matmul));
        Kernels kernels({type == DType::F32 ? narrowMatmul<float> : narrowMatmul<uint16_t>});
        ExecutorOptions options;
        options.useLibrary = library;
        options.threadsPerRank = 2;
        auto executor = makeExecutor(*program, kernels, options);
        notes[library] = executor->libraryNote();
        for (int64_t i = 0; i < m * k; ++i)
          at<uint16_t>(*executor, 0, 0)[i] = support::floatToBfloat(float(i % 7) - 3);
        for (int64_t i = 0; i < k * n; ++i)
          at<uint16_t>(*executor, 0, 8192)[i] = support::floatToBfloat(float(i % 5) - 2);
        ASSERT_TRUE(bool(executor->runStep({})));
        for (int64_t i = 0; i < m * n; ++i)
          results[library].push_back(
              size == 4 ? at<float>(*executor, 0, 32768)[i]
                        : support::bfloatToFloat(at<uint16_t>(*executor, 0, 32768)[i]));
      }
      // Small integers: sums are exact in f32, so both round the same number once.
      EXPECT_EQ(results[0], results[1]) << toString(type) << ", " << notes[1];
      EXPECT_NE(*std::max_element(results[1].begin(), results[1].end()), 0.0f);
    }
}

// Reads a byte of the next rank's arena, whose address it was told.
std::byte *otherArena = nullptr;
void trespass(void *const *, const int64_t *, int64_t, int64_t) {
  volatile std::byte value = *otherArena;
  (void)value;
}

TEST(Isolation, ForeignArenasAreClosedWhileAKernelRuns) {
  auto program = makeProgram({2, 1}, 1, 64);
  add(*program, 0, launch(*program, "trespass", refs(ref(0, 8))));
  Kernels kernels({trespass});
  auto run = [&](bool isolate, uint32_t rank) {
    ExecutorOptions options;
    options.isolate = isolate;
    options.workers = 1;
    auto executor = makeExecutor(*program, kernels, options);
    otherArena = executor->arena(rank);
    return bool(executor->runStep({}));
  };
  EXPECT_TRUE(run(false, 1));
  EXPECT_EXIT(run(true, 1), ::testing::KilledBySignal(SIGSEGV), "");
}

// Past the end of an arena lies a guard page, and before it too.
TEST(Isolation, GuardPages) {
  auto arena = runtime::Arena::map(4096);
  ASSERT_TRUE(bool(arena));
  arena->data()[4095] = std::byte(1);
  EXPECT_EXIT(arena->data()[4096] = std::byte(1), ::testing::KilledBySignal(SIGSEGV), "");
  EXPECT_EXIT(arena->data()[-1] = std::byte(1), ::testing::KilledBySignal(SIGSEGV), "");
}

TEST(Executor, ArenasLargerThanMemoryAreRefusedWithBothNumbers) {
  auto program = makeProgram({64, 1}, 1, uint64_t(1) << 44);
  auto made = Executor::create(*program, kNone, {});
  ASSERT_FALSE(bool(made));
  EXPECT_NE(made.message().find("1125899906842624 bytes"), std::string::npos) << made.message();
  EXPECT_NE(made.message().find("free"), std::string::npos);
}

// The same plan gives the same bits, however many workers race.
TEST(Executor, RepeatsBitForBit) {
  constexpr uint64_t n = 20000, bytes = n * 4;
  std::vector<float> first;
  for (unsigned workers : {1u, 4u, 2u, 4u}) {
    auto program = makeProgram({4, 1, 2}, 1, 2 * bytes, 1, 1, 5);
    add(*program, 0, collective(CollectiveKind::AllReduce, {0}, n, ref(0, bytes), ref(bytes, bytes)));
    add(*program, 0, collective(CollectiveKind::AllReduce, {2, 0}, n, ref(bytes, bytes), ref(0, bytes)));
    ExecutorOptions options;
    options.workers = workers;
    auto executor = makeExecutor(*program, kNone, options);
    for (uint32_t rank = 0; rank < 8; ++rank)
      for (uint64_t i = 0; i < n; ++i)
        at<float>(*executor, rank, 0)[i] = awkward(rank, i) * 1e-3f;
    ASSERT_TRUE(bool(executor->runStep({})));
    std::vector<float> result(at<float>(*executor, 3, 0), at<float>(*executor, 3, 0) + n);
    if (first.empty())
      first = result;
    EXPECT_EQ(result, first);
  }
}

// A program takes every core or none, and none that another of ours has.
TEST(Executor, PinsOnlyWhereItDoesNoHarm) {
  std::vector<int> before = runtime::allowedCores();
  auto threads = static_cast<unsigned>(before.size());
  if (threads < 2)
    GTEST_SKIP() << "one core";
  EXPECT_FALSE(runtime::Pinning::claim(threads - 1));
  EXPECT_FALSE(runtime::Pinning::claim(threads + 1));
  auto first = runtime::Pinning::claim(threads);
  EXPECT_FALSE(runtime::Pinning::claim(threads)); // taken, by this or another program
  if (first) {
    runtime::Pinning::Scope scope(first);
    EXPECT_EQ(runtime::allowedCores(), std::vector<int>{before[0]});
  }
  EXPECT_EQ(runtime::allowedCores(), before);
}

// 1,024 ranks on a few threads: an instruction costs well under a microsecond.
TEST(Executor, OverheadOfAThousandRanks) {
  constexpr uint32_t stages = 16, micro = 16;
  auto program = makeProgram({8, stages, 8}, 1, 1 << 14, 3, stages, micro);
  double instructions = 0;
  for (uint32_t s = 0; s < stages; ++s) {
    if (s > 0) {
      add(*program, s, recv(1, -1, ref(0, 64, 64)), 1);
      add(*program, s, record(0), 1);
      add(*program, s, waitFor(0), 0);
    }
    for (int i = 0; i < 40; ++i) {
      add(*program, s, launch(*program, "nothing", refs(ref(0, 64, 64), ref(8192, 64))));
      if (i % 10 == 9)
        add(*program, s, collective(CollectiveKind::AllReduce, {2}, 16, ref(8192, 64), ref(8192, 64)));
    }
    if (s + 1 < stages) {
      add(*program, s, record(1), 0);
      add(*program, s, waitFor(1), 2);
      add(*program, s, send(1, 1, ref(0, 64, 64)), 2);
    }
    instructions += 64.0 * micro * double(program->stages[s]->procedures[0]->instructions.size());
  }
  Kernels kernels({[](void *const *, const int64_t *, int64_t, int64_t) {}});
  auto executor = makeExecutor(*program, kernels);
  ASSERT_EQ(executor->ranks(), 1024u);
  double best = 1e9;
  for (int step = 0; step < 3; ++step) {
    auto begin = std::chrono::steady_clock::now();
    auto status = executor->runStep({});
    ASSERT_TRUE(bool(status)) << status.message();
    std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    best = std::min(best, time.count());
  }
  EXPECT_LT(best / instructions, 1e-6);
}

} // namespace
