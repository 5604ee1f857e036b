// Interleaved chunks, a split backward, lanes and message groups under the executor.
#include "PlanBuilder.h"

#include "lib/planfile/Check.h"
#include "runtime/cpu/Adversary.h"
#include "test/planfile/ChunkPlan.h"

#include <cmath>

using namespace llmc;
using namespace llmc::test;
using runtime::Executor;
using runtime::ExecutorOptions;
using runtime::Hazard;
using runtime::Kernels;

namespace {

constexpr float kRate = 0.0078125f;

float *data(void *const *b, int i) { return static_cast<float *>(b[i]); }

template <class F>
void forEachElement(F f) {
  for (uint64_t i = 0; i < kChunkFloats; ++i)
    f(i);
}

void forward(void *const *b, const int64_t *, int64_t, int64_t) {
  forEachElement([&](uint64_t i) { data(b, 2)[i] = data(b, 0)[i] * data(b, 1)[i]; });
}
void loss(void *const *b, const int64_t *, int64_t, int64_t) {
  forEachElement([&](uint64_t i) {
    float difference = data(b, 0)[i] - data(b, 1)[i];
    data(b, 2)[0] += difference * difference;
    data(b, 3)[i] = 2 * difference;
  });
}
void addWeight(void *const *b, const int64_t *, int64_t, int64_t) {
  forEachElement([&](uint64_t i) { data(b, 2)[i] += data(b, 0)[i] * data(b, 1)[i]; });
}
void update(void *const *b, const int64_t *, int64_t, int64_t) {
  forEachElement([&](uint64_t i) { data(b, 2)[i] -= data(b, 0)[0] * data(b, 1)[i]; });
}
void readLoss(void *const *b, const int64_t *, int64_t, int64_t) {
  data(b, 1)[0] = data(b, 0)[0];
}
const Kernels kKernels({forward, loss, forward, addWeight, update, readLoss});

float weightOf(unsigned place, uint64_t i) { return 0.75f + 0.0625f * float(place % 4) + 0.125f * float(i); }

struct Batch {
  explicit Batch(const ChunkShape &shape) : rows(shape.microBatches * shape.dp) {
    for (uint64_t i = 0; i < rows * kChunkFloats; ++i) {
      input.push_back(0.25f * float(i % 7) - 0.5f);
      labels.push_back(0.5f * float(i % 5) - 1.0f);
    }
  }
  std::vector<const std::byte *> inputs() const {
    return {reinterpret_cast<const std::byte *>(input.data()),
            reinterpret_cast<const std::byte *>(labels.data())};
  }
  uint64_t rows;
  std::vector<float> input, labels;
};

std::unique_ptr<Executor> makeFilled(const ProgramT &program, std::optional<uint64_t> seed,
                                     unsigned workers = 0) {
  ExecutorOptions options;
  options.interleaving = seed;
  options.workers = workers;
  auto executor = makeExecutor(program, kKernels, options);
  for (uint32_t rank = 0; rank < executor->ranks(); ++rank) {
    const StageT &stage = *program.stages[executor->stageOfRank(rank)];
    for (const auto &state : stage.states)
      if (state->role == StateRole::Parameter)
        for (uint64_t i = 0; i < kChunkFloats; ++i)
          at<float>(*executor, rank, state->buffer->offset)[i] = weightOf(state->view->source, i);
    *at<float>(*executor, rank, stage.host_scalars[0]->buffer->offset) = kRate;
  }
  return executor;
}

// The weights of all ranks, then the losses.
std::vector<float> results(const ProgramT &program, const Executor &executor) {
  std::vector<float> all;
  for (uint32_t rank = 0; rank < executor.ranks(); ++rank) {
    const StageT &stage = *program.stages[executor.stageOfRank(rank)];
    for (const auto &state : stage.states)
      if (state->role == StateRole::Parameter) {
        const float *from = at<float>(executor, rank, state->buffer->offset);
        all.insert(all.end(), from, from + kChunkFloats);
      }
    for (const auto &output : stage.outputs)
      all.push_back(*at<float>(executor, rank, output->buffer->offset));
  }
  return all;
}

// Returns the weights after one step, computed layer after layer on one rank, in double.
std::vector<std::vector<double>> expectedWeights(const ChunkShape &shape, const Batch &batch) {
  unsigned places = shape.stages * shape.chunks;
  std::vector<std::vector<double>> w(places), gradient(places);
  for (unsigned p = 0; p < places; ++p)
    for (uint64_t i = 0; i < kChunkFloats; ++i) {
      w[p].push_back(weightOf(p, i));
      gradient[p].push_back(0);
    }
  for (uint64_t e = 0; e < batch.input.size(); ++e) {
    uint64_t i = e % kChunkFloats;
    std::vector<double> x = {batch.input[e]};
    for (unsigned p = 0; p < places; ++p)
      x.push_back(x.back() * w[p][i]);
    double dy = 2 * (x.back() - batch.labels[e]);
    for (unsigned p = places; p-- > 0; dy *= w[p][i])
      gradient[p][i] += x[p] * dy;
  }
  for (unsigned p = 0; p < places; ++p)
    for (uint64_t i = 0; i < kChunkFloats; ++i)
      w[p][i] -= kRate * gradient[p][i];
  return w;
}

const ChunkShape kShapes[] = {{},
                              {.stages = 3, .chunks = 3, .microBatches = 5, .dp = 1, .gradients = 2},
                              {.stages = 4, .microBatches = 8, .activations = 4}};

} // namespace

