// RUN: llmc-opt %s --llmc-overlap-exchanges | FileCheck %s

// The shared expert is %x by %up and %down. Its gather starts before the rows go, for behind them it would
// wait; its first product runs while they go, its second one and what sums it while they come back. What
// nobody but the exchange needs stays between the two.
// CHECK: plan.procedure @forward
// CHECK-NEXT: plan.collective all_gather
// CHECK-NEXT: plan.copy
// CHECK-NEXT: plan.collective exchange_rows
// CHECK-NEXT: plan.matmul
// CHECK-NEXT: plan.grouped_matmul
// CHECK-NEXT: plan.collective exchange_rows
// CHECK-NEXT: plan.matmul
// CHECK-NEXT: plan.collective reduce_scatter
// CHECK-NEXT: plan.launch
// CHECK: plan.matmul

// The gradient of the experts' weights needs the rows that went, and not those that come back.
// CHECK: plan.procedure @backward
// CHECK-NEXT: plan.collective exchange_rows
// CHECK-NEXT: plan.grouped_matmul {{.*}} : !plan.buffer<8x4xf32>, !plan.buffer<2x4x4xf32>
// CHECK-NEXT: plan.collective exchange_rows
// CHECK-NEXT: plan.grouped_matmul {{.*}}accumulate

// What stands before an event, or on another stream, keeps its place: the product has no exchange to overlap with.
// CHECK: plan.procedure @border
// CHECK-NEXT: plan.matmul
// CHECK-NEXT: plan.record
// CHECK-NEXT: plan.collective exchange_rows
// CHECK-NEXT: plan.grouped_matmul
// CHECK-NEXT: plan.collective exchange_rows

