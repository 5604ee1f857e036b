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

support::Result<Attribute> hf::fileEntry(Builder &b, const std::string &path) {
  std::error_code code;
  fs::path absolute = fs::absolute(path, code);
  support::Result<support::ReadableFile> file = support::ReadableFile::open(path);
  if (!file)
    return file.takeError();
  support::Result<uint64_t> hash = support::fileHash(*file);
  if (!hash)
    return hash.takeError();
  return Attribute(b.getDictionaryAttr(
      {b.getNamedAttr("path", b.getStringAttr(code ? path : absolute.lexically_normal().string())),
       b.getNamedAttr("byte_size", b.getI64IntegerAttr(static_cast<int64_t>(file->size()))),
       b.getNamedAttr("hash", b.getI64IntegerAttr(static_cast<int64_t>(*hash)))}));
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

// All spellings of a name, itself first.
static std::vector<std::string> spell(llvm::StringRef name,
                                      llvm::ArrayRef<hf::Spelling> spellings) {
  std::vector<std::string> out = {name.str()};
  for (const hf::Spelling &spelling : spellings)
    for (size_t i = 0, known = out.size(); i < known; ++i)
      if (size_t at = out[i].find(spelling.part); at != std::string::npos)
        out.push_back(std::string(out[i]).replace(at, spelling.part.size(), spelling.instead));
  return out;
}

// The tensor of a source, under any of its names.
static const support::TensorView *findTensor(const support::SafetensorsSet &set,
                                             graph::SourceOp source,
                                             llvm::ArrayRef<hf::Spelling> spellings,
                                             std::string &found) {
  llvm::SmallVector<llvm::StringRef> names = {source.getSymName()};
  for (Attribute alias : source.getAliases())
    names.push_back(cast<StringAttr>(alias).getValue());
  for (llvm::StringRef name : names)
    for (std::string &spelling : spell(name, spellings))
      if (const support::TensorView *tensor = set.find(spelling)) {
        found = spelling;
        return tensor;
      }
  return nullptr;
}

// The type of stored numbers; null where they are none.
static Type elementType(Builder &b, support::ElementType type) {
  switch (type) {
  case support::ElementType::F64:
    return b.getF64Type();
  case support::ElementType::F32:
    return b.getF32Type();
  case support::ElementType::F16:
    return b.getF16Type();
  case support::ElementType::BF16:
    return b.getBF16Type();
  default:
    return {};
  }
}

static std::string shapeText(llvm::ArrayRef<int64_t> shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i)
    out += (i ? ", " : "") + std::to_string(shape[i]);
  return out + "]";
}

support::Status hf::bindWeights(ModuleOp module, const std::string &path,
                                llvm::ArrayRef<Spelling> spellings) {
  auto set = support::SafetensorsSet::open(path);
  if (!set)
    return set.takeError();
  Builder b(module.getContext());
  std::string problems;
  for (auto source : module.getOps<graph::SourceOp>()) {
    std::string name;
    const support::TensorView *tensor = findTensor(*set, source, spellings, name);
    auto type = cast<RankedTensorType>(source.getType());
    std::string title = "\n  '" + source.getSymName().str() + "': ";
    if (!tensor) {
      problems += title + "missing";
    } else if (!elementType(b, tensor->type)) {
      problems += title + "holds " + std::string(support::toString(tensor->type)) +
                  ", expected F32, F16, BF16 or F64";
    } else if (llvm::ArrayRef<int64_t>(tensor->shape) != type.getShape()) {
      problems += title + "has shape " + shapeText(tensor->shape) + ", the model needs " +
                  shapeText(type.getShape());
    } else {
      size_t file = 0;
      while (&set->files()[file] != set->fileOf(name))
        ++file;
      source.setTypeAttr(TypeAttr::get(type.clone(elementType(b, tensor->type))));
      source.setFileAttr(b.getI64IntegerAttr(file));
      source.setFileOffsetAttr(b.getI64IntegerAttr(tensor->fileOffset));
    }
  }
  if (!problems.empty())
    return error(path, ": weights do not fit the model:", problems);
  llvm::SmallVector<Attribute> files;
  for (const support::SafetensorsFile &file : set->files()) {
    support::Result<Attribute> entry = fileEntry(b, file.path());
    if (!entry)
      return entry.takeError();
    files.push_back(*entry);
  }
  module->setAttr("graph.files", b.getArrayAttr(files));
  if (auto model = module->getAttrOfType<DictionaryAttr>("graph.model")) {
    NamedAttrList list(model);
    list.set("weights", b.getStringAttr("file"));
    module->setAttr("graph.model", list.getDictionary(b.getContext()));
  }
  return support::ok();
}
