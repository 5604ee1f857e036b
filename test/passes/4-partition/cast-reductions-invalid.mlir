// RUN: llmc-opt %s --verify-diagnostics --llmc-cast-reductions=element=f8

// expected-error @+1 {{G1: element is f8, expected f32, bf16 or f16}}
module attributes {parallel.mesh = #parallel.mesh<["dp"=2, "pp"=1, "tp"=1]>} {
}
