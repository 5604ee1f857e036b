// RUN: split-file %s %t
// RUN: llmc-opt %t/head.mlir --llmc-divide-layers=stages=2 | FileCheck %t/head.mlir
// RUN: llmc-opt %t/ties.mlir --llmc-divide-layers=stages=3 | FileCheck %t/ties.mlir --check-prefix=BALANCED
// RUN: llmc-opt %t/ties.mlir --llmc-divide-layers="stages=4 layers=0,4,1,0" | FileCheck %t/ties.mlir --check-prefix=GIVEN
// RUN: llmc-opt %t/ties.mlir --llmc-divide-layers | FileCheck %t/ties.mlir --check-prefix=ALONE
// RUN: llmc-opt %t/halves.mlir --llmc-divide-layers=stages=4 | FileCheck %t/halves.mlir --check-prefixes=CHECK,FOUR
// RUN: llmc-opt %t/halves.mlir --llmc-divide-layers=stages=2 | FileCheck %t/halves.mlir --check-prefixes=CHECK,TWO
// RUN: llmc-opt %t/together.mlir --llmc-divide-layers=stages=3 | FileCheck %t/together.mlir
// RUN: llmc-opt %t/chunks.mlir --llmc-divide-layers="stages=2 chunks=2" --mlir-print-debuginfo --mlir-print-local-scope | FileCheck %t/chunks.mlir
// RUN: llmc-opt %t/constant.mlir --llmc-divide-layers="stages=2" | FileCheck %t/constant.mlir
// RUN: llmc-opt %t/export.mlir --llmc-divide-layers="stages=2 chunks=2" | FileCheck %t/export.mlir

//--- head.mlir
// Counts what precedes the layers, as much as two of them, to the first stage, and a head of four
// to the last: five layers' worth on each.
// CHECK: parallel.stage_layers = array<i64: 3, 1>
module {
  // CHECK-LABEL: func.func @forward
  func.func @forward(%x: tensor<4x8xf32> {graph.input = "x"}, %e: tensor<8x16xf32> {graph.input = "e"}, %w: tensor<4x8x8xf32> {graph.input = "w"}, %v: tensor<8x32xf32> {graph.input = "v"}) -> (tensor<4x32xf32> {graph.output = "y"}, tensor<4x16xf32> {graph.output = "z"}) {
    %z = graph.matmul "bd,de->be" %x, %e : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
    // CHECK: graph.repeat 4 carried(
    %h = graph.repeat 4 carried(%x : tensor<4x8xf32>) stacked(%w : tensor<4x8x8xf32>) captured() -> tensor<4x8xf32> {
    ^bb0(%c: tensor<4x8xf32>, %wi: tensor<8x8xf32>):
      %a = graph.matmul "bd,de->be" %c, %wi : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
      graph.yield %a : tensor<4x8xf32>
    }
    // CHECK-NOT: graph.repeat
    %y = graph.matmul "bd,dv->bv" %h, %v : (tensor<4x8xf32>, tensor<8x32xf32>) -> tensor<4x32xf32>
    return %y, %z : tensor<4x32xf32>, tensor<4x16xf32>
  }
}

//--- ties.mlir
// Takes of even divisions of five layers over three stages the one with more layers on earlier
// stages; takes what is given, where the ends may have none; divides nothing for a single stage.
// BALANCED: parallel.stage_layers = array<i64: 2, 2, 1>
// GIVEN: parallel.stage_layers = array<i64: 0, 4, 1, 0>
// ALONE-NOT: parallel.stage_layers
module {
  // BALANCED-LABEL: func.func @forward
  // GIVEN-LABEL: func.func @forward
  // ALONE: func.func @forward
  func.func @forward(%x: tensor<4x8xf32> {graph.input = "x"}, %w: tensor<5x8x8xf32> {graph.input = "w"}) -> (tensor<4x8xf32> {graph.output = "y"}) {
    // BALANCED: graph.repeat 5 carried(
    // GIVEN: graph.repeat 5 carried(
    %h = graph.repeat 5 carried(%x : tensor<4x8xf32>) stacked(%w : tensor<5x8x8xf32>) captured() -> tensor<4x8xf32> {
    ^bb0(%c: tensor<4x8xf32>, %wi: tensor<8x8xf32>):
      %a = graph.matmul "bd,de->be" %c, %wi : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
      graph.yield %a : tensor<4x8xf32>
    }
    return %h : tensor<4x8xf32>
  }
}

