// RUN: llmc-opt %s --pass-pipeline='builtin.module(func.func(llmc-raise-rotary))' | FileCheck %s

// Full-width constant tables, a negative and a concatenation, heads before rows,
// as Llama writes it. The table becomes the half that is used.
// CHECK-LABEL: @rotate_half
// CHECK-SAME: %[[X:[^:]*]]: tensor<2x3x2x4xf32>
// CHECK-DAG: %[[C:.*]] = graph.constant dense<{{\[\[}}1.000000e+00, 1.000000e+00], [5.000000e-01, 8.000000e-01]]>
// CHECK-DAG: %[[S:.*]] = graph.constant dense<{{\[\[}}0.000000e+00, 0.000000e+00], [3.000000e-01, 2.000000e-01]]>
// CHECK-DAG: %[[CR:.*]] = graph.reshape %[[C]] : (tensor<2x2xf32>) -> tensor<1x2x2xf32>
// CHECK-DAG: %[[SR:.*]] = graph.reshape %[[S]] : (tensor<2x2xf32>) -> tensor<1x2x2xf32>
// CHECK: %[[T:.*]] = graph.transpose %[[X]] {permutation = array<i64: 0, 2, 1, 3>}
// CHECK: %[[R:.*]] = graph.rotary %[[T]], %[[CR]], %[[SR]] :
// CHECK: %[[Y:.*]] = graph.transpose %[[R]] {permutation = array<i64: 0, 2, 1, 3>}
// CHECK-NEXT: return %[[Y]]
func.func @rotate_half(%x: tensor<2x3x2x4xf32>) -> tensor<2x3x2x4xf32> {
  %cos = graph.constant dense<[[1.0, 1.0, 1.0, 1.0], [0.5, 0.8, 0.5, 0.8]]> : tensor<2x4xf32>
  %sin = graph.constant dense<[[0.0, 0.0, 0.0, 0.0], [0.3, 0.2, 0.3, 0.2]]> : tensor<2x4xf32>
  %0 = graph.mul %x, %cos : (tensor<2x3x2x4xf32>, tensor<2x4xf32>) -> tensor<2x3x2x4xf32>
  %1 = graph.slice %x {starts = array<i64: 0, 0, 0, 2>, limits = array<i64: 2, 3, 2, 4>, steps = array<i64: 1, 1, 1, 1>} : (tensor<2x3x2x4xf32>) -> tensor<2x3x2x2xf32>
  %2 = graph.neg %1 : (tensor<2x3x2x2xf32>) -> tensor<2x3x2x2xf32>
  %3 = graph.slice %x {starts = array<i64: 0, 0, 0, 0>, limits = array<i64: 2, 3, 2, 2>, steps = array<i64: 1, 1, 1, 1>} : (tensor<2x3x2x4xf32>) -> tensor<2x3x2x2xf32>
  %4 = graph.concat %2, %3 {dim = 3 : i64} : (tensor<2x3x2x2xf32>, tensor<2x3x2x2xf32>) -> tensor<2x3x2x4xf32>
  %5 = graph.mul %4, %sin : (tensor<2x3x2x4xf32>, tensor<2x4xf32>) -> tensor<2x3x2x4xf32>
  %6 = graph.add %0, %5 : (tensor<2x3x2x4xf32>, tensor<2x3x2x4xf32>) -> tensor<2x3x2x4xf32>
  return %6 : tensor<2x3x2x4xf32>
}

