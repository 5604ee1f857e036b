// RUN: llmc-opt %s --split-input-file --llmc-emit-kernels | FileCheck %s
// One launch becomes one function over its rows; the launch says how many there are.
// CHECK-LABEL: plan.stage @first
// CHECK: attributes {kernel = "reduce", rows = 3 : i64, stream = 0 : i64}
// CHECK: module @kernels {
// CHECK: func.func @reduce(
plan.stage @first attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
  %a = plan.buffer scratch : !plan.buffer<3x8xf32>
  %m = plan.buffer scratch : !plan.buffer<3xf32>
  plan.procedure @forward forward {
    plan.launch reads(%a : !plan.buffer<3x8xf32>) writes(%m : !plan.buffer<3xf32>) attributes {stream = 0} {
    ^bb0(%x: tensor<3x8xf32>):
      %r = graph.reduce %x {kind = #graph.reduce_kind<max>, dims = array<i64: 1>} : (tensor<3x8xf32>) -> tensor<3xf32>
      plan.yield %r : tensor<3xf32>
    }
  }
}

// -----


// Launches that differ in the number of rows share a kernel; each keeps its rows.
// CHECK-LABEL: plan.stage @stage0
plan.stage @stage0 attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
  %a = plan.buffer scratch : !plan.buffer<2x3x20xf32>
  %b = plan.buffer scratch : !plan.buffer<20xf32>
  %c = plan.buffer scratch : !plan.buffer<9x20xf32>
  %s = plan.buffer scratch : !plan.buffer<f32>
  %m = plan.buffer scratch : !plan.buffer<9xf32>
  %t = plan.buffer scratch : !plan.buffer<9x9xf32>
  %ids = plan.buffer scratch : !plan.buffer<9xi64>
  plan.procedure @forward forward {
    // CHECK: attributes {kernel = "add", rows = 6 : i64, stream = 0 : i64}
    plan.launch reads(%a, %b : !plan.buffer<2x3x20xf32>, !plan.buffer<20xf32>) writes(%a : !plan.buffer<2x3x20xf32>) attributes {stream = 0} {
    ^bb0(%x: tensor<2x3x20xf32>, %y: tensor<20xf32>):
      %r = graph.add %x, %y : (tensor<2x3x20xf32>, tensor<20xf32>) -> tensor<2x3x20xf32>
      plan.yield %r : tensor<2x3x20xf32>
    }
    // CHECK: attributes {kernel = "add", rows = 9 : i64, stream = 0 : i64}
    plan.launch reads(%c, %b : !plan.buffer<9x20xf32>, !plan.buffer<20xf32>) writes(%c : !plan.buffer<9x20xf32>) attributes {stream = 0} {
    ^bb0(%x: tensor<9x20xf32>, %y: tensor<20xf32>):
      %r = graph.add %x, %y : (tensor<9x20xf32>, tensor<20xf32>) -> tensor<9x20xf32>
      plan.yield %r : tensor<9x20xf32>
    }
    // Without broadcast all dims are one, and one kernel serves every shape.
    // CHECK: attributes {extents = array<i64: 180>, kernel = "add_1", rows = 180 : i64, stream = 0 : i64}
    plan.launch reads(%c, %c : !plan.buffer<9x20xf32>, !plan.buffer<9x20xf32>) writes(%c : !plan.buffer<9x20xf32>) attributes {stream = 0} {
    ^bb0(%x: tensor<9x20xf32>, %y: tensor<9x20xf32>):
      %r = graph.add %x, %y : (tensor<9x20xf32>, tensor<9x20xf32>) -> tensor<9x20xf32>
      plan.yield %r : tensor<9x20xf32>
    }
    // CHECK: attributes {extents = array<i64: 20>, kernel = "add_1", rows = 20 : i64, stream = 0 : i64}
    plan.launch reads(%b, %b : !plan.buffer<20xf32>, !plan.buffer<20xf32>) writes(%b : !plan.buffer<20xf32>) attributes {stream = 0} {
    ^bb0(%x: tensor<20xf32>, %y: tensor<20xf32>):
      %r = graph.add %x, %y : (tensor<20xf32>, tensor<20xf32>) -> tensor<20xf32>
      plan.yield %r : tensor<20xf32>
    }
    // A sum of everything: one row, the size is a scalar of the launch.
    // CHECK: attributes {extents = array<i64: 180>, kernel = "reduce", rows = 1 : i64, stream = 0 : i64}
    plan.launch reads(%c : !plan.buffer<9x20xf32>) writes(%s : !plan.buffer<f32>) attributes {stream = 0} {
    ^bb0(%x: tensor<9x20xf32>):
      %r = graph.reduce %x {kind = #graph.reduce_kind<sum_squares>, dims = array<i64: 0, 1>} : (tensor<9x20xf32>) -> tensor<f32>
      plan.yield %r : tensor<f32>
    }
    // CHECK: kernel = "reduce", rows = 1 : i64
    plan.launch reads(%a : !plan.buffer<2x3x20xf32>) writes(%s : !plan.buffer<f32>) attributes {stream = 0} {
    ^bb0(%x: tensor<2x3x20xf32>):
      %r = graph.reduce %x {kind = #graph.reduce_kind<sum_squares>, dims = array<i64: 0, 1, 2>} : (tensor<2x3x20xf32>) -> tensor<f32>
      plan.yield %r : tensor<f32>
    }
    // A sum over leading dims: rows are columns.
    // CHECK: attributes {extents = array<i64: 9>, kernel = "reduce_1", rows = 20 : i64, stream = 0 : i64}
    plan.launch reads(%c : !plan.buffer<9x20xf32>) writes(%b : !plan.buffer<20xf32>) attributes {stream = 0} {
    ^bb0(%x: tensor<9x20xf32>):
      %r = graph.reduce %x {kind = #graph.reduce_kind<sum>, dims = array<i64: 0>} : (tensor<9x20xf32>) -> tensor<20xf32>
      plan.yield %r : tensor<20xf32>
    }
    // A group: producer, hero and what each row needs, in one loop over rows.
    // CHECK: kernel = "mul_reduce", rows = 9 : i64
    plan.launch reads(%c, %b : !plan.buffer<9x20xf32>, !plan.buffer<20xf32>) writes(%m : !plan.buffer<9xf32>) attributes {stream = 0} {
    ^bb0(%x: tensor<9x20xf32>, %y: tensor<20xf32>):
      %p = graph.mul %x, %y : (tensor<9x20xf32>, tensor<20xf32>) -> tensor<9x20xf32>
      %r = graph.reduce %p {kind = #graph.reduce_kind<max>, dims = array<i64: 1>} : (tensor<9x20xf32>) -> tensor<9xf32>
      plan.yield %r : tensor<9xf32>
    }
    // CHECK: kernel = "take_along", rows = 9 : i64
    plan.launch reads(%c, %ids : !plan.buffer<9x20xf32>, !plan.buffer<9xi64>) writes(%m : !plan.buffer<9xf32>) attributes {stream = 0, scalars = [array<i64: 0, 0, 0, 20>]} {
    ^bb0(%x: tensor<9x20xf32>, %i: tensor<9xi64>, %offset: tensor<i64>):
      %r = graph.take_along %x, %i, %offset : (tensor<9x20xf32>, tensor<9xi64>, tensor<i64>) -> tensor<9xf32>
      plan.yield %r : tensor<9xf32>
    }
    // CHECK: plan.matmul "ad,bd->ab" {{.*}} {fallback = "matmul_dots", stream = 0 : i64}
    plan.matmul "ad,bd->ab" %c, %c into %t {stream = 0} : !plan.buffer<9x20xf32>, !plan.buffer<9x20xf32>, !plan.buffer<9x9xf32>
    // CHECK: accumulate {fallback_accumulate = "matmul_dots_add", stream = 0 : i64}
    plan.matmul "ad,bd->ab" %c, %c into %t accumulate {stream = 0} : !plan.buffer<9x20xf32>, !plan.buffer<9x20xf32>, !plan.buffer<9x9xf32>
  }
}

// The bias stands still while rows pass: 16 elements, then 4.
// CHECK-LABEL: module @kernels
// CHECK: func.func @add(%[[BUFFERS:.*]]: !llvm.ptr, %{{.*}}: !llvm.ptr, %[[BEGIN:.*]]: i64, %[[END:.*]]: i64)
// CHECK-SAME: plan.source = "graph.add tensor<2x3x20xf32>, tensor<20xf32>"
// CHECK: llvm.getelementptr %[[BUFFERS]][0]
// CHECK: %[[X:.*]] = llvm.load
// CHECK: llvm.getelementptr %[[BUFFERS]][1]
// CHECK: %[[BIAS:.*]] = llvm.load
// CHECK: llvm.getelementptr %[[BUFFERS]][2]
// CHECK: %[[Y:.*]] = llvm.load
// CHECK: scf.for %[[ROW:.*]] = %[[BEGIN]] to %[[END]]
// CHECK:     %[[AT:.*]] = arith.muli %[[ROW]], %c20
// CHECK:     llvm.getelementptr %[[X]][%[[AT]]]
// CHECK:     %[[V:.*]] = llvm.load {{.*}} -> vector<16xf32>
// CHECK:     llvm.getelementptr %[[BIAS]][%c0_i64]
// CHECK:     %[[W:.*]] = llvm.load {{.*}} -> vector<16xf32>
// CHECK:     %[[SUM:.*]] = arith.addf %[[V]], %[[W]] : vector<16xf32>
// CHECK:     llvm.getelementptr %[[Y]][%[[AT]]]
// CHECK:     llvm.store %[[SUM]]
// CHECK:   arith.addf {{.*}} : vector<4xf32>

// Rows are single elements where nothing broadcasts, the rest one by one.
// CHECK: func.func @add_1
// CHECK: scf.for {{.*}} step %c8_i64
// CHECK:   arith.addf {{.*}} : vector<8xf32>
// CHECK: scf.for {{.*}} step %c1_i64
// CHECK:   arith.addf {{.*}} : f32

// Sums are carried in float64, two lanes at a time; the size is the first scalar.
// CHECK: func.func @reduce(%{{.*}}: !llvm.ptr, %[[SCALARS:.*]]: !llvm.ptr
// CHECK: llvm.getelementptr %[[SCALARS]][0]
// CHECK: scf.for {{.*}} step %c16_i64 iter_args({{.*}}) -> (vector<8xf64>, f64)
// CHECK:   %[[SQUARE:.*]] = arith.mulf {{.*}} : vector<16xf32>
// CHECK:   vector.extract_strided_slice %[[SQUARE]]
// CHECK:   %[[PAIRS:.*]] = arith.addf {{.*}} : vector<8xf32>
// CHECK:   %[[WIDE:.*]] = arith.extf %[[PAIRS]] : vector<8xf32> to vector<8xf64>
// CHECK:   arith.addf {{.*}}, %[[WIDE]]
// CHECK: vector.reduction <add>
// CHECK: arith.truncf {{.*}} : f64 to f32

// Columns are vectors, rows of the operand pass one after the other.
// CHECK: func.func @reduce_1
// CHECK: scf.for %{{.*}} = {{.*}} step %c32_i64
// CHECK:   scf.for {{.*}} iter_args({{.*}}) -> (vector<32xf64>)

// The product never reaches memory.
// CHECK: func.func @mul_reduce
// CHECK: scf.for
// CHECK-NOT: llvm.store {{.*}} vector
// CHECK:   arith.mulf {{.*}} : vector<16xf32>
// CHECK:   vector.reduction <maxnumf>
// CHECK:   llvm.store {{.*}} : f32, !llvm.ptr

// The same kernels in vectors of 16.
// CHECK-LABEL: module @kernels_avx512
// CHECK: func.func @add(
// CHECK:   %[[V:.*]] = llvm.load {{.*}} -> vector<16xf32>

// -----


// A row of a launch of single elements is an eighth of a vector: a load, a sum and a store; a quotient counts as eight.
// CHECK-LABEL: module @kernels
// CHECK: func.func @add({{.*}}plan.instructions = 3.750000e-01 : f64
// CHECK: func.func @div({{.*}}plan.instructions = 1.250000e+00 : f64
// CHECK: func.func @reduce({{.*}}plan.instructions = {{[1-9][0-9]?}}.{{[0-9]*}}e+0{{[1-2]}} : f64
plan.stage @counted attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
  %a = plan.buffer scratch : !plan.buffer<3x64xf32>
  %b = plan.buffer scratch : !plan.buffer<3x128xf32>
  %c = plan.buffer scratch : !plan.buffer<3xf32>
  plan.procedure @forward forward {
    plan.launch reads(%a : !plan.buffer<3x64xf32>) writes(%a : !plan.buffer<3x64xf32>) attributes {stream = 0} {
    ^bb0(%x: tensor<3x64xf32>):
      %r = graph.add %x, %x : (tensor<3x64xf32>, tensor<3x64xf32>) -> tensor<3x64xf32>
      plan.yield %r : tensor<3x64xf32>
    }
    plan.launch reads(%b : !plan.buffer<3x128xf32>) writes(%b : !plan.buffer<3x128xf32>) attributes {stream = 0} {
    ^bb0(%x: tensor<3x128xf32>):
      %r = graph.div %x, %x : (tensor<3x128xf32>, tensor<3x128xf32>) -> tensor<3x128xf32>
      plan.yield %r : tensor<3x128xf32>
    }
    plan.launch reads(%b : !plan.buffer<3x128xf32>) writes(%c : !plan.buffer<3xf32>) attributes {stream = 0} {
    ^bb0(%x: tensor<3x128xf32>):
      %r = graph.reduce %x {kind = #graph.reduce_kind<max>, dims = array<i64: 1>} : (tensor<3x128xf32>) -> tensor<3xf32>
      plan.yield %r : tensor<3xf32>
    }
  }
}
