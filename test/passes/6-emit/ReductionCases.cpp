// Cases of reductions, lookups, attention and products.
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
  std::string kind = kinds[draw(random, 0, element == "f32" ? 2 : 1)];
  std::string r = f.op("graph.reduce", {x}, {tensorType(kept, element)},
                       "kind = #graph.reduce_kind<" + kind + ">, dims = " + i64Array(dims));
  return f.finish(name + " " + kind, {r});
}

Case makeReduce(Random &random) {
  auto shape = drawShape(random, 1, 4, 20000);
  FunctionText f;
  std::string element = draw(random, 0, 6) ? "f32" : "i64";
  std::string x = f.argument(tensorType(shape, element),
                             element == "f32" ? Fill::Normal : Fill::Ids, -100, 100);
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
  std::string t = f.argument(tensorType(table));
  std::string i =
      f.argument(tensorType(ids, draw(random, 0, 1) ? "i64" : "i32"), Fill::Ids, -2, rows + 2);
  return finishLookup(random, f, "gather", {t, i}, tensorType(to));
}

Case makeScatterAdd(Random &random) {
  auto ids = drawShape(random, 0, 2, 60), inner = drawShape(random, 0, 2, 100);
  int64_t rows = draw(random, 1, 40);
  auto table = inner, from = ids;
  table.insert(table.begin(), rows);
  from.insert(from.end(), inner.begin(), inner.end());
  FunctionText f;
  std::string i = f.argument(tensorType(ids, "i64"), Fill::Ids, -2, rows + 2);
  std::string u = f.argument(tensorType(from));
  return finishLookup(random, f, "scatter_add", {i, u}, tensorType(table));
}

Case makeTakeAlong(Random &random) {
  auto shape = drawShape(random, 1, 3, 4000);
  std::vector<int64_t> lead(shape.begin(), shape.end() - 1);
  FunctionText f;
  std::string x = f.argument(tensorType(shape));
  std::string i = f.argument(tensorType(lead, "i64"), Fill::Ids, -2, shape.back() + 2);
  return finishLookup(random, f, "take_along", {x, i}, tensorType(lead));
}

namespace {
struct AttentionTypes {
  std::string q, k, lse, attributes;
};
} // namespace

static AttentionTypes attentionTypes(Random &random) {
  int64_t batch = draw(random, 1, 3), kvHeads = draw(random, 1, 3), group = draw(random, 1, 3);
  int64_t rows = draw(random, 0, 3) ? draw(random, 1, 20) : draw(random, 60, 150);
  int64_t dim = draw(random, 0, 1) ? 8 * draw(random, 1, 4) : draw(random, 1, 20);
  bool causal = draw(random, 0, 1);
  int64_t keys = causal ? rows : draw(random, 1, 140);
  std::string scale = std::to_string(1.0 / (1 + draw(random, 1, 4)));
  return {tensorType({batch, rows, kvHeads * group, dim}), tensorType({batch, keys, kvHeads, dim}),
          tensorType({batch, rows, kvHeads * group}),
          "scale = " + scale + " : f64, causal = " + (causal ? "true" : "false")};
}

Case makeAttention(Random &random) {
  AttentionTypes t = attentionTypes(random);
  FunctionText f;
  std::string q = f.argument(t.q), k = f.argument(t.k), v = f.argument(t.k);
  std::string r = f.op("graph.attention", {q, k, v}, {t.q, t.lse}, t.attributes);
  Case result = f.finish("attention", {r + "#0", r + "#1"});
  result.tolerance = 2e-5; // a weighted mean of values of both signs may be small
  return result;
}

// o and lse are the op's own results, as in a training step.
Case makeAttentionGrad(Random &random) {
  AttentionTypes t = attentionTypes(random);
  FunctionText f;
  std::string dO = f.argument(t.q), q = f.argument(t.q), k = f.argument(t.k), v = f.argument(t.k);
  std::string o = f.argument(t.q), lse = f.argument(t.lse, Fill::Positive);
  std::string r =
      f.op("graph.attention_grad", {dO, q, k, v, o, lse}, {t.q, t.k, t.k}, t.attributes);
  Case result = f.finish("attention_grad", {r + "#0", r + "#1", r + "#2"});
  result.tolerance = 1e-5; // exp(s - lse) of a random lse is no probability and may be large
  return result;
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

std::vector<Generator> generators() {
  return {{"binary", makeBinary},
          {"unary", makeUnary},
          {"gelu_grad", makeGeluGrad},
          {"logic", makeLogic},
          {"chain", makeChain},
          {"adamw", makeAdamW},
          {"indexed", makeIndexed},
          {"transpose", makeTranspose},
          {"broadcast", makeBroadcast},
          {"slice", makeSlice},
          {"pad", makePad},
          {"concat", makeConcat},
          {"reshape", makeReshape},
          {"constant", makeConstant},
          {"reduce", makeReduce},
          {"reduce_group", makeReduceGroup},
          {"softmax", makeSoftmax},
          {"softmax_grad", makeSoftmaxGrad},
          {"layer_norm", makeLayerNorm},
          {"layer_norm_grad", makeLayerNormGrad},
          {"layer_norm_grad_scale", makeLayerNormGradScale},
          {"gather", makeGather},
          {"scatter_add", makeScatterAdd},
          {"take_along", makeTakeAlong},
          {"attention", makeAttention},
          {"attention_grad", makeAttentionGrad},
          {"matmul", makeMatmul}};
}

} // namespace llmc::test
