// RUN: llmc-opt %s --llmc-normalize-order --split-input-file | FileCheck %s

// Two spellings of one model: other names, order, operand order and letters.
// Both come out alike, and nothing that is not used is left.

// CHECK: graph.source @weight
// CHECK-NEXT: graph.source @bias
// CHECK-NEXT: graph.state @s0 : tensor<4x4xf32> parameter views [#graph.view<@weight, 0, [4, 1]>]
// CHECK-NEXT: graph.state @s1 : tensor<4xf32> parameter views [#graph.view<@bias, 0, [1]>]
// CHECK-NEXT: func.func @forward(%[[X:.*]]: tensor<2x3x4xf32> {graph.input = "x"}, %[[W:.*]]: tensor<4x4xf32> {graph.state = @s0}, %[[B:.*]]: tensor<4xf32> {graph.state = @s1})
// CHECK-NEXT: %[[C:.*]] = graph.constant dense<2.000000e+00>
// CHECK-NEXT: %[[Y:.*]] = graph.matmul "bsd,de->bse" %[[X]], %[[W]]
// CHECK-NEXT: %[[Z:.*]] = graph.add %[[Y]], %[[B]]
// CHECK-NEXT: %[[R:.*]] = graph.add %[[X]], %[[Z]]
// CHECK-NEXT: %[[S:.*]] = graph.mul %[[R]], %[[C]]
// CHECK-NEXT: return %[[S]]
graph.source @weight : tensor<4x4xf32> {init = #graph.init_kind<zeros>}
graph.source @bias : tensor<4xf32> {init = #graph.init_kind<zeros>}
graph.source @unused : tensor<4xf32> {init = #graph.init_kind<zeros>}
graph.state @a : tensor<4x4xf32> parameter views [#graph.view<@weight, 0, [4, 1]>]
graph.state @b : tensor<4xf32> parameter views [#graph.view<@bias, 0, [1]>]
graph.state @c : tensor<4xf32> parameter views [#graph.view<@unused, 0, [1]>]
func.func @forward(%x: tensor<2x3x4xf32> {graph.input = "x"}, %w: tensor<4x4xf32> {graph.state = @a}, %b: tensor<4xf32> {graph.state = @b}, %c: tensor<4xf32> {graph.state = @c}) -> tensor<2x3x4xf32> {
  %0 = graph.matmul "abc,cd->abd" %x, %w : (tensor<2x3x4xf32>, tensor<4x4xf32>) -> tensor<2x3x4xf32>
  %1 = graph.add %0, %b : (tensor<2x3x4xf32>, tensor<4xf32>) -> tensor<2x3x4xf32>
  %2 = graph.add %x, %1 : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %two = graph.constant dense<2.0> : tensor<f32>
  %3 = graph.mul %2, %two : (tensor<2x3x4xf32>, tensor<f32>) -> tensor<2x3x4xf32>
  return %3 : tensor<2x3x4xf32>
}

// -----

// CHECK: graph.source @weight
// CHECK-NEXT: graph.source @bias
// CHECK-NEXT: graph.state @s0 : tensor<4x4xf32> parameter views [#graph.view<@weight, 0, [4, 1]>]
// CHECK-NEXT: graph.state @s1 : tensor<4xf32> parameter views [#graph.view<@bias, 0, [1]>]
// CHECK-NEXT: func.func @forward(%[[X:.*]]: tensor<2x3x4xf32> {graph.input = "x"}, %[[W:.*]]: tensor<4x4xf32> {graph.state = @s0}, %[[B:.*]]: tensor<4xf32> {graph.state = @s1})
// CHECK-NEXT: %[[C:.*]] = graph.constant dense<2.000000e+00>
// CHECK-NEXT: %[[Y:.*]] = graph.matmul "bsd,de->bse" %[[X]], %[[W]]
// CHECK-NEXT: %[[Z:.*]] = graph.add %[[Y]], %[[B]]
// CHECK-NEXT: %[[R:.*]] = graph.add %[[X]], %[[Z]]
// CHECK-NEXT: %[[S:.*]] = graph.mul %[[R]], %[[C]]
// CHECK-NEXT: return %[[S]]
graph.source @bias : tensor<4xf32> {init = #graph.init_kind<zeros>}
graph.source @weight : tensor<4x4xf32> {init = #graph.init_kind<zeros>}
graph.state @s1 : tensor<4x4xf32> parameter views [#graph.view<@weight, 0, [4, 1]>]
graph.state @s0 : tensor<4xf32> parameter views [#graph.view<@bias, 0, [1]>]
func.func @forward(%b: tensor<4xf32> {graph.state = @s0}, %w: tensor<4x4xf32> {graph.state = @s1}, %x: tensor<2x3x4xf32> {graph.input = "x"}) -> tensor<2x3x4xf32> {
  %0 = graph.matmul "zq,pmz->pmq" %w, %x : (tensor<4x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %again = graph.matmul "cd,abc->abd" %w, %x : (tensor<4x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %dead = graph.exp %again : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %1 = graph.add %b, %0 : (tensor<4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %2 = graph.add %1, %x : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %two = graph.constant dense<2.0> : tensor<f32>
  %3 = graph.mul %two, %2 : (tensor<f32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  return %3 : tensor<2x3x4xf32>
}

// -----

// A mask stands at one depth and layers get deeper: it is on the right in each.
// CHECK: %[[M:.*]] = graph.neg
// CHECK: %[[Y:.*]] = graph.matmul
// CHECK-NEXT: %[[Z:.*]] = graph.add %[[Y]], %[[M]]
// CHECK-NEXT: %[[U:.*]] = graph.matmul "sd,de->se" %[[Z]]
// CHECK-NEXT: graph.add %[[U]], %[[M]]
graph.source @first : tensor<4x4xf32> {init = #graph.init_kind<zeros>}
graph.source @second : tensor<4x4xf32> {init = #graph.init_kind<zeros>}
graph.state @a : tensor<4x4xf32> parameter views [#graph.view<@first, 0, [4, 1]>]
graph.state @b : tensor<4x4xf32> parameter views [#graph.view<@second, 0, [4, 1]>]
func.func @forward(%x: tensor<3x4xf32> {graph.input = "x"}, %ids: tensor<3x4xi64> {graph.input = "ids"}, %v: tensor<4x4xf32> {graph.state = @a}, %w: tensor<4x4xf32> {graph.state = @b}) -> tensor<3x4xf32> {
  %0 = graph.cast %ids : (tensor<3x4xi64>) -> tensor<3x4xf32>
  %mask = graph.neg %0 : (tensor<3x4xf32>) -> tensor<3x4xf32>
  %1 = graph.matmul "sd,de->se" %x, %v : (tensor<3x4xf32>, tensor<4x4xf32>) -> tensor<3x4xf32>
  %2 = graph.add %mask, %1 : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  %3 = graph.matmul "sd,de->se" %2, %w : (tensor<3x4xf32>, tensor<4x4xf32>) -> tensor<3x4xf32>
  %4 = graph.add %mask, %3 : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  return %4 : tensor<3x4xf32>
}

// -----

// What is made of a parameter in a way of its own, for both layers, stands in front of them; what
// each makes of its own parameter (a tanh) stays with it.
// CHECK: func.func @forward(
// CHECK-NEXT: %[[E:.*]] = graph.exp
// CHECK-NEXT: %[[N:.*]] = graph.neg %[[E]]
// CHECK-NEXT: %[[U:.*]] = graph.tanh
// CHECK-NEXT: %[[A:.*]] = graph.mul %{{.*}}, %[[U]]
// CHECK-NEXT: %[[B:.*]] = graph.add %[[A]], %[[N]]
// CHECK-NEXT: %[[V:.*]] = graph.tanh
// CHECK-NEXT: %[[C:.*]] = graph.mul %[[B]], %[[V]]
// CHECK-NEXT: graph.add %[[C]], %[[N]]
graph.source @shared : tensor<4xf32> {init = #graph.init_kind<zeros>}
graph.source @first : tensor<4xf32> {init = #graph.init_kind<zeros>}
graph.source @second : tensor<4xf32> {init = #graph.init_kind<zeros>}
graph.state @a : tensor<4xf32> parameter views [#graph.view<@shared, 0, [1]>]
graph.state @b : tensor<4xf32> parameter views [#graph.view<@first, 0, [1]>]
graph.state @c : tensor<4xf32> parameter views [#graph.view<@second, 0, [1]>]
func.func @forward(%x: tensor<2x3x4xf32> {graph.input = "x"}, %a: tensor<4xf32> {graph.state = @a}, %b: tensor<4xf32> {graph.state = @b}, %c: tensor<4xf32> {graph.state = @c}) -> tensor<2x3x4xf32> {
  %t = graph.tanh %b : (tensor<4xf32>) -> tensor<4xf32>
  %0 = graph.mul %x, %t : (tensor<2x3x4xf32>, tensor<4xf32>) -> tensor<2x3x4xf32>
  %e = graph.exp %a : (tensor<4xf32>) -> tensor<4xf32>
  %n = graph.neg %e : (tensor<4xf32>) -> tensor<4xf32>
  %1 = graph.add %0, %n : (tensor<2x3x4xf32>, tensor<4xf32>) -> tensor<2x3x4xf32>
  %u = graph.tanh %c : (tensor<4xf32>) -> tensor<4xf32>
  %2 = graph.mul %1, %u : (tensor<2x3x4xf32>, tensor<4xf32>) -> tensor<2x3x4xf32>
  %3 = graph.add %2, %n : (tensor<2x3x4xf32>, tensor<4xf32>) -> tensor<2x3x4xf32>
  return %3 : tensor<2x3x4xf32>
}
