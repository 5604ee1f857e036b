// Defines what goes into and comes out of steps of training or runs of inference, for every way
// to run them, and measures how far two outcomes are apart. Tested by
// test/verify/steps/RepeatedStepsTest.cpp.
#ifndef LLMC_LIB_VERIFY_STEPS_TRAINING_H
#define LLMC_LIB_VERIFY_STEPS_TRAINING_H

#include "dialects/graph/Tensor.h"

#include <map>
#include <string>
#include <vector>

namespace llmc::verify {

using graph::Tensor;
using NamedTensors = std::map<std::string, Tensor>;

// Holds the inputs of one step.
struct StepData {
  // Maps the name of an input to all rows of the step, [global batch, ...]. Micro-batch k of the
  // global view is rows [k * B, (k + 1) * B), B = rows of a micro-batch. For an inference it is
  // the whole input, of any shape.
  NamedTensors inputs;
  // Maps the names of the update's host scalars ("lr", "clip", ...) to values rounded to float.
  std::map<std::string, double> scalars;
  // Counts how often the step has these rows, one after the other. The interpreters run them once
  // and multiply their contribution.
  int64_t repeats = 1;
};

// Returns the inputs with all rows of the step, repetitions included.
NamedTensors allRows(const StepData &data);

// Holds initial weights and the inputs of some steps.
struct Trial {
  NamedTensors weights; // initial values by source tensor, rounded to float
  std::vector<StepData> steps;
};

// Maps the routers of a model, by their nodes, to the experts that they choose in one step, before any limit:
// [rows, tokens, choices].
using ChosenRoutes = std::map<std::string, std::vector<int32_t>>;

// Holds what running a trial leaves, for comparison.
struct Outcome {
  std::vector<double> losses;            // one a step
  std::map<std::string, double> outputs; // of the first step: "grad_norm", "tokens"
  NamedTensors gradients;                // of the first step's mean loss, by source tensor
  NamedTensors weights;                  // after the last step, by source tensor
  // Maps the names of an inference's outputs to those of the first step. An inference fills only
  // this field and the next two.
  NamedTensors results;
  std::vector<ChosenRoutes> routes; // by step; of an interpreter of one rank alone
  // Holds the largest absolute difference between copies of one element on different ranks.
  double maxReplicaDifference = 0;
};

// Returns |got - expected| / |expected|; infinity where either is not finite.
double relativeError(double got, double expected);

// Identifies the worst tensor of a comparison and holds its error.
struct TensorError {
  std::string name; // the worst tensor
  double value = 0;
};
// Returns the largest error |g - g*| / max(|g*|, share |all gradients*|) of a gradient g against
// g*, in L2 norms. A tensor that is missing or has another shape has an infinite error.
TensorError gradientError(const NamedTensors &got, const NamedTensors &expected,
                          double share = 1e-3);

// Returns |g - g*| / |g*| of all tensors as one vector, and the tensor with the largest share.
TensorError vectorError(const NamedTensors &got, const NamedTensors &expected);

// Returns the worst result's max |r - r*| / max |r*| over its elements; where r* is not finite, r
// must be the same.
TensorError resultError(const NamedTensors &got, const NamedTensors &expected);
// Returns the worst result's |r - r*| / |r*| in L2 norms.
TensorError resultDistance(const NamedTensors &got, const NamedTensors &expected);
// Counts the results of which no element is finite, and names the first.
TensorError resultWithoutNumbers(const NamedTensors &results);

// Returns the largest relative error of the losses, or infinity if their numbers differ.
double lossError(const std::vector<double> &got, const std::vector<double> &expected);
// Returns the largest relative error of the expected outputs, or infinity if one is missing.
double outputError(const std::map<std::string, double> &got,
                   const std::map<std::string, double> &expected);

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_STEPS_TRAINING_H
