// Values against independent formulas: loops written out here, or the same
// function composed of simpler ops.
#include "Formulas.h"
#include "test/support/Names.h"

#include "mlir/Parser/Parser.h"

#include <cmath>
#include <limits>

using namespace mlir;

namespace llmc::graph::test {

static void check(Random &random, MLIRContext *context, const Formula &formula) {
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(formula.mlir, context);
  EXPECT_TRUE(module && true) << std::string(formula.name) + " parses";
  if (!module)
    return;
  std::vector<Tensor> inputs;
  for (const Argument &argument : formula.arguments)
    inputs.push_back(drawTensor(random, argument, inputs.size()));
  std::vector<Tensor> got = run(formula.name, module->lookupSymbol<func::FuncOp>("f"), inputs);
  std::vector<Tensor> want;
  if (auto other = module->lookupSymbol<func::FuncOp>("g"))
    want = run(formula.name, other, inputs);
  if (formula.want && !got.empty()) {
    want.push_back(Tensor(got[0].shape));
    want[0].data = formula.want(inputs);
    got.resize(1);
  }
  EXPECT_TRUE(!want.empty() && want.size() == got.size())
      << std::string(formula.name) + " compares";
  for (size_t i = 0; i < std::min(want.size(), got.size()); ++i)
    expectClose(formula.name, got[i], want[i], 1e-12);
}

static std::vector<double> each(const Tensor &x, double (*f)(double)) {
  std::vector<double> y;
  for (double value : x.data)
    y.push_back(f(value));
  return y;
}

static std::vector<Formula> elementwiseFormulas() {
  std::vector<Formula> all;
  Argument any{Argument::Any, {7}}, positive{Argument::Positive, {7}};
#define UNARY(OP, ATTRIBUTES, ARGUMENT, VALUE)                                                     \
  all.push_back({OP, {ARGUMENT},                                                                   \
                 "func.func @f(%x: tensor<7xf64>) -> tensor<7xf64> { %y = graph." OP " %x "        \
                 ATTRIBUTES " : (tensor<7xf64>) -> tensor<7xf64>\n return %y : tensor<7xf64> }",   \
                 [](ArrayRef<Tensor> in) {                                                         \
                   return each(in[0], [](double x) -> double { return VALUE; });                   \
                 }})
  UNARY("neg", "", any, -x);
  UNARY("exp", "", any, std::exp(x));
  UNARY("log", "", positive, std::log(x));
  UNARY("sqrt", "", positive, std::sqrt(x));
  UNARY("rsqrt", "", positive, std::pow(x, -0.5));
  UNARY("tanh", "", any, (std::exp(2 * x) - 1) / (std::exp(2 * x) + 1));
  UNARY("erf", "", any, std::erf(x));
  UNARY("sigmoid", "", any, std::exp(x) / (1 + std::exp(x)));
  UNARY("softplus", "", any, std::log(1 + std::exp(x)));
  UNARY("relu", "", any, (x + std::abs(x)) / 2);
  UNARY("abs", "", any, std::sqrt(x * x));
  UNARY("sign", "", any, x < 0 ? -1 : 1);
  UNARY("sin", "", any, std::cos(x - M_PI / 2));
  UNARY("cos", "", any, std::sin(x + M_PI / 2));
  UNARY("floor", "", any, x - std::fmod(std::fmod(x, 1) + 1, 1));
  UNARY("ceil", "", any, x + std::fmod(1 - std::fmod(x, 1), 1));
  UNARY("pow", "{exponent = 3.0}", any, x * x * x);
  UNARY("gelu", "{form = #graph.gelu_form<erf>}", any, x * 0.5 * std::erfc(-x / std::sqrt(2.0)));
  UNARY("gelu", "{form = #graph.gelu_form<tanh>}", any,
        0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * std::pow(x, 3)))));
#undef UNARY
  return all;
}

