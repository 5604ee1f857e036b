// Sets the flags whose values have a syntax of their own: mesh, dims, chips, rates. Tested by
// test/numerics/refusals.py (command lines).
#ifndef LLMC_TOOLS_LLMC_FLAGVALUES_H
#define LLMC_TOOLS_LLMC_FLAGVALUES_H

#include "lib/support/FlagTable.h"
#include "tools/llmc/CommandLine.h"

namespace llmc {

// Sets sizes of axes: 8 is dp; 4x2 is dp x tp; 8x16x8 is dp x pp x tp; dp=8,tp=2.
void setMesh(CommandLine &line, const support::GivenFlag &given, support::Problems &problems);
// Adds name=size, or several joined by commas.
void addDims(CommandLine &line, const support::GivenFlag &given, support::Problems &problems);
// Adds sm_80,sm_90 or all.
void addCudaKernels(CommandLine &line, const support::GivenFlag &given,
                    support::Problems &problems);
// Sets the layers of each virtual stage: auto, or numbers joined by commas.
void setStages(CommandLine &line, const support::GivenFlag &given, support::Problems &problems);
// Sets the scale of the loss: dynamic, or a number of at least 1.
void setLossScale(CommandLine &line, const support::GivenFlag &given, support::Problems &problems);
// Refuses all but a rate of 0.
void setDropout(CommandLine &line, const support::GivenFlag &given, support::Problems &problems);

} // namespace llmc

#endif // LLMC_TOOLS_LLMC_FLAGVALUES_H
