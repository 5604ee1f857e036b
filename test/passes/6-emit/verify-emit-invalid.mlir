// RUN: llmc-opt %s --split-input-file --verify-diagnostics --llmc-verify-emit

// K1, K2, K3: nothing was emitted.
plan.stage @stage0 attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
  %a = plan.buffer scratch : !plan.buffer<4x4xf32>
  %b = plan.buffer scratch : !plan.buffer<4x4xf32>
  plan.procedure @forward forward {
    // expected-error @+2 {{K1: names no kernel of @kernels, got ''}}
    // expected-error @+1 {{K2: has no number of rows}}
    plan.launch reads(%a : !plan.buffer<4x4xf32>) writes(%a : !plan.buffer<4x4xf32>) attributes {stream = 0} {
    ^bb0(%x: tensor<4x4xf32>):
      %r = graph.tanh %x : (tensor<4x4xf32>) -> tensor<4x4xf32>
      plan.yield %r : tensor<4x4xf32>
    }
    // expected-error @+1 {{K3: names no kernel of @kernels, got ''}}
    plan.matmul "ab,bc->ac" %a, %a into %b {stream = 0} : !plan.buffer<4x4xf32>, !plan.buffer<4x4xf32>, !plan.buffer<4x4xf32>
  }
}

// -----

// K2: no rows for four elements, and more rows than there are elements.
module {
  module @kernels {
    func.func @tanh() {
      return
    }
  }
  plan.stage @stage0 attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
    %a = plan.buffer scratch : !plan.buffer<4xf32>
    plan.procedure @forward forward {
      // expected-error @+1 {{K2: has 0 rows, which do not fit its operands}}
      plan.launch reads(%a : !plan.buffer<4xf32>) writes(%a : !plan.buffer<4xf32>) attributes {kernel = "tanh", rows = 0 : i64, stream = 0} {
      ^bb0(%x: tensor<4xf32>):
        %r = graph.tanh %x : (tensor<4xf32>) -> tensor<4xf32>
        plan.yield %r : tensor<4xf32>
      }
      // expected-error @+1 {{K2: has 9 rows, which do not fit its operands}}
      plan.launch reads(%a : !plan.buffer<4xf32>) writes(%a : !plan.buffer<4xf32>) attributes {kernel = "tanh", rows = 9 : i64, stream = 0} {
      ^bb0(%x: tensor<4xf32>):
        %r = graph.tanh %x : (tensor<4xf32>) -> tensor<4xf32>
        plan.yield %r : tensor<4xf32>
      }
    }
  }
}

// -----

// K4: a kernel that nobody launches.
module {
  module @kernels {
    // expected-error @+1 {{K4: no launch uses this kernel}}
    func.func @lonely() {
      return
    }
  }
}

// -----

// K5: AVX-512 lacks a kernel that AVX2 has.
module {
  module @kernels {
    // expected-error @+1 {{K4: no launch uses this kernel}}
    func.func @lonely() {
      return
    }
  }
  // expected-error @+1 {{K5: defines other kernels than @kernels}}
  module @kernels_avx512 {
  }
}
