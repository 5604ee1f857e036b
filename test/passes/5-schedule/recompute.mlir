// RUN: llmc-opt %s --llmc-recompute=mode=selective | FileCheck %s --check-prefixes=CHECK,SELECT
// RUN: llmc-opt %s --llmc-recompute=mode=full | FileCheck %s --check-prefixes=CHECK,FULL
// RUN: llmc-opt %s --llmc-recompute="mode=auto budgets=256" | FileCheck %s --check-prefixes=CHECK,SELECT,KEPT
// RUN: llmc-opt %s --llmc-recompute="mode=auto budgets=128" | FileCheck %s --check-prefixes=CHECK,FULL
// RUN: llmc-opt %s --llmc-recompute=mode=auto | FileCheck %s --check-prefix=ALL
// RUN: llmc-opt %s --llmc-recompute=mode=none | FileCheck %s --check-prefix=NONE

// A layer h = x + exp(tanh(x w)), whose product is a partial sum over tp. Backward reads x, tanh and
// exp. `selective` keeps x and tanh: it takes as much as the sum before it, and less is done again.
// `full` keeps x alone, and runs the product and its reduction again, but not the last addition. `auto`
// does the one where two layers may keep two values, the other where they may keep one, and nothing
// without a limit. Of the values of a layer that backward has not
// anyway (the weight) x has number 0 and tanh number 3.

