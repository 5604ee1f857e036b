// Tests that work in child processes gives each item its own result, also where a child dies or
// none begins.
#include "lib/verify/mutation/ChildProcesses.h"

#include <csignal>
#include <gtest/gtest.h>
#include <unistd.h>

using namespace llmc;

namespace {

std::string work(size_t i) {
  if (i == 1)
    std::raise(SIGKILL);
  if (i == 2)
    ::_exit(0);
  if (i == 3)
    ::pause();
  return std::to_string(i);
}

TEST(ChildProcesses, EachItemHasItsResult) {
  for (unsigned processes : {1u, 3u})
    EXPECT_EQ(verify::runInChildProcesses(6, processes, 1, work, [](size_t) {}),
              (std::vector<std::string>{"0", "crash", "crash", "hang", "4", "5"}));
}

// Checks that items that nobody did are no crashes.
TEST(ChildProcesses, NoChild) {
  EXPECT_TRUE(verify::runInChildProcesses(6, 0, 1, work, [](size_t) {}).empty());
}

} // namespace
