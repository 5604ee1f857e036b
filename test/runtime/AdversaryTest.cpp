#include "PlanBuilder.h"

#include "lib/planfile/Check.h"
#include "lib/support/ElementType.h"
#include "runtime/cpu/Adversary.h"
#include "runtime/cpu/Poison.h"

#include <cmath>
#include <cstring>
#include <set>

using namespace llmc;
using namespace llmc::test;
using runtime::Executor;
using runtime::ExecutorOptions;
using runtime::Hazard;
using runtime::Kernels;

namespace {

constexpr uint64_t kFloats = 4, kBytes = kFloats * 4;

// b[1] = 2 b[0] + 1, but for the gradient of an accumulator: b[1] += b[0].
void twiceAndOne(void *const *b, const int64_t *, int64_t, int64_t) {
  for (uint64_t i = 0; i < kFloats; ++i)
    static_cast<float *>(b[1])[i] = 2 * static_cast<float *>(b[0])[i] + 1;
}
void addTo(void *const *b, const int64_t *, int64_t, int64_t) {
  for (uint64_t i = 0; i < kFloats; ++i)
    static_cast<float *>(b[1])[i] += static_cast<float *>(b[0])[i];
}
const Kernels kKernels({twiceAndOne, addTo});

LaunchT call(ProgramT &program, const std::string &kernel, std::unique_ptr<BufferRefT> from,
             std::unique_ptr<BufferRefT> to) {
  if (program.kernels.empty())
    for (const char *name : {"twiceAndOne", "addTo"}) {
      program.kernels.push_back(std::make_unique<KernelT>());
      program.kernels.back()->name = name;
    }
  LaunchT made = launch(program, kernel, refs(std::move(from), std::move(to)));
  made.operands[0]->access = Access::Read;
  made.operands[1]->access = kernel == "addTo" ? Access::ReadWrite : Access::Write;
  return made;
}

void addState(ProgramT &program, uint32_t stage, const std::string &name, uint64_t offset) {
  auto state = std::make_unique<StateShardT>();
  state->name = name;
  state->role = StateRole::Accumulator;
  state->dtype = DType::F32;
  state->global_shape = state->local_shape = {int64_t(kFloats)};
  state->dims.push_back(std::make_unique<DimShardingT>());
  state->buffer = ref(offset, kBytes);
  program.stages[stage]->states.push_back(std::move(state));
}

// Arena: a weight, a sum, a value (one a slot), its reduction (one a slot).
constexpr uint64_t kWeight = 0, kSum = kBytes, kValue = 2 * kBytes, kReduced = 4 * kBytes,
                   kReceived = 6 * kBytes, kArena = 8 * kBytes;

// Two stages of two ranks. Each micro-batch is computed on stream 0, reduced on
// stream 1 and summed on stream 0; stage 0 sends its reduction from stream 2.
std::unique_ptr<ProgramT> twoStages() {
  auto program = makeProgram({1, 2, 2}, 1, kArena, 3, 2, 4, 8);
  for (uint32_t s : {0u, 1u}) {
    addState(*program, s, "weight", kWeight);
    addState(*program, s, "sum", kSum);
    uint64_t source = kWeight;
    if (s == 1) {
      add(*program, s, recv(1, -1, ref(kReceived, kBytes, kBytes)));
      source = kReceived;
    }
    add(*program, s, waitFor(3)); // the send of this slot's last micro-batch
    add(*program, s, call(*program, "twiceAndOne", ref(source, kBytes, s ? kBytes : 0),
                          ref(kValue, kBytes, kBytes)));
    add(*program, s, record(0));
    add(*program, s, waitFor(0), 1);
    add(*program, s, collective(CollectiveKind::AllReduce, {2}, kFloats, ref(kValue, kBytes, kBytes),
                                ref(kReduced, kBytes, kBytes)), 1);
    add(*program, s, record(1), 1);
    add(*program, s, waitFor(1));
    add(*program, s, call(*program, "addTo", ref(kReduced, kBytes, kBytes), ref(kSum, kBytes)));
    if (s == 0) {
      add(*program, s, waitFor(1), 2);
      add(*program, s, send(1, 1, ref(kReduced, kBytes, kBytes)), 2);
      add(*program, s, record(3), 2);
    }
  }
  return program;
}

void removeAt(ProgramT &program, uint32_t stage, size_t index) {
  auto &list = program.stages[stage]->procedures[0]->instructions;
  list.erase(list.begin() + static_cast<ptrdiff_t>(index));
}

std::unique_ptr<Executor> makeFilled(const ProgramT &program, std::optional<uint64_t> seed) {
  ExecutorOptions options;
  options.interleaving = seed;
  auto executor = makeExecutor(program, kKernels, options);
  for (uint32_t rank = 0; rank < executor->ranks(); ++rank)
    for (uint64_t i = 0; i < kFloats; ++i)
      at<float>(*executor, rank, kWeight)[i] = float(rank + i) / 3;
  return executor;
}

std::vector<float> sums(const Executor &executor) {
  std::vector<float> all;
  for (uint32_t rank = 0; rank < executor.ranks(); ++rank)
    all.insert(all.end(), at<float>(executor, rank, kSum), at<float>(executor, rank, kSum) + kFloats);
  return all;
}

// Holds the faults that seeds 1 to 20 found in a plan; an empty message: none.
struct Found {
  unsigned runs = 0;
  std::string message;
  std::set<Hazard::Kind> kinds;
  std::set<std::string> messages;
};
Found findIn20(const ProgramT &program) {
  Found found;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    auto executor = makeFilled(program, seed);
    support::Status status = executor->runStep({});
    if (status)
      continue;
    EXPECT_NE(executor->hazard(), nullptr) << status.message();
    if (executor->hazard()) {
      found.kinds.insert(executor->hazard()->kind);
      EXPECT_EQ(executor->hazard()->message, status.message());
    }
    found.messages.insert(status.message());
    found.message = status.message();
    ++found.runs;
  }
  return found;
}

