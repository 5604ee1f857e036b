#include "Formulas.h"

#include <cmath>
#include <complex>
#include <limits>

using namespace mlir;

namespace llmc::graph::test {

std::vector<Formula> decoderFormulas() {
  Argument x{Argument::Any, {2, 3}}, heads{Argument::Any, {1, 2, 1, 5}}, angle{Argument::Any, {1, 2, 2}};
  auto rotated = [](ArrayRef<Tensor> in, size_t step, size_t partner) {
    std::vector<double> y = in[0].data;
    for (size_t row = 0; row < 2; ++row)
      for (size_t i = 0; i < 2; ++i) {
        std::complex<double> turned =
            std::complex(in[0].data[row * 5 + i * step], in[0].data[row * 5 + i * step + partner]) *
            std::complex(in[1].data[row * 2 + i], in[2].data[row * 2 + i]);
        y[row * 5 + i * step] = turned.real();
        y[row * 5 + i * step + partner] = turned.imag();
      }
    return y;
  };
  return {
      {"rms_norm", {x, {Argument::Any, {3}}}, R"(
        func.func @f(%x: tensor<2x3xf64>, %w: tensor<3xf64>) -> tensor<2x3xf64> {
          %y, %r = graph.rms_norm %x, %w {eps = 1.0e-2} : (tensor<2x3xf64>, tensor<3xf64>) -> (tensor<2x3xf64>, tensor<2xf64>)
          return %y : tensor<2x3xf64> })",
       [](ArrayRef<Tensor> in) {
         std::vector<double> y;
         const auto &d = in[0].data;
         for (size_t i = 0; i < 6; ++i) {
           const double *r = &d[i / 3 * 3];
           double mean = (r[0] * r[0] + r[1] * r[1] + r[2] * r[2]) / 3;
           y.push_back(d[i] * in[1].data[i % 3] / std::sqrt(mean + 1e-2));
         }
         return y;
       }},
      {"rotary", {heads, angle, angle}, R"(
        func.func @f(%x: tensor<1x2x1x5xf64>, %c: tensor<1x2x2xf64>, %s: tensor<1x2x2xf64>) -> tensor<1x2x1x5xf64> {
          %y = graph.rotary %x, %c, %s : (tensor<1x2x1x5xf64>, tensor<1x2x2xf64>, tensor<1x2x2xf64>) -> tensor<1x2x1x5xf64>
          return %y : tensor<1x2x1x5xf64> })",
       [=](ArrayRef<Tensor> in) { return rotated(in, 1, 2); }},
      {"interleaved rotary", {heads, angle, angle}, R"(
        func.func @f(%x: tensor<1x2x1x5xf64>, %c: tensor<1x2x2xf64>, %s: tensor<1x2x2xf64>) -> tensor<1x2x1x5xf64> {
          %y = graph.rotary %x, %c, %s {interleaved} : (tensor<1x2x1x5xf64>, tensor<1x2x2xf64>, tensor<1x2x2xf64>) -> tensor<1x2x1x5xf64>
          return %y : tensor<1x2x1x5xf64> })",
       [=](ArrayRef<Tensor> in) { return rotated(in, 2, 1); }},
      {"cumsum", {x}, R"(func.func @f(%x: tensor<2x3xf64>) -> tensor<2x3xf64> {
          %y = graph.cumsum %x {dim = 1} : (tensor<2x3xf64>) -> tensor<2x3xf64>
          return %y : tensor<2x3xf64> })",
       [](ArrayRef<Tensor> in) {
         const auto &d = in[0].data;
         return std::vector{d[0], d[0] + d[1], d[0] + d[1] + d[2],
                            d[3], d[3] + d[4], d[3] + d[4] + d[5]};
       }},
      {"cumsum from the end without itself", {x}, R"(func.func @f(%x: tensor<2x3xf64>) -> tensor<2x3xf64> {
          %y = graph.cumsum %x {dim = 0, exclusive, reverse} : (tensor<2x3xf64>) -> tensor<2x3xf64>
          return %y : tensor<2x3xf64> })",
       [](ArrayRef<Tensor> in) {
         const auto &d = in[0].data;
         return std::vector{d[3], d[4], d[5], 0., 0., 0.};
       }},
      // Two rows after two past ones, a window of 2, a bias for each head, a softcap.
      {"windowed attention",
       {{Argument::Any, {2, 2, 2, 2}}, {Argument::Any, {2, 4, 1, 2}}, {Argument::Any, {2, 4, 1, 2}}, {Argument::Any, {1, 2, 1, 4}}},
       R"(
        func.func @f(%q: tensor<2x2x2x2xf64>, %k: tensor<2x4x1x2xf64>, %v: tensor<2x4x1x2xf64>, %b: tensor<1x2x1x4xf64>) -> tensor<2x2x2x2xf64> {
          %o, %l = graph.attention %q, %k, %v, %b {scale = 0.5, causal = true, offset = 2, window = 2, softcap = 3.0} : (tensor<2x2x2x2xf64>, tensor<2x4x1x2xf64>, tensor<2x4x1x2xf64>, tensor<1x2x1x4xf64>) -> (tensor<2x2x2x2xf64>, tensor<2x2x2xf64>)
          return %o : tensor<2x2x2x2xf64> }
        func.func @g(%q: tensor<2x2x2x2xf64>, %k: tensor<2x4x1x2xf64>, %v: tensor<2x4x1x2xf64>, %b: tensor<1x2x1x4xf64>) -> tensor<2x2x2x2xf64> {
          %k3 = graph.reshape %k : (tensor<2x4x1x2xf64>) -> tensor<2x4x2xf64>
          %v3 = graph.reshape %v : (tensor<2x4x1x2xf64>) -> tensor<2x4x2xf64>
          %s = graph.matmul "bshd,btd->bhst" %q, %k3 : (tensor<2x2x2x2xf64>, tensor<2x4x2xf64>) -> tensor<2x2x2x4xf64>
          %h = graph.constant dense<6.0> : tensor<f64>
          %c = graph.constant dense<3.0> : tensor<f64>
          %t = graph.div %s, %h : (tensor<2x2x2x4xf64>, tensor<f64>) -> tensor<2x2x2x4xf64>
          %u = graph.tanh %t : (tensor<2x2x2x4xf64>) -> tensor<2x2x2x4xf64>
          %w = graph.mul %u, %c : (tensor<2x2x2x4xf64>, tensor<f64>) -> tensor<2x2x2x4xf64>
          %z = graph.add %w, %b : (tensor<2x2x2x4xf64>, tensor<1x2x1x4xf64>) -> tensor<2x2x2x4xf64>
          %m = graph.constant dense<[[false, true, true, false], [false, false, true, true]]> : tensor<2x4xi1>
          %low = graph.constant dense<0xFFF0000000000000> : tensor<f64>
          %x = graph.select %m, %z, %low : (tensor<2x4xi1>, tensor<2x2x2x4xf64>, tensor<f64>) -> tensor<2x2x2x4xf64>
          %p = graph.softmax %x : (tensor<2x2x2x4xf64>) -> tensor<2x2x2x4xf64>
          %o = graph.matmul "bhst,btd->bshd" %p, %v3 : (tensor<2x2x2x4xf64>, tensor<2x4x2xf64>) -> tensor<2x2x2x2xf64>
          return %o : tensor<2x2x2x2xf64> })", nullptr}};
}

