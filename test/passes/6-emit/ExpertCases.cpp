// Cases of routes, and of rows that are brought into the order of their experts.
#include "Generators.h"

namespace llmc::test {

// Draws [rows ..., tokens, choices].
static std::vector<int64_t> drawRoutes(Random &random) {
  auto shape = drawShape(random, 0, 1, 3);
  shape.push_back(draw(random, 0, 3) ? draw(random, 1, 40) : 300);
  shape.push_back(draw(random, 1, 4));
  return shape;
}
// Draws routes to some experts; one in four draws reaches as far as integers do.
static std::string routes(FunctionText &f, Random &random, const std::vector<int64_t> &shape, int64_t experts) {
  bool isFar = draw(random, 0, 3) == 0;
  int64_t far = int64_t(1) << 52;
  return f.argument(tensorType(shape, "i64"), Fill::Ids, isFar ? -far : -2, isFar ? far : experts + 2);
}

Case makeRoute(Random &random) {
  auto shape = drawShape(random, 0, 2, 60);
  static const int64_t counts[] = {1, 2, 4, 8};
  bool isGrouped = draw(random, 0, 1);
  int64_t groups = isGrouped ? counts[draw(random, 0, 3)] : 1, inGroup = draw(random, 1, isGrouped ? 32 : 70);
  int64_t kept = draw(random, 1, groups), terms = std::min<int64_t>(inGroup, draw(random, 1, 2));
  auto scores = shape, chosen = shape;
  scores.push_back(groups * inGroup);
  chosen.push_back(draw(random, 1, std::min<int64_t>(kept * inGroup, 9)));
  FunctionText f;
  std::vector<std::string> operands{f.argument(tensorType(scores), Fill::Scores)};
  if (draw(random, 0, 1))
    operands.push_back(f.argument(tensorType({scores.back()}), Fill::Scores));
  std::string attributes = "groups = " + std::to_string(groups) + " : i64, kept_groups = " +
                           std::to_string(kept) + " : i64, group_terms = " + std::to_string(terms) + " : i64";
  return f.finish("route", {f.op("graph.route", operands, {tensorType(chosen, "i64")}, attributes)});
}

Case makeLimitRoutes(Random &random) {
  auto shape = drawRoutes(random);
  int64_t experts = draw(random, 1, 12);
  FunctionText f;
  std::string ids = routes(f, random, shape, experts);
  std::string attributes = "capacity = " + std::to_string(draw(random, 1, 6)) + " : i64, experts = " +
                           std::to_string(experts) + " : i64";
  return f.finish("limit_routes", {f.op("graph.limit_routes", {ids}, {tensorType(shape, "i64")}, attributes)});
}

Case makeSortRoutes(Random &random) {
  auto shape = drawRoutes(random);
  std::string type = tensorType(shape, "i64");
  int64_t parts = draw(random, 1, 4), experts = parts * draw(random, 1, 5);
  FunctionText f;
  std::string ids = routes(f, random, shape, experts);
  std::string r = f.op("graph.sort_routes", {ids}, {type, type, tensorType({parts}, "i64")},
                       "experts = " + std::to_string(experts) + " : i64");
  return f.finish("sort_routes", {r + "#0", r + "#1", r + "#2"});
}

Case makeArrivedRoutes(Random &random) {
  auto shape = drawRoutes(random);
  int64_t ranks = draw(random, 1, 6), room = 1;
  for (int64_t size : shape)
    room *= size;
  std::string type = tensorType(shape, "i64");
  FunctionText f;
  std::string ids = f.argument(type, Fill::Ids, -2, 9);
  std::string counts = f.argument(tensorType({ranks}, "i64"), Fill::Ids, -1, 2 * room / ranks + 2);
  shape.pop_back();
  std::string r = f.op("graph.arrived_routes", {ids, counts}, {type, type, tensorType(shape)});
  return f.finish("arrived_routes", {r + "#0", r + "#1", r + "#2"});
}

Case makeCountSources(Random &random) {
  auto shape = drawRoutes(random);
  int64_t ranks = draw(random, 1, 12);
  FunctionText f;
  std::string ids = routes(f, random, shape, ranks);
  return f.finish("count_sources", {f.op("graph.count_sources", {ids}, {tensorType({ranks}, "i64")})});
}

// Draws rows of the places' shape, or that without its last dim, and numbers of rows by which they are moved:
// some of them twice, some not at all.
static Case moveRows(Random &random, const std::string &op, bool mayShare) {
  auto places = drawRoutes(random), rows = places, result = places;
  int64_t count = 1, inner = draw(random, 0, 3) ? draw(random, 1, 70) : 200;
  for (int64_t size : places)
    count *= size;
  if (mayShare)
    rows.pop_back();
  rows.push_back(inner);
  result.push_back(inner);
  FunctionText f;
  std::string x = f.argument(tensorType(rows)), at = routes(f, random, places, count);
  return f.finish(op, {f.op("graph." + op, {x, at}, {tensorType(result)})});
}
Case makePackRows(Random &random) { return moveRows(random, "pack_rows", draw(random, 0, 1)); }
Case makeUnpackRows(Random &random) { return moveRows(random, "unpack_rows", false); }

// Draws routes and rows without elements, whose counts have some.
Case makeNoRoutes(Random &random) {
  FunctionText f;
  std::string type = "tensor<2x0x3xi64>", ids;
  if (draw(random, 0, 1)) {
    ids = f.argument(type, Fill::Ids);
    std::string r = f.op("graph.sort_routes", {ids}, {type, type, "tensor<2xi64>"}, "experts = 4 : i64");
    return f.finish("no routes", {r + "#0", r + "#1", r + "#2"});
  }
  // Loses all rows where tokens have no slots.
  type = "tensor<2x3x0xi64>", ids = f.argument(type, Fill::Ids);
  std::string r = f.op("graph.arrived_routes", {ids, f.argument("tensor<3xi64>", Fill::Ids, 0, 3)},
                       {type, type, "tensor<2x3xf32>"});
  return f.finish("no routes", {r + "#0", r + "#1", r + "#2"});
}

} // namespace llmc::test