// Halves and half-width tables computed from positions, which differ from row to row of the batch.
// CHECK-LABEL: @halves
// CHECK-SAME: %[[X:[^:]*]]: tensor<2x2x3x4xf32>, %[[A:[^:]*]]: tensor<2x2x2xf32>
// CHECK-DAG: %[[C:.*]] = graph.cos %[[A]]
// CHECK-DAG: %[[S:.*]] = graph.sin %[[A]]
// CHECK: graph.rotary %[[X]], %[[C]], %[[S]] :
// CHECK-NEXT: return
func.func @halves(%x: tensor<2x2x3x4xf32>, %angles: tensor<2x2x2xf32>) -> tensor<2x2x3x4xf32> {
  %c = graph.cos %angles : (tensor<2x2x2xf32>) -> tensor<2x2x2xf32>
  %s = graph.sin %angles : (tensor<2x2x2xf32>) -> tensor<2x2x2xf32>
  %cos = graph.reshape %c : (tensor<2x2x2xf32>) -> tensor<2x2x1x2xf32>
  %sin = graph.reshape %s : (tensor<2x2x2xf32>) -> tensor<2x2x1x2xf32>
  %a = graph.slice %x {starts = array<i64: 0, 0, 0, 0>, limits = array<i64: 2, 2, 3, 2>, steps = array<i64: 1, 1, 1, 1>} : (tensor<2x2x3x4xf32>) -> tensor<2x2x3x2xf32>
  %b = graph.slice %x {starts = array<i64: 0, 0, 0, 2>, limits = array<i64: 2, 2, 3, 4>, steps = array<i64: 1, 1, 1, 1>} : (tensor<2x2x3x4xf32>) -> tensor<2x2x3x2xf32>
  %ac = graph.mul %a, %cos : (tensor<2x2x3x2xf32>, tensor<2x2x1x2xf32>) -> tensor<2x2x3x2xf32>
  %bs = graph.mul %b, %sin : (tensor<2x2x3x2xf32>, tensor<2x2x1x2xf32>) -> tensor<2x2x3x2xf32>
  %bc = graph.mul %cos, %b : (tensor<2x2x1x2xf32>, tensor<2x2x3x2xf32>) -> tensor<2x2x3x2xf32>
  %as = graph.mul %sin, %a : (tensor<2x2x1x2xf32>, tensor<2x2x3x2xf32>) -> tensor<2x2x3x2xf32>
  %0 = graph.sub %ac, %bs : (tensor<2x2x3x2xf32>, tensor<2x2x3x2xf32>) -> tensor<2x2x3x2xf32>
  %1 = graph.add %bc, %as : (tensor<2x2x3x2xf32>, tensor<2x2x3x2xf32>) -> tensor<2x2x3x2xf32>
  %2 = graph.concat %0, %1 {dim = 3 : i64} : (tensor<2x2x3x2xf32>, tensor<2x2x3x2xf32>) -> tensor<2x2x3x4xf32>
  return %2 : tensor<2x2x3x4xf32>
}

// Full-width tables that are made by repeating the angles, times the attention
// factor of yarn; a part of each head is not rotated.
// CHECK-LABEL: @partial
// CHECK-SAME: %[[X:[^:]*]]: tensor<2x3x2x6xf32>, %[[A:[^:]*]]: tensor<1x2x2xf32>
// CHECK-DAG: %[[C0:.*]] = graph.cos %[[A]] : (tensor<1x2x2xf32>)
// CHECK-DAG: %[[C:.*]] = graph.mul %[[C0]], %{{.*}} : (tensor<1x2x2xf32>, tensor<f32>)
// CHECK-DAG: %[[S0:.*]] = graph.sin %[[A]] : (tensor<1x2x2xf32>)
// CHECK-DAG: %[[S:.*]] = graph.mul %[[S0]], %{{.*}} : (tensor<1x2x2xf32>, tensor<f32>)
// CHECK: graph.rotary %{{.*}}, %[[C]], %[[S]] : (tensor<2x2x3x6xf32>, tensor<1x2x2xf32>, tensor<1x2x2xf32>)
func.func @partial(%x: tensor<2x3x2x6xf32>, %angles: tensor<1x2x2xf32>) -> tensor<2x3x2x6xf32> {
  %factor = graph.constant dense<1.2> : tensor<f32>
  %twice = graph.concat %angles, %angles {dim = 2 : i64} : (tensor<1x2x2xf32>, tensor<1x2x2xf32>) -> tensor<1x2x4xf32>
  %c0 = graph.cos %twice : (tensor<1x2x4xf32>) -> tensor<1x2x4xf32>
  %s0 = graph.sin %twice : (tensor<1x2x4xf32>) -> tensor<1x2x4xf32>
  %c1 = graph.mul %c0, %factor : (tensor<1x2x4xf32>, tensor<f32>) -> tensor<1x2x4xf32>
  %s1 = graph.mul %s0, %factor : (tensor<1x2x4xf32>, tensor<f32>) -> tensor<1x2x4xf32>
  %cos = graph.reshape %c1 : (tensor<1x2x4xf32>) -> tensor<1x1x2x4xf32>
  %sin = graph.reshape %s1 : (tensor<1x2x4xf32>) -> tensor<1x1x2x4xf32>
  %r = graph.slice %x {starts = array<i64: 0, 0, 0, 0>, limits = array<i64: 2, 3, 2, 4>, steps = array<i64: 1, 1, 1, 1>} : (tensor<2x3x2x6xf32>) -> tensor<2x3x2x4xf32>
  %p = graph.slice %x {starts = array<i64: 0, 0, 0, 4>, limits = array<i64: 2, 3, 2, 6>, steps = array<i64: 1, 1, 1, 1>} : (tensor<2x3x2x6xf32>) -> tensor<2x3x2x2xf32>
  %0 = graph.mul %r, %cos : (tensor<2x3x2x4xf32>, tensor<1x1x2x4xf32>) -> tensor<2x3x2x4xf32>
  %1 = graph.slice %r {starts = array<i64: 0, 0, 0, 2>, limits = array<i64: 2, 3, 2, 4>, steps = array<i64: 1, 1, 1, 1>} : (tensor<2x3x2x4xf32>) -> tensor<2x3x2x2xf32>
  %2 = graph.neg %1 : (tensor<2x3x2x2xf32>) -> tensor<2x3x2x2xf32>
  %3 = graph.slice %r {starts = array<i64: 0, 0, 0, 0>, limits = array<i64: 2, 3, 2, 2>, steps = array<i64: 1, 1, 1, 1>} : (tensor<2x3x2x4xf32>) -> tensor<2x3x2x2xf32>
  %4 = graph.concat %2, %3 {dim = 3 : i64} : (tensor<2x3x2x2xf32>, tensor<2x3x2x2xf32>) -> tensor<2x3x2x4xf32>
  %5 = graph.mul %4, %sin : (tensor<2x3x2x4xf32>, tensor<1x1x2x4xf32>) -> tensor<2x3x2x4xf32>
  %6 = graph.add %0, %5 : (tensor<2x3x2x4xf32>, tensor<2x3x2x4xf32>) -> tensor<2x3x2x4xf32>
  %7 = graph.concat %6, %p {dim = 3 : i64} : (tensor<2x3x2x4xf32>, tensor<2x3x2x2xf32>) -> tensor<2x3x2x6xf32>
  return %7 : tensor<2x3x2x6xf32>
}

