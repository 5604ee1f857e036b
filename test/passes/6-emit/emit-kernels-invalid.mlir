// RUN: llmc-opt %s --llmc-emit-kernels --split-input-file --verify-diagnostics

plan.stage @s attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
  %a = plan.buffer scratch : !plan.buffer<4xf64>
  plan.procedure @f forward {
    // expected-error @below {{cpu kernels read f32, bf16, f16 and integers, got 'tensor<4xf64>'}}
    // expected-note @below {{in the kernel of this launch}}
    plan.launch reads(%a : !plan.buffer<4xf64>) writes(%a : !plan.buffer<4xf64>) attributes {stream = 0} {
    ^bb0(%x: tensor<4xf64>):
      %r = graph.neg %x : (tensor<4xf64>) -> tensor<4xf64>
      plan.yield %r : tensor<4xf64>
    }
  }
}

// -----
// Two reductions over different dims are two kernels.
plan.stage @s attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
  %a = plan.buffer scratch : !plan.buffer<4x5xf32>
  %r0 = plan.buffer scratch : !plan.buffer<4xf32>
  %r1 = plan.buffer scratch : !plan.buffer<5xf32>
  plan.procedure @f forward {
    // expected-note @below {{in the kernel of this launch}}
    plan.launch reads(%a : !plan.buffer<4x5xf32>) writes(%r0, %r1 : !plan.buffer<4xf32>, !plan.buffer<5xf32>) attributes {stream = 0} {
    ^bb0(%x: tensor<4x5xf32>):
      %r = graph.reduce %x {kind = #graph.reduce_kind<sum>, dims = array<i64: 1>} : (tensor<4x5xf32>) -> tensor<4xf32>
      // expected-error @below {{reduces other dims than the first reduction of its kernel}}
      %s = graph.reduce %x {kind = #graph.reduce_kind<sum>, dims = array<i64: 0>} : (tensor<4x5xf32>) -> tensor<5xf32>
      plan.yield %r, %s : tensor<4xf32>, tensor<5xf32>
    }
  }
}

// -----
// Ops with a kernel of their own read buffers, not expressions.
plan.stage @s attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
  %a = plan.buffer scratch : !plan.buffer<4x5xf32>
  %i = plan.buffer scratch : !plan.buffer<4xi64>
  %o = plan.buffer scratch : !plan.buffer<4xf32>
  plan.procedure @f forward {
    // expected-note @below {{in the kernel of this launch}}
    plan.launch reads(%a, %i : !plan.buffer<4x5xf32>, !plan.buffer<4xi64>) writes(%o : !plan.buffer<4xf32>) attributes {stream = 0} {
    ^bb0(%x: tensor<4x5xf32>, %ids: tensor<4xi64>):
      %n = graph.neg %x : (tensor<4x5xf32>) -> tensor<4x5xf32>
      // expected-error @below {{must read the launch's buffers directly}}
      %r = graph.take_along %n, %ids : (tensor<4x5xf32>, tensor<4xi64>) -> tensor<4xf32>
      plan.yield %r : tensor<4xf32>
    }
  }
}

// -----
// A reshape in the middle of a group moves elements to other points.
plan.stage @s attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
  %a = plan.buffer scratch : !plan.buffer<4x5xf32>
  %o = plan.buffer scratch : !plan.buffer<5x4xf32>
  plan.procedure @f forward {
    // expected-note @below {{in the kernel of this launch}}
    plan.launch reads(%a, %o : !plan.buffer<4x5xf32>, !plan.buffer<5x4xf32>) writes(%o : !plan.buffer<5x4xf32>) attributes {stream = 0} {
    ^bb0(%x: tensor<4x5xf32>, %y: tensor<5x4xf32>):
      // expected-error @below {{cannot be read at one point of a kernel's loops}}
      %n = graph.reshape %x : (tensor<4x5xf32>) -> tensor<5x4xf32>
      %r = graph.add %n, %y : (tensor<5x4xf32>, tensor<5x4xf32>) -> tensor<5x4xf32>
      plan.yield %r : tensor<5x4xf32>
    }
  }
}

// -----
plan.stage @s attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
  %a = plan.buffer scratch : !plan.buffer<4x4xf64>
  plan.procedure @f forward {
    // expected-error @below {{cpu kernels multiply f32 by f32 to f32, bf16 by bf16 to bf16 or f32, and f16 by f16 to f16 or f32, got '!plan.buffer<4x4xf64>'}}
    plan.matmul "ab,bc->ac" %a, %a into %a {stream = 0} : !plan.buffer<4x4xf64>, !plan.buffer<4x4xf64>, !plan.buffer<4x4xf64>
  }
}

// -----
// A row's number is known at its own place only.
plan.stage @s attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
  %a = plan.buffer scratch : !plan.buffer<4x5x6xf32>
  %o = plan.buffer scratch : !plan.buffer<5x4xf32>
  plan.procedure @f forward {
    // expected-note @below {{in the kernel of this launch}}
    plan.launch reads(%a : !plan.buffer<4x5x6xf32>) writes(%o : !plan.buffer<5x4xf32>) attributes {stream = 0} {
    ^bb0(%x: tensor<4x5x6xf32>):
      // expected-error @below {{is read where its kernel has no value of it}}
      %r = graph.reduce %x {kind = #graph.reduce_kind<sum>, dims = array<i64: 2>} : (tensor<4x5x6xf32>) -> tensor<4x5xf32>
      %t = graph.transpose %r {permutation = array<i64: 1, 0>} : (tensor<4x5xf32>) -> tensor<5x4xf32>
      plan.yield %t : tensor<5x4xf32>
    }
  }
}

// -----
plan.stage @s attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
  %x = plan.buffer scratch : !plan.buffer<2x4xf64>
  %w = plan.buffer scratch : !plan.buffer<5x4x3xf64>
  %r = plan.buffer scratch : !plan.buffer<2x2xi64>
  %y = plan.buffer scratch : !plan.buffer<2x2x3xf64>
  plan.procedure @f forward {
    // expected-error @below {{cpu kernels multiply f32 by f32 to f32, bf16 by bf16 to bf16 or f32, and f16 by f16 to f16 or f32, got '!plan.buffer<2x4xf64>'}}
    plan.grouped_matmul %x, %w by %r into %y {stream = 0} : !plan.buffer<2x4xf64>, !plan.buffer<5x4x3xf64>, !plan.buffer<2x2xi64>, !plan.buffer<2x2x3xf64>
  }
}

// -----
// Experts are counted on the stack.
plan.stage @s attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
  %a = plan.buffer scratch : !plan.buffer<4x2xi64>
  plan.procedure @f forward {
    // expected-note @below {{in the kernel of this launch}}
    plan.launch reads(%a : !plan.buffer<4x2xi64>) writes(%a : !plan.buffer<4x2xi64>) attributes {stream = 0} {
    ^bb0(%x: tensor<4x2xi64>):
      // expected-error @below {{has kernels for up to 8192 experts, got 9000}}
      %r = graph.limit_routes %x {capacity = 3, experts = 9000} : (tensor<4x2xi64>) -> tensor<4x2xi64>
      plan.yield %r : tensor<4x2xi64>
    }
  }
}
