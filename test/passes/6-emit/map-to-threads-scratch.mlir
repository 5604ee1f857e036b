// The blocks of a sum of everything leave their parts in scratch, one more parameter; no module
// keeps anything of a launch in memory of all blocks.
// RUN: llmc-opt %s --llmc-emit-kernels=targets=cuda --llmc-map-to-threads | FileCheck %s

plan.stage @stage0 attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
  %a = plan.buffer scratch : !plan.buffer<64x512xf32>
  %b = plan.buffer scratch : !plan.buffer<f32>
  plan.procedure @forward forward {
    plan.launch reads(%a : !plan.buffer<64x512xf32>) writes(%b : !plan.buffer<f32>) attributes {stream = 0} {
    ^bb0(%x: tensor<64x512xf32>):
      %r = graph.reduce %x {kind = #graph.reduce_kind<sum>, dims = array<i64: 0, 1>} : (tensor<64x512xf32>) -> tensor<f32>
      plan.yield %r : tensor<f32>
    }
  }
}

// Two buffers, scratch, what the plan says of sizes, a range of rows.
// CHECK-NOT: addr_space = 1
// CHECK: func.func @{{.*}}(%{{[a-z0-9]+}}: !llvm.ptr<1> {llvm.align = 16 : i64}, %{{[a-z0-9]+}}: !llvm.ptr<1> {llvm.align = 16 : i64}, %[[SCRATCH:[a-z0-9]+]]: !llvm.ptr<1> {llvm.align = 16 : i64}, %{{[a-z0-9]+}}: i64
// CHECK-SAME: scratch_bytes = {{[0-9]+}} : i64
// Parts begin behind the count of blocks.
// CHECK: llvm.getelementptr %[[SCRATCH]][%{{.*}}] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, i64
// CHECK: llvm.store {{.*}} atomic syncscope("device") monotonic
// CHECK: llvm.fence syncscope("device") acq_rel
// CHECK: llvm.atomicrmw add %{{.*}}, %{{.*}} syncscope("device") monotonic
