#include "test/passes/1-raise/Harness.h"

#include "dialects/graph/Build.h"
#include "dialects/graph/Evaluate.h"
#include "mlir/IR/Verifier.h"
#include "passes/1-raise/Pipeline.h"

#include <cmath>

using namespace mlir;
using namespace llmc;
using namespace llmc::graph;

namespace llmc::test {

bool raise(ModuleOp module, bool recognize) {
  PassManager passes(module.getContext());
  buildRaisePipeline(passes, {recognize});
  return succeeded(passes.run(module)) && succeeded(verify(module));
}

func::FuncOp forwardOf(ModuleOp module) { return *module.getOps<func::FuncOp>().begin(); }

std::string canonicalText(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream out(text);
  for (auto state : module.getOps<StateOp>())
    out << state.getSymName() << " " << state.getType() << " " << state.getStacked() << "\n";
  forwardOf(module).print(out);
  return text;
}

Sources drawSources(ModuleOp module, std::mt19937 &random) {
  Sources sources;
  std::normal_distribution<double> normal(0, 0.4);
  for (auto source : module.getOps<SourceOp>()) {
    auto shape = cast<RankedTensorType>(source.getType()).getShape();
    Tensor tensor(std::vector<int64_t>(shape.begin(), shape.end()));
    for (double &x : tensor.data)
      x = normal(random);
    sources[source.getSymName().str()] = std::move(tensor);
  }
  return sources;
}

static void readView(const Tensor &source, ViewAttr view, ArrayRef<int64_t> shape, double *out) {
  int64_t count = 1;
  for (int64_t size : shape)
    count *= size;
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i, at = view.getOffset();
    for (size_t dim = shape.size(); dim-- > 0; rest /= shape[dim])
      at += rest % shape[dim] * view.getStrides()[dim];
    out[i] = source.data[at];
  }
}

std::vector<Tensor> run(ModuleOp module, const Sources &sources, int64_t ids) {
  auto func = forwardOf(module);
  std::vector<Tensor> inputs;
  for (BlockArgument argument : func.getArguments()) {
    auto shape = shapeOf(argument);
    Tensor tensor(std::vector<int64_t>(shape.begin(), shape.end()));
    auto name = func.getArgAttrOfType<FlatSymbolRefAttr>(argument.getArgNumber(), "graph.state");
    if (!name) {
      for (int64_t i = 0; i < tensor.size(); ++i)
        tensor.data[i] = isFloat(argument) ? std::sin(1.0 + i) : (i * 7 + 3) % ids;
    } else {
      auto state = module.lookupSymbol<StateOp>(name.getAttr());
      if (state.getStacked())
        shape = shape.drop_front();
      int64_t part = tensor.size() / state.getViews()->size();
      for (auto [i, view] : llvm::enumerate(state.getViews()->getAsRange<ViewAttr>()))
        readView(sources.at(view.getSource().getValue().str()), view, shape,
                 tensor.data.data() + i * part);
    }
    inputs.push_back(std::move(tensor));
  }
  auto results = evaluate(func, inputs);
  return succeeded(results) ? *results : std::vector<Tensor>();
}

double difference(const Tensor &a, const Tensor &b) {
  if (a.shape != b.shape)
    return INFINITY;
  double worst = 0, size = 0;
  for (int64_t i = 0; i < a.size(); ++i) {
    double error = std::abs(a.data[i] - b.data[i]);
    if (std::isnan(error)) // std::max would drop it
      return error;
    worst = std::max(worst, error);
    size = std::max(size, std::abs(a.data[i]));
  }
  return worst / size;
}

int64_t count(ModuleOp module, StringRef op) {
  int64_t found = 0;
  module.walk([&](Operation *inside) { found += inside->getName().getStringRef() == op; });
  return found;
}

int64_t layersOf(ModuleOp module) {
  auto model = module->getAttrOfType<DictionaryAttr>("graph.model");
  return model.getAs<IntegerAttr>("layers").getInt();
}

void expectSameNumbers(ModuleOp module, std::mt19937 &random, int64_t ids, const std::string &name,
                       bool recognize) {
  Sources sources = drawSources(module, random);
  auto before = run(module, sources, ids);
  EXPECT_TRUE(raise(module, recognize)) << name + " is not raised";
  auto after = run(module, sources, ids);
  EXPECT_TRUE(!before.empty());
  EXPECT_EQ(after.size(), before.size());
  for (size_t i = 0; i < before.size() && i < after.size(); ++i) {
    double error = difference(before[i], after[i]);
    EXPECT_TRUE(error <= 1e-12) << name + " differs by " + std::to_string(error);
  }
}

} // namespace llmc::test
