// RUN: llmc-opt %s | llmc-opt | FileCheck %s

// CHECK-LABEL: plan.stage @stage0 attributes {arena_bytes = 9088 : i64
// CHECK-SAME: table = [#plan.entry<@begin, 0, 0>, #plan.entry<@forward, 1, 1 also <0, 0>>]
plan.stage @stage0 attributes {stage = 0, chunks = [#plan.chunk<0, 1>], pools = [#plan.pool<0, 2>], arena_bytes = 9088,
    table = [#plan.entry<@begin, 0, 0>, #plan.entry<@forward, 1, 1 also <0, 0>>]} {
  // CHECK: %[[W:.*]] = plan.buffer persistent {binding = #plan.state<@s0, parameter, layers = [0, 2], dims = {{.*}}, valid_shape = [32]>, offset = 0 : i64} : !plan.buffer<2x32xf32>
  %w = plan.buffer persistent {offset = 0, binding = #plan.state<@s0, parameter, layers = [0, 2], dims = [[]], valid_shape = [32]>} : !plan.buffer<2x32xf32>
  // CHECK: plan.buffer persistent of %[[W]] : !plan.buffer<2x32xf32> at 128 : !plan.buffer<32xf32>
  %w1 = plan.buffer persistent of %w : !plan.buffer<2x32xf32> at 128 : !plan.buffer<32xf32>
  // CHECK: plan.buffer slot {offset = 256 : i64, slot_stride = 4096 : i64} : !plan.buffer<4x32xf32>
  %x = plan.buffer slot {offset = 256, slot_stride = 4096} : !plan.buffer<4x32xf32>
  %y = plan.buffer slot {offset = 1024, slot_stride = 4096} : !plan.buffer<4x32xf32>
  // CHECK: plan.buffer slot {binding = #plan.input<"input_ids">
  %ids = plan.buffer slot {offset = 2048, slot_stride = 4096, binding = #plan.input<"input_ids">} : !plan.buffer<4xi64>
  // CHECK: plan.buffer step {binding = #plan.scalar<"lr">, offset = 8704 : i64} : !plan.buffer<f32>
  %lr = plan.buffer step {offset = 8704, binding = #plan.scalar<"lr">} : !plan.buffer<f32>
  // CHECK: plan.buffer scratch {offset = 8768 : i64} : !plan.buffer<i1>
  %flag = plan.buffer scratch {offset = 8768} : !plan.buffer<i1>
  %z = plan.buffer scratch {offset = 8832} : !plan.buffer<4x4xf32>
  %scores = plan.buffer scratch {offset = 8192} : !plan.buffer<1x4x32xf32>
  %chosen = plan.buffer scratch {offset = 8704} : !plan.buffer<1x4x2xi64>
  // CHECK: plan.procedure @begin begin
  plan.procedure @begin begin {
    // CHECK: plan.fill %[[W]] {stream = 0 : i64} : !plan.buffer<2x32xf32>
    plan.fill %w {stream = 0} : !plan.buffer<2x32xf32>
  }
  // CHECK: plan.procedure @forward forward
  plan.procedure @forward forward {
    // CHECK: plan.wait 3 step {stream = 0 : i64}
    plan.wait 3 step {stream = 0}
    // CHECK: plan.recv %{{.*}} from "pp" -1 channel 0 {{.*}} : !plan.buffer<4x32xf32>
    plan.recv %x from "pp" -1 channel 0 {stream = 0, origin = #plan.origin<"stage_boundary" tactic "stages" rule "activations">} : !plan.buffer<4x32xf32>
    // CHECK: plan.feed "input_ids" into %{{.*}} : !plan.buffer<4xi64>
    plan.feed "input_ids" into %ids {stream = 0} : !plan.buffer<4xi64>
    // CHECK: plan.launch reads(%{{.*}}, %{{.*}} : !plan.buffer<4x32xf32>, !plan.buffer<32xf32>) writes(%{{.*}} : !plan.buffer<4x32xf32>)
    // CHECK-SAME: extents = array<i64: 7>, kernel = "add", origin = #plan.origin<"graph.add" nodes ["h.0/add", "h.1/add"]>, rows = 4 : i64, scalars = [array<i64: 0, 0, 0, 16>], stream = 0 : i64
    plan.launch reads(%x, %w1 : !plan.buffer<4x32xf32>, !plan.buffer<32xf32>) writes(%y : !plan.buffer<4x32xf32>)
        attributes {stream = 0 : i64, kernel = "add", rows = 4, extents = array<i64: 7>, scalars = [array<i64: 0, 0, 0, 16>],
                    origin = #plan.origin<"graph.add" nodes ["h.0/add", "h.1/add"]>} {
    ^bb0(%a: tensor<4x32xf32>, %b: tensor<32xf32>, %offset: tensor<i64>):
      %r = graph.add %a, %b : (tensor<4x32xf32>, tensor<32xf32>) -> tensor<4x32xf32>
      // CHECK: plan.yield %{{.*}} : tensor<4x32xf32>
      plan.yield %r : tensor<4x32xf32>
    }
    // CHECK: plan.launch {{.*}}routes = #plan.routes<"model.layers.0.mlp.gate", dims = {{\[\[}}"dp"], ["cp"], []], shape = [4, 16, 2]>
    plan.launch reads(%scores : !plan.buffer<1x4x32xf32>) writes(%chosen : !plan.buffer<1x4x2xi64>)
        attributes {stream = 0 : i64, routes = #plan.routes<"model.layers.0.mlp.gate", dims = [["dp"], ["cp"], []], shape = [4, 16, 2]>} {
    ^bb0(%a: tensor<1x4x32xf32>):
      %r = graph.route %a : (tensor<1x4x32xf32>) -> tensor<1x4x2xi64>
      plan.yield %r : tensor<1x4x2xi64>
    }
    // CHECK: plan.matmul "ad,bd->ab" %{{.*}}, %{{.*}} into %{{.*}} accumulate {fallback = "matmul", fallback_accumulate = "matmul_add", stream = 0 : i64}
    plan.matmul "ad,bd->ab" %x, %y into %z accumulate {stream = 0, fallback = "matmul", fallback_accumulate = "matmul_add"} : !plan.buffer<4x32xf32>, !plan.buffer<4x32xf32>, !plan.buffer<4x4xf32>
    // CHECK: plan.collective all_reduce <sum> %{{.*}} into %{{.*}} over ["pp"] members [0, 1] {origin = #plan.origin<"parallel.all_reduce" nodes ["n"] tactic "tensor" rule "row cut" detail {seed = "m", tensors = [{layout = #parallel.sharding<[{}, {"tp"}]>, type = tensor<4x64xf32>}]}>, stream = 1 : i64}
    plan.collective all_reduce <sum> %y into %y over ["pp"] members [0, 1] {stream = 1, origin = #plan.origin<"parallel.all_reduce" nodes ["n"] tactic "tensor" rule "row cut" detail {seed = "m", tensors = [{layout = #parallel.sharding<[{}, {"tp"}]>, type = tensor<4x64xf32>}]}>} : !plan.buffer<4x32xf32>, !plan.buffer<4x32xf32>
    // CHECK: plan.copy %{{.*}} into %{{.*}} {stream = 0 : i64}
    plan.copy %y into %x {stream = 0} : !plan.buffer<4x32xf32>, !plan.buffer<4x32xf32>
    // CHECK: plan.collective all_to_all <sum> %{{.*}} into %{{.*}} over ["pp"]
    plan.collective all_to_all <sum> %x into %y over ["pp"] {stream = 1} : !plan.buffer<4x32xf32>, !plan.buffer<4x32xf32>
    // CHECK: plan.send %{{.*}} to "tp" 1 wrap channel 2
    plan.send %y to "tp" 1 wrap channel 2 {stream = 2} : !plan.buffer<4x32xf32>
    // CHECK: plan.recv %{{.*}} from "tp" -1 wrap channel 2
    plan.recv %x from "tp" -1 wrap channel 2 {stream = 3} : !plan.buffer<4x32xf32>
    // CHECK: plan.send %{{.*}}, %{{.*}} to "pp" 1 channel 0
    plan.send %y, %x to "pp" 1 channel 0 {stream = 2} : !plan.buffer<4x32xf32>, !plan.buffer<4x32xf32>
    // CHECK: plan.record 1 {stream = 2 : i64}
    plan.record 1 {stream = 2}
  }
}

// Products of routed rows, and rows that go to their ranks.
// CHECK-LABEL: plan.stage @experts
plan.stage @experts attributes {stage = 0, chunks = [#plan.chunk<0, 1>], pools = [#plan.pool<0, 1>], table = []} {
  %x = plan.buffer step : !plan.buffer<2x4xf32>
  %w = plan.buffer step : !plan.buffer<5x4x3xf32>
  %t = plan.buffer step : !plan.buffer<5x3x4xf32>
  %r = plan.buffer step : !plan.buffer<2x2xi64>
  %z = plan.buffer step : !plan.buffer<2x2x3xf32>
  %sent = plan.buffer step : !plan.buffer<4xi64>
  %rows = plan.buffer step : !plan.buffer<8x4xf32>
  plan.procedure @forward forward {
    // CHECK: plan.grouped_matmul %{{.*}}, %{{.*}} by %{{.*}} into %{{.*}} {stream = 0 : i64} : !plan.buffer<2x4xf32>, !plan.buffer<5x4x3xf32>, !plan.buffer<2x2xi64>, !plan.buffer<2x2x3xf32>
    plan.grouped_matmul %x, %w by %r into %z {stream = 0} : !plan.buffer<2x4xf32>, !plan.buffer<5x4x3xf32>, !plan.buffer<2x2xi64>, !plan.buffer<2x2x3xf32>
    // CHECK: plan.grouped_matmul {{.*}} {fallback = "matmul", offset = array<i64: 0, 0, 5>, stream = 0 : i64, transposed}
    plan.grouped_matmul %x, %t by %r into %z {stream = 0, transposed, offset = array<i64: 0, 0, 5>, fallback = "matmul"} : !plan.buffer<2x4xf32>, !plan.buffer<5x3x4xf32>, !plan.buffer<2x2xi64>, !plan.buffer<2x2x3xf32>
    // CHECK: plan.grouped_matmul %{{.*}}, %{{.*}} by %{{.*}} into %{{.*}} accumulate {fallback_accumulate = "matmul_add", stream = 0 : i64}
    plan.grouped_matmul %x, %z by %r into %w accumulate {stream = 0, fallback_accumulate = "matmul_add"} : !plan.buffer<2x4xf32>, !plan.buffer<2x2x3xf32>, !plan.buffer<2x2xi64>, !plan.buffer<5x4x3xf32>
    // CHECK: plan.collective exchange_rows <sum> %{{.*}} into %{{.*}} counts %{{.*}}, %{{.*}} : !plan.buffer<4xi64>, !plan.buffer<4xi64> over ["tp"] {stream = 1 : i64}
    plan.collective exchange_rows <sum> %x into %rows counts %sent, %sent : !plan.buffer<4xi64>, !plan.buffer<4xi64> over ["tp"] {stream = 1} : !plan.buffer<2x4xf32>, !plan.buffer<8x4xf32>
  }
}

// CHECK-LABEL: func.func @grouped
// CHECK: %[[G:.*]]:2 = plan.group(%{{.*}}, %{{.*}} : tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>, tensor<4xf32> {
// CHECK: plan.yield
// CHECK: return %[[G]]#0, %[[G]]#1
func.func @grouped(%a: tensor<4xf32>, %b: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0:2 = plan.group(%a, %b : tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>, tensor<4xf32> {
  ^bb0(%x: tensor<4xf32>, %y: tensor<4xf32>):
    %1 = graph.add %x, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %2 = graph.tanh %1 : (tensor<4xf32>) -> tensor<4xf32>
    plan.yield %1, %2 : tensor<4xf32>, tensor<4xf32>
  }
  return %0#0, %0#1 : tensor<4xf32>, tensor<4xf32>
}

// Bindings of every kind.
// CHECK-LABEL: plan.stage @bound
plan.stage @bound attributes {stage = 0, chunks = [#plan.chunk<0, 1>], pools = [#plan.pool<0, 1>], table = []} {
  // CHECK: #plan.state<@w, parameter, layers = [0, 2], dims = {{\[}}["tp"], []], valid_shape = [29, 8]>
  %w = plan.buffer persistent {binding = #plan.state<@w, parameter, layers = [0, 2], dims = [["tp"], []], valid_shape = [29, 8]>} : !plan.buffer<2x15x8xf32>
  // CHECK: #plan.state<@w, parameter, dims = {{.*}}, valid_shape = [29, 8], owner = false>
  %copy = plan.buffer persistent {binding = #plan.state<@w, parameter, valid_shape = [29, 8], owner = false, dims = [[], []]>} : !plan.buffer<29x8xf32>
  // CHECK: binding = #plan.flat<["dp"]{{ ?}}parts{{ ?}}[<state = <@x, parameter, dims = {{\[\[\]\]}}, valid_shape = [8]>, begin = 0, shape = [8]>]>
  %flat = plan.buffer persistent {binding = #plan.flat<["dp"] parts [<state = <@x, parameter, dims = [[]], valid_shape = [8]>, begin = 0, shape = [8]>]>} : !plan.buffer<4xf32>
  // CHECK: binding = #plan.flat<["dp"]{{ ?}}parts{{ ?}}[<state = <@x, parameter, dims = {{.*}}, valid_shape = [4, 6]>, begin = 0, shape = [4, 3]>]>
  %part = plan.buffer persistent {binding = #plan.flat<["dp"] parts [#plan.flat_part<state = <@x, parameter, dims = [[], ["tp"]], valid_shape = [4, 6]>, begin = 0, shape = [4, 3]>]>} : !plan.buffer<6xf32>
  // CHECK: binding = #plan.flat<parts{{ ?}}[<state = <@x, parameter, dims = {{\[\[\]\]}}, valid_shape = [8]>, begin = 0, shape = [8]>]>
  %all = plan.buffer persistent {binding = #plan.flat<parts [<state = <@x, parameter, dims = [[]], valid_shape = [8]>, begin = 0, shape = [8]>]>} : !plan.buffer<8xf32>
  // CHECK: binding = #plan.input<"labels">
  %labels = plan.buffer slot {binding = #plan.input<"labels">} : !plan.buffer<4xi64>
  // CHECK: binding = #plan.input<"x", dims = {{\[}}["dp"], ["cp"]], loader = <permuted_dim = 1, block_order = [1, 0]>>
  %x = plan.buffer slot {binding = #plan.input<"x", dims = [["dp"], ["cp"]], loader = <permuted_dim = 1, block_order = [1, 0]>>} : !plan.buffer<4x8xi64>
  // CHECK: binding = #plan.input<"mask", loader = <default_value = ones>>
  %mask = plan.buffer slot {binding = #plan.input<"mask", loader = <default_value = ones>>} : !plan.buffer<4x8xi64>
  // CHECK: binding = #plan.output<"loss">
  %loss = plan.buffer step {binding = #plan.output<"loss">} : !plan.buffer<f32>
  // CHECK: binding = #plan.output<"logits", dims = {{\[}}["dp"], [], ["tp"]], valid_shape = [4, 16, 257]>
  %logits = plan.buffer step {binding = #plan.output<"logits", dims = [["dp"], [], ["tp"]], valid_shape = [4, 16, 257]>} : !plan.buffer<2x16x129xf32>
}
