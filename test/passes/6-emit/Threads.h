// Runs GPU kernels on this processor: a thread is a fiber that runs until it waits for others,
// and the next one is drawn at random. This detects missing barriers, and barriers that not all
// threads reach.
#ifndef LLMC_TEST_PASSES_EMIT_THREADS_H
#define LLMC_TEST_PASSES_EMIT_THREADS_H

#include "Cases.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace llmc::test {

using KernelFunction = void (*)(void *const *, const int64_t *, int64_t, int64_t);

// Rewrites a function of one thread (passes/6-emit/simt/Simt.h) into one in the form of Kernel.h
// that can be lowered for this processor. What a GPU provides, such as thread numbers and
// barriers, it calls from the grid that runs it, by way of one more buffer after the others.
void askGrid(mlir::func::FuncOp kernel);

// Runs `blocks` blocks of `threads` threads over the rows [begin, end), one block after another
// in random order. `buffers` are those of the launch. Returns "", or how threads waited in vain.
std::string runGrid(KernelFunction kernel, std::vector<void *> buffers,
                    const std::vector<int64_t> &scalars, int64_t begin, int64_t end,
                    int64_t threads, int64_t blocks, Random &random);

} // namespace llmc::test

#endif // LLMC_TEST_PASSES_EMIT_THREADS_H
