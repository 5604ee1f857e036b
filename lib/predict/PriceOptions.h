// Turns what a command line says of a cluster and of priced choices into a machine to predict for. Tests: test/predict.
#ifndef LLMC_LIB_PREDICT_PRICEOPTIONS_H
#define LLMC_LIB_PREDICT_PRICEOPTIONS_H

#include "lib/cost/Kernels.h"
#include "lib/options/Options.h"

#include <optional>
#include <string>
#include <vector>

namespace llmc::predict {

// Holds what llmc plan is told of the cluster and of choices that are priced; unset ones follow from others.
struct PriceOptions {
  std::string gpu, cluster;
  int64_t gpus = 0, gpusPerNode = 0, nvlinkDomain = 0;
  double nicGbytes = 0, boardWatts = 0;
  cost::Choices choices;
  std::optional<bool> unfused;
  std::optional<cost::Number> precision, gradients, reduced, moments;
  std::optional<cost::AttentionKernel> attention;
  std::optional<bool> overlap, cudaGraphs, launchBlocking, expertOverlap, tensorOverlap, pipelineScatter;
};

// Returns how a price names a choice of a compilation, and the other way round.
cost::Number numberOf(Precision precision);
Precision precisionOf(cost::Number number); // fp8 keeps 16 bits elsewhere: bf16
cost::Order orderOf(Schedule schedule);
Schedule scheduleOf(cost::Order order);
cost::Kept keptOf(Recompute recompute);
Recompute recomputeOf(cost::Kept kept);

// Returns the prices with the types of numbers that options of a compilation have.
PriceOptions asCompiled(PriceOptions prices, const CompileOptions &options);

// Returns the cluster with what flags say in place of it; nullopt after an error.
std::optional<cost::Cluster> clusterOf(const PriceOptions &prices, std::vector<std::string> &errors);
// Names the kernel of attention that a stack of the accelerator's time has.
cost::AttentionKernel newestKernel(const cost::Cluster &cluster, bool unfused = false);

// Sets the data-parallel size by the number of accelerators, where the other axes divide it.
void setDataRanks(int64_t gpus, CompileOptions &options);

// Returns the machine that both kinds of options describe; sets the data-parallel size of `options` where it follows
// from the number of accelerators, and their type of numbers. Adds a message for each choice that does not fit.
std::optional<cost::Machine> resolve(const PriceOptions &prices, CompileOptions &options, bool hasDataSize,
                                     std::vector<std::string> &errors);

} // namespace llmc::predict

#endif // LLMC_LIB_PREDICT_PRICEOPTIONS_H
