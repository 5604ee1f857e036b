#include "lib/huggingface/Weights.h"

#include "dialects/graph/Build.h"
#include "lib/support/Hash.h"
#include "lib/support/Safetensors.h"

#include <filesystem>

using namespace llmc;
using namespace mlir;
using llmc::support::error;
namespace fs = std::filesystem;

void hf::describeModule(ModuleOp module, const ModelFacts &facts,
                        llvm::ArrayRef<Attribute> files) {
  Builder b(module.getContext());
  llvm::SmallVector<NamedAttribute> model = {
      b.getNamedAttr("name", b.getStringAttr(facts.name)),
      b.getNamedAttr("source_path", b.getStringAttr(facts.sourcePath)),
      b.getNamedAttr("sequence", b.getI64IntegerAttr(facts.sequence)),
      b.getNamedAttr("vocabulary", b.getI64IntegerAttr(facts.vocabulary)),
      b.getNamedAttr("context", b.getI64IntegerAttr(facts.context)),
      b.getNamedAttr("weights", b.getStringAttr(files.empty() ? "none" : "file"))};
  if (!facts.configJson.empty())
    model.push_back(b.getNamedAttr("config_json", b.getStringAttr(facts.configJson)));
  module->setAttr("graph.model", b.getDictionaryAttr(model));
  module->setAttr("graph.batch", b.getI64IntegerAttr(facts.batch));
  module->setAttr("graph.files", b.getArrayAttr(files));
  if (!module->hasAttr("graph.constants"))
    module->setAttr("graph.constants", b.getArrayAttr({}));
}

Attribute hf::fileEntry(Builder &b, const std::string &path, const void *data, size_t size) {
  std::error_code code;
  fs::path absolute = fs::absolute(path, code);
  uint64_t hash = support::hash64(data, size);
  return b.getDictionaryAttr(
      {b.getNamedAttr("path", b.getStringAttr(code ? path : absolute.lexically_normal().string())),
       b.getNamedAttr("byte_size", b.getI64IntegerAttr(size)),
       b.getNamedAttr("hash", b.getI64IntegerAttr(static_cast<int64_t>(hash)))});
}

std::string hf::modelName(const std::string &path) {
  std::error_code code;
  fs::path full = fs::absolute(path, code).lexically_normal();
  std::string stem = full.stem().string();
  if (stem != "model" && stem != "config")
    return stem;
  std::string folder = full.parent_path().filename().string();
  return folder.empty() ? stem : folder;
}

// The tensor of a source, under any of its names.
static const support::TensorView *findTensor(const support::SafetensorsSet &set,
                                             graph::SourceOp source,
                                             llvm::ArrayRef<std::string> prefixes,
                                             std::string &found) {
  llvm::SmallVector<llvm::StringRef> names = {source.getSymName()};
  for (Attribute alias : source.getAliases())
    names.push_back(cast<StringAttr>(alias).getValue());
  for (llvm::StringRef name : names) {
    llvm::SmallVector<std::string> spellings = {name.str()};
    for (const std::string &prefix : prefixes)
      if (name.starts_with(prefix))
        spellings.push_back(name.drop_front(prefix.size()).str());
    for (std::string &spelling : spellings)
      if (const support::TensorView *tensor = set.find(spelling)) {
        found = spelling;
        return tensor;
      }
  }
  return nullptr;
}

static std::string shapeText(llvm::ArrayRef<int64_t> shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i)
    out += (i ? ", " : "") + std::to_string(shape[i]);
  return out + "]";
}

support::Status hf::bindWeights(ModuleOp module, const std::string &path,
                                llvm::ArrayRef<std::string> prefixes) {
  auto set = support::SafetensorsSet::open(path);
  if (!set)
    return set.takeError();
  Builder b(module.getContext());
  std::string problems;
  for (auto source : module.getOps<graph::SourceOp>()) {
    std::string name;
    const support::TensorView *tensor = findTensor(*set, source, prefixes, name);
    auto type = cast<RankedTensorType>(source.getType());
    std::string title = "\n  '" + source.getSymName().str() + "': ";
    if (!tensor) {
      problems += title + "missing";
    } else if (tensor->type != support::ElementType::F32) {
      problems += title + "is " + std::string(support::toString(tensor->type)) +
                  ", only F32 is supported: convert the file to float32";
    } else if (llvm::ArrayRef<int64_t>(tensor->shape) != type.getShape()) {
      problems += title + "has shape " + shapeText(tensor->shape) + ", the model needs " +
                  shapeText(type.getShape());
    } else {
      size_t file = 0;
      while (&set->files()[file] != set->fileOf(name))
        ++file;
      source.setFileAttr(b.getI64IntegerAttr(file));
      source.setFileOffsetAttr(b.getI64IntegerAttr(tensor->fileOffset));
    }
  }
  if (!problems.empty())
    return error(path, ": weights do not fit the model:", problems);
  llvm::SmallVector<Attribute> files;
  for (const support::SafetensorsFile &file : set->files())
    files.push_back(fileEntry(b, file.path(), file.bytes().data(), file.bytes().size()));
  module->setAttr("graph.files", b.getArrayAttr(files));
  if (auto model = module->getAttrOfType<DictionaryAttr>("graph.model")) {
    NamedAttrList list(model);
    list.set("weights", b.getStringAttr("file"));
    module->setAttr("graph.model", list.getDictionary(b.getContext()));
  }
  return support::ok();
}
