// RUN: llmc-opt %s --llmc-check-annotations | FileCheck %s

// A weight of two heads of four; the file means its columns, as the state does.
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "tp"=2]>} {
  // CHECK: graph.source @w
  graph.source @w : tensor<8x8xf32> {init = #graph.init_kind<normal>, init_std = 2.0e-2 : f64, graph.annotation = {node = "up", cuts = array<i64: 1, 2>}}
  graph.state @s0 : tensor<8x2x4xf32> parameter views [#graph.view<@w, 0, [8, 4, 1]>] {parallel.sharding = #parallel.sharding<[{}, {"tp"}, {}]>}
}
