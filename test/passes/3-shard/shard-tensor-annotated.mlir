// RUN: llmc-opt %s --split-input-file --llmc-shard-tensor --llmc-check-annotations --llmc-verify-shardings | FileCheck %s

// The file wants the rows of the first weight cut, where its columns and the rows of the
// second are usual: that is done, and says whose wish it was. The tactic finds the rest.
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "tp"=2]>} {
  graph.source @u : tensor<8x4xf32> {init = #graph.init_kind<normal>, init_std = 0.02 : f64, graph.annotation = {node = "up node", cuts = array<i64: 2, 1>}}
  graph.source @d : tensor<4x8xf32> {init = #graph.init_kind<normal>, init_std = 0.02 : f64}
  // CHECK-LABEL: module
  // CHECK: graph.state @up {{.*}}parallel.sharding = #parallel.sharding<[{"tp"}, {}]>
  graph.state @up : tensor<8x4xf32> parameter views [#graph.view<@u, 0, [4, 1]>]
  // CHECK: graph.state @down {{.*}}parallel.sharding = #parallel.sharding<[{}, {"tp"}]>
  graph.state @down : tensor<4x8xf32> parameter views [#graph.view<@d, 0, [8, 1]>]
  func.func @micro(%x: tensor<1x3x8xf32> {graph.input = "x"}, %up: tensor<8x4xf32> {graph.state = @up}, %down: tensor<4x8xf32> {graph.state = @down})
      -> (tensor<1x3x8xf32> {graph.output = "y"}) {
    // CHECK: graph.matmul
    // CHECK-SAME: parallel.origin = {tp = {rule = "row cut", seed = "up node", tactic = "annotation"}}
    // CHECK-SAME: parallel.out = [#parallel.sharding<[{}, {}, {}], unreduced = {"tp": sum}>]
    %0 = graph.matmul "bsd,de->bse" %x, %up : (tensor<1x3x8xf32>, tensor<8x4xf32>) -> tensor<1x3x4xf32>
    %1 = graph.relu %0 : (tensor<1x3x4xf32>) -> tensor<1x3x4xf32>
    // CHECK: graph.matmul
    // CHECK-SAME: parallel.origin = {tp = {rule = "column cut", seed = "", tactic = "tensor"}}
    %2 = graph.matmul "bsd,de->bse" %1, %down : (tensor<1x3x4xf32>, tensor<4x8xf32>) -> tensor<1x3x8xf32>
    return %2 : tensor<1x3x8xf32>
  }
}

// -----

// Rows that are to stay whole: then columns before them stay so too. Nothing is said of
// columns of the second weight.
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "tp"=2]>} {
  graph.source @u : tensor<8x4xf32> {init = #graph.init_kind<normal>, init_std = 0.02 : f64}
  graph.source @d : tensor<4x8xf32> {init = #graph.init_kind<normal>, init_std = 0.02 : f64, graph.annotation = {node = "down node", cuts = array<i64: 1, 0>}}
  // CHECK-LABEL: module
  // CHECK: graph.state @up {{.*}}parallel.sharding = #parallel.sharding<[{}, {}]>
  graph.state @up : tensor<8x4xf32> parameter views [#graph.view<@u, 0, [4, 1]>]
  // CHECK: graph.state @down {{.*}}parallel.sharding = #parallel.sharding<[{}, {"tp"}]>
  graph.state @down : tensor<4x8xf32> parameter views [#graph.view<@d, 0, [8, 1]>]
  func.func @micro(%x: tensor<1x3x8xf32> {graph.input = "x"}, %up: tensor<8x4xf32> {graph.state = @up}, %down: tensor<4x8xf32> {graph.state = @down})
      -> (tensor<1x3x8xf32> {graph.output = "y"}) {
    %0 = graph.matmul "bsd,de->bse" %x, %up : (tensor<1x3x8xf32>, tensor<8x4xf32>) -> tensor<1x3x4xf32>
    %1 = graph.relu %0 : (tensor<1x3x4xf32>) -> tensor<1x3x4xf32>
    %2 = graph.matmul "bsd,de->bse" %1, %down : (tensor<1x3x4xf32>, tensor<4x8xf32>) -> tensor<1x3x8xf32>
    return %2 : tensor<1x3x8xf32>
  }
}

// -----

// Two dimensions of the file's 8 columns, heads and their elements: heads are cut.
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "tp"=2]>} {
  graph.source @s : tensor<8x8xf32> {init = #graph.init_kind<normal>, init_std = 0.02 : f64, graph.annotation = {node = "q node", cuts = array<i64: 0, 2>}}
  // CHECK-LABEL: module
  // CHECK: graph.state @q {{.*}}parallel.sharding = #parallel.sharding<[{}, {"tp"}, {}]>
  graph.state @q : tensor<8x4x2xf32> parameter views [#graph.view<@s, 0, [8, 2, 1]>]
  func.func @micro(%x: tensor<1x3x8xf32> {graph.input = "x"}, %q: tensor<8x4x2xf32> {graph.state = @q}) -> (tensor<1x3x4x2xf32> {graph.output = "y"}) {
    %0 = graph.matmul "bsd,det->bset" %x, %q : (tensor<1x3x8xf32>, tensor<8x4x2xf32>) -> tensor<1x3x4x2xf32>
    return %0 : tensor<1x3x4x2xf32>
  }
}
