// RUN: llmc-opt %s --verify-diagnostics --llmc-localize

#two = #parallel.sharding<[{"dp"}, {}]>
#rows = #parallel.sharding<[{"dp"}, {}, {}]>
#four = #parallel.sharding<[{"dp"}, {}, {}, {}]>
module attributes {parallel.mesh = #parallel.mesh<["pp"=1, "dp"=2, "tp"=2], ep = ["tp"]>} {
  func.func @forward_0(%x: tensor<2x4x8xf32> {graph.input = "x", parallel.sharding = #rows}, %r: tensor<2x4x2xi64>
                       {graph.input = "r", parallel.sharding = #rows})
      -> (tensor<2x4x4xi64> {graph.output = "y"}) attributes {parallel.stage = 0 : i64, parallel.procedure = "forward"} {
    // expected-error @+1 {{L2: ep spans axis "tp", along which ranks have the same tokens, so that each row would be sent several times; use --sequence-parallel on, or an ep that fits dp x cp}}
    %a, %s, %n = graph.exchange_routes %r {experts = 4, parallel.in = [#rows], parallel.out = [#rows, #rows, #two]}
        : (tensor<2x4x2xi64>) -> (tensor<2x4x4xi64>, tensor<2x4x4xi64>, tensor<2x4xf32>)
    return {parallel.in = [#rows]} %a : tensor<2x4x4xi64>
  }
}