//--- halves.mlir
// Cuts a repeat whose body has two layers where a stage begins inside of the body: each part reads
// the parameters of its own layers alone, states of one layer that view the same tensors. Two
// stages begin with a body, and leave the repeat whole.
// FOUR: parallel.stage_layers = array<i64: 1, 1, 1, 1>
// TWO: parallel.stage_layers = array<i64: 2, 2>
module {
  graph.source @src : tensor<4x8xf32> {init = #graph.init_kind<zeros>}
  // FOUR: graph.state @[[$V0:.*]] : tensor<1x8xf32> parameter stacked views [#graph.view<@src, 0, [1]>]
  // FOUR: graph.state @[[$V1:.*]] : tensor<1x8xf32> parameter stacked views [#graph.view<@src, 16, [1]>]
  // FOUR: graph.state @[[$W0:.*]] : tensor<1x8xf32> parameter stacked views [#graph.view<@src, 8, [1]>]
  // FOUR: graph.state @[[$W1:.*]] : tensor<1x8xf32> parameter stacked views [#graph.view<@src, 24, [1]>]
  // FOUR-NOT: graph.state
  graph.state @v : tensor<2x8xf32> parameter stacked views [#graph.view<@src, 0, [1]>, #graph.view<@src, 16, [1]>]
  graph.state @w : tensor<2x8xf32> parameter stacked views [#graph.view<@src, 8, [1]>, #graph.view<@src, 24, [1]>]
  // CHECK-LABEL: func.func @forward
  // FOUR-SAME: %[[X:arg[0-9]*]]: tensor<1x4x2x8xf32> {graph.input = "x"}
  // FOUR-SAME: %[[A0:arg[0-9]*]]: tensor<1x8xf32> {graph.state = @[[$V0]]}
  // FOUR-SAME: %[[A1:arg[0-9]*]]: tensor<1x8xf32> {graph.state = @[[$V1]]}
  // FOUR-SAME: %[[B0:arg[0-9]*]]: tensor<1x8xf32> {graph.state = @[[$W0]]}
  // FOUR-SAME: %[[B1:arg[0-9]*]]: tensor<1x8xf32> {graph.state = @[[$W1]]}
  // FOUR: %[[H0:.*]] = graph.repeat 1 carried(%[[X]] : tensor<1x4x2x8xf32>) stacked(%[[A0]] : tensor<1x8xf32>) captured()
  // FOUR: ^bb0(%{{.*}}: tensor<1x4x2x8xf32>, %[[VI:.*]]: tensor<8xf32>):
  // FOUR: %[[C:.*]] = graph.add %{{.*}}, %[[VI]]
  // FOUR-NEXT: graph.yield %[[C]] :
  // FOUR: %[[H1:.*]] = graph.repeat 1 carried(%[[H0]] : tensor<1x4x2x8xf32>) stacked(%[[B0]] : tensor<1x8xf32>) captured()
  // FOUR-NEXT: ^bb0(%[[HI:.*]]: tensor<1x4x2x8xf32>, %[[WI:.*]]: tensor<8xf32>):
  // FOUR-NEXT: %[[P:.*]], %{{.*}} = graph.attention %[[HI]], %[[HI]], %[[HI]]
  // FOUR-NEXT: graph.mul %[[P]], %[[WI]]
  // FOUR: %[[H2:.*]] = graph.repeat 1 carried(%[[H1]] : tensor<1x4x2x8xf32>) stacked(%[[A1]] : tensor<1x8xf32>) captured()
  // FOUR: %[[H3:.*]] = graph.repeat 1 carried(%[[H2]] : tensor<1x4x2x8xf32>) stacked(%[[B1]] : tensor<1x8xf32>) captured()
  // FOUR: return %[[H3]]
  // TWO: graph.repeat 2 carried(%{{.*}}) stacked(%{{.*}}, %{{.*}} : tensor<2x8xf32>, tensor<2x8xf32>)
  // TWO-NOT: graph.repeat
  func.func @forward(%x: tensor<1x4x2x8xf32> {graph.input = "x"}, %v: tensor<2x8xf32> {graph.state = @v}, %w: tensor<2x8xf32> {graph.state = @w}) -> (tensor<1x4x2x8xf32> {graph.output = "y"}) {
    %y = graph.repeat 2 carried(%x : tensor<1x4x2x8xf32>) stacked(%v, %w : tensor<2x8xf32>, tensor<2x8xf32>) captured() -> tensor<1x4x2x8xf32> {
    ^bb0(%h: tensor<1x4x2x8xf32>, %vi: tensor<8xf32>, %wi: tensor<8xf32>):
      %o, %l = graph.attention %h, %h, %h {scale = 1.0, causal = true} : (tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>) -> (tensor<1x4x2x8xf32>, tensor<1x4x2xf32>)
      %c = graph.add %o, %vi : (tensor<1x4x2x8xf32>, tensor<8xf32>) -> tensor<1x4x2x8xf32>
      %p, %m = graph.attention %c, %c, %c {scale = 1.0, causal = true} : (tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>) -> (tensor<1x4x2x8xf32>, tensor<1x4x2xf32>)
      %d = graph.mul %p, %wi : (tensor<1x4x2x8xf32>, tensor<8xf32>) -> tensor<1x4x2x8xf32>
      graph.yield %d : tensor<1x4x2x8xf32>
    }
    return %y : tensor<1x4x2x8xf32>
  }
}

//--- together.mlir
// Divides groups, where the second layer of a body needs more of the first than the repeat carries:
// five groups of two layers over three stages.
// CHECK: parallel.stage_layers = array<i64: 4, 4, 2>
module {
  // CHECK-LABEL: func.func @forward
  func.func @forward(%x: tensor<1x4x2x8xf32> {graph.input = "x"}) -> (tensor<1x4x2x8xf32> {graph.output = "y"}) {
    // CHECK: graph.repeat 5
    // CHECK-NOT: graph.repeat
    %y = graph.repeat 5 carried(%x : tensor<1x4x2x8xf32>) stacked() captured() -> tensor<1x4x2x8xf32> {
    ^bb0(%h: tensor<1x4x2x8xf32>):
      %o, %l = graph.attention %h, %h, %h {scale = 1.0, causal = true} : (tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>) -> (tensor<1x4x2x8xf32>, tensor<1x4x2xf32>)
      %p, %m = graph.attention %o, %o, %o {scale = 1.0, causal = true} : (tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>) -> (tensor<1x4x2x8xf32>, tensor<1x4x2xf32>)
      %s = graph.add %p, %h : (tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>) -> tensor<1x4x2x8xf32>
      graph.yield %s : tensor<1x4x2x8xf32>
    }
    return %y : tensor<1x4x2x8xf32>
  }
}

//--- chunks.mlir
// Cuts each repeat where a chunk begins, its states with their views and locations, and slices what
// is no state: stage 0 has layers 0 and 2, stage 1 layers 1 and 3.
// CHECK: parallel.stage_layers = array<i64: 1, 1, 1, 1>
module {
  graph.source @src : tensor<4x8xf32> {init = #graph.init_kind<zeros>}
  // CHECK: graph.state @[[$W0:.*]] : tensor<2x8xf32> parameter stacked views [#graph.view<@src, 0, [1]>, #graph.view<@src, 8, [1]>] loc(fused<"layers">["w0", "w1"])
  // CHECK-NEXT: graph.state @[[$W1:.*]] : tensor<2x8xf32> parameter stacked views [#graph.view<@src, 16, [1]>, #graph.view<@src, 24, [1]>] loc(fused<"layers">["w2", "w3"])
  // CHECK-NOT: graph.state @
  graph.state @w : tensor<4x8xf32> parameter stacked views [#graph.view<@src, 0, [1]>, #graph.view<@src, 8, [1]>, #graph.view<@src, 16, [1]>, #graph.view<@src, 24, [1]>] loc(fused<"layers">["w0", "w1", "w2", "w3"])
  // CHECK-LABEL: func.func @forward
  // CHECK-SAME: %[[X:arg[0-9]*]]: tensor<8xf32> {graph.input = "x"}
  // CHECK-SAME: %[[C:arg[0-9]*]]: tensor<4x8xf32> {graph.input = "c"}
  // CHECK-SAME: %[[A0:arg[0-9]*]]: tensor<2x8xf32> {graph.state = @[[$W0]]} loc(fused<"layers">["w0", "w1"])
  // CHECK-SAME: %[[A1:arg[0-9]*]]: tensor<2x8xf32> {graph.state = @[[$W1]]} loc(fused<"layers">["w2", "w3"])
  func.func @forward(%x: tensor<8xf32> {graph.input = "x"}, %c: tensor<4x8xf32> {graph.input = "c"}, %w: tensor<4x8xf32> {graph.state = @w} loc(fused<"layers">["w0", "w1", "w2", "w3"]), %s: tensor<8xf32> {graph.input = "s"}) -> (tensor<8xf32> {graph.output = "y"}) {
    // CHECK: %[[C0:.*]] = graph.slice %[[C]] {limits = array<i64: 2, 8>, starts = array<i64: 0, 0>
    // CHECK: %[[H:.*]] = graph.repeat 2 carried(%[[X]] : tensor<8xf32>) stacked(%[[A0]], %[[C0]] : tensor<2x8xf32>, tensor<2x8xf32>) captured(%[[S:.*]] : tensor<8xf32>)
    // CHECK: graph.add {{.*}} loc(fused<"layers">["add0", "add1"])
    // CHECK: %[[C1:.*]] = graph.slice %[[C]] {limits = array<i64: 4, 8>, starts = array<i64: 2, 0>
    // CHECK: graph.repeat 2 carried(%[[H]] : tensor<8xf32>) stacked(%[[A1]], %[[C1]] : tensor<2x8xf32>, tensor<2x8xf32>) captured(%[[S]] : tensor<8xf32>)
    // CHECK: graph.add {{.*}} loc(fused<"layers">["add2", "add3"])
    // CHECK: graph.mul {{.*}} loc("scale")
    %h = graph.repeat 4 carried(%x : tensor<8xf32>) stacked(%w, %c : tensor<4x8xf32>, tensor<4x8xf32>) captured(%s : tensor<8xf32>) -> tensor<8xf32> {
    ^bb0(%hi: tensor<8xf32>, %wi: tensor<8xf32>, %ci: tensor<8xf32>, %si: tensor<8xf32>):
      %a = graph.add %hi, %wi : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32> loc(fused<"layers">["add0", "add1", "add2", "add3"])
      %b = graph.mul %a, %ci : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32> loc("scale")
      %d = graph.mul %b, %si : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
      graph.yield %d : tensor<8xf32>
    }
    return %h : tensor<8xf32>
  }
}

//--- constant.mlir
// Gives each layer its own copy of a number that two layers of a body use; it crosses no stage.
// CHECK: parallel.stage_layers = array<i64: 1, 1>
module {
  // CHECK-LABEL: func.func @forward
  func.func @forward(%x: tensor<1x4x2x8xf32> {graph.input = "x"}) -> (tensor<1x4x2x8xf32> {graph.output = "y"}) {
    // CHECK: graph.repeat 1
    // CHECK: %[[T0:.*]] = graph.constant dense<2.0
    // CHECK: graph.mul %{{.*}}, %[[T0]]
    // CHECK: graph.yield
    // CHECK: graph.repeat 1
    // CHECK: %[[T1:.*]] = graph.constant dense<2.0
    // CHECK: graph.mul %{{.*}}, %[[T1]]
    // CHECK: graph.yield
    // CHECK-NOT: graph.repeat
    %y = graph.repeat 1 carried(%x : tensor<1x4x2x8xf32>) stacked() captured() -> tensor<1x4x2x8xf32> {
    ^bb0(%h: tensor<1x4x2x8xf32>):
      %two = graph.constant dense<2.0> : tensor<f32>
      %o, %l = graph.attention %h, %h, %h {scale = 1.0, causal = true} : (tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>) -> (tensor<1x4x2x8xf32>, tensor<1x4x2xf32>)
      %a = graph.mul %o, %two : (tensor<1x4x2x8xf32>, tensor<f32>) -> tensor<1x4x2x8xf32>
      %p, %m = graph.attention %a, %a, %a {scale = 1.0, causal = true} : (tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>) -> (tensor<1x4x2x8xf32>, tensor<1x4x2xf32>)
      %b = graph.mul %p, %two : (tensor<1x4x2x8xf32>, tensor<f32>) -> tensor<1x4x2x8xf32>
      graph.yield %b : tensor<1x4x2x8xf32>
    }
    return %y : tensor<1x4x2x8xf32>
  }
}

//--- export.mlir
// Reads what a layer of an inference stacks (its keys, say) from the part that has the layer, and
// puts all parts together where the whole is used.
// CHECK: parallel.stage_layers = array<i64: 1, 1, 1, 1>
module attributes {graph.mode = "infer"} {
  // CHECK-LABEL: func.func @forward
  func.func @forward(%x: tensor<8xf32> {graph.input = "x"}) -> (tensor<8xf32> {graph.output = "y"}, tensor<1x8xf32> {graph.output = "third"}, tensor<2x8xf32> {graph.output = "middle"}, tensor<4x8xf32> {graph.output = "all"}) {
    // CHECK: %[[H:.*]], %[[R0:.*]] = graph.repeat 2 carried(%{{.*}}) stacked() captured() -> tensor<8xf32> stacking tensor<2x8xf32>
    // CHECK: %[[Y:.*]], %[[R1:.*]] = graph.repeat 2 carried(%[[H]] : tensor<8xf32>) stacked() captured() -> tensor<8xf32> stacking tensor<2x8xf32>
    %h, %r = graph.repeat 4 carried(%x : tensor<8xf32>) stacked() captured() -> tensor<8xf32> stacking tensor<4x8xf32> {
    ^bb0(%hi: tensor<8xf32>):
      %e = graph.exp %hi : (tensor<8xf32>) -> tensor<8xf32>
      graph.yield %e, %hi : tensor<8xf32>, tensor<8xf32>
    }
    // CHECK: %[[ALL:.*]] = graph.concat %[[R0]], %[[R1]] {dim = 0
    // CHECK: %[[THIRD:.*]] = graph.slice %[[R1]] {limits = array<i64: 1, 8>, starts = array<i64: 0, 0>
    %third = graph.slice %r {starts = array<i64: 2, 0>, limits = array<i64: 3, 8>, steps = array<i64: 1, 1>} : (tensor<4x8xf32>) -> tensor<1x8xf32>
    // CHECK: %[[MIDDLE:.*]] = graph.slice %[[ALL]] {limits = array<i64: 3, 8>, starts = array<i64: 1, 0>
    %middle = graph.slice %r {starts = array<i64: 1, 0>, limits = array<i64: 3, 8>, steps = array<i64: 1, 1>} : (tensor<4x8xf32>) -> tensor<2x8xf32>
    // CHECK: return %[[Y]], %[[THIRD]], %[[MIDDLE]], %[[ALL]]
    return %h, %third, %middle, %r : tensor<8xf32>, tensor<1x8xf32>, tensor<2x8xf32>, tensor<4x8xf32>
  }
}
