// Puts the exchange of rows around the products of each mixture of experts.
//
// What lies between is found by following the results of routed products: an op that works row by row on
// them, with nothing but numbers, vectors and tables of the experts beside, stays with the rows; any other
// reader gets them back.
#include "passes/2-train/ExpertRoom.h"
#include "passes/2-train/ForwardSums.h"
#include "passes/2-train/Passes.h"

#include "dialects/graph/Build.h"
#include "dialects/graph/GraphAttrs.h"
#include "dialects/graph/Repeat.h"
#include "dialects/parallel/Annotations.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/FormatVariadic.h"

namespace llmc {
#define GEN_PASS_DEF_EXCHANGEROWS
#include "passes/2-train/Passes.h.inc"

using namespace mlir;
using namespace graph;

namespace {

// Exchanges the rows of one mixture: of all products by the same routes.
class Mixture {
public:
  // Takes `isAlone` where one rank has all experts.
  Mixture(Value routes, int64_t slots, int64_t experts, bool isAlone)
      : routes(routes), slots(slots), experts(experts), isAlone(isAlone) {}

  // Returns the number of rows that found no slot.
  Value run() {
    Block *block = routes.getParentBlock();
    for (Operation &op : llvm::make_early_inc_range(*block))
      visit(&op);
    // Erases readers before what they read.
    for (Operation *op : llvm::reverse(replaced))
      if (op->use_empty())
        op->erase();
    return lost;
  }

private:
  void visit(Operation *op) {
    OpBuilder builder(op);
    if (auto product = dyn_cast<GroupedMatmulOp>(op); product && product.getRoutes() == routes)
      return place(op, {GroupedMatmulOp::create(
                           builder, op->getLoc(), typeOfRows(product.getResult()),
                           arrived(builder, product.getOperand()), product.getWeights(), arrivedRoutes,
                           product.getOffset(), product.getTransposed(), /*exchanged=*/true)});
    if (!isRowwise(op)) {
      for (OpOperand &use : op->getOpOperands())
        if (auto it = atExperts.find(use.get()); it != atExperts.end())
          use.set(collected(use.get()));
      return;
    }
    SmallVector<Value> operands;
    for (Value operand : op->getOperands())
      operands.push_back(beside(builder, operand));
    place(op, cloneForTypes(builder, op, operands, {typeOfRows(op->getResult(0))}));
  }

  void place(Operation *op, Operation *copy) {
    atExperts[op->getResult(0)] = copy->getResult(0);
    replaced.push_back(op);
  }

  // Returns whether the op works on rows that are at their experts, each by itself.
  bool isRowwise(Operation *op) {
    if (op->getNumResults() != 1 || op->getNumRegions() ||
        !(op->hasTrait<Broadcasting>() || isa<CastOp>(op)) ||
        llvm::none_of(op->getOperands(), [&](Value v) { return atExperts.contains(v); }))
      return false;
    return llvm::all_of(op->getOperands(), [&](Value operand) {
      return atExperts.contains(operand) || shapeOf(operand).size() <= 1 || isTable(operand) ||
             isSplat(operand);
    });
  }
  // Returns whether the value is a row of a table for each route (biases of experts).
  bool isTable(Value value) const {
    auto gather = value.getDefiningOp<GatherOp>();
    return gather && gather.getIds() == routes;
  }
  static bool isSplat(Value value) {
    auto constant = value.getDefiningOp<ConstantOp>();
    return constant && constant.getValue().isSplat();
  }

  // Returns what an op that stays with the rows reads in place of `operand`.
  Value beside(OpBuilder &builder, Value operand) {
    if (auto it = atExperts.find(operand); it != atExperts.end())
      return it->second;
    if (isTable(operand)) {
      auto gather = operand.getDefiningOp<GatherOp>();
      return GatherOp::create(builder, gather.getLoc(), typeOfRows(operand), gather.getTable(), arrivedRoutes,
                              gather.getOffset());
    }
    if (isSplat(operand) && shapeOf(operand).size() > 1)
      return cloneForTypes(builder, operand.getDefiningOp(), {}, {typeOfRows(operand)})->getResult(0);
    return operand;
  }

  RankedTensorType typeOfRows(Value rows) const {
    SmallVector<int64_t> shape(shapeOf(rows));
    shape[shapeOf(routes).size() - 1] = slots;
    return RankedTensorType::get(shape, elementOf(rows));
  }

