// RUN: llmc-opt %s --llmc-emit-kernels --llmc-verify-emit | FileCheck %s

// What EmitKernels leaves passes.
// CHECK: kernel = "tanh"
plan.stage @stage0 attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
  %a = plan.buffer scratch : !plan.buffer<3x20xf32>
  plan.procedure @forward forward {
    plan.launch reads(%a : !plan.buffer<3x20xf32>) writes(%a : !plan.buffer<3x20xf32>) attributes {stream = 0} {
    ^bb0(%x: tensor<3x20xf32>):
      %r = graph.tanh %x : (tensor<3x20xf32>) -> tensor<3x20xf32>
      plan.yield %r : tensor<3x20xf32>
    }
  }
}
