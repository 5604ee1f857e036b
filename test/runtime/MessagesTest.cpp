#include "PlanBuilder.h"

using namespace llmc;
using namespace llmc::test;
using runtime::ExecutorOptions;
using runtime::Kernels;

namespace {

void addOne(void *const *buffers, const int64_t *scalars, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i)
    static_cast<int64_t *>(buffers[0])[i] += scalars[0];
}

const Kernels kAddOne({addOne});

// Each stage receives, adds 1 + its coordinates' weights, and sends on; the last
// adds up all micro-batches. Slots are used round robin.
TEST(Messages, PipelineOfMicroBatches) {
  for (unsigned workers : {1u, 3u}) {
    constexpr uint32_t stages = 4, micro = 7, slots = 3;
    auto program = makeProgram({2, stages, 1}, 1, slots * 8 + 8, 1, slots, micro);
    for (uint32_t s = 0; s < stages; ++s) {
      add(*program, s, s == 0 ? FillT{} : FillT{});
      program->stages[s]->procedures[0]->instructions.back()->body.AsFill()->dst = ref(0, 8, 8);
      if (s > 0)
        add(*program, s, recv(1, -1, ref(0, 8, 8)));
      add(*program, s, launch(*program, "add", refs(ref(0, 8, 8)), 1, {expr(1, {100, 10, 0})}));
      if (s + 1 < stages)
        add(*program, s, send(1, 1, ref(0, 8, 8)));
    }
    ExecutorOptions options;
    options.workers = workers;
    auto executor = makeExecutor(*program, kAddOne, options);
    for (int step = 0; step < 3; ++step) {
      auto status = executor->runStep({});
      ASSERT_TRUE(bool(status)) << status.message();
    }
    for (uint32_t rank = 0; rank < executor->ranks(); ++rank) {
      std::vector<uint32_t> c = coordinateOf(*program->mesh, rank);
      int64_t expected = 0;
      for (uint32_t s = 0; s <= c[1]; ++s)
        expected += 1 + 100 * c[0] + 10 * s;
      for (uint32_t slot = 0; slot < slots; ++slot)
        EXPECT_EQ(*at<int64_t>(*executor, rank, slot * 8), expected);
    }
    auto counts = executor->counts();
    ASSERT_TRUE(bool(counts)) << counts.message();
    ASSERT_EQ(counts->size(), stages - 1);
    for (const runtime::Count &count : *counts)
      EXPECT_EQ(count.calls, 3 * micro);
  }
}

TEST(Messages, OrderWithinAChannelAndSizes) {
  auto program = makeProgram({1, 2}, 1, 32);
  add(*program, 0, send(1, 1, ref(0, 8)));
  add(*program, 0, send(1, 1, ref(8, 8)));
  add(*program, 1, recv(1, -1, ref(16, 8)));
  add(*program, 1, recv(1, -1, ref(0, 8)));
  auto executor = makeExecutor(*program, kNone);
  *at<int64_t>(*executor, 0, 0) = 11;
  *at<int64_t>(*executor, 0, 8) = 22;
  ASSERT_TRUE(bool(executor->runStep({})));
  EXPECT_EQ(*at<int64_t>(*executor, 1, 16), 11);
  EXPECT_EQ(*at<int64_t>(*executor, 1, 0), 22);

  auto wrong = makeProgram({1, 2}, 1, 32);
  add(*wrong, 0, send(1, 1, ref(0, 8)));
  add(*wrong, 1, recv(1, -1, ref(0, 16)));
  auto status = makeExecutor(*wrong, kNone)->runStep({});
  ASSERT_FALSE(bool(status));
  EXPECT_NE(status.message().find("part 0 has 8 bytes at rank 0 and 16 at rank 1"),
            std::string::npos)
      << status.message();
}

// Two streams of a rank share a channel: the messages still pair up.
TEST(Messages, TwoStreamsOnOneChannel) {
  auto program = makeProgram({1, 2}, 1, 64, 2, 1, 16);
  for (uint8_t stream : {0, 1}) {
    add(*program, 0, send(1, 1, ref(0, 8)), stream);
    add(*program, 1, recv(1, -1, ref(8 * stream, 8)), stream);
  }
  auto executor = makeExecutor(*program, kNone);
  *at<int64_t>(*executor, 0, 0) = 5;
  for (int i = 0; i < 50; ++i) {
    auto status = executor->runStep({});
    ASSERT_TRUE(bool(status)) << status.message();
  }
  EXPECT_EQ(*at<int64_t>(*executor, 1, 8), 5);
}

// Members of a group end in any order, but those of one channel pair up as listed.
TEST(Messages, GroupsWithTwoMessagesOnOneChannel) {
  auto program = makeProgram({1, 2}, 1, 32);
  for (uint64_t offset : {0, 8}) {
    SendT sent = send(1, 1, ref(offset, 8));
    RecvT received = recv(1, -1, ref(24 - offset, 8));
    sent.grouped = received.grouped = offset > 0;
    add(*program, 0, std::move(sent));
    add(*program, 1, std::move(received));
  }
  auto executor = makeExecutor(*program, kNone);
  for (int64_t step = 1; step <= 50; ++step) {
    *at<int64_t>(*executor, 0, 0) = 11 * step;
    *at<int64_t>(*executor, 0, 8) = 22 * step;
    support::Status status = executor->runStep({});
    ASSERT_TRUE(bool(status)) << status.message();
    ASSERT_EQ(*at<int64_t>(*executor, 1, 24), 11 * step);
    ASSERT_EQ(*at<int64_t>(*executor, 1, 16), 22 * step);
  }
  EXPECT_EQ((*executor->counts())[0].calls, 50u);
}

// Each end of a group wakes the other twice in a row; no wake may be lost.
TEST(Messages, ManyGroupsBetweenThreads) {
  auto program = makeProgram({4, 2}, 1, 32);
  for (int round = 0; round < 50; ++round)
    for (uint32_t s : {0u, 1u}) {
      RecvT received = recv(1, s ? -1 : 1, ref(16, 8), 1 - s);
      received.grouped = true;
      add(*program, s, send(1, s ? -1 : 1, ref(0, 8), s));
      add(*program, s, std::move(received));
    }
  ExecutorOptions options;
  options.workers = 4;
  auto executor = makeExecutor(*program, kNone, options);
  for (int step = 0; step < 400; ++step) {
    support::Status status = executor->runStep({});
    ASSERT_TRUE(bool(status)) << status.message();
  }
}

} // namespace