  // Returns rows at their experts; those that are not there yet are sent, once for all their readers.
  Value arrived(OpBuilder &builder, Value rows) {
    if (auto it = atExperts.find(rows); it != atExperts.end())
      return it->second;
    if (!arrivedRoutes) {
      SmallVector<int64_t> shape(shapeOf(routes));
      shape.back() = slots;
      auto type = RankedTensorType::get(shape, builder.getI64Type());
      auto exchange = ExchangeRoutesOp::create(builder, routes.getLoc(), type, type,
                                               RankedTensorType::get(shapeOf(routes).drop_back(),
                                                                     builder.getF32Type()),
                                               routes, experts);
      arrivedRoutes = exchange.getArrived();
      // Nobody counts what comes from whom where nothing is sent, and the routes have as many slots as rows.
      sources = isAlone ? routes : Value(exchange.getSources());
      lost = exchange.getLost();
    }
    Value &sent = dispatched[rows];
    if (!sent) {
      SmallVector<int64_t> shape(shapeOf(sources));
      shape.push_back(shapeOf(rows).back());
      sent = DispatchOp::create(builder, rows.getLoc(), RankedTensorType::get(shape, elementOf(rows)), rows, routes,
                                sources, experts);
    }
    return sent;
  }

  // Returns rows that are back at their tokens.
  Value collected(Value rows) {
    Value &back = home[rows];
    if (!back) {
      Value there = atExperts.lookup(rows);
      OpBuilder builder(rows.getContext());
      builder.setInsertionPointAfterValue(there);
      back = CollectOp::create(builder, rows.getLoc(), rows.getType(), there, routes, sources, experts);
    }
    return back;
  }

  Value routes, arrivedRoutes, sources, lost;
  int64_t slots, experts;
  bool isAlone;
  llvm::DenseMap<Value, Value> atExperts, dispatched, home;
  SmallVector<Operation *> replaced;
};

// Returns the experts of the mixture that has these routes; 0 if products differ in them.
int64_t countExperts(Value routes) {
  int64_t experts = -1;
  for (Operation *user : routes.getUsers())
    if (auto product = dyn_cast<GroupedMatmulOp>(user); product && product.getRoutes() == routes) {
      int64_t own = shapeOf(product.getWeights())[0];
      experts = experts < 0 || experts == own ? own : 0;
    }
  return experts;
}

struct ExchangeRows : impl::ExchangeRowsBase<ExchangeRows> {
  using ExchangeRowsBase::ExchangeRowsBase;

  void runOnOperation() override {
    if (!(budget >= 1)) {
      getOperation().emitError("X2: a rank has room for ")
          << llvm::formatv("{0}", double(budget)).str() << " times the average of rows, "
                                                           << "which is less than all: use 1 or more";
      return signalPassFailure();
    }
    llvm::MapVector<Value, GroupedMatmulOp> mixtures; // by routes; the first product
    getOperation().walk([&](GroupedMatmulOp op) { mixtures.insert({op.getRoutes(), op}); });
    if (ranks <= 1)
      mixtures.remove_if([](auto &entry) { return countExperts(entry.first) <= 0; });
    bool ok = true;
    for (auto [routes, product] : mixtures)
      ok &= succeeded(check(product));
    if (!ok)
      return signalPassFailure();
    SmallVector<Value> lost;
    for (auto [routes, product] : mixtures) {
      int64_t choices = shapeOf(routes).back(), experts = shapeOf(product.getWeights())[0];
      train::ExpertRoom room(choices, experts, ranks, budget);
      Value rows = Mixture(routes, room.slots, experts, ranks <= 1).run();
      if (room.mayLack() || counts)
        lost.push_back(rows);
      ++numMixtures;
    }
    if (lost.empty())
      return;
    auto forward = lost.front().getDefiningOp()->getParentOfType<func::FuncOp>();
    train::addOutput(forward, train::sumAll(forward, train::addOverLayers(forward, lost)), kLostRows);
  }

  LogicalResult check(GroupedMatmulOp product) {
    if (ranks <= 1)
      return success();
    // Limits of routes are those of mixtures already.
    if (auto route = product.getRoutes().getDefiningOp<RouteOp>(); route && !route.getMixture())
      return route.emitError("X3: has no `mixture`, by which the budget is found, and products of experts follow: "
                             "add it, or compile the model anew");
    int64_t experts = countExperts(product.getRoutes());
    if (experts > 0 && experts % ranks == 0)
      return success();
    InFlightDiagnostic error = product->emitError("X1: has ") << experts << " experts, which ep = " << int64_t(ranks)
                                                              << " ranks cannot share; valid sizes of ep are";
    for (int64_t size = 1; size <= experts; ++size)
      if (experts % size == 0)
        error << " " << size;
    return error;
  }
};

} // namespace
} // namespace llmc
