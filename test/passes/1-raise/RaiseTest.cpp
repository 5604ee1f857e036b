// What the whole phase promises: one canonical form, and the same numbers.
#include "dialects/graph/Evaluate.h"
#include "mlir/IR/Verifier.h"
#include "passes/1-raise/Pipeline.h"
#include "test/passes/1-raise/Models.h"
#include "test/planfile/Harness.h"

#include <cmath>

using namespace mlir;
using namespace llmc;
using namespace llmc::graph;
using namespace llmc::test;

namespace {

bool raise(ModuleOp module, bool recognize = true) {
  PassManager passes(module.getContext());
  buildRaisePipeline(passes, {recognize});
  return succeeded(passes.run(module)) && succeeded(verify(module));
}

func::FuncOp forwardOf(ModuleOp module) { return *module.getOps<func::FuncOp>().begin(); }

// Everything but sources and the views into them: what must be equal.
std::string canonicalText(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream out(text);
  for (auto state : module.getOps<StateOp>())
    out << state.getSymName() << " " << state.getType() << " " << state.getStacked() << "\n";
  forwardOf(module).print(out);
  out << module->getAttr("graph.model");
  return text;
}

// Random values for each source element by the source's place in its file, here
// its name before any disguise: drawn once per source and kept by symbol.
using Sources = std::map<std::string, Tensor>;

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

void readView(const Tensor &source, ViewAttr view, ArrayRef<int64_t> shape, double *out) {
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

std::vector<Tensor> run(ModuleOp module, const Sources &sources, int64_t vocabulary) {
  auto func = forwardOf(module);
  std::vector<Tensor> inputs;
  for (BlockArgument argument : func.getArguments()) {
    auto shape = shapeOf(argument);
    Tensor tensor(std::vector<int64_t>(shape.begin(), shape.end()));
    auto name = func.getArgAttrOfType<FlatSymbolRefAttr>(argument.getArgNumber(), "graph.state");
    if (!name) {
      for (int64_t i = 0; i < tensor.size(); ++i)
        tensor.data[i] = (i * 7 + 3) % vocabulary;
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
    worst = std::max(worst, std::abs(a.data[i] - b.data[i]));
    size = std::max(size, std::abs(a.data[i]));
  }
  return worst / size;
}

std::vector<Spec> variants() {
  std::vector<Spec> specs;
  for (Style style : {Style::Plain, Style::Flattening, Style::Spelt})
    for (bool fused : {true, false})
      for (bool transposed : {true, false})
        for (bool outFirst : {true, false}) {
          Spec spec;
          spec.style = style;
          spec.fused = fused;
          spec.headTransposed = transposed;
          spec.weightsOutFirst = outFirst;
          specs.push_back(spec);
        }
  return specs;
}

std::string nameOf(const Spec &spec) {
  static const char *styles[] = {"plain", "flattening", "spelt"};
  return std::string(styles[int(spec.style)]) + (spec.fused ? " fused" : " split") +
         (spec.headTransposed ? " transposed head" : "") +
         (spec.weightsOutFirst ? " out first" : "");
}

int64_t count(ModuleOp module, StringRef op) {
  int64_t found = 0;
  module.walk([&](Operation *inside) { found += inside->getName().getStringRef() == op; });
  return found;
}

//===-- Cases ---------------------------------------------------------------===//

Register folded("every style is folded into one repeat of canonical layers", [] {
  MLIRContext context;
  for (const Spec &spec : variants()) {
    auto module = buildDecoder(context, spec);
    EXPECT(raise(*module));
    EXPECT_EQ(count(*module, "graph.repeat"), 1);
    EXPECT_EQ(count(*module, "graph.attention"), 1);
    EXPECT_EQ(count(*module, "graph.layer_norm"), 3);
    EXPECT_EQ(count(*module, "graph.gelu"), 1);
    EXPECT_EQ(count(*module, "graph.transpose"), 0);
    EXPECT_EQ(count(*module, "graph.constant"), 0);
    EXPECT_EQ(count(*module, "graph.state"), 4 + 16);
    auto model = (*module)->getAttrOfType<DictionaryAttr>("graph.model");
    EXPECT_EQ(model.getAs<IntegerAttr>("layers").getInt(), spec.layers);
    std::string blocks;
    llvm::raw_string_ostream(blocks) << model.get("blocks");
    EXPECT_EQ(blocks, std::string("[\"attention x3\", \"mlp x3\", \"layer norm x7\", "
                                  "\"embedding x1\", \"head x1\"]"));
  }
});

Register equalForm("all styles, fused or split, come out equal", [] {
  MLIRContext context;
  std::string first;
  for (const Spec &spec : variants()) {
    auto module = buildDecoder(context, spec);
    EXPECT(raise(*module));
    std::string text = canonicalText(*module);
    if (first.empty())
      first = text;
    if (text != first)
      std::cerr << nameOf(spec) << "\n";
    EXPECT_EQ(text, first);
  }
});

Register disguised("names, order, operands and letters do not matter", [] {
  MLIRContext context;
  std::mt19937 random(5);
  for (Style style : {Style::Plain, Style::Flattening, Style::Spelt}) {
    Spec spec;
    spec.style = style;
    auto original = buildDecoder(context, spec);
    EXPECT(raise(*original));
    std::string expected = canonicalText(*original);
    for (int i = 0; i < 12; ++i) {
      spec.fused = i % 2;
      auto module = buildDecoder(context, spec);
      disguise(*module, random);
      EXPECT(succeeded(verify(*module)));
      EXPECT(raise(*module));
      EXPECT_EQ(canonicalText(*module), expected);
    }
  }
});

Register sameNumbers("the phase keeps what is computed", [] {
  MLIRContext context;
  std::mt19937 random(9);
  for (bool recognize : {true, false})
    for (const Spec &spec : variants()) {
      auto module = buildDecoder(context, spec);
      disguise(*module, random);
      Sources sources = drawSources(*module, random);
      auto before = run(*module, sources, spec.vocabulary);
      EXPECT(raise(*module, recognize));
      auto after = run(*module, sources, spec.vocabulary);
      EXPECT_EQ(before.size(), size_t(1));
      EXPECT_EQ(after.size(), size_t(1));
      double error = difference(before[0], after[0]);
      EXPECT(error <= 1e-12);
      if (error > 1e-12)
        std::cerr << nameOf(spec) << ": " << error << "\n";
    }
});

Register smallSizes("one row, one layer, odd sizes make no difference between the styles", [] {
  MLIRContext context;
  std::mt19937 random(3);
  for (int i = 0; i < 40; ++i) {
    Spec spec;
    spec.batch = 1 + random() % 3;
    spec.sequence = 2 + random() % 4;
    spec.heads = 2 + random() % 3;
    spec.headDim = 1 + random() % 4;
    spec.layers = 1 + random() % 4;
    spec.context = spec.sequence + random() % 2;
    spec.vocabulary = 3 + random() % 5;
    std::string expected;
    for (Style style : {Style::Plain, Style::Flattening, Style::Spelt}) {
      spec.style = style;
      spec.fused = random() % 2;
      auto module = buildDecoder(context, spec);
      disguise(*module, random);
      Sources sources = drawSources(*module, random);
      auto before = run(*module, sources, spec.vocabulary);
      EXPECT(raise(*module));
      EXPECT(difference(before[0], run(*module, sources, spec.vocabulary)[0]) <= 1e-12);
      std::string text = canonicalText(*module);
      if (style == Style::Plain)
        expected = text;
      EXPECT_EQ(text, expected);
    }
  }
});

Register idempotent("a raised module is raised to itself", [] {
  MLIRContext context;
  auto module = buildDecoder(context, Spec());
  EXPECT(raise(*module));
  std::string once = canonicalText(*module);
  EXPECT(raise(*module));
  EXPECT_EQ(canonicalText(*module), once);
});

} // namespace
