// RUN: llmc-opt %s --llmc-verify-shardings | FileCheck %s

// What the tactics wrote passes unchanged.
module attributes {parallel.mesh = #parallel.mesh<["dp"=2, "pp"=1, "tp"=1]>} {
  // CHECK-LABEL: func.func @micro
  // CHECK: graph.tanh
  // CHECK-SAME: parallel.out = [#parallel.sharding<[{"dp"}, {}]>]
  func.func @micro(%x: tensor<4x8xf32> {graph.input = "x", parallel.sharding = #parallel.sharding<[{"dp"}, {}]>}) -> (tensor<4x8xf32> {graph.output = "y"}) {
    %0 = graph.tanh %x {parallel.in = [#parallel.sharding<[{"dp"}, {}]>], parallel.out = [#parallel.sharding<[{"dp"}, {}]>], parallel.origin = {dp = {tactic = "data", rule = "rows", seed = "x"}}} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    return %0 : tensor<4x8xf32>
  }
}
