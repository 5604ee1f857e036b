// RUN: llmc-opt %s --split-input-file --llmc-localize | FileCheck %s

// Rows are sorted by their experts and sent, as many as there are; they come back the same way. Counts go
// ahead of the numbers of the experts, and each side counts what it sends and what it has room for.
// CHECK: %[[PLACES:.*]], %[[SORTED:.*]], %[[SENT:.*]] = graph.sort_routes %arg1 {experts = 4 : i64} : (tensor<1x4x2xi64>) -> (tensor<1x4x2xi64>, tensor<1x4x2xi64>, tensor<2xi64>)
// CHECK: %[[RECEIVED:.*]] = parallel.all_to_all %[[SENT]] over ["dp"] split 0 concat 0
// CHECK: %[[NUMBERS:.*]] = graph.reshape %[[SORTED]]
// CHECK: %[[CAME:.*]] = parallel.exchange_rows %[[NUMBERS]] counts %[[SENT]], %[[RECEIVED]] over ["dp"]
// CHECK-SAME: (tensor<1x4x2x1xi64>, tensor<2xi64>, tensor<2xi64>) -> tensor<1x4x4x1xi64>
// CHECK: %{{.*}}, %[[SOURCES:.*]], %{{.*}} = graph.arrived_routes %{{.*}}, %[[RECEIVED]]
// CHECK: %[[PACKED:.*]] = graph.pack_rows %arg0, %[[PLACES]]
// CHECK: %[[ROOM:.*]] = graph.count_sources %[[SOURCES]]
// CHECK: %[[THERE:.*]] = parallel.exchange_rows %[[PACKED]] counts %[[SENT]], %[[ROOM]] over ["dp"]
// CHECK-SAME: rule = "rows go to the ranks of their experts"
// CHECK: %[[BACK:.*]] = parallel.exchange_rows %[[THERE]] counts %[[ROOM]], %[[SENT]] over ["dp"]
// CHECK-SAME: rule = "rows come back from the ranks of their experts"
// CHECK: graph.unpack_rows %[[BACK]], %[[PLACES]]
// CHECK-NOT: sort_routes
#two = #parallel.sharding<[{"dp"}, {}]>
#rows = #parallel.sharding<[{"dp"}, {}, {}]>
#four = #parallel.sharding<[{"dp"}, {}, {}, {}]>
module attributes {parallel.mesh = #parallel.mesh<["pp"=1, "dp"=2], ep = ["dp"]>} {
  func.func @forward_0(%x: tensor<2x4x8xf32> {graph.input = "x", parallel.sharding = #rows}, %r: tensor<2x4x2xi64>
                       {graph.input = "r", parallel.sharding = #rows})
      -> (tensor<2x4x2x8xf32> {graph.output = "y"}) attributes {parallel.stage = 0 : i64, parallel.procedure = "forward"} {
    %a, %s, %n = graph.exchange_routes %r {experts = 4, parallel.in = [#rows], parallel.out = [#rows, #rows, #two]}
        : (tensor<2x4x2xi64>) -> (tensor<2x4x4xi64>, tensor<2x4x4xi64>, tensor<2x4xf32>)
    %d = graph.dispatch %x, %r, %s {experts = 4, parallel.in = [#rows, #rows, #rows], parallel.out = [#four]}
        : (tensor<2x4x8xf32>, tensor<2x4x2xi64>, tensor<2x4x4xi64>) -> tensor<2x4x4x8xf32>
    %y = graph.collect %d, %r, %s {experts = 4, parallel.in = [#four, #rows, #rows], parallel.out = [#four]}
        : (tensor<2x4x4x8xf32>, tensor<2x4x2xi64>, tensor<2x4x4xi64>) -> tensor<2x4x2x8xf32>
    return {parallel.in = [#four]} %y : tensor<2x4x2x8xf32>
  }
}

// -----

// What chooses or limits the routes of experts says how they lie on the ranks; a choice that no product of experts
// follows does not.
// CHECK: graph.route %arg0 {mixture, parallel.sharding = #parallel.sharding<[{"dp"}, {}, {}]>} : (tensor<1x4x8xf32>) -> tensor<1x4x2xi64>
// CHECK: graph.limit_routes %{{.*}} {capacity = 2 : i64, experts = 8 : i64, parallel.sharding = #parallel.sharding<[{"dp"}, {}, {}]>}
// CHECK: graph.route %arg0 : (tensor<1x4x8xf32>) -> tensor<1x4x8xi64>
#rows = #parallel.sharding<[{"dp"}, {}, {}]>
#four = #parallel.sharding<[{"dp"}, {}, {}, {}]>
#whole = #parallel.sharding<[{}, {}, {}]>
module attributes {parallel.mesh = #parallel.mesh<["pp"=1, "dp"=2]>} {
  func.func @forward_0(%x: tensor<2x4x8xf32> {graph.input = "x", parallel.sharding = #rows},
                       %w: tensor<8x8x3xf32> {graph.input = "w", parallel.sharding = #whole})
      -> (tensor<2x4x2x3xf32> {graph.output = "y"}, tensor<2x4x8xi64> {graph.output = "sorted"})
      attributes {parallel.stage = 0 : i64, parallel.procedure = "forward"} {
    %r = graph.route %x {mixture, parallel.in = [#rows], parallel.out = [#rows]} : (tensor<2x4x8xf32>) -> tensor<2x4x2xi64>
    %l = graph.limit_routes %r {capacity = 2, experts = 8, parallel.in = [#rows], parallel.out = [#rows]}
        : (tensor<2x4x2xi64>) -> tensor<2x4x2xi64>
    %y = graph.grouped_matmul %x, %w, %l {parallel.in = [#rows, #whole, #rows], parallel.out = [#four]}
        : (tensor<2x4x8xf32>, tensor<8x8x3xf32>, tensor<2x4x2xi64>) -> tensor<2x4x2x3xf32>
    %s = graph.route %x {parallel.in = [#rows], parallel.out = [#rows]} : (tensor<2x4x8xf32>) -> tensor<2x4x8xi64>
    return {parallel.in = [#four, #rows]} %y, %s : tensor<2x4x2x3xf32>, tensor<2x4x8xi64>
  }
}

// -----

// Rows stay on their rank, in order of their experts, where each rank has all of these.
// CHECK: %[[PLACES:.*]], %[[SORTED:.*]], %{{.*}} = graph.sort_routes %arg1 {experts = 4 : i64}
// CHECK-NOT: graph.arrived_routes
// CHECK: %[[PACKED:.*]] = graph.pack_rows %arg0, %[[PLACES]]
// CHECK: %[[UP:.*]] = graph.grouped_matmul %[[PACKED]], %{{.*}}, %[[SORTED]] {exchanged}
// CHECK: graph.unpack_rows %[[UP]], %[[PLACES]]
// CHECK-NOT: parallel.exchange_rows
#two = #parallel.sharding<[{"dp"}, {}]>
#rows = #parallel.sharding<[{"dp"}, {}, {}]>
#four = #parallel.sharding<[{"dp"}, {}, {}, {}]>
#whole = #parallel.sharding<[{}, {}, {}]>
module attributes {parallel.mesh = #parallel.mesh<["pp"=1, "dp"=2]>} {
  func.func @forward_0(%x: tensor<2x4x8xf32> {graph.input = "x", parallel.sharding = #rows}, %r: tensor<2x4x2xi64>
                       {graph.input = "r", parallel.sharding = #rows},
                       %w: tensor<4x8x8xf32> {graph.input = "w", parallel.sharding = #whole})
      -> (tensor<2x4x2x8xf32> {graph.output = "y"}) attributes {parallel.stage = 0 : i64, parallel.procedure = "forward"} {
    %a, %s, %n = graph.exchange_routes %r {experts = 4, parallel.in = [#rows], parallel.out = [#rows, #rows, #two]}
        : (tensor<2x4x2xi64>) -> (tensor<2x4x2xi64>, tensor<2x4x2xi64>, tensor<2x4xf32>)
    %d = graph.dispatch %x, %r, %r {experts = 4, parallel.in = [#rows, #rows, #rows], parallel.out = [#four]}
        : (tensor<2x4x8xf32>, tensor<2x4x2xi64>, tensor<2x4x2xi64>) -> tensor<2x4x2x8xf32>
    %u = graph.grouped_matmul %d, %w, %a {exchanged, parallel.in = [#four, #whole, #rows], parallel.out = [#four]}
        : (tensor<2x4x2x8xf32>, tensor<4x8x8xf32>, tensor<2x4x2xi64>) -> tensor<2x4x2x8xf32>
    %y = graph.collect %u, %r, %r {experts = 4, parallel.in = [#four, #rows, #rows], parallel.out = [#four]}
        : (tensor<2x4x2x8xf32>, tensor<2x4x2xi64>, tensor<2x4x2xi64>) -> tensor<2x4x2x8xf32>
    return {parallel.in = [#four]} %y : tensor<2x4x2x8xf32>
  }
}
