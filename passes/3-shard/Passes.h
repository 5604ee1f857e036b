// Declares the passes of phase 3: the tactics, which annotate tensors with the mesh axes that cut
// them. Tests: test/passes/3-shard.
#ifndef LLMC_PASSES_SHARD_PASSES_H
#define LLMC_PASSES_SHARD_PASSES_H

#include "dialects/parallel/Parallel.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace llmc {
#define GEN_PASS_DECL
#include "passes/3-shard/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "passes/3-shard/Passes.h.inc"
} // namespace llmc

#endif // LLMC_PASSES_SHARD_PASSES_H
