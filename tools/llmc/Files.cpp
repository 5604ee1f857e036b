#include "tools/llmc/Files.h"

#include "dialects/graph/GraphAttrs.h"
#include "lib/pipeline/Pipeline.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <filesystem>

namespace llmc {
using namespace mlir;
using support::NamedFile;
namespace fs = std::filesystem;

static std::string selfPath() { return llvm::sys::fs::getMainExecutable(nullptr, nullptr); }

std::string runtimePath() {
  return (fs::path(selfPath()).parent_path() / "llmc-rt").string();
}

static void addOnce(const NamedFile &file, std::vector<NamedFile> &files) {
  std::error_code code;
  for (const NamedFile &known : files)
    if (fs::equivalent(known.path, file.path, code))
      return;
  files.push_back(file);
}

// Adds the files of a folder that hold models or weights, whether they are read this time or
// not.
static void addModelFiles(const std::string &flag, const fs::path &folder,
                          std::vector<NamedFile> &files) {
  std::error_code code;
  for (fs::directory_iterator at(folder, code), end; !code && at != end; at.increment(code)) {
    std::string extension = at->path().extension().string();
    for (const char *known : {".onnx", ".data", ".onnx_data", ".safetensors", ".json"})
      if (extension == known)
        addOnce({flag, at->path().string()}, files);
  }
}

std::vector<NamedFile> inputsOf(const CommandLine &line) {
  std::string model = modelFile(line.options.model), weights = line.options.weights;
  std::vector<NamedFile> files = {{"the model", model}};
  if (!line.prices.cluster.empty())
    files.push_back({"--cluster", line.prices.cluster});
  if (!weights.empty() && weights != "random") {
    addOnce({"--weights", weights}, files);
    std::error_code code;
    fs::path beside =
        fs::is_directory(weights, code) ? fs::path(weights) : fs::path(weights).parent_path();
    addModelFiles("--weights", beside.empty() ? "." : beside, files);
  }
  fs::path folder = fs::path(model).parent_path();
  addModelFiles("the model's file", folder.empty() ? "." : folder, files);
  files.push_back({"llmc itself", selfPath()});
  files.push_back({"the runtime", runtimePath()});
  return files;
}

std::vector<NamedFile> filesOf(ModuleOp module) {
  std::vector<NamedFile> files;
  if (auto list = module->getAttrOfType<ArrayAttr>(graph::kFiles))
    for (auto file : list.getAsRange<DictionaryAttr>())
      if (auto path = file.getAs<StringAttr>("path"))
        files.push_back({"the model's weights", path.str()});
  return files;
}

std::vector<NamedFile> outputsOf(const CommandLine &line) {
  std::vector<NamedFile> files = {{"-o", line.options.output}};
  if (!line.options.dumpFolder.empty())
    for (Phase phase = Phase::Raise; phase <= line.compileTo;
         phase = static_cast<Phase>(static_cast<int>(phase) + 1))
      files.push_back({"--dump-phases", dumpPath(line.options.dumpFolder, phase)});
  return files;
}

} // namespace llmc
