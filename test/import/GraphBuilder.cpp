#include "GraphBuilder.h"

#include "Folder.h"
#include "mlir/IR/Verifier.h"

using namespace llmc;
using namespace llmc::test;
using namespace mlir;

namespace {

OwningOpRef<ModuleOp> importSmall(MLIRContext &context, const std::string &path,
                                  const CompileOptions &options, Outcome &out) {
  std::string text;
  auto module = import(context, path, options, text);
  (module ? out.notes : out.message) = text;
  if (!module)
    return module;
  EXPECT_TRUE(succeeded(verify(*module))) << "a small model verifies";
  out.states = count(*module, "graph.state");
  out.sources = count(*module, "graph.source");
  for (auto source : module->getOps<graph::SourceOp>()) {
    out.names.push_back(source.getSymName().str());
    if (auto layout = source->getAttrOfType<StringAttr>("source_layout"))
      out.layouts[out.names.back()] = layout.str();
    if (!source->hasAttr("unnamed"))
      continue;
    std::string &own = out.ownNames[out.names.back()];
    for (Attribute alias : source.getAliases())
      own += cast<StringAttr>(alias).str();
    if (auto transposed = source->getAttrOfType<ArrayAttr>("transposed_aliases"))
      for (Attribute alias : transposed)
        own += "^" + cast<StringAttr>(alias).str();
  }
  for (auto name : (*module)->getAttrOfType<ArrayAttr>("graph.constants"))
    out.constants.push_back(cast<StringAttr>(name).str());
  return module;
}

} // namespace

void test::finishSum(Graph &graph) {
  graph.node("Mul", {"a", "b"}, {"ab"});
  graph.node("Add", {"ab", "c"}, {"sum"});
  graph.floats("head", {width, 6}, 3);
  graph.node("MatMul", {"sum", "head"}, {"logits"});
}

void test::call(::onnx::NodeProto &node, const std::string &target, const std::string &arguments,
          const std::string &scopes) {
  auto add = [&](const char *key, const std::string &value) {
    auto &entry = *node.add_metadata_props();
    entry.set_key(key);
    entry.set_value(value);
  };
  add("pkg.torch.onnx.fx_node", "%n : [num_users=1] = call_function[target=torch.ops." + target +
                                    "](args = (" + arguments + "), kwargs = {})");
  add("pkg.torch.onnx.name_scopes", scopes);
}

void test::scripted(Graph &graph) {
  graph.model.set_producer_name("pytorch");
  auto &constant = graph.node("Constant", {}, {"two"});
  Graph::attribute(constant, "value_int", {2});
}

Outcome test::run(const std::string &path, Tie tie) {
  Outcome out;
  MLIRContext context;
  CompileOptions options = optionsFor(2, 3);
  options.tie = tie;
  auto module = importSmall(context, path, options, out);
  if (!module)
    return out;
  graph::Tensor ids({2, 3});
  ids.data = {0, 1, 2, 4, 3, 1};
  auto func = module->lookupSymbol<func::FuncOp>("forward");
  auto result = graph::evaluate(func, arguments(*module, ids));
  if (succeeded(result))
    out.logits = (*result)[0];
  return out;
}

Outcome test::run(Graph &graph, Tie tie) {
  Folder folder;
  return run(folder.write("small.onnx", graph.model.SerializeAsString()), tie);
}

Outcome test::infer(Graph &graph, const std::map<std::string, int64_t> &dims,
                    const std::map<std::string, graph::Tensor> &values) {
  Outcome out;
  MLIRContext context;
  CompileOptions options;
  options.infer = true;
  options.dims = dims;
  Folder folder; // weights are read when it is evaluated
  std::string path = folder.write("small.onnx", graph.model.SerializeAsString());
  auto module = importSmall(context, path, options, out);
  if (!module)
    return out;
  auto func = module->lookupSymbol<func::FuncOp>("forward");
  std::vector<graph::Tensor> all;
  for (unsigned i = 0; i < func.getNumArguments(); ++i) {
    auto input = func.getArgAttrOfType<StringAttr>(i, "graph.input");
    if (!input) {
      auto state = func.getArgAttrOfType<FlatSymbolRefAttr>(i, "graph.state");
      all.push_back(readState(*module, module->lookupSymbol<graph::StateOp>(state.getValue())));
    } else if (auto given = values.find(input.str()); given != values.end()) {
      all.push_back(given->second);
    } else {
      all.emplace_back(cast<RankedTensorType>(func.getArgumentTypes()[i]).getShape().vec());
      for (int64_t k = 0; k < all.back().size(); ++k)
        all.back().data[k] = k % words;
    }
  }
  auto result = graph::evaluate(func, all);
  EXPECT_TRUE(succeeded(result)) << "a small model evaluates";
  if (!(succeeded(result)))
    return out;
  for (unsigned i = 0; i < result->size(); ++i)
    out.outputs[func.getResultAttrOfType<StringAttr>(i, "graph.output").str()] = (*result)[i];
  return out;
}

void test::same(const std::string &what, Graph &graph, const Outcome &expected, size_t states) {
  same(what, run(graph), expected, states);
}

void test::same(const std::string &what, const Outcome &got, const Outcome &expected,
                size_t states, double limit) {
  ASSERT_TRUE(got.message.empty() && got.logits.shape == expected.logits.shape)
      << what + ": " + got.message;
  double worst = 0;
  for (int64_t i = 0; i < got.logits.size(); ++i) {
    double difference = std::fabs(got.logits.data[i] - expected.logits.data[i]);
    worst = std::isnan(difference) ? INFINITY : std::max(worst, difference); // std::max drops NaN
  }
  EXPECT_TRUE(worst <= limit) << what + ": logits differ by " + std::to_string(worst);
  EXPECT_TRUE(got.states == states) << what + ": " + std::to_string(got.states) + " states";
}

void test::refuses(const std::string &what, const Outcome &got,
                   std::initializer_list<const char *> all) {
  EXPECT_TRUE(!got.message.empty()) << what + " is refused";
  for (const char *word : all)
    EXPECT_TRUE(got.message.find(word) != std::string::npos)
        << what + ": the message lacks '" + word + "': " + got.message;
}
