// RUN: llmc-opt %s --split-input-file --verify-diagnostics

// mesh C1
// expected-error @+1 {{C1: axis names of a mesh are distinct and not empty, got "dp"}}
module attributes {parallel.mesh = #parallel.mesh<["dp"=2, "dp"=3]>} {
}

// -----

// expected-error @+1 {{C1: axis names of a mesh are distinct and not empty, got ""}}
module attributes {parallel.mesh = #parallel.mesh<[""=2]>} {
}

// -----

// mesh C2
// expected-error @+1 {{C2: axis "dp" has size 0, sizes are at least 1}}
module attributes {parallel.mesh = #parallel.mesh<["dp"=0]>} {
}

// -----

// mesh C3
// expected-error @+1 {{C3: a product has axes of the mesh, each once and slowest first, got dp = ["dp1", "dp0"]}}
module attributes {parallel.mesh = #parallel.mesh<["dp0"=2, "dp1"=2], dp = ["dp1", "dp0"]>} {
}

// -----

// expected-error @+1 {{C3: a product has axes of the mesh, each once and slowest first, got dp = ["dp0", "dp0"]}}
module attributes {parallel.mesh = #parallel.mesh<["dp0"=2], dp = ["dp0", "dp0"]>} {
}

// -----

// expected-error @+1 {{C3: a product has axes of the mesh, each once and slowest first, got ep = ["ep"]}}
module attributes {parallel.mesh = #parallel.mesh<["dp"=2], ep = ["ep"]>} {
}

// -----

// expected-error @+1 {{C3: a product has axes of the mesh, each once and slowest first, got ep = []}}
module attributes {parallel.mesh = #parallel.mesh<["dp"=2], ep = []>} {
}

// -----

// expected-error @+1 {{a mesh says once what "ep" stands for}}
module attributes {parallel.mesh = #parallel.mesh<["dp"=2], ep = ["dp"], ep = ["dp"]>} {
}

// -----

// mesh C4
// expected-error @+1 {{C4: "dp" is an axis and cannot be a product too}}
module attributes {parallel.mesh = #parallel.mesh<["dp"=2, "tp"=2], dp = ["dp", "tp"]>} {
}

// -----

// mesh C5
// expected-error @+1 {{C5: stages lie along one axis, got pp = ["a", "b"]}}
module attributes {parallel.mesh = #parallel.mesh<["a"=2, "b"=2], pp = ["a", "b"]>} {
}

// -----

// sharding C1
// expected-error @+1 {{C1: axis "tp" stands twice in one sharding}}
module attributes {a = #parallel.sharding<[{"tp"}, {"tp"}]>} {
}

// -----

// expected-error @+1 {{C1: axis "tp" stands twice in one sharding}}
module attributes {a = #parallel.sharding<[{"tp"}], unreduced = {"tp": sum}>} {
}

// -----

// expected-error @+1 {{expected sum or max, the same for all unreduced axes}}
module attributes {a = #parallel.sharding<[{}], unreduced = {"tp": sum, "dp": max}>} {
}

// -----

// reshard C1
func.func @rank(%x: tensor<8x8xf32>) {
  // expected-error @+1 {{C1: shardings have one entry per dimension}}
  %0 = parallel.reshard %x from <[{}]> to <[{}]> : tensor<8x8xf32>
  return
}

// -----

// reshard C2
func.func @made(%x: tensor<8xf32>) {
  // expected-error @+1 {{C2: the result is unreduced over "tp" where the operand is not}}
  %0 = parallel.reshard %x from <[{}]> to <[{}], unreduced = {"tp": sum}> : tensor<8xf32>
  return
}

// -----

