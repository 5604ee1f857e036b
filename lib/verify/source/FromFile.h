// Checks the path from the model's file to the step on one rank, which no comparison with that
// step covers. Tested by test/verify/fromfile/FromFileTest.cpp.
#ifndef LLMC_LIB_VERIFY_SOURCE_FROMFILE_H
#define LLMC_LIB_VERIFY_SOURCE_FROMFILE_H

#include "lib/verify/reference/Reference.h"
#include "lib/verify/subject/Report.h"

namespace llmc::verify {

// Adds fp64:raise:outputs: compares all float outputs of the `raised` module with those of the
// imported one, for the rows of the first micro-batch. Adds nothing and returns true if the
// reference has no imported module; otherwise returns whether the check passed.
bool checkRaised(mlir::ModuleOp raised, const Reference &reference, Report &report);

// Adds fp64:train:loss and :gradients: compares the first step at boundary train with the
// imported model, a cross entropy written independently, and derivatives by dual numbers. Returns
// whether both passed; true, adding nothing, for an inference.
bool checkGradients(const Reference &reference, Report &report);

// Adds fp64:update:OPTIMIZER:... from reference.update; adds nothing for an inference. Returns
// whether all passed.
bool checkUpdate(const Reference &reference, Report &report);

// Runs checkRaised() and checkGradients() on the reference itself; returns whether both passed.
bool checkFromFile(const Reference &reference, Report &report);

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_SOURCE_FROMFILE_H
