// Checks the plan of a mixture whose ranks may lack room for rows: it must count those that are lost, since a
// step with none of them counts as it is. Tested by test/numerics/ir_mutation.py and experts.py.
#ifndef LLMC_LIB_VERIFY_REFERENCE_ROOMCHECKS_H
#define LLMC_LIB_VERIFY_REFERENCE_ROOMCHECKS_H

#include "lib/verify/reference/Reference.h"
#include "lib/verify/subject/Report.h"

namespace llmc::verify {

// Returns a trial of the first step in which all tokens are one token, so that all choose the same experts.
Trial crowded(const Trial &trial);

// Compiles the raised module of `roomy` with the budget of `options`, and adds budget:... unless that has
// room for all rows:
//   budget:static  findings in the plan
//   budget:lost    rows that it counts, of rows drawn and of one token alone, in double on all ranks, and with
//                  kernels and weights of zeros, with which all choose the same experts: as many as the
//                  routes of the ranks say
//   budget:loss, budget:gradients  of the drawn step, if all of its rows have room: those of one rank
// Fails after diagnostics if the compiler refuses the budget.
mlir::LogicalResult checkRoom(const Subject &roomy, const CompileOptions &options, const Reference &reference,
                              Report &report);

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_REFERENCE_ROOMCHECKS_H