// Neighbours rotated: every second element, stacked again.
// CHECK-LABEL: @interleaved
// CHECK: graph.rotary %{{.*}}, %{{.*}}, %{{.*}} {interleaved}
func.func @interleaved(%x: tensor<2x2x3x4xf32>, %c: tensor<2x2xf32>, %s: tensor<2x2xf32>) -> tensor<2x2x3x4xf32> {
  %cos = graph.reshape %c : (tensor<2x2xf32>) -> tensor<1x2x1x2xf32>
  %sin = graph.reshape %s : (tensor<2x2xf32>) -> tensor<1x2x1x2xf32>
  %a = graph.slice %x {starts = array<i64: 0, 0, 0, 0>, limits = array<i64: 2, 2, 3, 3>, steps = array<i64: 1, 1, 1, 2>} : (tensor<2x2x3x4xf32>) -> tensor<2x2x3x2xf32>
  %b = graph.slice %x {starts = array<i64: 0, 0, 0, 1>, limits = array<i64: 2, 2, 3, 4>, steps = array<i64: 1, 1, 1, 2>} : (tensor<2x2x3x4xf32>) -> tensor<2x2x3x2xf32>
  %ac = graph.mul %a, %cos : (tensor<2x2x3x2xf32>, tensor<1x2x1x2xf32>) -> tensor<2x2x3x2xf32>
  %bs = graph.mul %b, %sin : (tensor<2x2x3x2xf32>, tensor<1x2x1x2xf32>) -> tensor<2x2x3x2xf32>
  %bc = graph.mul %b, %cos : (tensor<2x2x3x2xf32>, tensor<1x2x1x2xf32>) -> tensor<2x2x3x2xf32>
  %as = graph.mul %a, %sin : (tensor<2x2x3x2xf32>, tensor<1x2x1x2xf32>) -> tensor<2x2x3x2xf32>
  %0 = graph.sub %ac, %bs : (tensor<2x2x3x2xf32>, tensor<2x2x3x2xf32>) -> tensor<2x2x3x2xf32>
  %1 = graph.add %bc, %as : (tensor<2x2x3x2xf32>, tensor<2x2x3x2xf32>) -> tensor<2x2x3x2xf32>
  %2 = graph.reshape %0 : (tensor<2x2x3x2xf32>) -> tensor<2x2x3x2x1xf32>
  %3 = graph.reshape %1 : (tensor<2x2x3x2xf32>) -> tensor<2x2x3x2x1xf32>
  %4 = graph.concat %2, %3 {dim = 4 : i64} : (tensor<2x2x3x2x1xf32>, tensor<2x2x3x2x1xf32>) -> tensor<2x2x3x2x2xf32>
  %5 = graph.reshape %4 : (tensor<2x2x3x2x2xf32>) -> tensor<2x2x3x4xf32>
  return %5 : tensor<2x2x3x4xf32>
}

