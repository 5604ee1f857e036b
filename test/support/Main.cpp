// Runs the tests of a program: PROGRAM [--draws N] [--seed S] [--gtest_...] [ARGUMENT...].
#include "test/support/CommandLine.h"

#include <cstdlib>
#include <cstring>
#include <gtest/gtest.h>
#include <iostream>

using namespace llmc::test;

Draws &llmc::test::draws() {
  static Draws draws;
  return draws;
}

std::vector<std::string> &llmc::test::arguments() {
  static std::vector<std::string> arguments;
  return arguments;
}

namespace {

// Prints with each failed test how to repeat its draws.
class SeedPrinter : public testing::EmptyTestEventListener {
  void OnTestEnd(const testing::TestInfo &test) override {
    if (test.result()->Failed())
      std::cout << "FAILED " << test.test_suite_name() << "." << test.name() << " with --draws "
                << draws().count << " --seed " << draws().seed << std::endl;
  }
};

} // namespace

// GoogleTest instantiates parameterized tests when it is initialized, so that the flags on which
// they depend are read before.
int main(int argc, char **argv) {
  std::vector<char *> rest = {argv[0]};
  for (int i = 1; i < argc; ++i) {
    if (!std::strcmp(argv[i], "--draws") && i + 1 < argc)
      draws().count = std::atoi(argv[++i]);
    else if (!std::strcmp(argv[i], "--seed") && i + 1 < argc)
      draws().seed = static_cast<uint32_t>(std::strtoul(argv[++i], nullptr, 10));
    else if (std::strncmp(argv[i], "--gtest_", 8))
      arguments().push_back(argv[i]);
    else
      rest.push_back(argv[i]);
  }
  int count = static_cast<int>(rest.size());
  testing::InitGoogleTest(&count, rest.data());
  testing::UnitTest &all = *testing::UnitTest::GetInstance();
  all.listeners().Append(new SeedPrinter);
  int code = RUN_ALL_TESTS();
  // The line that scripts/run-tests.py reads.
  std::cout << all.successful_test_count() << " passed, " << all.failed_test_count() << " failed, "
            << all.skipped_test_count() << " skipped\n";
  return code || !all.test_to_run_count() ? 1 : 0;
}
