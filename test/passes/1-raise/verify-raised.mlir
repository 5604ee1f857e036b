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

// Legal, but worth a line: a window is not causal.
// expected-remark@+1 {{1 softmax between two matmuls not recognised as attention}}
func.func @window(%q: tensor<1x2x2x4xf32> {graph.input = "q"}) -> tensor<1x2x2x4xf32> {
  %mask = graph.constant dense<[[0.0, -1.0e9], [-1.0e9, 0.0]]> : tensor<2x2xf32>
  %0 = graph.matmul "bshd,bthd->bhst" %q, %q : (tensor<1x2x2x4xf32>, tensor<1x2x2x4xf32>) -> tensor<1x2x2x2xf32>
  %1 = graph.add %0, %mask : (tensor<1x2x2x2xf32>, tensor<2x2xf32>) -> tensor<1x2x2x2xf32>
  %2 = graph.softmax %1 : (tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32>
  %3 = graph.matmul "bhst,bthd->bshd" %2, %q : (tensor<1x2x2x2xf32>, tensor<1x2x2x4xf32>) -> tensor<1x2x2x4xf32>
  return %3 : tensor<1x2x2x4xf32>
}
