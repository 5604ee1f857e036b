// Problems whose answers are worked out by hand: each constant of the answer stands here.
#include "Tables.h"

#include "lib/cost/Collectives.h"
#include "lib/cost/Memory.h"

#include <gtest/gtest.h>

using namespace llmc;
using namespace llmc::cost;
using namespace llmc::test;

namespace {

// Returns ranks of one card each whose links reach their data sheet at once.
Machine idealNetwork(double gigabits) {
  Machine machine = machineOf("h100", {}, 1);
  machine.cluster.gpusPerNode = machine.cluster.nvlinkDomain = 1;
  machine.cluster.nic = gigabits * 1e9 / 8;
  machine.cluster.nvlink = 1e18;
  machine.cluster.nicLatency = 0;
  machine.constants.nicCollective = 1;
  return machine;
}

// Sums 14 GB over 64 ranks: 2 x 63 / 64 x 14e9 / 12.5e9; many ranks: 2 x 14 / 12.5.
TEST(WorkedProblems, AllReduceOfGradients) {
  Machine machine = idealNetwork(100);
  double bytes = 7e9 * 2;
  EXPECT_NEAR(timeOf(machine, {Transfer::AllReduce, Role::Data, {64, 1}, bytes}), 2.205, 5e-4);
  EXPECT_NEAR(timeOf(machine, {Transfer::AllReduce, Role::Data, {1 << 20, 1}, bytes}), 2.24, 1e-4);
}

// Returns the bytes of weights, gradients and states of one of `ranks` ranks (Rajbhandari et al., 2020, Figure 1).
double stateBytes(double parameters, int64_t ranks, int zero) {
  Table table = uniformTable(1, 1, 1);
  table.kinds[0].parameters.dense = parameters;
  table.kinds[0].forward.products.clear();
  Machine machine = machineOf("a100-80g", {.dp = ranks}, 1);
  machine.choices.zero = zero;
  machine.choices.gradients = Number::Bf16;
  MemoryParts m = predictMemory(table, machine)[0];
  return m.weights + m.masters + m.gradients + m.optimizer;
}

TEST(WorkedProblems, StatesOfZero) {
  const double expected[] = {208e9, 71.5e9, 48.75e9, 26e9};
  for (int zero = 0; zero < 4; ++zero)
    EXPECT_NEAR(stateBytes(13e9, 8, zero), expected[zero], 1e6) << zero;
  // Needs stage 2 on eight A100 of 80 GB, with room left for activations.
  EXPECT_LT(stateBytes(13e9, 8, 2), 0.7 * 80e9);
  EXPECT_GT(stateBytes(13e9, 8, 1), 0.7 * 80e9);
  EXPECT_NEAR(stateBytes(7e9, 1, 0), 112e9, 1e6);
  EXPECT_NEAR(stateBytes(70e9, 1, 0), 1.12e12, 1e6);
}

// Gathers weights twice and scatters gradients once: 3 in place of the 2 of an all-reduce.
TEST(WorkedProblems, TrafficOfZero3) {
  double gather = wireBytes(Transfer::AllGather, 64, 1e9), scatter = wireBytes(Transfer::ReduceScatter, 64, 1e9);
  EXPECT_DOUBLE_EQ((2 * gather + scatter) / wireBytes(Transfer::AllReduce, 64, 1e9), 1.5);
}

TEST(WorkedProblems, DaysOfATraining) {
  double flops = trainingFlops(70e9, 2e12);
  EXPECT_NEAR(flops, 8.4e23, 1e18);
  double seconds = flops / (1024 * 312e12 * 0.4);
  EXPECT_NEAR(seconds / 86400, 76, 0.5);
}

// Gives the idle share of uniform stages: (p - 1) / (v m + p - 1) (Narayanan et al., 2021, section 2.2).
double bubble(int64_t p, int64_t m, int64_t v) {
  Table table = uniformTable(int(p * v), 4096, 4096);
  Machine machine = machineOf("h100", {.pp = p}, m);
  machine.choices.chunks = v;
  machine.choices.order = v > 1 ? Order::Interleaved : Order::OneFOneB;
  machine.cluster.nic = machine.cluster.nvlink = 1e18; // messages take no time
  machine.cluster.nicLatency = machine.cluster.linkLatency = 0;
  return predictStep(table, machine).bubbleFraction;
}

TEST(WorkedProblems, Bubbles) {
  EXPECT_NEAR(bubble(4, 4, 1), 3.0 / 7, 1e-6);
  EXPECT_NEAR(bubble(8, 32, 1), 7.0 / 39, 1e-6);
  EXPECT_NEAR(bubble(4, 8, 4), 3.0 / 35, 1e-6);
}

} // namespace
