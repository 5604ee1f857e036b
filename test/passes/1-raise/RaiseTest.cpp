// Tests what the whole phase promises: one canonical form, and the same numbers.
#include "dialects/graph/Graph.h"
#include "mlir/IR/Verifier.h"
#include "test/passes/1-raise/Harness.h"
#include "test/passes/1-raise/Models.h"

using namespace mlir;
using namespace llmc;
using namespace llmc::graph;
using namespace llmc::test;

namespace {

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

//===-- Cases ---------------------------------------------------------------===//

// Checks that every style is folded into one repeat of canonical layers.
TEST(Raise, Folded) {
  MLIRContext context;
  for (const Spec &spec : variants()) {
    auto module = buildDecoder(context, spec);
    EXPECT_TRUE(raise(*module));
    EXPECT_EQ(count(*module, "graph.repeat"), 1);
    EXPECT_EQ(count(*module, "graph.attention"), 1);
    EXPECT_EQ(count(*module, "graph.layer_norm"), 3);
    EXPECT_EQ(count(*module, "graph.gelu"), 1);
    EXPECT_EQ(count(*module, "graph.transpose"), 0);
    EXPECT_EQ(count(*module, "graph.constant"), 0);
    EXPECT_EQ(count(*module, "graph.state"), 4 + 16);
    EXPECT_EQ(layersOf(*module), spec.layers);
    std::string blocks;
    llvm::raw_string_ostream(blocks)
        << (*module)->getAttrOfType<DictionaryAttr>("graph.model").get("blocks");
    EXPECT_EQ(blocks, std::string("[\"attention x3\", \"mlp x3\", \"layer norm x7\", "
                                  "\"embedding x1\", \"head x1\"]"));
  }
}

// Checks that all styles, fused or split, come out equal.
TEST(Raise, EqualForm) {
  MLIRContext context;
  std::string first;
  for (const Spec &spec : variants()) {
    auto module = buildDecoder(context, spec);
    EXPECT_TRUE(raise(*module));
    std::string text = canonicalText(*module);
    if (first.empty())
      first = text;
    if (text != first)
      std::cerr << nameOf(spec) << "\n";
    EXPECT_EQ(text, first);
  }
}

// Checks that names, order, operands and letters do not matter.
TEST(Raise, Disguised) {
  MLIRContext context;
  std::mt19937 random(5);
  for (Style style : {Style::Plain, Style::Flattening, Style::Spelt}) {
    Spec spec;
    spec.style = style;
    auto original = buildDecoder(context, spec);
    EXPECT_TRUE(raise(*original));
    std::string expected = canonicalText(*original);
    for (int i = 0; i < 12; ++i) {
      spec.fused = i % 2;
      auto module = buildDecoder(context, spec);
      disguise(*module, random);
      EXPECT_TRUE(succeeded(verify(*module)));
      EXPECT_TRUE(raise(*module));
      EXPECT_EQ(canonicalText(*module), expected);
    }
  }
}

// Checks that the phase keeps what is computed.
TEST(Raise, SameNumbers) {
  MLIRContext context;
  std::mt19937 random(9);
  for (bool recognize : {true, false})
    for (const Spec &spec : variants()) {
      auto module = buildDecoder(context, spec);
      disguise(*module, random);
      expectSameNumbers(*module, random, spec.vocabulary, nameOf(spec), recognize);
    }
}

// Checks that one row, one layer, odd sizes make no difference between the styles.
TEST(Raise, SmallSizes) {
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
      expectSameNumbers(*module, random, spec.vocabulary, nameOf(spec));
      EXPECT_EQ(count(*module, "graph.repeat"), 1);
      std::string text = canonicalText(*module);
      if (style == Style::Plain)
        expected = text;
      EXPECT_EQ(text, expected);
    }
  }
}

// Checks that a raised module is raised to itself.
TEST(Raise, Idempotent) {
  MLIRContext context;
  auto module = buildDecoder(context, Spec());
  EXPECT_TRUE(raise(*module));
  std::string once = canonicalText(*module);
  EXPECT_TRUE(raise(*module));
  EXPECT_EQ(canonicalText(*module), once);
}

} // namespace
