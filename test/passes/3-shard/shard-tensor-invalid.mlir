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
    // expected-remark @+1 {{operand 1 is cut in dim 1 over tp but needed cut in dim 0 over tp: it will be resharded over axis tp}}
    %1 = graph.matmul "be,ed->bd" %0, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    return %1 : tensor<4x8xf32>
  }
}

// -----

// expected-error @+1 {{tactic tensor needs @micro and parallel.mesh}}
module {}

// -----

// Wishes of the file that no rank can have.
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "tp"=3]>} {
  graph.source @s : tensor<8x4xf32> {init = #graph.init_kind<normal>, init_std = 0.02 : f64, graph.annotation = {node = "up node", cuts = array<i64: 0, 3>}}
  graph.state @w : tensor<8x4xf32> parameter views [#graph.view<@s, 0, [4, 1]>]
  // expected-error @+1 {{annotates node 'up node' with weight 's' cut in 3 along dimension 1, which tp = 3 ranks cannot share; choose a tp that divides 4}}
  func.func @micro(%x: tensor<1x3x8xf32> {graph.input = "x"}, %w: tensor<8x4xf32> {graph.state = @w}) -> (tensor<1x3x4xf32> {graph.output = "y"}) {
    %0 = graph.matmul "bsd,de->bse" %x, %w : (tensor<1x3x8xf32>, tensor<8x4xf32>) -> tensor<1x3x4xf32>
    return %0 : tensor<1x3x4xf32>
  }
}

// -----

// One wish follows from another, and is met by a third.
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "tp"=2]>} {
  graph.source @u : tensor<8x4xf32> {init = #graph.init_kind<normal>, init_std = 0.02 : f64, graph.annotation = {node = "up node", cuts = array<i64: 0, 2>}}
  graph.source @d : tensor<4x8xf32> {init = #graph.init_kind<normal>, init_std = 0.02 : f64, graph.annotation = {node = "down node", cuts = array<i64: 0, 2>}}
  graph.state @up : tensor<8x4xf32> parameter views [#graph.view<@u, 0, [4, 1]>]
  graph.state @down : tensor<4x8xf32> parameter views [#graph.view<@d, 0, [8, 1]>]
  // expected-error @+1 {{annotates node 'down node' with weight 'd' cut in 2 along dimension 1; node 'up node' has it cut along dimension 0}}
  func.func @micro(%x: tensor<1x3x8xf32> {graph.input = "x"}, %up: tensor<8x4xf32> {graph.state = @up}, %down: tensor<4x8xf32> {graph.state = @down}) -> (tensor<1x3x8xf32> {graph.output = "y"}) {
    %0 = graph.matmul "bsd,de->bse" %x, %up : (tensor<1x3x8xf32>, tensor<8x4xf32>) -> tensor<1x3x4xf32>
    %1 = graph.matmul "bsd,de->bse" %0, %down : (tensor<1x3x4xf32>, tensor<4x8xf32>) -> tensor<1x3x8xf32>
    return %1 : tensor<1x3x8xf32>
  }
}

// -----

// Layers that run as one are cut as one.
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "tp"=2]>} {
  graph.source @a : tensor<8x8xf32> {init = #graph.init_kind<normal>, init_std = 0.02 : f64, graph.annotation = {node = "first", cuts = array<i64: 2, 0>}}
  graph.source @b : tensor<8x8xf32> {init = #graph.init_kind<normal>, init_std = 0.02 : f64, graph.annotation = {node = "second", cuts = array<i64: 1, 0>}}
  graph.state @w : tensor<2x8x8xf32> parameter stacked views [#graph.view<@a, 0, [8, 1]>, #graph.view<@b, 0, [8, 1]>]
  // expected-error @+1 {{node 'second' with weight 'b' cut in 1 along dimension 1, and node 'first' with weight 'a' in 2: they belong to layers that run as one}}
  func.func @micro(%x: tensor<3x8xf32> {graph.input = "x"}, %w: tensor<2x8x8xf32> {graph.state = @w}) -> (tensor<3x8xf32> {graph.output = "y"}) {
    %0 = graph.repeat 2 carried(%x : tensor<3x8xf32>) stacked(%w : tensor<2x8x8xf32>) captured() -> tensor<3x8xf32> {
    ^bb0(%h: tensor<3x8xf32>, %wi: tensor<8x8xf32>):
      %1 = graph.matmul "sd,de->se" %h, %wi : (tensor<3x8xf32>, tensor<8x8xf32>) -> tensor<3x8xf32>
      graph.yield %1 : tensor<3x8xf32>
    }
    return %0 : tensor<3x8xf32>
  }
}
