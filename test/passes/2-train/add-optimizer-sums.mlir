// RUN: llmc-opt %s --llmc-add-optimizer=adamw=false | FileCheck %s

// The mean of what balances experts is added to the loss; without it the loss is an output too. Counts are outputs.

graph.source @w : tensor<4xf32> {init = #graph.init_kind<zeros>}
graph.state @p : tensor<4xf32> parameter views [#graph.view<@w, 0, [1]>]
graph.state @p.grad : tensor<4xf32> accumulator of @p
graph.state @loss.sum : tensor<f32> accumulator
graph.state @tokens.sum : tensor<f32> accumulator
graph.state @auxiliary.sum : tensor<f32> accumulator {graph.sum_of = "moe_aux"}
graph.state @dropped.sum : tensor<f32> accumulator {graph.sum_of = "moe_dropped"}

func.func @micro(%p: tensor<4xf32> {graph.state = @p}, %g: tensor<4xf32> {graph.state = @p.grad},
                 %0: tensor<f32> {graph.state = @loss.sum}, %1: tensor<f32> {graph.state = @tokens.sum},
                 %2: tensor<f32> {graph.state = @auxiliary.sum}, %3: tensor<f32> {graph.state = @dropped.sum})
    -> (tensor<4xf32> {graph.state = @p.grad}, tensor<f32> {graph.state = @loss.sum}, tensor<f32> {graph.state = @tokens.sum},
        tensor<f32> {graph.state = @auxiliary.sum}, tensor<f32> {graph.state = @dropped.sum}) {
  return %g, %0, %1, %2, %3 : tensor<4xf32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>
}

// CHECK-LABEL: func.func @update(
// CHECK-SAME: %[[LOSS:[a-z0-9]+]]: tensor<f32> {graph.state = @loss.sum}
// CHECK-SAME: %[[COUNT:[a-z0-9]+]]: tensor<f32> {graph.state = @tokens.sum}
// CHECK-SAME: %[[AUX:[a-z0-9]+]]: tensor<f32> {graph.state = @auxiliary.sum}
// CHECK-SAME: %[[DROPPED:[a-z0-9]+]]: tensor<f32> {graph.state = @dropped.sum}
// CHECK-SAME: tensor<f32> {graph.output = "loss"}, tensor<f32> {graph.output = "grad_norm"}
// CHECK-SAME: tensor<f32> {graph.output = "tokens"}, tensor<f32> {graph.output = "cross_entropy"}
// CHECK-SAME: tensor<f32> {graph.output = "moe_dropped"})
// CHECK: %[[TOKENS:.*]] = graph.maximum %[[COUNT]]
// CHECK: %[[ENTROPY:.*]] = graph.div %[[LOSS]], %[[TOKENS]]
// CHECK: %[[MEAN:.*]] = graph.div %[[AUX]], %[[TOKENS]]
// CHECK: %[[SUM:.*]] = graph.add %[[ENTROPY]], %[[MEAN]]
// CHECK: return %{{.*}}, %[[SUM]], %{{[^,]*}}, %[[COUNT]], %[[ENTROPY]], %[[DROPPED]] :
