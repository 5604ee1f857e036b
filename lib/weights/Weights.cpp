#include "lib/weights/Weights.h"

#include "dialects/graph/Build.h"
#include "dialects/graph/GraphAttrs.h"
#include "lib/support/Hash.h"

#include <filesystem>

using namespace llmc;
using namespace mlir;
using llmc::support::error;
namespace fs = std::filesystem;

void weights::describeModule(ModuleOp module, const ModelFacts &facts,
                             llvm::ArrayRef<Attribute> files) {
  Builder b(module.getContext());
  llvm::SmallVector<NamedAttribute> model = {
      b.getNamedAttr("name", b.getStringAttr(facts.name)),
      b.getNamedAttr("source_path", b.getStringAttr(facts.sourcePath)),
      b.getNamedAttr("sequence", b.getI64IntegerAttr(facts.sequence)),
      b.getNamedAttr("vocabulary", b.getI64IntegerAttr(facts.vocabulary)),
      b.getNamedAttr("context", b.getI64IntegerAttr(facts.context)),
      b.getNamedAttr("weights", b.getStringAttr(files.empty() ? "none" : "file"))};
  if (facts.activeParameters)
    model.push_back(b.getNamedAttr("active_parameters", b.getI64IntegerAttr(*facts.activeParameters)));
  if (!facts.layerKinds.empty())
    model.push_back(b.getNamedAttr("layer_kinds", b.getI64ArrayAttr(facts.layerKinds)));
  if (!facts.configJson.empty())
    model.push_back(b.getNamedAttr("config_json", b.getStringAttr(facts.configJson)));
  module->setAttr(graph::kModel, b.getDictionaryAttr(model));
  module->setAttr(graph::kBatch, b.getI64IntegerAttr(facts.batch));
  module->setAttr(graph::kFiles, b.getArrayAttr(files));
  if (!module->hasAttr(graph::kConstants))
    module->setAttr(graph::kConstants, b.getArrayAttr({}));
}

support::Result<Attribute> weights::fileEntry(Builder &b, const std::string &path,
                                         support::Progress *progress) {
  std::error_code code;
  fs::path absolute = fs::absolute(path, code);
  support::Result<support::ReadableFile> file = support::ReadableFile::open(path);
  if (!file)
    return file.takeError();
  std::optional<support::Progress::Phase> phase;
  if (progress)
    phase.emplace(*progress, "hash " + fs::path(path).filename().string(), file->size());
  support::Result<uint64_t> hash = support::fileHash(*file, [&](uint64_t bytes) {
    if (phase)
      phase->add(bytes);
  });
  if (!hash)
    return hash.takeError();
  return Attribute(b.getDictionaryAttr(
      {b.getNamedAttr("path", b.getStringAttr(code ? path : absolute.lexically_normal().string())),
       b.getNamedAttr("byte_size", b.getI64IntegerAttr(static_cast<int64_t>(file->size()))),
       b.getNamedAttr("hash", b.getI64IntegerAttr(static_cast<int64_t>(*hash)))}));
}

std::string weights::modelName(const std::string &path) {
  std::error_code code;
  fs::path full = fs::absolute(path, code).lexically_normal();
  std::string stem = full.stem().string();
  if (stem != "model" && stem != "config")
    return stem;
  std::string folder = full.parent_path().filename().string();
  return folder.empty() ? stem : folder;
}

// Returns all spellings of a name, the name itself first.
static std::vector<std::string> spell(llvm::StringRef name,
                                      llvm::ArrayRef<weights::Spelling> spellings) {
  std::vector<std::string> out = {name.str()};
  for (const weights::Spelling &spelling : spellings)
    for (size_t i = 0, known = out.size(); i < known; ++i)
      if (size_t at = out[i].find(spelling.part); at != std::string::npos)
        out.push_back(std::string(out[i]).replace(at, spelling.part.size(), spelling.instead));
  return out;
}

