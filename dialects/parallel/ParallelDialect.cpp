// Registers the dialect; parses, prints and verifies shardings.
#include "dialects/parallel/Parallel.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace llmc::parallel;
using llmc::graph::ReduceKind;

#include "dialects/parallel/ParallelDialect.cpp.inc"
#include "dialects/parallel/ParallelInterfaces.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/parallel/ParallelAttrs.cpp.inc"

#define GET_OP_CLASSES
#include "dialects/parallel/ParallelOps.cpp.inc"

void ParallelDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/parallel/ParallelAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/parallel/ParallelOps.cpp.inc"
      >();
}

//===-- Sharding --------------------------------------------------------------===//

// Parses `{"dp", "tp"}`.
static ParseResult parseAxes(AsmParser &parser, SmallVectorImpl<ArrayAttr> &dims) {
  SmallVector<Attribute> axes;
  auto parseAxis = [&]() -> ParseResult {
    std::string name;
    if (parser.parseString(&name))
      return failure();
    axes.push_back(StringAttr::get(parser.getContext(), name));
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Braces, parseAxis))
    return failure();
  dims.push_back(ArrayAttr::get(parser.getContext(), axes));
  return success();
}

// Parses `, unreduced = {"tp": sum}`; all axes have one kind.
static ParseResult parseUnreduced(AsmParser &parser, SmallVectorImpl<StringAttr> &axes,
                                  ReduceKind &kind) {
  auto parseAxis = [&]() -> ParseResult {
    std::string name;
    StringRef word;
    if (parser.parseString(&name) || parser.parseColon())
      return failure();
    SMLoc loc = parser.getCurrentLocation();
    if (parser.parseKeyword(&word))
      return failure();
    auto parsed = llmc::graph::symbolizeReduceKind(word);
    if (!parsed || *parsed == ReduceKind::sum_squares || (!axes.empty() && *parsed != kind))
      return parser.emitError(loc, "expected sum or max, the same for all unreduced axes");
    kind = *parsed;
    axes.push_back(StringAttr::get(parser.getContext(), name));
    return success();
  };
  if (parser.parseKeyword("unreduced") || parser.parseEqual() ||
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Braces, parseAxis))
    return failure();
  llvm::sort(axes, [](StringAttr a, StringAttr b) { return a.getValue() < b.getValue(); });
  return success();
}

// Parses `<[{"dp"}, {}, {"tp"}], unreduced = {"pp": sum}>`.
Attribute ShardingAttr::parse(AsmParser &parser, Type) {
  SmallVector<ArrayAttr> dims;
  SmallVector<StringAttr> unreduced;
  ReduceKind kind = ReduceKind::sum;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseLess() ||
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Square,
                                     [&]() { return parseAxes(parser, dims); }))
    return {};
  if (succeeded(parser.parseOptionalComma()) && parseUnreduced(parser, unreduced, kind))
    return {};
  if (parser.parseGreater())
    return {};
  if (unreduced.empty())
    kind = ReduceKind::sum;
  return getChecked([&]() { return parser.emitError(loc); }, parser.getContext(), dims, unreduced,
                    kind);
}

void ShardingAttr::print(AsmPrinter &printer) const {
  printer << "<[";
  llvm::interleaveComma(getDims(), printer, [&](ArrayAttr axes) {
    printer << '{';
    llvm::interleaveComma(axes, printer, [&](Attribute axis) { printer << axis; });
    printer << '}';
  });
  printer << ']';
  if (!getUnreduced().empty()) {
    printer << ", unreduced = {";
    llvm::interleaveComma(getUnreduced(), printer, [&](StringAttr axis) {
      printer << axis << ": " << llmc::graph::stringifyReduceKind(getKind());
    });
    printer << '}';
  }
  printer << '>';
}

LogicalResult ShardingAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                   ArrayRef<ArrayAttr> dims, ArrayRef<StringAttr> unreduced,
                                   ReduceKind) {
  SmallVector<StringRef> seen; // few, so that a list is faster than a set
  auto add = [&](StringRef axis) -> LogicalResult {
    if (!llvm::is_contained(seen, axis)) {
      seen.push_back(axis);
      return success();
    }
    return emitError() << "C1: axis \"" << axis << "\" stands twice in one sharding";
  };
  for (ArrayAttr axes : dims)
    for (Attribute axis : axes) {
      auto name = dyn_cast<StringAttr>(axis);
      if (!name)
        return emitError() << "axes of a dimension are strings, got " << axis;
      if (failed(add(name.getValue())))
        return failure();
    }
  for (StringAttr axis : unreduced)
    if (failed(add(axis.getValue())))
      return failure();
  return success();
}

bool ShardingAttr::isReplicated() const {
  return getUnreduced().empty() &&
         llvm::all_of(getDims(), [](ArrayAttr axes) { return axes.empty(); });
}

ShardingAttr ShardingAttr::getReplicated(MLIRContext *context, int64_t rank) {
  SmallVector<ArrayAttr> dims(rank, ArrayAttr::get(context, {}));
  return get(context, dims, {}, ReduceKind::sum);
}

SmallVector<StringRef> ShardingAttr::getDimAxes(int64_t d) const {
  SmallVector<StringRef> axes;
  for (Attribute axis : getDims()[d])
    axes.push_back(cast<StringAttr>(axis).getValue());
  return axes;
}

bool ShardingAttr::isUnreducedOver(StringRef axis) const {
  return llvm::any_of(getUnreduced(), [&](StringAttr a) { return a.getValue() == axis; });
}

ShardingAttr ShardingAttr::getReduced() const {
  if (getUnreduced().empty() && getKind() == ReduceKind::sum)
    return *this;
  return get(getContext(), getDims(), {}, ReduceKind::sum);
}

SmallVector<int64_t> ShardingAttr::getLocalShape(ArrayRef<int64_t> global, MeshAttr mesh) const {
  SmallVector<int64_t> shape(global);
  for (size_t d = 0; d < shape.size(); ++d)
    for (StringRef axis : getDimAxes(d))
      shape[d] /= mesh.getSize(axis);
  return shape;
}

//===-- Flat tensors ----------------------------------------------------------===//

LogicalResult FlatPartAttr::verify(function_ref<InFlightDiagnostic()> emitError, FlatSymbolRefAttr,
                                   int64_t begin, DenseI64ArrayAttr shape) {
  if (begin < 0 || llvm::any_of(shape.asArrayRef(), [](int64_t size) { return size < 1; }))
    return emitError() << "C1: a part begins at 0 or later and has positive sizes, got " << begin
                       << " and " << shape;
  return success();
}

LogicalResult FlatAttr::verify(function_ref<InFlightDiagnostic()> emitError, ArrayAttr axes,
                               ArrayRef<FlatPartAttr> parts) {
  if (parts.empty())
    return emitError() << "C1: has no parts";
  int64_t end = 0;
  for (FlatPartAttr part : parts) {
    if (part.getBegin() != end)
      return emitError() << "C1: " << part.getState() << " begins at element " << part.getBegin()
                         << ", and the one before it ends at " << end;
    end += part.getNumElements();
  }
  llvm::StringSet<> seen;
  for (Attribute axis : axes)
    if (!isa<StringAttr>(axis) || !seen.insert(cast<StringAttr>(axis).getValue()).second)
      return emitError() << "C2: axes are distinct names, got " << axes;
  return success();
}

SmallVector<StringAttr> FlatAttr::getAxisNames() const {
  return llvm::to_vector(getAxes().getAsRange<StringAttr>());
}
