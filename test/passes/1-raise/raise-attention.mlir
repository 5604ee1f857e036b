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

// What no rule says stays a mask: a number that only weakens, a head of its own. A
// row that sees itself alone is a window of one key.
// CHECK-LABEL: @not_causal
// CHECK-DAG: %[[SOFT:.*]] = graph.constant dense<{{.*}}-3.000000e+00{{.*}}> : tensor<2x2xf32>
// CHECK-DAG: %[[HEADS:.*]] = graph.constant dense<{{.*}}-1.000000e+09{{.*}}> : tensor<2x2x2xf32>
// CHECK: graph.attention %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}} {causal = true, scale = 1.000000e+00 : f64, window = 1 : i64}
// CHECK: %[[M1:.*]] = graph.reshape %[[SOFT]] : (tensor<2x2xf32>) -> tensor<1x1x2x2xf32>
// CHECK: graph.attention %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %[[M1]] {causal = false, scale = 1.000000e+00 : f64}
// CHECK: %[[M2:.*]] = graph.reshape %[[HEADS]] : (tensor<2x2x2xf32>) -> tensor<1x2x2x2xf32>
// CHECK: graph.attention %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %[[M2]] {causal = false
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

// A factor behind the mask multiplies it too: what it hid is no rule any more.
// CHECK-LABEL: @scaled_mask
// CHECK: %[[MASK:.*]] = graph.mul %{{.*}}, %{{.*}} : (tensor<2x2xf32>, tensor<f32>)
// CHECK: %[[M4:.*]] = graph.reshape %[[MASK]] : (tensor<2x2xf32>) -> tensor<1x1x2x2xf32>
// CHECK: graph.attention %arg0, %arg0, %arg0, %[[M4]] {causal = false, scale = 9.99{{.*}}E-7
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

// Three new rows behind two past keys, each of which sees three keys.
// CHECK-LABEL: @window
// CHECK: graph.attention {{.*}} {causal = true, offset = 2 : i64, scale = 5.000000e-01 : f64, window = 3 : i64}
func.func @window(%q: tensor<1x3x1x4xf32>, %k: tensor<1x5x1x4xf32>) -> tensor<1x3x1x4xf32> {
  %s = graph.constant dense<0.5> : tensor<f32>
  %low = graph.constant dense<0xFF800000> : tensor<f32>
  %seen = graph.constant dense<[[true, true, true, false, false], [false, true, true, true, false], [false, false, true, true, true]]> : tensor<3x5xi1>
  %0 = graph.matmul "bshd,bthd->bhst" %q, %k : (tensor<1x3x1x4xf32>, tensor<1x5x1x4xf32>) -> tensor<1x1x3x5xf32>
  %1 = graph.mul %0, %s : (tensor<1x1x3x5xf32>, tensor<f32>) -> tensor<1x1x3x5xf32>
  %2 = graph.select %seen, %1, %low : (tensor<3x5xi1>, tensor<1x1x3x5xf32>, tensor<f32>) -> tensor<1x1x3x5xf32>
  %3 = graph.softmax %2 : (tensor<1x1x3x5xf32>) -> tensor<1x1x3x5xf32>
  %4 = graph.matmul "bhst,bthd->bshd" %3, %k : (tensor<1x1x3x5xf32>, tensor<1x5x1x4xf32>) -> tensor<1x3x1x4xf32>
  return %4 : tensor<1x3x1x4xf32>
}

// Nearly a window: one row sees a key more, or a key between is hidden.
// CHECK-LABEL: @nearly_window
// CHECK-NOT: window
// CHECK-NOT: causal = true
func.func @nearly_window(%q: tensor<1x4x1x4xf32>) -> (tensor<1x4x1x4xf32>, tensor<1x4x1x4xf32>) {
  %low = graph.constant dense<0xFF800000> : tensor<f32>
  %more = graph.constant dense<[[true, false, false, false], [true, true, false, false], [true, true, true, false], [false, false, true, true]]> : tensor<4x4xi1>
  %hole = graph.constant dense<[[true, false, false, false], [true, true, false, false], [true, false, true, false], [true, true, true, true]]> : tensor<4x4xi1>
  %0 = graph.matmul "bshd,bthd->bhst" %q, %q : (tensor<1x4x1x4xf32>, tensor<1x4x1x4xf32>) -> tensor<1x1x4x4xf32>
  %1 = graph.select %more, %0, %low : (tensor<4x4xi1>, tensor<1x1x4x4xf32>, tensor<f32>) -> tensor<1x1x4x4xf32>
  %2 = graph.softmax %1 : (tensor<1x1x4x4xf32>) -> tensor<1x1x4x4xf32>
  %3 = graph.matmul "bhst,bthd->bshd" %2, %q : (tensor<1x1x4x4xf32>, tensor<1x4x1x4xf32>) -> tensor<1x4x1x4xf32>
  %4 = graph.select %hole, %0, %low : (tensor<4x4xi1>, tensor<1x1x4x4xf32>, tensor<f32>) -> tensor<1x1x4x4xf32>
  %5 = graph.softmax %4 : (tensor<1x1x4x4xf32>) -> tensor<1x1x4x4xf32>
  %6 = graph.matmul "bhst,bthd->bshd" %5, %q : (tensor<1x1x4x4xf32>, tensor<1x4x1x4xf32>) -> tensor<1x4x1x4xf32>
  return %3, %6 : tensor<1x4x1x4xf32>, tensor<1x4x1x4xf32>
}

