// RUN: llmc-opt %s --pass-pipeline='builtin.module(func.func(llmc-raise-attention))' | FileCheck %s

// Scaled by the root on both sides, causal by the values of an added mask.
// CHECK-LABEL: @added_mask
// CHECK-SAME: %[[Q:[^:]*]]: tensor<2x3x2x4xf32>, %[[K:[^:]*]]: tensor<2x3x2x4xf32>, %[[V:[^:]*]]: tensor<2x3x2x4xf32>
func.func @added_mask(%q: tensor<2x3x2x4xf32>, %k: tensor<2x3x2x4xf32>, %v: tensor<2x3x2x4xf32>) -> tensor<2x3x2x4xf32> {
  %s = graph.constant dense<0.707106769> : tensor<f32>
  %mask = graph.constant dense<[[0.0, -3.4e38, -3.4e38], [0.0, 0.0, -3.4e38], [0.0, 0.0, 0.0]]> : tensor<3x3xf32>
  %0 = graph.mul %q, %s : (tensor<2x3x2x4xf32>, tensor<f32>) -> tensor<2x3x2x4xf32>
  %1 = graph.mul %k, %s : (tensor<2x3x2x4xf32>, tensor<f32>) -> tensor<2x3x2x4xf32>
  %2 = graph.matmul "bshd,bthd->bhst" %0, %1 : (tensor<2x3x2x4xf32>, tensor<2x3x2x4xf32>) -> tensor<2x2x3x3xf32>
  %3 = graph.add %2, %mask : (tensor<2x2x3x3xf32>, tensor<3x3xf32>) -> tensor<2x2x3x3xf32>
  %4 = graph.softmax %3 : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  // CHECK: %[[O:[^,]*]], %{{.*}} = graph.attention %[[Q]], %[[K]], %[[V]] {causal = true, scale = 5.000000e-01 : f64}
  // CHECK-NEXT: return %[[O]]
  %5 = graph.matmul "bhst,bthd->bshd" %4, %v : (tensor<2x2x3x3xf32>, tensor<2x3x2x4xf32>) -> tensor<2x3x2x4xf32>
  return %5 : tensor<2x3x2x4xf32>
}

