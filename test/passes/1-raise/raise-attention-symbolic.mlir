// RUN: llmc-opt %s --pass-pipeline='builtin.module(func.func(llmc-raise-attention))' | FileCheck %s

// Masks of 131,072 x 131,072 are defined by ops on positions; all their rows are read, none is held.

// All rows see the keys up to their own.
// CHECK-LABEL: @causal
// CHECK: graph.attention %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}} {causal = true, scale = 1.000000e+00 : f64}
// CHECK-NOT: graph.softmax
func.func @causal(%q: tensor<1x131072x2x4xf32>, %k: tensor<1x131072x2x4xf32>, %v: tensor<1x131072x2x4xf32>) -> tensor<1x131072x2x4xf32> {
  %low = graph.constant dense<0xFF800000> : tensor<f32>
  %line = graph.iota {dim = 0} : () -> tensor<131072xi64>
  %keys = graph.reshape %line : (tensor<131072xi64>) -> tensor<1x131072xi64>
  %rows = graph.reshape %line : (tensor<131072xi64>) -> tensor<131072x1xi64>
  %causal = graph.compare %keys, %rows {predicate = #graph.predicate<le>} : (tensor<1x131072xi64>, tensor<131072x1xi64>) -> tensor<131072x131072xi1>
  %0 = graph.matmul "bshd,bthd->bhst" %q, %k : (tensor<1x131072x2x4xf32>, tensor<1x131072x2x4xf32>) -> tensor<1x2x131072x131072xf32>
  %1 = graph.select %causal, %0, %low : (tensor<131072x131072xi1>, tensor<1x2x131072x131072xf32>, tensor<f32>) -> tensor<1x2x131072x131072xf32>
  %2 = graph.softmax %1 : (tensor<1x2x131072x131072xf32>) -> tensor<1x2x131072x131072xf32>
  %3 = graph.matmul "bhst,bthd->bshd" %2, %v : (tensor<1x2x131072x131072xf32>, tensor<1x131072x2x4xf32>) -> tensor<1x131072x2x4xf32>
  return %3 : tensor<1x131072x2x4xf32>
}

// A window of 4,096 keys, as a number that is added.
// CHECK-LABEL: @window
// CHECK: graph.attention %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}} {causal = true, scale = 1.000000e+00 : f64, window = 4096 : i64}
// CHECK-NOT: graph.softmax
func.func @window(%q: tensor<1x131072x2x4xf32>, %k: tensor<1x131072x2x4xf32>, %v: tensor<1x131072x2x4xf32>) -> tensor<1x131072x2x4xf32> {
  %low = graph.constant dense<0xFF800000> : tensor<f32>
  %line = graph.iota {dim = 0} : () -> tensor<131072xi64>
  %keys = graph.reshape %line : (tensor<131072xi64>) -> tensor<1x131072xi64>
  %rows = graph.reshape %line : (tensor<131072xi64>) -> tensor<131072x1xi64>
  %causal = graph.compare %keys, %rows {predicate = #graph.predicate<le>} : (tensor<1x131072xi64>, tensor<131072x1xi64>) -> tensor<131072x131072xi1>
  %width = graph.constant dense<4096> : tensor<i64>
  %zero = graph.constant dense<0.0> : tensor<f32>
  %lowest = graph.constant dense<-3.4e38> : tensor<f32>
  %first = graph.sub %rows, %width : (tensor<131072x1xi64>, tensor<i64>) -> tensor<131072x1xi64>
  %near = graph.compare %keys, %first {predicate = #graph.predicate<gt>} : (tensor<1x131072xi64>, tensor<131072x1xi64>) -> tensor<131072x131072xi1>
  %both = graph.and %causal, %near : (tensor<131072x131072xi1>, tensor<131072x131072xi1>) -> tensor<131072x131072xi1>
  %mask = graph.select %both, %zero, %lowest : (tensor<131072x131072xi1>, tensor<f32>, tensor<f32>) -> tensor<131072x131072xf32>
  %0 = graph.matmul "bshd,bthd->bhst" %q, %k : (tensor<1x131072x2x4xf32>, tensor<1x131072x2x4xf32>) -> tensor<1x2x131072x131072xf32>
  %1 = graph.add %0, %mask : (tensor<1x2x131072x131072xf32>, tensor<131072x131072xf32>) -> tensor<1x2x131072x131072xf32>
  %2 = graph.softmax %1 : (tensor<1x2x131072x131072xf32>) -> tensor<1x2x131072x131072xf32>
  %3 = graph.matmul "bhst,bthd->bshd" %2, %v : (tensor<1x2x131072x131072xf32>, tensor<1x131072x2x4xf32>) -> tensor<1x131072x2x4xf32>
  return %3 : tensor<1x131072x2x4xf32>
}

// The first 1,000 tokens see each other: they are an attention without a mask, and the rest is a causal
// one that begins behind them.
// CHECK-LABEL: @prefix
// CHECK: graph.attention %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}} {causal = false, scale = 1.000000e+00 : f64} : (tensor<1x1000x2x4xf32>, tensor<1x1000x2x4xf32>, tensor<1x1000x2x4xf32>)
// CHECK: graph.attention %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}} {causal = true, offset = 1000 : i64, scale = 1.000000e+00 : f64} : (tensor<1x130072x2x4xf32>, tensor<1x131072x2x4xf32>, tensor<1x131072x2x4xf32>)
// CHECK: graph.concat
func.func @prefix(%q: tensor<1x131072x2x4xf32>, %k: tensor<1x131072x2x4xf32>, %v: tensor<1x131072x2x4xf32>) -> tensor<1x131072x2x4xf32> {
  %low = graph.constant dense<0xFF800000> : tensor<f32>
  %line = graph.iota {dim = 0} : () -> tensor<131072xi64>
  %keys = graph.reshape %line : (tensor<131072xi64>) -> tensor<1x131072xi64>
  %rows = graph.reshape %line : (tensor<131072xi64>) -> tensor<131072x1xi64>
  %causal = graph.compare %keys, %rows {predicate = #graph.predicate<le>} : (tensor<1x131072xi64>, tensor<131072x1xi64>) -> tensor<131072x131072xi1>
  %length = graph.constant dense<1000> : tensor<i64>
  %early = graph.compare %keys, %length {predicate = #graph.predicate<lt>} : (tensor<1x131072xi64>, tensor<i64>) -> tensor<1x131072xi1>
  %seen = graph.or %causal, %early : (tensor<131072x131072xi1>, tensor<1x131072xi1>) -> tensor<131072x131072xi1>
  %0 = graph.matmul "bshd,bthd->bhst" %q, %k : (tensor<1x131072x2x4xf32>, tensor<1x131072x2x4xf32>) -> tensor<1x2x131072x131072xf32>
  %1 = graph.select %seen, %0, %low : (tensor<131072x131072xi1>, tensor<1x2x131072x131072xf32>, tensor<f32>) -> tensor<1x2x131072x131072xf32>
  %2 = graph.softmax %1 : (tensor<1x2x131072x131072xf32>) -> tensor<1x2x131072x131072xf32>
  %3 = graph.matmul "bhst,bthd->bshd" %2, %v : (tensor<1x2x131072x131072xf32>, tensor<1x131072x2x4xf32>) -> tensor<1x131072x2x4xf32>
  return %3 : tensor<1x131072x2x4xf32>
}

// Two documents in one sequence: tokens do not see those of the other. What else is hidden is cut likewise.
// CHECK-LABEL: @documents
// CHECK-SAME: %[[OTHER:[^:]*]]: tensor<1x1x1x131072xi1>
// CHECK: %[[A:.*]] = graph.slice %[[OTHER]] {{.*}} -> tensor<1x1x1x65536xi1>
// CHECK: graph.attention %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %[[A]] {causal = true, scale = 1.000000e+00 : f64} : (tensor<1x65536x2x4xf32>, tensor<1x65536x2x4xf32>, tensor<1x65536x2x4xf32>, tensor<1x1x1x65536xi1>)
// CHECK: %[[B:.*]] = graph.slice %[[OTHER]] {{.*}} -> tensor<1x1x1x65536xi1>
// CHECK: graph.attention %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %[[B]] {causal = true, scale = 1.000000e+00 : f64} : (tensor<1x65536x2x4xf32>, tensor<1x65536x2x4xf32>, tensor<1x65536x2x4xf32>, tensor<1x1x1x65536xi1>)
func.func @documents(%q: tensor<1x131072x2x4xf32>, %k: tensor<1x131072x2x4xf32>, %v: tensor<1x131072x2x4xf32>, %other: tensor<1x1x1x131072xi1>) -> tensor<1x131072x2x4xf32> {
  %low = graph.constant dense<0xFF800000> : tensor<f32>
  %line = graph.iota {dim = 0} : () -> tensor<131072xi64>
  %keys = graph.reshape %line : (tensor<131072xi64>) -> tensor<1x131072xi64>
  %rows = graph.reshape %line : (tensor<131072xi64>) -> tensor<131072x1xi64>
  %causal = graph.compare %keys, %rows {predicate = #graph.predicate<le>} : (tensor<1x131072xi64>, tensor<131072x1xi64>) -> tensor<131072x131072xi1>
  %border = graph.constant dense<65536> : tensor<i64>
  %a = graph.compare %keys, %border {predicate = #graph.predicate<lt>} : (tensor<1x131072xi64>, tensor<i64>) -> tensor<1x131072xi1>
  %b = graph.compare %rows, %border {predicate = #graph.predicate<lt>} : (tensor<131072x1xi64>, tensor<i64>) -> tensor<131072x1xi1>
  %ai = graph.cast %a : (tensor<1x131072xi1>) -> tensor<1x131072xi64>
  %bi = graph.cast %b : (tensor<131072x1xi1>) -> tensor<131072x1xi64>
  %same = graph.compare %ai, %bi {predicate = #graph.predicate<eq>} : (tensor<1x131072xi64>, tensor<131072x1xi64>) -> tensor<131072x131072xi1>
  %own = graph.and %same, %causal : (tensor<131072x131072xi1>, tensor<131072x131072xi1>) -> tensor<131072x131072xi1>
  %seen = graph.and %own, %other : (tensor<131072x131072xi1>, tensor<1x1x1x131072xi1>) -> tensor<1x1x131072x131072xi1>
  %0 = graph.matmul "bshd,bthd->bhst" %q, %k : (tensor<1x131072x2x4xf32>, tensor<1x131072x2x4xf32>) -> tensor<1x2x131072x131072xf32>
  %1 = graph.select %seen, %0, %low : (tensor<1x1x131072x131072xi1>, tensor<1x2x131072x131072xf32>, tensor<f32>) -> tensor<1x2x131072x131072xf32>
  %2 = graph.softmax %1 : (tensor<1x2x131072x131072xf32>) -> tensor<1x2x131072x131072xf32>
  %3 = graph.matmul "bhst,bthd->bshd" %2, %v : (tensor<1x2x131072x131072xf32>, tensor<1x131072x2x4xf32>) -> tensor<1x131072x2x4xf32>
  return %3 : tensor<1x131072x2x4xf32>
}

// One element of one row is no rule: half of the mask is, the other stays.
// CHECK-LABEL: @almost
// CHECK: graph.attention %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}} {causal = true, scale
func.func @almost(%q: tensor<1x131072x2x4xf32>, %k: tensor<1x131072x2x4xf32>, %v: tensor<1x131072x2x4xf32>) -> tensor<1x131072x2x4xf32> {
  %low = graph.constant dense<0xFF800000> : tensor<f32>
  %line = graph.iota {dim = 0} : () -> tensor<131072xi64>
  %keys = graph.reshape %line : (tensor<131072xi64>) -> tensor<1x131072xi64>
  %rows = graph.reshape %line : (tensor<131072xi64>) -> tensor<131072x1xi64>
  %causal = graph.compare %keys, %rows {predicate = #graph.predicate<le>} : (tensor<1x131072xi64>, tensor<131072x1xi64>) -> tensor<131072x131072xi1>
  %row = graph.constant dense<100000> : tensor<i64>
  %key = graph.constant dense<5> : tensor<i64>
  %r = graph.compare %rows, %row {predicate = #graph.predicate<eq>} : (tensor<131072x1xi64>, tensor<i64>) -> tensor<131072x1xi1>
  %c = graph.compare %keys, %key {predicate = #graph.predicate<eq>} : (tensor<1x131072xi64>, tensor<i64>) -> tensor<1x131072xi1>
  %odd = graph.and %r, %c : (tensor<131072x1xi1>, tensor<1x131072xi1>) -> tensor<131072x131072xi1>
  %even = graph.not %odd : (tensor<131072x131072xi1>) -> tensor<131072x131072xi1>
  %seen = graph.and %causal, %even : (tensor<131072x131072xi1>, tensor<131072x131072xi1>) -> tensor<131072x131072xi1>
  %0 = graph.matmul "bshd,bthd->bhst" %q, %k : (tensor<1x131072x2x4xf32>, tensor<1x131072x2x4xf32>) -> tensor<1x2x131072x131072xf32>
  %1 = graph.select %seen, %0, %low : (tensor<131072x131072xi1>, tensor<1x2x131072x131072xf32>, tensor<f32>) -> tensor<1x2x131072x131072xf32>
  %2 = graph.softmax %1 : (tensor<1x2x131072x131072xf32>) -> tensor<1x2x131072x131072xf32>
  %3 = graph.matmul "bhst,bthd->bshd" %2, %v : (tensor<1x2x131072x131072xf32>, tensor<1x131072x2x4xf32>) -> tensor<1x131072x2x4xf32>
  return %3 : tensor<1x131072x2x4xf32>
}

// A mask of which one element differs is none of the rules, though it is computed from positions.
// CHECK-LABEL: @differs
// CHECK: graph.attention %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}} {causal = false, scale
func.func @differs(%q: tensor<1x131072x2x4xf32>, %k: tensor<1x131072x2x4xf32>, %v: tensor<1x131072x2x4xf32>) -> tensor<1x131072x2x4xf32> {
  %low = graph.constant dense<0xFF800000> : tensor<f32>
  %line = graph.iota {dim = 0} : () -> tensor<131072xi64>
  %keys = graph.reshape %line : (tensor<131072xi64>) -> tensor<1x131072xi64>
  %rows = graph.reshape %line : (tensor<131072xi64>) -> tensor<131072x1xi64>
  %causal = graph.compare %keys, %rows {predicate = #graph.predicate<le>} : (tensor<1x131072xi64>, tensor<131072x1xi64>) -> tensor<131072x131072xi1>
  %row = graph.constant dense<100000> : tensor<i64>
  %key = graph.constant dense<5> : tensor<i64>
  %r = graph.compare %rows, %row {predicate = #graph.predicate<eq>} : (tensor<131072x1xi64>, tensor<i64>) -> tensor<131072x1xi1>
  %c = graph.compare %keys, %key {predicate = #graph.predicate<eq>} : (tensor<1x131072xi64>, tensor<i64>) -> tensor<1x131072xi1>
  %odd = graph.and %r, %c : (tensor<131072x1xi1>, tensor<1x131072xi1>) -> tensor<131072x131072xi1>
  %even = graph.not %odd : (tensor<131072x131072xi1>) -> tensor<131072x131072xi1>
  %more = graph.or %causal, %odd : (tensor<131072x131072xi1>, tensor<131072x131072xi1>) -> tensor<131072x131072xi1>
  %less = graph.select %odd, %even, %more : (tensor<131072x131072xi1>, tensor<131072x131072xi1>, tensor<131072x131072xi1>) -> tensor<131072x131072xi1>
  %seen = graph.or %less, %less : (tensor<131072x131072xi1>, tensor<131072x131072xi1>) -> tensor<131072x131072xi1>
  %0 = graph.matmul "bshd,bthd->bhst" %q, %k : (tensor<1x131072x2x4xf32>, tensor<1x131072x2x4xf32>) -> tensor<1x2x131072x131072xf32>
  %1 = graph.select %seen, %0, %low : (tensor<131072x131072xi1>, tensor<1x2x131072x131072xf32>, tensor<f32>) -> tensor<1x2x131072x131072xf32>
  %2 = graph.softmax %1 : (tensor<1x2x131072x131072xf32>) -> tensor<1x2x131072x131072xf32>
  %3 = graph.matmul "bhst,bthd->bshd" %2, %v : (tensor<1x2x131072x131072xf32>, tensor<1x131072x2x4xf32>) -> tensor<1x131072x2x4xf32>
  return %3 : tensor<1x131072x2x4xf32>
}