// A mask that is an input is an operand: of what is seen where the rest is -inf,
// added where the rest is a number, for then a row without a key weighs all alike.
// CHECK-LABEL: @run_time
// CHECK-SAME: %{{[^:]*}}: tensor<2x3x2x4xf32>, %[[SEEN:[^:]*]]: tensor<2x1x1x3xi1>, %[[ADDED:[^:]*]]: tensor<2x1x3x3xf32>
// CHECK: graph.attention %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %[[SEEN]] {causal = false
// CHECK: %[[M:.*]] = graph.select %[[SEEN]], %{{.*}}, %{{.*}} -> tensor<2x1x1x3xf32>
// CHECK: graph.attention %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %[[M]] {causal = false
// CHECK: graph.attention %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %[[ADDED]] {causal = false
func.func @run_time(%q: tensor<2x3x2x4xf32>, %seen: tensor<2x1x1x3xi1>, %added: tensor<2x1x3x3xf32>) -> (tensor<2x3x2x4xf32>, tensor<2x3x2x4xf32>, tensor<2x3x2x4xf32>) {
  %infinite = graph.constant dense<0xFF800000> : tensor<f32>
  %lowest = graph.constant dense<-3.40282347E+38> : tensor<f32>
  %0 = graph.matmul "bshd,bthd->bhst" %q, %q : (tensor<2x3x2x4xf32>, tensor<2x3x2x4xf32>) -> tensor<2x2x3x3xf32>
  %1 = graph.select %seen, %0, %infinite : (tensor<2x1x1x3xi1>, tensor<2x2x3x3xf32>, tensor<f32>) -> tensor<2x2x3x3xf32>
  %2 = graph.softmax %1 : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %3 = graph.matmul "bhst,bthd->bshd" %2, %q : (tensor<2x2x3x3xf32>, tensor<2x3x2x4xf32>) -> tensor<2x3x2x4xf32>
  %4 = graph.select %seen, %0, %lowest : (tensor<2x1x1x3xi1>, tensor<2x2x3x3xf32>, tensor<f32>) -> tensor<2x2x3x3xf32>
  %5 = graph.softmax %4 : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %6 = graph.matmul "bhst,bthd->bshd" %5, %q : (tensor<2x2x3x3xf32>, tensor<2x3x2x4xf32>) -> tensor<2x3x2x4xf32>
  %7 = graph.add %0, %added : (tensor<2x2x3x3xf32>, tensor<2x1x3x3xf32>) -> tensor<2x2x3x3xf32>
  %8 = graph.softmax %7 : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %9 = graph.matmul "bhst,bthd->bshd" %8, %q : (tensor<2x2x3x3xf32>, tensor<2x3x2x4xf32>) -> tensor<2x3x2x4xf32>
  return %3, %6, %9 : tensor<2x3x2x4xf32>, tensor<2x3x2x4xf32>, tensor<2x3x2x4xf32>
}

