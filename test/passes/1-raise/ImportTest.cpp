// The same model from three readers is one module.
#include "lib/huggingface/Import.h"
#include "dialects/graph/Graph.h"
#include "lib/onnx/Import.h"
#include "test/passes/1-raise/Harness.h"
#include "test/passes/1-raise/Models.h"

using namespace mlir;
using namespace llmc;
using namespace llmc::test;

namespace {

OwningOpRef<ModuleOp> read(MLIRContext &context, const std::string &path, int64_t rows,
                           int64_t sequence) {
  loadDialects(context);
  CompileOptions options;
  options.model = std::string(LLMC_TEST_DATA) + path;
  options.microBatch = rows;
  options.sequence = sequence;
  bool config = StringRef(path).ends_with(".json");
  return config ? importConfig(context, options.model, options)
                : importOnnx(context, options.model, options);
}

struct Model {
  std::string folder;
  std::vector<std::string> files;
  int64_t layers;
};

const Model models[] = {
    {"/gpt2/", {"config.json", "dynamo.onnx", "torchscript.onnx"}, 4},
    {"/gpt2-tiny/", {"config.json", "dynamo.onnx", "torchscript.onnx", "attention23.onnx"}, 2},
};

// Checks that config, dynamo and TorchScript files raise to one module.
TEST(Import, Equal) {
  MLIRContext context;
  for (const Model &model : models)
    for (auto [rows, sequence] : {std::pair(1, 16), {4, 16}, {2, 5}, {1, 1}}) {
      std::string expected;
      for (const std::string &file : model.files) {
        auto module = read(context, model.folder + file, rows, sequence);
        EXPECT_TRUE(bool(module)) << file + " is not read";
        if (!module)
          continue;
        EXPECT_TRUE(raise(*module));
        EXPECT_EQ(layersOf(*module), model.layers);
        EXPECT_EQ(count(*module, "graph.repeat"), 1);
        EXPECT_EQ(count(*module, "graph.attention"), 1);
        std::string text = canonicalText(*module);
        if (expected.empty())
          expected = text;
        EXPECT_EQ(text, expected);
      }
    }
}

// Checks that raising real files keeps the logits up to the rounding of their constants: these are
// f32, which the phase reads as what was meant (1/sqrt(8), not its rounded square root squared).
TEST(Import, Numbers) {
  MLIRContext context;
  std::mt19937 random(4);
  for (const Model &model : models)
    for (const std::string &file : model.files) {
      auto module = read(context, model.folder + file, 2, 6);
      EXPECT_TRUE(bool(module)) << file + " is not read";
      if (!module)
        continue;
      Sources sources = drawSources(*module, random);
      auto before = run(*module, sources, 100);
      EXPECT_TRUE(raise(*module));
      auto after = run(*module, sources, 100);
      EXPECT_TRUE(!before.empty() && !after.empty());
      double error = difference(before[0], after[0]);
      EXPECT_TRUE(error <= 1e-6) << file + " differs by " + std::to_string(error);
    }
}

} // namespace