static std::vector<Formula> rowFormulas() {
  Argument x{Argument::Any, {2, 3}};
  return {
      {"max", {x}, R"(func.func @f(%x: tensor<2x3xf64>) -> tensor<2xf64> {
          %y = graph.reduce %x {kind = #graph.reduce_kind<max>, dims = array<i64: 1>} : (tensor<2x3xf64>) -> tensor<2xf64>
          return %y : tensor<2xf64> })",
       [](ArrayRef<Tensor> in) {
         const auto &d = in[0].data;
         return std::vector{std::max({d[0], d[1], d[2]}), std::max({d[3], d[4], d[5]})};
       }},
      {"sum of squares", {x}, R"(func.func @f(%x: tensor<2x3xf64>) -> tensor<3xf64> {
          %y = graph.reduce %x {kind = #graph.reduce_kind<sum_squares>, dims = array<i64: 0>} : (tensor<2x3xf64>) -> tensor<3xf64>
          return %y : tensor<3xf64> })",
       [](ArrayRef<Tensor> in) {
         const auto &d = in[0].data;
         return std::vector{d[0] * d[0] + d[3] * d[3], d[1] * d[1] + d[4] * d[4],
                            d[2] * d[2] + d[5] * d[5]};
       }},
      {"masked softmax", {}, R"(func.func @f() -> tensor<2x2xf64> {
          %x = graph.constant dense<[[0.0, 0xFFF0000000000000], [0xFFF0000000000000, 0xFFF0000000000000]]> : tensor<2x2xf64>
          %y = graph.softmax %x : (tensor<2x2xf64>) -> tensor<2x2xf64>
          return %y : tensor<2x2xf64> })",
       [](ArrayRef<Tensor>) { return std::vector{1.0, 0.0, 0.0, 0.0}; }},
      {"softmax", {x}, R"(
        func.func @f(%x: tensor<2x3xf64>) -> tensor<2x3xf64> {
          %y = graph.softmax %x : (tensor<2x3xf64>) -> tensor<2x3xf64>
          return %y : tensor<2x3xf64> }
        func.func @g(%x: tensor<2x3xf64>) -> tensor<2x3xf64> {
          %e = graph.exp %x : (tensor<2x3xf64>) -> tensor<2x3xf64>
          %s = graph.reduce %e {kind = #graph.reduce_kind<sum>, dims = array<i64: 1>} : (tensor<2x3xf64>) -> tensor<2xf64>
          %k = graph.reshape %s : (tensor<2xf64>) -> tensor<2x1xf64>
          %y = graph.div %e, %k : (tensor<2x3xf64>, tensor<2x1xf64>) -> tensor<2x3xf64>
          return %y : tensor<2x3xf64> })", nullptr},
      {"layer_norm", {x, {Argument::Any, {3}}, {Argument::Any, {3}}}, R"(
        func.func @f(%x: tensor<2x3xf64>, %w: tensor<3xf64>, %b: tensor<3xf64>) -> tensor<2x3xf64> {
          %y, %m, %r = graph.layer_norm %x, %w, %b {eps = 1.0e-2} : (tensor<2x3xf64>, tensor<3xf64>, tensor<3xf64>) -> (tensor<2x3xf64>, tensor<2xf64>, tensor<2xf64>)
          return %y : tensor<2x3xf64> }
        func.func @g(%x: tensor<2x3xf64>, %w: tensor<3xf64>, %b: tensor<3xf64>) -> tensor<2x3xf64> {
          %n = graph.constant dense<3.0> : tensor<f64>
          %e = graph.constant dense<1.0e-2> : tensor<f64>
          %s = graph.reduce %x {kind = #graph.reduce_kind<sum>, dims = array<i64: 1>} : (tensor<2x3xf64>) -> tensor<2xf64>
          %m = graph.div %s, %n : (tensor<2xf64>, tensor<f64>) -> tensor<2xf64>
          %k = graph.reshape %m : (tensor<2xf64>) -> tensor<2x1xf64>
          %c = graph.sub %x, %k : (tensor<2x3xf64>, tensor<2x1xf64>) -> tensor<2x3xf64>
          %q = graph.reduce %c {kind = #graph.reduce_kind<sum_squares>, dims = array<i64: 1>} : (tensor<2x3xf64>) -> tensor<2xf64>
          %v = graph.div %q, %n : (tensor<2xf64>, tensor<f64>) -> tensor<2xf64>
          %a = graph.add %v, %e : (tensor<2xf64>, tensor<f64>) -> tensor<2xf64>
          %r = graph.rsqrt %a : (tensor<2xf64>) -> tensor<2xf64>
          %l = graph.reshape %r : (tensor<2xf64>) -> tensor<2x1xf64>
          %h = graph.mul %c, %l : (tensor<2x3xf64>, tensor<2x1xf64>) -> tensor<2x3xf64>
          %t = graph.mul %h, %w : (tensor<2x3xf64>, tensor<3xf64>) -> tensor<2x3xf64>
          %y = graph.add %t, %b : (tensor<2x3xf64>, tensor<3xf64>) -> tensor<2x3xf64>
          return %y : tensor<2x3xf64> })", nullptr}};
}

static std::vector<Formula> movementFormulas() {
  Argument x{Argument::Any, {2, 3}};
  return {
      {"transpose", {x}, R"(func.func @f(%x: tensor<2x3xf64>) -> tensor<3x2xf64> {
          %y = graph.transpose %x {permutation = array<i64: 1, 0>} : (tensor<2x3xf64>) -> tensor<3x2xf64>
          return %y : tensor<3x2xf64> })",
       [](ArrayRef<Tensor> in) {
         const auto &d = in[0].data;
         return std::vector{d[0], d[3], d[1], d[4], d[2], d[5]};
       }},
      {"slice", {x}, R"(func.func @f(%x: tensor<2x3xf64>) -> tensor<1x2xf64> {
          %y = graph.slice %x {starts = array<i64: 1, 0>, limits = array<i64: 2, 3>, steps = array<i64: 1, 2>} : (tensor<2x3xf64>) -> tensor<1x2xf64>
          return %y : tensor<1x2xf64> })",
       [](ArrayRef<Tensor> in) { return std::vector{in[0].data[3], in[0].data[5]}; }},
      {"pad", {x}, R"(func.func @f(%x: tensor<2x3xf64>) -> tensor<3x6xf64> {
          %y = graph.pad %x {low = array<i64: 1, 0>, high = array<i64: 0, 1>, interior = array<i64: 0, 1>} : (tensor<2x3xf64>) -> tensor<3x6xf64>
          return %y : tensor<3x6xf64> })",
       [](ArrayRef<Tensor> in) {
         const auto &d = in[0].data;
         return std::vector{0.,   0., 0.,   0., 0.,   0., d[0], 0., d[1],
                            0., d[2], 0., d[3], 0., d[4], 0., d[5], 0.};
       }},
      {"concat", {x, {Argument::Any, {2, 1}}}, R"(func.func @f(%x: tensor<2x3xf64>, %z: tensor<2x1xf64>) -> tensor<2x4xf64> {
          %y = graph.concat %x, %z {dim = 1} : (tensor<2x3xf64>, tensor<2x1xf64>) -> tensor<2x4xf64>
          return %y : tensor<2x4xf64> })",
       [](ArrayRef<Tensor> in) {
         const auto &d = in[0].data, &z = in[1].data;
         return std::vector{d[0], d[1], d[2], z[0], d[3], d[4], d[5], z[1]};
       }},
      {"iota", {}, R"(func.func @f() -> tensor<2x2xi64> {
          %o = graph.constant dense<5> : tensor<i64>
          %y = graph.iota %o {dim = 1} : (tensor<i64>) -> tensor<2x2xi64>
          return %y : tensor<2x2xi64> })",
       [](ArrayRef<Tensor>) { return std::vector{5., 6., 5., 6.}; }},
      {"integers and casts", {}, R"(func.func @f() -> tensor<4xi64> {
          %a = graph.constant dense<[7, -7, 100, -100]> : tensor<4xi64>
          %b = graph.constant dense<2> : tensor<i64>
          %q = graph.div %a, %b : (tensor<4xi64>, tensor<i64>) -> tensor<4xi64>
          %f = graph.cast %q : (tensor<4xi64>) -> tensor<4xf64>
          %h = graph.constant dense<0.75> : tensor<f64>
          %s = graph.mul %f, %h : (tensor<4xf64>, tensor<f64>) -> tensor<4xf64>
          %i = graph.cast %s : (tensor<4xf64>) -> tensor<4xi64>
          %t = graph.constant dense<[true, false, true, true]> : tensor<4xi1>
          %m = graph.cast %t : (tensor<4xi1>) -> tensor<4xi64>
          %y = graph.mul %i, %m : (tensor<4xi64>, tensor<4xi64>) -> tensor<4xi64>
          return %y : tensor<4xi64> })",
       [](ArrayRef<Tensor>) { return std::vector{2., 0., 37., -37.}; }}};
}

