// RUN: llmc-opt %s --pass-pipeline='builtin.module(func.func(llmc-raise-attention))' | FileCheck %s

module attributes {graph.mode = "infer"} {
  // The rule is an attribute and the padding one i1 a key; a row that sees no key weighs all alike.
  // CHECK-LABEL: @finite
  // CHECK: %[[O:[^,]*]], %[[LSE:.*]] = graph.attention %{{[^,]*}}, %{{[^,]*}}, %[[V:[^,]*]], %{{[^,]*}} {causal = true, scale = 1.000000e+00 : f64} : ({{.*}}, tensor<2x1x1x6xi1>)
  // CHECK-DAG: %[[NONE:.*]] = graph.compare %[[LSE]], {{.*}}<eq>
  // CHECK-DAG: graph.reduce %[[V]] {dims = array<i64: 1>
  // CHECK: %[[R:.*]] = graph.select {{.*}}, %[[O]] : (tensor<2x6x2x1xi1>
  // CHECK-NEXT: return %[[R]]
  func.func @finite(%q: tensor<2x6x2x4xf32>, %k: tensor<2x6x2x4xf32>, %v: tensor<2x6x2x4xf32>, %given: tensor<2x1x1x6xi64>) -> tensor<2x6x2x4xf32> {
  %low = graph.constant dense<-3.4e38> : tensor<f32>
  %zero = graph.constant dense<0.0> : tensor<f32>
  %line = graph.iota {dim = 0} : () -> tensor<6xi64>
  %rows = graph.reshape %line : (tensor<6xi64>) -> tensor<6x1xi64>
  %causal = graph.compare %line, %rows {predicate = #graph.predicate<le>} : (tensor<6xi64>, tensor<6x1xi64>) -> tensor<6x6xi1>
  %zeros = graph.constant dense<0> : tensor<i64>
  %pad = graph.compare %given, %zeros {predicate = #graph.predicate<ne>} : (tensor<2x1x1x6xi64>, tensor<i64>) -> tensor<2x1x1x6xi1>
  %seen = graph.and %causal, %pad : (tensor<6x6xi1>, tensor<2x1x1x6xi1>) -> tensor<2x1x6x6xi1>
  %mask = graph.select %seen, %zero, %low : (tensor<2x1x6x6xi1>, tensor<f32>, tensor<f32>) -> tensor<2x1x6x6xf32>
  %0 = graph.matmul "bshd,bthd->bhst" %q, %k : (tensor<2x6x2x4xf32>, tensor<2x6x2x4xf32>) -> tensor<2x2x6x6xf32>
  %1 = graph.add %0, %mask : (tensor<2x2x6x6xf32>, tensor<2x1x6x6xf32>) -> tensor<2x2x6x6xf32>
  %2 = graph.softmax %1 : (tensor<2x2x6x6xf32>) -> tensor<2x2x6x6xf32>
  %3 = graph.matmul "bhst,bthd->bshd" %2, %v : (tensor<2x2x6x6xf32>, tensor<2x6x2x4xf32>) -> tensor<2x6x2x4xf32>
  return %3 : tensor<2x6x2x4xf32>
  }

  // Other exporters multiply what is hidden by the number.
  // CHECK-LABEL: @multiplied
  // CHECK: %[[O:[^,]*]], %[[LSE:.*]] = graph.attention %{{[^,]*}}, %{{[^,]*}}, %[[V:[^,]*]], %{{[^,]*}} {causal = true, scale = 1.000000e+00 : f64} : ({{.*}}, tensor<2x1x1x6xi1>)
  // CHECK-DAG: %[[NONE:.*]] = graph.compare %[[LSE]], {{.*}}<eq>
  // CHECK-DAG: graph.reduce %[[V]] {dims = array<i64: 1>
  // CHECK: %[[R:.*]] = graph.select {{.*}}, %[[O]] : (tensor<2x6x2x1xi1>
  // CHECK-NEXT: return %[[R]]
  func.func @multiplied(%q: tensor<2x6x2x4xf32>, %k: tensor<2x6x2x4xf32>, %v: tensor<2x6x2x4xf32>, %given: tensor<2x1x1x6xi64>) -> tensor<2x6x2x4xf32> {
  %low = graph.constant dense<-3.4e38> : tensor<f32>
  %zero = graph.constant dense<0.0> : tensor<f32>
  %line = graph.iota {dim = 0} : () -> tensor<6xi64>
  %rows = graph.reshape %line : (tensor<6xi64>) -> tensor<6x1xi64>
  %causal = graph.compare %line, %rows {predicate = #graph.predicate<le>} : (tensor<6xi64>, tensor<6x1xi64>) -> tensor<6x6xi1>
  %zeros = graph.constant dense<0> : tensor<i64>
  %pad = graph.compare %given, %zeros {predicate = #graph.predicate<ne>} : (tensor<2x1x1x6xi64>, tensor<i64>) -> tensor<2x1x1x6xi1>
  %seen = graph.and %causal, %pad : (tensor<6x6xi1>, tensor<2x1x1x6xi1>) -> tensor<2x1x6x6xi1>
  %hides = graph.not %seen : (tensor<2x1x6x6xi1>) -> tensor<2x1x6x6xi1>
  %one = graph.cast %hides : (tensor<2x1x6x6xi1>) -> tensor<2x1x6x6xf32>
  %mask = graph.mul %one, %low : (tensor<2x1x6x6xf32>, tensor<f32>) -> tensor<2x1x6x6xf32>
  %0 = graph.matmul "bshd,bthd->bhst" %q, %k : (tensor<2x6x2x4xf32>, tensor<2x6x2x4xf32>) -> tensor<2x2x6x6xf32>
  %1 = graph.add %0, %mask : (tensor<2x2x6x6xf32>, tensor<2x1x6x6xf32>) -> tensor<2x2x6x6xf32>
  %2 = graph.softmax %1 : (tensor<2x2x6x6xf32>) -> tensor<2x2x6x6xf32>
  %3 = graph.matmul "bhst,bthd->bshd" %2, %v : (tensor<2x2x6x6xf32>, tensor<2x6x2x4xf32>) -> tensor<2x6x2x4xf32>
  return %3 : tensor<2x6x2x4xf32>
  }

  // A number that does not absorb the scores leaves their differences in such a row.
  // CHECK-LABEL: @weak
  // CHECK: graph.attention %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}} {causal = false, {{.*}} tensor<2x1x6x6xf32>)
  // CHECK-NOT: graph.reduce
  func.func @weak(%q: tensor<2x6x2x4xf32>, %k: tensor<2x6x2x4xf32>, %v: tensor<2x6x2x4xf32>, %given: tensor<2x1x1x6xi64>) -> tensor<2x6x2x4xf32> {
  %low = graph.constant dense<-1.0e4> : tensor<f32>
  %zero = graph.constant dense<0.0> : tensor<f32>
  %line = graph.iota {dim = 0} : () -> tensor<6xi64>
  %rows = graph.reshape %line : (tensor<6xi64>) -> tensor<6x1xi64>
  %causal = graph.compare %line, %rows {predicate = #graph.predicate<le>} : (tensor<6xi64>, tensor<6x1xi64>) -> tensor<6x6xi1>
  %zeros = graph.constant dense<0> : tensor<i64>
  %pad = graph.compare %given, %zeros {predicate = #graph.predicate<ne>} : (tensor<2x1x1x6xi64>, tensor<i64>) -> tensor<2x1x1x6xi1>
  %seen = graph.and %causal, %pad : (tensor<6x6xi1>, tensor<2x1x1x6xi1>) -> tensor<2x1x6x6xi1>
  %mask = graph.select %seen, %zero, %low : (tensor<2x1x6x6xi1>, tensor<f32>, tensor<f32>) -> tensor<2x1x6x6xf32>
  %0 = graph.matmul "bshd,bthd->bhst" %q, %k : (tensor<2x6x2x4xf32>, tensor<2x6x2x4xf32>) -> tensor<2x2x6x6xf32>
  %1 = graph.add %0, %mask : (tensor<2x2x6x6xf32>, tensor<2x1x6x6xf32>) -> tensor<2x2x6x6xf32>
  %2 = graph.softmax %1 : (tensor<2x2x6x6xf32>) -> tensor<2x2x6x6xf32>
  %3 = graph.matmul "bhst,bthd->bshd" %2, %v : (tensor<2x2x6x6xf32>, tensor<2x6x2x4xf32>) -> tensor<2x6x2x4xf32>
  return %3 : tensor<2x6x2x4xf32>
  }

  // A known mask stays as it is: which rows see no key is known too.
  // CHECK-LABEL: @stored
  // CHECK: graph.attention %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}} {causal = false, {{.*}} tensor<2x1x6x6xf32>)
  // CHECK-NOT: graph.reduce
  func.func @stored(%q: tensor<2x6x2x4xf32>, %k: tensor<2x6x2x4xf32>, %v: tensor<2x6x2x4xf32>, %given: tensor<2x1x1x6xi64>) -> tensor<2x6x2x4xf32> {
  %low = graph.constant dense<-3.4e38> : tensor<f32>
  %zero = graph.constant dense<0.0> : tensor<f32>
  %line = graph.iota {dim = 0} : () -> tensor<6xi64>
  %rows = graph.reshape %line : (tensor<6xi64>) -> tensor<6x1xi64>
  %causal = graph.compare %line, %rows {predicate = #graph.predicate<le>} : (tensor<6xi64>, tensor<6x1xi64>) -> tensor<6x6xi1>
  %pad = graph.constant dense<[[[[true, true, false, true, true, true]]], [[[true, true, true, true, true, true]]]]> : tensor<2x1x1x6xi1>
  %seen = graph.and %causal, %pad : (tensor<6x6xi1>, tensor<2x1x1x6xi1>) -> tensor<2x1x6x6xi1>
  %mask = graph.select %seen, %zero, %low : (tensor<2x1x6x6xi1>, tensor<f32>, tensor<f32>) -> tensor<2x1x6x6xf32>
  %0 = graph.matmul "bshd,bthd->bhst" %q, %k : (tensor<2x6x2x4xf32>, tensor<2x6x2x4xf32>) -> tensor<2x2x6x6xf32>
  %1 = graph.add %0, %mask : (tensor<2x2x6x6xf32>, tensor<2x1x6x6xf32>) -> tensor<2x2x6x6xf32>
  %2 = graph.softmax %1 : (tensor<2x2x6x6xf32>) -> tensor<2x2x6x6xf32>
  %3 = graph.matmul "bhst,bthd->bshd" %2, %v : (tensor<2x2x6x6xf32>, tensor<2x6x2x4xf32>) -> tensor<2x6x2x4xf32>
  return %3 : tensor<2x6x2x4xf32>
  }
}
