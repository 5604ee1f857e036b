#include "passes/5-schedule/BuildProcedures/Origins.h"

#include "dialects/parallel/Annotations.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace llmc {

// Returns the fields of a collective's origin beyond tactic, rule and node; null if there is none.
static DictionaryAttr getDetail(DictionaryAttr origin) {
  NamedAttrList fields(origin);
  for (StringRef known : {"tactic", "rule", "node"})
    fields.erase(known);
  return fields.empty() ? DictionaryAttr() : fields.getDictionary(origin.getContext());
}

plan::OriginAttr getOrigin(Operation *op) {
  llvm::SetVector<StringAttr> names;
  std::string kinds = op->getName().getStringRef().str();
  if (auto group = dyn_cast<plan::GroupOp>(op)) {
    llvm::SetVector<StringRef> parts;
    for (Operation &part : group.getBody().front().without_terminator()) {
      names.insert_range(parallel::getNodeNames(part.getLoc()));
      if (!isa<graph::ConstantOp>(part))
        parts.insert(part.getName().getStringRef());
    }
    kinds = llvm::join(parts, " ");
  } else {
    names.insert_range(parallel::getNodeNames(op->getLoc()));
  }
  DictionaryAttr detail;
  StringRef tactic, rule;
  if (auto origin = op->getAttrOfType<DictionaryAttr>(parallel::kOrigin)) {
    detail = getDetail(origin);
    if (auto attr = origin.getAs<StringAttr>("tactic"))
      tactic = attr.getValue();
    if (auto attr = origin.getAs<StringAttr>("rule"))
      rule = attr.getValue();
    if (auto attr = origin.getAs<StringAttr>("node"); attr && names.empty())
      names.insert(attr);
  }
  return plan::OriginAttr::get(op->getContext(), kinds, names.getArrayRef(), tactic, rule, detail);
}

// Returns the shape on the whole mesh of what `layout` cuts into parts of this one.
static SmallVector<int64_t> globalShape(ArrayRef<int64_t> local, parallel::ShardingAttr layout,
                                        parallel::MeshAttr mesh) {
  SmallVector<int64_t> shape(local);
  for (auto [size, axes] : llvm::zip(shape, parallel::getAxes(layout)))
    size *= parallel::getGroupSize(mesh, axes);
  return shape;
}

plan::RoutesAttr getRoutes(Operation *op, parallel::MeshAttr mesh) {
  StringRef router = parallel::getNodeName(op->getLoc());
  auto layout = op->getAttrOfType<parallel::ShardingAttr>(parallel::kSharding);
  if (!isa<graph::RouteOp, graph::LimitRoutesOp>(op) || router.empty() || !layout)
    return {};
  Builder b(op->getContext());
  SmallVector<int64_t> shape = globalShape(cast<RankedTensorType>(op->getResult(0).getType()).getShape(), layout, mesh);
  return plan::RoutesAttr::get(op->getContext(), b.getStringAttr(router),
                               b.getArrayAttr(SmallVector<Attribute>(layout.getDims().begin(), layout.getDims().end())),
                               b.getDenseI64ArrayAttr(shape));
}

// Describes a value that crosses a stage boundary: its name, its global type and its sharding.
static DictionaryAttr describePart(Value value, parallel::ShardingAttr layout,
                                   parallel::MeshAttr mesh) {
  Builder b(value.getContext());
  auto type = cast<RankedTensorType>(value.getType());
  SmallVector<NamedAttribute> fields;
  if (StringRef name = parallel::getNodeName(value.getLoc()); !name.empty())
    fields.push_back(b.getNamedAttr("names", b.getStrArrayAttr({name})));
  SmallVector<int64_t> shape(type.getShape());
  if (layout && layout.getDims().size() == shape.size()) {
    shape = globalShape(shape, layout, mesh);
    fields.push_back(b.getNamedAttr("layout", layout));
  }
  fields.push_back(b.getNamedAttr("type", TypeAttr::get(type.clone(shape))));
  return b.getDictionaryAttr(fields);
}

plan::OriginAttr BoundaryValues::originOf(parallel::MeshAttr mesh, bool forward) const {
  Builder b(mesh.getContext());
  SmallVector<Attribute> parts;
  for (auto [value, layout] : llvm::zip(values, layouts))
    parts.push_back(describePart(value, layout, mesh));
  auto detail = b.getDictionaryAttr(b.getNamedAttr("tensors", b.getArrayAttr(parts)));
  return plan::OriginAttr::get(mesh.getContext(), "stage_boundary", {}, "stages",
                               forward ? "activations" : "cotangents",
                               values.empty() ? DictionaryAttr() : detail);
}

BoundaryValues boundaryValuesOf(ValueRange values,
                                llvm::function_ref<DictionaryAttr(unsigned)> attrs) {
  std::map<int64_t, unsigned> sorted;
  for (unsigned i = 0; i < values.size(); ++i)
    if (DictionaryAttr dict = attrs(i))
      if (auto border = dict.getAs<IntegerAttr>(parallel::kStageBoundary))
        sorted[border.getInt()] = i;
  BoundaryValues result;
  for (auto &[_, i] : sorted) {
    result.values.push_back(values[i]);
    result.layouts.push_back(attrs(i).getAs<parallel::ShardingAttr>(parallel::kSharding));
  }
  return result;
}

} // namespace llmc
