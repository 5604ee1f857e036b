// Holds the command line of a test program, which Main.cpp reads before GoogleTest does.
#ifndef LLMC_TEST_SUPPORT_COMMANDLINE_H
#define LLMC_TEST_SUPPORT_COMMANDLINE_H

#include <cstdint>
#include <string>
#include <vector>

namespace llmc::test {

// Represents [--draws N] [--seed S]: how many random inputs a test draws, and from which seed.
struct Draws {
  int count = 30;    // of each property
  uint32_t seed = 1; // draw i of a property uses seed + i, so one draw can be repeated alone
};
Draws &draws();

// Returns the arguments that are no flags, such as the model files that a test compiles.
std::vector<std::string> &arguments();

} // namespace llmc::test

#endif // LLMC_TEST_SUPPORT_COMMANDLINE_H
