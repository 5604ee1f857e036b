// RUN: llmc-opt %s --llmc-add-dropout="embedding=0.25 attention=0.125 attention-output=0.5 mlp-output=0.75" --split-input-file | FileCheck %s
// RUN: llmc-opt %s --llmc-add-dropout="mlp-output=0.75" --split-input-file | FileCheck %s --check-prefix=ONE

// Two layers, folded: the embeddings are dropped where they enter the repeat, the weights of attention
// inside of it, and both branches before they are added. Layers count from 1, outside of them is 0.

graph.source @t : tensor<11x8xf32> {init = #graph.init_kind<zeros>}
graph.source @w : tensor<2x8x8xf32> {init = #graph.init_kind<zeros>}
graph.state @table : tensor<11x8xf32> parameter views [#graph.view<@t, 0, [8, 1]>]
graph.state @up : tensor<2x8x8xf32> parameter stacked
    views [#graph.view<@w, 0, [8, 1]>, #graph.view<@w, 64, [8, 1]>]

// CHECK-LABEL: func.func @forward(
// CHECK-SAME: %[[IDS:.*]]: tensor<2x5xi64> {graph.input = "ids"}
// CHECK-SAME: %[[KEYS:.*]]: tensor<2xi64> {graph.input = "dropout_keys", graph.loader = #graph.loader<default_value = dropout_keys>}
// ONE-LABEL: func.func @forward(
func.func @forward(%ids: tensor<2x5xi64> {graph.input = "ids"}, %t: tensor<11x8xf32> {graph.state = @table},
                   %u: tensor<2x8x8xf32> {graph.state = @up}) -> tensor<2x5x8xf32> {
  // CHECK: %[[NONE:.*]] = graph.constant dense<0> : tensor<i64>
  // CHECK: %[[X:.*]] = graph.gather
  // CHECK-DAG: %[[KEY:.*]] = graph.reshape %[[KEYS]] : (tensor<2xi64>) -> tensor<2x1x1xi64>
  // CHECK-DAG: %[[POSITION:.*]] = graph.iota {dim = 0 : i64} : () -> tensor<5x1xi64>
  // CHECK-DAG: %[[ELEMENT:.*]] = graph.iota {dim = 0 : i64} : () -> tensor<8xi64>
  // CHECK: %[[START:.*]] = graph.dropout %[[X]], %[[KEY]], %[[NONE]], %[[POSITION]], %[[ELEMENT]] {place = 0 : i64, rate = 2.500000e-01 : f64}
  %0 = graph.gather %t, %ids : (tensor<11x8xf32>, tensor<2x5xi64>) -> tensor<2x5x8xf32>
  // CHECK: %[[LAYERS:.*]] = graph.constant dense<[1, 2]> : tensor<2xi64>
  // CHECK: graph.repeat 2 carried(%[[START]] : tensor<2x5x8xf32>) stacked(%{{.*}}, %[[LAYERS]] : tensor<2x8x8xf32>, tensor<2xi64>) captured(%[[KEYS]] : tensor<2xi64>)
  // ONE-NOT: graph.dropout
  // ONE: graph.repeat
  // ONE: graph.attention %{{.*}}, %{{.*}}, %{{.*}} {causal = true, scale = 1.000000e+00 : f64}
  // ONE: graph.dropout {{.*}}{place = 2 : i64, rate = 7.500000e-01 : f64}
  // ONE-NOT: graph.dropout
  %1 = graph.repeat 2 carried(%0 : tensor<2x5x8xf32>) stacked(%u : tensor<2x8x8xf32>) captured() -> tensor<2x5x8xf32> {
  // CHECK: ^bb0(%[[H:.*]]: tensor<2x5x8xf32>, %[[W:.*]]: tensor<8x8xf32>, %[[LAYER:.*]]: tensor<i64>, %[[ROWS:.*]]: tensor<2xi64>):
  ^bb0(%h: tensor<2x5x8xf32>, %w: tensor<8x8xf32>):
    %q = graph.matmul "bsd,de->bse" %h, %w : (tensor<2x5x8xf32>, tensor<8x8xf32>) -> tensor<2x5x8xf32>
    %s = graph.reshape %q : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
    // Head h begins at element 5 h.
    // CHECK: %[[P:.*]] = graph.iota {dim = 0 : i64} : () -> tensor<5xi64>
    // CHECK: %[[HEADS:.*]] = graph.iota {dim = 0 : i64} : () -> tensor<2xi64>
    // CHECK: %[[MANY:.*]] = graph.constant dense<5> : tensor<i64>
    // CHECK: %[[FIRST:.*]] = graph.mul %[[HEADS]], %[[MANY]]
    // CHECK: %[[K:.*]] = graph.iota {dim = 0 : i64} : () -> tensor<5xi64>
    // CHECK: graph.attention %[[S:.*]], %[[S]], %[[S]], %[[ROWS]], %[[LAYER]], %[[P]], %[[FIRST]], %[[K]] {causal = true, dropout = 1.250000e-01 : f64, scale = 1.000000e+00 : f64}
    %o, %l = graph.attention %s, %s, %s {causal = true, scale = 1.0} : (tensor<2x5x2x4xf32>, tensor<2x5x2x4xf32>, tensor<2x5x2x4xf32>) -> (tensor<2x5x2x4xf32>, tensor<2x5x2xf32>)
    // CHECK: %[[A:.*]] = graph.reshape {{.*}} -> tensor<2x5x8xf32>
    // CHECK: %[[DA:.*]] = graph.dropout %[[A]], %{{.*}}, %[[LAYER]], %{{.*}}, %{{.*}} {place = 1 : i64, rate = 5.000000e-01 : f64}
    // CHECK: %[[MID:.*]] = graph.add %[[H]], %[[DA]]
    %a = graph.reshape %o : (tensor<2x5x2x4xf32>) -> tensor<2x5x8xf32>
    %m = graph.add %h, %a : (tensor<2x5x8xf32>, tensor<2x5x8xf32>) -> tensor<2x5x8xf32>
    %n = graph.matmul "bsd,de->bse" %m, %w : (tensor<2x5x8xf32>, tensor<8x8xf32>) -> tensor<2x5x8xf32>
    // CHECK: %[[R:.*]] = graph.relu
    %r = graph.relu %n : (tensor<2x5x8xf32>) -> tensor<2x5x8xf32>
    // CHECK: %[[DR:.*]] = graph.dropout %[[R]], %{{.*}}, %[[LAYER]], %{{.*}}, %{{.*}} {place = 2 : i64, rate = 7.500000e-01 : f64}
    // CHECK: graph.add %[[DR]], %[[MID]]
    %e = graph.add %r, %m : (tensor<2x5x8xf32>, tensor<2x5x8xf32>) -> tensor<2x5x8xf32>
    graph.yield %e : tensor<2x5x8xf32>
  }
  return %1 : tensor<2x5x8xf32>
}

// -----

// Branches side by side are dropped each, before they are added to each other; a bias is part of its
// branch. Attention that is written out is dropped behind its softmax.

graph.source @t : tensor<11x8xf32> {init = #graph.init_kind<zeros>}
graph.state @table : tensor<11x8xf32> parameter views [#graph.view<@t, 0, [8, 1]>]

// CHECK-LABEL: func.func @forward(
// ONE-LABEL: func.func @forward(
func.func @forward(%ids: tensor<2x5xi64> {graph.input = "ids"}, %t: tensor<11x8xf32> {graph.state = @table},
                   %w: tensor<8x8xf32>, %b: tensor<8xf32>) -> tensor<2x5x8xf32> {
  %x = graph.gather %t, %ids : (tensor<11x8xf32>, tensor<2x5xi64>) -> tensor<2x5x8xf32>
  // CHECK: %[[X:.*]] = graph.dropout {{.*}}{place = 0 : i64, rate = 2.500000e-01 : f64}
  %q = graph.matmul "bsd,de->bse" %x, %w : (tensor<2x5x8xf32>, tensor<8x8xf32>) -> tensor<2x5x8xf32>
  %s = graph.reshape %q : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %z = graph.matmul "bshd,bthd->bhst" %s, %s : (tensor<2x5x2x4xf32>, tensor<2x5x2x4xf32>) -> tensor<2x2x5x5xf32>
  // CHECK: %[[SOFT:.*]] = graph.softmax
  // CHECK: %[[P:.*]] = graph.dropout %[[SOFT]], {{.*}}{place = 1 : i64, rate = 1.250000e-01 : f64} : (tensor<2x2x5x5xf32>, tensor<2x1x1x1xi64>, tensor<i64>, tensor<5x1xi64>, tensor<2x1x5xi64>)
  // CHECK: graph.matmul "bhst,bthd->bshd" %[[P]]
  %p = graph.softmax %z : (tensor<2x2x5x5xf32>) -> tensor<2x2x5x5xf32>
  %o = graph.matmul "bhst,bthd->bshd" %p, %s : (tensor<2x2x5x5xf32>, tensor<2x5x2x4xf32>) -> tensor<2x5x2x4xf32>
  // CHECK: %[[A:.*]] = graph.dropout {{.*}}{place = 2 : i64, rate = 5.000000e-01 : f64}
  %a = graph.reshape %o : (tensor<2x5x2x4xf32>) -> tensor<2x5x8xf32>
  %m = graph.matmul "bsd,de->bse" %x, %w : (tensor<2x5x8xf32>, tensor<8x8xf32>) -> tensor<2x5x8xf32>
  // CHECK: %[[BIAS:.*]] = graph.add %{{.*}}, %{{.*}} : (tensor<2x5x8xf32>, tensor<8xf32>)
  // CHECK: %[[M:.*]] = graph.dropout %[[BIAS]], {{.*}}{place = 3 : i64, rate = 7.500000e-01 : f64}
  %n = graph.add %m, %b : (tensor<2x5x8xf32>, tensor<8xf32>) -> tensor<2x5x8xf32>
  // CHECK: %[[BOTH:.*]] = graph.add %[[A]], %[[M]]
  // CHECK: graph.add %[[BOTH]], %[[X]]
  %both = graph.add %a, %n : (tensor<2x5x8xf32>, tensor<2x5x8xf32>) -> tensor<2x5x8xf32>
  %e = graph.add %both, %x : (tensor<2x5x8xf32>, tensor<2x5x8xf32>) -> tensor<2x5x8xf32>
  return %e : tensor<2x5x8xf32>
}
