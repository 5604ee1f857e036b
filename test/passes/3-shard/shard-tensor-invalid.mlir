// RUN: llmc-opt %s --split-input-file --verify-diagnostics --llmc-shard-tensor

// A cut that would be right but does not divide names the sizes that do.
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "tp"=3]>} {
  graph.source @s0 : tensor<8x8xf32> {init = #graph.init_kind<normal>, init_std = 0.02 : f64}
  graph.state @w : tensor<8x8xf32> parameter views [#graph.view<@s0, 0, [8, 1]>]
  func.func @micro(%x: tensor<1x4x8xf32> {graph.input = "x"}, %w: tensor<8x8xf32> {graph.state = @w})
      -> (tensor<1x4x8xf32> {graph.output = "y"}) {
    // expected-error @+1 {{has 4 heads, which tp = 3 ranks cannot share; valid sizes of tp are 1 2 4}}
    %0 = graph.matmul "bsd,de->bse" %x, %w : (tensor<1x4x8xf32>, tensor<8x8xf32>) -> tensor<1x4x8xf32>
    %1 = graph.reshape %0 : (tensor<1x4x8xf32>) -> tensor<1x4x4x2xf32>
    %o, %lse = graph.attention %1, %1, %1 {scale = 1.0 : f64, causal = true} : (tensor<1x4x4x2xf32>, tensor<1x4x4x2xf32>, tensor<1x4x4x2xf32>) -> (tensor<1x4x4x2xf32>, tensor<1x4x4xf32>)
    %2 = graph.reshape %o : (tensor<1x4x4x2xf32>) -> tensor<1x4x8xf32>
    // expected-error @+1 {{has 8 output features, which tp = 3 ranks cannot share; valid sizes of tp are 1 2 4 8}}
    %3 = graph.matmul "bsd,de->bse" %2, %w : (tensor<1x4x8xf32>, tensor<8x8xf32>) -> tensor<1x4x8xf32>
    %4 = graph.matmul "bsd,de->bse" %3, %w : (tensor<1x4x8xf32>, tensor<8x8xf32>) -> tensor<1x4x8xf32>
    return %4 : tensor<1x4x8xf32>
  }
}

// -----

// kv heads could be repeated up to the heads, whose sizes are those to name.
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "tp"=4]>} {
  graph.source @s0 : tensor<8x12xf32> {init = #graph.init_kind<normal>, init_std = 0.02 : f64}
  graph.source @s1 : tensor<8x6xf32> {init = #graph.init_kind<normal>, init_std = 0.02 : f64}
  graph.source @s2 : tensor<12x8xf32> {init = #graph.init_kind<normal>, init_std = 0.02 : f64}
  graph.state @q : tensor<8x12xf32> parameter views [#graph.view<@s0, 0, [12, 1]>]
  graph.state @k : tensor<8x6xf32> parameter views [#graph.view<@s1, 0, [6, 1]>]
  graph.state @o : tensor<12x8xf32> parameter views [#graph.view<@s2, 0, [8, 1]>]
  func.func @micro(%x: tensor<1x4x8xf32> {graph.input = "x"}, %q: tensor<8x12xf32> {graph.state = @q}, %k: tensor<8x6xf32> {graph.state = @k}, %w: tensor<12x8xf32> {graph.state = @o})
      -> (tensor<1x4x8xf32> {graph.output = "y"}) {
    // expected-error @+1 {{has 6 heads, which tp = 4 ranks cannot share; valid sizes of tp are 1 2 3 6}}
    %0 = graph.matmul "bsd,de->bse" %x, %q : (tensor<1x4x8xf32>, tensor<8x12xf32>) -> tensor<1x4x12xf32>
    %1 = graph.reshape %0 : (tensor<1x4x12xf32>) -> tensor<1x4x6x2xf32>
    // expected-error @+1 {{has 6 heads, which tp = 4 ranks cannot share; valid sizes of tp are 1 2 3 6}}
    %2 = graph.matmul "bsd,de->bse" %x, %k : (tensor<1x4x8xf32>, tensor<8x6xf32>) -> tensor<1x4x6xf32>
    %3 = graph.reshape %2 : (tensor<1x4x6xf32>) -> tensor<1x4x3x2xf32>
    %o, %lse = graph.attention %1, %3, %3 {scale = 1.0 : f64, causal = true} : (tensor<1x4x6x2xf32>, tensor<1x4x3x2xf32>, tensor<1x4x3x2xf32>) -> (tensor<1x4x6x2xf32>, tensor<1x4x6xf32>)
    %4 = graph.reshape %o : (tensor<1x4x6x2xf32>) -> tensor<1x4x12xf32>
    %5 = graph.matmul "bsd,de->bse" %4, %w : (tensor<1x4x12xf32>, tensor<12x8xf32>) -> tensor<1x4x8xf32>
    return %5 : tensor<1x4x8xf32>
  }
}

// -----

// A conflict: the first user took the columns of the shared weight, the second
// needs its rows. Who comes first wins; the loser is reported.
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "tp"=2]>} {
  graph.source @s0 : tensor<8x8xf32> {init = #graph.init_kind<normal>, init_std = 0.02 : f64}
  graph.state @w : tensor<8x8xf32> parameter views [#graph.view<@s0, 0, [8, 1]>]
  func.func @micro(%x: tensor<4x8xf32> {graph.input = "x"}, %w: tensor<8x8xf32> {graph.state = @w})
      -> (tensor<4x8xf32> {graph.output = "y"}) {
    %0 = graph.matmul "bd,de->be" %x, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    // expected-remark @+1 {{operand 1 is #parallel.sharding<[{}, {"tp"}]> but needed as #parallel.sharding<[{"tp"}, {}]> over axis "tp": it will be resharded}}
    %1 = graph.matmul "be,ed->bd" %0, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    return %1 : tensor<4x8xf32>
  }
}

// -----

// expected-error @+1 {{tactic tensor needs @micro and parallel.mesh}}
module {}
