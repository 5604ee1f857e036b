// Declares the flags of llmc budget. Tested by test/numerics/budget.py.
#ifndef LLMC_TOOLS_LLMC_BUDGETFLAGS_H
#define LLMC_TOOLS_LLMC_BUDGETFLAGS_H

#include "lib/support/FlagTable.h"
#include "tools/llmc/CommandLine.h"

#include <vector>

namespace llmc {

// Returns the flags that llmc budget alone takes.
std::vector<support::FlagTable<CommandLine>::Entry> budgetFlags();

} // namespace llmc

#endif // LLMC_TOOLS_LLMC_BUDGETFLAGS_H
