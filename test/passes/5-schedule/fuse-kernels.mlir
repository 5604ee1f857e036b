// RUN: llmc-opt %s --llmc-fuse-kernels --split-input-file | FileCheck %s
// RUN: llmc-opt %s --llmc-fuse-kernels=fuse=false --split-input-file | FileCheck %s --check-prefix=PLAIN --implicit-check-not=plan.group

// Leaves every op as it is where fusion is off.
// PLAIN-LABEL: func.func @mlp
// PLAIN: graph.add

// What one op writes and only the next reads stays inside; what others read is
// a result. A product stands between two groups.
// CHECK-LABEL: func.func @mlp
// CHECK-SAME: (%[[X:[0-9a-z]+]]: tensor<4x8xf32>, %[[B:[0-9a-z]+]]: tensor<8xf32>, %[[W:[0-9a-z]+]]: tensor<8x8xf32>)
// CHECK: %[[G:.*]]:2 = plan.group(%[[X]], %[[B]] : tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>, tensor<4x8xf32> {
// CHECK-NEXT: ^bb0(%[[A0:.*]]: tensor<4x8xf32>, %[[A1:.*]]: tensor<8xf32>):
// CHECK-NEXT: %[[SUM:.*]] = graph.add %[[A0]], %[[A1]]
// CHECK-NEXT: %[[TWO:.*]] = graph.constant dense<2.0
// CHECK-NEXT: %[[TWICE:.*]] = graph.mul %[[SUM]], %[[TWO]]
// CHECK-NEXT: %[[ACT:.*]] = graph.tanh %[[TWICE]]
// CHECK-NEXT: plan.yield %[[SUM]], %[[ACT]]
// CHECK: %[[Y:.*]] = graph.matmul "ab,bc->ac" %[[G]]#1, %[[W]]
// CHECK: %[[Z:.*]] = plan.group(%[[Y]], %[[X]], %[[G]]#0 :
// CHECK: graph.add
// CHECK: graph.sub
// CHECK: return %[[Z]]
func.func @mlp(%x: tensor<4x8xf32>, %b: tensor<8xf32>, %w: tensor<8x8xf32>) -> tensor<4x8xf32> {
  %0 = graph.add %x, %b : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %two = graph.constant dense<2.0> : tensor<f32>
  %1 = graph.mul %0, %two : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %2 = graph.tanh %1 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %3 = graph.matmul "ab,bc->ac" %2, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %4 = graph.add %3, %x : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %5 = graph.sub %4, %0 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %5 : tensor<4x8xf32>
}

// -----

