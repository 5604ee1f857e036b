// RUN: llmc-opt %s --verify-diagnostics --llmc-recompute=mode=some

// expected-error @+1 {{unknown mode of recomputation 'some'; known are none, selective, full and auto}}
module {}
