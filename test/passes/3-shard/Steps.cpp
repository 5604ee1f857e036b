#include "test/passes/3-shard/Steps.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace mlir;

namespace llmc::test {

using graph::Tensor;

static double norm(const std::vector<double> &values) {
  double sum = 0;
  for (double x : values)
    sum += x * x;
  return std::sqrt(sum);
}

static Tensor scalar(double value) {
  Tensor tensor(std::vector<int64_t>{});
  tensor.data[0] = value;
  return tensor;
}

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

std::vector<std::string> differences(ModuleOp module, const parallel::StepOutput &got,
                                     const parallel::StepOutput &expected) {
  std::vector<std::string> list;
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
    if (it == got.states.end() || it->second.shape != want.shape) {
      list.push_back("state " + name + " is not there");
      continue;
    }
    std::vector<double> difference(want.data);
    for (size_t i = 0; i < difference.size(); ++i)
      difference[i] -= it->second.data[i];
    // Without any label all gradients are exactly zero.
    double scale = std::max(norm(want.data), 1e-3 * all[state.getRole()]), off = norm(difference);
    if (off <= 1e-10 * scale)
      continue;
    size_t worst = 0;
    for (size_t i = 0; i < difference.size(); ++i)
      if (!(std::abs(difference[i]) <= std::abs(difference[worst])))
        worst = i;
    list.push_back("state " + name + " is off by " + std::to_string(off) + " of " + std::to_string(scale) +
                   ", element " + std::to_string(worst) + " is " +
                   std::to_string(it->second.data[worst]) + " and not " + std::to_string(want.data[worst]));
  }
  for (auto &[name, want] : expected.outputs) {
    auto it = got.outputs.find(name);
    double error = it == got.outputs.end() ? INFINITY : std::abs(it->second.data[0] - want.data[0]);
    if (!(error <= 1e-10 * std::abs(want.data[0])))
      list.push_back("output " + name + " differs");
  }
  if (!(got.maxReplicaDifference <= 1e-10))
    list.push_back("copies of one element differ");
  return list;
}

void expectSame(ModuleOp module, const parallel::StepOutput &got, const parallel::StepOutput &expected,
                const std::string &what) {
  for (const std::string &difference : differences(module, got, expected))
    ADD_FAILURE() << what + ": " + difference;
}

} // namespace llmc::test