// The logarithm of a sum of exponentials: two reductions of the rows, what
// lies between them, and what follows of each row. Layers are still folded.
// CHECK-LABEL: func.func @rows
// CHECK: graph.repeat 2
// CHECK: %[[G:.*]] = plan.group(%{{.*}} : tensor<4x8xf32>) -> tensor<4xf32> {
// CHECK: graph.reduce {{.*}} kind = #graph.reduce_kind<max>
// CHECK: graph.reshape
// CHECK: graph.sub
// CHECK: graph.exp
// CHECK: graph.reduce {{.*}} kind = #graph.reduce_kind<sum>
// CHECK: graph.log
// CHECK: graph.add
// CHECK: plan.yield
// CHECK: graph.yield %{{.*}}, %[[G]]
func.func @rows(%x: tensor<4x8xf32>) -> tensor<2x4xf32> {
  %r, %s = graph.repeat 2 carried(%x : tensor<4x8xf32>) stacked() captured() -> tensor<4x8xf32> stacking tensor<2x4xf32> {
  ^bb0(%h: tensor<4x8xf32>):
    %0 = graph.reduce %h {dims = array<i64: 1>, kind = #graph.reduce_kind<max>} : (tensor<4x8xf32>) -> tensor<4xf32>
    %1 = graph.reshape %0 : (tensor<4xf32>) -> tensor<4x1xf32>
    %2 = graph.sub %h, %1 : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
    %3 = graph.exp %2 : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %4 = graph.reduce %3 {dims = array<i64: 1>, kind = #graph.reduce_kind<sum>} : (tensor<4x8xf32>) -> tensor<4xf32>
    %5 = graph.log %4 : (tensor<4xf32>) -> tensor<4xf32>
    %6 = graph.add %5, %0 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    graph.yield %h, %6 : tensor<4x8xf32>, tensor<4xf32>
  }
  return %s : tensor<2x4xf32>
}

// -----

// Gradients of a norm: both sums over all 96 rows become sums of 32 rows each beside
// the gradient of x, and sums of the three that join their accumulators.
// CHECK-LABEL: func.func @norm_grad
// CHECK: %[[G:.*]]:3 = plan.group({{.*}}) -> tensor<3x32x16xf32>, tensor<3x16xf32>, tensor<3x16xf32> {
// CHECK: graph.layer_norm_grad {{.*}} -> tensor<3x32x16xf32>
// CHECK: graph.reduce {{.*}}dims = array<i64: 1>{{.*}} -> tensor<3x16xf32>
// CHECK: graph.reduce {{.*}}dims = array<i64: 1>{{.*}} -> tensor<3x16xf32>
// CHECK: plan.yield
// CHECK: %[[DX:.*]] = graph.reshape %[[G]]#0 : (tensor<3x32x16xf32>) -> tensor<2x48x16xf32>
// CHECK: %[[DSCALE:.*]] = plan.group(%[[G]]#1, %{{.*}} : tensor<3x16xf32>, tensor<16xf32>) -> tensor<16xf32> {
// CHECK: graph.reduce {{.*}}dims = array<i64: 0>
// CHECK: graph.add
// CHECK: %[[DBIAS:.*]] = graph.reduce %[[G]]#2 {dims = array<i64: 0>
// CHECK: return %[[DX]], %[[DSCALE]], %[[DBIAS]]
func.func @norm_grad(%dy: tensor<2x48x16xf32>, %x: tensor<2x48x16xf32>, %scale: tensor<16xf32>, %mean: tensor<2x48xf32>, %rstd: tensor<2x48xf32>, %acc: tensor<16xf32>) -> (tensor<2x48x16xf32>, tensor<16xf32>, tensor<16xf32>) {
  %0 = graph.layer_norm_grad %dy, %x, %scale, %mean, %rstd : (tensor<2x48x16xf32>, tensor<2x48x16xf32>, tensor<16xf32>, tensor<2x48xf32>, tensor<2x48xf32>) -> tensor<2x48x16xf32>
  %1 = graph.layer_norm_grad_scale %dy, %x, %mean, %rstd : (tensor<2x48x16xf32>, tensor<2x48x16xf32>, tensor<2x48xf32>, tensor<2x48xf32>) -> tensor<16xf32>
  %2 = graph.add %acc, %1 : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
  %3 = graph.reduce %dy {dims = array<i64: 0, 1>, kind = #graph.reduce_kind<sum>} : (tensor<2x48x16xf32>) -> tensor<16xf32>
  return %0, %2, %3 : tensor<2x48x16xf32>, tensor<16xf32>, tensor<16xf32>
}

// -----

// A sum of everything is a sum of sums of rows. What depends on it cannot join the
// group that it needs; the accumulator that a product is added to stands alone.
// CHECK-LABEL: func.func @clip
// CHECK: %[[G:.*]]:2 = plan.group({{.*}}) -> tensor<6x4xf32>, tensor<6xf32> {
// CHECK: graph.div
// CHECK: graph.reduce {{.*}}dims = array<i64: 1>, kind = #graph.reduce_kind<sum_squares>
// CHECK: %[[R:.*]] = plan.group(%[[G]]#1 : tensor<6xf32>) -> tensor<f32> {
// CHECK: graph.reduce {{.*}}dims = array<i64: 0>, kind = #graph.reduce_kind<sum>
// CHECK: graph.rsqrt
// CHECK: plan.group(%[[G]]#0, %[[R]] :
// CHECK: graph.mul
// CHECK: graph.neg
// CHECK: %[[P:.*]] = graph.matmul
// CHECK: graph.add %{{.*}}, %[[P]]
func.func @clip(%g: tensor<6x4xf32>, %n: tensor<f32>, %acc: tensor<4x4xf32>) -> (tensor<6x4xf32>, tensor<4x4xf32>) {
  %0 = graph.div %g, %n : (tensor<6x4xf32>, tensor<f32>) -> tensor<6x4xf32>
  %1 = graph.reduce %0 {dims = array<i64: 0, 1>, kind = #graph.reduce_kind<sum_squares>} : (tensor<6x4xf32>) -> tensor<f32>
  %2 = graph.rsqrt %1 : (tensor<f32>) -> tensor<f32>
  %3 = graph.mul %0, %2 : (tensor<6x4xf32>, tensor<f32>) -> tensor<6x4xf32>
  %4 = graph.neg %3 : (tensor<6x4xf32>) -> tensor<6x4xf32>
  %5 = graph.matmul "ab,ac->bc" %4, %g : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<4x4xf32>
  %6 = graph.add %acc, %5 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %4, %6 : tensor<6x4xf32>, tensor<4x4xf32>
}

// -----

// The product reads the sum and feeds the difference: these two cannot be one kernel,
// whatever else they share. A slice is read in place, a table too.
// CHECK-LABEL: func.func @around
// CHECK: graph.add %{{.*}}, %{{.*}} : (tensor<4x4xf32>
// CHECK: %[[P:.*]] = graph.matmul
// CHECK: plan.group(%{{.*}}, %[[P]], %{{.*}} : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x8xf32>)
// CHECK: graph.sub
// CHECK-NEXT: graph.slice
// CHECK-NEXT: graph.mul
// CHECK-NEXT: graph.iota
// CHECK-NEXT: graph.add
func.func @around(%x: tensor<4x4xf32>, %t: tensor<4x8xf32>) -> tensor<4x4xf32> {
  %0 = graph.add %x, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = graph.matmul "ab,bc->ac" %0, %0 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = graph.sub %0, %1 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %3 = graph.slice %t {starts = array<i64: 0, 2>, limits = array<i64: 4, 6>, steps = array<i64: 1, 1>} : (tensor<4x8xf32>) -> tensor<4x4xf32>
  %4 = graph.mul %2, %3 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %5 = graph.iota {dim = 1 : i64} : () -> tensor<4x4xf32>
  %6 = graph.add %4, %5 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %6 : tensor<4x4xf32>
}

// -----

// A reduction alone widens what it loads: no tensor is written widened for it.
// CHECK-LABEL: func.func @widens
// CHECK-SAME: (%[[X:[0-9a-z]+]]: tensor<4x8xbf16>)
// CHECK-NEXT: %[[R:.*]] = plan.group(%[[X]] : tensor<4x8xbf16>) -> tensor<4xf32> {
// CHECK-NEXT: ^bb0(%[[A:.*]]: tensor<4x8xbf16>):
// CHECK-NEXT: %[[WIDE:.*]] = graph.cast %[[A]]
// CHECK-NEXT: graph.reduce %[[WIDE]]
// CHECK: return %[[R]]
func.func @widens(%x: tensor<4x8xbf16>) -> tensor<4xf32> {
  %0 = graph.cast %x : (tensor<4x8xbf16>) -> tensor<4x8xf32>
  %1 = graph.reduce %0 {dims = array<i64: 1>, kind = #graph.reduce_kind<sum_squares>} : (tensor<4x8xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

// The sum of two scatters adds into one of them alone: it is a member of one group.
// CHECK-LABEL: func.func @two_scatters
// CHECK: plan.group
// CHECK: graph.scatter_add
// CHECK: graph.add
// CHECK-NOT: plan.group
// CHECK: return
func.func @two_scatters(%ids: tensor<6xi64>, %x: tensor<6x4xf32>, %y: tensor<6x4xf32>) -> tensor<3x4xf32> {
  %0 = graph.scatter_add %ids, %x : (tensor<6xi64>, tensor<6x4xf32>) -> tensor<3x4xf32>
  %1 = graph.scatter_add %ids, %y : (tensor<6xi64>, tensor<6x4xf32>) -> tensor<3x4xf32>
  %2 = graph.add %0, %1 : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  return %2 : tensor<3x4xf32>
}
