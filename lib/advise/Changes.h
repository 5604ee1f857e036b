// Lists what could be changed in a plan for the sake of a collective or message, and tells what a change removes. Tests:
// test/numerics/priced.py.
#ifndef LLMC_LIB_ADVISE_CHANGES_H
#define LLMC_LIB_ADVISE_CHANGES_H

#include "lib/advise/Request.h"
#include "lib/options/Options.h"
#include "lib/report/PlanIndex.h"

#include <vector>

namespace llmc::advise {

// Returns changes of single choices that concern a collective or message, the choice that is meant first.
std::vector<Flags> changesFor(const report::PlanIndex &book, const report::Traffic &t, const CompileOptions &options);

// Returns whether a plan of `then` has no such collective or message as one of `now` has.
bool isRemoved(const report::PlanIndex &book, const report::Traffic &t, const CompileOptions &now,
               const CompileOptions &then);

} // namespace llmc::advise

#endif // LLMC_LIB_ADVISE_CHANGES_H
