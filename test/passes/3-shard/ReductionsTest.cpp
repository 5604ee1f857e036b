// Phases 2 to 4: how often the ranks of tp talk in a layer.
#include "dialects/graph/Graph.h"
#include "mlir/Pass/PassManager.h"
#include "passes/2-train/Pipeline.h"
#include "passes/3-shard/Pipeline.h"
#include "passes/4-partition/Pipeline.h"
#include "test/passes/3-shard/Draws.h"
#include "test/passes/3-shard/Models.h"

using namespace mlir;

namespace llmc::test {
namespace {

// Collectives in the layers of @forward_0.
std::map<std::string, int> inLayers(const Model &model, const Mesh &mesh, const std::string &what) {
  MLIRContext context;
  loadDialects(context);
  OwningOpRef<ModuleOp> module = parse(context, model.text());
  setMesh(*module, mesh);
  PassManager passes(&context);
  buildTrainPipeline(passes, {});
  buildShardPipeline(passes);
  buildPartitionPipeline(passes);
  EXPECT_MSG(succeeded(passes.run(*module)), what + " fails");
  std::map<std::string, int> found;
  auto forward = module->lookupSymbol<func::FuncOp>("forward_0");
  if (forward)
    forward.walk([&](Operation *op) {
      StringRef name = op->getName().getStringRef();
      if (op->getParentOfType<graph::RepeatOp>() && name.starts_with("parallel."))
        ++found[name.str()];
    });
  return found;
}

Model llama() {
  Model model;
  model.batch = 2, model.width = 32, model.heads = 8, model.hidden = 24;
  model.rms = model.rotary = model.gated = true;
  model.bias = model.positions = false;
  return model;
}

void expectReductions(const Model &model, int64_t tp, int count, const std::string &what) {
  std::map<std::string, int> found = inLayers(model, Mesh{.tp = tp}, what);
  EXPECT_EQ(found["parallel.all_reduce"], count);
  for (const char *name : {"parallel.all_gather", "parallel.reduce_scatter"})
    EXPECT_MSG(!found[name], what + " has " + name);
}

LLMC_TEST(a_layer_is_reduced_twice) {
  expectReductions(llama(), 4, 2, "as many kv heads as heads");
  for (int64_t kvHeads : {1, 2, 4}) {
    Model model = llama();
    model.kvHeads = kvHeads;
    expectReductions(model, 4, 2, std::to_string(kvHeads) + " kv heads");
    expectReductions(model, 8, 2, std::to_string(kvHeads) + " kv heads on 8 ranks");
  }
  Model norms = llama();
  norms.headNorm = norms.postNorm = norms.window = norms.masked = true;
  norms.softcap = 30;
  expectReductions(norms, 4, 2, "norms of heads and branches, softcaps, windows");
  Model biased = llama();
  biased.bias = true;
  expectReductions(biased, 4, 2, "biases");
}

LLMC_TEST(branches_that_are_added_are_reduced_once) {
  Model model = llama();
  model.parallel = true;
  expectReductions(model, 4, 1, "parallel branches");
  model.kvHeads = 1;
  model.rms = false;
  expectReductions(model, 4, 1, "parallel branches, one kv head");
  model.bias = model.split = true;
  model.kvHeads = 2;
  expectReductions(model, 4, 1, "parallel branches with biases, weights of heads");
}

} // namespace
} // namespace llmc::test
