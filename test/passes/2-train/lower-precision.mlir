// RUN: llmc-opt %s --llmc-lower-precision --split-input-file | FileCheck %s
// RUN: llmc-opt %s --llmc-lower-precision=element=f16 --split-input-file | FileCheck %s --check-prefix=HALF

// Weights and activations are low, the norm's statistic is not. Arithmetic on a
// weight alone (1 + scale) is done in f32. The angles depend on no weight and stay.

graph.source @w : tensor<8x8xf32> {init = #graph.init_kind<normal>, init_std = 2.0e-2}
graph.source @s : tensor<8xf32> {init = #graph.init_kind<zeros>}
// CHECK: graph.state @p : tensor<8x8xbf16> parameter
// HALF: graph.state @p : tensor<8x8xf16> parameter
graph.state @p : tensor<8x8xf32> parameter views [#graph.view<@w, 0, [8, 1]>]
graph.state @q : tensor<8xf32> parameter views [#graph.view<@s, 0, [1]>]

// CHECK-LABEL: func.func @forward(
// CHECK-SAME: %[[IDS:.*]]: tensor<1x3xi64> {graph.input = "ids"}
// CHECK-SAME: %[[W:.*]]: tensor<8x8xbf16> {graph.state = @p}
// CHECK-SAME: %[[S:.*]]: tensor<8xbf16> {graph.state = @q}
// CHECK-SAME: -> tensor<1x3x8xf32>
func.func @forward(%ids: tensor<1x3xi64> {graph.input = "ids"}, %w: tensor<8x8xf32> {graph.state = @p},
                   %s: tensor<8xf32> {graph.state = @q}) -> tensor<1x3x8xf32> {
  // CHECK: %[[WIDE:.*]] = graph.cast %[[S]] : (tensor<8xbf16>) -> tensor<8xf32>
  // CHECK: %[[X:.*]] = graph.gather %[[W]], %[[IDS]] {{.*}} -> tensor<1x3x8xbf16>
  %x = graph.gather %w, %ids : (tensor<8x8xf32>, tensor<1x3xi64>) -> tensor<1x3x8xf32>
  %one = graph.constant dense<1.0> : tensor<f32>
  // CHECK: %[[SCALE:.*]] = graph.add %[[WIDE]], %{{.*}} : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %scale = graph.add %s, %one : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  // CHECK: %[[Y:.*]], %{{.*}} = graph.rms_norm %[[X]], %[[SCALE]]
  // CHECK-SAME: (tensor<1x3x8xbf16>, tensor<8xf32>) -> (tensor<1x3x8xbf16>, tensor<1x3xf32>)
  %y, %rstd = graph.rms_norm %x, %scale {eps = 1.0e-6}
      : (tensor<1x3x8xf32>, tensor<8xf32>) -> (tensor<1x3x8xf32>, tensor<1x3xf32>)
  %heads = graph.reshape %y : (tensor<1x3x8xf32>) -> tensor<1x3x2x4xf32>
  // CHECK: %[[COS:.*]] = graph.constant {{.*}} : tensor<1x3x2xf32>
  %cos = graph.constant dense<0.5> : tensor<1x3x2xf32>
  // CHECK: graph.rotary %{{.*}}, %[[COS]], %[[COS]] : (tensor<1x3x2x4xbf16>, tensor<1x3x2xf32>, tensor<1x3x2xf32>)
  %q = graph.rotary %heads, %cos, %cos
      : (tensor<1x3x2x4xf32>, tensor<1x3x2xf32>, tensor<1x3x2xf32>) -> tensor<1x3x2x4xf32>
  // CHECK: graph.attention {{.*}} -> (tensor<1x3x2x4xbf16>, tensor<1x3x2xf32>)
  %o, %lse = graph.attention %q, %q, %q {scale = 0.5, causal = true}
      : (tensor<1x3x2x4xf32>, tensor<1x3x2x4xf32>, tensor<1x3x2x4xf32>)
        -> (tensor<1x3x2x4xf32>, tensor<1x3x2xf32>)
  %flat = graph.reshape %o : (tensor<1x3x2x4xf32>) -> tensor<1x3x8xf32>
  // CHECK: %[[LOGITS:.*]] = graph.matmul {{.*}} -> tensor<1x3x8xbf16>
  %logits = graph.matmul "bsd,vd->bsv" %flat, %w : (tensor<1x3x8xf32>, tensor<8x8xf32>) -> tensor<1x3x8xf32>
  // CHECK: %[[RESULT:.*]] = graph.cast %[[LOGITS]] : (tensor<1x3x8xbf16>) -> tensor<1x3x8xf32>
  // CHECK: return %[[RESULT]] : tensor<1x3x8xf32>
  return %logits : tensor<1x3x8xf32>
}

// -----

// Scores that meet an f32 mask are f32 until the softmax has taken them; a
// constant number adapts to the activations. What layers carry is low.

graph.source @w : tensor<2x4x4xf32> {init = #graph.init_kind<normal>, init_std = 2.0e-2}
graph.state @p : tensor<2x4x4xf32> parameter stacked
    views [#graph.view<@w, 0, [4, 1]>, #graph.view<@w, 16, [4, 1]>]

// CHECK-LABEL: func.func @forward(
func.func @forward(%x: tensor<4x4xf32> {graph.input = "x"}, %mask: tensor<4x4xf32> {graph.input = "mask"},
                   %w: tensor<2x4x4xf32> {graph.state = @p}) -> tensor<4x4xf32> {
  // CHECK: %[[START:.*]] = graph.cast %{{.*}} : (tensor<4x4xf32>) -> tensor<4x4xbf16>
  // CHECK: graph.repeat 2 carried(%[[START]] : tensor<4x4xbf16>)
  %y = graph.repeat 2 carried(%x : tensor<4x4xf32>) stacked(%w : tensor<2x4x4xf32>)
       captured(%mask : tensor<4x4xf32>) -> tensor<4x4xf32> {
  ^bb0(%h: tensor<4x4xf32>, %w0: tensor<4x4xf32>, %m: tensor<4x4xf32>):
    // CHECK: %[[S:.*]] = graph.matmul {{.*}} -> tensor<4x4xbf16>
    %s = graph.matmul "ab,cb->ac" %h, %w0 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %half = graph.constant dense<0.5> : tensor<f32>
    // CHECK: %[[FACTOR:.*]] = graph.cast %{{.*}} : (tensor<f32>) -> tensor<bf16>
    // CHECK: %[[SCALED:.*]] = graph.mul %[[S]], %[[FACTOR]] {{.*}} -> tensor<4x4xbf16>
    %scaled = graph.mul %s, %half : (tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
    // CHECK: %[[WIDE:.*]] = graph.cast %[[SCALED]] : (tensor<4x4xbf16>) -> tensor<4x4xf32>
    // CHECK: %[[MASKED:.*]] = graph.add %[[WIDE]], %{{.*}} -> tensor<4x4xf32>
    %masked = graph.add %scaled, %m : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    // CHECK: %[[P:.*]] = graph.softmax %[[MASKED]] : (tensor<4x4xf32>) -> tensor<4x4xbf16>
    %p = graph.softmax %masked : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %next = graph.matmul "ab,bc->ac" %p, %h : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    graph.yield %next : tensor<4x4xf32>
  }
  return %y : tensor<4x4xf32>
}

// -----

// What is added to an activation of its shape takes the low type, though a sum of its scores is full: what a residual
// stream carries on is not widened by the shares of experts.

graph.source @w : tensor<4x4xf32> {init = #graph.init_kind<normal>, init_std = 2.0e-2}
graph.state @p : tensor<4x4xf32> parameter views [#graph.view<@w, 0, [4, 1]>]

// CHECK-LABEL: func.func @forward(
func.func @forward(%x: tensor<4x4xf32> {graph.input = "x"}, %w: tensor<4x4xf32> {graph.state = @p}) -> tensor<4x4xf32> {
  // CHECK: %[[H:.*]] = graph.matmul {{.*}} -> tensor<4x4xbf16>
  %h = graph.matmul "ab,cb->ac" %x, %w : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %total = graph.reduce %h {dims = array<i64: 1>, kind = #graph.reduce_kind<sum>} : (tensor<4x4xf32>) -> tensor<4xf32>
  %wide = graph.broadcast %total {dims = array<i64: 0>} : (tensor<4xf32>) -> tensor<4x4xf32>
  // CHECK: %[[SHARE:.*]] = graph.div {{.*}} -> tensor<4x4xf32>
  %share = graph.div %h, %wide : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  // CHECK: %[[NARROW:.*]] = graph.cast %[[SHARE]] : (tensor<4x4xf32>) -> tensor<4x4xbf16>
  // CHECK: graph.add %[[H]], %[[NARROW]] : (tensor<4x4xbf16>, tensor<4x4xbf16>) -> tensor<4x4xbf16>
  %sum = graph.add %h, %share : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %sum : tensor<4x4xf32>
}
