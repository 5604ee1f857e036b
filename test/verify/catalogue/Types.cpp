// Faults of element types, and of a step that is skipped.
#include "lib/verify/mutation/IrMutants.h"
#include "test/verify/catalogue/Catalogue.h"

namespace llmc::catalogue {

namespace {

// Makes the edit of lib/verify/mutation/TypeEdits.cpp that has this description.
Edit retype(Phase phase, Where where, std::string change) {
  verify::IrMutant mutant{phase, "types", where.in, where.op, where.n, std::move(change)};
  return [mutant](mlir::ModuleOp module) { return verify::apply(mutant, module); };
}

Fault fault(const char *name, const char *model, const char *precision, Phase phase,
            const char *expected, Where where, std::string change) {
  return {name,     model,    "1x2x2", phase, expected, retype(phase, std::move(where), std::move(change)),
          precision};
}

} // namespace

std::vector<Fault> typeFaults() {
  constexpr Phase train = Phase::Train, partition = Phase::Partition;
  auto skip = [](const char *name, const char *model, Phase phase, const char *expected, Where where,
                 unsigned operand) {
    return Fault{name, model, "1x2x2", phase, expected, leaveOut(std::move(where), 0, operand), "fp16"};
  };
  return {
      fault("a norm's mean loses bits", "gpt2", "bf16", train, "types:casts",
            {"micro", "graph.layer_norm", 0}, "result 1 through bf16"),
      fault("the log-sum-exp of attention loses bits", "llama", "fp16", train, "types:casts",
            {"micro", "graph.attention", 0}, "result 1 through f16"),
      fault("the loss is computed in the low type", "gpt2", "bf16", train, "types:casts",
            {"micro", "graph.log", 0}, "in bf16"),
      fault("a weight gradient is rounded before it is added", "llama", "bf16", partition,
            "types:products", {"backward_1", "graph.matmul", 1}, "in bf16"),
      fault("a bias gradient is summed in the low type", "gpt2", "bf16", partition, "types:sums",
            {"backward_0", "graph.reduce", 0}, "in bf16"),
      fault("a gradient loses bits in the update", "gpt2", "fp16", partition, "types:casts",
            {"update_0", "graph.div", 2}, "result 0 through f16"),
      fault("a master loses bits", "llama", "bf16", partition, "types:casts",
            {"update_1", "graph.adamw", 0}, "result 0 through bf16"),
      fault("partial sums of activations move in f32", "gpt2", "bf16", partition, "types:moved",
            {"forward_0", "parallel.all_reduce", 1}, "in f32"),
      fault("a product writes f32", "llama", "fp16", partition, "types:products",
            {"forward_1", "graph.matmul", 0}, "in f32"),
      skip("a master is updated by a step that is skipped", "gpt2", train, "updates:skip",
           {"update", "graph.select", 2}, 1),
      skip("a moment is updated by a step that is skipped", "llama", partition, "updates:skip",
           {"update_0", "graph.select", 3}, 1),
      skip("ranks do not agree to skip", "gpt2", partition, "updates:skip",
           {"update_1", "parallel.all_reduce", 5}, 0),
  };
}

} // namespace llmc::catalogue
