// Cases of elementwise ops, alone and in groups, and of movement.
#include "Generators.h"

#include <algorithm>
#include <array>

namespace llmc::test {

// A shape that broadcasts to `shape`: some sizes 1, leading dims dropped.
static std::vector<int64_t> thinned(Random &random, std::vector<int64_t> shape) {
  if (draw(random, 0, 2) == 0)
    return shape;
  for (int64_t &size : shape)
    if (draw(random, 0, 2) == 0)
      size = 1;
  shape.erase(shape.begin(), shape.begin() + draw(random, 0, shape.size()));
  return shape;
}

// Draws a binary op, with integers up to 2^50 where float64 does not round their results.
Case makeBinary(Random &random) {
  static const char *ops[] = {"add", "sub", "mul", "div", "rem", "maximum", "minimum"};
  auto shape = drawShape(random, 0, 4, 6000);
  FunctionText f;
  std::string element = draw(random, 0, 2) ? "f32" : drawElement(random);
  std::string op = ops[draw(random, 0, 6)];
  auto right = thinned(random, shape);
  bool swap = draw(random, 0, 1), isDivision = op == "div" || op == "rem";
  int64_t size = op == "mul" || isDivision ? int64_t(1) << 25 : int64_t(1) << 50;
  auto make = [&](const std::vector<int64_t> &s, bool isDivisor) {
    Fill fill = element == "i64"  ? Fill::Ids
                : element == "i1" ? Fill::Bits
                : isDivisor       ? Fill::Positive
                                  : Fill::Wide;
    bool small = draw(random, 0, 1);
    return f.argument(tensorType(s, element), fill, small ? -4 : -size, small ? 5 : size);
  };
  std::string a = make(swap ? right : shape, false);
  std::string b = make(swap ? shape : right, isDivision);
  std::string r = f.op("graph." + op, {a, b}, {tensorType(shape, element)});
  Case result = f.finish("binary " + op, {r});
  // In place where an argument has the result's shape.
  if (draw(random, 0, 1))
    result.aliases[0] = swap ? 1 : 0;
  return result;
}

// Float bases are positive; UnitsInLastPlace.cpp has the others.
Case makePower(Random &random) {
  auto shape = drawShape(random, 0, 3, 3000);
  FunctionText f;
  std::string x = f.argument(tensorType(shape), Fill::Positive);
  std::string y = f.argument(tensorType(thinned(random, shape)));
  return f.finish("power", {f.op("graph.power", {x, y}, {tensorType(shape)})});
}

Case makeUnary(Random &random) {
  struct Op {
    const char *name, *attributes;
    Fill fill;
  };
  static const Op ops[] = {
      {"neg", "", Fill::Wide},
      {"exp", "", Fill::Wide},
      {"log", "", Fill::Positive},
      {"sqrt", "", Fill::Positive},
      {"rsqrt", "", Fill::Positive},
      {"tanh", "", Fill::Wide},
      {"erf", "", Fill::Wide},
      {"sigmoid", "", Fill::Wide},
      {"softplus", "", Fill::Wide},
      {"relu", "", Fill::Wide},
      {"gelu", "form = #graph.gelu_form<tanh>", Fill::Wide},
      {"gelu", "form = #graph.gelu_form<erf>", Fill::Wide},
      {"pow", "exponent = 2.0 : f64", Fill::Wide},
      {"pow", "exponent = 3.0 : f64", Fill::Wide},
      {"pow", "exponent = 0.5 : f64", Fill::Positive},
      {"pow", "exponent = -1.0 : f64", Fill::Positive},
      {"pow", "exponent = 1.7 : f64", Fill::Positive},
      {"sin", "", Fill::Wide},
      {"cos", "", Fill::Wide},
      {"floor", "", Fill::Wide},
      {"ceil", "", Fill::Wide},
      {"round", "", Fill::Wide},
      {"abs", "", Fill::Wide},
      {"sign", "", Fill::Wide},
      {"abs", "", Fill::Ids},
      {"sign", "", Fill::Ids},
      {"neg", "", Fill::Ids},
      {"sign", "", Fill::Bits},
      {"round", "", Fill::Infinite},
  };
  const Op &op = ops[draw(random, 0, std::size(ops) - 1)];
  auto type = tensorType(drawShape(random, 0, 4, 6000), op.fill == Fill::Ids    ? "i64"
                                                        : op.fill == Fill::Bits ? "i1"
                                                                                : "f32");
  FunctionText f;
  std::string r = f.op("graph." + std::string(op.name), {f.argument(type, op.fill, -3, 4)}, {type},
                       op.attributes);
  Case result = f.finish(std::string("unary ") + op.name, {r});
  if (std::string(op.name) == "gelu")
    result.floor = 0.05; // the lower tail is exact to 1e-4 of itself only
  result.aliases[0] = draw(random, 0, 1) - 1;
  return result;
}

Case makeGeluGrad(Random &random) {
  auto type = tensorType(drawShape(random, 1, 3, 6000));
  FunctionText f;
  std::string form = draw(random, 0, 1) ? "tanh" : "erf";
  std::string r = f.op("graph.gelu_grad", {f.argument(type, Fill::Wide), f.argument(type)}, {type},
                       "form = #graph.gelu_form<" + form + ">");
  Case result = f.finish("gelu_grad " + form, {r});
  result.tolerance = 2e-4; // a single element may lie near the zero of the derivative
  return result;
}

// Dropout by keys of rows, positions and elements that broadcast; some rows keep everything.
Case makeDropout(Random &random) {
  auto shape = drawShape(random, 2, 3, 3000);
  FunctionText f;
  std::vector<int64_t> rows(shape.size(), 1), positions(shape.size() - 1, 1);
  rows[0] = shape[0];
  positions[0] = shape[1];
  std::string type = tensorType(shape);
  auto numbers = [&](const std::vector<int64_t> &of, int64_t low, int64_t high) {
    return f.argument(tensorType(of, "i64"), Fill::Ids, low, high);
  };
  std::string x = f.argument(type);
  std::string key = numbers(rows, -(int64_t(1) << 51), int64_t(1) << 53), layer = numbers({}, 0, 100);
  std::string position = numbers(positions, 0, 100000), element = numbers({shape.back()}, 0, int64_t(1) << 32);
  std::string attributes = "rate = " + std::to_string(draw(random, 0, 9) / 10.0) +
                           " : f64, place = " + std::to_string(draw(random, 0, 3)) + " : i64";
  return f.finish("dropout", {f.op("graph.dropout", {x, key, layer, position, element}, {type}, attributes)});
}

// Comparisons, logic, select and casts in one group.
Case makeLogic(Random &random) {
  static const char *predicates[] = {"eq", "ne", "lt", "le", "gt", "ge"};
  auto shape = drawShape(random, 0, 3, 3000);
  FunctionText f;
  std::string element = drawElement(random), other = drawElement(random);
  Fill fill = element == "i64" ? Fill::Ids : element == "i1" ? Fill::Bits : Fill::Normal;
  std::string bits = tensorType(shape, "i1"), type = tensorType(shape, element);
  std::string x = f.argument(type, fill, -2, 3);
  std::string y = f.argument(tensorType(thinned(random, shape), element), fill, -2, 3);
  std::string z = f.argument(tensorType(thinned(random, shape), "i1"), Fill::Bits);
  std::string predicate = predicates[draw(random, 0, 5)];
  std::string c =
      f.op("graph.compare", {x, y}, {bits}, "predicate = #graph.predicate<" + predicate + ">");
  c = f.op(draw(random, 0, 1) ? "graph.and" : "graph.or", {c, z}, {bits});
  if (draw(random, 0, 1))
    c = f.op("graph.not", {c}, {bits});
  std::string chosen = f.op("graph.select", {c, x, y}, {type});
  std::string converted = f.op("graph.cast", {c}, {tensorType(shape, other)});
  std::string both =
      f.op("graph.select", {z, f.op("graph.cast", {chosen}, {f.typeOf(converted)}), converted},
           {f.typeOf(converted)});
  return f.finish("logic", {c, chosen, both});
}

Case makeCast(Random &random) {
  std::string from = drawElement(random), to = drawElement(random);
  auto shape = drawShape(random, 0, 3, 3000);
  FunctionText f;
  Fill fill = from == "i64"        ? Fill::Ids
              : from == "i1"       ? Fill::Bits
              : draw(random, 0, 1) ? Fill::Wide
                                   : Fill::Infinite;
  int64_t size = draw(random, 0, 1) ? 2 : int64_t(1) << 50;
  std::string x = f.argument(tensorType(shape, from), fill, -size, size);
  return f.finish("cast " + from + " " + to, {f.op("graph.cast", {x}, {tensorType(shape, to)})});
}

// A chain of elementwise ops over reads of several shapes.
Case makeChain(Random &random) {
  auto shape = drawShape(random, 1, 4, 6000);
  auto type = tensorType(shape);
  FunctionText f;
  std::vector<std::string> values{f.argument(type)};
  for (int64_t i = draw(random, 1, 3); i > 0; --i)
    values.push_back(f.argument(tensorType(thinned(random, shape))));
  std::string last = values[0];
  for (int64_t i = draw(random, 2, 6); i > 0; --i) {
    std::string other = values[draw(random, 0, values.size() - 1)];
    static const char *binary[] = {"add", "sub", "mul", "maximum"};
    static const char *unary[] = {"tanh", "sigmoid", "neg", "relu"};
    last = draw(random, 0, 2)
               ? f.op(std::string("graph.") + binary[draw(random, 0, 3)], {last, other}, {type})
               : f.op(std::string("graph.") + unary[draw(random, 0, 3)], {last}, {type});
    values.push_back(last);
  }
  std::string middle = values[values.size() - 2];
  std::vector<std::string> results{last};
  if (f.typeOf(middle) == type && middle[1] == 'v')
    results.push_back(middle);
  Case result = f.finish("chain", results);
  result.tolerance = 5e-5; // differences of products cancel
  result.floor = 1;
  result.aliases[0] = draw(random, 0, 1) - 1;
  return result;
}

Case makeAdamW(Random &random) {
  auto type = tensorType(drawShape(random, 1, 3, 6000));
  FunctionText f;
  std::vector<std::string> in;
  for (Fill fill : {Fill::Normal, Fill::Normal, Fill::Normal, Fill::Positive})
    in.push_back(f.argument(type, fill));
  for (int i = 0; i < 7; ++i) // the betas lie in (0, 1)
    in.push_back(f.argument("tensor<f32>", i == 1 || i == 2 ? Fill::Probability : Fill::Positive));
  std::string r = f.op("graph.adamw", in, {type, type, type},
                       draw(random, 0, 1) ? "decay = true" : "decay = false");
  Case result = f.finish("adamw", {r + "#0", r + "#1", r + "#2"});
  result.tolerance = 2e-5; // a step may cancel a parameter
  if (draw(random, 0, 1))
    result.aliases = {0, 2, 3};
  return result;
}

Case makeIndexed(Random &random) {
  auto shape = drawShape(random, 1, 3, 4000);
  int64_t dim = draw(random, 0, shape.size() - 1);
  FunctionText f;
  bool hasOffset = draw(random, 0, 1);
  int64_t kind = draw(random, 0, 2);
  std::string element = kind ? drawElement(random) : draw(random, 0, 1) ? "i64" : "f32";
  auto type = tensorType(shape, element);
  std::string attributes = "dim = " + std::to_string(dim) + " : i64";
  std::string r;
  std::vector<std::string> in;
  std::vector<int64_t> lead(shape.begin(), shape.end() - 1);
  if (kind == 1) {
    in.push_back(f.argument(shape, element));
    attributes += ", valid = " + std::to_string(draw(random, 0, shape[dim])) + " : i64, value = " +
                  (element == "f32"   ? "-3.5"
                   : element == "i64" ? "-3.0"
                                      : "1.0") +
                  " : f64";
  } else if (kind == 2) {
    in.push_back(f.argument(tensorType(lead, "i64"), Fill::Ids, -1, shape.back() + 2));
    in.push_back(f.argument(lead, element));
    attributes = "";
  }
  size_t first = f.arguments.size();
  bool isScalar = hasOffset && draw(random, 0, 1);
  if (hasOffset)
    in.push_back(f.argument("tensor<i64>", Fill::Ids, -2, 3));
  static const char *names[] = {"graph.iota", "graph.mask_tail", "graph.one_hot"};
  r = f.op(names[kind], in, {type}, attributes);
  Case result = f.finish(names[kind], {r});
  if (isScalar)
    result.scalarsFrom = first;
  return result;
}

Case makeTranspose(Random &random) {
  auto shape = drawShape(random, 1, 4, 5000);
  if (draw(random, 0, 2)) // whole squares of vectors
    shape = {draw(random, 1, 3), draw(random, 14, 70), draw(random, 14, 70)};
  std::vector<int64_t> permutation(shape.size()), to;
  for (size_t i = 0; i < shape.size(); ++i)
    permutation[i] = i;
  std::shuffle(permutation.begin(), permutation.end(), random);
  for (int64_t p : permutation)
    to.push_back(shape[p]);
  std::string element = drawElement(random);
  FunctionText f;
  std::string x = f.argument(shape, element);
  std::string r = f.op("graph.transpose", {x}, {tensorType(to, element)},
                       "permutation = " + i64Array(permutation));
  if (element == "f32" && draw(random, 0, 1)) // read through the transpose by a consumer
    r = f.op("graph.add", {r, f.argument(tensorType(to))}, {tensorType(to)});
  return f.finish("transpose", {r});
}

Case makeBroadcast(Random &random) {
  auto shape = drawShape(random, 1, 4, 5000);
  FunctionText f;
  std::string element = drawElement(random);
  std::string x = f.argument(thinned(random, shape), element);
  return f.finish("broadcast", {f.op("graph.broadcast", {x}, {tensorType(shape, element)})});
}

Case makeSlice(Random &random) {
  auto shape = drawShape(random, 1, 4, 5000);
  std::vector<int64_t> starts, limits, steps, to;
  for (int64_t size : shape) {
    bool whole = draw(random, 0, 1);
    int64_t start = whole ? 0 : draw(random, 0, size - 1);
    int64_t limit = whole ? size : draw(random, start + 1, size);
    int64_t step = draw(random, 0, 2) ? 1 : draw(random, 1, 3);
    starts.push_back(start), limits.push_back(limit), steps.push_back(step);
    to.push_back((limit - start + step - 1) / step);
  }
  FunctionText f;
  std::string element = drawElement(random);
  std::string r = f.op("graph.slice", {f.argument(shape, element)}, {tensorType(to, element)},
                       "starts = " + i64Array(starts) + ", limits = " + i64Array(limits) +
                           ", steps = " + i64Array(steps));
  return f.finish("slice", {r});
}

Case makePad(Random &random) {
  auto shape = drawShape(random, 1, 4, 1500);
  std::vector<int64_t> low, high, interior, to;
  for (int64_t size : shape) {
    bool none = draw(random, 0, 1);
    low.push_back(none ? 0 : draw(random, 0, 3));
    high.push_back(none ? 0 : draw(random, 0, 3));
    interior.push_back(draw(random, 0, 2) ? 0 : draw(random, 0, 2));
    to.push_back(low.back() + high.back() + size + (size - 1) * interior.back());
  }
  FunctionText f;
  std::string element = drawElement(random);
  std::string r = f.op("graph.pad", {f.argument(shape, element)}, {tensorType(to, element)},
                       "low = " + i64Array(low) + ", high = " + i64Array(high) +
                           ", interior = " + i64Array(interior));
  return f.finish("pad", {r});
}

Case makeConcat(Random &random) {
  auto shape = drawShape(random, 1, 4, 1500);
  int64_t dim = draw(random, 0, shape.size() - 1), total = 0;
  FunctionText f;
  std::string element = drawElement(random);
  std::vector<std::string> in;
  for (int64_t i = draw(random, 1, 4); i > 0; --i) {
    auto part = shape;
    part[dim] = draw(random, 0, 9); // an operand may be empty
    total += part[dim];
    in.push_back(f.argument(part, element));
  }
  shape[dim] = total;
  std::string r = f.op("graph.concat", in, {tensorType(shape, element)},
                       "dim = " + std::to_string(dim) + " : i64");
  return f.finish("concat", {r});
}

Case makeReshape(Random &random) {
  auto shape = drawShape(random, 1, 3, 2000);
  int64_t count = 1;
  for (int64_t size : shape)
    count *= size;
  FunctionText f;
  std::string element = drawElement(random);
  return f.finish("reshape", {f.op("graph.reshape", {f.argument(shape, element)},
                                   {tensorType({count}, element)})});
}

Case makeConstant(Random &random) {
  int64_t n = draw(random, 1, 40), rows = draw(random, 1, 20);
  std::string element = drawElement(random), type = tensorType({n}, element), values;
  auto number = [&] {
    if (element == "i1")
      return std::string(draw(random, 0, 1) ? "true" : "false");
    return std::to_string(draw(random, -100, 100)) + (element == "f32" ? ".5" : "");
  };
  for (int64_t i = 0; i < n; ++i)
    values += (i ? ", " : "") + number();
  bool isSplat = draw(random, 0, 2) == 0;
  FunctionText f;
  std::string c = f.op("graph.constant", {}, {type}, "",
                       "dense<" + (isSplat ? number() : "[" + values + "]") + "> : " + type);
  if (draw(random, 0, 1))
    return f.finish("constant", {c});
  std::string x = f.argument({rows, n}, element);
  return f.finish("constant add", {f.op("graph.add", {x, c}, {tensorType({rows, n}, element)})});
}

} // namespace llmc::test
