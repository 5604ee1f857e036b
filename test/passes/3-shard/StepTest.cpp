// Phases 2 to 4: a step on all ranks of a mesh is the step of the model.
#include "dialects/parallel/Evaluate.h"
#include "dialects/parallel/Parallel.h"
#include "mlir/Pass/PassManager.h"
#include "passes/2-train/Pipeline.h"
#include "passes/3-shard/Pipeline.h"
#include "passes/4-partition/Pipeline.h"
#include "test/passes/3-shard/Draws.h"
#include "test/passes/3-shard/Models.h"
#include <cmath>

using namespace mlir;
using llmc::graph::Tensor;

namespace llmc::test {
namespace {

double norm(const std::vector<double> &values) {
  double sum = 0;
  for (double x : values)
    sum += x * x;
  return std::sqrt(sum);
}

Tensor scalar(double value) {
  Tensor tensor(std::vector<int64_t>{});
  tensor.data[0] = value;
  return tensor;
}

// Normal parameters and first moments, positive second ones; words and labels of
// `count` micro-batches, of which about a third is ignored.
parallel::StepInput drawInput(ModuleOp module, const Model &model, int count, std::mt19937 &random) {
  std::normal_distribution<double> normal(0, 0.4);
  parallel::StepInput input;
  for (auto state : module.getOps<graph::StateOp>()) {
    if (state.getRole() == graph::Role::accumulator)
      continue;
    Tensor value(cast<RankedTensorType>(state.getType()).getShape().vec());
    for (double &x : value.data)
      x = state.getRole() == graph::Role::moment2 ? std::abs(normal(random)) : normal(random);
    input.states[state.getSymName().str()] = value;
  }
  for (int i = 0; i < count; ++i) {
    Tensor ids({model.batch, model.sequence}), labels = ids;
    for (double &x : ids.data)
      x = double(random() % model.vocabulary);
    for (double &x : labels.data)
      x = random() % 3 ? double(random() % model.vocabulary) : -100;
    input.microBatches.push_back({{"input_ids", ids}, {"labels", labels}});
  }
  input.scalars = {{"lr", scalar(0.1)},          {"beta1", scalar(0.9)},
                   {"beta2", scalar(0.95)},      {"eps", scalar(1e-3)},
                   {"weight_decay", scalar(0.1)}, {"clip", scalar(random() % 2 ? 0.05 : 1e30)},
                   {"bias_correction1", scalar(0.1)}, {"bias_correction2", scalar(0.05)}};
  return input;
}

// Every state within 1e-10 of its own norm, or of a thousandth of the norm of all of its role.
void expectSame(ModuleOp module, const parallel::StepOutput &got, const parallel::StepOutput &expected,
                const std::string &what) {
  std::map<graph::Role, double> all; // norms over all states of a role
  for (auto state : module.getOps<graph::StateOp>())
    if (expected.states.count(state.getSymName().str()))
      all[state.getRole()] = std::hypot(all[state.getRole()],
                                        norm(expected.states.at(state.getSymName().str()).data));
  for (auto state : module.getOps<graph::StateOp>()) {
    std::string name = state.getSymName().str();
    if (state.getRole() == graph::Role::accumulator && !state.getOf())
      continue; // each rank's own share of the step's sums
    const Tensor &want = expected.states.at(name);
    auto it = got.states.find(name);
    EXPECT_MSG(it != got.states.end() && it->second.shape == want.shape,
               what + ": state " + name + " is not there");
    if (it == got.states.end() || it->second.shape != want.shape)
      continue;
    std::vector<double> difference(want.data);
    for (size_t i = 0; i < difference.size(); ++i)
      difference[i] -= it->second.data[i];
    // Without any label all gradients are exactly zero.
    double scale = std::max(norm(want.data), 1e-3 * all[state.getRole()]), off = norm(difference);
    EXPECT_MSG(off <= 1e-10 * scale, what + ": state " + name + " is off by " + std::to_string(off) +
                                         " of " + std::to_string(scale));
  }
  for (auto &[name, want] : expected.outputs) {
    auto it = got.outputs.find(name);
    double error = it == got.outputs.end() ? INFINITY : std::abs(it->second.data[0] - want.data[0]);
    EXPECT_MSG(error <= 1e-10 * std::abs(want.data[0]), what + ": output " + name + " differs");
  }
  EXPECT_MSG(got.replicaError <= 1e-10, what + ": copies of one element differ");
}

void checkStep(unsigned seed, bool adamw) {
  std::mt19937 random(seed);
  Mesh mesh = drawMesh(random, 16);
  Model model = drawModel(random, mesh);
  std::string what = "seed " + std::to_string(seed) + ", mesh " + std::to_string(mesh.dp) + "x" +
                     std::to_string(mesh.pp) + "x" + std::to_string(mesh.tp) + ", " + model.describe();
  MLIRContext context;
  loadDialects(context);
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
      std::cerr << what << ": " << diagnostic.str() << "\n";
    return success();
  });
  OwningOpRef<ModuleOp> module = parse(context, model.text());
  TrainOptions options;
  options.adamw = adamw;
  PassManager train(&context), rest(&context);
  buildTrainPipeline(train, options);
  EXPECT_MSG(succeeded(train.run(*module)), what + ": phase 2 fails");
  OwningOpRef<ModuleOp> whole = cast<ModuleOp>((*module)->clone());
  setMesh(*module, mesh);
  buildShardPipeline(rest);
  buildPartitionPipeline(rest);
  bool partitioned = succeeded(rest.run(*module));
  EXPECT_MSG(partitioned, what + ": phase 3 or 4 fails");
  if (!partitioned)
    return;
  parallel::StepInput input = drawInput(*whole, model, 1 + random() % 2, random);
  auto expected = parallel::evaluateStep(*whole, input), got = parallel::evaluateStep(*module, input);
  EXPECT_MSG(succeeded(expected) && succeeded(got), what + ": the step does not run");
  if (succeeded(expected) && succeeded(got))
    expectSame(*whole, *got, *expected, what);
}

LLMC_TEST(adamw_on_a_mesh_is_adamw) {
  for (int i = 0; i < draws().count; ++i)
    checkStep(draws().seed + i, true);
}

LLMC_TEST(sgd_on_a_mesh_is_sgd) {
  for (int i = 0; i < draws().count; ++i)
    checkStep(draws().seed + 1000 + i, false);
}

} // namespace
} // namespace llmc::test
