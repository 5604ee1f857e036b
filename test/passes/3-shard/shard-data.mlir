// RUN: llmc-opt %s --split-input-file --llmc-shard-data | FileCheck %s

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

// -----

// Of a product of axes, each cuts what the one before it has cut, the slowest first. A
// tactic before this one has taken "dp1" for the columns of the first product (experts
// would): there it cuts no rows, and the bridge to the next product is a reshard.
// CHECK-LABEL: module @shared
// CHECK-SAME: parallel.tactics = {dp0 = "data", dp1 = "data"}
module @shared attributes {parallel.mesh = #parallel.mesh<["dp0"=2, "dp1"=2], dp = ["dp0", "dp1"], ep = ["dp1"]>} {
  // CHECK: func.func @micro
  // CHECK-SAME: graph.input = "x", parallel.sharding = #parallel.sharding<[{"dp0", "dp1"}, {}]>
  func.func @micro(%x: tensor<8x8xf32> {graph.input = "x"}, %w: tensor<8x8xf32>, %v: tensor<8x8xf32>) -> tensor<8x8xf32> {
    // CHECK: graph.exp
    // CHECK-SAME: parallel.in = [#parallel.sharding<[{"dp0", "dp1"}, {}]>]
    // CHECK-SAME: parallel.origin = {dp0 = {rule = "rows", seed = "x", tactic = "data"}, dp1 = {rule = "rows", seed = "x", tactic = "data"}}
    %0 = graph.exp %x : (tensor<8x8xf32>) -> tensor<8x8xf32>
    // CHECK: graph.matmul
    // CHECK-SAME: parallel.in = [#parallel.sharding<[{"dp0"}, {}]>, #parallel.sharding<[{}, {"dp1"}]>]
    // CHECK-SAME: parallel.out = [#parallel.sharding<[{"dp0"}, {"dp1"}]>]
    %1 = graph.matmul "bd,de->be" %0, %w {parallel.in = [#parallel.sharding<[{}, {}]>, #parallel.sharding<[{}, {"dp1"}]>],
        parallel.out = [#parallel.sharding<[{}, {"dp1"}]>]} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    // CHECK: graph.matmul
    // CHECK-SAME: parallel.in = [#parallel.sharding<[{"dp0"}, {}]>, #parallel.sharding<[{}, {}]>]
    %2 = graph.matmul "bd,de->be" %1, %v : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    return %2 : tensor<8x8xf32>
  }
}
