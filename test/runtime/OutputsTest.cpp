// Files that are written: what exists survives every failure, and no output is an input.
#include "PlanBuilder.h"
#include "lib/support/OutputFile.h"
#include "lib/support/OutputConflicts.h"

#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <functional>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace llmc;
using namespace llmc::test;
using support::checkOutputConflicts;
using support::LineFile;
using support::NamedFile;
using support::OutputFile;
using support::Status;
namespace fs = std::filesystem;

namespace {

std::string content(const std::string &path) {
  auto text = support::readFile(path);
  return text ? *text : "cannot read";
}

size_t filesIn(const std::string &folder) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(folder), {}));
}

Status writeWhole(const std::string &path, std::string_view bytes) {
  auto file = OutputFile::create(path);
  if (!file)
    return file.takeError();
  if (Status s = file->write(bytes); !s)
    return s;
  return file->commit();
}

// Returns what `body` returns in a process of its own.
bool inChild(const std::function<bool()> &body) {
  pid_t child = ::fork();
  if (child == 0)
    ::_exit(body() ? 0 : 1);
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// From now on no file of this process may grow beyond `bytes`: as on a full disk, a
// write is cut short and the next one fails.
void limitFiles(rlim_t bytes) {
  ::signal(SIGXFSZ, SIG_IGN);
  rlimit limit{bytes, bytes};
  ::setrlimit(RLIMIT_FSIZE, &limit);
}

bool makesEither(const std::string &one, const std::string &other) {
  return !checkOutputConflicts({}, {{"--metrics", one}, {"--trace", other}});
}

TEST(Outputs, OneFileByManyNames) {
  TemporaryFolder folder;
  writeBytes(folder / "data", "x");
  fs::create_directory(folder / "sub");
  fs::create_symlink("data", folder / "link");
  fs::create_symlink("link", folder / "link2");
  fs::create_hard_link(folder / "data", folder / "hard");
  fs::create_symlink(".", folder / "here");
  for (const char *name : {"data", "./data", "sub/../data", "link", "link2", "hard", "here/data",
                           "here/here/hard"}) {
    Status s = checkOutputConflicts({{"--data", folder / "data"}}, {{"--metrics", folder / name}});
    ASSERT_FALSE(bool(s)) << name;
    EXPECT_NE(s.message().find("--metrics '" + (folder / name) + "' is the same file as --data"),
              std::string::npos)
        << s.message();
  }
  EXPECT_TRUE(
      bool(checkOutputConflicts({{"--data", folder / "data"}}, {{"--metrics", folder / "other"}})));
}

TEST(Outputs, FilesToComeAreComparedByTheirNames) {
  TemporaryFolder folder;
  fs::create_directory(folder / "sub");
  fs::create_symlink("sub", folder / "way");
  fs::create_symlink("sub/new", folder / "dangling");
  EXPECT_TRUE(makesEither(folder / "sub/new", folder / "way/new"));
  EXPECT_TRUE(makesEither(folder / "sub/new", folder / "dangling"));
  EXPECT_TRUE(makesEither(folder / "none/new", folder / "none/./new"));
  EXPECT_TRUE(makesEither(folder / "none/new", folder / "none")); // a file and a folder
  EXPECT_TRUE(makesEither(folder / "none", folder / "none/new"));
  EXPECT_FALSE(makesEither(folder / "sub/new", folder / "new"));
  EXPECT_FALSE(makesEither(folder / "none", folder / "none2"));
}

TEST(Outputs, AllClashesAreNamedAtOnce) {
  TemporaryFolder folder;
  writeBytes(folder / "a", "x");
  writeBytes(folder / "b", "x");
  Status s = checkOutputConflicts({{"--data", folder / "a"}, {"--weights", folder / "b"}},
                          {{"--metrics", folder / "a"}, {"--dump", folder / "b"},
                           {"--trace", folder / "b"}});
  ASSERT_FALSE(bool(s));
  for (const char *part : {"--metrics", "--dump", "--trace"})
    EXPECT_NE(s.message().find(part), std::string::npos) << s.message();
}

TEST(Outputs, DevicesAndPipesTakeManyOutputs) {
  TemporaryFolder folder;
  ::mkfifo((folder / "pipe").c_str(), 0666);
  EXPECT_FALSE(makesEither("/dev/null", "/dev/null"));
  EXPECT_FALSE(makesEither(folder / "pipe", folder / "pipe"));
  EXPECT_FALSE(makesEither("/dev/stdout", "/dev/stdout"));
}

TEST(Outputs, WhatStandardOutputGoesTo) {
  TemporaryFolder folder;
  writeBytes(folder / "log", "");
  EXPECT_TRUE(inChild([&] {
    ::dup2(::open((folder / "log").c_str(), O_WRONLY | O_APPEND), STDOUT_FILENO);
    return !checkOutputConflicts({{"--data", folder / "log"}}, {}) &&
           !checkOutputConflicts({}, {{"--metrics", folder / "log"}}) &&
           bool(checkOutputConflicts({}, {{"--metrics", "/dev/stdout"}})) &&
           bool(checkOutputConflicts({{"--data", folder / "other"}}, {{"--trace", folder / "x"}}));
  }));
}

TEST(OutputFile, AppearsOnlyWhenWhole) {
  TemporaryFolder folder;
  writeBytes(folder / "x", "old");
  ::chmod((folder / "x").c_str(), 0640);
  {
    auto file = OutputFile::create(folder / "x");
    ASSERT_TRUE(bool(file) && bool(file->write("new")));
    EXPECT_EQ(content(folder / "x"), "old");
    EXPECT_EQ(filesIn(folder.path), 2u);
  }
  EXPECT_EQ(filesIn(folder.path), 1u); // dropped without commit()
  EXPECT_EQ(content(folder / "x"), "old");
  EXPECT_TRUE(bool(writeWhole(folder / "x", "new")));
  EXPECT_EQ(content(folder / "x"), "new");
  EXPECT_EQ(fs::status(folder / "x").permissions(), fs::perms(0640));
  EXPECT_EQ(filesIn(folder.path), 1u);
}

TEST(OutputFile, LinksStay) {
  TemporaryFolder folder;
  fs::create_directory(folder / "sub");
  writeBytes(folder / "sub/x", "old");
  writeBytes(folder / "twin", "old");
  fs::create_symlink("sub/x", folder / "link");
  fs::create_symlink("sub/new", folder / "dangling");
  fs::create_hard_link(folder / "twin", folder / "hard");
  EXPECT_TRUE(bool(writeWhole(folder / "link", "1")));
  EXPECT_TRUE(bool(writeWhole(folder / "dangling", "2")));
  EXPECT_TRUE(bool(writeWhole(folder / "hard", "3")));
  EXPECT_TRUE(fs::is_symlink(folder / "link") && fs::is_symlink(folder / "dangling"));
  EXPECT_EQ(content(folder / "sub/x"), "1");
  EXPECT_EQ(content(folder / "sub/new"), "2");
  EXPECT_EQ(content(folder / "twin"), "old"); // another name's content is not touched
  fs::create_symlink("loop", folder / "loop");
  EXPECT_FALSE(bool(writeWhole(folder / "loop", "4")));
}

TEST(OutputFile, DevicesPipesAndDescriptors) {
  TemporaryFolder folder;
  EXPECT_TRUE(bool(writeWhole("/dev/null", "x")));
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  EXPECT_FALSE(bool(writeWhole("/dev/full", "x")));
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
  EXPECT_FALSE(bool(writeWhole(folder.path, "x")));

  std::string pipe = folder / "pipe", got;
  ::mkfifo(pipe.c_str(), 0666);
  EXPECT_TRUE(bool(support::checkWritable(pipe))); // does not wait, and opens nothing
  std::thread reader([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100)); // comes late
    char buffer[8];
    int fd = ::open(pipe.c_str(), O_RDONLY);
    for (ssize_t n; (n = ::read(fd, buffer, sizeof buffer)) > 0;)
      got.append(buffer, static_cast<size_t>(n));
    ::close(fd);
  });
  EXPECT_TRUE(bool(writeWhole(pipe, "through the pipe")));
  reader.join();
  EXPECT_EQ(got, "through the pipe");
  EXPECT_TRUE(fs::is_fifo(pipe));

  // A descriptor is written where it stands: what it has already stays.
  int fd = ::open((folder / "log").c_str(), O_RDWR | O_CREAT, 0666);
  ASSERT_EQ(::write(fd, "1", 1), 1);
  EXPECT_TRUE(bool(writeWhole("/dev/fd/" + std::to_string(fd), "2")));
  ASSERT_EQ(::write(fd, "3", 1), 1);
  ::close(fd);
  EXPECT_EQ(content(folder / "log"), "123");
}

