// Bounds the errors of plans that run with kernels, by the type in which they compute. Tests:
// test/numerics/precision.py.
#ifndef LLMC_LIB_VERIFY_REFERENCE_LIMITS_H
#define LLMC_LIB_VERIFY_REFERENCE_LIMITS_H

#include "lib/options/Options.h"

#include <algorithm>

namespace llmc::verify {

// Bounds what two computations in double may differ by: orders of additions.
inline constexpr double kExact = 1e-10;

struct Limits {
  // Limits the error of one step against its value in double. Up to `least` it is right; above, it
  // may be kOfOneRank times that of the one-rank plan, but not more than `most`, in case that plan
  // is as wrong as this one.
  double least, most;
  // Limits what five steps leave: the losses of AdamW, and the weights of SGD as one vector.
  double losses, weights;
  // Gives the share of the norm of all gradients below which a tensor is measured by that share:
  // what cancels to little has the roundings of its terms.
  double share = 1e-3;
  // Limits how far scores of a router may be from choosing as in double, as a share of the largest score of the
  // token: what is nearer is a near-tie, in which roundings decide (lib/verify/routes). In a narrow type these are
  // 32 of its roundings, as layers before the router add theirs: of 31 drawn models the largest gap had 17 in bf16
  // and 16 in fp16. In fp32 weights of later steps differ by more than roundings, as AdamW divides by small
  // gradients, and most where these are sums in bf16.
  double ties = 1e-4;

  // Leaves room for another order of additions: of 250 drawn models, roundings alone made 2.8 times the
  // one-rank error once, and 1.3e-6 once.
  static constexpr double kOfOneRank = 3;

  double ofError(double oneRank) const {
    return std::min(std::max(kOfOneRank * oneRank, least), most);
  }
};

// Returns the limits of a model in a precision. One rounding to bf16 is up to 2^-8 of a number, one
// to fp16 2^-11; the gradient of a norm's scale on few tokens is a sum that cancels most.
inline Limits limitsOf(Precision precision) {
  switch (precision) {
  case Precision::Bf16:
    return {1e-2, 2e-1, 5e-3, 1e-1, 3e-2, 0x1p-3};
  case Precision::Fp16:
    return {2e-3, 5e-2, 1e-3, 2e-2, 3e-2, 0x1p-6};
  case Precision::Fp32:
    break;
  }
  return {2e-6, 1e-4, 1e-5, 1e-5};
}

// Returns the limits of a model with its options: sums of gradients over ranks may have roundings to bf16 of
// their terms and of the sum, where gradients are more exact by themselves.
inline Limits limitsOf(const CompileOptions &options) {
  Limits limits = limitsOf(options.precision.value_or(Precision::Fp32));
  if (options.reduceDtype != Precision::Bf16)
    return limits;
  limits.least = std::max(limits.least, 1e-2);
  limits.most = std::max(limits.most, 3e-2);
  limits.losses = std::max(limits.losses, 1e-3);
  limits.weights = std::max(limits.weights, 1e-2);
  limits.share = std::max(limits.share, 3e-2);
  limits.ties = std::max(limits.ties, 1e-2);
  return limits;
}

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_REFERENCE_LIMITS_H
