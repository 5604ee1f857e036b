// RUN: llmc-opt %s --split-input-file --llmc-shard-tensor | FileCheck %s

// An MLP: the first weight is cut by columns, the second by rows; the bias between
// them follows. The second product is a partial sum; what reads it needs it reduced.
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "tp"=2]>} {
  graph.source @s0 : tensor<8x32xf32> {init = #graph.init_kind<normal>, init_std = 0.02 : f64}
  graph.source @s1 : tensor<32xf32> {init = #graph.init_kind<zeros>}
  graph.source @s2 : tensor<32x8xf32> {init = #graph.init_kind<normal>, init_std = 0.02 : f64}
  // CHECK: graph.state @up {{.*}}parallel.sharding = #parallel.sharding<[{}, {"tp"}]>
  graph.state @up : tensor<8x32xf32> parameter views [#graph.view<@s0, 0, [32, 1]>]
  // CHECK: graph.state @bias {{.*}}parallel.sharding = #parallel.sharding<[{"tp"}]>
  graph.state @bias : tensor<32xf32> parameter views [#graph.view<@s1, 0, [1]>]
  // CHECK: graph.state @down {{.*}}parallel.sharding = #parallel.sharding<[{"tp"}, {}]>
  graph.state @down : tensor<32x8xf32> parameter views [#graph.view<@s2, 0, [8, 1]>]
  // CHECK-LABEL: func.func @micro
  func.func @micro(%x: tensor<4x8xf32> {graph.input = "x"}, %up: tensor<8x32xf32> {graph.state = @up},
                   %bias: tensor<32xf32> {graph.state = @bias}, %down: tensor<32x8xf32> {graph.state = @down})
      -> (tensor<4x8xf32> {graph.output = "y"}) {
    // CHECK: graph.matmul "bd,de->be"
    // CHECK-SAME: rule = "column cut"
    // CHECK-SAME: tactic = "tensor"
    // CHECK-SAME: parallel.out = [#parallel.sharding<[{}, {"tp"}]>]
    %0 = graph.matmul "bd,de->be" %x, %up : (tensor<4x8xf32>, tensor<8x32xf32>) -> tensor<4x32xf32> loc("fc")
    // CHECK: graph.add
    // CHECK-SAME: parallel.in = [#parallel.sharding<[{}, {"tp"}]>, #parallel.sharding<[{"tp"}]>]
    %1 = graph.add %0, %bias : (tensor<4x32xf32>, tensor<32xf32>) -> tensor<4x32xf32>
    // CHECK: graph.matmul "be,ed->bd"
    // CHECK-SAME: rule = "row cut"
    // CHECK-SAME: parallel.out = [#parallel.sharding<[{}, {}], unreduced = {"tp": sum}>]
    %2 = graph.matmul "be,ed->bd" %1, %down : (tensor<4x32xf32>, tensor<32x8xf32>) -> tensor<4x8xf32>
    // CHECK: graph.add
    // CHECK-NOT: "tp"
    %3 = graph.add %x, %2 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    // CHECK: return
    return %3 : tensor<4x8xf32>
  }
}

// -----

// Attention: q, k and v are cut by columns, which are whole heads; the output
// projection is cut by rows.
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "tp"=4]>} {
  graph.source @s0 : tensor<32x96xf32> {init = #graph.init_kind<normal>, init_std = 0.02 : f64}
  graph.source @s1 : tensor<32x32xf32> {init = #graph.init_kind<normal>, init_std = 0.02 : f64}
  graph.state @q : tensor<32x32xf32> parameter views [#graph.view<@s0, 0, [96, 1]>]
  graph.state @k : tensor<32x32xf32> parameter views [#graph.view<@s0, 32, [96, 1]>]
  graph.state @v : tensor<32x32xf32> parameter views [#graph.view<@s0, 64, [96, 1]>]
  // CHECK: graph.state @o {{.*}}parallel.sharding = #parallel.sharding<[{"tp"}, {}]>
  graph.state @o : tensor<32x32xf32> parameter views [#graph.view<@s1, 0, [32, 1]>]
  // CHECK-LABEL: func.func @micro
  func.func @micro(%x: tensor<2x6x32xf32> {graph.input = "x"}, %wq: tensor<32x32xf32> {graph.state = @q},
                   %wk: tensor<32x32xf32> {graph.state = @k}, %wv: tensor<32x32xf32> {graph.state = @v},
                   %wo: tensor<32x32xf32> {graph.state = @o}) -> (tensor<2x6x32xf32> {graph.output = "y"}) {
    // CHECK-COUNT-3: rule = "column cut"
    %0 = graph.matmul "bsd,de->bse" %x, %wq : (tensor<2x6x32xf32>, tensor<32x32xf32>) -> tensor<2x6x32xf32>
    %1 = graph.matmul "bsd,de->bse" %x, %wk : (tensor<2x6x32xf32>, tensor<32x32xf32>) -> tensor<2x6x32xf32>
    %2 = graph.matmul "bsd,de->bse" %x, %wv : (tensor<2x6x32xf32>, tensor<32x32xf32>) -> tensor<2x6x32xf32>
    // A merged dimension is cut along its major part, the heads.
    // CHECK: graph.reshape
    // CHECK-SAME: parallel.out = [#parallel.sharding<[{}, {}, {"tp"}, {}]>]
    %3 = graph.reshape %0 : (tensor<2x6x32xf32>) -> tensor<2x6x4x8xf32>
    %4 = graph.reshape %1 : (tensor<2x6x32xf32>) -> tensor<2x6x4x8xf32>
    %5 = graph.reshape %2 : (tensor<2x6x32xf32>) -> tensor<2x6x4x8xf32>
    // CHECK: graph.attention
    // CHECK-SAME: rule = "heads"
    %o, %lse = graph.attention %3, %4, %5 {scale = 0.35 : f64, causal = true} : (tensor<2x6x4x8xf32>, tensor<2x6x4x8xf32>, tensor<2x6x4x8xf32>) -> (tensor<2x6x4x8xf32>, tensor<2x6x4xf32>)
    %6 = graph.reshape %o : (tensor<2x6x4x8xf32>) -> tensor<2x6x32xf32>
    // CHECK: rule = "row cut"
    %7 = graph.matmul "bsd,de->bse" %6, %wo : (tensor<2x6x32xf32>, tensor<32x32xf32>) -> tensor<2x6x32xf32>
    return %7 : tensor<2x6x32xf32>
  }
}

// -----

// A tied table: the head's columns are the words, so the embedding looks up rows of a
// cut table and gives partial sums. 257 words over 2 ranks are padded later.
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "tp"=2]>} {
  graph.source @s0 : tensor<257x8xf32> {init = #graph.init_kind<normal>, init_std = 0.02 : f64}
  // CHECK: graph.state @table {{.*}}parallel.sharding = #parallel.sharding<[{"tp"}, {}]>
  graph.state @table : tensor<257x8xf32> parameter views [#graph.view<@s0, 0, [8, 1]>]
  // CHECK-LABEL: func.func @micro
  func.func @micro(%ids: tensor<2x6xi64> {graph.input = "ids"}, %t: tensor<257x8xf32> {graph.state = @table})
      -> (tensor<2x6xf32> {graph.output = "m"}, tensor<2x6xf32> {graph.output = "p"}) {
    // CHECK: graph.gather
    // CHECK-SAME: rule = "vocabulary cut"
    // CHECK-SAME: parallel.out = [#parallel.sharding<[{}, {}, {}], unreduced = {"tp": sum}>]
    %0 = graph.gather %t, %ids : (tensor<257x8xf32>, tensor<2x6xi64>) -> tensor<2x6x8xf32>
    %1 = graph.tanh %0 : (tensor<2x6x8xf32>) -> tensor<2x6x8xf32>
    // CHECK: graph.matmul
    // CHECK-SAME: rule = "column cut"
    %2 = graph.matmul "bsd,vd->bsv" %1, %t : (tensor<2x6x8xf32>, tensor<257x8xf32>) -> tensor<2x6x257xf32>
    // CHECK: graph.reduce
    // CHECK-SAME: parallel.out = [#parallel.sharding<[{}, {}], unreduced = {"tp": max}>]
    %3 = graph.reduce %2 {kind = #graph.reduce_kind<max>, dims = array<i64: 2>} : (tensor<2x6x257xf32>) -> tensor<2x6xf32>
    // CHECK: graph.take_along
    // CHECK-SAME: unreduced = {"tp": sum}
    %4 = graph.take_along %2, %ids : (tensor<2x6x257xf32>, tensor<2x6xi64>) -> tensor<2x6xf32>
    return %3, %4 : tensor<2x6xf32>, tensor<2x6xf32>
  }
}

// -----

// A norm over the features needs them whole, so the cut would end in a gather: no seed.
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "tp"=2]>} {
  graph.source @s0 : tensor<8x8xf32> {init = #graph.init_kind<normal>, init_std = 0.02 : f64}
  // CHECK: graph.state @w {{.*}}parallel.sharding = #parallel.sharding<[{}, {}]>
  graph.state @w : tensor<8x8xf32> parameter views [#graph.view<@s0, 0, [8, 1]>]
  func.func @micro(%x: tensor<4x8xf32> {graph.input = "x"}, %w: tensor<8x8xf32> {graph.state = @w})
      -> (tensor<4x8xf32> {graph.output = "y"}) {
    %0 = graph.matmul "bd,de->be" %x, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %1 = graph.softmax %0 : (tensor<4x8xf32>) -> tensor<4x8xf32>
    return %1 : tensor<4x8xf32>
  }
}

// -----

// One kv head is shared by all ranks: its weights stay whole, members of the group are
// cut. A head's norm is whole on its rank, so that its scale's gradient is partial, as
// are those of the shared k and v; that of q is cut, not partial.
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "tp"=2]>} {
  graph.source @s0 : tensor<8x8xf32> {init = #graph.init_kind<normal>, init_std = 0.02 : f64}
  graph.source @s1 : tensor<8x2xf32> {init = #graph.init_kind<normal>, init_std = 0.02 : f64}
  graph.source @s2 : tensor<2xf32> {init = #graph.init_kind<ones>}
  // CHECK: graph.state @q {{.*}}parallel.sharding = #parallel.sharding<[{}, {"tp"}]>
  graph.state @q : tensor<8x8xf32> parameter views [#graph.view<@s0, 0, [8, 1]>]
  // CHECK: graph.state @k {{.*}}parallel.sharding = #parallel.sharding<[{}, {}]>
  graph.state @k : tensor<8x2xf32> parameter views [#graph.view<@s1, 0, [2, 1]>]
  // CHECK: graph.state @n {{.*}}parallel.sharding = #parallel.sharding<[{}]>
  graph.state @n : tensor<2xf32> parameter views [#graph.view<@s2, 0, [1]>]
  // CHECK: graph.state @o {{.*}}parallel.sharding = #parallel.sharding<[{"tp"}, {}]>
  graph.state @o : tensor<8x8xf32> parameter views [#graph.view<@s0, 0, [8, 1]>]
  func.func @micro(%x: tensor<1x3x8xf32> {graph.input = "x"}, %c: tensor<1x3x1xf32> {graph.input = "c"},
                   %wq: tensor<8x8xf32> {graph.state = @q}, %wk: tensor<8x2xf32> {graph.state = @k},
                   %n: tensor<2xf32> {graph.state = @n}, %wo: tensor<8x8xf32> {graph.state = @o})
      -> (tensor<1x3x8xf32> {graph.output = "y"}, tensor<2xf32> {graph.output = "dn"}, tensor<1x3x1x2xf32> {graph.output = "dk"}) {
    %0 = graph.matmul "bsd,de->bse" %x, %wq : (tensor<1x3x8xf32>, tensor<8x8xf32>) -> tensor<1x3x8xf32>
    %1 = graph.matmul "bsd,de->bse" %x, %wk : (tensor<1x3x8xf32>, tensor<8x2xf32>) -> tensor<1x3x2xf32>
    %2 = graph.reshape %0 : (tensor<1x3x8xf32>) -> tensor<1x3x4x2xf32>
    %k = graph.reshape %1 : (tensor<1x3x2xf32>) -> tensor<1x3x1x2xf32>
    // CHECK: graph.rms_norm
    // CHECK-SAME: parallel.out = [#parallel.sharding<[{}, {}, {"tp"}, {}]>, #parallel.sharding<[{}, {}, {"tp"}]>]
    %3, %r = graph.rms_norm %2, %n {eps = 1.0e-6 : f64} : (tensor<1x3x4x2xf32>, tensor<2xf32>) -> (tensor<1x3x4x2xf32>, tensor<1x3x4xf32>)
    // CHECK: graph.rotary
    // CHECK-SAME: parallel.in = [#parallel.sharding<[{}, {}, {"tp"}, {}]>, #parallel.sharding<[{}, {}, {}]>, #parallel.sharding<[{}, {}, {}]>]
    %q = graph.rotary %3, %c, %c : (tensor<1x3x4x2xf32>, tensor<1x3x1xf32>, tensor<1x3x1xf32>) -> tensor<1x3x4x2xf32>
    // CHECK: graph.attention
    // CHECK-SAME: parallel.in = [#parallel.sharding<[{}, {}, {"tp"}, {}]>, #parallel.sharding<[{}, {}, {}, {}]>, #parallel.sharding<[{}, {}, {}, {}]>]
    %o, %lse = graph.attention %q, %k, %k {scale = 1.0 : f64, causal = true} : (tensor<1x3x4x2xf32>, tensor<1x3x1x2xf32>, tensor<1x3x1x2xf32>) -> (tensor<1x3x4x2xf32>, tensor<1x3x4xf32>)
    %4 = graph.reshape %o : (tensor<1x3x4x2xf32>) -> tensor<1x3x8xf32>
    // CHECK: rule = "row cut"
    %5 = graph.matmul "bsd,de->bse" %4, %wo : (tensor<1x3x8xf32>, tensor<8x8xf32>) -> tensor<1x3x8xf32>
    // CHECK: graph.attention_grad
    // CHECK-SAME: parallel.out = [#parallel.sharding<[{}, {}, {"tp"}, {}]>, #parallel.sharding<[{}, {}, {}, {}], unreduced = {"tp": sum}>, #parallel.sharding<[{}, {}, {}, {}], unreduced = {"tp": sum}>]
    %dq, %dk, %dv = graph.attention_grad %o, %q, %k, %k, %o, %lse {scale = 1.0 : f64, causal = true, graph.backward}
        : (tensor<1x3x4x2xf32>, tensor<1x3x4x2xf32>, tensor<1x3x1x2xf32>, tensor<1x3x1x2xf32>, tensor<1x3x4x2xf32>, tensor<1x3x4xf32>) -> (tensor<1x3x4x2xf32>, tensor<1x3x1x2xf32>, tensor<1x3x1x2xf32>)
    // CHECK: graph.rms_norm_grad_scale
    // CHECK-SAME: parallel.out = [#parallel.sharding<[{}], unreduced = {"tp": sum}>]
    %dn = graph.rms_norm_grad_scale %dq, %2, %r {graph.backward} : (tensor<1x3x4x2xf32>, tensor<1x3x4x2xf32>, tensor<1x3x4xf32>) -> tensor<2xf32>
    return %5, %dn, %dk : tensor<1x3x8xf32>, tensor<2xf32>, tensor<1x3x1x2xf32>
  }
}

// -----

// Heads are a dimension of the weight: elements of a head must stay whole, heads need not.
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "tp"=2]>} {
  graph.source @s0 : tensor<8x4x2xf32> {init = #graph.init_kind<normal>, init_std = 0.02 : f64}
  graph.source @s1 : tensor<8x8xf32> {init = #graph.init_kind<normal>, init_std = 0.02 : f64}
  // CHECK: graph.state @q {{.*}}parallel.sharding = #parallel.sharding<[{}, {"tp"}, {}]>
  graph.state @q : tensor<8x4x2xf32> parameter views [#graph.view<@s0, 0, [8, 2, 1]>]
  // CHECK: graph.state @o {{.*}}parallel.sharding = #parallel.sharding<[{"tp"}, {}]>
  graph.state @o : tensor<8x8xf32> parameter views [#graph.view<@s1, 0, [8, 1]>]
  func.func @micro(%x: tensor<1x3x8xf32> {graph.input = "x"}, %wq: tensor<8x4x2xf32> {graph.state = @q}, %wo: tensor<8x8xf32> {graph.state = @o})
      -> (tensor<1x3x8xf32> {graph.output = "y"}) {
    %0 = graph.matmul "bsd,det->bset" %x, %wq : (tensor<1x3x8xf32>, tensor<8x4x2xf32>) -> tensor<1x3x4x2xf32>
    %o, %lse = graph.attention %0, %0, %0 {scale = 1.0 : f64, causal = true} : (tensor<1x3x4x2xf32>, tensor<1x3x4x2xf32>, tensor<1x3x4x2xf32>) -> (tensor<1x3x4x2xf32>, tensor<1x3x4xf32>)
    %1 = graph.reshape %o : (tensor<1x3x4x2xf32>) -> tensor<1x3x8xf32>
    %2 = graph.matmul "bsd,de->bse" %1, %wo : (tensor<1x3x8xf32>, tensor<8x8xf32>) -> tensor<1x3x8xf32>
    return %2 : tensor<1x3x8xf32>
  }
}

// -----

// An embedding that is not the head's: words are looked up by an input, so that rows
// are cut, and padded later; positions are counted, and their table stays whole.
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "tp"=2]>} {
  graph.source @s0 : tensor<257x8xf32> {init = #graph.init_kind<normal>, init_std = 0.02 : f64}
  graph.source @s1 : tensor<6x8xf32> {init = #graph.init_kind<normal>, init_std = 0.02 : f64}
  // CHECK: graph.state @words {{.*}}parallel.sharding = #parallel.sharding<[{"tp"}, {}]>
  graph.state @words : tensor<257x8xf32> parameter views [#graph.view<@s0, 0, [8, 1]>]
  // CHECK: graph.state @positions {{.*}}parallel.sharding = #parallel.sharding<[{}, {}]>
  graph.state @positions : tensor<6x8xf32> parameter views [#graph.view<@s1, 0, [8, 1]>]
  func.func @micro(%ids: tensor<2x6xi64> {graph.input = "ids"}, %w: tensor<257x8xf32> {graph.state = @words}, %p: tensor<6x8xf32> {graph.state = @positions})
      -> (tensor<2x6x8xf32> {graph.output = "y"}) {
    // CHECK: graph.gather
    // CHECK-SAME: rule = "vocabulary cut"
    // CHECK-SAME: parallel.out = [#parallel.sharding<[{}, {}, {}], unreduced = {"tp": sum}>]
    %0 = graph.gather %w, %ids : (tensor<257x8xf32>, tensor<2x6xi64>) -> tensor<2x6x8xf32>
    %1 = graph.iota {dim = 0} : () -> tensor<6xi64>
    // CHECK: graph.gather
    // CHECK-NOT: unreduced
    %2 = graph.gather %p, %1 : (tensor<6x8xf32>, tensor<6xi64>) -> tensor<6x8xf32>
    %3 = graph.add %0, %2 : (tensor<2x6x8xf32>, tensor<6x8xf32>) -> tensor<2x6x8xf32>
    return %3 : tensor<2x6x8xf32>
  }
}

// -----

// Attention spelt out, with one kv head: the elements of a value end inside a merged
// dimension, behind the heads, where no cut can be said. They stay whole; queries are cut.
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "tp"=2]>} {
  graph.source @s0 : tensor<8x2xf32> {init = #graph.init_kind<normal>, init_std = 0.02 : f64}
  graph.source @s1 : tensor<8x8xf32> {init = #graph.init_kind<normal>, init_std = 0.02 : f64}
  graph.source @s2 : tensor<8x8xf32> {init = #graph.init_kind<normal>, init_std = 0.02 : f64}
  // CHECK: graph.state @v {{.*}}parallel.sharding = #parallel.sharding<[{}, {}]>
  graph.state @v : tensor<8x2xf32> parameter views [#graph.view<@s0, 0, [2, 1]>]
  // CHECK: graph.state @q {{.*}}parallel.sharding = #parallel.sharding<[{}, {"tp"}]>
  graph.state @q : tensor<8x8xf32> parameter views [#graph.view<@s1, 0, [8, 1]>]
  // CHECK: graph.state @o {{.*}}parallel.sharding = #parallel.sharding<[{"tp"}, {}]>
  graph.state @o : tensor<8x8xf32> parameter views [#graph.view<@s2, 0, [8, 1]>]
  func.func @micro(%x: tensor<1x3x8xf32> {graph.input = "x"}, %wv: tensor<8x2xf32> {graph.state = @v}, %wq: tensor<8x8xf32> {graph.state = @q}, %wo: tensor<8x8xf32> {graph.state = @o})
      -> (tensor<1x3x8xf32> {graph.output = "y"}) {
    %v = graph.matmul "bsd,dt->bst" %x, %wv : (tensor<1x3x8xf32>, tensor<8x2xf32>) -> tensor<1x3x2xf32>
    %0 = graph.matmul "bsd,de->bse" %x, %wq : (tensor<1x3x8xf32>, tensor<8x8xf32>) -> tensor<1x3x8xf32>
    %q = graph.reshape %0 : (tensor<1x3x8xf32>) -> tensor<1x3x4x2xf32>
    %p = graph.matmul "bqht,bkt->bhqk" %q, %v : (tensor<1x3x4x2xf32>, tensor<1x3x2xf32>) -> tensor<1x4x3x3xf32>
    %s = graph.softmax %p : (tensor<1x4x3x3xf32>) -> tensor<1x4x3x3xf32>
    %a = graph.matmul "bhqk,bkt->bqht" %s, %v : (tensor<1x4x3x3xf32>, tensor<1x3x2xf32>) -> tensor<1x3x4x2xf32>
    // CHECK: graph.reshape {{.*}}parallel.out = [#parallel.sharding<[{}, {}, {"tp"}]>]}{{.*}} -> tensor<1x3x8xf32>
    %1 = graph.reshape %a : (tensor<1x3x4x2xf32>) -> tensor<1x3x8xf32>
    %2 = graph.matmul "bsd,de->bse" %1, %wo : (tensor<1x3x8xf32>, tensor<8x8xf32>) -> tensor<1x3x8xf32>
    return %2 : tensor<1x3x8xf32>
  }
}

// -----

// A norm of the features between two weights, as one op and spelt out: it needs them
// whole, so both blocks are computed by all. A statistic that does not come back to what it was
// taken of is no reason.
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "tp"=2]>} {
  graph.source @s0 : tensor<8x8xf32> {init = #graph.init_kind<normal>, init_std = 0.02 : f64}
  graph.source @s1 : tensor<8xf32> {init = #graph.init_kind<ones>}
  // CHECK: graph.state @a : {{.*}}parallel.sharding = #parallel.sharding<[{}, {}]>
  graph.state @a : tensor<8x8xf32> parameter views [#graph.view<@s0, 0, [8, 1]>]
  // CHECK: graph.state @b : {{.*}}parallel.sharding = #parallel.sharding<[{}, {}]>
  graph.state @b : tensor<8x8xf32> parameter views [#graph.view<@s0, 0, [8, 1]>]
  // CHECK: graph.state @c : {{.*}}parallel.sharding = #parallel.sharding<[{}, {"tp"}]>
  graph.state @c : tensor<8x8xf32> parameter views [#graph.view<@s0, 0, [8, 1]>]
  graph.state @down : tensor<8x8xf32> parameter views [#graph.view<@s0, 0, [8, 1]>]
  graph.state @scale : tensor<8xf32> parameter views [#graph.view<@s1, 0, [1]>]
  func.func @micro(%x: tensor<4x8xf32> {graph.input = "x"}, %a: tensor<8x8xf32> {graph.state = @a},
                   %b: tensor<8x8xf32> {graph.state = @b}, %c: tensor<8x8xf32> {graph.state = @c},
                   %down: tensor<8x8xf32> {graph.state = @down}, %scale: tensor<8xf32> {graph.state = @scale})
      -> (tensor<4x8xf32> {graph.output = "y"}, tensor<4xf32> {graph.output = "z"}) {
    // CHECK: graph.matmul "bd,de->be" %arg0, %arg1 : (
    %0 = graph.matmul "bd,de->be" %x, %a : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %1, %rstd = graph.rms_norm %0, %scale {eps = 1.0e-05 : f64} : (tensor<4x8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>)
    %2 = graph.exp %1 : (tensor<4x8xf32>) -> tensor<4x8xf32>
    // CHECK: graph.matmul "bd,de->be" %{{.*}}, %arg2 : (
    %3 = graph.matmul "bd,de->be" %2, %b : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %4 = graph.reduce %3 {kind = #graph.reduce_kind<sum_squares>, dims = array<i64: 1>} : (tensor<4x8xf32>) -> tensor<4xf32>
    %5 = graph.reshape %4 : (tensor<4xf32>) -> tensor<4x1xf32>
    %6 = graph.rsqrt %5 : (tensor<4x1xf32>) -> tensor<4x1xf32>
    %7 = graph.mul %3, %6 : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
    %8 = graph.exp %7 : (tensor<4x8xf32>) -> tensor<4x8xf32>
    // CHECK: graph.matmul "bd,de->be" %{{.*}}, %arg3 {{.*}}rule = "column cut"
    %9 = graph.matmul "bd,de->be" %8, %c : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %10 = graph.reduce %9 {kind = #graph.reduce_kind<sum_squares>, dims = array<i64: 1>} : (tensor<4x8xf32>) -> tensor<4xf32>
    // CHECK: graph.matmul "bd,de->be" %{{.*}}, %arg4 {{.*}}rule = "row cut"
    %11 = graph.matmul "bd,de->be" %9, %down : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    return %11, %10 : tensor<4x8xf32>, tensor<4xf32>
  }
}

// -----

// Both axes of a product cut what one axis of their size would cut.
// CHECK-LABEL: module @product
module @product attributes {parallel.mesh = #parallel.mesh<["pp"=1, "tp0"=2, "tp1"=2], tp = ["tp0", "tp1"], ep = ["tp0"]>} {
  graph.source @s0 : tensor<8x32xf32> {init = #graph.init_kind<normal>, init_std = 0.02 : f64}
  // CHECK: graph.state @up {{.*}}parallel.sharding = #parallel.sharding<[{}, {"tp0", "tp1"}]>
  graph.state @up : tensor<8x32xf32> parameter views [#graph.view<@s0, 0, [32, 1]>]
  // CHECK: graph.state @down {{.*}}parallel.sharding = #parallel.sharding<[{"tp0", "tp1"}, {}]>
  graph.state @down : tensor<32x8xf32> parameter views [#graph.view<@s0, 0, [8, 1]>]
  // CHECK: func.func @micro
  func.func @micro(%x: tensor<4x8xf32> {graph.input = "x"}, %up: tensor<8x32xf32> {graph.state = @up},
                   %down: tensor<32x8xf32> {graph.state = @down}) -> (tensor<4x8xf32> {graph.output = "y"}) {
    // CHECK: graph.matmul "bd,de->be"
    // CHECK-SAME: parallel.out = [#parallel.sharding<[{}, {"tp0", "tp1"}]>]
    %0 = graph.matmul "bd,de->be" %x, %up : (tensor<4x8xf32>, tensor<8x32xf32>) -> tensor<4x32xf32> loc("fc")
    // CHECK: graph.matmul "be,ed->bd"
    // CHECK-SAME: parallel.out = [#parallel.sharding<[{}, {}], unreduced = {"tp0": sum, "tp1": sum}>]
    %1 = graph.matmul "be,ed->bd" %0, %down : (tensor<4x32xf32>, tensor<32x8xf32>) -> tensor<4x8xf32>
    return %1 : tensor<4x8xf32>
  }
}
