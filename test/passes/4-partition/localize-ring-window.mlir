// RUN: llmc-opt %s --split-input-file --llmc-localize | FileCheck %s

#rows = #parallel.sharding<[{}, {"cp"}, {}, {}]>
#lse = #parallel.sharding<[{}, {"cp"}, {}]>
#at = #parallel.sharding<[{"cp"}]>

// Of 8 tokens in the order of the row, rank 1 has 2 and 3, which see 1 to 3: keys of the rank before. No
// row sees a key from further away, so that one hop is left of three; cotangents go home by the rest.
module attributes {parallel.mesh = #parallel.mesh<["cp"=4]>, parallel.tactics = {cp = "context"}} {
// CHECK-LABEL: func.func @forward
// CHECK: %[[K1:.*]] = parallel.shift %{{.*}} over ["cp"] by 1 {{.*}} : tensor<1x2x1x4xf32>
// CHECK: %[[P1:.*]] = parallel.shift %{{.*}} over ["cp"] by 1 {{.*}} : tensor<2xi64>
// CHECK: graph.attention
// CHECK-NOT: parallel.shift
// CHECK: graph.attention %{{.*}}, %[[K1]], %[[K1]], %{{.*}}, %[[P1]]
// CHECK-NOT: parallel.shift
// CHECK: return
func.func @forward(%q: tensor<1x8x2x4xf32> {parallel.sharding = #rows}, %k: tensor<1x8x1x4xf32> {parallel.sharding = #rows}) -> (tensor<1x8x2x4xf32>, tensor<1x8x2xf32>) {
  %p = graph.iota {dim = 0, parallel.out = [#at]} : () -> tensor<8xi64>
  %o, %l = graph.attention %q, %k, %k, %p, %p {scale = 0.5, causal = true, window = 2, ring, parallel.in = [#rows, #rows, #rows, #at, #at], parallel.out = [#rows, #lse]}
      : (tensor<1x8x2x4xf32>, tensor<1x8x1x4xf32>, tensor<1x8x1x4xf32>, tensor<8xi64>, tensor<8xi64>) -> (tensor<1x8x2x4xf32>, tensor<1x8x2xf32>) loc("scores")
  return {parallel.in = [#rows, #lse]} %o, %l : tensor<1x8x2x4xf32>, tensor<1x8x2xf32>
}

// CHECK-LABEL: func.func @backward
// CHECK: parallel.shift %{{.*}} over ["cp"] by 1 {{.*}} : tensor<1x2x1x4xf32>
// CHECK: %{{.*}}, %[[HOME:.*]], %{{.*}} = graph.attention_grad
// CHECK-NOT: parallel.shift
// CHECK: %{{.*}}, %[[AWAY:.*]], %{{.*}} = graph.attention_grad
// CHECK: %[[BACK:.*]] = parallel.shift %[[AWAY]] over ["cp"] by 3
// CHECK-NOT: graph.attention_grad
// CHECK: graph.add %[[HOME]], %[[BACK]]
// CHECK: return
func.func @backward(%q: tensor<1x8x2x4xf32> {parallel.sharding = #rows}, %k: tensor<1x8x1x4xf32> {parallel.sharding = #rows},
                    %l: tensor<1x8x2xf32> {parallel.sharding = #lse}) -> (tensor<1x8x2x4xf32>, tensor<1x8x1x4xf32>, tensor<1x8x1x4xf32>) {
  %p = graph.iota {dim = 0, parallel.out = [#at]} : () -> tensor<8xi64>
  %dq, %dk, %dv = graph.attention_grad %q, %q, %k, %k, %q, %l, %p, %p {scale = 0.5, causal = true, window = 2, ring, parallel.in = [#rows, #rows, #rows, #rows, #rows, #lse, #at, #at], parallel.out = [#rows, #rows, #rows]}
      : (tensor<1x8x2x4xf32>, tensor<1x8x2x4xf32>, tensor<1x8x1x4xf32>, tensor<1x8x1x4xf32>, tensor<1x8x2x4xf32>, tensor<1x8x2xf32>, tensor<8xi64>, tensor<8xi64>) -> (tensor<1x8x2x4xf32>, tensor<1x8x1x4xf32>, tensor<1x8x1x4xf32>) loc("scores")
  return {parallel.in = [#rows, #rows, #rows]} %dq, %dk, %dv : tensor<1x8x2x4xf32>, tensor<1x8x1x4xf32>, tensor<1x8x1x4xf32>
}

// Rows that see themselves alone need no other rank.
// CHECK-LABEL: func.func @alone
// CHECK-NOT: parallel.shift
// CHECK: return
func.func @alone(%q: tensor<1x8x2x4xf32> {parallel.sharding = #rows}, %k: tensor<1x8x1x4xf32> {parallel.sharding = #rows}) -> (tensor<1x8x2x4xf32>, tensor<1x8x2xf32>) {
  %p = graph.iota {dim = 0, parallel.out = [#at]} : () -> tensor<8xi64>
  %o, %l = graph.attention %q, %k, %k, %p, %p {scale = 0.5, causal = true, window = 1, ring, parallel.in = [#rows, #rows, #rows, #at, #at], parallel.out = [#rows, #lse]}
      : (tensor<1x8x2x4xf32>, tensor<1x8x1x4xf32>, tensor<1x8x1x4xf32>, tensor<8xi64>, tensor<8xi64>) -> (tensor<1x8x2x4xf32>, tensor<1x8x2xf32>) loc("scores")
  return {parallel.in = [#rows, #lse]} %o, %l : tensor<1x8x2x4xf32>, tensor<1x8x2xf32>
}
}
