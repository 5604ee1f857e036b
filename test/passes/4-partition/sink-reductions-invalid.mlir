// RUN: llmc-opt %s --llmc-sink-reductions --split-input-file --verify-diagnostics

// The pass itself refuses nothing; what it moves must be well formed.

module attributes {parallel.mesh = #parallel.mesh<["dp"=2, "pp"=1, "tp"=2]>} {
func.func @rank(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  // expected-error @+1 {{C1: shardings have one entry per dimension}}
  %0 = parallel.reshard %x from <[{}], unreduced = {"tp": sum}> to <[{}]> : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
}

// -----

module attributes {parallel.mesh = #parallel.mesh<["dp"=2, "pp"=1, "tp"=2]>} {
func.func @kind(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @+1 {{C2: the result is unreduced over "tp" where the operand is not}}
  %0 = parallel.reshard %x from <[{}], unreduced = {"tp": max}> to <[{}], unreduced = {"tp": sum}> : tensor<8xf32>
  return %0 : tensor<8xf32>
}
}