// all_reduce C2
module attributes {parallel.mesh = #parallel.mesh<["dp"=2, "pp"=3]>} {
func.func @members(%x: tensor<8xf32>) {
  // expected-error @+1 {{C2: `members` needs a single axis, got ["dp", "pp"]}}
  %0 = parallel.all_reduce %x over ["dp", "pp"] members [0, 1] {kind = #graph.reduce_kind<sum>} : tensor<8xf32>
  return
}
}

// -----

module attributes {parallel.mesh = #parallel.mesh<["dp"=2, "pp"=3]>} {
func.func @outside(%x: tensor<8xf32>) {
  // expected-error @+1 {{C2: member 3 is outside of axis "pp" of size 3}}
  %0 = parallel.all_reduce %x over ["pp"] members [0, 3] {kind = #graph.reduce_kind<sum>} : tensor<8xf32>
  return
}
}

// -----

// C3 of every collective
func.func @none(%x: tensor<8xf32>) {
  // expected-error @+1 {{C3: a group needs at least one axis}}
  %0 = parallel.all_reduce %x over [] {kind = #graph.reduce_kind<sum>} : tensor<8xf32>
  return
}

// -----

func.func @twice(%x: tensor<8xf32>) {
  // expected-error @+1 {{C3: axis "dp" stands twice in the group}}
  %0 = parallel.all_reduce %x over ["dp", "dp"] {kind = #graph.reduce_kind<sum>} : tensor<8xf32>
  return
}

// -----

module attributes {parallel.mesh = #parallel.mesh<["dp"=2]>} {
func.func @mesh(%x: tensor<8xf32>) {
  // expected-error @+1 {{C3: axis "tp" is not in the mesh #parallel.mesh<["dp"=2]>}}
  %0 = parallel.all_gather %x over ["tp"] dim 0 : (tensor<8xf32>) -> tensor<8xf32>
  return
}
}

// -----

// C1 and C2 of gather, scatter and slice
module attributes {parallel.mesh = #parallel.mesh<["dp"=2]>} {
func.func @dim(%x: tensor<8xf32>) {
  // expected-error @+1 {{C1: operand and result have one rank and element type, and `dim` 1 lies in it}}
  %0 = parallel.all_gather %x over ["dp"] dim 1 : (tensor<8xf32>) -> tensor<16xf32>
  return
}
}

// -----

module attributes {parallel.mesh = #parallel.mesh<["dp"=2]>} {
func.func @size(%x: tensor<8xf32>) {
  // expected-error @+1 {{C2: a group of 2 makes 'tensor<16xf32>' of 'tensor<8xf32>', got 'tensor<24xf32>'}}
  %0 = parallel.all_gather %x over ["dp"] dim 0 : (tensor<8xf32>) -> tensor<24xf32>
  return
}
}

// -----

module attributes {parallel.mesh = #parallel.mesh<["dp"=3]>} {
func.func @divide(%x: tensor<8xf32>) {
  // expected-error @+1 {{C2: the group of 3 does not divide dim 0 of 'tensor<8xf32>'}}
  %0 = parallel.all_slice %x over ["dp"] dim 0 : (tensor<8xf32>) -> tensor<2xf32>
  return
}
}

// -----

func.func @all_reduce(%x: tensor<8xf32>) {
  // all_reduce C1: expected-error @+1 {{requires the same type for all operands and results}}
  %0 = "parallel.all_reduce"(%x) {axes = ["tp"], kind = #graph.reduce_kind<sum>} : (tensor<8xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @all_slice(%x: tensor<8xf32>) {
  // expected-error @+1 {{C1}}
  %0 = parallel.all_slice %x over ["tp"] dim 1 : (tensor<8xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @reduce_scatter(%x: tensor<8xf32>) {
  // expected-error @+1 {{C1}}
  %0 = parallel.reduce_scatter %x over ["tp"] dim 2 {kind = #graph.reduce_kind<sum>} : (tensor<8xf32>) -> tensor<4xf32>
  return
}

// -----

module attributes {parallel.mesh = #parallel.mesh<["tp"=2]>} {
  func.func @reduce_scatter(%x: tensor<8xf32>) {
    // expected-error @+1 {{C2}}
    %0 = parallel.reduce_scatter %x over ["tp"] dim 0 {kind = #graph.reduce_kind<sum>} : (tensor<8xf32>) -> tensor<2xf32>
    return
  }
}

// -----

// C1 and C2 of all_to_all
module attributes {parallel.mesh = #parallel.mesh<["dp"=2]>} {
func.func @concat(%x: tensor<8x2xf32>) {
  // expected-error @+1 {{C1: operand and result have one rank and element type, and `concat` 2 lies in it}}
  %0 = parallel.all_to_all %x over ["dp"] split 0 concat 2 : (tensor<8x2xf32>) -> tensor<4x4xf32>
  return
}
}

// -----

module attributes {parallel.mesh = #parallel.mesh<["dp"=2]>} {
func.func @split(%x: tensor<8x3xf32>) {
  // expected-error @+1 {{C2: the group of 2 does not divide dim 1 of 'tensor<8x3xf32>'}}
  %0 = parallel.all_to_all %x over ["dp"] split 1 concat 0 : (tensor<8x3xf32>) -> tensor<16x1xf32>
  return
}
}

// -----

module attributes {parallel.mesh = #parallel.mesh<["dp"=2]>} {
func.func @exchanged(%x: tensor<8x2xf32>) {
  // expected-error @+1 {{C2: a group of 2 makes 'tensor<4x4xf32>' of 'tensor<8x2xf32>', got 'tensor<4x2xf32>'}}
  %0 = parallel.all_to_all %x over ["dp"] split 0 concat 1 : (tensor<8x2xf32>) -> tensor<4x2xf32>
  return
}
}

// -----

// C1 and C2 of shift
module attributes {parallel.mesh = #parallel.mesh<["dp"=2, "cp"=3]>} {
func.func @axes(%x: tensor<8x2xf32>) {
  // expected-error @+1 {{C1: a ring has a single axis, got ["dp", "cp"]}}
  %0 = parallel.shift %x over ["dp", "cp"] by 1 : tensor<8x2xf32>
  return
}
}

// -----

module attributes {parallel.mesh = #parallel.mesh<["dp"=2, "cp"=3]>} {
func.func @distance(%x: tensor<8x2xf32>) {
  // expected-error @+1 {{C2: distance 3 is outside of a ring of 3}}
  %0 = parallel.shift %x over ["cp"] by 3 : tensor<8x2xf32>
  return
}
}

// -----

module attributes {parallel.mesh = #parallel.mesh<["dp"=2, "tp"=4]>} {
func.func @row(%x: tensor<8x2xf32>, %s: tensor<4xi64>, %t: tensor<4xi64>) {
  // expected-error @+1 {{C1: rows have one element type and size, got 'tensor<8x2xf32>' and 'tensor<8x3xf32>'}}
  %0 = parallel.exchange_rows %x counts %s, %t over ["tp"] : (tensor<8x2xf32>, tensor<4xi64>, tensor<4xi64>) -> tensor<8x3xf32>
  return
}
}

// -----

module attributes {parallel.mesh = #parallel.mesh<["dp"=2, "tp"=4]>} {
func.func @element(%x: tensor<8x2xf32>, %s: tensor<4xi64>, %t: tensor<4xi64>) {
  // expected-error @+1 {{C1: rows have one element type and size, got 'tensor<8x2xf32>' and 'tensor<8x2xbf16>'}}
  %0 = parallel.exchange_rows %x counts %s, %t over ["tp"] : (tensor<8x2xf32>, tensor<4xi64>, tensor<4xi64>) -> tensor<8x2xbf16>
  return
}
}

// -----

module attributes {parallel.mesh = #parallel.mesh<["dp"=2, "tp"=4]>} {
func.func @sent(%x: tensor<8x2xf32>, %s: tensor<2xi64>, %t: tensor<4xi64>) {
  // expected-error @+1 {{C2: counts are 'tensor<2xi64>', expected one for each member of the group}}
  %0 = parallel.exchange_rows %x counts %s, %t over ["tp"] : (tensor<8x2xf32>, tensor<2xi64>, tensor<4xi64>) -> tensor<8x2xf32>
  return
}
}

// -----

module attributes {parallel.mesh = #parallel.mesh<["dp"=2, "tp"=4]>} {
func.func @received(%x: tensor<8x2xf32>, %s: tensor<4xi64>, %t: tensor<4x1xi64>) {
  // expected-error @+1 {{C2: counts are 'tensor<4x1xi64>', expected one for each member of the group}}
  %0 = parallel.exchange_rows %x counts %s, %t over ["tp"] : (tensor<8x2xf32>, tensor<4xi64>, tensor<4x1xi64>) -> tensor<8x2xf32>
  return
}
}

// -----

// C3 of axis_offset
module attributes {parallel.mesh = #parallel.mesh<["dp"=2]>} {
func.func @offset() {
  // expected-error @+1 {{C3: axis "tp" is not in the mesh}}
  %0 = parallel.axis_offset ["tp"] stride 4 : tensor<i64>
  return
}
}

// -----

// expected-error @+2 {{C1: a part begins at 0 or later and has positive sizes, got 0 and array<i64: 4, 0>}}
// expected-error @+1 {{failed to parse Parallel_FlatAttr parameter 'parts'}}
func.func private @part_sizes(tensor<4xf32> {parallel.flat = #parallel.flat<["dp"], [#parallel.flat_part<@a, 0, [4, 0]>]>})

// -----

// expected-error @+1 {{C1: @b begins at element 5, and the one before it ends at 4}}
func.func private @part_gap(tensor<4xf32> {parallel.flat = #parallel.flat<["dp"], [<@a, 0, [4]>, <@b, 5, [2]>]>})

// -----

// expected-error @+1 {{C2: axes are distinct names, got ["dp", "dp"]}}
func.func private @flat_axes(tensor<4xf32> {parallel.flat = #parallel.flat<["dp", "dp"], [<@a, 0, [4]>]>})