static std::vector<Formula> indexFormulas() {
  Argument table{Argument::Any, {2, 2}}, rows{Argument::Any, {3, 2}};
  return {
      {"gather", {table}, R"(func.func @f(%x: tensor<2x2xf64>) -> tensor<4x2xf64> {
          %i = graph.constant dense<[11, 10, 9, -100]> : tensor<4xi64>
          %o = graph.constant dense<10> : tensor<i64>
          %y = graph.gather %x, %i, %o : (tensor<2x2xf64>, tensor<4xi64>, tensor<i64>) -> tensor<4x2xf64>
          return %y : tensor<4x2xf64> })",
       [](ArrayRef<Tensor> in) {
         const auto &d = in[0].data;
         return std::vector{d[2], d[3], d[0], d[1], 0., 0., 0., 0.};
       }},
      {"scatter_add", {rows}, R"(func.func @f(%x: tensor<3x2xf64>) -> tensor<2x2xf64> {
          %i = graph.constant dense<[1, 1, 2]> : tensor<3xi64>
          %y = graph.scatter_add %i, %x : (tensor<3xi64>, tensor<3x2xf64>) -> tensor<2x2xf64>
          return %y : tensor<2x2xf64> })",
       [](ArrayRef<Tensor> in) {
         const auto &d = in[0].data;
         return std::vector{0., 0., d[0] + d[2], d[1] + d[3]};
       }},
      {"take_along", {rows}, R"(func.func @f(%x: tensor<3x2xf64>) -> tensor<3xf64> {
          %i = graph.constant dense<[1, -100, 0]> : tensor<3xi64>
          %y = graph.take_along %x, %i : (tensor<3x2xf64>, tensor<3xi64>) -> tensor<3xf64>
          return %y : tensor<3xf64> })",
       [](ArrayRef<Tensor> in) {
         return std::vector{in[0].data[1], 0., in[0].data[4]};
       }},
      {"one_hot", {{Argument::Any, {2}}}, R"(func.func @f(%x: tensor<2xf64>) -> tensor<2x2xf64> {
          %i = graph.constant dense<[1, 5]> : tensor<2xi64>
          %y = graph.one_hot %i, %x : (tensor<2xi64>, tensor<2xf64>) -> tensor<2x2xf64>
          return %y : tensor<2x2xf64> })",
       [](ArrayRef<Tensor> in) { return std::vector{0., in[0].data[0], 0., 0.}; }},
      {"mask_tail", {rows}, R"(func.func @f(%x: tensor<3x2xf64>) -> tensor<3x2xf64> {
          %y = graph.mask_tail %x {dim = 0, valid = 1, value = 0xFFF0000000000000 : f64} : (tensor<3x2xf64>) -> tensor<3x2xf64>
          return %y : tensor<3x2xf64> })",
       [](ArrayRef<Tensor> in) {
         double low = -std::numeric_limits<double>::infinity();
         return std::vector{in[0].data[0], in[0].data[1], low, low, low, low};
       }}};
}

