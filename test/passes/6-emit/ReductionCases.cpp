// Cases of reductions, norms, lookups, running sums and products.
#include "Generators.h"

#include <algorithm>

namespace llmc::test {

static std::string leadingType(const std::vector<int64_t> &shape) {
  return tensorType({shape.begin(), shape.end() - 1});
}

static Case reduceCase(Random &random, FunctionText &f, const std::vector<int64_t> &shape,
                       std::string x, const std::string &element, const std::string &name) {
  static const char *kinds[] = {"sum", "max", "sum_squares"};
  std::vector<int64_t> dims, kept;
  int64_t pattern = draw(random, 0, 3);
  size_t split = draw(random, 0, shape.size());
  for (size_t d = 0; d < shape.size(); ++d) {
    // Trailing dims, leading dims, all, any.
    bool isReduced = pattern == 0   ? d >= split
                     : pattern == 1 ? d < split
                     : pattern == 2 ? true
                                    : draw(random, 0, 1);
    if (isReduced)
      dims.push_back(d);
    else
      kept.push_back(shape[d]);
  }
  std::string kind = kinds[draw(random, 0, 2)];
  std::string r = f.op("graph.reduce", {x}, {tensorType(kept, element)},
                       "kind = #graph.reduce_kind<" + kind + ">, dims = " + i64Array(dims));
  if (element == "f32" && draw(random, 0, 1)) // something that reads it
    r = f.op("graph.neg", {r}, {tensorType(kept)});
  Case result = f.finish(name + " " + kind, {r});
  if (element == "f32" && kind == "sum")
    result.floor = 1; // terms of both signs
  return result;
}

Case makeReduce(Random &random) {
  auto shape = drawShape(random, 1, 4, 20000);
  FunctionText f;
  std::string element = draw(random, 0, 2) ? "f32" : drawElement(random);
  std::string x = f.argument(shape, element);
  return reduceCase(random, f, shape, x, element, "reduce");
}

// A producer on each side of the reduction.
Case makeReduceGroup(Random &random) {
  auto shape = drawShape(random, 1, 3, 10000);
  FunctionText f;
  std::vector<int64_t> last{shape.back()};
  std::string x = f.argument(tensorType(shape));
  x = f.op("graph.mul", {x, f.argument(tensorType(last))}, {tensorType(shape)});
  x = f.op("graph.tanh", {x}, {tensorType(shape)});
  Case result = reduceCase(random, f, shape, x, "f32", "reduce group");
  result.tolerance = 2e-5; // roundings of the terms, over a sum that may be small
  return result;
}

Case makeSoftmax(Random &random) {
  auto shape = drawShape(random, 1, 3, 8000);
  FunctionText f;
  auto type = tensorType(shape);
  std::string r =
      f.op("graph.softmax", {f.argument(type, draw(random, 0, 1) ? Fill::Infinite : Fill::Normal)},
           {type});
  Case result = f.finish("softmax", {r});
  result.aliases[0] = draw(random, 0, 1) - 1;
  return result;
}

Case makeSoftmaxGrad(Random &random) {
  auto type = tensorType(drawShape(random, 1, 3, 8000));
  FunctionText f;
  std::string y = f.argument(type, Fill::Probability), dy = f.argument(type);
  Case result = f.finish("softmax_grad", {f.op("graph.softmax_grad", {y, dy}, {type})});
  result.aliases[0] = draw(random, 0, 2) - 1;
  return result;
}

// Rows are long enough for a variance.
static std::vector<int64_t> normShape(Random &random) {
  auto shape = drawShape(random, 1, 3, 500);
  shape.back() = draw(random, 2, 100);
  return shape;
}

Case makeLayerNorm(Random &random) {
  auto shape = normShape(random);
  auto type = tensorType(shape), vector = tensorType({shape.back()}), rows = leadingType(shape);
  FunctionText f;
  std::string x = f.argument(type), scale = f.argument(vector), bias = f.argument(vector);
  std::string r =
      f.op("graph.layer_norm", {x, scale, bias}, {type, rows, rows}, "eps = 1.0e-5 : f64");
  Case result = f.finish("layer_norm", {r + "#0", r + "#1", r + "#2"});
  // With two elements a row may have nearly no variance: 1 / sqrt(eps) amplifies.
  result.tolerance = shape.back() < 4 ? 1e-4 : 4e-6;
  result.floor = 0.1; // the mean of one row may be nearly 0
  return result;
}

Case makeLayerNormGrad(Random &random) {
  auto shape = normShape(random);
  auto type = tensorType(shape), vector = tensorType({shape.back()}), rows = leadingType(shape);
  FunctionText f;
  std::string dy = f.argument(type), x = f.argument(type), scale = f.argument(vector);
  std::string mean = f.argument(rows), rstd = f.argument(rows, Fill::Positive);
  Case result = f.finish("layer_norm_grad",
                         {f.op("graph.layer_norm_grad", {dy, x, scale, mean, rstd}, {type})});
  result.aliases[0] = draw(random, 0, 2) - 1;
  return result;
}

Case makeLayerNormGradScale(Random &random) {
  auto shape = normShape(random);
  auto type = tensorType(shape), rows = leadingType(shape);
  FunctionText f;
  std::string dy = f.argument(type), x = f.argument(type);
  std::string mean = f.argument(rows), rstd = f.argument(rows, Fill::Positive);
  return f.finish("layer_norm_grad_scale", {f.op("graph.layer_norm_grad_scale", {dy, x, mean, rstd},
                                                 {tensorType({shape.back()})})});
}

// The last dim may be a head's.
static std::vector<int64_t> rmsShape(Random &random) {
  auto shape = drawShape(random, 1, 4, 500);
  shape.back() = draw(random, 0, 1) ? draw(random, 1, 16) : draw(random, 16, 100);
  return shape;
}

Case makeRmsNorm(Random &random) {
  auto shape = rmsShape(random);
  FunctionText f;
  auto type = tensorType(shape);
  std::string x = f.argument(type), scale = f.argument(tensorType({shape.back()}));
  std::string r =
      f.op("graph.rms_norm", {x, scale}, {type, leadingType(shape)}, "eps = 1.0e-6 : f64");
  Case result = f.finish("rms_norm", {r + "#0", r + "#1"});
  if (draw(random, 0, 1))
    result.aliases[0] = 0;
  return result;
}

Case makeRmsNormGrad(Random &random) {
  auto shape = rmsShape(random);
  FunctionText f;
  auto type = tensorType(shape);
  std::string dy = f.argument(type), x = f.argument(type);
  std::string scale = f.argument(tensorType({shape.back()}));
  std::string rstd = f.argument(leadingType(shape), Fill::Positive);
  Case result =
      f.finish("rms_norm_grad", {f.op("graph.rms_norm_grad", {dy, x, scale, rstd}, {type})});
  result.tolerance = 1e-5; // a row of one element may cancel
  result.floor = 0.1;
  result.aliases[0] = draw(random, 0, 2) - 1;
  return result;
}

Case makeRmsNormGradScale(Random &random) {
  auto shape = rmsShape(random);
  FunctionText f;
  std::string dy = f.argument(tensorType(shape)), x = f.argument(tensorType(shape));
  std::string rstd = f.argument(leadingType(shape), Fill::Positive);
  Case result =
      f.finish("rms_norm_grad_scale",
               {f.op("graph.rms_norm_grad_scale", {dy, x, rstd}, {tensorType({shape.back()})})});
  result.floor = 0.1; // sums of both signs
  return result;
}

Case makeCumsum(Random &random) {
  auto shape = drawShape(random, 1, 4, 5000);
  FunctionText f;
  std::string element = drawElement(random), type = tensorType(shape, element);
  std::string attributes = "dim = " + std::to_string(draw(random, 0, shape.size() - 1)) + " : i64";
  attributes += draw(random, 0, 1) ? ", exclusive" : "";
  attributes += draw(random, 0, 1) ? ", reverse" : "";
  std::string x = f.argument(shape, element);
  Case result = f.finish("cumsum", {f.op("graph.cumsum", {x}, {type}, attributes)});
  result.aliases[0] = draw(random, 0, 1) - 1;
  return result;
}

// The offset as a buffer, as a scalar of the launch, or none.
static Case finishLookup(Random &random, FunctionText &f, const char *name,
                         std::vector<std::string> in, const std::string &type) {
  size_t first = f.arguments.size();
  int64_t offset = draw(random, 0, 2);
  if (offset)
    in.push_back(f.argument("tensor<i64>", Fill::Ids, -3, 4));
  std::string r = f.op(std::string("graph.") + name, in, {type});
  Case result = f.finish(name, {r});
  if (offset == 2)
    result.scalarsFrom = first;
  return result;
}

Case makeGather(Random &random) {
  auto ids = drawShape(random, 0, 2, 60), inner = drawShape(random, 0, 2, 100);
  int64_t rows = draw(random, 1, 40);
  auto table = inner, to = ids;
  table.insert(table.begin(), rows);
  to.insert(to.end(), inner.begin(), inner.end());
  FunctionText f;
  std::string element = drawElement(random), t = f.argument(table, element);
  std::string i =
      f.argument(tensorType(ids, draw(random, 0, 1) ? "i64" : "i32"), Fill::Ids, -2, rows + 2);
  return finishLookup(random, f, "gather", {t, i}, tensorType(to, element));
}

Case makeScatterAdd(Random &random) {
  auto ids = drawShape(random, 0, 2, 60), inner = drawShape(random, 0, 2, 100);
  int64_t rows = draw(random, 1, 40);
  auto table = inner, from = ids;
  table.insert(table.begin(), rows);
  from.insert(from.end(), inner.begin(), inner.end());
  FunctionText f;
  std::string i = f.argument(tensorType(ids, "i64"), Fill::Ids, -2, rows + 2);
  std::string element = drawElement(random), u = f.argument(from, element);
  return finishLookup(random, f, "scatter_add", {i, u}, tensorType(table, element));
}

// Added to what is there already, in place or not.
Case makeScatterInto(Random &random) {
  auto ids = drawShape(random, 0, 2, 60), inner = drawShape(random, 0, 2, 100);
  int64_t rows = draw(random, 1, 40);
  auto table = inner, from = ids;
  table.insert(table.begin(), rows);
  from.insert(from.end(), inner.begin(), inner.end());
  FunctionText f;
  std::string type = tensorType(table), base = f.argument(type);
  std::string i = f.argument(tensorType(ids, "i64"), Fill::Ids, -2, rows + 2);
  std::string added = f.op("graph.scatter_add", {i, f.argument(tensorType(from))}, {type});
  bool swap = draw(random, 0, 1);
  Case result = f.finish("scatter_into", {f.op("graph.add", swap ? std::vector{added, base} : std::vector{base, added}, {type})});
  result.aliases[0] = draw(random, 0, 1) - 1;
  result.tolerance = 2e-5; // adds in another order
  return result;
}

Case makeTakeAlong(Random &random) {
  auto shape = drawShape(random, 1, 3, 4000);
  std::vector<int64_t> lead(shape.begin(), shape.end() - 1);
  FunctionText f;
  std::string element = drawElement(random), x = f.argument(shape, element);
  std::string i = f.argument(tensorType(lead, "i64"), Fill::Ids, -2, shape.back() + 2);
  return finishLookup(random, f, "take_along", {x, i}, tensorType(lead, element));
}

Case makeMatmul(Random &random) {
  static const char *equations[] = {"bsd,de->bse",  "bsd,vd->bsv",  "bsd,bse->de",
                                    "bse,de->bsd",  "ab,bc->ca",    "hab,hbc->hac",
                                    "hab,hcb->hac", "hba,hbc->hac", "abc,abd->adc"};
  std::string equation = equations[draw(random, 0, std::size(equations) - 1)];
  int64_t sizes[128] = {};
  auto shapeOf = [&](const std::string &letters) {
    std::vector<int64_t> shape;
    for (char letter : letters) {
      int64_t &size = sizes[static_cast<int>(letter)];
      if (!size)
        size = draw(random, 0, 3) ? draw(random, 1, 12) : draw(random, 20, 70);
      shape.push_back(size);
    }
    return shape;
  };
  size_t comma = equation.find(','), arrow = equation.find("->");
  FunctionText f;
  std::string lhs = f.argument(tensorType(shapeOf(equation.substr(0, comma))));
  std::string rhs = f.argument(tensorType(shapeOf(equation.substr(comma + 1, arrow - comma - 1))));
  std::string type = tensorType(shapeOf(equation.substr(arrow + 2)));
  std::string r = f.op("graph.matmul", {lhs, rhs}, {type}, "", "\"" + equation + "\" ");
  return f.finish("matmul " + equation, {r});
}

} // namespace llmc::test
