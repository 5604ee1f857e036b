// RUN: llmc-opt %s --split-input-file --llmc-count-attention | FileCheck %s

// Rank 0 has rows 0 and 1 of 4, rank 1 rows 2 and 3. Of their own keys both see 3 pairs, of the other's
// rank 0 none and rank 1 all 4: forward 2 products of 2 heads of 4 elements, 32 FLOPs a pair, in 3 layers.
// On average 3 of 4 pairs, and half of them.
// CHECK: plan.attention_flops = [2.880000e+02, 6.720000e+02]
// CHECK: graph.attention {{.*}}parallel.visible = 7.500000e-01
// CHECK: graph.attention {{.*}}parallel.visible = 5.000000e-01
module attributes {parallel.mesh = #parallel.mesh<["dp"=2, "cp"=2]>} {
func.func @forward(%x: tensor<1x2x2x4xf32>, %k: tensor<1x2x1x4xf32>) -> tensor<1x2x2x4xf32> {
  %y = graph.repeat 3 carried(%x : tensor<1x2x2x4xf32>) stacked() captured(%k : tensor<1x2x1x4xf32>) -> tensor<1x2x2x4xf32> {
  ^bb0(%q: tensor<1x2x2x4xf32>, %j: tensor<1x2x1x4xf32>):
    %at = parallel.axis_offset ["cp"] stride 2 : tensor<i64>
    %p = graph.iota %at {dim = 0} : (tensor<i64>) -> tensor<2xi64>
    %p1 = parallel.shift %p over ["cp"] by 1 : tensor<2xi64>
    %o, %l = graph.attention %q, %j, %j, %p, %p {scale = 0.5, causal = true}
        : (tensor<1x2x2x4xf32>, tensor<1x2x1x4xf32>, tensor<1x2x1x4xf32>, tensor<2xi64>, tensor<2xi64>) -> (tensor<1x2x2x4xf32>, tensor<1x2x2xf32>)
    %o1, %l1 = graph.attention %o, %j, %j, %p, %p1 {scale = 0.5, causal = true}
        : (tensor<1x2x2x4xf32>, tensor<1x2x1x4xf32>, tensor<1x2x1x4xf32>, tensor<2xi64>, tensor<2xi64>) -> (tensor<1x2x2x4xf32>, tensor<1x2x2xf32>)
    graph.yield %o1 : tensor<1x2x2x4xf32>
  }
  return %y : tensor<1x2x2x4xf32>
}
}

// -----

// A window of 2 leaves a row its own key and the one before. The gradient has five products. Without
// positions, shapes tell.
// CHECK: plan.attention_flops = [1.560000e+03]
module attributes {parallel.mesh = #parallel.mesh<["dp"=2]>} {
func.func @backward(%q: tensor<1x4x1x4xf32>, %l: tensor<1x4x1xf32>, %k: tensor<1x4x1x4xf32>, %p: tensor<4xi64>) -> tensor<1x4x1x4xf32> {
  %i = graph.iota {dim = 0} : () -> tensor<4xi64>
  %dq, %dk, %dv = graph.attention_grad %q, %q, %k, %k, %q, %l, %i, %i {scale = 0.5, causal = true, window = 2}
      : (tensor<1x4x1x4xf32>, tensor<1x4x1x4xf32>, tensor<1x4x1x4xf32>, tensor<1x4x1x4xf32>, tensor<1x4x1x4xf32>, tensor<1x4x1xf32>, tensor<4xi64>, tensor<4xi64>)
        -> (tensor<1x4x1x4xf32>, tensor<1x4x1x4xf32>, tensor<1x4x1x4xf32>)
  %dq2, %dk2, %dv2 = graph.attention_grad %dq, %q, %k, %k, %q, %l {scale = 0.5, causal = false}
      : (tensor<1x4x1x4xf32>, tensor<1x4x1x4xf32>, tensor<1x4x1x4xf32>, tensor<1x4x1x4xf32>, tensor<1x4x1x4xf32>, tensor<1x4x1xf32>)
        -> (tensor<1x4x1x4xf32>, tensor<1x4x1x4xf32>, tensor<1x4x1x4xf32>)
  // Positions that are given cannot be known: all pairs are counted.
  %dq3, %dk3, %dv3 = graph.attention_grad %dq2, %q, %k, %k, %q, %l, %p, %p {scale = 0.5, causal = true}
      : (tensor<1x4x1x4xf32>, tensor<1x4x1x4xf32>, tensor<1x4x1x4xf32>, tensor<1x4x1x4xf32>, tensor<1x4x1x4xf32>, tensor<1x4x1xf32>, tensor<4xi64>, tensor<4xi64>)
        -> (tensor<1x4x1x4xf32>, tensor<1x4x1x4xf32>, tensor<1x4x1x4xf32>)
  return %dq3 : tensor<1x4x1x4xf32>
}
}
