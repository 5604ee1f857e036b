// RUN: llmc-opt %s --split-input-file --llmc-bucket-reductions | FileCheck %s

// What an accumulator is cast to is summed in its place: the cast moves along, to the stream of the
// sums, and the sum stays until the update has read it. Two layers finish apart.
// CHECK-LABEL: plan.stage @whole
// CHECK: %[[ALL:.*]] = plan.buffer persistent : !plan.buffer<8xbf16>
// CHECK: %[[X:.*]] = plan.buffer persistent of %[[ALL]] {{.*}}at 0 : !plan.buffer<2x4xbf16>
// CHECK: %[[BUCKET:.*]] = plan.buffer persistent of %[[ALL]] {{.*}}at 0 : !plan.buffer<8xbf16>
// CHECK: plan.procedure @backward_last
// CHECK: plan.fill
// CHECK-NEXT: plan.fill
// CHECK-NEXT: plan.record [[DONE:[0-9]+]] step {{.*}}stream = 0
// CHECK-NEXT: plan.wait [[DONE]] step {{.*}}stream = 2
// CHECK-NEXT: plan.launch reads(%{{.*}}stream = 2
// CHECK: plan.launch reads(%{{.*}}stream = 2
// CHECK: plan.collective all_reduce <sum> %[[BUCKET]] into %[[BUCKET]] over ["dp"] {{.*}}stream = 2
// CHECK: plan.procedure @update
// CHECK-NEXT: plan.wait
// CHECK-NEXT: plan.copy %[[X]] into
// CHECK-NEXT: {{^ *}$}}
module attributes {parallel.mesh = #parallel.mesh<["dp"=2, "pp"=1, "tp"=1]>} {
  graph.source @s0 : tensor<4xf32> {init = #graph.init_kind<ones>}
  graph.source @s1 : tensor<4xf32> {init = #graph.init_kind<ones>}
  graph.state @p : tensor<2x4xf32> parameter stacked views [#graph.view<@s0, 0, [1]>, #graph.view<@s1, 0, [1]>]
  graph.state @p.grad : tensor<2x4xf32> accumulator stacked of @p
  plan.stage @whole attributes {stage = 0 : i64, chunks = [#plan.chunk<0, 1>], pools = [#plan.pool<0, 1>], table = []} {
    %g = plan.buffer persistent {binding = #plan.state<@p.grad, accumulator, layers = [0, 2], dims = [[]], valid_shape = [4]>} : !plan.buffer<2x4xf32>
    %g0 = plan.buffer persistent of %g : !plan.buffer<2x4xf32> at 0 : !plan.buffer<4xf32>
    %g1 = plan.buffer persistent of %g : !plan.buffer<2x4xf32> at 16 : !plan.buffer<4xf32>
    %x = plan.buffer scratch : !plan.buffer<2x4xbf16>
    %x0 = plan.buffer scratch of %x : !plan.buffer<2x4xbf16> at 0 : !plan.buffer<4xbf16>
    %x1 = plan.buffer scratch of %x : !plan.buffer<2x4xbf16> at 8 : !plan.buffer<4xbf16>
    %y = plan.buffer persistent : !plan.buffer<2x4xbf16>
    plan.procedure @backward backward {
      plan.fill %g1 {stream = 0 : i64} : !plan.buffer<4xf32>
      plan.fill %g0 {stream = 0 : i64} : !plan.buffer<4xf32>
    }
    plan.procedure @update update {
      plan.launch reads(%g0 : !plan.buffer<4xf32>) writes(%x0 : !plan.buffer<4xbf16>) attributes {stream = 0 : i64} {
      ^bb0(%a: tensor<4xf32>):
        %r = graph.cast %a : (tensor<4xf32>) -> tensor<4xbf16>
        plan.yield %r : tensor<4xbf16>
      }
      plan.collective all_reduce <sum> %x0 into %x0 over ["dp"] {stream = 0 : i64} : !plan.buffer<4xbf16>, !plan.buffer<4xbf16>
      plan.launch reads(%g1 : !plan.buffer<4xf32>) writes(%x1 : !plan.buffer<4xbf16>) attributes {stream = 0 : i64} {
      ^bb0(%a: tensor<4xf32>):
        %r = graph.cast %a : (tensor<4xf32>) -> tensor<4xbf16>
        plan.yield %r : tensor<4xbf16>
      }
      plan.collective all_reduce <sum> %x1 into %x1 over ["dp"] {stream = 0 : i64} : !plan.buffer<4xbf16>, !plan.buffer<4xbf16>
      plan.copy %x into %y {stream = 0 : i64} : !plan.buffer<2x4xbf16>, !plan.buffer<2x4xbf16>
    }
  }
}

// -----

// Where another value has the bytes before the cast, the sum stays in the update.
// CHECK-LABEL: plan.stage @shared
// CHECK: plan.procedure @update
// CHECK: plan.copy
// CHECK-NEXT: plan.launch
// CHECK: plan.collective all_reduce
module attributes {parallel.mesh = #parallel.mesh<["dp"=2, "pp"=1, "tp"=1]>} {
  graph.source @s : tensor<4xf32> {init = #graph.init_kind<ones>}
  graph.state @p : tensor<4xf32> parameter views [#graph.view<@s, 0, [1]>]
  graph.state @p.grad : tensor<4xf32> accumulator of @p
  plan.stage @shared attributes {stage = 0 : i64, chunks = [#plan.chunk<0, 1>], pools = [#plan.pool<0, 1>], table = []} {
    %g = plan.buffer persistent {binding = #plan.state<@p.grad, accumulator, dims = [[]], valid_shape = [4]>} : !plan.buffer<4xf32>
    %x = plan.buffer scratch : !plan.buffer<4xbf16>
    %y = plan.buffer persistent : !plan.buffer<4xbf16>
    plan.procedure @backward backward {
      plan.fill %g {stream = 0 : i64} : !plan.buffer<4xf32>
    }
    plan.procedure @update update {
      plan.copy %y into %x {stream = 0 : i64} : !plan.buffer<4xbf16>, !plan.buffer<4xbf16>
      plan.launch reads(%g : !plan.buffer<4xf32>) writes(%x : !plan.buffer<4xbf16>) attributes {stream = 0 : i64} {
      ^bb0(%a: tensor<4xf32>):
        %r = graph.cast %a : (tensor<4xf32>) -> tensor<4xbf16>
        plan.yield %r : tensor<4xbf16>
      }
      plan.collective all_reduce <sum> %x into %x over ["dp"] {stream = 0 : i64} : !plan.buffer<4xbf16>, !plan.buffer<4xbf16>
    }
  }
}
