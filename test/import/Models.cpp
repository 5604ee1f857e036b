// Whole models: counts, names, places of weights, and the forward pass in double
// against PyTorch's or ONNX Runtime's logits.
#include "Check.h"

#include "lib/support/Safetensors.h"
#include "mlir/IR/Verifier.h"
#include "test/support/Names.h"

#include <cmath>

using namespace llmc;
using namespace llmc::test;
using namespace mlir;

namespace {

struct Expected {
  std::string folder, file;
  size_t sources, states;
  int64_t context = 64;
};

void compareForward(ModuleOp module, const graph::Tensor &ids, const graph::Tensor &expected,
                    const std::string &title) {
  auto func = module.lookupSymbol<func::FuncOp>("forward");
  auto got = graph::evaluate(func, arguments(module, ids));
  ASSERT_TRUE(succeeded(got) && (*got)[0].shape == expected.shape) << title + ": evaluates";
  double error = 0, norm = 0;
  for (int64_t i = 0; i < expected.size(); ++i) {
    error += std::pow((*got)[0].data[i] - expected.data[i], 2);
    norm += std::pow(expected.data[i], 2);
  }
  error = std::sqrt(error / norm);
  EXPECT_TRUE(error <= 1e-5) << title + ": logits differ by " + std::to_string(error);
}

// A source whose name the checkpoint has must have the checkpoint's bytes.
void compareSources(ModuleOp module, const std::string &folder, const std::string &title) {
  auto set = support::SafetensorsSet::open(dataPath(folder + "/weights.safetensors"));
  ASSERT_TRUE(bool(set)) << title + ": opens the weights";
  auto files = module->getAttrOfType<ArrayAttr>("graph.files");
  size_t compared = 0;
  for (auto source : module.getOps<graph::SourceOp>()) {
    llvm::StringRef name = source.getSymName();
    name.consume_front("model.");
    const support::TensorView *tensor =
        set->find(name == "lm_head.weight" ? "transformer.wte.weight" : name.str());
    EXPECT_TRUE(tensor && source.getFile()) << title + ": has a place for " + name.str();
    if (!(tensor && source.getFile()))
      continue;
    auto path = cast<DictionaryAttr>(files[*source.getFile()]).getAs<StringAttr>("path");
    auto map = support::MappedFile::open(path.str());
    bool equal = map && map->size() >= *source.getFileOffset() + tensor->byteSize &&
                 std::memcmp(map->bytes().data() + *source.getFileOffset(), tensor->data,
                             tensor->byteSize) == 0;
    EXPECT_TRUE(equal) << title + ": bytes of " + name.str();
    ++compared;
  }
  EXPECT_TRUE(compared == set->names().size()) << title + ": one source a tensor";
}

void testModel(MLIRContext &context, const std::string &folder, const Expected &expected) {
  std::string title = folder + "/" + expected.file, message;
  graph::Tensor ids = readNpy(dataPath(folder + "/forward_ids.npy"));
  auto module = import(context, dataPath(title), optionsFor(ids.shape[0], ids.shape[1]), message);
  ASSERT_TRUE(bool(module)) << title + ": " + message;
  EXPECT_TRUE(succeeded(verify(*module))) << title + ": verifies";
  EXPECT_TRUE(count(*module, "graph.source") == expected.sources)
      << title + ": sources " + std::to_string(count(*module, "graph.source"));
  EXPECT_TRUE(count(*module, "graph.state") == expected.states)
      << title + ": states " + std::to_string(count(*module, "graph.state"));
  auto model = (*module)->getAttrOfType<DictionaryAttr>("graph.model");
  EXPECT_TRUE(model && model.getAs<IntegerAttr>("context").getInt() == expected.context &&
              model.getAs<IntegerAttr>("vocabulary").getInt() == 257 &&
              model.getAs<IntegerAttr>("sequence").getInt() == ids.shape[1] &&
              model.getAs<StringAttr>("weights").getValue() == "file")
      << title + ": facts";
  EXPECT_TRUE((*module)->getAttrOfType<ArrayAttr>("graph.constants").empty())
      << title + ": no stored tensor is a constant";
  compareSources(*module, folder, title);
  compareForward(*module, ids, readNpy(dataPath(folder + "/forward_logits.npy")), title);
}

// The tied head is one state in every file, and has the names of both copies; a
// copy that the file stores transposed is told apart.
TEST(Models, Tying) {
  MLIRContext context;
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
    SCOPED_TRACE(title);
    EXPECT_TRUE(bool(module)) << title + ": " + message;
    if (!module)
      continue;
    EXPECT_TRUE(count(*module, "graph.state") == states) << title + ": states";
    size_t named = 0, transposed = 0;
    for (auto source : module->getOps<graph::SourceOp>()) {
      named += source.getAliases().size();
      if (auto list = source->getAttrOfType<ArrayAttr>("transposed_aliases"))
        transposed += list.size();
    }
    EXPECT_TRUE(named == aliases) << title + ": aliases";
    EXPECT_TRUE(transposed == swapped) << title + ": transposed aliases";
  }
}

