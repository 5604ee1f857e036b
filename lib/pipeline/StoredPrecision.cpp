#include "lib/pipeline/StoredPrecision.h"

#include "dialects/graph/Graph.h"
#include "dialects/graph/GraphAttrs.h"
#include "lib/support/Counted.h"
#include "lib/support/Json.h"

namespace llmc {
using namespace mlir;

// Returns the type that a `dtype` of a config.json names, as transformers reads it.
static std::optional<Precision> precisionOf(const support::Json &dtype) {
  if (!dtype.is_string())
    return std::nullopt;
  std::string text = dtype.get<std::string>();
  llvm::StringRef name = text;
  name.consume_front("torch.");
  return name == "bfloat16"                   ? std::optional(Precision::Bf16)
         : name == "float16" || name == "half" ? std::optional(Precision::Fp16)
                                               : std::nullopt;
}

// Returns what `dtype` of a config.json says, or `torch_dtype`, its older name, or those of the text
// model in it.
static std::optional<Precision> configPrecision(ModuleOp module) {
  auto model = module->getAttrOfType<DictionaryAttr>(graph::kModel);
  auto text = model ? model.getAs<StringAttr>("config_json") : StringAttr();
  if (!text)
    return std::nullopt;
  auto config = support::Json::parse(text.getValue(), nullptr, /*allow_exceptions=*/false);
  for (const char *part : {"", "text_config"}) {
    const support::Json &from = *part && config.is_object() && config.contains(part) ? config[part] : config;
    for (const char *field : {"dtype", "torch_dtype"})
      if (from.is_object() && from.contains(field) && !from[field].is_null())
        return precisionOf(from[field]);
  }
  return std::nullopt;
}

std::optional<Precision> storedPrecision(ModuleOp module) {
  int64_t wide = 0, bf16 = 0, fp16 = 0, others = 0;
  for (auto source : module.getOps<graph::SourceOp>()) {
    auto type = cast<RankedTensorType>(source.getType());
    Type element = type.getElementType();
    // A source that no file has is drawn in f32.
    if (source->hasAttr("scales") || (!source.getFile() && element.isF32()))
      continue;
    (element.isBF16() ? bf16 : element.isF16() ? fp16 : wide) += type.getNumElements();
  }
  if (wide + bf16 + fp16 == 0)
    return configPrecision(module);
  if (wide >= std::max(bf16, fp16))
    return std::nullopt;
  Precision precision = bf16 >= fp16 ? Precision::Bf16 : Precision::Fp16;
  for (auto source : module.getOps<graph::SourceOp>()) {
    Type element = cast<RankedTensorType>(source.getType()).getElementType();
    others += source.getFile() && (precision == Precision::Bf16 ? !element.isBF16() : !element.isF16());
  }
  if (others)
    emitRemark(UnknownLoc::get(module.getContext()))
        << "computes in " << nameOf(precision) << ", the type of most of its weights; "
        << support::counted(others, "tensor") << " of another type "
        << (others == 1 ? "is" : "are") << " rounded to it, which --precision fp32 avoids";
  return precision;
}

} // namespace llmc
