// Parses, prints and verifies the mesh, and finds its axes by their role.
#include "dialects/parallel/Parallel.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace llmc;
using namespace llmc::parallel;
using planfile::AxisRole;

//===-- Text ------------------------------------------------------------------===//

static ParseResult parseAxis(AsmParser &parser, SmallVectorImpl<StringAttr> &names) {
  std::string name;
  if (parser.parseString(&name))
    return failure();
  names.push_back(StringAttr::get(parser.getContext(), name));
  return success();
}

// Parses `, dp = ["dp0", "dp1"]`, any number of them.
static ParseResult parseProducts(AsmParser &parser, SmallVectorImpl<NamedAttribute> &products) {
  while (succeeded(parser.parseOptionalComma())) {
    StringRef name;
    SMLoc loc = parser.getCurrentLocation();
    SmallVector<StringAttr> axes;
    if (parser.parseKeyword(&name) || parser.parseEqual() ||
        parser.parseCommaSeparatedList(AsmParser::Delimiter::Square,
                                       [&] { return parseAxis(parser, axes); }))
      return failure();
    for (NamedAttribute other : products)
      if (other.getName() == name)
        return parser.emitError(loc, "a mesh says once what \"") << name << "\" stands for";
    products.push_back(NamedAttribute(
        StringAttr::get(parser.getContext(), name),
        ArrayAttr::get(parser.getContext(), SmallVector<Attribute>(axes.begin(), axes.end()))));
  }
  return success();
}

// Parses `<["pp"=2, "dp0"=2, "dp1"=2], dp = ["dp0", "dp1"]>`.
Attribute MeshAttr::parse(AsmParser &parser, Type) {
  SmallVector<StringAttr> names;
  SmallVector<int64_t> sizes;
  SmallVector<NamedAttribute> products;
  SMLoc loc = parser.getCurrentLocation();
  auto parseSized = [&]() -> ParseResult {
    return failure(parseAxis(parser, names) || parser.parseEqual() ||
                   parser.parseInteger(sizes.emplace_back()));
  };
  if (parser.parseLess() ||
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseSized) ||
      parseProducts(parser, products) || parser.parseGreater())
    return {};
  auto emitError = [&]() { return parser.emitError(loc); };
  return MeshAttr::getChecked(function_ref<InFlightDiagnostic()>(emitError), parser.getContext(),
                              ArrayRef<StringAttr>(names), ArrayRef<int64_t>(sizes),
                              DictionaryAttr::get(parser.getContext(), products));
}

void MeshAttr::print(AsmPrinter &printer) const {
  printer << "<[";
  llvm::interleaveComma(llvm::zip(getNames(), getSizes()), printer, [&](auto axis) {
    printer << '"' << std::get<0>(axis).getValue() << "\"=" << std::get<1>(axis);
  });
  printer << ']';
  for (NamedAttribute product : getProducts())
    printer << ", " << product.getName().getValue() << " = " << product.getValue();
  printer << '>';
}

//===-- Rules -----------------------------------------------------------------===//

// Checks C3 and C4 of one product.
static LogicalResult verifyProduct(function_ref<InFlightDiagnostic()> emitError,
                                   NamedAttribute product, ArrayRef<StringAttr> names) {
  auto axes = dyn_cast<ArrayAttr>(product.getValue());
  int64_t last = -1;
  bool ok = axes && !axes.empty();
  for (Attribute axis : axes ? axes : ArrayAttr::get(product.getName().getContext(), {})) {
    int64_t at = llvm::find(names, axis) - names.begin();
    ok &= at < static_cast<int64_t>(names.size()) && at > last;
    last = at;
  }
  if (!ok)
    return emitError() << "C3: a product has axes of the mesh, each once and slowest first, got "
                       << product.getName().getValue() << " = " << product.getValue();
  if (llvm::is_contained(names, product.getName()))
    return emitError() << "C4: \"" << product.getName().getValue()
                       << "\" is an axis and cannot be a product too";
  return success();
}

