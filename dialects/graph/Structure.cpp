// Verifies sources, states and repeats.
#include "dialects/graph/Detail.h"

using namespace mlir;
using namespace llmc::graph;

//===-- source --------------------------------------------------------------===//

LogicalResult SourceOp::verify() {
  if (getFile().has_value() != getFileOffset().has_value())
    return emitOpError("C2: only one of file and file_offset is given, expected both or none");
  if (getFile() && (static_cast<int64_t>(*getFile()) < 0 ||
                    static_cast<int64_t>(*getFileOffset()) < 0))
    return emitOpError("C2: file and file_offset are ")
           << static_cast<int64_t>(*getFile()) << " and "
           << static_cast<int64_t>(*getFileOffset()) << ", expected 0 or more";
  bool positive = getInitStd() && getInitStd()->convertToDouble() > 0;
  if (getInit() == InitKind::normal && !positive)
    return emitOpError("C3: a normal init has no init_std above 0, expected a deviation");
  return success();
}

//===-- state ---------------------------------------------------------------===//

static RankedTensorType stateType(StateOp op) { return cast<RankedTensorType>(op.getType()); }

// Adds 1 to the stacked dimensions if there is a view for each index of the next dimension too,
// with strides for the remaining ones alone.
int64_t StateOp::getViewedDims() {
  int64_t stacked = getStacked() ? 1 : 0;
  RankedTensorType type = stateType(*this);
  if (!getViews() || getViews()->empty() || type.getRank() <= stacked)
    return stacked;
  int64_t count = type.getDimSize(stacked) * (stacked ? type.getDimSize(0) : 1);
  auto first = cast<ViewAttr>((*getViews())[0]);
  bool isSplit = static_cast<int64_t>(getViews()->size()) == count &&
                 static_cast<int64_t>(first.getStrides().size()) == type.getRank() - stacked - 1;
  return stacked + (isSplit ? 1 : 0);
}

static LogicalResult verifyViews(StateOp op) {
  RankedTensorType type = stateType(op);
  if (op.getStacked() && type.getRank() == 0)
    return op.emitOpError("C2: a scalar is stacked, expected a leading dimension");
  size_t expected = op.getStacked() ? type.getDimSize(0) : 1;
  size_t got = op.getViews() ? op.getViews()->size() : 0;
  int64_t viewed = op.getViewedDims();
  if (viewed > (op.getStacked() ? 1 : 0))
    expected *= type.getDimSize(viewed - 1);
  if (got != expected)
    return op.emitOpError("C2: there are ") << got << " views, expected " << expected
                                            << (viewed ? ", one for each leading index" : "");
  size_t rank = type.getRank() - viewed;
  for (auto view : op.getViews()->getAsRange<ViewAttr>())
    if (view.getStrides().size() != rank)
      return op.emitOpError("C3: a view has ")
             << view.getStrides().size() << " strides, expected " << rank
             << ", one for each " << (viewed ? "unstacked " : "") << "dimension";
  return success();
}

LogicalResult StateOp::verify() {
  if (std::optional<ArrayAttr> valid = getValidShape()) {
    RankedTensorType type = stateType(*this);
    bool fits = static_cast<int64_t>(valid->size()) == type.getRank();
    for (size_t i = 0; fits && i < valid->size(); ++i) {
      int64_t size = cast<IntegerAttr>((*valid)[i]).getInt();
      fits = size >= 0 && size <= type.getDimSize(i);
    }
    if (!fits)
      return emitOpError("C5: valid_shape is ") << *valid << ", expected a part of "
                                                << shapeText(type.getShape());
  }
  if (getRole() == Role::parameter) {
    if (getOf())
      return emitOpError("C4: a parameter has of, expected views only");
    return verifyViews(*this);
  }
  // The accumulators of the step's own sums (loss, tokens) belong to no parameter.
  bool needsOf = getRole() != Role::accumulator;
  if ((needsOf && !getOf()) || getViews())
    return emitOpError("C4: a ") << stringifyRole(getRole())
                                 << " has " << (getViews() ? "views" : "no of")
                                 << ", expected of and no views";
  return success();
}