static std::vector<Formula> matmulFormulas() {
  return {
      {"matmul", {{Argument::Any, {2, 2}}, {Argument::Any, {2, 2}}}, R"(
        func.func @f(%x: tensor<2x2xf64>, %w: tensor<2x2xf64>) -> tensor<2x2xf64> {
          %y = graph.matmul "ab,bc->ca" %x, %w : (tensor<2x2xf64>, tensor<2x2xf64>) -> tensor<2x2xf64>
          return %y : tensor<2x2xf64> })",
       [](ArrayRef<Tensor> in) {
         const auto &a = in[0].data, &b = in[1].data;
         return std::vector{a[0] * b[0] + a[1] * b[2], a[2] * b[0] + a[3] * b[2],
                            a[0] * b[1] + a[1] * b[3], a[2] * b[1] + a[3] * b[3]};
       }},
      // Four heads share two kv heads; row i sees keys j <= i.
      {"attention",
       {{Argument::Any, {2, 3, 4, 2}}, {Argument::Any, {2, 3, 2, 2}}, {Argument::Any, {2, 3, 2, 2}}},
       R"(
        func.func @f(%q: tensor<2x3x4x2xf64>, %k: tensor<2x3x2x2xf64>, %v: tensor<2x3x2x2xf64>) -> tensor<2x3x4x2xf64> {
          %o, %l = graph.attention %q, %k, %v {scale = 0.5, causal = true} : (tensor<2x3x4x2xf64>, tensor<2x3x2x2xf64>, tensor<2x3x2x2xf64>) -> (tensor<2x3x4x2xf64>, tensor<2x3x4xf64>)
          return %o : tensor<2x3x4x2xf64> }
        func.func @g(%q: tensor<2x3x4x2xf64>, %k: tensor<2x3x2x2xf64>, %v: tensor<2x3x2x2xf64>) -> tensor<2x3x4x2xf64> {
          %q5 = graph.reshape %q : (tensor<2x3x4x2xf64>) -> tensor<2x3x2x2x2xf64>
          %s = graph.matmul "bshgd,bthd->bhgst" %q5, %k : (tensor<2x3x2x2x2xf64>, tensor<2x3x2x2xf64>) -> tensor<2x2x2x3x3xf64>
          %h = graph.constant dense<0.5> : tensor<f64>
          %t = graph.mul %s, %h : (tensor<2x2x2x3x3xf64>, tensor<f64>) -> tensor<2x2x2x3x3xf64>
          %i = graph.iota {dim = 0} : () -> tensor<3x3xi64>
          %j = graph.iota {dim = 1} : () -> tensor<3x3xi64>
          %m = graph.compare %j, %i {predicate = #graph.predicate<le>} : (tensor<3x3xi64>, tensor<3x3xi64>) -> tensor<3x3xi1>
          %low = graph.constant dense<0xFFF0000000000000> : tensor<f64>
          %u = graph.select %m, %t, %low : (tensor<3x3xi1>, tensor<2x2x2x3x3xf64>, tensor<f64>) -> tensor<2x2x2x3x3xf64>
          %p = graph.softmax %u : (tensor<2x2x2x3x3xf64>) -> tensor<2x2x2x3x3xf64>
          %o5 = graph.matmul "bhgst,bthd->bshgd" %p, %v : (tensor<2x2x2x3x3xf64>, tensor<2x3x2x2xf64>) -> tensor<2x3x2x2x2xf64>
          %o = graph.reshape %o5 : (tensor<2x3x2x2x2xf64>) -> tensor<2x3x4x2xf64>
          return %o : tensor<2x3x4x2xf64> })", nullptr},
      {"adamw", {{Argument::Any, {2}}, {Argument::Any, {2}}}, R"(
        func.func @f(%p: tensor<2xf64>, %g: tensor<2xf64>) -> tensor<2xf64> {
          %z = graph.constant dense<0.0> : tensor<2xf64>
          %lr = graph.constant dense<0.1> : tensor<f64>
          %b1 = graph.constant dense<0.5> : tensor<f64>
          %b2 = graph.constant dense<0.75> : tensor<f64>
          %e = graph.constant dense<0.0> : tensor<f64>
          %wd = graph.constant dense<0.25> : tensor<f64>
          %c2 = graph.constant dense<0.25> : tensor<f64>
          %y, %m, %v = graph.adamw %p, %g, %z, %z, %lr, %b1, %b2, %e, %wd, %b1, %c2 {decay = true}
              : (tensor<2xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2xf64>, tensor<f64>, tensor<f64>, tensor<f64>, tensor<f64>, tensor<f64>, tensor<f64>, tensor<f64>) -> (tensor<2xf64>, tensor<2xf64>, tensor<2xf64>)
          return %y : tensor<2xf64> })",
       // The first step moves by lr in the gradient's direction.
       [](ArrayRef<Tensor> in) {
         std::vector<double> want;
         for (int64_t i = 0; i < 2; ++i)
           want.push_back(in[0].data[i] * (1 - 0.1 * 0.25) - std::copysign(0.1, in[1].data[i]));
         return want;
       }}};
}

