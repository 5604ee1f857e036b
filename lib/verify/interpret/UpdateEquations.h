// The optimizers' equations, written once more: what @update must do, from the papers.
#ifndef LLMC_LIB_VERIFY_INTERPRET_UPDATEEQUATIONS_H
#define LLMC_LIB_VERIFY_INTERPRET_UPDATEEQUATIONS_H

#include "lib/verify/steps/Training.h"

#include <set>

namespace llmc::verify {

// Everything by source tensor, so that a shared parameter is there once.
struct OptimizerState {
  NamedTensors weights;
  NamedTensors moments1, moments2; // of AdamW alone
};

struct UpdateInput {
  OptimizerState before;
  NamedTensors gradients; // of the step's mean loss, not yet clipped
  // Tensors of two or more dimensions, of which at most one is larger than one, that do not
  // decay: a slope that an exporter stretched. Others are judged by their shapes.
  std::set<std::string> stretched;
  // "lr", "weight_decay", "clip" (0 is off); of AdamW "beta1", "beta2", "eps" and, as the
  // host rounds them, "bias_correction1", "bias_correction2".
  std::map<std::string, double> scalars;
  uint64_t step = 1; // from 1
  bool adamw = false;
};

// Of all gradients as one vector.
double globalNorm(const NamedTensors &gradients);

// The state after the step: the gradient is scaled down to `clip` where its global norm is
// above, as torch.nn.utils.clip_grad_norm_ does (which adds 1e-6 to the norm); then SGD or
// AdamW (Loshchilov and Hutter, 2019, algorithm 2). Decay is of tensors of two or more
// dimensions, and is decoupled.
OptimizerState updatedState(const UpdateInput &input);

// How far @update is from these equations; each the worst of all steps.
struct UpdateErrors {
  // Of the change of a tensor, as gradientError() of all changes.
  TensorError weights, moments;
  double norm = 0;    // relative, of the reported grad_norm
  uint64_t steps = 0; // that were compared
  TensorError largest() const;
  void compare(const UpdateInput &input, const OptimizerState &after, double gradNorm);
};

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_INTERPRET_UPDATEEQUATIONS_H
