// RUN: llmc-opt %s --llmc-fold-views --split-input-file | FileCheck %s

// Slices that partition a parameter are parameters: columns of the same file tensor.
// CHECK: graph.source @file
// CHECK-DAG: graph.state @[[L:.*]] : tensor<4x4xf32> parameter views [#graph.view<@file, 0, [12, 1]>]
// CHECK-DAG: graph.state @[[R:.*]] : tensor<4x8xf32> parameter views [#graph.view<@file, 4, [12, 1]>]
// CHECK-NOT: graph.state
graph.source @file : tensor<4x12xf32> {init = #graph.init_kind<zeros>}
graph.state @w : tensor<4x12xf32> parameter views [#graph.view<@file, 0, [12, 1]>]
// CHECK: func.func @parts(%[[X:.*]]: tensor<3x4xf32> {graph.input = "x"}, %[[A:.*]]: tensor<4x4xf32> {graph.state = @[[L]]}, %[[B:.*]]: tensor<4x8xf32> {graph.state = @[[R]]})
func.func @parts(%x: tensor<3x4xf32> {graph.input = "x"}, %w: tensor<4x12xf32> {graph.state = @w}) -> (tensor<3x4xf32>, tensor<3x8xf32>) {
  %0 = graph.slice %w {starts = array<i64: 0, 0>, limits = array<i64: 4, 4>, steps = array<i64: 1, 1>} : (tensor<4x12xf32>) -> tensor<4x4xf32>
  %1 = graph.slice %w {starts = array<i64: 0, 4>, limits = array<i64: 4, 12>, steps = array<i64: 1, 1>} : (tensor<4x12xf32>) -> tensor<4x8xf32>
  // CHECK-NEXT: graph.matmul "xy,yz->xz" %[[X]], %[[A]]
  %2 = graph.matmul "xy,yz->xz" %x, %0 : (tensor<3x4xf32>, tensor<4x4xf32>) -> tensor<3x4xf32>
  // CHECK-NEXT: graph.matmul "xy,yz->xz" %[[X]], %[[B]]
  %3 = graph.matmul "xy,yz->xz" %x, %1 : (tensor<3x4xf32>, tensor<4x8xf32>) -> tensor<3x8xf32>
  return %2, %3 : tensor<3x4xf32>, tensor<3x8xf32>
}

// -----

// A weight that lies as [out, in] is viewed as [in, out].
// CHECK: graph.state @{{.*}} : tensor<4x5xf32> parameter views [#graph.view<@file, 0, [1, 4]>]
graph.source @file : tensor<5x4xf32> {init = #graph.init_kind<zeros>}
graph.state @w : tensor<5x4xf32> parameter views [#graph.view<@file, 0, [4, 1]>]
// CHECK-LABEL: @out_first
func.func @out_first(%x: tensor<3x4xf32> {graph.input = "x"}, %w: tensor<5x4xf32> {graph.state = @w}) -> tensor<3x5xf32> {
  // CHECK-NEXT: graph.matmul "xy,yz->xz" %{{.*}} : (tensor<3x4xf32>, tensor<4x5xf32>)
  %0 = graph.matmul "xy,zy->xz" %x, %w : (tensor<3x4xf32>, tensor<5x4xf32>) -> tensor<3x5xf32>
  return %0 : tensor<3x5xf32>
}

// -----

// A tied head: two views of the same elements are one parameter. The table's
// order stays, as gather reads rows.
// CHECK: graph.state @{{.*}} : tensor<5x4xf32> parameter views [#graph.view<@file, 0, [4, 1]>]
// CHECK-NOT: graph.state
graph.source @file : tensor<5x4xf32> {init = #graph.init_kind<zeros>}
graph.state @head : tensor<4x5xf32> parameter views [#graph.view<@file, 0, [1, 4]>]
graph.state @table : tensor<5x4xf32> parameter views [#graph.view<@file, 0, [4, 1]>]
// CHECK: func.func @tied(%[[IDS:.*]]: tensor<3xi64> {graph.input = "ids"}, %[[T:.*]]: tensor<5x4xf32>
func.func @tied(%ids: tensor<3xi64> {graph.input = "ids"}, %head: tensor<4x5xf32> {graph.state = @head}, %table: tensor<5x4xf32> {graph.state = @table}) -> tensor<3x5xf32> {
  // CHECK-NEXT: %[[X:.*]] = graph.gather %[[T]], %[[IDS]]
  %0 = graph.gather %table, %ids : (tensor<5x4xf32>, tensor<3xi64>) -> tensor<3x4xf32>
  // CHECK-NEXT: graph.matmul "xy,zy->xz" %[[X]], %[[T]]
  %1 = graph.matmul "xy,yz->xz" %0, %head : (tensor<3x4xf32>, tensor<4x5xf32>) -> tensor<3x5xf32>
  return %1 : tensor<3x5xf32>
}

// -----

// Rows of a table that are read stay a slice: the others belong to the parameter too.
// CHECK: graph.state @t : tensor<8x4xf32>
graph.source @file : tensor<8x4xf32> {init = #graph.init_kind<zeros>}
graph.state @t : tensor<8x4xf32> parameter views [#graph.view<@file, 0, [4, 1]>]
// CHECK-LABEL: @rows
func.func @rows(%t: tensor<8x4xf32> {graph.state = @t}) -> tensor<3x4xf32> {
  // CHECK-NEXT: graph.slice
  %0 = graph.slice %t {starts = array<i64: 0, 0>, limits = array<i64: 3, 4>, steps = array<i64: 1, 1>} : (tensor<8x4xf32>) -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}

// -----

// A reshape that strides can say is part of the view.
// CHECK: graph.state @{{.*}} : tensor<2x2x4xf32> parameter views [#graph.view<@file, 0, [2, 1, 4]>]
graph.source @file : tensor<4x4xf32> {init = #graph.init_kind<zeros>}
graph.state @t : tensor<4x4xf32> parameter views [#graph.view<@file, 0, [1, 4]>]
// CHECK-LABEL: @reshaped
func.func @reshaped(%t: tensor<4x4xf32> {graph.state = @t}) -> tensor<2x2x4xf32> {
  // CHECK-NEXT: return %{{.*}} : tensor<2x2x4xf32>
  %0 = graph.reshape %t : (tensor<4x4xf32>) -> tensor<2x2x4xf32>
  return %0 : tensor<2x2x4xf32>
}

// -----

// Parameters of experts, stacked and transposed, are one with a view for each.
// CHECK: graph.state @{{.*}} : tensor<2x5x8xf32> parameter views [#graph.view<@a, 0, [1, 5]>, #graph.view<@b, 0, [1, 5]>]
graph.source @a : tensor<8x5xf32> {init = #graph.init_kind<zeros>}
graph.source @b : tensor<8x5xf32> {init = #graph.init_kind<zeros>}
graph.state @s : tensor<8x1x5xf32> parameter views [#graph.view<@a, 0, [5, 5, 1]>]
graph.state @t : tensor<8x1x5xf32> parameter views [#graph.view<@b, 0, [5, 5, 1]>]
// CHECK-LABEL: @experts
func.func @experts(%s: tensor<8x1x5xf32> {graph.state = @s}, %t: tensor<8x1x5xf32> {graph.state = @t}) -> tensor<2x5x8xf32> {
  // CHECK-NEXT: return %{{.*}} : tensor<2x5x8xf32>
  %0 = graph.concat %s, %t {dim = 1 : i64} : (tensor<8x1x5xf32>, tensor<8x1x5xf32>) -> tensor<8x2x5xf32>
  %1 = graph.transpose %0 {permutation = array<i64: 1, 2, 0>} : (tensor<8x2x5xf32>) -> tensor<2x5x8xf32>
  return %1 : tensor<2x5x8xf32>
}
