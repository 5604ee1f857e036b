// RUN: llmc-opt %s --split-input-file --llmc-shard-expert --llmc-shard-tensor | FileCheck %s

// One state is the bias of a product that is cut by columns and of one whose result a norm needs whole: it stays whole,
// the first use takes a part, and the second is not cut.
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "tp"=2]>} {
  graph.source @s0 : tensor<8x8xf32> {init = #graph.init_kind<normal>, init_std = 0.02 : f64}
  graph.source @s1 : tensor<8xf32> {init = #graph.init_kind<zeros>}
  // CHECK: graph.state @up {{.*}}parallel.sharding = #parallel.sharding<[{}, {"tp"}]>
  graph.state @up : tensor<8x8xf32> parameter views [#graph.view<@s0, 0, [8, 1]>]
  // CHECK: graph.state @bias {{.*}}parallel.sharding = #parallel.sharding<[{}]>
  graph.state @bias : tensor<8xf32> parameter views [#graph.view<@s1, 0, [1]>]
  // CHECK: graph.state @down {{.*}}parallel.sharding = #parallel.sharding<[{"tp"}, {}]>
  graph.state @down : tensor<8x8xf32> parameter views [#graph.view<@s0, 0, [8, 1]>]
  func.func @micro(%x: tensor<4x8xf32> {graph.input = "x"}, %up: tensor<8x8xf32> {graph.state = @up},
                   %bias: tensor<8xf32> {graph.state = @bias}, %down: tensor<8x8xf32> {graph.state = @down})
      -> (tensor<4x8xf32> {graph.output = "y"}) {
    %0 = graph.matmul "bd,de->be" %x, %up : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    // CHECK: graph.add
    // CHECK-SAME: parallel.in = [#parallel.sharding<[{}, {"tp"}]>, #parallel.sharding<[{"tp"}]>]
    %1 = graph.add %0, %bias : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    %2 = graph.matmul "be,ed->bd" %1, %down : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    // CHECK: graph.add
    // CHECK-NOT: "tp"
    // CHECK: return
    %3 = graph.add %2, %bias : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    %4 = graph.softmax %3 : (tensor<4x8xf32>) -> tensor<4x8xf32>
    return %4 : tensor<4x8xf32>
  }
}

// -----

// Experts are cut over tp, and so is what their results are added to: their features are not, since no tensor can
// have an axis twice.
module attributes {parallel.mesh = #parallel.mesh<["pp"=1, "tp"=2], ep = ["tp"]>} {
  graph.source @s : tensor<512xf32> {init = #graph.init_kind<normal>, init_std = 0.02 : f64}
  // CHECK: graph.state @expert {{.*}}parallel.sharding = #parallel.sharding<[{"tp"}, {}, {}]>
  graph.state @expert : tensor<4x16x8xf32> parameter views [#graph.view<@s, 0, [128, 8, 1]>]
  // CHECK: graph.state @up {{.*}}parallel.sharding = #parallel.sharding<[{}, {"tp"}]>
  graph.state @up : tensor<8x16xf32> parameter views [#graph.view<@s, 0, [16, 1]>]
  graph.state @down : tensor<16x8xf32> parameter views [#graph.view<@s, 0, [8, 1]>]
  func.func @micro(%x: tensor<2x4x8xf32> {graph.input = "x"}, %p: tensor<2x4x4xf32> {graph.input = "p"},
                   %expert: tensor<4x16x8xf32> {graph.state = @expert}, %up: tensor<8x16xf32> {graph.state = @up},
                   %down: tensor<16x8xf32> {graph.state = @down}) -> (tensor<2x4x8xf32> {graph.output = "y"}) {
    %r = graph.route %p : (tensor<2x4x4xf32>) -> tensor<2x4x2xi64>
    // CHECK: graph.grouped_matmul
    // CHECK-SAME: parallel.out = [#parallel.sharding<[{}, {}, {}, {}]>]
    %e = graph.grouped_matmul %x, %expert, %r {exchanged, transposed}
        : (tensor<2x4x8xf32>, tensor<4x16x8xf32>, tensor<2x4x2xi64>) -> tensor<2x4x2x16xf32>
    %s = graph.reduce %e {dims = array<i64: 2>, kind = #graph.reduce_kind<sum>} : (tensor<2x4x2x16xf32>) -> tensor<2x4x16xf32>
    // CHECK: rule = "column cut"
    %h = graph.matmul "bsd,de->bse" %x, %up : (tensor<2x4x8xf32>, tensor<8x16xf32>) -> tensor<2x4x16xf32>
    %a = graph.add %h, %s : (tensor<2x4x16xf32>, tensor<2x4x16xf32>) -> tensor<2x4x16xf32>
    // CHECK: rule = "row cut"
    %y = graph.matmul "bse,ed->bsd" %a, %down : (tensor<2x4x16xf32>, tensor<16x8xf32>) -> tensor<2x4x8xf32>
    return %y : tensor<2x4x8xf32>
  }
}
