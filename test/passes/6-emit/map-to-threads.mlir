// One emitter for loops and for threads: what it writes is the same but for the width of
// vectors. What deals it out to threads comes after.
// RUN: llmc-opt %s --split-input-file --llmc-emit-kernels=targets=avx2 | FileCheck %s --check-prefix=BOTH '-D$TERMS=16'
// RUN: llmc-opt %s --split-input-file --llmc-emit-kernels=targets=cuda | FileCheck %s --check-prefix=BOTH '-D$TERMS=4'
// RUN: llmc-opt %s --split-input-file --llmc-emit-kernels=targets=cuda --llmc-map-to-threads | FileCheck %s

// The loop over rows is dealt out to blocks, the elements of a row to two threads of a warp,
// whose maxima meet by shuffles.
// CHECK-LABEL: plan.stage @first
// CHECK: func.func @reduce(
// CHECK: gpu.shuffle
plan.stage @first attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
  %a = plan.buffer scratch : !plan.buffer<3x8xf32>
  %m = plan.buffer scratch : !plan.buffer<3xf32>
  plan.procedure @forward forward {
    plan.launch reads(%a : !plan.buffer<3x8xf32>) writes(%m : !plan.buffer<3xf32>) attributes {stream = 0} {
    ^bb0(%x: tensor<3x8xf32>):
      %r = graph.reduce %x {kind = #graph.reduce_kind<max>, dims = array<i64: 1>} : (tensor<3x8xf32>) -> tensor<3xf32>
      plan.yield %r : tensor<3xf32>
    }
  }
}

// -----

