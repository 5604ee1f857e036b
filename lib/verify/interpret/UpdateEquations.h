// Computes the optimizers' updates from the equations of the papers, independently of @update.
// Tested by test/verify/UpdateEquationsTest.cpp.
#ifndef LLMC_LIB_VERIFY_INTERPRET_UPDATEEQUATIONS_H
#define LLMC_LIB_VERIFY_INTERPRET_UPDATEEQUATIONS_H

#include "lib/verify/steps/Training.h"

#include <set>

namespace llmc::verify {

// Holds weights and moments by source tensor, so that a shared parameter occurs once.
struct OptimizerState {
  NamedTensors weights;
  NamedTensors moments1, moments2; // AdamW only
};

// Holds what one update depends on.
struct UpdateInput {
  OptimizerState before;
  NamedTensors gradients; // of the step's mean loss, not yet clipped
  // Lists tensors of two or more dimensions, at most one of them larger than one, that are exempt
  // from weight decay: an exporter stretched a vector. Others are judged by their shapes.
  std::set<std::string> stretched;
  // Maps biases of routers to what a step moves them by, and to how many more tokens than on average chose
  // each expert.
  std::map<std::string, double> biasRates;
  NamedTensors excess;
  // Maps "lr", "weight_decay", "clip" (0 is off) and for AdamW "beta1", "beta2", "eps" and, as
  // the host rounds them, "bias_correction1" and "bias_correction2".
  std::map<std::string, double> scalars;
  uint64_t step = 1; // counts from 1
  bool adamw = false;
};

// Returns the L2 norm of all gradients as one vector.
double globalNorm(const NamedTensors &gradients);

// Returns the state after the step: scales the gradient down to `clip` if its global norm is
// larger, as torch.nn.utils.clip_grad_norm_ does (which adds 1e-6 to the norm), then applies SGD
// or AdamW (Loshchilov and Hutter, 2019, algorithm 2). Weight decay is decoupled and applies to
// tensors of two or more dimensions. Subtracts from biases of routers their rate times the sign of the excess
// (Wang et al., 2024, algorithm 1).
OptimizerState updatedState(const UpdateInput &input);

// Accumulates how far @update is from these equations; each error is the worst of all steps.
struct UpdateErrors {
  // Holds the worst gradientError() of the tensors' changes and of the moments after the step.
  TensorError weights, moments;
  TensorError values; // that of the tensors themselves after the step
  double norm = 0;    // relative error of the reported grad_norm
  uint64_t steps = 0; // steps that were compared
  // Returns the largest of the three errors, by name.
  TensorError largest() const;
  // Adds one step, whose update left `after` and reported `gradNorm`.
  void compare(const UpdateInput &input, const OptimizerState &after, double gradNorm);
};

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_INTERPRET_UPDATEEQUATIONS_H
