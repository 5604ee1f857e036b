// Writes what is in a plan for people: the origins of instructions, and how ops are sharded.
#include "passes/6-emit/planfile/PlanWriter.h"

#include "dialects/parallel/Annotations.h"

using namespace mlir;

namespace llmc::emit {

using namespace planfile;

static std::string text(DictionaryAttr from, StringRef key) {
  auto value = from ? from.getAs<StringAttr>(key) : StringAttr();
  return value ? value.str() : std::string();
}

static std::vector<std::string> texts(DictionaryAttr from, StringRef key) {
  std::vector<std::string> result;
  if (auto list = from.getAs<ArrayAttr>(key))
    for (auto value : list.getAsRange<StringAttr>())
      result.push_back(value.str());
  return result;
}

// Returns the layout of a sharding, or null for any other attribute. Axes that the mesh lacks
// and those of size 1 are left out: they shard nothing.
std::unique_ptr<LayoutT> PlanWriter::layoutOf(Attribute attribute) {
  auto sharding = dyn_cast_or_null<parallel::ShardingAttr>(attribute);
  if (!sharding)
    return nullptr;
  auto layout = std::make_unique<LayoutT>();
  auto indices = [&](ArrayRef<StringAttr> axes) {
    std::vector<uint32_t> list;
    for (StringAttr axis : axes)
      if (int index = mesh.getIndex(axis.getValue()); index >= 0 && mesh.getSizes()[index] > 1)
        list.push_back(index);
    return list;
  };
  for (const parallel::Axes &axes : parallel::getAxes(sharding)) {
    auto dim = std::make_unique<DimShardingT>();
    dim->axes = indices(axes);
    layout->dims.push_back(std::move(dim));
  }
  layout->unreduced = indices(sharding.getUnreduced());
  layout->reduce =
      sharding.getKind() == graph::ReduceKind::max ? ReduceKind::Max : ReduceKind::Sum;
  return layout;
}

std::unique_ptr<TensorInfoT> PlanWriter::tensorOf(DictionaryAttr description) {
  auto tensor = std::make_unique<TensorInfoT>();
  tensor->names = texts(description, "names");
  if (auto attribute = description.getAs<TypeAttr>("type")) {
    auto type = cast<RankedTensorType>(attribute.getValue());
    tensor->dtype = dtypeOf(type.getElementType());
    tensor->shape = type.getShape().vec();
  }
  tensor->layout = layoutOf(description.get("layout"));
  tensor->needed = layoutOf(description.get("needed"));
  return tensor;
}

static SmallVector<DictionaryAttr> tensorsIn(DictionaryAttr from, StringRef key) {
  auto list = from ? from.getAs<ArrayAttr>(key) : ArrayAttr();
  if (!list)
    return {};
  return llvm::to_vector(list.getAsRange<DictionaryAttr>());
}

uint32_t PlanWriter::originOf(Operation &op) {
  auto attribute = op.getAttrOfType<plan::OriginAttr>("origin");
  Attribute key = attribute ? Attribute(attribute)
                            : StringAttr::get(op.getContext(), op.getName().getStringRef());
  auto [it, isNew] = origins.try_emplace(key, program.origins.size());
  if (!isNew)
    return it->second;
  auto origin = std::make_unique<OriginT>();
  origin->op = attribute ? attribute.getOp().str() : op.getName().getStringRef().str();
  if (attribute) {
    for (StringAttr node : attribute.getNodes())
      origin->nodes.push_back(node.str());
    origin->tactic = attribute.getTactic().str();
    origin->rule = attribute.getRule().str();
    origin->seed = text(attribute.getDetail(), "seed");
    origin->moved = text(attribute.getDetail(), "moved");
    origin->recomputed = attribute.getDetail() && attribute.getDetail().get("recomputed");
    for (DictionaryAttr tensor : tensorsIn(attribute.getDetail(), "tensors"))
      origin->tensors.push_back(tensorOf(tensor));
  }
  program.origins.push_back(std::move(origin));
  return it->second;
}

void PlanWriter::writeOps() {
  auto list = module->getAttrOfType<ArrayAttr>(parallel::kOps);
  if (!list)
    return;
  for (auto entry : list.getAsRange<DictionaryAttr>()) {
    auto op = std::make_unique<OpInfoT>();
    op->op = text(entry, "op");
    op->names = texts(entry, "names");
    if (auto layers = entry.getAs<DenseI64ArrayAttr>("layers"))
      op->layers.assign(layers.asArrayRef().begin(), layers.asArrayRef().end());
    op->backward = bool(entry.getAs<UnitAttr>("backward"));
    for (DictionaryAttr tensor : tensorsIn(entry, "operands"))
      op->operands.push_back(tensorOf(tensor));
    for (DictionaryAttr tensor : tensorsIn(entry, "results"))
      op->results.push_back(tensorOf(tensor));
    if (auto cuts = entry.getAs<DictionaryAttr>("cuts"))
      for (NamedAttribute named : cuts) {
        int axis = mesh.getIndex(named.getName().getValue());
        auto why = dyn_cast<DictionaryAttr>(named.getValue());
        if (axis < 0 || !why || mesh.getSizes()[axis] == 1)
          continue;
        auto cut = std::make_unique<AxisCutT>();
        cut->axis = axis;
        cut->tactic = text(why, "tactic");
        cut->rule = text(why, "rule");
        cut->seed = text(why, "seed");
        op->cuts.push_back(std::move(cut));
      }
    program.ops.push_back(std::move(op));
  }
}

} // namespace llmc::emit
