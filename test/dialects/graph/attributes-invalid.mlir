// RUN: llmc-opt %s --split-input-file --verify-diagnostics
// The table of discardable attributes (dialects/graph/GraphAttrs.cpp): known keys, on the owners that
// may have them, with values of their form.

// expected-error@+1 {{'graph.btach' is no attribute of dialect 'graph'}}
module attributes {graph.btach = 4 : i64} {
}

// -----

// expected-error@+1 {{'graph.batch' is a positive integer, got 0 : i64}}
module attributes {graph.batch = 0 : i64} {
}

// -----

// expected-error@+1 {{'graph.mode' is "infer", got "train"}}
module attributes {graph.mode = "train"} {
}

// -----

// expected-error@+1 {{'graph.files' is a list of dictionaries, got ["model.onnx"]}}
module attributes {graph.files = ["model.onnx"]} {
}

// -----

// expected-error@+1 {{'graph.input' does not belong on a result}}
func.func @f(%x: tensor<4xf32>) -> (tensor<4xf32> {graph.input = "x"}) {
  return %x : tensor<4xf32>
}

// -----

// expected-error@+1 {{'graph.state' is a symbol of a graph.state, got "p"}}
func.func @f(%x: tensor<4xf32> {graph.state = "p"}) {
  return
}

// -----

func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{'graph.backward' is a unit attribute, got true}}
  %0 = graph.neg %x {graph.backward = true} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{'graph.output' does not belong on an op}}
  %0 = graph.neg %x {graph.output = "y"} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// expected-error@+1 {{C1: an input is permuted along a dim behind its rows, in block_order}}
func.func @f(%x: tensor<2x4xf32> {graph.input = "x", graph.loader = #graph.loader<permuted_dim = 1>}) {
  return
}

// -----

// expected-error@+1 {{C1: block_order is no permutation, got array<i64: 1, 1>}}
func.func @f(%x: tensor<2x4xf32> {graph.input = "x", graph.loader = #graph.loader<permuted_dim = 1, block_order = [1, 1]>}) {
  return
}

// -----

// expected-error@+1 {{'graph.loader' is a #graph.loader, got}}
func.func @f(%x: tensor<2x4xf32> {graph.input = "x", graph.loader = {default = "ones"}}) {
  return
}

// -----

// expected-error@+1 {{'graph.annotation' has cuts, one a dim, and their node, got}}
graph.source @w : tensor<8x4xf32> {init = #graph.init_kind<ones>, graph.annotation = {cuts = array<i64: 2>, node = "n"}}
