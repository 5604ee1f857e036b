// Whole models: counts, names, places of weights, and the forward pass in double
// against PyTorch's or ONNX Runtime's logits.
#include "Check.h"

#include "lib/support/Safetensors.h"
#include "mlir/IR/Verifier.h"

#include <cmath>

using namespace llmc;
using namespace llmc::test;
using namespace mlir;

namespace {

struct Expected {
  std::string file;
  size_t sources, states;
  int64_t context = 64;
};

void compareForward(ModuleOp module, const graph::Tensor &ids, const graph::Tensor &expected,
                    const std::string &title) {
  auto func = module.lookupSymbol<func::FuncOp>("forward");
  auto got = graph::evaluate(func, arguments(module, ids));
  if (!check(succeeded(got) && (*got)[0].shape == expected.shape, title + ": evaluates"))
    return;
  double error = 0, norm = 0;
  for (int64_t i = 0; i < expected.size(); ++i) {
    error += std::pow((*got)[0].data[i] - expected.data[i], 2);
    norm += std::pow(expected.data[i], 2);
  }
  error = std::sqrt(error / norm);
  check(error <= 1e-5, title + ": logits differ by " + std::to_string(error));
}

// A source whose name the checkpoint has must have the checkpoint's bytes.
void compareSources(ModuleOp module, const std::string &folder, const std::string &title) {
  auto set = support::SafetensorsSet::open(dataPath(folder + "/weights.safetensors"));
  if (!check(bool(set), title + ": opens the weights"))
    return;
  auto files = module->getAttrOfType<ArrayAttr>("graph.files");
  size_t compared = 0;
  for (auto source : module.getOps<graph::SourceOp>()) {
    llvm::StringRef name = source.getSymName();
    name.consume_front("model.");
    const support::TensorView *tensor =
        set->find(name == "lm_head.weight" ? "transformer.wte.weight" : name.str());
    if (!check(tensor && source.getFile(), title + ": has a place for " + name.str()))
      continue;
    auto path = cast<DictionaryAttr>(files[*source.getFile()]).getAs<StringAttr>("path");
    auto map = support::MappedFile::open(path.str());
    bool equal = map && map->size() >= *source.getFileOffset() + tensor->byteSize &&
                 std::memcmp(map->bytes().data() + *source.getFileOffset(), tensor->data,
                             tensor->byteSize) == 0;
    check(equal, title + ": bytes of " + name.str());
    ++compared;
  }
  check(compared == set->names().size(), title + ": one source a tensor");
}

void testModel(MLIRContext &context, const std::string &folder, const Expected &expected) {
  std::string title = folder + "/" + expected.file, message;
  Case one(title);
  graph::Tensor ids = readNpy(dataPath(folder + "/forward_ids.npy"));
  auto module = import(context, dataPath(title), optionsFor(ids.shape[0], ids.shape[1]), message);
  if (!check(bool(module), title + ": " + message))
    return;
  check(succeeded(verify(*module)), title + ": verifies");
  check(count(*module, "graph.source") == expected.sources,
        title + ": sources " + std::to_string(count(*module, "graph.source")));
  check(count(*module, "graph.state") == expected.states,
        title + ": states " + std::to_string(count(*module, "graph.state")));
  auto model = (*module)->getAttrOfType<DictionaryAttr>("graph.model");
  check(model && model.getAs<IntegerAttr>("context").getInt() == expected.context &&
            model.getAs<IntegerAttr>("vocabulary").getInt() == 257 &&
            model.getAs<IntegerAttr>("sequence").getInt() == ids.shape[1] &&
            model.getAs<StringAttr>("weights").getValue() == "file",
        title + ": facts");
  check((*module)->getAttrOfType<ArrayAttr>("graph.constants").empty(),
        title + ": no stored tensor is a constant");
  compareSources(*module, folder, title);
  compareForward(*module, ids, readNpy(dataPath(folder + "/forward_logits.npy")), title);
}

// The tied head is one state in every file, and has the names of both copies; a
// copy that the file stores transposed is told apart.
void testTying(MLIRContext &context) {
  Case one(__func__);
  std::string message;
  for (auto [file, tie, states, aliases, swapped] :
       std::initializer_list<std::tuple<const char *, Tie, size_t, size_t, size_t>>{
           {"torchscript.onnx", Tie::Auto, 28, 0, 1},
           {"torchscript.onnx", Tie::Exact, 28, 0, 1},
           {"torchscript.onnx", Tie::Off, 29, 0, 1}, // the head has its name of the program
           {"dynamo.onnx", Tie::Auto, 28, 0, 0},
           {"config.json", Tie::Auto, 36, 1, 0}}) {
    CompileOptions options = optionsFor(2, 12);
    options.tie = tie;
    auto module = import(context, dataPath(std::string("gpt2-tiny/") + file), options, message);
    std::string title = std::string(file) + ", " + nameOf(tie);
    Case each(title);
    if (!check(bool(module), title + ": " + message))
      continue;
    check(count(*module, "graph.state") == states, title + ": states");
    size_t named = 0, transposed = 0;
    for (auto source : module->getOps<graph::SourceOp>()) {
      named += source.getAliases().size();
      if (auto list = source->getAttrOfType<ArrayAttr>("transposed_aliases"))
        transposed += list.size();
    }
    check(named == aliases, title + ": aliases");
    check(transposed == swapped, title + ": transposed aliases");
  }
}

void testWeightsChoice(MLIRContext &context) {
  Case one(__func__);
  for (const char *file : {"gpt2-tiny/dynamo.onnx", "gpt2-tiny/config.json"}) {
    Case each(std::string(file) + ", random");
    std::string message;
    CompileOptions options = optionsFor(1, 8);
    options.weights = "random";
    auto module = import(context, dataPath(file), options, message);
    if (!check(bool(module), std::string(file) + ", random: " + message))
      continue;
    for (auto source : module->getOps<graph::SourceOp>())
      check(!source.getFile(), "random weights have no file");
    check((*module)->getAttrOfType<ArrayAttr>("graph.files").empty(), "no files are listed");
  }
  std::string message;
  CompileOptions options = optionsFor(1, 8);
  options.weights = dataPath("gpt2-tiny/weights.safetensors");
  auto module = import(context, dataPath("gpt2-tiny/torchscript.onnx"), options, message);
  check(!module && message.find("missing") != std::string::npos &&
            message.find("ln_f") != std::string::npos,
        "names that a checkpoint lacks are listed: " + message);
}

} // namespace