TEST(Adversary, PoisonIsNaNInEveryType) {
  std::vector<std::byte> arena(64);
  for (uint64_t begin : {0, 1, 2, 3}) {
    runtime::poison(arena.data(), begin, arena.size());
    for (uint64_t at = (begin + 1) / 2 * 2; at + 2 <= arena.size(); at += 2) {
      uint16_t bits;
      std::memcpy(&bits, &arena[at], sizeof bits);
      EXPECT_TRUE(std::isnan(support::bfloatToFloat(bits)));
      EXPECT_TRUE(std::isnan(support::halfToFloat(bits)));
    }
    for (uint64_t at = (begin + 3) / 4 * 4; at + 4 <= arena.size(); at += 4) {
      float value;
      std::memcpy(&value, &arena[at], sizeof value);
      EXPECT_TRUE(std::isnan(value));
    }
    double wide;
    std::memcpy(&wide, &arena[8], sizeof wide);
    EXPECT_TRUE(std::isnan(wide));
  }
}

TEST(Adversary, EverySeedGivesTheBitsOfTheOrder) {
  auto program = twoStages();
  EXPECT_EQ(formatFindings(checkHappensBefore(*program)), "");
  auto inOrder = makeFilled(*program, std::nullopt);
  for (int step = 0; step < 3; ++step)
    ASSERT_TRUE(bool(inOrder->runStep({})));
  ASSERT_FALSE(std::isnan(sums(*inOrder)[0]));
  for (uint64_t seed = 0; seed < 200; ++seed) {
    auto executor = makeFilled(*program, seed);
    for (int step = 0; step < 3; ++step) {
      support::Status status = executor->runStep({});
      ASSERT_TRUE(bool(status)) << "seed " << seed << ": " << status.message();
    }
    ASSERT_EQ(sums(*executor), sums(*inOrder)) << "seed " << seed;
    auto counts = executor->counts();
    ASSERT_TRUE(bool(counts));
    for (const runtime::Count &count : *counts)
      EXPECT_EQ(count.calls, 12u);
  }
}

