#include "lib/cost/Kernels.h"

#include <algorithm>
#include <cmath>

using namespace llmc;
using namespace llmc::cost;

// Counts pairs of a causal mask: query i of the last `queries` of `keys` tokens sees those up to its own.
double Attention::pairs() const {
  if (seen > 0)
    return seen * queries * keys;
  if (!causal)
    return queries * (window > 0 ? std::min(window, keys) : keys);
  double before = keys - queries, w = window > 0 ? std::min(window, keys) : keys;
  // Sums min(before + i + 1, w) over queries i.
  double full = std::clamp(w - before, 0.0, queries); // queries that see all before them
  return before * full + full * (full + 1) / 2 + (queries - full) * w;
}

double Machine::peak(bool isHead) const {
  if (isHead && choices.precision == Number::Fp8)
    return cluster.peak16;
  switch (choices.precision) {
  case Number::Fp32:
    return cluster.peakFp32;
  case Number::Fp8:
    return cluster.peakFp8 > 0 ? cluster.peakFp8 : cluster.peak16;
  default:
    return cluster.peak16;
  }
}

double Machine::sustained() const {
  if (choices.precision == Number::Fp32) // no tensor cores, whose power is what limits a long run
    return 1;
  double rate = 1;
  switch (cluster.generation) {
  case Generation::Ampere:
    rate = constants.sustainedAmpere;
    break;
  case Generation::Hopper:
    rate = constants.sustainedHopper;
    break;
  case Generation::Blackwell:
    rate = constants.sustainedBlackwell;
    break;
  case Generation::Cpu:
    break;
  }
  if (cluster.watts > 0 && cluster.ratedWatts > 0)
    rate *= std::pow(cluster.watts / cluster.ratedWatts, constants.power);
  return std::min(1.0, rate); // a curve is of what a chip reaches at its best
}

double Machine::pace(double ranks) const {
  return 1 + 0.004 * std::max(0.0, std::log2(ranks / double(cluster.gpusPerNode)));
}

double Machine::memory(double bytes) const {
  // Reaches 85 % of the data sheet, as long copies do (stas00/ml-engineering, memory bandwidth).
  return bytes / (cluster.memoryBandwidth * 0.85);
}

// Is the least depth of the calibration rows: the cost of a start is not extrapolated below.
static constexpr double kLeastDepth = 128;

double llmc::cost::timeOf(const Machine &machine, const Product &p, bool isHead) {
  if (p.rows <= 0 || p.columns <= 0 || p.depth <= 0)
    return 0;
  const Cluster &c = machine.cluster;
  const ProductCurve &curve = c.product;
  bool eight = machine.choices.precision == Number::Fp8 && !isHead;
  double groups = std::max<double>(1, p.experts), rows = p.rows / groups, batch = p.batch * groups;
  double bytes = eight ? 1 : machine.choices.elementBytes();
  // Idles in the last wave of tiles of 128 x 256, of which a multiprocessor computes one at a time.
  double tiles = batch * std::ceil(rows / 128) * std::ceil(p.columns / 256), filled = tiles / double(c.multiprocessors);
  double waves = 1;
  if (filled > 1)
    waves = std::ceil(filled) * double(c.multiprocessors) * 128 * 256 / (batch * rows * p.columns);
  double efficiency = eight ? curve.efficiency8 : curve.efficiency;
  if (machine.choices.precision == Number::Fp32 && c.generation != Generation::Cpu)
    efficiency = 0.85; // of plain multiply-add units (cuBLAS, sgemm)
  double compute = p.flops() / (machine.peak(isHead) * efficiency * machine.sustained()) *
                   (1 + (eight ? curve.depth8 : curve.depth) / std::max(p.depth, kLeastDepth)) * (1 + curve.waves * std::max(0.0, waves - 1));
  // Loses half of the tensor cores' rate where a row is not a multiple of 16 bytes (cuBLAS: alignment of operands).
  if (std::fmod(p.depth * bytes, 16) != 0 || std::fmod(p.columns * bytes, 16) != 0)
    compute *= 2;
  double traffic = batch * (bytes * (rows * p.depth + p.columns * p.depth) +
                            machine.choices.elementBytes() * rows * p.columns) /
                   (c.memoryBandwidth * curve.memory);
  double walk = curve.walk * std::min(p.depth, curve.walkMost);
  constexpr double power = 2.5; // of the norm that joins what overlaps
  double joined = std::pow(std::pow(compute, power) + std::pow(traffic, power) + std::pow(walk, power), 1 / power);
  // Moves what a sum of gradients takes beyond a result of the operands' type.
  double added = p.accumulates ? (writesFirst(machine.choices) ? 2 - 1 / double(machine.choices.microBatches) : 2) : 1;
  double more = p.resultBytes > 0 ? p.resultBytes * added - bytes : 0;
  double result = more > 0 ? machine.memory(more * batch * rows * p.columns) : 0;
  return curve.start + joined * (p.experts ? c.grouped : 1) + result;
}

