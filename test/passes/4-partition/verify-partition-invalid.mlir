// RUN: llmc-opt %s --llmc-verify-partition --split-input-file --verify-diagnostics

// expected-error @+1 {{no mesh: the module needs the attribute `parallel.mesh`}}
module {
}

// -----

// C1
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "tp"=1]>} {
func.func @forward_0(%x: tensor<4xf32> {graph.input = "x"}) attributes {parallel.stage = 0 : i64, parallel.procedure = "forward"} {
  // expected-error @+1 {{C1: is left over}}
  %0 = parallel.reshard %x from <[{}]> to <[{}]> : tensor<4xf32>
  // expected-error @+1 {{C1: still carries `parallel.in`}}
  %1 = graph.neg %x {parallel.in = [#parallel.sharding<[{}]>]} : (tensor<4xf32>) -> tensor<4xf32>
  return
}
func.func @backward_0() attributes {parallel.stage = 0 : i64, parallel.procedure = "backward"} {
  return
}
func.func @update_0() attributes {parallel.stage = 0 : i64, parallel.procedure = "update"} {
  return
}
}

// -----

// C2, C3
module attributes {parallel.mesh = #parallel.mesh<["dp"=2, "pp"=1, "tp"=1]>} {
func.func @forward_0(%x: tensor<4xf32> {graph.input = "x"}) attributes {parallel.stage = 0 : i64, parallel.procedure = "forward"} {
  // expected-error @+1 {{C2: has no origin: `parallel.origin` needs `rule`}}
  %0 = parallel.all_reduce %x over ["dp"] {kind = #graph.reduce_kind<sum>, parallel.origin = {node = "n", tactic = "data"}} : tensor<4xf32>
  // expected-error @+1 {{C3: a group of one has nothing to do}}
  %1 = parallel.all_reduce %x over ["tp"] {kind = #graph.reduce_kind<sum>, parallel.origin = {node = "n", rule = "r", tactic = "data"}} : tensor<4xf32>
  return
}
func.func @backward_0() attributes {parallel.stage = 0 : i64, parallel.procedure = "backward"} {
  return
}
func.func @update_0() attributes {parallel.stage = 0 : i64, parallel.procedure = "update"} {
  return
}
}

// -----

// C4
// expected-error @+1 {{C4: stage 0 has 0 functions `update`, expected one}}
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "tp"=1]>} {
func.func @forward_0() attributes {parallel.stage = 0 : i64, parallel.procedure = "forward"} {
  return
}
func.func @backward_0() attributes {parallel.stage = 0 : i64, parallel.procedure = "backward"} {
  return
}
}

// -----

// expected-error @+1 {{C4: 1 functions belong to no stage of the mesh}}
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "tp"=1]>} {
func.func @forward_0() attributes {parallel.stage = 0 : i64, parallel.procedure = "forward"} {
  return
}
func.func @backward_0() attributes {parallel.stage = 0 : i64, parallel.procedure = "backward"} {
  return
}
func.func @update_0() attributes {parallel.stage = 0 : i64, parallel.procedure = "update"} {
  return
}
func.func @update_1() attributes {parallel.stage = 1 : i64, parallel.procedure = "update"} {
  return
}
}

// -----

module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "tp"=1]>} {
func.func @forward_0() attributes {parallel.stage = 0 : i64, parallel.procedure = "forward"} {
  return
}
func.func @backward_0() attributes {parallel.stage = 0 : i64, parallel.procedure = "backward"} {
  return
}
func.func @update_0() attributes {parallel.stage = 0 : i64, parallel.procedure = "update"} {
  return
}
  // expected-error @+1 {{C4: @other is no procedure of a stage}}
func.func @other() {
  return
}
}

// -----

