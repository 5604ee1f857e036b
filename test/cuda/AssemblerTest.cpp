// Tests how an assembler is found, with a program in place of NVIDIA's ptxas.
#include "passes/6-emit/cuda/Assembler.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <optional>
#include <unistd.h>

using namespace llmc;
namespace fs = std::filesystem;

namespace {

// Sets a variable of the environment for as long as it lives.
class Variable {
public:
  Variable(const char *name, const std::string &value) : name(name) {
    if (const char *now = std::getenv(name))
      before = now;
    ::setenv(name, value.c_str(), 1);
  }
  ~Variable() {
    if (before)
      ::setenv(name, before->c_str(), 1);
    else
      ::unsetenv(name);
  }
  Variable(const Variable &) = delete;
  Variable &operator=(const Variable &) = delete;

private:
  const char *name;
  std::optional<std::string> before;
};

class Ptxas : public ::testing::Test {
protected:
  Ptxas() {
    fs::create_directories(folder / "bin");
    std::ofstream(folder / "bin/ptxas") << "#!/bin/sh\necho release 13.0, V13.0.88\n";
    fs::permissions(folder / "bin/ptxas", fs::perms::owner_all);
  }
  ~Ptxas() override { fs::remove_all(folder); }

  fs::path folder = fs::temp_directory_path() / ("llmc-ptxas-test-" + std::to_string(::getpid()));
  Variable path{"LLMC_CUDA_PATH", folder}, kind{"LLMC_CUDA_ASSEMBLER", "ptxas"};
};

TEST_F(Ptxas, TellsItsVersion) {
  auto found = emit::Assembler::find();
  ASSERT_TRUE(bool(found)) << llvm::toString(found.takeError());
  EXPECT_EQ((*found)->describe(), "ptxas 13.0.88");
}

// Checks that the program is not run where there is no folder for what it prints.
TEST_F(Ptxas, NeedsATemporaryFolder) {
  Variable temporary("TMPDIR", folder / "none");
  auto found = emit::Assembler::find();
  ASSERT_FALSE(bool(found));
  std::string message = llvm::toString(found.takeError());
  EXPECT_NE(message.find("no temporary folder"), std::string::npos) << message;
}

} // namespace
