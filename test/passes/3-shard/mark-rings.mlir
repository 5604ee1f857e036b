// RUN: llmc-opt %s --split-input-file --llmc-mark-rings | FileCheck %s

// A causal attention gets the positions of its rows and keys, one that sees all keys needs none.
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "cp"=2, "tp"=1]>} {
  // CHECK-LABEL: func.func @micro
  func.func @micro(%q: tensor<2x4x2x4xf32>, %k: tensor<2x4x1x4xf32>, %m: tensor<2x1x1x4xi1>) -> tensor<2x4x2x4xf32> {
    // CHECK: %[[AT:.*]] = graph.iota {dim = 0 : i64} : () -> tensor<4xi64>
    // CHECK: graph.attention %arg0, %arg1, %arg1, %arg2, %[[AT]], %[[AT]] {causal = true, ring,
    %o, %lse = graph.attention %q, %k, %k, %m {scale = 0.5 : f64, causal = true}
        : (tensor<2x4x2x4xf32>, tensor<2x4x1x4xf32>, tensor<2x4x1x4xf32>, tensor<2x1x1x4xi1>) -> (tensor<2x4x2x4xf32>, tensor<2x4x2xf32>)
    // CHECK-NOT: graph.iota
    // CHECK: graph.attention %arg0, %arg1, %arg1 {causal = false, ring,
    %p, %lse2 = graph.attention %q, %k, %k {scale = 0.5 : f64, causal = false}
        : (tensor<2x4x2x4xf32>, tensor<2x4x1x4xf32>, tensor<2x4x1x4xf32>) -> (tensor<2x4x2x4xf32>, tensor<2x4x2xf32>)
    // CHECK: graph.attention_grad
    // CHECK-SAME: ring
    %dq, %dk, %dv = graph.attention_grad %o, %q, %k, %k, %p, %lse2 {scale = 0.5 : f64, causal = false}
        : (tensor<2x4x2x4xf32>, tensor<2x4x2x4xf32>, tensor<2x4x1x4xf32>, tensor<2x4x1x4xf32>, tensor<2x4x2x4xf32>, tensor<2x4x2xf32>) -> (tensor<2x4x2x4xf32>, tensor<2x4x1x4xf32>, tensor<2x4x1x4xf32>)
    return %dq : tensor<2x4x2x4xf32>
  }
}

// -----

// With one rank of cp nothing changes.
// CHECK: module @one
module @one attributes {parallel.mesh = #parallel.mesh<["dp"=2, "pp"=1, "tp"=2]>} {
  // CHECK-NOT: ring
  func.func @micro(%q: tensor<2x4x2x4xf32>) -> tensor<2x4x2x4xf32> {
    %o, %lse = graph.attention %q, %q, %q {scale = 0.5 : f64, causal = true}
        : (tensor<2x4x2x4xf32>, tensor<2x4x2x4xf32>, tensor<2x4x2x4xf32>) -> (tensor<2x4x2x4xf32>, tensor<2x4x2xf32>)
    return %o : tensor<2x4x2x4xf32>
  }
}
