// Cases of groups as FuseKernels makes them: expressions, what reduces their rows,
// what follows, and sums over columns.
#include "Generators.h"

#include <algorithm>

namespace llmc::test {

namespace {

struct RowGroup {
  Random &random;
  FunctionText f;
  std::vector<int64_t> shape;
  std::string type, rows, column, vector;
  std::vector<std::string> full, results; // values of the whole space; what is written
  std::vector<int> aliases;

  explicit RowGroup(Random &random) : random(random) {
    shape = drawShape(random, 1, 3, 600);
    if (draw(random, 0, 1)) // [P, R, C], some of them with more dims to sum over
      shape = {draw(random, 1, 5), draw(random, 1, 7)};
    shape.push_back(draw(random, 0, 3) ? draw(random, 2, 90) : draw(random, 1, 3));
    type = tensorType(shape);
    vector = tensorType({shape.back()});
    rows = tensorType({shape.begin(), shape.end() - 1});
    auto one = shape;
    one.back() = 1;
    column = tensorType(one);
  }

  std::string any() { return full[draw(random, 0, full.size() - 1)]; }

  void expression() {
    static const char *binary[] = {"add", "sub", "mul"}, *unary[] = {"tanh", "neg", "sigmoid", "gelu"};
    if (draw(random, 0, 2) == 0) {
      int64_t kind = draw(random, 0, 3);
      full.push_back(f.op(std::string("graph.") + unary[kind], {any()}, {type},
                          kind == 3 ? "form = #graph.gelu_form<tanh>" : ""));
      return;
    }
    std::string other = draw(random, 0, 2) == 0   ? f.argument(vector)
                        : draw(random, 0, 2) == 0 ? f.argument(column)
                                                  : any();
    full.push_back(
        f.op(std::string("graph.") + binary[draw(random, 0, 2)], {any(), other}, {type}));
  }

  // A value of a row, as a result and as something that elements read.
  void row(const std::string &value) {
    std::string more = draw(random, 0, 1) ? f.op("graph.tanh", {value}, {rows}) : value;
    if (draw(random, 0, 1)) {
      results.push_back(more);
      aliases.push_back(-1);
    }
    std::string again = f.op("graph.reshape", {more}, {column});
    full.push_back(f.op("graph.sub", {any(), again}, {type}));
  }

  void hero() {
    std::string last = "dims = " + i64Array({int64_t(shape.size()) - 1});
    switch (draw(random, 0, 4)) {
    case 0:
      row(f.op("graph.reduce", {any()}, {rows}, "kind = #graph.reduce_kind<sum>, " + last));
      return;
    case 1:
      row(f.op("graph.reduce", {any()}, {rows}, "kind = #graph.reduce_kind<max>, " + last));
      return;
    case 2: {
      std::string norm = f.op("graph.rms_norm", {any(), f.argument(vector)}, {type, rows},
                              "eps = 1.0e-1 : f64");
      full.push_back(norm + "#0");
      return row(norm + "#1");
    }
    case 3: {
      std::string norm = f.op("graph.layer_norm", {any(), f.argument(vector), f.argument(vector)},
                              {type, rows, rows}, "eps = 1.0e-1 : f64");
      full.push_back(norm + "#0");
      return row(norm + "#2");
    }
    default: {
      std::string mean = f.argument(rows), rstd = f.argument(rows, Fill::Positive);
      full.push_back(f.op("graph.layer_norm_grad", {any(), any(), f.argument(vector), mean, rstd},
                          {type}));
    }
    }
  }

  void columnSum() {
    std::vector<int64_t> dims;
    for (size_t d = 1; d + 1 < shape.size(); ++d)
      dims.push_back(d);
    std::string kind = draw(random, 0, 3) ? "sum" : draw(random, 0, 1) ? "max" : "sum_squares";
    results.push_back(f.op("graph.reduce", {any()}, {tensorType({shape[0], shape.back()})},
                           "kind = #graph.reduce_kind<" + kind + ">, dims = " + i64Array(dims)));
    aliases.push_back(-1);
  }
};

} // namespace

Case makeRowGroup(Random &random) {
  RowGroup g(random);
  int64_t arguments = draw(random, 1, 3);
  for (int64_t i = 0; i < arguments; ++i)
    g.full.push_back(g.f.argument(g.type));
  for (int64_t i = draw(random, 0, 3); i > 0; --i)
    g.expression();
  for (int64_t i = draw(random, 1, 2); i > 0; --i)
    g.hero();
  for (int64_t i = draw(random, 0, 2); i > 0; --i)
    g.expression();
  // A value that is computed and read whole may be written over an argument.
  std::vector<int64_t> targets;
  for (int64_t i = 0; i < arguments; ++i)
    targets.push_back(i);
  std::shuffle(targets.begin(), targets.end(), random);
  std::vector<std::string> computed(g.full.begin() + arguments, g.full.end());
  std::shuffle(computed.begin(), computed.end(), random);
  computed.resize(std::min<size_t>(computed.size(), draw(random, g.results.empty(), 3)));
  for (const std::string &value : computed) {
    g.results.push_back(value);
    bool inPlace = !targets.empty() && draw(random, 0, 1);
    g.aliases.push_back(inPlace ? targets.back() : -1);
    if (inPlace)
      targets.pop_back();
  }
  if (g.shape.size() >= 3)
    for (int64_t i = draw(random, 0, 3); i > 0; --i)
      g.columnSum();
  if (g.results.empty()) {
    g.results.push_back(g.full.back());
    g.aliases.push_back(-1);
  }
  Case result = g.f.finish("row group", g.results);
  result.aliases = g.aliases;
  result.tolerance = 2e-5; // roundings of one reduction go through another
  result.floor = 1e-1;
  return result;
}

} // namespace llmc::test
