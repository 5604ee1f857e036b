// Checkpoints beside a config: in shards, under published names, of a wrong shape.
#include "Check.h"

#include "lib/support/Safetensors.h"

#include <filesystem>
#include <fstream>
#include <unistd.h>

using namespace llmc;
using namespace llmc::test;
using namespace mlir;
namespace fs = std::filesystem;

namespace {

// Writes the given tensors of the small model, without the prefix `transformer.`
// as published checkpoints of GPT-2 have them.
void writePart(const support::SafetensorsSet &from, const std::vector<std::string> &names,
               const fs::path &path, int64_t shorten = 0) {
  std::vector<support::TensorToWrite> tensors;
  for (const std::string &name : names) {
    const support::TensorView *view = from.find(name);
    support::TensorToWrite tensor;
    tensor.name = name.substr(std::string("transformer.").size());
    tensor.type = view->type;
    tensor.shape = view->shape;
    size_t bytes = view->byteSize;
    if (shorten) {
      bytes = bytes / tensor.shape[0] * (tensor.shape[0] - shorten);
      tensor.shape[0] -= shorten;
    }
    tensor.produce = [view, bytes](const auto &sink) { return sink(view->data, bytes); };
    tensors.push_back(std::move(tensor));
  }
  EXPECT_TRUE(bool(support::writeSafetensors(path.string(), tensors))) << "writes " + path.string();
}

void writeShards(const support::SafetensorsSet &from, const fs::path &folder) {
  std::vector<std::string> names = from.names(), parts[2];
  std::string index = "{\"weight_map\": {";
  for (size_t i = 0; i < names.size(); ++i) {
    parts[i % 2].push_back(names[i]);
    index += std::string(i ? ", " : "") + "\"" +
             names[i].substr(std::string("transformer.").size()) + "\": \"part" +
             std::to_string(i % 2) + ".safetensors\"";
  }
  std::ofstream(folder / "model.safetensors.index.json") << index << "}}";
  for (int i = 0; i < 2; ++i)
    writePart(from, parts[i], folder / ("part" + std::to_string(i) + ".safetensors"));
}

std::vector<graph::Tensor> imported(const std::string &path, std::string &message) {
  MLIRContext context;
  auto module = import(context, path, optionsFor(1, 4), message);
  return module ? arguments(*module, graph::Tensor({1, 4})) : std::vector<graph::Tensor>();
}

} // namespace

TEST(Checkpoints, Checkpoints) {
  fs::path folder =
      fs::temp_directory_path() / ("llmc-checkpoint-" + std::to_string(::getpid()));
  fs::create_directories(folder);
  fs::copy_file(dataPath("gpt2-tiny/config.json"), folder / "config.json");
  auto set = support::SafetensorsSet::open(dataPath("gpt2-tiny/weights.safetensors"));
  ASSERT_TRUE(bool(set)) << "opens the weights";
  writeShards(*set, folder);
  std::string message;
  auto expected = imported(dataPath("gpt2-tiny/config.json"), message);
  auto got = imported(folder.string(), message);
  bool equal = expected.size() == 37 && got.size() == expected.size();
  for (size_t i = 0; equal && i < got.size(); ++i)
    equal = got[i].data == expected[i].data;
  EXPECT_TRUE(equal) << "shards under published names hold the same weights: " + message;

  fs::remove(folder / "model.safetensors.index.json");
  message.clear();
  writePart(*set, {"transformer.wte.weight"}, folder / "model.safetensors", 1);
  got = imported(folder.string(), message);
  EXPECT_TRUE(got.empty() && message.find("[256, 32]") != std::string::npos &&
              message.find("[257, 32]") != std::string::npos &&
              message.find("'transformer.ln_f.bias': missing") != std::string::npos)
      << "a wrong shape and missing tensors are listed: " + message;
  std::error_code code;
  fs::remove_all(folder, code);
}
