// Faults of shardings and of their placement on ranks.
#include "test/verify/catalogue/Catalogue.h"

namespace llmc::catalogue {

std::vector<Fault> shardFaults() {
  constexpr Phase at = Phase::Shard;
  return {
      {"a maximum over the vocabulary is a sum", "gpt2", "2x1x2", at, "refused",
       setAttribute({"micro", "graph.reduce", 0}, "kind", "#graph.reduce_kind<sum>")},
      {"a product loses 1 % on the way", "llama", "2x1x2", at, "fp64:partition",
       scaleResult({"micro", "graph.matmul", 3}, 0, 0.99)},
      {"gradients of key and value change places", "llama", "1x2x2", at, "fp64:partition",
       exchangeOperands({"micro", "graph.yield", 1}, 3, 4)},
      {"residuals of two layers change places", "gpt2", "1x2x2", at, "fp64:partition",
       exchangeOperands({"micro", "graph.yield", 0}, 8, 9)},
      {"two moments return in each other's place", "gpt2", "2x1x2", at, "updates:",
       exchangeOperands({"update", "func.return", 0}, 44, 45)},
      {"decay is lost", "llama", "2x1x2", at, "updates:",
       setAttribute({"update", "graph.adamw", 0}, "decay", "false")},
      {"a state lies in whole where its users have parts", "gpt2", "2x1x2", at, "refused",
       setAttribute({"", "graph.state", 4}, "parallel.sharding",
                    "#parallel.sharding<[{}, {\"dp\"}, {}]>")},
      {"a column cut is a row cut", "gpt2", "2x1x2", at, "refused",
       setAttribute({"", "graph.state", 10}, "parallel.sharding",
                    "#parallel.sharding<[{}, {}, {\"tp\"}]>")},
  };
}

std::vector<Fault> partitionFaults() {
  constexpr Phase at = Phase::Partition;
  const char *all = "fp64:partition";
  auto in = [](const char *function, const char *op, unsigned n = 0) {
    return Where{function, op, n};
  };
  const char *reduce = "parallel.all_reduce";
  return {
      // The bias of keys, whose gradient is zero but for roundings.
      {"ranks update a bias with a beta as learning rate", "gpt2", "2x1x2", at,
       "updates:adamw:equations", exchangeOperands(in("update_0", "graph.adamw", 7), 4, 5)},
      {"a sum over tensor ranks is left out", "gpt2", "2x1x2", at, all,
       leaveOut(in("forward_0", reduce, 1), 0, 0)},
      {"the looked up rows are not summed", "gpt2", "1x2x2", at, all,
       leaveOut(in("forward_0", reduce, 0), 0, 0)},
      {"a sum over tensor ranks goes over data ranks", "llama", "2x1x2", at, all,
       setAttribute(in("forward_0", reduce, 1), "axes", "[\"dp\"]")},
      // The shift of an exponent: the same in exact numbers, until it overflows.
      {"a maximum of logits is summed", "gpt2", "2x1x2", at, "below",
       setAttribute(in("forward_0", reduce, 3), "kind", "#graph.reduce_kind<sum>")},
      {"a sum of exponentials is a maximum", "llama", "2x1x2", at, all,
       setAttribute(in("forward_0", reduce, 4), "kind", "#graph.reduce_kind<max>")},
      {"a sum over tensor ranks is done twice", "llama", "1x2x2", at, all,
       scaleResult(in("forward_1", reduce, 1), 0, 2)},
      {"a cotangent is not summed", "gpt2", "1x2x2", at, all,
       leaveOut(in("backward_0", reduce, 0), 0, 0)},
      {"a cotangent is summed over stages", "gpt2", "1x2x2", at, "refused",
       setAttribute(in("backward_1", reduce, 1), "axes", "[\"pp\"]")},
      {"gradients are not reduced over data ranks", "gpt2", "2x1x2", at, all,
       leaveOut(in("update_0", reduce, 0), 0, 0)},
      {"a tied gradient stays on its stage", "gpt2", "1x2x2", at, all,
       leaveOut(in("update_0", reduce, 0), 0, 0)},
      {"the norm is of one stage", "llama", "1x2x2", at, all,
       leaveOut(in("update_0", reduce, 2), 0, 0)},
      {"the vocabulary's second half begins a row late", "gpt2", "2x1x2", at, all,
       scaleAttribute(in("forward_0", "parallel.axis_offset"), "stride", 1.13)},
      {"the table is looked up in its first half", "llama", "2x1x2", at, all,
       scaleAttribute(in("forward_0", "parallel.axis_offset"), "stride", 0)},
      {"a bias is added on each rank", "gpt2", "2x1x2", at, all,
       exchangeOperands(in("forward_0", "graph.yield", 0), 1, 2)},
      {"a stage sends another activation", "llama", "1x2x2", at, all,
       leaveOut(in("forward_0", "graph.add", 1), 0, 0)},
      {"a stage's attention has another scale", "gpt2", "1x2x2", at, all,
       scaleAttribute(in("forward_1", "graph.attention"), "scale", 1.01)},
      {"a stage's norm has another eps", "llama", "1x2x2", at, all,
       scaleAttribute(in("forward_1", "graph.rms_norm"), "eps", 100)},
      {"a stage updates nothing", "gpt2", "1x2x2", at, "updates:",
       leaveOut(in("update_1", "graph.adamw", 2), 0, 0)},
      {"a stage forgets a gradient", "gpt2", "1x2x2", at, all,
       leaveOut(in("backward_0", "graph.add", 12), 0, 0)},
  };
}

} // namespace llmc::catalogue