LogicalResult MeshAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                               ArrayRef<StringAttr> names, ArrayRef<int64_t> sizes,
                               DictionaryAttr products) {
  llvm::StringSet<> seen;
  for (StringAttr name : names)
    if (name.getValue().empty() || !seen.insert(name.getValue()).second)
      return emitError() << "C1: axis names of a mesh are distinct and not empty, got \""
                         << name.getValue() << "\"";
  for (auto [name, size] : llvm::zip(names, sizes))
    if (size < 1)
      return emitError() << "C2: axis \"" << name.getValue() << "\" has size " << size
                         << ", sizes are at least 1";
  for (NamedAttribute product : products) {
    if (failed(verifyProduct(emitError, product, names)))
      return failure();
    auto axes = cast<ArrayAttr>(product.getValue());
    if (planfile::roleNamed(product.getName().getValue()) == AxisRole::Stages && axes.size() != 1)
      return emitError() << "C5: stages lie along one axis, got "
                         << product.getName().getValue() << " = " << axes;
  }
  return success();
}

//===-- Axes ------------------------------------------------------------------===//

MeshAttr MeshAttr::get(MLIRContext *context, const planfile::AtomicAxes &axes) {
  SmallVector<StringAttr> names;
  SmallVector<int64_t> sizes;
  for (const auto &axis : axes.axes) {
    names.push_back(StringAttr::get(context, axis.name));
    sizes.push_back(axis.size);
  }
  SmallVector<NamedAttribute> products;
  for (const auto &product : axes.products) {
    SmallVector<Attribute> list;
    for (uint32_t axis : product.axes)
      list.push_back(names[axis]);
    StringRef name = planfile::nameOf(product.role);
    if (!list.empty() && !(list.size() == 1 && cast<StringAttr>(list[0]).getValue() == name))
      products.push_back(NamedAttribute(StringAttr::get(context, name),
                                        ArrayAttr::get(context, list)));
  }
  return get(context, names, sizes, DictionaryAttr::get(context, products));
}

int MeshAttr::getIndex(StringRef name) const {
  for (auto [i, axis] : llvm::enumerate(getNames()))
    if (axis.getValue() == name)
      return i;
  return -1;
}

int64_t MeshAttr::getSize(StringRef name) const {
  int index = getIndex(name);
  return index < 0 ? 1 : getSizes()[index];
}

int64_t MeshAttr::getNumRanks() const {
  int64_t ranks = 1;
  for (int64_t size : getSizes())
    ranks *= size;
  return ranks;
}

SmallVector<StringAttr> MeshAttr::getAxes(StringRef name) const {
  if (auto product = getProducts().getAs<ArrayAttr>(name))
    return llvm::to_vector(product.getAsRange<StringAttr>());
  int index = getIndex(name);
  return index < 0 ? SmallVector<StringAttr>() : SmallVector<StringAttr>{getNames()[index]};
}

SmallVector<StringAttr> MeshAttr::getAxes(AxisRole role) const {
  return getAxes(planfile::nameOf(role));
}

int64_t MeshAttr::getSize(AxisRole role) const {
  int64_t size = 1;
  for (StringAttr axis : getAxes(role))
    size *= getSize(axis.getValue());
  return size;
}

bool MeshAttr::isOf(StringAttr axis, AxisRole role) const {
  return llvm::is_contained(getAxes(role), axis);
}

StringAttr MeshAttr::getStageAxis() const {
  SmallVector<StringAttr> axes = getAxes(AxisRole::Stages);
  return axes.empty() ? StringAttr() : axes.front();
}

SmallVector<StringAttr> MeshAttr::inGroupOrder(ArrayRef<StringAttr> axes) const {
  SmallVector<StringAttr> ordered;
  for (AxisRole role : planfile::kDenseRoles)
    for (StringAttr axis : getAxes(role))
      if (llvm::is_contained(axes, axis))
        ordered.push_back(axis);
  for (StringAttr axis : axes)
    if (!llvm::is_contained(ordered, axis))
      ordered.push_back(axis);
  return ordered;
}
