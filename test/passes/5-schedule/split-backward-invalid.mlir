// RUN: llmc-opt %s --split-input-file --verify-diagnostics --llmc-split-backward

// Refuses to split what is split.
module {
  func.func @backward_0(%d: tensor<4xf32> {parallel.boundary = 0 : i64}) attributes {parallel.stage = 0 : i64, parallel.procedure = "backward"} {
    return
  }
  // expected-error @+1 {{the backward of the stages is split already}}
  func.func @weight_0(%d: tensor<4xf32> {parallel.residual = 0 : i64}) attributes {parallel.stage = 0 : i64, parallel.procedure = "weight"} {
    return
  }
}
