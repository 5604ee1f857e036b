// RUN: llmc-opt %s --split-input-file --verify-diagnostics

// expected-error @below {{C1: table row 0 names procedure @missing that the stage does not have}}
plan.stage @s attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = [#plan.entry<@missing, 0, 0>]} {
}

// -----
// expected-error @below {{C2: table row 0 uses slot 1 of 1}}
plan.stage @s attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = [#plan.entry<@f, 0, 1>]} {
  plan.procedure @f forward {
  }
}

// -----
// expected-error @below {{C2: needs at least one slot, got 0}}
plan.stage @s attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 0>], table = []} {
}

// -----
plan.stage @s attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 2>], arena_bytes = 64, table = []} {
  // expected-error @below {{C3: has no offset although the stage has arena_bytes}}
  %a = plan.buffer step : !plan.buffer<4xf32>
}

// -----
plan.stage @s attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 2>], arena_bytes = 64, table = []} {
  // expected-error @below {{C3: bytes [16, 68) over all slots are outside the arena of 64}}
  %a = plan.buffer slot {offset = 16, slot_stride = 36} : !plan.buffer<4xf32>
}

// -----
plan.stage @s attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
  plan.procedure @f forward {
  }
  // expected-error @below {{C4: buffers come before procedures}}
  %a = plan.buffer step : !plan.buffer<4xf32>
}

// -----
plan.stage @s attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
  // expected-error @below {{C4: a stage holds buffers and procedures only}}
  plan.record 0 {stream = 0}
}

// -----
plan.stage @s attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
  %a = plan.buffer step : !plan.buffer<4xf32>
  // expected-error @below {{C1: view of bytes [8, 24) leaves its parent of 16}}
  %b = plan.buffer step of %a : !plan.buffer<4xf32> at 8 : !plan.buffer<4xf32>
}

// -----
plan.stage @s attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
  // expected-error @below {{C1: a displacement needs a parent}}
  %b = plan.buffer step at 8 : !plan.buffer<4xf32>
}

// -----
plan.stage @s attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
  // expected-error @below {{C2: a scratch buffer has no binding}}
  %a = plan.buffer scratch {binding = #plan.input<"x">} : !plan.buffer<4xf32>
}

// -----
plan.stage @s attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
  %a = plan.buffer step : !plan.buffer<4xf32>
  // expected-error @below {{C3: a view lies in the space of its parent (step)}}
  %b = plan.buffer slot of %a : !plan.buffer<4xf32> : !plan.buffer<4xf32>
}

// -----
plan.stage @s attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
  %a = plan.buffer step : !plan.buffer<4xf32>
  // expected-error @below {{C3: a view takes its offset from its parent}}
  %b = plan.buffer step of %a : !plan.buffer<4xf32> {offset = 0} : !plan.buffer<4xf32>
}

// -----
plan.stage @s attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
  // expected-error @below {{failed to satisfy constraint: #plan.state, #plan.flat, #plan.input, #plan.scalar or #plan.output}}
  %a = plan.buffer step {binding = {input = "x"}} : !plan.buffer<4xf32>
}

// -----
plan.stage @s attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
  // expected-error @below {{C5: only a slot buffer has a slot_stride}}
  %a = plan.buffer step {slot_stride = 64} : !plan.buffer<4xf32>
}

// -----
plan.stage @s attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
  // expected-error @below {{expected one of [required, zeros, ones, positions, row_ids, dropout_keys]}}
  // expected-error @below {{failed to parse Plan_InputBindingAttr}}
  // expected-error @below {{failed to parse Graph_LoaderAttr}}
  %a = plan.buffer slot {binding = #plan.input<"x", loader = <default_value = twos>>} : !plan.buffer<4x8xi64>
}

// -----
plan.stage @s attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
  // expected-error @below {{C1: dims are lists of axes, got ["dp"]}}
  %a = plan.buffer slot {binding = #plan.input<"x", dims = ["dp"]>} : !plan.buffer<4xi64>
}

// -----
plan.stage @s attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
  // expected-error @below {{C4: an input of rank 1 has axes for each dim}}
  %a = plan.buffer slot {binding = #plan.input<"x", dims = [["dp"], ["cp"]]>} : !plan.buffer<4xi64>
}

