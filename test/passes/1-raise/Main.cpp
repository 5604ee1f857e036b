#include "test/planfile/Harness.h"

// Runs all cases, or those whose name contains the first argument.
int main(int argc, char **argv) {
  int run = 0, failed = 0;
  for (const auto &c : llmc::test::cases()) {
    if (argc > 1 && c.name.find(argv[1]) == std::string::npos)
      continue;
    int before = llmc::test::failures();
    c.run();
    ++run;
    bool ok = llmc::test::failures() == before;
    failed += !ok;
    std::cout << (ok ? "ok    " : "FAIL  ") << c.name << "\n";
  }
  std::cout << run - failed << " passed, " << failed << " failed\n";
  return failed || !run ? 1 : 0;
}