// The sign stands in the table.
// CHECK-LABEL: @signed
// CHECK: graph.constant dense<{{.*}}-1.000000e-01, -4.000000e-01
// CHECK: graph.rotary %{{.*}}, %{{.*}}, %{{.*}} :
func.func @signed(%x: tensor<1x2x2x4xf32>) -> tensor<1x2x2x4xf32> {
  %cos = graph.constant dense<[[[1.0, 1.0, 1.0, 1.0]], [[0.5, 0.8, 0.5, 0.8]]]> : tensor<2x1x4xf32>
  %sin = graph.constant dense<[[[0.1, 0.4, -0.1, -0.4]], [[0.3, 0.2, -0.3, -0.2]]]> : tensor<2x1x4xf32>
  %0 = graph.mul %x, %cos : (tensor<1x2x2x4xf32>, tensor<2x1x4xf32>) -> tensor<1x2x2x4xf32>
  %1 = graph.slice %x {starts = array<i64: 0, 0, 0, 2>, limits = array<i64: 1, 2, 2, 4>, steps = array<i64: 1, 1, 1, 1>} : (tensor<1x2x2x4xf32>) -> tensor<1x2x2x2xf32>
  %2 = graph.slice %x {starts = array<i64: 0, 0, 0, 0>, limits = array<i64: 1, 2, 2, 2>, steps = array<i64: 1, 1, 1, 1>} : (tensor<1x2x2x4xf32>) -> tensor<1x2x2x2xf32>
  %3 = graph.concat %1, %2 {dim = 3 : i64} : (tensor<1x2x2x2xf32>, tensor<1x2x2x2xf32>) -> tensor<1x2x2x4xf32>
  %4 = graph.mul %3, %sin : (tensor<1x2x2x4xf32>, tensor<2x1x4xf32>) -> tensor<1x2x2x4xf32>
  %5 = graph.add %0, %4 : (tensor<1x2x2x4xf32>, tensor<1x2x2x4xf32>) -> tensor<1x2x2x4xf32>
  return %5 : tensor<1x2x2x4xf32>
}

// The other way round.
// CHECK-LABEL: @inverse
// CHECK: graph.rotary %{{.*}}, %{{.*}}, %{{.*}} {inverse}
func.func @inverse(%x: tensor<2x2x3x4xf32>, %c: tensor<2x1x2xf32>, %s: tensor<2x1x2xf32>) -> tensor<2x2x3x4xf32> {
  %a = graph.slice %x {starts = array<i64: 0, 0, 0, 0>, limits = array<i64: 2, 2, 3, 2>, steps = array<i64: 1, 1, 1, 1>} : (tensor<2x2x3x4xf32>) -> tensor<2x2x3x2xf32>
  %b = graph.slice %x {starts = array<i64: 0, 0, 0, 2>, limits = array<i64: 2, 2, 3, 4>, steps = array<i64: 1, 1, 1, 1>} : (tensor<2x2x3x4xf32>) -> tensor<2x2x3x2xf32>
  %ac = graph.mul %a, %c : (tensor<2x2x3x2xf32>, tensor<2x1x2xf32>) -> tensor<2x2x3x2xf32>
  %bs = graph.mul %b, %s : (tensor<2x2x3x2xf32>, tensor<2x1x2xf32>) -> tensor<2x2x3x2xf32>
  %bc = graph.mul %b, %c : (tensor<2x2x3x2xf32>, tensor<2x1x2xf32>) -> tensor<2x2x3x2xf32>
  %as = graph.mul %a, %s : (tensor<2x2x3x2xf32>, tensor<2x1x2xf32>) -> tensor<2x2x3x2xf32>
  %0 = graph.add %ac, %bs : (tensor<2x2x3x2xf32>, tensor<2x2x3x2xf32>) -> tensor<2x2x3x2xf32>
  %1 = graph.sub %bc, %as : (tensor<2x2x3x2xf32>, tensor<2x2x3x2xf32>) -> tensor<2x2x3x2xf32>
  %2 = graph.concat %0, %1 {dim = 3 : i64} : (tensor<2x2x3x2xf32>, tensor<2x2x3x2xf32>) -> tensor<2x2x3x4xf32>
  return %2 : tensor<2x2x3x4xf32>
}

