// Tensors of which ranks hold ranges of a flat buffer, cut without regard to their borders.
#include "lib/verify/interpret/PlanInterpreter.h"
#include "test/passes/3-shard/Models.h"
#include "test/passes/5-schedule/Executors.h"
#include "test/support/CommandLine.h"

#include <cstring>
#include <gtest/gtest.h>

using namespace mlir;

namespace llmc::test {
namespace {

// A matrix that is cut over tp, two layers and a vector: 29 elements, of which each dp rank
// holds 15, the last one of them padding. The second begins within a layer.
const char *kFlat = R"mlir(
module attributes {
  graph.mode = "infer", parallel.mesh = #parallel.mesh<["dp"=2, "pp"=1, "tp"=2]>,
  graph.model = {name = "flat", source_path = "", sequence = 0 : i64, vocabulary = 0 : i64, layers = 2 : i64},
  graph.inputs = [],
  plan.options = {schedule = "gpipe", micro_batch = 1 : i64, micro_batches = 1 : i64, global_batch = 1 : i64, optimizer = "none"}
} {
  graph.source @A : tensor<4x6xf32> {init = #graph.init_kind<zeros>}
  graph.source @B : tensor<5xf32> {init = #graph.init_kind<zeros>}
  graph.source @L0 : tensor<2x3xf32> {init = #graph.init_kind<zeros>}
  graph.source @L1 : tensor<3x2xf32> {init = #graph.init_kind<zeros>}
  graph.state @a : tensor<4x6xf32> parameter views [#graph.view<@A, 0, [6, 1]>]
  graph.state @b : tensor<5xf32> parameter views [#graph.view<@B, 0, [1]>]
  graph.state @l : tensor<2x2x3xf32> parameter stacked views [#graph.view<@L0, 0, [3, 1]>, #graph.view<@L1, 0, [1, 2]>]
  plan.stage @stage0 attributes {stage = 0, chunks = [#plan.chunk<0, 1>], pools = [#plan.pool<0, 1>],
      arena_bytes = 448, table = [#plan.entry<@forward, 0, 0>]} {
    %f = plan.buffer persistent {offset = 0, binding = #plan.flat<["dp"] parts [<state = <@a, parameter, dims = [[], ["tp"]], valid_shape = [4, 6]>, begin = 0, shape = [4, 3]>,
        <state = <@l, parameter, layers = [0, 1], dims = [[], []], valid_shape = [2, 3]>, begin = 12, shape = [1, 2, 3]>,
        <state = <@b, parameter, dims = [[]], valid_shape = [5]>, begin = 18, shape = [5]>,
        <state = <@l, parameter, layers = [1, 1], dims = [[], []], valid_shape = [2, 3]>, begin = 23, shape = [1, 2, 3]>]>} : !plan.buffer<15xf32>
    %all = plan.buffer scratch {offset = 64} : !plan.buffer<30xf32>
    %a = plan.buffer scratch of %all : !plan.buffer<30xf32> at 0 : !plan.buffer<4x3xf32>
    %l0 = plan.buffer scratch of %all : !plan.buffer<30xf32> at 48 : !plan.buffer<2x3xf32>
    %b = plan.buffer scratch of %all : !plan.buffer<30xf32> at 72 : !plan.buffer<5xf32>
    %l1 = plan.buffer scratch of %all : !plan.buffer<30xf32> at 92 : !plan.buffer<2x3xf32>
    %ya = plan.buffer step {offset = 192, binding = #plan.output<"a", dims = [[], ["tp"]], valid_shape = [4, 6]>} : !plan.buffer<4x3xf32>
    %yb = plan.buffer step {offset = 256, binding = #plan.output<"b", dims = [[]], valid_shape = [5]>} : !plan.buffer<5xf32>
    %y0 = plan.buffer step {offset = 320, binding = #plan.output<"l0", dims = [[], []], valid_shape = [2, 3]>} : !plan.buffer<2x3xf32>
    %y1 = plan.buffer step {offset = 384, binding = #plan.output<"l1", dims = [[], []], valid_shape = [2, 3]>} : !plan.buffer<2x3xf32>
    plan.procedure @forward forward {
      plan.collective all_gather <sum> %f into %all over ["dp"] {stream = 0} : !plan.buffer<15xf32>, !plan.buffer<30xf32>
      plan.copy %a into %ya {stream = 0} : !plan.buffer<4x3xf32>, !plan.buffer<4x3xf32>
      plan.copy %b into %yb {stream = 0} : !plan.buffer<5xf32>, !plan.buffer<5xf32>
      plan.copy %l0 into %y0 {stream = 0} : !plan.buffer<2x3xf32>, !plan.buffer<2x3xf32>
      plan.copy %l1 into %y1 {stream = 0} : !plan.buffer<2x3xf32>, !plan.buffer<2x3xf32>
    }
  }
}
)mlir";

TEST(FlatStates, RangesOfAFlatBufferHoldTheirTensors) {
  MLIRContext context;
  loadDialects(context);
  std::mt19937 random(4);
  struct Run run;
  run.mesh.dp = run.mesh.tp = 2;
  run.weights = {{"A", drawTensor({4, 6}, random)},
                 {"B", drawTensor({5}, random)},
                 {"L0", drawTensor({2, 3}, random)},
                 {"L1", drawTensor({3, 2}, random)}};
  run.outputs = {{"a", run.weights["A"]}, {"b", run.weights["B"]}, {"l0", run.weights["L0"]}};
  graph::Tensor &turned = run.outputs["l1"] = graph::Tensor({2, 3}), &given = run.weights["L1"];
  for (int64_t i = 0; i < 6; ++i)
    turned.data[i] = given.data[i % 3 * 2 + i / 3];
  checkExecutors(context, kFlat, Phase::Schedule, run, "flat");
}

// Names that an edited dump may hold are refused before anything is read by them.
TEST(FlatStates, AxesThatTheMeshLacksAreRefused) {
  for (const char *axis : {"flat<[\"dp\"]", "dims = [[], [\"tp\"]]"}) {
    MLIRContext context;
    loadDialects(context);
    std::string messages;
    ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
      messages += diagnostic.str();
      return success();
    });
    std::string text = kFlat, other = axis;
    other[other.find('"') + 1] = 'x';
    text.replace(text.find(axis), std::strlen(axis), other);
    OwningOpRef<ModuleOp> module = parse(context, text);
    verify::Trial trial;
    trial.steps.emplace_back();
    EXPECT_TRUE(failed(verify::interpretPlan(*module, trial)));
    EXPECT_TRUE(messages.find("which is not in the mesh") != std::string::npos) << messages;
  }
}

} // namespace
} // namespace llmc::test
