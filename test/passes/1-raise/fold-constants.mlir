// RUN: llmc-opt %s --pass-pipeline='builtin.module(func.func(llmc-fold-constants))' | FileCheck %s

// A causal mask as exporters compute it from positions: one constant, without
// the dims along which it repeats.
// CHECK-LABEL: @mask
// CHECK-SAME: %[[X:.*]]: tensor<2x1x3x3xf32>
func.func @mask(%x: tensor<2x1x3x3xf32>) -> tensor<2x1x3x3xf32> {
  %rows = graph.iota {dim = 2 : i64} : () -> tensor<2x1x3x3xi64>
  %keys = graph.iota {dim = 3 : i64} : () -> tensor<2x1x3x3xi64>
  %seen = graph.compare %keys, %rows {predicate = #graph.predicate<le>} : (tensor<2x1x3x3xi64>, tensor<2x1x3x3xi64>) -> tensor<2x1x3x3xi1>
  %zero = graph.constant dense<0.0> : tensor<f32>
  %low = graph.constant dense<-1.0e30> : tensor<f32>
  %mask = graph.select %seen, %zero, %low : (tensor<2x1x3x3xi1>, tensor<f32>, tensor<f32>) -> tensor<2x1x3x3xf32>
  // CHECK-NEXT: %[[M:.*]] = graph.constant dense<{{\[\[}}0.000000e+00, {{.*}}]]> : tensor<3x3xf32>
  // CHECK-NEXT: graph.add %[[X]], %[[M]] : (tensor<2x1x3x3xf32>, tensor<3x3xf32>)
  %y = graph.add %x, %mask : (tensor<2x1x3x3xf32>, tensor<2x1x3x3xf32>) -> tensor<2x1x3x3xf32>
  // CHECK-NEXT: return
  return %y : tensor<2x1x3x3xf32>
}

// A column that repeats along the last dim keeps it as 1.
// CHECK-LABEL: @column
func.func @column(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %c = graph.constant dense<[[1.0, 1.0], [2.0, 2.0]]> : tensor<2x2xf32>
  // CHECK: graph.constant {{.*}} : tensor<2x1xf32>
  %y = graph.mul %x, %c : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  return %y : tensor<2x2xf32>
}

// Neutral numbers go, however they are spread.
// CHECK-LABEL: @neutral
// CHECK-SAME: %[[X:.*]]: tensor<4xf32>
func.func @neutral(%x: tensor<4xf32>) -> tensor<4xf32> {
  %zeros = graph.constant dense<0.0> : tensor<4xf32>
  %one = graph.constant dense<1.0> : tensor<f32>
  %true = graph.constant dense<true> : tensor<i1>
  %0 = graph.add %zeros, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = graph.mul %0, %one : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %2 = graph.pow %1 {exponent = 1.0 : f64} : (tensor<4xf32>) -> tensor<4xf32>
  %3 = graph.select %true, %2, %zeros : (tensor<i1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  // CHECK-NEXT: return %[[X]]
  return %3 : tensor<4xf32>
}

// 0 / x is not x, and a sum that broadcasts is no copy.
// CHECK-LABEL: @not_neutral
func.func @not_neutral(%x: tensor<4xf32>, %y: tensor<f32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %zero = graph.constant dense<0.0> : tensor<f32>
  %zeros = graph.constant dense<0.0> : tensor<4xf32>
  // CHECK: graph.div
  %0 = graph.div %zero, %x : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  // CHECK: graph.add {{.*}} : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = graph.add %y, %zeros : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// A softmax is never NaN by itself, so the guard behind it goes; any other one stays.
// CHECK-LABEL: @nan_guard
func.func @nan_guard(%x: tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>) {
  %zero = graph.constant dense<0.0> : tensor<f32>
  %one = graph.constant dense<1.0> : tensor<f32>
  // CHECK: %[[P:.*]] = graph.softmax
  %p = graph.softmax %x : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %nan = graph.compare %p, %p {predicate = #graph.predicate<ne>} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xi1>
  %0 = graph.select %nan, %zero, %p : (tensor<2x4xi1>, tensor<f32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  // CHECK: graph.compare
  %other = graph.compare %x, %x {predicate = #graph.predicate<ne>} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xi1>
  // CHECK: %[[S:.*]] = graph.select
  %1 = graph.select %other, %zero, %x : (tensor<2x4xi1>, tensor<f32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  // A row without a choice is zeros; ones would be another answer.
  // CHECK: %[[G:.*]] = graph.select %{{.*}}, %{{.*}}, %[[P]]
  %2 = graph.select %nan, %one, %p : (tensor<2x4xi1>, tensor<f32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  // CHECK: return %[[P]], %[[S]], %[[G]]
  return %0, %1, %2 : tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>
}
