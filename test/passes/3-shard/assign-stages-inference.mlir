// RUN: llmc-opt %s --split-input-file --llmc-assign-stages --llmc-shard-data --llmc-shard-tensor --llmc-verify-shardings | FileCheck %s

// Cuts what three layers over two stages take besides parameters, and what they give, where the
// second stage begins; a slice of a layer's result is of its stage, and all that follows from it.
// Rows of batched inputs alone are shared out, and tp cuts no input; outputs leave in parts.
// CHECK-LABEL: func.func @forward
// CHECK-SAME: %[[X:arg[0-9]*]]: tensor<4x8xf32> {graph.batched, graph.input = "x", parallel.sharding = #parallel.sharding<[{"dp"}, {}]>
// CHECK-SAME: tensor<8xf32> {graph.input = "shift", parallel.sharding = #parallel.sharding<[{}]>}
// CHECK-SAME: %[[C0:arg[0-9]*]]: tensor<1x4x8xf32>
// CHECK-SAME: %[[C1:arg[0-9]*]]: tensor<1x4x8xf32>
// CHECK-SAME: %[[C2:arg[0-9]*]]: tensor<1x4x8xf32>
// CHECK: %[[A:.*]] = graph.concat %[[C0]], %[[C1]] {dim = 0 : i64, {{.*}}parallel.stage = 0
// CHECK: %[[S:.*]] = graph.concat %[[A]], %[[C2]] {dim = 0 : i64, {{.*}}parallel.stage = 0
// CHECK: %{{.*}}, %[[R:.*]] = graph.repeat 3 carried(%{{.*}}) stacked(%{{.*}}, %[[S]] :
// CHECK: parallel.layers = array<i64: 2, 1>
// Puts the whole of a stacked result together where the last part is.
// CHECK: %[[P0:.*]] = graph.slice %[[R]] {limits = array<i64: 2, 4, 8>, {{.*}}parallel.stage = 0 : i64, starts = array<i64: 0, 0, 0>
// CHECK: %[[P1:.*]] = graph.slice %[[R]] {limits = array<i64: 3, 4, 8>, {{.*}}parallel.stage = 1 : i64, starts = array<i64: 2, 0, 0>
// CHECK: graph.concat %[[P0]], %[[P1]] {{.*}}parallel.stage = 1
// CHECK: graph.slice %[[R]] {limits = array<i64: 1, 4, 8>, {{.*}}parallel.stage = 0
// CHECK: graph.neg {{.*}}parallel.stage = 0
// Makes what only the head needs with the head.
// CHECK: graph.exp {{.*}}parallel.stage = 1
// CHECK: graph.matmul "bd,dv->bv" {{.*}}rule = "column cut"{{.*}}parallel.stage = 1
// CHECK: return {parallel.in = [#parallel.sharding<[{"dp"}, {"tp"}]>, #parallel.sharding<[{}, {"dp"}, {}]>, #parallel.sharding<[{}, {"dp"}, {}]>]}
module attributes {graph.mode = "infer", parallel.mesh = #parallel.mesh<["dp"=2, "pp"=2, "tp"=2]>, parallel.stage_layers = array<i64: 2, 1>} {
  graph.source @src : tensor<3x8x8xf32> {init = #graph.init_kind<zeros>}
  graph.state @w : tensor<3x8x8xf32> parameter stacked views [#graph.view<@src, 0, [8, 1]>, #graph.view<@src, 64, [8, 1]>, #graph.view<@src, 128, [8, 1]>]
  graph.source @table : tensor<8x6xf32> {init = #graph.init_kind<zeros>}
  graph.state @head : tensor<8x6xf32> parameter views [#graph.view<@table, 0, [6, 1]>]
  func.func @forward(%x: tensor<4x8xf32> {graph.input = "x", graph.batched}, %shift: tensor<8xf32> {graph.input = "shift"},
                     %c0: tensor<1x4x8xf32> {graph.input = "c0"}, %c1: tensor<1x4x8xf32> {graph.input = "c1"}, %c2: tensor<1x4x8xf32> {graph.input = "c2"},
                     %w: tensor<3x8x8xf32> {graph.state = @w}, %v: tensor<8x6xf32> {graph.state = @head})
      -> (tensor<4x6xf32> {graph.output = "logits"}, tensor<3x4x8xf32> {graph.output = "all"}, tensor<1x4x8xf32> {graph.output = "first"}) {
    %c = graph.concat %c0, %c1, %c2 {dim = 0 : i64} : (tensor<1x4x8xf32>, tensor<1x4x8xf32>, tensor<1x4x8xf32>) -> tensor<3x4x8xf32>
    %h, %r = graph.repeat 3 carried(%x : tensor<4x8xf32>) stacked(%w, %c : tensor<3x8x8xf32>, tensor<3x4x8xf32>) captured() -> tensor<4x8xf32> stacking tensor<3x4x8xf32> {
    ^bb0(%y: tensor<4x8xf32>, %wi: tensor<8x8xf32>, %ci: tensor<4x8xf32>):
      %a = graph.matmul "bd,de->be" %y, %wi : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
      %b = graph.add %a, %ci : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
      graph.yield %b, %b : tensor<4x8xf32>, tensor<4x8xf32>
    }
    %s = graph.slice %r {starts = array<i64: 0, 0, 0>, limits = array<i64: 1, 4, 8>, steps = array<i64: 1, 1, 1>} : (tensor<3x4x8xf32>) -> tensor<1x4x8xf32>
    %n = graph.neg %s : (tensor<1x4x8xf32>) -> tensor<1x4x8xf32>
    %e = graph.exp %shift : (tensor<8xf32>) -> tensor<8xf32>
    %g = graph.add %h, %e : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    %l = graph.matmul "bd,dv->bv" %g, %v : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
    return %l, %r, %n : tensor<4x6xf32>, tensor<3x4x8xf32>, tensor<1x4x8xf32>
  }
}

// -----

// Pads seven columns that leave the program for four ranks; where numbers of the file meet them,
// which may not be padded, keeps the head whole.
// CHECK-LABEL: func.func @forward
// CHECK: graph.matmul "bd,dv->bv" {{.*}}parallel.out = [#parallel.sharding<[{}, {"tp"}]>]
// CHECK: graph.matmul "bd,dv->bv" {{.*}} {parallel.stage = 0 : i64}
module attributes {graph.mode = "infer", parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "tp"=4]>} {
  graph.source @s0 : tensor<8x7xf32> {init = #graph.init_kind<zeros>}
  graph.source @s1 : tensor<8x7xf32> {init = #graph.init_kind<zeros>}
  graph.state @a : tensor<8x7xf32> parameter views [#graph.view<@s0, 0, [7, 1]>]
  graph.state @b : tensor<8x7xf32> parameter views [#graph.view<@s1, 0, [7, 1]>]
  func.func @forward(%x: tensor<4x8xf32> {graph.input = "x", graph.batched}, %a: tensor<8x7xf32> {graph.state = @a}, %b: tensor<8x7xf32> {graph.state = @b})
      -> (tensor<4x7xf32> {graph.output = "y"}, tensor<4x7xf32> {graph.output = "z"}) {
    %y = graph.matmul "bd,dv->bv" %x, %a : (tensor<4x8xf32>, tensor<8x7xf32>) -> tensor<4x7xf32>
    %p = graph.matmul "bd,dv->bv" %x, %b : (tensor<4x8xf32>, tensor<8x7xf32>) -> tensor<4x7xf32>
    %c = graph.constant dense<[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]> : tensor<7xf32>
    %z = graph.mul %p, %c : (tensor<4x7xf32>, tensor<7xf32>) -> tensor<4x7xf32>
    return %y, %z : tensor<4x7xf32>, tensor<4x7xf32>
  }
}
