// Tells how often a job that fails now and then should write checkpoints, and what share of its time is then useful.
// Test: test/budget/CheckpointsTest.cpp.
#ifndef LLMC_LIB_BUDGET_CHECKPOINTS_H
#define LLMC_LIB_BUDGET_CHECKPOINTS_H

namespace llmc::budget {

// Holds seconds: between failures of the whole job, to write a checkpoint, and to start again after a failure.
struct Failures {
  double mtbf, checkpoint, restart = 0;
};

// Returns seconds of work between two checkpoints: sqrt(2 C M) (Young, 1974).
double youngCadence(const Failures &failures);

// Returns the same to a higher order: sqrt(2 C M) (1 + sqrt(C/2M)/3 + (C/2M)/9) - C where C < 2 M, else M (Daly,
// 2006).
double dalyCadence(const Failures &failures);

// Returns the share of time that is work and neither lost, nor spent on checkpoints or restarts: t / (M e^(R/M)
// (e^((t + C)/M) - 1)) for a checkpoint after each t seconds of work: Daly's complete model of the wall time, inverted.
double goodput(const Failures &failures, double cadence);

} // namespace llmc::budget

#endif // LLMC_LIB_BUDGET_CHECKPOINTS_H
