#include "test/passes/2-train/Step.h"

#include "dialects/graph/Evaluate.h"
#include "dialects/graph/Repeat.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include <cmath>
#include <cstdio>
#include <cstdlib>

using namespace mlir;
using namespace llmc::graph;

namespace llmc::test {

// A test that cannot run is a failure of the program, not of a check.
static void require(bool holds, const char *what) {
  if (holds)
    return;
  std::fprintf(stderr, "cannot go on: %s\n", what);
  std::exit(1);
}

Step::Step(const std::string &text, bool unroll) {
  context.loadDialect<func::FuncDialect, GraphDialect>();
  context.printOpOnDiagnostic(false);
  owner = parseSourceString<ModuleOp>(text, &context);
  require(!!owner, "the model does not parse");
  auto next = [&] {
    RepeatOp found;
    owner->walk([&](RepeatOp op) { found = op; });
    return found;
  };
  while (RepeatOp op = unroll ? next() : RepeatOp()) {
    OpBuilder builder(op);
    require(succeeded(unrollRepeat(builder, op)), "a repeat does not unroll");
  }
}

bool Step::train(TrainOptions options) {
  PassManager passes(&context);
  buildTrainPipeline(passes, options);
  return succeeded(passes.run(*owner));
}

func::FuncOp Step::function(llvm::StringRef name) { return owner->lookupSymbol<func::FuncOp>(name); }

// Returns the name of what an argument or result with `attributes` is bound to, or "".
static std::string nameOf(DictionaryAttr attributes) {
  if (auto state = attributes.getAs<FlatSymbolRefAttr>("graph.state"))
    return state.getValue().str();
  for (const char *key : {"graph.input", "graph.scalar", "graph.output"})
    if (auto name = attributes.getAs<StringAttr>(key))
      return name.getValue().str();
  return "";
}

void Step::run(llvm::StringRef name, Named &named) {
  func::FuncOp func = function(name);
  require(!!func, "the function is not there");
  std::vector<Tensor> inputs;
  for (unsigned i = 0; i < func.getNumArguments(); ++i) {
    auto type = cast<RankedTensorType>(func.getArgumentTypes()[i]);
    Tensor &value = named.try_emplace(nameOf(func.getArgAttrDict(i)), type.getShape().vec())
                        .first->second;
    require(value.shape == type.getShape().vec(), "an argument has another shape");
    inputs.push_back(value);
  }
  auto results = evaluate(func, inputs);
  require(succeeded(results), "the function does not evaluate");
  for (auto [i, result] : llvm::enumerate(*results))
    named[nameOf(func.getResultAttrDict(i))] = std::move(result);
}

std::vector<std::string> Step::states(Role role) {
  std::vector<std::string> names;
  for (auto state : owner->getOps<StateOp>())
    if (state.getRole() == role && (state.getOf() || role == Role::parameter))
      names.push_back(state.getSymName().str());
  return names;
}

Named Step::draw(unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<double> normal(0, 0.5);
  std::uniform_int_distribution<int> id(0, kVocabulary - 1);
  Named named;
  for (auto state : owner->getOps<StateOp>())
    if (state.getRole() == Role::parameter) {
      Tensor value(cast<RankedTensorType>(state.getType()).getShape().vec());
      for (double &element : value.data)
        element = normal(engine);
      named[state.getSymName().str()] = value;
    }
  func::FuncOp micro = function("micro");
  for (unsigned i = 0; i < micro.getNumArguments(); ++i)
    if (auto name = micro.getArgAttrOfType<StringAttr>(i, "graph.input")) {
      Tensor value(cast<RankedTensorType>(micro.getArgumentTypes()[i]).getShape().vec());
      for (double &element : value.data)
        element = id(engine);
      named[name.getValue().str()] = value;
    }
  return named;
}

double norm(const Tensor &a) {
  double sum = 0;
  for (double x : a.data)
    sum += x * x;
  return std::sqrt(sum);
}

double distance(const Tensor &a, const Tensor &b) {
  if (a.shape != b.shape)
    return INFINITY;
  double sum = 0;
  for (size_t i = 0; i < a.data.size(); ++i)
    sum += (a.data[i] - b.data[i]) * (a.data[i] - b.data[i]);
  return std::sqrt(sum);
}

} // namespace llmc::test
