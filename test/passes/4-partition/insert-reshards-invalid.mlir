// RUN: llmc-opt %s --llmc-insert-reshards --split-input-file --verify-diagnostics

// expected-error @+1 {{no mesh: the module needs the attribute `parallel.mesh`}}
module {
}

// -----

#all = #parallel.sharding<[{}, {}]>
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "tp"=2]>} {
func.func @few(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{A1: `parallel.in` needs one sharding for each of 2 values}}
  %0 = graph.add %x, %x {parallel.in = [#all], parallel.out = [#all]} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}
}

// -----

#other = #parallel.sharding<[{"ep"}, {}]>
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "tp"=2]>} {
func.func @axis(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{A1: axis "ep" in `parallel.in` is not in the mesh}}
  %0 = graph.exp %x {parallel.in = [#other], parallel.out = [#other]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}
}

// -----

#all = #parallel.sharding<[{}, {}]>
#rows = #parallel.sharding<[{"tp"}, {}]>
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "tp"=2]>} {
func.func @factor(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{A2: dim 0 of operand 1 is cut otherwise than the same factor before it}}
  %0 = graph.add %x, %x {parallel.in = [#rows, #all], parallel.out = [#rows]} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}
}

// -----

#columns = #parallel.sharding<[{}, {"tp"}]>
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "tp"=2]>} {
func.func @softmax(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{A3: dim 1 of operand 0 must not be cut}}
  %0 = graph.softmax %x {parallel.in = [#columns], parallel.out = [#columns]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}
}

// -----

#columns = #parallel.sharding<[{}, {"tp"}]>
#rows = #parallel.sharding<[{"tp"}, {}]>
#all = #parallel.sharding<[{}, {}]>
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "tp"=2]>} {
func.func @partial(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>) {
  // expected-error @+1 {{A4: result 0 is #parallel.sharding<[{}, {}]>, its rule makes it #parallel.sharding<[{}, {}], unreduced = {"tp": sum}>}}
  %0 = graph.matmul "sd,de->se" %x, %w {parallel.in = [#columns, #rows], parallel.out = [#all]} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  return
}
}

// -----

// One axis cuts the experts of the result and the rows that are summed.
#rows = #parallel.sharding<[{"tp"}, {}]>
#routes = #parallel.sharding<[{"tp"}]>
#experts = #parallel.sharding<[{"tp"}, {}, {}]>
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "tp"=2]>} {
func.func @twice(%x: tensor<8x4xf32>, %y: tensor<8x3xf32>, %r: tensor<8xi64>) {
  // expected-error @+1 {{A4: result 0 is #parallel.sharding<[{"tp"}, {}, {}]>, and its rule leaves it unreduced over "tp", too: an axis may cut one factor of an op}}
  %0 = graph.grouped_outer %x, %y, %r {parallel.in = [#rows, #rows, #routes], parallel.out = [#experts]} : (tensor<8x4xf32>, tensor<8x3xf32>, tensor<8xi64>) -> tensor<2x4x3xf32>
  return
}
}

// -----

#partial = #parallel.sharding<[{}, {}], unreduced = {"tp": sum}>
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "tp"=2]>} {
func.func @nonlinear(%x: tensor<4x8xf32> {parallel.sharding = #partial}) {
  // expected-error @+1 {{A5: the op is not linear in its unreduced operands together}}
  %0 = graph.exp %x {parallel.in = [#partial], parallel.out = [#partial]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}
}

// -----

#all = #parallel.sharding<[{}, {}]>
#rows = #parallel.sharding<[{"tp"}, {}]>
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "tp"=2]>} {
func.func @layers(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{A6: operand 0 is #parallel.sharding<[{"tp"}, {}]> outside of the body and #parallel.sharding<[{}, {}]> inside}}
  %y = graph.repeat 3 carried(%x : tensor<4x8xf32>) stacked() captured() -> tensor<4x8xf32> attributes {parallel.in = [#rows]} {
  ^bb0(%c: tensor<4x8xf32>):
    graph.yield %c : tensor<4x8xf32>
  }
  return
}
}

// -----

#rows = #parallel.sharding<[{"tp"}, {}]>
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "tp"=2]>} {
graph.source @w : tensor<4x8xf32> {init = #graph.init_kind<zeros>}
graph.state @p : tensor<4x8xf32> parameter views [#graph.view<@w, 0, [8, 1]>] {parallel.sharding = #rows}
// expected-error @+1 {{A7: argument 0 is #parallel.sharding<[{}, {}]>, its state @p is #parallel.sharding<[{"tp"}, {}]>}}
func.func @micro(%p: tensor<4x8xf32> {graph.state = @p}) {
  return
}
}

// -----

#all = #parallel.sharding<[{}, {}]>
#partial = #parallel.sharding<[{}, {}], unreduced = {"tp": sum}>
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "tp"=2]>} {
func.func @made(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = graph.exp %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // expected-error @+1 {{operand 0 is required unreduced over "tp" where it is defined as #parallel.sharding<[{}, {}]>; partial sums cannot be made}}
  %1 = graph.neg %0 {parallel.in = [#partial], parallel.out = [#partial]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}
}