// Scores chosen by a mask, scaled behind the product; operands [batch, heads, rows, dim].
// CHECK-LABEL: @chosen
func.func @chosen(%q: tensor<2x2x3x4xf32>, %k: tensor<2x2x3x4xf32>, %v: tensor<2x2x3x4xf32>) -> tensor<2x2x3x4xf32> {
  %s = graph.constant dense<2.0> : tensor<f32>
  %low = graph.constant dense<-10000.0> : tensor<f32>
  %seen = graph.constant dense<[[true, false, false], [true, true, false], [true, true, true]]> : tensor<3x3xi1>
  %0 = graph.matmul "bhsd,bhtd->bhst" %q, %k : (tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x3xf32>
  %1 = graph.div %0, %s : (tensor<2x2x3x3xf32>, tensor<f32>) -> tensor<2x2x3x3xf32>
  %2 = graph.select %seen, %1, %low : (tensor<3x3xi1>, tensor<2x2x3x3xf32>, tensor<f32>) -> tensor<2x2x3x3xf32>
  %3 = graph.softmax %2 : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  // CHECK-COUNT-3: graph.transpose {{.*}} -> tensor<2x3x2x4xf32>
  // CHECK: graph.attention {{.*}} {causal = true, scale = 5.000000e-01 : f64}
  // CHECK-NEXT: graph.transpose {{.*}} -> tensor<2x2x3x4xf32>
  %4 = graph.matmul "bhst,bhtd->bhsd" %3, %v : (tensor<2x2x3x3xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x4xf32>
  return %4 : tensor<2x2x3x4xf32>
}

// No mask, one batch dim, values before probabilities.
// CHECK-LABEL: @single_head
func.func @single_head(%q: tensor<2x3x4xf32>, %k: tensor<2x5x4xf32>, %v: tensor<2x5x4xf32>) -> tensor<2x3x4xf32> {
  %0 = graph.matmul "btd,bsd->bst" %k, %q : (tensor<2x5x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x5xf32>
  %1 = graph.softmax %0 : (tensor<2x3x5xf32>) -> tensor<2x3x5xf32>
  // CHECK: graph.attention {{.*}} {causal = false, scale = 1.000000e+00 : f64} : (tensor<2x3x1x4xf32>, tensor<2x5x1x4xf32>, tensor<2x5x1x4xf32>)
  // CHECK-NEXT: graph.reshape {{.*}} -> tensor<2x3x4xf32>
  %2 = graph.matmul "btd,bst->bsd" %v, %1 : (tensor<2x5x4xf32>, tensor<2x3x5xf32>) -> tensor<2x3x4xf32>
  return %2 : tensor<2x3x4xf32>
}

// A mask is not believed if one row sees too much, hides too little, or one head differs.
// CHECK-LABEL: @not_causal
// CHECK-NOT: graph.attention
func.func @not_causal(%q: tensor<1x2x2x4xf32>) -> (tensor<1x2x2x4xf32>, tensor<1x2x2x4xf32>, tensor<1x2x2x4xf32>) {
  %window = graph.constant dense<[[0.0, -1.0e9], [-1.0e9, 0.0]]> : tensor<2x2xf32>
  %soft = graph.constant dense<[[0.0, -3.0], [0.0, 0.0]]> : tensor<2x2xf32>
  %heads = graph.constant dense<[[[0.0, -1.0e9], [0.0, 0.0]], [[0.0, 0.0], [0.0, 0.0]]]> : tensor<2x2x2xf32>
  %0 = graph.matmul "bshd,bthd->bhst" %q, %q : (tensor<1x2x2x4xf32>, tensor<1x2x2x4xf32>) -> tensor<1x2x2x2xf32>
  %1 = graph.add %0, %window : (tensor<1x2x2x2xf32>, tensor<2x2xf32>) -> tensor<1x2x2x2xf32>
  %2 = graph.softmax %1 : (tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32>
  %3 = graph.matmul "bhst,bthd->bshd" %2, %q : (tensor<1x2x2x2xf32>, tensor<1x2x2x4xf32>) -> tensor<1x2x2x4xf32>
  %4 = graph.add %0, %soft : (tensor<1x2x2x2xf32>, tensor<2x2xf32>) -> tensor<1x2x2x2xf32>
  %5 = graph.softmax %4 : (tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32>
  %6 = graph.matmul "bhst,bthd->bshd" %5, %q : (tensor<1x2x2x2xf32>, tensor<1x2x2x4xf32>) -> tensor<1x2x2x4xf32>
  %7 = graph.add %0, %heads : (tensor<1x2x2x2xf32>, tensor<2x2x2xf32>) -> tensor<1x2x2x2xf32>
  %8 = graph.softmax %7 : (tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32>
  %9 = graph.matmul "bhst,bthd->bshd" %8, %q : (tensor<1x2x2x2xf32>, tensor<1x2x2x4xf32>) -> tensor<1x2x2x4xf32>
  return %3, %6, %9 : tensor<1x2x2x4xf32>, tensor<1x2x2x4xf32>, tensor<1x2x2x4xf32>
}

// A factor behind the mask makes what it hides visible again.
// CHECK-LABEL: @scaled_mask
// CHECK-NOT: graph.attention
func.func @scaled_mask(%q: tensor<1x2x2x4xf32>) -> tensor<1x2x2x4xf32> {
  %tiny = graph.constant dense<1.0e-6> : tensor<f32>
  %mask = graph.constant dense<[[0.0, -1.0e5], [0.0, 0.0]]> : tensor<2x2xf32>
  %0 = graph.matmul "bshd,bthd->bhst" %q, %q : (tensor<1x2x2x4xf32>, tensor<1x2x2x4xf32>) -> tensor<1x2x2x2xf32>
  %1 = graph.add %0, %mask : (tensor<1x2x2x2xf32>, tensor<2x2xf32>) -> tensor<1x2x2x2xf32>
  %2 = graph.mul %1, %tiny : (tensor<1x2x2x2xf32>, tensor<f32>) -> tensor<1x2x2x2xf32>
  %3 = graph.softmax %2 : (tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32>
  %4 = graph.matmul "bhst,bthd->bshd" %3, %q : (tensor<1x2x2x2xf32>, tensor<1x2x2x4xf32>) -> tensor<1x2x2x4xf32>
  return %4 : tensor<1x2x2x4xf32>
}
