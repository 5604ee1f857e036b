// One small model written in several ways: weights whole, split, sliced, shared
// and transposed mean the same, and become the states that they should.
#include "GraphBuilder.h"

using namespace llmc;
using namespace llmc::test;
using namespace mlir;

namespace {

TEST(SmallGraphs, Fused) {
  Graph whole;
  whole.floats("w", {width, 3 * width}, 2);
  whole.node("MatMul", {"x", "w"}, {"y"});
  Graph::attribute(whole.node("Split", {"y"}, {"a", "b", "c"}), "axis", {-1});
  finishSum(whole);
  Outcome expected = run(whole);
  EXPECT_TRUE(expected.message.empty() && expected.states == 3) << "fused: " + expected.message;

  Graph split;
  split.floats("w", {width, 3 * width}, 2);
  Graph::attribute(split.node("Split", {"w"}, {"wa", "wb", "wc"}), "axis", {1});
  for (auto [w, y] : {std::pair("wa", "a"), std::pair("wb", "b"), std::pair("wc", "c")})
    split.node("MatMul", {"x", w}, {y});
  finishSum(split);
  same("split weight", split, expected, 5);

  Graph transposed;
  transposed.floats("w", {3 * width, width}, 2, [](size_t i) {
    return i % width * 3 * width + i / width;
  });
  Graph::attribute(transposed.node("Transpose", {"w"}, {"wt"}), "perm", {1, 0}, true);
  transposed.node("MatMul", {"x", "wt"}, {"y"});
  Graph::attribute(transposed.node("Split", {"y"}, {"a", "b", "c"}), "axis", {-1});
  finishSum(transposed);
  same("transposed weight", transposed, expected, 3);

  Graph sliced;
  sliced.floats("w", {width, 3 * width}, 2);
  sliced.ints("axes", {1});
  for (int64_t i = 0; i < 3; ++i) {
    std::string n = std::to_string(i);
    sliced.ints("from" + n, {i * width});
    sliced.ints("to" + n, {(i + 1) * width});
    sliced.node("Slice", {"w", ("from" + n).c_str(), ("to" + n).c_str(), "axes"},
                {("w" + n).c_str()});
  }
  for (auto [w, y] : {std::pair("w0", "a"), std::pair("w1", "b"), std::pair("w2", "c")})
    sliced.node("MatMul", {"x", w}, {y});
  finishSum(sliced);
  same("sliced weight", sliced, expected, 5);
}

// Slices that leave a part out, or overlap, are taken from the whole parameter.
TEST(SmallGraphs, Partial) {
  Graph whole;
  whole.floats("w", {width, 3 * width}, 2);
  whole.node("MatMul", {"x", "w"}, {"y"});
  Graph::attribute(whole.node("Split", {"y"}, {"a", "b", "rest"}), "axis", {-1});
  whole.node("Identity", {"a"}, {"c"});
  finishSum(whole);
  Outcome expected = run(whole);

  Graph partial;
  partial.floats("w", {width, 3 * width}, 2);
  Graph::attribute(partial.node("Split", {"w"}, {"wa", "wb", "rest"}), "axis", {1});
  Graph::attribute(partial.node("Transpose", {"wa"}, {"wat"}), "perm", {1, 0}, true);
  Graph::attribute(partial.node("Transpose", {"wat"}, {"wa2"}), "perm", {1, 0}, true);
  partial.node("MatMul", {"x", "wa2"}, {"a"});
  partial.node("MatMul", {"x", "wb"}, {"b"});
  partial.node("MatMul", {"x", "wa"}, {"c"});
  finishSum(partial);
  same("two of three parts", partial, expected, 3);
}

// Roles: a vector that is added or multiplied is trained, a mask that is added is not.
TEST(SmallGraphs, Roles) {
  Graph g;
  g.floats("bias", {width}, 4);
  g.floats("scale", {1, 1, width}, 5);
  g.floats("mask", {3, width}, 6, [](size_t i) { return i % 2; });
  g.node("Mul", {"x", "scale"}, {"a"});
  g.node("Add", {"a", "bias"}, {"b"});
  g.node("Add", {"b", "mask"}, {"c"});
  g.floats("head", {width, 6}, 3);
  g.node("MatMul", {"c", "head"}, {"logits"});
  Outcome out = run(g);
  EXPECT_TRUE(out.message.empty() && out.states == 4 && out.sources == 4)
      << "roles: " + out.message;
  EXPECT_TRUE(out.constants == std::vector<std::string>{"mask"}) << "the mask is a constant";
}

// Two tables of positions: the one that scales is of cosines, the one that is added
// is learned. Both are looked up at positions 0 ... 2.
TEST(SmallGraphs, Tables) {
  Graph g;
  g.floats("cosines", {8, width}, 4);
  g.floats("learned", {8, width}, 5);
  g.ints("positions", {0, 1, 2});
  g.node("Gather", {"learned", "positions"}, {"p"});
  g.node("Gather", {"cosines", "positions"}, {"c"});
  g.node("Add", {"x", "p"}, {"y"});
  g.ints("front", {0});
  g.node("Unsqueeze", {"c", "front"}, {"c1"});
  g.node("Mul", {"y", "c1"}, {"z"});
  g.floats("head", {width, 6}, 3);
  g.node("MatMul", {"z", "head"}, {"logits"});
  Outcome out = run(g);
  EXPECT_TRUE(out.message.empty() && out.states == 3) << "tables: " + out.message;
  EXPECT_TRUE(out.constants == std::vector<std::string>{"cosines"}) << "the cosines are a constant";
}

// A table with fewer rows than tokens, looked up by distances, bounds no sequence; one
// that is looked up by the tokens' places does.
TEST(SmallGraphs, ShortTables) {
  for (bool distances : {true, false}) {
    Graph g;
    g.floats("short", {2, width}, 4);
    g.ints("places", {0, 1, 2});
    g.ints("one", {1});
    g.node("Min", {"places", "one"}, {"near"});
    g.node("Gather", {"short", distances ? "near" : "places"}, {"p"});
    g.node("Add", {"x", "p"}, {"y"});
    g.floats("head", {width, 6}, 3);
    g.node("MatMul", {"y", "head"}, {"logits"});
    std::string message = run(g).message;
    EXPECT_TRUE(distances ? message.empty()
                          : message.find("position table 'short'") != std::string::npos)
        << "short table: " + message;
  }
}

TEST(SmallGraphs, Storage) {
  Graph g;
  g.floats("head", {width, 6}, 3);
  auto &table = *g.graph.mutable_initializer(0);
  std::string raw = table.raw_data();
  table.clear_raw_data();
  for (size_t i = 0; i < raw.size() / sizeof(float); ++i)
    table.add_float_data(reinterpret_cast<const float *>(raw.data())[i]);
  g.node("MatMul", {"x", "head"}, {"logits"});
  Graph plain;
  plain.floats("head", {width, 6}, 3);
  plain.node("MatMul", {"x", "head"}, {"logits"});
  same("packed float_data", g, run(plain), 2);
}

// Token ids of which the program takes all, by a slice to their length.
TEST(SmallGraphs, SlicedTokens) {
  Graph whole, sliced;
  for (const char *name : {"from", "to", "axis"})
    sliced.ints(name, {name == std::string("to") ? INT64_MAX : name == std::string("axis")});
  sliced.node("Slice", {"ids", "from", "to", "axis"}, {"cut"});
  sliced.graph.mutable_node()->SwapElements(0, 1);
  sliced.graph.mutable_node(1)->set_input(1, "cut");
  for (Graph *g : {&whole, &sliced}) {
    g->floats("head", {width, 6}, 3);
    g->node("MatMul", {"x", "head"}, {"logits"});
  }
  same("sliced tokens", sliced, run(whole), 2);
}

} // namespace
