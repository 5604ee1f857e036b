// RUN: llmc-opt %s --split-input-file --llmc-repeat-kv-heads | FileCheck %s

// 8 heads share 2 kv heads; 4 ranks need one each, so that heads 0 to 3 stand for
// 0, 0, 1 and 1. Gradients of repeats are added.
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "tp"=4]>} {
  // CHECK-LABEL: func.func @micro
  // CHECK-SAME: %[[Q:[a-z0-9]*]]: tensor<1x3x8x2xf32>, %[[K:[a-z0-9]*]]: tensor<1x5x2x2xf32>, %[[V:[a-z0-9]*]]: tensor<1x5x2x2xf32>
  func.func @micro(%q: tensor<1x3x8x2xf32>, %k: tensor<1x5x2x2xf32>, %v: tensor<1x5x2x2xf32>) -> tensor<1x5x2x2xf32> {
    // CHECK-NOT: graph.backward
    // CHECK: %[[INDEX:.*]] = graph.iota {dim = 0 : i64} : () -> tensor<4xi64>
    // CHECK: %[[TWO:.*]] = graph.constant dense<2> : tensor<i64>
    // CHECK: %[[IDS:.*]] = graph.div %[[INDEX]], %[[TWO]]
    // CHECK: %[[T:.*]] = graph.transpose %[[K]] {permutation = array<i64: 2, 0, 1, 3>}
    // CHECK: %[[G:.*]] = graph.gather %[[T]], %[[IDS]] {parallel.whole} : (tensor<2x1x5x2xf32>, tensor<4xi64>) -> tensor<4x1x5x2xf32>
    // CHECK: %[[KS:.*]] = graph.transpose %[[G]] {permutation = array<i64: 1, 2, 0, 3>}
    // CHECK: graph.transpose %[[V]]
    // CHECK: %[[VS:.*]] = graph.transpose {{.*}} -> tensor<1x5x4x2xf32>
    // CHECK: graph.attention %[[Q]], %[[KS]], %[[VS]] {causal = true, offset = 2 : i64, {{.*}}} : (tensor<1x3x8x2xf32>, tensor<1x5x4x2xf32>, tensor<1x5x4x2xf32>)
    %o, %l = graph.attention %q, %k, %v {scale = 1.0, causal = true, offset = 2} : (tensor<1x3x8x2xf32>, tensor<1x5x2x2xf32>, tensor<1x5x2x2xf32>) -> (tensor<1x3x8x2xf32>, tensor<1x3x8xf32>)
    // CHECK: graph.iota {{.*}}graph.backward
    // CHECK: graph.gather {{.*}}graph.backward
    // CHECK: %{{.*}}, %[[DK:.*]], %[[DV:.*]] = graph.attention_grad %{{.*}} -> (tensor<1x3x8x2xf32>, tensor<1x5x4x2xf32>, tensor<1x5x4x2xf32>)
    // CHECK: graph.transpose %[[DV]]
    // CHECK: %[[SUM:.*]] = graph.scatter_add {{.*}} {graph.backward} : (tensor<4xi64>, tensor<4x1x5x2xf32>) -> tensor<2x1x5x2xf32>
    // CHECK: %[[OUT:.*]] = graph.transpose %[[SUM]] {{.*}}graph.backward
    %dq, %dk, %dv = graph.attention_grad %o, %q, %k, %v, %o, %l {scale = 1.0, causal = true, offset = 2, graph.backward}
        : (tensor<1x3x8x2xf32>, tensor<1x3x8x2xf32>, tensor<1x5x2x2xf32>, tensor<1x5x2x2xf32>, tensor<1x3x8x2xf32>, tensor<1x3x8xf32>) -> (tensor<1x3x8x2xf32>, tensor<1x5x2x2xf32>, tensor<1x5x2x2xf32>)
    // CHECK: return %[[OUT]]
    return %dv : tensor<1x5x2x2xf32>
  }
}

// -----

// 12 heads, 4 kv heads, 6 ranks: 12 kv heads, two a rank.
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "tp"=6]>} {
  func.func @forward(%q: tensor<1x3x12x2xf32>, %k: tensor<1x3x4x2xf32>) -> tensor<1x3x12x2xf32> {
    // CHECK: graph.constant dense<3> : tensor<i64>
    // CHECK: graph.attention {{.*}} : (tensor<1x3x12x2xf32>, tensor<1x3x12x2xf32>, tensor<1x3x12x2xf32>)
    %o, %l = graph.attention %q, %k, %k {scale = 1.0, causal = true} : (tensor<1x3x12x2xf32>, tensor<1x3x4x2xf32>, tensor<1x3x4x2xf32>) -> (tensor<1x3x12x2xf32>, tensor<1x3x12xf32>)
    return %o : tensor<1x3x12x2xf32>
  }
}

// -----

