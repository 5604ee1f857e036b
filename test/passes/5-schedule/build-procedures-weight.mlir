// RUN: llmc-opt %s --split-input-file --llmc-build-procedures | FileCheck %s

// Gives a split backward three procedures. The weight gradients read what the forward has kept, and what backward has,
// the message that came to it among this, and backward writes over none of it; they are fed what no other procedure
// reads. When they have run, not when backward has, the slot may be received into again: both receives wait for
// the event that the weight gradients record, and what backward sends waits for backward's own.
// CHECK-LABEL: plan.stage @stage1
// CHECK: plan.procedure @forward forward
// CHECK: plan.procedure @recv_forward exchange
// CHECK-NEXT: plan.wait [[FREE:[0-9]+]] {
// CHECK-NEXT: plan.recv %[[X:[0-9]+]] from "pp" -1 channel 0
// CHECK: plan.procedure @backward backward
// CHECK: plan.launch reads(%[[D:[0-9]+]] : {{.*}}) writes(%[[T:[0-9]+]] :
// CHECK: graph.tanh
// CHECK: plan.launch reads(%[[T]] : {{.*}}) writes(%[[DX:[0-9]+]] :
// CHECK: graph.neg
// CHECK: plan.record [[DONE:[0-9]+]] {
// CHECK-NOT: plan.record
// CHECK: plan.procedure @recv_backward exchange
// CHECK-NEXT: plan.wait [[FREE]] {
// CHECK-NEXT: plan.recv %[[D]] from "pp" 1 channel 1
// CHECK: plan.procedure @send_backward exchange
// CHECK-NEXT: plan.wait [[DONE]] {
// CHECK-NEXT: plan.send %[[DX]] to "pp" -1 channel 1
// CHECK: plan.procedure @weight weight
// CHECK-NEXT: plan.feed "k" into
// CHECK: plan.launch reads(%[[X]], %[[T]] :
// CHECK: plan.launch reads(%{{[0-9]+}}, %[[D]] :
// CHECK: plan.record [[FREE]] {
// CHECK-NOT: plan.record
// CHECK: plan.procedure @update update
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=3, "tp"=1]>, parallel.stage_layers = array<i64: 1, 1, 1>} {
  graph.source @src : tensor<24xf32> {init = #graph.init_kind<zeros>}
  graph.state @w : tensor<3x8xf32> parameter stacked views [#graph.view<@src, 0, [1]>, #graph.view<@src, 8, [1]>, #graph.view<@src, 16, [1]>] {parallel.stages = [0, 1, 2]}
  graph.state @g : tensor<3x8xf32> accumulator stacked of @w {parallel.stages = [0, 1, 2]}
  func.func @forward_1(%x: tensor<8xf32> {parallel.boundary = 0 : i64}) -> (tensor<8xf32> {parallel.boundary = 0 : i64}, tensor<8xf32> {parallel.residual = 0 : i64})
      attributes {parallel.stage = 1 : i64, parallel.procedure = "forward"} {
    %0 = graph.exp %x : (tensor<8xf32>) -> tensor<8xf32>
    return %0, %x : tensor<8xf32>, tensor<8xf32>
  }
  func.func @backward_1(%d: tensor<8xf32> {parallel.boundary = 0 : i64}) -> (tensor<8xf32> {parallel.boundary = 0 : i64}, tensor<8xf32> {parallel.residual = 1 : i64}, tensor<8xf32> {parallel.residual = 2 : i64})
      attributes {parallel.stage = 1 : i64, parallel.procedure = "backward"} {
    %0 = graph.tanh %d : (tensor<8xf32>) -> tensor<8xf32>
    %1 = graph.neg %0 : (tensor<8xf32>) -> tensor<8xf32>
    return %1, %0, %d : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
  }
  func.func @weight_1(%x: tensor<8xf32> {parallel.residual = 0 : i64}, %t: tensor<8xf32> {parallel.residual = 1 : i64}, %d: tensor<8xf32> {parallel.residual = 2 : i64}, %k: tensor<8xf32> {graph.input = "k"}, %g: tensor<1x8xf32> {graph.state = @g, parallel.layers = array<i64: 1, 1>})
      -> (tensor<1x8xf32> {graph.state = @g, parallel.layers = array<i64: 1, 1>}) attributes {parallel.stage = 1 : i64, parallel.procedure = "weight"} {
    %0 = graph.mul %x, %t : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %y = graph.mul %0, %k : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %1 = graph.mul %y, %d : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %2 = graph.reshape %1 : (tensor<8xf32>) -> tensor<1x8xf32>
    %3 = graph.add %g, %2 : (tensor<1x8xf32>, tensor<1x8xf32>) -> tensor<1x8xf32>
    return %3 : tensor<1x8xf32>
  }
  func.func @update_1() attributes {parallel.stage = 1 : i64, parallel.procedure = "update"} { return }
}

// -----

// Records nothing behind the weight gradients of the one stage of a pipeline, which receives nothing.
// CHECK-LABEL: plan.stage @stage0
// CHECK: plan.procedure @weight weight
// CHECK-NOT: plan.record
// CHECK-NOT: plan.wait
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "tp"=1]>} {
  graph.source @src : tensor<8xf32> {init = #graph.init_kind<zeros>}
  graph.state @w : tensor<8xf32> parameter views [#graph.view<@src, 0, [1]>]
  graph.state @g : tensor<8xf32> accumulator of @w
  func.func @forward_0(%x: tensor<8xf32> {graph.input = "x"}) -> (tensor<8xf32> {parallel.residual = 0 : i64}) attributes {parallel.stage = 0 : i64, parallel.procedure = "forward"} {
    %0 = graph.exp %x : (tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
  func.func @backward_0() attributes {parallel.stage = 0 : i64, parallel.procedure = "backward"} { return }
  func.func @weight_0(%x: tensor<8xf32> {parallel.residual = 0 : i64}, %g: tensor<8xf32> {graph.state = @g}) -> (tensor<8xf32> {graph.state = @g}) attributes {parallel.stage = 0 : i64, parallel.procedure = "weight"} {
    %0 = graph.add %g, %x : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
  func.func @update_0() attributes {parallel.stage = 0 : i64, parallel.procedure = "update"} { return }
}
