// Registers the dialect; parses and prints its type and its attributes.
#include "dialects/plan/Plan.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace llmc::plan;

#include "dialects/plan/PlanDialect.cpp.inc"
#include "dialects/plan/PlanEnums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/plan/PlanAttrs.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "dialects/plan/PlanTypes.cpp.inc"

void PlanDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/plan/PlanAttrs.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialects/plan/PlanTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/plan/PlanOps.cpp.inc"
      >();
}

//===-- Bindings ------------------------------------------------------------===//

using EmitError = function_ref<InFlightDiagnostic()>;

// Checks that `dims` are lists of axes, one per size of `shape`.
static LogicalResult verifyDims(EmitError emitError, ArrayAttr dims, DenseI64ArrayAttr shape) {
  bool areLists = llvm::all_of(dims, [](Attribute dim) {
    auto axes = dyn_cast<ArrayAttr>(dim);
    return axes && llvm::all_of(axes, llvm::IsaPred<StringAttr>);
  });
  if (!areLists)
    return emitError() << "C1: dims are lists of axes, got " << dims;
  if (shape && static_cast<int64_t>(dims.size()) != shape.size())
    return emitError() << "C1: dims has axes of " << dims.size() << " dims, the shape "
                       << shape.size() << " sizes";
  return success();
}

LogicalResult StateBindingAttr::verify(EmitError emitError, FlatSymbolRefAttr, graph::Role,
                                       DenseI64ArrayAttr layers, ArrayAttr dims,
                                       DenseI64ArrayAttr validShape, bool) {
  if (layers && (layers.size() != 2 || layers[0] < 0 || layers[1] < 1))
    return emitError() << "C2: layers are a first one and a positive count, got " << layers;
  return verifyDims(emitError, dims, validShape);
}

LogicalResult FlatPartAttr::verify(EmitError emitError, StateBindingAttr state, int64_t,
                                   DenseI64ArrayAttr shape) {
  if (llvm::any_of(shape.asArrayRef(), [](int64_t size) { return size < 1; }) ||
      static_cast<int64_t>(state.getDims().size()) + state.isStacked() != shape.size())
    return emitError() << "C1: sizes are 1 and more, with axes for each, got " << shape;
  if (state.isStacked() && (state.getNumLayers() != 1 || shape[0] != 1))
    return emitError() << "C2: a part of a stacked state is one layer, got " << state;
  return success();
}

LogicalResult FlatBindingAttr::verify(EmitError emitError, ArrayRef<StringAttr>,
                                      ArrayRef<FlatPartAttr> parts) {
  if (parts.empty())
    return emitError() << "C1: has no parts";
  int64_t end = 0;
  for (FlatPartAttr part : parts) {
    if (part.getState().getRole() != parts.front().getState().getRole())
      return emitError() << "C1: parts have one role, got " << part;
    if (part.getBegin() != end)
      return emitError() << "C1: " << part.getState().getState() << " begins at element "
                         << part.getBegin() << ", and the one before it ends at " << end;
    end += llvm::product_of(part.getShape().asArrayRef());
  }
  return success();
}

LogicalResult InputBindingAttr::verify(EmitError emitError, StringAttr, ArrayAttr dims,
                                       graph::LoaderAttr) {
  return dims ? verifyDims(emitError, dims, {}) : success();
}

LogicalResult OutputBindingAttr::verify(EmitError emitError, StringAttr, ArrayAttr dims,
                                        DenseI64ArrayAttr validShape) {
  if (!dims != !validShape)
    return emitError() << "C1: dims and valid_shape come together";
  return dims ? verifyDims(emitError, dims, validShape) : success();
}

LogicalResult RoutesAttr::verify(EmitError emitError, StringAttr, ArrayAttr dims, DenseI64ArrayAttr shape) {
  return verifyDims(emitError, dims, shape);
}

LaneAttr EntryAttr::getLane(int64_t lane) const {
  if (lane == 0)
    return LaneAttr::get(getContext(), getMicroBatch(), getSlot(), getPool());
  return lane <= static_cast<int64_t>(getAlso().size()) ? getAlso()[lane - 1] : LaneAttr();
}

//===-- !plan.buffer<4x16xf32> ----------------------------------------------===//

Type BufferType::parse(AsmParser &parser) {
  SmallVector<int64_t> shape;
  Type element;
  if (parser.parseLess() || parser.parseDimensionList(shape, /*allowDynamic=*/false) ||
      parser.parseType(element) || parser.parseGreater())
    return {};
  if (!element.isIntOrFloat()) {
    parser.emitError(parser.getNameLoc(), "buffer elements are integers or floats, got ")
        << element;
    return {};
  }
  return BufferType::get(parser.getContext(), RankedTensorType::get(shape, element));
}

void BufferType::print(AsmPrinter &printer) const {
  printer << '<';
  for (int64_t size : getTensor().getShape())
    printer << size << 'x';
  printer << getTensor().getElementType() << '>';
}

// Counts a whole byte for an i1.
int64_t BufferType::getByteSize() const {
  return getTensor().getNumElements() * llvm::divideCeil(getTensor().getElementTypeBitWidth(), 8);
}

//===-- #plan.origin<"op" nodes ["a"] tactic "t" rule "r" detail {...}> -------===//

Attribute OriginAttr::parse(AsmParser &parser, Type) {
  std::string op, tactic, rule;
  SmallVector<StringAttr> nodes;
  auto parseNode = [&]() -> ParseResult {
    std::string node;
    if (parser.parseString(&node))
      return failure();
    nodes.push_back(StringAttr::get(parser.getContext(), node));
    return success();
  };
  if (parser.parseLess() || parser.parseString(&op))
    return {};
  if (succeeded(parser.parseOptionalKeyword("nodes")) &&
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseNode))
    return {};
  if (succeeded(parser.parseOptionalKeyword("tactic")) && parser.parseString(&tactic))
    return {};
  if (succeeded(parser.parseOptionalKeyword("rule")) && parser.parseString(&rule))
    return {};
  DictionaryAttr detail;
  if (succeeded(parser.parseOptionalKeyword("detail")) && parser.parseAttribute(detail))
    return {};
  if (parser.parseGreater())
    return {};
  return OriginAttr::get(parser.getContext(), op, nodes, tactic, rule, detail);
}

void OriginAttr::print(AsmPrinter &printer) const {
  printer << '<';
  printer.printString(getOp());
  if (!getNodes().empty()) {
    printer << " nodes [";
    llvm::interleaveComma(getNodes(), printer,
                          [&](StringAttr node) { printer.printString(node.getValue()); });
    printer << ']';
  }
  if (!getTactic().empty()) {
    printer << " tactic ";
    printer.printString(getTactic());
  }
  if (!getRule().empty()) {
    printer << " rule ";
    printer.printString(getRule());
  }
  if (getDetail())
    printer << " detail " << getDetail();
  printer << '>';
}