// Every wait of the plan: the checker and the executor agree on whether it is
// needed, and the executor needs at most 20 runs.
TEST(Adversary, EachMissingWaitIsFound) {
  auto whole = twoStages();
  unsigned needed = 0, all = 0;
  for (uint32_t stage : {0u, 1u})
    for (size_t i = 0; i < whole->stages[stage]->procedures[0]->instructions.size(); ++i) {
      if (!whole->stages[stage]->procedures[0]->instructions[i]->body.AsWait())
        continue;
      auto program = twoStages();
      removeAt(*program, stage, i);
      bool race = !checkHappensBefore(*program).empty();
      Found found = findIn20(*program);
      EXPECT_EQ(race, found.runs > 0) << "stage " << stage << " instruction " << i << "\n"
                                      << formatFindings(checkHappensBefore(*program));
      needed += race;
      ++all;
    }
  EXPECT_EQ(all, 7u);
  EXPECT_GE(needed, 5u);
}

TEST(Adversary, AHazardNamesBothSides) {
  auto program = twoStages();
  program->origins.push_back(origin("graph.add", {"h.3.mlp"}));
  program->stages[0]->procedures[0]->instructions[7]->origin = 1; // addTo
  removeAt(*program, 0, 6);                                      // its wait
  Found found = findIn20(*program);
  ASSERT_GT(found.runs, 0u);
  EXPECT_EQ(found.kinds, std::set<Hazard::Kind>{Hazard::EarlyRead});
  for (const char *part :
       {"a wait is missing: arena bytes [", "stage 0, step[4] all_reduce over tp", "micro-batch ",
        "(stage 0), stream 0: launch, instruction 6 of 'step'", "graph.add 'h.3.mlp'"})
    EXPECT_NE(found.message.find(part), std::string::npos) << part << " not in\n" << found.message;
}

// The sender overwrites what is still on its way.
TEST(Adversary, AMissingWaitOfTheSenderIsFound) {
  auto program = twoStages();
  program->stages[0]->pools[0]->slots = program->stages[1]->pools[0]->slots = 1;
  for (auto &stage : program->stages)
    for (auto &entry : stage->table)
      entry->slot = 0;
  EXPECT_EQ(formatFindings(checkHappensBefore(*program)), "");
  EXPECT_EQ(findIn20(*program).message, "");
  removeAt(*program, 0, 0);
  EXPECT_FALSE(checkHappensBefore(*program).empty());
  Found found = findIn20(*program);
  ASSERT_GT(found.runs, 0u);
  EXPECT_TRUE(found.kinds.count(Hazard::EarlyWrite));
  EXPECT_NE(found.message.find("send to pp + 1"), std::string::npos) << found.message;
}

// The same seed is the same run.
TEST(Adversary, ASeedRepeats) {
  auto program = twoStages();
  removeAt(*program, 0, 6);
  std::set<std::string> messages;
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    std::string first;
    for (int again = 0; again < 3; ++again) {
      auto executor = makeFilled(*program, seed);
      support::Status status = executor->runStep({});
      std::string message = status ? "" : status.message();
      if (again == 0)
        first = message;
      EXPECT_EQ(message, first);
    }
    messages.insert(first);
  }
  EXPECT_GT(messages.size(), 1u); // and another seed is another one
}

