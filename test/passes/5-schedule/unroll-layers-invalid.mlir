// RUN: llmc-opt %s --split-input-file --verify-diagnostics --llmc-unroll-layers

// The pass takes every valid repeat; one with fewer slices than layers is none.
func.func @forward_0(%x: tensor<4xf32>, %w: tensor<2x4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{C2: stacked operand 0 has shape [2, 4], expected leading dimension 3}}
  %0 = graph.repeat 3 carried(%x : tensor<4xf32>) stacked(%w : tensor<2x4xf32>) captured() -> tensor<4xf32> {
  ^bb0(%h: tensor<4xf32>, %wi: tensor<4xf32>):
    %a = graph.mul %h, %wi : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    graph.yield %a : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}