TEST(Models, WeightsChoice) {
  MLIRContext context;
  for (const char *file : {"gpt2-tiny/dynamo.onnx", "gpt2-tiny/config.json"}) {
    SCOPED_TRACE(std::string(file) + ", random");
    std::string message;
    CompileOptions options = optionsFor(1, 8);
    options.weights = "random";
    auto module = import(context, dataPath(file), options, message);
    EXPECT_TRUE(bool(module)) << std::string(file) + ", random: " + message;
    if (!module)
      continue;
    for (auto source : module->getOps<graph::SourceOp>())
      EXPECT_TRUE(!source.getFile()) << "random weights have no file";
    EXPECT_TRUE((*module)->getAttrOfType<ArrayAttr>("graph.files").empty())
        << "no files are listed";
  }
  std::string message;
  CompileOptions options = optionsFor(1, 8);
  options.weights = dataPath("gpt2-tiny/weights.safetensors");
  auto module = import(context, dataPath("gpt2-tiny/torchscript.onnx"), options, message);
  EXPECT_TRUE(!module && message.find("missing") != std::string::npos &&
              message.find("ln_f") != std::string::npos)
      << "names that a checkpoint lacks are listed: " + message;
}

graph::Tensor firstRow(graph::Tensor tensor) {
  tensor.data.resize(tensor.data.size() / tensor.shape[0]);
  tensor.shape[0] = 1;
  return tensor;
}

class GivenModel : public testing::TestWithParam<std::vector<std::string>> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(GivenModel);

// Compares the first row, for `--model FILE IDS.npy LOGITS.npy` on the command line.
TEST_P(GivenModel, HasTheLogits) {
  const std::string &file = GetParam().at(1);
  MLIRContext context;
  std::string message;
  graph::Tensor ids = firstRow(readNpy(GetParam().at(2)));
  auto module = import(context, file, optionsFor(1, ids.shape[1]), message);
  ASSERT_TRUE(bool(module)) << file + ": " + message;
  compareForward(*module, ids, firstRow(readNpy(GetParam().at(3))), file);
}

INSTANTIATE_TEST_SUITE_P(CommandLine, GivenModel, testing::ValuesIn(argumentsAfter("--model")));

class Model : public testing::TestWithParam<Expected> {};

TEST_P(Model, AgreesWithPyTorch) {
  MLIRContext context;
  testModel(context, GetParam().folder, GetParam());
}

// Parameters: 2 tables, 12 a layer, 2 of the last norm. The config splits the
// fused weight and bias of each layer at once: 4 states more a layer.
INSTANTIATE_TEST_SUITE_P(Files, Model,
                         testing::Values(Expected{"gpt2-tiny", "dynamo.onnx", 28, 28},
                                         Expected{"gpt2-tiny", "torchscript.onnx", 28, 28},
                                         Expected{"gpt2-tiny", "attention23.onnx", 28, 28},
                                         Expected{"gpt2-tiny", "config.json", 28, 36},
                                         Expected{"gpt2", "dynamo.onnx", 52, 52},
                                         Expected{"gpt2", "torchscript.onnx", 52, 52},
                                         Expected{"gpt2", "config.json", 52, 68}),
                         [](const auto &info) {
                           return testName(info.param.folder + " " + info.param.file);
                         });

} // namespace
