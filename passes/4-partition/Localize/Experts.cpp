#include "passes/4-partition/Localize/Experts.h"

#include "dialects/graph/Build.h"
#include "dialects/parallel/Parallel.h"
#include "passes/4-partition/Origin.h"

using namespace mlir;
using namespace llmc;
using namespace llmc::parallel;
using namespace llmc::graph;

bool RowExchange::isExchange(Operation *op) { return isa<ExchangeRoutesOp, DispatchOp, CollectOp>(op); }

static unsigned routesOperand(Operation *op) { return isa<ExchangeRoutesOp>(op) ? 0 : 1; }

LogicalResult RowExchange::check(Operation *op) const {
  SmallVector<Axes> cuts = getAxes(getRequired(op->getOpOperand(routesOperand(op))));
  for (StringAttr axis : mesh.getAxes(planfile::AxisRole::Expert)) {
    if (llvm::any_of(cuts, [&](const Axes &axes) { return llvm::is_contained(axes, axis); }))
      continue;
    bool isTensor = mesh.isOf(axis, planfile::AxisRole::Tensor);
    InFlightDiagnostic error = op->emitError("L2: ep spans axis ")
                               << axis << ", along which ranks have the same tokens, so that each row would be sent "
                               << "several times; ";
    if (isTensor)
      return error << "use --sequence-parallel on, or an ep that fits dp x cp";
    return error << "use an ep within the ranks that share out tokens";
  }
  return success();
}

// Returns the origin of a collective that `op` needs because experts are shared out.
static DictionaryAttr originOf(Operation *op, ArrayRef<StringAttr> axes, StringRef rule) {
  Builder b(op->getContext());
  NamedAttrList fields(makeOrigin(op->getResult(0), axes, rule));
  fields.set("tactic", b.getStringAttr("expert"));
  fields.set("rule", b.getStringAttr(rule));
  fields.erase("seed");
  return fields.getDictionary(op->getContext());
}

ArrayAttr RowExchange::axes(Operation *op) const {
  auto list = mesh.getAxes(planfile::AxisRole::Expert);
  return ArrayAttr::get(op->getContext(), SmallVector<Attribute>(list.begin(), list.end()));
}

RankedTensorType RowExchange::countType(OpBuilder &builder) const {
  return RankedTensorType::get({mesh.getSize(planfile::AxisRole::Expert)}, builder.getI64Type());
}

RowExchange::Order RowExchange::orderOf(OpBuilder &builder, Location loc, Value routes, int64_t experts) {
  auto [it, isNew] = orders.try_emplace(routes);
  if (isNew) {
    auto sort = SortRoutesOp::create(builder, loc, routes.getType(), routes.getType(), countType(builder), routes,
                                     experts);
    it->second = {sort.getPlaces(), sort.getSorted(), sort.getCounts()};
  }
  return it->second;
}

Value RowExchange::countsOf(OpBuilder &builder, Location loc, Value sources) {
  Value &count = counts[sources];
  if (!count)
    count = CountSourcesOp::create(builder, loc, countType(builder), sources);
  return count;
}

Value RowExchange::exchanged(OpBuilder &builder, Operation *op, Value rows, Value sent, Value received, Type type) {
  auto exchange = ExchangeRowsOp::create(builder, op->getLoc(), type, rows, sent, received, axes(op));
  exchange->setAttr(kOrigin, originOf(op, mesh.getAxes(planfile::AxisRole::Expert),
                                      isa<CollectOp>(op) ? "rows come back from the ranks of their experts"
                                                           : "rows go to the ranks of their experts"));
  return exchange;
}

SmallVector<Value> RowExchange::write(OpBuilder &builder, Operation *op, ValueRange operands, TypeRange types) {
  Location loc = op->getLoc();
  Build b(builder, loc);
  int64_t experts = op->getAttrOfType<IntegerAttr>("experts").getInt();
  Order order = orderOf(builder, loc, operands[routesOperand(op)], experts);
  const bool isAlone = mesh.getSize(planfile::AxisRole::Expert) == 1;
  if (isa<DispatchOp>(op)) {
    SmallVector<int64_t> shape(shapeOf(order.places));
    shape.push_back(shapeOf(operands[0]).back());
    Value packed = PackRowsOp::create(builder, loc, RankedTensorType::get(shape, elementOf(operands[0])), operands[0],
                                      order.places);
    if (isAlone)
      return {packed};
    return {exchanged(builder, op, packed, order.counts, countsOf(builder, loc, operands[2]), types[0])};
  }
  if (isa<CollectOp>(op)) {
    Value back = isAlone ? operands[0] : exchanged(builder, op, operands[0], countsOf(builder, loc, operands[2]), order.counts, types[0]);
    return {UnpackRowsOp::create(builder, loc, types[0], back, order.places)};
  }
  if (isAlone) { // All rows that are sent arrive, in their order.
    if (op->getResult(1).use_empty() && op->getResult(2).use_empty())
      return {order.sorted, Value(), Value()};
    auto arrived = ArrivedRoutesOp::create(builder, loc, types, order.sorted, order.counts);
    return {order.sorted, arrived.getSources(), arrived.getLost()};
  }
  // Counts go ahead, so that the numbers of experts find their places.
  auto received = AllToAllOp::create(builder, loc, countType(builder), order.counts, axes(op), 0, 0);
  received->setAttr(kOrigin, originOf(op, mesh.getAxes(planfile::AxisRole::Expert),
                                      "counts of the rows that go to the ranks of their experts"));
  auto asRows = [&](Type type) {
    SmallVector<int64_t> shape(cast<RankedTensorType>(type).getShape());
    shape.push_back(1);
    return shape;
  };
  Value sent = b.reshape(order.sorted, asRows(order.sorted.getType()));
  Value numbers = exchanged(builder, op, sent, order.counts, received,
                            RankedTensorType::get(asRows(types[0]), builder.getI64Type()));
  auto arrived = ArrivedRoutesOp::create(builder, loc, types, b.reshape(numbers, cast<RankedTensorType>(types[0]).getShape()),
                                         received);
  return SmallVector<Value>(arrived->getResults());
}