plan.stage @stage0 attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
  %a = plan.buffer scratch : !plan.buffer<6x64xf32>
  %b = plan.buffer scratch : !plan.buffer<64xf32>
  %m = plan.buffer scratch : !plan.buffer<6xf32>
  %t = plan.buffer scratch : !plan.buffer<9x64xf32>
  %ids = plan.buffer scratch : !plan.buffer<6xi64>
  %w = plan.buffer scratch : !plan.buffer<2x3x64xf32>
  %s = plan.buffer scratch : !plan.buffer<2x64xf32>
  %f = plan.buffer scratch : !plan.buffer<6x512xf32>
  plan.procedure @forward forward {
    plan.launch reads(%a, %a : !plan.buffer<6x64xf32>, !plan.buffer<6x64xf32>) writes(%a : !plan.buffer<6x64xf32>) attributes {stream = 0} {
    ^bb0(%x: tensor<6x64xf32>, %y: tensor<6x64xf32>):
      %r = graph.add %x, %y : (tensor<6x64xf32>, tensor<6x64xf32>) -> tensor<6x64xf32>
      plan.yield %r : tensor<6x64xf32>
    }
    plan.launch reads(%f : !plan.buffer<6x512xf32>) writes(%m : !plan.buffer<6xf32>) attributes {stream = 0} {
    ^bb0(%x: tensor<6x512xf32>):
      %r = graph.reduce %x {kind = #graph.reduce_kind<sum>, dims = array<i64: 1>} : (tensor<6x512xf32>) -> tensor<6xf32>
      plan.yield %r : tensor<6xf32>
    }
    plan.launch reads(%a, %b : !plan.buffer<6x64xf32>, !plan.buffer<64xf32>) writes(%a : !plan.buffer<6x64xf32>) attributes {stream = 0} {
    ^bb0(%x: tensor<6x64xf32>, %y: tensor<64xf32>):
      %p = graph.mul %x, %y : (tensor<6x64xf32>, tensor<64xf32>) -> tensor<6x64xf32>
      %r = graph.softmax %p : (tensor<6x64xf32>) -> tensor<6x64xf32>
      plan.yield %r : tensor<6x64xf32>
    }
    plan.launch reads(%w : !plan.buffer<2x3x64xf32>) writes(%s : !plan.buffer<2x64xf32>) attributes {stream = 0} {
    ^bb0(%x: tensor<2x3x64xf32>):
      %r = graph.reduce %x {kind = #graph.reduce_kind<sum>, dims = array<i64: 1>} : (tensor<2x3x64xf32>) -> tensor<2x64xf32>
      plan.yield %r : tensor<2x64xf32>
    }
    plan.launch reads(%t, %ids : !plan.buffer<9x64xf32>, !plan.buffer<6xi64>) writes(%a : !plan.buffer<6x64xf32>) attributes {stream = 0} {
    ^bb0(%x: tensor<9x64xf32>, %i: tensor<6xi64>):
      %r = graph.gather %x, %i : (tensor<9x64xf32>, tensor<6xi64>) -> tensor<6x64xf32>
      plan.yield %r : tensor<6x64xf32>
    }
    plan.launch reads(%a, %ids : !plan.buffer<6x64xf32>, !plan.buffer<6xi64>) writes(%t : !plan.buffer<9x64xf32>) attributes {stream = 0} {
    ^bb0(%x: tensor<6x64xf32>, %i: tensor<6xi64>):
      %r = graph.scatter_add %i, %x : (tensor<6xi64>, tensor<6x64xf32>) -> tensor<9x64xf32>
      plan.yield %r : tensor<9x64xf32>
    }
  }
}

// BOTH-LABEL: func.func @add(
// BOTH: scf.for {{.*}} step %c[[$TERMS]]_i64
// BOTH:   arith.addf {{.*}} : vector<[[$TERMS]]xf32>
// BOTH: } {llmc.loop_kind = "elements"}
// BOTH: scf.for {{.*}} step %c1_i64
// BOTH: } {llmc.loop_kind = "elements"}

// BOTH-LABEL: func.func @reduce(
// BOTH: scf.for {{.*}} step %c1_i64
// BOTH:   %[[SUMS:.*]]:2 = scf.for {{.*}} step %c[[$TERMS]]_i64 {{.*}} -> (vector<[[WIDE:[0-9]+]]xf64>, f64)
// BOTH:     arith.extf {{.*}} : vector<[[WIDE]]xf32> to vector<[[WIDE]]xf64>
// BOTH:   } {llmc.loop_kind = "elements"}
// BOTH:   %[[SUM:.*]] = vector.reduction <add>, %[[SUMS]]#0
// BOTH:   arith.addf %[[SUM]], %[[SUMS]]#1 {llmc.combined = "sum"} : f64
// BOTH:   llvm.store {{.*}} : f32
// BOTH: } {llmc.loop_kind = "rows"}

// BOTH-LABEL: func.func @mul_softmax(
// BOTH: llvm.alloca %{{.*}} x f32
// BOTH: scf.for
// BOTH:   } {llmc.loop_kind = "elements"}
// BOTH:   {llmc.combined = "max"} : f32
// BOTH:   {llmc.combined = "sum"} : f64
// BOTH:   } {llmc.loop_kind = "elements"}
// BOTH: } {llmc.loop_kind = "rows"}

// Flat: each block takes a part of the elements that begins at a multiple of 1024, each
// thread every 256th vector of it. What is left over goes one by one.
// CHECK-LABEL: func.func @add(
// CHECK-SAME: %[[X:[a-z0-9]+]]: !llvm.ptr<1> {llvm.align = 16 : i64}, %[[Y:[a-z0-9]+]]: !llvm.ptr<1> {llvm.align = 16 : i64}, %[[Z:[a-z0-9]+]]: !llvm.ptr<1> {llvm.align = 16 : i64}, %{{[a-z0-9]+}}: i64, %[[BEGIN:[a-z0-9]+]]: i64, %[[END:[a-z0-9]+]]: i64)
// CHECK-SAME: llmc.launch = {begin_multiple = 4 : i64, blocks_per_sm = 32 : i64, points_per_block = 1024 : i64, points_per_row = 1 : i64, shared_bytes = 0 : i64, threads = 256 : i64}
// CHECK: gpu.thread_id x
// CHECK: %[[THREAD:.*]] = arith.index_cast
// CHECK: gpu.block_id x
// CHECK: gpu.grid_dim x
// CHECK: %[[OFFSET:.*]] = arith.muli %[[THREAD]], %c4_i64
// CHECK: %[[FIRST:.*]] = arith.addi %{{.*}}, %[[OFFSET]]
// CHECK: scf.for %[[I:.*]] = %[[FIRST]] to %{{.*}} step %c1024_i64
// CHECK:   %[[PLACE:.*]] = llvm.getelementptr %[[X]][%[[I]]]
// CHECK:   llvm.load %[[PLACE]] {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
// CHECK:   llvm.store {{.*}} {alignment = 16 : i64} : vector<4xf32>
// CHECK: scf.for {{.*}} step %c256_i64
// CHECK:   llvm.store {{.*}} : f32

// Four warps a row of 512: a vector for each thread, sums by shuffles, then through
// shared memory. One thread stores.
// CHECK-LABEL: func.func @reduce(
// CHECK-SAME: shared_bytes = 32 : i64, threads = 128 : i64
// CHECK: scf.for %[[ROW:.*]] = %{{.*}} to %{{.*}} step %c1_i64
// CHECK-NOT: scf.for
// CHECK:   llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
// CHECK:   vector.reduction <add>
// CHECK:   gpu.shuffle xor %{{.*}}, %c16_i32, %c32_i32
// CHECK:   gpu.shuffle xor %{{.*}}, %c1_i32, %c32_i32
// CHECK:   gpu.barrier
// CHECK:   scf.if
// CHECK:     llvm.store {{.*}} : f64, !llvm.ptr<3>
// CHECK:   gpu.barrier
// CHECK-COUNT-4: llvm.load {{.*}} : !llvm.ptr<3> -> f64
// CHECK:   %[[TOTAL:.*]] = arith.truncf
// CHECK:   %[[IS_FIRST:.*]] = arith.cmpi eq
// CHECK:   scf.if %[[IS_FIRST]]
// CHECK:     llvm.store %[[TOTAL]], {{.*}} : f32, !llvm.ptr<1>

// Sixteen threads a row of 64, eight rows a block: no shared memory, and of the array
// that holds the row each thread keeps its own vector.
// CHECK-LABEL: func.func @mul_softmax(
// CHECK-SAME: points_per_block = 8 : i64
// CHECK-SAME: shared_bytes = 0 : i64, threads = 128 : i64
// CHECK: %[[LANE:.*]] = arith.remui %{{.*}}, %c16_i64
// CHECK: %[[KEPT:.*]] = llvm.alloca %c4_i64 x f32
// CHECK: scf.for {{.*}} step %c8_i64
// CHECK:   %[[EXISTS:.*]] = arith.cmpi slt
// CHECK:   scf.if %[[EXISTS]] {
// CHECK:     %[[SLOT:.*]] = llvm.getelementptr %[[KEPT]][%c0_i64]
// CHECK:     llvm.store {{.*}}, %[[SLOT]] {alignment = 16 : i64} : vector<4xf32>
// CHECK:   scf.if %[[EXISTS]] -> (vector<4xf32>, f32)
// CHECK:   gpu.shuffle xor %{{.*}}, %c8_i32, %c32_i32
// CHECK-NOT: gpu.barrier
// CHECK: return

// Sums over columns: the rows pass one after the other, each thread adds up its own
// columns in order.
// CHECK-LABEL: func.func @reduce_1(
// CHECK: %[[SUMS:.*]] = llvm.alloca %c4_i64 x f32
// CHECK: scf.for
// CHECK:   scf.for {{.*}} to %c3_i64 step %c1_i64
// CHECK:     llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
// CHECK:     %[[SLOT:.*]] = llvm.getelementptr %[[SUMS]][%c0_i64]
// CHECK:     llvm.load %[[SLOT]] {{.*}} -> vector<4xf32>
// CHECK-NOT: gpu.shuffle
// CHECK:   llvm.store {{.*}} {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr<1>

// CHECK-LABEL: func.func @gather(
// CHECK: scf.for
// CHECK:   llvm.load {{.*}} -> i64
// CHECK:   llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
// CHECK:   llvm.store {{.*}} {alignment = 16 : i64} : vector<4xf32>

// A block owns rows of the table: it clears them, then adds what falls there in order. No
// two threads add to the same element.
// CHECK-LABEL: func.func @scatter_add(
// CHECK: scf.for
// CHECK:   llvm.store {{.*}} {alignment = 16 : i64} : vector<4xf32>
// CHECK: gpu.barrier
// CHECK: scf.for {{.*}} step %c1_i64
// CHECK-NOT: gpu.barrier
// CHECK:   scf.if
// CHECK:       llvm.store {{.*}} {alignment = 16 : i64} : vector<4xf32>
// CHECK-NOT: atomic
