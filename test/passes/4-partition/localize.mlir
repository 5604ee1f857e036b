// RUN: llmc-opt %s --llmc-localize | FileCheck %s

#s = #parallel.sharding<[{}]>
#all = #parallel.sharding<[{}, {}]>
#rows = #parallel.sharding<[{"tp"}, {}]>
#columns = #parallel.sharding<[{}, {"tp"}]>
#partial = #parallel.sharding<[{}, {}], unreduced = {"tp": sum}>
#why = {node = "n", rule = "row cut", tactic = "tensor"}

module attributes {parallel.mesh = #parallel.mesh<["dp"=2, "pp"=1, "tp"=4]>} {

// Reshards become collectives with the reshard's origin.
// CHECK-LABEL: func.func @moves
// CHECK-SAME: (%[[X:.*]]: tensor<8x8xf32> {{.*}}, %[[C:.*]]: tensor<2x8xf32>
func.func @moves(%x: tensor<8x8xf32> {parallel.sharding = #partial}, %c: tensor<8x8xf32> {parallel.sharding = #rows})
    -> (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) {
  // CHECK-NEXT: %[[A:.*]] = parallel.all_reduce %[[X]] over ["tp"] {kind = #graph.reduce_kind<sum>, parallel.origin = {node = "n", rule = "row cut", tactic = "tensor", tensors = [{layout = #parallel.sharding<[{}, {}], unreduced = {"tp": sum}>, needed = #parallel.sharding<[{}, {}]>, type = tensor<8x8xf32>}]}} : tensor<8x8xf32>
  %0 = parallel.reshard %x from #partial to #all {parallel.origin = #why} : tensor<8x8xf32>
  // CHECK-NEXT: parallel.reduce_scatter %[[X]] over ["tp"] dim 1 {{.*}} : (tensor<8x8xf32>) -> tensor<8x2xf32>
  %1 = parallel.reshard %x from #partial to #columns {parallel.origin = #why} : tensor<8x8xf32>
  // CHECK-NEXT: parallel.all_to_all %[[C]] over ["tp"] split 1 concat 0 {{.*}} : (tensor<2x8xf32>) -> tensor<8x2xf32>
  %2 = parallel.reshard %c from #rows to #columns {parallel.origin = #why} : tensor<8x8xf32>
  // CHECK-NEXT: parallel.all_slice %[[A]] over ["tp"] dim 0 {{.*}} : (tensor<8x8xf32>) -> tensor<2x8xf32>
  %3 = parallel.reshard %0 from #all to #rows {parallel.origin = #why} : tensor<8x8xf32>
  return {parallel.in = [#all, #columns, #columns, #rows]} %0, %1, %2, %3 : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
}

// The last cut of a dimension moves to the end of another one's: heads of a tensor rank are shared out
// over data ranks, whose rows come together. A cut that is not the last stays a gather.
// CHECK-LABEL: func.func @exchanges
func.func @exchanges(%x: tensor<8x8xf32> {parallel.sharding = #parallel.sharding<[{"dp"}, {"tp"}]>},
                     %y: tensor<8x8xf32> {parallel.sharding = #parallel.sharding<[{"dp", "tp"}, {}]>}) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
  // CHECK-NEXT: parallel.all_to_all %{{.*}} over ["dp"] split 1 concat 0 {{.*}} : (tensor<4x2xf32>) -> tensor<8x1xf32>
  %0 = parallel.reshard %x from <[{"dp"}, {"tp"}]> to <[{}, {"tp", "dp"}]> {parallel.origin = #why} : tensor<8x8xf32>
  // CHECK-NEXT: parallel.all_gather %{{.*}} over ["dp", "tp"] dim 0 {{.*}} : (tensor<1x8xf32>) -> tensor<8x8xf32>
  // CHECK-NEXT: parallel.all_slice {{.*}} over ["dp"] dim 1 {{.*}} : (tensor<8x8xf32>) -> tensor<8x4xf32>
  %1 = parallel.reshard %y from <[{"dp", "tp"}, {}]> to <[{}, {"dp"}]> {parallel.origin = #why} : tensor<8x8xf32>
  return {parallel.in = [#parallel.sharding<[{}, {"tp", "dp"}]>, #parallel.sharding<[{}, {"dp"}]>]} %0, %1 : tensor<8x8xf32>, tensor<8x8xf32>
}

// Two axes, the data ranks' and the tensor ranks', one call.
// CHECK-LABEL: func.func @both
func.func @both(%x: tensor<8xf32> {parallel.sharding = #parallel.sharding<[{}], unreduced = {"dp": sum, "tp": sum}>}) -> tensor<8xf32> {
  // CHECK-NEXT: parallel.all_reduce %{{.*}} over ["dp", "tp"]
  %0 = parallel.reshard %x from <[{}], unreduced = {"dp": sum, "tp": sum}> to #s {parallel.origin = #why} : tensor<8xf32>
  return %0 : tensor<8xf32>
}

// Sizes in attributes follow; an op that looks at indices learns where its part begins.
// CHECK-LABEL: func.func @attributes
func.func @attributes(%ids: tensor<3xi64>, %t: tensor<8x6xf32> {parallel.sharding = #rows})
    -> (tensor<8x6xf32>, tensor<8x3xf32>, tensor<3x6xf32>, tensor<8xi64>, tensor<8x6xf32>) {
  // CHECK-DAG: %[[O:.*]] = parallel.axis_offset ["tp"] stride 2 : tensor<i64>
  // CHECK-DAG: graph.constant dense<1.000000e+00> : tensor<2x6xf32>
  %0 = graph.constant dense<1.0> : tensor<8x6xf32> {parallel.out = [#rows]}
  // CHECK-DAG: graph.slice %{{.*}} {limits = array<i64: 2, 3>, starts = array<i64: 0, 0>, {{.*}} -> tensor<2x3xf32>
  %1 = graph.slice %t {starts = array<i64: 0, 0>, limits = array<i64: 8, 3>, steps = array<i64: 1, 1>, parallel.in = [#rows], parallel.out = [#rows]} : (tensor<8x6xf32>) -> tensor<8x3xf32>
  // CHECK-DAG: graph.gather %{{.*}}, %{{.*}}, %[[O]] : (tensor<2x6xf32>, tensor<3xi64>, tensor<i64>) -> tensor<3x6xf32>
  %2 = graph.gather %t, %ids {parallel.in = [#rows, #s], parallel.out = [#partial]} : (tensor<8x6xf32>, tensor<3xi64>) -> tensor<3x6xf32>
  // CHECK-DAG: graph.iota %[[O]] {dim = 0 : i64} : (tensor<i64>) -> tensor<2xi64>
  %3 = graph.iota {dim = 0 : i64, parallel.out = [#parallel.sharding<[{"tp"}]>]} : () -> tensor<8xi64>
  // CHECK-DAG: graph.mask_tail %{{.*}}, %[[O]] {dim = 0 : i64, valid = 7 : i64, value = 0.000000e+00 : f64} : (tensor<2x6xf32>, tensor<i64>) -> tensor<2x6xf32>
  %4 = graph.mask_tail %t {dim = 0 : i64, valid = 7 : i64, value = 0.0 : f64, parallel.in = [#rows], parallel.out = [#rows]} : (tensor<8x6xf32>) -> tensor<8x6xf32>
  return {parallel.in = [#rows, #rows, #partial, #parallel.sharding<[{"tp"}]>, #rows]} %0, %1, %2, %3, %4
      : tensor<8x6xf32>, tensor<8x3xf32>, tensor<3x6xf32>, tensor<8xi64>, tensor<8x6xf32>
}

// Heads of attention: their number follows from the types.
// CHECK-LABEL: func.func @heads
func.func @heads(%q: tensor<2x5x8x4xf32> {parallel.sharding = #parallel.sharding<[{"dp"}, {}, {"tp"}, {}]>}) -> tensor<2x5x32xf32> {
  // CHECK: graph.attention {{.*}} -> (tensor<1x5x2x4xf32>, tensor<1x5x2xf32>)
  %o, %l = graph.attention %q, %q, %q {scale = 0.5 : f64, causal = true,
      parallel.in = [#parallel.sharding<[{"dp"}, {}, {"tp"}, {}]>, #parallel.sharding<[{"dp"}, {}, {"tp"}, {}]>, #parallel.sharding<[{"dp"}, {}, {"tp"}, {}]>],
      parallel.out = [#parallel.sharding<[{"dp"}, {}, {"tp"}, {}]>, #parallel.sharding<[{"dp"}, {}, {"tp"}]>]}
      : (tensor<2x5x8x4xf32>, tensor<2x5x8x4xf32>, tensor<2x5x8x4xf32>) -> (tensor<2x5x8x4xf32>, tensor<2x5x8xf32>)
  // CHECK: graph.reshape {{.*}} : (tensor<1x5x2x4xf32>) -> tensor<1x5x8xf32>
  %r = graph.reshape %o {parallel.in = [#parallel.sharding<[{"dp"}, {}, {"tp"}, {}]>], parallel.out = [#parallel.sharding<[{"dp"}, {}, {"tp"}]>]} : (tensor<2x5x8x4xf32>) -> tensor<2x5x32xf32>
  return {parallel.in = [#parallel.sharding<[{"dp"}, {}, {"tp"}]>]} %r : tensor<2x5x32xf32>
}

// Folded layers: operands, body and results.
// CHECK-LABEL: func.func @layers
func.func @layers(%x: tensor<4x8xf32>, %w: tensor<3x8x8xf32> {parallel.sharding = #parallel.sharding<[{}, {"tp"}, {}]>}) -> tensor<4x8xf32> {
  // CHECK: graph.repeat 3 carried(%{{.*}} : tensor<4x8xf32>) stacked(%{{.*}} : tensor<3x2x8xf32>) captured() -> tensor<4x8xf32> {
  // CHECK-NEXT: ^bb0(%[[C:.*]]: tensor<4x8xf32>, %[[W:.*]]: tensor<2x8xf32>):
  %y = graph.repeat 3 carried(%x : tensor<4x8xf32>) stacked(%w : tensor<3x8x8xf32>) captured() -> tensor<4x8xf32>
      attributes {parallel.in = [#all, #parallel.sharding<[{}, {"tp"}, {}]>], parallel.args = [#all, #rows], parallel.out = [#all]} {
  ^bb0(%c: tensor<4x8xf32>, %wi: tensor<8x8xf32>):
    // CHECK-NEXT: parallel.all_slice
    // CHECK-NEXT: graph.matmul "sd,de->se" %{{.*}} : (tensor<4x2xf32>, tensor<2x8xf32>) -> tensor<4x8xf32>
    // CHECK-NEXT: parallel.all_reduce
    %0 = parallel.reshard %c from #all to #columns {parallel.origin = #why} : tensor<4x8xf32>
    %1 = graph.matmul "sd,de->se" %0, %wi {parallel.in = [#columns, #rows], parallel.out = [#partial]} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %2 = parallel.reshard %1 from #partial to #all {parallel.origin = #why} : tensor<4x8xf32>
    graph.yield %2 : tensor<4x8xf32>
  }
  return %y : tensor<4x8xf32>
}
}
