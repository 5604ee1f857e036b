// Provides the tests of kernels with a context and with the processors to test.
#ifndef LLMC_TEST_PASSES_EMIT_KERNELTEST_H
#define LLMC_TEST_PASSES_EMIT_KERNELTEST_H

#include "mlir/IR/MLIRContext.h"
#include "passes/6-emit/kernel/KernelTarget.h"
#include <gtest/gtest.h>

namespace llmc::test {

// Returns the context of all tests, with the dialects of plans and kernels.
mlir::MLIRContext &context();

// Returns the CPUs that kernels are compiled for, and with the threads of a GPU, which are
// simulated.
std::vector<const emit::KernelTarget *> cpuTargets();
std::vector<const emit::KernelTarget *> allTargets();

// Returns why this machine cannot stand in for a processor; empty if it can.
std::string whyNotRun(const emit::KernelTarget &target);

// Tests kernels of one processor, instantiated for allTargets().
class KernelTest : public testing::TestWithParam<const emit::KernelTarget *> {
protected:
  void SetUp() override;
};

// Tests kernels of one CPU, instantiated for cpuTargets().
class CpuKernelTest : public KernelTest {};

} // namespace llmc::test

#endif // LLMC_TEST_PASSES_EMIT_KERNELTEST_H
