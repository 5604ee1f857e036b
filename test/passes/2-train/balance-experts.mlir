// RUN: llmc-opt %s --split-input-file --llmc-balance-experts="aux-loss=0.5 bias-rate=0.001" | FileCheck %s

// A sigmoid's scores are divided by their sum. The tokens of each row are counted choice by choice, and multiply the
// sums of scores: 0.5 x 4 experts / (2 choices x 4 tokens x 4 tokens) = 0.0625. The lookup of biases has
// these counts as its gradient.
// CHECK: graph.state @bias {{.*}} {graph.bias_rate = 1.000000e-03 : f64}
// CHECK-LABEL: func.func @forward
// CHECK-SAME: tensor<2xf32> {graph.output = "moe_aux"}, tensor<f32> {graph.output = "moe_bias"})
// CHECK: %[[SCORES:.*]] = graph.sigmoid
// CHECK: %[[ROUTES:.*]] = graph.route %[[SCORES]], %[[BIAS:.*]] {mixture} :
// CHECK: %[[TOTAL:.*]] = graph.reduce %[[SCORES]] {dims = array<i64: 2>
// CHECK: %[[PART:.*]] = graph.div %[[SCORES]]
// CHECK: %[[SUM:.*]] = graph.reduce %[[PART]] {dims = array<i64: 1>
// CHECK: %[[FIRST:.*]] = graph.slice %[[ROUTES]] {limits = array<i64: 2, 4, 1>
// CHECK: graph.one_hot
// CHECK: graph.slice %[[ROUTES]] {limits = array<i64: 2, 4, 2>
// CHECK: graph.one_hot
// CHECK: %[[MARKS:.*]] = graph.add
// CHECK: %[[COUNTS:.*]] = graph.reduce %[[MARKS]] {dims = array<i64: 1>
// CHECK: %[[PRODUCT:.*]] = graph.mul %[[SUM]], %[[COUNTS]]
// CHECK: %[[ROW:.*]] = graph.reduce %[[PRODUCT]] {dims = array<i64: 1>
// CHECK: %[[FACTOR:.*]] = graph.constant dense<6.250000e-02>
// CHECK: %[[LOSS:.*]] = graph.mul %[[ROW]], %[[FACTOR]]
// CHECK: %[[LOSSES:.*]] = graph.add %{{.*}}, %[[LOSS]]
// CHECK: %[[CHOSEN:.*]] = graph.gather %[[BIAS]], %[[ROUTES]]
// CHECK: %[[ALL:.*]] = graph.reduce %[[CHOSEN]] {dims = array<i64: 0, 1, 2>
// CHECK: %[[CHOICES:.*]] = graph.add %{{.*}}, %[[ALL]]
// CHECK: return %{{.*}}, %[[LOSSES]], %[[CHOICES]]
graph.source @bias.w : tensor<4xf32> {init = #graph.init_kind<zeros>}
graph.state @bias : tensor<4xf32> parameter views [#graph.view<@bias.w, 0, [1]>]
func.func @forward(%x: tensor<2x4x4xf32> {graph.input = "x"}, %b: tensor<4xf32> {graph.state = @bias})
    -> (tensor<2x4x2xf32> {graph.output = "y"}) {
  %s = graph.sigmoid %x : (tensor<2x4x4xf32>) -> tensor<2x4x4xf32>
  %r = graph.route %s, %b {mixture} : (tensor<2x4x4xf32>, tensor<4xf32>) -> tensor<2x4x2xi64>
  %y = graph.cast %r : (tensor<2x4x2xi64>) -> tensor<2x4x2xf32>
  return %y : tensor<2x4x2xf32>
}

// -----

// Layers carry the losses of rows and stack the biases of choices, whose sum is never needed. Logits pass through a
// softmax; a bias is found through the layers.
// CHECK: graph.state @bias {{.*}} {graph.bias_rate
// CHECK-LABEL: func.func @forward
// CHECK: %[[LAYERS:.*]]:2, %[[STACK:.*]] = graph.repeat 3 carried(%{{.*}}, %{{.*}} : tensor<2x4x4xf32>, tensor<2xf32>)
// CHECK: graph.softmax
// CHECK: %[[CHOSEN:.*]] = graph.reduce %[[STACK]] {dims = array<i64: 0>{{.*}} : (tensor<3xf32>) -> tensor<f32>
// CHECK: %[[CHOICES:.*]] = graph.add %{{.*}}, %[[CHOSEN]]
// CHECK: return %[[LAYERS]]#0, %[[LAYERS]]#1, %[[CHOICES]]
graph.source @bias.w : tensor<12xf32> {init = #graph.init_kind<zeros>}
graph.state @bias : tensor<3x4xf32> parameter stacked views [#graph.view<@bias.w, 0, [1]>, #graph.view<@bias.w, 4, [1]>, #graph.view<@bias.w, 8, [1]>]
func.func @forward(%x: tensor<2x4x4xf32> {graph.input = "x"}, %b: tensor<3x4xf32> {graph.state = @bias})
    -> (tensor<2x4x4xf32> {graph.output = "y"}) {
  %y = graph.repeat 3 carried(%x : tensor<2x4x4xf32>) stacked(%b : tensor<3x4xf32>) captured() -> tensor<2x4x4xf32> {
  ^bb0(%c: tensor<2x4x4xf32>, %own: tensor<4xf32>):
    %r = graph.route %c, %own {mixture} : (tensor<2x4x4xf32>, tensor<4xf32>) -> tensor<2x4x4xi64>
    %n = graph.cast %r : (tensor<2x4x4xi64>) -> tensor<2x4x4xf32>
    graph.yield %n : tensor<2x4x4xf32>
  }
  return %y : tensor<2x4x4xf32>
}
