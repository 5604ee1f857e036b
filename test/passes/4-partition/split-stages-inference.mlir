// RUN: llmc-opt %s --split-input-file --llmc-pad-dims --llmc-insert-reshards --llmc-sink-reductions --llmc-split-stages --llmc-localize --llmc-verify-partition | FileCheck %s

// One function a stage. The mask and what follows from it is made in each stage that
// needs it, of the input that it is fed; a layer's own input stays in its stage.
// Outputs leave the stage that makes them; an input or a number may be one.
// CHECK: graph.inputs = [{{.*}}name = "x", {{.*}}name = "mask", {{.*}}name = "c0", {{.*}}name = "c1",
// CHECK-LABEL: func.func @forward_0
// CHECK-SAME: tensor<4x8xf32> {graph.input = "x"
// CHECK-SAME: %[[MASK:arg[0-9]*]]: tensor<8xi64> {graph.input = "mask"
// CHECK-SAME: %[[C:arg[0-9]*]]: tensor<1x4x8xf32> {graph.input = "c0"
// CHECK-SAME: -> (tensor<4x8xf32> {parallel.boundary = 0 : i64, {{.*}}}, tensor<1x4x8xf32> {graph.output = "first"{{.*}}}, tensor<8xi64> {graph.output = "mask.copy"
// CHECK: graph.cast %[[MASK]]
// CHECK: graph.repeat 1 {{.*}}stacked(%{{.*}}, %[[C]] :
// CHECK: graph.slice %{{.*}} {limits = array<i64: 1, 4, 8>, starts = array<i64: 0, 0, 0>
// CHECK-LABEL: func.func @forward_1
// CHECK-NOT: "c0"
// CHECK-SAME: %[[MASK1:arg[0-9]*]]: tensor<8xi64> {graph.input = "mask"
// CHECK-SAME: %[[C1:arg[0-9]*]]: tensor<1x4x8xf32> {graph.input = "c1"
// CHECK-SAME: -> (tensor<4x8xf32> {graph.output = "y"{{.*}}}, tensor<1x4x8xf32> {graph.output = "second"{{.*}}}, tensor<2xi64> {graph.output = "constant"
// CHECK: graph.cast %[[MASK1]]
// CHECK: graph.repeat 1 {{.*}}stacked(%{{.*}}, %[[C1]] :
// The second layer is the first of its stage.
// CHECK: graph.slice %{{.*}} {limits = array<i64: 1, 4, 8>, starts = array<i64: 0, 0, 0>
// CHECK-NOT: func.func
module attributes {graph.mode = "infer", parallel.mesh = #parallel.mesh<["dp"=1, "pp"=2, "tp"=1]>} {
  graph.source @src : tensor<2x8x8xf32> {init = #graph.init_kind<zeros>}
  graph.state @w : tensor<2x8x8xf32> parameter stacked views [#graph.view<@src, 0, [8, 1]>, #graph.view<@src, 64, [8, 1]>]
  func.func @forward(%x: tensor<4x8xf32> {graph.input = "x", graph.batched}, %mask: tensor<8xi64> {graph.input = "mask"},
                     %c0: tensor<1x4x8xf32> {graph.input = "c0"}, %c1: tensor<1x4x8xf32> {graph.input = "c1"}, %w: tensor<2x8x8xf32> {graph.state = @w})
      -> (tensor<4x8xf32> {graph.output = "y"}, tensor<1x4x8xf32> {graph.output = "first"}, tensor<1x4x8xf32> {graph.output = "second"},
          tensor<8xi64> {graph.output = "mask.copy"}, tensor<2xi64> {graph.output = "constant"}) {
    %m = graph.cast %mask {parallel.stage = 0 : i64} : (tensor<8xi64>) -> tensor<8xf32>
    %c = graph.concat %c0, %c1 {dim = 0 : i64, parallel.stage = 0 : i64} : (tensor<1x4x8xf32>, tensor<1x4x8xf32>) -> tensor<2x4x8xf32>
    %h, %r = graph.repeat 2 carried(%x : tensor<4x8xf32>) stacked(%w, %c : tensor<2x8x8xf32>, tensor<2x4x8xf32>) captured(%m : tensor<8xf32>) -> tensor<4x8xf32> stacking tensor<2x4x8xf32> attributes {parallel.layers = array<i64: 1, 1>} {
    ^bb0(%y: tensor<4x8xf32>, %wi: tensor<8x8xf32>, %ci: tensor<4x8xf32>, %mi: tensor<8xf32>):
      %a = graph.matmul "bd,de->be" %y, %wi : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
      %b = graph.add %a, %ci : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
      %d = graph.mul %b, %mi : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
      graph.yield %d, %b : tensor<4x8xf32>, tensor<4x8xf32>
    }
    %s0 = graph.slice %r {starts = array<i64: 0, 0, 0>, limits = array<i64: 1, 4, 8>, steps = array<i64: 1, 1, 1>, parallel.stage = 0 : i64} : (tensor<2x4x8xf32>) -> tensor<1x4x8xf32>
    %s1 = graph.slice %r {starts = array<i64: 1, 0, 0>, limits = array<i64: 2, 4, 8>, steps = array<i64: 1, 1, 1>, parallel.stage = 1 : i64} : (tensor<2x4x8xf32>) -> tensor<1x4x8xf32>
    %k = graph.constant dense<[1, 2]> : tensor<2xi64> {parallel.stage = 1 : i64}
    return %h, %s0, %s1, %mask, %k : tensor<4x8xf32>, tensor<1x4x8xf32>, tensor<1x4x8xf32>, tensor<8xi64>, tensor<2xi64>
  }
}

// -----

// Seven columns on four ranks: two each, of which the reader takes seven.
// CHECK: graph.state @a : tensor<8x8xf32> {{.*}}valid_shape = [8, 7]
// CHECK: func.func @forward_0(%{{.*}}: tensor<4x8xf32> {{.*}}, %{{.*}}: tensor<8x2xf32>
// CHECK-SAME: -> (tensor<4x2xf32> {graph.output = "y", parallel.sharding = #parallel.sharding<[{}, {"tp"}]>, parallel.valid_shape = array<i64: 4, 7>})
module attributes {graph.mode = "infer", parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "tp"=4]>} {
  graph.source @s0 : tensor<8x7xf32> {init = #graph.init_kind<zeros>}
  graph.state @a : tensor<8x7xf32> parameter views [#graph.view<@s0, 0, [7, 1]>] {parallel.sharding = #parallel.sharding<[{}, {"tp"}]>}
  func.func @forward(%x: tensor<4x8xf32> {graph.input = "x"}, %a: tensor<8x7xf32> {graph.state = @a, parallel.sharding = #parallel.sharding<[{}, {"tp"}]>}) -> (tensor<4x7xf32> {graph.output = "y"}) {
    %y = graph.matmul "bd,dv->bv" %x, %a {parallel.in = [#parallel.sharding<[{}, {}]>, #parallel.sharding<[{}, {"tp"}]>], parallel.out = [#parallel.sharding<[{}, {"tp"}]>]} : (tensor<4x8xf32>, tensor<8x7xf32>) -> tensor<4x7xf32>
    return {parallel.in = [#parallel.sharding<[{}, {"tp"}]>]} %y : tensor<4x7xf32>
  }
}
