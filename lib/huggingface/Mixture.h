// Describes mixtures of experts and builds them (Shazeer et al., 2017): a router scores all experts for
// each token, the best few compute, and their results are summed by weight.
// Tests: test/import/Experts.cpp (sizes, views), test/numerics/architectures.py (numbers).
#ifndef LLMC_LIB_HUGGINGFACE_MIXTURE_H
#define LLMC_LIB_HUGGINGFACE_MIXTURE_H

#include "lib/huggingface/Layers.h"
#include "lib/weights/Weights.h"

namespace llmc::hf {

// Holds the names of modules in the checkpoint; all but `block` stand behind it.
struct MixtureNames {
  std::string block = "mlp"; // of the layer
  std::string router = "gate", experts = "experts";
  std::string gate = "gate_proj", up = "up_proj", down = "down_proj";
};

// Describes a mixture of experts, each a gated MLP.
struct Mixture {
  // Identifies how the weights of the chosen experts follow from the scores: they are those of the
  // softmax over all experts, of each score's sigmoid, or of the softmax over the chosen ones.
  enum class Weights { Softmax, Sigmoid, SoftmaxOfChosen };
  // Identifies the layout of experts in the checkpoint: a matrix [out, in] for each, or one tensor
  // [experts, in, out] with gate and up in turn, and biases.
  enum class Stored { OneByOne, Stacked };

  int64_t experts = 0, choices = 0; // of which a token takes as many
  int64_t inner = 0;                // width inside an expert
  Weights weights = Weights::Softmax;
  bool normalised = false; // the weights of a token sum to 1
  double least = 0;        // is added to the sum by which they are divided
  double factor = 1;       // of all weights
  // Limits a token to the best `keptGroups` of `groups` groups (graph.route).
  int64_t groups = 1, keptGroups = 1, groupTerms = 1;
  bool routerBias = false;
  std::string correction; // tensor that is added to scores for the choice alone; "": none
  Stored stored = Stored::OneByOne;
  // Bounds gate from above and up on both sides, and makes them gate * sigmoid(alpha * gate) *
  // (up + 1); 0: activation(gate) * up.
  double limit = 0, alpha = 1;
  Activation activation = Activation::Silu;
  MixtureNames names;

  // Counts the parameters of one expert, for tokens of `width` elements.
  int64_t parametersOfExpert(int64_t width) const;
};

// Checks that there are as many experts as a token takes and that the groups divide them; notes what
// is wrong, and makes the sizes fit. `experts` and `choices` are the fields that tell them.
void checkMixture(Config &config, Mixture &mixture, const char *experts, const char *choices);

// Builds the mixture of the layer with the name `layer` on x [batch, sequence, width]. Appends the
// tensors that checkpoints of transformers 5 have in place of a matrix for each expert to `stacks`.
mlir::Value mixture(Layers &layers, const Mixture &mixture, const std::string &layer, mlir::Value x,
                    std::vector<weights::Stack> &stacks);

} // namespace llmc::hf

#endif // LLMC_LIB_HUGGINGFACE_MIXTURE_H