// Checks that calls are followed; foreign ops are asked for, and refused without an answer.
TEST(Formulas, Interpreter) {
  MLIRContext *context = test::context();
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(R"(
    func.func private @twice(%x: tensor<f64>) -> tensor<f64> {
      %y = graph.add %x, %x : (tensor<f64>, tensor<f64>) -> tensor<f64>
      return %y : tensor<f64> }
    func.func @f(%x: tensor<f64>) -> tensor<f64> {
      %y = call @twice(%x) : (tensor<f64>) -> tensor<f64>
      return %y : tensor<f64> }
    func.func @g(%x: tensor<f64>) -> tensor<f64> {
      %y = builtin.unrealized_conversion_cast %x : tensor<f64> to tensor<f64>
      return %y : tensor<f64> })", context);
  auto f = module->lookupSymbol<func::FuncOp>("f"), g = module->lookupSymbol<func::FuncOp>("g");
  Tensor x(Shape{}), twice(Shape{});
  x.data = {3};
  twice.data = {6};
  expectClose("call", run("call", f, x).at(0), twice, 0);
  ScopedDiagnosticHandler quiet(context, [](Diagnostic &) { return success(); });
  EXPECT_TRUE(failed(evaluate(g, x))) << "an op without a meaning is refused";
  EXPECT_TRUE(failed(evaluate(f, Tensor(Shape{2})))) << "an input of another shape is refused";
  EXPECT_TRUE(failed(evaluate(f, {}))) << "a missing input is refused";
  auto answer = [](Operation *, ArrayRef<const Tensor *> inputs) -> FailureOr<std::vector<Tensor>> {
    return std::vector<Tensor>{*inputs[0]};
  };
  FailureOr<std::vector<Tensor>> foreign = evaluate(g, x, answer);
  EXPECT_TRUE(succeeded(foreign) && foreign->at(0).data[0] == 3) << "a foreign op is answered";
}

