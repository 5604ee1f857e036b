#include "test/passes/4-partition/Check.h"

#include "dialects/parallel/Parallel.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <cmath>
#include <gtest/gtest.h>
#include <random>

using namespace mlir;

namespace llmc::test {

using parallel::StepInput;
using parallel::StepOutput;

static graph::Tensor scalar(double value) {
  graph::Tensor tensor(std::vector<int64_t>{});
  tensor.data[0] = value;
  return tensor;
}

static graph::Tensor drawTensor(Type type, std::function<double()> next) {
  graph::Tensor value(cast<RankedTensorType>(type).getShape().vec());
  for (double &element : value.data)
    element = next();
  return value;
}

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

double l2(const graph::Tensor &a, const graph::Tensor *b) {
  double sum = 0;
  for (size_t i = 0; i < a.data.size(); ++i) {
    double x = a.data[i] - (b ? b->data[i] : 0);
    sum += x * x;
  }
  return std::sqrt(sum);
}

void expectClose(const StepOutput &got, const StepOutput &expected, ModuleOp module,
                 const std::string &what) {
  double all = 0;
  for (auto state : module.getOps<graph::StateOp>())
    if (state.getRole() == graph::Role::accumulator && state.getOf())
      all = std::hypot(all, l2(expected.states.at(state.getSymName().str())));
  EXPECT_TRUE(all > 1e-6);
  for (auto state : module.getOps<graph::StateOp>()) {
    std::string name = state.getSymName().str();
    bool isGradient = state.getRole() == graph::Role::accumulator;
    if (isGradient && !state.getOf())
      continue; // the step's own sums, which stay where they are made
    auto found = got.states.find(name);
    const graph::Tensor &right = expected.states.at(name);
    if (found == got.states.end() || found->second.shape != right.shape) {
      ADD_FAILURE() << what + ": state " + name + " is lost";
      continue;
    }
    double error = l2(right, &found->second) / std::max(l2(right), isGradient ? 1e-3 * all : 1e-3);
    EXPECT_TRUE(error <= 1e-10) << what + ": state " + name + " is off by " + std::to_string(error);
  }
  for (auto &[name, value] : expected.outputs) {
    auto found = got.outputs.find(name);
    double error = found == got.outputs.end()
                       ? INFINITY
                       : std::abs(found->second.data[0] - value.data[0]) / std::abs(value.data[0]);
    EXPECT_TRUE(error <= 1e-10) << what + ": output " + name + " is off by " +
                                       std::to_string(error);
  }
  EXPECT_TRUE(got.maxReplicaDifference <= 1e-11)
      << what + ": ranks differ by " + std::to_string(got.maxReplicaDifference);
}

} // namespace llmc::test
