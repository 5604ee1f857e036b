// RUN: llmc-opt %s --split-input-file --verify-diagnostics --llmc-shard-state=zero=4

// expected-error @+1 {{zero is 4, expected 0 to 3}}
module attributes {parallel.mesh = #parallel.mesh<["dp"=2, "pp"=1, "tp"=1]>} {
}

// -----

// expected-error @+1 {{tactic state needs parallel.mesh}}
module {
}
