// Divides layers and runs the model: outputs, losses and gradients are those of the whole model.
#include "mlir/Pass/PassManager.h"
#include "passes/2-train/Passes.h"
#include "test/passes/2-train/Step.h"
#include <gtest/gtest.h>

using namespace mlir;
using namespace llmc::graph;

namespace llmc::test {
namespace {

// Returns a model of three bodies of two layers each: the second layer of a body has parameters of
// its own, both use one number, and what the first ones have made is read behind the layers, of all
// bodies or of the second alone.
std::string pairs(bool readsAll = true) {
  std::string text = R"(
module {
  graph.source @src : tensor<6x8xf32> {init = #graph.init_kind<zeros>}
  graph.source @tab : tensor<11x8xf32> {init = #graph.init_kind<zeros>}
  graph.state @v : tensor<3x4xf32> parameter stacked views [#graph.view<@src, 0, [1]>, #graph.view<@src, 8, [1]>, #graph.view<@src, 16, [1]>]
  graph.state @w : tensor<3x4xf32> parameter stacked views [#graph.view<@src, 24, [1]>, #graph.view<@src, 32, [1]>, #graph.view<@src, 40, [1]>]
  graph.state @table : tensor<11x8xf32> parameter views [#graph.view<@tab, 0, [8, 1]>]
  func.func @forward(%ids: tensor<1x5xi64> {graph.input = "input_ids"}, %v: tensor<3x4xf32> {graph.state = @v}, %w: tensor<3x4xf32> {graph.state = @w}, %table: tensor<11x8xf32> {graph.state = @table}) -> (tensor<1x5x11xf32> {graph.output = "logits"}) {
    %e = graph.gather %table, %ids : (tensor<11x8xf32>, tensor<1x5xi64>) -> tensor<1x5x8xf32>
    %x = graph.reshape %e : (tensor<1x5x8xf32>) -> $H$
    %h, %r = graph.repeat 3 carried(%x : $H$) stacked(%v, %w : tensor<3x4xf32>, tensor<3x4xf32>) captured() -> $H$ stacking tensor<3x1x5x2x4xf32> {
    ^bb0(%a: $H$, %vi: tensor<4xf32>, %wi: tensor<4xf32>):
      %half = graph.constant dense<0.5> : tensor<f32>
      %o, %l = graph.attention %a, %a, %a {scale = 0.5, causal = true} : ($H$, $H$, $H$) -> ($H$, tensor<1x5x2xf32>)
      %o1 = graph.mul %o, %vi : ($H$, tensor<4xf32>) -> $H$
      %b = graph.add %a, %o1 : ($H$, $H$) -> $H$
      %b1 = graph.mul %b, %half : ($H$, tensor<f32>) -> $H$
      %p, %m = graph.attention %b1, %b1, %b1 {scale = 0.5, causal = true} : ($H$, $H$, $H$) -> ($H$, tensor<1x5x2xf32>)
      %p1 = graph.mul %p, %wi : ($H$, tensor<4xf32>) -> $H$
      %c = graph.add %b1, %p1 : ($H$, $H$) -> $H$
      %c1 = graph.mul %c, %half : ($H$, tensor<f32>) -> $H$
      graph.yield %c1, %b1 : $H$, $H$
    }
    $S$
    %y = graph.add %h, %s1 : ($H$, $H$) -> $H$
    %f = graph.reshape %y : ($H$) -> tensor<1x5x8xf32>
    %logits = graph.matmul "bsd,vd->bsv" %f, %table : (tensor<1x5x8xf32>, tensor<11x8xf32>) -> tensor<1x5x11xf32>
    return %logits : tensor<1x5x11xf32>
  }
}
)";
  auto replace = [&](const std::string &mark, const std::string &by) {
    for (size_t at; (at = text.find(mark)) != std::string::npos;)
      text.replace(at, mark.size(), by);
  };
  replace(
      "$S$",
      readsAll
          ? R"(%s1 = graph.reduce %r {kind = #graph.reduce_kind<sum>, dims = array<i64: 0>} : (tensor<3x1x5x2x4xf32>) -> $H$)"
          : R"(%s = graph.slice %r {starts = array<i64: 1, 0, 0, 0, 0>, limits = array<i64: 2, 1, 5, 2, 4>, steps = array<i64: 1, 1, 1, 1, 1>} : (tensor<3x1x5x2x4xf32>) -> tensor<1x1x5x2x4xf32>
    %s1 = graph.reshape %s : (tensor<1x1x5x2x4xf32>) -> $H$)");
  replace("$H$", "tensor<1x5x2x4xf32>");
  return text;
}

struct Division {
  int64_t stages, chunks;
  std::vector<int64_t> layers = {};
};

int64_t divide(Step &step, const Division &division) {
  PassManager passes(step.module().getContext());
  DivideLayersOptions options;
  options.stages = division.stages;
  options.chunks = division.chunks;
  options.layers.assign(division.layers.begin(), division.layers.end());
  passes.addPass(createDivideLayers(options));
  EXPECT_TRUE(succeeded(passes.run(step.module())));
  return llvm::range_size(step.function("forward").getOps<RepeatOp>());
}

// Names the tensor of a source that a parameter views; a stacked parameter views one for each
// layer.
using Source = std::pair<std::string, int64_t>;
std::vector<Source> sourcesOf(StateOp state) {
  std::vector<Source> sources;
  for (auto view : state.getViews()->getAsRange<ViewAttr>())
    sources.push_back({view.getSource().getValue().str(), view.getOffset()});
  return sources;
}

// Returns what `named` has of the parameters of `whole` for those of `divided`, layer by layer,
// with `suffix` behind the names of both.
Named asDivided(Step &whole, Step &divided, const Named &named, const std::string &suffix = "") {
  std::map<Source, std::vector<double>> values;
  auto parameters = [](Step &step, auto visit) {
    for (auto state : step.module().getOps<StateOp>())
      if (state.getRole() == Role::parameter)
        visit(state, sourcesOf(state));
  };
  parameters(whole, [&](StateOp state, const std::vector<Source> &sources) {
    const std::vector<double> &data = named.at(state.getSymName().str() + suffix).data;
    size_t size = data.size() / sources.size();
    for (size_t i = 0; i < sources.size(); ++i)
      values[sources[i]].assign(data.begin() + i * size, data.begin() + (i + 1) * size);
  });
  Named result;
  parameters(divided, [&](StateOp state, const std::vector<Source> &sources) {
    Tensor value(cast<RankedTensorType>(state.getType()).getShape().vec());
    value.data.clear();
    for (const Source &source : sources)
      value.data.insert(value.data.end(), values.at(source).begin(), values.at(source).end());
    result[state.getSymName().str() + suffix] = std::move(value);
  });
  return result;
}

// Trains a model as it is and divided into `repeats` repeats.
void expectSameStep(const std::string &text, const Division &division, int64_t repeats) {
  Step whole(text), divided(text);
  EXPECT_EQ(divide(divided, division), repeats);
  ASSERT_TRUE(whole.train() && divided.train());
  Named inputs = whole.draw(9), own = asDivided(whole, divided, inputs);
  for (const char *name : {"input_ids", "labels"})
    own[name] = inputs.at(name);
  whole.run("micro", inputs);
  divided.run("micro", own);
  EXPECT_NEAR(own.at("loss.sum").data[0], inputs.at("loss.sum").data[0], 1e-12);
  Named want = asDivided(whole, divided, inputs, ".grad");
  for (const auto &[name, value] : want)
    EXPECT_LT(distance(own.at(name), value), 1e-12 * std::max(norm(value), 1e-3)) << name;
}

TEST(DivideLayers, ChunksOfADecoderTrainAlike) {
  expectSameStep(decoder(2, 4), {2, 1}, 1);
  expectSameStep(decoder(2, 4), {2, 2}, 2);
  expectSameStep(decoder(2, 5), {2, 2, {0, 2, 2, 1}}, 2);
  expectSameStep(decoder(2, 3), {1, 3, {1, 1, 1}}, 3);
}

TEST(DivideLayers, LayersOfABodyTrainAlikeApart) {
  expectSameStep(pairs(), {2, 1, {4, 2}}, 1);
  expectSameStep(pairs(), {2, 1, {3, 3}}, 4); // whole, half, half, whole
  expectSameStep(pairs(), {2, 1, {1, 5}}, 3);
  expectSameStep(pairs(), {3, 2, {1, 1, 1, 1, 1, 1}}, 6);
}

TEST(DivideLayers, PartsOfWhichNothingIsReadTrainAlike) {
  expectSameStep(pairs(/*readsAll=*/false), {2, 1, {3, 3}}, 4);
  expectSameStep(pairs(/*readsAll=*/false), {2, 1, {1, 5}}, 3);
}

TEST(DivideLayers, StatesThatOthersReadAreNotCut) {
  Step step(oddRepeats());
  PassManager passes(step.module().getContext());
  DivideLayersOptions options;
  options.stages = 1;
  options.chunks = 3;
  options.layers.assign({1, 1, 1});
  passes.addPass(createDivideLayers(options));
  std::string message;
  ScopedDiagnosticHandler handler(step.module().getContext(), [&](Diagnostic &diagnostic) {
    message += diagnostic.str();
    return success();
  });
  EXPECT_TRUE(failed(passes.run(step.module())));
  EXPECT_NE(message.find("D4"), std::string::npos) << message;
}

} // namespace
} // namespace llmc::test
