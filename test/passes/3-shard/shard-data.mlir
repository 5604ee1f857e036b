// RUN: llmc-opt %s --llmc-shard-data | FileCheck %s

// Rows of every input are cut; what they flow through follows; the product with a
// weight keeps the weight whole, and its gradient is a partial sum over the replicas.
module attributes {parallel.mesh = #parallel.mesh<["dp"=2, "pp"=1, "tp"=1]>} {
  graph.source @s0 : tensor<8x8xf32> {init = #graph.init_kind<normal>, init_std = 0.02 : f64}
  // CHECK: graph.state @w {{.*}}parallel.sharding = #parallel.sharding<[{}, {}]>
  graph.state @w : tensor<8x8xf32> parameter views [#graph.view<@s0, 0, [8, 1]>]
  graph.state @w.grad : tensor<8x8xf32> accumulator of @w
  // CHECK: func.func @micro
  // CHECK-SAME: graph.input = "x", parallel.sharding = #parallel.sharding<[{"dp"}, {}]>
  func.func @micro(%x: tensor<4x8xf32> {graph.input = "x"}, %w: tensor<8x8xf32> {graph.state = @w},
                   %acc: tensor<8x8xf32> {graph.state = @w.grad}) -> (tensor<8x8xf32> {graph.state = @w.grad}) {
    // CHECK: graph.matmul "bd,de->be"
    // CHECK-SAME: parallel.in = [#parallel.sharding<[{"dp"}, {}]>, #parallel.sharding<[{}, {}]>]
    // CHECK-SAME: rule = "rows", seed = "x", tactic = "data"
    // CHECK-SAME: parallel.out = [#parallel.sharding<[{"dp"}, {}]>]
    %0 = graph.matmul "bd,de->be" %x, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    // CHECK: graph.matmul "bd,be->de"
    // CHECK-SAME: parallel.out = [#parallel.sharding<[{}, {}], unreduced = {"dp": sum}>]
    %1 = graph.matmul "bd,be->de" %x, %0 {graph.backward} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
    %2 = graph.add %acc, %1 {graph.backward} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    return %2 : tensor<8x8xf32>
  }
}
