// Holds the constants that are fitted to measured training runs, all of them. What a data sheet, a paper or a
// calibration row gives stands where it is used, with its source. bench/cost/fit.py fits these, and prints them
// once more with each family of sources left out. Tests: test/cost.
#ifndef LLMC_LIB_COST_CONSTANTS_H
#define LLMC_LIB_COST_CONSTANTS_H

#include <cstddef>

namespace llmc::cost {

struct Constants {
  // Gives the rate of products in a long run, by that in a burst on a cool chip, by generation.
  double sustainedAmpere = 0.935, sustainedHopper = 0.9, sustainedBlackwell = 0.71;
  // Gives the exponent of (power limit / that of the curves) in the rate of products.
  double power = 1;
  // Gives the seconds of the host for one operation of a framework.
  double hostOperation = 3.78e-5;
  // Gives the passes over memory for each counted byte of elementwise ops and row reductions.
  double eagerPasses = 0.52, fusedPasses = 1.42;
  // Gives the time of tp collectives that products hide, by the time of the products.
  double hiddenBehindProducts = 0.32;
  // Gives what collectives reach of a network card.
  double nicCollective = 0.77;
  // Gives the seconds of a step that nothing else explains: data, logging, synchronisation.
  double perStep = 0.005;
};

// Names each constant, with the range that a fit may give it, and what it was fitted on.
struct ConstantInfo {
  const char *name;
  double Constants::*field;
  double least, most;
  const char *fittedOn;
};
inline constexpr ConstantInfo kConstants[] = {
    {"sustained_ampere", &Constants::sustainedAmpere, 0.8, 1.0, "all rows on A100"},
    {"sustained_hopper", &Constants::sustainedHopper, 0.7, 1.0, "all rows on H100 and H200"},
    {"sustained_blackwell", &Constants::sustainedBlackwell, 0.6, 1.0, "all rows on Blackwell"},
    {"power", &Constants::power, 0.2, 1, "rows with a power limit other than that of the curves"},
    {"host_operation_s", &Constants::hostOperation, 2e-6, 1e-4, "small layers without CUDA graphs"},
    {"eager_passes", &Constants::eagerPasses, 0.3, 1.5, "rows of eager software"},
    {"fused_passes", &Constants::fusedPasses, 0.15, 2, "rows of fused software"},
    {"hidden_behind_products", &Constants::hiddenBehindProducts, 0, 1, "rows with tp overlap"},
    {"nic_collective", &Constants::nicCollective, 0.4, 1, "rows on several nodes"},
    {"per_step_s", &Constants::perStep, 0, 0.01, "short steps"},
};
inline constexpr size_t kNumConstants = sizeof kConstants / sizeof *kConstants;
static_assert(kNumConstants <= 12, "more constants would fit rows, not machines");

} // namespace llmc::cost

#endif // LLMC_LIB_COST_CONSTANTS_H