// C4 of virtual stages: each has a forward and a backward, a stage of the mesh one update for its chunks.
// expected-error @+1 {{C4: virtual stage 2 has 0 functions `backward`, expected one}}
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=2, "tp"=1]>, parallel.stage_layers = array<i64: 1, 1, 1, 1>} {
func.func @forward_0() attributes {parallel.stage = 0 : i64, parallel.procedure = "forward"} {
  return
}
func.func @forward_1() attributes {parallel.stage = 1 : i64, parallel.procedure = "forward"} {
  return
}
func.func @forward_2() attributes {parallel.stage = 0 : i64, parallel.chunk = 1 : i64, parallel.procedure = "forward"} {
  return
}
func.func @forward_3() attributes {parallel.stage = 1 : i64, parallel.chunk = 1 : i64, parallel.procedure = "forward"} {
  return
}
func.func @backward_0() attributes {parallel.stage = 0 : i64, parallel.procedure = "backward"} {
  return
}
func.func @backward_1() attributes {parallel.stage = 1 : i64, parallel.procedure = "backward"} {
  return
}
func.func @backward_3() attributes {parallel.stage = 1 : i64, parallel.chunk = 1 : i64, parallel.procedure = "backward"} {
  return
}
func.func @update_0() attributes {parallel.stage = 0 : i64, parallel.procedure = "update"} {
  return
}
func.func @update_1() attributes {parallel.stage = 1 : i64, parallel.procedure = "update"} {
  return
}
}

// -----

// C6 of virtual stages: the message of stage 1's first chunk goes to stage 0's second.
module attributes {graph.mode = "infer", parallel.mesh = #parallel.mesh<["dp"=1, "pp"=2, "tp"=1]>, parallel.stage_layers = array<i64: 1, 1, 1, 1>, graph.inputs = []} {
func.func @forward_0() attributes {parallel.stage = 0 : i64, parallel.procedure = "forward"} {
  return
}
func.func @forward_1() -> (tensor<4xf32> {parallel.boundary = 0 : i64}) attributes {parallel.stage = 1 : i64, parallel.procedure = "forward"} {
  %0 = graph.constant dense<0.0> : tensor<4xf32>
  return %0 : tensor<4xf32>
}
// expected-error @+1 {{C6: boundary 0 is 'tensor<4xf32>' in result 0 of @forward_1 and 'tensor<8xf32>' in argument 0 of @forward_2}}
func.func @forward_2(%x: tensor<8xf32> {parallel.boundary = 0 : i64}) attributes {parallel.stage = 0 : i64, parallel.chunk = 1 : i64, parallel.procedure = "forward"} {
  return
}
func.func @forward_3() attributes {parallel.stage = 1 : i64, parallel.chunk = 1 : i64, parallel.procedure = "forward"} {
  return
}
}

// -----

// C5
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "tp"=1]>} {
// expected-error @+1 {{C5: argument 0 of @forward_0 has 0 bindings, expected one of state, flat, input, scalar, output, boundary, residual}}
func.func @forward_0(%x: tensor<4xf32>) attributes {parallel.stage = 0 : i64, parallel.procedure = "forward"} {
  return
}
func.func @backward_0() attributes {parallel.stage = 0 : i64, parallel.procedure = "backward"} {
  return
}
func.func @update_0() attributes {parallel.stage = 0 : i64, parallel.procedure = "update"} {
  return
}
}

// -----

// C6
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=2, "tp"=1]>} {
// expected-error @+1 {{C6: boundary 0, result 0 of @forward_0, is read by no one}}
func.func @forward_0(%x: tensor<4xf32> {graph.input = "x"}) -> (tensor<4xf32> {parallel.boundary = 0 : i64}) attributes {parallel.stage = 0 : i64, parallel.procedure = "forward"} {
  return %x : tensor<4xf32>
}
func.func @backward_0() attributes {parallel.stage = 0 : i64, parallel.procedure = "backward"} {
  return
}
func.func @update_0() attributes {parallel.stage = 0 : i64, parallel.procedure = "update"} {
  return
}
func.func @forward_1() attributes {parallel.stage = 1 : i64, parallel.procedure = "forward"} {
  return
}
func.func @backward_1() attributes {parallel.stage = 1 : i64, parallel.procedure = "backward"} {
  return
}
func.func @update_1() attributes {parallel.stage = 1 : i64, parallel.procedure = "update"} {
  return
}
}

// -----

