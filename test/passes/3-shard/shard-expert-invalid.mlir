// RUN: llmc-opt %s --split-input-file --verify-diagnostics --llmc-shard-expert

module attributes {parallel.mesh = #parallel.mesh<["pp"=1, "dp"=3], ep = ["dp"]>} {
  graph.source @s : tensor<512xf32> {init = #graph.init_kind<normal>, init_std = 0.02 : f64}
  graph.state @up : tensor<4x16x8xf32> parameter views [#graph.view<@s, 0, [128, 8, 1]>]
  graph.state @down : tensor<4x8x16xf32> parameter views [#graph.view<@s, 0, [128, 16, 1]>]
func.func @micro(%x: tensor<2x4x8xf32> {graph.input = "x"}, %p: tensor<2x4x4xf32> {graph.input = "p"},
                 %up: tensor<4x16x8xf32> {graph.state = @up}, %down: tensor<4x8x16xf32> {graph.state = @down})
    -> (tensor<2x4x8xf32> {graph.output = "y"}) {
  %r = graph.route %p : (tensor<2x4x4xf32>) -> tensor<2x4x2xi64>
  // expected-error @+1 {{has 4 experts, which ep = 3 ranks cannot share; valid sizes of ep are 1 2 4}}
  %h = graph.grouped_matmul %x, %up, %r {exchanged, transposed}
      : (tensor<2x4x8xf32>, tensor<4x16x8xf32>, tensor<2x4x2xi64>) -> tensor<2x4x2x16xf32>
  %a = graph.relu %h : (tensor<2x4x2x16xf32>) -> tensor<2x4x2x16xf32>
  %y = graph.grouped_matmul %a, %down, %r {exchanged, transposed}
      : (tensor<2x4x2x16xf32>, tensor<4x8x16xf32>, tensor<2x4x2xi64>) -> tensor<2x4x2x8xf32>
  %s = graph.reduce %y {dims = array<i64: 2>, kind = #graph.reduce_kind<sum>} : (tensor<2x4x2x8xf32>) -> tensor<2x4x8xf32>
  return %s : tensor<2x4x8xf32>
}
}

// -----

module attributes {parallel.mesh = #parallel.mesh<["pp"=1, "tp"=3], etp = ["tp"]>} {
  graph.source @s : tensor<512xf32> {init = #graph.init_kind<normal>, init_std = 0.02 : f64}
  graph.state @up : tensor<4x16x8xf32> parameter views [#graph.view<@s, 0, [128, 8, 1]>]
  graph.state @down : tensor<4x8x16xf32> parameter views [#graph.view<@s, 0, [128, 16, 1]>]
func.func @micro(%x: tensor<2x4x8xf32> {graph.input = "x"}, %p: tensor<2x4x4xf32> {graph.input = "p"},
                 %up: tensor<4x16x8xf32> {graph.state = @up}, %down: tensor<4x8x16xf32> {graph.state = @down})
    -> (tensor<2x4x8xf32> {graph.output = "y"}) {
  %r = graph.route %p : (tensor<2x4x4xf32>) -> tensor<2x4x2xi64>
  // expected-error @+1 {{has 16 features of an expert, which etp = 3 ranks cannot share; valid sizes of etp are 1 2 4 8 16}}
  %h = graph.grouped_matmul %x, %up, %r {transposed}
      : (tensor<2x4x8xf32>, tensor<4x16x8xf32>, tensor<2x4x2xi64>) -> tensor<2x4x2x16xf32>
  %a = graph.relu %h : (tensor<2x4x2x16xf32>) -> tensor<2x4x2x16xf32>
  %y = graph.grouped_matmul %a, %down, %r {transposed}
      : (tensor<2x4x2x16xf32>, tensor<4x8x16xf32>, tensor<2x4x2xi64>) -> tensor<2x4x2x8xf32>
  %s = graph.reduce %y {dims = array<i64: 2>, kind = #graph.reduce_kind<sum>} : (tensor<2x4x2x8xf32>) -> tensor<2x4x8xf32>
  return %s : tensor<2x4x8xf32>
}
}

// -----

module attributes {parallel.mesh = #parallel.mesh<["pp"=1, "dp"=2], ep = ["dp"]>} {
  graph.source @s : tensor<512xf32> {init = #graph.init_kind<normal>, init_std = 0.02 : f64}
  graph.state @up : tensor<4x16x8xf32> parameter views [#graph.view<@s, 0, [128, 8, 1]>]
  graph.state @down : tensor<4x8x16xf32> parameter views [#graph.view<@s, 0, [128, 16, 1]>]
func.func @micro(%x: tensor<2x4x8xf32> {graph.input = "x"}, %p: tensor<2x4x4xf32> {graph.input = "p"},
                 %up: tensor<4x16x8xf32> {graph.state = @up}, %down: tensor<4x8x16xf32> {graph.state = @down})
    -> (tensor<2x4x8xf32> {graph.output = "y"}) {
  %r = graph.route %p : (tensor<2x4x4xf32>) -> tensor<2x4x2xi64>
  // expected-error @+1 {{multiplies rows that are not at the ranks of their experts}}
  %h = graph.grouped_matmul %x, %up, %r {transposed}
      : (tensor<2x4x8xf32>, tensor<4x16x8xf32>, tensor<2x4x2xi64>) -> tensor<2x4x2x16xf32>
  %a = graph.relu %h : (tensor<2x4x2x16xf32>) -> tensor<2x4x2x16xf32>
  %y = graph.grouped_matmul %a, %down, %r {transposed}
      : (tensor<2x4x2x16xf32>, tensor<4x8x16xf32>, tensor<2x4x2xi64>) -> tensor<2x4x2x8xf32>
  %s = graph.reduce %y {dims = array<i64: 2>, kind = #graph.reduce_kind<sum>} : (tensor<2x4x2x8xf32>) -> tensor<2x4x8xf32>
  return %s : tensor<2x4x8xf32>
}
}

// -----

// expected-error @+1 {{tactic expert needs @micro and parallel.mesh}}
module {
}
