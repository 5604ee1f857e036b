// Tests that each tensor that a file stores and a model learns is trained, in whatever form an
// exporter left it; that one that follows a formula is a constant; and that one of which neither
// is known is a constant, with a note.
#include "GraphBuilder.h"

using namespace llmc;
using namespace llmc::test;

namespace {

// Values that follow no formula.
size_t scattered(size_t i) { return i * i * 7 + i % 3; }

void fill(Graph &g, const std::string &name, std::vector<int64_t> shape,
          const std::function<float(size_t)> &value) {
  g.floats(name, shape, 0);
  std::string &raw =
      *g.graph.mutable_initializer(g.graph.initializer_size() - 1)->mutable_raw_data();
  for (size_t i = 0; i < raw.size() / sizeof(float); ++i)
    reinterpret_cast<float *>(raw.data())[i] = value(i);
}

// logits = y head.
Outcome ended(Graph &g, Tie tie = Tie::Auto) {
  g.floats("head", {width, 6}, 3);
  g.node("MatMul", {"y", "head"}, {"logits"});
  return run(g, tie);
}

bool trains(const Outcome &out, const std::string &name) {
  return llvm::is_contained(out.names, name);
}

// A number is trained where the file says that it is a parameter, and not where an
// exporter made it.
TEST(Learned, Numbers) {
  for (std::vector<int64_t> shape : {std::vector<int64_t>{}, std::vector<int64_t>{1}})
    for (const char *name : {"h.0.alpha", "onnx::Mul_77"}) {
      Graph g;
      g.floats(name, shape, 4);
      g.node("Mul", {name, "x"}, {"y"});
      scripted(g);
      Outcome out = ended(g);
      bool learned = llvm::StringRef(name) == "h.0.alpha";
      EXPECT_TRUE(out.message.empty() && trains(out, name) == learned && out.notes.empty())
          << std::string("number ") + name + ": " + out.message + out.notes;
    }
}

// Checks that a tensor that metadata calls a parameter is one, and that a call that reads none has
// a number of its own, though the file stores one for both.
TEST(Learned, NumbersOfCalls) {
  Graph g;
  g.floats("alpha", {}, 4);
  call(g.node("Mul", {"x", "alpha"}, {"a"}), "aten.mul.Tensor", "%x, %p_alpha", "['', 'mul']");
  call(g.node("Mul", {"a", "alpha"}, {"y"}), "aten.mul.Tensor", "%a, 0.5", "['', 'mul_1']");
  Outcome out = ended(g);
  same("a number of two calls", out, out, 3);
  EXPECT_TRUE(trains(out, "alpha") && !trains(out, "alpha#2")) << "the parameter is the first";
}

// Functions of parameters are computed in every step where what they give is learned, and
// mean what their folded values mean.
TEST(Learned, Computed) {
  Graph g;
  g.floats("n.weight", {width}, 4, scattered);
  g.floats("n.A_log", {1, width}, 5, scattered);
  fill(g, "onnx::Add_1", {1}, [](size_t) { return 1; });
  g.node("Add", {"n.weight", "onnx::Add_1"}, {"w"});
  g.node("Mul", {"x", "w"}, {"a"});
  g.node("Exp", {"n.A_log"}, {"e"});
  g.node("Neg", {"e"}, {"f"});
  g.node("Sub", {"a", "f"}, {"y"});
  scripted(g);
  Outcome out = ended(g);
  Graph folded;
  auto of = [](size_t seed, size_t i) { return std::sin(float(seed * 100.0 + scattered(i))); };
  fill(folded, "w", {width}, [&](size_t i) { return 1 + of(4, i); });
  fill(folded, "f", {1, width}, [&](size_t i) { return -std::exp(of(5, i)); });
  folded.node("Mul", {"x", "w"}, {"a"});
  folded.node("Sub", {"a", "f"}, {"y"});
  same("functions of parameters", out, ended(folded), 4, 1e-6);
  EXPECT_TRUE(trains(out, "n.weight") && trains(out, "n.A_log") && out.constants.empty() &&
              out.notes.empty())
      << "functions are no constants: " + out.notes;
}

// A table of which the first rows are added: learned, unless its rows are of sines.
TEST(Learned, Positions) {
  for (bool learned : {true, false}) {
    Graph g;
    g.floats("pos", {1, 8, width}, 4, learned ? scattered : std::function<size_t(size_t)>());
    for (auto [name, value] : {std::pair("from", 0), std::pair("to", 3), std::pair("axis", 1)})
      g.ints(name, {value});
    g.node("Slice", {"pos", "from", "to", "axis"}, {"rows"});
    g.node("Add", {"x", "rows"}, {"y"});
    scripted(g);
    Outcome out = ended(g);
    EXPECT_TRUE(out.message.empty() && trains(out, "pos") == learned &&
                learned == out.notes.empty() &&
                (learned || out.notes.find("1 stored tensor (32 elements) follows a formula and is "
                                           "not trained: 'pos' [1, 8, 4]") != std::string::npos))
        << "positions: " + out.message + out.notes;
  }
}

// A stored tensor without a name of its own, combined with the hidden states [2, 3, 4] or
// with scores [2, 3, 3].
Outcome combined(const char *op, std::vector<int64_t> shape,
                 const std::function<float(size_t)> &value, bool scores = false) {
  Graph g;
  fill(g, "val", shape, value);
  if (!scores) {
    g.node(op, {"x", "val"}, {"y"});
    return ended(g);
  }
  Graph::attribute(g.node("Transpose", {"x"}, {"xt"}), "perm", {0, 2, 1}, true);
  g.node("MatMul", {"x", "xt"}, {"s"});
  g.node(op, {"s", "val"}, {"shifted"});
  g.node("Softmax", {"shifted"}, {"p"});
  g.node("MatMul", {"p", "x"}, {"y"});
  return ended(g);
}

TEST(Learned, Unnamed) {
  auto random = [](size_t i) { return float(std::sin(double(scattered(i)))); };
  auto learned = [](const std::string &what, const Outcome &out) {
    SCOPED_TRACE(what);
    EXPECT_TRUE(out.message.empty() && trains(out, "val") && out.notes.empty())
        << what + " is learned: " + out.message + out.notes;
  };
  auto silent = [](const std::string &what, const Outcome &out) {
    SCOPED_TRACE(what);
    EXPECT_TRUE(out.message.empty() && !trains(out, "val") && out.notes.empty())
        << what + " is a constant: " + out.message + out.notes;
  };
  auto said = [](const std::string &what, const Outcome &out) {
    SCOPED_TRACE(what);
    EXPECT_TRUE(out.message.empty() && !trains(out, "val"))
        << what + " is a constant: " + out.message;
    for (const char *words : {"1 stored tensor (", "is not trained: 'val' [", "optimize=False"})
      EXPECT_TRUE(out.notes.find(words) != std::string::npos) << what + " is said: " + out.notes;
  };
  learned("rows of positions", combined("Add", {1, 3, width}, random));
  silent("a number", combined("Mul", {1}, random));
  silent("a mask of zeros and ones",
         combined("Mul", {3, width}, [](size_t i) { return i % 3 == 0; }));
  silent("what is filled with ones", combined("Mul", {3, width}, [](size_t) { return 1; }));
  said("a matrix that scales", combined("Mul", {3, width}, random));
  said("a row that is repeated",
       combined("Add", {3, width}, [&](size_t i) { return random(i % width); }));
  silent("a causal mask",
         combined(
             "Add", {3, 3}, [](size_t i) { return i % 3 > i / 3 ? -INFINITY : 0.0f; }, true));
  silent("distances", combined(
                          "Add", {3, 3}, [](size_t i) { return float(i % 3) / 2; }, true));
  said("a bias of scores", combined("Add", {1, 3, 3}, random, true));
}

// Tables of angles of eight positions and what they are: sines and cosines of any size.
TEST(Learned, Angles) {
  Graph g;
  fill(g, "cosines", {8, width}, [](size_t i) {
    return 1.3f * std::cos(float(i / width) * std::pow(10.0f, -float(i % width)));
  });
  fill(g, "linear", {8, width},
       [](size_t i) { return float(i / width) * float(scattered(i % width)); });
  g.ints("eight", {2, 3, 1, width});
  g.ints("sum", {2});
  g.node("Reshape", {"x", "eight"}, {"x4"});
  g.node("Mul", {"x4", "cosines"}, {"a"});
  g.node("Mul", {"a", "linear"}, {"b"});
  Graph::attribute(g.node("ReduceSum", {"b", "sum"}, {"y"}), "keepdims", {0});
  Outcome out = ended(g);
  EXPECT_TRUE(out.message.empty() && out.sources == 2) << "angles: " + out.message;
  EXPECT_TRUE(out.notes.find("'linear' [8, 4]") != std::string::npos &&
              out.notes.find("cosines") == std::string::npos)
      << "what only grows is said: " + out.notes;
}

// One table for tokens and logits is one parameter or two, as the options say.
TEST(Learned, Untied) {
  auto outcome = [](Tie tie) {
    Graph g;
    Graph::attribute(g.node("Transpose", {"table"}, {"t"}), "perm", {1, 0}, true);
    g.node("MatMul", {"x", "t"}, {"logits"});
    return run(g, tie);
  };
  Outcome expected = outcome(Tie::Auto);
  same("tied", outcome(Tie::Exact), expected, 1);
  Outcome off = outcome(Tie::Off);
  same("untied", off, expected, 2);
  EXPECT_TRUE((off.notes.empty() && off.names == std::vector<std::string>{"table", "table#2"}))
      << "a table and a head: " + off.notes;
}

// Checks that a transposed head of 8-bit floats is compared with the table without a read behind
// the end of the file. Elements of such types are constants.
TEST(Learned, SmallFloats) {
  constexpr int64_t rows = 1 << 18; // so that a read of wider words leaves the file's last page
  Graph g;
  g.graph.mutable_initializer()->Clear();
  auto store = [&](const char *name, int64_t first, int64_t second) {
    auto &tensor = *g.graph.add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(::onnx::TensorProto::FLOAT8E4M3FN);
    tensor.add_dims(first);
    tensor.add_dims(second);
    tensor.set_raw_data(std::string(first * second, '\x38')); // ones
  };
  store("table", rows, width);
  store("head", width, rows);
  Graph::attribute(g.node("Cast", {"x"}, {"y"}), "to", {::onnx::TensorProto::FLOAT});
  Graph::attribute(g.node("Cast", {"head"}, {"w"}), "to", {::onnx::TensorProto::FLOAT});
  g.node("MatMul", {"y", "w"}, {"logits"});
  Outcome got = run(g);
  EXPECT_EQ(got.message, "");
  EXPECT_EQ(got.sources, 0u);
  ASSERT_FALSE(got.logits.data.empty());
  EXPECT_EQ(got.logits.data[0], width);
}

// A matrix that is filled with one number was just initialised: each product has its own.
// One whose elements differ is shared.
TEST(Learned, FilledMatrices) {
  for (bool filled : {true, false}) {
    Graph g;
    g.floats("w", {width, width}, 4, [=](size_t i) { return filled ? 0 : scattered(i); });
    g.node("MatMul", {"x", "w"}, {"a"});
    g.node("MatMul", {"a", "w"}, {"y"});
    Outcome out = ended(g);
    EXPECT_TRUE(out.message.empty() && out.states == 3 + filled && out.notes.empty() != filled)
        << "a filled matrix: " + out.message + out.notes;
  }
}

// Copies of one parameter, one for each call that multiplies by its transpose.
TEST(Learned, FoldedTwice) {
  Graph g;
  g.floats("val_1", {width, width}, 4, scattered);
  g.floats("val_2", {width, width}, 4, scattered);
  g.floats("val_3", {width, width}, 4, scattered);
  auto linear = [](::onnx::NodeProto &node, const std::string &module) {
    call(node, "aten.linear.default", "%x, %p_" + module + "_weight", "['', '" + module + "', 'linear']");
  };
  linear(g.node("MatMul", {"x", "val_1"}, {"a"}), "up");
  linear(g.node("MatMul", {"a", "val_2"}, {"b"}), "up");
  linear(g.node("MatMul", {"b", "val_3"}, {"y"}), "down");
  Outcome out = ended(g);
  EXPECT_TRUE((out.states == 4 &&
               out.names == std::vector<std::string>{"table", "val_1", "val_3", "head"} &&
               out.ownNames == std::map<std::string, std::string>{{"val_1", "^up.weight"},
                                                                  {"val_3", "^down.weight"}}))
      << "copies of one parameter: " + out.message;
}

// Checks that a parameter whose name in the program is lost is recognised by its node.
TEST(Learned, LostNames) {
  Graph g;
  g.floats("val_9", {width, width}, 4, scattered);
  g.node("MatMul", {"x", "val_9"}, {"y"}).set_name("node_MatMul_5");
  Outcome out = ended(g);
  EXPECT_TRUE(
      (out.layouts ==
       std::map<std::string, std::string>{{"val_9", "operand 1 of node 'node_MatMul_5' (MatMul)"}}))
      << "a lost name";
}

} // namespace