// Exchanges that are no pair, as the first sends what the second sends too, are left alone.
// CHECK: plan.procedure @alone
// CHECK-NEXT: plan.collective exchange_rows
// CHECK-NEXT: plan.collective exchange_rows
// CHECK-NEXT: plan.matmul
module attributes {parallel.mesh = #parallel.mesh<["dp"=2, "pp"=1, "tp"=1]>} {
  plan.stage @s attributes {stage = 0 : i64, chunks = [#plan.chunk<0, 1>], pools = [#plan.pool<0, 1>], table = []} {
    %up = plan.buffer persistent : !plan.buffer<4x4xf32>
    %down = plan.buffer persistent : !plan.buffer<4x4xf32>
    %experts = plan.buffer persistent : !plan.buffer<2x4x4xf32>
    %grads = plan.buffer persistent : !plan.buffer<2x4x4xf32>
    %sent = plan.buffer scratch : !plan.buffer<2xi64>
    %got = plan.buffer scratch : !plan.buffer<2xi64>
    %routes = plan.buffer scratch : !plan.buffer<8xi64>
    %part = plan.buffer scratch : !plan.buffer<8x4xf32>
    %x = plan.buffer scratch : !plan.buffer<16x4xf32>
    %hidden = plan.buffer scratch : !plan.buffer<16x4xf32>
    %wide = plan.buffer scratch : !plan.buffer<16x4xf32>
    %shared = plan.buffer scratch : !plan.buffer<8x4xf32>
    %rows = plan.buffer scratch : !plan.buffer<8x4xf32>
    %there = plan.buffer scratch : !plan.buffer<8x4xf32>
    %product = plan.buffer scratch : !plan.buffer<8x4xf32>
    %back = plan.buffer scratch : !plan.buffer<8x4xf32>
    %sum = plan.buffer scratch : !plan.buffer<8x4xf32>
    %next = plan.buffer scratch : !plan.buffer<8x4xf32>
    plan.procedure @forward forward {
      plan.collective all_gather <sum> %part into %x over ["dp"] {stream = 0 : i64} : !plan.buffer<8x4xf32>, !plan.buffer<16x4xf32>
      plan.matmul "ad,de->ae" %x, %up into %hidden {stream = 0 : i64} : !plan.buffer<16x4xf32>, !plan.buffer<4x4xf32>, !plan.buffer<16x4xf32>
      plan.matmul "ad,de->ae" %hidden, %down into %wide {stream = 0 : i64} : !plan.buffer<16x4xf32>, !plan.buffer<4x4xf32>, !plan.buffer<16x4xf32>
      plan.collective reduce_scatter <sum> %wide into %shared over ["dp"] {stream = 0 : i64} : !plan.buffer<16x4xf32>, !plan.buffer<8x4xf32>
      plan.copy %part into %rows {stream = 0 : i64} : !plan.buffer<8x4xf32>, !plan.buffer<8x4xf32>
      plan.collective exchange_rows <sum> %rows into %there counts %sent, %got : !plan.buffer<2xi64>, !plan.buffer<2xi64> over ["dp"] {stream = 0 : i64} : !plan.buffer<8x4xf32>, !plan.buffer<8x4xf32>
      plan.grouped_matmul %there, %experts by %routes into %product {stream = 0 : i64} : !plan.buffer<8x4xf32>, !plan.buffer<2x4x4xf32>, !plan.buffer<8xi64>, !plan.buffer<8x4xf32>
      plan.collective exchange_rows <sum> %product into %back counts %got, %sent : !plan.buffer<2xi64>, !plan.buffer<2xi64> over ["dp"] {stream = 0 : i64} : !plan.buffer<8x4xf32>, !plan.buffer<8x4xf32>
      plan.launch reads(%back, %shared : !plan.buffer<8x4xf32>, !plan.buffer<8x4xf32>) writes(%sum : !plan.buffer<8x4xf32>) attributes {stream = 0 : i64} {
      ^bb0(%a: tensor<8x4xf32>, %b: tensor<8x4xf32>):
        %0 = graph.add %a, %b : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
        plan.yield %0 : tensor<8x4xf32>
      }
      plan.matmul "ad,de->ae" %sum, %up into %next {stream = 0 : i64} : !plan.buffer<8x4xf32>, !plan.buffer<4x4xf32>, !plan.buffer<8x4xf32>
    }
    plan.procedure @backward backward {
      plan.collective exchange_rows <sum> %rows into %there counts %sent, %got : !plan.buffer<2xi64>, !plan.buffer<2xi64> over ["dp"] {stream = 0 : i64} : !plan.buffer<8x4xf32>, !plan.buffer<8x4xf32>
      plan.grouped_matmul %there, %product by %routes into %grads accumulate {stream = 0 : i64} : !plan.buffer<8x4xf32>, !plan.buffer<8x4xf32>, !plan.buffer<8xi64>, !plan.buffer<2x4x4xf32>
      plan.grouped_matmul %there, %experts by %routes into %sum {stream = 0 : i64, transposed} : !plan.buffer<8x4xf32>, !plan.buffer<2x4x4xf32>, !plan.buffer<8xi64>, !plan.buffer<8x4xf32>
      plan.collective exchange_rows <sum> %sum into %back counts %got, %sent : !plan.buffer<2xi64>, !plan.buffer<2xi64> over ["dp"] {stream = 0 : i64} : !plan.buffer<8x4xf32>, !plan.buffer<8x4xf32>
    }
    plan.procedure @border forward {
      plan.matmul "ad,de->ae" %part, %up into %shared {stream = 0 : i64} : !plan.buffer<8x4xf32>, !plan.buffer<4x4xf32>, !plan.buffer<8x4xf32>
      plan.record 0 step {stream = 0 : i64}
      plan.collective exchange_rows <sum> %rows into %there counts %sent, %got : !plan.buffer<2xi64>, !plan.buffer<2xi64> over ["dp"] {stream = 0 : i64} : !plan.buffer<8x4xf32>, !plan.buffer<8x4xf32>
      plan.grouped_matmul %there, %experts by %routes into %product {stream = 0 : i64} : !plan.buffer<8x4xf32>, !plan.buffer<2x4x4xf32>, !plan.buffer<8xi64>, !plan.buffer<8x4xf32>
      plan.collective exchange_rows <sum> %product into %back counts %got, %sent : !plan.buffer<2xi64>, !plan.buffer<2xi64> over ["dp"] {stream = 0 : i64} : !plan.buffer<8x4xf32>, !plan.buffer<8x4xf32>
    }
    plan.procedure @alone forward {
      plan.collective exchange_rows <sum> %rows into %there counts %sent, %got : !plan.buffer<2xi64>, !plan.buffer<2xi64> over ["dp"] {stream = 0 : i64} : !plan.buffer<8x4xf32>, !plan.buffer<8x4xf32>
      plan.collective exchange_rows <sum> %there into %back counts %sent, %got : !plan.buffer<2xi64>, !plan.buffer<2xi64> over ["dp"] {stream = 0 : i64} : !plan.buffer<8x4xf32>, !plan.buffer<8x4xf32>
      plan.matmul "ad,de->ae" %part, %up into %shared {stream = 0 : i64} : !plan.buffer<8x4xf32>, !plan.buffer<4x4xf32>, !plan.buffer<8x4xf32>
    }
  }
}
