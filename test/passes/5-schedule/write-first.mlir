// RUN: llmc-opt %s --split-input-file --llmc-write-first | FileCheck %s

// One micro-batch. The two layers of a stacked gradient get all their bytes from one
// product each: they write, and nobody zeroes.
// CHECK-LABEL: plan.stage @once
// CHECK: plan.matmul "ab,ac->bc" %{{.*}}, %{{.*}} into %{{.*}} {stream
// CHECK: plan.matmul "ab,ac->bc" %{{.*}}, %{{.*}} into %{{.*}} {stream
// CHECK: plan.procedure @begin
// CHECK-NOT: plan.fill
plan.stage @once attributes {stage = 0 : i64, chunks = [#plan.chunk<0, 1>], pools = [#plan.pool<0, 1>], table = [#plan.entry<@begin, 0, 0>, #plan.entry<@backward_last, 0, 0>, #plan.entry<@update, 0, 0>]} {
  %x = plan.buffer scratch : !plan.buffer<8x2xf32>
  %g = plan.buffer persistent : !plan.buffer<2x2x2xf32>
  %g0 = plan.buffer persistent of %g : !plan.buffer<2x2x2xf32> at 0 : !plan.buffer<2x2xf32>
  %g1 = plan.buffer persistent of %g : !plan.buffer<2x2x2xf32> at 16 : !plan.buffer<2x2xf32>
  plan.procedure @backward_last backward_last {
    plan.matmul "ab,ac->bc" %x, %x into %g1 accumulate {stream = 0 : i64} : !plan.buffer<8x2xf32>, !plan.buffer<8x2xf32>, !plan.buffer<2x2xf32>
    plan.matmul "ab,ac->bc" %x, %x into %g0 accumulate {stream = 0 : i64} : !plan.buffer<8x2xf32>, !plan.buffer<8x2xf32>, !plan.buffer<2x2xf32>
  }
  plan.procedure @update update {
    plan.copy %g into %g {stream = 0 : i64} : !plan.buffer<2x2x2xf32>, !plan.buffer<2x2x2xf32>
  }
  plan.procedure @begin begin {
    plan.fill %g {stream = 0 : i64} : !plan.buffer<2x2x2xf32>
  }
}

// -----

// A second product (of a tied weight) adds to the first.
// CHECK-LABEL: plan.stage @tied
// CHECK: plan.matmul "ab,ac->bc" %{{.*}}, %{{.*}} into %{{.*}} {stream
// CHECK: plan.matmul "ab,ac->bc" %{{.*}}, %{{.*}} into %{{.*}} accumulate {stream
// CHECK-NOT: plan.fill
plan.stage @tied attributes {stage = 0 : i64, chunks = [#plan.chunk<0, 1>], pools = [#plan.pool<0, 1>], table = [#plan.entry<@begin, 0, 0>, #plan.entry<@backward_last, 0, 0>]} {
  %x = plan.buffer scratch : !plan.buffer<8x2xf32>
  %g = plan.buffer persistent : !plan.buffer<2x2xf32>
  plan.procedure @backward_last backward_last {
    plan.matmul "ab,ac->bc" %x, %x into %g accumulate {stream = 0 : i64} : !plan.buffer<8x2xf32>, !plan.buffer<8x2xf32>, !plan.buffer<2x2xf32>
    plan.matmul "ab,ac->bc" %x, %x into %g accumulate {stream = 0 : i64} : !plan.buffer<8x2xf32>, !plan.buffer<8x2xf32>, !plan.buffer<2x2xf32>
  }
  plan.procedure @begin begin {
    plan.fill %g {stream = 0 : i64} : !plan.buffer<2x2xf32>
  }
}

// -----

// Two micro-batches: the second backward adds to what the first wrote, whether it is the
// same procedure or the next.
// CHECK-LABEL: plan.stage @again
// CHECK: plan.matmul {{.*}} accumulate {stream
// CHECK: plan.fill
plan.stage @again attributes {stage = 0 : i64, chunks = [#plan.chunk<0, 0>], pools = [#plan.pool<0, 1>], table = [#plan.entry<@begin, 0, 0>, #plan.entry<@backward, 0, 0>, #plan.entry<@backward, 1, 0>]} {
  %x = plan.buffer scratch : !plan.buffer<8x2xf32>
  %g = plan.buffer persistent : !plan.buffer<2x2xf32>
  plan.procedure @backward backward {
    plan.matmul "ab,ac->bc" %x, %x into %g accumulate {stream = 0 : i64} : !plan.buffer<8x2xf32>, !plan.buffer<8x2xf32>, !plan.buffer<2x2xf32>
  }
  plan.procedure @begin begin {
    plan.fill %g {stream = 0 : i64} : !plan.buffer<2x2xf32>
  }
}

// -----

// Half of the bytes get no product: they are zeroed, the others written.
// CHECK-LABEL: plan.stage @half
// CHECK: %[[G:.*]] = plan.buffer persistent : !plan.buffer<2x2x2xf32>
// CHECK: %[[REST:.*]] = plan.buffer persistent of %[[G]] : !plan.buffer<2x2x2xf32> at 16 : !plan.buffer<4xf32>
// CHECK: plan.matmul "ab,ac->bc" %{{.*}}, %{{.*}} into %{{.*}} {stream
// CHECK: plan.fill %[[REST]]
// CHECK-NOT: plan.fill
plan.stage @half attributes {stage = 0 : i64, chunks = [#plan.chunk<0, 0>], pools = [#plan.pool<0, 1>], table = [#plan.entry<@begin, 0, 0>, #plan.entry<@backward_last, 0, 0>]} {
  %x = plan.buffer scratch : !plan.buffer<8x2xf32>
  %g = plan.buffer persistent : !plan.buffer<2x2x2xf32>
  %g0 = plan.buffer persistent of %g : !plan.buffer<2x2x2xf32> at 0 : !plan.buffer<2x2xf32>
  plan.procedure @backward_last backward_last {
    plan.matmul "ab,ac->bc" %x, %x into %g0 accumulate {stream = 0 : i64} : !plan.buffer<8x2xf32>, !plan.buffer<8x2xf32>, !plan.buffer<2x2xf32>
  }
  plan.procedure @begin begin {
    plan.fill %g {stream = 0 : i64} : !plan.buffer<2x2x2xf32>
  }
}

// -----

// The gradients of a flat bucket: a matrix, a norm that a copy adds to (it stands for a kernel), a
// second matrix, padding. Two small fills stand for the large one.
// CHECK-LABEL: plan.stage @flat
// CHECK-DAG: %[[NORM:.*]] = plan.buffer persistent of %{{.*}} : !plan.buffer<32800xf32> at 65536 : !plan.buffer<16xf32>
// CHECK-DAG: %[[PADDING:.*]] = plan.buffer persistent of %{{.*}} : !plan.buffer<32800xf32> at 131136 : !plan.buffer<16xf32>
// CHECK: plan.matmul "ab,ac->bc" %{{.*}}, %{{.*}} into %{{.*}} {stream
// CHECK: plan.matmul "ab,ac->bc" %{{.*}}, %{{.*}} into %{{.*}} {stream
// CHECK: plan.fill %[[NORM]]
// CHECK: plan.fill %[[PADDING]]
// CHECK-NOT: plan.fill
plan.stage @flat attributes {stage = 0 : i64, chunks = [#plan.chunk<0, 0>], pools = [#plan.pool<0, 1>], table = [#plan.entry<@begin, 0, 0>, #plan.entry<@backward_last, 0, 0>]} {
  %x = plan.buffer scratch : !plan.buffer<8x128xf32>
  %n = plan.buffer scratch : !plan.buffer<16xf32>
  %g = plan.buffer persistent : !plan.buffer<32800xf32>
  %g0 = plan.buffer persistent of %g : !plan.buffer<32800xf32> at 0 : !plan.buffer<128x128xf32>
  %g1 = plan.buffer persistent of %g : !plan.buffer<32800xf32> at 65536 : !plan.buffer<16xf32>
  %g2 = plan.buffer persistent of %g : !plan.buffer<32800xf32> at 65600 : !plan.buffer<128x128xf32>
  plan.procedure @backward_last backward_last {
    plan.matmul "ab,ac->bc" %x, %x into %g0 accumulate {stream = 0 : i64} : !plan.buffer<8x128xf32>, !plan.buffer<8x128xf32>, !plan.buffer<128x128xf32>
    plan.copy %g1 into %n {stream = 0 : i64} : !plan.buffer<16xf32>, !plan.buffer<16xf32>
    plan.matmul "ab,ac->bc" %x, %x into %g2 accumulate {stream = 0 : i64} : !plan.buffer<8x128xf32>, !plan.buffer<8x128xf32>, !plan.buffer<128x128xf32>
  }
  plan.procedure @begin begin {
    plan.fill %g {stream = 0 : i64} : !plan.buffer<32800xf32>
  }
}

// -----

// Two fills of a few bytes take longer than one of a few more, others are read first, or by the
// product itself: the zeros are needed.
// CHECK-LABEL: plan.stage @needed
// CHECK-COUNT-3: plan.matmul {{.*}} accumulate {stream
// CHECK-COUNT-3: plan.fill
plan.stage @needed attributes {stage = 0 : i64, chunks = [#plan.chunk<0, 0>], pools = [#plan.pool<0, 1>], table = [#plan.entry<@begin, 0, 0>, #plan.entry<@backward_last, 0, 0>]} {
  %x = plan.buffer scratch : !plan.buffer<8x2xf32>
  %y = plan.buffer scratch : !plan.buffer<2x2xf32>
  %between = plan.buffer persistent : !plan.buffer<3x2x2xf32>
  %between1 = plan.buffer persistent of %between : !plan.buffer<3x2x2xf32> at 16 : !plan.buffer<2x2xf32>
  %read = plan.buffer persistent : !plan.buffer<2x2xf32>
  %own = plan.buffer persistent : !plan.buffer<2x2xf32>
  plan.procedure @backward_last backward_last {
    plan.copy %read into %y {stream = 0 : i64} : !plan.buffer<2x2xf32>, !plan.buffer<2x2xf32>
    plan.matmul "ab,ac->bc" %x, %x into %between1 accumulate {stream = 0 : i64} : !plan.buffer<8x2xf32>, !plan.buffer<8x2xf32>, !plan.buffer<2x2xf32>
    plan.matmul "ab,ac->bc" %x, %x into %read accumulate {stream = 0 : i64} : !plan.buffer<8x2xf32>, !plan.buffer<8x2xf32>, !plan.buffer<2x2xf32>
    plan.matmul "ab,ac->bc" %own, %y into %own accumulate {stream = 0 : i64} : !plan.buffer<2x2xf32>, !plan.buffer<2x2xf32>, !plan.buffer<2x2xf32>
  }
  plan.procedure @begin begin {
    plan.fill %between {stream = 0 : i64} : !plan.buffer<3x2x2xf32>
    plan.fill %read {stream = 0 : i64} : !plan.buffer<2x2xf32>
    plan.fill %own {stream = 0 : i64} : !plan.buffer<2x2xf32>
  }
}
