// RUN: llmc-opt %s --split-input-file --verify-diagnostics --llmc-shard-sequence

module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "tp"=4]>} {
  func.func @micro(%x: tensor<2x6x8xf32> {graph.input = "x"}, %w: tensor<8x8xf32>) -> (tensor<2x6x8xf32> {graph.output = "y"}) {
    // expected-error @+1 {{has a sequence of 6 tokens, which tp = 4 ranks cannot share; the nearest valid sizes are 4 and 8}}
    %0 = graph.matmul "bse,ed->bsd" %x, %w {parallel.in = [#parallel.sharding<[{}, {}, {"tp"}]>, #parallel.sharding<[{"tp"}, {}]>],
        parallel.out = [#parallel.sharding<[{}, {}, {}], unreduced = {"tp": sum}>]} : (tensor<2x6x8xf32>, tensor<8x8xf32>) -> tensor<2x6x8xf32>
    return %0 : tensor<2x6x8xf32>
  }
}

// -----

// expected-error @+1 {{tactic sequence needs @micro and parallel.mesh}}
module {}
