// RUN: llmc-opt %s --llmc-sink-reductions | FileCheck %s

#s = #parallel.sharding<[{}]>
#all = #parallel.sharding<[{}, {}]>
#rows = #parallel.sharding<[{"tp"}, {}]>
#columns = #parallel.sharding<[{}, {"tp"}]>
#partial = #parallel.sharding<[{}, {}], unreduced = {"tp": sum}>
#max = #parallel.sharding<[{}, {}], unreduced = {"tp": max}>
#data = #parallel.sharding<[{}, {}], unreduced = {"dp": sum}>
#batch = #parallel.sharding<[{"dp"}, {}]>
#batch_partial = #parallel.sharding<[{"dp"}, {}], unreduced = {"tp": sum}>
#stack = #parallel.sharding<[{}, {}, {}]>
#why = {node = "n", rule = "row cut", tactic = "tensor"}

module attributes {parallel.mesh = #parallel.mesh<["dp"=2, "pp"=1, "tp"=2]>, parallel.tactics = {dp = "data", tp = "tensor"}} {
graph.source @w : tensor<8x8xf32> {init = #graph.init_kind<zeros>}
graph.source @u : tensor<3x8x8xf32> {init = #graph.init_kind<zeros>}
graph.state @p : tensor<8x8xf32> parameter views [#graph.view<@w, 0, [8, 1]>]
graph.state @g : tensor<8x8xf32> accumulator of @p
graph.state @p1 : tensor<8x8xf32> parameter views [#graph.view<@w, 0, [8, 1]>]
graph.state @g1 : tensor<8x8xf32> accumulator of @p1
graph.state @p2 : tensor<8x8xf32> parameter views [#graph.view<@w, 0, [8, 1]>]
graph.state @g2 : tensor<8x8xf32> accumulator of @p2
graph.state @p3 : tensor<8x8xf32> parameter views [#graph.view<@w, 0, [8, 1]>]
graph.state @g3 : tensor<8x8xf32> accumulator of @p3
graph.state @p4 : tensor<8x8xf32> parameter views [#graph.view<@w, 0, [8, 1]>]
graph.state @g4 : tensor<8x8xf32> accumulator of @p4
graph.state @ps : tensor<3x8x8xf32> parameter stacked views [#graph.view<@u, 0, [8, 1]>, #graph.view<@u, 64, [8, 1]>, #graph.view<@u, 128, [8, 1]>]
graph.state @gs : tensor<3x8x8xf32> accumulator of @ps

// The cotangents of q, k and v, each a partial sum, and the residual's, which is
// not: three reductions become one.
// CHECK-LABEL: func.func @three
func.func @three(%r: tensor<8x8xf32>, %q: tensor<8x8xf32> {parallel.sharding = #partial}, %k: tensor<8x8xf32> {parallel.sharding = #partial},
                 %v: tensor<8x8xf32> {parallel.sharding = #partial}) -> tensor<8x8xf32> {
  %0 = parallel.reshard %q from #partial to #all {parallel.origin = #why} : tensor<8x8xf32>
  %1 = parallel.reshard %k from #partial to #all {parallel.origin = #why} : tensor<8x8xf32>
  %2 = parallel.reshard %v from #partial to #all {parallel.origin = #why} : tensor<8x8xf32>
  // CHECK-NEXT: %[[A:.*]] = graph.add %arg1, %arg2 {parallel.in = [#parallel.sharding<[{}, {}], unreduced = {"tp": sum}>
  // CHECK-NEXT: %[[B:.*]] = graph.add %[[A]], %arg3
  // CHECK-NEXT: %[[R:.*]] = parallel.reshard %[[B]] from <[{}, {}], unreduced = {"tp": sum}> to <[{}, {}]> {parallel.origin = {moved = "behind the sum of 3 partial sums, done as one", node = "n", rule = "row cut", tactic = "tensor"}}
  // CHECK-NEXT: graph.add %arg0, %[[R]]
  %3 = graph.add %0, %r : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %4 = graph.add %3, %1 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %5 = graph.add %4, %2 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %5 : tensor<8x8xf32>
}

// The same where the sum is cut as well, as behind a row cut whose sequence is shared out: one
// reshard reduces and cuts. A term that is cut otherwise keeps its own.
// CHECK-LABEL: func.func @scattered
func.func @scattered(%r: tensor<8x8xf32> {parallel.sharding = #rows}, %q: tensor<8x8xf32> {parallel.sharding = #partial}, %k: tensor<8x8xf32> {parallel.sharding = #partial},
                     %v: tensor<8x8xf32> {parallel.sharding = #partial}) -> tensor<8x8xf32> {
  %0 = parallel.reshard %q from #partial to #rows {parallel.origin = #why} : tensor<8x8xf32>
  %1 = parallel.reshard %k from #partial to #rows {parallel.origin = #why} : tensor<8x8xf32>
  %2 = parallel.reshard %v from #partial to #columns {parallel.origin = #why} : tensor<8x8xf32>
  // CHECK-NEXT: parallel.reshard %arg3 from <[{}, {}], unreduced = {"tp": sum}> to <[{}, {"tp"}]>
  // CHECK-NEXT: %[[A:.*]] = graph.add %arg1, %arg2 {parallel.in = [#parallel.sharding<[{}, {}], unreduced = {"tp": sum}>
  // CHECK-NEXT: parallel.reshard %[[A]] from <[{}, {}], unreduced = {"tp": sum}> to <[{"tp"}, {}]>
  // CHECK-NOT: parallel.reshard
  // CHECK: return
  %3 = graph.add %0, %r {parallel.in = [#rows, #rows], parallel.out = [#rows]} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %4 = graph.add %3, %1 {parallel.in = [#rows, #rows], parallel.out = [#rows]} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %5 = graph.add %4, %2 {parallel.in = [#rows, #rows], parallel.out = [#rows]} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %5 : tensor<8x8xf32>
}

// Two branches with biases, and the residual: one reduction, biases behind it.
// CHECK-LABEL: func.func @biases
func.func @biases(%x: tensor<4x8xf32> {parallel.sharding = #partial}, %y: tensor<4x8xf32> {parallel.sharding = #partial},
                  %b: tensor<8xf32>, %c: tensor<8xf32>, %r: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // CHECK-NEXT: %[[S:.*]] = graph.add %arg0, %arg1
  // CHECK-NEXT: %[[R:.*]] = parallel.reshard %[[S]]
  // CHECK-NEXT: %[[T:.*]] = graph.add %arg4, %[[R]]
  // CHECK-NEXT: %[[U:.*]] = graph.add %[[T]], %arg2 {{.*}} : (tensor<4x8xf32>, tensor<8xf32>)
  // CHECK-NEXT: %[[V:.*]] = graph.add %[[U]], %arg3
  // CHECK-NEXT: return %[[V]]
  %0 = parallel.reshard %x from #partial to #all {parallel.origin = #why} : tensor<4x8xf32>
  %1 = graph.add %0, %b : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %2 = parallel.reshard %y from #partial to #all {parallel.origin = #why} : tensor<4x8xf32>
  %3 = graph.add %2, %c : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %4 = graph.add %1, %3 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %5 = graph.add %r, %4 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %5 : tensor<4x8xf32>
}

// Behind linear ops that do not make it larger; not past a bias.
// CHECK-LABEL: func.func @linear
func.func @linear(%x: tensor<8x8xf32> {parallel.sharding = #partial}, %b: tensor<16xf32>) -> tensor<16xf32> {
  // CHECK-NEXT: graph.slice %arg0
  // CHECK-NEXT: graph.reshape
  // CHECK-NEXT: %[[R:.*]] = parallel.reshard %{{.*}} from <[{}], unreduced = {"tp": sum}> to <[{}]> {{.*}} : tensor<16xf32>
  // CHECK-NEXT: graph.add %[[R]], %arg1
  %0 = parallel.reshard %x from #partial to #all {parallel.origin = #why} : tensor<8x8xf32>
  %1 = graph.slice %0 {starts = array<i64: 0, 0>, limits = array<i64: 2, 8>, steps = array<i64: 1, 1>} : (tensor<8x8xf32>) -> tensor<2x8xf32>
  %2 = graph.reshape %1 : (tensor<2x8xf32>) -> tensor<16xf32>
  %3 = graph.add %2, %b : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
  return %3 : tensor<16xf32>
}

// A reduction stays where moving would make it larger, where one of two readers
// needs it reduced, and a maximum stays anyway.
// CHECK-LABEL: func.func @stay
func.func @stay(%x: tensor<1x8xf32> {parallel.sharding = #partial}, %y: tensor<8x8xf32> {parallel.sharding = #partial},
                %z: tensor<8x8xf32> {parallel.sharding = #max}) -> (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) {
  // CHECK: parallel.reshard %arg0
  // CHECK-NEXT: graph.broadcast
  %0 = parallel.reshard %x from #partial to #all : tensor<1x8xf32>
  %1 = graph.broadcast %0 : (tensor<1x8xf32>) -> tensor<8x8xf32>
  // CHECK: parallel.reshard %arg1
  // CHECK-NEXT: graph.neg
  // CHECK-NEXT: graph.exp
  %2 = parallel.reshard %y from #partial to #all : tensor<8x8xf32>
  %3 = graph.neg %2 : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %4 = graph.exp %2 : (tensor<8x8xf32>) -> tensor<8x8xf32>
  // CHECK: parallel.reshard %arg2
  // CHECK-NEXT: graph.reshape
  %5 = parallel.reshard %z from #max to #all : tensor<8x8xf32>
  %6 = graph.reshape %5 : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %1, %3, %4, %6 : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
}

// What folded layers only add to a carried value is reduced behind them.
// CHECK-LABEL: func.func @carried
func.func @carried(%x: tensor<8x8xf32> {parallel.sharding = #partial}) -> tensor<8x8xf32> {
  // CHECK: %[[Z:.*]] = graph.constant {{.*}}unreduced = {"tp": sum}
  // CHECK-NEXT: %[[S:.*]] = graph.repeat 3 carried(%[[Z]]
  %0 = graph.constant dense<0.0> : tensor<8x8xf32>
  %1 = graph.repeat 3 carried(%0 : tensor<8x8xf32>) stacked() captured(%x : tensor<8x8xf32>) -> tensor<8x8xf32>
      attributes {parallel.in = [#all, #partial], parallel.args = [#all, #partial], parallel.out = [#all]} {
  ^bb0(%s0: tensor<8x8xf32>, %y: tensor<8x8xf32>):
    // CHECK-NOT: parallel.reshard
    // CHECK: graph.yield
    %2 = parallel.reshard %y from #partial to #all {parallel.origin = #why} : tensor<8x8xf32>
    %3 = graph.add %s0, %2 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    graph.yield %3 : tensor<8x8xf32>
  }
  // CHECK: %[[R:.*]] = parallel.reshard %[[S]] from <[{}, {}], unreduced = {"tp": sum}> to <[{}, {}]>
  // CHECK-NEXT: return %[[R]]
  return %1 : tensor<8x8xf32>
}

// Gradients: the accumulators, also those of folded layers, become unreduced
// over the data ranks, and the padding of the slice's gradient moves as well.
// CHECK-LABEL: func.func @micro
// CHECK-SAME: graph.state = @g, parallel.sharding = #parallel.sharding<[{}, {}], unreduced = {"dp": sum}>
// CHECK-SAME: graph.state = @gs, parallel.sharding = #parallel.sharding<[{}, {}, {}], unreduced = {"dp": sum}>
func.func @micro(%g: tensor<8x8xf32> {graph.state = @g}, %gs: tensor<3x8x8xf32> {graph.state = @gs},
                 %x: tensor<4x8xf32> {parallel.sharding = #data}, %y: tensor<8x8xf32> {parallel.sharding = #data})
    -> (tensor<8x8xf32> {graph.state = @g}, tensor<3x8x8xf32> {graph.state = @gs}) {
  // CHECK-NOT: parallel.reshard
  %0 = parallel.reshard %x from #data to #all {parallel.origin = #why} : tensor<4x8xf32>
  %1 = graph.pad %0 {low = array<i64: 0, 0>, high = array<i64: 4, 0>, interior = array<i64: 0, 0>} : (tensor<4x8xf32>) -> tensor<8x8xf32>
  %2 = graph.add %g, %1 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %3 = graph.repeat 3 carried() stacked(%gs : tensor<3x8x8xf32>) captured(%y : tensor<8x8xf32>) stacking tensor<3x8x8xf32>
      attributes {parallel.in = [#stack, #data], parallel.args = [#all, #data], parallel.out = [#stack]} {
  ^bb0(%gi: tensor<8x8xf32>, %yi: tensor<8x8xf32>):
    %4 = parallel.reshard %yi from #data to #all {parallel.origin = #why} : tensor<8x8xf32>
    // CHECK: graph.add %{{.*}} {parallel.in = [#parallel.sharding<[{}, {}], unreduced = {"dp": sum}>, #parallel.sharding<[{}, {}], unreduced = {"dp": sum}>]
    %5 = graph.add %gi, %4 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    graph.yield %5 : tensor<8x8xf32>
  }
  // CHECK: return {parallel.in = [#parallel.sharding<[{}, {}], unreduced = {"dp": sum}>, #parallel.sharding<[{}, {}, {}], unreduced = {"dp": sum}>]}
  return %2, %3 : tensor<8x8xf32>, tensor<3x8x8xf32>
}

// The gradient of a kv head that ranks share has two readers. One ends in an
// accumulator, the other in a sum that is reduced anyway: no reduction of its own.
// CHECK-LABEL: func.func @shared
func.func @shared(%g: tensor<8x8xf32> {graph.state = @g3}, %x: tensor<4x8xf32>, %w: tensor<8x8xf32>,
                  %dk: tensor<4x8xf32> {parallel.sharding = #partial}, %dq: tensor<4x8xf32> {parallel.sharding = #partial}, %r: tensor<4x8xf32>)
    -> (tensor<8x8xf32> {graph.state = @g3}, tensor<4x8xf32>) {
  // CHECK-NEXT: graph.matmul "sd,se->de" %{{.*}} unreduced = {"tp": sum}
  // CHECK-NEXT: graph.add %arg0
  // CHECK-NEXT: %[[X:.*]] = graph.matmul "se,de->sd" %arg3, %arg2
  // CHECK-NEXT: %[[S:.*]] = graph.add %{{.*}}, %{{.*}} unreduced
  // CHECK-NEXT: parallel.reshard %[[S]]
  // CHECK-NOT: parallel.reshard
  // CHECK: return
  %0 = parallel.reshard %dk from #partial to #all {parallel.origin = #why} : tensor<4x8xf32>
  %1 = graph.matmul "sd,se->de" %x, %0 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %2 = graph.add %g, %1 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %3 = graph.matmul "se,de->sd" %0, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %4 = parallel.reshard %dq from #partial to #all {parallel.origin = #why} : tensor<4x8xf32>
  %5 = graph.add %3, %4 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %6 = graph.add %r, %5 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %2, %6 : tensor<8x8xf32>, tensor<4x8xf32>
}

// Two readers that meet again, as those of a rotary embedding: the reduction moves behind
// where they do, and joins the sum that is reduced there.
// CHECK-LABEL: func.func @rotary
func.func @rotary(%x: tensor<4x8xf32> {parallel.sharding = #partial}, %cos: tensor<4x8xf32>, %sin: tensor<4x8xf32>,
                  %w: tensor<8x8xf32>, %q: tensor<4x8xf32> {parallel.sharding = #partial}, %r: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // CHECK-NOT: parallel.reshard
  // CHECK: graph.mul %arg0, %arg2 {parallel.in = [#parallel.sharding<[{}, {}], unreduced = {"tp": sum}>, #parallel.sharding<[{}, {}]>]
  // CHECK-NOT: parallel.reshard
  // CHECK: graph.pad
  // CHECK-NOT: parallel.reshard
  // CHECK: %[[M:.*]] = graph.matmul "se,de->sd"
  // CHECK-NEXT: %[[S:.*]] = graph.add %[[M]], %arg4
  // CHECK-NEXT: %[[R:.*]] = parallel.reshard %[[S]]
  // CHECK-NEXT: graph.add %arg5, %[[R]]
  // CHECK-NEXT: return
  %0 = parallel.reshard %x from #partial to #all {parallel.origin = #why} : tensor<4x8xf32>
  %1 = graph.mul %0, %sin : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = graph.slice %1 {starts = array<i64: 0, 0>, limits = array<i64: 4, 4>, steps = array<i64: 1, 1>} : (tensor<4x8xf32>) -> tensor<4x4xf32>
  %3 = graph.slice %1 {starts = array<i64: 0, 4>, limits = array<i64: 4, 8>, steps = array<i64: 1, 1>} : (tensor<4x8xf32>) -> tensor<4x4xf32>
  %4 = graph.pad %3 {low = array<i64: 0, 0>, high = array<i64: 0, 4>, interior = array<i64: 0, 0>} : (tensor<4x4xf32>) -> tensor<4x8xf32>
  %5 = graph.neg %2 : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %6 = graph.pad %5 {low = array<i64: 0, 4>, high = array<i64: 0, 0>, interior = array<i64: 0, 0>} : (tensor<4x4xf32>) -> tensor<4x8xf32>
  %7 = graph.add %4, %6 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %8 = graph.mul %0, %cos : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %9 = graph.add %7, %8 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %10 = graph.matmul "se,de->sd" %9, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %11 = parallel.reshard %q from #partial to #all {parallel.origin = #why} : tensor<4x8xf32>
  %12 = graph.add %10, %11 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %13 = graph.add %r, %12 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %13 : tensor<4x8xf32>
}

// Two halves of one value that both are needed reduced: one reduction, before them. Where
// less than the whole is needed, what is needed.
// CHECK-LABEL: func.func @halves
func.func @halves(%x: tensor<4x8xf32> {parallel.sharding = #partial}, %y: tensor<4x8xf32> {parallel.sharding = #partial})
    -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x2xf32>, tensor<4x2xf32>) {
  // CHECK-NEXT: parallel.reshard %arg0
  // CHECK-NEXT: graph.slice
  // CHECK-NEXT: graph.slice
  %0 = parallel.reshard %x from #partial to #all {parallel.origin = #why} : tensor<4x8xf32>
  %1 = graph.slice %0 {starts = array<i64: 0, 0>, limits = array<i64: 4, 4>, steps = array<i64: 1, 1>} : (tensor<4x8xf32>) -> tensor<4x4xf32>
  %2 = graph.slice %0 {starts = array<i64: 0, 4>, limits = array<i64: 4, 8>, steps = array<i64: 1, 1>} : (tensor<4x8xf32>) -> tensor<4x4xf32>
  // CHECK-NEXT: %[[A:.*]] = graph.slice %arg1
  // CHECK-NEXT: parallel.reshard %[[A]] {{.*}} : tensor<4x2xf32>
  // CHECK-NEXT: %[[B:.*]] = graph.slice %arg1
  // CHECK-NEXT: parallel.reshard %[[B]] {{.*}} : tensor<4x2xf32>
  %3 = parallel.reshard %y from #partial to #all {parallel.origin = #why} : tensor<4x8xf32>
  %4 = graph.slice %3 {starts = array<i64: 0, 0>, limits = array<i64: 4, 2>, steps = array<i64: 1, 1>} : (tensor<4x8xf32>) -> tensor<4x2xf32>
  %5 = graph.slice %3 {starts = array<i64: 0, 6>, limits = array<i64: 4, 8>, steps = array<i64: 1, 1>} : (tensor<4x8xf32>) -> tensor<4x2xf32>
  return %1, %2, %4, %5 : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x2xf32>, tensor<4x2xf32>
}

// One reader needs it reduced: then the linear one has no reason to take partial sums, and
// a sum takes what is reduced already.
// CHECK-LABEL: func.func @pinned
func.func @pinned(%x: tensor<4x8xf32> {parallel.sharding = #partial}, %y: tensor<4x8xf32> {parallel.sharding = #partial})
    -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  // CHECK-NEXT: %[[X:.*]] = parallel.reshard %arg0
  // CHECK-NEXT: graph.exp %[[X]]
  // CHECK-NEXT: %[[Y:.*]] = parallel.reshard %arg1
  // CHECK-NEXT: graph.add %[[X]], %[[Y]]
  %0 = parallel.reshard %x from #partial to #all {parallel.origin = #why} : tensor<4x8xf32>
  %1 = graph.exp %0 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = parallel.reshard %y from #partial to #all {parallel.origin = #why} : tensor<4x8xf32>
  %3 = graph.add %0, %2 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %1, %3 : tensor<4x8xf32>, tensor<4x8xf32>
}

// A gradient that tensor ranks and data ranks have parts of: the accumulator is reduced over both.
// CHECK-LABEL: func.func @both
// CHECK-SAME: graph.state = @g4, parallel.sharding = #parallel.sharding<[{}, {}], unreduced = {"dp": sum, "tp": sum}>
func.func @both(%g: tensor<8x8xf32> {graph.state = @g4}, %x: tensor<4x8xf32> {parallel.sharding = #batch},
                %dk: tensor<4x8xf32> {parallel.sharding = #batch_partial}) -> (tensor<8x8xf32> {graph.state = @g4}) {
  // CHECK-NOT: parallel.reshard
  // CHECK: return
  %0 = parallel.reshard %dk from #batch_partial to #batch {parallel.origin = #why} : tensor<4x8xf32>
  %1 = graph.matmul "sd,se->de" %x, %0 {parallel.in = [#batch, #batch], parallel.out = [#data]} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %2 = parallel.reshard %1 from #data to #all {parallel.origin = #why} : tensor<8x8xf32>
  %3 = graph.add %g, %2 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %3 : tensor<8x8xf32>
}

// Two norms of one input: behind them their gradients are one sum.
// CHECK-LABEL: func.func @norms
func.func @norms(%x: tensor<4x8xf32>, %s: tensor<8xf32>, %t: tensor<4xf32>, %r: tensor<4x8xf32>,
                 %a: tensor<4x8xf32> {parallel.sharding = #partial}, %b: tensor<4x8xf32> {parallel.sharding = #partial}) -> tensor<4x8xf32> {
  // CHECK-COUNT-2: graph.rms_norm_grad
  // CHECK-NEXT: %[[S:.*]] = graph.add
  // CHECK-NEXT: parallel.reshard %[[S]]
  // CHECK-NOT: parallel.reshard
  // CHECK: return
  %0 = parallel.reshard %a from #partial to #all {parallel.origin = #why} : tensor<4x8xf32>
  %1 = graph.rms_norm_grad %0, %x, %s, %t : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<8xf32>, tensor<4xf32>) -> tensor<4x8xf32>
  %2 = parallel.reshard %b from #partial to #all {parallel.origin = #why} : tensor<4x8xf32>
  %3 = graph.rms_norm_grad %2, %x, %s, %t : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<8xf32>, tensor<4xf32>) -> tensor<4x8xf32>
  %4 = graph.add %1, %3 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %5 = graph.add %r, %4 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %5 : tensor<4x8xf32>
}

// One gradient of two parameters, such as the biases of two branches: each has its own.
// CHECK-LABEL: func.func @branches
func.func @branches(%g: tensor<8x8xf32> {graph.state = @g1}, %h: tensor<8x8xf32> {graph.state = @g2},
                    %x: tensor<8x8xf32> {parallel.sharding = #data})
    -> (tensor<8x8xf32> {graph.state = @g1}, tensor<8x8xf32> {graph.state = @g2}) {
  // CHECK-NOT: parallel.reshard
  %0 = parallel.reshard %x from #data to #all {parallel.origin = #why} : tensor<8x8xf32>
  %1 = graph.add %g, %0 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %2 = graph.add %h, %0 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  // CHECK: return {parallel.in = [#parallel.sharding<[{}, {}], unreduced = {"dp": sum}>, #parallel.sharding<[{}, {}], unreduced = {"dp": sum}>]}
  return %1, %2 : tensor<8x8xf32>, tensor<8x8xf32>
}

// CHECK-LABEL: func.func @update
func.func @update(%g: tensor<8x8xf32> {graph.state = @g}) -> (tensor<8x8xf32> {graph.state = @g}) {
  // CHECK-NEXT: %[[G:.*]] = parallel.reshard %arg0 from <[{}, {}], unreduced = {"dp": sum}> to <[{}, {}]> {parallel.origin = {moved = "behind the micro-batches: their gradients are added up first", node = "w", rule = "partial sums", tactic = "data"}}
  // CHECK-NEXT: graph.neg %[[G]]
  %0 = graph.neg %g : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
}
