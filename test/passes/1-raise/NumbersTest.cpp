// Every function of the text tests of this phase, patterns and what is nearly one,
// computes the same before and after the phase's passes.
#include "dialects/graph/Build.h"
#include "dialects/graph/Evaluate.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "passes/1-raise/Passes.h"
#include "test/passes/1-raise/Harness.h"
#include "test/passes/1-raise/Models.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

#include <cmath>

using namespace mlir;
using namespace llmc;
using namespace llmc::graph;
using namespace llmc::test;

namespace {

// The passes that leave the arguments of a function alone.
LogicalResult raiseInPlace(ModuleOp module) {
  PassManager manager(module.getContext());
  OpPassManager &passes = manager.nest<func::FuncOp>();
  passes.addPass(createFoldConstants());
  passes.addPass(createRaisePositions());
  passes.addPass(createFoldShapes());
  passes.addPass(createRaiseLayerNorm());
  passes.addPass(createRaiseRmsNorm());
  passes.addPass(createRaiseActivations());
  passes.addPass(createRaiseRotary());
  passes.addPass(createRaiseAttention());
  passes.addPass(createSplitFusedWeights());
  return manager.run(module);
}

// Integers stay below 2: they may be rows of the smallest table.
std::vector<Tensor> draw(func::FuncOp func, std::mt19937 &random) {
  std::normal_distribution<double> normal;
  std::vector<Tensor> inputs;
  for (BlockArgument argument : func.getArguments()) {
    Tensor &tensor = inputs.emplace_back(shapeOf(argument).vec());
    for (double &x : tensor.data)
      x = isFloat(argument) ? normal(random) : double(random() % 2);
  }
  return inputs;
}

// Rounded numbers of the text are read as what was meant; a function says by `within` how
// far that may take its results.
void expectSame(StringRef name, const std::vector<Tensor> &before,
                const std::vector<Tensor> &after, double within) {
  EXPECT_EQ(before.size(), after.size());
  for (size_t i = 0; i < before.size() && i < after.size(); ++i)
    for (int64_t j = 0; j < before[i].size(); ++j) {
      double x = before[i].data[j], y = after[i].data[j];
      bool same = x == y || std::abs(x - y) <= within * std::max(1.0, std::abs(x)) ||
                  (std::isnan(x) && std::isnan(y));
      EXPECT_TRUE(same) << name.str() + ": result " + std::to_string(i) + " element " +
                               std::to_string(j) + " is " + std::to_string(y) + ", was " +
                               std::to_string(x);
      if (!same)
        break;
    }
}

int compare(MLIRContext &context, StringRef file, StringRef text, std::mt19937 &random) {
  auto module = parse(context, text.str());
  EXPECT_TRUE(bool(module)) << file.str() + " does not parse";
  if (!module)
    return 0;
  std::vector<std::vector<Tensor>> inputs, outputs;
  SmallVector<func::FuncOp> functions(module->getOps<func::FuncOp>());
  for (func::FuncOp func : functions) {
    inputs.push_back(draw(func, random));
    auto results = evaluate(func, inputs.back());
    outputs.push_back(succeeded(results) ? *results : std::vector<Tensor>());
  }
  EXPECT_TRUE(succeeded(raiseInPlace(*module))) << file.str() + " is not raised";
  EXPECT_TRUE(succeeded(verify(*module)));
  for (auto [func, input, output] : llvm::zip(functions, inputs, outputs)) {
    auto results = evaluate(func, input);
    EXPECT_TRUE(succeeded(results));
    auto within = func->getAttrOfType<FloatAttr>("within");
    if (succeeded(results))
      expectSame((file + " @" + func.getName()).str(), output, *results,
                 within ? within.getValueAsDouble() : 1e-6);
  }
  return functions.size();
}

// Checks that what the text tests show keeps its numbers.
TEST(Numbers, Texts) {
  std::mt19937 random(12);
  std::error_code error;
  int functions = 0;
  for (llvm::sys::fs::directory_iterator it(LLMC_TEST_TEXTS, error), end; it != end && !error;
       it.increment(error)) {
    StringRef name = llvm::sys::path::filename(it->path());
    // Invalid on purpose, or of nothing that computes.
    if (!name.ends_with(".mlir") || name.contains("invalid") || name.contains("symbolic"))
      continue;
    auto text = llvm::MemoryBuffer::getFile(it->path());
    EXPECT_TRUE(bool(text));
    MLIRContext context;
    loadDialects(context);
    SmallVector<StringRef> chunks;
    (*text)->getBuffer().split(chunks, "// -----");
    for (StringRef chunk : chunks)
      functions += compare(context, name, chunk, random);
  }
  EXPECT_TRUE(functions > 60) << "only " + std::to_string(functions) + " functions found";
}

} // namespace