// -----
plan.stage @s attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
  // expected-error @below {{C1: an input is permuted along a dim behind its rows, in block_order}}
  // expected-error @below {{failed to parse}}
  %a = plan.buffer slot {binding = #plan.input<"x", loader = <permuted_dim = 0, block_order = [1, 0]>>} : !plan.buffer<4x8xi64>
}

// -----
plan.stage @s attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
  // expected-error @below {{C1: an input is permuted along a dim behind its rows, in block_order}}
  // expected-error @below {{failed to parse}}
  %a = plan.buffer slot {binding = #plan.input<"x", loader = <permuted_dim = 1>>} : !plan.buffer<4x8xi64>
}

// -----
plan.stage @s attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
  // expected-error @below {{C1: block_order is no permutation, got array<i64: 1, 1>}}
  // expected-error @below {{failed to parse}}
  %a = plan.buffer slot {binding = #plan.input<"x", loader = <permuted_dim = 1, block_order = [1, 1]>>} : !plan.buffer<4x8xi64>
}

// -----
plan.stage @s attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
  // expected-error @below {{C4: an input is permuted along a dim behind its rows, in block_order}}
  %a = plan.buffer slot {binding = #plan.input<"x", loader = <permuted_dim = 1, block_order = [1, 0]>>} : !plan.buffer<4xi64>
}

// -----
plan.stage @s attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
  // expected-error @below {{C1: dims has axes of 1 dims, the shape 2 sizes}}
  %a = plan.buffer persistent {binding = #plan.state<@x, parameter, dims = [[]], valid_shape = [4, 8]>} : !plan.buffer<4x8xf32>
}

// -----
plan.stage @s attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
  // expected-error @below {{C2: layers are a first one and a positive count}}
  %a = plan.buffer persistent {binding = #plan.state<@x, parameter, layers = [1, 0], dims = [[]], valid_shape = [8]>} : !plan.buffer<1x8xf32>
}

// -----
plan.stage @s attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
  // expected-error @below {{C1: dims and valid_shape come together}}
  %a = plan.buffer step {binding = #plan.output<"y", dims = [[]]>} : !plan.buffer<4xf32>
}

// -----
plan.stage @s attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
  // expected-error @below {{C6: a flat buffer has one dim, got 2}}
  %a = plan.buffer persistent {binding = #plan.flat<["dp"] parts [#plan.flat_part<state = <@x, parameter, dims = [[], []], valid_shape = [2, 3]>, begin = 0, shape = [2, 3]>]>} : !plan.buffer<2x4xf32>
}

// -----
plan.stage @s attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
  // expected-error @below {{C1: sizes are 1 and more, with axes for each}}
  // expected-error @below {{failed to parse}}
  %a = plan.buffer persistent {binding = #plan.flat<["dp"] parts [#plan.flat_part<state = <@x, parameter, dims = [[], []], valid_shape = [2, 3]>, begin = 0, shape = [-2, -3]>]>} : !plan.buffer<8xf32>
}

// -----
plan.stage @s attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
  // expected-error @below {{C1: sizes are 1 and more, with axes for each}}
  // expected-error @below {{failed to parse}}
  %a = plan.buffer persistent {binding = #plan.flat<["dp"] parts [#plan.flat_part<state = <@x, parameter, dims = [[], []], valid_shape = [2, 3]>, begin = 0, shape = [6]>]>} : !plan.buffer<8xf32>
}

// -----
plan.stage @s attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
  // expected-error @below {{C2: a part of a stacked state is one layer}}
  // expected-error @below {{failed to parse}}
  %a = plan.buffer persistent {binding = #plan.flat<["dp"] parts [#plan.flat_part<state = <@x, parameter, layers = [0, 2], dims = [[]], valid_shape = [3]>, begin = 0, shape = [2, 3]>]>} : !plan.buffer<8xf32>
}

// -----
plan.stage @s attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
  // expected-error @below {{C1: @y begins at element 5, and the one before it ends at 6}}
  %a = plan.buffer persistent {binding = #plan.flat<["dp"] parts [#plan.flat_part<state = <@x, parameter, dims = [[], []], valid_shape = [2, 3]>, begin = 0, shape = [2, 3]>, #plan.flat_part<state = <@y, parameter, dims = [[]], valid_shape = [3]>, begin = 5, shape = [3]>]>} : !plan.buffer<8xf32>
}