// Checks that products whose rows and columns fill blocks, and some that stand beside them, are
// exactly the sums of their terms in order.
TEST(Formulas, BlocksOfAProduct) {
  MLIRContext *context = test::context();
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(R"(
    func.func @f(%x: tensor<2x7x9xf64>, %y: tensor<19x2x9xf64>) -> tensor<19x2x7xf64> {
      %z = graph.matmul "bik,jbk->jbi" %x, %y : (tensor<2x7x9xf64>, tensor<19x2x9xf64>) -> tensor<19x2x7xf64>
      return %z : tensor<19x2x7xf64> }
    func.func @g(%x: tensor<2x7x9xf64>, %y: tensor<19x2x9xf64>) -> tensor<2x7x19xf64> {
      %z = graph.matmul "bik,jbk->bij" %x, %y : (tensor<2x7x9xf64>, tensor<19x2x9xf64>) -> tensor<2x7x19xf64>
      return %z : tensor<2x7x19xf64> })", context);
  Tensor x(Shape{2, 7, 9}), y(Shape{19, 2, 9}), turned(Shape{19, 2, 7}), straight(Shape{2, 7, 19});
  for (Tensor *tensor : {&x, &y})
    for (int64_t i = 0; i < tensor->size(); ++i)
      tensor->data[i] = static_cast<double>(i * 37 % 101 - 50) / 7;
  for (int64_t b = 0; b < 2; ++b)
    for (int64_t i = 0; i < 7; ++i)
      for (int64_t j = 0; j < 19; ++j) {
        double sum = 0;
        for (int64_t k = 0; k < 9; ++k)
          sum += x.data[(b * 7 + i) * 9 + k] * y.data[(j * 2 + b) * 9 + k];
        turned.data[(j * 2 + b) * 7 + i] = straight.data[(b * 7 + i) * 19 + j] = sum;
      }
  for (auto [name, want] : {std::pair("f", &turned), std::pair("g", &straight)})
    expectClose("blocks of a product",
                run(name, module->lookupSymbol<func::FuncOp>(name), {x, y}).at(0), *want, 0);
}