void weights::addSpellings(ModuleOp module, llvm::ArrayRef<Spelling> spellings) {
  Builder b(module.getContext());
  for (auto source : module.getOps<graph::SourceOp>()) {
    llvm::SmallVector<Attribute> older;
    auto add = [&](llvm::StringRef name) {
      std::vector<std::string> all = spell(name, spellings);
      for (const std::string &other : llvm::drop_begin(all))
        older.push_back(b.getStringAttr(other));
    };
    add(source.getSymName());
    for (Attribute alias : source.getAliases())
      add(cast<StringAttr>(alias).getValue());
    if (!older.empty())
      source->setAttr("older_names", b.getArrayAttr(older));
  }
}

// Returns all names that a checkpoint may have a source under.
static support::TensorNames namesOf(graph::SourceOp source) {
  support::TensorNames names{{source.getSymName().str()}, {}};
  auto add = [&](std::vector<std::string> &to, ArrayAttr more) {
    for (Attribute name : more ? more : ArrayAttr::get(source.getContext(), {}))
      to.push_back(cast<StringAttr>(name).str());
  };
  add(names.plain, source.getAliases());
  add(names.plain, source->getAttrOfType<ArrayAttr>("older_names"));
  add(names.transposed, source->getAttrOfType<ArrayAttr>("transposed_aliases"));
  return names;
}

namespace {

// Replaces sources by the stacks of which they are parts.
class Stacking {
public:
  explicit Stacking(ModuleOp module) : module(module), symbols(module) {}

  void add(const weights::Stack &stack) {
    auto first = symbols.lookup<graph::SourceOp>(stack.parts.front());
    OpBuilder builder(first);
    auto type = RankedTensorType::get(stack.shape, cast<RankedTensorType>(first.getType()).getElementType());
    auto whole = graph::SourceOp::create(builder, NameLoc::get(builder.getStringAttr(stack.name)),
                                         builder.getStringAttr(stack.name), TypeAttr::get(type),
                                         builder.getStrArrayAttr({}), IntegerAttr(), IntegerAttr(),
                                         first.getInitAttr(), first.getInitStdAttr());
    symbols.insert(whole);
    int64_t offset = 0;
    for (const std::string &name : stack.parts) {
      auto part = symbols.lookup<graph::SourceOp>(name);
      places[part.getSymNameAttr()] = {whole.getSymNameAttr(), offset};
      offset += cast<RankedTensorType>(part.getType()).getNumElements();
    }
  }

  // Lets the states view the stacks, and erases their parts.
  void finish() {
    for (auto state : module.getOps<graph::StateOp>())
      if (state.getViews())
        state.setViewsAttr(moved(*state.getViews()));
    for (auto &[part, place] : places)
      symbols.erase(symbols.lookup(part));
  }

private:
  ModuleOp module;
  SymbolTable symbols;
  llvm::MapVector<StringAttr, std::pair<StringAttr, int64_t>> places; // stack and offset of each part

  ArrayAttr moved(ArrayAttr views) const {
    llvm::SmallVector<Attribute> out;
    for (auto view : views.getAsRange<graph::ViewAttr>()) {
      auto found = places.find(view.getSource().getAttr());
      if (found == places.end()) {
        out.push_back(view);
        continue;
      }
      auto [whole, offset] = found->second;
      out.push_back(graph::ViewAttr::get(view.getContext(), FlatSymbolRefAttr::get(whole),
                                         view.getOffset() + offset, view.getStrides()));
    }
    return ArrayAttr::get(views.getContext(), out);
  }
};

} // namespace

support::Status weights::useStacks(ModuleOp module, const std::string &path, llvm::ArrayRef<Stack> stacks) {
  support::Result<support::SafetensorsSet> set = support::SafetensorsSet::open(path);
  if (!set)
    return error("weights of '", path, "': ", set.message());
  Stacking stacking(module);
  for (const Stack &stack : stacks)
    if (set->find(stack.name) && !set->find(stack.parts.front()))
      stacking.add(stack);
  stacking.finish();
  return support::ok();
}

// Returns the element types that the tensors of a file and their scales may have.
static llvm::SmallVector<std::pair<support::ElementType, Type>> elementTypes(MLIRContext *context) {
  Builder b(context);
  return {{support::ElementType::F64, b.getF64Type()},
          {support::ElementType::F32, b.getF32Type()},
          {support::ElementType::F16, b.getF16Type()},
          {support::ElementType::BF16, b.getBF16Type()},
          {support::ElementType::F8E4M3, b.getType<Float8E4M3FNType>()},
          {support::ElementType::F8E5M2, b.getType<Float8E5M2Type>()},
          {support::ElementType::F8E8M0, b.getType<Float8E8M0FNUType>()},
          {support::ElementType::F4E2M1, b.getType<Float4E2M1FNType>()}};
}

