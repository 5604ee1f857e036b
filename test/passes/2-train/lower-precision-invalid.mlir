// RUN: llmc-opt %s --llmc-lower-precision --split-input-file --verify-diagnostics
// RUN: not llmc-opt %s --llmc-lower-precision=element=f8 2>&1 | FileCheck %s

// CHECK: needs a function @forward
// expected-error @below {{needs a function @forward with a body, found none}}
module {
}