// Compares FLOPs with the textbook.
TEST(Formulas, Flops) {
  MLIRContext *context = test::context();
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(R"(
    func.func @f(%x: tensor<2x3x4xf64>, %w: tensor<4x5xf64>, %q: tensor<2x3x4x2xf64>, %k: tensor<2x3x2x2xf64>) {
      %0 = graph.matmul "bsd,de->bse" %x, %w : (tensor<2x3x4xf64>, tensor<4x5xf64>) -> tensor<2x3x5xf64>
      %1, %2 = graph.attention %q, %k, %k {scale = 0.5, causal = false} : (tensor<2x3x4x2xf64>, tensor<2x3x2x2xf64>, tensor<2x3x2x2xf64>) -> (tensor<2x3x4x2xf64>, tensor<2x3x4xf64>)
      %3, %4 = graph.attention %q, %k, %k {scale = 0.5, causal = true} : (tensor<2x3x4x2xf64>, tensor<2x3x2x2xf64>, tensor<2x3x2x2xf64>) -> (tensor<2x3x4x2xf64>, tensor<2x3x4xf64>)
      %n, %m = graph.attention %q, %k, %k {scale = 0.5, causal = true, offset = 1, window = 2} : (tensor<2x3x4x2xf64>, tensor<2x3x2x2xf64>, tensor<2x3x2x2xf64>) -> (tensor<2x3x4x2xf64>, tensor<2x3x4xf64>)
      %5 = graph.add %x, %x : (tensor<2x3x4xf64>, tensor<2x3x4xf64>) -> tensor<2x3x4xf64>
      %6 = graph.reshape %x : (tensor<2x3x4xf64>) -> tensor<24xf64>
      return
    })", context);
  std::vector<double> want{2. * 2 * 3 * 4 * 5, 2. * 2 * (2 * 4 * 3 * 3 * 2),
                           2. * 2 * (2 * 4 * (1 + 2 + 3) * 2), 2. * 2 * (2 * 4 * (2 + 2 + 1) * 2),
                           24, 0};
  std::vector<double> got;
  module->walk([&](GraphOpInterface op) { got.push_back(op.getFlops()); });
  EXPECT_TRUE(got == want) << "FLOPs of matmul, attention, add and reshape";
}

// Counts the pairs of row and key that a mask leaves, one by one.
TEST(Formulas, FlopsOfMaskedAttention) {
  MLIRContext *context = test::context();
  for (int rows : {1, 3, 8})
    for (int keys : {1, 5, 8, 13})
      for (int offset : {0, 2, 20})
        for (int window : {0, 1, 4, 30}) {
          std::string q = "tensor<1x" + std::to_string(rows) + "x1x1xf64>", k = "tensor<1x" + std::to_string(keys) + "x1x1xf64>";
          std::string attributes = "{scale = 1.0, causal = true, offset = " + std::to_string(offset) +
                                   (window ? ", window = " + std::to_string(window) : std::string()) + "}";
          OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(
              "func.func @f(%q: " + q + ", %k: " + k + ") { %o, %l = graph.attention %q, %k, %k " + attributes + " : (" + q + ", " +
                  k + ", " + k + ") -> (" + q + ", tensor<1x" + std::to_string(rows) + "x1xf64>) return }",
              context);
          ASSERT_TRUE(module);
          double pairs = 0, got = -1;
          for (int row = 0; row < rows; ++row)
            for (int key = 0; key < keys; ++key)
              pairs += key <= row + offset && (!window || key > row + offset - window);
          module->walk([&](AttentionOp op) { got = op.getFlops(); });
          EXPECT_EQ(got, 4 * pairs) << rows << " rows, " << keys << " keys, " << attributes;
        }
}

namespace {

struct DrawnFormula {
  Formula formula;
  uint64_t seed;
};

void PrintTo(const DrawnFormula &drawn, std::ostream *out) { *out << drawn.formula.name; }

// Returns the formulas of every draw. Those without drawn arguments are the same in every draw, so
// they are in the first only.
std::vector<DrawnFormula> drawnFormulas() {
  std::vector<DrawnFormula> all;
  for (uint64_t seed : seeds())
    for (auto list : {elementwiseFormulas, rowFormulas, movementFormulas, indexFormulas,
                      matmulFormulas, decoderFormulas, expertFormulas, edgeFormulas})
      for (Formula &formula : list())
        if (seed == seeds().front() || !formula.arguments.empty())
          all.push_back({std::move(formula), seed});
  return all;
}

class FormulaTest : public testing::TestWithParam<DrawnFormula> {};

TEST_P(FormulaTest, Holds) {
  Random random(GetParam().seed);
  check(random, context(), GetParam().formula);
}

INSTANTIATE_TEST_SUITE_P(Draws, FormulaTest, testing::ValuesIn(drawnFormulas()),
                         [](const auto &info) {
                           return llmc::test::testName(info.param.formula.name) + "_" +
                                  std::to_string(info.index);
                         });

} // namespace

} // namespace llmc::graph::test