// Nearly: unequal cosines in a pair, no negative (a reflection), a third lane
// that takes part, tables of each head, a learned table.
// CHECK-LABEL: @nearly
// CHECK-NOT: graph.rotary
graph.source @t.file : tensor<2x4xf32> {init = #graph.init_kind<zeros>}
graph.state @t : tensor<2x4xf32> parameter views [#graph.view<@t.file, 0, [4, 1]>]
func.func @nearly(%x: tensor<1x2x3x4xf32>, %t: tensor<2x4xf32> {graph.state = @t}) -> (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) {
  %unequal = graph.constant dense<[[[1.0, 1.0, 1.0, 1.0]], [[0.5, 0.8, 0.5, 0.7]]]> : tensor<2x1x4xf32>
  %cos = graph.constant dense<[[[1.0, 1.0, 1.0, 1.0]], [[0.5, 0.8, 0.5, 0.8]]]> : tensor<2x1x4xf32>
  %sin = graph.constant dense<[[[0.0, 0.0, 0.0, 0.0]], [[0.3, 0.2, 0.3, 0.2]]]> : tensor<2x1x4xf32>
  %heads = graph.constant dense<[[0.1, 0.2, 0.1, 0.2], [0.3, 0.4, 0.3, 0.4], [0.5, 0.6, 0.5, 0.6]]> : tensor<3x4xf32>
  %0 = graph.slice %x {starts = array<i64: 0, 0, 0, 2>, limits = array<i64: 1, 2, 3, 4>, steps = array<i64: 1, 1, 1, 1>} : (tensor<1x2x3x4xf32>) -> tensor<1x2x3x2xf32>
  %1 = graph.neg %0 : (tensor<1x2x3x2xf32>) -> tensor<1x2x3x2xf32>
  %2 = graph.slice %x {starts = array<i64: 0, 0, 0, 0>, limits = array<i64: 1, 2, 3, 2>, steps = array<i64: 1, 1, 1, 1>} : (tensor<1x2x3x4xf32>) -> tensor<1x2x3x2xf32>
  %turned = graph.concat %1, %2 {dim = 3 : i64} : (tensor<1x2x3x2xf32>, tensor<1x2x3x2xf32>) -> tensor<1x2x3x4xf32>
  %swapped = graph.concat %0, %2 {dim = 3 : i64} : (tensor<1x2x3x2xf32>, tensor<1x2x3x2xf32>) -> tensor<1x2x3x4xf32>
  %c = graph.mul %x, %cos : (tensor<1x2x3x4xf32>, tensor<2x1x4xf32>) -> tensor<1x2x3x4xf32>
  %s = graph.mul %turned, %sin : (tensor<1x2x3x4xf32>, tensor<2x1x4xf32>) -> tensor<1x2x3x4xf32>
  %u = graph.mul %x, %unequal : (tensor<1x2x3x4xf32>, tensor<2x1x4xf32>) -> tensor<1x2x3x4xf32>
  %a = graph.add %u, %s : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32>
  %w = graph.mul %swapped, %sin : (tensor<1x2x3x4xf32>, tensor<2x1x4xf32>) -> tensor<1x2x3x4xf32>
  %b = graph.add %c, %w : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32>
  %e0 = graph.slice %x {starts = array<i64: 0, 0, 0, 1>, limits = array<i64: 1, 2, 3, 4>, steps = array<i64: 1, 1, 1, 1>} : (tensor<1x2x3x4xf32>) -> tensor<1x2x3x3xf32>
  %e1 = graph.slice %x {starts = array<i64: 0, 0, 0, 0>, limits = array<i64: 1, 2, 3, 1>, steps = array<i64: 1, 1, 1, 1>} : (tensor<1x2x3x4xf32>) -> tensor<1x2x3x1xf32>
  %e2 = graph.neg %e0 : (tensor<1x2x3x3xf32>) -> tensor<1x2x3x3xf32>
  %e3 = graph.concat %e2, %e1 {dim = 3 : i64} : (tensor<1x2x3x3xf32>, tensor<1x2x3x1xf32>) -> tensor<1x2x3x4xf32>
  %e4 = graph.mul %e3, %sin : (tensor<1x2x3x4xf32>, tensor<2x1x4xf32>) -> tensor<1x2x3x4xf32>
  %d = graph.add %c, %e4 : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32>
  %f = graph.mul %x, %heads : (tensor<1x2x3x4xf32>, tensor<3x4xf32>) -> tensor<1x2x3x4xf32>
  %g = graph.add %f, %s : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32>
  %l = graph.reshape %t : (tensor<2x4xf32>) -> tensor<2x1x4xf32>
  %l0 = graph.slice %l {starts = array<i64: 0, 0, 0>, limits = array<i64: 2, 1, 2>, steps = array<i64: 1, 1, 1>} : (tensor<2x1x4xf32>) -> tensor<2x1x2xf32>
  %l1 = graph.concat %l0, %l0 {dim = 2 : i64} : (tensor<2x1x2xf32>, tensor<2x1x2xf32>) -> tensor<2x1x4xf32>
  %m = graph.mul %x, %l1 : (tensor<1x2x3x4xf32>, tensor<2x1x4xf32>) -> tensor<1x2x3x4xf32>
  %n = graph.add %m, %s : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32>
  return %a, %b, %d, %g, %n : tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>
}

// Equal numbers that belong to rows in one product and to heads in the other.
// CHECK-LABEL: @rows_and_heads
// CHECK-NOT: graph.rotary
func.func @rows_and_heads(%x: tensor<1x2x2x4xf32>) -> tensor<1x2x2x4xf32> {
  %cos = graph.constant dense<[[[1.0, 1.0]], [[0.5, 0.8]]]> : tensor<2x1x2xf32>
  %cos2 = graph.constant dense<[[[1.0, 1.0], [0.5, 0.8]]]> : tensor<1x2x2xf32>
  %sin = graph.constant dense<[[[0.0, 0.0]], [[0.3, 0.2]]]> : tensor<2x1x2xf32>
  %a = graph.slice %x {starts = array<i64: 0, 0, 0, 0>, limits = array<i64: 1, 2, 2, 2>, steps = array<i64: 1, 1, 1, 1>} : (tensor<1x2x2x4xf32>) -> tensor<1x2x2x2xf32>
  %b = graph.slice %x {starts = array<i64: 0, 0, 0, 2>, limits = array<i64: 1, 2, 2, 4>, steps = array<i64: 1, 1, 1, 1>} : (tensor<1x2x2x4xf32>) -> tensor<1x2x2x2xf32>
  %ac = graph.mul %a, %cos : (tensor<1x2x2x2xf32>, tensor<2x1x2xf32>) -> tensor<1x2x2x2xf32>
  %bs = graph.mul %b, %sin : (tensor<1x2x2x2xf32>, tensor<2x1x2xf32>) -> tensor<1x2x2x2xf32>
  %bc = graph.mul %b, %cos2 : (tensor<1x2x2x2xf32>, tensor<1x2x2xf32>) -> tensor<1x2x2x2xf32>
  %as = graph.mul %a, %sin : (tensor<1x2x2x2xf32>, tensor<2x1x2xf32>) -> tensor<1x2x2x2xf32>
  %0 = graph.sub %ac, %bs : (tensor<1x2x2x2xf32>, tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32>
  %1 = graph.add %bc, %as : (tensor<1x2x2x2xf32>, tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32>
  %2 = graph.concat %0, %1 {dim = 3 : i64} : (tensor<1x2x2x2xf32>, tensor<1x2x2x2xf32>) -> tensor<1x2x2x4xf32>
  return %2 : tensor<1x2x2x4xf32>
}

// The first lanes as one op of the file, the others copied; then others that were rotated too.
// CHECK-LABEL: @own_op_of_a_part
// CHECK-SAME: %[[X:[^:]*]]: tensor<1x2x3x6xf32>, %[[C:[^:]*]]: tensor<1x2x2xf32>, %[[S:[^:]*]]: tensor<1x2x2xf32>
func.func @own_op_of_a_part(%x: tensor<1x2x3x6xf32>, %c: tensor<1x2x2xf32>, %s: tensor<1x2x2xf32>) -> tensor<1x2x3x6xf32> {
  %0 = graph.slice %x {starts = array<i64: 0, 0, 0, 0>, limits = array<i64: 1, 2, 3, 4>, steps = array<i64: 1, 1, 1, 1>} : (tensor<1x2x3x6xf32>) -> tensor<1x2x3x4xf32>
  %1 = graph.rotary %0, %c, %s : (tensor<1x2x3x4xf32>, tensor<1x2x2xf32>, tensor<1x2x2xf32>) -> tensor<1x2x3x4xf32>
  %2 = graph.slice %x {starts = array<i64: 0, 0, 0, 4>, limits = array<i64: 1, 2, 3, 6>, steps = array<i64: 1, 1, 1, 1>} : (tensor<1x2x3x6xf32>) -> tensor<1x2x3x2xf32>
  // CHECK-NEXT: graph.rotary %[[X]], %[[C]], %[[S]] : (tensor<1x2x3x6xf32>
  %3 = graph.concat %1, %2 {dim = 3 : i64} : (tensor<1x2x3x4xf32>, tensor<1x2x3x2xf32>) -> tensor<1x2x3x6xf32>
  return %3 : tensor<1x2x3x6xf32>
}

// CHECK-LABEL: @other_lanes
// CHECK-SAME: %[[X:[^:]*]]: tensor<1x2x3x6xf32>, %[[C:[^:]*]]: tensor<1x2x2xf32>, %[[S:[^:]*]]: tensor<1x2x2xf32>
func.func @other_lanes(%x: tensor<1x2x3x6xf32>, %c: tensor<1x2x2xf32>, %s: tensor<1x2x2xf32>) -> tensor<1x2x3x6xf32> {
  %0 = graph.slice %x {starts = array<i64: 0, 0, 0, 0>, limits = array<i64: 1, 2, 3, 4>, steps = array<i64: 1, 1, 1, 1>} : (tensor<1x2x3x6xf32>) -> tensor<1x2x3x4xf32>
  %1 = graph.rotary %0, %c, %s : (tensor<1x2x3x4xf32>, tensor<1x2x2xf32>, tensor<1x2x2xf32>) -> tensor<1x2x3x4xf32>
  %2 = graph.slice %x {starts = array<i64: 0, 0, 0, 2>, limits = array<i64: 1, 2, 3, 4>, steps = array<i64: 1, 1, 1, 1>} : (tensor<1x2x3x6xf32>) -> tensor<1x2x3x2xf32>
  // CHECK: graph.concat
  %3 = graph.concat %1, %2 {dim = 3 : i64} : (tensor<1x2x3x4xf32>, tensor<1x2x3x2xf32>) -> tensor<1x2x3x6xf32>
  return %3 : tensor<1x2x3x6xf32>
}

// An exporter turns the heads to the front between the two products: what counts is
// where a lane and its row go.
// CHECK-LABEL: @turned_between
// CHECK: %[[Y:.*]] = graph.rotary %arg0, %{{.*}}, %{{.*}} {interleaved} : (tensor<2x3x2x4xf32>, tensor<1x3x2xf32>, tensor<1x3x2xf32>)
// CHECK: %[[T:.*]] = graph.transpose %[[Y]] {permutation = array<i64: 0, 2, 1, 3>}
// CHECK: return %[[T]]
func.func @turned_between(%x: tensor<2x3x2x4xf32>, %half: tensor<3x2xf32>) -> tensor<2x2x3x4xf32> {
  %pairs = graph.reshape %half : (tensor<3x2xf32>) -> tensor<3x2x1xf32>
  %both = graph.concat %pairs, %pairs {dim = 2 : i64} : (tensor<3x2x1xf32>, tensor<3x2x1xf32>) -> tensor<3x2x2xf32>
  %angle = graph.reshape %both : (tensor<3x2x2xf32>) -> tensor<3x4xf32>
  %cos = graph.cos %angle : (tensor<3x4xf32>) -> tensor<3x4xf32>
  %sin = graph.sin %angle : (tensor<3x4xf32>) -> tensor<3x4xf32>
  %cos1 = graph.reshape %cos : (tensor<3x4xf32>) -> tensor<3x1x4xf32>
  %0 = graph.mul %x, %cos1 : (tensor<2x3x2x4xf32>, tensor<3x1x4xf32>) -> tensor<2x3x2x4xf32>
  %1 = graph.transpose %0 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x3x2x4xf32>) -> tensor<2x2x3x4xf32>
  %odd = graph.slice %x {starts = array<i64: 0, 0, 0, 1>, limits = array<i64: 2, 3, 2, 4>, steps = array<i64: 1, 1, 1, 2>} : (tensor<2x3x2x4xf32>) -> tensor<2x3x2x2xf32>
  %even = graph.slice %x {starts = array<i64: 0, 0, 0, 0>, limits = array<i64: 2, 3, 2, 3>, steps = array<i64: 1, 1, 1, 2>} : (tensor<2x3x2x4xf32>) -> tensor<2x3x2x2xf32>
  %negative = graph.neg %odd : (tensor<2x3x2x2xf32>) -> tensor<2x3x2x2xf32>
  %a = graph.reshape %negative : (tensor<2x3x2x2xf32>) -> tensor<2x3x2x2x1xf32>
  %b = graph.reshape %even : (tensor<2x3x2x2xf32>) -> tensor<2x3x2x2x1xf32>
  %2 = graph.concat %a, %b {dim = 4 : i64} : (tensor<2x3x2x2x1xf32>, tensor<2x3x2x2x1xf32>) -> tensor<2x3x2x2x2xf32>
  %3 = graph.transpose %2 {permutation = array<i64: 0, 2, 1, 3, 4>} : (tensor<2x3x2x2x2xf32>) -> tensor<2x2x3x2x2xf32>
  %4 = graph.reshape %3 : (tensor<2x2x3x2x2xf32>) -> tensor<2x2x3x4xf32>
  %5 = graph.mul %4, %sin : (tensor<2x2x3x4xf32>, tensor<3x4xf32>) -> tensor<2x2x3x4xf32>
  %6 = graph.add %1, %5 : (tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x4xf32>
  return %6 : tensor<2x2x3x4xf32>
}

// The sine meets the heads and not the rows: no rotation.
// CHECK-LABEL: @sine_of_heads
// CHECK-NOT: graph.rotary
func.func @sine_of_heads(%x: tensor<2x3x3x2xf32>, %cos: tensor<3x1x1xf32>, %sin: tensor<3x1x1xf32>) -> tensor<2x3x3x2xf32> {
  %0 = graph.mul %x, %cos : (tensor<2x3x3x2xf32>, tensor<3x1x1xf32>) -> tensor<2x3x3x2xf32>
  %1 = graph.transpose %0 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x3x3x2xf32>) -> tensor<2x3x3x2xf32>
  %high = graph.slice %x {starts = array<i64: 0, 0, 0, 1>, limits = array<i64: 2, 3, 3, 2>, steps = array<i64: 1, 1, 1, 1>} : (tensor<2x3x3x2xf32>) -> tensor<2x3x3x1xf32>
  %low = graph.slice %x {starts = array<i64: 0, 0, 0, 0>, limits = array<i64: 2, 3, 3, 1>, steps = array<i64: 1, 1, 1, 1>} : (tensor<2x3x3x2xf32>) -> tensor<2x3x3x1xf32>
  %negative = graph.neg %high : (tensor<2x3x3x1xf32>) -> tensor<2x3x3x1xf32>
  %2 = graph.concat %negative, %low {dim = 3 : i64} : (tensor<2x3x3x1xf32>, tensor<2x3x3x1xf32>) -> tensor<2x3x3x2xf32>
  %3 = graph.transpose %2 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x3x3x2xf32>) -> tensor<2x3x3x2xf32>
  %4 = graph.mul %3, %sin : (tensor<2x3x3x2xf32>, tensor<3x1x1xf32>) -> tensor<2x3x3x2xf32>
  %5 = graph.add %1, %4 : (tensor<2x3x3x2xf32>, tensor<2x3x3x2xf32>) -> tensor<2x3x3x2xf32>
  return %5 : tensor<2x3x3x2xf32>
}

// One branch has the heads in front, the other has not: no rotation either.
// CHECK-LABEL: @turned_once
// CHECK-NOT: graph.rotary
func.func @turned_once(%x: tensor<2x3x3x2xf32>, %cos: tensor<3x1x1xf32>, %sin: tensor<3x1x1xf32>) -> tensor<2x3x3x2xf32> {
  %0 = graph.mul %x, %cos : (tensor<2x3x3x2xf32>, tensor<3x1x1xf32>) -> tensor<2x3x3x2xf32>
  %high = graph.slice %x {starts = array<i64: 0, 0, 0, 1>, limits = array<i64: 2, 3, 3, 2>, steps = array<i64: 1, 1, 1, 1>} : (tensor<2x3x3x2xf32>) -> tensor<2x3x3x1xf32>
  %low = graph.slice %x {starts = array<i64: 0, 0, 0, 0>, limits = array<i64: 2, 3, 3, 1>, steps = array<i64: 1, 1, 1, 1>} : (tensor<2x3x3x2xf32>) -> tensor<2x3x3x1xf32>
  %negative = graph.neg %high : (tensor<2x3x3x1xf32>) -> tensor<2x3x3x1xf32>
  %2 = graph.concat %negative, %low {dim = 3 : i64} : (tensor<2x3x3x1xf32>, tensor<2x3x3x1xf32>) -> tensor<2x3x3x2xf32>
  %3 = graph.transpose %2 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x3x3x2xf32>) -> tensor<2x3x3x2xf32>
  %4 = graph.mul %3, %sin : (tensor<2x3x3x2xf32>, tensor<3x1x1xf32>) -> tensor<2x3x3x2xf32>
  %5 = graph.add %0, %4 : (tensor<2x3x3x2xf32>, tensor<2x3x3x2xf32>) -> tensor<2x3x3x2xf32>
  return %5 : tensor<2x3x3x2xf32>
}
