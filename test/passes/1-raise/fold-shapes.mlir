// RUN: llmc-opt %s --pass-pipeline='builtin.module(func.func(llmc-fold-shapes))' | FileCheck %s

// Flattened for a matmul with bias, unflattened behind it.
// CHECK-LABEL: @dense
// CHECK-SAME: %[[X:[^:]*]]: tensor<2x3x4xf32>, %[[W:[^:]*]]: tensor<4x5xf32>, %[[B:[^:]*]]: tensor<5xf32>
func.func @dense(%x: tensor<2x3x4xf32>, %w: tensor<4x5xf32>, %b: tensor<5xf32>) -> tensor<2x3x5xf32> {
  %0 = graph.reshape %x : (tensor<2x3x4xf32>) -> tensor<6x4xf32>
  %1 = graph.matmul "md,de->me" %0, %w : (tensor<6x4xf32>, tensor<4x5xf32>) -> tensor<6x5xf32>
  %2 = graph.add %1, %b : (tensor<6x5xf32>, tensor<5xf32>) -> tensor<6x5xf32>
  %3 = graph.reshape %2 : (tensor<6x5xf32>) -> tensor<2x3x5xf32>
  // CHECK-NEXT: %[[Y:.*]] = graph.matmul "{{.*}}" %[[X]], %[[W]] : (tensor<2x3x4xf32>, tensor<4x5xf32>) -> tensor<2x3x5xf32>
  // CHECK-NEXT: %[[Z:.*]] = graph.add %[[Y]], %[[B]]
  // CHECK-NEXT: return %[[Z]]
  return %3 : tensor<2x3x5xf32>
}

// One row: the batch dim is a one in front, and stays.
// CHECK-LABEL: @one_row
func.func @one_row(%x: tensor<1x3x4xf32>, %w: tensor<4x4xf32>) -> tensor<1x3x4xf32> {
  %0 = graph.reshape %x : (tensor<1x3x4xf32>) -> tensor<3x4xf32>
  %1 = graph.matmul "md,de->me" %0, %w : (tensor<3x4xf32>, tensor<4x4xf32>) -> tensor<3x4xf32>
  %2 = graph.reshape %1 : (tensor<3x4xf32>) -> tensor<1x3x4xf32>
  // CHECK-NEXT: %[[Y:.*]] = graph.matmul {{.*}} -> tensor<1x3x4xf32>
  // CHECK-NEXT: graph.add %{{.*}}, %[[Y]] : (tensor<1x3x4xf32>, tensor<1x3x4xf32>)
  %3 = graph.add %x, %2 : (tensor<1x3x4xf32>, tensor<1x3x4xf32>) -> tensor<1x3x4xf32>
  return %3 : tensor<1x3x4xf32>
}

// An importer may leave the one to the broadcast of the sum.
// CHECK-LABEL: @one_row_by_broadcast
func.func @one_row_by_broadcast(%x: tensor<1x3x4xf32>, %w: tensor<4x4xf32>) -> tensor<1x3x4xf32> {
  %0 = graph.reshape %x : (tensor<1x3x4xf32>) -> tensor<3x4xf32>
  %1 = graph.matmul "md,de->me" %0, %w : (tensor<3x4xf32>, tensor<4x4xf32>) -> tensor<3x4xf32>
  // CHECK-NEXT: %[[Y:.*]] = graph.matmul {{.*}} -> tensor<1x3x4xf32>
  // CHECK-NEXT: graph.add %{{.*}}, %[[Y]] : (tensor<1x3x4xf32>, tensor<1x3x4xf32>)
  %2 = graph.add %x, %1 : (tensor<1x3x4xf32>, tensor<3x4xf32>) -> tensor<1x3x4xf32>
  return %2 : tensor<1x3x4xf32>
}

