// Describes a cluster: its accelerators, the links between them, and curves of what kernels and collectives reach. All
// built-in ones are files of lib/cost/clusters, with their sources. Tests: test/cost.
#ifndef LLMC_LIB_COST_CLUSTER_H
#define LLMC_LIB_COST_CLUSTER_H

#include "lib/cost/Host.h"
#include "lib/support/Error.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace llmc::cost {

// Identifies a family of accelerators: kernels of one family share what they sustain.
enum class Generation : uint8_t { Cpu, Ampere, Hopper, Blackwell };

// Holds the curve of dense products in 16 and 8 bits, of which bench/cost/fit_kernels.py gives the form and the fit.
struct ProductCurve {
  double start = 3e-6;        // seconds of any product
  double efficiency = 0.8, depth = 80;   // of the peak, of large products; elements of depth that a tile's start costs
  double efficiency8 = 0.77, depth8 = 190; // the same in 8 bits
  double waves = 0;           // share of the last wave of tiles that idles
  double memory = 0.85;       // of the bandwidth
  double walk = 1.4e-9, walkMost = 2900; // seconds for each element of depth, of so many
};

// Holds the curve of attention, forward and causal, by size of the heads.
struct AttentionCurve {
  static constexpr int kSizes[] = {64, 128, 256};
  double start = 15e-6;       // seconds
  double walk = 1.3e-8;       // seconds for each token of a row, at heads of 128
  double memory = 1.9;        // passes over queries, keys, values and results
  double efficiency[3] = {0.49, 0.57, 0.62}; // of the peak, of long rows
  double tokens[3] = {1050, 440, 520};       // of a row that its start costs
};

// Holds the curve of one collective of up to eight ranks inside a node.
struct CollectiveCurve {
  double start = 5e-6, perRank = 2e-6; // seconds
  double ramp = 8e6, rampLength = 4e6; // bytes that a slow start costs, and over how many it does
  double efficiency = 0.75;   // of the link, of eight ranks
  double exponent = 0;        // of (ranks / 8)
};

struct Cluster {
  std::string name;
  Generation generation = Generation::Hopper;
  // Gives dense peaks, FLOP/s.
  double peakFp32 = 0, peak16 = 0, peakFp8 = 0;
  double memoryBytes = 0, memoryBandwidth = 0; // of one accelerator; bytes/s
  int64_t multiprocessors = 0;
  double watts = 0, ratedWatts = 0; // power limit; that of the curves
  int64_t gpus = 0, gpusPerNode = 0, nvlinkDomain = 0; // gpus 0: as many as the mesh has ranks
  double nvlink = 0, nic = 0, pcie = 0; // bytes/s of one accelerator and direction
  double linkLatency = 0, nicLatency = 0; // seconds of a message; no collective takes less
  ProductCurve product;
  AttentionCurve attention;
  CollectiveCurve allReduce, allGather, reduceScatter, allToAll;
  // Holds the curve of an all-reduce of eight ranks and more inside switches; efficiency 0: there is none.
  CollectiveCurve switchReduce{0, 0, 0, 1, 0, 0};
  double grouped = 1.04; // time of products of experts by that of dense ones
  std::vector<std::string> sources;
  std::optional<HostMachine> host; // of processors that llmc calibrate measured
};

// Returns the bytes of an accelerator that a run may use: the driver, NCCL and libraries take 1 GiB before it begins.
double usableMemory(const Cluster &cluster);

// Returns the names of the built-in accelerators.
std::vector<std::string> gpuNames();
// Returns the built-in cluster of that name; an error names the nearest ones.
support::Result<Cluster> findGpu(std::string_view name);
// Reads a cluster file; errors name the file, the key, what was got and what is valid, all of them at once.
support::Result<Cluster> readCluster(const std::string &file);

} // namespace llmc::cost

#endif // LLMC_LIB_COST_CLUSTER_H
