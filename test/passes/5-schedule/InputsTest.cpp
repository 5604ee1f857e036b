// Inputs that are cut along any dim and permuted by the loader, exchanges of parts and messages
// around an axis: all machines that run a program agree with what can be computed by hand.
#include "dialects/parallel/Annotations.h"
#include "dialects/parallel/Evaluate.h"
#include "lib/verify/interpret/PlanInterpreter.h"
#include "lib/verify/subject/Subject.h"
#include "mlir/AsmParser/AsmParser.h"
#include "mlir/Pass/PassManager.h"
#include "passes/2-train/Pipeline.h"
#include "passes/3-shard/Pipeline.h"
#include "passes/4-partition/Pipeline.h"
#include "passes/5-schedule/Pipeline.h"
#include "test/passes/3-shard/Steps.h"
#include "test/passes/5-schedule/Executors.h"
#include "test/support/CommandLine.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>

using namespace mlir;

namespace llmc::test {
namespace {

using graph::Tensor;

// Rows are cut over dp, places over cp in an order of the loader's; heads are cut over cp where
// every place of a row is needed.
const char *kExchange = R"mlir(
module attributes {
  graph.mode = "infer", parallel.mesh = #parallel.mesh<["dp"=2, "pp"=1, "cp"=2, "tp"=1]>,
  graph.model = {name = "exchange", source_path = "", sequence = 0 : i64, vocabulary = 0 : i64, layers = 0 : i64},
  graph.inputs = [{name = "x", type = tensor<4x8x6x3xf32>, sharding = #parallel.sharding<[{"dp"}, {"cp"}, {}, {}]>,
                   loader = #graph.loader<permuted_dim = 1, block_order = [0, 3, 1, 2]>}],
  plan.options = {schedule = "gpipe", micro_batch = 2 : i64, micro_batches = 1 : i64, global_batch = 4 : i64, optimizer = "none"}
} {
  func.func @forward_0(%x: tensor<2x4x6x3xf32> {
        graph.input = "x", graph.loader = #graph.loader<permuted_dim = 1, block_order = [0, 3, 1, 2]>,
        parallel.sharding = #parallel.sharding<[{"dp"}, {"cp"}, {}, {}]>})
      -> (tensor<2x4x6x3xf32> {graph.output = "y", parallel.sharding = #parallel.sharding<[{"dp"}, {"cp"}, {}, {}]>})
      attributes {parallel.stage = 0 : i64, parallel.procedure = "forward"} {
    %h = parallel.all_to_all %x over ["cp"] split 2 concat 1 : (tensor<2x4x6x3xf32>) -> tensor<2x8x3x3xf32>
    %e = graph.exp %h : (tensor<2x8x3x3xf32>) -> tensor<2x8x3x3xf32>
    %c = graph.cumsum %e {dim = 1 : i64} : (tensor<2x8x3x3xf32>) -> tensor<2x8x3x3xf32>
    %y = parallel.all_to_all %c over ["cp"] split 1 concat 2 : (tensor<2x8x3x3xf32>) -> tensor<2x4x6x3xf32>
    return %y : tensor<2x4x6x3xf32>
  }
}
)mlir";

TEST(Inputs, PartsOfAPermutedInputAreExchanged) {
  MLIRContext context;
  loadDialects(context);
  std::mt19937 random(1);
  Tensor x = drawTensor({4, 8, 6, 3}, random), y(x.shape);
  const int64_t places[8] = {0, 1, 6, 7, 2, 3, 4, 5}; // blocks 0, 3, 1, 2 of two places
  for (int64_t row = 0; row < 4; ++row)
    for (int64_t inner = 0; inner < 18; ++inner) {
      double sum = 0;
      for (int64_t place = 0; place < 8; ++place) {
        sum += std::exp(x.data[(row * 8 + places[place]) * 18 + inner]);
        y.data[(row * 8 + place) * 18 + inner] = sum;
      }
    }
  checkExecutors(context, kExchange, Phase::Partition, {{.dp = 2, .cp = 2}, {}, {{"x", x}}, {{"y", y}}},
                "exchange");
}

// Each rank passes its part on to the next one; the last one to the first.
const char *kRing = R"mlir(
module attributes {
  graph.mode = "infer", parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "cp"=4, "tp"=2]>,
  graph.model = {name = "ring", source_path = "", sequence = 0 : i64, vocabulary = 0 : i64, layers = 0 : i64},
  graph.inputs = [{name = "x", type = tensor<1x12xf32>, sharding = #parallel.sharding<[{}, {"cp"}]>}],
  plan.options = {schedule = "gpipe", micro_batch = 1 : i64, micro_batches = 1 : i64, global_batch = 1 : i64, optimizer = "none"}
} {
  plan.stage @stage0 attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>],
      arena_bytes = 192, table = [#plan.entry<@forward, 0, 0>]} {
    %x = plan.buffer slot {offset = 0, slot_stride = 64, binding = #plan.input<"x", dims = [[], ["cp"]]>} : !plan.buffer<1x3xf32>
    %y = plan.buffer step {offset = 128, binding = #plan.output<"y", dims = [[], ["cp"]], valid_shape = [1, 12]>} : !plan.buffer<1x3xf32>
    plan.procedure @forward forward {
      plan.feed "x" into %x {stream = 0} : !plan.buffer<1x3xf32>
      plan.record 0 step {stream = 0}
      plan.wait 0 step {stream = 3}
      plan.send %x to "cp" DELTA wrap channel 0 {stream = 3} : !plan.buffer<1x3xf32>
      plan.recv %y from "cp" BACK wrap channel 0 {stream = 3, grouped} : !plan.buffer<1x3xf32>
      plan.record 1 step {stream = 3}
      plan.wait 1 step {stream = 0}
    }
  }
}
)mlir";

TEST(Inputs, MessagesGoAroundAnAxis) {
  MLIRContext context;
  loadDialects(context);
  std::mt19937 random(2);
  Tensor x = drawTensor({1, 12}, random);
  for (int64_t delta : {1, -1, 3}) {
    std::string text = kRing;
    for (auto [word, value] : {std::pair("DELTA", delta), std::pair("BACK", -delta)})
      text.replace(text.find(word), std::strlen(word), std::to_string(value));
    Tensor y(x.shape);
    for (int64_t i = 0; i < 12; ++i)
      y.data[(i + 12 + 3 * delta) % 12] = x.data[i];
    checkExecutors(context, text, Phase::Schedule, {{.tp = 2, .cp = 4}, {}, {{"x", x}}, {{"y", y}}},
                  "ring of " + std::to_string(delta));
  }
}

// Checks that a stage whose binding of an input differs from the module's list is refused.
TEST(Inputs, SaidOtherwiseAreRefused) {
  for (const char *said : {"dims = [[], []]", "dims = [[\"cp\"], []]",
                           "dims = [[], [\"cp\"]], loader = <default_value = ones>",
                           "dims = [[], [\"cp\"]], loader = <permuted_dim = 1, block_order = [1, 0]>"}) {
    MLIRContext context;
    loadDialects(context);
    std::string messages, text = kRing, usual = "dims = [[], [\"cp\"]]";
    ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
      messages += diagnostic.str();
      return success();
    });
    text.replace(text.find("DELTA"), 5, "1");
    text.replace(text.find("BACK"), 4, "-1");
    text.replace(text.find(usual), usual.size(), said);
    OwningOpRef<ModuleOp> module = parse(context, text);
    verify::Subject subject;
    subject.options.infer = true;
    subject.options.tp = 2, subject.options.cp = 4;
    EXPECT_TRUE(failed(verify::compileFrom(*module, Phase::Schedule, Phase::Emit, subject)));
    // Parts of other dims have other sizes.
    EXPECT_TRUE(messages.find("in graph.inputs") != std::string::npos) << said + (": " + messages);
  }
}

// The same on all ranks, where inputs are cut over rows, and places too or not.
void checkStep(MLIRContext &context, ModuleOp whole, const parallel::StepInput &input,
               const parallel::StepOutput &expected, bool cutsPlaces, std::mt19937 &random) {
  Mesh mesh{.dp = 2, .pp = 2, .tp = 1, .cp = 2};
  OwningOpRef<ModuleOp> module = cast<ModuleOp>(whole->clone());
  setMesh(*module, mesh);
  PassManager shard(&context), rest(&context);
  buildShardPipeline(shard);
  EXPECT_TRUE(succeeded(shard.run(*module)));
  auto micro = module->lookupSymbol<func::FuncOp>("micro");
  // The tactic of cp cuts places.
  for (BlockArgument arg : micro.getArguments())
    if (!cutsPlaces && micro.getArgAttr(arg.getArgNumber(), parallel::kInput)) {
      SmallVector<parallel::Axes> axes = parallel::getAxes(parallel::getSharding(arg));
      EXPECT_EQ(axes[1].size(), 1u);
      axes[1].clear();
      parallel::setSharding(arg, parallel::makeSharding(&context, axes));
    }
  buildPartitionPipeline(rest);
  bool partitioned = succeeded(rest.run(*module));
  EXPECT_TRUE(partitioned) << "phase 4 fails";
  auto ranks = partitioned ? parallel::evaluateStep(*module, input) : FailureOr<parallel::StepOutput>();
  EXPECT_TRUE(succeeded(ranks)) << "the ranks' step does not run";
  if (failed(ranks))
    return;
  expectSame(whole, *ranks, expected, "partitioned");
  PassManager schedule(&context);
  buildSchedulePipeline(schedule, {.schedule = "1f1b", .microBatches = 3});
  EXPECT_TRUE(succeeded(schedule.run(*module)));
  for (int i = 0; i < 5; ++i) {
    auto got = verify::interpretStep(*module, input, random);
    EXPECT_TRUE(succeeded(got)) << "the plan does not run";
    if (succeeded(got))
      expectSame(whole, *got, expected, "scheduled");
  }
}

// Words and labels of a training step, in an order of the loader's and cut over the rows and a
// second axis: ranks gather the words that they need.
TEST(Inputs, AStepOnInputsThatAreCutAndPermuted) {
  MLIRContext context;
  loadDialects(context);
  Model model;
  model.sequence = 6;
  std::mt19937 random(3);
  OwningOpRef<ModuleOp> whole = parse(context, model.text());
  PassManager train(&context);
  buildTrainPipeline(train, {});
  EXPECT_TRUE(succeeded(train.run(*whole)));
  parallel::StepInput input = drawInput(*whole, model, 3, random);
  auto inOrder = parallel::evaluateStep(*whole, input);
  auto micro = whole->lookupSymbol<func::FuncOp>("micro");
  Attribute loader =
      parseAttribute("#graph.loader<permuted_dim = 1, block_order = [2, 0, 1]>", &context);
  for (BlockArgument arg : micro.getArguments())
    if (micro.getArgAttr(arg.getArgNumber(), parallel::kInput))
      micro.setArgAttr(arg.getArgNumber(), parallel::kLoader, loader);
  auto expected = parallel::evaluateStep(*whole, input);
  EXPECT_TRUE(succeeded(inOrder) && succeeded(expected) &&
              !differences(*whole, *expected, *inOrder).empty())
      << "the order of the words does not matter";

  if (failed(expected))
    return;
  for (bool cutsPlaces : {true, false})
    checkStep(context, *whole, input, *expected, cutsPlaces, random);
}

} // namespace
} // namespace llmc::test
