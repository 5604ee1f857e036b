// RUN: llmc-opt %s --split-input-file --verify-diagnostics --llmc-check-annotations

// Stacked layers, each from its own source; the second is to be left whole.
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "tp"=2]>} {
  graph.source @w0 : tensor<8x4xf32> {init = #graph.init_kind<normal>, init_std = 2.0e-2 : f64, graph.annotation = {node = "down.0", cuts = array<i64: 2, 1>}}
  // expected-error @+1 {{the model annotates node 'down.1' with weight 'w1' cut in [1, 1] parts, the tensor tactic cuts it in [2, 1]}}
  graph.source @w1 : tensor<8x4xf32> {init = #graph.init_kind<normal>, init_std = 2.0e-2 : f64, graph.annotation = {node = "down.1", cuts = array<i64: 1, 1>}}
  graph.state @s0 : tensor<2x8x4xf32> parameter stacked views [#graph.view<@w0, 0, [4, 1]>, #graph.view<@w1, 0, [4, 1]>] {parallel.sharding = #parallel.sharding<[{}, {"tp"}, {}]>}
}


// -----

// No axis cuts it; stages alone are not looked at here.
module attributes {parallel.mesh = #parallel.mesh<["dp"=2, "pp"=1, "tp"=2]>} {
  // expected-error @+1 {{cut in [1, 2] parts, the tensor tactic cuts it in [1, 1]}}
  graph.source @w : tensor<8x8xf32> {init = #graph.init_kind<normal>, init_std = 2.0e-2 : f64, graph.annotation = {node = "up", cuts = array<i64: 1, 2>}}
  graph.source @v : tensor<8xf32> {init = #graph.init_kind<zeros>, graph.annotation = {node = "up", stages = array<i64: 3>}}
  graph.state @s0 : tensor<8x8xf32> parameter views [#graph.view<@w, 0, [8, 1]>]
  graph.state @s1 : tensor<8xf32> parameter views [#graph.view<@v, 0, [1]>]
}
