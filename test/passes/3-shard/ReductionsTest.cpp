// Phases 2 to 4: how often the ranks of tp talk in a layer.
#include "dialects/graph/Graph.h"
#include "mlir/Pass/PassManager.h"
#include "passes/2-train/Pipeline.h"
#include "passes/3-shard/Pipeline.h"
#include "passes/4-partition/Pipeline.h"
#include "test/passes/3-shard/Models.h"
#include "test/support/CommandLine.h"
#include <gtest/gtest.h>

using namespace mlir;

namespace llmc::test {
namespace {

// Collectives in the layers of a function of stage 0.
std::map<std::string, int> inLayers(ModuleOp module, StringRef name) {
  std::map<std::string, int> found;
  module.lookupSymbol<func::FuncOp>(name).walk([&](Operation *op) {
    StringRef name = op->getName().getStringRef();
    if (op->getParentOfType<graph::RepeatOp>() && name.starts_with("parallel."))
      ++found[name.str()];
  });
  return found;
}

// `forward` and `backward` sums over tp, and nothing else, a layer.
void expectReductions(const Model &model, Mesh mesh, int forward, int backward, const std::string &what) {
  MLIRContext context;
  loadDialects(context);
  OwningOpRef<ModuleOp> module = parse(context, model.text());
  setMesh(*module, mesh);
  PassManager passes(&context);
  buildTrainPipeline(passes, {});
  buildShardPipeline(passes);
  buildPartitionPipeline(passes);
  bool partitioned = succeeded(passes.run(*module));
  EXPECT_TRUE(partitioned) << what + " fails";
  if (!partitioned)
    return;
  for (auto [name, count] : {std::pair("forward_0", forward), std::pair("backward_0", backward)}) {
    std::map<std::string, int> found = inLayers(*module, name);
    EXPECT_TRUE(found["parallel.all_reduce"] == count)
        << what + ": " + std::to_string(found["parallel.all_reduce"]) + " sums in " + name;
    for (const char *other : {"parallel.all_gather", "parallel.reduce_scatter"})
      EXPECT_TRUE(!found[other]) << what + " has " + other;
  }
}

Model llama() {
  Model model;
  model.batch = 2, model.width = 32, model.heads = 8, model.hidden = 24;
  model.rms = model.rotary = model.gated = true;
  model.bias = model.positions = false;
  return model;
}

TEST(Reductions, ALayerIsReducedTwice) {
  expectReductions(llama(), Mesh{.tp = 4}, 2, 2, "as many kv heads as heads");
  for (int64_t kvHeads : {1, 2, 4}) {
    Model model = llama();
    model.kvHeads = kvHeads;
    expectReductions(model, Mesh{.tp = 4}, 2, 2, std::to_string(kvHeads) + " kv heads");
    expectReductions(model, Mesh{.tp = 8}, 2, 2, std::to_string(kvHeads) + " kv heads on 8 ranks");
  }
  expectReductions(llama(), Mesh{.tp = 8, .ep = 2, .etp = 2}, 2, 2, "three axes that are one tp");
  Model norms = llama();
  norms.headNorm = norms.postNorm = norms.window = norms.masked = true;
  norms.softcap = 30;
  expectReductions(norms, Mesh{.tp = 4}, 2, 2, "norms of heads and branches, softcaps, windows");
  Model biased = llama();
  biased.bias = true;
  expectReductions(biased, Mesh{.tp = 4}, 2, 2, "biases");
}

TEST(Reductions, BranchesThatAreAddedAreReducedOnce) {
  Model model = llama();
  model.parallel = true;
  expectReductions(model, Mesh{.tp = 4}, 1, 1, "parallel branches");
  model.kvHeads = 1;
  model.rms = false;
  expectReductions(model, Mesh{.tp = 4}, 1, 1, "parallel branches, one kv head");
  model.bias = model.split = true;
  model.kvHeads = 2;
  expectReductions(model, Mesh{.tp = 4}, 1, 1, "parallel branches with biases, weights of heads");
}

} // namespace
} // namespace llmc::test
