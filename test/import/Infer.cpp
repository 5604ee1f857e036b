// Models read for one run: inputs are arguments, outputs results, as the graph says.
#include "Folder.h"
#include "GraphBuilder.h"

#include "dialects/graph/GraphAttrs.h"
#include "lib/onnx/file/DimExpression.h"

#include "mlir/IR/Verifier.h"

#include <cmath>

using namespace llmc;
using namespace llmc::test;
using namespace mlir;
using onnximport::DimExpression;
using onnximport::Symbols;

namespace {

TEST(Infer, Expressions) {
  Symbols symbols = {{"a", 7}, {"b", 2}, {"past length", 3}};
  for (auto [text, value] : std::initializer_list<std::pair<const char *, int64_t>>{
           {"a", 7},           {"12", 12},          {"a + b", 9},       {"a - b - 1", 4},
           {"2*a", 14},        {"a*b + 1", 15},     {"b * (a + 1)", 16}, {"a // b", 3},
           {"a % b", 1},       {" a+ b*a ", 21},    {"-b + a", 5},      {"past length", 3}}) {
    SCOPED_TRACE(text);
    auto got = DimExpression(text).evaluate(symbols);
    EXPECT_TRUE(got == value) << std::string(text) + " is " +
                                     (got ? std::to_string(*got) : "unbound");
  }
  for (const char *text : {"c", "a + c", "a // 0", "a ** b", "(a", "a b",
                           "9223372036854775807 + a", "3037000500 * 3037000500 * a"}) {
    SCOPED_TRACE(text);
    EXPECT_TRUE(!DimExpression(text).evaluate(symbols)) << std::string(text) + " has no value";
  }
  EXPECT_TRUE(!DimExpression(std::string(100000, '(')).evaluate(symbols))
      << "a thousand parentheses";
  EXPECT_TRUE(DimExpression("x + a").solve(symbols, 12) == std::pair(std::string("x"), int64_t(5)))
      << "solves a sum";
  EXPECT_TRUE(DimExpression("2 * x").solve(symbols, 12) == std::pair(std::string("x"), int64_t(6)))
      << "solves a product";
  EXPECT_TRUE(!DimExpression("2 * x").solve(symbols, 13) &&
              !DimExpression("x + y").solve(symbols, 3) &&
              !DimExpression("x + a").solve(symbols, 3) && !DimExpression("a").solve(symbols, 7))
      << "solves nothing else";
}

// logits = x head; present = past and x; a mask of past and present; a scalar.
void buildCached(Graph &g) {
  g.input("past", ::onnx::TensorProto::FLOAT, {"batch", "past_length", "4"});
  g.input("mask", ::onnx::TensorProto::INT32, {"batch", "past_length + sequence"});
  g.input("keep", ::onnx::TensorProto::INT64, {});
  Graph::attribute(g.node("Concat", {"past", "x"}, {"present"}), "axis", {1});
  g.floats("head", {width, 6}, 3);
  g.node("MatMul", {"x", "head"}, {"logits"});
  Graph::attribute(g.node("Cast", {"mask"}, {"seen"}), "to", {9});
  g.node("Add", {"keep", "keep"}, {"twice"});
  for (const char *name : {"present", "seen", "twice", "ids", "table"})
    g.graph.add_output()->set_name(name);
}

TEST(Infer, Binding) {
  Graph g;
  buildCached(g);
  for (int64_t past : {0, 2}) {
    Outcome got = infer(g, {{"batch", 2}, {"sequence", 3}, {"past_length", past}});
    EXPECT_TRUE(got.message.empty()) << "a cache: " + got.message;
    if (!(got.message.empty()))
      continue;
    auto shaped = [&](const char *name, std::vector<int64_t> shape) {
      EXPECT_TRUE(got.outputs[name].shape == shape) << std::string("shape of ") + name;
    };
    shaped("logits", {2, 3, 6});
    shaped("present", {2, past + 3, width});
    shaped("seen", {2, past + 3});
    shaped("twice", {});
    shaped("ids", {2, 3});
    shaped("table", {words, width});
    EXPECT_TRUE(got.outputs["seen"].data[1] == 1 && got.outputs["seen"].data[0] == 0)
        << "i1 of i32";
  }
  Outcome open = infer(g, {{"sequence", 3}});
  refuses("dims without sizes", open,
          {"2 dimensions", "batch", "past_length", "'ids'", "'past'", "--dim batch=",
           "--dim past_length=0"});
  refuses("a dim that is not there", infer(g, {{"batch", 2}, {"lenght", 3}}),
          {"--dim lenght=3", "past_length", "sequence"});
  refuses("no rows", infer(g, {{"batch", 0}, {"sequence", 3}, {"past_length", 0}}),
          {"'ids'", "batch", "positive"});
  refuses("a negative size", infer(g, {{"batch", -1}, {"sequence", 3}, {"past_length", 0}}),
          {"batch", "negative"});
  // By the sum, whatever else is given.
  Outcome sum = infer(g, {{"batch", 2}, {"sequence", 3}, {"past_length + sequence", 5}});
  EXPECT_TRUE(sum.message.empty() && sum.outputs["present"].shape[1] == 5)
      << "a sum gives the rest: " + sum.message;
  Outcome blanks = infer(g, {{" batch ", 2}, {"sequence", 3}, {" past_length + sequence", 5}});
  EXPECT_TRUE(blanks.message.empty() && blanks.outputs["present"].shape[1] == 5)
      << "blanks around a name or a sum: " + blanks.message;
  refuses("a sum that does not fit",
          infer(g, {{"batch", 2}, {"sequence", 3}, {"past_length", 1}, {"past_length + sequence", 5}}),
          {"past_length + sequence=5", "is 4"});
}

TEST(Infer, Arguments) {
  Graph g;
  buildCached(g);
  Folder folder;
  std::string path = folder.write("small.onnx", g.model.SerializeAsString());
  CompileOptions options;
  options.infer = true;
  options.dims = {{"past_length", 0}};
  options.sequence = 3;
  options.globalBatch = 2;
  MLIRContext context;
  std::string message;
  auto module = import(context, path, options, message);
  ASSERT_TRUE(bool(module)) << "--seq and --global-batch: " + message;
  auto func = module->lookupSymbol<func::FuncOp>("forward");
  auto type = [&](unsigned i) {
    std::string text;
    llvm::raw_string_ostream(text) << func.getArgumentTypes()[i];
    return text;
  };
  const char *names[] = {"ids", "past", "mask", "keep"};
  const char *types[] = {"tensor<2x3xi64>", "tensor<2x0x4xf32>", "tensor<2x3xi64>", "tensor<i64>"};
  for (unsigned i = 0; i < 4; ++i) {
    EXPECT_TRUE(func.getArgAttrOfType<StringAttr>(i, "graph.input").getValue() == names[i] &&
                type(i) == types[i])
        << "argument " + std::to_string(i) + " is " + type(i);
    EXPECT_TRUE(bool(func.getArgAttr(i, "graph.batched")) == (i < 3)) << "batched arguments";
  }
  EXPECT_TRUE(func.getNumResults() == 6 &&
              (*module)->getAttrOfType<IntegerAttr>("graph.batch").getInt() == 2)
      << "results and batch";
}

// In training, the size of a whole expression binds its names or is refused.
TEST(Infer, TrainedSums) {
  Graph g;
  g.input("mask", ::onnx::TensorProto::INT64, {"batch", "past_length + sequence"});
  g.floats("head", {width, 6}, 3);
  g.node("MatMul", {"x", "head"}, {"logits"});
  Folder folder;
  std::string path = folder.write("small.onnx", g.model.SerializeAsString());
  auto with = [&](std::map<std::string, int64_t> dims, int64_t sequence) {
    CompileOptions options = optionsFor(2, sequence);
    options.dims = std::move(dims);
    MLIRContext context;
    Outcome out;
    if (import(context, path, options, out.message))
      out.message.clear(); // of notes
    return out;
  };
  const char *sum = "past_length + sequence";
  EXPECT_EQ(with({{sum, 3}}, 3).message, "") << "a sum of the sequence and no past";
  EXPECT_EQ(with({{" past_length ", 0}, {sum, 3}}, 0).message, "") << "a sum gives the sequence";
  refuses("a sum and its names", with({{"past_length", 0}, {sum, 20}}, 3),
          {"'ids'", "length 20", "--seq asks for 3"});
  refuses("a sum with a past", with({{sum, 20}}, 3), {"'mask'", "20", "3"});
}

// Sizes in the file; a file that says 0 or less where nothing may be empty.
TEST(Infer, Fixed) {
  auto ids = [](Graph &g, std::vector<int64_t> dims) {
    auto &shape = *g.graph.mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape();
    shape.clear_dim();
    for (int64_t d : dims)
      shape.add_dim()->set_dim_value(d);
    g.floats("head", {width, 6}, 3);
    g.node("MatMul", {"x", "head"}, {"logits"});
  };
  Graph fixed;
  ids(fixed, {2, 3});
  EXPECT_TRUE((infer(fixed, {}).outputs["logits"].shape == std::vector<int64_t>{2, 3, 6}))
      << "sizes of the file";
  for (int64_t size : {int64_t(0), int64_t(-1), INT64_MIN}) {
    Graph broken;
    ids(broken, {2, size});
    std::string text = "a dim of " + std::to_string(size);
    refuses(text, infer(broken, {}), {"'ids'", text.c_str()});
    refuses(text + " in training", run(broken), {"'ids'", text.c_str()});
  }
  Graph unnamed;
  ids(unnamed, {2});
  unnamed.graph.mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape()->add_dim();
  refuses("a dim without a name", infer(unnamed, {}), {"ids.1", "--dim ids.1="});
  EXPECT_TRUE(infer(unnamed, {{"ids.1", 3}}).message.empty()) << "a dim by its place";
}

// A position table limits the sequence of a model without token ids too.
TEST(Infer, PositionsAlone) {
  Graph g;
  g.graph.clear_input();
  g.graph.clear_node();
  g.input("y", ::onnx::TensorProto::FLOAT, {"batch", "3", "4"});
  for (auto [name, value] : {std::pair("first", 0), std::pair("end", 3), std::pair("one", 1)}) {
    g.ints(name, {value});
    g.graph.mutable_initializer(g.graph.initializer_size() - 1)->clear_dims();
  }
  g.node("Range", {"first", "end", "one"}, {"rows"});
  g.node("Gather", {"table", "rows"}, {"positions"});
  g.node("Add", {"y", "positions"}, {"logits"});
  Folder folder;
  CompileOptions options;
  options.infer = true;
  options.dims = {{"batch", 2}};
  MLIRContext context;
  std::string message;
  auto module = import(context, folder.write("small.onnx", g.model.SerializeAsString()), options,
                       message);
  ASSERT_TRUE(bool(module)) << message;
  auto model = (*module)->getAttrOfType<DictionaryAttr>(graph::kModel);
  EXPECT_EQ(model.getAs<IntegerAttr>("context").getInt(), words) << "the table's rows";
}

// Computed values may be larger than the constants that the importer holds.
TEST(Infer, LargeValues) {
  Graph g;
  g.input("wide", ::onnx::TensorProto::FLOAT, {"1", "8192", "8200"});
  g.ints("pads", {0, 0, 0, 0, 0, 8});
  g.ints("repeats", {1, 2, 1});
  g.node("Pad", {"wide", "pads"}, {"padded"});
  g.node("Tile", {"wide", "repeats"}, {"tiled"});
  g.floats("head", {width, 6}, 3);
  g.node("MatMul", {"x", "head"}, {"logits"});
  for (const char *name : {"padded", "tiled"})
    g.graph.add_output()->set_name(name);
  Folder folder;
  CompileOptions options;
  options.infer = true;
  options.dims = {{"batch", 2}, {"sequence", 3}};
  MLIRContext context;
  std::string message;
  auto module = import(context, folder.write("small.onnx", g.model.SerializeAsString()), options,
                       message);
  EXPECT_TRUE(bool(module)) << message;
}

class GivenInference : public testing::TestWithParam<std::vector<std::string>> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(GivenInference);

// Runs the imported model in double on FOLDER/inputs/NAME.npy and compares its
// results with FOLDER/expected/NAME.npy; the error is relative to the largest
// magnitude of each. For `--infer FILE FOLDER LIMIT NAME=SIZE...` on the command line.
TEST_P(GivenInference, HasTheOutputs) {
  const std::string &file = GetParam().at(1), &folder = GetParam().at(2);
  double limit = std::stod(GetParam().at(3));
  std::map<std::string, int64_t> dims;
  for (const std::string &dim : llvm::drop_begin(GetParam(), 4))
    if (size_t equal = dim.rfind('='); equal != std::string::npos)
      dims[dim.substr(0, equal)] = std::stoll(dim.substr(equal + 1));
  MLIRContext context;
  CompileOptions options;
  options.infer = true;
  options.dims = dims;
  std::string message;
  auto module = import(context, file, options, message);
  ASSERT_TRUE(bool(module)) << message;
  ASSERT_TRUE(succeeded(verify(*module))) << file + ": verifies";
  auto func = module->lookupSymbol<func::FuncOp>("forward");
  std::vector<graph::Tensor> values;
  for (unsigned i = 0; i < func.getNumArguments(); ++i) {
    auto input = func.getArgAttrOfType<StringAttr>(i, "graph.input");
    auto state = func.getArgAttrOfType<FlatSymbolRefAttr>(i, "graph.state");
    values.push_back(input ? readNpy(folder + "/inputs/" + input.str() + ".npy")
                           : readState(*module, module->lookupSymbol<graph::StateOp>(
                                                    state.getValue())));
    auto type = cast<RankedTensorType>(func.getArgumentTypes()[i]);
    ASSERT_TRUE(values.back().shape == type.getShape().vec())
        << file + ": shape of argument " + std::to_string(i);
  }
  auto got = graph::evaluate(func, values);
  ASSERT_TRUE(succeeded(got)) << file + ": evaluates";
  for (unsigned i = 0; i < got->size(); ++i) {
    std::string name = func.getResultAttrOfType<StringAttr>(i, "graph.output").str();
    graph::Tensor expected = readNpy(folder + "/expected/" + name + ".npy");
    EXPECT_TRUE((*got)[i].shape == expected.shape) << file + ": shape of " + name;
    if (!((*got)[i].shape == expected.shape))
      continue;
    double worst = 0, largest = 1e-30;
    for (int64_t k = 0; k < expected.size(); ++k) {
      double difference = std::fabs((*got)[i].data[k] - expected.data[k]);
      worst = std::isnan(difference) ? INFINITY : std::max(worst, difference);
      largest = std::max(largest, std::fabs(expected.data[k]));
    }
    EXPECT_TRUE(worst / largest <= limit)
        << file + ": " + name + " differs by " + std::to_string(worst / largest);
  }
}

INSTANTIATE_TEST_SUITE_P(CommandLine, GivenInference, testing::ValuesIn(argumentsAfter("--infer")));

} // namespace
