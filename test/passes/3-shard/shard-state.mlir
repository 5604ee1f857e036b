// RUN: llmc-opt %s --llmc-shard-state=zero=1 | FileCheck %s --check-prefixes=ONE,ALL
// RUN: llmc-opt %s --llmc-shard-state=zero=2 | FileCheck %s --check-prefixes=TWO,ALL
// RUN: llmc-opt %s --llmc-shard-state=zero=3 | FileCheck %s --check-prefixes=THREE,ALL
// RUN: llmc-opt %s --llmc-shard-state=zero=0 | FileCheck %s --check-prefix=ZERO

// Data and context ranks share; an axis of one rank has nothing to share.
module attributes {parallel.mesh = #parallel.mesh<["dp"=2, "pp"=1, "cp"=3, "tp"=2]>} {
  graph.source @s : tensor<8xf32> {init = #graph.init_kind<ones>}
  // ONE-NOT: @w :{{.*}}flat_axes
  // TWO-NOT: @w :{{.*}}flat_axes
  // THREE: graph.state @w : {{.*}} {parallel.flat_axes = ["dp", "cp"]}
  // ZERO-NOT: flat_axes
  graph.state @w : tensor<8xbf16> parameter views [#graph.view<@s, 0, [1]>]
  // ONE: graph.state @w.grad : tensor<8xf32> accumulator of @w{{$}}
  // TWO: graph.state @w.grad : {{.*}} {parallel.flat_axes = ["dp", "cp"]}
  // THREE: graph.state @w.grad : {{.*}} {parallel.flat_axes = ["dp", "cp"]}
  graph.state @w.grad : tensor<8xf32> accumulator of @w
  // ALL: graph.state @w.master : {{.*}} {parallel.flat_axes = ["dp", "cp"]}
  graph.state @w.master : tensor<8xf32> master of @w
  // ALL: graph.state @w.m : {{.*}} {parallel.flat_axes = ["dp", "cp"]}
  graph.state @w.m : tensor<8xf32> moment1 of @w
  // ALL: graph.state @w.v : {{.*}} {parallel.flat_axes = ["dp", "cp"]}
  graph.state @w.v : tensor<8xf32> moment2 of @w
  // The step's own sums stay with each rank.
  // ALL: graph.state @loss.sum : tensor<f32> accumulator{{$}}
  graph.state @loss.sum : tensor<f32> accumulator
  func.func private @micro()
}