std::vector<Formula> edgeFormulas() {
  return {
      {"round", {}, R"(func.func @f() -> tensor<6xf64> {
          %x = graph.constant dense<[0.5, 1.5, 2.5, -0.5, -1.5, 0.75]> : tensor<6xf64>
          %y = graph.round %x : (tensor<6xf64>) -> tensor<6xf64>
          return %y : tensor<6xf64> })",
       [](ArrayRef<Tensor>) { return std::vector{0., 2., 2., 0., -2., 1.}; }},
      {"rem and power", {}, R"(func.func @f() -> tensor<4xf64> {
          %a = graph.constant dense<[5.5, -5.5, 5.5, -5.5]> : tensor<4xf64>
          %b = graph.constant dense<[2.0, 2.0, -2.0, -2.0]> : tensor<4xf64>
          %r = graph.rem %a, %b : (tensor<4xf64>, tensor<4xf64>) -> tensor<4xf64>
          %y = graph.power %r, %b : (tensor<4xf64>, tensor<4xf64>) -> tensor<4xf64>
          return %y : tensor<4xf64> })",
       [](ArrayRef<Tensor>) { return std::vector{2.25, 2.25, 1 / 2.25, 1 / 2.25}; }},
      {"integers by zero and beyond the range", {}, R"(func.func @f() -> tensor<4xf64> {
          %a = graph.constant dense<[7, -7, 9223372036854775807, -9223372036854775808]> : tensor<4xi64>
          %b = graph.constant dense<[4, 0, 1, 1]> : tensor<4xi64>
          %r = graph.rem %a, %b : (tensor<4xi64>, tensor<4xi64>) -> tensor<4xi64>
          %q = graph.div %a, %b : (tensor<4xi64>, tensor<4xi64>) -> tensor<4xi64>
          %t = graph.constant dense<2.0> : tensor<2xf64>
          %n = graph.gather %t, %a : (tensor<2xf64>, tensor<4xi64>) -> tensor<4xf64>
          %s = graph.add %r, %q : (tensor<4xi64>, tensor<4xi64>) -> tensor<4xi64>
          %f = graph.cast %s : (tensor<4xi64>) -> tensor<4xf64>
          %y = graph.add %f, %n : (tensor<4xf64>, tensor<4xf64>) -> tensor<4xf64>
          return %y : tensor<4xf64> })",
       [](ArrayRef<Tensor>) { return std::vector{4., 0., 0x1p63, -0x1p63}; }},
      // Row 1 sees no key by its mask: o is 0 and lse -inf; no key at all, as well.
      {"attention that sees nothing", {{Argument::Any, {1, 2, 1, 1}}, {Argument::Any, {1, 2, 1, 1}}}, R"(
        func.func @f(%q: tensor<1x2x1x1xf64>, %k: tensor<1x2x1x1xf64>) -> tensor<6xf64> {
          %m = graph.constant dense<[[[[true, false], [false, false]]]]> : tensor<1x1x2x2xi1>
          %o, %l = graph.attention %q, %k, %k, %m {scale = 1.0, causal = false} : (tensor<1x2x1x1xf64>, tensor<1x2x1x1xf64>, tensor<1x2x1x1xf64>, tensor<1x1x2x2xi1>) -> (tensor<1x2x1x1xf64>, tensor<1x2x1xf64>)
          %n = graph.constant dense<> : tensor<1x0x1x1xf64>
          %p, %r = graph.attention %q, %n, %n {scale = 1.0, causal = true} : (tensor<1x2x1x1xf64>, tensor<1x0x1x1xf64>, tensor<1x0x1x1xf64>) -> (tensor<1x2x1x1xf64>, tensor<1x2x1xf64>)
          %a = graph.reshape %o : (tensor<1x2x1x1xf64>) -> tensor<2xf64>
          %b = graph.reshape %l : (tensor<1x2x1xf64>) -> tensor<2xf64>
          %c = graph.reshape %p : (tensor<1x2x1x1xf64>) -> tensor<2xf64>
          %y = graph.concat %a, %b, %c {dim = 0} : (tensor<2xf64>, tensor<2xf64>, tensor<2xf64>) -> tensor<6xf64>
          return %y : tensor<6xf64> })",
       [](ArrayRef<Tensor> in) {
         double low = -std::numeric_limits<double>::infinity();
         return std::vector{in[1].data[0], 0., in[0].data[0] * in[1].data[0], low, 0., 0.};
       }},
      // Every op runs on tensors without elements; what is left is the neutral element.
      {"nothing", {{Argument::Any, {2, 0}}, {Argument::Any, {2, 3}}, {Argument::Any, {2, 0, 2, 4}}}, R"(
        func.func @f(%n: tensor<2x0xf64>, %x: tensor<2x3xf64>, %h: tensor<2x0x2x4xf64>) -> tensor<20xf64> {
          %a = graph.concat %n, %x, %n {dim = 1} : (tensor<2x0xf64>, tensor<2x3xf64>, tensor<2x0xf64>) -> tensor<2x3xf64>
          %t = graph.transpose %n {permutation = array<i64: 1, 0>} : (tensor<2x0xf64>) -> tensor<0x2xf64>
          %b = graph.matmul "ab,bc->ac" %n, %t : (tensor<2x0xf64>, tensor<0x2xf64>) -> tensor<2x2xf64>
          %c = graph.reduce %n {kind = #graph.reduce_kind<sum>, dims = array<i64: 1>} : (tensor<2x0xf64>) -> tensor<2xf64>
          %d = graph.pad %n {low = array<i64: 0, 1>, high = array<i64: 0, 0>, interior = array<i64: 0, 0>} : (tensor<2x0xf64>) -> tensor<2x1xf64>
          %i = graph.constant dense<[0, 1]> : tensor<2xi64>
          %g = graph.gather %t, %i : (tensor<0x2xf64>, tensor<2xi64>) -> tensor<2x2xf64>
          %k = graph.take_along %n, %i : (tensor<2x0xf64>, tensor<2xi64>) -> tensor<2xf64>
          %o = graph.one_hot %i, %k : (tensor<2xi64>, tensor<2xf64>) -> tensor<2x0xf64>
          %z = graph.constant dense<> : tensor<0xi64>
          %s = graph.scatter_add %z, %t : (tensor<0xi64>, tensor<0x2xf64>) -> tensor<1x2xf64>
          %1 = graph.softmax %o : (tensor<2x0xf64>) -> tensor<2x0xf64>
          %2 = graph.cumsum %1 {dim = 1} : (tensor<2x0xf64>) -> tensor<2x0xf64>
          %3 = graph.slice %x {starts = array<i64: 0, 3>, limits = array<i64: 2, 3>, steps = array<i64: 1, 1>} : (tensor<2x3xf64>) -> tensor<2x0xf64>
          %4 = graph.add %2, %3 : (tensor<2x0xf64>, tensor<2x0xf64>) -> tensor<2x0xf64>
          %e = graph.reshape %4 : (tensor<2x0xf64>) -> tensor<0xf64>
          %w = graph.constant dense<1.0> : tensor<4xf64>
          %5, %r = graph.rms_norm %h, %w {eps = 0.0} : (tensor<2x0x2x4xf64>, tensor<4xf64>) -> (tensor<2x0x2x4xf64>, tensor<2x0x2xf64>)
          %q = graph.constant dense<> : tensor<1x0x2xf64>
          %6 = graph.rotary %5, %q, %q : (tensor<2x0x2x4xf64>, tensor<1x0x2xf64>, tensor<1x0x2xf64>) -> tensor<2x0x2x4xf64>
          %7, %l = graph.attention %6, %6, %6 {scale = 1.0, causal = true} : (tensor<2x0x2x4xf64>, tensor<2x0x2x4xf64>, tensor<2x0x2x4xf64>) -> (tensor<2x0x2x4xf64>, tensor<2x0x2xf64>)
          %8, %m, %u = graph.layer_norm %7, %w, %w {eps = 1.0} : (tensor<2x0x2x4xf64>, tensor<4xf64>, tensor<4xf64>) -> (tensor<2x0x2x4xf64>, tensor<2x0x2xf64>, tensor<2x0x2xf64>)
          %v = graph.rms_norm_grad_scale %8, %8, %u : (tensor<2x0x2x4xf64>, tensor<2x0x2x4xf64>, tensor<2x0x2xf64>) -> tensor<4xf64>
          %fa = graph.reshape %a : (tensor<2x3xf64>) -> tensor<6xf64>
          %fb = graph.reshape %b : (tensor<2x2xf64>) -> tensor<4xf64>
          %fd = graph.reshape %d : (tensor<2x1xf64>) -> tensor<2xf64>
          %fs = graph.reshape %s : (tensor<1x2xf64>) -> tensor<2xf64>
          %y = graph.concat %fa, %fb, %c, %fd, %fs, %e, %v {dim = 0} : (tensor<6xf64>, tensor<4xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2xf64>, tensor<0xf64>, tensor<4xf64>) -> tensor<20xf64>
          return %y : tensor<20xf64> })",
       [](ArrayRef<Tensor> in) {
         std::vector<double> want = in[1].data;
         want.resize(20, 0.);
         return want;
       }}};
}

} // namespace llmc::graph::test
