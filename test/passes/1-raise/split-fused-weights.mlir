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

// Split before it is cut. One third after the other is columns; q, k and v of each
// head together are a parameter of three dims.
graph.source @f.file : tensor<4x24xf32> {init = #graph.init_kind<zeros>}
graph.source @g.file : tensor<24xf32> {init = #graph.init_kind<zeros>}
graph.state @f : tensor<4x24xf32> parameter views [#graph.view<@f.file, 0, [24, 1]>]
graph.state @g : tensor<24xf32> parameter views [#graph.view<@g.file, 0, [1]>]
// CHECK-LABEL: @thirds
// CHECK-SAME: %[[X:[^:]*]]: tensor<2x3x4xf32>, %[[W:[^:]*]]: tensor<4x24xf32>
// CHECK: %[[K:.*]] = graph.slice %[[W]] {limits = array<i64: 4, 16>, starts = array<i64: 0, 8>
// CHECK: %[[P:.*]] = graph.matmul "bsd,de->bse" %[[X]], %[[K]] {{.*}} -> tensor<2x3x8xf32>
// CHECK: graph.reshape %[[P]] : (tensor<2x3x8xf32>) -> tensor<2x3x1x2x4xf32>
func.func @thirds(%x: tensor<2x3x4xf32>, %w: tensor<4x24xf32> {graph.state = @f}) -> (tensor<2x3x1x2x4xf32>, tensor<2x3x1x2x4xf32>, tensor<2x3x1x2x4xf32>) {
  %0 = graph.matmul "bsd,de->bse" %x, %w : (tensor<2x3x4xf32>, tensor<4x24xf32>) -> tensor<2x3x24xf32>
  %1 = graph.reshape %0 : (tensor<2x3x24xf32>) -> tensor<2x3x3x2x4xf32>
  %q = graph.slice %1 {starts = array<i64: 0, 0, 0, 0, 0>, limits = array<i64: 2, 3, 1, 2, 4>, steps = array<i64: 1, 1, 1, 1, 1>} : (tensor<2x3x3x2x4xf32>) -> tensor<2x3x1x2x4xf32>
  %k = graph.slice %1 {starts = array<i64: 0, 0, 1, 0, 0>, limits = array<i64: 2, 3, 2, 2, 4>, steps = array<i64: 1, 1, 1, 1, 1>} : (tensor<2x3x3x2x4xf32>) -> tensor<2x3x1x2x4xf32>
  %v = graph.slice %1 {starts = array<i64: 0, 0, 2, 0, 0>, limits = array<i64: 2, 3, 3, 2, 4>, steps = array<i64: 1, 1, 1, 1, 1>} : (tensor<2x3x3x2x4xf32>) -> tensor<2x3x1x2x4xf32>
  return %q, %k, %v : tensor<2x3x1x2x4xf32>, tensor<2x3x1x2x4xf32>, tensor<2x3x1x2x4xf32>
}

// CHECK-LABEL: @of_each_head
// CHECK-SAME: %[[X:[^:]*]]: tensor<2x3x4xf32>, %[[W:[^:]*]]: tensor<4x24xf32>{{.*}}, %[[B:[^:]*]]: tensor<24xf32>
// CHECK: %[[W3:.*]] = graph.reshape %[[W]] : (tensor<4x24xf32>) -> tensor<4x2x12xf32>
// CHECK: %[[Q:.*]] = graph.slice %[[W3]] {limits = array<i64: 4, 2, 4>, starts = array<i64: 0, 0, 0>
// CHECK: %[[P:.*]] = graph.matmul "bsd,dea->bsea" %[[X]], %[[Q]] {{.*}} -> tensor<2x3x2x4xf32>
// CHECK: %[[B2:.*]] = graph.reshape %[[B]] : (tensor<24xf32>) -> tensor<2x12xf32>
// CHECK: %[[C:.*]] = graph.slice %[[B2]] {limits = array<i64: 2, 4>, starts = array<i64: 0, 0>
// CHECK: %[[S:.*]] = graph.add %[[P]], %[[C]]
// CHECK: graph.transpose %[[S]] {permutation = array<i64: 0, 2, 1, 3>}
func.func @of_each_head(%x: tensor<2x3x4xf32>, %w: tensor<4x24xf32> {graph.state = @f}, %b: tensor<24xf32> {graph.state = @g}) -> (tensor<2x2x3x4xf32>, tensor<2x2x3x8xf32>) {
  %0 = graph.matmul "bsd,de->bse" %x, %w : (tensor<2x3x4xf32>, tensor<4x24xf32>) -> tensor<2x3x24xf32>
  %1 = graph.add %0, %b : (tensor<2x3x24xf32>, tensor<24xf32>) -> tensor<2x3x24xf32>
  %2 = graph.reshape %1 : (tensor<2x3x24xf32>) -> tensor<2x3x2x12xf32>
  %3 = graph.transpose %2 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x3x2x12xf32>) -> tensor<2x2x3x12xf32>
  %q = graph.slice %3 {starts = array<i64: 0, 0, 0, 0>, limits = array<i64: 2, 2, 3, 4>, steps = array<i64: 1, 1, 1, 1>} : (tensor<2x2x3x12xf32>) -> tensor<2x2x3x4xf32>
  %kv = graph.slice %3 {starts = array<i64: 0, 0, 0, 4>, limits = array<i64: 2, 2, 3, 12>, steps = array<i64: 1, 1, 1, 1>} : (tensor<2x2x3x12xf32>) -> tensor<2x2x3x8xf32>
  return %q, %kv : tensor<2x2x3x4xf32>, tensor<2x2x3x8xf32>
}

// A gap between the parts, and parts of two dims.
// CHECK-LABEL: @split_left
// CHECK-COUNT-2: graph.matmul {{.*}} -> tensor<2x3x24xf32>
// CHECK-NOT: graph.matmul
func.func @split_left(%x: tensor<2x3x4xf32>, %w: tensor<4x24xf32> {graph.state = @f}) -> (tensor<2x3x2x4xf32>, tensor<2x3x2x4xf32>, tensor<2x3x1x12xf32>, tensor<2x3x2x6xf32>) {
  %0 = graph.matmul "bsd,de->bse" %x, %w : (tensor<2x3x4xf32>, tensor<4x24xf32>) -> tensor<2x3x24xf32>
  %1 = graph.reshape %0 : (tensor<2x3x24xf32>) -> tensor<2x3x2x12xf32>
  %2 = graph.slice %1 {starts = array<i64: 0, 0, 0, 0>, limits = array<i64: 2, 3, 2, 4>, steps = array<i64: 1, 1, 1, 1>} : (tensor<2x3x2x12xf32>) -> tensor<2x3x2x4xf32>
  %3 = graph.slice %1 {starts = array<i64: 0, 0, 0, 8>, limits = array<i64: 2, 3, 2, 12>, steps = array<i64: 1, 1, 1, 1>} : (tensor<2x3x2x12xf32>) -> tensor<2x3x2x4xf32>
  %4 = graph.matmul "bsd,de->bse" %x, %w : (tensor<2x3x4xf32>, tensor<4x24xf32>) -> tensor<2x3x24xf32>
  %5 = graph.reshape %4 : (tensor<2x3x24xf32>) -> tensor<2x3x2x12xf32>
  %6 = graph.slice %5 {starts = array<i64: 0, 0, 0, 0>, limits = array<i64: 2, 3, 1, 12>, steps = array<i64: 1, 1, 1, 1>} : (tensor<2x3x2x12xf32>) -> tensor<2x3x1x12xf32>
  %7 = graph.slice %5 {starts = array<i64: 0, 0, 0, 6>, limits = array<i64: 2, 3, 2, 12>, steps = array<i64: 1, 1, 1, 1>} : (tensor<2x3x2x12xf32>) -> tensor<2x3x2x6xf32>
  return %2, %3, %6, %7 : tensor<2x3x2x4xf32>, tensor<2x3x2x4xf32>, tensor<2x3x1x12xf32>, tensor<2x3x2x6xf32>
}
