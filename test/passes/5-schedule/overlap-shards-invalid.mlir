// RUN: llmc-opt %s --verify-diagnostics --llmc-overlap-shards=ahead=-1

// expected-error @+1 {{ahead is -1, expected 0 or more layers}}
module {
}
