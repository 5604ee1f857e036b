// RUN: llmc-opt %s "--llmc-add-optimizer=adamw=false scaled=true skip=true" | FileCheck %s
// RUN: llmc-opt %s --llmc-add-optimizer | FileCheck %s --check-prefix=ADAMW

// The update works on the master, of which the parameter is the rounded value. A
// gradient that is not finite leaves both as they are, by a select.

graph.source @w : tensor<2x3xf32> {init = #graph.init_kind<zeros>}
// CHECK: graph.state @p : tensor<2x3xbf16> parameter
// CHECK: graph.state @p.grad : tensor<2x3xbf16> accumulator of @p
// CHECK: graph.state @p.master : tensor<2x3xf32> master of @p
// ADAMW: graph.state @p.master : tensor<2x3xf32> master of @p
// ADAMW: graph.state @p.m : tensor<2x3xf32> moment1 of @p
graph.state @p : tensor<2x3xbf16> parameter views [#graph.view<@w, 0, [3, 1]>]
graph.state @p.grad : tensor<2x3xbf16> accumulator of @p
graph.state @loss.sum : tensor<f32> accumulator
graph.state @tokens.sum : tensor<f32> accumulator
func.func @micro(%p: tensor<2x3xbf16> {graph.state = @p}, %g: tensor<2x3xbf16> {graph.state = @p.grad},
                 %l: tensor<f32> {graph.state = @loss.sum}, %t: tensor<f32> {graph.state = @tokens.sum})
    -> (tensor<2x3xbf16> {graph.state = @p.grad}, tensor<f32> {graph.state = @loss.sum},
        tensor<f32> {graph.state = @tokens.sum}) {
  return %g, %l, %t : tensor<2x3xbf16>, tensor<f32>, tensor<f32>
}

// CHECK-LABEL: func.func @update(
// CHECK-SAME: %[[MASTER:[a-z0-9]+]]: tensor<2x3xf32> {graph.state = @p.master}
// CHECK-SAME: %[[ACC:[a-z0-9]+]]: tensor<2x3xbf16> {graph.state = @p.grad}
// CHECK-SAME: %[[SCALE:[a-z0-9]+]]: tensor<f32> {graph.scalar = "loss_scale"}
// CHECK-SAME: -> (tensor<2x3xbf16> {graph.state = @p}, tensor<2x3xf32> {graph.state = @p.master}, tensor<2x3xbf16> {graph.state = @p.grad}
// CHECK-SAME: tensor<f32> {graph.output = "skipped"})
// CHECK: %[[TOKENS:.*]] = graph.maximum
// CHECK: %[[DIVISOR:.*]] = graph.mul %[[TOKENS]], %[[SCALE]]
// CHECK: %[[WIDE:.*]] = graph.cast %[[ACC]] : (tensor<2x3xbf16>) -> tensor<2x3xf32>
// CHECK: %[[MEAN:.*]] = graph.div %[[WIDE]], %[[DIVISOR]]
// CHECK-NEXT: %[[GRADIENT:.*]] = graph.cast %[[MEAN]] : (tensor<2x3xf32>) -> tensor<2x3xbf16>
// CHECK-NEXT: graph.cast %[[GRADIENT]] : (tensor<2x3xbf16>) -> tensor<2x3xf32>
// CHECK: %[[NORM:.*]] = graph.sqrt
// CHECK: %[[LARGEST:.*]] = graph.constant dense<3.40282347E+38>
// CHECK: %[[IS:.*]] = graph.compare %[[NORM]], %[[LARGEST]]
// CHECK: %[[SKIPPED:.*]] = graph.select %[[IS]]
// CHECK: %[[FINITE:.*]] = graph.compare %[[SKIPPED]]
// CHECK: %[[NEXT:.*]] = graph.sub %[[MASTER]]
// CHECK: %[[KEPT:.*]] = graph.select %[[FINITE]], %[[NEXT]], %[[MASTER]]
// CHECK: %[[ROUNDED:.*]] = graph.cast %[[KEPT]] : (tensor<2x3xf32>) -> tensor<2x3xbf16>
// CHECK: return %[[ROUNDED]], %[[KEPT]], %[[GRADIENT]], %{{.*}}, %{{.*}}, %{{.*}}, %[[SKIPPED]]
