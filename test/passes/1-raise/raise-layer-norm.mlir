// RUN: llmc-opt %s --pass-pipeline='builtin.module(func.func(llmc-raise-layer-norm))' | FileCheck %s

// Power, quotient with the root, mean as a quotient. The eps is the f32 nearest
// to 1e-5 and is read as that.
// CHECK-LABEL: @quotient
// CHECK-SAME: %[[X:[^:]*]]: tensor<2x4xf32>, %[[G:[^:]*]]: tensor<4xf32>, %[[B:[^:]*]]: tensor<4xf32>
func.func @quotient(%x: tensor<2x4xf32>, %g: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<2x4xf32> {
  %n = graph.constant dense<4.0> : tensor<f32>
  %eps = graph.constant dense<1.0e-5> : tensor<f32>
  %0 = graph.reduce %x {kind = #graph.reduce_kind<sum>, dims = array<i64: 1>} : (tensor<2x4xf32>) -> tensor<2xf32>
  %1 = graph.div %0, %n : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  %2 = graph.reshape %1 : (tensor<2xf32>) -> tensor<2x1xf32>
  %3 = graph.sub %x, %2 : (tensor<2x4xf32>, tensor<2x1xf32>) -> tensor<2x4xf32>
  %4 = graph.pow %3 {exponent = 2.0 : f64} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %5 = graph.reduce %4 {kind = #graph.reduce_kind<sum>, dims = array<i64: 1>} : (tensor<2x4xf32>) -> tensor<2xf32>
  %6 = graph.div %5, %n : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  %7 = graph.add %6, %eps : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  %8 = graph.sqrt %7 : (tensor<2xf32>) -> tensor<2xf32>
  %9 = graph.reshape %8 : (tensor<2xf32>) -> tensor<2x1xf32>
  %10 = graph.div %3, %9 : (tensor<2x4xf32>, tensor<2x1xf32>) -> tensor<2x4xf32>
  %11 = graph.mul %10, %g : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  // CHECK: %[[Y:[^,]*]], %{{.*}}, %{{.*}} = graph.layer_norm %[[X]], %[[G]], %[[B]] {eps = 1.000000e-05 : f64}
  // CHECK-NEXT: return %[[Y]]
  %12 = graph.add %11, %b : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  return %12 : tensor<2x4xf32>
}

// A product with the reciprocal root, squares as a product, scale and bias on the left.
// CHECK-LABEL: @product
func.func @product(%x: tensor<2x4xf32>, %g: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<2x4xf32> {
  %n = graph.constant dense<0.25> : tensor<f32>
  %eps = graph.constant dense<0.5> : tensor<f32>
  %0 = graph.reduce %x {kind = #graph.reduce_kind<sum>, dims = array<i64: 1>} : (tensor<2x4xf32>) -> tensor<2xf32>
  %1 = graph.reshape %0 : (tensor<2xf32>) -> tensor<2x1xf32>
  %2 = graph.mul %n, %1 : (tensor<f32>, tensor<2x1xf32>) -> tensor<2x1xf32>
  %3 = graph.sub %x, %2 : (tensor<2x4xf32>, tensor<2x1xf32>) -> tensor<2x4xf32>
  %4 = graph.mul %3, %3 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %5 = graph.reduce %4 {kind = #graph.reduce_kind<sum>, dims = array<i64: 1>} : (tensor<2x4xf32>) -> tensor<2xf32>
  %6 = graph.reshape %5 : (tensor<2xf32>) -> tensor<2x1xf32>
  %7 = graph.mul %6, %n : (tensor<2x1xf32>, tensor<f32>) -> tensor<2x1xf32>
  %8 = graph.add %eps, %7 : (tensor<f32>, tensor<2x1xf32>) -> tensor<2x1xf32>
  %9 = graph.rsqrt %8 : (tensor<2x1xf32>) -> tensor<2x1xf32>
  %10 = graph.mul %9, %3 : (tensor<2x1xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %11 = graph.mul %g, %10 : (tensor<4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  // CHECK: graph.layer_norm {{.*}} {eps = 5.000000e-01 : f64}
  %12 = graph.add %b, %11 : (tensor<4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  return %12 : tensor<2x4xf32>
}

// Divided by n - 1 it is another norm.
// CHECK-LABEL: @unbiased
// CHECK-NOT: graph.layer_norm
func.func @unbiased(%x: tensor<2x4xf32>, %g: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<2x4xf32> {
  %n = graph.constant dense<4.0> : tensor<f32>
  %less = graph.constant dense<3.0> : tensor<f32>
  %eps = graph.constant dense<1.0e-5> : tensor<f32>
  %0 = graph.reduce %x {kind = #graph.reduce_kind<sum>, dims = array<i64: 1>} : (tensor<2x4xf32>) -> tensor<2xf32>
  %1 = graph.div %0, %n : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  %2 = graph.reshape %1 : (tensor<2xf32>) -> tensor<2x1xf32>
  %3 = graph.sub %x, %2 : (tensor<2x4xf32>, tensor<2x1xf32>) -> tensor<2x4xf32>
  %4 = graph.pow %3 {exponent = 2.0 : f64} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %5 = graph.reduce %4 {kind = #graph.reduce_kind<sum>, dims = array<i64: 1>} : (tensor<2x4xf32>) -> tensor<2xf32>
  %6 = graph.div %5, %less : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  %7 = graph.add %6, %eps : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  %8 = graph.sqrt %7 : (tensor<2xf32>) -> tensor<2xf32>
  %9 = graph.reshape %8 : (tensor<2xf32>) -> tensor<2x1xf32>
  %10 = graph.div %3, %9 : (tensor<2x4xf32>, tensor<2x1xf32>) -> tensor<2x4xf32>
  %11 = graph.mul %10, %g : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  %12 = graph.add %11, %b : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  return %12 : tensor<2x4xf32>
}

// A mean per row that is subtracted per column: no norm, though the shapes fit.
// CHECK-LABEL: @columns
// CHECK-NOT: graph.layer_norm
func.func @columns(%x: tensor<4x4xf32>, %g: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4x4xf32> {
  %n = graph.constant dense<0.25> : tensor<f32>
  %eps = graph.constant dense<0.5> : tensor<f32>
  %0 = graph.reduce %x {kind = #graph.reduce_kind<sum>, dims = array<i64: 1>} : (tensor<4x4xf32>) -> tensor<4xf32>
  %1 = graph.mul %0, %n : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %3 = graph.sub %x, %1 : (tensor<4x4xf32>, tensor<4xf32>) -> tensor<4x4xf32>
  %4 = graph.mul %3, %3 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %5 = graph.reduce %4 {kind = #graph.reduce_kind<sum>, dims = array<i64: 1>} : (tensor<4x4xf32>) -> tensor<4xf32>
  %6 = graph.mul %5, %n : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %7 = graph.add %6, %eps : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %8 = graph.rsqrt %7 : (tensor<4xf32>) -> tensor<4xf32>
  %9 = graph.reshape %8 : (tensor<4xf32>) -> tensor<4x1xf32>
  %10 = graph.mul %9, %3 : (tensor<4x1xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %11 = graph.mul %g, %10 : (tensor<4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %12 = graph.add %b, %11 : (tensor<4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %12 : tensor<4x4xf32>
}