TEST(OutputFile, AFullDiskLeavesWhatWasThere) {
  TemporaryFolder folder;
  writeBytes(folder / "x", "old");
  EXPECT_TRUE(inChild([&] {
    limitFiles(1000);
    return !writeWhole(folder / "x", std::string(5000, 'n'));
  }));
  EXPECT_EQ(content(folder / "x"), "old");
  EXPECT_EQ(filesIn(folder.path), 1u);
}

TEST(OutputFile, ProtectedFilesAreNotReplaced) {
  if (::geteuid() == 0)
    GTEST_SKIP() << "nothing is protected from root";
  TemporaryFolder folder;
  writeBytes(folder / "x", "old");
  ::chmod((folder / "x").c_str(), 0444);
  EXPECT_FALSE(bool(writeWhole(folder / "x", "new")));
  EXPECT_EQ(content(folder / "x"), "old");
}

TEST(LineFile, ReplacesOnlyIfAskedAndOnlyWithTheFirstLine) {
  TemporaryFolder folder;
  writeBytes(folder / "m", "old\n");
  EXPECT_FALSE(bool(LineFile::open(folder / "m", /*replace=*/false)));
  EXPECT_TRUE(bool(LineFile::open(folder / "m", /*replace=*/true)));
  EXPECT_EQ(content(folder / "m"), "old\n"); // no line was written
  auto file = LineFile::open(folder / "m", /*replace=*/true);
  ASSERT_TRUE(bool(file) && bool(file->append("1")));
  EXPECT_EQ(content(folder / "m"), "1\n");
  EXPECT_TRUE(bool(file->append("2")));
  EXPECT_EQ(content(folder / "m"), "1\n2\n");
  writeBytes(folder / "empty", "");
  EXPECT_TRUE(bool(LineFile::open(folder / "empty", /*replace=*/false)));
}

TEST(LineFile, AFullDiskLeavesWholeLinesAndLosesNone) {
  TemporaryFolder folder;
  EXPECT_TRUE(inChild([&] {
    auto file = LineFile::open(folder / "m", /*replace=*/false);
    ::signal(SIGXFSZ, SIG_IGN);
    rlimit limit;
    ::getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = 10;
    ::setrlimit(RLIMIT_FSIZE, &limit);
    bool good = file && file->append("12345") && !file->append("67890") && !file->flush() &&
                content(folder / "m") == "12345\n";
    limit.rlim_cur = limit.rlim_max; // somebody made room
    ::setrlimit(RLIMIT_FSIZE, &limit);
    return good && file->append("!") && content(folder / "m") == "12345\n67890\n!\n";
  }));
}

TEST(LineFile, WritesToDevices) {
  auto null = LineFile::open("/dev/null", /*replace=*/false);
  EXPECT_TRUE(bool(null) && bool(null->append("x")));
  auto full = LineFile::open("/dev/full", /*replace=*/false);
  EXPECT_TRUE(bool(full) && !full->append("x"));
}

} // namespace
