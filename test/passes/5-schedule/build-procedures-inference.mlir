// RUN: llmc-opt %s --split-input-file --llmc-unroll-layers --llmc-build-procedures --llmc-build-table="schedule=1f1b micro-batches=1" --llmc-assign-arena --llmc-verify-schedule | FileCheck %s

// One procedure, run once. A layer's result is computed where its output lies, which
// lives to the end of the run; an input and a number that are outputs are copied or
// written there. A parameter that nothing reads has its place too.
// CHECK-LABEL: plan.stage @stage0
// CHECK-SAME: pools = [#plan.pool<0, 1>]
// CHECK-SAME: table = [#plan.entry<@forward, 0, 0>]
// CHECK-DAG: %[[X:[0-9a-z]+]] = plan.buffer slot {binding = #plan.input<"x">
// CHECK-DAG: %[[Y:[0-9a-z]+]] = plan.buffer step {binding = #plan.output<"y", dims = {{\[\[\], \["tp"\]\]}}, valid_shape = [4, 16]>
// CHECK-DAG: %[[L0:[0-9a-z]+]] = plan.buffer step {binding = #plan.output<"first", dims = {{.*}}, valid_shape = [4, 8]>
// CHECK-DAG: %[[COPY:[0-9a-z]+]] = plan.buffer step {binding = #plan.output<"again", dims = {{.*}}, valid_shape = [4, 8]>
// CHECK-DAG: %[[NUM:[0-9a-z]+]] = plan.buffer step {binding = #plan.output<"number", dims = {{.*}}, valid_shape = [3]>
// CHECK-DAG: plan.buffer persistent {binding = #plan.state<@unused
// CHECK: plan.procedure @forward forward
// CHECK-NEXT: plan.feed "x" into %[[X]]
// CHECK: plan.matmul {{.*}} into %[[L0]]
// CHECK: plan.launch reads() writes(%[[NUM]]
// CHECK: plan.copy %[[X]] into %[[COPY]]
// CHECK-NOT: plan.copy
// CHECK-NOT: plan.procedure
module attributes {graph.mode = "infer", parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "tp"=2]>} {
  graph.source @src : tensor<2x8x8xf32> {init = #graph.init_kind<zeros>}
  graph.source @left : tensor<3xf32> {init = #graph.init_kind<zeros>}
  graph.state @w : tensor<2x8x8xf32> parameter stacked views [#graph.view<@src, 0, [8, 1]>, #graph.view<@src, 64, [8, 1]>] {parallel.stages = [0]}
  graph.state @unused : tensor<3xf32> parameter views [#graph.view<@left, 0, [1]>] {parallel.stages = [0]}
  func.func @forward_0(%x: tensor<4x8xf32> {graph.input = "x"}, %w: tensor<2x8x8xf32> {graph.state = @w})
      -> (tensor<4x8xf32> {graph.output = "y", parallel.sharding = #parallel.sharding<[{}, {"tp"}]>}, tensor<4x8xf32> {graph.output = "first"},
          tensor<4x8xf32> {graph.output = "again"}, tensor<3xi64> {graph.output = "number"})
      attributes {parallel.stage = 0 : i64, parallel.procedure = "forward"} {
    %h, %r = graph.repeat 2 carried(%x : tensor<4x8xf32>) stacked(%w : tensor<2x8x8xf32>) captured() -> tensor<4x8xf32> stacking tensor<2x4x8xf32> {
    ^bb0(%y: tensor<4x8xf32>, %wi: tensor<8x8xf32>):
      %a = graph.matmul "bd,de->be" %y, %wi : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
      graph.yield %a, %a : tensor<4x8xf32>, tensor<4x8xf32>
    }
    %s = graph.slice %r {starts = array<i64: 0, 0, 0>, limits = array<i64: 1, 4, 8>, steps = array<i64: 1, 1, 1>} : (tensor<2x4x8xf32>) -> tensor<1x4x8xf32>
    %f = graph.reshape %s : (tensor<1x4x8xf32>) -> tensor<4x8xf32>
    %c = graph.constant dense<[1, 2, 3]> : tensor<3xi64>
    return %h, %f, %x, %c : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<3xi64>
  }
}

// -----

// Parts are written where the whole lies, unless a view cuts one: tensors and their
// parts nest, so that whole is written by one launch.
// CHECK-LABEL: plan.stage @stage0
// CHECK: plan.procedure @forward
// CHECK: plan.launch reads(%{{.*}}, %{{.*}}) writes(%{{.*}} : !plan.buffer<3x4xf32>)
// CHECK-NEXT: ^bb0
// CHECK-NEXT: graph.concat
// CHECK-NOT: graph.concat
module attributes {graph.mode = "infer", parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "tp"=1]>} {
  func.func @forward_0(%x: tensor<2x4xf32> {graph.input = "x"}, %y: tensor<1x4xf32> {graph.input = "y"})
      -> (tensor<2x4xf32> {graph.output = "cut"}, tensor<2x4xf32> {graph.output = "part"})
      attributes {parallel.stage = 0 : i64, parallel.procedure = "forward"} {
    %a = graph.concat %x, %y {dim = 0 : i64} : (tensor<2x4xf32>, tensor<1x4xf32>) -> tensor<3x4xf32>
    %cut = graph.slice %a {starts = array<i64: 1, 0>, limits = array<i64: 3, 4>, steps = array<i64: 1, 1>} : (tensor<3x4xf32>) -> tensor<2x4xf32>
    %c = graph.tanh %cut : (tensor<2x4xf32>) -> tensor<2x4xf32>
    %z = graph.exp %x : (tensor<2x4xf32>) -> tensor<2x4xf32>
    %b = graph.concat %z, %y {dim = 0 : i64} : (tensor<2x4xf32>, tensor<1x4xf32>) -> tensor<3x4xf32>
    %part = graph.slice %b {starts = array<i64: 0, 0>, limits = array<i64: 2, 4>, steps = array<i64: 1, 1>} : (tensor<3x4xf32>) -> tensor<2x4xf32>
    %p = graph.tanh %part : (tensor<2x4xf32>) -> tensor<2x4xf32>
    return %c, %p : tensor<2x4xf32>, tensor<2x4xf32>
  }
}
