// RUN: llmc-opt %s --pass-pipeline='builtin.module(func.func(llmc-raise-experts))' | FileCheck %s

// Each row is multiplied by a gathered matrix of its expert. Tokens lose their flattening, repeats go.
// CHECK-LABEL: @gathered
// CHECK-SAME: %[[S:[^:]*]]: tensor<2x3x4xf32>, %[[X:[^:]*]]: tensor<2x3x8xf32>, %[[W:[^:]*]]: tensor<4x5x8xf32>
// CHECK: %[[R:.*]] = graph.route %[[S]] : (tensor<2x3x4xf32>) -> tensor<2x3x2xi64>
// CHECK: %[[P:.*]] = graph.take_along {{.*}}, %[[R]] : (tensor<2x3x2x4xf32>, tensor<2x3x2xi64>) -> tensor<2x3x2xf32>
// CHECK: %[[Y:.*]] = graph.grouped_matmul %[[X]], %[[W]], %[[R]] {transposed} : (tensor<2x3x8xf32>, tensor<4x5x8xf32>, tensor<2x3x2xi64>) -> tensor<2x3x2x5xf32>
// CHECK: %[[Z:.*]] = graph.tanh %[[Y]]
// CHECK: %[[Q:.*]] = graph.reshape %[[P]] : (tensor<2x3x2xf32>) -> tensor<2x3x2x1xf32>
// CHECK: %[[M:.*]] = graph.mul %[[Z]], %[[Q]]
// CHECK: graph.reduce %[[M]] {dims = array<i64: 2>, {{.*}}} : (tensor<2x3x2x5xf32>) -> tensor<2x3x5xf32>
// CHECK-NOT: graph.matmul
func.func @gathered(%scores: tensor<2x3x4xf32>, %x: tensor<2x3x8xf32>, %w: tensor<4x5x8xf32>) -> tensor<2x3x5xf32> {
  %s = graph.reshape %scores : (tensor<2x3x4xf32>) -> tensor<6x4xf32>
  %ids = graph.route %s : (tensor<6x4xf32>) -> tensor<6x2xi64>
  %s1 = graph.reshape %s : (tensor<6x4xf32>) -> tensor<6x1x4xf32>
  %s2 = graph.broadcast %s1 : (tensor<6x1x4xf32>) -> tensor<6x2x4xf32>
  %p = graph.take_along %s2, %ids : (tensor<6x2x4xf32>, tensor<6x2xi64>) -> tensor<6x2xf32>
  %x1 = graph.reshape %x : (tensor<2x3x8xf32>) -> tensor<6x1x8xf32>
  %x2 = graph.broadcast %x1 : (tensor<6x1x8xf32>) -> tensor<6x2x8xf32>
  %x3 = graph.reshape %x2 : (tensor<6x2x8xf32>) -> tensor<12x8x1xf32>
  %flat = graph.reshape %ids : (tensor<6x2xi64>) -> tensor<12xi64>
  %m = graph.gather %w, %flat : (tensor<4x5x8xf32>, tensor<12xi64>) -> tensor<12x5x8xf32>
  %y = graph.matmul "rfd,rdo->rfo" %m, %x3 : (tensor<12x5x8xf32>, tensor<12x8x1xf32>) -> tensor<12x5x1xf32>
  %y1 = graph.tanh %y : (tensor<12x5x1xf32>) -> tensor<12x5x1xf32>
  %p1 = graph.reshape %p : (tensor<6x2xf32>) -> tensor<12x1x1xf32>
  %y2 = graph.mul %y1, %p1 : (tensor<12x5x1xf32>, tensor<12x1x1xf32>) -> tensor<12x5x1xf32>
  %y3 = graph.reshape %y2 : (tensor<12x5x1xf32>) -> tensor<6x2x5xf32>
  %y4 = graph.reduce %y3 {dims = array<i64: 1>, kind = #graph.reduce_kind<sum>} : (tensor<6x2x5xf32>) -> tensor<6x5xf32>
  %out = graph.reshape %y4 : (tensor<6x5xf32>) -> tensor<2x3x5xf32>
  return %out : tensor<2x3x5xf32>
}

// Weights [expert, in, out] are transposed; biases of experts stay a table, the softmax over choices
// is that of each token.
// CHECK-LABEL: @biased
// CHECK-SAME: %[[S:[^:]*]]: tensor<6x4xf32>, %[[X:[^:]*]]: tensor<6x8xf32>, %[[W:[^:]*]]: tensor<4x8x5xf32>, %[[B:[^:]*]]: tensor<4x5xf32>
// CHECK: %[[R:.*]] = graph.route %[[S]]
// CHECK: graph.softmax {{.*}} : (tensor<6x2xf32>) -> tensor<6x2xf32>
// CHECK: %[[T:.*]] = graph.transpose %[[W]] {permutation = array<i64: 0, 2, 1>}
// CHECK: %[[Y:.*]] = graph.grouped_matmul %[[X]], %[[T]], %[[R]] {transposed}
// CHECK: %[[G:.*]] = graph.gather %[[B]], %[[R]] : (tensor<4x5xf32>, tensor<6x2xi64>) -> tensor<6x2x5xf32>
// CHECK: graph.add %[[Y]], %[[G]]
// CHECK-NOT: graph.matmul
func.func @biased(%scores: tensor<6x4xf32>, %x: tensor<6x8xf32>, %w: tensor<4x8x5xf32>, %b: tensor<4x5xf32>) -> tensor<6x5xf32> {
  %ids = graph.route %scores : (tensor<6x4xf32>) -> tensor<6x2xi64>
  %s1 = graph.reshape %scores : (tensor<6x4xf32>) -> tensor<6x1x4xf32>
  %s2 = graph.broadcast %s1 : (tensor<6x1x4xf32>) -> tensor<6x2x4xf32>
  %best = graph.take_along %s2, %ids : (tensor<6x2x4xf32>, tensor<6x2xi64>) -> tensor<6x2xf32>
  %p = graph.softmax %best : (tensor<6x2xf32>) -> tensor<6x2xf32>
  %m = graph.gather %w, %ids : (tensor<4x8x5xf32>, tensor<6x2xi64>) -> tensor<6x2x8x5xf32>
  %y = graph.matmul "td,tkdf->tkf" %x, %m : (tensor<6x8xf32>, tensor<6x2x8x5xf32>) -> tensor<6x2x5xf32>
  %g = graph.gather %b, %ids : (tensor<4x5xf32>, tensor<6x2xi64>) -> tensor<6x2x5xf32>
  %z = graph.add %y, %g : (tensor<6x2x5xf32>, tensor<6x2x5xf32>) -> tensor<6x2x5xf32>
  %p1 = graph.reshape %p : (tensor<6x2xf32>) -> tensor<6x2x1xf32>
  %v = graph.mul %z, %p1 : (tensor<6x2x5xf32>, tensor<6x2x1xf32>) -> tensor<6x2x5xf32>
  %out = graph.reduce %v {dims = array<i64: 1>, kind = #graph.reduce_kind<sum>} : (tensor<6x2x5xf32>) -> tensor<6x5xf32>
  return %out : tensor<6x5xf32>
}

// Rows are sorted by expert; those of an expert end where the sum of the counts up to it says. Behind
// the product they are put back.
// CHECK-LABEL: @sorted
// CHECK-SAME: %[[S:[^:]*]]: tensor<6x4xf32>, %[[X:[^:]*]]: tensor<6x8xf32>, %[[W:[^:]*]]: tensor<4x5x8xf32>
// CHECK: %[[R:.*]] = graph.route %[[S]] : (tensor<6x4xf32>) -> tensor<6x2xi64>
// CHECK-NEXT: %[[Y:.*]] = graph.grouped_matmul %[[X]], %[[W]], %[[R]] {transposed} : (tensor<6x8xf32>, tensor<4x5x8xf32>, tensor<6x2xi64>) -> tensor<6x2x5xf32>
// CHECK-NEXT: %[[Z:.*]] = graph.reduce %[[Y]] {dims = array<i64: 1>, {{.*}}} : (tensor<6x2x5xf32>) -> tensor<6x5xf32>
// CHECK-NEXT: return %[[Z]]

func.func @sorted(%scores: tensor<6x4xf32>, %x: tensor<6x8xf32>, %w: tensor<4x5x8xf32>) -> tensor<6x5xf32> {
  %ids = graph.route %scores : (tensor<6x4xf32>) -> tensor<6x2xi64>
  %flat = graph.reshape %ids : (tensor<6x2xi64>) -> tensor<12xi64>
  %keys = graph.cast %flat : (tensor<12xi64>) -> tensor<12xf32>
  %falling = graph.neg %keys : (tensor<12xf32>) -> tensor<12xf32>
  %order = graph.route %falling : (tensor<12xf32>) -> tensor<12xi64>
  %two = graph.constant dense<2> : tensor<i64>
  %token = graph.div %order, %two : (tensor<12xi64>, tensor<i64>) -> tensor<12xi64>
  %rows = graph.gather %x, %token : (tensor<6x8xf32>, tensor<12xi64>) -> tensor<12x8xf32>
  %one = graph.constant dense<1.0> : tensor<12x1xf32>
  %n = graph.scatter_add %flat, %one : (tensor<12xi64>, tensor<12x1xf32>) -> tensor<4x1xf32>
  %n1 = graph.reshape %n : (tensor<4x1xf32>) -> tensor<4xf32>
  %n2 = graph.cast %n1 : (tensor<4xf32>) -> tensor<4xi64>
  %bounds = graph.cumsum %n2 {dim = 0 : i64} : (tensor<4xi64>) -> tensor<4xi64>
  %place = graph.constant dense<[[0], [1], [2], [3], [4], [5], [6], [7], [8], [9], [10], [11]]> : tensor<12x1xi64>
  %behind = graph.compare %place, %bounds {predicate = #graph.predicate<ge>} : (tensor<12x1xi64>, tensor<4xi64>) -> tensor<12x4xi1>
  %behind1 = graph.cast %behind : (tensor<12x4xi1>) -> tensor<12x4xi64>
  %expert = graph.reduce %behind1 {dims = array<i64: 1>, kind = #graph.reduce_kind<sum>} : (tensor<12x4xi64>) -> tensor<12xi64>
  %expert1 = graph.reshape %expert : (tensor<12xi64>) -> tensor<12x1xi64>
  %y = graph.grouped_matmul %rows, %w, %expert1 {transposed} : (tensor<12x8xf32>, tensor<4x5x8xf32>, tensor<12x1xi64>) -> tensor<12x1x5xf32>
  %y1 = graph.reshape %y : (tensor<12x1x5xf32>) -> tensor<12x5xf32>
  %index = graph.reshape %place : (tensor<12x1xi64>) -> tensor<12xi64>
  %inverse = graph.scatter_add %order, %index : (tensor<12xi64>, tensor<12xi64>) -> tensor<12xi64>
  %home = graph.gather %y1, %inverse : (tensor<12x5xf32>, tensor<12xi64>) -> tensor<12x5xf32>
  %home1 = graph.reshape %home : (tensor<12x5xf32>) -> tensor<6x2x5xf32>
  %out = graph.reduce %home1 {dims = array<i64: 1>, kind = #graph.reduce_kind<sum>} : (tensor<6x2x5xf32>) -> tensor<6x5xf32>
  return %out : tensor<6x5xf32>
}

// Sorted rows may also be added to their tokens.
// CHECK-LABEL: @added
// CHECK: %[[R:.*]] = graph.route
// CHECK-NEXT: %[[Y:.*]] = graph.grouped_matmul %{{.*}}, %{{.*}}, %[[R]] {transposed} : (tensor<6x8xf32>, tensor<4x5x8xf32>, tensor<6x2xi64>) -> tensor<6x2x5xf32>
// CHECK-NEXT: graph.reduce %[[Y]] {dims = array<i64: 1>
// CHECK-NEXT: return

func.func @added(%scores: tensor<6x4xf32>, %x: tensor<6x8xf32>, %w: tensor<4x5x8xf32>) -> tensor<6x5xf32> {
  %ids = graph.route %scores : (tensor<6x4xf32>) -> tensor<6x2xi64>
  %flat = graph.reshape %ids : (tensor<6x2xi64>) -> tensor<12xi64>
  %keys = graph.cast %flat : (tensor<12xi64>) -> tensor<12xf32>
  %falling = graph.neg %keys : (tensor<12xf32>) -> tensor<12xf32>
  %order = graph.route %falling : (tensor<12xf32>) -> tensor<12xi64>
  %two = graph.constant dense<2> : tensor<i64>
  %token = graph.div %order, %two : (tensor<12xi64>, tensor<i64>) -> tensor<12xi64>
  %rows = graph.gather %x, %token : (tensor<6x8xf32>, tensor<12xi64>) -> tensor<12x8xf32>
  %one = graph.constant dense<1.0> : tensor<12x1xf32>
  %n = graph.scatter_add %flat, %one : (tensor<12xi64>, tensor<12x1xf32>) -> tensor<4x1xf32>
  %n1 = graph.reshape %n : (tensor<4x1xf32>) -> tensor<4xf32>
  %n2 = graph.cast %n1 : (tensor<4xf32>) -> tensor<4xi64>
  %bounds = graph.cumsum %n2 {dim = 0 : i64} : (tensor<4xi64>) -> tensor<4xi64>
  %place = graph.constant dense<[[0], [1], [2], [3], [4], [5], [6], [7], [8], [9], [10], [11]]> : tensor<12x1xi64>
  %behind = graph.compare %place, %bounds {predicate = #graph.predicate<ge>} : (tensor<12x1xi64>, tensor<4xi64>) -> tensor<12x4xi1>
  %behind1 = graph.cast %behind : (tensor<12x4xi1>) -> tensor<12x4xi64>
  %expert = graph.reduce %behind1 {dims = array<i64: 1>, kind = #graph.reduce_kind<sum>} : (tensor<12x4xi64>) -> tensor<12xi64>
  %expert1 = graph.reshape %expert : (tensor<12xi64>) -> tensor<12x1xi64>
  %y = graph.grouped_matmul %rows, %w, %expert1 {transposed} : (tensor<12x8xf32>, tensor<4x5x8xf32>, tensor<12x1xi64>) -> tensor<12x1x5xf32>
  %y1 = graph.reshape %y : (tensor<12x1x5xf32>) -> tensor<12x5xf32>
  %out = graph.scatter_add %token, %y1 : (tensor<12xi64>, tensor<12x5xf32>) -> tensor<6x5xf32>
  return %out : tensor<6x5xf32>
}

// Rows of other tokens are none of this mixture: it stays as it is.
// CHECK-LABEL: @other_tokens
// CHECK: graph.route
// CHECK: graph.route
// CHECK: graph.grouped_matmul {{.*}} : (tensor<12x8xf32>, tensor<4x5x8xf32>, tensor<12x1xi64>) -> tensor<12x1x5xf32>
// CHECK: graph.gather

func.func @other_tokens(%scores: tensor<6x4xf32>, %x: tensor<6x8xf32>, %w: tensor<4x5x8xf32>) -> tensor<6x5xf32> {
  %ids = graph.route %scores : (tensor<6x4xf32>) -> tensor<6x2xi64>
  %flat = graph.reshape %ids : (tensor<6x2xi64>) -> tensor<12xi64>
  %keys = graph.cast %flat : (tensor<12xi64>) -> tensor<12xf32>
  %falling = graph.neg %keys : (tensor<12xf32>) -> tensor<12xf32>
  %order = graph.route %falling : (tensor<12xf32>) -> tensor<12xi64>
  %two = graph.constant dense<3> : tensor<i64>
  %token = graph.div %order, %two : (tensor<12xi64>, tensor<i64>) -> tensor<12xi64>
  %rows = graph.gather %x, %token : (tensor<6x8xf32>, tensor<12xi64>) -> tensor<12x8xf32>
  %one = graph.constant dense<1.0> : tensor<12x1xf32>
  %n = graph.scatter_add %flat, %one : (tensor<12xi64>, tensor<12x1xf32>) -> tensor<4x1xf32>
  %n1 = graph.reshape %n : (tensor<4x1xf32>) -> tensor<4xf32>
  %n2 = graph.cast %n1 : (tensor<4xf32>) -> tensor<4xi64>
  %bounds = graph.cumsum %n2 {dim = 0 : i64} : (tensor<4xi64>) -> tensor<4xi64>
  %place = graph.constant dense<[[0], [1], [2], [3], [4], [5], [6], [7], [8], [9], [10], [11]]> : tensor<12x1xi64>
  %behind = graph.compare %place, %bounds {predicate = #graph.predicate<ge>} : (tensor<12x1xi64>, tensor<4xi64>) -> tensor<12x4xi1>
  %behind1 = graph.cast %behind : (tensor<12x4xi1>) -> tensor<12x4xi64>
  %expert = graph.reduce %behind1 {dims = array<i64: 1>, kind = #graph.reduce_kind<sum>} : (tensor<12x4xi64>) -> tensor<12xi64>
  %expert1 = graph.reshape %expert : (tensor<12xi64>) -> tensor<12x1xi64>
  %y = graph.grouped_matmul %rows, %w, %expert1 {transposed} : (tensor<12x8xf32>, tensor<4x5x8xf32>, tensor<12x1xi64>) -> tensor<12x1x5xf32>
  %y1 = graph.reshape %y : (tensor<12x1x5xf32>) -> tensor<12x5xf32>
  %index = graph.reshape %place : (tensor<12x1xi64>) -> tensor<12xi64>
  %inverse = graph.scatter_add %order, %index : (tensor<12xi64>, tensor<12xi64>) -> tensor<12xi64>
  %home = graph.gather %y1, %inverse : (tensor<12x5xf32>, tensor<12xi64>) -> tensor<12x5xf32>
  %home1 = graph.reshape %home : (tensor<12x5xf32>) -> tensor<6x2x5xf32>
  %out = graph.reduce %home1 {dims = array<i64: 1>, kind = #graph.reduce_kind<sum>} : (tensor<6x2x5xf32>) -> tensor<6x5xf32>
  return %out : tensor<6x5xf32>
}
