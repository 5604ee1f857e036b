// Emits attention of few queries: each iterates over its keys alone, with vectors along the
// head. Cases: test/passes/6-emit/AttentionCases.cpp.
#ifndef LLMC_PASSES_EMIT_ATTENTION_ATTENTIONROW_H
#define LLMC_PASSES_EMIT_ATTENTION_ATTENTIONROW_H

#include "passes/6-emit/attention/AttentionShape.h"
#include "passes/6-emit/kernel/KernelEmitters.h"

namespace llmc::emit {

// Emits the forward kernel, whose rows are batch * heads.
void emitAttentionRows(Kernel &kernel, LaunchBody body, graph::AttentionOp attention);

} // namespace llmc::emit

#endif // LLMC_PASSES_EMIT_ATTENTION_ATTENTIONROW_H