static Type elementType(Builder &b, support::ElementType type) {
  for (auto [stored, element] : elementTypes(b.getContext()))
    if (stored == type)
      return element;
  return b.getF32Type(); // unreachable: a checkpoint has no other types
}

static support::ElementType storedType(Type element) {
  for (auto [stored, type] : elementTypes(element.getContext()))
    if (type == element)
      return stored;
  return support::ElementType::F32;
}

std::string weights::storedText(graph::SourceOp source) {
  if (!source.getFile())
    return "";
  std::optional<support::ScaleLocation> scales;
  auto given = source->getAttrOfType<DictionaryAttr>("scales");
  auto type = given ? given.getAs<TypeAttr>("type") : TypeAttr();
  auto block = given ? given.getAs<DenseI64ArrayAttr>("block") : DenseI64ArrayAttr();
  if (type && block && block.size() == 2)
    scales = {0, 0, storedType(type.getValue()), block[0], block[1]};
  return support::storedText(storedType(cast<RankedTensorType>(source.getType()).getElementType()),
                             scales);
}

// Records on `source` where its values lie.
static void setPlace(graph::SourceOp source, const support::TensorLocation &place) {
  Builder b(source.getContext());
  auto type = cast<RankedTensorType>(source.getType());
  source.setTypeAttr(TypeAttr::get(type.clone(elementType(b, place.type))));
  source.setFileAttr(b.getI64IntegerAttr(static_cast<int64_t>(place.file)));
  source.setFileOffsetAttr(b.getI64IntegerAttr(static_cast<int64_t>(place.offset)));
  if (place.transposed)
    source->setAttr("transposed", b.getUnitAttr());
  if (!place.scales)
    return;
  const support::ScaleLocation &scales = *place.scales;
  auto integer = [&](llvm::StringRef name, uint64_t value) {
    return b.getNamedAttr(name, b.getI64IntegerAttr(static_cast<int64_t>(value)));
  };
  source->setAttr(
      "scales",
      b.getDictionaryAttr(
          {integer("file", scales.file), integer("file_offset", scales.offset),
           b.getNamedAttr("type", TypeAttr::get(elementType(b, scales.type))),
           b.getNamedAttr("block", b.getDenseI64ArrayAttr({scales.rows, scales.columns}))}));
}

support::Status weights::bindWeights(ModuleOp module, const std::string &path,
                                support::Progress *progress,
                                std::optional<support::Quantization> quantization) {
  auto checkpoint = support::Checkpoint::open(path, std::move(quantization));
  if (!checkpoint)
    return error("weights of '", path, "': ", checkpoint.message());
  Builder b(module.getContext());
  std::string problems;
  for (auto source : module.getOps<graph::SourceOp>()) {
    auto shape = cast<RankedTensorType>(source.getType()).getShape();
    auto place = checkpoint->find(namesOf(source), shape.vec());
    if (!place)
      problems += "\n  " + place.message();
    else if (!*place)
      problems += "\n  '" + source.getSymName().str() + "': missing";
    else
      setPlace(source, **place);
  }
  if (!problems.empty())
    return error(path, ": weights do not fit the model:", problems);
  if (std::string notes = checkpoint->notes(); !notes.empty())
    emitRemark(UnknownLoc::get(module.getContext())) << path << ": " << notes;
  llvm::SmallVector<Attribute> files;
  for (const support::SafetensorsFile &file : checkpoint->set().files()) {
    support::Result<Attribute> entry = fileEntry(b, file.path(), progress);
    if (!entry)
      return entry.takeError();
    files.push_back(*entry);
  }
  module->setAttr(graph::kFiles, b.getArrayAttr(files));
  if (auto model = module->getAttrOfType<DictionaryAttr>(graph::kModel)) {
    NamedAttrList list(model);
    list.set("weights", b.getStringAttr("file"));
    module->setAttr(graph::kModel, list.getDictionary(b.getContext()));
  }
  return support::ok();
}
