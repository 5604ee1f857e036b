// RUN: split-file %s %t
// RUN: llmc-opt %t/many.mlir --verify-diagnostics --llmc-divide-layers=stages=5
// RUN: llmc-opt %t/many-chunks.mlir --verify-diagnostics --llmc-divide-layers="stages=2 chunks=3"
// RUN: llmc-opt %t/many-groups.mlir --verify-diagnostics --llmc-divide-layers=stages=4
// RUN: llmc-opt %t/number.mlir --verify-diagnostics --llmc-divide-layers="stages=2 layers=1,1,1"
// RUN: llmc-opt %t/number-chunks.mlir --verify-diagnostics --llmc-divide-layers="stages=2 chunks=2 layers=2,2"
// RUN: llmc-opt %t/large.mlir --verify-diagnostics --llmc-divide-layers="stages=2 layers=9,1"
// RUN: llmc-opt %t/negative.mlir --verify-diagnostics --llmc-divide-layers="stages=2 layers=5,-1"
// RUN: llmc-opt %t/empty.mlir --verify-diagnostics --llmc-divide-layers="stages=3 layers=2,0,2"
// RUN: llmc-opt %t/sum.mlir --verify-diagnostics --llmc-divide-layers="stages=2 layers=2,1"
// RUN: llmc-opt %t/inside.mlir --verify-diagnostics --llmc-divide-layers="stages=2 layers=1,3"
// RUN: llmc-opt %t/shared.mlir --verify-diagnostics --llmc-divide-layers="stages=2 chunks=2"
// RUN: llmc-opt %t/reverse.mlir --verify-diagnostics --llmc-divide-layers="stages=2"
// RUN: llmc-opt %t/deep.mlir --verify-diagnostics --llmc-divide-layers="stages=2"
// RUN: llmc-opt %t/none.mlir --verify-diagnostics --llmc-divide-layers="chunks=0"

