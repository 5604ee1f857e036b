// Rows of every length up to a few vectors, beginning at every place of one, as threads walk
// them; rows that several blocks share; sums of everything.
#include "KernelTest.h"

#include "Runner.h"
#include <cstdio>

namespace llmc::test {

namespace {

constexpr int64_t kRows = 5; // so that each begins elsewhere
constexpr const char *kSum = "kind = #graph.reduce_kind<sum>, dims = array<i64: 1>";

std::string sliceOf(int64_t offset, int64_t size) {
  return "starts = " + i64Array({0, offset}) + ", limits = " + i64Array({kRows, offset + size}) +
         ", steps = array<i64: 1, 1>";
}

// An array that holds the row; results over an argument.
Case softmax(int64_t n) {
  FunctionText f;
  std::string type = tensorType({kRows, n}), x = f.argument(type);
  std::string p = f.op("graph.mul", {x, f.argument(tensorType({n}))}, {type});
  Case made = f.finish("edge softmax", {f.op("graph.softmax", {p}, {type})});
  made.aliases = {0};
  return made;
}

Case norm(int64_t n) {
  FunctionText f;
  std::string type = tensorType({kRows, n}), vector = tensorType({n}), rows = tensorType({kRows});
  std::string y = f.op("graph.layer_norm", {f.argument(type), f.argument(vector), f.argument(vector)},
                       {type, rows, rows}, "eps = 1.0e-1 : f64");
  return f.finish("edge norm", {y + "#0", y + "#2"});
}

// The gradient of a loss over words: ids of a row, and sums over columns.
Case loss(int64_t n, int64_t parts) {
  FunctionText f;
  std::string type = tensorType({parts, kRows, n}), one = tensorType({parts, kRows, 1});
  std::string x = f.argument(type), shift = f.argument(one);
  std::string ids = f.argument(tensorType({parts, kRows}, "i64"), Fill::Ids, -1, n + 1);
  std::string p = f.op("graph.exp", {f.op("graph.sub", {x, shift}, {type})}, {type});
  std::string hot = f.op("graph.one_hot", {ids, f.argument(tensorType({parts, kRows}))}, {type});
  std::string g = f.op("graph.sub", {p, hot}, {type});
  std::string sum = f.op("graph.reduce", {g}, {tensorType({parts, n})}, kSum);
  return f.finish("edge loss", {g, sum});
}

// Operands that begin at different places of a vector; integers and bits with them.
Case slices(int64_t n, int64_t offset) {
  FunctionText f;
  std::string type = tensorType({kRows, n});
  std::string x = f.argument(tensorType({kRows, n + 3}));
  std::string part = f.op("graph.slice", {x}, {type}, sliceOf(offset, n));
  std::string mask = f.argument(tensorType({kRows, n}, "i1"), Fill::Bits);
  std::string y = f.op("graph.select", {mask, part, f.argument(type)}, {type});
  std::string words = f.argument(tensorType({kRows, n + 3}, "i64"), Fill::Ids, -9, 9);
  std::string some = f.op("graph.slice", {words}, {tensorType({kRows, n}, "i64")},
                          sliceOf(3 - offset, n));
  std::string more = f.op("graph.cast", {some}, {type});
  return f.finish("edge slices",
                  {f.op("graph.add", {y, more}, {type}),
                   f.op("graph.add", {some, some}, {tensorType({kRows, n}, "i64")})});
}

// Each element of a row read by itself.
Case crossed(int64_t n) {
  FunctionText f;
  std::string type = tensorType({kRows, n});
  std::string x = f.argument(tensorType({n, kRows}));
  std::string bits = f.argument(tensorType({n, kRows}, "i1"), Fill::Bits);
  std::string turn = "permutation = array<i64: 1, 0>";
  std::string t = f.op("graph.transpose", {x}, {type}, turn);
  std::string b = f.op("graph.transpose", {bits}, {tensorType({kRows, n}, "i1")}, turn);
  std::string y = f.op("graph.select", {b, t, f.argument(type)}, {type});
  return f.finish("edge crossed", {y, f.op("graph.reduce", {y}, {tensorType({kRows})}, kSum)});
}

Case concat(int64_t n) {
  FunctionText f;
  std::string x = f.argument(tensorType({kRows, n})), y = f.argument(tensorType({kRows, 3}));
  return f.finish("edge concat", {f.op("graph.concat", {x, y}, {tensorType({kRows, n + 3})},
                                       "dim = 1 : i64")});
}

Case wide(const std::vector<int64_t> &shape, const char *kind) {
  FunctionText f;
  std::string type = tensorType(shape), x = f.argument(type);
  std::string y = f.op("graph.tanh", {x}, {type});
  std::string sum = f.op("graph.reduce", {y}, {tensorType({shape.front(), shape.back()})},
                         "kind = #graph.reduce_kind<" + std::string(kind) +
                             ">, dims = array<i64: 1>");
  std::string square = f.op("graph.reduce", {x}, {tensorType({shape.front(), shape.back()})},
                            "kind = #graph.reduce_kind<sum_squares>, dims = array<i64: 1>");
  return f.finish("edge wide", {y, sum, square});
}

Case everything(int64_t n, const char *kind, const std::string &element) {
  FunctionText f;
  std::string scalar = tensorType({}, element);
  std::string x = f.argument({n}, element);
  std::string sum = f.op("graph.reduce", {x}, {scalar},
                         "kind = #graph.reduce_kind<" + std::string(kind) + ">, dims = array<i64: 0>");
  return f.finish("edge everything", {f.op("graph.add", {sum, f.argument({}, element)}, {scalar})});
}

TEST_P(KernelTest, Edges) {
  constexpr int64_t kLongest = 67;
  Random random(7);
  std::vector<Case> cases;
  for (int64_t n = 1; n <= kLongest; ++n) {
    cases.insert(cases.end(), {softmax(n), norm(n), loss(n, 2), crossed(n), concat(n)});
    for (int64_t offset = 0; offset < 4; ++offset)
      cases.push_back(slices(n, offset));
  }
  for (int64_t n : {1020, 1023, 1025, 1026, 2041, 2044, 5003})
    cases.insert(cases.end(), {softmax(n), norm(n), loss(n, 3), wide({2, 7, n}, "sum"),
                               wide({3, 2, n}, "max")});
  for (int64_t n : {1, 3, 4, 7, 1023, 2048, 4099, 30007})
    for (const char *kind : {"sum", "max", "sum_squares"})
      for (const char *element : {"f32", "i64", "i1"})
        cases.push_back(everything(n, kind, element));
  constexpr size_t kAtOnce = 64;
  double worst = 0;
  for (size_t first = 0; first < cases.size(); first += kAtOnce) {
    std::vector<Case> some(cases.begin() + first,
                           cases.begin() + std::min(first + kAtOnce, cases.size()));
    auto outcomes = runCases(context(), *GetParam(), some, random);
    for (size_t i = 0; i < some.size(); ++i) {
      worst = std::max(worst, outcomes[i].error);
      EXPECT_TRUE(outcomes[i].problem.empty())
          << some[i].name << ": " << outcomes[i].problem << "\n"
          << some[i].text;
    }
  }
  std::printf("%-7s %-24s worst error %.2e\n", GetParam()->name.data(), "edges", worst);
}

} // namespace
} // namespace llmc::test
