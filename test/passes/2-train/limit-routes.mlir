// RUN: llmc-opt %s --llmc-limit-routes="capacity=1.25" | FileCheck %s
// RUN: llmc-opt %s --llmc-limit-routes="capacity=1.25 counts" | FileCheck %s --check-prefix=COUNTS

// An expert takes 1.25 x 4 tokens x 2 choices / 4 experts of a row of tokens, rounded up. The weights of
// choices stay those of all. What is left out is counted row by row, which ranks share out, and then summed: of
// 2 x 4 tokens x 2 choices.
// CHECK: %[[ROUTES:.*]] = graph.route
// CHECK: %[[LIMITED:.*]] = graph.limit_routes %[[ROUTES]] {capacity = 3 : i64, experts = 4 : i64}
// CHECK: graph.grouped_matmul %arg0, %arg2, %[[LIMITED]]
// CHECK: graph.grouped_matmul %{{.*}}, %arg3, %[[LIMITED]]
// CHECK: graph.take_along %{{.*}}, %[[ROUTES]]
// CHECK-NEXT: %[[OTHER:.*]] = graph.route
// CHECK-NEXT: return %{{.*}}, %{{.*}}, %[[OTHER]]
// CHECK-NOT: moe_dropped
// COUNTS: graph.choices = 16 : i64
// COUNTS: func.func @forward
// COUNTS-SAME: tensor<f32> {graph.output = "moe_dropped"})
// COUNTS: %[[LIMITED:.*]] = graph.limit_routes
// COUNTS: %[[NONE:.*]] = graph.constant dense<-1> : tensor<i64>
// COUNTS: %[[OUT:.*]] = graph.compare %[[LIMITED]], %[[NONE]] {predicate = #graph.predicate<eq>}
// COUNTS: %[[ONES:.*]] = graph.cast %[[OUT]]
// COUNTS: %[[ROWS:.*]] = graph.reduce %[[ONES]] {dims = array<i64: 1, 2>, {{.*}} -> tensor<2xf32>
// COUNTS: %[[SUM:.*]] = graph.add %{{.*}}, %[[ROWS]]
// COUNTS: %[[ALL:.*]] = graph.reduce %[[SUM]] {dims = array<i64: 0>
// COUNTS: return %{{.*}}, %{{.*}}, %{{.*}}, %[[ALL]]
func.func @forward(%x: tensor<2x4x8xf32> {graph.input = "x"}, %p: tensor<2x4x4xf32> {graph.input = "p"},
                   %up: tensor<4x16x8xf32>, %down: tensor<4x8x16xf32>)
    -> (tensor<2x4x8xf32> {graph.output = "y"}, tensor<2x4x2xf32> {graph.output = "w"},
        tensor<2x4x1xi64> {graph.output = "o"}) {
  %r = graph.route %p {mixture} : (tensor<2x4x4xf32>) -> tensor<2x4x2xi64>
  %h = graph.grouped_matmul %x, %up, %r {transposed}
      : (tensor<2x4x8xf32>, tensor<4x16x8xf32>, tensor<2x4x2xi64>) -> tensor<2x4x2x16xf32>
  %a = graph.relu %h : (tensor<2x4x2x16xf32>) -> tensor<2x4x2x16xf32>
  %y = graph.grouped_matmul %a, %down, %r {transposed}
      : (tensor<2x4x2x16xf32>, tensor<4x8x16xf32>, tensor<2x4x2xi64>) -> tensor<2x4x2x8xf32>
  %s = graph.reduce %y {dims = array<i64: 2>, kind = #graph.reduce_kind<sum>} : (tensor<2x4x2x8xf32>) -> tensor<2x4x8xf32>
  %b = graph.reshape %p : (tensor<2x4x4xf32>) -> tensor<2x4x1x4xf32>
  %c = graph.broadcast %b : (tensor<2x4x1x4xf32>) -> tensor<2x4x2x4xf32>
  %w = graph.take_along %c, %r : (tensor<2x4x2x4xf32>, tensor<2x4x2xi64>) -> tensor<2x4x2xf32>
  %o = graph.route %p : (tensor<2x4x4xf32>) -> tensor<2x4x1xi64> // a choice that is no mixture's
  return %s, %w, %o : tensor<2x4x8xf32>, tensor<2x4x2xf32>, tensor<2x4x1xi64>
}
