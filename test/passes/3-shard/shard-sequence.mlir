// RUN: llmc-opt %s --split-input-file --llmc-shard-tensor --llmc-shard-sequence | FileCheck %s

// Two layers of a product that is cut by columns and one by rows, with a norm between them. The
// partial sum behind the row cut is defined as such; what reads it needs its part of the sequence.
// The norm follows, its weight stays whole, and the next column cut needs the sequence whole again.
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "tp"=2]>} {
  graph.source @s0 : tensor<8x32xf32> {init = #graph.init_kind<normal>, init_std = 0.02 : f64}
  graph.source @s1 : tensor<32x8xf32> {init = #graph.init_kind<normal>, init_std = 0.02 : f64}
  graph.source @s2 : tensor<8xf32> {init = #graph.init_kind<ones>}
  graph.state @up : tensor<8x32xf32> parameter views [#graph.view<@s0, 0, [32, 1]>]
  graph.state @down : tensor<32x8xf32> parameter views [#graph.view<@s1, 0, [8, 1]>]
  // CHECK: graph.state @norm {{.*}}parallel.sharding = #parallel.sharding<[{}]>
  graph.state @norm : tensor<8xf32> parameter views [#graph.view<@s2, 0, [1]>]
  graph.state @norm.grad : tensor<8xf32> accumulator of @norm
  // CHECK-LABEL: func.func @micro
  // CHECK-SAME: graph.input = "x", parallel.sharding = #parallel.sharding<[{}, {}, {}]>
  func.func @micro(%x: tensor<2x4x8xf32> {graph.input = "x"}, %up: tensor<8x32xf32> {graph.state = @up},
                   %down: tensor<32x8xf32> {graph.state = @down}, %norm: tensor<8xf32> {graph.state = @norm},
                   %acc: tensor<8xf32> {graph.state = @norm.grad})
      -> (tensor<2x4x8xf32> {graph.output = "y"}, tensor<8xf32> {graph.state = @norm.grad}) {
    %0 = graph.matmul "bsd,de->bse" %x, %up : (tensor<2x4x8xf32>, tensor<8x32xf32>) -> tensor<2x4x32xf32>
    // CHECK: graph.matmul "bse,ed->bsd"
    // CHECK-SAME: parallel.out = [#parallel.sharding<[{}, {}, {}], unreduced = {"tp": sum}>]
    %1 = graph.matmul "bse,ed->bsd" %0, %down : (tensor<2x4x32xf32>, tensor<32x8xf32>) -> tensor<2x4x8xf32> loc("down")
    // The residual: the input is cut for it.
    // CHECK: graph.add
    // CHECK-SAME: parallel.in = [#parallel.sharding<[{}, {"tp"}, {}]>, #parallel.sharding<[{}, {"tp"}, {}]>]
    // CHECK-SAME: parallel.origin = {tp = {rule = "sequence", seed = "down", tactic = "sequence"}}
    %2 = graph.add %1, %x : (tensor<2x4x8xf32>, tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
    // CHECK: graph.rms_norm
    // CHECK-SAME: parallel.in = [#parallel.sharding<[{}, {"tp"}, {}]>, #parallel.sharding<[{}]>]
    %3, %rstd = graph.rms_norm %2, %norm {eps = 1.0e-5} : (tensor<2x4x8xf32>, tensor<8xf32>) -> (tensor<2x4x8xf32>, tensor<2x4xf32>)
    // CHECK: graph.matmul "bsd,de->bse"
    // CHECK-SAME: parallel.in = [#parallel.sharding<[{}, {}, {}]>, #parallel.sharding<[{}, {"tp"}]>]
    %4 = graph.matmul "bsd,de->bse" %3, %up : (tensor<2x4x8xf32>, tensor<8x32xf32>) -> tensor<2x4x32xf32>
    %5 = graph.matmul "bse,ed->bsd" %4, %down : (tensor<2x4x32xf32>, tensor<32x8xf32>) -> tensor<2x4x8xf32>
    // Each rank adds up the gradient of the norm over its part of the sequence.
    // CHECK: graph.rms_norm_grad_scale
    // CHECK-SAME: parallel.in = [#parallel.sharding<[{}, {"tp"}, {}]>
    // CHECK-SAME: parallel.out = [#parallel.sharding<[{}], unreduced = {"tp": sum}>]
    %6 = graph.rms_norm_grad_scale %3, %2, %rstd {graph.backward} : (tensor<2x4x8xf32>, tensor<2x4x8xf32>, tensor<2x4xf32>) -> tensor<8xf32>
    %7 = graph.add %acc, %6 {graph.backward} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    return %5, %7 : tensor<2x4x8xf32>, tensor<8xf32>
  }
}

// -----

// With one rank of tp nothing is cut.
// CHECK-LABEL: module @one
module @one attributes {parallel.mesh = #parallel.mesh<["dp"=2, "pp"=1, "tp"=1]>} {
  // CHECK-NOT: parallel.origin
  func.func @micro(%x: tensor<2x4x8xf32> {graph.input = "x"}, %w: tensor<8x8xf32>) -> (tensor<2x4x8xf32> {graph.output = "y"}) {
    %0 = graph.matmul "bsd,de->bse" %x, %w : (tensor<2x4x8xf32>, tensor<8x8xf32>) -> tensor<2x4x8xf32>
    return %0 : tensor<2x4x8xf32>
  }
}
