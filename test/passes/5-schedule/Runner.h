// Runs the plan of every rank in double, before any kernel exists: buffers are
// bytes of real arenas, launches are the `graph` ops of their bodies.
#ifndef LLMC_TEST_PASSES_SCHEDULE_RUNNER_H
#define LLMC_TEST_PASSES_SCHEDULE_RUNNER_H

#include "dialects/parallel/Evaluate.h"
#include <random>

namespace llmc::test {

// One step of a scheduled module. Streams of all ranks advance in a random order
// that respects events, messages and collectives, nothing else; a message is read
// from the sender's arena when it is received. Bytes that nobody wrote are NaN.
// Fails with a diagnostic where ranks wait for each other, or where a launch
// writes over what it reads other than element by element.
mlir::FailureOr<parallel::StepOutput> runPlan(mlir::ModuleOp module, const parallel::StepInput &input,
                                              std::mt19937 &random);

} // namespace llmc::test

#endif // LLMC_TEST_PASSES_SCHEDULE_RUNNER_H
