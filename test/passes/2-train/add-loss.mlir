// RUN: llmc-opt %s --llmc-add-loss --split-input-file | FileCheck %s

// The labels stand behind the other inputs, the two sums behind the parameters.
// The loss is lse - picked on rows that count; its cotangent needs the logits
// and lse only, and its ops are backward.

graph.source @w : tensor<8x11xf32> {init = #graph.init_kind<zeros>}
graph.state @p : tensor<8x11xf32> parameter views [#graph.view<@w, 0, [11, 1]>]

// CHECK-DAG: graph.state @loss.sum : tensor<f32> accumulator
// CHECK-DAG: graph.state @tokens.sum : tensor<f32> accumulator
// CHECK-LABEL: func.func @micro(
// CHECK-SAME: %[[X:.*]]: tensor<2x5x8xf32> {graph.input = "x"}
// CHECK-SAME: %[[LABELS:.*]]: tensor<2x5xi64> {graph.input = "labels"}
// CHECK-SAME: %[[P:.*]]: tensor<8x11xf32> {graph.state = @p}
// CHECK-SAME: %[[LOSS:.*]]: tensor<f32> {graph.state = @loss.sum}
// CHECK-SAME: %[[TOKENS:.*]]: tensor<f32> {graph.state = @tokens.sum}
// CHECK-SAME: -> (tensor<f32> {graph.state = @loss.sum}, tensor<f32> {graph.state = @tokens.sum}
// CHECK-SAME: tensor<2x5x11xf32> {graph.primal = 0 : i64}, tensor<2x5x11xf32> {graph.cotangent = 0 : i64})
func.func @forward(%x: tensor<2x5x8xf32> {graph.input = "x"},
                   %p: tensor<8x11xf32> {graph.state = @p}) -> (tensor<2x5x11xf32> {graph.output = "logits"}) {
  // CHECK: %[[LOGITS:.*]] = graph.matmul
  // CHECK: %[[MAX:.*]] = graph.reduce %[[LOGITS]] {dims = array<i64: 2>, kind = #graph.reduce_kind<max>}
  // CHECK: %[[SUM:.*]] = graph.reduce %{{.*}} {dims = array<i64: 2>, kind = #graph.reduce_kind<sum>}
  // CHECK: %[[LOG:.*]] = graph.log %[[SUM]]
  // CHECK: %[[LSE:.*]] = graph.add %[[LOG]], %[[MAX]]
  // CHECK: %[[PICKED:.*]] = graph.take_along %[[LOGITS]], %[[LABELS]]
  // CHECK: %[[IGNORED:.*]] = graph.constant dense<-100> : tensor<i64>
  // CHECK: %[[VALID:.*]] = graph.compare %[[LABELS]], %[[IGNORED]]
  // CHECK: %[[NLL:.*]] = graph.sub %[[LSE]], %[[PICKED]]
  // CHECK: %[[ROWS:.*]] = graph.select %[[VALID]], %[[NLL]]
  // CHECK: %[[ALL:.*]] = graph.reduce %[[ROWS]]
  // CHECK: %[[WEIGHT:.*]] = graph.cast %[[VALID]]
  // CHECK: %[[COUNT:.*]] = graph.reduce %[[WEIGHT]]
  // CHECK: %[[NEWLOSS:.*]] = graph.add %[[LOSS]], %[[ALL]]
  // CHECK: %[[NEWTOKENS:.*]] = graph.add %[[TOKENS]], %[[COUNT]]
  // CHECK: %[[COLUMN:.*]] = graph.reshape %[[LSE]] {graph.backward}
  // CHECK: %[[SHIFTED:.*]] = graph.sub %[[LOGITS]], %[[COLUMN]] {graph.backward}
  // CHECK: %[[PROBABILITY:.*]] = graph.exp %[[SHIFTED]] {graph.backward}
  // CHECK: %[[TARGET:.*]] = graph.one_hot %[[LABELS]], %[[WEIGHT]] {graph.backward}
  // CHECK: %[[MASKED:.*]] = graph.mul %[[PROBABILITY]]
  // CHECK: %[[COTANGENT:.*]] = graph.sub %[[MASKED]], %[[TARGET]] {graph.backward}
  // CHECK: return %[[NEWLOSS]], %[[NEWTOKENS]], %[[LOGITS]], %[[COTANGENT]]
  %logits = graph.matmul "bsd,dv->bsv" %x, %p : (tensor<2x5x8xf32>, tensor<8x11xf32>) -> tensor<2x5x11xf32>
  return %logits : tensor<2x5x11xf32>
}

// -----

// Logits of rows, without a sequence, in half precision: the loss is in f32.
// Other results go away.

// CHECK-LABEL: func.func @micro(
// CHECK-SAME: tensor<4x11xbf16>
// CHECK-SAME: tensor<4xi64> {graph.input = "labels"}
// CHECK: %[[LOGITS:.*]] = graph.cast %{{.*}} : (tensor<4x11xbf16>) -> tensor<4x11xf32>
// CHECK: graph.reduce %[[LOGITS]]
// CHECK: return %{{.*}}, %{{.*}}, %[[LOGITS]], %{{.*}} : tensor<f32>, tensor<f32>, tensor<4x11xf32>, tensor<4x11xf32>
func.func @forward(%x: tensor<4x11xbf16> {graph.input = "x"}) -> (tensor<4x11xbf16>, tensor<4x11xbf16>) {
  return %x, %x : tensor<4x11xbf16>, tensor<4x11xbf16>
}

// -----

// A state of the model keeps its name; the loss takes another.

graph.source @w : tensor<2x3xf32> {init = #graph.init_kind<zeros>}
graph.state @loss.sum : tensor<2x3xf32> parameter views [#graph.view<@w, 0, [3, 1]>]
// CHECK: graph.state @[[OTHER:loss.sum_[0-9]+]] : tensor<f32> accumulator
// CHECK: {graph.state = @loss.sum}
// CHECK-SAME: {graph.state = @[[OTHER]]}
func.func @forward(%p: tensor<2x3xf32> {graph.state = @loss.sum}) -> tensor<2x3xf32> {
  return %p : tensor<2x3xf32>
}
