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

// Half of the bytes get no product, others are read first, or by the product itself:
// the zeros are needed.
// CHECK-LABEL: plan.stage @needed
// CHECK-COUNT-3: plan.matmul {{.*}} accumulate {stream
// CHECK-COUNT-3: plan.fill
plan.stage @needed attributes {stage = 0 : i64, chunks = [#plan.chunk<0, 0>], pools = [#plan.pool<0, 1>], table = [#plan.entry<@begin, 0, 0>, #plan.entry<@backward_last, 0, 0>]} {
  %x = plan.buffer scratch : !plan.buffer<8x2xf32>
  %y = plan.buffer scratch : !plan.buffer<2x2xf32>
  %half = plan.buffer persistent : !plan.buffer<2x2x2xf32>
  %half0 = plan.buffer persistent of %half : !plan.buffer<2x2x2xf32> at 0 : !plan.buffer<2x2xf32>
  %read = plan.buffer persistent : !plan.buffer<2x2xf32>
  %own = plan.buffer persistent : !plan.buffer<2x2xf32>
  plan.procedure @backward_last backward_last {
    plan.copy %read into %y {stream = 0 : i64} : !plan.buffer<2x2xf32>, !plan.buffer<2x2xf32>
    plan.matmul "ab,ac->bc" %x, %x into %half0 accumulate {stream = 0 : i64} : !plan.buffer<8x2xf32>, !plan.buffer<8x2xf32>, !plan.buffer<2x2xf32>
    plan.matmul "ab,ac->bc" %x, %x into %read accumulate {stream = 0 : i64} : !plan.buffer<8x2xf32>, !plan.buffer<8x2xf32>, !plan.buffer<2x2xf32>
    plan.matmul "ab,ac->bc" %own, %y into %own accumulate {stream = 0 : i64} : !plan.buffer<2x2xf32>, !plan.buffer<2x2xf32>, !plan.buffer<2x2xf32>
  }
  plan.procedure @begin begin {
    plan.fill %half {stream = 0 : i64} : !plan.buffer<2x2x2xf32>
    plan.fill %read {stream = 0 : i64} : !plan.buffer<2x2xf32>
    plan.fill %own {stream = 0 : i64} : !plan.buffer<2x2xf32>
  }
}
