// Divides a row of layers into contiguous stages of a pipeline. Test:
// test/passes/2-train/BalanceTest.cpp.
#ifndef LLMC_PASSES_TRAIN_DIVIDELAYERS_BALANCE_H
#define LLMC_PASSES_TRAIN_DIVIDELAYERS_BALANCE_H

#include <cstdint>
#include <optional>
#include <vector>

namespace llmc::stages {

// Represents a model as stages see it; costs are FLOPs of the forward pass.
struct LayerCosts {
  std::vector<double> layers;   // of each layer, in order
  std::vector<bool> mayBegin;   // whether a stage may begin with the layer
  double before = 0, after = 0; // of what the first and the last stage have besides
};

// Returns the layers of each of `stages` stages: the division whose largest stage costs least; of
// equal ones the one with the least sum of squares of costs, of these the first in which earlier
// stages have more layers. Only the first and the last stage may have no layer. Nullopt if there is no such division.
// Takes stages x layers x log(layers) steps (Yao, 1980).
std::optional<std::vector<int64_t>> balance(const LayerCosts &costs, int64_t stages);

} // namespace llmc::stages

#endif // LLMC_PASSES_TRAIN_DIVIDELAYERS_BALANCE_H
