// RUN: llmc-opt %s --pass-pipeline='builtin.module(func.func(llmc-raise-activations))' | FileCheck %s

// As GPT-2 writes it.
// CHECK-LABEL: @tanh_form
// CHECK-SAME: %[[X:.*]]: tensor<2x4xf32>
func.func @tanh_form(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %half = graph.constant dense<0.5> : tensor<f32>
  %one = graph.constant dense<1.0> : tensor<f32>
  %a = graph.constant dense<0.044715> : tensor<f32>
  %c = graph.constant dense<0.797884583> : tensor<f32>
  %0 = graph.mul %x, %half : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32>
  %1 = graph.pow %x {exponent = 3.0 : f64} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %2 = graph.mul %1, %a : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32>
  %3 = graph.add %x, %2 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %4 = graph.mul %3, %c : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32>
  %5 = graph.tanh %4 : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %6 = graph.add %5, %one : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32>
  // CHECK-NOT: graph.tanh
  // CHECK: %[[Y:.*]] = graph.gelu %[[X]] {form = #graph.gelu_form<tanh>}
  // CHECK-NEXT: return %[[Y]]
  %7 = graph.mul %0, %6 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  return %7 : tensor<2x4xf32>
}

// Another spelling of the same function: x * sigmoid-like half, cube as a product,
// behind a bias that is not part of it.
// CHECK-LABEL: @other_spelling
func.func @other_spelling(%z: tensor<2x4xf32>, %b: tensor<4xf32>) -> tensor<2x4xf32> {
  %half = graph.constant dense<0.5> : tensor<f32>
  %one = graph.constant dense<1.0> : tensor<f32>
  %a = graph.constant dense<0.0356774081> : tensor<f32>
  %c = graph.constant dense<0.797884583> : tensor<f32>
  // CHECK: %[[X:.*]] = graph.add
  %x = graph.add %z, %b : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  %0 = graph.mul %x, %x : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %1 = graph.mul %a, %0 : (tensor<f32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %2 = graph.add %1, %c : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32>
  %3 = graph.mul %2, %x : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %4 = graph.tanh %3 : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %5 = graph.add %one, %4 : (tensor<f32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %6 = graph.mul %5, %half : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32>
  // CHECK-NEXT: graph.gelu %[[X]] {form = #graph.gelu_form<tanh>}
  %7 = graph.mul %6, %x : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  return %7 : tensor<2x4xf32>
}

// CHECK-LABEL: @erf_form
// CHECK-SAME: %[[X:.*]]: tensor<4xf32>
func.func @erf_form(%x: tensor<4xf32>) -> tensor<4xf32> {
  %half = graph.constant dense<0.5> : tensor<f32>
  %one = graph.constant dense<1.0> : tensor<f32>
  %root = graph.constant dense<1.41421354> : tensor<f32>
  %0 = graph.div %x, %root : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %1 = graph.erf %0 : (tensor<4xf32>) -> tensor<4xf32>
  %2 = graph.add %1, %one : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %3 = graph.mul %x, %2 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  // CHECK: graph.gelu %[[X]] {form = #graph.gelu_form<erf>}
  %4 = graph.mul %3, %half : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %4 : tensor<4xf32>
}

// A tanh of another value's cube is no GELU, nor is one with another coefficient.
// CHECK-LABEL: @others
// CHECK-NOT: graph.gelu
func.func @others(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %half = graph.constant dense<0.5> : tensor<f32>
  %one = graph.constant dense<1.0> : tensor<f32>
  %c = graph.constant dense<0.797884583> : tensor<f32>
  %a = graph.constant dense<0.05> : tensor<f32>
  %0 = graph.mul %y, %c : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %1 = graph.tanh %0 : (tensor<4xf32>) -> tensor<4xf32>
  %2 = graph.add %1, %one : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %3 = graph.mul %x, %2 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %4 = graph.pow %x {exponent = 3.0 : f64} : (tensor<4xf32>) -> tensor<4xf32>
  %5 = graph.mul %4, %a : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %6 = graph.add %x, %5 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %7 = graph.mul %6, %c : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %8 = graph.tanh %7 : (tensor<4xf32>) -> tensor<4xf32>
  %9 = graph.add %8, %one : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %10 = graph.mul %x, %half : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %11 = graph.mul %10, %9 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %3, %11 : tensor<4xf32>, tensor<4xf32>
}

// 1 / (1 + e^-x) is a sigmoid, x / (1 + e^-x) is x times one.
// CHECK-LABEL: @sigmoids
// CHECK-SAME: %[[X:[^:]*]]: tensor<4xf32>
func.func @sigmoids(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %one = graph.constant dense<1.0> : tensor<f32>
  // CHECK-NOT: graph.exp
  // CHECK: %[[S:.*]] = graph.sigmoid %[[X]]
  // CHECK: %[[T:.*]] = graph.sigmoid %[[X]]
  // CHECK: %[[Y:.*]] = graph.mul %[[X]], %[[T]]
  // CHECK: return %[[S]], %[[Y]]
  %0 = graph.neg %x : (tensor<4xf32>) -> tensor<4xf32>
  %1 = graph.exp %0 : (tensor<4xf32>) -> tensor<4xf32>
  %2 = graph.add %1, %one : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %3 = graph.div %one, %2 : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  %4 = graph.neg %x : (tensor<4xf32>) -> tensor<4xf32>
  %5 = graph.exp %4 : (tensor<4xf32>) -> tensor<4xf32>
  %6 = graph.add %5, %one : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %7 = graph.div %x, %6 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %3, %7 : tensor<4xf32>, tensor<4xf32>
}

// Nearly sigmoids: e^x where e^-x belongs, 2 in place of 1, another value on top.
// CHECK-LABEL: @no_sigmoids
// CHECK-NOT: graph.sigmoid
func.func @no_sigmoids(%x: tensor<4xf32>, %z: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %one = graph.constant dense<1.0> : tensor<f32>
  %two = graph.constant dense<2.0> : tensor<f32>
  %0 = graph.mul %x, %two : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %1 = graph.exp %0 : (tensor<4xf32>) -> tensor<4xf32>
  %2 = graph.add %1, %two : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %3 = graph.div %one, %2 : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  %4 = graph.exp %x : (tensor<4xf32>) -> tensor<4xf32>
  %5 = graph.add %4, %one : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %6 = graph.div %z, %5 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %3, %6 : tensor<4xf32>, tensor<4xf32>
}

// Constants as a file of 16 bits rounds them: float16, then bfloat16; others are another function.
// CHECK-LABEL: @rounded_to_half
func.func @rounded_to_half(%x: tensor<2x4xf32>) -> tensor<2x4xf32> attributes {within = 1.0e-4} {
  %half = graph.constant dense<0.5> : tensor<f32>
  %one = graph.constant dense<1.0> : tensor<f32>
  %a = graph.constant dense<0.044708251953125> : tensor<f32>
  %c = graph.constant dense<0.7978515625> : tensor<f32>
  %0 = graph.mul %x, %half : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32>
  %1 = graph.pow %x {exponent = 3.0 : f64} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %2 = graph.mul %1, %a : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32>
  %3 = graph.add %x, %2 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %4 = graph.mul %3, %c : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32>
  %5 = graph.tanh %4 : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %6 = graph.add %5, %one : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32>
  // CHECK: graph.gelu %{{.*}} {form = #graph.gelu_form<tanh>}
  %7 = graph.mul %0, %6 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  return %7 : tensor<2x4xf32>
}

// CHECK-LABEL: @rounded_to_bfloat
func.func @rounded_to_bfloat(%x: tensor<2x4xf32>) -> tensor<2x4xf32> attributes {within = 1.0e-3} {
  %half = graph.constant dense<0.5> : tensor<f32>
  %one = graph.constant dense<1.0> : tensor<f32>
  %a = graph.constant dense<0.044677734375> : tensor<f32>
  %c = graph.constant dense<0.796875> : tensor<f32>
  %0 = graph.mul %x, %half : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32>
  %1 = graph.pow %x {exponent = 3.0 : f64} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %2 = graph.mul %1, %a : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32>
  %3 = graph.add %x, %2 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %4 = graph.mul %3, %c : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32>
  %5 = graph.tanh %4 : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %6 = graph.add %5, %one : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32>
  // CHECK: graph.gelu %{{.*}} {form = #graph.gelu_form<tanh>}
  %7 = graph.mul %0, %6 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  return %7 : tensor<2x4xf32>
}

// CHECK-LABEL: @another_function
func.func @another_function(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %half = graph.constant dense<0.5> : tensor<f32>
  %one = graph.constant dense<1.0> : tensor<f32>
  %a = graph.constant dense<0.0448> : tensor<f32>
  %c = graph.constant dense<0.7968> : tensor<f32>
  %0 = graph.mul %x, %half : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32>
  %1 = graph.pow %x {exponent = 3.0 : f64} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %2 = graph.mul %1, %a : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32>
  %3 = graph.add %x, %2 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %4 = graph.mul %3, %c : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32>
  %5 = graph.tanh %4 : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %6 = graph.add %5, %one : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32>
  // CHECK-NOT: graph.gelu
  %7 = graph.mul %0, %6 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  return %7 : tensor<2x4xf32>
}