// -----
plan.stage @s attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
  // expected-error @below {{C1: parts have one role}}
  %a = plan.buffer persistent {binding = #plan.flat<["dp"] parts [#plan.flat_part<state = <@x, parameter, dims = [[], []], valid_shape = [2, 3]>, begin = 0, shape = [2, 3]>, #plan.flat_part<state = <@y, moment1, dims = [[]], valid_shape = [3]>, begin = 6, shape = [3]>]>} : !plan.buffer<8xf32>
}

// -----
plan.stage @s attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
  %a = plan.buffer step : !plan.buffer<4xf32>
  plan.procedure @f forward {
    // expected-error @below {{C1: a procedure holds instructions only}}
    %b = plan.buffer step : !plan.buffer<4xf32>
  }
}

// -----
plan.stage @s attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
  plan.procedure @f forward {
    // expected-error @below {{C2: stream is in [0, 255], got 256}}
    plan.record 0 {stream = 256}
  }
}

// -----
plan.stage @s attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
  %a = plan.buffer step : !plan.buffer<4xf32>
  plan.procedure @f forward {
    // expected-error @below {{C1: body has 2 arguments for 1 reads and 0 scalars}}
    plan.launch reads(%a : !plan.buffer<4xf32>) writes(%a : !plan.buffer<4xf32>) attributes {stream = 0} {
    ^bb0(%x: tensor<4xf32>, %y: tensor<4xf32>):
      plan.yield %x : tensor<4xf32>
    }
  }
}

// -----
plan.stage @s attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
  %a = plan.buffer step : !plan.buffer<4xf32>
  plan.procedure @f forward {
    // expected-error @below {{C1: body argument 0 is 'tensor<5xf32>', its buffer holds 'tensor<4xf32>'}}
    plan.launch reads(%a : !plan.buffer<4xf32>) writes(%a : !plan.buffer<4xf32>) attributes {stream = 0} {
    ^bb0(%x: tensor<5xf32>):
      plan.yield %x : tensor<5xf32>
    }
  }
}

// -----
plan.stage @s attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
  %a = plan.buffer step : !plan.buffer<4xf32>
  %b = plan.buffer step : !plan.buffer<2xf32>
  plan.procedure @f forward {
    // expected-error @below {{C1: body yields 'tensor<4xf32>' for a buffer of 'tensor<2xf32>'}}
    plan.launch reads(%a : !plan.buffer<4xf32>) writes(%b : !plan.buffer<2xf32>) attributes {stream = 0} {
    ^bb0(%x: tensor<4xf32>):
      plan.yield %x : tensor<4xf32>
    }
  }
}

// -----
plan.stage @s attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
  %a = plan.buffer step : !plan.buffer<4xf32>
  plan.procedure @f forward {
    // expected-error @below {{C1: body yields 0 tensors for 1 writes}}
    plan.launch reads(%a : !plan.buffer<4xf32>) writes(%a : !plan.buffer<4xf32>) attributes {stream = 0} {
    ^bb0(%x: tensor<4xf32>):
      plan.yield
    }
  }
}

// -----
plan.stage @s attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
  %a = plan.buffer step : !plan.buffer<4xf32>
  plan.procedure @f forward {
    // expected-error @below {{C1: scalar argument 1 is 'tensor<f32>', must be 'tensor<i64>'}}
    plan.launch reads(%a : !plan.buffer<4xf32>) writes(%a : !plan.buffer<4xf32>) attributes {stream = 0, scalars = [array<i64: 0>]} {
    ^bb0(%x: tensor<4xf32>, %y: tensor<f32>):
      plan.yield %x : tensor<4xf32>
    }
  }
}

// -----
plan.stage @s attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
  %a = plan.buffer step : !plan.buffer<4xf32>
  plan.procedure @f forward {
    // expected-error @below {{C2: a scalar is array<i64: base, coefficients>, got 3 : i64}}
    plan.launch reads(%a : !plan.buffer<4xf32>) writes(%a : !plan.buffer<4xf32>) attributes {stream = 0, scalars = [3]} {
    ^bb0(%x: tensor<4xf32>, %y: tensor<i64>):
      plan.yield %x : tensor<4xf32>
    }
  }
}

// -----
plan.stage @s attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
  %a = plan.buffer step : !plan.buffer<4xf32>
  plan.procedure @f forward {
    // expected-error @below {{C3: kernel and rows are set together}}
    plan.launch reads(%a : !plan.buffer<4xf32>) writes(%a : !plan.buffer<4xf32>) attributes {stream = 0, rows = 4} {
    ^bb0(%x: tensor<4xf32>):
      plan.yield %x : tensor<4xf32>
    }
  }
}

