// RUN: llmc-opt %s --llmc-bucket-reductions | FileCheck %s

// A sum of whole gradients is scattered as soon as the last backward has written it; a scatter into
// scratch is the update's own.
// CHECK: plan.procedure @backward backward
// CHECK-NEXT: plan.fill %[[G:[0-9a-z]+]]
// CHECK-NEXT: plan.fill
// CHECK-NEXT: {{^ *}$}}
// CHECK: plan.procedure @backward_last
// CHECK-NEXT: plan.fill %[[G]]
// CHECK-NEXT: plan.record [[DONE:[0-9]+]] step {{.*}}stream = 0
// CHECK-NEXT: plan.fill
// CHECK-NEXT: plan.wait [[DONE]] step {{.*}}stream = 2
// CHECK-NEXT: plan.collective reduce_scatter <sum> %[[G]] into %{{[0-9a-z]+}} over ["dp"] {{.*}}stream = 2
// CHECK-NEXT: plan.record [[ALL:[0-9]+]] step {{.*}}stream = 2
// CHECK: plan.procedure @update
// CHECK-NEXT: plan.wait [[ALL]] step
// CHECK-NEXT: plan.collective reduce_scatter
// CHECK-NEXT: {{^ *}$}}
module attributes {parallel.mesh = #parallel.mesh<["dp"=2, "pp"=1, "tp"=1]>} {
  graph.state @sum : tensor<8xf32> accumulator
  plan.stage @s attributes {stage = 0 : i64, chunks = [#plan.chunk<0, 0>], pools = [#plan.pool<0, 1>], table = []} {
    %g = plan.buffer persistent {binding = #plan.state<@sum, accumulator, dims = [[]], valid_shape = [8]>} : !plan.buffer<8xf32>
    %part = plan.buffer persistent : !plan.buffer<4xf32>
    %x = plan.buffer scratch : !plan.buffer<8xf32>
    %y = plan.buffer scratch : !plan.buffer<4xf32>
    plan.procedure @backward backward {
      plan.fill %g {stream = 0 : i64} : !plan.buffer<8xf32>
      plan.fill %x {stream = 0 : i64} : !plan.buffer<8xf32>
    }
    plan.procedure @update update {
      plan.collective reduce_scatter <sum> %g into %part over ["dp"] {stream = 0 : i64} : !plan.buffer<8xf32>, !plan.buffer<4xf32>
      plan.collective reduce_scatter <sum> %g into %y over ["dp"] {stream = 0 : i64} : !plan.buffer<8xf32>, !plan.buffer<4xf32>
    }
  }
}
