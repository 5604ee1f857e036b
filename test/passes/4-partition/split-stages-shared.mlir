// RUN: llmc-opt %s --llmc-split-stages --split-input-file | FileCheck %s

// Three layers over two stages add one vector, whose gradient layers carry from zero. Each stage begins at zero,
// and adds what its own layers give to its own accumulator; a cut sum is gathered there too.

// CHECK-LABEL: func.func @backward_0
// CHECK-SAME: %[[G:arg[0-9]*]]: tensor<4xf32> {graph.state = @g,
// CHECK: %[[ZERO:.*]] = graph.constant dense<0.000000e+00>
// CHECK: graph.repeat 2 reverse carried(%{{.*}}, %[[ZERO]] : tensor<4xf32>, tensor<4xf32>)
// CHECK: %[[WHOLE:.*]] = parallel.reshard %{{.*}}#1 from
// CHECK: %[[SUM:.*]] = graph.add %[[G]], %[[WHOLE]]
// CHECK: return {{.*}} %[[SUM]] : tensor<4xf32>

// CHECK-LABEL: func.func @backward_1
// CHECK-SAME: %[[G:arg[0-9]*]]: tensor<4xf32> {graph.state = @g,
// CHECK: %[[ZERO:.*]] = graph.constant dense<0.000000e+00>
// CHECK: graph.repeat 1 reverse carried(%{{.*}}, %[[ZERO]] : tensor<4xf32>, tensor<4xf32>)
// CHECK: %[[WHOLE:.*]] = parallel.reshard %{{.*}}#1 from
// CHECK: %[[SUM:.*]] = graph.add %[[G]], %[[WHOLE]]
// CHECK: return {{.*}}#0, %[[SUM]] :
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=2, "tp"=2]>} {
graph.source @shared : tensor<4xf32> {init = #graph.init_kind<zeros>}
graph.state @w : tensor<4xf32> parameter views [#graph.view<@shared, 0, [1]>]
graph.state @g : tensor<4xf32> accumulator of @w

func.func @micro(%x: tensor<4xf32> {graph.input = "x"}, %w: tensor<4xf32> {graph.state = @w}, %g: tensor<4xf32> {graph.state = @g})
    -> (tensor<4xf32> {graph.state = @g}) {
  %zero = graph.constant dense<0.0> : tensor<4xf32>
  %h0 = graph.neg %x {parallel.stage = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  %h = graph.repeat 3 carried(%h0 : tensor<4xf32>) stacked() captured(%w : tensor<4xf32>) -> tensor<4xf32> attributes {parallel.layers = [2, 1]} {
  ^bb0(%c: tensor<4xf32>, %wi: tensor<4xf32>):
    %0 = graph.add %c, %wi : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    graph.yield %0 : tensor<4xf32>
  }
  %dy = graph.neg %h {graph.backward, parallel.stage = 1 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  %dx, %dw = graph.repeat 3 reverse carried(%dy, %zero : tensor<4xf32>, tensor<4xf32>) stacked() captured() -> tensor<4xf32>, tensor<4xf32>
      attributes {graph.backward, parallel.layers = [2, 1]} {
  ^bb0(%d: tensor<4xf32>, %sum: tensor<4xf32>):
    %0 = graph.neg %d {graph.backward} : (tensor<4xf32>) -> tensor<4xf32>
    %1 = graph.add %sum, %d {graph.backward} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    graph.yield %0, %1 : tensor<4xf32>, tensor<4xf32>
  }
  %whole = parallel.reshard %dw from <[{"tp"}]> to <[{}]> {graph.backward, parallel.stage = 0 : i64} : tensor<4xf32>
  %g2 = graph.add %g, %whole {graph.backward, parallel.stage = 0 : i64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %g2 : tensor<4xf32>
}
func.func @update(%w: tensor<4xf32> {graph.state = @w}, %g: tensor<4xf32> {graph.state = @g}) -> (tensor<4xf32> {graph.state = @w}) {
  %w2 = graph.sub %w, %g : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %w2 : tensor<4xf32>
}
}
