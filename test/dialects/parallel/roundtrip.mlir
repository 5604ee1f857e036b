// RUN: llmc-opt %s | llmc-opt | FileCheck %s

#sharding = #parallel.sharding<[{"dp"}, {}, {"tp", "pp"}]>

// CHECK: module attributes {parallel.mesh = #parallel.mesh<["dp"=2, "pp"=3, "tp"=4]>}
module attributes {parallel.mesh = #parallel.mesh<["dp"=2, "pp"=3, "tp"=4]>} {

// CHECK-LABEL: func.func @shardings
// CHECK-SAME: all = #parallel.sharding<[]>
// CHECK-SAME: cut = #parallel.sharding<[{"dp"}, {}, {"tp", "pp"}]>
// CHECK-SAME: max = #parallel.sharding<[{}], unreduced = {"tp": max}>
// Unreduced axes are kept in the order of their names.
// CHECK-SAME: partial = #parallel.sharding<[{}], unreduced = {"dp": sum, "tp": sum}>
func.func @shardings() attributes {all = #parallel.sharding<[]>, cut = #sharding, max = #parallel.sharding<[{}], unreduced = {"tp": max}>,
                                   partial = #parallel.sharding<[{}], unreduced = {"tp": sum, "dp": sum}>} {
  return
}

// A mesh with products of axes: one set of ranks under two namings.
// CHECK-LABEL: module @products
// CHECK-SAME: parallel.mesh = #parallel.mesh<["pp"=2, "dp0"=2, "dp1"=3, "tp"=2], dp = ["dp0", "dp1"], edp = ["dp0"], ep = ["dp1", "tp"]>
module @products attributes {parallel.mesh = #parallel.mesh<["pp"=2, "dp0"=2, "dp1"=3, "tp"=2], ep = ["dp1", "tp"], dp = ["dp0", "dp1"], edp = ["dp0"]>} {
}

// CHECK-LABEL: func.func @reshard
func.func @reshard(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  // CHECK: parallel.reshard %{{.*}} from <[{}, {}], unreduced = {"tp": sum}> to <[{"tp"}, {}]> : tensor<8x8xf32>
  %0 = parallel.reshard %x from <[{}, {}], unreduced = {"tp": sum}> to <[{"tp"}, {}]> : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}

// CHECK-LABEL: func.func @collectives
func.func @collectives(%x: tensor<8x8xf32>, %n: tensor<4xi64>) {
  // CHECK: parallel.all_reduce %{{.*}} over ["dp", "tp"] {kind = #graph.reduce_kind<sum>} : tensor<8x8xf32>
  %0 = parallel.all_reduce %x over ["dp", "tp"] {kind = #graph.reduce_kind<sum>} : tensor<8x8xf32>
  // CHECK: parallel.all_reduce %{{.*}} over ["pp"] members [0, 2] {kind = #graph.reduce_kind<max>} : tensor<8x8xf32>
  %1 = parallel.all_reduce %x over ["pp"] members [0, 2] {kind = #graph.reduce_kind<max>} : tensor<8x8xf32>
  // CHECK: parallel.all_gather %{{.*}} over ["tp"] dim 1 : (tensor<8x8xf32>) -> tensor<8x32xf32>
  %2 = parallel.all_gather %x over ["tp"] dim 1 : (tensor<8x8xf32>) -> tensor<8x32xf32>
  // CHECK: parallel.reduce_scatter %{{.*}} over ["dp", "tp"] dim 0 {kind = #graph.reduce_kind<sum>} : (tensor<8x8xf32>) -> tensor<1x8xf32>
  %3 = parallel.reduce_scatter %x over ["dp", "tp"] dim 0 {kind = #graph.reduce_kind<sum>} : (tensor<8x8xf32>) -> tensor<1x8xf32>
  // CHECK: parallel.all_to_all %{{.*}} over ["tp"] split 1 concat 0 : (tensor<8x8xf32>) -> tensor<32x2xf32>
  %6 = parallel.all_to_all %x over ["tp"] split 1 concat 0 : (tensor<8x8xf32>) -> tensor<32x2xf32>
  // CHECK: parallel.exchange_rows %{{.*}} counts %{{.*}}, %{{.*}} over ["tp"] : (tensor<8x8xf32>, tensor<4xi64>, tensor<4xi64>) -> tensor<16x8xf32>
  %rows = parallel.exchange_rows %x counts %n, %n over ["tp"] : (tensor<8x8xf32>, tensor<4xi64>, tensor<4xi64>) -> tensor<16x8xf32>
  // CHECK: parallel.shift %{{.*}} over ["tp"] by 2 : tensor<8x8xf32>
  %shifted = parallel.shift %x over ["tp"] by 2 : tensor<8x8xf32>
  // CHECK: parallel.all_to_all %{{.*}} over ["tp"] split 0 concat 0 : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %7 = parallel.all_to_all %x over ["tp"] split 0 concat 0 : (tensor<8x8xf32>) -> tensor<8x8xf32>
  // CHECK: parallel.all_slice %{{.*}} over ["tp"] dim 0 : (tensor<8x8xf32>) -> tensor<2x8xf32>
  %4 = parallel.all_slice %x over ["tp"] dim 0 : (tensor<8x8xf32>) -> tensor<2x8xf32>
  // CHECK: parallel.axis_offset ["tp"] stride 129 : tensor<i64>
  %5 = parallel.axis_offset ["tp"] stride 129 : tensor<i64>
  return
}
// CHECK: func.func private @flat(tensor<20xf32> {parallel.flat = #parallel.flat<["dp"], [<@w.m, 0, [4, 8]>, <@b.m, 32, [8]>]>})
func.func private @flat(tensor<20xf32> {parallel.flat = #parallel.flat<["dp"], [<@w.m, 0, [4, 8]>, <@b.m, 32, [8]>]>})
// CHECK: func.func private @part() attributes {part = #parallel.flat_part<@w.m, 0, [4, 8]>}
func.func private @part() attributes {part = #parallel.flat_part<@w.m, 0, [4, 8]>}
}

module attributes {parallel.mesh = #parallel.mesh<["cp"=2]>} {
func.func @ring(%x: tensor<8x8xf32>) {
  // CHECK: parallel.shift %{{.*}} over ["cp"] by 1 : tensor<8x8xf32>
  %r = parallel.shift %x over ["cp"] by 1 : tensor<8x8xf32>
  return
}
}