// Left alone: one kv head (all share it), kv heads that divide, heads that do not.
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "tp"=4]>} {
  func.func @forward(%q: tensor<1x3x8x2xf32>, %k: tensor<1x3x1x2xf32>, %k4: tensor<1x3x4x2xf32>, %q6: tensor<1x3x6x2xf32>, %k2: tensor<1x3x2x2xf32>) {
    // CHECK-NOT: graph.gather
    %0, %1 = graph.attention %q, %k, %k {scale = 1.0, causal = true} : (tensor<1x3x8x2xf32>, tensor<1x3x1x2xf32>, tensor<1x3x1x2xf32>) -> (tensor<1x3x8x2xf32>, tensor<1x3x8xf32>)
    %2, %3 = graph.attention %q, %k4, %k4 {scale = 1.0, causal = true} : (tensor<1x3x8x2xf32>, tensor<1x3x4x2xf32>, tensor<1x3x4x2xf32>) -> (tensor<1x3x8x2xf32>, tensor<1x3x8xf32>)
    %4, %5 = graph.attention %q6, %k2, %k2 {scale = 1.0, causal = true} : (tensor<1x3x6x2xf32>, tensor<1x3x2x2xf32>, tensor<1x3x2x2xf32>) -> (tensor<1x3x6x2xf32>, tensor<1x3x6xf32>)
    return
  }
}

// -----

// Without an attention to say so: 2 kv heads broadcast to 4 heads. On 4 ranks they are
// looked up first, and nothing is left to repeat; the gradient sums what stands for one head.
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "tp"=4]>} {
  // CHECK-LABEL: func.func @micro
  // CHECK-SAME: %[[K:[a-z0-9]*]]: tensor<1x2x1x3x2xf32>, %[[G:[a-z0-9]*]]: tensor<1x4x2x3xf32>
  func.func @micro(%k: tensor<1x2x1x3x2xf32>, %g: tensor<1x4x2x3xf32>) -> (tensor<1x4x2x3xf32>, tensor<1x2x3x2xf32>) {
    %c = graph.constant dense<2.0> : tensor<f32>
    // CHECK: %[[ROWS:.*]] = graph.gather {{.*}} {parallel.whole} : (tensor<2x1x1x3x2xf32>, tensor<4xi64>) -> tensor<4x1x1x3x2xf32>
    // CHECK: %[[KS:.*]] = graph.transpose %[[ROWS]] {{.*}} -> tensor<1x4x1x3x2xf32>
    // CHECK: %[[B:.*]] = graph.broadcast %[[KS]] : (tensor<1x4x1x3x2xf32>) -> tensor<1x4x1x3x2xf32>
    %b = graph.broadcast %k : (tensor<1x2x1x3x2xf32>) -> tensor<1x2x2x3x2xf32>
    // CHECK: graph.mul %[[B]], {{.*}} -> tensor<1x4x1x3x2xf32>
    %m = graph.mul %b, %c : (tensor<1x2x2x3x2xf32>, tensor<f32>) -> tensor<1x2x2x3x2xf32>
    // CHECK: graph.transpose {{.*}} -> tensor<1x4x1x2x3xf32>
    %t = graph.transpose %m {permutation = array<i64: 0, 1, 2, 4, 3>} : (tensor<1x2x2x3x2xf32>) -> tensor<1x2x2x2x3xf32>
    // CHECK: %[[H:.*]] = graph.reshape {{.*}} : (tensor<1x4x1x2x3xf32>) -> tensor<1x4x2x3xf32>
    %h = graph.reshape %t : (tensor<1x2x2x2x3xf32>) -> tensor<1x4x2x3xf32>
    // CHECK: graph.reshape %[[G]] {graph.backward} : (tensor<1x4x2x3xf32>) -> tensor<1x4x1x2x3xf32>
    %p = graph.reshape %g {graph.backward} : (tensor<1x4x2x3xf32>) -> tensor<1x2x2x2x3xf32>
    %q = graph.transpose %p {graph.backward, permutation = array<i64: 0, 1, 2, 4, 3>} : (tensor<1x2x2x2x3xf32>) -> tensor<1x2x2x3x2xf32>
    // CHECK: %[[R:.*]] = graph.reduce {{.*}} {dims = array<i64: 2>, graph.backward, {{.*}}} : (tensor<1x4x1x3x2xf32>) -> tensor<1x4x3x2xf32>
    // CHECK: %[[U:.*]] = graph.transpose %[[R]]
    // CHECK: graph.scatter_add %{{.*}}, %[[U]] {graph.backward} : (tensor<4xi64>, tensor<4x1x3x2xf32>) -> tensor<2x1x3x2xf32>
    // CHECK: %[[D:.*]] = graph.transpose {{.*}} -> tensor<1x2x3x2xf32>
    %d = graph.reduce %q {graph.backward, dims = array<i64: 2>, kind = #graph.reduce_kind<sum>} : (tensor<1x2x2x3x2xf32>) -> tensor<1x2x3x2xf32>
    // CHECK: return %[[H]], %[[D]]
    return %h, %d : tensor<1x4x2x3xf32>, tensor<1x2x3x2xf32>
  }
}

// -----

// Left alone: somebody reads the repeats one by one.
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "tp"=4]>} {
  func.func @forward(%k: tensor<1x2x1x3xf32>, %w: tensor<2x2x3xf32>) -> (tensor<1x4x3xf32>, tensor<1x2x2x3xf32>) {
    // CHECK-NOT: graph.gather
    %b = graph.broadcast %k : (tensor<1x2x1x3xf32>) -> tensor<1x2x2x3xf32>
    %h = graph.reshape %b : (tensor<1x2x2x3xf32>) -> tensor<1x4x3xf32>
    %m = graph.mul %b, %w : (tensor<1x2x2x3xf32>, tensor<2x2x3xf32>) -> tensor<1x2x2x3xf32>
    return %h, %m : tensor<1x4x3xf32>, tensor<1x2x2x3xf32>
  }
}