// Heads merge for a projection: rows are unmerged, the contracted dims stay merged.
// CHECK-LABEL: @from_heads
func.func @from_heads(%x: tensor<2x3x2x4xf32>, %w: tensor<8x5xf32>) -> tensor<2x3x5xf32> {
  // CHECK-NEXT: %[[R:.*]] = graph.reshape %{{.*}} : (tensor<2x3x2x4xf32>) -> tensor<2x3x8xf32>
  // CHECK-NEXT: graph.matmul "{{.*}}" %[[R]], %{{.*}} -> tensor<2x3x5xf32>
  %0 = graph.reshape %x : (tensor<2x3x2x4xf32>) -> tensor<6x8xf32>
  %1 = graph.matmul "md,de->me" %0, %w : (tensor<6x8xf32>, tensor<8x5xf32>) -> tensor<6x5xf32>
  %2 = graph.reshape %1 : (tensor<6x5xf32>) -> tensor<2x3x5xf32>
  // CHECK-NEXT: return
  return %2 : tensor<2x3x5xf32>
}

// A key transposed through three dims is a matmul on [batch, heads, keys, dim].
// CHECK-LABEL: @key
// CHECK-SAME: %[[Q:[^:]*]]: tensor<2x2x3x4xf32>, %[[K:[^:]*]]: tensor<2x3x2x4xf32>
func.func @key(%q: tensor<2x2x3x4xf32>, %k: tensor<2x3x2x4xf32>) -> tensor<2x2x3x3xf32> {
  %s = graph.constant dense<0.5> : tensor<f32>
  %0 = graph.transpose %k {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x3x2x4xf32>) -> tensor<2x2x3x4xf32>
  %1 = graph.reshape %0 : (tensor<2x2x3x4xf32>) -> tensor<4x3x4xf32>
  %2 = graph.transpose %1 {permutation = array<i64: 0, 2, 1>} : (tensor<4x3x4xf32>) -> tensor<4x4x3xf32>
  %3 = graph.reshape %2 : (tensor<4x4x3xf32>) -> tensor<2x2x4x3xf32>
  %4 = graph.mul %3, %s : (tensor<2x2x4x3xf32>, tensor<f32>) -> tensor<2x2x4x3xf32>
  // CHECK: %[[M:.*]] = graph.mul %[[K]]
  // CHECK-NEXT: graph.matmul "abxy,azby->abxz" %[[Q]], %[[M]]
  %5 = graph.matmul "abxy,abyz->abxz" %q, %4 : (tensor<2x2x3x4xf32>, tensor<2x2x4x3xf32>) -> tensor<2x2x3x3xf32>
  // CHECK-NEXT: return
  return %5 : tensor<2x2x3x3xf32>
}

