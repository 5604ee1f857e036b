// From the model's file to the step: what no comparison of a later border with the step
// on one rank can see.
#ifndef LLMC_LIB_VERIFY_SOURCE_FROMFILE_H
#define LLMC_LIB_VERIFY_SOURCE_FROMFILE_H

#include "lib/verify/interpret/Interpret.h"
#include "lib/verify/Verify.h"

namespace llmc::verify {

// fp64:raise:outputs: all real outputs of the `raised` module are those of the imported one, for
// the rows of the first micro-batch. Adds nothing where the reference was not imported.
bool checkRaised(mlir::ModuleOp raised, const Reference &reference, Report &report);

// fp64:train:loss and :gradients: those of the first step at border train, against the
// imported model, a cross entropy written once more, and derivatives by dual numbers.
bool checkGradients(const Reference &reference, Report &report);

// Compares what each step of `module`, which is at border train, left with UpdateEquations.h.
AfterStep compareUpdates(mlir::ModuleOp module, bool adamw, UpdateErrors &errors);
// fp64:update: the worst of reference.update.
bool checkUpdate(const Reference &reference, Report &report);

// The first two, of the reference itself.
bool checkFromFile(const Reference &reference, Report &report);

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_SOURCE_FROMFILE_H
