// RUN: llmc-opt %s --llmc-pad-dims --split-input-file | FileCheck %s

#s = #parallel.sharding<[{}]>
#all = #parallel.sharding<[{}, {}]>
#rows = #parallel.sharding<[{"tp"}, {}]>
#columns = #parallel.sharding<[{}, {"tp"}]>
#partial = #parallel.sharding<[{}, {}], unreduced = {"tp": sum}>
#sum = #parallel.sharding<[{}], unreduced = {"tp": sum}>
#max = #parallel.sharding<[{}], unreduced = {"tp": max}>

// A table of 5 rows, cut in 2: states, values and the head's columns grow to 6.
// The maximum needs -inf; what follows is then -inf, 0 behind the exponential,
// and needs no mask of its own. A function of which nothing is known gets one.

module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "tp"=2]>} {
graph.source @w : tensor<5x4xf32> {init = #graph.init_kind<zeros>}
// CHECK: graph.state @p : tensor<6x4xf32> {{.*}}valid_shape = [5, 4]
graph.state @p : tensor<5x4xf32> parameter views [#graph.view<@w, 0, [4, 1]>] {parallel.sharding = #rows}
// CHECK: graph.state @g : tensor<6x4xf32> {{.*}}valid_shape = [5, 4]
graph.state @g : tensor<5x4xf32> accumulator of @p {parallel.sharding = #rows}

// CHECK-LABEL: func.func @micro(
// CHECK-SAME: %[[P:arg1]]: tensor<6x4xf32>
func.func @micro(%ids: tensor<3xi64> {graph.input = "input_ids"},
                 %p: tensor<5x4xf32> {graph.state = @p, parallel.sharding = #rows},
                 %g: tensor<5x4xf32> {graph.state = @g, parallel.sharding = #rows})
    -> (tensor<5x4xf32> {graph.state = @g}) {
  // Ids are never those of padding.
  // CHECK: %[[X:.*]] = graph.gather %[[P]], %{{.*}} : (tensor<6x4xf32>, tensor<3xi64>) -> tensor<3x4xf32>
  %x = graph.gather %p, %ids {parallel.in = [#rows, #s], parallel.out = [#partial]} : (tensor<5x4xf32>, tensor<3xi64>) -> tensor<3x4xf32>
  // CHECK: %[[L:.*]] = graph.matmul "sd,vd->sv"{{.*}} -> tensor<3x6xf32>
  %l = graph.matmul "sd,vd->sv" %x, %p {parallel.in = [#all, #rows], parallel.out = [#columns]} : (tensor<3x4xf32>, tensor<5x4xf32>) -> tensor<3x5xf32>
  // CHECK: %[[M:.*]] = graph.mask_tail %[[L]] {dim = 1 : i64, {{.*}}valid = 5 : i64, value = 0xFFF0000000000000 : f64}
  // CHECK: graph.reduce %[[M]] {{.*}}<max>
  %m = graph.reduce %l {kind = #graph.reduce_kind<max>, dims = array<i64: 1>, parallel.in = [#columns], parallel.out = [#max]} : (tensor<3x5xf32>) -> tensor<3xf32>
  %r = graph.reshape %m : (tensor<3xf32>) -> tensor<3x1xf32>
  // CHECK: %[[D:.*]] = graph.sub %[[M]],
  %d = graph.sub %l, %r {parallel.in = [#columns, #all], parallel.out = [#columns]} : (tensor<3x5xf32>, tensor<3x1xf32>) -> tensor<3x5xf32>
  // CHECK: %[[E:.*]] = graph.exp %[[D]]
  %e = graph.exp %d {parallel.in = [#columns], parallel.out = [#columns]} : (tensor<3x5xf32>) -> tensor<3x5xf32>
  // CHECK-NEXT: graph.reduce %[[E]] {{.*}}<sum>
  %z = graph.reduce %e {kind = #graph.reduce_kind<sum>, dims = array<i64: 1>, parallel.in = [#columns], parallel.out = [#sum]} : (tensor<3x5xf32>) -> tensor<3xf32>
  %zr = graph.reshape %z : (tensor<3xf32>) -> tensor<3x1xf32>
  // CHECK: %[[T:.*]] = graph.tanh
  %t = graph.tanh %e {parallel.in = [#columns], parallel.out = [#columns]} : (tensor<3x5xf32>) -> tensor<3x5xf32>
  // CHECK-NEXT: %[[T0:.*]] = graph.mask_tail %[[T]] {dim = 1 : i64, {{.*}}valid = 5 : i64, value = 0.000000e+00 : f64}
  // CHECK-NEXT: graph.matmul "sv,vd->sd" %[[T0]], %[[P]]
  %dx = graph.matmul "sv,vd->sd" %t, %p {parallel.in = [#columns, #rows], parallel.out = [#partial]} : (tensor<3x5xf32>, tensor<5x4xf32>) -> tensor<3x4xf32>
  %y = graph.mul %dx, %zr : (tensor<3x4xf32>, tensor<3x1xf32>) -> tensor<3x4xf32>
  // CHECK: graph.scatter_add{{.*}} -> tensor<6x4xf32>
  // CHECK-NEXT: graph.add
  // CHECK-NEXT: return
  %dp = graph.scatter_add %ids, %y {parallel.in = [#s, #all], parallel.out = [#rows]} : (tensor<3xi64>, tensor<3x4xf32>) -> tensor<5x4xf32>
  %g2 = graph.add %g, %dp {parallel.in = [#rows, #rows], parallel.out = [#rows]} : (tensor<5x4xf32>, tensor<5x4xf32>) -> tensor<5x4xf32>
  return {parallel.in = [#rows]} %g2 : tensor<5x4xf32>
}
}

// -----

// What divides is left alone.

#row = #parallel.sharding<[{"tp"}, {}]>
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "tp"=2]>} {
graph.source @w : tensor<6x4xf32> {init = #graph.init_kind<zeros>}
// CHECK: graph.state @p : tensor<6x4xf32>
// CHECK-NOT: valid_shape
graph.state @p : tensor<6x4xf32> parameter views [#graph.view<@w, 0, [4, 1]>] {parallel.sharding = #row}
}

// -----

// Eight heads of six: four ranks share 48 features and 8 heads; that they cannot share
// the six is nobody's matter.
// CHECK-LABEL: func.func @micro
// CHECK: graph.reshape {{.*}} : (tensor<2x48xf32>) -> tensor<2x8x6xf32>
// CHECK-NOT: mask_tail
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "tp"=4]>} {
  func.func @micro(%x: tensor<2x48xf32> {graph.input = "x", parallel.sharding = #parallel.sharding<[{}, {"tp"}]>}) -> tensor<2x8x6xf32> {
    %0 = graph.reshape %x {parallel.in = [#parallel.sharding<[{}, {"tp"}]>], parallel.out = [#parallel.sharding<[{}, {"tp"}, {}]>]} : (tensor<2x48xf32>) -> tensor<2x8x6xf32>
    return {parallel.in = [#parallel.sharding<[{}, {"tp"}, {}]>]} %0 : tensor<2x8x6xf32>
  }
}
