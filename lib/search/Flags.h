// Writes plans as command lines. Tests: test/search, test/numerics/search.py.
#ifndef LLMC_LIB_SEARCH_FLAGS_H
#define LLMC_LIB_SEARCH_FLAGS_H

#include "lib/search/Space.h"

#include <string>
#include <utility>
#include <vector>

namespace llmc::search {

// Returns the flags that give a plan, each with its value; those whose value would follow anyway are left out.
std::vector<std::pair<std::string, std::string>> flagsOf(const Candidate &candidate, const Request &request);

// Returns the flags as one line.
std::string lineOf(const std::vector<std::pair<std::string, std::string>> &flags);

// Returns the call of llmc plan that predicts a plan of the request, with `more` flags behind it.
std::string planCommand(const Candidate &candidate, const Request &request, const std::string &more = "");

// Returns the plan that options and choices describe.
Candidate candidateOf(const CompileOptions &options, const cost::Choices &choices);

} // namespace llmc::search

#endif // LLMC_LIB_SEARCH_FLAGS_H
