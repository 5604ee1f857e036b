// A decoder in the form that phase 1 ends in, as a run that goes on from two past tokens:
// inputs that each layer has for itself, a mask, a scalar, a truth, one that is empty;
// outputs of every layer and of all together, of the embedding, an input, a constant,
// whole numbers. Five layers, two kv heads for four heads, a vocabulary that two ranks
// cannot share.
module attributes {graph.mode = "infer", graph.batch = 4 : i64, graph.model = {name = "decoder", source_path = "decoder.mlir", layers = 5 : i64, vocabulary = 21 : i64, sequence = 3 : i64}} {
  graph.source @"emb" : tensor<21x16xf32> {init = #graph.init_kind<normal>, init_std = 3.0e-1 : f64}
  graph.source @"head" : tensor<16x21xf32> {init = #graph.init_kind<normal>, init_std = 3.0e-1 : f64}
  graph.source @"norm" : tensor<16xf32> {init = #graph.init_kind<ones>}
  graph.source @"pos" : tensor<8x16xf32> {init = #graph.init_kind<normal>, init_std = 3.0e-1 : f64}
  graph.source @"l0.q" : tensor<16x16xf32> {init = #graph.init_kind<normal>, init_std = 3.0e-1 : f64}
  graph.source @"l0.k" : tensor<16x8xf32> {init = #graph.init_kind<normal>, init_std = 3.0e-1 : f64}
  graph.source @"l0.v" : tensor<16x8xf32> {init = #graph.init_kind<normal>, init_std = 3.0e-1 : f64}
  graph.source @"l0.o" : tensor<16x16xf32> {init = #graph.init_kind<normal>, init_std = 3.0e-1 : f64}
  graph.source @"l0.up" : tensor<16x12xf32> {init = #graph.init_kind<normal>, init_std = 3.0e-1 : f64}
  graph.source @"l0.down" : tensor<12x16xf32> {init = #graph.init_kind<normal>, init_std = 3.0e-1 : f64}
  graph.source @"l0.n1" : tensor<16xf32> {init = #graph.init_kind<ones>}
  graph.source @"l0.n2" : tensor<16xf32> {init = #graph.init_kind<ones>}
  graph.source @"l1.q" : tensor<16x16xf32> {init = #graph.init_kind<normal>, init_std = 3.0e-1 : f64}
  graph.source @"l1.k" : tensor<16x8xf32> {init = #graph.init_kind<normal>, init_std = 3.0e-1 : f64}
  graph.source @"l1.v" : tensor<16x8xf32> {init = #graph.init_kind<normal>, init_std = 3.0e-1 : f64}
  graph.source @"l1.o" : tensor<16x16xf32> {init = #graph.init_kind<normal>, init_std = 3.0e-1 : f64}
  graph.source @"l1.up" : tensor<16x12xf32> {init = #graph.init_kind<normal>, init_std = 3.0e-1 : f64}
  graph.source @"l1.down" : tensor<12x16xf32> {init = #graph.init_kind<normal>, init_std = 3.0e-1 : f64}
  graph.source @"l1.n1" : tensor<16xf32> {init = #graph.init_kind<ones>}
  graph.source @"l1.n2" : tensor<16xf32> {init = #graph.init_kind<ones>}
  graph.source @"l2.q" : tensor<16x16xf32> {init = #graph.init_kind<normal>, init_std = 3.0e-1 : f64}
  graph.source @"l2.k" : tensor<16x8xf32> {init = #graph.init_kind<normal>, init_std = 3.0e-1 : f64}
  graph.source @"l2.v" : tensor<16x8xf32> {init = #graph.init_kind<normal>, init_std = 3.0e-1 : f64}
  graph.source @"l2.o" : tensor<16x16xf32> {init = #graph.init_kind<normal>, init_std = 3.0e-1 : f64}
  graph.source @"l2.up" : tensor<16x12xf32> {init = #graph.init_kind<normal>, init_std = 3.0e-1 : f64}
  graph.source @"l2.down" : tensor<12x16xf32> {init = #graph.init_kind<normal>, init_std = 3.0e-1 : f64}
  graph.source @"l2.n1" : tensor<16xf32> {init = #graph.init_kind<ones>}
  graph.source @"l2.n2" : tensor<16xf32> {init = #graph.init_kind<ones>}
  graph.source @"l3.q" : tensor<16x16xf32> {init = #graph.init_kind<normal>, init_std = 3.0e-1 : f64}
  graph.source @"l3.k" : tensor<16x8xf32> {init = #graph.init_kind<normal>, init_std = 3.0e-1 : f64}
  graph.source @"l3.v" : tensor<16x8xf32> {init = #graph.init_kind<normal>, init_std = 3.0e-1 : f64}
  graph.source @"l3.o" : tensor<16x16xf32> {init = #graph.init_kind<normal>, init_std = 3.0e-1 : f64}
  graph.source @"l3.up" : tensor<16x12xf32> {init = #graph.init_kind<normal>, init_std = 3.0e-1 : f64}
  graph.source @"l3.down" : tensor<12x16xf32> {init = #graph.init_kind<normal>, init_std = 3.0e-1 : f64}
  graph.source @"l3.n1" : tensor<16xf32> {init = #graph.init_kind<ones>}
  graph.source @"l3.n2" : tensor<16xf32> {init = #graph.init_kind<ones>}
  graph.source @"l4.q" : tensor<16x16xf32> {init = #graph.init_kind<normal>, init_std = 3.0e-1 : f64}
  graph.source @"l4.k" : tensor<16x8xf32> {init = #graph.init_kind<normal>, init_std = 3.0e-1 : f64}
  graph.source @"l4.v" : tensor<16x8xf32> {init = #graph.init_kind<normal>, init_std = 3.0e-1 : f64}
  graph.source @"l4.o" : tensor<16x16xf32> {init = #graph.init_kind<normal>, init_std = 3.0e-1 : f64}
  graph.source @"l4.up" : tensor<16x12xf32> {init = #graph.init_kind<normal>, init_std = 3.0e-1 : f64}
  graph.source @"l4.down" : tensor<12x16xf32> {init = #graph.init_kind<normal>, init_std = 3.0e-1 : f64}
  graph.source @"l4.n1" : tensor<16xf32> {init = #graph.init_kind<ones>}
  graph.source @"l4.n2" : tensor<16xf32> {init = #graph.init_kind<ones>}
  graph.state @s_emb : tensor<21x16xf32> parameter views [#graph.view<@"emb", 0, [16, 1]>]
  graph.state @s_pos : tensor<8x16xf32> parameter views [#graph.view<@"pos", 0, [16, 1]>]
  graph.state @s_q : tensor<5x16x16xf32> parameter stacked views [#graph.view<@"l0.q", 0, [16, 1]>, #graph.view<@"l1.q", 0, [16, 1]>, #graph.view<@"l2.q", 0, [16, 1]>, #graph.view<@"l3.q", 0, [16, 1]>, #graph.view<@"l4.q", 0, [16, 1]>]
  graph.state @s_k : tensor<5x16x8xf32> parameter stacked views [#graph.view<@"l0.k", 0, [8, 1]>, #graph.view<@"l1.k", 0, [8, 1]>, #graph.view<@"l2.k", 0, [8, 1]>, #graph.view<@"l3.k", 0, [8, 1]>, #graph.view<@"l4.k", 0, [8, 1]>]
  graph.state @s_v : tensor<5x16x8xf32> parameter stacked views [#graph.view<@"l0.v", 0, [8, 1]>, #graph.view<@"l1.v", 0, [8, 1]>, #graph.view<@"l2.v", 0, [8, 1]>, #graph.view<@"l3.v", 0, [8, 1]>, #graph.view<@"l4.v", 0, [8, 1]>]
  graph.state @s_o : tensor<5x16x16xf32> parameter stacked views [#graph.view<@"l0.o", 0, [16, 1]>, #graph.view<@"l1.o", 0, [16, 1]>, #graph.view<@"l2.o", 0, [16, 1]>, #graph.view<@"l3.o", 0, [16, 1]>, #graph.view<@"l4.o", 0, [16, 1]>]
  graph.state @s_up : tensor<5x16x12xf32> parameter stacked views [#graph.view<@"l0.up", 0, [12, 1]>, #graph.view<@"l1.up", 0, [12, 1]>, #graph.view<@"l2.up", 0, [12, 1]>, #graph.view<@"l3.up", 0, [12, 1]>, #graph.view<@"l4.up", 0, [12, 1]>]
  graph.state @s_down : tensor<5x12x16xf32> parameter stacked views [#graph.view<@"l0.down", 0, [16, 1]>, #graph.view<@"l1.down", 0, [16, 1]>, #graph.view<@"l2.down", 0, [16, 1]>, #graph.view<@"l3.down", 0, [16, 1]>, #graph.view<@"l4.down", 0, [16, 1]>]
  graph.state @s_n1 : tensor<5x16xf32> parameter stacked views [#graph.view<@"l0.n1", 0, [1]>, #graph.view<@"l1.n1", 0, [1]>, #graph.view<@"l2.n1", 0, [1]>, #graph.view<@"l3.n1", 0, [1]>, #graph.view<@"l4.n1", 0, [1]>]
  graph.state @s_n2 : tensor<5x16xf32> parameter stacked views [#graph.view<@"l0.n2", 0, [1]>, #graph.view<@"l1.n2", 0, [1]>, #graph.view<@"l2.n2", 0, [1]>, #graph.view<@"l3.n2", 0, [1]>, #graph.view<@"l4.n2", 0, [1]>]
  graph.state @s_norm : tensor<16xf32> parameter views [#graph.view<@"norm", 0, [1]>]
  graph.state @s_head : tensor<16x21xf32> parameter views [#graph.view<@"head", 0, [21, 1]>]
  func.func @forward(%ids: tensor<4x3xi64> {graph.input = "input_ids", graph.batched}, %mask: tensor<4x5xi64> {graph.input = "attention_mask", graph.batched}, %positions: tensor<1x3xi64> {graph.input = "position_ids"}, %flag: tensor<4xi1> {graph.input = "flag", graph.batched}, %scale: tensor<f32> {graph.input = "scale"}, %unused: tensor<4x2x0x4xf32> {graph.input = "empty", graph.batched}, %past_k0: tensor<4x2x2x4xf32> {graph.input = "past.0.k", graph.batched}, %past_v0: tensor<4x2x2x4xf32> {graph.input = "past.0.v", graph.batched}, %past_k1: tensor<4x2x2x4xf32> {graph.input = "past.1.k", graph.batched}, %past_v1: tensor<4x2x2x4xf32> {graph.input = "past.1.v", graph.batched}, %past_k2: tensor<4x2x2x4xf32> {graph.input = "past.2.k", graph.batched}, %past_v2: tensor<4x2x2x4xf32> {graph.input = "past.2.v", graph.batched}, %past_k3: tensor<4x2x2x4xf32> {graph.input = "past.3.k", graph.batched}, %past_v3: tensor<4x2x2x4xf32> {graph.input = "past.3.v", graph.batched}, %past_k4: tensor<4x2x2x4xf32> {graph.input = "past.4.k", graph.batched}, %past_v4: tensor<4x2x2x4xf32> {graph.input = "past.4.v", graph.batched}, %emb: tensor<21x16xf32> {graph.state = @s_emb}, %pos: tensor<8x16xf32> {graph.state = @s_pos}, %p_q: tensor<5x16x16xf32> {graph.state = @s_q}, %p_k: tensor<5x16x8xf32> {graph.state = @s_k}, %p_v: tensor<5x16x8xf32> {graph.state = @s_v}, %p_o: tensor<5x16x16xf32> {graph.state = @s_o}, %p_up: tensor<5x16x12xf32> {graph.state = @s_up}, %p_down: tensor<5x12x16xf32> {graph.state = @s_down}, %p_n1: tensor<5x16xf32> {graph.state = @s_n1}, %p_n2: tensor<5x16xf32> {graph.state = @s_n2}, %norm: tensor<16xf32> {graph.state = @s_norm}, %head: tensor<16x21xf32> {graph.state = @s_head}) -> (tensor<4x3x21xf32> {graph.output = "logits"}, tensor<4x2x5x4xf32> {graph.output = "present.0.k"}, tensor<4x2x5x4xf32> {graph.output = "present.0.v"}, tensor<4x2x5x4xf32> {graph.output = "present.1.k"}, tensor<4x2x5x4xf32> {graph.output = "present.1.v"}, tensor<4x2x5x4xf32> {graph.output = "present.2.k"}, tensor<4x2x5x4xf32> {graph.output = "present.2.v"}, tensor<4x2x5x4xf32> {graph.output = "present.3.k"}, tensor<4x2x5x4xf32> {graph.output = "present.3.v"}, tensor<4x2x5x4xf32> {graph.output = "present.4.k"}, tensor<4x2x5x4xf32> {graph.output = "present.4.v"}, tensor<4x3x16xf32> {graph.output = "hidden.0"}, tensor<4x3x16xf32> {graph.output = "hidden.1"}, tensor<4x3x16xf32> {graph.output = "hidden.2"}, tensor<4x3x16xf32> {graph.output = "hidden.3"}, tensor<4x3x16xf32> {graph.output = "hidden.4"}, tensor<5x4x3x16xf32> {graph.output = "all"}, tensor<4x3x16xf32> {graph.output = "embedded"}, tensor<4x3x16xf32> {graph.output = "hidden"}, tensor<4x3xi64> {graph.output = "input_ids_copy"}, tensor<3xi64> {graph.output = "constant"}, tensor<4x3xi1> {graph.output = "seen"}, tensor<f32> {graph.output = "scaled"}, tensor<4x3xi64> {graph.output = "best"}) {
    %e = graph.gather %emb, %ids : (tensor<21x16xf32>, tensor<4x3xi64>) -> tensor<4x3x16xf32>
    %pe = graph.gather %pos, %positions : (tensor<8x16xf32>, tensor<1x3xi64>) -> tensor<1x3x16xf32>
    %x1 = graph.add %e, %pe : (tensor<4x3x16xf32>, tensor<1x3x16xf32>) -> tensor<4x3x16xf32>
    %x0 = graph.mul %x1, %scale : (tensor<4x3x16xf32>, tensor<f32>) -> tensor<4x3x16xf32>
    %zero = graph.constant dense<0> : tensor<i64>
    %m1 = graph.compare %mask, %zero {predicate = #graph.predicate<gt>} : (tensor<4x5xi64>, tensor<i64>) -> tensor<4x5xi1>
    %m = graph.reshape %m1 : (tensor<4x5xi1>) -> tensor<4x1x1x5xi1>
    %pt_k0 = graph.transpose %past_k0 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<4x2x2x4xf32>) -> tensor<4x2x2x4xf32>
    %pr_k0 = graph.reshape %pt_k0 : (tensor<4x2x2x4xf32>) -> tensor<1x4x2x2x4xf32>
    %pt_k1 = graph.transpose %past_k1 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<4x2x2x4xf32>) -> tensor<4x2x2x4xf32>
    %pr_k1 = graph.reshape %pt_k1 : (tensor<4x2x2x4xf32>) -> tensor<1x4x2x2x4xf32>
    %pt_k2 = graph.transpose %past_k2 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<4x2x2x4xf32>) -> tensor<4x2x2x4xf32>
    %pr_k2 = graph.reshape %pt_k2 : (tensor<4x2x2x4xf32>) -> tensor<1x4x2x2x4xf32>
    %pt_k3 = graph.transpose %past_k3 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<4x2x2x4xf32>) -> tensor<4x2x2x4xf32>
    %pr_k3 = graph.reshape %pt_k3 : (tensor<4x2x2x4xf32>) -> tensor<1x4x2x2x4xf32>
    %pt_k4 = graph.transpose %past_k4 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<4x2x2x4xf32>) -> tensor<4x2x2x4xf32>
    %pr_k4 = graph.reshape %pt_k4 : (tensor<4x2x2x4xf32>) -> tensor<1x4x2x2x4xf32>
    %ps_k = graph.concat %pr_k0, %pr_k1, %pr_k2, %pr_k3, %pr_k4 {dim = 0 : i64} : (tensor<1x4x2x2x4xf32>, tensor<1x4x2x2x4xf32>, tensor<1x4x2x2x4xf32>, tensor<1x4x2x2x4xf32>, tensor<1x4x2x2x4xf32>) -> tensor<5x4x2x2x4xf32>
    %pt_v0 = graph.transpose %past_v0 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<4x2x2x4xf32>) -> tensor<4x2x2x4xf32>
    %pr_v0 = graph.reshape %pt_v0 : (tensor<4x2x2x4xf32>) -> tensor<1x4x2x2x4xf32>
    %pt_v1 = graph.transpose %past_v1 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<4x2x2x4xf32>) -> tensor<4x2x2x4xf32>
    %pr_v1 = graph.reshape %pt_v1 : (tensor<4x2x2x4xf32>) -> tensor<1x4x2x2x4xf32>
    %pt_v2 = graph.transpose %past_v2 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<4x2x2x4xf32>) -> tensor<4x2x2x4xf32>
    %pr_v2 = graph.reshape %pt_v2 : (tensor<4x2x2x4xf32>) -> tensor<1x4x2x2x4xf32>
    %pt_v3 = graph.transpose %past_v3 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<4x2x2x4xf32>) -> tensor<4x2x2x4xf32>
    %pr_v3 = graph.reshape %pt_v3 : (tensor<4x2x2x4xf32>) -> tensor<1x4x2x2x4xf32>
    %pt_v4 = graph.transpose %past_v4 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<4x2x2x4xf32>) -> tensor<4x2x2x4xf32>
    %pr_v4 = graph.reshape %pt_v4 : (tensor<4x2x2x4xf32>) -> tensor<1x4x2x2x4xf32>
    %ps_v = graph.concat %pr_v0, %pr_v1, %pr_v2, %pr_v3, %pr_v4 {dim = 0 : i64} : (tensor<1x4x2x2x4xf32>, tensor<1x4x2x2x4xf32>, tensor<1x4x2x2x4xf32>, tensor<1x4x2x2x4xf32>, tensor<1x4x2x2x4xf32>) -> tensor<5x4x2x2x4xf32>
    %h, %pk, %pv, %ph = graph.repeat 5 carried(%x0 : tensor<4x3x16xf32>) stacked(%p_q, %p_k, %p_v, %p_o, %p_up, %p_down, %p_n1, %p_n2, %ps_k, %ps_v : tensor<5x16x16xf32>, tensor<5x16x8xf32>, tensor<5x16x8xf32>, tensor<5x16x16xf32>, tensor<5x16x12xf32>, tensor<5x12x16xf32>, tensor<5x16xf32>, tensor<5x16xf32>, tensor<5x4x2x2x4xf32>, tensor<5x4x2x2x4xf32>) captured(%m : tensor<4x1x1x5xi1>) -> tensor<4x3x16xf32> stacking tensor<5x4x2x5x4xf32>, tensor<5x4x2x5x4xf32>, tensor<5x4x3x16xf32> {
    ^bb0(%x: tensor<4x3x16xf32>, %wq: tensor<16x16xf32>, %wk: tensor<16x8xf32>, %wv: tensor<16x8xf32>, %wo: tensor<16x16xf32>, %wup: tensor<16x12xf32>, %wdown: tensor<12x16xf32>, %wn1: tensor<16xf32>, %wn2: tensor<16xf32>, %ck: tensor<4x2x2x4xf32>, %cv: tensor<4x2x2x4xf32>, %mm: tensor<4x1x1x5xi1>):
      %y1, %r1 = graph.rms_norm %x, %wn1 {eps = 1.0e-5 : f64} : (tensor<4x3x16xf32>, tensor<16xf32>) -> (tensor<4x3x16xf32>, tensor<4x3xf32>)
      %q1 = graph.matmul "bsd,de->bse" %y1, %wq : (tensor<4x3x16xf32>, tensor<16x16xf32>) -> tensor<4x3x16xf32>
      %q = graph.reshape %q1 : (tensor<4x3x16xf32>) -> tensor<4x3x4x4xf32>
      %k1 = graph.matmul "bsd,de->bse" %y1, %wk : (tensor<4x3x16xf32>, tensor<16x8xf32>) -> tensor<4x3x8xf32>
      %k2 = graph.reshape %k1 : (tensor<4x3x8xf32>) -> tensor<4x3x2x4xf32>
      %ka = graph.concat %ck, %k2 {dim = 1 : i64} : (tensor<4x2x2x4xf32>, tensor<4x3x2x4xf32>) -> tensor<4x5x2x4xf32>
      %kp = graph.transpose %ka {permutation = array<i64: 0, 2, 1, 3>} : (tensor<4x5x2x4xf32>) -> tensor<4x2x5x4xf32>
      %v1 = graph.matmul "bsd,de->bse" %y1, %wv : (tensor<4x3x16xf32>, tensor<16x8xf32>) -> tensor<4x3x8xf32>
      %v2 = graph.reshape %v1 : (tensor<4x3x8xf32>) -> tensor<4x3x2x4xf32>
      %va = graph.concat %cv, %v2 {dim = 1 : i64} : (tensor<4x2x2x4xf32>, tensor<4x3x2x4xf32>) -> tensor<4x5x2x4xf32>
      %vp = graph.transpose %va {permutation = array<i64: 0, 2, 1, 3>} : (tensor<4x5x2x4xf32>) -> tensor<4x2x5x4xf32>
      %a, %lse = graph.attention %q, %ka, %va, %mm {scale = 5.0e-1 : f64, causal = true, offset = 2 : i64} : (tensor<4x3x4x4xf32>, tensor<4x5x2x4xf32>, tensor<4x5x2x4xf32>, tensor<4x1x1x5xi1>) -> (tensor<4x3x4x4xf32>, tensor<4x3x4xf32>)
      %a1 = graph.reshape %a : (tensor<4x3x4x4xf32>) -> tensor<4x3x16xf32>
      %o1 = graph.matmul "bsd,de->bse" %a1, %wo : (tensor<4x3x16xf32>, tensor<16x16xf32>) -> tensor<4x3x16xf32>
      %x2 = graph.add %o1, %x : (tensor<4x3x16xf32>, tensor<4x3x16xf32>) -> tensor<4x3x16xf32>
      %y2, %r2 = graph.rms_norm %x2, %wn2 {eps = 1.0e-5 : f64} : (tensor<4x3x16xf32>, tensor<16xf32>) -> (tensor<4x3x16xf32>, tensor<4x3xf32>)
      %u = graph.matmul "bsd,de->bse" %y2, %wup : (tensor<4x3x16xf32>, tensor<16x12xf32>) -> tensor<4x3x12xf32>
      %g = graph.tanh %u : (tensor<4x3x12xf32>) -> tensor<4x3x12xf32>
      %dn = graph.matmul "bsd,de->bse" %g, %wdown : (tensor<4x3x12xf32>, tensor<12x16xf32>) -> tensor<4x3x16xf32>
      %x3 = graph.add %x2, %dn : (tensor<4x3x16xf32>, tensor<4x3x16xf32>) -> tensor<4x3x16xf32>
      graph.yield %x3, %kp, %vp, %x3 : tensor<4x3x16xf32>, tensor<4x2x5x4xf32>, tensor<4x2x5x4xf32>, tensor<4x3x16xf32>
    }
    %y, %r = graph.rms_norm %h, %norm {eps = 1.0e-5 : f64} : (tensor<4x3x16xf32>, tensor<16xf32>) -> (tensor<4x3x16xf32>, tensor<4x3xf32>)
    %logits = graph.matmul "bsd,dv->bsv" %y, %head : (tensor<4x3x16xf32>, tensor<16x21xf32>) -> tensor<4x3x21xf32>
    %sl_k0 = graph.slice %pk {starts = array<i64: 0, 0, 0, 0, 0>, limits = array<i64: 1, 4, 2, 5, 4>, steps = array<i64: 1, 1, 1, 1, 1>} : (tensor<5x4x2x5x4xf32>) -> tensor<1x4x2x5x4xf32>
    %out_k0 = graph.reshape %sl_k0 : (tensor<1x4x2x5x4xf32>) -> tensor<4x2x5x4xf32>
    %sl_v0 = graph.slice %pv {starts = array<i64: 0, 0, 0, 0, 0>, limits = array<i64: 1, 4, 2, 5, 4>, steps = array<i64: 1, 1, 1, 1, 1>} : (tensor<5x4x2x5x4xf32>) -> tensor<1x4x2x5x4xf32>
    %out_v0 = graph.reshape %sl_v0 : (tensor<1x4x2x5x4xf32>) -> tensor<4x2x5x4xf32>
    %sl_k1 = graph.slice %pk {starts = array<i64: 1, 0, 0, 0, 0>, limits = array<i64: 2, 4, 2, 5, 4>, steps = array<i64: 1, 1, 1, 1, 1>} : (tensor<5x4x2x5x4xf32>) -> tensor<1x4x2x5x4xf32>
    %out_k1 = graph.reshape %sl_k1 : (tensor<1x4x2x5x4xf32>) -> tensor<4x2x5x4xf32>
    %sl_v1 = graph.slice %pv {starts = array<i64: 1, 0, 0, 0, 0>, limits = array<i64: 2, 4, 2, 5, 4>, steps = array<i64: 1, 1, 1, 1, 1>} : (tensor<5x4x2x5x4xf32>) -> tensor<1x4x2x5x4xf32>
    %out_v1 = graph.reshape %sl_v1 : (tensor<1x4x2x5x4xf32>) -> tensor<4x2x5x4xf32>
    %sl_k2 = graph.slice %pk {starts = array<i64: 2, 0, 0, 0, 0>, limits = array<i64: 3, 4, 2, 5, 4>, steps = array<i64: 1, 1, 1, 1, 1>} : (tensor<5x4x2x5x4xf32>) -> tensor<1x4x2x5x4xf32>
    %out_k2 = graph.reshape %sl_k2 : (tensor<1x4x2x5x4xf32>) -> tensor<4x2x5x4xf32>
    %sl_v2 = graph.slice %pv {starts = array<i64: 2, 0, 0, 0, 0>, limits = array<i64: 3, 4, 2, 5, 4>, steps = array<i64: 1, 1, 1, 1, 1>} : (tensor<5x4x2x5x4xf32>) -> tensor<1x4x2x5x4xf32>
    %out_v2 = graph.reshape %sl_v2 : (tensor<1x4x2x5x4xf32>) -> tensor<4x2x5x4xf32>
    %sl_k3 = graph.slice %pk {starts = array<i64: 3, 0, 0, 0, 0>, limits = array<i64: 4, 4, 2, 5, 4>, steps = array<i64: 1, 1, 1, 1, 1>} : (tensor<5x4x2x5x4xf32>) -> tensor<1x4x2x5x4xf32>
    %out_k3 = graph.reshape %sl_k3 : (tensor<1x4x2x5x4xf32>) -> tensor<4x2x5x4xf32>
    %sl_v3 = graph.slice %pv {starts = array<i64: 3, 0, 0, 0, 0>, limits = array<i64: 4, 4, 2, 5, 4>, steps = array<i64: 1, 1, 1, 1, 1>} : (tensor<5x4x2x5x4xf32>) -> tensor<1x4x2x5x4xf32>
    %out_v3 = graph.reshape %sl_v3 : (tensor<1x4x2x5x4xf32>) -> tensor<4x2x5x4xf32>
    %sl_k4 = graph.slice %pk {starts = array<i64: 4, 0, 0, 0, 0>, limits = array<i64: 5, 4, 2, 5, 4>, steps = array<i64: 1, 1, 1, 1, 1>} : (tensor<5x4x2x5x4xf32>) -> tensor<1x4x2x5x4xf32>
    %out_k4 = graph.reshape %sl_k4 : (tensor<1x4x2x5x4xf32>) -> tensor<4x2x5x4xf32>
    %sl_v4 = graph.slice %pv {starts = array<i64: 4, 0, 0, 0, 0>, limits = array<i64: 5, 4, 2, 5, 4>, steps = array<i64: 1, 1, 1, 1, 1>} : (tensor<5x4x2x5x4xf32>) -> tensor<1x4x2x5x4xf32>
    %out_v4 = graph.reshape %sl_v4 : (tensor<1x4x2x5x4xf32>) -> tensor<4x2x5x4xf32>
    %hs0 = graph.slice %ph {starts = array<i64: 0, 0, 0, 0>, limits = array<i64: 1, 4, 3, 16>, steps = array<i64: 1, 1, 1, 1>} : (tensor<5x4x3x16xf32>) -> tensor<1x4x3x16xf32>
    %hh0 = graph.reshape %hs0 : (tensor<1x4x3x16xf32>) -> tensor<4x3x16xf32>
    %hs1 = graph.slice %ph {starts = array<i64: 1, 0, 0, 0>, limits = array<i64: 2, 4, 3, 16>, steps = array<i64: 1, 1, 1, 1>} : (tensor<5x4x3x16xf32>) -> tensor<1x4x3x16xf32>
    %hh1 = graph.reshape %hs1 : (tensor<1x4x3x16xf32>) -> tensor<4x3x16xf32>
    %hs2 = graph.slice %ph {starts = array<i64: 2, 0, 0, 0>, limits = array<i64: 3, 4, 3, 16>, steps = array<i64: 1, 1, 1, 1>} : (tensor<5x4x3x16xf32>) -> tensor<1x4x3x16xf32>
    %hh2 = graph.reshape %hs2 : (tensor<1x4x3x16xf32>) -> tensor<4x3x16xf32>
    %hs3 = graph.slice %ph {starts = array<i64: 3, 0, 0, 0>, limits = array<i64: 4, 4, 3, 16>, steps = array<i64: 1, 1, 1, 1>} : (tensor<5x4x3x16xf32>) -> tensor<1x4x3x16xf32>
    %hh3 = graph.reshape %hs3 : (tensor<1x4x3x16xf32>) -> tensor<4x3x16xf32>
    %hs4 = graph.slice %ph {starts = array<i64: 4, 0, 0, 0>, limits = array<i64: 5, 4, 3, 16>, steps = array<i64: 1, 1, 1, 1>} : (tensor<5x4x3x16xf32>) -> tensor<1x4x3x16xf32>
    %hh4 = graph.reshape %hs4 : (tensor<1x4x3x16xf32>) -> tensor<4x3x16xf32>
    %const = graph.constant dense<[1, 2, -3]> : tensor<3xi64>
    %flag2 = graph.reshape %flag : (tensor<4xi1>) -> tensor<4x1xi1>
    %flag3 = graph.broadcast %flag2 : (tensor<4x1xi1>) -> tensor<4x3xi1>
    %sc = graph.mul %scale, %scale : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %best0 = graph.reduce %logits {kind = #graph.reduce_kind<max>, dims = array<i64: 2>} : (tensor<4x3x21xf32>) -> tensor<4x3xf32>
    %best1 = graph.reshape %best0 : (tensor<4x3xf32>) -> tensor<4x3x1xf32>
    %best2 = graph.compare %logits, %best1 {predicate = #graph.predicate<ge>} : (tensor<4x3x21xf32>, tensor<4x3x1xf32>) -> tensor<4x3x21xi1>
    %io = graph.iota {dim = 2 : i64} : () -> tensor<4x3x21xi64>
    %none = graph.constant dense<-1> : tensor<4x3x21xi64>
    %best3 = graph.select %best2, %io, %none : (tensor<4x3x21xi1>, tensor<4x3x21xi64>, tensor<4x3x21xi64>) -> tensor<4x3x21xi64>
    %best = graph.reduce %best3 {kind = #graph.reduce_kind<max>, dims = array<i64: 2>} : (tensor<4x3x21xi64>) -> tensor<4x3xi64>
    return %logits, %out_k0, %out_v0, %out_k1, %out_v1, %out_k2, %out_v2, %out_k3, %out_v3, %out_k4, %out_v4, %hh0, %hh1, %hh2, %hh3, %hh4, %ph, %x0, %h, %ids, %const, %flag3, %sc, %best : tensor<4x3x21xf32>, tensor<4x2x5x4xf32>, tensor<4x2x5x4xf32>, tensor<4x2x5x4xf32>, tensor<4x2x5x4xf32>, tensor<4x2x5x4xf32>, tensor<4x2x5x4xf32>, tensor<4x2x5x4xf32>, tensor<4x2x5x4xf32>, tensor<4x2x5x4xf32>, tensor<4x2x5x4xf32>, tensor<4x3x16xf32>, tensor<4x3x16xf32>, tensor<4x3x16xf32>, tensor<4x3x16xf32>, tensor<4x3x16xf32>, tensor<5x4x3x16xf32>, tensor<4x3x16xf32>, tensor<4x3x16xf32>, tensor<4x3xi64>, tensor<3xi64>, tensor<4x3xi1>, tensor<f32>, tensor<4x3xi64>
  }
}
