// RUN: llmc-opt %s --split-input-file --llmc-build-table="schedule=1f1b micro-batches=4" | FileCheck %s --check-prefix=ONE
// RUN: llmc-opt %s --split-input-file --llmc-build-table="schedule=gpipe micro-batches=2" | FileCheck %s --check-prefix=ALL

// Exchanges a message when its procedure has run and its slot is free where it goes, in the columns that the
// procedures have if all take equally long: both ends have one place in one order. Messages of a
// column are one group: with two stages each sends in the group in which it receives, but the first ones
// and the last. Events that must have come stand before both messages, events that say that they have ended
// stand after both.
// ONE-LABEL: plan.stage @first
// ONE-SAME: [#plan.entry<@begin, 0, 0>, #plan.entry<@forward, 0, 0>, #plan.entry<@send_forward, 0, 0>, #plan.entry<@forward, 1, 1>, #plan.entry<@send_forward_recv_backward, 1, 1 also <0, 0>>, #plan.entry<@backward, 0, 0>,
// ONE-SAME: #plan.entry<@forward, 2, 0>, #plan.entry<@send_forward_recv_backward, 2, 0 also <1, 1>>, #plan.entry<@backward, 1, 1>, #plan.entry<@forward, 3, 1>, #plan.entry<@send_forward_recv_backward, 3, 1 also <2, 0>>,
// ONE-SAME: #plan.entry<@backward, 2, 0>, #plan.entry<@recv_backward, 3, 1>, #plan.entry<@backward_last, 3, 1>, #plan.entry<@update, 0, 0>]
// ONE: plan.procedure @send_forward_recv_backward exchange
// ONE-NEXT: plan.wait 0 {stream = 3
// ONE-NEXT: plan.wait 3 {lane = 1 : i64, stream = 3
// ONE-NEXT: plan.send {{.*}} to "pp" 1 channel 0 {stream = 3
// ONE-NEXT: plan.recv {{.*}} from "pp" 1 channel 1 {grouped, lane = 1 : i64, stream = 3
// ONE-NEXT: plan.record 1 {stream = 3
// ONE-NEXT: plan.record 4 {lane = 1 : i64, stream = 3
// ONE-LABEL: plan.stage @last
// ONE-SAME: [#plan.entry<@begin, 0, 0>, #plan.entry<@recv_forward, 0, 0>, #plan.entry<@forward, 0, 0>, #plan.entry<@backward, 0, 0>, #plan.entry<@send_backward_recv_forward, 0, 0 also <1, 0>>, #plan.entry<@forward, 1, 0>,
// ONE-SAME: #plan.entry<@backward, 1, 0>, #plan.entry<@send_backward_recv_forward, 1, 0 also <2, 0>>, #plan.entry<@forward, 2, 0>, #plan.entry<@backward, 2, 0>, #plan.entry<@send_backward_recv_forward, 2, 0 also <3, 0>>,
// ONE-SAME: #plan.entry<@forward, 3, 0>, #plan.entry<@backward_last, 3, 0>, #plan.entry<@send_backward, 3, 0>, #plan.entry<@update, 0, 0>]

