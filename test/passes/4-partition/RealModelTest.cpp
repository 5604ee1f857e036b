// The example model through all phases up to this one, annotated by the tactics.
#include "dialects/parallel/Annotations.h"
#include "lib/pipeline/Pipeline.h"
#include "mlir/IR/MLIRContext.h"
#include "test/passes/4-partition/Check.h"
#include "test/support/Context.h"
#include <gtest/gtest.h>

using namespace mlir;
using namespace llmc;
using namespace llmc::test;

namespace {

struct Mesh {
  int64_t dp, pp, tp;
};

void check(const std::string &model, Mesh mesh, bool raise = true) {
  LoadedContext context;
  CompileOptions options;
  options.model = std::string(LLMC_SOURCE_DIR) + "/examples/gpt2/" + model;
  options.dp = mesh.dp, options.pp = mesh.pp, options.tp = mesh.tp;
  options.sequence = 6;
  options.raise = raise;
  std::string what = model + " on " + std::to_string(mesh.dp) + "x" + std::to_string(mesh.pp) +
                     "x" + std::to_string(mesh.tp);
  OwningOpRef<ModuleOp> module = readModel(context, options);
  if (!module || failed(runPhases(*module, options, Phase::Import, Phase::Train))) {
    ADD_FAILURE() << what + " does not train";
    return;
  }
  int64_t vocabulary =
      module->getOperation()->getAttrOfType<DictionaryAttr>("graph.model").getAs<IntegerAttr>("vocabulary").getInt();
  parallel::StepInput input = drawInput(*module, 2, vocabulary);
  auto expected = parallel::evaluateStep(*module, input);
  OwningOpRef<ModuleOp> before = module->clone();
  if (failed(expected) || failed(runPhases(*module, options, Phase::Train, Phase::Partition))) {
    ADD_FAILURE() << what + " cannot be partitioned";
    return;
  }
  auto got = parallel::evaluateStep(*module, input);
  EXPECT_TRUE(succeeded(got)) << what + " does not run";
  if (succeeded(got))
    expectClose(*got, *expected, *before, what);
}

} // namespace

TEST(RealModel, ExampleFromOnnx) {
  for (Mesh mesh : {Mesh{1, 1, 1}, {2, 1, 1}, {1, 1, 4}, {1, 3, 1}, {2, 2, 2}})
    check("model.onnx", mesh);
}

TEST(RealModel, ExampleFromConfig) {
  for (Mesh mesh : {Mesh{1, 1, 1}, {4, 1, 2}, {1, 4, 1}, {2, 2, 2}})
    check("config.json", mesh);
}

TEST(RealModel, ExampleNotRaised) {
  for (Mesh mesh : {Mesh{1, 1, 1}, {2, 1, 2}})
    check("model.onnx", mesh, /*raise=*/false);
}
