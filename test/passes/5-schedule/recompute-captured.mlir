// RUN: llmc-opt %s --llmc-recompute=mode=full | FileCheck %s

// Both layers read one sum over tp, a table of angles say, and compute three values of it, which backward reads. `full`
// keeps the layers' inputs, stacked, and the sum once: it does not differ between layers.

module attributes {parallel.mesh = #parallel.mesh<["tp"=2]>} {
  // CHECK-LABEL: func.func @forward_0
  // CHECK-SAME: -> (tensor<2x4x4xf32> {parallel.residual = {{[0-9]+}} : i64}, tensor<4x4xf32> {parallel.residual = {{[0-9]+}} : i64})
  // CHECK: %[[SUM:.*]] = parallel.all_reduce
  // CHECK: %[[H:.*]], %[[S:.*]] = graph.repeat 2 {{.*}} captured(%[[SUM]] : tensor<4x4xf32>)
  // CHECK: return %[[S]], %[[SUM]]
  func.func @forward_0(%x: tensor<4x4xf32>)
      -> (tensor<2x4x4xf32> {parallel.residual = 0 : i64}, tensor<2x4x4xf32> {parallel.residual = 1 : i64},
          tensor<2x4x4xf32> {parallel.residual = 2 : i64})
      attributes {parallel.stage = 0 : i64, parallel.procedure = "forward"} {
    %sum = parallel.all_reduce %x over ["tp"] {kind = #graph.reduce_kind<sum>} : tensor<4x4xf32>
    %h, %r, %s, %t = graph.repeat 2 carried(%x : tensor<4x4xf32>) stacked() captured(%sum : tensor<4x4xf32>)
        -> tensor<4x4xf32> stacking tensor<2x4x4xf32>, tensor<2x4x4xf32>, tensor<2x4x4xf32> {
    ^bb0(%in: tensor<4x4xf32>, %c: tensor<4x4xf32>):
      %m = graph.mul %in, %c : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      %e = graph.exp %m : (tensor<4x4xf32>) -> tensor<4x4xf32>
      %y = graph.add %in, %c : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      %g = graph.tanh %y : (tensor<4x4xf32>) -> tensor<4x4xf32>
      %z = graph.sub %in, %c : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      %k = graph.sigmoid %z : (tensor<4x4xf32>) -> tensor<4x4xf32>
      %out = graph.add %in, %e : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      graph.yield %out, %e, %g, %k : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
    }
    return %r, %s, %t : tensor<2x4x4xf32>, tensor<2x4x4xf32>, tensor<2x4x4xf32>
  }
  // CHECK-LABEL: func.func @backward_0
  // CHECK-SAME: %[[STACKED:[a-z0-9]+]]: tensor<2x4x4xf32> {parallel.residual = {{[0-9]+}} : i64}, %[[ONCE:[a-z0-9]+]]: tensor<4x4xf32> {parallel.residual = {{[0-9]+}} : i64}
  // CHECK: graph.repeat 2 reverse {{.*}} stacked({{.*}}%[[STACKED]]{{.*}}) captured(%[[ONCE]] : tensor<4x4xf32>)
  // CHECK: graph.mul
  // CHECK: graph.exp
  func.func @backward_0(%acc: tensor<2x4x4xf32> {graph.state = @w.grad}, %r: tensor<2x4x4xf32> {parallel.residual = 0 : i64},
                        %s: tensor<2x4x4xf32> {parallel.residual = 1 : i64}, %t: tensor<2x4x4xf32> {parallel.residual = 2 : i64})
      -> (tensor<2x4x4xf32> {graph.state = @w.grad})
      attributes {parallel.stage = 0 : i64, parallel.procedure = "backward"} {
    %new = graph.repeat 2 reverse carried() stacked(%r, %s, %t, %acc : tensor<2x4x4xf32>, tensor<2x4x4xf32>, tensor<2x4x4xf32>, tensor<2x4x4xf32>) captured()
        stacking tensor<2x4x4xf32> {
    ^bb0(%e: tensor<4x4xf32>, %g: tensor<4x4xf32>, %k: tensor<4x4xf32>, %a: tensor<4x4xf32>):
      %p = graph.mul %e, %g : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      %q = graph.mul %p, %k : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      %n = graph.add %a, %q : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      graph.yield %n : tensor<4x4xf32>
    }
    return %new : tensor<2x4x4xf32>
  }
  graph.source @w0 : tensor<2x4x4xf32> {init = #graph.init_kind<ones>}
  graph.state @w : tensor<2x4x4xf32> parameter stacked views [#graph.view<@w0, 0, [4, 1]>, #graph.view<@w0, 16, [4, 1]>]
  graph.state @w.grad : tensor<2x4x4xf32> accumulator of @w
}
