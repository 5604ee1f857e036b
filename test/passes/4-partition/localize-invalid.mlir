// RUN: llmc-opt %s --llmc-localize --split-input-file --verify-diagnostics

// expected-error @+1 {{no mesh: the module needs the attribute `parallel.mesh`}}
module {
}

// -----

module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "tp"=4]>} {
// expected-error @+1 {{L1: 'tensor<6x8xf32>' cannot be cut evenly as #parallel.sharding<[{"tp"}, {}]>}}
func.func @odd(%x: tensor<6x8xf32> {parallel.sharding = #parallel.sharding<[{"tp"}, {}]>}) {
  return
}
}