// -----
plan.stage @s attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
  %a = plan.buffer step : !plan.buffer<4x2xf32>
  plan.procedure @f forward {
    // expected-error @below {{C4: has #plan.routes<"gate", dims = [[], []], shape = [4, 2]>, and is not one op that writes routes of as many dims}}
    plan.launch reads(%a : !plan.buffer<4x2xf32>) writes(%a : !plan.buffer<4x2xf32>)
        attributes {stream = 0, routes = #plan.routes<"gate", dims = [[], []], shape = [4, 2]>} {
    ^bb0(%x: tensor<4x2xf32>):
      plan.yield %x : tensor<4x2xf32>
    }
  }
}

// -----
plan.stage @s attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
  %a = plan.buffer step : !plan.buffer<4x8xf32>
  %r = plan.buffer step : !plan.buffer<4x2xi64>
  plan.procedure @f forward {
    // expected-error @below {{C4: has #plan.routes<"gate", dims = [[]], shape = [8]>, and is not one op}}
    plan.launch reads(%a : !plan.buffer<4x8xf32>) writes(%r : !plan.buffer<4x2xi64>)
        attributes {stream = 0, routes = #plan.routes<"gate", dims = [[]], shape = [8]>} {
    ^bb0(%x: tensor<4x8xf32>):
      %y = graph.route %x : (tensor<4x8xf32>) -> tensor<4x2xi64>
      plan.yield %y : tensor<4x2xi64>
    }
  }
}

// -----
// expected-error @below {{C1: dims has axes of 1 dims, the shape 2 sizes}}
module attributes {test.routes = #plan.routes<"gate", dims = [[]], shape = [4, 2]>} {}

// -----
plan.stage @s attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
  %a = plan.buffer step : !plan.buffer<4x4xf32>
  plan.procedure @f forward {
    // expected-error @below {{C1: equation gives rank 1 to a buffer of rank 2}}
    plan.matmul "a,ab->ab" %a, %a into %a {stream = 0} : !plan.buffer<4x4xf32>, !plan.buffer<4x4xf32>, !plan.buffer<4x4xf32>
  }
}

// -----
plan.stage @s attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
  %a = plan.buffer step : !plan.buffer<4x5xf32>
  plan.procedure @f forward {
    // expected-error @below {{C2: letter 'b' has two sizes, 5 and 4}}
    plan.matmul "ab,bc->ac" %a, %a into %a {stream = 0} : !plan.buffer<4x5xf32>, !plan.buffer<4x5xf32>, !plan.buffer<4x5xf32>
  }
}

// -----
plan.stage @s attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
  %a = plan.buffer step : !plan.buffer<4x4xf32>
  plan.procedure @f forward {
    // expected-error @below {{C2: letter 'a' stands twice in a tensor}}
    plan.matmul "aa,ab->ab" %a, %a into %a {stream = 0} : !plan.buffer<4x4xf32>, !plan.buffer<4x4xf32>, !plan.buffer<4x4xf32>
  }
}

// -----
plan.stage @s attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
  %a = plan.buffer step : !plan.buffer<4x4xf32>
  plan.procedure @f forward {
    // expected-error @below {{C3: result letter 'd' is in no operand}}
    plan.matmul "ab,bc->ad" %a, %a into %a {stream = 0} : !plan.buffer<4x4xf32>, !plan.buffer<4x4xf32>, !plan.buffer<4x4xf32>
  }
}

// -----
plan.stage @s attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
  %a = plan.buffer step : !plan.buffer<4x4xf32>
  plan.procedure @f forward {
    // expected-error @below {{C3: letter 'b' is neither in the result nor in both operands}}
    plan.matmul "ab,cd->ad" %a, %a into %a {stream = 0} : !plan.buffer<4x4xf32>, !plan.buffer<4x4xf32>, !plan.buffer<4x4xf32>
  }
}

// -----
plan.stage @s attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
  %a = plan.buffer step : !plan.buffer<4xf32>
  plan.procedure @f forward {
    // expected-error @below {{C1: a collective needs at least one axis}}
    plan.collective all_reduce <sum> %a into %a over [] {stream = 0} : !plan.buffer<4xf32>, !plan.buffer<4xf32>
  }
}

