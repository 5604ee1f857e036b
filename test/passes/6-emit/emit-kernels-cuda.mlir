// RUN: llmc-opt %s --llmc-emit-kernels=targets=avx2,avx512,cuda --llmc-verify-emit | FileCheck %s

// Where a library does the work on a card, rows are those of the CPU's kernels.
plan.stage @stage0 attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
  %q = plan.buffer scratch : !plan.buffer<2x8x4x4xf32>
  %o = plan.buffer scratch : !plan.buffer<2x8x4x4xf32>
  %l = plan.buffer scratch : !plan.buffer<2x8x4xf32>
  %a = plan.buffer scratch : !plan.buffer<6x8xf32>
  %b = plan.buffer scratch : !plan.buffer<8x5xf32>
  %c = plan.buffer scratch : !plan.buffer<6x5xf32>
  plan.procedure @forward forward {
    // CHECK: kernel = "attention", rows = 8 : i64
    plan.launch reads(%q, %q, %q : !plan.buffer<2x8x4x4xf32>, !plan.buffer<2x8x4x4xf32>, !plan.buffer<2x8x4x4xf32>) writes(%o, %l : !plan.buffer<2x8x4x4xf32>, !plan.buffer<2x8x4xf32>) attributes {stream = 0} {
    ^bb0(%x: tensor<2x8x4x4xf32>, %k: tensor<2x8x4x4xf32>, %v: tensor<2x8x4x4xf32>):
      %r, %s = graph.attention %x, %k, %v {scale = 0.5, causal = true} : (tensor<2x8x4x4xf32>, tensor<2x8x4x4xf32>, tensor<2x8x4x4xf32>) -> (tensor<2x8x4x4xf32>, tensor<2x8x4xf32>)
      plan.yield %r, %s : tensor<2x8x4x4xf32>, tensor<2x8x4xf32>
    }
    // CHECK: kernel = "matmul", rows = 6 : i64
    plan.launch reads(%a, %b : !plan.buffer<6x8xf32>, !plan.buffer<8x5xf32>) writes(%c : !plan.buffer<6x5xf32>) attributes {stream = 0} {
    ^bb0(%x: tensor<6x8xf32>, %y: tensor<8x5xf32>):
      %r = graph.matmul "ab,bc->ac" %x, %y : (tensor<6x8xf32>, tensor<8x5xf32>) -> tensor<6x5xf32>
      plan.yield %r : tensor<6x5xf32>
    }
  }
}