//--- shared.mlir
module {
  graph.source @src : tensor<8x8xf32> {init = #graph.init_kind<zeros>}
  graph.state @w : tensor<4x4x4xf32> parameter stacked views [#graph.view<@src, 0, [4, 1]>, #graph.view<@src, 16, [4, 1]>, #graph.view<@src, 32, [4, 1]>, #graph.view<@src, 48, [4, 1]>]
  func.func @forward(%x: tensor<4x4xf32> {graph.input = "x"}, %w: tensor<4x4x4xf32> {graph.state = @w}) -> (tensor<4x4xf32> {graph.output = "y"}) {
    // expected-error @+1 {{D4: a stage begins inside of these layers, whose weights (w) others read too, so that they cannot be cut; use pp = 1 or --schedule 1f1b}}
    %h = graph.repeat 4 carried(%x : tensor<4x4xf32>) stacked(%w : tensor<4x4x4xf32>) captured() -> tensor<4x4xf32> {
    ^bb0(%c: tensor<4x4xf32>, %wi: tensor<4x4xf32>):
      %a = graph.matmul "bd,de->be" %c, %wi : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      graph.yield %a : tensor<4x4xf32>
    }
    %s = graph.slice %w {starts = array<i64: 0, 0, 0>, limits = array<i64: 1, 4, 4>, steps = array<i64: 1, 1, 1>} : (tensor<4x4x4xf32>) -> tensor<1x4x4xf32>
    %r = graph.reshape %s : (tensor<1x4x4xf32>) -> tensor<4x4xf32>
    %y = graph.matmul "bd,de->be" %h, %r : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    return %y : tensor<4x4xf32>
  }
}

//--- reverse.mlir
func.func @forward(%x: tensor<8xf32> {graph.input = "x"}) -> (tensor<8xf32> {graph.output = "y"}) {
  // expected-error @+1 {{D3: runs its layers from the last to the first}}
  %h = graph.repeat 2 reverse carried(%x : tensor<8xf32>) stacked() captured() -> tensor<8xf32> {
  ^bb0(%c: tensor<8xf32>):
    %a = graph.exp %c : (tensor<8xf32>) -> tensor<8xf32>
    graph.yield %a : tensor<8xf32>
  }
  return %h : tensor<8xf32>
}

//--- deep.mlir
func.func @forward(%x: tensor<8xf32> {graph.input = "x"}) -> (tensor<8xf32> {graph.output = "y"}) {
  // expected-error @+1 {{D1: stages divide at most 10000 layers, and there are more}}
  %h = graph.repeat 4000000000000 carried(%x : tensor<8xf32>) stacked() captured() -> tensor<8xf32> {
  ^bb0(%c: tensor<8xf32>):
    %a = graph.exp %c : (tensor<8xf32>) -> tensor<8xf32>
    graph.yield %a : tensor<8xf32>
  }
  return %h : tensor<8xf32>
}

//--- none.mlir
// expected-error @+1 {{a pipeline has at least one stage of one chunk, got 0 of 0}}
module {}

//--- many.mlir
// expected-error @+1 {{D1: pp = 5 stages for 2 layers: all but the first and the last need one, so pp x virtual stages is at most 4}}
func.func @forward(%x: tensor<8xf32> {graph.input = "x"}) -> (tensor<8xf32> {graph.output = "y"}) {
  %h = graph.repeat 2 carried(%x : tensor<8xf32>) stacked() captured() -> tensor<8xf32> {
  ^bb0(%c: tensor<8xf32>):
    %a = graph.exp %c : (tensor<8xf32>) -> tensor<8xf32>
    graph.yield %a : tensor<8xf32>
  }
  return %h : tensor<8xf32>
}

//--- many-chunks.mlir
// expected-error @+1 {{D1: pp = 2 x 3 = 6 virtual stages for 3 layers: all but the first and the last need one, so pp x virtual stages is at most 5}}
func.func @forward(%x: tensor<8xf32> {graph.input = "x"}) -> (tensor<8xf32> {graph.output = "y"}) {
  %h = graph.repeat 3 carried(%x : tensor<8xf32>) stacked() captured() -> tensor<8xf32> {
  ^bb0(%c: tensor<8xf32>):
    %a = graph.exp %c : (tensor<8xf32>) -> tensor<8xf32>
    graph.yield %a : tensor<8xf32>
  }
  return %h : tensor<8xf32>
}

//--- many-groups.mlir
// expected-error @+1 {{D1: pp = 4 stages for 1 group of layers: all but the first and the last need one, so pp x virtual stages is at most 3}}
func.func @forward(%x: tensor<1x4x2x8xf32> {graph.input = "x"}) -> (tensor<1x4x2x8xf32> {graph.output = "y"}) {
  %y = graph.repeat 1 carried(%x : tensor<1x4x2x8xf32>) stacked() captured() -> tensor<1x4x2x8xf32> {
  ^bb0(%h: tensor<1x4x2x8xf32>):
    %o, %l = graph.attention %h, %h, %h {scale = 1.0, causal = true} : (tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>) -> (tensor<1x4x2x8xf32>, tensor<1x4x2xf32>)
    %p, %m = graph.attention %o, %o, %o {scale = 1.0, causal = true} : (tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>) -> (tensor<1x4x2x8xf32>, tensor<1x4x2xf32>)
    %s = graph.add %p, %h : (tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>) -> tensor<1x4x2x8xf32>
    graph.yield %s : tensor<1x4x2x8xf32>
  }
  return %y : tensor<1x4x2x8xf32>
}

//--- number.mlir
// expected-error @+1 {{D2: the layers of the stages, 1, 1, 1, are 3 numbers, and there are pp = 2 stages}}
func.func @forward(%x: tensor<8xf32> {graph.input = "x"}) -> (tensor<8xf32> {graph.output = "y"}) {
  %h = graph.repeat 3 carried(%x : tensor<8xf32>) stacked() captured() -> tensor<8xf32> {
  ^bb0(%c: tensor<8xf32>):
    %a = graph.exp %c : (tensor<8xf32>) -> tensor<8xf32>
    graph.yield %a : tensor<8xf32>
  }
  return %h : tensor<8xf32>
}

//--- number-chunks.mlir
// expected-error @+1 {{D2: the layers of the stages, 2, 2, are 2 numbers, and there are pp = 2 x 2 = 4 virtual stages}}
func.func @forward(%x: tensor<8xf32> {graph.input = "x"}) -> (tensor<8xf32> {graph.output = "y"}) {
  %h = graph.repeat 4 carried(%x : tensor<8xf32>) stacked() captured() -> tensor<8xf32> {
  ^bb0(%c: tensor<8xf32>):
    %a = graph.exp %c : (tensor<8xf32>) -> tensor<8xf32>
    graph.yield %a : tensor<8xf32>
  }
  return %h : tensor<8xf32>
}

//--- large.mlir
// expected-error @+1 {{D2: the layers of the stages, 9, 1, are each from 0 to the 4 layers of the model}}
func.func @forward(%x: tensor<8xf32> {graph.input = "x"}) -> (tensor<8xf32> {graph.output = "y"}) {
  %h = graph.repeat 4 carried(%x : tensor<8xf32>) stacked() captured() -> tensor<8xf32> {
  ^bb0(%c: tensor<8xf32>):
    %a = graph.exp %c : (tensor<8xf32>) -> tensor<8xf32>
    graph.yield %a : tensor<8xf32>
  }
  return %h : tensor<8xf32>
}

//--- negative.mlir
// expected-error @+1 {{D2: the layers of the stages, 5, -1, are each from 0 to the 5 layers of the model}}
func.func @forward(%x: tensor<8xf32> {graph.input = "x"}) -> (tensor<8xf32> {graph.output = "y"}) {
  %h = graph.repeat 5 carried(%x : tensor<8xf32>) stacked() captured() -> tensor<8xf32> {
  ^bb0(%c: tensor<8xf32>):
    %a = graph.exp %c : (tensor<8xf32>) -> tensor<8xf32>
    graph.yield %a : tensor<8xf32>
  }
  return %h : tensor<8xf32>
}

//--- empty.mlir
// expected-error @+1 {{D2: the layers of the stages, 2, 0, 2, have none on stage 1: only the first (an embedding alone) and the last (a head alone) may have none}}
func.func @forward(%x: tensor<8xf32> {graph.input = "x"}) -> (tensor<8xf32> {graph.output = "y"}) {
  %h = graph.repeat 4 carried(%x : tensor<8xf32>) stacked() captured() -> tensor<8xf32> {
  ^bb0(%c: tensor<8xf32>):
    %a = graph.exp %c : (tensor<8xf32>) -> tensor<8xf32>
    graph.yield %a : tensor<8xf32>
  }
  return %h : tensor<8xf32>
}

//--- sum.mlir
// expected-error @+1 {{D2: the layers of the stages, 2, 1, sum to 3, and the model has 4: give numbers with this sum, or auto}}
func.func @forward(%x: tensor<8xf32> {graph.input = "x"}) -> (tensor<8xf32> {graph.output = "y"}) {
  %h = graph.repeat 4 carried(%x : tensor<8xf32>) stacked() captured() -> tensor<8xf32> {
  ^bb0(%c: tensor<8xf32>):
    %a = graph.exp %c : (tensor<8xf32>) -> tensor<8xf32>
    graph.yield %a : tensor<8xf32>
  }
  return %h : tensor<8xf32>
}

//--- inside.mlir
func.func @forward(%x: tensor<1x4x2x8xf32> {graph.input = "x"}) -> (tensor<1x4x2x8xf32> {graph.output = "y"}) {
  // expected-error @+1 {{D3: stage 1 begins with layer 1, inside of layers 0 to 1, which exchange more than they pass on; the nearest layers that a stage may begin with are 0 and 2}}
  %y = graph.repeat 2 carried(%x : tensor<1x4x2x8xf32>) stacked() captured() -> tensor<1x4x2x8xf32> {
  ^bb0(%h: tensor<1x4x2x8xf32>):
    %o, %l = graph.attention %h, %h, %h {scale = 1.0, causal = true} : (tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>) -> (tensor<1x4x2x8xf32>, tensor<1x4x2xf32>)
    %p, %m = graph.attention %o, %o, %o {scale = 1.0, causal = true} : (tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>) -> (tensor<1x4x2x8xf32>, tensor<1x4x2xf32>)
    %s = graph.add %p, %h : (tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>) -> tensor<1x4x2x8xf32>
    graph.yield %s : tensor<1x4x2x8xf32>
  }
  return %y : tensor<1x4x2x8xf32>
}
