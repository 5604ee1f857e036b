// RUN: llmc-opt %s --split-input-file --llmc-localize | FileCheck %s

#rows = #parallel.sharding<[{}, {"cp"}, {}, {}]>
#lse = #parallel.sharding<[{}, {"cp"}, {}]>
#at = #parallel.sharding<[{"cp"}]>

// Keys, values and the positions of keys go around before the block that needs them is computed, so that
// they travel during the one before it. Blocks are joined in float32.
module attributes {parallel.mesh = #parallel.mesh<["cp"=3]>, parallel.tactics = {cp = "context"}} {
// CHECK-LABEL: func.func @forward
// CHECK-SAME: (%[[Q:.*]]: tensor<1x2x2x4xbf16> {{.*}}, %[[K:.*]]: tensor<1x2x1x4xbf16> {{.*}}, %[[P:.*]]: tensor<2xi64>
func.func @forward(%q: tensor<1x6x2x4xbf16> {parallel.sharding = #rows}, %k: tensor<1x6x1x4xbf16> {parallel.sharding = #rows},
                   %p: tensor<6xi64> {parallel.sharding = #at}) -> (tensor<1x6x2x4xbf16>, tensor<1x6x2xf32>) {
  // CHECK-NEXT: %[[K1:.*]] = parallel.shift %[[K]] over ["cp"] by 1
  // CHECK-NEXT: %[[P1:.*]] = parallel.shift %[[P]] over ["cp"] by 1
  // CHECK-NEXT: %[[O0:.*]], %[[L0:.*]] = graph.attention %[[Q]], %[[K]], %[[K]], %[[P]], %[[P]] {causal = true, scale
  // CHECK-NEXT: graph.cast %[[O0]] : (tensor<1x2x2x4xbf16>) -> tensor<1x2x2x4xf32>
  // CHECK-NEXT: %[[K2:.*]] = parallel.shift %[[K1]] over ["cp"] by 1
  // CHECK-NEXT: %[[P2:.*]] = parallel.shift %[[P1]] over ["cp"] by 1
  // CHECK-NEXT: graph.attention %[[Q]], %[[K1]], %[[K1]], %[[P]], %[[P1]]
  // CHECK: graph.maximum %[[L0]],
  // CHECK: graph.sigmoid
  // CHECK-NOT: parallel.shift
  // CHECK: graph.attention %[[Q]], %[[K2]], %[[K2]], %[[P]], %[[P2]]
  // CHECK: graph.cast {{.*}} -> tensor<1x2x2x4xbf16>
  // CHECK-NEXT: return
  %o, %l = graph.attention %q, %k, %k, %p, %p {scale = 0.5, causal = true, ring, parallel.in = [#rows, #rows, #rows, #at, #at], parallel.out = [#rows, #lse]}
      : (tensor<1x6x2x4xbf16>, tensor<1x6x1x4xbf16>, tensor<1x6x1x4xbf16>, tensor<6xi64>, tensor<6xi64>) -> (tensor<1x6x2x4xbf16>, tensor<1x6x2xf32>) loc("scores")
  return {parallel.in = [#rows, #lse]} %o, %l : tensor<1x6x2x4xbf16>, tensor<1x6x2xf32>
}

// Cotangents of keys that are not at home follow them in float32, and go home from the last rank; those
// of the own keys never leave. Positions are no part of an attention that sees all keys.
// CHECK-LABEL: func.func @backward
// CHECK-SAME: (%[[Q:.*]]: tensor<1x2x2x4xbf16> {{.*}}, %[[K:.*]]: tensor<1x2x1x4xbf16> {{.*}}, %[[L:.*]]: tensor<1x2x2xf32>
func.func @backward(%q: tensor<1x6x2x4xbf16> {parallel.sharding = #rows}, %k: tensor<1x6x1x4xbf16> {parallel.sharding = #rows},
                    %l: tensor<1x6x2xf32> {parallel.sharding = #lse}) -> (tensor<1x6x2x4xbf16>, tensor<1x6x1x4xbf16>, tensor<1x6x1x4xbf16>) {
  // CHECK-NEXT: %[[K1:.*]] = parallel.shift %[[K]] over ["cp"] by 1
  // CHECK-NEXT: %{{.*}}, %[[HOME:.*]], %{{.*}} = graph.attention_grad %[[Q]], %[[Q]], %[[K]], %[[K]], %[[Q]], %[[L]] {causal = false, scale
  // CHECK: %[[K2:.*]] = parallel.shift %[[K1]] over ["cp"] by 1
  // CHECK-NEXT: %{{.*}}, %[[DK1:.*]], %{{.*}} = graph.attention_grad %[[Q]], %[[Q]], %[[K1]], %[[K1]]
  // CHECK: %[[WIDE:.*]] = graph.cast %[[DK1]] : (tensor<1x2x1x4xbf16>) -> tensor<1x2x1x4xf32>
  // CHECK: %[[AWAY:.*]] = parallel.shift %[[WIDE]] over ["cp"] by 1 {{.*}} : tensor<1x2x1x4xf32>
  // CHECK-NEXT: parallel.shift {{.*}} : tensor<1x2x1x4xf32>
  // CHECK-NEXT: graph.attention_grad %[[Q]], %[[Q]], %[[K2]], %[[K2]]
  // CHECK: graph.add %[[AWAY]],
  // CHECK: parallel.shift {{.*}} : tensor<1x2x1x4xf32>
  // CHECK-NEXT: parallel.shift {{.*}} : tensor<1x2x1x4xf32>
  // CHECK-NOT: parallel.shift
  // CHECK: return
  %dq, %dk, %dv = graph.attention_grad %q, %q, %k, %k, %q, %l {scale = 0.5, causal = false, ring, parallel.in = [#rows, #rows, #rows, #rows, #rows, #lse], parallel.out = [#rows, #rows, #rows]}
      : (tensor<1x6x2x4xbf16>, tensor<1x6x2x4xbf16>, tensor<1x6x1x4xbf16>, tensor<1x6x1x4xbf16>, tensor<1x6x2x4xbf16>, tensor<1x6x2xf32>) -> (tensor<1x6x2x4xbf16>, tensor<1x6x1x4xbf16>, tensor<1x6x1x4xbf16>) loc("scores")
  return {parallel.in = [#rows, #rows, #rows]} %dq, %dk, %dv : tensor<1x6x2x4xbf16>, tensor<1x6x1x4xbf16>, tensor<1x6x1x4xbf16>
}
}