TEST(Chunks, TheWeightsAreThoseOfOneRank) {
  for (const ChunkShape &shape : kShapes) {
    auto program = makeChunkPlan(shape);
    Batch batch(shape);
    auto executor = makeFilled(*program, std::nullopt);
    ASSERT_TRUE(bool(executor->runStep(batch.inputs())));
    std::vector<std::vector<double>> expected = expectedWeights(shape, batch);
    for (uint32_t rank = 0; rank < executor->ranks(); ++rank)
      for (const auto &state : program->stages[executor->stageOfRank(rank)]->states)
        if (state->role == StateRole::Parameter)
          for (uint64_t i = 0; i < kChunkFloats; ++i) {
            double want = expected[state->view->source][i];
            EXPECT_NEAR(at<float>(*executor, rank, state->buffer->offset)[i], want,
                        1e-4 * std::max(1.0, std::abs(want)));
          }
  }
}

TEST(Chunks, EverySeedAndThreadGivesTheBitsOfTheOrder) {
  for (const ChunkShape &shape : kShapes) {
    auto program = makeChunkPlan(shape);
    ASSERT_EQ(formatFindings(checkAll(*program)), "");
    Batch batch(shape);
    auto run = [&](std::optional<uint64_t> seed, unsigned workers) {
      auto executor = makeFilled(*program, seed, workers);
      for (int step = 0; step < 2; ++step) {
        support::Status status = executor->runStep(batch.inputs());
        EXPECT_TRUE(bool(status)) << "seed " << seed.value_or(0) << ": " << status.message();
      }
      return results(*program, *executor);
    };
    std::vector<float> inOrder = run(std::nullopt, 1);
    for (float value : inOrder)
      ASSERT_TRUE(std::isfinite(value));
    EXPECT_EQ(run(std::nullopt, 3), inOrder);
    for (uint64_t seed = 0; seed < 200; ++seed)
      ASSERT_EQ(run(seed, 0), inOrder) << "seed " << seed;
  }
}

// A receive over what the send of its group reads: whichever ends first.
TEST(Chunks, ARaceInsideOfAGroupIsFoundOut) {
  auto program = makeChunkPlan({});
  for (auto &procedure : program->stages[0]->procedures) {
    const SendT *send = nullptr;
    for (auto &inst : procedure->instructions) {
      if (inst->body.AsSend())
        send = inst->body.AsSend();
      RecvT *recv = inst->body.AsRecv();
      if (recv && recv->grouped && send)
        recv->parts[0] = std::make_unique<BufferRefT>(*send->parts[0]);
    }
  }
  Batch batch(ChunkShape{});
  unsigned found = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    auto executor = makeFilled(*program, seed);
    if (!executor->runStep(batch.inputs()))
      found += executor->hazard() != nullptr;
  }
  EXPECT_GT(found, 10u);
}

// Both ends send before they receive.
TEST(Chunks, ATornGroupBlocksAndIsReported) {
  auto program = makeChunkPlan({});
  for (auto &stage : program->stages)
    for (auto &procedure : stage->procedures)
      for (auto &inst : procedure->instructions) {
        if (SendT *send = inst->body.AsSend())
          send->grouped = false;
        if (RecvT *recv = inst->body.AsRecv())
          recv->grouped = false;
      }
  Batch batch(ChunkShape{});
  auto executor = makeFilled(*program, std::nullopt);
  support::Status status = executor->runStep(batch.inputs());
  ASSERT_FALSE(bool(status));
  for (const char *part : {"all ranks are blocked", "rank 0 (stage 0), stream 1: send, instruction 2 of",
                           "waits for rank 1", "(micro-batch 1, slot 1)"})
    EXPECT_NE(status.message().find(part), std::string::npos) << part << " not in\n" << status.message();
}

// A message that nobody sends: the report names the member of the group that waits.
TEST(Chunks, ABlockedGroupNamesTheMemberThatWaits) {
  auto program = makeChunkPlan({});
  for (auto &procedure : program->stages[1]->procedures) {
    auto &list = procedure->instructions;
    for (size_t i = 0; i + 1 < list.size(); ++i)
      if (list[i]->body.AsSend() && list[i + 1]->body.AsRecv()) {
        list[i + 1]->body.AsRecv()->grouped = false;
        list.erase(list.begin() + static_cast<ptrdiff_t>(i));
        break;
      }
  }
  Batch batch(ChunkShape{});
  auto executor = makeFilled(*program, std::nullopt);
  support::Status status = executor->runStep(batch.inputs());
  ASSERT_FALSE(bool(status));
  EXPECT_NE(status.message().find("rank 0 (stage 0), stream 1: recv, instruction 3 of 'exchange"),
            std::string::npos)
      << status.message();
  EXPECT_EQ(status.message().find("rank 0 (stage 0), stream 1: send"), std::string::npos)
      << status.message();
}