TEST(Adversary, UnwrittenBytesArePoison) {
  auto program = makeProgram({1, 1}, 1, kArena);
  addState(*program, 0, "sum", kSum);
  add(*program, 0, call(*program, "addTo", ref(kValue, kBytes), ref(kSum, kBytes)));
  auto executor = makeFilled(*program, 1);
  support::Status status = executor->runStep({});
  ASSERT_FALSE(bool(status));
  ASSERT_NE(executor->hazard(), nullptr);
  EXPECT_EQ(executor->hazard()->kind, Hazard::PoisonRead);
  EXPECT_EQ(executor->hazard()->instruction, 0u);
  EXPECT_EQ(executor->hazard()->procedure, "step");
  EXPECT_NE(status.message().find("operand 0, arena bytes [32, 48), at byte 32; nothing writes it"),
            std::string::npos)
      << status.message();
}

// A kernel that reads what its plan does not say gets a NaN: before the bytes are
// written, and after their last reader.
TEST(Adversary, UndeclaredReadsSeeNaN) {
  for (bool freed : {false, true}) {
    auto program = makeProgram({1, 1}, 1, kArena);
    addState(*program, 0, "weight", kWeight);
    addState(*program, 0, "sum", kSum);
    if (freed) {
      add(*program, 0, call(*program, "twiceAndOne", ref(kWeight, kBytes), ref(kValue, kBytes)));
      add(*program, 0, call(*program, "addTo", ref(kValue, kBytes), ref(kSum, kBytes)));
    }
    LaunchT liar = call(*program, "addTo", ref(kValue, kBytes), ref(kSum, kBytes));
    liar.operands[0]->access = Access::Write;
    add(*program, 0, std::move(liar));
    auto executor = makeFilled(*program, 1);
    ASSERT_TRUE(bool(executor->runStep({})));
    EXPECT_TRUE(std::isnan(at<float>(*executor, 0, kSum)[0]));
    auto inOrder = makeFilled(*program, std::nullopt);
    ASSERT_TRUE(bool(inOrder->runStep({})));
    EXPECT_FALSE(std::isnan(at<float>(*inOrder, 0, kSum)[0]));
  }
}

// The old bytes of a target are gone once the collective has begun, though they
// persist over steps and a kernel reads them without saying so.
TEST(Adversary, ATargetUnderWayIsNaN) {
  unsigned poisoned = 0, others = 0;
  for (bool inPlace : {false, true})
    for (uint64_t seed = 0; seed < 40; ++seed) {
      auto program = makeProgram({1, 1, 2}, 1, kArena, 2);
      addState(*program, 0, "weight", kWeight);
      addState(*program, 0, "sum", kSum);
      addState(*program, 0, "target", kValue);
      add(*program, 0, collective(CollectiveKind::AllReduce, {2}, kFloats,
                                  ref(inPlace ? kValue : kWeight, kBytes), ref(kValue, kBytes)));
      LaunchT liar = call(*program, "addTo", ref(kValue, kBytes), ref(kSum, kBytes));
      liar.operands[0]->access = Access::None;
      add(*program, 0, std::move(liar), 1);
      auto executor = makeFilled(*program, seed);
      for (uint32_t rank : {0u, 1u})
        at<float>(*executor, rank, kValue)[0] = 1 + float(rank);
      support::Status status = executor->runStep({});
      ASSERT_TRUE(bool(status)) << status.message();
      EXPECT_EQ(at<float>(*executor, 0, kValue)[0], inPlace ? 3 : 1 / 3.0f);
      ++(std::isnan(at<float>(*executor, 1, kSum)[0]) ? poisoned : others);
    }
  EXPECT_GT(poisoned, 10u);
  EXPECT_GT(others, 10u);
}

