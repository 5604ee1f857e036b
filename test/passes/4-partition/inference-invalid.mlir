// RUN: llmc-opt %s --split-input-file --verify-diagnostics --llmc-verify-partition

// C4
// expected-error @+1 {{C4: stage 1 has 0 functions `forward`, expected one}}
module attributes {graph.mode = "infer", parallel.mesh = #parallel.mesh<["dp"=1, "pp"=2, "tp"=1]>, graph.inputs = []} {
  func.func @forward_0() attributes {parallel.stage = 0 : i64, parallel.procedure = "forward"} {
    return
  }
}

// -----

// C4: an inference has no update.
// expected-error @+1 {{C4: 1 functions belong to no stage of the mesh}}
module attributes {graph.mode = "infer", parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "tp"=1]>, graph.inputs = []} {
  func.func @forward_0() attributes {parallel.stage = 0 : i64, parallel.procedure = "forward"} {
    return
  }
  func.func @update_0() attributes {parallel.stage = 0 : i64, parallel.procedure = "update"} {
    return
  }
}

// -----

// C11: an output of two stages.
module attributes {graph.mode = "infer", parallel.mesh = #parallel.mesh<["dp"=1, "pp"=2, "tp"=1]>,
                   graph.inputs = [{name = "x", type = tensor<4xf32>, sharding = #parallel.sharding<[{}]>}]} {
  func.func @forward_0(%x: tensor<4xf32> {graph.input = "x"}) -> (tensor<4xf32> {graph.output = "y"}) attributes {parallel.stage = 0 : i64, parallel.procedure = "forward"} {
    return %x : tensor<4xf32>
  }
  // expected-error @+1 {{C11: result 0 of @forward_1 is output "y", and result 0 of @forward_0 too}}
  func.func @forward_1(%x: tensor<4xf32> {graph.input = "x"}) -> (tensor<4xf32> {graph.output = "y"}) attributes {parallel.stage = 1 : i64, parallel.procedure = "forward"} {
    return %x : tensor<4xf32>
  }
}

// -----

// C11: another part of an input than the list says.
module attributes {graph.mode = "infer", parallel.mesh = #parallel.mesh<["dp"=2, "pp"=1, "tp"=1]>,
                   graph.inputs = [{name = "x", type = tensor<4xf32>, sharding = #parallel.sharding<[{"dp"}]>}]} {
  // expected-error @+1 {{C11: argument 0 of @forward_0 is 'tensor<4xf32>', input "x" of graph.inputs is}}
  func.func @forward_0(%x: tensor<4xf32> {graph.input = "x"}) -> (tensor<4xf32> {graph.output = "y"}) attributes {parallel.stage = 0 : i64, parallel.procedure = "forward"} {
    return %x : tensor<4xf32>
  }
}