module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=2, "tp"=1]>} {
func.func @forward_0(%x: tensor<4xf32> {graph.input = "x"}) -> (tensor<4xf32> {parallel.boundary = 0 : i64}) attributes {parallel.stage = 0 : i64, parallel.procedure = "forward"} {
  return %x : tensor<4xf32>
}
func.func @backward_0() attributes {parallel.stage = 0 : i64, parallel.procedure = "backward"} {
  return
}
func.func @update_0() attributes {parallel.stage = 0 : i64, parallel.procedure = "update"} {
  return
}
// expected-error @+1 {{C6: boundary 0 is 'tensor<4xf32>' in result 0 of @forward_0 and 'tensor<5xf32>' in argument 0 of @forward_1}}
func.func @forward_1(%x: tensor<5xf32> {parallel.boundary = 0 : i64}) attributes {parallel.stage = 1 : i64, parallel.procedure = "forward"} {
  return
}
func.func @backward_1() attributes {parallel.stage = 1 : i64, parallel.procedure = "backward"} {
  return
}
func.func @update_1() attributes {parallel.stage = 1 : i64, parallel.procedure = "update"} {
  return
}
}

// -----

module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "tp"=1]>} {
// expected-error @+1 {{C6: boundary 0, argument 0 of @forward_0, is made by no one}}
func.func @forward_0(%x: tensor<4xf32> {parallel.boundary = 0 : i64}) attributes {parallel.stage = 0 : i64, parallel.procedure = "forward"} {
  return
}
func.func @backward_0() attributes {parallel.stage = 0 : i64, parallel.procedure = "backward"} {
  return
}
func.func @update_0() attributes {parallel.stage = 0 : i64, parallel.procedure = "update"} {
  return
}
}

// -----

// C7
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "tp"=1]>} {
func.func @forward_0() attributes {parallel.stage = 0 : i64, parallel.procedure = "forward"} {
  return
}
// expected-error @+1 {{C7: residual 3, argument 0 of @backward_0, is made by no one}}
func.func @backward_0(%x: tensor<4xf32> {parallel.residual = 3 : i64}) attributes {parallel.stage = 0 : i64, parallel.procedure = "backward"} {
  return
}
func.func @update_0() attributes {parallel.stage = 0 : i64, parallel.procedure = "update"} {
  return
}
}

// -----

module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "tp"=1]>} {
// expected-error @+1 {{C7: numbers run from 0 to 0, got 3}}
func.func @forward_0(%x: tensor<4xf32> {graph.input = "x"}) -> (tensor<4xf32> {parallel.residual = 3 : i64}) attributes {parallel.stage = 0 : i64, parallel.procedure = "forward"} {
  return %x : tensor<4xf32>
}
func.func @backward_0(%x: tensor<4xf32> {parallel.residual = 3 : i64}) attributes {parallel.stage = 0 : i64, parallel.procedure = "backward"} {
  return
}
func.func @update_0() attributes {parallel.stage = 0 : i64, parallel.procedure = "update"} {
  return
}
}

// -----

