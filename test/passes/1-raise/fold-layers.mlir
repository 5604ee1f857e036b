// RUN: llmc-opt %s --llmc-fold-layers --split-input-file | FileCheck %s

// Three layers of matmul, bias and residual. The parameters of a layer are
// stacked, the stream is carried; a vector that every layer uses is captured, a
// scalar stands in the body.

// CHECK: module attributes {graph.model = {layers = 3 : i64}}
// CHECK: graph.state @[[SW:.*]] : tensor<3x4x4xf32> parameter stacked views [#graph.view<@w0, 0, [4, 1]>, #graph.view<@w1, 0, [4, 1]>, #graph.view<@w2, 0, [4, 1]>]
// CHECK: func.func @forward(%[[X:.*]]: tensor<2x4xf32> {graph.input = "x"}, %[[V:.*]]: tensor<4xf32> {graph.state = @v}, %[[W:.*]]: tensor<3x4x4xf32> {graph.state = @[[SW]]})
// CHECK-NEXT: %[[R:.*]] = graph.repeat 3 carried(%[[X]] : tensor<2x4xf32>) stacked(%[[W]] : tensor<3x4x4xf32>) captured(%[[V]] : tensor<4xf32>) -> tensor<2x4xf32>
// CHECK-NEXT: ^bb0(%[[H:.*]]: tensor<2x4xf32>, %[[WI:.*]]: tensor<4x4xf32>, %[[VI:.*]]: tensor<4xf32>):
// CHECK-NEXT: %[[M:.*]] = graph.matmul "sd,de->se" %[[H]], %[[WI]]
// CHECK-NEXT: %[[B:.*]] = graph.add %[[M]], %[[VI]]
// CHECK-NEXT: %[[C:.*]] = graph.constant dense<5.000000e-01>
// CHECK-NEXT: %[[T:.*]] = graph.mul %[[B]], %[[C]]
// CHECK-NEXT: %[[Y:.*]] = graph.add %[[H]], %[[T]]
// CHECK-NEXT: graph.yield %[[Y]]
// CHECK: return %[[R]]
graph.source @w0 : tensor<4x4xf32> {init = #graph.init_kind<zeros>}
graph.source @w1 : tensor<4x4xf32> {init = #graph.init_kind<zeros>}
graph.source @w2 : tensor<4x4xf32> {init = #graph.init_kind<zeros>}
graph.source @bias : tensor<4xf32> {init = #graph.init_kind<zeros>}
graph.state @a : tensor<4x4xf32> parameter views [#graph.view<@w0, 0, [4, 1]>]
graph.state @b : tensor<4x4xf32> parameter views [#graph.view<@w1, 0, [4, 1]>]
graph.state @c : tensor<4x4xf32> parameter views [#graph.view<@w2, 0, [4, 1]>]
graph.state @v : tensor<4xf32> parameter views [#graph.view<@bias, 0, [1]>]
func.func @forward(%x: tensor<2x4xf32> {graph.input = "x"}, %a: tensor<4x4xf32> {graph.state = @a}, %v: tensor<4xf32> {graph.state = @v}, %b: tensor<4x4xf32> {graph.state = @b}, %c: tensor<4x4xf32> {graph.state = @c}) -> tensor<2x4xf32> {
  %k = graph.constant dense<0.5> : tensor<f32>
  %0 = graph.matmul "sd,de->se" %x, %a : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %1 = graph.add %0, %v : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  %2 = graph.mul %1, %k : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32>
  %3 = graph.add %x, %2 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %4 = graph.matmul "sd,de->se" %3, %b : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %5 = graph.add %4, %v : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  %6 = graph.mul %5, %k : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32>
  %7 = graph.add %3, %6 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %8 = graph.matmul "sd,de->se" %7, %c : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %9 = graph.add %8, %v : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  %10 = graph.mul %9, %k : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32>
  %11 = graph.add %7, %10 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  return %11 : tensor<2x4xf32>
}

// -----

// Layers that all multiply with one parameter: it is captured.
// CHECK: func.func @shared(
// CHECK: graph.repeat 2 carried({{.*}}) stacked() captured(%{{.*}} : tensor<4x4xf32>)
graph.source @w : tensor<4x4xf32> {init = #graph.init_kind<zeros>}
graph.state @a : tensor<4x4xf32> parameter views [#graph.view<@w, 0, [4, 1]>]
func.func @shared(%x: tensor<2x4xf32> {graph.input = "x"}, %a: tensor<4x4xf32> {graph.state = @a}) -> tensor<2x4xf32> {
  %0 = graph.matmul "sd,de->se" %x, %a : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %1 = graph.relu %0 : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %2 = graph.matmul "sd,de->se" %1, %a : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %3 = graph.relu %2 : (tensor<2x4xf32>) -> tensor<2x4xf32>
  return %3 : tensor<2x4xf32>
}

// -----

// What one layer computes is also a result, or a parameter is used
// elsewhere, or an attribute differs: no two layers are equal, and the model counts as one.
// CHECK: graph.model = {layers = 1 : i64}
// CHECK-NOT: graph.repeat
graph.source @w0 : tensor<4x4xf32> {init = #graph.init_kind<zeros>}
graph.source @w1 : tensor<4x4xf32> {init = #graph.init_kind<zeros>}
graph.state @a : tensor<4x4xf32> parameter views [#graph.view<@w0, 0, [4, 1]>]
graph.state @b : tensor<4x4xf32> parameter views [#graph.view<@w1, 0, [4, 1]>]
func.func @leaves(%x: tensor<2x4xf32> {graph.input = "x"}, %a: tensor<4x4xf32> {graph.state = @a}, %b: tensor<4x4xf32> {graph.state = @b}) -> (tensor<2x4xf32>, tensor<2x4xf32>) {
  %0 = graph.matmul "sd,de->se" %x, %a : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %1 = graph.relu %0 : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %2 = graph.matmul "sd,de->se" %1, %b : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %3 = graph.relu %2 : (tensor<2x4xf32>) -> tensor<2x4xf32>
  return %0, %3 : tensor<2x4xf32>, tensor<2x4xf32>
}
func.func @elsewhere(%x: tensor<2x4xf32> {graph.input = "x"}, %a: tensor<4x4xf32> {graph.state = @a}, %b: tensor<4x4xf32> {graph.state = @b}) -> (tensor<2x4xf32>, tensor<4x4xf32>) {
  %0 = graph.matmul "sd,de->se" %x, %a : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %1 = graph.relu %0 : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %2 = graph.matmul "sd,de->se" %1, %b : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %3 = graph.relu %2 : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %4 = graph.exp %b : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %3, %4 : tensor<2x4xf32>, tensor<4x4xf32>
}
func.func @unequal(%x: tensor<2x4xf32> {graph.input = "x"}, %a: tensor<4x4xf32> {graph.state = @a}, %b: tensor<4x4xf32> {graph.state = @b}) -> tensor<2x4xf32> {
  %0 = graph.matmul "sd,de->se" %x, %a : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %1 = graph.pow %0 {exponent = 2.0 : f64} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %2 = graph.matmul "sd,de->se" %1, %b : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %3 = graph.pow %2 {exponent = 3.0 : f64} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  return %3 : tensor<2x4xf32>
}

// -----

// Two layers that see different windows are two repeats of 1; each holds one attention.
// CHECK: graph.model = {layers = 2 : i64}
// CHECK: %[[A:.*]] = graph.repeat 1 carried(%{{.*}} : tensor<1x4x2x8xf32>) stacked() captured()
// CHECK: graph.attention
// CHECK-NOT: graph.attention
// CHECK: graph.repeat 1 carried(%[[A]]
// CHECK: graph.attention {{.*}}window = 2
module attributes {graph.model = {}} {
  func.func @forward(%x: tensor<1x4x2x8xf32> {graph.input = "x"}) -> (tensor<1x4x2x8xf32> {graph.output = "y"}) {
    %o, %l = graph.attention %x, %x, %x {scale = 1.0, causal = true} : (tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>) -> (tensor<1x4x2x8xf32>, tensor<1x4x2xf32>)
    %0 = graph.add %x, %o : (tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>) -> tensor<1x4x2x8xf32>
    %p, %m = graph.attention %0, %0, %0 {scale = 1.0, causal = true, window = 2} : (tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>) -> (tensor<1x4x2x8xf32>, tensor<1x4x2xf32>)
    %1 = graph.add %0, %p : (tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>) -> tensor<1x4x2x8xf32>
    return %1 : tensor<1x4x2x8xf32>
  }
}

// -----

// Each layer reads an input of its own and gives a result of its own (a cache):
// inputs are stacked by a concatenation, results are slices of a stacked one.
// CHECK-LABEL: @caches
// CHECK-SAME: %[[X:[^:]*]]: tensor<2x4xf32> {graph.input = "x"}, %[[P0:[^:]*]]: tensor<2x4xf32> {graph.input = "p0"}, %[[P1:[^:]*]]: tensor<2x4xf32> {graph.input = "p1"}
// CHECK: %[[R0:.*]] = graph.reshape %[[P0]]
// CHECK: %[[R1:.*]] = graph.reshape %[[P1]]
// CHECK: %[[P:.*]] = graph.concat %[[R0]], %[[R1]] {dim = 0
// CHECK: %[[Y:[^,]*]], %[[S:.*]] = graph.repeat 2 carried(%[[X]] : {{.*}}) stacked(%{{.*}}, %[[P]] : tensor<2x4x4xf32>, tensor<2x2x4xf32>) captured() -> tensor<2x4xf32> stacking tensor<2x2x4xf32>
// CHECK: %[[K:.*]] = graph.add %{{.*}}, %{{.*}}
// CHECK: %[[N:.*]] = graph.relu %[[K]]
// CHECK: graph.yield %[[N]], %[[K]]
// CHECK: graph.slice %[[S]] {limits = array<i64: 1, 2, 4>, starts = array<i64: 0, 0, 0>
// CHECK: graph.slice %[[S]] {limits = array<i64: 2, 2, 4>, starts = array<i64: 1, 0, 0>
module attributes {graph.model = {}, graph.mode = "infer"} {
graph.source @w0 : tensor<4x4xf32> {init = #graph.init_kind<zeros>}
graph.source @w1 : tensor<4x4xf32> {init = #graph.init_kind<zeros>}
graph.state @a : tensor<4x4xf32> parameter views [#graph.view<@w0, 0, [4, 1]>]
graph.state @b : tensor<4x4xf32> parameter views [#graph.view<@w1, 0, [4, 1]>]
func.func @caches(%x: tensor<2x4xf32> {graph.input = "x"}, %p0: tensor<2x4xf32> {graph.input = "p0"}, %p1: tensor<2x4xf32> {graph.input = "p1"}, %a: tensor<4x4xf32> {graph.state = @a}, %b: tensor<4x4xf32> {graph.state = @b}) -> (tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>) {
  %0 = graph.matmul "sd,de->se" %x, %a : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %k0 = graph.add %0, %p0 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %1 = graph.relu %k0 : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %2 = graph.matmul "sd,de->se" %1, %b : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %k1 = graph.add %2, %p1 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %3 = graph.relu %k1 : (tensor<2x4xf32>) -> tensor<2x4xf32>
  return %3, %k0, %k1 : tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>
}
}

// -----

// Projections of one value, one after another: each begins with what the one before it
// ends with, but computes nothing from it. These are no layers.
// CHECK: graph.model = {layers = 1 : i64}
// CHECK: func.func @projections(
// CHECK-NOT: graph.repeat
graph.source @w : tensor<3x4x4xf32> {init = #graph.init_kind<zeros>}
graph.source @bias : tensor<3x4xf32> {init = #graph.init_kind<zeros>}
graph.state @w0 : tensor<4x4xf32> parameter views [#graph.view<@w, 0, [4, 1]>]
graph.state @w1 : tensor<4x4xf32> parameter views [#graph.view<@w, 16, [4, 1]>]
graph.state @w2 : tensor<4x4xf32> parameter views [#graph.view<@w, 32, [4, 1]>]
graph.state @b0 : tensor<4xf32> parameter views [#graph.view<@bias, 0, [1]>]
graph.state @b1 : tensor<4xf32> parameter views [#graph.view<@bias, 4, [1]>]
graph.state @b2 : tensor<4xf32> parameter views [#graph.view<@bias, 8, [1]>]
func.func @projections(%x: tensor<2x4xf32> {graph.input = "x"}, %w0: tensor<4x4xf32> {graph.state = @w0}, %b0: tensor<4xf32> {graph.state = @b0}, %w1: tensor<4x4xf32> {graph.state = @w1}, %b1: tensor<4xf32> {graph.state = @b1}, %w2: tensor<4x4xf32> {graph.state = @w2}, %b2: tensor<4xf32> {graph.state = @b2}) -> tensor<2x12xf32> {
  %0 = graph.matmul "sd,de->se" %x, %w0 : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %1 = graph.add %0, %b0 : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  %2 = graph.matmul "sd,de->se" %x, %w1 : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %3 = graph.add %2, %b1 : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  %4 = graph.matmul "sd,de->se" %x, %w2 : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %5 = graph.add %4, %b2 : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  %6 = graph.concat %1, %3, %5 {dim = 1} : (tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x12xf32>
  return %6 : tensor<2x12xf32>
}

// -----

// Each layer has a table of its own, defined where it is used: tables are stacked before the layers.
// CHECK: func.func @tables(
// CHECK-DAG: graph.constant dense<{{\[\[}}1.0
// CHECK-DAG: graph.constant dense<{{\[\[}}2.0
// CHECK: %[[T:.*]] = graph.concat
// CHECK: graph.repeat 2 carried({{.*}}) stacked(%[[T]] :
func.func @tables(%x: tensor<2x4xf32> {graph.input = "x"}) -> tensor<2x4xf32> {
  %t0 = graph.constant dense<[[1.0, 1.5, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0]]> : tensor<4x4xf32>
  %0 = graph.matmul "sd,de->se" %x, %t0 : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %t1 = graph.constant dense<[[2.0, 2.5, 2.0, 2.0], [2.0, 2.0, 2.0, 2.0], [2.0, 2.0, 2.0, 2.0], [2.0, 2.0, 2.0, 2.0]]> : tensor<4x4xf32>
  %1 = graph.matmul "sd,de->se" %0, %t1 : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  return %1 : tensor<2x4xf32>
}

// -----

// Two layers with a matrix for each of two experts: the stacked parameter has a view for each, layer by layer.
// CHECK: graph.state @[[SE:.*]] : tensor<2x2x4x4xf32> parameter stacked views [#graph.view<@e00, 0, [4, 1]>, #graph.view<@e01, 0, [4, 1]>, #graph.view<@e10, 0, [4, 1]>, #graph.view<@e11, 0, [4, 1]>]
// CHECK: func.func @experts({{.*}}%[[E:.*]]: tensor<2x2x4x4xf32> {graph.state = @[[SE]]}
// CHECK: graph.repeat 2 carried({{.*}}) stacked({{.*}}%[[E]]{{.*}})
// CHECK: graph.grouped_matmul %{{.*}}, %{{.*}}, %{{.*}} {transposed}
graph.source @r0 : tensor<2x4xf32> {init = #graph.init_kind<zeros>}
graph.source @r1 : tensor<2x4xf32> {init = #graph.init_kind<zeros>}
graph.source @e00 : tensor<4x4xf32> {init = #graph.init_kind<zeros>}
graph.source @e01 : tensor<4x4xf32> {init = #graph.init_kind<zeros>}
graph.source @e10 : tensor<4x4xf32> {init = #graph.init_kind<zeros>}
graph.source @e11 : tensor<4x4xf32> {init = #graph.init_kind<zeros>}
graph.state @a : tensor<2x4xf32> parameter views [#graph.view<@r0, 0, [4, 1]>]
graph.state @b : tensor<2x4x4xf32> parameter views [#graph.view<@e00, 0, [4, 1]>, #graph.view<@e01, 0, [4, 1]>]
graph.state @c : tensor<2x4xf32> parameter views [#graph.view<@r1, 0, [4, 1]>]
graph.state @d : tensor<2x4x4xf32> parameter views [#graph.view<@e10, 0, [4, 1]>, #graph.view<@e11, 0, [4, 1]>]
func.func @experts(%x: tensor<3x4xf32> {graph.input = "x"}, %a: tensor<2x4xf32> {graph.state = @a}, %b: tensor<2x4x4xf32> {graph.state = @b}, %c: tensor<2x4xf32> {graph.state = @c}, %d: tensor<2x4x4xf32> {graph.state = @d}) -> tensor<3x4xf32> {
  %0 = graph.matmul "sd,ed->se" %x, %a : (tensor<3x4xf32>, tensor<2x4xf32>) -> tensor<3x2xf32>
  %1 = graph.route %0 : (tensor<3x2xf32>) -> tensor<3x1xi64>
  %2 = graph.grouped_matmul %x, %b, %1 {transposed} : (tensor<3x4xf32>, tensor<2x4x4xf32>, tensor<3x1xi64>) -> tensor<3x1x4xf32>
  %3 = graph.reduce %2 {kind = #graph.reduce_kind<sum>, dims = array<i64: 1>} : (tensor<3x1x4xf32>) -> tensor<3x4xf32>
  %4 = graph.add %x, %3 : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  %5 = graph.matmul "sd,ed->se" %4, %c : (tensor<3x4xf32>, tensor<2x4xf32>) -> tensor<3x2xf32>
  %6 = graph.route %5 : (tensor<3x2xf32>) -> tensor<3x1xi64>
  %7 = graph.grouped_matmul %4, %d, %6 {transposed} : (tensor<3x4xf32>, tensor<2x4x4xf32>, tensor<3x1xi64>) -> tensor<3x1x4xf32>
  %8 = graph.reduce %7 {kind = #graph.reduce_kind<sum>, dims = array<i64: 1>} : (tensor<3x1x4xf32>) -> tensor<3x4xf32>
  %9 = graph.add %4, %8 : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  return %9 : tensor<3x4xf32>
}