// Two groups that both stages enter on one stream, in different order.
TEST(Adversary, AnInvertedLaunchOrderIsNamed) {
  auto program = makeProgram({2, 2}, 1, 64);
  std::vector<std::vector<uint32_t>> order[2] = {{{1}, {0, 1}}, {{0, 1}, {1}}};
  for (uint32_t s : {0u, 1u})
    for (const auto &axes : order[s])
      add(*program, s, collective(CollectiveKind::AllReduce, axes, 2, ref(axes.size() * 8, 8),
                                  ref(axes.size() * 8, 8)));
  for (uint32_t s : {0u, 1u}) {
    addState(*program, s, "a", 0);
    addState(*program, s, "b", 16);
  }
  EXPECT_FALSE(checkLaunchOrder(*program).empty());
  for (uint64_t seed = 0; seed < 20; ++seed) {
    ExecutorOptions options;
    options.interleaving = seed;
    auto executor = makeExecutor(*program, Kernels(std::vector<runtime::KernelFunction>{}), options);
    support::Status status = executor->runStep({});
    ASSERT_FALSE(bool(status));
    EXPECT_EQ(executor->hazard(), nullptr);
    for (const char *part :
         {"all ranks are blocked", "rank 0 (stage 0), stream 0: collective, instruction 0 of 'step'",
          "rank 1 (stage 1), stream 0: collective, instruction 0 of 'step'", "rank 2", "rank 3",
          "waits for rank"})
      EXPECT_NE(status.message().find(part), std::string::npos) << part << " not in\n" << status.message();
  }
}

// The same on one communicator: the members meet at different collectives.
TEST(Adversary, CollectivesThatDoNotMatchAreNamedOnBothSides) {
  for (std::optional<uint64_t> seed : {std::optional<uint64_t>(), std::optional<uint64_t>(3)}) {
    auto program = makeProgram({1, 2}, 1, 64);
    for (uint32_t s : {0u, 1u}) {
      addState(*program, s, "a", 0);
      addState(*program, s, "b", 16);
      for (uint64_t i : {s, 1 - s})
        add(*program, s, collective(CollectiveKind::AllReduce, {1}, 2 + i, ref(16 * i, 8 + 4 * i),
                                    ref(16 * i, 8 + 4 * i)));
    }
    program->origins.push_back(origin("graph.sum", {"wte"}));
    program->stages[1]->procedures[0]->instructions[0]->origin = 1;
    EXPECT_FALSE(checkCollectives(*program).empty());
    ExecutorOptions options;
    options.interleaving = seed;
    auto executor = makeExecutor(*program, Kernels(std::vector<runtime::KernelFunction>{}), options);
    support::Status status = executor->runStep({});
    ASSERT_FALSE(bool(status));
    for (const char *part : {"collectives do not match", "rank 0 is at an all_reduce of 2 f32",
                             "\n  rank 0 (stage 0), stream 0: collective, instruction 0 of 'step'",
                             "\n  rank 1 (stage 1), stream 0: collective, instruction 0 of 'step'",
                             "graph.sum 'wte'"})
      EXPECT_NE(status.message().find(part), std::string::npos) << part << " not in\n" << status.message();
  }
}

TEST(Adversary, AnUnmatchedCollectiveIsNamed) {
  auto program = makeProgram({1, 2, 2}, 1, 64);
  addState(*program, 0, "a", 0);
  addState(*program, 1, "a", 0);
  for (uint32_t s : {0u, 1u})
    add(*program, s, collective(CollectiveKind::AllReduce, {1}, 2, ref(0, 8), ref(0, 8)));
  add(*program, 0, collective(CollectiveKind::AllReduce, {1}, 2, ref(0, 8), ref(0, 8)));
  EXPECT_FALSE(checkCollectives(*program).empty());
  for (uint64_t seed = 0; seed < 20; ++seed) {
    ExecutorOptions options;
    options.interleaving = seed;
    auto executor = makeExecutor(*program, Kernels(std::vector<runtime::KernelFunction>{}), options);
    support::Status status = executor->runStep({});
    ASSERT_FALSE(bool(status));
    for (const char *part : {"rank 0 (stage 0), stream 0: collective, instruction 1 of 'step'",
                             "waits for rank 2", "rank 1 (stage 0)", "waits for rank 3"})
      EXPECT_NE(status.message().find(part), std::string::npos) << part << " not in\n" << status.message();
  }
}

} // namespace
