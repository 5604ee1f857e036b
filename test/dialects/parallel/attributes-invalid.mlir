// RUN: llmc-opt %s --split-input-file --verify-diagnostics
// The table of discardable attributes (dialects/parallel/ParallelAttrs.cpp).

// expected-error@+1 {{'parallel.mesh' is a #parallel.mesh, got "2x2"}}
module attributes {parallel.mesh = "2x2"} {
}

// -----

// expected-error@+1 {{'parallel.stage' does not belong on a module}}
module attributes {parallel.stage = 0 : i64} {
}

// -----

func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{'parallel.in' is a list of #parallel.sharding, got [0]}}
  %0 = graph.neg %x {parallel.in = [0]} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// expected-error@+1 {{'parallel.procedure' is "forward", "backward", "weight" or "update", got "sideways"}}
func.func @f() attributes {parallel.procedure = "sideways"} {
  return
}

// -----

// expected-error@+1 {{'parallel.residual' is a number from 0, got "0"}}
func.func @f(%x: tensor<4xf32> {parallel.residual = "0"}) {
  return
}

// -----

// expected-error@+1 {{'parallel.shardings' is no attribute of dialect 'parallel'}}
func.func @f(%x: tensor<4xf32> {parallel.shardings = "0"}) {
  return
}

// -----

// expected-error@+1 {{'parallel.sharding' of 'tensor<4xf32>' has 2 dims, got}}
func.func @f(%x: tensor<4xf32> {parallel.sharding = #parallel.sharding<[{}, {}]>}) {
  return
}

// -----

// expected-error@+1 {{'parallel.sharding' of 'tensor<4xf32>' has 0 dims, got}}
func.func @f(%x: tensor<4xf32>) -> (tensor<4xf32> {parallel.sharding = #parallel.sharding<[]>}) {
  return %x : tensor<4xf32>
}

// -----

graph.source @w : tensor<8xf32> {init = #graph.init_kind<ones>}
// expected-error@+1 {{'parallel.sharding' of 'tensor<8xf32>' has 0 dims, got}}
graph.state @p : tensor<8xf32> parameter views [#graph.view<@w, 0, [1]>] {parallel.sharding = #parallel.sharding<[]>}

// -----

// expected-error@+1 {{'parallel.layers' of a part of a state are [first, count], got array<i64: 0>}}
func.func @f(%x: tensor<1x4xf32> {graph.state = @p, parallel.layers = array<i64: 0>}) {
  return
}

// -----

// expected-error@+1 {{'parallel.residual' is a number from 0, got 9223372036854775807 : i64}}
func.func @f(%x: tensor<4xf32> {parallel.residual = 9223372036854775807 : i64}) {
  return
}
