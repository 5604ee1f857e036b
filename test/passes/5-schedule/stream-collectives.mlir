// RUN: llmc-opt %s --split-input-file --llmc-stream-collectives | FileCheck %s

// A collective starts when what stream 0 did before is done, and is waited for where it is
// needed first: what does not depend on it runs meanwhile. Its event is free again after that.
// CHECK-LABEL: plan.stage @needed
// CHECK: plan.procedure @forward
// CHECK-NEXT: plan.fill %[[X:[0-9a-z]+]] {stream = 0
// CHECK-NEXT: plan.record [[READY:7]] step {stream = 0
// CHECK-NEXT: plan.wait [[READY]] step {stream = 1
// CHECK-NEXT: plan.collective all_reduce <sum> %[[X]] into %[[X]] over ["tp"] {stream = 1
// CHECK-NEXT: plan.record [[DONE:[0-9]+]] step {stream = 1
// CHECK-NEXT: plan.fill %[[OTHER:[0-9a-z]+]] {stream = 0
// CHECK-NEXT: plan.wait [[DONE]] step {stream = 0
// CHECK-NEXT: plan.copy %[[X]] into %[[OTHER]]
// CHECK-NEXT: plan.record 6 {stream = 0
// CHECK-NEXT: {{^ *}$}}
plan.stage @needed attributes {stage = 0 : i64, chunks = [#plan.chunk<0, 0>], pools = [#plan.pool<0, 1>], table = []} {
  %x = plan.buffer scratch : !plan.buffer<4xf32>
  %other = plan.buffer scratch : !plan.buffer<4xf32>
  plan.procedure @forward forward {
    plan.fill %x {stream = 0 : i64} : !plan.buffer<4xf32>
    plan.collective all_reduce <sum> %x into %x over ["tp"] {stream = 0 : i64} : !plan.buffer<4xf32>, !plan.buffer<4xf32>
    plan.fill %other {stream = 0 : i64} : !plan.buffer<4xf32>
    plan.copy %x into %other {stream = 0 : i64} : !plan.buffer<4xf32>, !plan.buffer<4xf32>
    plan.record 6 {stream = 0 : i64}
  }
}

// -----

// What it reads must not be written before it has been read; collectives in flight end in order,
// and those behind the one that is needed are not waited for; an event that
// others wait for comes after all whose bytes others see, and the end of the procedure after all.
// CHECK-LABEL: plan.stage @written
// CHECK: plan.procedure @forward
// CHECK: plan.collective all_gather <sum> %[[A:[0-9a-z]+]] into %{{[0-9a-z]+}} over ["tp"] {stream = 1
// CHECK-NEXT: plan.record [[FIRST:[0-9]+]] step {stream = 1
// CHECK: plan.collective all_gather <sum> %[[B:[0-9a-z]+]] into %{{[0-9a-z]+}} over ["tp"] {stream = 1
// CHECK-NEXT: plan.record [[SECOND:[0-9]+]] step {stream = 1
// CHECK-NEXT: plan.copy %[[A]] into %{{[0-9a-z]+}} {stream = 0
// CHECK-NEXT: plan.wait [[FIRST]] step {stream = 0
// CHECK-NEXT: plan.fill %[[A]] {stream = 0
// CHECK: plan.collective all_gather {{.*}}stream = 1
// CHECK-NEXT: plan.record [[THIRD:[0-9]+]] step {stream = 1
// CHECK-NEXT: plan.wait [[SECOND]] step {stream = 0
// CHECK: plan.collective all_gather <sum> %[[B]] into %{{[0-9a-z]+}} over ["tp"] {stream = 1
// CHECK-NEXT: plan.record [[FOURTH:[0-9]+]] step {stream = 1
// CHECK-NEXT: plan.wait [[THIRD]] step {stream = 0
// CHECK-NEXT: plan.record 0 {stream = 0
// CHECK-NEXT: plan.record 1 {stream = 0
// CHECK-NEXT: plan.wait [[FOURTH]] step {stream = 0
// CHECK-NEXT: plan.copy
// CHECK: plan.collective all_gather {{.*}}stream = 1
// CHECK-NEXT: plan.record [[LAST:[0-9]+]] step {stream = 1
// CHECK-NEXT: plan.wait [[LAST]] step {stream = 0
// CHECK-NEXT: {{^ *}$}}
// A collective on another stream stays there.
// CHECK: plan.procedure @update
// CHECK-NEXT: plan.collective all_gather {{.*}}stream = 2
// CHECK-NEXT: {{^ *}$}}
plan.stage @written attributes {stage = 0 : i64, chunks = [#plan.chunk<0, 0>], pools = [#plan.pool<0, 1>], table = []} {
  %a = plan.buffer scratch : !plan.buffer<4xf32>
  %b = plan.buffer scratch : !plan.buffer<4xf32>
  %c = plan.buffer scratch : !plan.buffer<4xf32>
  %all = plan.buffer scratch : !plan.buffer<8xf32>
  %both = plan.buffer scratch : !plan.buffer<8xf32>
  %kept = plan.buffer slot : !plan.buffer<8xf32>
  plan.procedure @forward forward {
    plan.collective all_gather <sum> %a into %all over ["tp"] {stream = 0 : i64} : !plan.buffer<4xf32>, !plan.buffer<8xf32>
    plan.collective all_gather <sum> %b into %both over ["tp"] {stream = 0 : i64} : !plan.buffer<4xf32>, !plan.buffer<8xf32>
    plan.copy %a into %c {stream = 0 : i64} : !plan.buffer<4xf32>, !plan.buffer<4xf32>
    plan.fill %a {stream = 0 : i64} : !plan.buffer<4xf32>
    plan.collective all_gather <sum> %a into %kept over ["tp"] {stream = 0 : i64} : !plan.buffer<4xf32>, !plan.buffer<8xf32>
    plan.collective all_gather <sum> %b into %both over ["tp"] {stream = 0 : i64} : !plan.buffer<4xf32>, !plan.buffer<8xf32>
    plan.record 0 {stream = 0 : i64}
    plan.record 1 {stream = 0 : i64}
    plan.copy %both into %all {stream = 0 : i64} : !plan.buffer<8xf32>, !plan.buffer<8xf32>
    plan.collective all_gather <sum> %b into %both over ["tp"] {stream = 0 : i64} : !plan.buffer<4xf32>, !plan.buffer<8xf32>
  }
  plan.procedure @update update {
    plan.collective all_gather <sum> %a into %all over ["tp"] {stream = 2 : i64} : !plan.buffer<4xf32>, !plan.buffer<8xf32>
  }
}

// -----

// A message around a ring goes with what is in one group with it: both ends start together, what does
// not touch them runs meanwhile, and one event tells that all have ended.
// CHECK-LABEL: plan.stage @ring
// CHECK: plan.procedure @forward
// CHECK-NEXT: plan.record [[READY:[0-9]+]] step {stream = 0
// CHECK-NEXT: plan.wait [[READY]] step {stream = 1
// CHECK-NEXT: plan.send %[[K:[0-9a-z]+]], %[[V:[0-9a-z]+]] to "cp" 1 wrap channel 2 {stream = 1
// CHECK-NEXT: plan.recv %[[K2:[0-9a-z]+]], %[[V2:[0-9a-z]+]] from "cp" -1 wrap channel 2 {grouped, stream = 1
// CHECK-NEXT: plan.record [[DONE:[0-9]+]] step {stream = 1
// CHECK-NEXT: plan.copy %[[K]] into %[[OUT:[0-9a-z]+]] {stream = 0
// CHECK-NEXT: plan.wait [[DONE]] step {stream = 0
// CHECK-NEXT: plan.fill %[[V]] {stream = 0
// CHECK-NEXT: plan.copy %[[V2]] into %[[OUT]] {stream = 0
plan.stage @ring attributes {stage = 0 : i64, chunks = [#plan.chunk<0, 0>], pools = [#plan.pool<0, 1>], table = []} {
  %k = plan.buffer scratch : !plan.buffer<4xf32>
  %v = plan.buffer scratch : !plan.buffer<4xf32>
  %k2 = plan.buffer scratch : !plan.buffer<4xf32>
  %v2 = plan.buffer scratch : !plan.buffer<4xf32>
  %out = plan.buffer scratch : !plan.buffer<4xf32>
  plan.procedure @forward forward {
    plan.send %k, %v to "cp" 1 wrap channel 2 {stream = 0 : i64} : !plan.buffer<4xf32>, !plan.buffer<4xf32>
    plan.recv %k2, %v2 from "cp" -1 wrap channel 2 {grouped, stream = 0 : i64} : !plan.buffer<4xf32>, !plan.buffer<4xf32>
    plan.copy %k into %out {stream = 0 : i64} : !plan.buffer<4xf32>, !plan.buffer<4xf32>
    plan.fill %v {stream = 0 : i64} : !plan.buffer<4xf32>
    plan.copy %v2 into %out {stream = 0 : i64} : !plan.buffer<4xf32>, !plan.buffer<4xf32>
  }
}
