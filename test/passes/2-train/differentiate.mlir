// RUN: llmc-opt %s --llmc-differentiate --split-input-file | FileCheck %s
// RUN: llmc-opt %s --llmc-differentiate --split-input-file --mlir-print-debuginfo --mlir-print-local-scope | FileCheck %s --check-prefix=LOC

// One matrix. The gradient is added to the accumulator, which stands behind the
// parameter, is returned first, and takes the place of the pair. Backward ops
// carry the location of the op that they are the gradient of.

graph.source @w : tensor<8x6xf32> {init = #graph.init_kind<zeros>}
graph.state @p : tensor<8x6xf32> parameter views [#graph.view<@w, 0, [6, 1]>]
// CHECK: graph.state @p : tensor<8x6xf32>
// CHECK-NEXT: graph.state @p.grad : tensor<8x6xf32> {{ *}}accumulator of @p
graph.state @sum : tensor<f32> accumulator

// CHECK-LABEL: func.func @micro(
// CHECK-SAME: %[[X:[a-z0-9]*]]: tensor<4x8xf32>
// CHECK-SAME: %[[P:[a-z0-9]*]]: tensor<8x6xf32> {graph.state = @p}
// CHECK-SAME: %[[ACC:[a-z0-9]*]]: tensor<8x6xf32> {graph.state = @p.grad}
// CHECK-SAME: %[[SUM:[a-z0-9]*]]: tensor<f32> {graph.state = @sum}
// CHECK-SAME: -> (tensor<8x6xf32> {graph.state = @p.grad}, tensor<f32> {graph.state = @sum})
func.func @micro(%x: tensor<4x8xf32>, %p: tensor<8x6xf32> {graph.state = @p}, %sum: tensor<f32> {graph.state = @sum})
    -> (tensor<f32> {graph.state = @sum}, tensor<4x6xf32> {graph.primal = 0}, tensor<4x6xf32> {graph.cotangent = 0}) {
  // CHECK: %[[Y:.*]] = graph.matmul "bd,de->be" %[[X]], %[[P]] {graph.id = 0 : i64}
  // LOC: graph.tanh {{.*}} loc("seed")
  // LOC-NEXT: graph.matmul "bd,be->de" {{.*}} loc("project")
  // LOC-NEXT: graph.add {{.*}} {graph.backward} {{.*}} loc("project")
  // CHECK: %[[G:.*]] = graph.tanh %[[Y]] {graph.backward, graph.cotangent_of = array<i64: 0, 0>}
  // CHECK-NEXT: %[[DP:.*]] = graph.matmul "bd,be->de" %[[X]], %[[G]] {graph.backward}
  // CHECK-NEXT: %[[NEW:.*]] = graph.add %[[ACC]], %[[DP]] {graph.backward}
  // CHECK-NEXT: return %[[NEW]], %[[SUM]]
  %y = graph.matmul "bd,de->be" %x, %p : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32> loc("project")
  %g = graph.tanh %y {graph.backward} : (tensor<4x6xf32>) -> tensor<4x6xf32> loc("seed")
  return %sum, %y, %g : tensor<f32>, tensor<4x6xf32>, tensor<4x6xf32>
}

// -----

// A tied matrix, used twice: its gradients are summed, then accumulated once.

graph.source @w : tensor<8x8xf32> {init = #graph.init_kind<zeros>}
graph.state @p : tensor<8x8xf32> parameter views [#graph.view<@w, 0, [8, 1]>]

// CHECK-LABEL: func.func @micro(
// CHECK-SAME: %[[ACC:[a-z0-9]*]]: tensor<8x8xf32> {graph.state = @p.grad}
func.func @micro(%x: tensor<4x8xf32>, %g: tensor<4x8xf32>, %p: tensor<8x8xf32> {graph.state = @p})
    -> (tensor<4x8xf32> {graph.primal = 0}, tensor<4x8xf32> {graph.cotangent = 0}) {
  // LOC: graph.matmul "bd,be->ed" {{.*}} loc("second")
  // LOC: graph.matmul "bd,be->de" {{.*}} loc("first")
  // CHECK: %[[D1:.*]] = graph.matmul "bd,be->ed"
  // CHECK: %[[D0:.*]] = graph.matmul "bd,be->de"
  // CHECK-NEXT: %[[BOTH:.*]] = graph.add %[[D1]], %[[D0]]
  // CHECK-NEXT: %[[NEW:.*]] = graph.add %[[ACC]], %[[BOTH]]
  // CHECK-NEXT: return %[[NEW]]
  %y = graph.matmul "bd,de->be" %x, %p : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("first")
  %z = graph.matmul "bd,ed->be" %y, %p : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("second")
  return %z, %g : tensor<4x8xf32>, tensor<4x8xf32>
}

// -----

// Folded layers: the forward repeat keeps the input of the layer and that of
// the GELU, behind its reshape, and the other reshape is done again; nothing
// else is kept. The backward repeat runs the other way. The accumulator of the
// stacked matrix is updated slice by slice, the captured bias collects its
// cotangent over the layers.

graph.source @w : tensor<192xf32> {init = #graph.init_kind<zeros>}
graph.source @v : tensor<8xf32> {init = #graph.init_kind<zeros>}
graph.state @p : tensor<3x8x8xf32> parameter stacked views [#graph.view<@w, 0, [8, 1]>, #graph.view<@w, 64, [8, 1]>, #graph.view<@w, 128, [8, 1]>]
graph.state @b : tensor<8xf32> parameter views [#graph.view<@v, 0, [1]>]

// CHECK: graph.state @p.grad : tensor<3x8x8xf32> {{ *}}accumulator stacked of @p
// CHECK-LABEL: func.func @micro(
// CHECK-SAME: %[[H0:[a-z0-9]*]]: tensor<2x5x8xf32>, %[[G:[a-z0-9]*]]: tensor<2x5x8xf32>
// CHECK-SAME: %[[P:[a-z0-9]*]]: tensor<3x8x8xf32> {graph.state = @p}
// CHECK-SAME: %[[B:[a-z0-9]*]]: tensor<8xf32> {graph.state = @b}
// CHECK-SAME: %[[PACC:[a-z0-9]*]]: tensor<3x8x8xf32> {graph.state = @p.grad}
// CHECK-SAME: %[[BACC:[a-z0-9]*]]: tensor<8xf32> {graph.state = @b.grad}
func.func @micro(%h0: tensor<2x5x8xf32>, %g: tensor<2x5x8xf32>, %p: tensor<3x8x8xf32> {graph.state = @p}, %b: tensor<8xf32> {graph.state = @b})
    -> (tensor<2x5x8xf32> {graph.primal = 0}, tensor<2x5x8xf32> {graph.cotangent = 0}) {
  // CHECK: %{{.*}}, %[[KEPT:.*]]:2 = graph.repeat 3 carried(%[[H0]] : tensor<2x5x8xf32>) stacked(%[[P]] : tensor<3x8x8xf32>) captured(%[[B]] : tensor<8xf32>)
  // CHECK-SAME: stacking tensor<3x10x8xf32>, tensor<3x2x5x8xf32>
  // CHECK-NEXT: ^bb0(%[[X:[a-z0-9]*]]: tensor<2x5x8xf32>
  // CHECK: %[[BIASED:.*]] = graph.add %{{.*}}, %{{.*}} {graph.id = 3 : i64}
  // CHECK: graph.yield %{{.*}}, %[[BIASED]], %[[X]] :
  %h = graph.repeat 3 carried(%h0 : tensor<2x5x8xf32>) stacked(%p : tensor<3x8x8xf32>) captured(%b : tensor<8xf32>) -> tensor<2x5x8xf32> {
  ^bb0(%x: tensor<2x5x8xf32>, %w: tensor<8x8xf32>, %c: tensor<8xf32>):
    %0 = graph.reshape %x : (tensor<2x5x8xf32>) -> tensor<10x8xf32> loc("flatten")
    %1 = graph.matmul "bd,de->be" %0, %w : (tensor<10x8xf32>, tensor<8x8xf32>) -> tensor<10x8xf32> loc("up")
    %2 = graph.add %1, %c : (tensor<10x8xf32>, tensor<8xf32>) -> tensor<10x8xf32> loc("bias")
    %3 = graph.reshape %2 : (tensor<10x8xf32>) -> tensor<2x5x8xf32> loc("unflatten")
    %4 = graph.gelu %3 {form = #graph.gelu_form<tanh>} : (tensor<2x5x8xf32>) -> tensor<2x5x8xf32> loc("gelu")
    %5 = graph.add %x, %4 : (tensor<2x5x8xf32>, tensor<2x5x8xf32>) -> tensor<2x5x8xf32> loc("residual")
    graph.yield %5 : tensor<2x5x8xf32>
  } loc("layers")
  // LOC: graph.reshape {{.*}} {graph.backward} {{.*}} loc("unflatten")
  // LOC: graph.gelu_grad {{.*}} loc("gelu")
  // LOC: graph.yield {{.*}} loc("layers")
  // CHECK: %[[ZERO:.*]] = graph.constant dense<0.000000e+00> : tensor<8xf32> {graph.backward}
  // CHECK: %[[COT:.*]]:2, %[[NEWP:.*]] = graph.repeat 3 reverse carried(%[[G]], %[[ZERO]] : {{.*}}) stacked(%[[PACC]], %[[KEPT]]#0, %[[P]], %[[KEPT]]#1 : {{.*}}) captured() ->
  // CHECK-SAME: stacking tensor<3x8x8xf32> attributes {graph.backward}
  // CHECK-NEXT: ^bb0(%[[DH:[a-z0-9]*]]: tensor<2x5x8xf32>, %[[DC:[a-z0-9]*]]: tensor<8xf32>, %[[ACC:[a-z0-9]*]]: tensor<8x8xf32>
  // CHECK-SAME: %[[KEPT2:[a-z0-9]*]]: tensor<10x8xf32>
  // CHECK-SAME: %[[W:[a-z0-9]*]]: tensor<8x8xf32>
  // CHECK-SAME: %[[KEPTX:[a-z0-9]*]]: tensor<2x5x8xf32>
  // CHECK-NEXT: %[[UNFLAT:.*]] = graph.reshape %[[KEPT2]] {graph.backward}
  // CHECK-NEXT: graph.gelu_grad %[[UNFLAT]], %[[DH]]
  // CHECK: graph.matmul "be,de->bd" %{{.*}}, %[[W]] {graph.backward, graph.cotangent_of = array<i64: 1, 0>}
  // CHECK-NEXT: %[[FLAT:.*]] = graph.reshape %[[KEPTX]] {graph.backward}
  // CHECK-NEXT: %[[DW:.*]] = graph.matmul "bd,be->de" %[[FLAT]]
  // CHECK: %[[DX:.*]] = graph.add %[[DH]],
  // CHECK: %[[NEWW:.*]] = graph.add %[[ACC]], %[[DW]]
  // CHECK: %[[NEWC:.*]] = graph.add %[[DC]],
  // CHECK: graph.yield %[[DX]], %[[NEWC]], %[[NEWW]]
  // CHECK: %[[NEWB:.*]] = graph.add %[[BACC]], %[[COT]]#1
  // CHECK: return %[[NEWP]], %[[NEWB]]
  return %h, %g : tensor<2x5x8xf32>, tensor<2x5x8xf32>
}

// -----

// A stacked parameter that is read outside the repeat too gets the sum of both
// gradients at the end; a layer's plain gradient is stacked.

graph.source @w : tensor<6xf32> {init = #graph.init_kind<zeros>}
graph.state @p : tensor<3x2xf32> parameter stacked views [#graph.view<@w, 0, [1]>, #graph.view<@w, 2, [1]>, #graph.view<@w, 4, [1]>]

// CHECK-LABEL: func.func @micro(
// CHECK-SAME: %[[ACC:[a-z0-9]*]]: tensor<3x2xf32> {graph.state = @p.grad}
func.func @micro(%x: tensor<2xf32>, %g: tensor<3x2xf32>, %p: tensor<3x2xf32> {graph.state = @p})
    -> (tensor<3x2xf32> {graph.primal = 0}, tensor<3x2xf32> {graph.cotangent = 0}) {
  // CHECK: %{{.*}}, %[[STACKED:.*]] = graph.repeat 3 reverse
  // CHECK: %[[BOTH:.*]] = graph.add %{{.*}}, %[[STACKED]]
  // CHECK: %[[NEW:.*]] = graph.add %[[ACC]], %[[BOTH]]
  // CHECK: return %[[NEW]]
  %h = graph.repeat 3 carried(%x : tensor<2xf32>) stacked(%p : tensor<3x2xf32>) captured() -> tensor<2xf32> {
  ^bb0(%a: tensor<2xf32>, %w: tensor<2xf32>):
    %0 = graph.mul %a, %w : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    graph.yield %0 : tensor<2xf32>
  }
  %y = graph.mul %h, %p : (tensor<2xf32>, tensor<3x2xf32>) -> tensor<3x2xf32>
  return %y, %g : tensor<3x2xf32>, tensor<3x2xf32>
}

// -----

// The accumulator of a half-precision parameter is in f32.

graph.source @w : tensor<4xbf16> {init = #graph.init_kind<zeros>}
graph.state @p : tensor<4xbf16> parameter views [#graph.view<@w, 0, [1]>]

// CHECK-LABEL: func.func @micro(
// CHECK-SAME: %[[G:[a-z0-9]*]]: tensor<4xbf16>
// CHECK-SAME: %[[ACC:[a-z0-9]*]]: tensor<4xf32> {graph.state = @p.grad}
func.func @micro(%g: tensor<4xbf16>, %p: tensor<4xbf16> {graph.state = @p})
    -> (tensor<4xbf16> {graph.primal = 0}, tensor<4xbf16> {graph.cotangent = 0}) {
  // CHECK: %[[WIDE:.*]] = graph.cast %{{.*}} : (tensor<4xbf16>) -> tensor<4xf32>
  // CHECK: graph.add %[[ACC]], %[[WIDE]]
  %y = graph.neg %p : (tensor<4xbf16>) -> tensor<4xbf16>
  return %y, %g : tensor<4xbf16>, tensor<4xbf16>
}

// -----

// A low value that was widened is kept low, and widened again where the gradient reads it. A sum on
// the way to an accumulator is in its type, also behind a slice.

graph.source @w : tensor<6x4xbf16> {init = #graph.init_kind<zeros>}
graph.state @p : tensor<6x4xbf16> parameter views [#graph.view<@w, 0, [4, 1]>]

// CHECK-LABEL: func.func @micro(
func.func @micro(%x: tensor<2x3x4xbf16>, %g: tensor<2x3x4xf32>, %p: tensor<6x4xbf16> {graph.state = @p})
    -> (tensor<2x3x4xf32> {graph.primal = 0}, tensor<2x3x4xf32> {graph.cotangent = 0}) {
  // CHECK: %[[SUM:.*]] = graph.add {{.*}} -> tensor<2x3x4xbf16>
  %part = graph.slice %p {starts = array<i64: 0, 0>, limits = array<i64: 3, 4>, steps = array<i64: 1, 1>}
      : (tensor<6x4xbf16>) -> tensor<3x4xbf16>
  %sum = graph.add %x, %part : (tensor<2x3x4xbf16>, tensor<3x4xbf16>) -> tensor<2x3x4xbf16>
  %wide = graph.cast %sum : (tensor<2x3x4xbf16>) -> tensor<2x3x4xf32>
  // CHECK: %[[AGAIN:.*]] = graph.cast %[[SUM]] {graph.backward}
  // CHECK: graph.cos %[[AGAIN]]
  // CHECK: graph.reduce {{.*}} -> tensor<3x4xf32>
  // CHECK-NEXT: graph.pad {{.*}} -> tensor<6x4xf32>
  %y = graph.sin %wide : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  return %y, %g : tensor<2x3x4xf32>, tensor<2x3x4xf32>
}


// -----

// Layers use a parameter in half precision, and so does what is behind them: both add in the accumulator's type,
// none by way of a rounded gradient.

graph.source @w : tensor<4x4xbf16> {init = #graph.init_kind<zeros>}
graph.state @p : tensor<4x4xbf16> parameter views [#graph.view<@w, 0, [4, 1]>]

// CHECK-LABEL: func.func @micro(
func.func @micro(%x: tensor<3x4xbf16>, %g: tensor<3x4xbf16>, %p: tensor<4x4xbf16> {graph.state = @p})
    -> (tensor<3x4xbf16> {graph.primal = 0}, tensor<3x4xbf16> {graph.cotangent = 0}) {
  // CHECK: %[[BEHIND:.*]] = graph.matmul {{.*}} {graph.backward} : (tensor<3x4xbf16>, tensor<3x4xbf16>) -> tensor<4x4xf32>
  // CHECK: %[[LAYERS:.*]]:2 = graph.repeat 2 reverse carried({{.*}} : tensor<3x4xbf16>, tensor<4x4xf32>)
  // CHECK: graph.matmul {{.*}} {graph.backward} : (tensor<3x4xbf16>, tensor<3x4xbf16>) -> tensor<4x4xf32>
  // CHECK: graph.add %[[BEHIND]], %[[LAYERS]]#1
  %h = graph.repeat 2 carried(%x : tensor<3x4xbf16>) stacked() captured(%p : tensor<4x4xbf16>) -> tensor<3x4xbf16> {
  ^bb0(%c: tensor<3x4xbf16>, %w: tensor<4x4xbf16>):
    %0 = graph.matmul "sd,de->se" %c, %w : (tensor<3x4xbf16>, tensor<4x4xbf16>) -> tensor<3x4xbf16>
    graph.yield %0 : tensor<3x4xbf16>
  }
  %y = graph.matmul "sd,de->se" %h, %p : (tensor<3x4xbf16>, tensor<4x4xbf16>) -> tensor<3x4xbf16>
  return %y, %g : tensor<3x4xbf16>, tensor<3x4xbf16>
}