// Not an operand: a number that a score could outweigh, a mask that learns.
// CHECK-LABEL: @no_operand
// CHECK-NOT: graph.attention
graph.source @bias.file : tensor<3x3xf32> {init = #graph.init_kind<zeros>}
graph.state @bias : tensor<3x3xf32> parameter views [#graph.view<@bias.file, 0, [3, 1]>]
func.func @no_operand(%q: tensor<2x3x2x4xf32>, %seen: tensor<2x1x1x3xi1>, %bias: tensor<3x3xf32> {graph.state = @bias}) -> (tensor<2x3x2x4xf32>, tensor<2x3x2x4xf32>) {
  %low = graph.constant dense<-1.0e4> : tensor<f32>
  %0 = graph.matmul "bshd,bthd->bhst" %q, %q : (tensor<2x3x2x4xf32>, tensor<2x3x2x4xf32>) -> tensor<2x2x3x3xf32>
  %1 = graph.select %seen, %0, %low : (tensor<2x1x1x3xi1>, tensor<2x2x3x3xf32>, tensor<f32>) -> tensor<2x2x3x3xf32>
  %2 = graph.softmax %1 : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %3 = graph.matmul "bhst,bthd->bshd" %2, %q : (tensor<2x2x3x3xf32>, tensor<2x3x2x4xf32>) -> tensor<2x3x2x4xf32>
  %4 = graph.add %0, %bias : (tensor<2x2x3x3xf32>, tensor<3x3xf32>) -> tensor<2x2x3x3xf32>
  %5 = graph.softmax %4 : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %6 = graph.matmul "bhst,bthd->bshd" %5, %q : (tensor<2x2x3x3xf32>, tensor<2x3x2x4xf32>) -> tensor<2x3x2x4xf32>
  return %3, %6 : tensor<2x3x2x4xf32>, tensor<2x3x2x4xf32>
}

// A known part of a mask is split off where both hide by -inf. Finite numbers
// weigh a row that sees nothing: then the mask stays whole.
// CHECK-LABEL: @both
// CHECK-SAME: %{{[^:]*}}: tensor<1x2x1x4xf32>, %[[SEEN:[^:]*]]: tensor<1x1x1x2xi1>, %[[ADDED:[^:]*]]: tensor<1x1x1x2xf32>
// CHECK: graph.attention %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %[[SEEN]] {causal = true, scale = 1.000000e+00 : f64}
// CHECK: %[[C:.*]] = graph.select
// CHECK: %[[M:.*]] = graph.add %{{.*}}, %{{.*}} -> tensor<1x1x2x2xf32>
// CHECK: graph.attention %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %[[M]] {causal = false
func.func @both(%q: tensor<1x2x1x4xf32>, %seen: tensor<1x1x1x2xi1>, %added: tensor<1x1x1x2xf32>) -> (tensor<1x2x1x4xf32>, tensor<1x2x1x4xf32>) {
  %infinite = graph.constant dense<0xFF800000> : tensor<f32>
  %lowest = graph.constant dense<-3.40282347E+38> : tensor<f32>
  %lower = graph.constant dense<[[true, false], [true, true]]> : tensor<2x2xi1>
  %0 = graph.matmul "bshd,bthd->bhst" %q, %q : (tensor<1x2x1x4xf32>, tensor<1x2x1x4xf32>) -> tensor<1x1x2x2xf32>
  %1 = graph.and %lower, %seen : (tensor<2x2xi1>, tensor<1x1x1x2xi1>) -> tensor<1x1x2x2xi1>
  %2 = graph.select %1, %0, %infinite : (tensor<1x1x2x2xi1>, tensor<1x1x2x2xf32>, tensor<f32>) -> tensor<1x1x2x2xf32>
  %3 = graph.softmax %2 : (tensor<1x1x2x2xf32>) -> tensor<1x1x2x2xf32>
  %4 = graph.matmul "bhst,bthd->bshd" %3, %q : (tensor<1x1x2x2xf32>, tensor<1x2x1x4xf32>) -> tensor<1x2x1x4xf32>
  %5 = graph.select %lower, %0, %lowest : (tensor<2x2xi1>, tensor<1x1x2x2xf32>, tensor<f32>) -> tensor<1x1x2x2xf32>
  %6 = graph.add %5, %added : (tensor<1x1x2x2xf32>, tensor<1x1x1x2xf32>) -> tensor<1x1x2x2xf32>
  %7 = graph.softmax %6 : (tensor<1x1x2x2xf32>) -> tensor<1x1x2x2xf32>
  %8 = graph.matmul "bhst,bthd->bshd" %7, %q : (tensor<1x1x2x2xf32>, tensor<1x2x1x4xf32>) -> tensor<1x2x1x4xf32>
  return %4, %8 : tensor<1x2x1x4xf32>, tensor<1x2x1x4xf32>
}

// 30 tanh(x / 30) before the mask is a softcap; behind it, it is none.
// CHECK-LABEL: @softcap
// CHECK: graph.attention {{.*}} {causal = true, scale = 5.000000e-01 : f64, softcap = 3.000000e+01 : f64}
// CHECK-NOT: graph.attention
func.func @softcap(%q: tensor<1x2x1x4xf32>) -> (tensor<1x2x1x4xf32>, tensor<1x2x1x4xf32>) {
  %half = graph.constant dense<0.5> : tensor<f32>
  %cap = graph.constant dense<30.0> : tensor<f32>
  %mask = graph.constant dense<[[0.0, -3.4e38], [0.0, 0.0]]> : tensor<2x2xf32>
  %0 = graph.matmul "bshd,bthd->bhst" %q, %q : (tensor<1x2x1x4xf32>, tensor<1x2x1x4xf32>) -> tensor<1x1x2x2xf32>
  %1 = graph.mul %0, %half : (tensor<1x1x2x2xf32>, tensor<f32>) -> tensor<1x1x2x2xf32>
  %2 = graph.div %1, %cap : (tensor<1x1x2x2xf32>, tensor<f32>) -> tensor<1x1x2x2xf32>
  %3 = graph.tanh %2 : (tensor<1x1x2x2xf32>) -> tensor<1x1x2x2xf32>
  %4 = graph.mul %3, %cap : (tensor<1x1x2x2xf32>, tensor<f32>) -> tensor<1x1x2x2xf32>
  %5 = graph.add %4, %mask : (tensor<1x1x2x2xf32>, tensor<2x2xf32>) -> tensor<1x1x2x2xf32>
  %6 = graph.softmax %5 : (tensor<1x1x2x2xf32>) -> tensor<1x1x2x2xf32>
  %7 = graph.matmul "bhst,bthd->bshd" %6, %q : (tensor<1x1x2x2xf32>, tensor<1x2x1x4xf32>) -> tensor<1x2x1x4xf32>
  %8 = graph.add %1, %mask : (tensor<1x1x2x2xf32>, tensor<2x2xf32>) -> tensor<1x1x2x2xf32>
  %9 = graph.tanh %8 : (tensor<1x1x2x2xf32>) -> tensor<1x1x2x2xf32>
  %10 = graph.softmax %9 : (tensor<1x1x2x2xf32>) -> tensor<1x1x2x2xf32>
  %11 = graph.matmul "bhst,bthd->bshd" %10, %q : (tensor<1x1x2x2xf32>, tensor<1x2x1x4xf32>) -> tensor<1x2x1x4xf32>
  return %7, %11 : tensor<1x2x1x4xf32>, tensor<1x2x1x4xf32>
}

// Heads repeated one after the other are a group; the scale stands between.
// CHECK-LABEL: @grouped
// CHECK-SAME: %[[Q:[^:]*]]: tensor<2x3x4x8xf32>, %[[K:[^:]*]]: tensor<2x2x3x8xf32>
// CHECK: %[[KT:.*]] = graph.transpose %[[K]] {permutation = array<i64: 0, 2, 1, 3>}
// CHECK: graph.attention %[[Q]], %[[KT]], %{{.*}} {causal = false, scale = 5.000000e-01 : f64} : (tensor<2x3x4x8xf32>, tensor<2x3x2x8xf32>, tensor<2x3x2x8xf32>)
func.func @grouped(%q: tensor<2x3x4x8xf32>, %k: tensor<2x2x3x8xf32>) -> tensor<2x3x4x8xf32> {
  %s = graph.constant dense<0.5> : tensor<f32>
  %0 = graph.reshape %k : (tensor<2x2x3x8xf32>) -> tensor<2x2x1x3x8xf32>
  %1 = graph.broadcast %0 : (tensor<2x2x1x3x8xf32>) -> tensor<2x2x2x3x8xf32>
  %2 = graph.mul %1, %s : (tensor<2x2x2x3x8xf32>, tensor<f32>) -> tensor<2x2x2x3x8xf32>
  %3 = graph.reshape %2 : (tensor<2x2x2x3x8xf32>) -> tensor<2x4x3x8xf32>
  %4 = graph.reshape %1 : (tensor<2x2x2x3x8xf32>) -> tensor<2x4x3x8xf32>
  %5 = graph.matmul "bshd,bhtd->bhst" %q, %3 : (tensor<2x3x4x8xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x3xf32>
  %6 = graph.softmax %5 : (tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %7 = graph.matmul "bhst,bhtd->bshd" %6, %4 : (tensor<2x4x3x3xf32>, tensor<2x4x3x8xf32>) -> tensor<2x3x4x8xf32>
  return %7 : tensor<2x3x4x8xf32>
}

// All heads once, then all again: query head h would read the wrong one. Values
// of another group than keys.
// CHECK-LABEL: @nearly_grouped
// CHECK: graph.attention {{.*}} : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>)
// CHECK: graph.attention {{.*}} : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>)
func.func @nearly_grouped(%q: tensor<2x3x4x8xf32>, %k: tensor<2x3x2x8xf32>, %v: tensor<2x3x4x8xf32>) -> (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) {
  %0 = graph.reshape %k : (tensor<2x3x2x8xf32>) -> tensor<2x3x1x2x8xf32>
  %1 = graph.broadcast %0 : (tensor<2x3x1x2x8xf32>) -> tensor<2x3x2x2x8xf32>
  %2 = graph.reshape %1 : (tensor<2x3x2x2x8xf32>) -> tensor<2x3x4x8xf32>
  %3 = graph.matmul "bshd,bthd->bhst" %q, %2 : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x4x3x3xf32>
  %4 = graph.softmax %3 : (tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %5 = graph.matmul "bhst,bthd->bshd" %4, %2 : (tensor<2x4x3x3xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  %6 = graph.reshape %k : (tensor<2x3x2x8xf32>) -> tensor<2x3x2x1x8xf32>
  %7 = graph.broadcast %6 : (tensor<2x3x2x1x8xf32>) -> tensor<2x3x2x2x8xf32>
  %8 = graph.reshape %7 : (tensor<2x3x2x2x8xf32>) -> tensor<2x3x4x8xf32>
  %9 = graph.matmul "bshd,bthd->bhst" %q, %8 : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x4x3x3xf32>
  %10 = graph.softmax %9 : (tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %11 = graph.matmul "bhst,bthd->bshd" %10, %v : (tensor<2x4x3x3xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  return %5, %11 : tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>
}

// What an importer already wrote as an attention: its constant mask is read, rules
// are said shortly, a window as wide as the rows goes.
// CHECK-LABEL: @given
// CHECK: graph.attention %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}} {causal = true, scale = 0.35355339059327373 : f64}
// CHECK: graph.attention %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}} {causal = true, scale = 1.000000e+00 : f64, window = 2 : i64}
// CHECK: graph.attention %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}} {causal = true, scale = 1.000000e+00 : f64}
// CHECK: graph.attention %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}} {causal = false, scale = 1.000000e+00 : f64}
// CHECK: graph.attention %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}} {causal = false, scale = 1.000000e+00 : f64}
func.func @given(%q: tensor<1x3x1x8xf32>) -> (tensor<1x3x1x8xf32>, tensor<1x3x1x8xf32>, tensor<1x3x1x8xf32>, tensor<1x3x1x8xf32>, tensor<1x3x1x8xf32>) {
  %lower = graph.constant dense<[[[[true, false, false], [true, true, false], [true, true, true]]]]> : tensor<1x1x3x3xi1>
  %two = graph.constant dense<[[[[0.0, 0.0, -1.0e9], [0.0, 0.0, 0.0], [-1.0e9, 0.0, 0.0]]]]> : tensor<1x1x3x3xf32>
  %zeros = graph.constant dense<0.0> : tensor<1x1x3x3xf32>
  %a, %la = graph.attention %q, %q, %q, %lower {causal = false, scale = 0.353553384 : f64} : (tensor<1x3x1x8xf32>, tensor<1x3x1x8xf32>, tensor<1x3x1x8xf32>, tensor<1x1x3x3xi1>) -> (tensor<1x3x1x8xf32>, tensor<1x3x1xf32>)
  %b, %lb = graph.attention %q, %q, %q, %two {causal = true, scale = 1.0 : f64} : (tensor<1x3x1x8xf32>, tensor<1x3x1x8xf32>, tensor<1x3x1x8xf32>, tensor<1x1x3x3xf32>) -> (tensor<1x3x1x8xf32>, tensor<1x3x1xf32>)
  %c, %lc = graph.attention %q, %q, %q {causal = true, window = 3 : i64, scale = 1.0 : f64} : (tensor<1x3x1x8xf32>, tensor<1x3x1x8xf32>, tensor<1x3x1x8xf32>) -> (tensor<1x3x1x8xf32>, tensor<1x3x1xf32>)
  %d, %ld = graph.attention %q, %q, %q {causal = true, offset = 2 : i64, scale = 1.0 : f64} : (tensor<1x3x1x8xf32>, tensor<1x3x1x8xf32>, tensor<1x3x1x8xf32>) -> (tensor<1x3x1x8xf32>, tensor<1x3x1xf32>)
  %e, %le = graph.attention %q, %q, %q, %zeros {causal = false, scale = 1.0 : f64} : (tensor<1x3x1x8xf32>, tensor<1x3x1x8xf32>, tensor<1x3x1x8xf32>, tensor<1x1x3x3xf32>) -> (tensor<1x3x1x8xf32>, tensor<1x3x1xf32>)
  return %a, %b, %c, %d, %e : tensor<1x3x1x8xf32>, tensor<1x3x1x8xf32>, tensor<1x3x1x8xf32>, tensor<1x3x1x8xf32>, tensor<1x3x1x8xf32>
}

// Keys without a dim of heads are those of all heads.
// CHECK-LABEL: @shared_keys
// CHECK: graph.attention %arg0, %{{.*}}, %{{.*}}, %{{.*}} {causal = false, scale = 1.{{.*}}} : (tensor<2x3x6x4xf32>, tensor<2x5x1x4xf32>, tensor<2x5x1x4xf32>, tensor<2x6x3x5xf32>)
// CHECK-NOT: graph.softmax
func.func @shared_keys(%q: tensor<2x3x6x4xf32>, %k: tensor<2x4x5xf32>, %v: tensor<2x5x4xf32>, %bias: tensor<2x6x3x5xf32>) -> tensor<2x3x6x4xf32> {
  %0 = graph.matmul "bshd,bdt->bhst" %q, %k : (tensor<2x3x6x4xf32>, tensor<2x4x5xf32>) -> tensor<2x6x3x5xf32>
  %1 = graph.add %bias, %0 : (tensor<2x6x3x5xf32>, tensor<2x6x3x5xf32>) -> tensor<2x6x3x5xf32>
  %2 = graph.softmax %1 : (tensor<2x6x3x5xf32>) -> tensor<2x6x3x5xf32>
  %3 = graph.matmul "bhst,btd->bshd" %2, %v : (tensor<2x6x3x5xf32>, tensor<2x5x4xf32>) -> tensor<2x3x6x4xf32>
  return %3 : tensor<2x3x6x4xf32>
}

// Heads in groups: two dims of queries, of which keys have the first.
// CHECK-LABEL: @heads_of_two_dims
// CHECK: %[[Q:.*]] = graph.reshape %arg0 : (tensor<2x3x2x3x4xf32>) -> tensor<2x3x6x4xf32>
// CHECK: %[[O:.*]], %{{.*}} = graph.attention %[[Q]], %arg1, %arg1, %{{.*}} {causal = false, scale = 5.{{.*}}} : (tensor<2x3x6x4xf32>, tensor<2x5x2x4xf32>, tensor<2x5x2x4xf32>, tensor<1x6x1x5xf32>)
// CHECK: graph.reshape %[[O]] : (tensor<2x3x6x4xf32>) -> tensor<2x3x2x3x4xf32>
func.func @heads_of_two_dims(%q: tensor<2x3x2x3x4xf32>, %k: tensor<2x5x2x4xf32>, %bias: tensor<3x1x5xf32>) -> tensor<2x3x2x3x4xf32> {
  %half = graph.constant dense<0.5> : tensor<f32>
  %0 = graph.matmul "bshgd,bthd->bhgst" %q, %k : (tensor<2x3x2x3x4xf32>, tensor<2x5x2x4xf32>) -> tensor<2x2x3x3x5xf32>
  %1 = graph.add %0, %bias : (tensor<2x2x3x3x5xf32>, tensor<3x1x5xf32>) -> tensor<2x2x3x3x5xf32>
  %2 = graph.mul %1, %half : (tensor<2x2x3x3x5xf32>, tensor<f32>) -> tensor<2x2x3x3x5xf32>
  %3 = graph.softmax %2 : (tensor<2x2x3x3x5xf32>) -> tensor<2x2x3x3x5xf32>
  %4 = graph.matmul "bhgst,bthd->bshgd" %3, %k : (tensor<2x2x3x3x5xf32>, tensor<2x5x2x4xf32>) -> tensor<2x3x2x3x4xf32>
  return %4 : tensor<2x3x2x3x4xf32>
}

// The least finite number bounds a mask that adds -inf.
// CHECK-LABEL: @bounded
// CHECK: %[[MASK:.*]] = graph.maximum %arg1, %{{.*}} : (tensor<2x2xf32>, tensor<f32>)
// CHECK: graph.attention %{{.*}} {causal = false, scale = 1.{{.*}}}
// CHECK-NOT: graph.softmax
func.func @bounded(%q: tensor<1x2x2x4xf32>, %mask: tensor<2x2xf32>) -> tensor<1x2x2x4xf32> {
  %least = graph.constant dense<-3.0e38> : tensor<f32>
  %0 = graph.matmul "bshd,bthd->bhst" %q, %q : (tensor<1x2x2x4xf32>, tensor<1x2x2x4xf32>) -> tensor<1x2x2x2xf32>
  %1 = graph.add %0, %mask : (tensor<1x2x2x2xf32>, tensor<2x2xf32>) -> tensor<1x2x2x2xf32>
  %2 = graph.maximum %1, %least : (tensor<1x2x2x2xf32>, tensor<f32>) -> tensor<1x2x2x2xf32>
  %3 = graph.softmax %2 : (tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32>
  %4 = graph.matmul "bhst,bthd->bshd" %3, %q : (tensor<1x2x2x2xf32>, tensor<1x2x2x4xf32>) -> tensor<1x2x2x4xf32>
  return %4 : tensor<1x2x2x4xf32>
}

// Zero times a score and a large negative number hides as that number alone does.
// CHECK-LABEL: @by_product
// CHECK: graph.attention %arg0, %arg0, %arg0 {causal = true
// CHECK-NOT: graph.softmax
func.func @by_product(%q: tensor<1x2x2x4xf32>) -> tensor<1x2x2x4xf32> {
  %kept = graph.constant dense<[[1.0, 0.0], [1.0, 1.0]]> : tensor<2x2xf32>
  %added = graph.constant dense<[[0.0, -1.0e4], [0.0, 0.0]]> : tensor<2x2xf32>
  %0 = graph.matmul "bshd,bthd->bhst" %q, %q : (tensor<1x2x2x4xf32>, tensor<1x2x2x4xf32>) -> tensor<1x2x2x2xf32>
  %1 = graph.mul %0, %kept : (tensor<1x2x2x2xf32>, tensor<2x2xf32>) -> tensor<1x2x2x2xf32>
  %2 = graph.add %1, %added : (tensor<1x2x2x2xf32>, tensor<2x2xf32>) -> tensor<1x2x2x2xf32>
  %3 = graph.softmax %2 : (tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32>
  %4 = graph.matmul "bhst,bthd->bshd" %3, %q : (tensor<1x2x2x2xf32>, tensor<1x2x2x4xf32>) -> tensor<1x2x2x4xf32>
  return %4 : tensor<1x2x2x4xf32>
}

// What is kept and what is hidden do not meet: the score of the first row counts not at all.
// CHECK-LABEL: @by_other_product
// CHECK-NOT: graph.attention
func.func @by_other_product(%q: tensor<1x2x2x4xf32>) -> tensor<1x2x2x4xf32> {
  %kept = graph.constant dense<[[0.0, 0.0], [1.0, 1.0]]> : tensor<2x2xf32>
  %added = graph.constant dense<[[0.0, -1.0e4], [0.0, 0.0]]> : tensor<2x2xf32>
  %0 = graph.matmul "bshd,bthd->bhst" %q, %q : (tensor<1x2x2x4xf32>, tensor<1x2x2x4xf32>) -> tensor<1x2x2x2xf32>
  %1 = graph.mul %0, %kept : (tensor<1x2x2x2xf32>, tensor<2x2xf32>) -> tensor<1x2x2x2xf32>
  %2 = graph.add %1, %added : (tensor<1x2x2x2xf32>, tensor<2x2xf32>) -> tensor<1x2x2x2xf32>
  %3 = graph.softmax %2 : (tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32>
  %4 = graph.matmul "bhst,bthd->bshd" %3, %q : (tensor<1x2x2x2xf32>, tensor<1x2x2x4xf32>) -> tensor<1x2x2x4xf32>
  return %4 : tensor<1x2x2x4xf32>
}

// A softmax that is spelt out, with a guard behind it.
// CHECK-LABEL: @spelt_softmax
// CHECK: graph.attention %arg0, %arg0, %arg0 {causal = false, scale = 1.{{.*}}}
// CHECK-NOT: graph.exp
func.func @spelt_softmax(%q: tensor<1x2x2x4xf32>) -> tensor<1x2x2x4xf32> {
  %zero = graph.constant dense<0.0> : tensor<f32>
  %0 = graph.matmul "bshd,bthd->bhst" %q, %q : (tensor<1x2x2x4xf32>, tensor<1x2x2x4xf32>) -> tensor<1x2x2x2xf32>
  %1 = graph.reduce %0 {dims = array<i64: 3>, kind = #graph.reduce_kind<max>} : (tensor<1x2x2x2xf32>) -> tensor<1x2x2xf32>
  %2 = graph.reshape %1 : (tensor<1x2x2xf32>) -> tensor<1x2x2x1xf32>
  %3 = graph.sub %0, %2 : (tensor<1x2x2x2xf32>, tensor<1x2x2x1xf32>) -> tensor<1x2x2x2xf32>
  %4 = graph.exp %3 : (tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32>
  %5 = graph.reduce %4 {dims = array<i64: 3>, kind = #graph.reduce_kind<sum>} : (tensor<1x2x2x2xf32>) -> tensor<1x2x2xf32>
  %6 = graph.reshape %5 : (tensor<1x2x2xf32>) -> tensor<1x2x2x1xf32>
  %7 = graph.div %4, %6 : (tensor<1x2x2x2xf32>, tensor<1x2x2x1xf32>) -> tensor<1x2x2x2xf32>
  %8 = graph.compare %7, %7 {predicate = #graph.predicate<ne>} : (tensor<1x2x2x2xf32>, tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xi1>
  %9 = graph.select %8, %zero, %7 : (tensor<1x2x2x2xi1>, tensor<f32>, tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32>
  %10 = graph.matmul "bhst,bthd->bshd" %9, %q : (tensor<1x2x2x2xf32>, tensor<1x2x2x4xf32>) -> tensor<1x2x2x4xf32>
  return %10 : tensor<1x2x2x4xf32>
}

// The largest score is taken away before the softmax, which does so itself.
// CHECK-LABEL: @shifted
// CHECK: graph.attention %arg0, %arg0, %arg0 {causal = false, scale = 1.{{.*}}}
// CHECK-NOT: graph.reduce
func.func @shifted(%q: tensor<1x2x2x4xf32>) -> tensor<1x2x2x4xf32> {
  %0 = graph.matmul "bshd,bthd->bhst" %q, %q : (tensor<1x2x2x4xf32>, tensor<1x2x2x4xf32>) -> tensor<1x2x2x2xf32>
  %1 = graph.reduce %0 {dims = array<i64: 3>, kind = #graph.reduce_kind<max>} : (tensor<1x2x2x2xf32>) -> tensor<1x2x2xf32>
  %2 = graph.reshape %1 : (tensor<1x2x2xf32>) -> tensor<1x2x2x1xf32>
  %3 = graph.sub %0, %2 : (tensor<1x2x2x2xf32>, tensor<1x2x2x1xf32>) -> tensor<1x2x2x2xf32>
  %4 = graph.softmax %3 : (tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32>
  %5 = graph.matmul "bhst,bthd->bshd" %4, %q : (tensor<1x2x2x2xf32>, tensor<1x2x2x4xf32>) -> tensor<1x2x2x4xf32>
  return %5 : tensor<1x2x2x4xf32>
}

// The sum of other numbers makes no softmax.
// CHECK-LABEL: @other_sum
// CHECK-NOT: graph.softmax
func.func @other_sum(%x: tensor<3x4xf32>, %y: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %0 = graph.reduce %y {dims = array<i64: 1>, kind = #graph.reduce_kind<max>} : (tensor<3x4xf32>) -> tensor<3xf32>
  %1 = graph.reshape %0 : (tensor<3xf32>) -> tensor<3x1xf32>
  %2 = graph.sub %x, %1 : (tensor<3x4xf32>, tensor<3x1xf32>) -> tensor<3x4xf32>
  %3 = graph.exp %2 : (tensor<3x4xf32>) -> tensor<3x4xf32>
  %4 = graph.reduce %3 {dims = array<i64: 1>, kind = #graph.reduce_kind<sum>} : (tensor<3x4xf32>) -> tensor<3xf32>
  %5 = graph.reshape %4 : (tensor<3xf32>) -> tensor<3x1xf32>
  %6 = graph.div %3, %5 : (tensor<3x4xf32>, tensor<3x1xf32>) -> tensor<3x4xf32>
  return %6 : tensor<3x4xf32>
}
