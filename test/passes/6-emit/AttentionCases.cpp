// Cases of attention and of rotary positions.
#include "Generators.h"

#include <cmath>

namespace llmc::test {

namespace {

// Sizes and rules of one attention, and its mask.
struct Attention {
  int64_t batch, rows, heads, keys, kvHeads, dim;
  std::string attributes, maskType;
  Fill maskFill = Fill::Shown;
  bool drops = false, hasPositions = false;

  explicit Attention(Random &random);
  std::string q() const { return tensorType({batch, rows, heads, dim}); }
  std::string k() const { return tensorType({batch, keys, kvHeads, dim}); }
  std::string lse() const { return tensorType({batch, rows, heads}); }
  // Adds the mask, the positions, in any order, and the draws of dropout; some rows' keys are negative.
  void addFurther(FunctionText &f, std::vector<std::string> &in) const {
    if (!maskType.empty())
      in.push_back(f.argument(maskType, maskFill));
    if (hasPositions)
      for (int64_t size : {rows, keys})
        in.push_back(f.argument(tensorType({size}, "i64"), Fill::Ids, 0, 2 * std::max(rows, keys)));
    if (!drops)
      return;
    in.push_back(f.argument(tensorType({batch}, "i64"), Fill::Ids, -4, int64_t(1) << 53));
    for (const std::vector<int64_t> &shape : std::vector<std::vector<int64_t>>{{}, {rows}, {heads}, {keys}})
      in.push_back(f.argument(tensorType(shape, "i64"), Fill::Ids, 0, 100000));
  }
};

} // namespace

Attention::Attention(Random &random) {
  // Mostly small; else about the sizes of panels, chunks and blocks of keys.
  auto size = [&]() -> int64_t {
    if (draw(random, 0, 3))
      return draw(random, 1, 20);
    static constexpr int64_t blocks[] = {16, 32, 48, 64, 96, 128};
    return draw(random, 0, 1) ? draw(random, 60, 150)
                              : blocks[draw(random, 0, 5)] + draw(random, -1, 1);
  };
  batch = draw(random, 1, 3), kvHeads = draw(random, 1, 3), heads = kvHeads * draw(random, 1, 3);
  rows = size();
  static constexpr int64_t dims[] = {16, 40, 64, 72, 80, 96, 128, 130};
  dim = draw(random, 0, 1) ? dims[draw(random, 0, 7)] : draw(random, 1, 40);
  bool causal = draw(random, 0, 2);
  keys = draw(random, 0, 2) ? rows : size();
  // Scores of both signs and of size 1.
  attributes = "scale = " + std::to_string(draw(random, 1, 4) / (2 * std::sqrt(double(dim)))) +
               " : f64, causal = " + (causal ? "true" : "false");
  if (causal && draw(random, 0, 1))
    attributes += ", offset = " + std::to_string(draw(random, 0, keys + 3)) + " : i64";
  if (causal && draw(random, 0, 1))
    attributes += ", window = " + std::to_string(draw(random, 1, keys + 3)) + " : i64";
  if (draw(random, 0, 2) == 0)
    attributes += ", softcap = " + std::to_string(draw(random, 1, 40) / 8.0) + " : f64";
  hasPositions = causal && draw(random, 0, 2) == 0;
  drops = draw(random, 0, 1);
  if (drops)
    attributes += ", dropout = " + std::to_string(draw(random, 1, 9) / 10.0) + " : f64, place = " +
                  std::to_string(draw(random, 0, 3)) + " : i64";
  if (draw(random, 0, 1))
    return;
  bool isFloat = draw(random, 0, 1);
  auto orOne = [&](int64_t size) { return draw(random, 0, 1) ? size : 1; };
  maskType = tensorType({orOne(batch), orOne(heads), orOne(rows), keys}, isFloat ? "f32" : "i1");
  if (isFloat)
    maskFill = Fill::Infinite;
}

Case makeAttention(Random &random) {
  Attention t(random);
  FunctionText f;
  std::vector<std::string> in{f.argument(t.q()), f.argument(t.k()), f.argument(t.k())};
  t.addFurther(f, in);
  std::string r = f.op("graph.attention", in, {t.q(), t.lse()}, t.attributes);
  Case result = f.finish("attention", {r + "#0", r + "#1"});
  result.tolerance = 2e-5; // a weighted mean of values of both signs may be small
  return result;
}

Case makeAttentionGrad(Random &random) {
  Attention t(random);
  FunctionText f;
  std::vector<std::string> in{f.argument(t.q()), f.argument(t.q()), f.argument(t.k()),
                              f.argument(t.k()), f.argument(t.q())};
  // Some rows saw nothing.
  in.push_back(f.argument(t.lse(), t.maskType.empty() ? Fill::Positive : Fill::Infinite));
  t.addFurther(f, in);
  std::string r = f.op("graph.attention_grad", in, {t.q(), t.k(), t.k()}, t.attributes);
  Case result = f.finish("attention_grad", {r + "#0", r + "#1", r + "#2"});
  result.tolerance = 1e-5; // exp(s - lse) of a random lse is no probability and may be large
  result.floor = 1;        // of one key alone dp - delta may be small
  return result;
}

Case makeRotary(Random &random) {
  int64_t batch = draw(random, 1, 3), rows = draw(random, 1, 20), heads = draw(random, 1, 4);
  int64_t half = draw(random, 0, 1) ? draw(random, 1, 40) : 8 * draw(random, 1, 4);
  int64_t dim = 2 * half + (draw(random, 0, 1) ? draw(random, 0, 20) : 0);
  auto type = tensorType({batch, rows, heads, dim});
  auto table = tensorType({draw(random, 0, 1) ? batch : 1, rows, half});
  FunctionText f;
  std::string attributes = draw(random, 0, 1) ? "interleaved" : "";
  if (draw(random, 0, 1))
    attributes += attributes.empty() ? "inverse" : ", inverse";
  std::string x = f.argument(type), c = f.argument(table), s = f.argument(table);
  Case result = f.finish("rotary", {f.op("graph.rotary", {x, c, s}, {type}, attributes)});
  result.aliases[0] = draw(random, 0, 1) - 1;
  return result;
}

} // namespace llmc::test
