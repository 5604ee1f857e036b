// RUN: llmc-opt %s --llmc-insert-reshards --split-input-file | FileCheck %s

#s = #parallel.sharding<[{}]>
#all = #parallel.sharding<[{}, {}]>
#rows = #parallel.sharding<[{"tp"}, {}]>
#columns = #parallel.sharding<[{}, {"tp"}]>
#partial = #parallel.sharding<[{}, {}], unreduced = {"tp": sum}>

// A column cut and a row cut: the product of the second is a partial sum, which
// the bias cannot be added to. One reshard serves both users of the sum.

module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "tp"=2]>} {
// CHECK-LABEL: func.func @mlp
func.func @mlp(%x: tensor<4x8xf32>, %u: tensor<8x16xf32> {parallel.sharding = #columns},
               %d: tensor<16x8xf32> {parallel.sharding = #rows}, %b: tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  // CHECK: %[[H:.*]] = graph.matmul "sd,de->se"
  %h = graph.matmul "sd,de->se" %x, %u {parallel.in = [#all, #columns], parallel.out = [#columns]} : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  // CHECK-NEXT: %[[Y:.*]] = graph.matmul "sd,de->se" %[[H]]
  %y = graph.matmul "sd,de->se" %h, %d {parallel.in = [#columns, #rows], parallel.out = [#partial], parallel.origin = {tp = {tactic = "tensor", rule = "row cut", seed = "down"}}} : (tensor<4x16xf32>, tensor<16x8xf32>) -> tensor<4x8xf32> loc("down")
  // CHECK-NEXT: %[[R:.*]] = parallel.reshard %[[Y]] from <[{}, {}], unreduced = {"tp": sum}> to <[{}, {}]>
  // CHECK-SAME: parallel.origin = {node = "down", rule = "row cut", seed = "down", tactic = "tensor"}
  // CHECK-NEXT: graph.add %[[R]],
  %z = graph.add %y, %b {parallel.in = [#all, #s], parallel.out = [#all]} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  // CHECK-NEXT: graph.neg %[[R]]
  %n = graph.neg %y : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %z, %n : tensor<4x8xf32>, tensor<4x8xf32>
}

// A cut value that is needed whole is gathered where it is used, a whole one
// that is needed cut is cut where it is made.
// CHECK-LABEL: func.func @cuts
func.func @cuts(%x: tensor<4x8xf32> {parallel.sharding = #rows}) -> tensor<4x8xf32> {
  // CHECK: graph.exp
  %0 = graph.exp %x {parallel.in = [#rows], parallel.out = [#rows]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK-NEXT: graph.tanh
  %1 = graph.tanh %x {parallel.in = [#rows], parallel.out = [#rows]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK-NEXT: %[[R:.*]] = parallel.reshard %{{.*}} from <[{"tp"}, {}]> to <[{}, {}]>
  // CHECK-NEXT: %[[N:.*]] = graph.neg %[[R]]
  %2 = graph.neg %0 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK-NEXT: %[[C:.*]] = parallel.reshard %[[N]] from <[{}, {}]> to <[{"tp"}, {}]>
  // CHECK-NEXT: graph.add %[[C]],
  %3 = graph.add %2, %1 {parallel.in = [#rows, #rows], parallel.out = [#rows]} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return {parallel.in = [#rows]} %3 : tensor<4x8xf32>
}

// In the body of a repeat, and for what it yields.
// CHECK-LABEL: func.func @layers
func.func @layers(%x: tensor<4x8xf32>, %w: tensor<3x8x8xf32> {parallel.sharding = #parallel.sharding<[{}, {"tp"}, {}]>}) -> tensor<4x8xf32> {
  %y = graph.repeat 3 carried(%x : tensor<4x8xf32>) stacked(%w : tensor<3x8x8xf32>) captured() -> tensor<4x8xf32>
      attributes {parallel.in = [#all, #parallel.sharding<[{}, {"tp"}, {}]>], parallel.args = [#all, #rows], parallel.out = [#all]} {
  ^bb0(%c: tensor<4x8xf32>, %wi: tensor<8x8xf32>):
    // CHECK: %[[C:.*]] = parallel.reshard %{{.*}} from <[{}, {}]> to <[{}, {"tp"}]>
    // CHECK: %[[Y:.*]] = graph.matmul "sd,de->se" %[[C]]
    // CHECK: %[[R:.*]] = parallel.reshard %[[Y]] from <[{}, {}], unreduced = {"tp": sum}> to <[{}, {}]>
    // CHECK: graph.yield {{.*}}%[[R]]
    %0 = graph.matmul "sd,de->se" %c, %wi {parallel.in = [#columns, #rows], parallel.out = [#partial]} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    graph.yield %0 : tensor<4x8xf32>
  }
  return %y : tensor<4x8xf32>
}
}

// -----

// An axis of size 1 cuts nothing.

#columns = #parallel.sharding<[{}, {"tp"}]>
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "tp"=1]>} {
// CHECK-LABEL: func.func @one
// CHECK-SAME: parallel.sharding = #parallel.sharding<[{}, {}]>
// CHECK-NOT: parallel.reshard
func.func @one(%x: tensor<4x8xf32> {parallel.sharding = #columns}) -> tensor<4x8xf32> {
  %0 = graph.exp %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
}

// -----

// What was just widened moves in the type that it had; partial sums are added in the wide one.

#all = #parallel.sharding<[{}, {}]>
#rows = #parallel.sharding<[{"tp"}, {}]>
#partial = #parallel.sharding<[{}, {}], unreduced = {"tp" : sum}>
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "tp"=2]>} {
// CHECK-LABEL: func.func @widened
func.func @widened(%x: tensor<4x8xbf16> {parallel.sharding = #rows}, %w: tensor<8x8xbf16> {parallel.sharding = #rows})
    -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  // CHECK-NEXT: %[[WIDE:.*]] = graph.cast %arg0
  // CHECK-NEXT: %[[N:.*]] = graph.neg %[[WIDE]]
  // CHECK-NEXT: %[[R:.*]] = parallel.reshard %arg0 from <[{"tp"}, {}]> to <[{}, {}]> {{.*}}tensor<4x8xbf16>
  // CHECK-NEXT: %[[WIDER:.*]] = graph.cast %[[R]] {{.*}} : (tensor<4x8xbf16>) -> tensor<4x8xf32>
  // CHECK-NEXT: graph.exp %[[WIDER]]
  %0 = graph.cast %x {parallel.in = [#rows], parallel.out = [#rows]} : (tensor<4x8xbf16>) -> tensor<4x8xf32>
  %1 = graph.neg %0 {parallel.in = [#rows], parallel.out = [#rows]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = graph.exp %0 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: %[[Y:.*]] = graph.matmul
  // CHECK-NEXT: %[[S:.*]] = graph.cast %[[Y]]
  // CHECK-NEXT: parallel.reshard %[[S]] from <[{}, {}], unreduced = {"tp": sum}> to <[{}, {}]> {{.*}}tensor<4x8xf32>
  %3 = graph.matmul "sd,de->se" %x, %w {parallel.in = [#parallel.sharding<[{}, {"tp"}]>, #rows], parallel.out = [#partial]}
      : (tensor<4x8xbf16>, tensor<8x8xbf16>) -> tensor<4x8xbf16>
  %4 = graph.cast %3 {parallel.in = [#partial], parallel.out = [#partial]} : (tensor<4x8xbf16>) -> tensor<4x8xf32>
  %5 = graph.add %2, %4 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return {parallel.in = [#rows, #all]} %1, %5 : tensor<4x8xf32>, tensor<4x8xf32>
}
}
