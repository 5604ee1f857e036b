// RUN: llmc-opt %s --pass-pipeline='builtin.module(func.func(llmc-raise-rms-norm))' | FileCheck %s

// As dynamo writes it: a power, a mean, a root, a reciprocal; the scale is a parameter.
// CHECK-LABEL: @reciprocal
// CHECK-SAME: %[[X:[^:]*]]: tensor<2x3x4xf32>, %[[W:[^:]*]]: tensor<4xf32>
func.func @reciprocal(%x: tensor<2x3x4xf32>, %w: tensor<4xf32>) -> tensor<2x3x4xf32> {
  %n = graph.constant dense<0.25> : tensor<f32>
  %eps = graph.constant dense<9.99999997E-7> : tensor<f32>
  %one = graph.constant dense<1.0> : tensor<f32>
  %0 = graph.pow %x {exponent = 2.0 : f64} : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %1 = graph.reduce %0 {dims = array<i64: 2>, kind = #graph.reduce_kind<sum>} : (tensor<2x3x4xf32>) -> tensor<2x3xf32>
  %2 = graph.mul %1, %n : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %3 = graph.reshape %2 : (tensor<2x3xf32>) -> tensor<2x3x1xf32>
  %4 = graph.add %3, %eps : (tensor<2x3x1xf32>, tensor<f32>) -> tensor<2x3x1xf32>
  %5 = graph.sqrt %4 : (tensor<2x3x1xf32>) -> tensor<2x3x1xf32>
  %6 = graph.div %one, %5 : (tensor<f32>, tensor<2x3x1xf32>) -> tensor<2x3x1xf32>
  %7 = graph.mul %x, %6 : (tensor<2x3x4xf32>, tensor<2x3x1xf32>) -> tensor<2x3x4xf32>
  // CHECK: %[[Y:[^,]*]], %{{.*}} = graph.rms_norm %[[X]], %[[W]] {eps = 9.9999999999999995E-7 : f64}
  // CHECK-NEXT: return %[[Y]]
  %8 = graph.mul %w, %7 : (tensor<4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  return %8 : tensor<2x3x4xf32>
}

// x * x, an inverse root, the scale 1 + w computed; x is itself a product.
// CHECK-LABEL: @one_plus
// CHECK-SAME: %[[E:[^:]*]]: tensor<2x3x4xf32>, %[[W:[^:]*]]: tensor<4xf32>
func.func @one_plus(%e: tensor<2x3x4xf32>, %w: tensor<4xf32>) -> tensor<2x3x4xf32> {
  %n = graph.constant dense<4.0> : tensor<f32>
  %eps = graph.constant dense<1.0e-5> : tensor<f32>
  %one = graph.constant dense<1.0> : tensor<f32>
  %root = graph.constant dense<2.0> : tensor<f32>
  // CHECK: %[[X:.*]] = graph.mul %[[E]]
  %x = graph.mul %e, %root : (tensor<2x3x4xf32>, tensor<f32>) -> tensor<2x3x4xf32>
  %0 = graph.mul %x, %x : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %1 = graph.reduce %0 {dims = array<i64: 2>, kind = #graph.reduce_kind<sum>} : (tensor<2x3x4xf32>) -> tensor<2x3xf32>
  %2 = graph.reshape %1 : (tensor<2x3xf32>) -> tensor<2x3x1xf32>
  %3 = graph.div %2, %n : (tensor<2x3x1xf32>, tensor<f32>) -> tensor<2x3x1xf32>
  %4 = graph.add %eps, %3 : (tensor<f32>, tensor<2x3x1xf32>) -> tensor<2x3x1xf32>
  %5 = graph.rsqrt %4 : (tensor<2x3x1xf32>) -> tensor<2x3x1xf32>
  %6 = graph.mul %5, %x : (tensor<2x3x1xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  // CHECK: %[[S:.*]] = graph.add %{{.*}}, %[[W]]
  %7 = graph.add %one, %w : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  // CHECK: graph.rms_norm %[[X]], %[[S]] {eps = 1.000000e-05 : f64}
  %8 = graph.mul %6, %7 : (tensor<2x3x4xf32>, tensor<4xf32>) -> tensor<2x3x4xf32>
  return %8 : tensor<2x3x4xf32>
}

// The scale before the quotient; a norm of each head; a sum of squares.
// CHECK-LABEL: @per_head
// CHECK: graph.rms_norm %{{.*}}, %{{.*}} : (tensor<2x3x2x4xf32>, tensor<4xf32>) -> (tensor<2x3x2x4xf32>, tensor<2x3x2xf32>)
// CHECK-NOT: graph.div
func.func @per_head(%x: tensor<2x3x2x4xf32>, %w: tensor<4xf32>) -> tensor<2x3x2x4xf32> {
  %n = graph.constant dense<0.25> : tensor<f32>
  %eps = graph.constant dense<1.0e-5> : tensor<f32>
  %0 = graph.reduce %x {dims = array<i64: 3>, kind = #graph.reduce_kind<sum_squares>} : (tensor<2x3x2x4xf32>) -> tensor<2x3x2xf32>
  %1 = graph.mul %n, %0 : (tensor<f32>, tensor<2x3x2xf32>) -> tensor<2x3x2xf32>
  %2 = graph.add %1, %eps : (tensor<2x3x2xf32>, tensor<f32>) -> tensor<2x3x2xf32>
  %3 = graph.pow %2 {exponent = 0.5 : f64} : (tensor<2x3x2xf32>) -> tensor<2x3x2xf32>
  %4 = graph.reshape %3 : (tensor<2x3x2xf32>) -> tensor<2x3x2x1xf32>
  %5 = graph.mul %x, %w : (tensor<2x3x2x4xf32>, tensor<4xf32>) -> tensor<2x3x2x4xf32>
  %6 = graph.div %5, %4 : (tensor<2x3x2x4xf32>, tensor<2x3x2x1xf32>) -> tensor<2x3x2x4xf32>
  return %6 : tensor<2x3x2x4xf32>
}

// Without a scale it is ones.
// CHECK-LABEL: @unscaled
// CHECK: %[[ONES:.*]] = graph.constant dense<1.000000e+00> : tensor<4xf32>
// CHECK: graph.rms_norm %{{.*}}, %[[ONES]]
func.func @unscaled(%x: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %n = graph.constant dense<0.25> : tensor<f32>
  %eps = graph.constant dense<1.0e-5> : tensor<f32>
  %0 = graph.mul %x, %x : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  %1 = graph.reduce %0 {dims = array<i64: 1>, kind = #graph.reduce_kind<sum>} : (tensor<3x4xf32>) -> tensor<3xf32>
  %2 = graph.mul %1, %n : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  %3 = graph.reshape %2 : (tensor<3xf32>) -> tensor<3x1xf32>
  %4 = graph.add %3, %eps : (tensor<3x1xf32>, tensor<f32>) -> tensor<3x1xf32>
  %5 = graph.pow %4 {exponent = -0.5 : f64} : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %6 = graph.mul %x, %5 : (tensor<3x4xf32>, tensor<3x1xf32>) -> tensor<3x4xf32>
  return %6 : tensor<3x4xf32>
}

// Nearly: a sum that is no mean, a cube, the norm of another value, the mean over
// rows, an eps under no root.
// CHECK-LABEL: @nearly
// CHECK-NOT: graph.rms_norm
func.func @nearly(%x: tensor<4x4xf32>, %z: tensor<4x4xf32>, %w: tensor<4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) {
  %n = graph.constant dense<0.25> : tensor<f32>
  %half = graph.constant dense<0.5> : tensor<f32>
  %eps = graph.constant dense<1.0e-5> : tensor<f32>
  %square = graph.mul %x, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %sum = graph.reduce %square {dims = array<i64: 1>, kind = #graph.reduce_kind<sum>} : (tensor<4x4xf32>) -> tensor<4xf32>
  %a0 = graph.mul %sum, %half : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %a1 = graph.add %a0, %eps : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %a2 = graph.rsqrt %a1 : (tensor<4xf32>) -> tensor<4xf32>
  %a3 = graph.reshape %a2 : (tensor<4xf32>) -> tensor<4x1xf32>
  %a = graph.mul %x, %a3 : (tensor<4x4xf32>, tensor<4x1xf32>) -> tensor<4x4xf32>
  %b0 = graph.pow %x {exponent = 3.0 : f64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %b1 = graph.reduce %b0 {dims = array<i64: 1>, kind = #graph.reduce_kind<sum>} : (tensor<4x4xf32>) -> tensor<4xf32>
  %b2 = graph.mul %b1, %n : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %b3 = graph.add %b2, %eps : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %b4 = graph.rsqrt %b3 : (tensor<4xf32>) -> tensor<4xf32>
  %b5 = graph.reshape %b4 : (tensor<4xf32>) -> tensor<4x1xf32>
  %b = graph.mul %x, %b5 : (tensor<4x4xf32>, tensor<4x1xf32>) -> tensor<4x4xf32>
  %c0 = graph.mul %sum, %n : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %c1 = graph.add %c0, %eps : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %c2 = graph.rsqrt %c1 : (tensor<4xf32>) -> tensor<4xf32>
  %c3 = graph.reshape %c2 : (tensor<4xf32>) -> tensor<4x1xf32>
  %c = graph.mul %z, %c3 : (tensor<4x4xf32>, tensor<4x1xf32>) -> tensor<4x4xf32>
  %d = graph.mul %x, %c2 : (tensor<4x4xf32>, tensor<4xf32>) -> tensor<4x4xf32>
  %e0 = graph.rsqrt %c0 : (tensor<4xf32>) -> tensor<4xf32>
  %e1 = graph.add %e0, %eps : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %e2 = graph.reshape %e1 : (tensor<4xf32>) -> tensor<4x1xf32>
  %e = graph.mul %x, %e2 : (tensor<4x4xf32>, tensor<4x1xf32>) -> tensor<4x4xf32>
  return %a, %b, %c, %d, %e : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
}

// Rows without their mean: a layer norm without a bias.
// CHECK-LABEL: @centred
// CHECK: %[[ZERO:.*]] = graph.constant dense<0.000000e+00> : tensor<4xf32>
// CHECK: graph.layer_norm %arg0, %arg1, %[[ZERO]] {eps = 1.000000e-05 : f64}
// CHECK-NOT: graph.rms_norm
func.func @centred(%x: tensor<2x3x4xf32>, %w: tensor<4xf32>) -> tensor<2x3x4xf32> {
  %n = graph.constant dense<4.0> : tensor<f32>
  %eps = graph.constant dense<1.0e-5> : tensor<f32>
  %0 = graph.reduce %x {dims = array<i64: 2>, kind = #graph.reduce_kind<sum>} : (tensor<2x3x4xf32>) -> tensor<2x3xf32>
  %1 = graph.reshape %0 : (tensor<2x3xf32>) -> tensor<2x3x1xf32>
  %mean = graph.div %1, %n : (tensor<2x3x1xf32>, tensor<f32>) -> tensor<2x3x1xf32>
  %2 = graph.sub %x, %mean : (tensor<2x3x4xf32>, tensor<2x3x1xf32>) -> tensor<2x3x4xf32>
  %3 = graph.mul %2, %2 : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %4 = graph.reduce %3 {dims = array<i64: 2>, kind = #graph.reduce_kind<sum>} : (tensor<2x3x4xf32>) -> tensor<2x3xf32>
  %5 = graph.reshape %4 : (tensor<2x3xf32>) -> tensor<2x3x1xf32>
  %6 = graph.div %5, %n : (tensor<2x3x1xf32>, tensor<f32>) -> tensor<2x3x1xf32>
  %7 = graph.add %6, %eps : (tensor<2x3x1xf32>, tensor<f32>) -> tensor<2x3x1xf32>
  %8 = graph.rsqrt %7 : (tensor<2x3x1xf32>) -> tensor<2x3x1xf32>
  %9 = graph.mul %2, %8 : (tensor<2x3x4xf32>, tensor<2x3x1xf32>) -> tensor<2x3x4xf32>
  %10 = graph.mul %w, %9 : (tensor<4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  return %10 : tensor<2x3x4xf32>
}

// Some exporters drop an eps that is too small to matter.
// CHECK-LABEL: @without_eps
// CHECK: graph.rms_norm %arg0, %arg1 {eps = 0.000000e+00 : f64}
func.func @without_eps(%x: tensor<2x3x4xf32>, %w: tensor<4xf32>) -> tensor<2x3x4xf32> {
  %n = graph.constant dense<0.25> : tensor<f32>
  %0 = graph.mul %x, %x : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %1 = graph.reduce %0 {dims = array<i64: 2>, kind = #graph.reduce_kind<sum>} : (tensor<2x3x4xf32>) -> tensor<2x3xf32>
  %2 = graph.reshape %1 : (tensor<2x3xf32>) -> tensor<2x3x1xf32>
  %3 = graph.mul %2, %n : (tensor<2x3x1xf32>, tensor<f32>) -> tensor<2x3x1xf32>
  %4 = graph.rsqrt %3 : (tensor<2x3x1xf32>) -> tensor<2x3x1xf32>
  %5 = graph.mul %x, %4 : (tensor<2x3x4xf32>, tensor<2x3x1xf32>) -> tensor<2x3x4xf32>
  %6 = graph.mul %5, %w : (tensor<2x3x4xf32>, tensor<4xf32>) -> tensor<2x3x4xf32>
  return %6 : tensor<2x3x4xf32>
}