double llmc::cost::elementwiseTime(const Machine &machine, double bytes, double operations) {
  const Constants &k = machine.constants;
  bool eager = machine.choices.software == Profile::Eager;
  // Moves each byte of our own fused kernels once.
  double passes = eager ? k.eagerPasses : machine.choices.software == Profile::Fused ? k.fusedPasses : 1;
  // Starts each kernel 3 us after the one before at the earliest; a framework's operation is about two kernels.
  double start = std::min(3e-6, machine.cluster.product.start) * operations * (eager ? 2 : 1);
  return start + machine.memory(bytes * passes);
}

namespace {

// Gives what a kernel reaches of the 16-bit peak on long rows, forward and backward, with heads of 128 elements.
struct AttentionRate {
  double forward, backward;
};

// Reads the figures of the papers: FlashAttention-2 (Dao, 2023, Fig. 4 to 6, causal, heads of 128, rows of 16k, A100)
// for itself, FlashAttention 1 and the Triton kernel, and Fig. 7 for H100; FlashAttention-3 (Shah et al., 2024, Fig. 5
// and 6) for itself and cuDNN on H100. cuDNN on B200: the same share of the peak.
AttentionRate rateOf(AttentionKernel kernel, Generation generation) {
  bool ampere = generation == Generation::Ampere;
  switch (kernel) {
  case AttentionKernel::Triton:
    return ampere ? AttentionRate{0.43, 0.27} : AttentionRate{0.26, 0.15};
  case AttentionKernel::Flash1:
    return ampere ? AttentionRate{0.34, 0.33} : AttentionRate{0.20, 0.18};
  case AttentionKernel::Flash2:
    return ampere ? AttentionRate{0.64, 0.56} : AttentionRate{0.38, 0.32};
  default:
    return ampere ? AttentionRate{0.64, 0.56} : AttentionRate{0.65, 0.53};
  }
}

// Prices attention that writes its scores: both products, and passes over the scores in 16 bits.
double unfusedTime(const Machine &machine, const Attention &a, bool backward) {
  Product scores{a.queries, a.keys, a.headDim, a.batch * a.heads};
  Product mixed{a.queries, a.valueDim, a.keys, a.batch * a.heads};
  double products = timeOf(machine, scores, true) + timeOf(machine, mixed, true);
  // Counts passes besides those of the products: softmax reads and writes the scores (backward reads two tensors and
  // writes one), dropout reads and writes them and a mask of a byte, as GPT-2's attn_pdrop and Megatron-LM have it.
  // Unfused, scale and mask do, too, and casts to 32 bits and back.
  bool fused = machine.choices.attention == AttentionKernel::FusedSoftmax;
  double passes = backward ? (fused ? 5.5 : 12.5) : (fused ? 4.5 : 11.5);
  double bytes = passes * 2 * a.batch * a.heads * a.queries * a.keys;
  return products * (backward ? 2 : 1) + machine.memory(bytes);
}

} // namespace

// Interpolates a number that the curve has for some sizes of heads.
static double bySize(const double (&values)[3], double size) {
  constexpr const int (&sizes)[3] = AttentionCurve::kSizes;
  if (size <= sizes[0])
    return values[0];
  for (int i = 1; i < 3; ++i)
    if (size <= sizes[i])
      return values[i - 1] + (values[i] - values[i - 1]) * (size - sizes[i - 1]) / (sizes[i] - sizes[i - 1]);
  return values[2];
}

double llmc::cost::timeOf(const Machine &machine, const Attention &a) {
  if (writesScores(machine.choices.attention))
    return unfusedTime(machine, a, a.backward);
  const Cluster &c = machine.cluster;
  const AttentionCurve &curve = c.attention;
  AttentionRate rate = rateOf(machine.choices.attention, c.generation);
  double head = (a.headDim + a.valueDim) / 2;
  // Scales with the size of heads as the curve does: small ones leave tensor cores waiting for exponentials.
  double byHead = bySize(curve.efficiency, head) / curve.efficiency[1];
  const bool backward = a.backward;
  double efficiency = (backward ? rate.backward : rate.forward) * byHead / (1 + bySize(curve.tokens, head) / a.keys);
  double compute = a.flops() / (c.peak16 * efficiency * machine.sustained());
  double walk = curve.walk * a.keys * head / 128 * (backward ? 2 : 1);
  double traffic = machine.memory(2 * a.batch * (a.queries * a.heads + a.keys * a.kvHeads) * (a.headDim + a.valueDim));
  // Leaves out most of the curve's start, which holds the rotation and the write to a cache.
  return curve.start / 3 + std::sqrt(compute * compute + walk * walk) + (backward ? 2 : 1) * traffic;
}
