// RUN: llmc-opt %s --split-input-file --llmc-shard-context | FileCheck %s

// Tokens are cut where they come in, and with them all that follows; attention has all tokens of half
// of the heads. What it reads and what it gives has another cut there than where it is made and used.
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "cp"=2, "tp"=1]>} {
  graph.source @s : tensor<16x8xf32> {init = #graph.init_kind<normal>, init_std = 0.02 : f64}
  // CHECK: graph.state @table {{.*}}parallel.sharding = #parallel.sharding<[{}, {}]>
  graph.state @table : tensor<16x8xf32> parameter views [#graph.view<@s, 0, [8, 1]>]
  // CHECK-LABEL: func.func @micro
  // CHECK-SAME: graph.input = "ids", parallel.sharding = #parallel.sharding<[{}, {"cp"}]>
  func.func @micro(%ids: tensor<2x4xi64> {graph.input = "ids"}, %table: tensor<16x8xf32> {graph.state = @table})
      -> (tensor<2x4x8xf32> {graph.output = "y"}) {
    // CHECK: graph.gather
    // CHECK-SAME: parallel.out = [#parallel.sharding<[{}, {"cp"}, {}]>]
    %x = graph.gather %table, %ids : (tensor<16x8xf32>, tensor<2x4xi64>) -> tensor<2x4x8xf32>
    %q = graph.reshape %x : (tensor<2x4x8xf32>) -> tensor<2x4x2x4xf32>
    // CHECK: graph.attention
    // CHECK-SAME: parallel.in = [#parallel.sharding<[{}, {}, {"cp"}, {}]>, #parallel.sharding<[{}, {}, {"cp"}, {}]>, #parallel.sharding<[{}, {}, {"cp"}, {}]>]
    // CHECK-SAME: parallel.origin = {cp = {rule = "heads", seed = "scores", tactic = "context"}}
    // CHECK-SAME: parallel.out = [#parallel.sharding<[{}, {}, {"cp"}, {}]>, #parallel.sharding<[{}, {}, {"cp"}]>]
    %o, %lse = graph.attention %q, %q, %q {scale = 0.5 : f64, causal = true, offset = 0 : i64, softcap = 0.0 : f64}
        : (tensor<2x4x2x4xf32>, tensor<2x4x2x4xf32>, tensor<2x4x2x4xf32>) -> (tensor<2x4x2x4xf32>, tensor<2x4x2xf32>) loc("scores")
    // CHECK: graph.reshape
    // CHECK-SAME: parallel.in = [#parallel.sharding<[{}, {"cp"}, {}, {}]>]
    // CHECK-SAME: rule = "tokens"
    %y = graph.reshape %o : (tensor<2x4x2x4xf32>) -> tensor<2x4x8xf32>
    return %y : tensor<2x4x8xf32>
  }
}

// -----

// With one rank of cp nothing is cut.
// CHECK-LABEL: module @one
module @one attributes {parallel.mesh = #parallel.mesh<["dp"=2, "pp"=1, "tp"=2]>} {
  // CHECK-NOT: parallel.origin
  func.func @micro(%ids: tensor<2x4xi64> {graph.input = "ids"}) -> (tensor<2x4xi64> {graph.output = "y"}) {
    return %ids : tensor<2x4xi64>
  }
}