// Checks C3: the first and the last element that the view touches exist.
static LogicalResult verifyInside(StateOp op, ViewAttr view, SourceOp source) {
  SmallVector<int64_t> shape(stateType(op).getShape());
  if (std::optional<ArrayAttr> valid = op.getValidShape())
    for (auto [size, attr] : llvm::zip(shape, *valid))
      size = cast<IntegerAttr>(attr).getInt();
  ArrayRef<int64_t> inner = ArrayRef<int64_t>(shape).take_back(view.getStrides().size());
  if (llvm::is_contained(inner, 0))
    return success();
  int64_t low = view.getOffset(), high = view.getOffset();
  for (auto [size, stride] : llvm::zip(inner, view.getStrides()))
    (stride < 0 ? low : high) += (size - 1) * stride;
  int64_t elements = cast<RankedTensorType>(source.getType()).getNumElements();
  if (low < 0 || high >= elements)
    return op.emitOpError("C3: a view reads elements ")
           << low << " to " << high << " of @" << source.getSymName() << ", which has "
           << elements;
  return success();
}

LogicalResult StateOp::verifySymbolUses(SymbolTableCollection &symbols) {
  if (getOf()) {
    auto parameter = symbols.lookupNearestSymbolFrom<StateOp>(*this, getOfAttr());
    if (!parameter || parameter.getRole() != Role::parameter)
      return emitOpError("C4: @") << *getOf() << " is no graph.state of role parameter";
  }
  if (!getViews())
    return success();
  for (auto view : getViews()->getAsRange<ViewAttr>()) {
    auto source = symbols.lookupNearestSymbolFrom<SourceOp>(*this, view.getSource());
    if (!source)
      return emitOpError("C3: @") << view.getSource().getValue() << " is no graph.source";
    if (failed(verifyInside(*this, view, source)))
      return failure();
  }
  return success();
}

//===-- repeat --------------------------------------------------------------===//

static RankedTensorType sliceType(Type stacked) {
  auto type = cast<RankedTensorType>(stacked);
  return RankedTensorType::get(type.getShape().drop_front(), type.getElementType());
}

static LogicalResult verifyStacked(RepeatOp op, StringRef name, ValueRange values) {
  int64_t count = op.getCount();
  for (auto [i, value] : llvm::enumerate(values)) {
    ArrayRef<int64_t> shape = shapeOf(value);
    if (shape.empty() || shape[0] != count)
      return op.emitOpError("C2: stacked ") << name << " " << i << " has shape "
                                            << shapeText(shape) << ", expected leading dimension "
                                            << count;
  }
  return success();
}

// Compares `got` with the carried types, then slices of the stacked types, then `rest`.
static LogicalResult verifyTypes(RepeatOp op, StringRef rule, StringRef name, TypeRange got,
                                 TypeRange carried, TypeRange stacked, TypeRange rest) {
  SmallVector<Type> expected(carried);
  for (Type type : stacked)
    expected.push_back(sliceType(type));
  expected.append(rest.begin(), rest.end());
  if (got.size() != expected.size())
    return op.emitOpError() << rule << ": there are " << got.size() << " " << name
                            << "s, expected " << expected.size();
  for (auto [i, type] : llvm::enumerate(got))
    if (type != expected[i])
      return op.emitOpError() << rule << ": " << name << " " << i << " has type " << type
                              << ", expected " << expected[i];
  return success();
}

LogicalResult RepeatOp::verify() {
  if (static_cast<int64_t>(getCount()) < 1)
    return emitOpError("C1: count is ") << static_cast<int64_t>(getCount())
                                        << ", expected 1 or more";
  if (failed(verifyStacked(*this, "operand", getStacked())) ||
      failed(verifyStacked(*this, "result", getStackedResults())))
    return failure();
  TypeRange carried = getCarried().getTypes();
  if (failed(verifyTypes(*this, "C3", "body argument", getBlock().getArgumentTypes(), carried,
                         getStacked().getTypes(), getCaptured().getTypes())))
    return failure();
  auto yield = dyn_cast<YieldOp>(getBlock().getTerminator());
  if (!yield)
    return emitOpError("C4: the body ends in ")
           << getBlock().getTerminator()->getName() << ", expected graph.yield";
  if (failed(verifyTypes(*this, "C4", "yielded value", yield.getOperandTypes(), carried,
                         getStackedResults().getTypes(), {})))
    return failure();
  if (getCarriedResults().getTypes() != carried)
    return emitOpError("C5: carried results have other types than the carried operands");
  return success();
}
