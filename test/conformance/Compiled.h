// A case as a program: compiled, run with its inputs, its outputs compared.
#ifndef LLMC_TEST_CONFORMANCE_COMPILED_H
#define LLMC_TEST_CONFORMANCE_COMPILED_H

#include "RunCase.h"

namespace llmc::test {

// Where the compiler is, and a folder for what it makes.
struct Tools {
  std::string compiler, folder;
};

// `paths` lists the cases by name; `count` of the names in `passed` are drawn by
// `seed`. A name that joins `passed` changes at most one of those drawn. Prints a
// line for each that fails; returns how many passed and failed.
std::pair<int, int> runCompiled(const std::map<std::string, std::string> &paths,
                                const std::set<std::string> &passed, int count, uint64_t seed,
                                const Tools &tools);

} // namespace llmc::test

#endif // LLMC_TEST_CONFORMANCE_COMPILED_H
