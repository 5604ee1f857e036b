// The partitioned step on every rank of a mesh equals the step on one rank.
#include "dialects/parallel/Evaluate.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "passes/2-train/Pipeline.h"
#include "passes/4-partition/Pipeline.h"
#include "test/passes/2-train/Step.h"
#include "test/passes/4-partition/Annotate.h"
#include "test/planfile/Harness.h"

#include <cmath>

using namespace mlir;
using namespace llmc;
using namespace llmc::test;
using parallel::StepInput;
using parallel::StepOutput;

namespace {

struct Model {
  MLIRContext context;
  OwningOpRef<ModuleOp> module;

  explicit Model(const std::string &text, bool adamw = true) {
    context.loadDialect<func::FuncDialect, graph::GraphDialect, parallel::ParallelDialect>();
    module = parseSourceString<ModuleOp>(text, &context);
    PassManager passes(&context);
    buildTrainPipeline(passes, {adamw});
    EXPECT(module && succeeded(passes.run(*module)));
  }

  bool partition() {
    PassManager passes(&context);
    buildPartitionPipeline(passes);
    return succeeded(passes.run(*module));
  }
};

graph::Tensor drawTensor(Type type, std::function<double()> next) {
  graph::Tensor value(cast<RankedTensorType>(type).getShape().vec());
  for (double &element : value.data)
    element = next();
  return value;
}

// Weights, moments, token ids and labels (some ignored) of a step.
StepInput drawInput(ModuleOp module, int64_t microBatches, int64_t vocabulary) {
  std::mt19937 engine(7);
  std::normal_distribution<double> normal(0, 0.4);
  StepInput input;
  for (auto state : module.getOps<graph::StateOp>()) {
    bool positive = state.getRole() == graph::Role::moment2;
    input.states[state.getSymName().str()] = drawTensor(state.getType(), [&] {
      double x = normal(engine);
      return positive ? x * x : x;
    });
  }
  auto micro = module.lookupSymbol<func::FuncOp>("micro");
  for (int64_t k = 0; k < microBatches; ++k) {
    parallel::NamedTensors &batch = input.microBatches.emplace_back();
    for (unsigned i = 0; i < micro.getNumArguments(); ++i)
      if (auto name = micro.getArgAttrOfType<StringAttr>(i, "graph.input"))
        batch[name.str()] = drawTensor(micro.getArgumentTypes()[i], [&]() -> double {
          bool ignored = name.getValue() == "labels" && engine() % 10 < 3;
          return ignored ? -100 : double(engine() % vocabulary);
        });
  }
  for (auto [name, value] : std::map<std::string, double>{{"lr", 1e-2}, {"beta1", 0.9},
           {"beta2", 0.95}, {"eps", 1e-8}, {"weight_decay", 0.1}, {"clip", 0.5},
           {"bias_correction1", 0.3}, {"bias_correction2", 0.2}})
    input.scalars[name] = scalar(value);
  return input;
}

double l2(const graph::Tensor &a, const graph::Tensor *b = nullptr) {
  double sum = 0;
  for (size_t i = 0; i < a.data.size(); ++i) {
    double x = a.data[i] - (b ? b->data[i] : 0);
    sum += x * x;
  }
  return std::sqrt(sum);
}

// Error of DESIGN section 10: relative, but no tensor counts as smaller than a
// thousandth of all together.
void expectClose(const StepOutput &got, const StepOutput &expected, ModuleOp module,
                 const std::string &what) {
  double all = 0;
  for (auto state : module.getOps<graph::StateOp>())
    if (state.getRole() == graph::Role::accumulator && state.getOf())
      all = std::hypot(all, l2(expected.states.at(state.getSymName().str())));
  EXPECT(all > 1e-6);
  for (auto state : module.getOps<graph::StateOp>()) {
    std::string name = state.getSymName().str();
    bool isGradient = state.getRole() == graph::Role::accumulator;
    if (isGradient && !state.getOf())
      continue; // the step's own sums, which stay where they are made
    auto found = got.states.find(name);
    const graph::Tensor &right = expected.states.at(name);
    if (found == got.states.end() || found->second.shape != right.shape) {
      EXPECT_MSG(false, what + ": state " + name + " is lost");
      continue;
    }
    double error = l2(right, &found->second) / std::max(l2(right), isGradient ? 1e-3 * all : 1e-3);
    EXPECT_MSG(error <= 1e-10, what + ": state " + name + " is off by " + std::to_string(error));
  }
  for (auto &[name, value] : expected.outputs) {
    auto found = got.outputs.find(name);
    double error = found == got.outputs.end()
                       ? INFINITY
                       : std::abs(found->second.data[0] - value.data[0]) / std::abs(value.data[0]);
    EXPECT_MSG(error <= 1e-10, what + ": output " + name + " is off by " + std::to_string(error));
  }
  EXPECT_MSG(got.replicaError <= 1e-11,
             what + ": ranks differ by " + std::to_string(got.replicaError));
}

// Returns the number of collectives that ran.
int64_t check(const std::string &text, const Layout &layout, int64_t vocabulary,
              const std::string &what, std::mt19937 *random = nullptr, bool adamw = true) {
  Model model(text, adamw);
  StepInput input = drawInput(*model.module, 2, vocabulary);
  auto expected = parallel::evaluateStep(*model.module, input);
  OwningOpRef<ModuleOp> before = model.module->clone();
  annotate(*model.module, layout, random);
  if (failed(expected) || !model.partition()) {
    EXPECT_MSG(false, what + " does not compile");
    return 0;
  }
  auto got = parallel::evaluateStep(*model.module, input);
  EXPECT_MSG(succeeded(got), what + " does not run");
  if (failed(got))
    return 0;
  expectClose(*got, *expected, *before, what);
  return got->collectives;
}

std::string name(const Layout &l) {
  return std::to_string(l.dp) + "x" + std::to_string(l.pp) + "x" + std::to_string(l.tp);
}

} // namespace

