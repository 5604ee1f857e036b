// RUN: llmc-opt %s --split-input-file --llmc-assign-arena | FileCheck %s
// RUN: llmc-opt %s --split-input-file --llmc-assign-arena --llmc-debug-pass=llmc-assign-arena 2>&1 | FileCheck %s --check-prefix=LOG

// Persistent bytes first, then those of the step, then the slots one after the other, then
// scratch; each buffer begins at a multiple of 64. All slot buffers have the
// stride of one whole slot.
// LOG: scratch !plan.buffer<16xf32> at 768
// LOG: stage 0: 128 bytes persistent, 64 a step, 64 scratch, 576 in slots
// CHECK: plan.stage @s attributes {arena_bytes = 832 : i64
// CHECK: plan.buffer persistent {offset = 0 : i64} : !plan.buffer<4xf32>
// CHECK: plan.buffer slot {offset = 192 : i64, slot_stride = 192 : i64} : !plan.buffer<17xf32>
// CHECK: plan.buffer persistent {offset = 64 : i64} : !plan.buffer<16xf32>
// CHECK: plan.buffer step {offset = 128 : i64} : !plan.buffer<f32>
// CHECK: plan.buffer slot {offset = 320 : i64, slot_stride = 192 : i64} : !plan.buffer<16xf32>
// CHECK: plan.buffer scratch {offset = 768 : i64} : !plan.buffer<16xf32>
plan.stage @s attributes {stage = 0 : i64, chunks = [#plan.chunk<0, 0>], pools = [#plan.pool<0, 3>], table = []} {
  %0 = plan.buffer persistent : !plan.buffer<4xf32>
  %1 = plan.buffer slot : !plan.buffer<17xf32>
  %2 = plan.buffer persistent : !plan.buffer<16xf32>
  %3 = plan.buffer step : !plan.buffer<f32>
  %4 = plan.buffer slot : !plan.buffer<16xf32>
  %5 = plan.buffer scratch : !plan.buffer<16xf32>
  plan.procedure @forward forward {
    plan.fill %0 {stream = 0 : i64} : !plan.buffer<4xf32>
    plan.fill %1 {stream = 0 : i64} : !plan.buffer<17xf32>
    plan.fill %3 {stream = 0 : i64} : !plan.buffer<f32>
    plan.copy %2 into %5 {stream = 0 : i64} : !plan.buffer<16xf32>, !plan.buffer<16xf32>
    plan.copy %5 into %4 {stream = 0 : i64} : !plan.buffer<16xf32>, !plan.buffer<16xf32>
  }
}

// -----

// A chain of four: the fourth begins when only the third is live, and takes the lowest
// free bytes. Buffers of one instruction are live together. A read of a view is a
// read of the whole: the first one lives until its view is copied.
// CHECK: plan.stage @s attributes {arena_bytes = 192 : i64
// CHECK: plan.buffer scratch {offset = 0 : i64}
// CHECK: plan.buffer scratch {offset = 64 : i64}
// CHECK: plan.buffer scratch {offset = 128 : i64}
// CHECK: plan.buffer scratch {offset = 0 : i64}
plan.stage @s attributes {stage = 0 : i64, chunks = [#plan.chunk<0, 0>], pools = [#plan.pool<0, 1>], table = []} {
  %0 = plan.buffer scratch : !plan.buffer<16xf32>
  %1 = plan.buffer scratch : !plan.buffer<16xf32>
  %2 = plan.buffer scratch : !plan.buffer<16xf32>
  %3 = plan.buffer scratch : !plan.buffer<16xf32>
  %4 = plan.buffer scratch of %0 : !plan.buffer<16xf32> at 32 : !plan.buffer<8xf32>
  %5 = plan.buffer scratch of %2 : !plan.buffer<16xf32> at 0 : !plan.buffer<8xf32>
  plan.procedure @forward forward {
    plan.fill %0 {stream = 0 : i64} : !plan.buffer<16xf32>
    plan.copy %0 into %1 {stream = 0 : i64} : !plan.buffer<16xf32>, !plan.buffer<16xf32>
    plan.copy %1 into %2 {stream = 0 : i64} : !plan.buffer<16xf32>, !plan.buffer<16xf32>
    plan.copy %4 into %5 {stream = 0 : i64} : !plan.buffer<8xf32>, !plan.buffer<8xf32>
    plan.copy %2 into %3 {stream = 0 : i64} : !plan.buffer<16xf32>, !plan.buffer<16xf32>
  }
}

// -----

// The largest goes first; two small ones that live one after the other share what is
// left beside it. Procedures share the whole area, and backward_last has the
// places of backward, whose buffers it uses.
// CHECK: plan.stage @s attributes {arena_bytes = 192 : i64
// CHECK: plan.buffer scratch {offset = 128 : i64} : !plan.buffer<16xf32>
// CHECK: plan.buffer scratch {offset = 0 : i64} : !plan.buffer<32xf32>
// CHECK: plan.buffer scratch {offset = 128 : i64} : !plan.buffer<16xf32>
// CHECK: plan.buffer scratch {offset = 0 : i64} : !plan.buffer<16xf32>
plan.stage @s attributes {stage = 0 : i64, chunks = [#plan.chunk<0, 0>], pools = [#plan.pool<0, 1>], table = []} {
  %0 = plan.buffer scratch : !plan.buffer<16xf32>
  %1 = plan.buffer scratch : !plan.buffer<32xf32>
  %2 = plan.buffer scratch : !plan.buffer<16xf32>
  %3 = plan.buffer scratch : !plan.buffer<16xf32>
  plan.procedure @forward forward {
    plan.fill %1 {stream = 0 : i64} : !plan.buffer<32xf32>
    plan.fill %0 {stream = 0 : i64} : !plan.buffer<16xf32>
    plan.fill %2 {stream = 0 : i64} : !plan.buffer<16xf32>
    plan.fill %1 {stream = 0 : i64} : !plan.buffer<32xf32>
  }
  plan.procedure @backward backward {
    plan.fill %3 {stream = 0 : i64} : !plan.buffer<16xf32>
  }
  plan.procedure @backward_last backward_last {
    plan.fill %3 {stream = 0 : i64} : !plan.buffer<16xf32>
  }
}

// -----

// A buffer that nothing names disappears, with its views; one that the outside
// is bound to stays.
// CHECK: plan.stage @s attributes {arena_bytes = 64 : i64
// CHECK-COUNT-1: plan.buffer
// CHECK-SAME: binding = #plan.output<"loss">
// CHECK-NOT: plan.buffer {{.*}}scratch
plan.stage @s attributes {stage = 0 : i64, chunks = [#plan.chunk<0, 0>], pools = [#plan.pool<0, 1>], table = []} {
  %0 = plan.buffer step {binding = #plan.output<"loss">} : !plan.buffer<f32>
  %1 = plan.buffer scratch : !plan.buffer<16xf32>
  %2 = plan.buffer scratch of %1 : !plan.buffer<16xf32> at 32 : !plan.buffer<8xf32>
  plan.procedure @forward forward {}
}

// -----

// Order is what streams and events say, not the list: what a collective on another stream
// reads lives to the wait for it, though the list mentions it no more; the second
// buffer is written before that wait and gets other bytes, the third one after it.
// CHECK: plan.stage @streams attributes {arena_bytes = 128 : i64
// CHECK: plan.buffer scratch {offset = 0 : i64}
// CHECK: plan.buffer scratch {offset = 64 : i64}
// CHECK: plan.buffer scratch {offset = 0 : i64}
plan.stage @streams attributes {stage = 0 : i64, chunks = [#plan.chunk<0, 0>], pools = [#plan.pool<0, 1>], table = []} {
  %0 = plan.buffer scratch : !plan.buffer<16xf32>
  %1 = plan.buffer scratch : !plan.buffer<16xf32>
  %2 = plan.buffer scratch : !plan.buffer<16xf32>
  plan.procedure @forward forward {
    plan.fill %0 {stream = 0 : i64} : !plan.buffer<16xf32>
    plan.record 0 {stream = 0 : i64}
    plan.wait 0 {stream = 1 : i64}
    plan.collective all_reduce <sum> %0 into %0 over ["tp"] {stream = 1 : i64} : !plan.buffer<16xf32>, !plan.buffer<16xf32>
    plan.record 1 {stream = 1 : i64}
    plan.fill %1 {stream = 0 : i64} : !plan.buffer<16xf32>
    plan.wait 1 {stream = 0 : i64}
    plan.fill %2 {stream = 0 : i64} : !plan.buffer<16xf32>
  }
}

// -----

// What another stream still touches when stream 0 leaves the procedure is nobody else's:
// the buffers of both procedures differ, and no scratch lies over the first.
// CHECK: plan.stage @outlives attributes {arena_bytes = 128 : i64
// CHECK: plan.buffer scratch {offset = 0 : i64}
// CHECK: plan.buffer scratch {offset = 64 : i64}
plan.stage @outlives attributes {stage = 0 : i64, chunks = [#plan.chunk<0, 0>], pools = [#plan.pool<0, 1>], table = []} {
  %0 = plan.buffer scratch : !plan.buffer<16xf32>
  %1 = plan.buffer scratch : !plan.buffer<16xf32>
  plan.procedure @forward forward {
    plan.record 0 {stream = 0 : i64}
    plan.wait 0 {stream = 1 : i64}
    plan.collective all_reduce <sum> %0 into %0 over ["tp"] {stream = 1 : i64} : !plan.buffer<16xf32>, !plan.buffer<16xf32>
  }
  plan.procedure @backward backward {
    plan.fill %1 {stream = 0 : i64} : !plan.buffer<16xf32>
  }
}

// -----

// Buffers that one lagging stream alone touches share bytes one after the other, but with nobody else.
// CHECK: plan.stage @lagging attributes {arena_bytes = 192 : i64
// CHECK: plan.buffer scratch {offset = 0 : i64}
// CHECK: plan.buffer scratch {offset = 0 : i64}
// CHECK: plan.buffer scratch {offset = 64 : i64}
// CHECK: plan.buffer scratch {offset = 128 : i64}
plan.stage @lagging attributes {stage = 0 : i64, chunks = [#plan.chunk<0, 0>], pools = [#plan.pool<0, 1>], table = []} {
  %0 = plan.buffer scratch : !plan.buffer<16xf32>
  %1 = plan.buffer scratch : !plan.buffer<16xf32>
  %2 = plan.buffer scratch : !plan.buffer<16xf32>
  %3 = plan.buffer scratch : !plan.buffer<16xf32>
  plan.procedure @backward backward {
    plan.fill %3 {stream = 0 : i64} : !plan.buffer<16xf32>
    plan.record 0 {stream = 0 : i64}
    plan.wait 0 {stream = 2 : i64}
    plan.fill %0 {stream = 2 : i64} : !plan.buffer<16xf32>
    plan.collective all_reduce <sum> %0 into %0 over ["dp"] {stream = 2 : i64} : !plan.buffer<16xf32>, !plan.buffer<16xf32>
    plan.fill %1 {stream = 2 : i64} : !plan.buffer<16xf32>
    plan.fill %2 {stream = 2 : i64} : !plan.buffer<16xf32>
    plan.copy %1 into %2 {stream = 2 : i64} : !plan.buffer<16xf32>, !plan.buffer<16xf32>
  }
}

// -----

// The update's own buffers lie over slots, which are free then, and over sums of whole gradients that
// the last backward has scattered; those of other procedures lie behind.
// CHECK: plan.stage @dead attributes {arena_bytes = 384 : i64
// CHECK: plan.buffer persistent {binding = {{.*}}, offset = 192 : i64}
// CHECK: plan.buffer persistent {offset = 0 : i64}
// CHECK: plan.buffer slot {offset = 64 : i64, slot_stride = 64 : i64}
// CHECK: plan.buffer scratch {offset = 64 : i64}
// CHECK: plan.buffer scratch {offset = 320 : i64}
module attributes {parallel.mesh = #parallel.mesh<["dp"=2, "pp"=1, "tp"=1]>} {
  graph.state @sum : tensor<32xf32> accumulator
  plan.stage @dead attributes {stage = 0 : i64, chunks = [#plan.chunk<0, 0>], pools = [#plan.pool<0, 2>], table = []} {
    %sum = plan.buffer persistent {binding = #plan.state<@sum, accumulator, dims = [[]], valid_shape = [32]>} : !plan.buffer<32xf32>
    %part = plan.buffer persistent : !plan.buffer<16xf32>
    %slot = plan.buffer slot : !plan.buffer<16xf32>
    %new = plan.buffer scratch : !plan.buffer<64xf32>
    %own = plan.buffer scratch : !plan.buffer<16xf32>
    plan.procedure @backward_last backward_last {
      plan.fill %slot {stream = 0 : i64} : !plan.buffer<16xf32>
      plan.fill %own {stream = 0 : i64} : !plan.buffer<16xf32>
      plan.fill %sum {stream = 0 : i64} : !plan.buffer<32xf32>
      plan.collective reduce_scatter <sum> %sum into %part over ["dp"] {stream = 0 : i64} : !plan.buffer<32xf32>, !plan.buffer<16xf32>
    }
    plan.procedure @update update {
      plan.fill %new {stream = 0 : i64} : !plan.buffer<64xf32>
    }
  }
}

// -----

// Slots from which a message may still be sent when the update begins are nobody else's, and a sum
// that the update reads has its bytes for itself.
// CHECK: plan.stage @alive attributes {arena_bytes = 384 : i64
// CHECK: plan.buffer persistent {binding = {{.*}}, offset = 0 : i64}
// CHECK: plan.buffer slot {offset = 192 : i64
// CHECK: plan.buffer scratch {offset = 256 : i64}
module attributes {parallel.mesh = #parallel.mesh<["dp"=2, "pp"=2, "tp"=1]>} {
  graph.state @sum : tensor<32xf32> accumulator
  plan.stage @alive attributes {stage = 0 : i64, chunks = [#plan.chunk<0, 0>], pools = [#plan.pool<0, 1>], table = []} {
    %sum = plan.buffer persistent {binding = #plan.state<@sum, accumulator, dims = [[]], valid_shape = [32]>} : !plan.buffer<32xf32>
    %part = plan.buffer persistent : !plan.buffer<16xf32>
    %slot = plan.buffer slot : !plan.buffer<16xf32>
    %new = plan.buffer scratch : !plan.buffer<32xf32>
    plan.procedure @backward_last backward_last {
      plan.fill %slot {stream = 0 : i64} : !plan.buffer<16xf32>
      plan.record 0 {stream = 0 : i64}
      plan.wait 0 {stream = 1 : i64}
      plan.fill %slot {stream = 1 : i64} : !plan.buffer<16xf32>
    }
    plan.procedure @update update {
      plan.fill %new {stream = 0 : i64} : !plan.buffer<32xf32>
      plan.collective reduce_scatter <sum> %sum into %part over ["dp"] {stream = 0 : i64} : !plan.buffer<32xf32>, !plan.buffer<16xf32>
    }
  }
}

// -----

// Each pool has its own stride and slots: two of one buffer, three of the other, behind them.
// CHECK: plan.stage @pools attributes {arena_bytes = 448 : i64
// CHECK: plan.buffer slot {offset = 0 : i64, slot_stride = 128 : i64}
// CHECK: plan.buffer slot {offset = 256 : i64, pool = 1 : i64, slot_stride = 64 : i64}
plan.stage @pools attributes {stage = 0 : i64, chunks = [#plan.chunk<0, 0>, #plan.chunk<2, 2>], pools = [#plan.pool<0, 2>, #plan.pool<1, 3>], table = []} {
  %0 = plan.buffer slot : !plan.buffer<32xf32>
  %1 = plan.buffer slot {pool = 1 : i64} : !plan.buffer<16xf32>
  plan.procedure @forward forward {
    plan.fill %0 {stream = 0 : i64} : !plan.buffer<32xf32>
  }
  plan.procedure @forward_1 forward attributes {chunk = 1 : i64, lanes = array<i64: 1>} {
    plan.fill %1 {stream = 0 : i64} : !plan.buffer<16xf32>
  }
}