// Rows of a norm, a softmax and a sum do not care how they are counted.
// CHECK-LABEL: @rows
// CHECK-SAME: %[[X:[^:]*]]: tensor<2x3x4xf32>
func.func @rows(%x: tensor<2x3x4xf32>, %g: tensor<4xf32>) -> tensor<2x3xf32> {
  %0 = graph.reshape %x : (tensor<2x3x4xf32>) -> tensor<6x4xf32>
  // CHECK-NEXT: graph.layer_norm %[[X]], {{.*}} -> (tensor<2x3x4xf32>, tensor<2x3xf32>, tensor<2x3xf32>)
  %1, %m, %r = graph.layer_norm %0, %g, %g {eps = 1.0e-5 : f64} : (tensor<6x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<6x4xf32>, tensor<6xf32>, tensor<6xf32>)
  // CHECK-NEXT: graph.softmax {{.*}} -> tensor<2x3x4xf32>
  %2 = graph.softmax %1 : (tensor<6x4xf32>) -> tensor<6x4xf32>
  // CHECK-NEXT: graph.reduce {{.*}} -> tensor<2x3xf32>
  %3 = graph.reduce %2 {kind = #graph.reduce_kind<sum>, dims = array<i64: 1>} : (tensor<6x4xf32>) -> tensor<6xf32>
  %4 = graph.reshape %3 : (tensor<6xf32>) -> tensor<2x3xf32>
  // CHECK-NEXT: return
  return %4 : tensor<2x3xf32>
}

// A result transposed is written transposed; where the product is used twice it is not.
// CHECK-LABEL: @result
func.func @result(%a: tensor<3x4xf32>, %b: tensor<4x5xf32>) -> (tensor<5x3xf32>, tensor<3x5xf32>, tensor<5x3xf32>) {
  // CHECK-NEXT: graph.matmul "ik,kj->ji" {{.*}} -> tensor<5x3xf32>
  %0 = graph.matmul "ik,kj->ij" %a, %b : (tensor<3x4xf32>, tensor<4x5xf32>) -> tensor<3x5xf32>
  %1 = graph.transpose %0 {permutation = array<i64: 1, 0>} : (tensor<3x5xf32>) -> tensor<5x3xf32>
  // CHECK-NEXT: graph.matmul "ik,kj->ij"
  // CHECK-NEXT: graph.transpose
  %2 = graph.matmul "ik,kj->ij" %a, %b : (tensor<3x4xf32>, tensor<4x5xf32>) -> tensor<3x5xf32>
  %3 = graph.transpose %2 {permutation = array<i64: 1, 0>} : (tensor<3x5xf32>) -> tensor<5x3xf32>
  return %1, %2, %3 : tensor<5x3xf32>, tensor<3x5xf32>, tensor<5x3xf32>
}

// What moves nothing, and what the next one undoes.
// CHECK-LABEL: @identities
// CHECK-SAME: %[[X:.*]]: tensor<4x6xf32>
func.func @identities(%x: tensor<4x6xf32>) -> tensor<2x6xf32> {
  %0 = graph.cast %x : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %1 = graph.broadcast %0 : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %2 = graph.transpose %1 {permutation = array<i64: 1, 0>} : (tensor<4x6xf32>) -> tensor<6x4xf32>
  %3 = graph.transpose %2 {permutation = array<i64: 1, 0>} : (tensor<6x4xf32>) -> tensor<4x6xf32>
  // CHECK-NEXT: %[[S:.*]] = graph.slice %[[X]] {limits = array<i64: 4, 6>, starts = array<i64: 1, 0>, steps = array<i64: 2, 1>}
  %4 = graph.slice %3 {starts = array<i64: 1, 0>, limits = array<i64: 4, 6>, steps = array<i64: 1, 1>} : (tensor<4x6xf32>) -> tensor<3x6xf32>
  %5 = graph.slice %4 {starts = array<i64: 0, 0>, limits = array<i64: 3, 6>, steps = array<i64: 2, 1>} : (tensor<3x6xf32>) -> tensor<2x6xf32>
  // CHECK-NEXT: return %[[S]]
  return %5 : tensor<2x6xf32>
}

// A slice without elements starts and ends where the first one starts.
// CHECK-LABEL: @no_rows
func.func @no_rows(%x: tensor<4x6xf32>) -> tensor<0x6xf32> {
  // CHECK-NEXT: graph.slice %{{.*}} {limits = array<i64: 1, 6>, starts = array<i64: 1, 0>, steps = array<i64: 2, 1>}
  %0 = graph.slice %x {starts = array<i64: 1, 0>, limits = array<i64: 4, 6>, steps = array<i64: 1, 1>} : (tensor<4x6xf32>) -> tensor<3x6xf32>
  %1 = graph.slice %0 {starts = array<i64: 3, 0>, limits = array<i64: 3, 6>, steps = array<i64: 2, 1>} : (tensor<3x6xf32>) -> tensor<0x6xf32>
  return %1 : tensor<0x6xf32>
}

// An equation of the 29 dims would need more letters than there are.
// CHECK-LABEL: @many_dims
func.func @many_dims(%x: tensor<2x2x2x2x2x2x2x2x2x2x2x2x2x2x4xf32>, %y: tensor<2x2x2x2x2x2x2x2x2x2x2x2x2x2x4xf32>) -> tensor<16384x16384xf32> {
  %0 = graph.reshape %x : (tensor<2x2x2x2x2x2x2x2x2x2x2x2x2x2x4xf32>) -> tensor<16384x4xf32>
  %1 = graph.reshape %y : (tensor<2x2x2x2x2x2x2x2x2x2x2x2x2x2x4xf32>) -> tensor<16384x4xf32>
  // CHECK: graph.matmul {{.*}} -> tensor<16384x16384xf32>
  %2 = graph.matmul "md,ed->me" %0, %1 : (tensor<16384x4xf32>, tensor<16384x4xf32>) -> tensor<16384x16384xf32>
  return %2 : tensor<16384x16384xf32>
}
