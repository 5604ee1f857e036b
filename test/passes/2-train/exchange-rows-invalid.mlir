// RUN: split-file %s %t
// RUN: llmc-opt %t/experts.mlir --verify-diagnostics --llmc-exchange-rows="ranks=3"
// RUN: llmc-opt %t/router.mlir --verify-diagnostics --llmc-exchange-rows="ranks=2"
// RUN: llmc-opt %t/budget.mlir --verify-diagnostics --llmc-exchange-rows="ranks=2 budget=0.5"

//--- experts.mlir
func.func @forward(%x: tensor<2x4x8xf32> {graph.input = "x"}, %p: tensor<2x4x4xf32> {graph.input = "p"},
                   %up: tensor<4x16x8xf32>, %down: tensor<4x8x16xf32>) -> (tensor<2x4x8xf32> {graph.output = "y"}) {
  %r = graph.route %p {mixture} : (tensor<2x4x4xf32>) -> tensor<2x4x2xi64>
  // expected-error @+1 {{X1: has 4 experts, which ep = 3 ranks cannot share; valid sizes of ep are 1 2 4}}
  %h = graph.grouped_matmul %x, %up, %r {transposed}
      : (tensor<2x4x8xf32>, tensor<4x16x8xf32>, tensor<2x4x2xi64>) -> tensor<2x4x2x16xf32>
  %a = graph.relu %h : (tensor<2x4x2x16xf32>) -> tensor<2x4x2x16xf32>
  %y = graph.grouped_matmul %a, %down, %r {transposed}
      : (tensor<2x4x2x16xf32>, tensor<4x8x16xf32>, tensor<2x4x2xi64>) -> tensor<2x4x2x8xf32>
  %s = graph.reduce %y {dims = array<i64: 2>, kind = #graph.reduce_kind<sum>} : (tensor<2x4x2x8xf32>) -> tensor<2x4x8xf32>
  return %s : tensor<2x4x8xf32>
}

//--- router.mlir
func.func @forward(%x: tensor<2x4x8xf32> {graph.input = "x"}, %p: tensor<2x4x4xf32> {graph.input = "p"},
                   %w: tensor<4x16x8xf32>) -> (tensor<2x4x2x16xf32> {graph.output = "y"}) {
  // expected-error @+1 {{X3: has no `mixture`, by which the budget is found, and products of experts follow: add it, or compile the model anew}}
  %r = graph.route %p : (tensor<2x4x4xf32>) -> tensor<2x4x2xi64>
  %h = graph.grouped_matmul %x, %w, %r {transposed}
      : (tensor<2x4x8xf32>, tensor<4x16x8xf32>, tensor<2x4x2xi64>) -> tensor<2x4x2x16xf32>
  return %h : tensor<2x4x2x16xf32>
}

//--- budget.mlir
// expected-error @+1 {{X2: a rank has room for 0.50 times the average of rows, which is less than all: use 1 or more}}
module {
}
