// Compiles a case, runs the program with its inputs, and compares its outputs.
#ifndef LLMC_TEST_CONFORMANCE_COMPILED_H
#define LLMC_TEST_CONFORMANCE_COMPILED_H

#include "RunCase.h"

namespace llmc::test {

// Locates the compiler, and a folder for what it makes.
struct Tools {
  std::string compiler, folder;
};

// Runs `count` of the names in `passed`, drawn by `seed`; `paths` maps the names of cases to
// their paths. A name that joins `passed` changes at most one of those drawn. Prints a line for
// each that fails; returns how many passed and failed.
std::pair<int, int> runCompiled(const std::map<std::string, std::string> &paths,
                                const std::set<std::string> &passed, int count, uint64_t seed,
                                const Tools &tools);

} // namespace llmc::test

#endif // LLMC_TEST_CONFORMANCE_COMPILED_H
