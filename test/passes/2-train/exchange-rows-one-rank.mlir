// RUN: llmc-opt %s --split-input-file --llmc-exchange-rows="ranks=1 budget=2" | FileCheck %s

// One rank that has all experts puts the rows in their order for the products, and back: as many slots as choices
// suffice, so that no row is lost, whatever the budget.
// CHECK-LABEL: func.func @forward
// CHECK-SAME: -> (tensor<2x4x8xf32> {graph.output = "y"})
// CHECK: %[[AT:.*]], %{{.*}}, %{{.*}} = graph.exchange_routes %arg1 {experts = 4 : i64}
// CHECK-SAME: (tensor<2x4x2xi64>) -> (tensor<2x4x2xi64>, tensor<2x4x2xi64>, tensor<2x4xf32>)
// CHECK: %[[ORDERED:.*]] = graph.dispatch %arg0, %arg1, %arg1 {experts = 4 : i64}
// CHECK: %[[UP:.*]] = graph.grouped_matmul %[[ORDERED]], %arg2, %[[AT]] {exchanged}
// CHECK: %[[HOME:.*]] = graph.collect %[[UP]], %arg1, %arg1 {experts = 4 : i64}
// CHECK: graph.reduce %[[HOME]]
func.func @forward(%x: tensor<2x4x8xf32> {graph.input = "x"}, %r: tensor<2x4x2xi64> {graph.input = "r"},
                   %w: tensor<4x8x8xf32>) -> (tensor<2x4x8xf32> {graph.output = "y"}) {
  %h = graph.grouped_matmul %x, %w, %r : (tensor<2x4x8xf32>, tensor<4x8x8xf32>, tensor<2x4x2xi64>) -> tensor<2x4x2x8xf32>
  %s = graph.reduce %h {dims = array<i64: 2>, kind = #graph.reduce_kind<sum>} : (tensor<2x4x2x8xf32>) -> tensor<2x4x8xf32>
  return %s : tensor<2x4x8xf32>
}

// -----

// Routes by which products choose among different numbers of experts are no mixture's: they stay as they are.
// CHECK-LABEL: func.func @forward
// CHECK-NOT: exchange_routes
// CHECK: graph.grouped_matmul %arg0, %arg2, %arg1 :
// CHECK: graph.grouped_matmul %arg0, %arg3, %arg1 :
func.func @forward(%x: tensor<4x8xf32> {graph.input = "x"}, %r: tensor<4x2xi64> {graph.input = "r"},
                   %v: tensor<4x8x8xf32>, %w: tensor<5x8x8xf32>)
    -> (tensor<4x2x8xf32> {graph.output = "y"}, tensor<4x2x8xf32> {graph.output = "z"}) {
  %y = graph.grouped_matmul %x, %v, %r : (tensor<4x8xf32>, tensor<4x8x8xf32>, tensor<4x2xi64>) -> tensor<4x2x8xf32>
  %z = graph.grouped_matmul %x, %w, %r : (tensor<4x8xf32>, tensor<5x8x8xf32>, tensor<4x2xi64>) -> tensor<4x2x8xf32>
  return %y, %z : tensor<4x2x8xf32>, tensor<4x2x8xf32>
}