// Sends and receives alone where a stage goes all the way forward first: no two messages have one column.
// ALL-LABEL: plan.stage @first
// ALL-SAME: [#plan.entry<@begin, 0, 0>, #plan.entry<@forward, 0, 0>, #plan.entry<@send_forward, 0, 0>, #plan.entry<@forward, 1, 1>, #plan.entry<@send_forward, 1, 1>, #plan.entry<@recv_backward, 0, 0>, #plan.entry<@backward, 0, 0>, #plan.entry<@recv_backward, 1, 1>, #plan.entry<@backward_last, 1, 1>, #plan.entry<@update, 0, 0>]
// ALL-LABEL: plan.stage @last
// ALL-SAME: [#plan.entry<@begin, 0, 0>, #plan.entry<@recv_forward, 0, 0>, #plan.entry<@forward, 0, 0>, #plan.entry<@recv_forward, 1, 1>, #plan.entry<@forward, 1, 1>, #plan.entry<@backward, 0, 0>, #plan.entry<@send_backward, 0, 0>, #plan.entry<@backward_last, 1, 1>, #plan.entry<@send_backward, 1, 1>, #plan.entry<@update, 0, 0>]
plan.stage @first attributes {stage = 0 : i64, chunks = [#plan.chunk<0, 0>], pools = [#plan.pool<0, 1>], table = []} {
  %x = plan.buffer slot : !plan.buffer<4xf32>
  %dx = plan.buffer slot : !plan.buffer<4xf32>
  plan.procedure @forward forward {}
  plan.procedure @send_forward exchange {
    plan.wait 0 {stream = 3 : i64}
    plan.send %x to "pp" 1 channel 0 {stream = 3 : i64} : !plan.buffer<4xf32>
    plan.record 1 {stream = 3 : i64}
  }
  plan.procedure @backward backward {}
  plan.procedure @backward_last backward_last {}
  plan.procedure @recv_backward exchange {
    plan.wait 3 {stream = 3 : i64}
    plan.recv %dx from "pp" 1 channel 1 {stream = 3 : i64} : !plan.buffer<4xf32>
    plan.record 4 {stream = 3 : i64}
  }
  plan.procedure @update update {}
  plan.procedure @begin begin {}
}
plan.stage @last attributes {stage = 1 : i64, chunks = [#plan.chunk<1, 1>], pools = [#plan.pool<0, 1>], table = []} {
  %x = plan.buffer slot : !plan.buffer<4xf32>
  %dx = plan.buffer slot : !plan.buffer<4xf32>
  plan.procedure @forward forward {}
  plan.procedure @recv_forward exchange {
    plan.wait 3 {stream = 3 : i64}
    plan.recv %x from "pp" -1 channel 0 {stream = 3 : i64} : !plan.buffer<4xf32>
    plan.record 2 {stream = 3 : i64}
  }
  plan.procedure @backward backward {}
  plan.procedure @backward_last backward_last {}
  plan.procedure @send_backward exchange {
    plan.wait 3 {stream = 3 : i64}
    plan.send %dx to "pp" -1 channel 1 {stream = 3 : i64} : !plan.buffer<4xf32>
    plan.record 4 {stream = 3 : i64}
  }
  plan.procedure @update update {}
  plan.procedure @begin begin {}
}

// -----

// Sends cotangents before activations come where the one stage receives into what it sends from: members of a
// group are not ordered. The other stage keeps the same order, though it could send and receive at once.
// ONE-LABEL: plan.stage @first_apart
// ONE-SAME: [#plan.entry<@begin, 0, 0>, #plan.entry<@forward, 0, 0>, #plan.entry<@send_forward, 0, 0>, #plan.entry<@forward, 1, 1>, #plan.entry<@recv_backward, 0, 0>, #plan.entry<@send_forward, 1, 1>, #plan.entry<@backward, 0, 0>,
// ONE-NOT: plan.procedure @send_forward_recv_backward
// ONE-LABEL: plan.stage @last_apart
// ONE-SAME: [#plan.entry<@begin, 0, 0>, #plan.entry<@recv_forward, 0, 0>, #plan.entry<@forward, 0, 0>, #plan.entry<@backward, 0, 0>, #plan.entry<@send_backward, 0, 0>, #plan.entry<@recv_forward, 1, 0>, #plan.entry<@forward, 1, 0>,
// ONE-NOT: plan.procedure @send_backward_recv_forward
plan.stage @first_apart attributes {stage = 0 : i64, chunks = [#plan.chunk<0, 0>], pools = [#plan.pool<0, 1>], table = []} {
  %x = plan.buffer slot : !plan.buffer<4xf32>
  %dx = plan.buffer slot : !plan.buffer<4xf32>
  plan.procedure @forward forward {}
  plan.procedure @send_forward exchange {
    plan.wait 0 {stream = 3 : i64}
    plan.send %x to "pp" 1 channel 0 {stream = 3 : i64} : !plan.buffer<4xf32>
    plan.record 1 {stream = 3 : i64}
  }
  plan.procedure @backward backward {}
  plan.procedure @backward_last backward_last {}
  plan.procedure @recv_backward exchange {
    plan.wait 3 {stream = 3 : i64}
    plan.recv %dx from "pp" 1 channel 1 {stream = 3 : i64} : !plan.buffer<4xf32>
    plan.record 4 {stream = 3 : i64}
  }
  plan.procedure @update update {}
  plan.procedure @begin begin {}
}
plan.stage @last_apart attributes {stage = 1 : i64, chunks = [#plan.chunk<1, 1>], pools = [#plan.pool<0, 1>], table = []} {
  %x = plan.buffer slot : !plan.buffer<4xf32>
  plan.procedure @forward forward {}
  plan.procedure @recv_forward exchange {
    plan.wait 3 {stream = 3 : i64}
    plan.recv %x from "pp" -1 channel 0 {stream = 3 : i64} : !plan.buffer<4xf32>
    plan.record 2 {stream = 3 : i64}
  }
  plan.procedure @backward backward {}
  plan.procedure @backward_last backward_last {}
  plan.procedure @send_backward exchange {
    plan.wait 3 {stream = 3 : i64}
    plan.send %x to "pp" -1 channel 1 {stream = 3 : i64} : !plan.buffer<4xf32>
    plan.record 4 {stream = 3 : i64}
  }
  plan.procedure @update update {}
  plan.procedure @begin begin {}
}
