// RUN: llmc-opt %s --pass-pipeline='builtin.module(func.func(llmc-split-fused-weights))' | FileCheck %s

graph.source @w.file : tensor<4x12xf32> {init = #graph.init_kind<zeros>}
graph.source @b.file : tensor<12xf32> {init = #graph.init_kind<zeros>}
graph.state @w : tensor<4x12xf32> parameter views [#graph.view<@w.file, 0, [12, 1]>]
graph.state @b : tensor<12xf32> parameter views [#graph.view<@b.file, 0, [1]>]

// One matmul per slice, each with its columns of the weight and of the bias.
// CHECK-LABEL: @qkv
// CHECK-SAME: %[[X:[^:]*]]: tensor<2x3x4xf32>, %[[W:[^:]*]]: tensor<4x12xf32>{{.*}}, %[[B:[^:]*]]: tensor<12xf32>
func.func @qkv(%x: tensor<2x3x4xf32>, %w: tensor<4x12xf32> {graph.state = @w}, %b: tensor<12xf32> {graph.state = @b}) -> (tensor<2x3x4xf32>, tensor<2x3x8xf32>) {
  %0 = graph.matmul "bsd,de->bse" %x, %w : (tensor<2x3x4xf32>, tensor<4x12xf32>) -> tensor<2x3x12xf32>
  %1 = graph.add %0, %b : (tensor<2x3x12xf32>, tensor<12xf32>) -> tensor<2x3x12xf32>
  // CHECK: %[[W1:.*]] = graph.slice %[[W]] {limits = array<i64: 4, 4>, starts = array<i64: 0, 0>
  // CHECK: %[[Y1:.*]] = graph.matmul "bsd,de->bse" %[[X]], %[[W1]]
  // CHECK: %[[B1:.*]] = graph.slice %[[B]] {limits = array<i64: 4>, starts = array<i64: 0>
  // CHECK: %[[R1:.*]] = graph.add %[[Y1]], %[[B1]]
  %2 = graph.slice %1 {starts = array<i64: 0, 0, 0>, limits = array<i64: 2, 3, 4>, steps = array<i64: 1, 1, 1>} : (tensor<2x3x12xf32>) -> tensor<2x3x4xf32>
  // CHECK: %[[W2:.*]] = graph.slice %[[W]] {limits = array<i64: 4, 12>, starts = array<i64: 0, 4>
  // CHECK: %[[Y2:.*]] = graph.matmul "bsd,de->bse" %[[X]], %[[W2]]
  // CHECK: %[[R2:.*]] = graph.add %[[Y2]]
  %3 = graph.slice %1 {starts = array<i64: 0, 0, 4>, limits = array<i64: 2, 3, 12>, steps = array<i64: 1, 1, 1>} : (tensor<2x3x12xf32>) -> tensor<2x3x8xf32>
  // CHECK: return %[[R1]], %[[R2]]
  return %2, %3 : tensor<2x3x4xf32>, tensor<2x3x8xf32>
}

// A part that nobody reads, a cut of the batch, a use of the whole: left as they are.
// CHECK-LABEL: @left
func.func @left(%x: tensor<2x3x4xf32>, %w: tensor<4x12xf32> {graph.state = @w}) -> (tensor<2x3x4xf32>, tensor<1x3x12xf32>, tensor<1x3x12xf32>, tensor<2x3x6xf32>, tensor<2x3x6xf32>, tensor<2x3x12xf32>) {
  // CHECK-COUNT-3: graph.matmul {{.*}} -> tensor<2x3x12xf32>
  // CHECK-NOT: graph.matmul
  %0 = graph.matmul "bsd,de->bse" %x, %w : (tensor<2x3x4xf32>, tensor<4x12xf32>) -> tensor<2x3x12xf32>
  %1 = graph.slice %0 {starts = array<i64: 0, 0, 0>, limits = array<i64: 2, 3, 4>, steps = array<i64: 1, 1, 1>} : (tensor<2x3x12xf32>) -> tensor<2x3x4xf32>
  %2 = graph.matmul "bsd,de->bse" %x, %w : (tensor<2x3x4xf32>, tensor<4x12xf32>) -> tensor<2x3x12xf32>
  %3 = graph.slice %2 {starts = array<i64: 0, 0, 0>, limits = array<i64: 1, 3, 12>, steps = array<i64: 1, 1, 1>} : (tensor<2x3x12xf32>) -> tensor<1x3x12xf32>
  %4 = graph.slice %2 {starts = array<i64: 1, 0, 0>, limits = array<i64: 2, 3, 12>, steps = array<i64: 1, 1, 1>} : (tensor<2x3x12xf32>) -> tensor<1x3x12xf32>
  %5 = graph.matmul "bsd,de->bse" %x, %w : (tensor<2x3x4xf32>, tensor<4x12xf32>) -> tensor<2x3x12xf32>
  %6 = graph.slice %5 {starts = array<i64: 0, 0, 0>, limits = array<i64: 2, 3, 6>, steps = array<i64: 1, 1, 1>} : (tensor<2x3x12xf32>) -> tensor<2x3x6xf32>
  %7 = graph.slice %5 {starts = array<i64: 0, 0, 6>, limits = array<i64: 2, 3, 12>, steps = array<i64: 1, 1, 1>} : (tensor<2x3x12xf32>) -> tensor<2x3x6xf32>
  return %1, %3, %4, %6, %7, %5 : tensor<2x3x4xf32>, tensor<1x3x12xf32>, tensor<1x3x12xf32>, tensor<2x3x6xf32>, tensor<2x3x6xf32>, tensor<2x3x12xf32>
}
