// RUN: llmc-opt %s --llmc-add-loss=scaled | FileCheck %s

// The scale is the last argument and multiplies the cotangent alone. Logits that
// were widened are picked as they are stored.

graph.source @w : tensor<8x11xf32> {init = #graph.init_kind<zeros>}
graph.state @p : tensor<8x11xf16> parameter views [#graph.view<@w, 0, [11, 1]>]

// CHECK-LABEL: func.func @micro(
// CHECK-SAME: %[[SCALE:[a-z0-9]+]]: tensor<f32> {graph.scalar = "loss_scale"})
// CHECK-SAME: -> (tensor<f32> {graph.state = @loss.sum}, tensor<f32> {graph.state = @tokens.sum}
func.func @forward(%x: tensor<2x5x8xf16> {graph.input = "x"},
                   %p: tensor<8x11xf16> {graph.state = @p}) -> (tensor<2x5x11xf32> {graph.output = "logits"}) {
  // CHECK: %[[STORED:.*]] = graph.matmul {{.*}} -> tensor<2x5x11xf16>
  %0 = graph.matmul "bsd,de->bse" %x, %p : (tensor<2x5x8xf16>, tensor<8x11xf16>) -> tensor<2x5x11xf16>
  %1 = graph.cast %0 : (tensor<2x5x11xf16>) -> tensor<2x5x11xf32>
  // CHECK: %[[PICKED:.*]] = graph.take_along %[[STORED]], %{{.*}} -> tensor<2x5xf16>
  // CHECK: graph.cast %[[PICKED]] : (tensor<2x5xf16>) -> tensor<2x5xf32>
  // CHECK: %[[PLAIN:.*]] = graph.sub %{{.*}}, %{{.*}} {graph.backward} : (tensor<2x5x11xf32>, tensor<2x5x11xf32>)
  // CHECK: %[[SCALED:.*]] = graph.mul %[[PLAIN]], %[[SCALE]] {graph.backward}
  // CHECK: return %{{.*}}, %{{.*}}, %{{.*}}, %[[SCALED]]
  return %1 : tensor<2x5x11xf32>
}
