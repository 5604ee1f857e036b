// Model-local functions and branches: a graph with them means what the graph
// without them means.
#include "GraphBuilder.h"

using namespace llmc;
using namespace llmc::test;

namespace {

using ::onnx::AttributeProto;
using ::onnx::FunctionProto;
using ::onnx::GraphProto;
using ::onnx::NodeProto;

FunctionProto &addFunction(Graph &g, const char *name, std::initializer_list<const char *> inputs,
                           std::initializer_list<const char *> outputs, int64_t opset = 18) {
  auto &f = *g.model.add_functions();
  f.set_domain("local");
  f.set_name(name);
  for (const char *input : inputs)
    f.add_input(input);
  for (const char *output : outputs)
    f.add_output(output);
  f.add_opset_import()->set_version(opset);
  return f;
}

NodeProto &call(NodeProto &node) {
  node.set_domain("local");
  return node;
}

void refer(NodeProto &node, const char *attribute, const char *to) {
  auto &a = *node.add_attribute();
  a.set_name(attribute);
  a.set_ref_attr_name(to);
  a.set_type(AttributeProto::INT);
}

void head(Graph &g, const char *from) {
  g.floats("head", {width, 6}, 3);
  g.node("MatMul", {from, "head"}, {"logits"});
}

// x w + bias, softmax over axis 1, and over the last, by names that collide.
void plainLayers(Graph &g) {
  g.floats("w", {width, width}, 2);
  g.floats("bias", {width}, 4);
  g.node("MatMul", {"x", "w"}, {"p"});
  g.node("Add", {"p", "bias"}, {"q"});
  Graph::attribute(g.node("Softmax", {"q"}, {"r"}), "axis", {1});
  g.node("MatMul", {"r", "w"}, {"s"});
  Graph::attribute(g.node("Softmax", {"s"}, {"t"}), "axis", {-1});
  head(g, "t");
}

TEST(Functions, Inlining) {
  Graph plain;
  plainLayers(plain);
  Outcome expected = run(plain);
  EXPECT_TRUE(expected.message.empty()) << "layers: " + expected.message;

  Graph g;
  g.floats("w", {width, width}, 2);
  g.floats("bias", {width}, 4);
  auto &linear = addFunction(g, "Linear", {"x", "w", "b"}, {"y"});
  Graph::addNode(linear, "MatMul", {"x", "w"}, {"p"});
  Graph::addNode(linear, "Add", {"p", "b"}, {"y"});
  // The attribute `along` is -1 unless the call gives one.
  auto &layer = addFunction(g, "Layer", {"x", "w", "b"}, {"t"});
  auto &along = *layer.add_attribute_proto();
  along.set_name("along");
  along.set_type(AttributeProto::INT);
  along.set_i(-1);
  call(Graph::addNode(layer, "Linear", {"x", "w", "b"}, {"p"}));
  refer(Graph::addNode(layer, "Softmax", {"p"}, {"t"}), "axis", "along");
  layer.add_opset_import()->set_domain("local");
  auto &bare = addFunction(g, "Bare", {"x", "w"}, {"t"});
  Graph::addNode(bare, "MatMul", {"x", "w"}, {"p"});
  refer(Graph::addNode(bare, "Softmax", {"p"}, {"t"}), "axis", "nowhere");
  Graph::attribute(call(g.node("Layer", {"x", "w", "bias"}, {"p"})), "along", {1});
  call(g.node("Bare", {"p", "w"}, {"t"}));
  head(g, "t");
  same("functions", g, expected, 4);
}

// Results that are operands, results that nobody takes, operands left out,
// overloads; sets of operators of its own.
TEST(Functions, Calls) {
  Graph plain;
  plain.floats("w", {width, width}, 2);
  plain.node("MatMul", {"x", "w"}, {"y"});
  head(plain, "y");
  Outcome expected = run(plain);

  Graph g;
  g.floats("w", {width, width}, 2);
  auto &both = addFunction(g, "Both", {"x", "w", "unused"}, {"x", "spare", "y"});
  Graph::addNode(both, "MatMul", {"x", "w"}, {"y"});
  Graph::addNode(both, "Neg", {"y"}, {"spare"});
  auto &squeeze = addFunction(g, "Pass", {"x"}, {"y"}, 11);
  squeeze.set_overload("old");
  Graph::attribute(Graph::addNode(squeeze, "Unsqueeze", {"x"}, {"u"}), "axes", {0}, true);
  Graph::attribute(Graph::addNode(squeeze, "Squeeze", {"u"}, {"y"}), "axes", {0}, true);
  auto &wrong = addFunction(g, "Pass", {"x"}, {"y"});
  Graph::addNode(wrong, "Neg", {"x"}, {"y"});
  call(g.node("Both", {"x", "w"}, {"same", "", "y"}));
  call(g.node("Pass", {"y"}, {"z"})).set_overload("old");
  g.node("Sub", {"same", "x"}, {"zero"});
  g.node("Add", {"z", "zero"}, {"sum"});
  head(g, "sum");
  same("calls", g, expected, 3);
}

TEST(Functions, BrokenFunctions) {
  Graph loop;
  auto &f = addFunction(loop, "F", {"x"}, {"y"});
  call(Graph::addNode(f, "G", {"x"}, {"y"}));
  auto &g = addFunction(loop, "G", {"x"}, {"y"});
  call(Graph::addNode(g, "F", {"x"}, {"y"}));
  call(loop.node("F", {"x"}, {"y"}));
  head(loop, "y");
  refuses("a function that calls itself", run(loop), {"'F'", "calls itself"});

  Graph wide;
  auto &one = addFunction(wide, "One", {"x"}, {"y"});
  Graph::addNode(one, "Neg", {"x"}, {"y"});
  call(wide.node("One", {"x", "x"}, {"y"}));
  call(wide.node("One", {"y"}, {"z", "rest"})).set_name("two");
  head(wide, "z");
  refuses("calls that do not fit", run(wide), {"'One:y'", "'two'", "2 operands", "2 results"});

  Graph leak; // names of the graph are not known inside
  auto &takes = addFunction(leak, "Takes", {"x"}, {"y"});
  Graph::addNode(takes, "Add", {"x", "x0"}, {"y"});
  leak.node("Neg", {"x"}, {"x0"});
  call(leak.node("Takes", {"x"}, {"y"}));
  head(leak, "y");
  refuses("a name of outside", run(leak), {"nothing defines", "x0"});

  Graph many; // 2^30 nodes
  const char *names[] = {"F0", "F1", "F2", "F3", "F4", "F5", "F6", "F7", "F8", "F9"};
  auto &last = addFunction(many, "F0", {"x"}, {"y"});
  Graph::addNode(last, "Neg", {"x"}, {"y"});
  for (int i = 1; i < 10; ++i) {
    auto &next = addFunction(many, names[i], {"x"}, {"y"});
    for (int k = 0; k < 8; ++k)
      call(Graph::addNode(next, names[i - 1], {"x"}, {k ? ("y" + std::to_string(k)).c_str() : "y"}));
  }
  call(many.node("F9", {"x"}, {"y"}));
  head(many, "y");
  refuses("functions without end", run(many), {"more than", "nodes"});
}

GraphProto &branch(NodeProto &node, const char *which, const char *result) {
  auto &a = *node.add_attribute();
  a.set_name(which);
  a.set_type(AttributeProto::GRAPH);
  a.mutable_g()->add_output()->set_name(result);
  return *a.mutable_g();
}

void flag(Graph &g, const char *name, bool value) {
  auto &tensor = *g.graph.add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(::onnx::TensorProto::BOOL);
  tensor.mutable_raw_data()->push_back(value);
}

// Adds an If on `condition`: y = x w, or tanh(x) v. Both name their product "p".
void addBranches(Graph &g, const char *condition) {
  auto &node = g.node("If", {condition}, {"y"});
  auto &yes = branch(node, "then_branch", "p");
  Graph::addFloats(yes, "weight", {width, width}, 2);
  Graph::addNode(yes, "MatMul", {"x", "weight"}, {"p"});
  auto &no = branch(node, "else_branch", "p");
  Graph::addFloats(no, "weight", {width, width}, 5);
  Graph::addNode(no, "Tanh", {"x"}, {"t"});
  Graph::addNode(no, "MatMul", {"t", "weight"}, {"p"});
}

Outcome branchAlone(bool yes) {
  Graph g;
  g.floats("weight", {width, width}, yes ? 2 : 5);
  if (!yes)
    g.node("Tanh", {"x"}, {"t"});
  g.node("MatMul", {yes ? "x" : "t", "weight"}, {"y"});
  head(g, "y");
  return run(g);
}

TEST(Functions, Branches) {
  for (bool value : {true, false}) {
    Outcome expected = branchAlone(value);
    EXPECT_TRUE(expected.message.empty()) << "branch: " + expected.message;
    Graph constant;
    flag(constant, "flag", value);
    addBranches(constant, "flag");
    head(constant, "y");
    same("a branch chosen by a constant", constant, expected, 3);

    Graph shape; // the sequence is 3
    shape.node("Shape", {"ids"}, {"dims"});
    shape.ints("at", {1});
    shape.ints("three", {value ? 3 : 4});
    shape.node("Gather", {"dims", "at"}, {"sequence"});
    shape.node("Equal", {"sequence", "three"}, {"flag"});
    addBranches(shape, "flag");
    head(shape, "y");
    same("a branch chosen by a shape", shape, expected, 3);
  }
}

// Checks that a branch that is not taken may hold anything that could be taken elsewhere.
TEST(Functions, Untaken) {
  Outcome expected = branchAlone(true);
  Graph g;
  g.floats("w", {width, width}, 2);
  g.ints("no shape", {7, 7});
  g.node("Shape", {"ids"}, {"dims"});
  g.node("Size", {"dims"}, {"rank"});
  g.ints("two", {2});
  g.node("Equal", {"rank", "two"}, {"flag"});
  g.node("Reshape", {"x", "no shape"}, {"impossible"});
  auto &node = g.node("If", {"flag"}, {"y"});
  Graph::addNode(branch(node, "then_branch", "x2"), "MatMul", {"x", "w"}, {"x2"});
  Graph::addNode(branch(node, "else_branch", "x2"), "Neg", {"impossible"}, {"x2"});
  head(g, "y");
  same("a branch that is not taken", g, expected, 3);

  // An If in a branch in a function.
  Graph nested;
  nested.floats("w", {width, width}, 2);
  flag(nested, "flag", true);
  auto &f = addFunction(nested, "F", {"a", "c", "w"}, {"y"});
  auto &outer = Graph::addNode(f, "If", {"c"}, {"y"});
  auto &inside = branch(outer, "then_branch", "y");
  auto &inner = Graph::addNode(inside, "If", {"c"}, {"y"});
  Graph::addNode(branch(inner, "then_branch", "y"), "MatMul", {"a", "w"}, {"y"});
  branch(inner, "else_branch", "a");
  branch(outer, "else_branch", "a");
  call(nested.node("F", {"x", "flag", "w"}, {"y"}));
  head(nested, "y");
  same("branches in branches in a function", nested, expected, 3);
}

TEST(Functions, BrokenBranches) {
  Graph unknown;
  unknown.node("ReduceSum", {"x"}, {"sum"});
  Graph::attribute(unknown.graph.mutable_node()->at(1), "keepdims", {0});
  unknown.floats("zero", {}, 0);
  unknown.node("Greater", {"sum", "zero"}, {"flag"});
  addBranches(unknown, "flag");
  head(unknown, "y");
  refuses("a condition of values", run(unknown), {"'If:y'", "values of inputs"});

  Graph missing;
  flag(missing, "flag", true);
  auto &node = missing.node("If", {"flag"}, {"y"});
  branch(node, "then_branch", "x");
  head(missing, "y");
  refuses("an If without else", run(missing), {"'If:y'", "else_branch"});

  Graph few;
  flag(few, "flag", true);
  auto &two = few.node("If", {"flag"}, {"y", "z"});
  branch(two, "then_branch", "x");
  branch(two, "else_branch", "x");
  head(few, "y");
  refuses("a branch of too few values", run(few), {"'If:y'", "1 values", "2 are needed"});
}

// A merged decoder: with a cache, or without; the cache is of no use to training.
TEST(Functions, Merged) {
  auto build = [](Graph &g) {
    g.input("use_cache_branch", ::onnx::TensorProto::BOOL, {"1"});
    g.input("past", ::onnx::TensorProto::FLOAT, {"batch", "past_length", std::to_string(width)});
    auto &node = g.node("If", {"use_cache_branch"}, {"y", "present"});
    auto &yes = branch(node, "then_branch", "y");
    yes.add_output()->set_name("all");
    Graph::attribute(Graph::addNode(yes, "Concat", {"past", "x"}, {"all"}), "axis", {1});
    Graph::addNode(yes, "Neg", {"x"}, {"y"});
    auto &no = branch(node, "else_branch", "y");
    no.add_output()->set_name("x");
    Graph::addNode(no, "Tanh", {"x"}, {"y"});
    head(g, "y");
    g.graph.add_output()->set_name("present");
  };
  Graph plain;
  plain.node("Tanh", {"x"}, {"y"});
  head(plain, "y");
  Graph merged;
  build(merged);
  same("a merged decoder in training", merged, run(plain), 2);
  for (int64_t past : {0, 2}) {
    Outcome got = infer(merged, {{"batch", 2}, {"sequence", 3}, {"past_length", past}});
    EXPECT_TRUE((got.message.empty() &&
                 got.outputs["present"].shape == std::vector<int64_t>{2, 3 + past, width}))
        << "a merged decoder with a past of " + std::to_string(past) + ": " + got.message;
  }
}

// Without a cache a condition is the caller's: a run computes both branches and takes one.
TEST(Functions, ChosenInARun) {
  for (bool value : {true, false}) {
    Graph g;
    g.input("flag", ::onnx::TensorProto::BOOL, {});
    auto &node = g.node("If", {"flag"}, {"y"});
    Graph::addNode(branch(node, "then_branch", "y1"), "Neg", {"x"}, {"y1"});
    Graph::addNode(branch(node, "else_branch", "y2"), "Tanh", {"x"}, {"y2"});
    head(g, "y");
    Graph alone;
    alone.node(value ? "Neg" : "Tanh", {"x"}, {"y"});
    head(alone, "y");
    graph::Tensor flag(std::vector<int64_t>{});
    flag.data[0] = value;
    const std::map<std::string, int64_t> dims{{"batch", 2}, {"sequence", 3}};
    Outcome got = infer(g, dims, {{"flag", flag}}), expected = infer(alone, dims);
    SCOPED_TRACE(value ? "the branch that holds" : "the other branch");
    EXPECT_TRUE(got.message.empty() && expected.message.empty()) << got.message + expected.message;
    EXPECT_TRUE(!got.outputs["logits"].data.empty() &&
                got.outputs["logits"].data == expected.outputs["logits"].data)
        << "the outputs are those of the branch alone";
  }
  Graph g;
  g.input("flag", ::onnx::TensorProto::BOOL, {});
  auto &node = g.node("If", {"flag"}, {"y"});
  Graph::addNode(branch(node, "then_branch", "y1"), "Neg", {"x"}, {"y1"});
  auto &turned = Graph::addNode(branch(node, "else_branch", "y2"), "Transpose", {"x"}, {"y2"});
  Graph::attribute(turned, "perm", {1, 0, 2}, true);
  head(g, "y");
  refuses("branches of several shapes", infer(g, {{"batch", 2}, {"sequence", 3}}),
          {"'If:y'", "several shapes"});
}

} // namespace
