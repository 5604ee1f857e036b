// Folding finds layers by structure, in models that are no decoder.
#include "dialects/graph/Graph.h"
#include "test/passes/1-raise/Harness.h"
#include "test/passes/1-raise/Models.h"

using namespace mlir;
using namespace llmc;
using namespace llmc::graph;
using namespace llmc::test;

namespace {

// Writes models as text, one line of their mathematics at a time. All
// activations are [3, 4], all weights [4, 4].
class Lines {
public:
  std::string parameter(const std::string &shape = "4x4") {
    std::string name = "p" + std::to_string(parameters++);
    std::string strides = shape == "4x4" ? "[4, 1]" : "[1]";
    states += "graph.source @" + name + ".file : tensor<" + shape +
              "xf64> {init = #graph.init_kind<zeros>}\ngraph.state @" + name + " : tensor<" +
              shape + "xf64> parameter views [#graph.view<@" + name + ".file, 0, " + strides +
              ">]\n";
    arguments += ", %" + name + ": tensor<" + shape + "xf64> {graph.state = @" + name + "}";
    return "%" + name;
  }
  std::string op(const std::string &text, const std::string &types = "(tensor<3x4xf64>)") {
    std::string name = "%v" + std::to_string(values++);
    body += "  " + name + " = graph." + text + " : " + types + " -> tensor<3x4xf64>\n";
    return name;
  }
  std::string matmul(const std::string &x, const std::string &w) {
    return op("matmul \"sd,de->se\" " + x + ", " + w, "(tensor<3x4xf64>, tensor<4x4xf64>)");
  }
  std::string add(const std::string &x, const std::string &y) {
    return op("add " + x + ", " + y, "(tensor<3x4xf64>, tensor<3x4xf64>)");
  }
  std::string residual(const std::string &x, const std::string &activation = "relu") {
    std::string hidden = op(activation + " " + matmul(x, parameter()));
    return add(x, matmul(hidden, parameter()));
  }
  std::string module(const std::string &result) const {
    return states + "func.func @forward(%x: tensor<3x4xf64> {graph.input = \"x\"}" + arguments +
           ") -> tensor<3x4xf64> {\n" + body + "  return " + result + " : tensor<3x4xf64>\n}\n";
  }

private:
  std::string states, arguments, body;
  int parameters = 0, values = 0;
};

// Counts of the repeats, outermost first.
std::vector<int64_t> repeatsOf(ModuleOp module) {
  std::vector<int64_t> counts;
  module.walk<WalkOrder::PreOrder>([&](RepeatOp op) { counts.push_back(op.getCount()); });
  return counts;
}

void expectRepeats(const std::string &name, const std::string &text, std::vector<int64_t> counts,
                   int64_t layers) {
  MLIRContext context;
  std::mt19937 random(1);
  for (int i = 0; i < 4; ++i) {
    auto module = parse(context, text);
    EXPECT_TRUE(bool(module)) << name + " does not parse";
    if (i)
      disguise(*module, random);
    expectSameNumbers(*module, random, 2, name);
    EXPECT_TRUE(repeatsOf(*module) == counts) << name + " has other repeats";
    EXPECT_EQ(layersOf(*module), layers);
  }
}

// Checks that a chain of equal layers folds, one layer does not.
TEST(Layers, Chain) {
  for (int layers : {1, 2, 5}) {
    Lines lines;
    std::string x = "%x";
    for (int i = 0; i < layers; ++i)
      x = lines.op("tanh " + lines.matmul(x, lines.parameter()));
    expectRepeats("chain", lines.module(x),
                  layers == 1 ? std::vector<int64_t>() : std::vector<int64_t>{layers}, layers);
  }
}

// Checks that what stands before and behind the layers stays outside.
TEST(Layers, Ends) {
  Lines lines;
  std::string x = lines.add(lines.matmul("%x", lines.parameter()), "%x");
  for (int i = 0; i < 3; ++i)
    x = lines.residual(x);
  x = lines.op("relu " + lines.matmul(x, lines.parameter()));
  expectRepeats("ends", lines.module(x), {3}, 3);
}

// Checks that two kinds of layers in turn are layers of both.
TEST(Layers, Alternating) {
  Lines lines;
  std::string x = "%x";
  for (int i = 0; i < 6; ++i)
    x = lines.residual(x, i % 2 ? "tanh" : "relu");
  expectRepeats("alternating", lines.module(x), {3}, 3);
}

// Checks that an odd layer at the end is left over.
TEST(Layers, UnequalEnd) {
  Lines lines;
  std::string x = "%x";
  for (int i = 0; i < 4; ++i)
    x = lines.residual(x, i == 3 ? "tanh" : "relu");
  expectRepeats("unequal end", lines.module(x), {3}, 3);
}

// Checks that two stacks of layers are two repeats.
TEST(Layers, TwoStacks) {
  Lines lines;
  std::string x = "%x";
  for (int i = 0; i < 3; ++i)
    x = lines.residual(x, "relu");
  x = lines.op("exp " + x);
  for (int i = 0; i < 2; ++i)
    x = lines.residual(x, "tanh");
  expectRepeats("two stacks", lines.module(x), {3, 2}, 5);
}

// Checks that values that all layers use are captured.
TEST(Layers, Captures) {
  Lines lines;
  std::string shared = lines.parameter(), gate = lines.op("sigmoid %x"), x = "%x";
  std::string early = lines.matmul("%x", shared);
  for (int i = 0; i < 3; ++i) {
    std::string hidden = lines.add(lines.matmul(lines.matmul(x, lines.parameter()), shared), gate);
    x = lines.add(lines.add(x, hidden), early);
  }
  expectRepeats("captures", lines.module(x), {3}, 3);
}

// Checks that two values may go from layer to layer.
TEST(Layers, TwoStreams) {
  Lines lines;
  std::string x = "%x", y = lines.op("tanh %x");
  for (int i = 0; i < 3; ++i) {
    std::string next = lines.add(y, lines.op("relu " + lines.matmul(x, lines.parameter())));
    x = lines.add(x, lines.matmul(next, lines.parameter()));
    y = next;
  }
  expectRepeats("two streams", lines.module(lines.add(x, y)), {3}, 3);
}

// Checks that a parameter that the model also uses elsewhere keeps its layer outside.
TEST(Layers, Tied) {
  Lines lines;
  std::string x = "%x", last;
  for (int i = 0; i < 4; ++i)
    x = lines.op("relu " + lines.matmul(x, last = lines.parameter()));
  x = lines.op("tanh " + lines.matmul(x, last));
  expectRepeats("tied", lines.module(x), {3}, 3);
}

// Checks that a hundred spelt-out layers fold into one.
TEST(Layers, Deep) {
  MLIRContext context;
  Spec spec;
  spec.style = Style::Spelt;
  spec.layers = 100;
  auto module = buildDecoder(context, spec);
  EXPECT_TRUE(raise(*module));
  EXPECT_EQ(layersOf(*module), 100);
  EXPECT_EQ(count(*module, "graph.repeat"), 1);
}

} // namespace
