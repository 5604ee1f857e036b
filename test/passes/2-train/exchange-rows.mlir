// RUN: llmc-opt %s --split-input-file --llmc-exchange-rows="ranks=2 budget=1" | FileCheck %s

// Rows go to their experts once for all products that read them, stay there for what works row by row, and
// come back before the sum over choices. With room for the average, rows may be lost, which is counted.
// CHECK-LABEL: func.func @forward
// CHECK-SAME: -> (tensor<2x4x8xf32> {graph.output = "y"}, tensor<f32> {graph.output = "moe_lost"})
// CHECK: %[[ROUTES:.*]] = graph.route
// CHECK: %[[AT:.*]], %[[FROM:.*]], %[[LOST:.*]] = graph.exchange_routes %[[ROUTES]] {experts = 4 : i64}
// CHECK: %[[SUM:.*]] = graph.add %{{.*}}, %[[LOST]]
// CHECK: %[[SENT:.*]] = graph.dispatch %arg0, %[[ROUTES]], %[[FROM]] {experts = 4 : i64}
// CHECK: %[[UP:.*]] = graph.grouped_matmul %[[SENT]], %arg2, %[[AT]] {exchanged, transposed}
// CHECK: %[[OPEN:.*]] = graph.relu %[[UP]]
// CHECK: %[[DOWN:.*]] = graph.grouped_matmul %[[OPEN]], %arg3, %[[AT]] {exchanged, transposed}
// CHECK: %[[HOME:.*]] = graph.collect %[[DOWN]], %[[ROUTES]], %[[FROM]] {experts = 4 : i64}
// CHECK: graph.reduce %[[HOME]]
// CHECK: graph.reduce %[[SUM]]
// CHECK-NOT: graph.grouped_matmul
func.func @forward(%x: tensor<2x4x8xf32> {graph.input = "x"}, %p: tensor<2x4x4xf32> {graph.input = "p"},
                   %up: tensor<4x16x8xf32>, %down: tensor<4x8x16xf32>) -> (tensor<2x4x8xf32> {graph.output = "y"}) {
  %r = graph.route %p {mixture} : (tensor<2x4x4xf32>) -> tensor<2x4x2xi64>
  %h = graph.grouped_matmul %x, %up, %r {transposed}
      : (tensor<2x4x8xf32>, tensor<4x16x8xf32>, tensor<2x4x2xi64>) -> tensor<2x4x2x16xf32>
  %a = graph.relu %h : (tensor<2x4x2x16xf32>) -> tensor<2x4x2x16xf32>
  %y = graph.grouped_matmul %a, %down, %r {transposed}
      : (tensor<2x4x2x16xf32>, tensor<4x8x16xf32>, tensor<2x4x2xi64>) -> tensor<2x4x2x8xf32>
  %s = graph.reduce %y {dims = array<i64: 2>, kind = #graph.reduce_kind<sum>} : (tensor<2x4x2x8xf32>) -> tensor<2x4x8xf32>
  return %s : tensor<2x4x8xf32>
}

// -----

// Layers carry what is lost. Biases of experts are looked up where the rows are.
// CHECK-LABEL: func.func @forward
// CHECK: graph.repeat 3 carried(%{{.*}}, %{{.*}} : tensor<2x4x8xf32>, tensor<2x4xf32>)
// CHECK: %[[AT:.*]], %{{.*}}, %{{.*}} = graph.exchange_routes
// CHECK: %[[BIAS:.*]] = graph.gather %{{.*}}, %[[AT]]
// CHECK: graph.add %{{.*}}, %[[BIAS]] : (tensor<2x4x2x8xf32>, tensor<2x4x2x8xf32>)
// CHECK: graph.collect
func.func @forward(%x: tensor<2x4x8xf32> {graph.input = "x"}, %w: tensor<3x4x8x8xf32>, %b: tensor<3x4x8xf32>,
                   %g: tensor<3x4x8xf32>) -> (tensor<2x4x8xf32> {graph.output = "y"}) {
  %z = graph.repeat 3 carried(%x : tensor<2x4x8xf32>)
      stacked(%w, %b, %g : tensor<3x4x8x8xf32>, tensor<3x4x8xf32>, tensor<3x4x8xf32>) captured() -> tensor<2x4x8xf32> {
  ^bb0(%h: tensor<2x4x8xf32>, %wi: tensor<4x8x8xf32>, %bi: tensor<4x8xf32>, %gi: tensor<4x8xf32>):
    %p = graph.matmul "bsd,ed->bse" %h, %gi : (tensor<2x4x8xf32>, tensor<4x8xf32>) -> tensor<2x4x4xf32>
    %r = graph.route %p {mixture} : (tensor<2x4x4xf32>) -> tensor<2x4x2xi64>
    %y = graph.grouped_matmul %h, %wi, %r : (tensor<2x4x8xf32>, tensor<4x8x8xf32>, tensor<2x4x2xi64>) -> tensor<2x4x2x8xf32>
    %t = graph.gather %bi, %r : (tensor<4x8xf32>, tensor<2x4x2xi64>) -> tensor<2x4x2x8xf32>
    %u = graph.add %y, %t : (tensor<2x4x2x8xf32>, tensor<2x4x2x8xf32>) -> tensor<2x4x2x8xf32>
    %s = graph.reduce %u {dims = array<i64: 2>, kind = #graph.reduce_kind<sum>} : (tensor<2x4x2x8xf32>) -> tensor<2x4x8xf32>
    graph.yield %s : tensor<2x4x8xf32>
  }
  return %z : tensor<2x4x8xf32>
}
