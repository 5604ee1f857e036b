// RUN: llmc-opt %s | llmc-opt | FileCheck %s
// RUN: llmc-opt %s -mlir-print-op-generic | llmc-opt | FileCheck %s

// CHECK: graph.source @h.0.attn.c_attn.weight : tensor<4x12xf32>
// CHECK-SAME: aliases = ["other.name"], file = 0 : i64, file_offset = 1024 : i64, init = #graph.init_kind<normal>, init_std = 2.000000e-02 : f64
graph.source @"h.0.attn.c_attn.weight" : tensor<4x12xf32>
    {aliases = ["other.name"], file = 0, file_offset = 1024, init = #graph.init_kind<normal>, init_std = 2.0e-2}
// CHECK: graph.source @h.1.attn.c_attn.weight : tensor<4x12xf32>
graph.source @"h.1.attn.c_attn.weight" : tensor<4x12xf32> {init = #graph.init_kind<zeros>}
// CHECK: graph.source @scalar : tensor<f32>
graph.source @scalar : tensor<f32> {init = #graph.init_kind<ones>}

// CHECK: graph.state @attn_k : tensor<2x4x4xf32> parameter stacked
// CHECK-SAME: views [#graph.view<@h.0.attn.c_attn.weight, 4, [12, 1]>, #graph.view<@h.1.attn.c_attn.weight, 4, [12, 1]>]
graph.state @attn_k : tensor<2x4x4xf32> parameter stacked
    views [#graph.view<@"h.0.attn.c_attn.weight", 4, [12, 1]>, #graph.view<@"h.1.attn.c_attn.weight", 4, [12, 1]>]
// CHECK: graph.state @attn_k.m : tensor<2x4x4xf32> moment1 of @attn_k
graph.state @attn_k.m : tensor<2x4x4xf32> moment1 of @attn_k
// CHECK: graph.state @s : tensor<f32> parameter views [#graph.view<@scalar, 0, []>]
graph.state @s : tensor<f32> parameter views [#graph.view<@scalar, 0, []>]
// A tensor for each expert, of each layer or of the model.
graph.source @experts : tensor<24xf32> {init = #graph.init_kind<ones>}
// CHECK: graph.state @moe : tensor<2x2x3xf32> parameter stacked views [#graph.view<@experts, 0, [1]>, #graph.view<@experts, 3, [1]>, #graph.view<@experts, 6, [1]>, #graph.view<@experts, 9, [1]>]
graph.state @moe : tensor<2x2x3xf32> parameter stacked views [#graph.view<@experts, 0, [1]>, #graph.view<@experts, 3, [1]>, #graph.view<@experts, 6, [1]>, #graph.view<@experts, 9, [1]>]
// CHECK: graph.state @single : tensor<2x3xf32> parameter views [#graph.view<@experts, 12, [1]>, #graph.view<@experts, 18, [1]>]
graph.state @single : tensor<2x3xf32> parameter views [#graph.view<@experts, 12, [1]>, #graph.view<@experts, 18, [1]>]
// CHECK: graph.state @padded : tensor<6x12xf32> parameter views [{{.*}}] {valid_shape = [4, 12]}
graph.state @padded : tensor<6x12xf32> parameter views [#graph.view<@"h.0.attn.c_attn.weight", 0, [12, 1]>] {valid_shape = [4, 12]}

// CHECK-LABEL: func.func @repeat
func.func @repeat(%h0: tensor<2x4xf32>, %w: tensor<3x4x4xf32>, %b: tensor<4xf32>) -> (tensor<2x4xf32>, tensor<3x2x4xf32>) {
  // CHECK: graph.repeat 3 carried(%{{.*}} : tensor<2x4xf32>) stacked(%{{.*}} : tensor<3x4x4xf32>) captured(%{{.*}} : tensor<4xf32>) -> tensor<2x4xf32> stacking tensor<3x2x4xf32> {
  // CHECK-NEXT: ^bb0(%[[X:.*]]: tensor<2x4xf32>, %[[W:.*]]: tensor<4x4xf32>, %[[B:.*]]: tensor<4xf32>):
  %h, %r = graph.repeat 3 carried(%h0 : tensor<2x4xf32>) stacked(%w : tensor<3x4x4xf32>) captured(%b : tensor<4xf32>)
      -> tensor<2x4xf32> stacking tensor<3x2x4xf32> {
  ^bb0(%x: tensor<2x4xf32>, %wi: tensor<4x4xf32>, %bi: tensor<4xf32>):
    // CHECK: graph.matmul "sd,de->se" %[[X]], %[[W]] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %y = graph.matmul "sd,de->se" %x, %wi : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %z = graph.add %y, %bi : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
    // CHECK: graph.yield %{{.*}}, %[[X]] : tensor<2x4xf32>, tensor<2x4xf32>
    graph.yield %z, %x : tensor<2x4xf32>, tensor<2x4xf32>
  }
  // CHECK: graph.repeat 3 reverse carried() stacked(%{{.*}} : tensor<3x2x4xf32>) captured() {
  graph.repeat 3 reverse carried() stacked(%r : tensor<3x2x4xf32>) captured() {
  ^bb0(%x: tensor<2x4xf32>):
    // CHECK: graph.yield
    graph.yield
  }
  return %h, %r : tensor<2x4xf32>, tensor<3x2x4xf32>
}

// CHECK-LABEL: func.func @elementwise
func.func @elementwise(%x: tensor<2x4xf32>, %y: tensor<4xf32>, %c: tensor<2x1xi1>) {
  // CHECK: graph.add %{{.*}}, %{{.*}} : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  %0 = graph.add %x, %y : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  // CHECK: graph.sub
  %1 = graph.sub %x, %y : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  // CHECK: graph.mul
  %2 = graph.mul %x, %y : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  // CHECK: graph.div
  %3 = graph.div %x, %y : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  // CHECK: graph.maximum
  %4 = graph.maximum %x, %y : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  // CHECK: graph.minimum
  %5 = graph.minimum %x, %y : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  // CHECK: graph.rem
  %rem = graph.rem %x, %y : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  // CHECK: graph.power %{{.*}}, %{{.*}} : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  %power = graph.power %x, %y : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  // CHECK: graph.abs %{{.*}} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %abs = graph.abs %x : (tensor<2x4xf32>) -> tensor<2x4xf32>
  // CHECK: graph.sign %{{.*}} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %sign = graph.sign %x : (tensor<2x4xf32>) -> tensor<2x4xf32>
  // CHECK: graph.floor %{{.*}} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %floor = graph.floor %x : (tensor<2x4xf32>) -> tensor<2x4xf32>
  // CHECK: graph.ceil %{{.*}} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %ceil = graph.ceil %x : (tensor<2x4xf32>) -> tensor<2x4xf32>
  // CHECK: graph.round %{{.*}} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %round = graph.round %x : (tensor<2x4xf32>) -> tensor<2x4xf32>
  // CHECK: graph.sin %{{.*}} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %sin = graph.sin %x : (tensor<2x4xf32>) -> tensor<2x4xf32>
  // CHECK: graph.cos %{{.*}} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %cos = graph.cos %x : (tensor<2x4xf32>) -> tensor<2x4xf32>
  // CHECK: graph.neg %{{.*}} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %6 = graph.neg %x : (tensor<2x4xf32>) -> tensor<2x4xf32>
  // CHECK: graph.exp
  %7 = graph.exp %x : (tensor<2x4xf32>) -> tensor<2x4xf32>
  // CHECK: graph.log
  %8 = graph.log %x : (tensor<2x4xf32>) -> tensor<2x4xf32>
  // CHECK: graph.sqrt
  %9 = graph.sqrt %x : (tensor<2x4xf32>) -> tensor<2x4xf32>
  // CHECK: graph.rsqrt
  %10 = graph.rsqrt %x : (tensor<2x4xf32>) -> tensor<2x4xf32>
  // CHECK: graph.tanh
  %11 = graph.tanh %x : (tensor<2x4xf32>) -> tensor<2x4xf32>
  // CHECK: graph.erf
  %12 = graph.erf %x : (tensor<2x4xf32>) -> tensor<2x4xf32>
  // CHECK: graph.sigmoid
  %13 = graph.sigmoid %x : (tensor<2x4xf32>) -> tensor<2x4xf32>
  // CHECK: graph.softplus
  %softplus = graph.softplus %x : (tensor<2x4xf32>) -> tensor<2x4xf32>
  // CHECK: graph.relu
  %14 = graph.relu %x : (tensor<2x4xf32>) -> tensor<2x4xf32>
  // CHECK: graph.pow %{{.*}} {exponent = 2.000000e+00 : f64}
  %15 = graph.pow %x {exponent = 2.0} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  // CHECK: graph.gelu %{{.*}} {form = #graph.gelu_form<tanh>}
  %16 = graph.gelu %x {form = #graph.gelu_form<tanh>} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  // CHECK: graph.gelu_grad %{{.*}}, %{{.*}} {form = #graph.gelu_form<erf>}
  %17 = graph.gelu_grad %x, %x {form = #graph.gelu_form<erf>} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  // CHECK: graph.compare %{{.*}}, %{{.*}} {predicate = #graph.predicate<lt>} : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xi1>
  %18 = graph.compare %x, %y {predicate = #graph.predicate<lt>} : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xi1>
  // CHECK: graph.and
  %19 = graph.and %18, %c : (tensor<2x4xi1>, tensor<2x1xi1>) -> tensor<2x4xi1>
  // CHECK: graph.or
  %20 = graph.or %18, %c : (tensor<2x4xi1>, tensor<2x1xi1>) -> tensor<2x4xi1>
  // CHECK: graph.not
  %21 = graph.not %18 : (tensor<2x4xi1>) -> tensor<2x4xi1>
  // CHECK: graph.select %{{.*}}, %{{.*}}, %{{.*}} : (tensor<2x1xi1>, tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  %22 = graph.select %c, %x, %y : (tensor<2x1xi1>, tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  // CHECK: graph.cast %{{.*}} : (tensor<2x4xf32>) -> tensor<2x4xbf16>
  %23 = graph.cast %x : (tensor<2x4xf32>) -> tensor<2x4xbf16>
  return
}

// CHECK-LABEL: func.func @movement
func.func @movement(%x: tensor<2x4xf32>, %o: tensor<i64>) {
  // CHECK: graph.constant dense<1.000000e+00> : tensor<3xf32>{{$}}
  %0 = graph.constant dense<1.0> : tensor<3xf32>
  // CHECK: graph.iota {dim = 1 : i64} : () -> tensor<2x3xi64>
  %1 = graph.iota {dim = 1} : () -> tensor<2x3xi64>
  // CHECK: graph.iota %{{.*}} {dim = 0 : i64} : (tensor<i64>) -> tensor<3xi64>
  %2 = graph.iota %o {dim = 0} : (tensor<i64>) -> tensor<3xi64>
  // CHECK: graph.reshape %{{.*}} : (tensor<2x4xf32>) -> tensor<8xf32>
  %3 = graph.reshape %x : (tensor<2x4xf32>) -> tensor<8xf32>
  // CHECK: graph.transpose %{{.*}} {permutation = array<i64: 1, 0>}
  %4 = graph.transpose %x {permutation = array<i64: 1, 0>} : (tensor<2x4xf32>) -> tensor<4x2xf32>
  // CHECK: graph.broadcast %{{.*}} : (tensor<2x4xf32>) -> tensor<3x2x4xf32>
  %5 = graph.broadcast %x : (tensor<2x4xf32>) -> tensor<3x2x4xf32>
  // CHECK: graph.slice %{{.*}} {limits = array<i64: 2, 4>, starts = array<i64: 0, 1>, steps = array<i64: 1, 2>}
  %6 = graph.slice %x {starts = array<i64: 0, 1>, limits = array<i64: 2, 4>, steps = array<i64: 1, 2>} : (tensor<2x4xf32>) -> tensor<2x2xf32>
  // CHECK: graph.pad %{{.*}} {high = array<i64: 0, 2>, interior = array<i64: 1, 0>, low = array<i64: 1, 0>}
  %7 = graph.pad %x {low = array<i64: 1, 0>, high = array<i64: 0, 2>, interior = array<i64: 1, 0>} : (tensor<2x4xf32>) -> tensor<4x6xf32>
  // CHECK: graph.concat %{{.*}}, %{{.*}} {dim = 0 : i64}
  %8 = graph.concat %x, %x {dim = 0} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
  return
}

// CHECK-LABEL: func.func @index
func.func @index(%t: tensor<5x4xf32>, %ids: tensor<2xi64>, %x: tensor<2x4xf32>, %v: tensor<2xf32>, %o: tensor<i64>) {
  // CHECK: graph.gather %{{.*}}, %{{.*}}, %{{.*}} : (tensor<5x4xf32>, tensor<2xi64>, tensor<i64>) -> tensor<2x4xf32>
  %0 = graph.gather %t, %ids, %o : (tensor<5x4xf32>, tensor<2xi64>, tensor<i64>) -> tensor<2x4xf32>
  // CHECK: graph.gather %{{.*}}, %{{.*}} : (tensor<5x4xf32>, tensor<2xi64>) -> tensor<2x4xf32>
  %1 = graph.gather %t, %ids : (tensor<5x4xf32>, tensor<2xi64>) -> tensor<2x4xf32>
  // CHECK: graph.scatter_add
  %2 = graph.scatter_add %ids, %x : (tensor<2xi64>, tensor<2x4xf32>) -> tensor<5x4xf32>
  // CHECK: graph.take_along
  %3 = graph.take_along %x, %ids : (tensor<2x4xf32>, tensor<2xi64>) -> tensor<2xf32>
  // CHECK: graph.one_hot
  %4 = graph.one_hot %ids, %v : (tensor<2xi64>, tensor<2xf32>) -> tensor<2x4xf32>
  // CHECK: graph.mask_tail %{{.*}}, %{{.*}} {dim = 1 : i64, valid = 3 : i64, value = 0xFFF0000000000000 : f64}
  %5 = graph.mask_tail %x, %o {dim = 1, valid = 3, value = 0xFFF0000000000000 : f64} : (tensor<2x4xf32>, tensor<i64>) -> tensor<2x4xf32>
  return
}

// CHECK-LABEL: func.func @random
func.func @random(%x: tensor<2x3x4xf32>, %key: tensor<2x1x1xi64>, %l: tensor<i64>, %p: tensor<3x1xi64>, %e: tensor<4xi64>,
                  %q: tensor<1x3x4x2xf32>, %m: tensor<1x1x1x3xi1>, %k: tensor<1xi64>, %i: tensor<3xi64>) {
  // CHECK: graph.dropout %{{.*}} {place = 2 : i64, rate = 1.000000e-01 : f64}
  %0 = graph.dropout %x, %key, %l, %p, %e {rate = 0.1, place = 2} : (tensor<2x3x4xf32>, tensor<2x1x1xi64>, tensor<i64>, tensor<3x1xi64>, tensor<4xi64>) -> tensor<2x3x4xf32>
  // CHECK: graph.attention %{{.*}} {causal = false, dropout = 1.000000e-01 : f64, place = 1 : i64, scale = 1.000000e+00 : f64}
  %1, %2 = graph.attention %q, %q, %q, %m, %k, %l, %i, %e, %i {scale = 1.0, causal = false, dropout = 0.1, place = 1} : (tensor<1x3x4x2xf32>, tensor<1x3x4x2xf32>, tensor<1x3x4x2xf32>, tensor<1x1x1x3xi1>, tensor<1xi64>, tensor<i64>, tensor<3xi64>, tensor<4xi64>, tensor<3xi64>) -> (tensor<1x3x4x2xf32>, tensor<1x3x4xf32>)
  return
}

// CHECK-LABEL: func.func @rows
func.func @rows(%x: tensor<2x4xf32>, %w: tensor<4xf32>) {
  // CHECK: graph.reduce %{{.*}} {dims = array<i64: 1>, kind = #graph.reduce_kind<max>}
  %0 = graph.reduce %x {kind = #graph.reduce_kind<max>, dims = array<i64: 1>} : (tensor<2x4xf32>) -> tensor<2xf32>
  // CHECK: graph.softmax
  %1 = graph.softmax %x : (tensor<2x4xf32>) -> tensor<2x4xf32>
  // CHECK: graph.softmax_grad
  %2 = graph.softmax_grad %1, %x : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  // CHECK: graph.layer_norm %{{.*}}, %{{.*}}, %{{.*}} {eps = {{.*}} : f64}
  %y, %m, %r = graph.layer_norm %x, %w, %w {eps = 1.0e-5} : (tensor<2x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<2x4xf32>, tensor<2xf32>, tensor<2xf32>)
  // CHECK: graph.layer_norm_grad
  %3 = graph.layer_norm_grad %y, %x, %w, %m, %r : (tensor<2x4xf32>, tensor<2x4xf32>, tensor<4xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<2x4xf32>
  // CHECK: graph.layer_norm_grad_scale
  %4 = graph.layer_norm_grad_scale %y, %x, %m, %r : (tensor<2x4xf32>, tensor<2x4xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<4xf32>
  return
}

// CHECK-LABEL: func.func @attention
func.func @attention(%q: tensor<1x3x4x2xf32>, %k: tensor<1x3x2x2xf32>) {
  // CHECK: graph.attention %{{.*}}, %{{.*}}, %{{.*}} {causal = true, scale = {{.*}} : f64}
  %o, %l = graph.attention %q, %k, %k {scale = 0.5, causal = true} : (tensor<1x3x4x2xf32>, tensor<1x3x2x2xf32>, tensor<1x3x2x2xf32>) -> (tensor<1x3x4x2xf32>, tensor<1x3x4xf32>)
  // CHECK: graph.attention_grad
  %dq, %dk, %dv = graph.attention_grad %o, %q, %k, %k, %o, %l {scale = 0.5, causal = true}
      : (tensor<1x3x4x2xf32>, tensor<1x3x4x2xf32>, tensor<1x3x2x2xf32>, tensor<1x3x2x2xf32>, tensor<1x3x4x2xf32>, tensor<1x3x4xf32>) -> (tensor<1x3x4x2xf32>, tensor<1x3x2x2xf32>, tensor<1x3x2x2xf32>)
  return
}

// CHECK-LABEL: func.func @masked_attention
func.func @masked_attention(%q: tensor<1x3x4x2xf32>, %k: tensor<1x5x2x2xf32>, %m: tensor<1x1x3x5xi1>) {
  // CHECK: graph.attention %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} {causal = true, offset = 2 : i64, scale = {{.*}} : f64, softcap = {{.*}} : f64, window = 4 : i64}
  %o, %l = graph.attention %q, %k, %k, %m {scale = 0.5, causal = true, offset = 2, window = 4, softcap = 50.0} : (tensor<1x3x4x2xf32>, tensor<1x5x2x2xf32>, tensor<1x5x2x2xf32>, tensor<1x1x3x5xi1>) -> (tensor<1x3x4x2xf32>, tensor<1x3x4xf32>)
  // CHECK: graph.attention_grad %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} {causal = true, offset = 2 : i64, scale = {{.*}} : f64, window = 4 : i64}
  %dq, %dk, %dv = graph.attention_grad %o, %q, %k, %k, %o, %l, %m {scale = 0.5, causal = true, offset = 2, window = 4}
      : (tensor<1x3x4x2xf32>, tensor<1x3x4x2xf32>, tensor<1x5x2x2xf32>, tensor<1x5x2x2xf32>, tensor<1x3x4x2xf32>, tensor<1x3x4xf32>, tensor<1x1x3x5xi1>) -> (tensor<1x3x4x2xf32>, tensor<1x5x2x2xf32>, tensor<1x5x2x2xf32>)
  return
}

// CHECK-LABEL: func.func @decoder
func.func @decoder(%x: tensor<1x3x4x2xf32>, %w: tensor<2xf32>, %c: tensor<1x3x1xf32>) {
  // CHECK: graph.rms_norm %{{.*}}, %{{.*}} {eps = {{.*}} : f64}
  %y, %r = graph.rms_norm %x, %w {eps = 1.0e-6} : (tensor<1x3x4x2xf32>, tensor<2xf32>) -> (tensor<1x3x4x2xf32>, tensor<1x3x4xf32>)
  // CHECK: graph.rms_norm_grad
  %0 = graph.rms_norm_grad %y, %x, %w, %r : (tensor<1x3x4x2xf32>, tensor<1x3x4x2xf32>, tensor<2xf32>, tensor<1x3x4xf32>) -> tensor<1x3x4x2xf32>
  // CHECK: graph.rms_norm_grad_scale
  %1 = graph.rms_norm_grad_scale %y, %x, %r : (tensor<1x3x4x2xf32>, tensor<1x3x4x2xf32>, tensor<1x3x4xf32>) -> tensor<2xf32>
  // CHECK: graph.rotary %{{.*}}, %{{.*}}, %{{.*}} {interleaved, inverse}
  %2 = graph.rotary %x, %c, %c {interleaved, inverse} : (tensor<1x3x4x2xf32>, tensor<1x3x1xf32>, tensor<1x3x1xf32>) -> tensor<1x3x4x2xf32>
  // CHECK: graph.cumsum %{{.*}} {dim = 1 : i64, exclusive, reverse}
  %3 = graph.cumsum %x {dim = 1, exclusive, reverse} : (tensor<1x3x4x2xf32>) -> tensor<1x3x4x2xf32>
  return
}

// CHECK-LABEL: func.func @routed
func.func @routed(%s: tensor<2x3x8xf32>, %b: tensor<8xf32>, %x: tensor<2x4xf32>, %w: tensor<5x4x3xf32>, %t: tensor<5x3x4xf32>, %r: tensor<2x2xi64>, %ids: tensor<2x3x2xi64>, %o: tensor<i64>) {
  // CHECK: graph.route %{{.*}} {groups = 4 : i64, kept_groups = 2 : i64, mixture} : (tensor<2x3x8xf32>) -> tensor<2x3x2xi64>
  %0 = graph.route %s {kept_groups = 2, groups = 4, group_terms = 1, mixture} : (tensor<2x3x8xf32>) -> tensor<2x3x2xi64>
  // CHECK: graph.route %{{.*}}, %{{.*}} : (tensor<2x3x8xf32>, tensor<8xf32>) -> tensor<2x3x2xi64>
  %1 = graph.route %s, %b : (tensor<2x3x8xf32>, tensor<8xf32>) -> tensor<2x3x2xi64>
  // CHECK: graph.limit_routes %{{.*}} {capacity = 2 : i64, experts = 4 : i64} : (tensor<2x3x2xi64>) -> tensor<2x3x2xi64>
  %2 = graph.limit_routes %ids {capacity = 2, experts = 4} : (tensor<2x3x2xi64>) -> tensor<2x3x2xi64>
  // CHECK: graph.grouped_matmul %{{.*}}, %{{.*}}, %{{.*}} : (tensor<2x4xf32>, tensor<5x4x3xf32>, tensor<2x2xi64>) -> tensor<2x2x3xf32>
  %y = graph.grouped_matmul %x, %w, %r : (tensor<2x4xf32>, tensor<5x4x3xf32>, tensor<2x2xi64>) -> tensor<2x2x3xf32>
  // CHECK: graph.grouped_matmul %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} {transposed} : (tensor<2x4xf32>, tensor<5x3x4xf32>, tensor<2x2xi64>, tensor<i64>) -> tensor<2x2x3xf32>
  %3 = graph.grouped_matmul %x, %t, %r, %o {transposed} : (tensor<2x4xf32>, tensor<5x3x4xf32>, tensor<2x2xi64>, tensor<i64>) -> tensor<2x2x3xf32>
  // CHECK: graph.grouped_outer %{{.*}}, %{{.*}}, %{{.*}} : (tensor<2x4xf32>, tensor<2x2x3xf32>, tensor<2x2xi64>) -> tensor<5x4x3xf32>
  %4 = graph.grouped_outer %x, %y, %r : (tensor<2x4xf32>, tensor<2x2x3xf32>, tensor<2x2xi64>) -> tensor<5x4x3xf32>
  // CHECK: graph.grouped_outer %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} : (tensor<2x4xf32>, tensor<2x2x3xf32>, tensor<2x2xi64>, tensor<i64>) -> tensor<5x4x3xf32>
  %5 = graph.grouped_outer %x, %y, %r, %o : (tensor<2x4xf32>, tensor<2x2x3xf32>, tensor<2x2xi64>, tensor<i64>) -> tensor<5x4x3xf32>
  return
}

// CHECK-LABEL: func.func @exchange
func.func @exchange(%ids: tensor<2x3x2xi64>, %r: tensor<3x2xi64>, %slots: tensor<3x3xi64>, %x: tensor<3x4xf32>, %y: tensor<3x3x4xf32>) {
  // CHECK: graph.exchange_routes %{{.*}} {experts = 8 : i64} : (tensor<2x3x2xi64>) -> (tensor<2x3x4xi64>, tensor<2x3x4xi64>, tensor<2x3xf32>)
  %0, %1, %2 = graph.exchange_routes %ids {experts = 8} : (tensor<2x3x2xi64>) -> (tensor<2x3x4xi64>, tensor<2x3x4xi64>, tensor<2x3xf32>)
  // CHECK: graph.dispatch %{{.*}}, %{{.*}}, %{{.*}} {experts = 8 : i64} : (tensor<3x4xf32>, tensor<3x2xi64>, tensor<3x3xi64>) -> tensor<3x3x4xf32>
  %3 = graph.dispatch %x, %r, %slots {experts = 8} : (tensor<3x4xf32>, tensor<3x2xi64>, tensor<3x3xi64>) -> tensor<3x3x4xf32>
  // CHECK: graph.collect %{{.*}}, %{{.*}}, %{{.*}} {experts = 8 : i64} : (tensor<3x3x4xf32>, tensor<3x2xi64>, tensor<3x3xi64>) -> tensor<3x2x4xf32>
  %4 = graph.collect %y, %r, %slots {experts = 8} : (tensor<3x3x4xf32>, tensor<3x2xi64>, tensor<3x3xi64>) -> tensor<3x2x4xf32>
  // CHECK: graph.sort_routes %{{.*}} {experts = 8 : i64} : (tensor<2x3x2xi64>) -> (tensor<2x3x2xi64>, tensor<2x3x2xi64>, tensor<4xi64>)
  %p, %q, %n = graph.sort_routes %ids {experts = 8} : (tensor<2x3x2xi64>) -> (tensor<2x3x2xi64>, tensor<2x3x2xi64>, tensor<4xi64>)
  // CHECK: graph.arrived_routes %{{.*}}, %{{.*}} : (tensor<2x3x4xi64>, tensor<4xi64>) -> (tensor<2x3x4xi64>, tensor<2x3x4xi64>, tensor<2x3xf32>)
  %5, %6, %7 = graph.arrived_routes %0, %n : (tensor<2x3x4xi64>, tensor<4xi64>) -> (tensor<2x3x4xi64>, tensor<2x3x4xi64>, tensor<2x3xf32>)
  // CHECK: graph.count_sources %{{.*}} : (tensor<2x3x4xi64>) -> tensor<4xi64>
  %8 = graph.count_sources %6 : (tensor<2x3x4xi64>) -> tensor<4xi64>
  // CHECK: graph.pack_rows %{{.*}}, %{{.*}} : (tensor<3x4xf32>, tensor<3x2xi64>) -> tensor<3x2x4xf32>
  %9 = graph.pack_rows %x, %r : (tensor<3x4xf32>, tensor<3x2xi64>) -> tensor<3x2x4xf32>
  // CHECK: graph.unpack_rows %{{.*}}, %{{.*}} : (tensor<3x2x4xf32>, tensor<3x2xi64>) -> tensor<3x2x4xf32>
  %10 = graph.unpack_rows %9, %r : (tensor<3x2x4xf32>, tensor<3x2xi64>) -> tensor<3x2x4xf32>
  return
}

// CHECK-LABEL: func.func @adamw
func.func @adamw(%p: tensor<4xf32>, %s: tensor<f32>) {
  // CHECK: graph.adamw {{.*}} {decay = true}
  %0, %1, %2 = graph.adamw %p, %p, %p, %p, %s, %s, %s, %s, %s, %s, %s {decay = true}
      : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
  return
}

// CHECK: func.func @loaded(%{{.*}}: tensor<2x4xi64> {graph.input = "p", graph.loader = #graph.loader<default_value = positions, permuted_dim = 1, block_order = [1, 0]>}
func.func @loaded(%p: tensor<2x4xi64> {graph.input = "p", graph.loader = #graph.loader<default_value = positions, permuted_dim = 1, block_order = [1, 0]>},
                  // CHECK-SAME: graph.loader = #graph.loader<default_value = ones>
                  %m: tensor<2x4xi64> {graph.input = "m", graph.loader = #graph.loader<default_value = ones>}) {
  return
}
