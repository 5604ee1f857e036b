// RUN: llmc-opt %s --llmc-lower-collectives | FileCheck %s

// A part of the middle dimension: of each row in front one row of a table whose rows are parts.
// CHECK-LABEL: func.func @slice
// CHECK-SAME: %[[X:.*]]: tensor<2x6x5xf32>
// CHECK: %[[O:.*]] = parallel.axis_offset ["tp"] stride 1
// CHECK: %[[B:.*]] = graph.iota {dim = 0 : i64} : () -> tensor<2xi64>
// CHECK: %[[TWO:.*]] = graph.constant dense<2>
// CHECK: %[[F:.*]] = graph.mul %[[B]], %[[TWO]]
// CHECK: %[[IDS:.*]] = graph.add %[[F]], %[[O]]
// CHECK: %[[T:.*]] = graph.reshape %[[X]] : (tensor<2x6x5xf32>) -> tensor<4x15xf32>
// CHECK: %[[R:.*]] = graph.gather %[[T]], %[[IDS]] : {{.*}} -> tensor<2x15xf32>
// CHECK: %[[S:.*]] = graph.reshape %[[R]] : (tensor<2x15xf32>) -> tensor<2x3x5xf32>
// CHECK: return %[[S]]
func.func @slice(%x: tensor<2x6x5xf32>) -> tensor<2x3x5xf32> {
  %0 = parallel.all_slice %x over ["tp"] dim 1 : (tensor<2x6x5xf32>) -> tensor<2x3x5xf32>
  return %0 : tensor<2x3x5xf32>
}

// Of the leading dimension the offset is the index.
// CHECK-LABEL: func.func @rows
// CHECK: %[[I:.*]] = graph.iota %{{.*}} {dim = 0 : i64} : (tensor<i64>) -> tensor<1xi64>
// CHECK: graph.gather %{{.*}}, %[[I]] : (tensor<2x15xi64>, tensor<1xi64>) -> tensor<1x15xi64>
func.func @rows(%x: tensor<6x5xi64>) -> tensor<3x5xi64> {
  %0 = parallel.all_slice %x over ["tp"] dim 0 : (tensor<6x5xi64>) -> tensor<3x5xi64>
  return %0 : tensor<3x5xi64>
}

// The wire puts parts one behind the other, so a dimension behind many others comes to the front.
// CHECK-LABEL: func.func @gather
// CHECK-SAME: %[[X:.*]]: tensor<11x3x5xf32>
// CHECK: %[[F:.*]] = graph.transpose %[[X]] {permutation = array<i64: 2, 0, 1>}
// CHECK: %[[G:.*]] = parallel.all_gather %[[F]] over ["tp"] dim 0 {parallel.origin = {{.*}}} : (tensor<5x11x3xf32>) -> tensor<10x11x3xf32>
// CHECK: graph.transpose %[[G]] {permutation = array<i64: 1, 2, 0>} : (tensor<10x11x3xf32>) -> tensor<11x3x10xf32>
func.func @gather(%x: tensor<11x3x5xf32>) -> tensor<11x3x10xf32> {
  %0 = parallel.all_gather %x over ["tp"] dim 2 {parallel.origin = {node = "n", rule = "r", tactic = "t"}} : (tensor<11x3x5xf32>) -> tensor<11x3x10xf32>
  return %0 : tensor<11x3x10xf32>
}

// Slices of few rows are scattered each for itself.
// CHECK-LABEL: func.func @scatter
// CHECK-NEXT: %[[S:.*]] = parallel.reduce_scatter %{{.*}} over ["tp"] dim 1 {{.*}}: (tensor<8x4x3xf32>) -> tensor<8x2x3xf32>
// CHECK-NEXT: return %[[S]]
func.func @scatter(%x: tensor<8x4x3xf32>) -> tensor<8x2x3xf32> {
  %0 = parallel.reduce_scatter %x over ["tp"] dim 1 {kind = #graph.reduce_kind<sum>} : (tensor<8x4x3xf32>) -> tensor<8x2x3xf32>
  return %0 : tensor<8x2x3xf32>
}

// CHECK-LABEL: func.func @leading
// CHECK-NEXT: parallel.all_gather %{{.*}} over ["tp"] dim 0
func.func @leading(%x: tensor<4x3xf32>) -> tensor<8x3xf32> {
  %0 = parallel.all_gather %x over ["tp"] dim 0 : (tensor<4x3xf32>) -> tensor<8x3xf32>
  return %0 : tensor<8x3xf32>
}

// An exchange sends leading parts and gets leading parts: members come to the front, and go
// where parts are put together.
// CHECK-LABEL: func.func @exchange
// CHECK-SAME: %[[X:.*]]: tensor<4x6x5xf32>
// CHECK: %[[R:.*]] = graph.reshape %[[X]] : (tensor<4x6x5xf32>) -> tensor<4x2x3x5xf32>
// CHECK: %[[F:.*]] = graph.transpose %[[R]] {permutation = array<i64: 1, 0, 2, 3>}
// CHECK: %[[E:.*]] = parallel.all_to_all %[[F]] over ["tp"] split 0 concat 0 {parallel.origin = {{.*}}} : (tensor<2x4x3x5xf32>) -> tensor<2x4x3x5xf32>
// CHECK: %[[B:.*]] = graph.transpose %[[E]] {permutation = array<i64: 1, 2, 0, 3>} : (tensor<2x4x3x5xf32>) -> tensor<4x3x2x5xf32>
// CHECK: graph.reshape %[[B]] : (tensor<4x3x2x5xf32>) -> tensor<4x3x10xf32>
func.func @exchange(%x: tensor<4x6x5xf32>) -> tensor<4x3x10xf32> {
  %0 = parallel.all_to_all %x over ["tp"] split 1 concat 2 {parallel.origin = {node = "n", rule = "r", tactic = "t"}} : (tensor<4x6x5xf32>) -> tensor<4x3x10xf32>
  return %0 : tensor<4x3x10xf32>
}

// Two tensors cut alike share the numbers of their rows.
// CHECK-LABEL: func.func @twice
// CHECK: %[[I:.*]] = graph.iota
// CHECK: graph.gather %{{.*}}, %[[I]]
// CHECK-NOT: graph.iota
// CHECK: graph.gather %{{.*}}, %[[I]]
func.func @twice(%x: tensor<6x5xf32>, %y: tensor<6x4xf32>) -> (tensor<3x5xf32>, tensor<3x4xf32>) {
  %0 = parallel.all_slice %x over ["tp"] dim 0 : (tensor<6x5xf32>) -> tensor<3x5xf32>
  %1 = parallel.all_slice %y over ["tp"] dim 0 : (tensor<6x4xf32>) -> tensor<3x4xf32>
  return %0, %1 : tensor<3x5xf32>, tensor<3x4xf32>
}
