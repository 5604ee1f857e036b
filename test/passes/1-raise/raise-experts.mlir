// RUN: llmc-opt %s --pass-pipeline='builtin.module(func.func(llmc-raise-experts))' | FileCheck %s
// RUN: llmc-opt %s --pass-pipeline='builtin.module(func.func(llmc-raise-experts))' -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

// Each row is multiplied by a gathered matrix of its expert. Tokens lose their flattening, repeats go.
// CHECK-LABEL: @gathered
// CHECK-SAME: %[[S:[^:]*]]: tensor<2x3x4xf32>, %[[X:[^:]*]]: tensor<2x3x8xf32>, %[[W:[^:]*]]: tensor<4x5x8xf32>
// CHECK: %[[R:.*]] = graph.route %[[S]] {mixture} : (tensor<2x3x4xf32>) -> tensor<2x3x2xi64>
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
// CHECK: %[[R:.*]] = graph.route %[[S]] {mixture}
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
// CHECK: %[[R:.*]] = graph.route %[[S]] {mixture} : (tensor<6x4xf32>) -> tensor<6x2xi64>
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

// A block of a loop takes, by a mask, the rows of the i-th expert that has rows, first choices before second
// ones; what it computes of rows of other experts does not count. Blocks that are alike make one product.
// CHECK-LABEL: @loop
// CHECK-SAME: %[[S:[^:]*]]: tensor<3x3xf32>, %[[X:[^:]*]]: tensor<3x8xf32>, %[[W:[^:]*]]: tensor<3x5x8xf32>
// CHECK: %[[R:.*]] = graph.route %[[S]] {mixture} : (tensor<3x3xf32>) -> tensor<3x2xi64>
// CHECK-NEXT: %[[Y:.*]] = graph.grouped_matmul %[[X]], %[[W]], %[[R]] {transposed} : (tensor<3x8xf32>, tensor<3x5x8xf32>, tensor<3x2xi64>) -> tensor<3x2x5xf32>
// CHECK-NEXT: %[[Z:.*]] = graph.tanh %[[Y]]
// CHECK-NEXT: %[[SUM:.*]] = graph.reduce %[[Z]] {dims = array<i64: 1>, {{.*}}} : (tensor<3x2x5xf32>) -> tensor<3x5xf32>
// CHECK-NEXT: return %[[SUM]]
func.func @loop(%scores: tensor<3x3xf32>, %x: tensor<3x8xf32>, %w: tensor<3x5x8xf32>) -> tensor<3x5xf32> {
  %ids = graph.route %scores : (tensor<3x3xf32>) -> tensor<3x2xi64>
  %each = graph.reshape %ids : (tensor<3x2xi64>) -> tensor<3x2x1xi64>
  %all = graph.constant dense<[0, 1, 2, 3]> : tensor<4xi64>
  %own = graph.compare %each, %all {predicate = #graph.predicate<eq>} : (tensor<3x2x1xi64>, tensor<4xi64>) -> tensor<3x2x4xi1>
  %hot = graph.cast %own : (tensor<3x2x4xi1>) -> tensor<3x2x4xi64>
  %turned = graph.transpose %hot {permutation = array<i64: 2, 1, 0>} : (tensor<3x2x4xi64>) -> tensor<4x2x3xi64>
  %n = graph.reduce %hot {dims = array<i64: 0, 1>, kind = #graph.reduce_kind<sum>} : (tensor<3x2x4xi64>) -> tensor<4xi64>
  %zero = graph.constant dense<0> : tensor<i64>
  %none = graph.constant dense<0.0> : tensor<f32>
  %hit = graph.compare %n, %zero {predicate = #graph.predicate<gt>} : (tensor<4xi64>, tensor<i64>) -> tensor<4xi1>
  %hit1 = graph.cast %hit : (tensor<4xi1>) -> tensor<4xi64>
  %up = graph.cumsum %hit1 {dim = 0 : i64} : (tensor<4xi64>) -> tensor<4xi64>
  %token = graph.constant dense<[0, 1, 2, 0, 1, 2]> : tensor<6xi64>
  %i0 = graph.constant dense<0> : tensor<i64>
  %le0 = graph.compare %up, %i0 {predicate = #graph.predicate<le>} : (tensor<4xi64>, tensor<i64>) -> tensor<4xi1>
  %lc0 = graph.cast %le0 : (tensor<4xi1>) -> tensor<4xi64>
  %e0 = graph.reduce %lc0 {dims = array<i64: 0>, kind = #graph.reduce_kind<sum>} : (tensor<4xi64>) -> tensor<i64>
  %m0 = graph.gather %turned, %e0 : (tensor<4x2x3xi64>, tensor<i64>) -> tensor<2x3xi64>
  %w0 = graph.gather %w, %e0 : (tensor<3x5x8xf32>, tensor<i64>) -> tensor<5x8xf32>
  %t0 = graph.compare %m0, %zero {predicate = #graph.predicate<ne>} : (tensor<2x3xi64>, tensor<i64>) -> tensor<2x3xi1>
  %c0 = graph.reshape %t0 : (tensor<2x3xi1>) -> tensor<6x1xi1>
  %x0 = graph.gather %x, %token : (tensor<3x8xf32>, tensor<6xi64>) -> tensor<6x8xf32>
  %y0 = graph.matmul "sd,ed->se" %x0, %w0 : (tensor<6x8xf32>, tensor<5x8xf32>) -> tensor<6x5xf32>
  %z0 = graph.tanh %y0 : (tensor<6x5xf32>) -> tensor<6x5xf32>
  %k0 = graph.select %c0, %z0, %none : (tensor<6x1xi1>, tensor<6x5xf32>, tensor<f32>) -> tensor<6x5xf32>
  %s0 = graph.scatter_add %token, %k0 : (tensor<6xi64>, tensor<6x5xf32>) -> tensor<3x5xf32>
  %i1 = graph.constant dense<1> : tensor<i64>
  %le1 = graph.compare %up, %i1 {predicate = #graph.predicate<le>} : (tensor<4xi64>, tensor<i64>) -> tensor<4xi1>
  %lc1 = graph.cast %le1 : (tensor<4xi1>) -> tensor<4xi64>
  %e1 = graph.reduce %lc1 {dims = array<i64: 0>, kind = #graph.reduce_kind<sum>} : (tensor<4xi64>) -> tensor<i64>
  %m1 = graph.gather %turned, %e1 : (tensor<4x2x3xi64>, tensor<i64>) -> tensor<2x3xi64>
  %w1 = graph.gather %w, %e1 : (tensor<3x5x8xf32>, tensor<i64>) -> tensor<5x8xf32>
  %t1 = graph.compare %m1, %zero {predicate = #graph.predicate<ne>} : (tensor<2x3xi64>, tensor<i64>) -> tensor<2x3xi1>
  %c1 = graph.reshape %t1 : (tensor<2x3xi1>) -> tensor<6x1xi1>
  %x1 = graph.gather %x, %token : (tensor<3x8xf32>, tensor<6xi64>) -> tensor<6x8xf32>
  %y1 = graph.matmul "sd,ed->se" %x1, %w1 : (tensor<6x8xf32>, tensor<5x8xf32>) -> tensor<6x5xf32>
  %z1 = graph.tanh %y1 : (tensor<6x5xf32>) -> tensor<6x5xf32>
  %k1 = graph.select %c1, %z1, %none : (tensor<6x1xi1>, tensor<6x5xf32>, tensor<f32>) -> tensor<6x5xf32>
  %s1 = graph.scatter_add %token, %k1 : (tensor<6xi64>, tensor<6x5xf32>) -> tensor<3x5xf32>
  %i2 = graph.constant dense<2> : tensor<i64>
  %le2 = graph.compare %up, %i2 {predicate = #graph.predicate<le>} : (tensor<4xi64>, tensor<i64>) -> tensor<4xi1>
  %lc2 = graph.cast %le2 : (tensor<4xi1>) -> tensor<4xi64>
  %e2 = graph.reduce %lc2 {dims = array<i64: 0>, kind = #graph.reduce_kind<sum>} : (tensor<4xi64>) -> tensor<i64>
  %m2 = graph.gather %turned, %e2 : (tensor<4x2x3xi64>, tensor<i64>) -> tensor<2x3xi64>
  %w2 = graph.gather %w, %e2 : (tensor<3x5x8xf32>, tensor<i64>) -> tensor<5x8xf32>
  %t2 = graph.compare %m2, %zero {predicate = #graph.predicate<ne>} : (tensor<2x3xi64>, tensor<i64>) -> tensor<2x3xi1>
  %c2 = graph.reshape %t2 : (tensor<2x3xi1>) -> tensor<6x1xi1>
  %x2 = graph.gather %x, %token : (tensor<3x8xf32>, tensor<6xi64>) -> tensor<6x8xf32>
  %y2 = graph.matmul "sd,ed->se" %x2, %w2 : (tensor<6x8xf32>, tensor<5x8xf32>) -> tensor<6x5xf32>
  %z2 = graph.tanh %y2 : (tensor<6x5xf32>) -> tensor<6x5xf32>
  %k2 = graph.select %c2, %z2, %none : (tensor<6x1xi1>, tensor<6x5xf32>, tensor<f32>) -> tensor<6x5xf32>
  %s2 = graph.scatter_add %token, %k2 : (tensor<6xi64>, tensor<6x5xf32>) -> tensor<3x5xf32>
  %sum1 = graph.add %s0, %s1 : (tensor<3x5xf32>, tensor<3x5xf32>) -> tensor<3x5xf32>
  %sum2 = graph.add %sum1, %s2 : (tensor<3x5xf32>, tensor<3x5xf32>) -> tensor<3x5xf32>
  return %sum2 : tensor<3x5xf32>
}

// Blocks that differ stay as they are.
// CHECK-LABEL: @different
// CHECK-NOT: graph.grouped_matmul
// CHECK-COUNT-3: graph.matmul
// CHECK-NOT: graph.grouped_matmul
// CHECK: return
func.func @different(%scores: tensor<3x3xf32>, %x: tensor<3x8xf32>, %w: tensor<3x5x8xf32>) -> tensor<3x5xf32> {
  %ids = graph.route %scores : (tensor<3x3xf32>) -> tensor<3x2xi64>
  %each = graph.reshape %ids : (tensor<3x2xi64>) -> tensor<3x2x1xi64>
  %all = graph.constant dense<[0, 1, 2, 3]> : tensor<4xi64>
  %own = graph.compare %each, %all {predicate = #graph.predicate<eq>} : (tensor<3x2x1xi64>, tensor<4xi64>) -> tensor<3x2x4xi1>
  %hot = graph.cast %own : (tensor<3x2x4xi1>) -> tensor<3x2x4xi64>
  %turned = graph.transpose %hot {permutation = array<i64: 2, 1, 0>} : (tensor<3x2x4xi64>) -> tensor<4x2x3xi64>
  %n = graph.reduce %hot {dims = array<i64: 0, 1>, kind = #graph.reduce_kind<sum>} : (tensor<3x2x4xi64>) -> tensor<4xi64>
  %zero = graph.constant dense<0> : tensor<i64>
  %none = graph.constant dense<0.0> : tensor<f32>
  %hit = graph.compare %n, %zero {predicate = #graph.predicate<gt>} : (tensor<4xi64>, tensor<i64>) -> tensor<4xi1>
  %hit1 = graph.cast %hit : (tensor<4xi1>) -> tensor<4xi64>
  %up = graph.cumsum %hit1 {dim = 0 : i64} : (tensor<4xi64>) -> tensor<4xi64>
  %token = graph.constant dense<[0, 1, 2, 0, 1, 2]> : tensor<6xi64>
  %i0 = graph.constant dense<0> : tensor<i64>
  %le0 = graph.compare %up, %i0 {predicate = #graph.predicate<le>} : (tensor<4xi64>, tensor<i64>) -> tensor<4xi1>
  %lc0 = graph.cast %le0 : (tensor<4xi1>) -> tensor<4xi64>
  %e0 = graph.reduce %lc0 {dims = array<i64: 0>, kind = #graph.reduce_kind<sum>} : (tensor<4xi64>) -> tensor<i64>
  %m0 = graph.gather %turned, %e0 : (tensor<4x2x3xi64>, tensor<i64>) -> tensor<2x3xi64>
  %w0 = graph.gather %w, %e0 : (tensor<3x5x8xf32>, tensor<i64>) -> tensor<5x8xf32>
  %t0 = graph.compare %m0, %zero {predicate = #graph.predicate<ne>} : (tensor<2x3xi64>, tensor<i64>) -> tensor<2x3xi1>
  %c0 = graph.reshape %t0 : (tensor<2x3xi1>) -> tensor<6x1xi1>
  %x0 = graph.gather %x, %token : (tensor<3x8xf32>, tensor<6xi64>) -> tensor<6x8xf32>
  %y0 = graph.matmul "sd,ed->se" %x0, %w0 : (tensor<6x8xf32>, tensor<5x8xf32>) -> tensor<6x5xf32>
  %z0 = graph.tanh %y0 : (tensor<6x5xf32>) -> tensor<6x5xf32>
  %k0 = graph.select %c0, %z0, %none : (tensor<6x1xi1>, tensor<6x5xf32>, tensor<f32>) -> tensor<6x5xf32>
  %s0 = graph.scatter_add %token, %k0 : (tensor<6xi64>, tensor<6x5xf32>) -> tensor<3x5xf32>
  %i1 = graph.constant dense<1> : tensor<i64>
  %le1 = graph.compare %up, %i1 {predicate = #graph.predicate<le>} : (tensor<4xi64>, tensor<i64>) -> tensor<4xi1>
  %lc1 = graph.cast %le1 : (tensor<4xi1>) -> tensor<4xi64>
  %e1 = graph.reduce %lc1 {dims = array<i64: 0>, kind = #graph.reduce_kind<sum>} : (tensor<4xi64>) -> tensor<i64>
  %m1 = graph.gather %turned, %e1 : (tensor<4x2x3xi64>, tensor<i64>) -> tensor<2x3xi64>
  %w1 = graph.gather %w, %e1 : (tensor<3x5x8xf32>, tensor<i64>) -> tensor<5x8xf32>
  %t1 = graph.compare %m1, %zero {predicate = #graph.predicate<ne>} : (tensor<2x3xi64>, tensor<i64>) -> tensor<2x3xi1>
  %c1 = graph.reshape %t1 : (tensor<2x3xi1>) -> tensor<6x1xi1>
  %x1 = graph.gather %x, %token : (tensor<3x8xf32>, tensor<6xi64>) -> tensor<6x8xf32>
  %y1 = graph.matmul "sd,ed->se" %x1, %w1 : (tensor<6x8xf32>, tensor<5x8xf32>) -> tensor<6x5xf32>
  %z1 = graph.sigmoid %y1 : (tensor<6x5xf32>) -> tensor<6x5xf32>
  %k1 = graph.select %c1, %z1, %none : (tensor<6x1xi1>, tensor<6x5xf32>, tensor<f32>) -> tensor<6x5xf32>
  %s1 = graph.scatter_add %token, %k1 : (tensor<6xi64>, tensor<6x5xf32>) -> tensor<3x5xf32>
  %i2 = graph.constant dense<2> : tensor<i64>
  %le2 = graph.compare %up, %i2 {predicate = #graph.predicate<le>} : (tensor<4xi64>, tensor<i64>) -> tensor<4xi1>
  %lc2 = graph.cast %le2 : (tensor<4xi1>) -> tensor<4xi64>
  %e2 = graph.reduce %lc2 {dims = array<i64: 0>, kind = #graph.reduce_kind<sum>} : (tensor<4xi64>) -> tensor<i64>
  %m2 = graph.gather %turned, %e2 : (tensor<4x2x3xi64>, tensor<i64>) -> tensor<2x3xi64>
  %w2 = graph.gather %w, %e2 : (tensor<3x5x8xf32>, tensor<i64>) -> tensor<5x8xf32>
  %t2 = graph.compare %m2, %zero {predicate = #graph.predicate<ne>} : (tensor<2x3xi64>, tensor<i64>) -> tensor<2x3xi1>
  %c2 = graph.reshape %t2 : (tensor<2x3xi1>) -> tensor<6x1xi1>
  %x2 = graph.gather %x, %token : (tensor<3x8xf32>, tensor<6xi64>) -> tensor<6x8xf32>
  %y2 = graph.matmul "sd,ed->se" %x2, %w2 : (tensor<6x8xf32>, tensor<5x8xf32>) -> tensor<6x5xf32>
  %z2 = graph.tanh %y2 : (tensor<6x5xf32>) -> tensor<6x5xf32>
  %k2 = graph.select %c2, %z2, %none : (tensor<6x1xi1>, tensor<6x5xf32>, tensor<f32>) -> tensor<6x5xf32>
  %s2 = graph.scatter_add %token, %k2 : (tensor<6xi64>, tensor<6x5xf32>) -> tensor<3x5xf32>
  %sum1 = graph.add %s0, %s1 : (tensor<3x5xf32>, tensor<3x5xf32>) -> tensor<3x5xf32>
  %sum2 = graph.add %sum1, %s2 : (tensor<3x5xf32>, tensor<3x5xf32>) -> tensor<3x5xf32>
  return %sum2 : tensor<3x5xf32>
}

// As written this runs where two experts have rows; an expert without any adds nothing.
// CHECK-LABEL: @two_of_three
// CHECK: graph.grouped_matmul
// CHECK-NOT: graph.matmul
// CHECK: return
// REMARK: remark: the loop over experts is unrolled for the 2 of 3 that had tokens
func.func @two_of_three(%scores: tensor<3x3xf32>, %x: tensor<3x8xf32>, %w: tensor<3x5x8xf32>) -> tensor<3x5xf32> {
  %ids = graph.route %scores : (tensor<3x3xf32>) -> tensor<3x2xi64>
  %each = graph.reshape %ids : (tensor<3x2xi64>) -> tensor<3x2x1xi64>
  %all = graph.constant dense<[0, 1, 2, 3]> : tensor<4xi64>
  %own = graph.compare %each, %all {predicate = #graph.predicate<eq>} : (tensor<3x2x1xi64>, tensor<4xi64>) -> tensor<3x2x4xi1>
  %hot = graph.cast %own : (tensor<3x2x4xi1>) -> tensor<3x2x4xi64>
  %turned = graph.transpose %hot {permutation = array<i64: 2, 1, 0>} : (tensor<3x2x4xi64>) -> tensor<4x2x3xi64>
  %n = graph.reduce %hot {dims = array<i64: 0, 1>, kind = #graph.reduce_kind<sum>} : (tensor<3x2x4xi64>) -> tensor<4xi64>
  %zero = graph.constant dense<0> : tensor<i64>
  %none = graph.constant dense<0.0> : tensor<f32>
  %hit = graph.compare %n, %zero {predicate = #graph.predicate<gt>} : (tensor<4xi64>, tensor<i64>) -> tensor<4xi1>
  %hit1 = graph.cast %hit : (tensor<4xi1>) -> tensor<4xi64>
  %up = graph.cumsum %hit1 {dim = 0 : i64} : (tensor<4xi64>) -> tensor<4xi64>
  %token = graph.constant dense<[0, 1, 2, 0, 1, 2]> : tensor<6xi64>
  %i0 = graph.constant dense<0> : tensor<i64>
  %le0 = graph.compare %up, %i0 {predicate = #graph.predicate<le>} : (tensor<4xi64>, tensor<i64>) -> tensor<4xi1>
  %lc0 = graph.cast %le0 : (tensor<4xi1>) -> tensor<4xi64>
  %e0 = graph.reduce %lc0 {dims = array<i64: 0>, kind = #graph.reduce_kind<sum>} : (tensor<4xi64>) -> tensor<i64>
  %m0 = graph.gather %turned, %e0 : (tensor<4x2x3xi64>, tensor<i64>) -> tensor<2x3xi64>
  %w0 = graph.gather %w, %e0 : (tensor<3x5x8xf32>, tensor<i64>) -> tensor<5x8xf32>
  %t0 = graph.compare %m0, %zero {predicate = #graph.predicate<ne>} : (tensor<2x3xi64>, tensor<i64>) -> tensor<2x3xi1>
  %c0 = graph.reshape %t0 : (tensor<2x3xi1>) -> tensor<6x1xi1>
  %x0 = graph.gather %x, %token : (tensor<3x8xf32>, tensor<6xi64>) -> tensor<6x8xf32>
  %y0 = graph.matmul "sd,ed->se" %x0, %w0 : (tensor<6x8xf32>, tensor<5x8xf32>) -> tensor<6x5xf32>
  %z0 = graph.tanh %y0 : (tensor<6x5xf32>) -> tensor<6x5xf32>
  %k0 = graph.select %c0, %z0, %none : (tensor<6x1xi1>, tensor<6x5xf32>, tensor<f32>) -> tensor<6x5xf32>
  %s0 = graph.scatter_add %token, %k0 : (tensor<6xi64>, tensor<6x5xf32>) -> tensor<3x5xf32>
  %i1 = graph.constant dense<1> : tensor<i64>
  %le1 = graph.compare %up, %i1 {predicate = #graph.predicate<le>} : (tensor<4xi64>, tensor<i64>) -> tensor<4xi1>
  %lc1 = graph.cast %le1 : (tensor<4xi1>) -> tensor<4xi64>
  %e1 = graph.reduce %lc1 {dims = array<i64: 0>, kind = #graph.reduce_kind<sum>} : (tensor<4xi64>) -> tensor<i64>
  %m1 = graph.gather %turned, %e1 : (tensor<4x2x3xi64>, tensor<i64>) -> tensor<2x3xi64>
  %w1 = graph.gather %w, %e1 : (tensor<3x5x8xf32>, tensor<i64>) -> tensor<5x8xf32>
  %t1 = graph.compare %m1, %zero {predicate = #graph.predicate<ne>} : (tensor<2x3xi64>, tensor<i64>) -> tensor<2x3xi1>
  %c1 = graph.reshape %t1 : (tensor<2x3xi1>) -> tensor<6x1xi1>
  %x1 = graph.gather %x, %token : (tensor<3x8xf32>, tensor<6xi64>) -> tensor<6x8xf32>
  %y1 = graph.matmul "sd,ed->se" %x1, %w1 : (tensor<6x8xf32>, tensor<5x8xf32>) -> tensor<6x5xf32>
  %z1 = graph.tanh %y1 : (tensor<6x5xf32>) -> tensor<6x5xf32>
  %k1 = graph.select %c1, %z1, %none : (tensor<6x1xi1>, tensor<6x5xf32>, tensor<f32>) -> tensor<6x5xf32>
  %s1 = graph.scatter_add %token, %k1 : (tensor<6xi64>, tensor<6x5xf32>) -> tensor<3x5xf32>
  %sum1 = graph.add %s0, %s1 : (tensor<3x5xf32>, tensor<3x5xf32>) -> tensor<3x5xf32>
  return %sum1 : tensor<3x5xf32>
}

// Experts that have parameters of their own are stacked: FoldViews makes one parameter of them.
// CHECK-LABEL: @own_matrices
// CHECK-SAME: %[[S:[^:]*]]: tensor<3x2xf32>, %[[X:[^:]*]]: tensor<3x8xf32>
// CHECK: %[[R:.*]] = graph.route %[[S]] {mixture} : (tensor<3x2xf32>) -> tensor<3x2xi64>
// CHECK: %[[W:.*]] = graph.concat {{.*}} {dim = 0 : i64} : (tensor<1x5x8xf32>, tensor<1x5x8xf32>) -> tensor<2x5x8xf32>
// CHECK: %[[Y:.*]] = graph.grouped_matmul %[[X]], %[[W]], %[[R]] {transposed} : (tensor<3x8xf32>, tensor<2x5x8xf32>, tensor<3x2xi64>) -> tensor<3x2x5xf32>
// CHECK-NEXT: %[[Z:.*]] = graph.tanh %[[Y]]
// CHECK: %[[V:.*]] = graph.mul %[[Z]], {{.*}} : (tensor<3x2x5xf32>, tensor<3x2x1xf32>) -> tensor<3x2x5xf32>
// CHECK-NEXT: %[[SUM:.*]] = graph.reduce %[[V]] {dims = array<i64: 1>
// CHECK: return %[[SUM]]
graph.source @w0.file : tensor<8x5xf32> {init = #graph.init_kind<zeros>}
graph.source @w1.file : tensor<8x5xf32> {init = #graph.init_kind<zeros>}
graph.state @w0 : tensor<8x5xf32> parameter views [#graph.view<@w0.file, 0, [5, 1]>]
graph.state @w1 : tensor<8x5xf32> parameter views [#graph.view<@w1.file, 0, [5, 1]>]
func.func @own_matrices(%scores: tensor<3x2xf32>, %x: tensor<3x8xf32>, %w0: tensor<8x5xf32> {graph.state = @w0}, %w1: tensor<8x5xf32> {graph.state = @w1}) -> tensor<3x5xf32> {
  %ids = graph.route %scores : (tensor<3x2xf32>) -> tensor<3x2xi64>
  %each = graph.reshape %ids : (tensor<3x2xi64>) -> tensor<3x2x1xi64>
  %all = graph.constant dense<[0, 1]> : tensor<2xi64>
  %own = graph.compare %each, %all {predicate = #graph.predicate<eq>} : (tensor<3x2x1xi64>, tensor<2xi64>) -> tensor<3x2x2xi1>
  %hot = graph.cast %own : (tensor<3x2x2xi1>) -> tensor<3x2x2xi64>
  %zero = graph.constant dense<0> : tensor<i64>
  %none = graph.constant dense<0.0> : tensor<f32>
  %token = graph.constant dense<[0, 1, 2, 0, 1, 2]> : tensor<6xi64>
  %s0x = graph.reshape %scores : (tensor<3x2xf32>) -> tensor<3x1x2xf32>
  %s1x = graph.broadcast %s0x : (tensor<3x1x2xf32>) -> tensor<3x2x2xf32>
  %p = graph.take_along %s1x, %ids : (tensor<3x2x2xf32>, tensor<3x2xi64>) -> tensor<3x2xf32>
  %p1 = graph.reshape %p : (tensor<3x2xf32>) -> tensor<6x1xf32>
  %place = graph.constant dense<[0, 2, 4, 1, 3, 5]> : tensor<6xi64>
  %weight = graph.gather %p1, %place : (tensor<6x1xf32>, tensor<6xi64>) -> tensor<6x1xf32>
  %rows = graph.gather %x, %token : (tensor<3x8xf32>, tensor<6xi64>) -> tensor<6x8xf32>
  %h0 = graph.slice %hot {starts = array<i64: 0, 0, 0>, limits = array<i64: 3, 2, 1>, steps = array<i64: 1, 1, 1>} : (tensor<3x2x2xi64>) -> tensor<3x2x1xi64>
  %t0 = graph.compare %h0, %zero {predicate = #graph.predicate<ne>} : (tensor<3x2x1xi64>, tensor<i64>) -> tensor<3x2x1xi1>
  %r0 = graph.transpose %t0 {permutation = array<i64: 2, 1, 0>} : (tensor<3x2x1xi1>) -> tensor<1x2x3xi1>
  %c0 = graph.reshape %r0 : (tensor<1x2x3xi1>) -> tensor<6x1xi1>
  %y0 = graph.matmul "sd,de->se" %rows, %w0 : (tensor<6x8xf32>, tensor<8x5xf32>) -> tensor<6x5xf32>
  %z0 = graph.tanh %y0 : (tensor<6x5xf32>) -> tensor<6x5xf32>
  %v0 = graph.mul %z0, %weight : (tensor<6x5xf32>, tensor<6x1xf32>) -> tensor<6x5xf32>
  %k0 = graph.select %c0, %v0, %none : (tensor<6x1xi1>, tensor<6x5xf32>, tensor<f32>) -> tensor<6x5xf32>
  %s0 = graph.scatter_add %token, %k0 : (tensor<6xi64>, tensor<6x5xf32>) -> tensor<3x5xf32>
  %h1 = graph.slice %hot {starts = array<i64: 0, 0, 1>, limits = array<i64: 3, 2, 2>, steps = array<i64: 1, 1, 1>} : (tensor<3x2x2xi64>) -> tensor<3x2x1xi64>
  %t1 = graph.compare %h1, %zero {predicate = #graph.predicate<ne>} : (tensor<3x2x1xi64>, tensor<i64>) -> tensor<3x2x1xi1>
  %r1 = graph.transpose %t1 {permutation = array<i64: 2, 1, 0>} : (tensor<3x2x1xi1>) -> tensor<1x2x3xi1>
  %c1 = graph.reshape %r1 : (tensor<1x2x3xi1>) -> tensor<6x1xi1>
  %y1 = graph.matmul "sd,de->se" %rows, %w1 : (tensor<6x8xf32>, tensor<8x5xf32>) -> tensor<6x5xf32>
  %z1 = graph.tanh %y1 : (tensor<6x5xf32>) -> tensor<6x5xf32>
  %v1 = graph.mul %z1, %weight : (tensor<6x5xf32>, tensor<6x1xf32>) -> tensor<6x5xf32>
  %k1 = graph.select %c1, %v1, %none : (tensor<6x1xi1>, tensor<6x5xf32>, tensor<f32>) -> tensor<6x5xf32>
  %s1 = graph.scatter_add %token, %k1 : (tensor<6xi64>, tensor<6x5xf32>) -> tensor<3x5xf32>
  %sum = graph.add %s0, %s1 : (tensor<3x5xf32>, tensor<3x5xf32>) -> tensor<3x5xf32>
  return %sum : tensor<3x5xf32>
}