LLMC_TEST(one_rank_needs_no_collective) {
  Layout layout;
  layout.states = tensorCuts();
  EXPECT_EQ(check(decoder(2, 2), layout, kVocabulary, "one rank"), 0);
}

LLMC_TEST(tensor_cuts) {
  for (int64_t tp : {2, 4})
    for (int64_t vocabulary : {16, 257}) {
      Layout layout{1, 1, tp, {}, tensorCuts()};
      DecoderShape shape{16, 24, 4, vocabulary};
      EXPECT(check(decoder(2, 2, shape), layout, vocabulary,
                   name(layout) + ", vocabulary " + std::to_string(vocabulary)) > 0);
    }
}

LLMC_TEST(data_cuts) {
  for (int64_t dp : {2, 4}) {
    Layout layout{dp, 1, 1, {}, {}};
    EXPECT(check(decoder(4, 2), layout, kVocabulary, name(layout)) > 0);
  }
}

LLMC_TEST(stages_even_and_uneven) {
  for (std::vector<int64_t> layers : {std::vector<int64_t>{1, 2}, {2, 1}, {1, 1, 1}, {3, 1, 2}}) {
    Layout layout{1, static_cast<int64_t>(layers.size()), 1, layers, {}};
    int64_t count = 0;
    for (int64_t n : layers)
      count += n;
    EXPECT(check(decoder(2, count), layout, kVocabulary, name(layout)) > 0);
  }
}

LLMC_TEST(all_axes_together) {
  for (bool adamw : {true, false}) {
    Layout layout{2, 2, 2, {2, 1}, tensorCuts()};
    EXPECT(check(decoder(4, 3, {8, 12, 2, 17}), layout, 17, name(layout), nullptr, adamw) > 0);
  }
  Layout layout{2, 3, 4, {1, 2, 1}, tensorCuts()};
  EXPECT(check(decoder(2, 4, {16, 24, 4, 11}), layout, 11, name(layout)) > 0);
}

// Any annotation that agrees with the rules is right, however foolish.
LLMC_TEST(random_annotations) {
  for (unsigned seed = 0; seed < 12; ++seed) {
    std::mt19937 random(seed);
    Layout layout{2, 1, 2, {}, {}};
    if (seed % 3 == 1)
      layout = {2, 2, 2, {1, 1}, {}};
    check(decoder(4, 2, {8, 12, 2, 12}), layout, 12, "seed " + std::to_string(seed), &random);
  }
}
