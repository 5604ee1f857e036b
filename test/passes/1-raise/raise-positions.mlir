// RUN: llmc-opt %s --pass-pipeline='builtin.module(func.func(llmc-raise-positions))' | FileCheck %s

// Positions 0 ... 2 of a table of 8 rows; each row of the batch adds the same.
// CHECK-LABEL: @positions
// CHECK-SAME: %[[H:[^:]*]]: tensor<2x3x4xf32>, %[[T:[^:]*]]: tensor<8x4xf32>
func.func @positions(%h: tensor<2x3x4xf32>, %table: tensor<8x4xf32>) -> tensor<2x3x4xf32> {
  %ids = graph.constant dense<[[0, 1, 2], [0, 1, 2]]> : tensor<2x3xi64>
  %rows = graph.gather %table, %ids : (tensor<8x4xf32>, tensor<2x3xi64>) -> tensor<2x3x4xf32>
  // CHECK: %[[R:.*]] = graph.slice %[[T]] {limits = array<i64: 3, 4>, starts = array<i64: 0, 0>, steps = array<i64: 1, 1>} : (tensor<8x4xf32>) -> tensor<3x4xf32>
  // CHECK-NEXT: graph.add %[[H]], %[[R]]
  %y = graph.add %h, %rows : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  return %y : tensor<2x3x4xf32>
}

// As the model's result the rows do repeat.
// CHECK-LABEL: @repeated
func.func @repeated(%table: tensor<8x4xf32>) -> tensor<2x3x4xf32> {
  %ids = graph.constant dense<[[5, 6, 7], [5, 6, 7]]> : tensor<2x3xi64>
  // CHECK: %[[R:.*]] = graph.slice {{.*}}starts = array<i64: 5, 0>
  // CHECK-NEXT: graph.broadcast %[[R]] : (tensor<3x4xf32>) -> tensor<2x3x4xf32>
  %rows = graph.gather %table, %ids : (tensor<8x4xf32>, tensor<2x3xi64>) -> tensor<2x3x4xf32>
  return %rows : tensor<2x3x4xf32>
}

// Other ids stay a gather: not consecutive, not equal in every row, outside.
// CHECK-LABEL: @others
func.func @others(%table: tensor<8x4xf32>) -> (tensor<3x4xf32>, tensor<2x2x4xf32>, tensor<2x4xf32>) {
  %a = graph.constant dense<[0, 2, 4]> : tensor<3xi64>
  %b = graph.constant dense<[[0, 1], [1, 2]]> : tensor<2x2xi64>
  %c = graph.constant dense<[7, 8]> : tensor<2xi64>
  // CHECK-COUNT-3: graph.gather
  %0 = graph.gather %table, %a : (tensor<8x4xf32>, tensor<3xi64>) -> tensor<3x4xf32>
  %1 = graph.gather %table, %b : (tensor<8x4xf32>, tensor<2x2xi64>) -> tensor<2x2x4xf32>
  %2 = graph.gather %table, %c : (tensor<8x4xf32>, tensor<2xi64>) -> tensor<2x4xf32>
  return %0, %1, %2 : tensor<3x4xf32>, tensor<2x2x4xf32>, tensor<2x4xf32>
}
