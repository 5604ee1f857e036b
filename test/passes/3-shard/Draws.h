// Parses the command line of tests that draw random models, and runs their cases.
#ifndef LLMC_TEST_PASSES_SHARD_DRAWS_H
#define LLMC_TEST_PASSES_SHARD_DRAWS_H

#include "test/planfile/Harness.h"
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace llmc::test {

struct Draws {
  int count = 30;    // of each property
  uint32_t seed = 1; // draw i of a property uses seed + i, so one draw can be repeated alone
};
inline Draws &draws() {
  static Draws draws;
  return draws;
}

// Runs all cases, or those whose name contains NAME, for main with [NAME] [--draws N] [--seed S].
// Returns 1 if one fails or none runs.
inline int runCases(int argc, char **argv) {
  std::string filter;
  for (int i = 1; i < argc; ++i) {
    if (!std::strcmp(argv[i], "--draws") && i + 1 < argc)
      draws().count = std::atoi(argv[++i]);
    else if (!std::strcmp(argv[i], "--seed") && i + 1 < argc)
      draws().seed = static_cast<uint32_t>(std::strtoul(argv[++i], nullptr, 10));
    else
      filter = argv[i];
  }
  int run = 0, failed = 0;
  for (const Case &c : cases()) {
    if (c.name.find(filter) == std::string::npos)
      continue;
    int before = failures();
    c.run();
    ++run;
    bool ok = failures() == before;
    failed += !ok;
    std::cout << (ok ? "ok    " : "FAIL  ") << c.name << std::endl;
  }
  std::cout << run - failed << " passed, " << failed << " failed\n";
  return failed || !run ? 1 : 0;
}

} // namespace llmc::test

#endif // LLMC_TEST_PASSES_SHARD_DRAWS_H
