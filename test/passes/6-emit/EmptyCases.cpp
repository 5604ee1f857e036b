// Cases with tensors of no elements: written by no rows, or read by nobody.
#include "Generators.h"

namespace llmc::test {

Case makeEmpty(Random &random) {
  std::string element = drawElement(random), none = tensorType({2, 0, 3}, element);
  std::string kind = "kind = #graph.reduce_kind<sum>, dims = ";
  FunctionText f;
  auto x = [&] { return f.argument({2, 0, 3}, element); };
  std::string r;
  switch (draw(random, 0, 11)) {
  case 0:
    r = f.op("graph.add", {x(), f.argument({3}, element)}, {none});
    break;
  case 1:
    r = f.op("graph.transpose", {x()}, {tensorType({0, 3, 2}, element)},
             "permutation = array<i64: 1, 2, 0>");
    break;
  case 2:
    r = f.op("graph.reduce", {x()}, {tensorType({2, 3}, element)}, kind + "array<i64: 1>");
    break;
  case 3:
    r = f.op("graph.reduce", {x()}, {tensorType({}, element)}, kind + "array<i64: 0, 1, 2>");
    break;
  case 4:
    r = f.op("graph.reduce", {x()}, {tensorType({0, 3}, element)}, kind + "array<i64: 0>");
    break;
  case 5:
    r = f.op(
        "graph.pad", {x()}, {tensorType({2, 3, 3}, element)},
        "low = array<i64: 0, 1, 0>, high = array<i64: 0, 2, 0>, interior = array<i64: 0, 0, 0>");
    break;
  case 6:
    r = f.op("graph.gather",
             {f.argument({0, 3}, element), f.argument(tensorType({4}, "i64"), Fill::Ids, -1, 2)},
             {tensorType({4, 3}, element)});
    break;
  case 7:
    r = f.op("graph.gather",
             {f.argument({5, 3}, element), f.argument(tensorType({0}, "i64"), Fill::Ids)},
             {tensorType({0, 3}, element)});
    break;
  case 8:
    r = f.op("graph.scatter_add",
             {f.argument(tensorType({0}, "i64"), Fill::Ids), f.argument({0, 3}, element)},
             {tensorType({4, 3}, element)});
    break;
  case 9:
    r = f.op("graph.slice", {f.argument({2, 4, 3}, element)}, {none},
             "starts = array<i64: 0, 2, 0>, limits = array<i64: 2, 2, 3>, "
             "steps = array<i64: 1, 1, 1>");
    break;
  case 10:
    r = f.op("graph.cumsum", {x()}, {none}, "dim = 1 : i64");
    break;
  default:
    r = f.op("graph.attention",
             {f.argument("tensor<1x3x2x4xf32>"), f.argument("tensor<1x0x2x4xf32>"),
              f.argument("tensor<1x0x2x4xf32>")},
             {"tensor<1x3x2x4xf32>", "tensor<1x3x2xf32>"}, "scale = 1.0 : f64, causal = false");
    return f.finish("empty keys", {r + "#0", r + "#1"});
  }
  return f.finish("empty", {r});
}

} // namespace llmc::test
