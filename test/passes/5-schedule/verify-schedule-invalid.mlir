// RUN: llmc-opt %s --split-input-file --verify-diagnostics --llmc-verify-schedule

// V1: everything became instructions.
// expected-error @+1 {{function of graph ops is left after scheduling}}
func.func @forward_0() {
  return
}

// -----

// V2: every buffer has its bytes.
// expected-error @+1 {{has no arena_bytes}}
plan.stage @s attributes {stage = 0 : i64, chunks = [#plan.chunk<0, 0>], pools = [#plan.pool<0, 1>],
    table = [#plan.entry<@forward, 0, 0>, #plan.entry<@backward, 0, 0>, #plan.entry<@update, 0, 0>]} {
  // expected-error @+1 {{has no offset}}
  %0 = plan.buffer persistent : !plan.buffer<16xf32>
  plan.procedure @forward forward {}
  plan.procedure @backward backward {}
  plan.procedure @update update {}
}

// -----

// V3: a collective says what it is for.
plan.stage @s attributes {stage = 0 : i64, chunks = [#plan.chunk<0, 0>], pools = [#plan.pool<0, 1>], arena_bytes = 64 : i64,
    table = [#plan.entry<@forward, 0, 0>, #plan.entry<@backward, 0, 0>, #plan.entry<@update, 0, 0>]} {
  %0 = plan.buffer persistent {offset = 0 : i64} : !plan.buffer<16xf32>
  plan.procedure @forward forward {}
  plan.procedure @backward backward {
    // expected-error @+1 {{collective has no origin}}
    plan.collective all_reduce <sum> %0 into %0 over ["dp"] {stream = 0 : i64} : !plan.buffer<16xf32>, !plan.buffer<16xf32>
  }
  plan.procedure @update update {}
}

// -----

// V4: a table runs backward after forward.
// expected-error @+1 {{table runs the backward of micro-batch 1 before its forward}}
plan.stage @s attributes {stage = 0 : i64, chunks = [#plan.chunk<0, 0>], pools = [#plan.pool<0, 1>], arena_bytes = 64 : i64,
    table = [#plan.entry<@forward, 0, 0>, #plan.entry<@backward, 1, 0>, #plan.entry<@update, 0, 0>]} {
  plan.procedure @forward forward {}
  plan.procedure @backward backward {}
  plan.procedure @update update {}
}

// -----

// V4: each micro-batch once.
// expected-error @+1 {{table runs micro-batch 1 1 times forward and 0 times backward, expected once each}}
plan.stage @s attributes {stage = 0 : i64, chunks = [#plan.chunk<0, 0>], pools = [#plan.pool<0, 1>], arena_bytes = 64 : i64,
    table = [#plan.entry<@forward, 0, 0>, #plan.entry<@backward, 0, 0>, #plan.entry<@forward, 1, 0>, #plan.entry<@update, 0, 0>]} {
  plan.procedure @forward forward {}
  plan.procedure @backward backward {}
  plan.procedure @update update {}
}

// -----

// V4: the update is there, and ends the step.
// expected-error @+1 {{table does not end with an update}}
plan.stage @s attributes {stage = 0 : i64, chunks = [#plan.chunk<0, 0>], pools = [#plan.pool<0, 1>], arena_bytes = 64 : i64,
    table = [#plan.entry<@forward, 0, 0>, #plan.entry<@backward, 0, 0>]} {
  plan.procedure @forward forward {}
  plan.procedure @backward backward {}
}

// -----

// expected-error @+1 {{table goes on after the update}}
plan.stage @s attributes {stage = 0 : i64, chunks = [#plan.chunk<0, 0>], pools = [#plan.pool<0, 1>], arena_bytes = 64 : i64,
    table = [#plan.entry<@forward, 0, 0>, #plan.entry<@update, 0, 0>, #plan.entry<@backward, 0, 0>]} {
  plan.procedure @forward forward {}
  plan.procedure @backward backward {}
  plan.procedure @update update {}
}

// -----

// V5: a mask is drawn again, never kept. It is one whether its ones come from a buffer or not; what is
// dropped from data is none.
plan.stage @s attributes {stage = 0 : i64, chunks = [#plan.chunk<0, 0>], pools = [#plan.pool<0, 1>], arena_bytes = 1024 : i64,
    table = [#plan.entry<@forward, 0, 0>, #plan.entry<@backward, 0, 0>, #plan.entry<@update, 0, 0>]} {
  %x = plan.buffer slot {offset = 0 : i64, slot_stride = 0 : i64} : !plan.buffer<2x4xf32>
  %key = plan.buffer slot {offset = 64 : i64, slot_stride = 0 : i64} : !plan.buffer<2x1xi64>
  %ones = plan.buffer slot {offset = 128 : i64, slot_stride = 0 : i64} : !plan.buffer<2x4xf32>
  %mask = plan.buffer slot {offset = 192 : i64, slot_stride = 0 : i64} : !plan.buffer<2x4xf32>
  %dropped = plan.buffer slot {offset = 256 : i64, slot_stride = 0 : i64} : !plan.buffer<2x4xf32>
  plan.procedure @forward forward {
    plan.launch reads() writes(%ones : !plan.buffer<2x4xf32>) attributes {stream = 0 : i64} {
      %0 = graph.constant dense<1.0> : tensor<2x4xf32>
      plan.yield %0 : tensor<2x4xf32>
    }
    // expected-error @+1 {{V5: writes a mask of dropout, of 'tensor<2x4xf32>', to a buffer}}
    plan.launch reads(%ones, %key : !plan.buffer<2x4xf32>, !plan.buffer<2x1xi64>) writes(%mask : !plan.buffer<2x4xf32>) attributes {stream = 0 : i64} {
    ^bb0(%a: tensor<2x4xf32>, %k: tensor<2x1xi64>):
      %l = graph.constant dense<1> : tensor<i64>
      %i = graph.iota {dim = 0} : () -> tensor<4xi64>
      %0 = graph.dropout %a, %k, %l, %l, %i {rate = 0.1, place = 0} : (tensor<2x4xf32>, tensor<2x1xi64>, tensor<i64>, tensor<i64>, tensor<4xi64>) -> tensor<2x4xf32>
      plan.yield %0 : tensor<2x4xf32>
    }
    plan.launch reads(%x, %key : !plan.buffer<2x4xf32>, !plan.buffer<2x1xi64>) writes(%dropped : !plan.buffer<2x4xf32>) attributes {stream = 0 : i64} {
    ^bb0(%a: tensor<2x4xf32>, %k: tensor<2x1xi64>):
      %l = graph.constant dense<1> : tensor<i64>
      %i = graph.iota {dim = 0} : () -> tensor<4xi64>
      %0 = graph.dropout %a, %k, %l, %l, %i {rate = 0.1, place = 0} : (tensor<2x4xf32>, tensor<2x1xi64>, tensor<i64>, tensor<i64>, tensor<4xi64>) -> tensor<2x4xf32>
      plan.yield %0 : tensor<2x4xf32>
    }
  }
  plan.procedure @backward backward {
    // expected-error @+1 {{V5: writes a mask of dropout, of 'tensor<2x4xf32>', to a buffer}}
    plan.launch reads(%key : !plan.buffer<2x1xi64>) writes(%mask : !plan.buffer<2x4xf32>) attributes {stream = 0 : i64} {
    ^bb0(%k: tensor<2x1xi64>):
      %one = graph.constant dense<1.0> : tensor<2x4xf32>
      %l = graph.constant dense<1> : tensor<i64>
      %i = graph.iota {dim = 0} : () -> tensor<4xi64>
      %0 = graph.dropout %one, %k, %l, %l, %i {rate = 0.1, place = 0} : (tensor<2x4xf32>, tensor<2x1xi64>, tensor<i64>, tensor<i64>, tensor<4xi64>) -> tensor<2x4xf32>
      %1 = graph.neg %0 : (tensor<2x4xf32>) -> tensor<2x4xf32>
      plan.yield %1 : tensor<2x4xf32>
    }
  }
  plan.procedure @update update {}
}

// -----

// V6: a rank of a ring has as many keys as rows.
module attributes {plan.options = {cp_kind = "ring"}} {
plan.stage @s attributes {stage = 0 : i64, chunks = [#plan.chunk<0, 0>], pools = [#plan.pool<0, 1>], arena_bytes = 1024 : i64,
    table = [#plan.entry<@forward, 0, 0>, #plan.entry<@backward, 0, 0>, #plan.entry<@update, 0, 0>]} {
  %q = plan.buffer slot {offset = 0 : i64, slot_stride = 0 : i64} : !plan.buffer<1x2x1x4xf32>
  %k = plan.buffer slot {offset = 64 : i64, slot_stride = 0 : i64} : !plan.buffer<1x4x1x4xf32>
  %l = plan.buffer slot {offset = 128 : i64, slot_stride = 0 : i64} : !plan.buffer<1x2x1xf32>
  plan.procedure @forward forward {
    // expected-error @+1 {{V6: has 4 keys for 2 rows, those of several ranks of a ring; a rank has as many keys as rows, and the others in turn}}
    plan.launch reads(%q, %k : !plan.buffer<1x2x1x4xf32>, !plan.buffer<1x4x1x4xf32>) writes(%q, %l : !plan.buffer<1x2x1x4xf32>, !plan.buffer<1x2x1xf32>) attributes {stream = 0 : i64} {
    ^bb0(%a: tensor<1x2x1x4xf32>, %b: tensor<1x4x1x4xf32>):
      %o, %s = graph.attention %a, %b, %b {scale = 0.5, causal = false} : (tensor<1x2x1x4xf32>, tensor<1x4x1x4xf32>, tensor<1x4x1x4xf32>) -> (tensor<1x2x1x4xf32>, tensor<1x2x1xf32>)
      plan.yield %o, %s : tensor<1x2x1x4xf32>, tensor<1x2x1xf32>
    }
  }
  plan.procedure @backward backward {
    // expected-error @+1 {{V6: has 4 keys for 2 rows}}
    plan.launch reads(%q, %k, %l : !plan.buffer<1x2x1x4xf32>, !plan.buffer<1x4x1x4xf32>, !plan.buffer<1x2x1xf32>) writes(%q, %k, %k : !plan.buffer<1x2x1x4xf32>, !plan.buffer<1x4x1x4xf32>, !plan.buffer<1x4x1x4xf32>) attributes {stream = 0 : i64} {
    ^bb0(%a: tensor<1x2x1x4xf32>, %b: tensor<1x4x1x4xf32>, %c: tensor<1x2x1xf32>):
      %dq, %dk, %dv = graph.attention_grad %a, %a, %b, %b, %a, %c {scale = 0.5, causal = false} : (tensor<1x2x1x4xf32>, tensor<1x2x1x4xf32>, tensor<1x4x1x4xf32>, tensor<1x4x1x4xf32>, tensor<1x2x1x4xf32>, tensor<1x2x1xf32>) -> (tensor<1x2x1x4xf32>, tensor<1x4x1x4xf32>, tensor<1x4x1x4xf32>)
      plan.yield %dq, %dk, %dv : tensor<1x2x1x4xf32>, tensor<1x4x1x4xf32>, tensor<1x4x1x4xf32>
    }
  }
  plan.procedure @update update {}
}
}
