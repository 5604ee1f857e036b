// RUN: llmc-opt %s --llmc-assign-pools | FileCheck %s

// A micro-batch keeps %x up to its weight gradients, %h up to backward, and %dy from there on. The
// message that brings %x is free after the weight gradients, the one that brings %d after backward.
// CHECK: plan.stage @s attributes {{.*}}pools = [#plan.pool<0, 1>, #plan.pool<0, 1>, #plan.pool<0, 1>]
plan.stage @s attributes {stage = 1 : i64, chunks = [#plan.chunk<0, 0>], pools = [#plan.pool<0, 1>], table = []} {
  // CHECK: %[[X:.*]] = plan.buffer slot : !plan.buffer<4xf32>
  %x = plan.buffer slot : !plan.buffer<4xf32>
  // CHECK: %[[H:.*]] = plan.buffer slot {pool = 1 : i64} : !plan.buffer<5xf32>
  %h = plan.buffer slot : !plan.buffer<5xf32>
  // CHECK: %[[DY:.*]] = plan.buffer slot {pool = 2 : i64} : !plan.buffer<6xf32>
  %dy = plan.buffer slot : !plan.buffer<6xf32>
  // CHECK: %[[D:.*]] = plan.buffer slot {pool = 1 : i64} : !plan.buffer<4xf32>
  %d = plan.buffer slot : !plan.buffer<4xf32>
  %acc = plan.buffer persistent : !plan.buffer<6xf32>
  // CHECK: plan.procedure @forward forward attributes {lanes = array<i64: 0, 1>}
  plan.procedure @forward forward {
    // CHECK-NEXT: plan.wait 0 {stream = 0
    plan.wait 0 {stream = 0 : i64}
    plan.copy %x into %d {stream = 0 : i64} : !plan.buffer<4xf32>, !plan.buffer<4xf32>
    plan.fill %h {stream = 0 : i64} : !plan.buffer<5xf32>
  }
  // CHECK: plan.procedure @recv_forward exchange attributes {lanes = array<i64: 0>}
  plan.procedure @recv_forward exchange {
    // CHECK-NEXT: plan.wait 3
    plan.wait 3 {stream = 3 : i64}
    plan.recv %x from "pp" -1 channel 0 {stream = 3 : i64} : !plan.buffer<4xf32>
    plan.record 0 {stream = 3 : i64}
  }
  // CHECK: plan.procedure @backward backward attributes {lanes = array<i64: 0, 1, 2>}
  plan.procedure @backward backward {
    // CHECK-NEXT: plan.wait 1 {lane = 1 : i64, stream = 0
    plan.wait 1 {stream = 0 : i64}
    plan.copy %h into %h {stream = 0 : i64} : !plan.buffer<5xf32>, !plan.buffer<5xf32>
    plan.fill %d {stream = 0 : i64} : !plan.buffer<4xf32>
    plan.fill %dy {stream = 0 : i64} : !plan.buffer<6xf32>
    // CHECK: plan.record 2 {lane = 1 : i64, stream = 0
    plan.record 2 {stream = 0 : i64}
  }
  // CHECK: plan.procedure @recv_backward exchange attributes {lanes = array<i64: 1>}
  plan.procedure @recv_backward exchange {
    // CHECK-NEXT: plan.wait 2 {stream = 3
    plan.wait 3 {stream = 3 : i64}
    plan.recv %d from "pp" 1 channel 1 {stream = 3 : i64} : !plan.buffer<4xf32>
    plan.record 1 {stream = 3 : i64}
  }
  // CHECK: plan.procedure @weight weight attributes {lanes = array<i64: 0, 2>}
  plan.procedure @weight weight {
    plan.copy %x into %x {stream = 0 : i64} : !plan.buffer<4xf32>, !plan.buffer<4xf32>
    plan.copy %dy into %acc {stream = 0 : i64} : !plan.buffer<6xf32>, !plan.buffer<6xf32>
    // CHECK: plan.record 3 {stream = 0
    plan.record 3 {stream = 0 : i64}
  }
  plan.procedure @update update {}
  plan.procedure @begin begin {}
}

// Leaves a stage alone whose backward is whole.
// CHECK: plan.stage @whole attributes {{.*}}pools = [#plan.pool<0, 1>]
plan.stage @whole attributes {stage = 0 : i64, chunks = [#plan.chunk<0, 0>], pools = [#plan.pool<0, 1>], table = []} {
  // CHECK: plan.buffer slot : !plan.buffer<4xf32>
  %x = plan.buffer slot : !plan.buffer<4xf32>
  // CHECK: plan.procedure @forward forward {
  plan.procedure @forward forward {
    plan.fill %x {stream = 0 : i64} : !plan.buffer<4xf32>
  }
  plan.procedure @backward backward {}
  plan.procedure @update update {}
  plan.procedure @begin begin {}
}
