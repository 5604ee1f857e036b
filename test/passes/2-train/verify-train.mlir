// RUN: llmc-opt %s --llmc-verify-train | FileCheck %s

// One parameter, learned: every rule holds and nothing changes.

graph.source @w : tensor<2xf32> {init = #graph.init_kind<zeros>}
graph.state @p : tensor<2xf32> parameter views [#graph.view<@w, 0, [1]>]
graph.state @p.grad : tensor<2xf32> accumulator of @p
graph.state @loss.sum : tensor<f32> accumulator

// CHECK-LABEL: func.func @micro
func.func @micro(%x: tensor<2xf32> {graph.input = "x"}, %p: tensor<2xf32> {graph.state = @p},
                 %acc: tensor<2xf32> {graph.state = @p.grad}, %loss: tensor<f32> {graph.state = @loss.sum})
    -> (tensor<2xf32> {graph.state = @p.grad}, tensor<f32> {graph.state = @loss.sum}) {
  // CHECK-NEXT: graph.mul
  // CHECK-NEXT: graph.reduce
  // CHECK-NEXT: graph.add
  // CHECK-NEXT: graph.add %{{.*}} {graph.backward}
  // CHECK-NEXT: return
  %0 = graph.mul %x, %p : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %1 = graph.reduce %0 {dims = array<i64: 0>, kind = #graph.reduce_kind<sum>} : (tensor<2xf32>) -> tensor<f32>
  %2 = graph.add %loss, %1 : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %3 = graph.add %acc, %x {graph.backward} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %3, %2 : tensor<2xf32>, tensor<f32>
}

// CHECK-LABEL: func.func @update
func.func @update(%p: tensor<2xf32> {graph.state = @p}, %acc: tensor<2xf32> {graph.state = @p.grad},
                  %loss: tensor<f32> {graph.state = @loss.sum})
    -> (tensor<2xf32> {graph.state = @p}, tensor<2xf32> {graph.state = @p.grad},
        tensor<f32> {graph.output = "loss"}, tensor<f32> {graph.output = "grad_norm"}, tensor<f32> {graph.output = "tokens"}) {
  %0 = graph.sub %p, %acc : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %0, %acc, %loss, %loss, %loss : tensor<2xf32>, tensor<2xf32>, tensor<f32>, tensor<f32>, tensor<f32>
}
