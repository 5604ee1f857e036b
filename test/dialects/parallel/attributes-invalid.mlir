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

// expected-error@+1 {{'parallel.procedure' is "forward", "backward" or "update", got "sideways"}}
func.func @f() attributes {parallel.procedure = "sideways"} {
  return
}

// -----

// expected-error@+1 {{'parallel.residual' is an integer, got "0"}}
func.func @f(%x: tensor<4xf32> {parallel.residual = "0"}) {
  return
}

// -----

// expected-error@+1 {{'parallel.shardings' is no attribute of dialect 'parallel'}}
func.func @f(%x: tensor<4xf32> {parallel.shardings = "0"}) {
  return
}
