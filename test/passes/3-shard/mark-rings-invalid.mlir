// RUN: llmc-opt %s --split-input-file --llmc-mark-rings --verify-diagnostics

// expected-error @+1 {{cp consists of 2 axes of the mesh, and a ring goes along one; use --cp-kind heads}}
module attributes {parallel.mesh = #parallel.mesh<["cp0"=2, "cp1"=2], cp = ["cp0", "cp1"]>} {
}

// -----

// All attentions that cannot be a ring are told.
module attributes {parallel.mesh = #parallel.mesh<["cp"=2]>} {
  func.func @micro(%q: tensor<2x4x2x4xf32>, %k: tensor<2x8x2x4xf32>, %m: tensor<1x1x4x4xi1>) -> tensor<2x4x2x4xf32> {
    // expected-error @+1 {{has 4 rows and 8 keys, as with a cache of keys; a ring shares out one sequence; use --cp-kind heads}}
    %o, %lse = graph.attention %q, %k, %k {scale = 0.5 : f64, causal = true}
        : (tensor<2x4x2x4xf32>, tensor<2x8x2x4xf32>, tensor<2x8x2x4xf32>) -> (tensor<2x4x2x4xf32>, tensor<2x4x2xf32>)
    // expected-error @+1 {{has a mask that differs between rows, which does not travel with the keys; use --cp-kind heads}}
    %p, %lse2 = graph.attention %q, %q, %q, %m {scale = 0.5 : f64, causal = true}
        : (tensor<2x4x2x4xf32>, tensor<2x4x2x4xf32>, tensor<2x4x2x4xf32>, tensor<1x1x4x4xi1>) -> (tensor<2x4x2x4xf32>, tensor<2x4x2xf32>)
    return %p : tensor<2x4x2x4xf32>
  }
}
