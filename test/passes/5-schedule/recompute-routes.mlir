// RUN: llmc-opt %s --llmc-recompute=mode=selective | FileCheck %s
// RUN: llmc-opt %s --llmc-recompute=mode=full | FileCheck %s
// RUN: llmc-opt %s --llmc-recompute="mode=auto budgets=256" | FileCheck %s

// Scores are computed again, and the experts that they chose are kept: roundings of another kernel could
// choose others where scores nearly tie.
// CHECK: plan.recomputed = [{{.*}}"graph.tanh"
// CHECK-LABEL: func.func @forward_0
// CHECK-SAME: tensor<2x4x1xi64> {parallel.residual
// CHECK-LABEL: func.func @backward_0
// CHECK-NOT: graph.route
// CHECK: graph.tanh
// CHECK-NOT: graph.route
// CHECK: graph.yield
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "tp"=2]>} {
  func.func @forward_0(%x: tensor<4x4xf32> {graph.input = "x"})
      -> (tensor<4x4xf32> {graph.output = "y"}, tensor<2x4x4xf32> {parallel.residual = 0 : i64},
          tensor<2x4x4xf32> {parallel.residual = 1 : i64}, tensor<2x4x1xi64> {parallel.residual = 2 : i64})
      attributes {parallel.stage = 0 : i64, parallel.procedure = "forward"} {
    %h, %r0, %r1, %r2 = graph.repeat 2 carried(%x : tensor<4x4xf32>) stacked() captured()
        -> tensor<4x4xf32> stacking tensor<2x4x4xf32>, tensor<2x4x4xf32>, tensor<2x4x1xi64> {
    ^bb0(%a: tensor<4x4xf32>):
      %t = graph.tanh %a : (tensor<4x4xf32>) -> tensor<4x4xf32>
      %r = graph.route %t : (tensor<4x4xf32>) -> tensor<4x1xi64>
      %n = graph.add %a, %t : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      graph.yield %n, %a, %t, %r : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x1xi64>
    }
    return %h, %r0, %r1, %r2 : tensor<4x4xf32>, tensor<2x4x4xf32>, tensor<2x4x4xf32>, tensor<2x4x1xi64>
  }
  func.func @backward_0(%r0: tensor<2x4x4xf32> {parallel.residual = 0 : i64}, %r1: tensor<2x4x4xf32> {parallel.residual = 1 : i64},
                        %r2: tensor<2x4x1xi64> {parallel.residual = 2 : i64}, %g: tensor<4x4xf32> {graph.input = "g"})
      -> (tensor<4x4xf32> {graph.output = "d"})
      attributes {parallel.stage = 0 : i64, parallel.procedure = "backward"} {
    %d = graph.repeat 2 reverse carried(%g : tensor<4x4xf32>)
        stacked(%r0, %r1, %r2 : tensor<2x4x4xf32>, tensor<2x4x4xf32>, tensor<2x4x1xi64>) captured()
        -> tensor<4x4xf32> {
    ^bb0(%gi: tensor<4x4xf32>, %a: tensor<4x4xf32>, %t: tensor<4x4xf32>, %r: tensor<4x1xi64>):
      %0 = graph.mul %gi, %t : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      %1 = graph.mul %0, %a : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      %2 = graph.cast %r : (tensor<4x1xi64>) -> tensor<4x1xf32>
      %3 = graph.broadcast %2 {dims = array<i64: 0, 1>} : (tensor<4x1xf32>) -> tensor<4x4xf32>
      %4 = graph.add %1, %3 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      graph.yield %4 : tensor<4x4xf32>
    }
    return %d : tensor<4x4xf32>
  }
}
