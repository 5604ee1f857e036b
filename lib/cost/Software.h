// Describes the software that a plan runs on, and the choices of a training that have a price: those of our own plans
// and those of other stacks, whose published runs are predicted too. Tests: test/cost.
#ifndef LLMC_LIB_COST_SOFTWARE_H
#define LLMC_LIB_COST_SOFTWARE_H

#include "lib/planfile/MeshAxes.h"

#include <cstdint>
#include <vector>

namespace llmc::cost {

// Names who wrote the kernels between products: our compiler; a stack that fuses them (Transformer Engine, XLA, a
// compiled PyTorch); one kernel for each op of a framework.
enum class Profile : uint8_t { Llmc, Fused, Eager };

enum class Number : uint8_t { Fp32, Bf16, Fp16, Fp8 };
// Returns the bytes of an element.
constexpr double bytesOf(Number number) {
  return number == Number::Fp32 ? 4 : number == Number::Fp8 ? 1 : 2;
}

// Names the kernel of attention. The first two write scores to memory: as separate kernels for scale, mask and softmax,
// or with these fused into one (Megatron-LM). The others keep them on chip: the Triton kernel of Tillet et al. (2023),
// FlashAttention 1 to 3 (Dao et al., 2022; Dao, 2023; Shah et al., 2024), cuDNN.
enum class AttentionKernel : uint8_t { Unfused, FusedSoftmax, Triton, Flash1, Flash2, Flash3, Cudnn };
constexpr bool writesScores(AttentionKernel kernel) {
  return kernel == AttentionKernel::Unfused || kernel == AttentionKernel::FusedSoftmax;
}

// Names how tokens reach their experts. The last two send a token to each node once.
enum class Dispatch : uint8_t { AllToAll, AllGather, DeepEp, HybridEp };
enum class Kept : uint8_t { All, Selective, Full }; // what is recomputed: nothing, the attention core, whole layers
enum class Order : uint8_t { GPipe, OneFOneB, Interleaved, ZeroBubble };
enum class Offload : uint8_t { None, Activations, Optimizer };

// Returns the name of a choice, as its flag has it.
constexpr const char *nameOf(Number number) {
  constexpr const char *names[] = {"fp32", "bf16", "fp16", "fp8"};
  return names[int(number)];
}
constexpr const char *nameOf(Kept kept) {
  constexpr const char *names[] = {"none", "selective", "full"};
  return names[int(kept)];
}
constexpr const char *nameOf(Order order) {
  constexpr const char *names[] = {"gpipe", "1f1b", "interleaved", "zero-bubble"};
  return names[int(order)];
}

// Holds the choices of a run. Sizes are those of Options.h.
struct Choices {
  planfile::MeshSizes mesh;
  int64_t chunks = 1; // virtual stages of a stage
  int64_t microBatch = 1, microBatches = 1;
  int64_t sequence = 0;
  std::vector<int64_t> stages; // layers of each virtual stage, in the order of the model; empty: divided evenly
  Order order = Order::OneFOneB;
  int zero = 0;
  bool sequenceParallel = false;
  Kept recompute = Kept::All;
  double recomputed = 1; // share of the layers that a full recomputation is for
  Number precision = Number::Bf16;   // of products
  Number gradients = Number::Fp32;   // of the buffer that they are accumulated in
  Number reduced = Number::Fp32;     // of the sums over data-parallel ranks
  Number moments = Number::Fp32;     // bf16: there are no fp32 masters either
  Profile software = Profile::Llmc;
  AttentionKernel attention = AttentionKernel::Flash2;
  bool overlap = true;        // of data-parallel traffic and, where stages interleave, of messages
  bool cudaGraphs = false;
  bool launchBlocking = false; // every launch of a kernel waits for its end
  bool expertOverlap = false;  // exchanges of one micro-batch behind the compute of another
  bool tensorOverlap = false;  // tp collectives behind products
  bool pipelineScatter = false; // each tp rank sends its part of an activation to the next stage
  Dispatch dispatch = Dispatch::AllToAll;
  Offload offload = Offload::None;

  // Returns the bytes of an element of weights, activations and messages.
  double elementBytes() const { return precision == Number::Fp32 ? 4 : 2; }
};

// Returns whether our own plans let products write sums of gradients instead of adding to zeros: a backward that runs once a
// step does, the first of two at most (passes/5-schedule/WriteFirst).
inline bool writesFirst(const Choices &choices) { return choices.microBatches <= 2; }

} // namespace llmc::cost

#endif // LLMC_LIB_COST_SOFTWARE_H
