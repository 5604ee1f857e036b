// RUN: llmc-opt %s --llmc-verify-raised --verify-diagnostics | FileCheck %s

// Columns, every second element, rows: no element twice.
// CHECK: func.func @forward
graph.source @w : tensor<4x12xf32> {init = #graph.init_kind<zeros>}
graph.source @v : tensor<8xf32> {init = #graph.init_kind<zeros>}
graph.state @a : tensor<4x4xf32> parameter views [#graph.view<@w, 0, [12, 1]>]
graph.state @b : tensor<8x4xf32> parameter views [#graph.view<@w, 4, [1, 12]>]
graph.state @c : tensor<4xf32> parameter views [#graph.view<@v, 0, [2]>]
graph.state @d : tensor<4xf32> parameter views [#graph.view<@v, 1, [2]>]
func.func @forward(%x: tensor<3x4xf32> {graph.input = "x"}, %a: tensor<4x4xf32> {graph.state = @a}, %b: tensor<8x4xf32> {graph.state = @b}, %c: tensor<4xf32> {graph.state = @c}, %d: tensor<4xf32> {graph.state = @d}) -> tensor<3x4xf32> {
  return %x : tensor<3x4xf32>
}

// Legal, but worth a line: a number that a score could outweigh is no mask, eps
// stands under no root, rotated by a table that learns.
graph.source @t.file : tensor<2x4xf32> {init = #graph.init_kind<zeros>}
graph.state @t : tensor<2x4xf32> parameter views [#graph.view<@t.file, 0, [4, 1]>]
// expected-remark@+1 {{not recognised: 2 attentions (scores are kept for the backward pass, rows x keys a head), 1 norm (computed op by op, and each step is kept), 1 rotary embedding (computed op by op), 2 layers (they differ: compile time and program grow with their number)}}
func.func @nearly(%q: tensor<1x2x2x4xf32> {graph.input = "q"}, %seen: tensor<1x1x1x2xi1> {graph.input = "seen"}, %t: tensor<2x4xf32> {graph.state = @t}) -> (tensor<1x2x2x4xf32>, tensor<1x2x2x4xf32>, tensor<1x2x2x4xf32>) {
  %low = graph.constant dense<-10.0> : tensor<f32>
  %n = graph.constant dense<0.25> : tensor<f32>
  %eps = graph.constant dense<1.0e-5> : tensor<f32>
  %0 = graph.matmul "bshd,bthd->bhst" %q, %q : (tensor<1x2x2x4xf32>, tensor<1x2x2x4xf32>) -> tensor<1x2x2x2xf32>
  %1 = graph.select %seen, %0, %low : (tensor<1x1x1x2xi1>, tensor<1x2x2x2xf32>, tensor<f32>) -> tensor<1x2x2x2xf32>
  %2 = graph.softmax %1 : (tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32>
  %3 = graph.matmul "bhst,bthd->bshd" %2, %q : (tensor<1x2x2x2xf32>, tensor<1x2x2x4xf32>) -> tensor<1x2x2x4xf32>
  %4 = graph.matmul "bshd,bthd->bhst" %3, %3 : (tensor<1x2x2x4xf32>, tensor<1x2x2x4xf32>) -> tensor<1x2x2x2xf32>
  %5 = graph.select %seen, %4, %low : (tensor<1x1x1x2xi1>, tensor<1x2x2x2xf32>, tensor<f32>) -> tensor<1x2x2x2xf32>
  %6 = graph.softmax %5 : (tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32>
  %7 = graph.matmul "bhst,bthd->bshd" %6, %3 : (tensor<1x2x2x2xf32>, tensor<1x2x2x4xf32>) -> tensor<1x2x2x4xf32>
  %8 = graph.mul %q, %q : (tensor<1x2x2x4xf32>, tensor<1x2x2x4xf32>) -> tensor<1x2x2x4xf32>
  %9 = graph.reduce %8 {dims = array<i64: 3>, kind = #graph.reduce_kind<sum>} : (tensor<1x2x2x4xf32>) -> tensor<1x2x2xf32>
  %10 = graph.mul %9, %n : (tensor<1x2x2xf32>, tensor<f32>) -> tensor<1x2x2xf32>
  %11 = graph.add %10, %eps : (tensor<1x2x2xf32>, tensor<f32>) -> tensor<1x2x2xf32>
  %12 = graph.sqrt %11 : (tensor<1x2x2xf32>) -> tensor<1x2x2xf32>
  %13 = graph.reshape %12 : (tensor<1x2x2xf32>) -> tensor<1x2x2x1xf32>
  %14 = graph.mul %q, %13 : (tensor<1x2x2x4xf32>, tensor<1x2x2x1xf32>) -> tensor<1x2x2x4xf32>
  %15 = graph.slice %q {starts = array<i64: 0, 0, 0, 2>, limits = array<i64: 1, 2, 2, 4>, steps = array<i64: 1, 1, 1, 1>} : (tensor<1x2x2x4xf32>) -> tensor<1x2x2x2xf32>
  %16 = graph.neg %15 : (tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32>
  %17 = graph.slice %q {starts = array<i64: 0, 0, 0, 0>, limits = array<i64: 1, 2, 2, 2>, steps = array<i64: 1, 1, 1, 1>} : (tensor<1x2x2x4xf32>) -> tensor<1x2x2x2xf32>
  %18 = graph.concat %16, %17 {dim = 3 : i64} : (tensor<1x2x2x2xf32>, tensor<1x2x2x2xf32>) -> tensor<1x2x2x4xf32>
  %19 = graph.mul %18, %t : (tensor<1x2x2x4xf32>, tensor<2x4xf32>) -> tensor<1x2x2x4xf32>
  return %7, %14, %19 : tensor<1x2x2x4xf32>, tensor<1x2x2x4xf32>, tensor<1x2x2x4xf32>
}

// A choice of which no product by experts is found.
// expected-remark@+1 {{not recognised: 1 choice of the largest scores (what follows it, such as a mixture of experts, runs as it is written, on every rank)}}
func.func @choice(%scores: tensor<3x4xf32> {graph.input = "x"}) -> tensor<3x2xi64> {
  %0 = graph.route %scores : (tensor<3x4xf32>) -> tensor<3x2xi64>
  return %0 : tensor<3x2xi64>
}

// expected-remark@+1 {{not recognised: 2 choices of the largest scores (what follows it, such as a mixture of experts, runs as it is written, on every rank)}}
func.func @choices(%scores: tensor<3x4xf32> {graph.input = "x"}) -> (tensor<3x2xi64>, tensor<3x1xi64>) {
  %0 = graph.route %scores : (tensor<3x4xf32>) -> tensor<3x2xi64>
  %1 = graph.route %scores : (tensor<3x4xf32>) -> tensor<3x1xi64>
  return %0, %1 : tensor<3x2xi64>, tensor<3x1xi64>
}

// A choice of groups beside a router whose products by experts were found.
func.func @groups(%scores: tensor<3x4xf32> {graph.input = "x"}) -> (tensor<3x2xi64>, tensor<3x1xi64>) {
  %0 = graph.route %scores {mixture} : (tensor<3x4xf32>) -> tensor<3x2xi64>
  %1 = graph.route %scores : (tensor<3x4xf32>) -> tensor<3x1xi64>
  return %0, %1 : tensor<3x2xi64>, tensor<3x1xi64>
}