// C8
module attributes {parallel.mesh = #parallel.mesh<["dp"=2, "pp"=1, "tp"=1]>} {
graph.source @w : tensor<12xf32> {init = #graph.init_kind<zeros>}
graph.state @p : tensor<12xf32> parameter views [#graph.view<@w, 0, [1]>] {parallel.stages = [0], parallel.sharding = #parallel.sharding<[{"dp"}]>}
func.func @forward_0() attributes {parallel.stage = 0 : i64, parallel.procedure = "forward"} {
  return
}
func.func @backward_0() attributes {parallel.stage = 0 : i64, parallel.procedure = "backward"} {
  return
}
// expected-error @+2 {{C8: argument 0 of @update_0 is 'tensor<12xf32>', state @p is 'tensor<12xf32>' cut as #parallel.sharding<[{"dp"}]>}}
// expected-error @+1 {{C8: result 0 of @update_0 is 'tensor<12xf32>', state @p is 'tensor<12xf32>' cut as #parallel.sharding<[{"dp"}]>}}
func.func @update_0(%p: tensor<12xf32> {graph.state = @p}) -> (tensor<12xf32> {graph.state = @p}) attributes {parallel.stage = 0 : i64, parallel.procedure = "update"} {
  return %p : tensor<12xf32>
}
}

// -----

module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=2, "tp"=1]>} {
graph.source @w : tensor<12xf32> {init = #graph.init_kind<zeros>}
graph.state @p : tensor<12xf32> parameter views [#graph.view<@w, 0, [1]>] {parallel.stages = [1]}
func.func @forward_0() attributes {parallel.stage = 0 : i64, parallel.procedure = "forward"} {
  return
}
func.func @backward_0() attributes {parallel.stage = 0 : i64, parallel.procedure = "backward"} {
  return
}
// expected-error @+2 {{C8: argument 0 of @update_0 stands in stage 0, state @p is held by stages [1]}}
// expected-error @+1 {{C8: result 0 of @update_0 stands in stage 0, state @p is held by stages [1]}}
func.func @update_0(%p: tensor<12xf32> {graph.state = @p}) -> (tensor<12xf32> {graph.state = @p}) attributes {parallel.stage = 0 : i64, parallel.procedure = "update"} {
  return %p : tensor<12xf32>
}
func.func @forward_1() attributes {parallel.stage = 1 : i64, parallel.procedure = "forward"} {
  return
}
func.func @backward_1() attributes {parallel.stage = 1 : i64, parallel.procedure = "backward"} {
  return
}
func.func @update_1(%p: tensor<12xf32> {graph.state = @p}) -> (tensor<12xf32> {graph.state = @p}) attributes {parallel.stage = 1 : i64, parallel.procedure = "update"} {
  return %p : tensor<12xf32>
}
}

// -----

module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "tp"=1]>} {
func.func @forward_0() attributes {parallel.stage = 0 : i64, parallel.procedure = "forward"} {
  return
}
func.func @backward_0() attributes {parallel.stage = 0 : i64, parallel.procedure = "backward"} {
  return
}
// expected-error @+1 {{C8: argument 0 of @update_0 names no state, got @q}}
func.func @update_0(%p: tensor<4xf32> {graph.state = @q}) attributes {parallel.stage = 0 : i64, parallel.procedure = "update"} {
  return
}
}

// -----

