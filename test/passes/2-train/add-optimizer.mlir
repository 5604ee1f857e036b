// RUN: llmc-opt %s --llmc-add-optimizer | FileCheck %s --check-prefixes=CHECK,ADAMW
// RUN: llmc-opt %s --llmc-add-optimizer=adamw=false | FileCheck %s --check-prefixes=CHECK,SGD

// A stacked matrix, which decays, and a stacked vector of the same rank as a
// matrix, which does not. The mean gradient is what the accumulators hold after
// the step; clipping comes behind it. Ops are named by the source's tensors and
// by what the step itself does.

graph.source @"h.0.w" : tensor<4x4xf32> {init = #graph.init_kind<zeros>}
graph.source @"h.1.w" : tensor<4x4xf32> {init = #graph.init_kind<zeros>}
graph.source @b : tensor<8xf32> {init = #graph.init_kind<zeros>}
graph.state @p : tensor<2x4x4xf32> parameter stacked views [#graph.view<@"h.0.w", 0, [4, 1]>, #graph.view<@"h.1.w", 0, [4, 1]>]
graph.state @p.grad : tensor<2x4x4xf32> accumulator stacked of @p
graph.state @q : tensor<2x4xf32> parameter stacked views [#graph.view<@b, 0, [1]>, #graph.view<@b, 4, [1]>]
graph.state @q.grad : tensor<2x4xf32> accumulator stacked of @q
graph.state @loss.sum : tensor<f32> accumulator
graph.state @tokens.sum : tensor<f32> accumulator

// ADAMW: graph.state @p.m : tensor<2x4x4xf32> {{ *}}moment1 stacked of @p
// ADAMW: graph.state @p.v : tensor<2x4x4xf32> {{ *}}moment2 stacked of @p
// ADAMW: graph.state @q.m : tensor<2x4xf32>
// ADAMW: graph.state @q.v : tensor<2x4xf32>
// SGD-NOT: moment

func.func @micro(%p: tensor<2x4x4xf32> {graph.state = @p}, %q: tensor<2x4xf32> {graph.state = @q},
                 %0: tensor<2x4x4xf32> {graph.state = @p.grad}, %1: tensor<2x4xf32> {graph.state = @q.grad},
                 %2: tensor<f32> {graph.state = @loss.sum}, %3: tensor<f32> {graph.state = @tokens.sum})
    -> (tensor<2x4x4xf32> {graph.state = @p.grad}, tensor<2x4xf32> {graph.state = @q.grad},
        tensor<f32> {graph.state = @loss.sum}, tensor<f32> {graph.state = @tokens.sum}) {
  return %0, %1, %2, %3 : tensor<2x4x4xf32>, tensor<2x4xf32>, tensor<f32>, tensor<f32>
}

// CHECK-LABEL: func.func @update(
// CHECK-SAME: %[[P:[a-z0-9]*]]: tensor<2x4x4xf32> {graph.state = @p}, %[[Q:[a-z0-9]*]]: tensor<2x4xf32> {graph.state = @q}
// CHECK-SAME: %[[PG:[a-z0-9]*]]: tensor<2x4x4xf32> {graph.state = @p.grad}, %[[QG:[a-z0-9]*]]: tensor<2x4xf32> {graph.state = @q.grad}
// CHECK-SAME: %[[LOSS:[a-z0-9]*]]: tensor<f32> {graph.state = @loss.sum}, %[[COUNT:[a-z0-9]*]]: tensor<f32> {graph.state = @tokens.sum}
// ADAMW-SAME: %[[PM:[a-z0-9]*]]: tensor<2x4x4xf32> {graph.state = @p.m}, %[[PV:[a-z0-9]*]]: tensor<2x4x4xf32> {graph.state = @p.v}
// ADAMW-SAME: %[[QM:[a-z0-9]*]]: tensor<2x4xf32> {graph.state = @q.m}, %[[QV:[a-z0-9]*]]: tensor<2x4xf32> {graph.state = @q.v}
// CHECK-SAME: %[[LR:[a-z0-9]*]]: tensor<f32> {graph.scalar = "lr"}
// ADAMW-SAME: {graph.scalar = "beta1"}, {{.*}} {graph.scalar = "beta2"}, {{.*}} {graph.scalar = "eps"}
// CHECK-SAME: %[[WD:[a-z0-9]*]]: tensor<f32> {graph.scalar = "weight_decay"}, %[[CLIP:[a-z0-9]*]]: tensor<f32> {graph.scalar = "clip"}
// ADAMW-SAME: {graph.scalar = "bias_correction1"}, {{.*}} {graph.scalar = "bias_correction2"}
// CHECK-SAME: -> (tensor<2x4x4xf32> {graph.state = @p}, tensor<2x4xf32> {graph.state = @q}, tensor<2x4x4xf32> {graph.state = @p.grad}, tensor<2x4xf32> {graph.state = @q.grad}
// ADAMW-SAME: {graph.state = @p.m}, {{.*}} {graph.state = @p.v}, {{.*}} {graph.state = @q.m}, {{.*}} {graph.state = @q.v}
// CHECK-SAME: tensor<f32> {graph.output = "loss"}, tensor<f32> {graph.output = "grad_norm"}, tensor<f32> {graph.output = "tokens"})

// CHECK: %[[ONE:.*]] = graph.constant dense<1.000000e+00>
// CHECK: %[[TOKENS:.*]] = graph.maximum %[[COUNT]], %[[ONE]]
// CHECK: %[[MEANLOSS:.*]] = graph.div %[[LOSS]], %[[TOKENS]]
// CHECK: %[[PMEAN:.*]] = graph.div %[[PG]], %[[TOKENS]]
// CHECK: %[[PSQ:.*]] = graph.reduce %[[PMEAN]] {dims = array<i64: 0, 1, 2>, kind = #graph.reduce_kind<sum_squares>}
// CHECK: %[[QMEAN:.*]] = graph.div %[[QG]], %[[TOKENS]]
// CHECK: %[[QSQ:.*]] = graph.reduce %[[QMEAN]]
// CHECK: %[[SQ:.*]] = graph.add %[[PSQ]], %[[QSQ]]
// CHECK: %[[NORM:.*]] = graph.sqrt %[[SQ]]
// CHECK: %[[RATIO:.*]] = graph.div %[[CLIP]]
// CHECK: %[[ON:.*]] = graph.compare %[[CLIP]]
// CHECK: %[[MIN:.*]] = graph.minimum %[[RATIO]], %[[ONE]]
// CHECK: %[[FACTOR:.*]] = graph.select %[[ON]], %[[MIN]], %[[ONE]]
// CHECK: %[[PCLIP:.*]] = graph.mul %[[PMEAN]], %[[FACTOR]]
// ADAMW: %[[NP:.*]], %[[NPM:.*]], %[[NPV:.*]] = graph.adamw %[[P]], %[[PCLIP]], %[[PM]], %[[PV]], %[[LR]]
// ADAMW-SAME: decay = true
// SGD: %[[PSTEP:.*]] = graph.mul %[[PCLIP]], %[[LR]]
// SGD: %[[RATE:.*]] = graph.mul %[[LR]], %[[WD]]
// SGD: %[[SHRINK:.*]] = graph.mul %[[P]], %[[RATE]]
// SGD: %[[BOTH:.*]] = graph.add %[[PSTEP]], %[[SHRINK]]
// SGD: %[[NP:.*]] = graph.sub %[[P]], %[[BOTH]]
// CHECK: %[[QCLIP:.*]] = graph.mul %[[QMEAN]], %[[FACTOR]]
// ADAMW: %[[NQ:.*]], %[[NQM:.*]], %[[NQV:.*]] = graph.adamw %[[Q]], %[[QCLIP]], %[[QM]], %[[QV]], %[[LR]]
// ADAMW-SAME: decay = false
// SGD: %[[QSTEP:.*]] = graph.mul %[[QCLIP]], %[[LR]]
// SGD: %[[NQ:.*]] = graph.sub %[[Q]], %[[QSTEP]]
// ADAMW: return %[[NP]], %[[NQ]], %[[PMEAN]], %[[QMEAN]], %[[NPM]], %[[NPV]], %[[NQM]], %[[NQV]], %[[MEANLOSS]], %[[NORM]], %[[COUNT]]
// SGD: return %[[NP]], %[[NQ]], %[[PMEAN]], %[[QMEAN]], %[[MEANLOSS]], %[[NORM]], %[[COUNT]]
