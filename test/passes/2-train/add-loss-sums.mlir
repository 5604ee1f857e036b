// RUN: llmc-opt %s --llmc-add-loss | FileCheck %s

// What balances experts has a sum of its own, so that the loss without it stays known; counts are summed as they are.
// The sums have the names of their outputs.

// CHECK-DAG: graph.state @loss.sum : tensor<f32> accumulator{{$}}
// CHECK-DAG: graph.state @auxiliary.sum : tensor<f32> accumulator {graph.sum_of = "moe_aux"}
// CHECK-DAG: graph.state @lost.sum : tensor<f32> accumulator {graph.sum_of = "moe_lost"}
// CHECK-DAG: graph.state @dropped.sum : tensor<f32> accumulator {graph.sum_of = "moe_dropped"}
// CHECK-LABEL: func.func @micro(
// CHECK-SAME: %[[LOSS:[a-z0-9]+]]: tensor<f32> {graph.state = @loss.sum}
// CHECK-SAME: %[[AUX:[a-z0-9]+]]: tensor<f32> {graph.state = @auxiliary.sum}
// CHECK-SAME: %[[LOST:[a-z0-9]+]]: tensor<f32> {graph.state = @lost.sum}
// CHECK-SAME: %[[DROPPED:[a-z0-9]+]]: tensor<f32> {graph.state = @dropped.sum}
// CHECK: %[[ENTROPY:.*]] = graph.reduce %{{.*}} {dims = array<i64: 0, 1>, kind = #graph.reduce_kind<sum>} : (tensor<2x5xf32>)
// CHECK: %[[TIMES:.*]] = graph.mul %arg1, %{{.*}} : (tensor<2xf32>, tensor<2xf32>)
// CHECK: %[[ROWS:.*]] = graph.reduce %[[TIMES]] {dims = array<i64: 0>
// CHECK: %[[NEWLOSS:.*]] = graph.add %[[LOSS]], %[[ENTROPY]]
// CHECK: %[[NEWAUX:.*]] = graph.add %[[AUX]], %[[ROWS]]
// CHECK: %[[NEWLOST:.*]] = graph.add %[[LOST]], %arg2
// CHECK: %[[NEWDROPPED:.*]] = graph.add %[[DROPPED]], %arg3
// CHECK: return %[[NEWLOSS]], %{{[^,]*}}, %[[NEWAUX]], %[[NEWLOST]], %[[NEWDROPPED]],
func.func @forward(%x: tensor<2x5x11xf32> {graph.input = "x"}, %a: tensor<2xf32> {graph.input = "a"},
                   %n: tensor<f32> {graph.input = "n"}, %m: tensor<f32> {graph.input = "m"})
    -> (tensor<2x5x11xf32> {graph.output = "logits"}, tensor<f32> {graph.output = "moe_dropped"},
        tensor<2xf32> {graph.output = "moe_aux"}, tensor<f32> {graph.output = "moe_lost"}) {
  return %x, %m, %a, %n : tensor<2x5x11xf32>, tensor<f32>, tensor<2xf32>, tensor<f32>
}