// NONE-NOT: plan.recomputed
// ALL: plan.kept = [{blocks = [array<i64>, array<i64: 0, 3, 4>], bytes = 384 : i64, stage = 0 : i64}]
// ALL-SAME: plan.recomputed = []
// KEPT: plan.kept = [{blocks = [array<i64>, array<i64: 0, 3>], bytes = 256 : i64, stage = 0 : i64}]
// SELECT: plan.recomputed = [{bytes = 64 : i64, flops = {{.*}}, layers = 2 : i64, node = "", op = "graph.exp", ops = ["graph.exp"], stage = 0 : i64}]
// FULL: plan.recomputed = [
// FULL-SAME: op = "graph.tanh", ops = ["graph.matmul", "parallel.all_reduce", "graph.tanh"]
// FULL-SAME: op = "graph.exp", ops = ["graph.exp"]
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "tp"=2]>} {
  graph.source @s : tensor<2x4x4xf32> {init = #graph.init_kind<zeros>}
  graph.state @w : tensor<2x4x4xf32> parameter stacked
      views [#graph.view<@s, 0, [4, 1]>, #graph.view<@s, 16, [4, 1]>] {parallel.stages = [0]}
  graph.state @w.grad : tensor<2x4x4xf32> accumulator stacked of @w {parallel.stages = [0]}

  // CHECK-LABEL: func.func @forward_0
  // CHECK-SAME: -> (tensor<4x4xf32> {graph.output = "y"}, tensor<2x4x4xf32> {parallel.residual = 0 : i64}
  // SELECT-SAME: , tensor<2x4x4xf32> {parallel.residual = 1 : i64})
  // FULL-SAME: )
  // CHECK: graph.repeat 2
  // SELECT: graph.yield %{{.*}}, %{{.*}}, %{{.*}} :
  // FULL: graph.yield %{{.*}}, %{{.*}} :
  func.func @forward_0(%x: tensor<4x4xf32> {graph.input = "x"},
                       %w: tensor<2x4x4xf32> {graph.state = @w, parallel.layers = array<i64: 0, 2>})
      -> (tensor<4x4xf32> {graph.output = "y"}, tensor<2x4x4xf32> {parallel.residual = 0 : i64},
          tensor<2x4x4xf32> {parallel.residual = 1 : i64}, tensor<2x4x4xf32> {parallel.residual = 2 : i64})
      attributes {parallel.stage = 0 : i64, parallel.procedure = "forward"} {
    %h, %r0, %r1, %r2 = graph.repeat 2 carried(%x : tensor<4x4xf32>) stacked(%w : tensor<2x4x4xf32>) captured()
        -> tensor<4x4xf32> stacking tensor<2x4x4xf32>, tensor<2x4x4xf32>, tensor<2x4x4xf32> {
    ^bb0(%a: tensor<4x4xf32>, %wi: tensor<4x4xf32>):
      %p = graph.matmul "bd,de->be" %a, %wi : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      %s = parallel.all_reduce %p over ["tp"] {kind = #graph.reduce_kind<sum>} : tensor<4x4xf32>
      %t = graph.tanh %s : (tensor<4x4xf32>) -> tensor<4x4xf32>
      %e = graph.exp %t : (tensor<4x4xf32>) -> tensor<4x4xf32>
      %n = graph.add %a, %e : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      graph.yield %n, %a, %t, %e : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
    }
    return %h, %r0, %r1, %r2 : tensor<4x4xf32>, tensor<2x4x4xf32>, tensor<2x4x4xf32>, tensor<2x4x4xf32>
  }

  // Backward gets the weight as a stacked operand, though it did not read it before.
  // CHECK-LABEL: func.func @backward_0
  // SELECT: graph.repeat 2 reverse carried({{.*}}) stacked({{.*}} : tensor<2x4x4xf32>, tensor<2x4x4xf32>, tensor<2x4x4xf32>)
  // SELECT: ^bb0(%[[G:.*]]: tensor<4x4xf32>, %[[X:.*]]: tensor<4x4xf32>, %[[T:.*]]: tensor<4x4xf32>, %{{.*}}: tensor<4x4xf32>):
  // SELECT-NEXT: graph.mul %[[G]], %[[T]]
  // SELECT-NEXT: %[[E:.*]] = graph.exp %[[T]]
  // SELECT-NEXT: graph.mul %{{.*}}, %[[E]]
  // FULL: graph.repeat 2 reverse carried({{.*}}) stacked({{.*}} : tensor<2x4x4xf32>, tensor<2x4x4xf32>, tensor<2x4x4xf32>)
  // FULL: ^bb0(%[[G:.*]]: tensor<4x4xf32>, %[[X:.*]]: tensor<4x4xf32>, %{{.*}}: tensor<4x4xf32>, %[[W:.*]]: tensor<4x4xf32>):
  // FULL-NEXT: %[[P:.*]] = graph.matmul "bd,de->be" %[[X]], %[[W]]
  // FULL-NEXT: %[[S:.*]] = parallel.all_reduce %[[P]] over ["tp"]
  // FULL-NEXT: %[[T:.*]] = graph.tanh %[[S]]
  // FULL-NEXT: graph.mul %[[G]], %[[T]]
  // FULL-NEXT: %[[E:.*]] = graph.exp %[[T]]
  // FULL-NEXT: graph.mul %{{.*}}, %[[E]]
  // CHECK-NOT: graph.add
  // CHECK: graph.yield
  func.func @backward_0(%r0: tensor<2x4x4xf32> {parallel.residual = 0 : i64}, %r1: tensor<2x4x4xf32> {parallel.residual = 1 : i64},
                        %r2: tensor<2x4x4xf32> {parallel.residual = 2 : i64}, %g: tensor<4x4xf32> {graph.input = "g"},
                        %acc: tensor<2x4x4xf32> {graph.state = @w.grad, parallel.layers = array<i64: 0, 2>})
      -> (tensor<2x4x4xf32> {graph.state = @w.grad, parallel.layers = array<i64: 0, 2>})
      attributes {parallel.stage = 0 : i64, parallel.procedure = "backward"} {
    %d, %new = graph.repeat 2 reverse carried(%g : tensor<4x4xf32>)
        stacked(%r0, %r1, %r2, %acc : tensor<2x4x4xf32>, tensor<2x4x4xf32>, tensor<2x4x4xf32>, tensor<2x4x4xf32>) captured()
        -> tensor<4x4xf32> stacking tensor<2x4x4xf32> {
    ^bb0(%gi: tensor<4x4xf32>, %a: tensor<4x4xf32>, %t: tensor<4x4xf32>, %e: tensor<4x4xf32>, %ai: tensor<4x4xf32>):
      %0 = graph.mul %gi, %t : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      %1 = graph.mul %0, %e : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      %2 = graph.matmul "bd,be->de" %a, %1 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      %3 = graph.sub %ai, %2 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      graph.yield %1, %3 : tensor<4x4xf32>, tensor<4x4xf32>
    }
    return %new : tensor<2x4x4xf32>
  }
}
