// RUN: llmc-opt %s --llmc-sink-reductions | FileCheck %s

// Weighs a result of so many rows of all ranks that its bytes do not fit into 64 bits with their weight: what it is made of is
// smaller, and is reduced.

#all = #parallel.sharding<[{}, {}]>
#partial = #parallel.sharding<[{}, {}], unreduced = {"tp": sum}>
#why = {node = "n", rule = "row cut", tactic = "tensor"}

module attributes {parallel.mesh = #parallel.mesh<["dp"=2, "pp"=1, "tp"=2]>, parallel.tactics = {dp = "data", tp = "tensor"}} {
// CHECK-LABEL: func.func @product
func.func @product(%x: tensor<131072x8xf32> {parallel.sharding = #partial}, %w: tensor<8x1073741824xf32>) -> tensor<131072x1073741824xf32> {
  // CHECK-NEXT: %[[X:.*]] = parallel.reshard %arg0
  // CHECK-NEXT: graph.matmul "bd,de->be" %[[X]], %arg1
  // CHECK-NEXT: return
  %0 = parallel.reshard %x from #partial to #all {parallel.origin = #why} : tensor<131072x8xf32>
  %1 = graph.matmul "bd,de->be" %0, %w : (tensor<131072x8xf32>, tensor<8x1073741824xf32>) -> tensor<131072x1073741824xf32>
  return %1 : tensor<131072x1073741824xf32>
}
}
