// Rows that 4 does not divide, rows too long for the threads of a block, and sums of everything:
// what is emitted is as for any other row.
// RUN: llmc-opt %s --llmc-emit-kernels=targets=cuda --llmc-map-to-threads | FileCheck %s

plan.stage @stage0 attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
  %f = plan.buffer scratch : !plan.buffer<6x509xf32>
  %m = plan.buffer scratch : !plan.buffer<6xf32>
  %w = plan.buffer scratch : !plan.buffer<2x3x2050xf32>
  %c = plan.buffer scratch : !plan.buffer<2x2050xf32>
  %v = plan.buffer scratch : !plan.buffer<5000xf32>
  %s = plan.buffer scratch : !plan.buffer<f32>
  plan.procedure @forward forward {
    plan.launch reads(%f : !plan.buffer<6x509xf32>) writes(%m : !plan.buffer<6xf32>) attributes {stream = 0} {
    ^bb0(%x: tensor<6x509xf32>):
      %r = graph.reduce %x {kind = #graph.reduce_kind<max>, dims = array<i64: 1>} : (tensor<6x509xf32>) -> tensor<6xf32>
      plan.yield %r : tensor<6xf32>
    }
    plan.launch reads(%w : !plan.buffer<2x3x2050xf32>) writes(%w, %c : !plan.buffer<2x3x2050xf32>, !plan.buffer<2x2050xf32>) attributes {stream = 0} {
    ^bb0(%x: tensor<2x3x2050xf32>):
      %n = graph.neg %x : (tensor<2x3x2050xf32>) -> tensor<2x3x2050xf32>
      %r = graph.reduce %n {kind = #graph.reduce_kind<sum>, dims = array<i64: 1>} : (tensor<2x3x2050xf32>) -> tensor<2x2050xf32>
      plan.yield %n, %r : tensor<2x3x2050xf32>, tensor<2x2050xf32>
    }
    plan.launch reads(%v : !plan.buffer<5000xf32>) writes(%s : !plan.buffer<f32>) attributes {stream = 0} {
    ^bb0(%x: tensor<5000xf32>):
      %r = graph.reduce %x {kind = #graph.reduce_kind<sum>, dims = array<i64: 0>} : (tensor<5000xf32>) -> tensor<f32>
      plan.yield %r : tensor<f32>
    }
  }
}

// Vectors of row r begin (509 r) mod 4 elements before it, where memory is aligned: 128 of
// them, one each for 4 warps. Those that reach past an end read what is inside.
// CHECK-LABEL: func.func @reduce(
// CHECK-SAME: threads = 128 : i64
// CHECK: scf.for %[[ROW:.*]] = %{{.*}} to %{{.*}} step %c1_i64
// CHECK:   %[[BEFORE:.*]] = arith.andi %{{.*}}, %c3_i64
// CHECK:   arith.subi %c0_i64, %[[BEFORE]]
// CHECK:   scf.if %{{.*}} -> (vector<4xf32>, f32) {
// CHECK:     llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
// CHECK:   } else {
// CHECK:     llvm.intr.masked.load {{.*}} {alignment = 4 : i32} : (!llvm.ptr<1>, vector<4xi1>, vector<4xf32>) -> vector<4xf32>
// CHECK:     arith.select %{{.*}} : vector<4xi1>, vector<4xf32>
// CHECK:   gpu.shuffle

// Three strips of up to 1020 columns; sums in shared memory, because a column belongs to
// another thread in the next row.
// CHECK-LABEL: func.func @neg_reduce(
// CHECK-SAME: points_per_row = 3 : i64, shared_bytes = 4112 : i64, threads = 256 : i64
// CHECK-NOT: llvm.alloca
// CHECK: scf.for
// CHECK:   %[[STRIP:.*]] = arith.remui %{{.*}}, %c3_i64
// CHECK:   arith.muli %[[STRIP]], %c1020_i64
// CHECK:   gpu.barrier
// CHECK:   scf.for {{.*}} to %c3_i64 step %c1_i64
// CHECK:     arith.andi %{{.*}}, %c3_i64
// CHECK:     scf.if
// CHECK:       llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
// CHECK:       llvm.store {{.*}} {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr<1>
// CHECK:     } else {
// CHECK:       llvm.intr.masked.store
// CHECK:     gpu.barrier

// Each block leaves its parts in memory and counts itself; the last one adds them up.
// CHECK-LABEL: func.func @reduce_1(
// CHECK-SAME: points_per_row = 512 : i64
// CHECK: scf.for %{{.*}} = %{{.*}} to %{{.*}} step
// CHECK:   llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
// CHECK:   gpu.shuffle
// CHECK:   llvm.store %{{.*}}, %{{.*}} atomic syncscope("device") monotonic {alignment = 8 : i64} : i64, !llvm.ptr<1>
// CHECK: llvm.fence syncscope("device") acq_rel
// CHECK: llvm.atomicrmw add %{{.*}} syncscope("device") monotonic
// CHECK: llvm.fence syncscope("device") acq_rel
// CHECK: gpu.barrier
// CHECK: scf.if
// CHECK:   llvm.load {{.*}} atomic syncscope("device") monotonic {alignment = 8 : i64} : !llvm.ptr<1> -> i64
// CHECK:   gpu.shuffle
// CHECK:   llvm.store {{.*}} : f32, !llvm.ptr<1>
