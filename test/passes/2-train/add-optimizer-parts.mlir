// RUN: llmc-opt %s --llmc-add-optimizer | FileCheck %s

// The bias of a fused projection, of which a parameter is the part of each head: a matrix
// [heads, dim] here, a vector where it is stored. It does not decay; the weight does.

graph.source @w : tensor<8x4xf32> {init = #graph.init_kind<zeros>}
graph.source @b : tensor<8xf32> {init = #graph.init_kind<zeros>}
graph.state @p : tensor<2x2x4xf32> parameter views [#graph.view<@w, 8, [16, 4, 1]>]
graph.state @p.grad : tensor<2x2x4xf32> accumulator of @p
graph.state @q : tensor<2x2xf32> parameter views [#graph.view<@b, 2, [4, 1]>]
graph.state @q.grad : tensor<2x2xf32> accumulator of @q
graph.state @loss.sum : tensor<f32> accumulator
graph.state @tokens.sum : tensor<f32> accumulator

func.func @micro(%p: tensor<2x2x4xf32> {graph.state = @p}, %q: tensor<2x2xf32> {graph.state = @q},
                 %0: tensor<2x2x4xf32> {graph.state = @p.grad}, %1: tensor<2x2xf32> {graph.state = @q.grad},
                 %2: tensor<f32> {graph.state = @loss.sum}, %3: tensor<f32> {graph.state = @tokens.sum})
    -> (tensor<2x2x4xf32> {graph.state = @p.grad}, tensor<2x2xf32> {graph.state = @q.grad},
        tensor<f32> {graph.state = @loss.sum}, tensor<f32> {graph.state = @tokens.sum}) {
  return %0, %1, %2, %3 : tensor<2x2x4xf32>, tensor<2x2xf32>, tensor<f32>, tensor<f32>
}

// CHECK-LABEL: func.func @update(
// CHECK: graph.adamw {{.*}}decay = true{{.*}}tensor<2x2x4xf32>
// CHECK: graph.adamw {{.*}}decay = false{{.*}}tensor<2x2xf32>