// -----
plan.stage @s attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
  %a = plan.buffer step : !plan.buffer<4xf32>
  plan.procedure @f forward {
    // expected-error @below {{C2: members pick coordinates of one axis, got 2 axes}}
    plan.collective all_reduce <sum> %a into %a over ["dp", "pp"] members [0, 1] {stream = 0} : !plan.buffer<4xf32>, !plan.buffer<4xf32>
  }
}

// -----
plan.stage @s attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
  %a = plan.buffer step : !plan.buffer<4xf32>
  %b = plan.buffer step : !plan.buffer<4xi64>
  plan.procedure @f forward {
    // expected-error @below {{C3: element types differ: 'tensor<4xf32>' and 'tensor<4xi64>'}}
    plan.collective all_reduce <sum> %a into %b over ["dp"] {stream = 0} : !plan.buffer<4xf32>, !plan.buffer<4xi64>
  }
}

// -----
plan.stage @s attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
  %a = plan.buffer step : !plan.buffer<4xf32>
  %b = plan.buffer step : !plan.buffer<6xf32>
  plan.procedure @f forward {
    // expected-error @below {{C4: all_gather of 4 elements cannot give 6}}
    plan.collective all_gather <sum> %a into %b over ["dp"] {stream = 0} : !plan.buffer<4xf32>, !plan.buffer<6xf32>
  }
}

// -----
plan.stage @s attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
  %a = plan.buffer step : !plan.buffer<4xf32>
  %b = plan.buffer step : !plan.buffer<8xf32>
  plan.procedure @f forward {
    // expected-error @below {{C4: all_to_all of 4 elements cannot give 8}}
    plan.collective all_to_all <sum> %a into %b over ["dp"] {stream = 0} : !plan.buffer<4xf32>, !plan.buffer<8xf32>
  }
}

// -----
plan.stage @s attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
  %a = plan.buffer step : !plan.buffer<4xf32>
  %b = plan.buffer step : !plan.buffer<8xf32>
  plan.procedure @f forward {
    // expected-error @below {{C5: all_gather of a shard of 4 elements in 3 slices}}
    plan.collective all_gather <sum> %a into %b over ["dp"] slices 3 {stream = 0} : !plan.buffer<4xf32>, !plan.buffer<8xf32>
  }
}

// -----
plan.stage @s attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
  %a = plan.buffer step : !plan.buffer<4xf32>
  plan.procedure @f forward {
    // expected-error @below {{C5: all_reduce of a shard of 4 elements in 2 slices}}
    plan.collective all_reduce <sum> %a into %a over ["dp"] slices 2 {stream = 0} : !plan.buffer<4xf32>, !plan.buffer<4xf32>
  }
}

// -----
plan.stage @s attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
  %x = plan.buffer step : !plan.buffer<2x4xf32>
  %w = plan.buffer step : !plan.buffer<5x4x3xf32>
  %r = plan.buffer step : !plan.buffer<2x2xi64>
  %z = plan.buffer step : !plan.buffer<2x2x6xf32>
  plan.procedure @f forward {
    // expected-error @below {{C1: shapes are those of no product: 'tensor<2x4xf32>' and 'tensor<5x4x3xf32>' by 'tensor<2x2xi64>' into 'tensor<2x2x6xf32>'}}
    plan.grouped_matmul %x, %w by %r into %z {stream = 0} : !plan.buffer<2x4xf32>, !plan.buffer<5x4x3xf32>, !plan.buffer<2x2xi64>, !plan.buffer<2x2x6xf32>
  }
}

// -----
plan.stage @s attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
  %x = plan.buffer step : !plan.buffer<3x4xf32>
  %w = plan.buffer step : !plan.buffer<5x4x3xf32>
  %r = plan.buffer step : !plan.buffer<2x2xi64>
  %z = plan.buffer step : !plan.buffer<2x2x3xf32>
  plan.procedure @f forward {
    // expected-error @below {{C1: shapes are those of no product}}
    plan.grouped_matmul %x, %w by %r into %z {stream = 0} : !plan.buffer<3x4xf32>, !plan.buffer<5x4x3xf32>, !plan.buffer<2x2xi64>, !plan.buffer<2x2x3xf32>
  }
}

