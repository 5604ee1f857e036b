// RUN: llmc-opt %s --llmc-map-to-threads --split-input-file --verify-diagnostics

// An element that a thread reads must be one that it wrote.
func.func @reversed(%buffers: !llvm.ptr, %scalars: !llvm.ptr, %begin: i64, %end: i64) attributes {llmc.parameters = array<i64: 0, 0>} {
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %c64 = arith.constant 64 : i64
  %x = arith.constant 1.0 : f32
  %array = llvm.alloca %c64 x f32 {alignment = 64 : i64} : (i64) -> !llvm.ptr
  scf.for %row = %begin to %end step %c1 : i64 {
    scf.for %i = %c0 to %c64 step %c1 : i64 {
      %last = arith.subi %c64, %i : i64
      // expected-error @below {{reads an array where another thread may have written it}}
      %place = llvm.getelementptr %array[%last] : (!llvm.ptr, i64) -> !llvm.ptr, f32
      llvm.store %x, %place : f32, !llvm.ptr
    } {llmc.loop_kind = "elements"}
  } {llmc.loop_kind = "rows"}
  return
}

// -----
// Nor may walks cut it in other ways.
func.func @twoWidths(%buffers: !llvm.ptr, %scalars: !llvm.ptr, %begin: i64, %end: i64) attributes {llmc.parameters = array<i64: 0, 0>} {
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %c4 = arith.constant 4 : i64
  %c64 = arith.constant 64 : i64
  %x = arith.constant 1.0 : f32
  %v = arith.constant dense<1.0> : vector<4xf32>
  %array = llvm.alloca %c64 x f32 {alignment = 64 : i64} : (i64) -> !llvm.ptr
  scf.for %row = %begin to %end step %c1 : i64 {
    scf.for %i = %c0 to %c64 step %c4 : i64 {
      %place = llvm.getelementptr %array[%i] : (!llvm.ptr, i64) -> !llvm.ptr, f32
      llvm.store %v, %place : vector<4xf32>, !llvm.ptr
    } {llmc.loop_kind = "elements"}
    scf.for %i = %c0 to %c64 step %c1 : i64 {
      // expected-error @below {{reads an array where another thread may have written it}}
      %place = llvm.getelementptr %array[%i] : (!llvm.ptr, i64) -> !llvm.ptr, f32
      llvm.store %x, %place : f32, !llvm.ptr
    } {llmc.loop_kind = "elements"}
  } {llmc.loop_kind = "rows"}
  return
}

// -----
func.func @pastTheTable(%buffers: !llvm.ptr, %scalars: !llvm.ptr, %begin: i64, %end: i64) attributes {llmc.parameters = array<i64: 1, 0>} {
  %slot = llvm.getelementptr %buffers[1] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr
  // expected-error @below {{reads past the parameters of its kernel}}
  %x = llvm.load %slot : !llvm.ptr -> !llvm.ptr
  return
}

// -----
// expected-error @below {{was not emitted for threads}}
func.func @noCounts(%begin: i64, %end: i64) attributes {llmc.parameters = array<i64: 1, 0>} {
  return
}
