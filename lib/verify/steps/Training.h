// A few steps of training, or runs of inference, whoever runs them: what goes in,
// what comes out, and how far two outcomes are apart.
#ifndef LLMC_LIB_VERIFY_STEPS_TRAINING_H
#define LLMC_LIB_VERIFY_STEPS_TRAINING_H

#include "dialects/graph/Tensor.h"

#include <map>
#include <string>
#include <vector>

namespace llmc::verify {

using graph::Tensor;
using NamedTensors = std::map<std::string, Tensor>;

struct StepData {
  // By name of the input: all rows of the step, [global batch, ...]. Micro-batch
  // k of the global view is rows [k * B, (k + 1) * B), B = rows of one. Of an inference
  // all of the input, of any shape.
  NamedTensors inputs;
  // Host scalars of the update ("lr", "clip", ...), rounded to float.
  std::map<std::string, double> scalars;
  // How often the step has these rows, one after the other. The interpreters run them once and
  // count what they add up so many times.
  int64_t repeats = 1;
};

// The inputs with every row of the step.
NamedTensors allRows(const StepData &data);

struct Trial {
  NamedTensors weights; // first values by source tensor, rounded to float
  std::vector<StepData> steps;
};

struct Outcome {
  std::vector<double> losses;            // one a step
  std::map<std::string, double> outputs; // of the first step: "grad_norm", "tokens"
  NamedTensors gradients;                // of the first step's mean loss, by source tensor
  NamedTensors weights;                  // after the last step, by source tensor
  // Of an inference, that of the first step, and nothing else but the next field: its
  // outputs, by name.
  NamedTensors results;
  // Largest absolute difference between copies of one element on different ranks.
  double replicaError = 0;
};

// |got - expected| / |expected|; infinity where either is not finite.
double relativeError(double got, double expected);

struct TensorError {
  std::string name; // the worst tensor
  double value = 0;
};
// Of a tensor g against g*: |g - g*| / max(|g*|, 1e-3 |all gradients*|) in L2
// norms. A tensor that is missing or has another shape has an infinite error.
TensorError gradientError(const NamedTensors &got, const NamedTensors &expected);

// Of all tensors as one vector: |g - g*| / |g*|; named is the tensor with the
// largest share.
TensorError vectorError(const NamedTensors &got, const NamedTensors &expected);

// Of results: the largest |r - r*| / largest |r*|, element by element; where r* is not
// finite, r must be the same.
TensorError resultError(const NamedTensors &got, const NamedTensors &expected);
// The same in L2 norms, each result by itself.
TensorError resultDistance(const NamedTensors &got, const NamedTensors &expected);

// The largest relative error of the losses; infinite if their number differs.
double lossError(const std::vector<double> &got, const std::vector<double> &expected);
double outputError(const std::map<std::string, double> &got,
                   const std::map<std::string, double> &expected);

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_STEPS_TRAINING_H
