// RUN: split-file %s %t
// RUN: llmc-opt %t/order.mlir --llmc-build-table="schedule=interleaved micro-batches=4" | FileCheck %t/order.mlir
// RUN: llmc-opt %t/messages.mlir --llmc-build-table="schedule=interleaved micro-batches=2" | FileCheck %t/messages.mlir

//--- order.mlir
// Runs two chunks on each of two stages (virtual stages 0 and 2, 1 and 3): micro-batches go through the
// chunks two at a time, forward from the first chunk, backward from the last. The first stage runs four
// forwards ahead, the last two, then both alternate. Each chunk has its own slots and its own backward of
// the last micro-batch.
// CHECK-LABEL: plan.stage @first attributes
// CHECK-SAME: pools = [#plan.pool<0, 4>, #plan.pool<1, 2>]
// CHECK-SAME: [#plan.entry<@begin, 0, 0>, #plan.entry<@forward, 0, 0>, #plan.entry<@forward, 1, 1>, #plan.entry<@forward_1, 0, 0, pool 1>, #plan.entry<@forward_1, 1, 1, pool 1>, #plan.entry<@forward, 2, 2>,
// CHECK-SAME: #plan.entry<@backward_1, 0, 0, pool 1>, #plan.entry<@forward, 3, 3>, #plan.entry<@backward_1, 1, 1, pool 1>, #plan.entry<@forward_1, 2, 0, pool 1>, #plan.entry<@backward, 0, 0>, #plan.entry<@forward_1, 3, 1, pool 1>,
// CHECK-SAME: #plan.entry<@backward, 1, 1>, #plan.entry<@backward_1, 2, 0, pool 1>, #plan.entry<@backward_last_1, 3, 1, pool 1>, #plan.entry<@backward, 2, 2>, #plan.entry<@backward_last, 3, 3>, #plan.entry<@update, 0, 0>]
// CHECK-LABEL: plan.stage @last attributes
// CHECK-SAME: pools = [#plan.pool<0, 3>, #plan.pool<1, 1>]
// CHECK-SAME: [#plan.entry<@begin, 0, 0>, #plan.entry<@forward, 0, 0>, #plan.entry<@forward, 1, 1>, #plan.entry<@forward_1, 0, 0, pool 1>, #plan.entry<@backward_1, 0, 0, pool 1>, #plan.entry<@forward_1, 1, 0, pool 1>,
// CHECK-SAME: #plan.entry<@backward_1, 1, 0, pool 1>, #plan.entry<@forward, 2, 2>, #plan.entry<@backward, 0, 0>, #plan.entry<@forward, 3, 0>, #plan.entry<@backward, 1, 1>, #plan.entry<@forward_1, 2, 0, pool 1>,
// CHECK-SAME: #plan.entry<@backward_1, 2, 0, pool 1>, #plan.entry<@forward_1, 3, 0, pool 1>, #plan.entry<@backward_last_1, 3, 0, pool 1>, #plan.entry<@backward, 2, 2>, #plan.entry<@backward_last, 3, 0>, #plan.entry<@update, 0, 0>]
plan.stage @first attributes {stage = 0 : i64, chunks = [#plan.chunk<0, 0>, #plan.chunk<2, 2>], pools = [#plan.pool<0, 1>, #plan.pool<1, 1>], table = []} {
  plan.procedure @forward forward {}
  plan.procedure @backward backward {}
  plan.procedure @backward_last backward_last {}
  plan.procedure @forward_1 forward attributes {chunk = 1 : i64, lanes = array<i64: 1>} {}
  plan.procedure @backward_1 backward attributes {chunk = 1 : i64, lanes = array<i64: 1>} {}
  plan.procedure @backward_last_1 backward_last attributes {chunk = 1 : i64, lanes = array<i64: 1>} {}
  plan.procedure @update update {}
  plan.procedure @begin begin {}
}
plan.stage @last attributes {stage = 1 : i64, chunks = [#plan.chunk<1, 1>, #plan.chunk<3, 3>], pools = [#plan.pool<0, 1>, #plan.pool<1, 1>], table = []} {
  plan.procedure @forward forward {}
  plan.procedure @backward backward {}
  plan.procedure @backward_last backward_last {}
  plan.procedure @forward_1 forward attributes {chunk = 1 : i64, lanes = array<i64: 1>} {}
  plan.procedure @backward_1 backward attributes {chunk = 1 : i64, lanes = array<i64: 1>} {}
  plan.procedure @backward_last_1 backward_last attributes {chunk = 1 : i64, lanes = array<i64: 1>} {}
  plan.procedure @update update {}
  plan.procedure @begin begin {}
}

//--- messages.mlir
// Exchanges the messages of a column as one group, also those that go around from the last stage to the next
// chunk of the first: each row of the tables is one exchange or one step, in one order of both stages.
// CHECK-LABEL: plan.stage @first attributes
// CHECK-SAME: [#plan.entry<@begin, 0, 0>, #plan.entry<@forward, 0, 0>, #plan.entry<@send_forward, 0, 0>,
// CHECK-SAME: #plan.entry<@forward, 1, 1>, #plan.entry<@send_forward_recv_forward_1, 1, 1 also <0, 0, pool 1>>, #plan.entry<@forward_1, 0, 0, pool 1>,
// CHECK-SAME: #plan.entry<@send_forward_1_recv_forward_1, 0, 0, pool 1 also <1, 1, pool 1>>, #plan.entry<@forward_1, 1, 1, pool 1>, #plan.entry<@send_forward_1_recv_backward_1, 1, 1, pool 1 also <0, 0, pool 1>>,
// CHECK-SAME: #plan.entry<@backward_1, 0, 0, pool 1>, #plan.entry<@send_backward_1, 0, 0, pool 1>, #plan.entry<@recv_backward_1, 1, 1, pool 1>,
// CHECK-SAME: #plan.entry<@backward_last_1, 1, 1, pool 1>, #plan.entry<@send_backward_1_recv_backward, 1, 1, pool 1 also <0, 0>>, #plan.entry<@backward, 0, 0>,
// CHECK-SAME: #plan.entry<@recv_backward, 1, 1>, #plan.entry<@backward_last, 1, 1>, #plan.entry<@update, 0, 0>]
// CHECK: plan.procedure @send_forward_1_recv_forward_1 exchange
// CHECK-NEXT: plan.send {{.*}} to "pp" 1 channel 2
// CHECK-NEXT: plan.recv {{.*}} from "pp" -1 wrap channel 2 {grouped, lane = 1
// CHECK-LABEL: plan.stage @last attributes
// CHECK-SAME: [#plan.entry<@begin, 0, 0>, #plan.entry<@recv_forward, 0, 0>, #plan.entry<@forward, 0, 0>,
// CHECK-SAME: #plan.entry<@send_forward_recv_forward, 0, 0 also <1, 1>>, #plan.entry<@forward, 1, 1>, #plan.entry<@send_forward_recv_forward_1, 1, 1 also <0, 0, pool 1>>,
// CHECK-SAME: #plan.entry<@forward_1, 0, 0, pool 1>, #plan.entry<@backward_1, 0, 0, pool 1>, #plan.entry<@send_backward_1_recv_forward_1, 0, 0, pool 1 also <1, 0, pool 1>>,
// CHECK-SAME: #plan.entry<@forward_1, 1, 0, pool 1>, #plan.entry<@recv_backward, 0, 0>, #plan.entry<@backward_last_1, 1, 0, pool 1>,
// CHECK-SAME: #plan.entry<@send_backward_1, 1, 0, pool 1>, #plan.entry<@backward, 0, 0>, #plan.entry<@send_backward_recv_backward, 0, 0 also <1, 1>>,
// CHECK-SAME: #plan.entry<@backward_last, 1, 1>, #plan.entry<@send_backward, 1, 1>, #plan.entry<@update, 0, 0>]
plan.stage @first attributes {stage = 0 : i64, chunks = [#plan.chunk<0, 0>, #plan.chunk<2, 2>], pools = [#plan.pool<0, 1>, #plan.pool<1, 1>], table = []} {
  %x = plan.buffer slot : !plan.buffer<4xf32>
  %dx = plan.buffer slot : !plan.buffer<4xf32>
  %x1 = plan.buffer slot {pool = 1 : i64} : !plan.buffer<4xf32>
  %dx1 = plan.buffer slot {pool = 1 : i64} : !plan.buffer<4xf32>
  plan.procedure @forward forward {}
  plan.procedure @backward backward {}
  plan.procedure @backward_last backward_last {}
  plan.procedure @send_forward exchange {
    plan.send %x to "pp" 1 channel 0 {stream = 3 : i64} : !plan.buffer<4xf32>
  }
  plan.procedure @recv_backward exchange {
    plan.recv %dx from "pp" 1 channel 1 {stream = 3 : i64} : !plan.buffer<4xf32>
  }
  plan.procedure @forward_1 forward attributes {chunk = 1 : i64, lanes = array<i64: 1>} {}
  plan.procedure @backward_1 backward attributes {chunk = 1 : i64, lanes = array<i64: 1>} {}
  plan.procedure @backward_last_1 backward_last attributes {chunk = 1 : i64, lanes = array<i64: 1>} {}
  plan.procedure @recv_forward_1 exchange attributes {chunk = 1 : i64, lanes = array<i64: 1>} {
    plan.recv %x1 from "pp" -1 wrap channel 2 {stream = 3 : i64} : !plan.buffer<4xf32>
  }
  plan.procedure @send_forward_1 exchange attributes {chunk = 1 : i64, lanes = array<i64: 1>} {
    plan.send %x1 to "pp" 1 channel 2 {stream = 3 : i64} : !plan.buffer<4xf32>
  }
  plan.procedure @recv_backward_1 exchange attributes {chunk = 1 : i64, lanes = array<i64: 1>} {
    plan.recv %dx1 from "pp" 1 channel 3 {stream = 3 : i64} : !plan.buffer<4xf32>
  }
  plan.procedure @send_backward_1 exchange attributes {chunk = 1 : i64, lanes = array<i64: 1>} {
    plan.send %dx1 to "pp" -1 wrap channel 1 {stream = 3 : i64} : !plan.buffer<4xf32>
  }
  plan.procedure @update update {}
  plan.procedure @begin begin {}
}
plan.stage @last attributes {stage = 1 : i64, chunks = [#plan.chunk<1, 1>, #plan.chunk<3, 3>], pools = [#plan.pool<0, 1>, #plan.pool<1, 1>], table = []} {
  %x = plan.buffer slot : !plan.buffer<4xf32>
  %dx = plan.buffer slot : !plan.buffer<4xf32>
  %x1 = plan.buffer slot {pool = 1 : i64} : !plan.buffer<4xf32>
  %dx1 = plan.buffer slot {pool = 1 : i64} : !plan.buffer<4xf32>
  plan.procedure @forward forward {}
  plan.procedure @backward backward {}
  plan.procedure @backward_last backward_last {}
  plan.procedure @recv_forward exchange {
    plan.recv %x from "pp" -1 channel 0 {stream = 3 : i64} : !plan.buffer<4xf32>
  }
  plan.procedure @send_forward exchange {
    plan.send %x to "pp" 1 wrap channel 2 {stream = 3 : i64} : !plan.buffer<4xf32>
  }
  plan.procedure @recv_backward exchange {
    plan.recv %dx from "pp" 1 wrap channel 1 {stream = 3 : i64} : !plan.buffer<4xf32>
  }
  plan.procedure @send_backward exchange {
    plan.send %dx to "pp" -1 channel 1 {stream = 3 : i64} : !plan.buffer<4xf32>
  }
  plan.procedure @forward_1 forward attributes {chunk = 1 : i64, lanes = array<i64: 1>} {}
  plan.procedure @backward_1 backward attributes {chunk = 1 : i64, lanes = array<i64: 1>} {}
  plan.procedure @backward_last_1 backward_last attributes {chunk = 1 : i64, lanes = array<i64: 1>} {}
  plan.procedure @recv_forward_1 exchange attributes {chunk = 1 : i64, lanes = array<i64: 1>} {
    plan.recv %x1 from "pp" -1 channel 2 {stream = 3 : i64} : !plan.buffer<4xf32>
  }
  plan.procedure @send_backward_1 exchange attributes {chunk = 1 : i64, lanes = array<i64: 1>} {
    plan.send %dx1 to "pp" -1 channel 3 {stream = 3 : i64} : !plan.buffer<4xf32>
  }
  plan.procedure @update update {}
  plan.procedure @begin begin {}
}
