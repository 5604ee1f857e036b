// RUN: llmc-opt %s --split-input-file --llmc-build-procedures | FileCheck %s

// A whole step. The input is fed once a micro-batch, where it is used first. What
// backward needs stays in the slot, the reshape of it is no instruction. The
// gradient is added by the matmul, where the accumulator stands; the parameter is
// updated in place; a repeated number stands inside of the kernel.
// CHECK-LABEL: plan.stage @stage0
// CHECK: %[[X:[0-9a-z]+]] = plan.buffer slot {binding = #plan.input<"x">}
// CHECK: %[[W:[0-9a-z]+]] = plan.buffer persistent {binding = #plan.state<@w, parameter, dims = {{\[\[\], \[\]\]}}, valid_shape = [8, 8]>}
// CHECK: %[[H:[0-9a-z]+]] = plan.buffer slot : !plan.buffer<4x8xf32>
// CHECK: %[[ACC:[0-9a-z]+]] = plan.buffer persistent {binding = #plan.state<@w.grad, accumulator
// CHECK: %[[LR:[0-9a-z]+]] = plan.buffer step {binding = #plan.scalar<"lr">}
// CHECK: %[[RATE:[0-9a-z]+]] = plan.buffer scratch : !plan.buffer<f32>
// CHECK: %[[STEP:[0-9a-z]+]] = plan.buffer scratch : !plan.buffer<8x8xf32>
// CHECK: plan.procedure @forward forward
// CHECK-NEXT: plan.feed "x" into %[[X]]
// CHECK-NEXT: plan.matmul "bd,de->be" %[[X]], %[[W]] into %[[H]] {origin = #plan.origin<"graph.matmul" nodes ["fc"]>
// CHECK-NEXT: {{^ *}$}}
// CHECK: plan.procedure @backward backward
// CHECK-NEXT: plan.matmul "bd,be->de" %[[X]], %[[H]] into %[[ACC]] accumulate
// CHECK-NEXT: {{^ *}$}}
// CHECK: plan.procedure @update update
// CHECK: plan.launch reads(%[[LR]] : {{.*}}) writes(%[[RATE]] :
// CHECK: ^bb0(%[[A:[0-9a-z]+]]: tensor<f32>):
// CHECK: %[[TWO:[0-9a-z]+]] = graph.constant dense<2.000000e+00>
// CHECK: graph.mul %[[A]], %[[TWO]]
// CHECK: plan.launch reads(%[[ACC]], %[[RATE]] : {{.*}}) writes(%[[STEP]] :
// CHECK: plan.launch reads(%[[W]], %[[STEP]] : {{.*}}) writes(%[[W]] :
// CHECK: plan.procedure @begin begin
// CHECK-NEXT: plan.fill %[[ACC]]
// CHECK-NOT: plan.copy
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "tp"=1]>} {
  graph.source @src : tensor<8x8xf32> {init = #graph.init_kind<zeros>}
  graph.state @w : tensor<8x8xf32> parameter views [#graph.view<@src, 0, [8, 1]>]
  graph.state @w.grad : tensor<8x8xf32> accumulator of @w
  func.func @forward_0(%x: tensor<4x8xf32> {graph.input = "x"}, %w: tensor<8x8xf32> {graph.state = @w})
      -> (tensor<2x2x8xf32> {parallel.residual = 0 : i64})
      attributes {parallel.stage = 0 : i64, parallel.procedure = "forward"} {
    %0 = graph.matmul "bd,de->be" %x, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("fc")
    %1 = graph.reshape %0 : (tensor<4x8xf32>) -> tensor<2x2x8xf32>
    return %1 : tensor<2x2x8xf32>
  }
  func.func @backward_0(%h: tensor<2x2x8xf32> {parallel.residual = 0 : i64},
                        %acc: tensor<8x8xf32> {graph.state = @w.grad}, %x: tensor<4x8xf32> {graph.input = "x"})
      -> (tensor<8x8xf32> {graph.state = @w.grad})
      attributes {parallel.stage = 0 : i64, parallel.procedure = "backward"} {
    %0 = graph.reshape %h : (tensor<2x2x8xf32>) -> tensor<4x8xf32>
    %1 = graph.matmul "bd,be->de" %x, %0 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
    %2 = graph.add %acc, %1 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    return %2 : tensor<8x8xf32>
  }
  func.func @update_0(%w: tensor<8x8xf32> {graph.state = @w}, %acc: tensor<8x8xf32> {graph.state = @w.grad},
                      %lr: tensor<f32> {graph.scalar = "lr"}) -> (tensor<8x8xf32> {graph.state = @w})
      attributes {parallel.stage = 0 : i64, parallel.procedure = "update"} {
    %two = graph.constant dense<2.0> : tensor<f32>
    %0 = graph.mul %lr, %two : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %1 = graph.mul %acc, %0 : (tensor<8x8xf32>, tensor<f32>) -> tensor<8x8xf32>
    %2 = graph.sub %w, %1 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    return %2 : tensor<8x8xf32>
  }
}

// -----

// The old parameter is read after the new one is computed: the new one waits in
// scratch and is copied at the end.
// CHECK-LABEL: plan.stage @stage0
// CHECK: %[[W:[0-9a-z]+]] = plan.buffer persistent
// CHECK: %[[NEW:[0-9a-z]+]] = plan.buffer scratch
// CHECK: %[[SUM:[0-9a-z]+]] = plan.buffer step {binding = #plan.output<"sum">}
// CHECK: plan.procedure @update
// CHECK: plan.launch reads(%[[W]] : {{.*}}) writes(%[[NEW]] :
// CHECK: plan.launch reads(%[[W]] : {{.*}}) writes(%[[SUM]] :
// CHECK: plan.copy %[[NEW]] into %[[W]]
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "tp"=1]>} {
  graph.source @src : tensor<8xf32> {init = #graph.init_kind<zeros>}
  graph.state @w : tensor<8xf32> parameter views [#graph.view<@src, 0, [1]>]
  func.func @forward_0() attributes {parallel.stage = 0 : i64, parallel.procedure = "forward"} { return }
  func.func @backward_0() attributes {parallel.stage = 0 : i64, parallel.procedure = "backward"} { return }
  func.func @update_0(%w: tensor<8xf32> {graph.state = @w})
      -> (tensor<8xf32> {graph.state = @w}, tensor<f32> {graph.output = "sum"})
      attributes {parallel.stage = 0 : i64, parallel.procedure = "update"} {
    %0 = graph.neg %w : (tensor<8xf32>) -> tensor<8xf32>
    %1 = graph.reduce %w {kind = #graph.reduce_kind<sum>, dims = array<i64: 0>} : (tensor<8xf32>) -> tensor<f32>
    return %0, %1 : tensor<8xf32>, tensor<f32>
  }
}

// -----

// An accumulator that is read between the product and the sum must not be
// written by the product.
// CHECK-LABEL: plan.stage @stage0
// CHECK: %[[ACC:[0-9a-z]+]] = plan.buffer persistent {binding = {{.*}}@w.grad
// CHECK: plan.procedure @backward
// CHECK: plan.matmul "bd,be->de" %{{[0-9a-z]+}}, %{{[0-9a-z]+}} into %[[PRODUCT:[0-9]+]] {
// CHECK: plan.launch reads(%[[ACC]] :
// CHECK: graph.reduce
// CHECK: plan.launch reads(%[[ACC]], %[[PRODUCT]] : {{.*}}) writes(%[[ACC]] :
// CHECK: graph.add
// CHECK-NOT: plan.copy
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "tp"=1]>} {
  graph.source @src : tensor<8x8xf32> {init = #graph.init_kind<zeros>}
  graph.state @w : tensor<8x8xf32> parameter views [#graph.view<@src, 0, [8, 1]>]
  graph.state @w.grad : tensor<8x8xf32> accumulator of @w
  func.func @forward_0() attributes {parallel.stage = 0 : i64, parallel.procedure = "forward"} { return }
  func.func @backward_0(%x: tensor<4x8xf32> {graph.input = "x"}, %acc: tensor<8x8xf32> {graph.state = @w.grad})
      -> (tensor<8x8xf32> {graph.state = @w.grad}, tensor<8xf32> {graph.output = "before"})
      attributes {parallel.stage = 0 : i64, parallel.procedure = "backward"} {
    %0 = graph.matmul "bd,be->de" %x, %x : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
    %1 = graph.reduce %acc {kind = #graph.reduce_kind<sum>, dims = array<i64: 0>} : (tensor<8x8xf32>) -> tensor<8xf32>
    %2 = graph.add %acc, %0 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    return %2, %1 : tensor<8x8xf32>, tensor<8xf32>
  }
  func.func @update_0() attributes {parallel.stage = 0 : i64, parallel.procedure = "update"} { return }
}

// -----

// Layers of a stacked accumulator are views of it; a concatenation is where its
// parts are written to. The buffer says which layers the stage holds.
// CHECK-LABEL: plan.stage @stage0
// CHECK-SAME: chunks = [#plan.chunk<2, 3>]
// CHECK: %[[ACC:[0-9a-z]+]] = plan.buffer persistent {binding = #plan.state<@w.grad, accumulator, layers = [2, 2], dims = {{\[\[\]\]}}, valid_shape = [8]>} : !plan.buffer<2x8xf32>
// CHECK-DAG: %[[LAST:[0-9a-z]+]] = plan.buffer persistent of %[[ACC]] : !plan.buffer<2x8xf32> at 32 : !plan.buffer<8xf32>
// CHECK-DAG: %[[FIRST:[0-9a-z]+]] = plan.buffer persistent of %[[ACC]] : !plan.buffer<2x8xf32> at 0 : !plan.buffer<8xf32>
// CHECK: plan.procedure @backward
// CHECK: plan.launch reads(%[[LAST]], %{{[0-9a-z]+}} : {{.*}}) writes(%[[LAST]] :
// CHECK: plan.launch reads(%[[FIRST]], %{{[0-9a-z]+}} : {{.*}}) writes(%[[FIRST]] :
// CHECK-NOT: plan.copy
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "tp"=1]>} {
  graph.source @src : tensor<32xf32> {init = #graph.init_kind<zeros>}
  graph.state @w : tensor<4x8xf32> parameter stacked views [#graph.view<@src, 0, [1]>, #graph.view<@src, 8, [1]>, #graph.view<@src, 16, [1]>, #graph.view<@src, 24, [1]>]
  graph.state @w.grad : tensor<4x8xf32> accumulator stacked of @w
  func.func @forward_0() attributes {parallel.stage = 0 : i64, parallel.procedure = "forward"} { return }
  func.func @backward_0(%dy: tensor<8xf32> {graph.input = "dy"},
                        %acc: tensor<2x8xf32> {graph.state = @w.grad, parallel.layers = array<i64: 2, 2>})
      -> (tensor<2x8xf32> {graph.state = @w.grad, parallel.layers = array<i64: 2, 2>})
      attributes {parallel.stage = 0 : i64, parallel.procedure = "backward"} {
    %0 = graph.slice %acc {starts = array<i64: 1, 0>, limits = array<i64: 2, 8>, steps = array<i64: 1, 1>} : (tensor<2x8xf32>) -> tensor<1x8xf32>
    %1 = graph.reshape %0 : (tensor<1x8xf32>) -> tensor<8xf32>
    %2 = graph.add %1, %dy : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %3 = graph.reshape %2 : (tensor<8xf32>) -> tensor<1x8xf32>
    %4 = graph.slice %acc {starts = array<i64: 0, 0>, limits = array<i64: 1, 8>, steps = array<i64: 1, 1>} : (tensor<2x8xf32>) -> tensor<1x8xf32>
    %5 = graph.reshape %4 : (tensor<1x8xf32>) -> tensor<8xf32>
    %6 = graph.add %5, %dy : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %7 = graph.reshape %6 : (tensor<8xf32>) -> tensor<1x8xf32>
    %8 = graph.concat %7, %3 {dim = 0 : i64} : (tensor<1x8xf32>, tensor<1x8xf32>) -> tensor<2x8xf32>
    return %8 : tensor<2x8xf32>
  }
  func.func @update_0() attributes {parallel.stage = 0 : i64, parallel.procedure = "update"} { return }
}

// -----

// A stage in the middle: one message for all tensors of a border, in an exchange of its
// own, all on one stream; what is sent is complete first (done), and not overwritten
// while it is on its way (sent); what arrives does not overwrite what the slot's last
// micro-batch reads in its backward. A value that only passes through is sent from where
// it arrived.
// CHECK-LABEL: plan.stage @stage1
// CHECK: plan.procedure @forward forward
// CHECK-NEXT: plan.wait [[SENT:1]] {{.*}}stream = 0
// CHECK-NEXT: plan.wait [[ARRIVED:2]] {{.*}}stream = 0
// CHECK-NEXT: plan.launch reads(%[[X:[0-9a-z]+]] : {{.*}}) writes(%[[Z:[0-9a-z]+]] :
// CHECK: plan.record [[DONE:0]] {{.*}}stream = 0
// CHECK-NEXT: {{^ *}$}}
// CHECK: plan.procedure @recv_forward exchange
// CHECK-NEXT: plan.wait [[BACK:3]] {{.*}}stream = 3
// CHECK-NEXT: plan.recv %[[X]], %[[Y:[0-9a-z]+]] from "pp" -1 channel 0 {{.*}}stream = 3
// CHECK-NEXT: plan.record [[ARRIVED]] {{.*}}stream = 3
// CHECK: plan.procedure @send_forward exchange
// CHECK-NEXT: plan.wait [[DONE]] {{.*}}stream = 3
// CHECK-NEXT: plan.send %[[Z]], %[[Y]] to "pp" 1 channel 0 {origin = #plan.origin<"stage_boundary" tactic "stages" rule "activations" detail {tensors = [{layout = #parallel.sharding<[{"dp"}]>, names = ["h1"], type = tensor<4xf32>}, {type = tensor<2xf32>}]}>, stream = 3
// CHECK-NEXT: plan.record [[SENT]] {{.*}}stream = 3
// CHECK: plan.procedure @backward backward
// CHECK-NEXT: plan.wait 4 {{.*}}stream = 0
// CHECK-NEXT: plan.wait 5 {{.*}}stream = 0
// CHECK: plan.record [[BACK]] {{.*}}stream = 0
// CHECK: plan.procedure @recv_backward exchange
// CHECK-NEXT: plan.wait [[BACK]] {{.*}}stream = 3
// CHECK-NEXT: plan.recv %{{[0-9a-z]+}} from "pp" 1 channel 1
// CHECK: plan.procedure @send_backward exchange
// CHECK: plan.send %{{[0-9a-z]+}} to "pp" -1 channel 1 {origin = #plan.origin<"stage_boundary" tactic "stages" rule "cotangents" detail {tensors = [{type = tensor<4xf32>}]}>, stream = 3
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=3, "tp"=1]>} {
  func.func @forward_1(%x: tensor<4xf32> {parallel.boundary = 0 : i64}, %y: tensor<2xf32> {parallel.boundary = 1 : i64})
      -> (tensor<4xf32> {parallel.boundary = 0 : i64, parallel.sharding = #parallel.sharding<[{"dp"}]>}, tensor<2xf32> {parallel.boundary = 1 : i64})
      attributes {parallel.stage = 1 : i64, parallel.procedure = "forward"} {
    %0 = graph.exp %x : (tensor<4xf32>) -> tensor<4xf32> loc("h1")
    return %0, %y : tensor<4xf32>, tensor<2xf32>
  }
  func.func @backward_1(%dx: tensor<4xf32> {parallel.boundary = 0 : i64}) -> (tensor<4xf32> {parallel.boundary = 0 : i64})
      attributes {parallel.stage = 1 : i64, parallel.procedure = "backward"} {
    %0 = graph.neg %dx : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
  func.func @update_1() attributes {parallel.stage = 1 : i64, parallel.procedure = "update"} { return }
}

// -----

// The rows of a cut table: their first index is a scalar of the kernel, 8 times the
// coordinate along tp (base, dp, pp, tp). Reductions happen in place, where the sum has a
// life of its own; padding and cuts stand in the binding.
// CHECK-LABEL: plan.stage @stage0
// CHECK: %[[T:[0-9a-z]+]] = plan.buffer persistent {binding = #plan.state<@table, parameter, dims = {{\[}}["tp"], []], valid_shape = [29, 8]>} : !plan.buffer<8x8xf32>
// CHECK: plan.procedure @forward
// CHECK: plan.launch reads(%[[T]], %{{[0-9a-z]+}} : {{.*}}) writes(%[[E:[0-9a-z]+]] : {{.*}}scalars = [array<i64: 0, 0, 0, 8>]
// CHECK-NEXT: ^bb0(%{{[0-9a-z]+}}: tensor<8x8xf32>, %{{[0-9a-z]+}}: tensor<2x6xi64>, %[[O:[0-9a-z]+]]: tensor<i64>):
// CHECK-NEXT: graph.gather {{.*}}, %[[O]]
// CHECK: plan.collective all_reduce <sum> %[[E]] into %[[E]] over ["tp"] {origin = #plan.origin<"parallel.all_reduce" nodes ["wte"] tactic "tensor" rule "vocabulary cut">
// CHECK-SAME: plan.value_versions = array<i64: 0, 1>
// CHECK: plan.launch reads(%[[E]] : {{.*}}plan.value_versions = array<i64: 1, 0>
// CHECK: plan.procedure @update
// CHECK: plan.collective all_reduce <sum> %[[G:[0-9a-z]+]] into %[[G]] over ["dp"]
module attributes {parallel.mesh = #parallel.mesh<["dp"=2, "pp"=1, "tp"=4]>} {
  graph.source @src : tensor<29x8xf32> {init = #graph.init_kind<zeros>}
  graph.state @table : tensor<32x8xf32> parameter views [#graph.view<@src, 0, [8, 1]>] {parallel.sharding = #parallel.sharding<[{"tp"}, {}]>, valid_shape = [29, 8]}
  graph.state @table.grad : tensor<32x8xf32> accumulator of @table {parallel.sharding = #parallel.sharding<[{"tp"}, {}]>, valid_shape = [29, 8]}
  func.func @forward_0(%ids: tensor<2x6xi64> {graph.input = "ids"}, %t: tensor<8x8xf32> {graph.state = @table})
      -> (tensor<2x6x8xf32> {parallel.residual = 0 : i64})
      attributes {parallel.stage = 0 : i64, parallel.procedure = "forward"} {
    %o = parallel.axis_offset ["tp"] stride 8 : tensor<i64>
    %0 = graph.gather %t, %ids, %o : (tensor<8x8xf32>, tensor<2x6xi64>, tensor<i64>) -> tensor<2x6x8xf32>
    %1 = parallel.all_reduce %0 over ["tp"] {kind = #graph.reduce_kind<sum>, parallel.origin = {node = "wte", tactic = "tensor", rule = "vocabulary cut"}} : tensor<2x6x8xf32>
    %2 = graph.exp %1 : (tensor<2x6x8xf32>) -> tensor<2x6x8xf32>
    return %2 : tensor<2x6x8xf32>
  }
  func.func @backward_0() attributes {parallel.stage = 0 : i64, parallel.procedure = "backward"} { return }
  func.func @update_0(%acc: tensor<8x8xf32> {graph.state = @table.grad}) -> (tensor<8x8xf32> {graph.state = @table.grad})
      attributes {parallel.stage = 0 : i64, parallel.procedure = "update"} {
    %0 = parallel.all_reduce %acc over ["dp"] {kind = #graph.reduce_kind<sum>} : tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}

// -----

// A tied state: the first of its stages owns it, the other one holds a copy.
// CHECK-LABEL: plan.stage @stage0
// CHECK: #plan.state<@w, parameter, dims = {{.*}}, valid_shape = [8]>
// CHECK-LABEL: plan.stage @stage1
// CHECK: #plan.state<@w, parameter, dims = {{.*}}, valid_shape = [8], owner = false>
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=2, "tp"=1]>} {
  graph.source @src : tensor<8xf32> {init = #graph.init_kind<zeros>}
  graph.state @w : tensor<8xf32> parameter views [#graph.view<@src, 0, [1]>] {parallel.stages = [0, 1]}
  func.func @forward_0() attributes {parallel.stage = 0 : i64, parallel.procedure = "forward"} { return }
  func.func @backward_0() attributes {parallel.stage = 0 : i64, parallel.procedure = "backward"} { return }
  func.func @update_0(%w: tensor<8xf32> {graph.state = @w}) -> (tensor<8xf32> {graph.state = @w}) attributes {parallel.stage = 0 : i64, parallel.procedure = "update"} {
    %0 = graph.neg %w : (tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
  func.func @forward_1() attributes {parallel.stage = 1 : i64, parallel.procedure = "forward"} { return }
  func.func @backward_1() attributes {parallel.stage = 1 : i64, parallel.procedure = "backward"} { return }
  func.func @update_1(%w: tensor<8xf32> {graph.state = @w}) -> (tensor<8xf32> {graph.state = @w}) attributes {parallel.stage = 1 : i64, parallel.procedure = "update"} {
    %0 = graph.neg %w : (tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

// A stage with two chunks of layers, virtual stages 0 and 2 of 4. Each chunk has its
// procedures, its pool of slots and its part of a stacked state. What chunk 1 needs comes from
// the last stage, around the axis; each channel belongs to one border.
// CHECK-LABEL: plan.stage @stage0
// CHECK-SAME: chunks = [#plan.chunk<0, 0>, #plan.chunk<2, 2>], pools = [#plan.pool<0, 1>, #plan.pool<1, 1>]
// CHECK-DAG: %[[X0:[0-9a-z]+]] = plan.buffer slot {binding = #plan.input<"x">} : !plan.buffer<8xf32>
// CHECK-DAG: %[[H0:[0-9a-z]+]] = plan.buffer slot : !plan.buffer<8xf32>
// CHECK-DAG: %[[X1:[0-9a-z]+]] = plan.buffer slot {pool = 1 : i64} : !plan.buffer<8xf32>
// CHECK-DAG: plan.buffer persistent {binding = #plan.state<@w, parameter, layers = [0, 1],
// CHECK-DAG: plan.buffer persistent {binding = #plan.state<@w, parameter, layers = [2, 1],
// CHECK: plan.procedure @forward forward {
// CHECK: plan.procedure @send_forward exchange {
// CHECK: plan.send %[[H0]] to "pp" 1 channel 0 {
// CHECK-NOT: wrap
// CHECK: plan.procedure @backward backward {
// CHECK: plan.procedure @recv_backward exchange {
// CHECK: plan.recv %{{.*}} from "pp" 1 channel 1 {
// CHECK: plan.procedure @forward_1 forward attributes {chunk = 1 : i64, lanes = array<i64: 1>} {
// CHECK: plan.procedure @recv_forward_1 exchange attributes {chunk = 1 : i64, lanes = array<i64: 1>} {
// CHECK: plan.recv %[[X1]] from "pp" -1 wrap channel 2
// CHECK: plan.procedure @send_forward_1 exchange
// CHECK: plan.send %{{.*}} to "pp" 1 channel 2 {
// CHECK: plan.procedure @backward_1 backward
// CHECK: plan.procedure @recv_backward_1 exchange
// CHECK: plan.recv %{{.*}} from "pp" 1 channel 3 {
// CHECK: plan.procedure @send_backward_1 exchange
// CHECK: plan.send %{{.*}} to "pp" -1 wrap channel 1
// CHECK: plan.procedure @update update
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=2, "tp"=1]>, parallel.stage_layers = array<i64: 1, 1, 1, 1>} {
  graph.source @src : tensor<32xf32> {init = #graph.init_kind<zeros>}
  graph.state @w : tensor<4x8xf32> parameter stacked views [#graph.view<@src, 0, [1]>, #graph.view<@src, 8, [1]>, #graph.view<@src, 16, [1]>, #graph.view<@src, 24, [1]>]
  func.func @forward_0(%x: tensor<8xf32> {graph.input = "x"}, %w: tensor<1x8xf32> {graph.state = @w, parallel.layers = array<i64: 0, 1>}) -> (tensor<8xf32> {parallel.boundary = 0 : i64})
      attributes {parallel.stage = 0 : i64, parallel.procedure = "forward"} {
    %l = graph.reshape %w : (tensor<1x8xf32>) -> tensor<8xf32>
    %0 = graph.add %x, %l : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
  func.func @backward_0(%dx: tensor<8xf32> {parallel.boundary = 0 : i64}) attributes {parallel.stage = 0 : i64, parallel.procedure = "backward"} {
    return
  }
  func.func @forward_2(%x: tensor<8xf32> {parallel.boundary = 0 : i64}, %w: tensor<1x8xf32> {graph.state = @w, parallel.layers = array<i64: 2, 1>}) -> (tensor<8xf32> {parallel.boundary = 0 : i64})
      attributes {parallel.stage = 0 : i64, parallel.chunk = 1 : i64, parallel.procedure = "forward"} {
    %l = graph.reshape %w : (tensor<1x8xf32>) -> tensor<8xf32>
    %0 = graph.add %x, %l : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
  func.func @backward_2(%dx: tensor<8xf32> {parallel.boundary = 0 : i64}) -> (tensor<8xf32> {parallel.boundary = 0 : i64})
      attributes {parallel.stage = 0 : i64, parallel.chunk = 1 : i64, parallel.procedure = "backward"} {
    %0 = graph.neg %dx : (tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
  func.func @update_0() attributes {parallel.stage = 0 : i64, parallel.procedure = "update"} { return }
}

// -----

// An input says how ranks share it where rows are not all that is cut, and what the loader
// does with it; of one whose rows alone are cut, over the data axes, nothing is said.
// CHECK-LABEL: plan.stage @stage0
// CHECK-DAG: plan.buffer slot {binding = #plan.input<"x", dims = {{\[\["dp"\], \["cp"\]\]}}, loader = <permuted_dim = 1, block_order = [1, 0]>>}
// CHECK-DAG: plan.buffer slot {binding = #plan.input<"p", dims = {{\[\[\], \["cp"\]\]}}, loader = <default_value = positions>>}
// CHECK-DAG: plan.buffer slot {binding = #plan.input<"y">}
module attributes {graph.mode = "infer", parallel.mesh = #parallel.mesh<["dp"=2, "pp"=1, "cp"=2]>} {
  func.func @forward_0(
      %x: tensor<2x4xf32> {graph.input = "x", graph.loader = #graph.loader<permuted_dim = 1, block_order = [1, 0]>,
                           parallel.sharding = #parallel.sharding<[{"dp"}, {"cp"}]>},
      %p: tensor<2x4xf32> {graph.input = "p", graph.loader = #graph.loader<default_value = positions>, parallel.sharding = #parallel.sharding<[{}, {"cp"}]>},
      %y: tensor<2x4xf32> {graph.input = "y", parallel.sharding = #parallel.sharding<[{"dp"}, {}]>})
      -> (tensor<2x4xf32> {graph.output = "z"})
      attributes {parallel.stage = 0 : i64, parallel.procedure = "forward"} {
    %0 = graph.add %x, %p : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
    %1 = graph.add %0, %y : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
    return %1 : tensor<2x4xf32>
  }
}

// -----

// Shifts that stand side by side travel in one message, but not one that sends what another receives.
// CHECK-LABEL: plan.stage
// CHECK: plan.procedure @forward
// CHECK: plan.send %[[A:.*]], %[[B:.*]] to "cp" 1 wrap
// CHECK-NEXT: plan.recv %[[A1:.*]], %[[B1:.*]] from "cp" -1 wrap {{.*}}grouped
// CHECK-NEXT: plan.send %[[A1]] to "cp" 1 wrap
// CHECK-NEXT: plan.recv %{{.*}} from "cp" -1 wrap {{.*}}grouped
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "cp"=3, "tp"=1]>} {
  func.func @forward_0(%a: tensor<4xf32> {graph.input = "a"}, %b: tensor<4xf32> {graph.input = "b"}) -> (tensor<4xf32> {parallel.residual = 0 : i64}, tensor<4xf32> {parallel.residual = 1 : i64}) attributes {parallel.stage = 0 : i64, parallel.procedure = "forward"} {
    %a1 = parallel.shift %a over ["cp"] by 1 : tensor<4xf32>
    %b1 = parallel.shift %b over ["cp"] by 1 : tensor<4xf32>
    %a2 = parallel.shift %a1 over ["cp"] by 1 : tensor<4xf32>
    return %a2, %b1 : tensor<4xf32>, tensor<4xf32>
  }
  func.func @backward_0() attributes {parallel.stage = 0 : i64, parallel.procedure = "backward"} { return }
  func.func @update_0() attributes {parallel.stage = 0 : i64, parallel.procedure = "update"} { return }
}