// -----
plan.stage @s attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
  %x = plan.buffer step : !plan.buffer<2x4xf32>
  %w = plan.buffer step : !plan.buffer<5x4x3xf32>
  %r = plan.buffer step : !plan.buffer<2x2xi64>
  %z = plan.buffer step : !plan.buffer<2x2x3xf32>
  plan.procedure @f forward {
    // expected-error @below {{C1: shapes are those of no product}}
    plan.grouped_matmul %x, %w by %r into %z {stream = 0, transposed} : !plan.buffer<2x4xf32>, !plan.buffer<5x4x3xf32>, !plan.buffer<2x2xi64>, !plan.buffer<2x2x3xf32>
  }
}

// -----
plan.stage @s attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
  %x = plan.buffer step : !plan.buffer<2x4xf32>
  %w = plan.buffer step : !plan.buffer<5x4x3xf32>
  %r = plan.buffer step : !plan.buffer<i64>
  %z = plan.buffer step : !plan.buffer<2x2x3xf32>
  plan.procedure @f forward {
    // expected-error @below {{C1: a buffer is a scalar}}
    plan.grouped_matmul %x, %w by %r into %z {stream = 0} : !plan.buffer<2x4xf32>, !plan.buffer<5x4x3xf32>, !plan.buffer<i64>, !plan.buffer<2x2x3xf32>
  }
}

// -----
plan.stage @s attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
  %x = plan.buffer step : !plan.buffer<2x4xf32>
  %w = plan.buffer step : !plan.buffer<2x2x3xf32>
  %r = plan.buffer step : !plan.buffer<2x2xi64>
  %z = plan.buffer step : !plan.buffer<5x4x6xf32>
  plan.procedure @f forward {
    // expected-error @below {{C1: shapes are those of no product}}
    plan.grouped_matmul %x, %w by %r into %z {stream = 0} : !plan.buffer<2x4xf32>, !plan.buffer<2x2x3xf32>, !plan.buffer<2x2xi64>, !plan.buffer<5x4x6xf32>
  }
}

// -----
plan.stage @s attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
  %x = plan.buffer step : !plan.buffer<2x4xf32>
  %w = plan.buffer step : !plan.buffer<5x4x3xf32>
  %r = plan.buffer step : !plan.buffer<2x2xi64>
  %z = plan.buffer step : !plan.buffer<2x2x3xf32>
  plan.procedure @f forward {
    // expected-error @below {{C2: a product with weights accumulates}}
    plan.grouped_matmul %x, %w by %r into %z accumulate {stream = 0} : !plan.buffer<2x4xf32>, !plan.buffer<5x4x3xf32>, !plan.buffer<2x2xi64>, !plan.buffer<2x2x3xf32>
  }
}

// -----
plan.stage @s attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
  %x = plan.buffer step : !plan.buffer<2x4xf32>
  %w = plan.buffer step : !plan.buffer<2x2x3xf32>
  %r = plan.buffer step : !plan.buffer<2x2xi64>
  %z = plan.buffer step : !plan.buffer<5x4x3xf32>
  plan.procedure @f forward {
    // expected-error @below {{C2: an outer product is transposed}}
    plan.grouped_matmul %x, %w by %r into %z {stream = 0, transposed} : !plan.buffer<2x4xf32>, !plan.buffer<2x2x3xf32>, !plan.buffer<2x2xi64>, !plan.buffer<5x4x3xf32>
  }
}

// -----
plan.stage @s attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
  %a = plan.buffer step : !plan.buffer<8x4xf32>
  %b = plan.buffer step : !plan.buffer<6x4xf32>
  %n = plan.buffer step : !plan.buffer<2xi64>
  plan.procedure @f forward {
    // expected-error @below {{C6: exchanges rows of 'tensor<8x4xf32>' and 'tensor<6x4xf32>' by 1 counts}}
    plan.collective exchange_rows <sum> %a into %b counts %n : !plan.buffer<2xi64> over ["tp"] {stream = 0} : !plan.buffer<8x4xf32>, !plan.buffer<6x4xf32>
  }
}

// -----
plan.stage @s attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
  %a = plan.buffer step : !plan.buffer<8x4xf32>
  %b = plan.buffer step : !plan.buffer<6x4xf32>
  plan.procedure @f forward {
    // expected-error @below {{C6: exchanges rows of 'tensor<8x4xf32>' and 'tensor<6x4xf32>' by 0 counts}}
    plan.collective exchange_rows <sum> %a into %b over ["tp"] {stream = 0} : !plan.buffer<8x4xf32>, !plan.buffer<6x4xf32>
  }
}