static graph::Tensor firstRow(graph::Tensor tensor) {
  tensor.data.resize(tensor.data.size() / tensor.shape[0]);
  tensor.shape[0] = 1;
  return tensor;
}

void test::compareModel(const std::string &file, const std::string &idsFile,
                        const std::string &logitsFile) {
  Case one(file);
  MLIRContext context;
  std::string message;
  graph::Tensor ids = firstRow(readNpy(idsFile));
  auto module = import(context, file, optionsFor(1, ids.shape[1]), message);
  if (check(bool(module), file + ": " + message))
    compareForward(*module, ids, firstRow(readNpy(logitsFile)), file);
}

void test::testModels() {
  Case one(__func__);
  MLIRContext context;
  // Parameters: 2 tables, 12 a layer, 2 of the last norm. The config splits the
  // fused weight and bias of each layer at once: 4 states more a layer.
  for (const Expected &expected :
       std::initializer_list<Expected>{{"dynamo.onnx", 28, 28},
                                       {"torchscript.onnx", 28, 28},
                                       {"attention23.onnx", 28, 28},
                                       {"config.json", 28, 36}})
    testModel(context, "gpt2-tiny", expected);
  for (const Expected &expected : std::initializer_list<Expected>{
           {"dynamo.onnx", 52, 52}, {"torchscript.onnx", 52, 52}, {"config.json", 52, 68}})
    testModel(context, "gpt2", expected);
  testTying(context);
  testWeightsChoice(context);
}
