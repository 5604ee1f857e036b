// The step loop as users get it, in a program of its own.
#include "TrainedModel.h"
#include "lib/planfile/Payload.h"
#include "lib/support/Safetensors.h"

#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <fstream>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace llmc;
using namespace llmc::test;

namespace {

// The runtime as users get it: a file of its own that is started.
class Packed : public Trainer {
protected:
  Packed() {
    auto object = support::readFile(LLMC_TEST_KERNELS);
    EXPECT_TRUE(bool(object)) << object.message();
    std::string plan = writeProgram(*tinyModel(2, 2));
    Section sections[] = {{std::string(kPlanSection), plan}, {std::string(kKernelsSection), *object}};
    auto status = writePayload(LLMC_TEST_RUNTIME, sections, folder / "tiny");
    EXPECT_TRUE(bool(status)) << status.message();
  }

  // Exit status of `command` run in the folder; its output is in `text`.
  int run(const std::string &command) {
    int status = std::system(("cd " + folder.path + " && " + command + " >out 2>&1").c_str());
    auto content = support::readFile(folder / "out");
    text = content ? *content : "";
    return WEXITSTATUS(status);
  }

  const std::string inputs = "--input input_ids=ids.npy --input labels=labels.npy ";
  std::string text;
};

TEST_F(Packed, TrainsAndEqualsTheLibrary) {
  ASSERT_EQ(train(*tinyModel(2, 2)), "");
  ASSERT_EQ(run("./tiny " + inputs + "--steps 5 --lr 0.5 --dump d.safetensors"), 0) << text;
  auto mine = support::readFile(options.dump), theirs = support::readFile(folder / "d.safetensors");
  ASSERT_TRUE(theirs);
  EXPECT_EQ(*mine, *theirs); // bit for bit
  ASSERT_EQ(run("./tiny --isolate-arenas " + inputs + "--steps 5 --lr 0.5 --dump d.safetensors"), 0)
      << text;
  EXPECT_EQ(*mine, *support::readFile(folder / "d.safetensors"));
}

TEST_F(Packed, HelpVersionAndErrors) {
  EXPECT_EQ(run("./tiny --help"), 0);
  EXPECT_NE(text.find("usage: tiny"), std::string::npos);
  EXPECT_EQ(text.find("isolate"), std::string::npos);
  EXPECT_EQ(run("./tiny --version"), 0);
  EXPECT_EQ(run("./tiny --nothing"), 2);
  EXPECT_EQ(text.rfind("tiny: error: unknown option", 0), 0u) << text;
  EXPECT_EQ(run("./tiny"), 1);
  EXPECT_EQ(text, "tiny: error: no data for the input 'input_ids'; give --data FILE or --input "
                  "input_ids=FILE.npy\n");
  EXPECT_EQ(run("WORLD_SIZE=2 ./tiny"), 1);
  EXPECT_EQ(run(std::string(LLMC_TEST_RUNTIME) + " --steps 1"), 1);
  EXPECT_NE(text.find("carries no program"), std::string::npos) << text;
}

TEST_F(Packed, AFlippedBitIsRefused) {
  auto bytes = support::readFile(folder / "tiny");
  size_t runtimeSize = support::readFile(LLMC_TEST_RUNTIME)->size();
  size_t payload = bytes->size() - runtimeSize;
  ASSERT_GT(payload, 1000u);
  // The first is in the runtime itself, behind all that runs.
  for (size_t at : {size_t(0) - 1, size_t(0), payload / 3, payload / 2, payload - 60, payload - 1}) {
    std::string changed = *bytes;
    changed[runtimeSize + at] = static_cast<char>(changed[runtimeSize + at] ^ 0x10);
    writeBytes(folder / "bad", changed);
    EXPECT_EQ(run("chmod +x bad; ./bad " + inputs), 1);
    EXPECT_EQ(text.rfind("bad: error: ", 0), 0u) << text;
    EXPECT_NE(text.find("is damaged"), std::string::npos) << text;
  }
}

TEST_F(Packed, CtrlCStopsAndSaves) {
  pid_t child = ::fork();
  if (child == 0) {
    if (::chdir(folder.path.c_str()) != 0)
      ::_exit(99);
    ::close(1);
    if (::open("out", O_WRONLY | O_CREAT, 0666) != 1)
      ::_exit(99);
    ::execl("./tiny", "tiny", "--input", "input_ids=ids.npy", "--input", "labels=labels.npy",
            "--steps", "100000000", "--save", "saved", "--metrics", "m.jsonl", nullptr);
    ::_exit(98);
  }
  // Wait for its first step, then interrupt it.
  bool started = false;
  for (int i = 0; i < 2000 && !started; ++i) {
    auto metrics = support::readFile(folder / "m.jsonl");
    started = metrics && metrics->find('\n') != std::string::npos;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_TRUE(started);
  ::kill(child, SIGINT);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 128 + SIGINT);
  EXPECT_NE(support::readFile(folder / "out")->find("stopped after step"), std::string::npos);
  EXPECT_TRUE(bool(support::SafetensorsFile::open(folder / "saved/model.safetensors")));
}

} // namespace