// C9
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=2, "tp"=1]>} {
graph.source @w : tensor<12xf32> {init = #graph.init_kind<zeros>}
// expected-error @+1 {{C9: stage 1 begins with layer 2, expected 1}}
graph.state @p : tensor<3x4xf32> parameter stacked views [#graph.view<@w, 0, [1]>, #graph.view<@w, 4, [1]>, #graph.view<@w, 8, [1]>] {parallel.stages = [0, 1]}
func.func @forward_0() attributes {parallel.stage = 0 : i64, parallel.procedure = "forward"} {
  return
}
func.func @backward_0() attributes {parallel.stage = 0 : i64, parallel.procedure = "backward"} {
  return
}
func.func @update_0(%p: tensor<1x4xf32> {graph.state = @p, parallel.layers = array<i64: 0, 1>}) -> (tensor<1x4xf32> {graph.state = @p, parallel.layers = array<i64: 0, 1>}) attributes {parallel.stage = 0 : i64, parallel.procedure = "update"} {
  return %p : tensor<1x4xf32>
}
func.func @forward_1() attributes {parallel.stage = 1 : i64, parallel.procedure = "forward"} {
  return
}
func.func @backward_1() attributes {parallel.stage = 1 : i64, parallel.procedure = "backward"} {
  return
}
func.func @update_1(%p: tensor<1x4xf32> {graph.state = @p, parallel.layers = array<i64: 2, 1>}) -> (tensor<1x4xf32> {graph.state = @p, parallel.layers = array<i64: 2, 1>}) attributes {parallel.stage = 1 : i64, parallel.procedure = "update"} {
  return %p : tensor<1x4xf32>
}
}

// -----

module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=2, "tp"=1]>} {
graph.source @w : tensor<12xf32> {init = #graph.init_kind<zeros>}
// expected-error @+1 {{C9: its stages hold 2 of 3 layers}}
graph.state @p : tensor<3x4xf32> parameter stacked views [#graph.view<@w, 0, [1]>, #graph.view<@w, 4, [1]>, #graph.view<@w, 8, [1]>] {parallel.stages = [0, 1]}
func.func @forward_0() attributes {parallel.stage = 0 : i64, parallel.procedure = "forward"} {
  return
}
func.func @backward_0() attributes {parallel.stage = 0 : i64, parallel.procedure = "backward"} {
  return
}
func.func @update_0(%p: tensor<1x4xf32> {graph.state = @p, parallel.layers = array<i64: 0, 1>}) -> (tensor<1x4xf32> {graph.state = @p, parallel.layers = array<i64: 0, 1>}) attributes {parallel.stage = 0 : i64, parallel.procedure = "update"} {
  return %p : tensor<1x4xf32>
}
func.func @forward_1() attributes {parallel.stage = 1 : i64, parallel.procedure = "forward"} {
  return
}
func.func @backward_1() attributes {parallel.stage = 1 : i64, parallel.procedure = "backward"} {
  return
}
func.func @update_1(%p: tensor<1x4xf32> {graph.state = @p, parallel.layers = array<i64: 1, 1>}) -> (tensor<1x4xf32> {graph.state = @p, parallel.layers = array<i64: 1, 1>}) attributes {parallel.stage = 1 : i64, parallel.procedure = "update"} {
  return %p : tensor<1x4xf32>
}
}

// -----

module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "tp"=1]>} {
graph.source @w : tensor<12xf32> {init = #graph.init_kind<zeros>}
// expected-error @+1 {{C9: is held by no stage}}
graph.state @p : tensor<12xf32> parameter views [#graph.view<@w, 0, [1]>]
func.func @forward_0() attributes {parallel.stage = 0 : i64, parallel.procedure = "forward"} {
  return
}
func.func @backward_0() attributes {parallel.stage = 0 : i64, parallel.procedure = "backward"} {
  return
}
func.func @update_0() attributes {parallel.stage = 0 : i64, parallel.procedure = "update"} {
  return
}
}

// -----

// C10
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "tp"=1]>} {
graph.source @w : tensor<12xf32> {init = #graph.init_kind<zeros>}
// expected-error @+1 {{C10: is held by stage 0, which does not update it}}
graph.state @p : tensor<12xf32> parameter views [#graph.view<@w, 0, [1]>] {parallel.stages = [0]}
func.func @forward_0() attributes {parallel.stage = 0 : i64, parallel.procedure = "forward"} {
  return
}
func.func @backward_0() attributes {parallel.stage = 0 : i64, parallel.procedure = "backward"} {
  return
}
func.func @update_0() attributes {parallel.stage = 0 : i64, parallel.procedure = "update"} {
  return
}
}

// -----

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

// -----

// C8: a flat tensor has parts of the states as ranks hold them, one of equal parts of all of them.
module attributes {parallel.mesh = #parallel.mesh<["dp"=2, "pp"=1, "tp"=1]>} {
graph.source @s : tensor<4xf32> {init = #graph.init_kind<ones>}
graph.state @p : tensor<4xf32> parameter views [#graph.view<@s, 0, [1]>] {parallel.stages = [0]}
// expected-error @+3 {{C8: argument 0 of @forward_0 is 'tensor<1xf32>', expected one of 2 equal parts of 4 elements}}
// expected-error @+2 {{C8: argument 1 of @forward_0 has #parallel.flat_part<@p, 0, [2]> of 'tensor<1xf32>', its state is 'tensor<4xf32>', a rank's part 'tensor<4xf32>', held by stages [0]}}
// expected-error @+1 {{C8: argument 2 of @forward_0 names no state, got @q}}
func.func @forward_0(%x: tensor<1xf32> {parallel.flat = #parallel.flat<["dp"], [<@p, 0, [4]>]>},
                     %y: tensor<1xf32> {parallel.flat = #parallel.flat<["dp"], [<@p, 0, [2]>]>},
                     %z: tensor<2xf32> {parallel.flat = #parallel.flat<["dp"], [<@q, 0, [4]>]>})
    attributes {parallel.stage = 0 : i64, parallel.procedure = "forward"} {
  return
}
func.func @backward_0() attributes {parallel.stage = 0 : i64, parallel.procedure = "backward"} {
  return
}
func.func @update_0() -> (tensor<2xf32> {parallel.flat = #parallel.flat<["dp"], [<@p, 0, [4]>]>})
    attributes {parallel.stage = 0 : i64, parallel.procedure = "update"} {
  %0 = graph.constant dense<0.0> : tensor<2xf32>
  return %0 : tensor<2xf32>
}
}
