// Two buffers of one type are two regions of the arena: CSE must keep both, and may drop one that
// nothing uses. Views of one parent at one displacement are the same bytes: one is enough.
// RUN: llmc-opt %s --cse | FileCheck %s

// CHECK-LABEL: plan.stage @two
plan.stage @two attributes {stage = 0, chunks = [#plan.chunk<0, 0>], pools = [#plan.pool<0, 1>], table = [#plan.entry<@update, 0, 0>]} {
  // CHECK-COUNT-2: plan.buffer scratch {{.*}}: !plan.buffer<8xf32>
  // CHECK-NEXT: plan.buffer scratch of
  // CHECK-NOT: = plan.buffer
  %a = plan.buffer scratch : !plan.buffer<8xf32>
  %b = plan.buffer scratch : !plan.buffer<8xf32>
  %unused = plan.buffer scratch : !plan.buffer<8xf32>
  %view = plan.buffer scratch of %a : !plan.buffer<8xf32> at 16 : !plan.buffer<2xf32>
  %again = plan.buffer scratch of %a : !plan.buffer<8xf32> at 16 : !plan.buffer<2xf32>
  plan.procedure @update update {
    plan.fill %a {stream = 0 : i64} : !plan.buffer<8xf32>
    plan.copy %b into %a {stream = 0 : i64} : !plan.buffer<8xf32>, !plan.buffer<8xf32>
    plan.fill %view {stream = 0 : i64} : !plan.buffer<2xf32>
    plan.fill %again {stream = 0 : i64} : !plan.buffer<2xf32>
  }
}
