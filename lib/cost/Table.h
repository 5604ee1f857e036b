// Holds what one micro-batch of one rank computes, moves and keeps: the table that prices are made of. lib/predict
// extracts it from the folded IR of the plan; nothing here knows a model or a mesh. Tests: test/cost.
//
// Units: FLOPs (a multiply and an add count as two), bytes, elements; all of one rank and one micro-batch.
#ifndef LLMC_LIB_COST_TABLE_H
#define LLMC_LIB_COST_TABLE_H

#include <compare>
#include <cstdint>
#include <map>
#include <vector>

namespace llmc::cost {

// Describes a product of [rows, depth] by [depth, columns], `batch` times; products of several experts with matrices of
// their own are one with `experts` of them, among which the rows are shared out.
struct Product {
  double rows = 0, columns = 0, depth = 0, batch = 1;
  int64_t experts = 0; // 0: one dense product
  int64_t merged = 1;   // products of the model that a stack which joins them computes as one
  bool ofWeights = false; // the gradient of weights, which no other kernel of the backward pass waits for
  double resultBytes = 0; // of an element of the result; 0: as those of the operands
  bool accumulates = false; // adds to what earlier micro-batches left

  double flops() const { return 2 * rows * columns * depth * batch; }
};

// Describes one call of attention: `batch` rows of `queries` tokens that see `keys` tokens each.
struct Attention {
  double batch = 0, queries = 0, keys = 0, heads = 0, kvHeads = 0, headDim = 0, valueDim = 0;
  double window = 0; // keys that a query sees at most; 0: all
  bool causal = false, backward = false; // forward may stand in a backward pass that computes it again
  double seen = 0; // share of all pairs that are seen, where that does not follow from the shapes; 0: it does

  // Returns the pairs of query and key that are seen.
  double pairs() const;
  // Returns the FLOPs of both products, of pairs that are seen; backward has five products in place of two (Dao et al.,
  // 2022, algorithm 4).
  double flops() const { return 2 * batch * heads * pairs() * (headDim + valueDim) * (backward ? 2.5 : 1); }
};

enum class Transfer : uint8_t { AllReduce, AllGather, ReduceScatter, AllToAll, Shift };

// Identifies what a transfer is for: the parallelism that it belongs to.
enum class Role : uint8_t { Tensor, Context, Expert, Data, Stages };

// Describes the ranks of a group: `size` of them, `stride` ranks apart. Ranks of a node follow each other.
struct Group {
  int64_t size = 1, stride = 1;
};

struct Collective {
  Transfer kind;
  Role role;
  Group group;
  double bytes; // the whole tensor (gather, scatter, reduce); the local one (all-to-all, shift)
  double calls = 1;       // that move these bytes together
};

// Names one entry of a Work in the order of its computation: a product, an attention, a collective, by its index, or a
// kernel of so many bytes. A collective runs beside the entries that follow it, up to that which reads its result.
struct Entry {
  enum Kind : uint8_t { OfProduct, OfAttention, OfCollective, OfKernel } kind;
  size_t index = 0;
  double bytes = 0;
  size_t until = 0;
};

// Holds what one pass (forward or backward) over a part of the model takes.
struct Work {
  std::vector<Product> products;
  std::vector<Attention> attentions;
  std::vector<Collective> collectives;
  double flops = 0;      // of all, as the ops of the IR count them
  double bytes = 0;      // that all ops but products and attention read and write
  double operations = 0; // that are launched, views left out
  std::vector<Entry> order; // of our own plans
  // Orders the entries of two layers that follow each other, each with the same products and collectives, where compute of the one
  // runs beside collectives of the other.
  std::vector<Entry> ofTwo;
};

// Counts parameters of one rank, in elements; those of experts are shared out over other ranks.
struct Parameters {
  double dense = 0, expert = 0;
  double all() const { return dense + expert; }
};

// Counts bytes of one rank by the role of the states that they hold; `received` is what the update reads of sums over ranks
// that do not lie where the gradients do: a rank's part of them, or sums in another type; `updated` what it makes of a rank's
// part of the weights before ranks gather them, all at once.
struct States {
  double weights = 0, masters = 0, moments = 0, gradients = 0, received = 0, updated = 0;
};

// Counts the bytes that a micro-batch keeps: from its forward to its backward, and where a schedule splits the gradients of
// weights from backward, to these from forward and from backward.
struct KeptBytes {
  double toBackward = 0, toWeights = 0, fromBackward = 0;
  double sum() const { return toBackward + toWeights + fromBackward; }
};

// Describes a part of the model: one layer of a kind, or what stands before or after all layers.
struct Part {
  Work forward, backward;
  Parameters parameters;       // of one rank
  double wholeParameters = 0;  // of the model
  double wholeExperts = 0;     // those of them that are of experts
  // Holds the bytes that backward reads of forward: `inputs` of products, norms and attention; `unfused` what else
  // elementwise ops between them keep where each is a kernel of its own; `products` those of `inputs` that elementwise
  // ops and norms do not compute; `carried` the input of a layer alone.
  double inputs = 0, unfused = 0, products = 0, carried = 0;
  double logits = 0; // elements of the head's product
  // Holds what our own plans have besides, whose `backward` computes again what is not kept. `weightGradients` is what a
  // zero-bubble schedule does apart from it, `update` what the optimizer does of it once a step.
  Work weightGradients, update;
  States states;
  KeptBytes kept;
  bool keepsInput = false, keepsGradient = false; // of a layer: what comes from the layer before, and back from the next one
};

// Describes what a chunk of a pipeline has, as far as it decides what is alive beside states and slots of micro-batches: whether
// the embedding or the head, and the kinds of the layers that stand for all of it (ChunkShape.h).
struct ChunkShape {
  bool hasFirst = false, hasLast = false;
  std::vector<int> kinds;
  auto operator<=>(const ChunkShape &) const = default;
};

// Counts the bytes of an arena beside states and slots: while passes compute, and of the update of the layers of a shape,
// which lie over these, over sums of gradients that have been scattered, and `overSlots` where nothing touches these any more.
struct Workspace {
  double passes = 0, update = 0;
  bool overSlots = false;
};

struct Table {
  Part before, after;       // embedding; last norm, head and loss
  std::vector<Part> kinds;  // layers that differ
  std::vector<int> layers;  // kind of each layer, in order
  double tied = 0;          // parameters of `before` that `after` reads, too: both stages have them
  double copies = 1, experts = 1; // experts that a token goes to, of how many
  double tokens = 0;        // of one micro-batch of one data-parallel rank, not cut over cp
  double width = 0;         // elements of a token's activation between stages, not cut over tp
  bool isOfPlan = false;    // extracted from the kernels of our own plans, not from the ops that a stack fuses by itself
  Work step;                // of our own plans: what an update does whatever the stage has
  States stepStates;        // of our own plans: what each stage has
  Part shared;              // of our own plans: what a chunk computes and keeps that all of its layers read (angles, masks)
  double sentForward = 0, sentBackward = 0; // of our own plans: bytes of a message from a stage to the next, and back
  std::map<ChunkShape, Workspace> workspace; // of our own plans, by what a chunk has
  double leastWorkspace = 0, leastOfLast = 0; // bytes that a stage and the last one have at least, where that is not known
};

} // namespace llmc::cost

#endif // LLMC_LIB_COST_TABLE_H
