// A thread that computes a row by itself keeps the row's array for itself; threads share out rows.
// RUN: llmc-opt %s --llmc-emit-kernels=targets=cuda --llmc-map-to-threads | FileCheck %s

plan.stage @stage0 attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
  %a = plan.buffer scratch : !plan.buffer<6x5x2xi64>
  %b = plan.buffer scratch : !plan.buffer<6x5x2xi64>
  plan.procedure @forward forward {
    // CHECK: kernel = "limit_routes", rows = 6 : i64
    plan.launch reads(%a : !plan.buffer<6x5x2xi64>) writes(%b : !plan.buffer<6x5x2xi64>) attributes {stream = 0} {
    ^bb0(%x: tensor<6x5x2xi64>):
      %r = graph.limit_routes %x {capacity = 3, experts = 8} : (tensor<6x5x2xi64>) -> tensor<6x5x2xi64>
      plan.yield %r : tensor<6x5x2xi64>
    }
  }
}

// CHECK-LABEL: func.func @limit_routes(
// CHECK: gpu.thread_id
// CHECK: %[[TAKEN:.*]] = llvm.alloca %{{.*}} x i64
// CHECK: scf.for {{.*}} step %c256_i64
// CHECK-NOT: gpu.barrier
// CHECK:   llvm.getelementptr %[[TAKEN]]
