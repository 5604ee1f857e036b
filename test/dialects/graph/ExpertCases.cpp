// Random cases of the ops of experts.
#include "Cases.h"

using namespace mlir;

namespace llmc::graph::test {

using Cases = std::vector<Case>;

static RankedTensorType typed(ArrayRef<int64_t> shape, Type element) {
  return RankedTensorType::get(shape, element);
}
static RankedTensorType ids(ArrayRef<int64_t> shape, OpBuilder &b) { return typed(shape, b.getI64Type()); }
static Shape with(Shape shape, int64_t last) {
  shape.push_back(last);
  return shape;
}
static Shape withoutLast(Shape shape) {
  shape.pop_back();
  return shape;
}
static int64_t sizeOf(const Shape &shape) {
  int64_t size = 1;
  for (int64_t dim : shape)
    size *= dim;
  return size;
}
// Draws [..., tokens, choices].
static Shape drawRoutes(Random &random) { return random.shape(2, 3); }
// Draws routes to `experts` experts and to some beside them.
static Argument routesTo(const Shape &shape, int64_t experts) { return {Argument::Ids, shape, experts}; }
// Draws the rows of a permutation, and some that are no row.
static Argument places(const Shape &shape) {
  return {Argument::Ids, shape, sizeOf(shape), /*fixed=*/false, /*distinct=*/true};
}

static void drawRoute(Cases &cases, Random &random) {
  for (bool isGrouped : {false, true}) {
    Shape rows = random.shape(0, 2);
    int64_t groups = isGrouped ? random.between(1, 4) : 1, inGroup = random.between(1, 4),
            kept = random.between(1, groups), terms = random.between(1, std::min<int64_t>(inGroup, 2)),
            experts = groups * inGroup, choices = random.between(1, kept * inGroup);
    std::vector<Argument> arguments{{random.chance(2) ? Argument::Any : Argument::Distinct, with(rows, experts)}};
    if (random.chance(2))
      arguments.push_back({Argument::Any, {experts}});
    cases.push_back({isGrouped ? "route to groups" : "route", arguments,
                     [=](OpBuilder &b, Location l, ValueRange v) {
                       return RouteOp::create(b, l, ids(with(rows, choices), b), v[0], v.size() > 1 ? v[1] : Value(),
                                              groups, kept, terms);
                     },
                     Case::Zero});
  }
  Shape shape = drawRoutes(random);
  int64_t experts = random.between(1, 4), capacity = random.between(1, 4);
  cases.push_back({"limit_routes", {routesTo(shape, experts)},
                   [=](OpBuilder &b, Location l, ValueRange v) {
                     return LimitRoutesOp::create(b, l, v[0].getType(), v[0], capacity, experts);
                   },
                   Case::Zero});
}

// Draws products of rows that choices share or have each for themselves, with weights of both forms.
static void drawProducts(Cases &cases, Random &random) {
  Argument offset{Argument::Ids, {}, 1};
  for (bool isShared : {false, true})
    for (bool isTransposed : {false, true}) {
      Shape routes = random.shape(1, 3);
      int64_t experts = random.size(), d = random.size(), f = random.size();
      Shape matrix = isTransposed ? Shape{experts, f, d} : Shape{experts, d, f};
      Argument x{Argument::Any, with(isShared ? withoutLast(routes) : routes, d)};
      cases.push_back({isShared ? "grouped_matmul of shared rows" : "grouped_matmul",
                       {x, {Argument::Any, matrix}, routesTo(routes, experts), offset},
                       [=, isExchanged = random.chance(2)](OpBuilder &b, Location l, ValueRange v) {
                         return GroupedMatmulOp::create(b, l, typed(with(routes, f), b.getF64Type()), v[0], v[1],
                                                        v[2], v[3], isTransposed, isExchanged);
                       }});
    }
  for (int shared : {-1, 0, 1}) {
    Shape routes = random.shape(1, 3);
    int64_t experts = random.size(), m = random.size(), n = random.size();
    auto rows = [&](int i, int64_t width) {
      return Argument{Argument::Any, with(shared == i ? withoutLast(routes) : routes, width)};
    };
    cases.push_back({shared < 0 ? "grouped_outer" : "grouped_outer of shared rows",
                     {rows(0, m), rows(1, n), routesTo(routes, experts), offset},
                     [=, isExchanged = random.chance(2)](OpBuilder &b, Location l, ValueRange v) {
                       return GroupedOuterOp::create(b, l, typed({experts, m, n}, b.getF64Type()), v[0], v[1], v[2],
                                                     v[3], isExchanged);
                     },
                     Case::None});
  }
}

static void drawExchange(Cases &cases, Random &random) {
  Shape routes = drawRoutes(random), slots = routes;
  slots.back() += random.below(3);
  int64_t d = random.size(), experts = 8;
  Argument route = routesTo(routes, experts), source = routesTo(slots, 4);
  cases.push_back({"exchange_routes", {route},
                   [=](OpBuilder &b, Location l, ValueRange v) {
                     auto type = ids(slots, b), lost = typed(withoutLast(routes), b.getF64Type());
                     return ExchangeRoutesOp::create(b, l, type, type, lost, v[0], experts);
                   },
                   Case::Zero});
  for (bool isShared : {false, true})
    cases.push_back({isShared ? "dispatch of shared rows" : "dispatch",
                     {{Argument::Any, with(isShared ? withoutLast(routes) : routes, d)}, route, source},
                     [=](OpBuilder &b, Location l, ValueRange v) {
                       return DispatchOp::create(b, l, typed(with(slots, d), b.getF64Type()), v[0], v[1], v[2],
                                                 experts);
                     }});
  cases.push_back({"collect", {{Argument::Any, with(slots, d)}, route, source},
                   [=](OpBuilder &b, Location l, ValueRange v) {
                     return CollectOp::create(b, l, typed(with(routes, d), b.getF64Type()), v[0], v[1], v[2],
                                              experts);
                   }});
}

static void drawRowsOfRanks(Cases &cases, Random &random) {
  Shape shape = drawRoutes(random);
  int64_t parts = random.between(1, 3), experts = parts * random.between(1, 3), d = random.size();
  cases.push_back({"sort_routes", {routesTo(shape, experts)},
                   [=](OpBuilder &b, Location l, ValueRange v) {
                     return SortRoutesOp::create(b, l, v[0].getType(), v[0].getType(), ids({parts}, b), v[0],
                                                 experts);
                   },
                   Case::Zero});
  cases.push_back({"arrived_routes", {routesTo(shape, 9), {Argument::Ids, {parts}, sizeOf(shape)}},
                   [=](OpBuilder &b, Location l, ValueRange v) {
                     return ArrivedRoutesOp::create(b, l, v[0].getType(), v[0].getType(), typed(withoutLast(shape), b.getF64Type()),
                                                    v[0], v[1]);
                   },
                   Case::Zero});
  cases.push_back({"count_sources", {routesTo(shape, parts)},
                   [=](OpBuilder &b, Location l, ValueRange v) {
                     return CountSourcesOp::create(b, l, ids({parts}, b), v[0]);
                   },
                   Case::Zero});
  for (bool isShared : {false, true})
    cases.push_back({isShared ? "pack_rows of shared rows" : "pack_rows",
                     {{Argument::Any, with(isShared ? withoutLast(shape) : shape, d)}, places(shape)},
                     [=](OpBuilder &b, Location l, ValueRange v) {
                       return PackRowsOp::create(b, l, typed(with(shape, d), b.getF64Type()), v[0], v[1]);
                     }});
  cases.push_back({"unpack_rows", {{Argument::Any, with(shape, d)}, places(shape)},
                   [=](OpBuilder &b, Location l, ValueRange v) {
                     return UnpackRowsOp::create(b, l, v[0].getType(), v[0], v[1]);
                   }});
}

void drawExperts(std::vector<Case> &cases, Random &random) {
  drawRoute(cases, random);
  drawProducts(cases, random);
  drawExchange(cases, random);
  drawRowsOfRanks(cases, random);
}

} // namespace llmc::graph::test
