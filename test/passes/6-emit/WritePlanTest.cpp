// plan dialect -> plan file, field by field, and equations -> calls.
#include "KernelTest.h"

#include "Cases.h"
#include "dialects/graph/Evaluate.h"
#include "lib/planfile/Check.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "passes/6-emit/Emit.h"
#include "passes/6-emit/Pipeline.h"
#include "passes/6-emit/matmul/Equation.h"
#include "test/support/CommandLine.h"
#include <cmath>
#include <optional>
#include <stdexcept>

using namespace mlir;

namespace llmc::test {

namespace {

const char *kPlan = R"mlir(
module attributes {
  parallel.mesh = #parallel.mesh<["dp"=2, "pp"=1, "tp"=2]>,
  graph.model = {name = "tiny", source_path = "tiny.onnx", sequence = 4 : i64, vocabulary = 10 : i64, layers = 4 : i64,
                 blocks = ["mlp x4"], config_json = "{}", weights = "file"},
  graph.constants = ["mask"],
  graph.files = [{path = "tiny.bin", byte_size = 4096 : i64, hash = 77 : i64}],
  plan.options = {schedule = "gpipe", micro_batch = 3 : i64, micro_batches = 2 : i64, global_batch = 12 : i64, optimizer = "adamw"}
} {
  graph.source @"w.0" : tensor<8x6xf32> {aliases = ["alias"], file = 0, file_offset = 64, init = #graph.init_kind<normal>, init_std = 0.5}
  graph.source @"w.1" : tensor<8x6xf32> {init = #graph.init_kind<ones>}
  graph.state @s : tensor<2x8x6xf32> parameter stacked views [#graph.view<@"w.0", 0, [6, 1]>, #graph.view<@"w.1", 0, [6, 1]>]
  graph.state @s.grad : tensor<2x8x6xf32> accumulator of @s
  graph.state @loss.sum : tensor<f32> accumulator
  plan.stage @stage0 attributes {stage = 0, chunks = [#plan.chunk<0, 1>], pools = [#plan.pool<0, 2>], arena_bytes = 8192,
      table = [#plan.entry<@begin, 0, 0>, #plan.entry<@forward, 0, 0>, #plan.entry<@forward, 1, 1>, #plan.entry<@update, 0, 0>]} {
    %w = plan.buffer persistent {offset = 0, binding = #plan.state<@s, parameter, layers = [0, 2], dims = [[], ["tp"]], valid_shape = [8, 6]>} : !plan.buffer<2x8x3xf32>
    %w1 = plan.buffer persistent of %w : !plan.buffer<2x8x3xf32> at 96 : !plan.buffer<8x3xf32>
    %g = plan.buffer persistent {offset = 192, binding = #plan.state<@s.grad, accumulator, layers = [0, 2], dims = [[], ["tp"]], valid_shape = [8, 6]>} : !plan.buffer<2x8x3xf32>
    %l = plan.buffer persistent {offset = 384, binding = #plan.state<@loss.sum, accumulator, dims = [], valid_shape = []>} : !plan.buffer<f32>
    %ids = plan.buffer slot {offset = 1024, slot_stride = 2048, binding = #plan.input<"input_ids">} : !plan.buffer<3x4xi64>
    %mask = plan.buffer slot {offset = 1152, slot_stride = 2048, binding = #plan.input<"attention_mask", loader = <default_value = ones>>} : !plan.buffer<3x4xi64>
    %x = plan.buffer slot {offset = 1280, slot_stride = 2048} : !plan.buffer<3x4x8xf32>
    %y = plan.buffer slot {offset = 1664, slot_stride = 2048} : !plan.buffer<3x4x3xf32>
    %lr = plan.buffer step {offset = 512, binding = #plan.scalar<"lr">} : !plan.buffer<f32>
    %out = plan.buffer step {offset = 576, binding = #plan.output<"loss">} : !plan.buffer<f32>
    %q = plan.buffer scratch {offset = 5120} : !plan.buffer<3x4x2x5xf32>
    %p = plan.buffer scratch {offset = 5632} : !plan.buffer<3x2x4x4xf32>
    plan.procedure @begin begin {
      plan.fill %g {stream = 0} : !plan.buffer<2x8x3xf32>
    }
    plan.procedure @forward forward {
      plan.feed "input_ids" into %ids {stream = 0} : !plan.buffer<3x4xi64>
      plan.matmul "bsd,de->bse" %x, %w1 into %y {stream = 0, origin = #plan.origin<"graph.matmul" nodes ["n0"]>} : !plan.buffer<3x4x8xf32>, !plan.buffer<8x3xf32>, !plan.buffer<3x4x3xf32>
      plan.matmul "bshd,bthd->bhst" %q, %q into %p {stream = 0} : !plan.buffer<3x4x2x5xf32>, !plan.buffer<3x4x2x5xf32>, !plan.buffer<3x2x4x4xf32>
      plan.collective all_reduce <sum> %y into %y over ["tp"] {stream = 1, origin = #plan.origin<"parallel.all_reduce" nodes ["n1"] tactic "tensor" rule "row cut">} : !plan.buffer<3x4x3xf32>, !plan.buffer<3x4x3xf32>
      plan.record 2 {stream = 1}
      plan.wait 2 step {stream = 0}
    }
    plan.procedure @update update {
      plan.launch reads(%w : !plan.buffer<2x8x3xf32>) writes(%out : !plan.buffer<f32>) attributes {stream = 0, scalars = [array<i64: 5, 0, 0, 7>]} {
      ^bb0(%a: tensor<2x8x3xf32>, %o: tensor<i64>):
        %r = graph.reduce %a {kind = #graph.reduce_kind<sum>, dims = array<i64: 0, 1, 2>} : (tensor<2x8x3xf32>) -> tensor<f32>
        plan.yield %r : tensor<f32>
      }
      plan.copy %l into %out {stream = 0} : !plan.buffer<f32>, !plan.buffer<f32>
    }
  }
}
)mlir";

} // namespace

static void checkModel(const planfile::ProgramT &p) {
  EXPECT_TRUE(p.mesh->axes.size() == 3 && p.mesh->axes[2]->name == "tp" &&
              p.mesh->axes[2]->size == 2);
  EXPECT_TRUE(p.stage_axis == 1);
  EXPECT_TRUE(p.model->name == "tiny" && p.model->layers == 4 && p.model->vocabulary == 10);
  EXPECT_TRUE(p.model->parameters == 2 * 8 * 6);
  EXPECT_TRUE(p.model->blocks == std::vector<std::string>{"mlp x4"});
  EXPECT_TRUE(p.schedule == "gpipe" && p.micro_batch == 3 && p.micro_batches == 2 &&
              p.global_batch == 12);
  EXPECT_TRUE(p.optimizer == planfile::OptimizerKind::AdamW);
  EXPECT_TRUE(p.files.size() == 1 && p.files[0]->hash == 77);
  EXPECT_TRUE(p.sources.size() == 2 && p.sources[0]->file == 0 && p.sources[0]->file_offset == 64);
  EXPECT_TRUE(p.sources[0]->byte_size == 8 * 6 * 4 && p.sources[0]->init_std == 0.5);
  EXPECT_TRUE(p.sources[1]->file == -1 && p.sources[1]->init == planfile::InitKind::Ones);
  EXPECT_TRUE(p.inputs.size() == 2 && p.inputs[0]->name == "input_ids");
  EXPECT_TRUE(p.inputs[0]->default_value == planfile::InputDefault::Required);
  EXPECT_TRUE(p.inputs[1]->default_value == planfile::InputDefault::Ones);
  EXPECT_TRUE(p.inputs[0]->batch_axes == std::vector<uint32_t>{0});
}

static void checkStates(const planfile::StageT &stage) {
  EXPECT_TRUE(stage.states.size() == 5);
  const auto &second = *stage.states[1];
  EXPECT_TRUE(second.name == "s[1]" && second.role == planfile::StateRole::Parameter &&
              second.owner);
  EXPECT_TRUE(second.buffer->offset == 96 && second.buffer->size == 96);
  EXPECT_TRUE(second.view && second.view->source == 1);
  EXPECT_TRUE((second.global_shape == std::vector<int64_t>{8, 6}));
  EXPECT_TRUE((second.local_shape == std::vector<int64_t>{8, 3}));
  EXPECT_TRUE(second.dims[0]->axes.empty() && second.dims[1]->axes == std::vector<uint32_t>{2});
  const auto &gradient = *stage.states[3];
  EXPECT_TRUE(gradient.name == "s[1]" && gradient.role == planfile::StateRole::Accumulator);
  EXPECT_TRUE(gradient.view && gradient.view->source == 1);
  EXPECT_TRUE(stage.states[4]->name == "loss.sum" && !stage.states[4]->view);
  EXPECT_TRUE(stage.host_scalars.size() == 1 && stage.host_scalars[0]->buffer->offset == 512);
  EXPECT_TRUE(stage.outputs.size() == 1 && stage.outputs[0]->name == "loss");
}

static void checkInstructions(const planfile::ProgramT &p) {
  const planfile::StageT &stage = *p.stages[0];
  EXPECT_TRUE(stage.pools.front()->slots == 2 && stage.streams == 2 && stage.events == 3 &&
              stage.arena_bytes == 8192);
  EXPECT_TRUE(stage.table.size() == 4 && stage.table[2]->procedure == 1 &&
              stage.table[2]->slot == 1);
  const auto &forward = stage.procedures[1]->instructions;
  // Letters h and b lie apart in q, so the second product is one call per batch row.
  EXPECT_TRUE(forward.size() == 2 + 3 + 3);
  const auto *matmul = forward[1]->body.AsMatmul();
  EXPECT_TRUE(matmul && matmul->m == 12 && matmul->n == 3 && matmul->k == 8 && matmul->batch == 1);
  EXPECT_TRUE(matmul->b->offset == 96 && matmul->a->slot_stride == 2048);
  EXPECT_TRUE(p.origins[forward[1]->origin]->nodes == std::vector<std::string>{"n0"});
  const auto *third = forward[4]->body.AsMatmul();
  EXPECT_TRUE(third && third->batch == 2 && third->m == 4 && third->n == 4 && third->k == 5);
  EXPECT_TRUE(third->c->offset == 5632 + 2 * 2 * 4 * 4 * 4 &&
              third->a->offset == 5120 + 2 * 4 * 2 * 5 * 4);
  const auto *reduce = forward[5]->body.AsCollective();
  EXPECT_TRUE(reduce && reduce->count == 36 && reduce->axes == std::vector<uint32_t>{2});
  EXPECT_TRUE(p.origins[forward[5]->origin]->tactic == "tensor");
  EXPECT_TRUE(forward[7]->body.AsWait()->whole_step && !forward[6]->body.AsRecord()->whole_step);
  const auto &update = stage.procedures[2]->instructions;
  EXPECT_TRUE(update[0]->phase == planfile::Phase::Update);
  const auto *launch = update[0]->body.AsLaunch();
  EXPECT_TRUE(launch && launch->rows == 1 && launch->scalars.size() == 2);
  EXPECT_TRUE(launch->scalars[0]->base == 5 && launch->scalars[0]->coefs[2] == 7);
  EXPECT_TRUE(launch->scalars[1]->base == 2 * 8 * 3);
  EXPECT_TRUE(launch->operands[0]->access == planfile::Access::Read);
  EXPECT_TRUE(launch->operands[1]->access == planfile::Access::Write);
  EXPECT_TRUE(p.kernels[launch->kernel]->name == "reduce");
}

// The plan where the first source is stored as `text` says; nullopt: refused.
static std::optional<planfile::ProgramT> planOf(MLIRContext &context, const std::string &text) {
  std::string plan = kPlan, plain = "tensor<8x6xf32> {aliases = [\"alias\"],";
  plan.replace(plan.find(plain), plain.size(), text + " aliases = [\"alias\"],");
  auto module = parseSourceString<ModuleOp>(plan, ParserConfig(&context));
  PassManager pm(&context);
  buildEmitPipeline(pm);
  planfile::ProgramT program;
  std::vector<KernelObject> kernels;
  bool done = module && succeeded(pm.run(*module)) &&
              succeeded(emitProgram(*module, program, kernels)) && checkBounds(program);
  return done ? std::optional(std::move(program)) : std::nullopt;
}

// Codes and scales as the file has them: blocks of the transpose, if it holds that.
static void checkQuantised(MLIRContext &context) {
  auto fp8 = planOf(context, "tensor<8x6xf8E4M3FN> {scales = {file = 0 : i64, file_offset = 256 : i64, "
                             "type = bf16, block = array<i64: 3, 4>}, transposed,");
  EXPECT_TRUE(fp8 && fp8->sources[0]->coding == planfile::Coding::Float8E4M3);
  EXPECT_TRUE(fp8 && fp8->sources[0]->byte_size == 48 && fp8->sources[0]->transposed);
  EXPECT_TRUE(fp8 && fp8->sources[0]->scales->byte_size == 2 * 2 * 2);
  EXPECT_TRUE(fp8 && fp8->sources[0]->scales->dtype == planfile::DType::BF16);
  auto mxfp4 = planOf(context, "tensor<8x6xf4E2M1FN> {scales = {file = 0 : i64, file_offset = 256 : i64, "
                               "type = f8E8M0FNU, block = array<i64: 1, 32>},");
  EXPECT_TRUE(mxfp4 && mxfp4->sources[0]->byte_size == 24);
  EXPECT_TRUE(mxfp4 && mxfp4->sources[0]->scales->byte_size == 8);
  ScopedDiagnosticHandler quiet(&context, [](Diagnostic &) { return success(); });
  for (const char *scales : {"7", "{file = 0 : i64, file_offset = 256 : i64, type = bf16}",
                             "{file = 0 : i64, file_offset = 256 : i64, type = bf16, block = array<i64: 0, 4>}",
                             "{file = 0 : i64, file_offset = 256 : i64, type = i8, block = array<i64: 4, 4>}",
                             "{file = 1 : i64, file_offset = 256 : i64, type = bf16, block = array<i64: 4, 4>}"})
    EXPECT_TRUE(!planOf(context, std::string("tensor<8x6xf8E4M3FN> {scales = ") + scales + ","));
}

// Emits the plan once for all tests; empty stages if that fails.
static const planfile::ProgramT &program() {
  static planfile::ProgramT program;
  static std::vector<KernelObject> kernels;
  static bool done = [] {
    auto module = parseSourceString<ModuleOp>(kPlan, ParserConfig(&context()));
    PassManager pm(&context());
    buildEmitPipeline(pm);
    bool done =
        module && succeeded(pm.run(*module)) && succeeded(emitProgram(*module, program, kernels));
    EXPECT_TRUE(done);
    EXPECT_TRUE(kernels.size() == 2 && kernels[0].target == "avx2" &&
                kernels[1].target == "avx512");
    for (const KernelObject &object : kernels)
      EXPECT_TRUE(object.bytes.substr(1, 3) == "ELF");
    return done;
  }();
  if (!done)
    throw std::runtime_error("the plan is not emitted");
  return program;
}

TEST(WritePlan, Emits) { program(); }
TEST(WritePlan, Model) { checkModel(program()); }
TEST(WritePlan, States) { checkStates(*program().stages[0]); }
TEST(WritePlan, Instructions) { checkInstructions(program()); }
TEST(WritePlan, Bounds) { EXPECT_TRUE(bool(planfile::checkBounds(program()))); }
TEST(WritePlan, LiveBytes) {
  EXPECT_EQ(program().stages[0]->live_bytes, planfile::peakLiveBytes(program(), 0));
}
TEST(WritePlan, ReadAgain) {
  EXPECT_TRUE(bool(planfile::readProgram(planfile::writeProgram(program()))));
}
TEST(WritePlan, QuantisedSources) { checkQuantised(context()); }

// Bindings that differ from what they name, which only another number would show.
TEST(WritePlan, Refusals) {
  const std::string whole = "#graph.view<@\"w.1\", 0, [6, 1]>]\n  graph.state @s.grad",
                    cut = "#graph.view<@\"w.1\", 0, [6, 1]>] {parallel.sharding = "
                          "#parallel.sharding<[{}, {}, {\"tp\"}]>}\n  graph.state @s.grad";
  struct Edit {
    std::string from, to, message;
  };
  for (const Edit &edit : std::initializer_list<Edit>{
           {whole, cut, ""},
           {"@s, parameter,", "@s, master,", "binds @s as master, its role is parameter"},
           {"@s, parameter, layers = [0, 2], dims = [[], [\"tp\"]]",
            "@s, parameter, layers = [0, 2], dims = [[\"tp\"], []]",
            "with a shard of [8, 3], it is"},
           {"[[], [\"tp\"]], valid_shape = [8, 6]>} : !plan.buffer<2x8x3xf32>\n    %w1",
            "[[], [\"tp\"]], valid_shape = [8, 5]>} : !plan.buffer<2x8x3xf32>\n    %w1",
            "binds @s with valid_shape array<i64: 8, 5>, it has [8, 6]"},
           {"#plan.scalar<\"lr\">", "#plan.scalar<\"learning_rate\">",
            "binds unknown scalar \"learning_rate\"; the host knows lr, "}}) {
    std::string text = kPlan, messages;
    text.replace(text.find(whole), whole.size(), cut);
    if (edit.from != whole) {
      ASSERT_NE(text.find(edit.from), std::string::npos) << edit.from;
      text.replace(text.find(edit.from), edit.from.size(), edit.to);
    }
    ScopedDiagnosticHandler handler(&context(), [&](Diagnostic &diagnostic) {
      messages += diagnostic.str();
      return success();
    });
    auto module = parseSourceString<ModuleOp>(text, ParserConfig(&context()));
    PassManager pm(&context());
    buildEmitPipeline(pm);
    planfile::ProgramT program;
    std::vector<KernelObject> kernels;
    bool done =
        module && succeeded(pm.run(*module)) && succeeded(emitProgram(*module, program, kernels));
    EXPECT_EQ(done, edit.message.empty()) << messages;
    EXPECT_NE(messages.find(edit.message), std::string::npos) << messages;
  }
}

//===-- Experts, exchanges, rings, cut inputs -----------------------------------===//

static const char *kFormsPlan = R"mlir(
module attributes {
  parallel.mesh = #parallel.mesh<["dp"=2, "pp"=1, "tp"=2]>,
  graph.model = {name = "tiny", source_path = "tiny.onnx", sequence = 8 : i64, vocabulary = 10 : i64, layers = 2 : i64},
  plan.options = {schedule = "gpipe", micro_batch = 3 : i64, micro_batches = 2 : i64, global_batch = 12 : i64, optimizer = "sgd"}
} {
  graph.source @"e" : tensor<8x6xf32> {init = #graph.init_kind<ones>}
  graph.state @s : tensor<2x4x6xf32> parameter stacked views [
    #graph.view<@"e", 0, [1]>, #graph.view<@"e", 6, [1]>, #graph.view<@"e", 12, [1]>, #graph.view<@"e", 18, [1]>,
    #graph.view<@"e", 24, [1]>, #graph.view<@"e", 30, [1]>, #graph.view<@"e", 36, [1]>, #graph.view<@"e", 42, [1]>]
  graph.state @s.grad : tensor<2x4x6xf32> accumulator of @s
  plan.stage @stage0 attributes {stage = 0, chunks = [#plan.chunk<0, 1>], pools = [#plan.pool<0, 1>], arena_bytes = 4096,
      table = [#plan.entry<@forward, 0, 0>]} {
    %w = plan.buffer persistent {offset = 0, binding = #plan.state<@s, parameter, layers = [0, 2], dims = [["tp"], []], valid_shape = [4, 6]>} : !plan.buffer<2x2x6xf32>
    %g = plan.buffer persistent {offset = 128, binding = #plan.state<@s.grad, accumulator, layers = [0, 2], dims = [["tp"], []], valid_shape = [4, 6]>} : !plan.buffer<2x2x6xf32>
    %ids = plan.buffer slot {offset = 1024, slot_stride = 0, binding = #plan.input<"ids", dims = [["dp"], ["tp"]], loader = <default_value = positions, permuted_dim = 1, block_order = [0, 3, 1, 2]>>} : !plan.buffer<3x4xi64>
    %rows = plan.buffer slot {offset = 1152, slot_stride = 0, binding = #plan.input<"rows", loader = <default_value = row_ids>>} : !plan.buffer<3xi64>
    %x = plan.buffer scratch {offset = 2048} : !plan.buffer<4x6xbf16>
    %y = plan.buffer scratch {offset = 2112} : !plan.buffer<4x6xbf16>
    plan.procedure @forward forward {
      plan.feed "ids" into %ids {stream = 0} : !plan.buffer<3x4xi64>
      plan.feed "rows" into %rows {stream = 0} : !plan.buffer<3xi64>
      plan.collective all_to_all <sum> %x into %y over ["tp"] {stream = 1} : !plan.buffer<4x6xbf16>, !plan.buffer<4x6xbf16>
      plan.send %x to "tp" 1 wrap channel 3 {stream = 1} : !plan.buffer<4x6xbf16>
      plan.recv %y from "tp" -1 wrap channel 3 {stream = 2} : !plan.buffer<4x6xbf16>
    }
  }
}
)mlir";

// Checks experts, exchanges, rings and inputs that are cut.
TEST(WritePlan, Forms) {
  auto module = parseSourceString<ModuleOp>(kFormsPlan, ParserConfig(&context()));
  ASSERT_TRUE(bool(module));
  PassManager pm(&context());
  buildEmitPipeline(pm);
  planfile::ProgramT p;
  std::vector<KernelObject> kernels;
  bool done = succeeded(pm.run(*module)) && succeeded(emitProgram(*module, p, kernels));
  ASSERT_TRUE(done);
  const planfile::StageT &stage = *p.stages[0];
  EXPECT_TRUE(stage.states.size() == 16);
  for (size_t i = 0; i < stage.states.size(); ++i) { // layer by layer, expert by expert
    const planfile::StateShardT &state = *stage.states[i];
    size_t layer = i / 4 % 2, expert = i % 4;
    EXPECT_TRUE(state.name == "s[" + std::to_string(layer) + "][" + std::to_string(expert) + "]");
    EXPECT_TRUE(state.only_axes == std::vector<uint32_t>{2} && state.only_at == expert / 2);
    EXPECT_TRUE(state.buffer->size == 24 &&
                state.buffer->offset == (i < 8 ? 0 : 128) + (layer * 2 + expert % 2) * 24);
    EXPECT_TRUE(state.view && state.view->offset == int64_t(i % 8) * 6);
    EXPECT_TRUE(state.local_shape == std::vector<int64_t>{6} && state.dims.size() == 1);
  }
  const planfile::InputBindingT &ids = *p.inputs[0], &rows = *p.inputs[1];
  EXPECT_TRUE(ids.batch_axes == std::vector<uint32_t>{0} && ids.dims.size() == 1);
  EXPECT_TRUE(ids.dims.size() == 1 && ids.dims[0]->axes == std::vector<uint32_t>{2});
  EXPECT_TRUE(ids.permuted_dim == 1 && (ids.block_order == std::vector<uint32_t>{0, 3, 1, 2}));
  EXPECT_TRUE(ids.default_value == planfile::InputDefault::Positions);
  EXPECT_TRUE(rows.default_value == planfile::InputDefault::RowIds && rows.dims.empty());
  const auto &list = stage.procedures[0]->instructions;
  const auto *exchange = list[2]->body.AsCollective();
  EXPECT_TRUE(exchange && exchange->kind == planfile::CollectiveKind::AllToAll &&
              exchange->count == 12);
  EXPECT_TRUE(list[3]->body.AsSend()->wrap && list[4]->body.AsRecv()->wrap);
  auto bounds = planfile::checkBounds(p);
  EXPECT_TRUE(bool(bounds));
}

//===-- Equations -----------------------------------------------------------===//

// Any equation over a few letters: each stands in two or three of the tensors.
static std::string drawEquation(Random &random, std::map<char, int64_t> &sizes) {
  std::string tensors[3];
  for (char letter = 'a'; letter < 'a' + draw(random, 2, 6); ++letter) {
    int64_t without = draw(random, 0, 3); // 3: in all
    for (int t = 0; t < 3; ++t)
      if (t != without)
        tensors[t] += letter;
    sizes[letter] = draw(random, 1, 4);
  }
  for (std::string &tensor : tensors)
    std::shuffle(tensor.begin(), tensor.end(), random);
  return tensors[0] + "," + tensors[1] + "->" + tensors[2];
}

// The calls, in double.
static std::vector<double> runCalls(const emit::MatmulCalls &calls, const graph::Tensor &lhs,
                                    const graph::Tensor &rhs, size_t size) {
  std::vector<double> c(size, 1e9);
  const auto &a = calls.swapped ? rhs.data : lhs.data, &b = calls.swapped ? lhs.data : rhs.data;
  const emit::MatmulShape &s = calls.shape;
  for (const auto &call : calls.calls)
    for (int64_t i = 0; i < s.batch; ++i)
      for (int64_t m = 0; m < s.m; ++m)
        for (int64_t n = 0; n < s.n; ++n) {
          double &to = c[call.c + i * s.c[0] + m * s.c[1] + n * s.c[2]];
          double sum = call.accumulate ? to : 0;
          for (int64_t k = 0; k < s.k; ++k)
            sum += a[call.a + i * s.a[0] + m * s.a[1] + k * s.a[2]] *
                   b[call.b + i * s.b[0] + k * s.b[1] + n * s.b[2]];
          to = sum;
        }
  return c;
}

// A sum of several calls is finished before the next result is begun: their bytes
// may interleave.
static bool sumsAreRuns(const emit::MatmulCalls &calls) {
  for (size_t i = 0; i < calls.calls.size(); ++i)
    if (calls.calls[i].accumulate && (i == 0 || calls.calls[i - 1].c != calls.calls[i].c))
      return false;
  return true;
}

// Checks random equations as calls of one batch, m, n and k.
TEST(Equations, AreCalls) {
  Random random(draws().seed);
  for (int i = 0; i < 10 * draws().count; ++i) {
    std::map<char, int64_t> sizes;
    std::string equation = drawEquation(random, sizes);
    auto shapeOf = [&](StringRef letters) {
      std::vector<int64_t> shape;
      for (char letter : letters)
        shape.push_back(sizes[letter]);
      return shape;
    };
    auto [inputs, out] = StringRef(equation).split("->");
    auto [left, right] = inputs.split(",");
    graph::Tensor lhs(shapeOf(left)), rhs(shapeOf(right));
    for (auto *tensor : {&lhs, &rhs})
      for (double &value : tensor->data)
        value = draw(random, -9, 9);
    FunctionText f;
    std::string x = f.argument(tensorType(lhs.shape)), y = f.argument(tensorType(rhs.shape));
    std::string r =
        f.op("graph.matmul", {x, y}, {tensorType(shapeOf(out))}, "", "\"" + equation + "\" ");
    auto module = parseSourceString<ModuleOp>(f.finish("", {r}).text, ParserConfig(&context()));
    auto wanted = graph::evaluate(*module->getOps<func::FuncOp>().begin(), {lhs, rhs});
    auto calls = emit::matmulCalls(equation, lhs.shape, rhs.shape, shapeOf(out), false);
    bool same = succeeded(calls) && succeeded(wanted) &&
                runCalls(*calls, lhs, rhs, (*wanted)[0].data.size()) == (*wanted)[0].data &&
                sumsAreRuns(*calls);
    EXPECT_TRUE(same) << "equation " << f.finish("", {r}).text << ", draw " << i;
  }
}

} // namespace llmc::test