// -----
plan.stage @s attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
  %a = plan.buffer step : !plan.buffer<8x4xf32>
  %b = plan.buffer step : !plan.buffer<6x4xf32>
  %n = plan.buffer step : !plan.buffer<2xi64>
  %k = plan.buffer step : !plan.buffer<3xi64>
  plan.procedure @f forward {
    // expected-error @below {{C6: exchanges rows of 'tensor<8x4xf32>' and 'tensor<6x4xf32>' by 2 counts}}
    plan.collective exchange_rows <sum> %a into %b counts %n, %k : !plan.buffer<2xi64>, !plan.buffer<3xi64> over ["tp"] {stream = 0} : !plan.buffer<8x4xf32>, !plan.buffer<6x4xf32>
  }
}

// -----
plan.stage @s attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
  %a = plan.buffer step : !plan.buffer<8x4xf32>
  %b = plan.buffer step : !plan.buffer<6x4xf32>
  %f = plan.buffer step : !plan.buffer<2xi32>
  plan.procedure @f forward {
    // expected-error @below {{C6: exchanges rows of 'tensor<8x4xf32>' and 'tensor<6x4xf32>' by 2 counts}}
    plan.collective exchange_rows <sum> %a into %b counts %f, %f : !plan.buffer<2xi32>, !plan.buffer<2xi32> over ["tp"] {stream = 0} : !plan.buffer<8x4xf32>, !plan.buffer<6x4xf32>
  }
}

// -----
plan.stage @s attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
  %a = plan.buffer step : !plan.buffer<8x4xf32>
  %b = plan.buffer step : !plan.buffer<6x5xf32>
  %n = plan.buffer step : !plan.buffer<2xi64>
  plan.procedure @f forward {
    // expected-error @below {{C6: exchanges rows of 'tensor<8x4xf32>' and 'tensor<6x5xf32>' by 2 counts}}
    plan.collective exchange_rows <sum> %a into %b counts %n, %n : !plan.buffer<2xi64>, !plan.buffer<2xi64> over ["tp"] {stream = 0} : !plan.buffer<8x4xf32>, !plan.buffer<6x5xf32>
  }
}

// -----
plan.stage @s attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
  %a = plan.buffer step : !plan.buffer<8x4xf32>
  %n = plan.buffer step : !plan.buffer<2xi64>
  plan.procedure @f forward {
    // expected-error @below {{C6: all_to_all has counts of rows}}
    plan.collective all_to_all <sum> %a into %a counts %n, %n : !plan.buffer<2xi64>, !plan.buffer<2xi64> over ["tp"] {stream = 0} : !plan.buffer<8x4xf32>, !plan.buffer<8x4xf32>
  }
}

// -----
plan.stage @s attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
  %a = plan.buffer step : !plan.buffer<4xf32>
  %b = plan.buffer step : !plan.buffer<6xf32>
  plan.procedure @f forward {
    // expected-error @below {{C1: copies 16 bytes into 24}}
    plan.copy %a into %b {stream = 0} : !plan.buffer<4xf32>, !plan.buffer<6xf32>
  }
}

// -----
// expected-error @below {{buffer elements are integers or floats, got 'index'}}
func.func private @f(!plan.buffer<4xindex>)

// -----
func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{C1: body arguments have other types than the inputs}}
  %0 = plan.group(%a : tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%x: tensor<4xf32>, %y: tensor<4xf32>):
    plan.yield %x : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}

// -----
func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{C1: body must end with plan.yield}}
  %0 = plan.group(%a : tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%x: tensor<4xf32>):
    graph.yield %x : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}

// -----
func.func @f(%a: tensor<4xf32>) -> tensor<5xf32> {
  // expected-error @below {{C1: body yields other types than the results}}
  %0 = plan.group(%a : tensor<4xf32>) -> tensor<5xf32> {
  ^bb0(%x: tensor<4xf32>):
    plan.yield %x : tensor<4xf32>
  }
  return %0 : tensor<5xf32>
}

// -----
func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = plan.group(%a : tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%x: tensor<4xf32>):
    // expected-error @below {{C2: is no graph op that computes}}
    %1 = plan.group(%x : tensor<4xf32>) -> tensor<4xf32> {
    ^bb0(%y: tensor<4xf32>):
      plan.yield %y : tensor<4xf32>
    }
    plan.yield %1 : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}
