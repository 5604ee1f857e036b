#include "PlanBuilder.h"

#include "lib/support/File.h"
#include "lib/support/Json.h"

using namespace llmc;
using namespace llmc::test;
using runtime::Executor;
using runtime::ExecutorOptions;
using runtime::Kernels;
using runtime::Trace;

namespace {

support::Json readTrace(const std::string &path) {
  auto content = support::readFile(path);
  EXPECT_TRUE(bool(content)) << content.message();
  auto trace = support::parseJson(*content, path);
  EXPECT_TRUE(bool(trace)) << trace.message();
  return *trace;
}

// The first message arrives; then both wait for another for ever.
TEST(Tracing, AFailedStepShowsWhereItStood) {
  TemporaryFolder folder;
  auto program = makeProgram({1, 2}, 1, 32);
  add(*program, 0, send(1, 1, ref(0, 8)));
  add(*program, 0, recv(1, 1, ref(8, 8)));
  add(*program, 1, recv(1, -1, ref(16, 8)));
  add(*program, 1, recv(1, -1, ref(0, 8)));
  ExecutorOptions options;
  options.trace = {folder / "t.json", 1, 3};
  auto executor = makeExecutor(*program, kNone, options);
  ASSERT_FALSE(bool(executor->runStep({})));
  ASSERT_TRUE(bool(executor->writeTrace(/*now=*/true)));
  std::map<std::string, int> ended, unfinished;
  int arrows = 0;
  support::Json trace = readTrace(folder / "t.json");
  for (const auto &event : trace["traceEvents"]) {
    if (event["ph"] == "X" && event["cat"] != "schedule")
      ++(event["args"].contains("unfinished") ? unfinished : ended)[event["cat"]];
    arrows += event["ph"] == "s";
  }
  EXPECT_EQ(ended, (std::map<std::string, int>{{"send", 1}, {"recv", 1}}));
  EXPECT_EQ(unfinished, (std::map<std::string, int>{{"recv", 2}}));
  EXPECT_EQ(arrows, 1);
}

// Each member of a group has an event, of its own lane, and its message an arrow.
TEST(Tracing, NamesTheMembersOfAGroup) {
  TemporaryFolder folder;
  auto program = makeProgram({1, 2}, 1, 32, 1, 2, 2);
  for (uint32_t s : {0u, 1u}) {
    SendT sent = send(1, s ? -1 : 1, ref(0, 8), s);
    RecvT received = recv(1, s ? -1 : 1, ref(16, 8, 8), 1 - s);
    received.grouped = true;
    received.parts[0]->lane = 1;
    add(*program, s, std::move(sent));
    add(*program, s, std::move(received));
    for (uint32_t m : {0u, 1u})
      program->stages[s]->table[m]->more.push_back(SlotRef(0, 1 - m, 1 - m));
  }
  ExecutorOptions options;
  options.trace = {folder / "t.json", 1, 1};
  options.profile = true;
  auto executor = makeExecutor(*program, kNone, options);
  ASSERT_TRUE(bool(executor->runStep({})));
  ASSERT_TRUE(bool(executor->writeTrace(/*now=*/true)));
  // The profile has no zeros for what it does not measure, and no classes that are not there.
  ASSERT_TRUE(bool(executor->runStep({})));
  std::ostringstream profile;
  executor->printProfile(profile);
  EXPECT_NE(profile.str().find(" -       "), std::string::npos) << profile.str();
  EXPECT_EQ(profile.str().find(" 0.000"), std::string::npos) << profile.str();
  EXPECT_EQ(profile.str().find("matrix products"), std::string::npos) << profile.str();
  std::map<std::string, int> seen;
  int arrows = 0;
  support::Json trace = readTrace(folder / "t.json");
  for (const auto &event : trace["traceEvents"]) {
    if (event["ph"] == "X" && event["cat"] != "schedule")
      ++seen[std::string(event["cat"]) + event["args"]["micro_batch"].dump() +
             event["args"]["slot"].dump()];
    arrows += event["ph"] == "s";
  }
  EXPECT_EQ(seen, (std::map<std::string, int>{
                      {"send00", 2}, {"send11", 2}, {"recv00", 2}, {"recv11", 2}}));
  EXPECT_EQ(arrows, 4);
}

TEST(Tracing, KeepsTheStepsThatAreAskedFor) {
  TemporaryFolder folder;
  auto program = makeProgram({1, 1}, 1, 32);
  for (uint8_t stream : {0, 0})
    add(*program, 0, record(0), stream);
  ExecutorOptions options;
  options.trace = {folder / "t.json", 2, 3};
  auto executor = makeExecutor(*program, kNone, options);
  for (int step = 1; step <= 4; ++step) {
    ASSERT_TRUE(bool(executor->runStep({})));
    ASSERT_TRUE(bool(executor->writeTrace(/*now=*/false)));
    EXPECT_EQ(executor->traceNote().empty(), step < 3);
  }
  std::vector<int> steps;
  support::Json trace = readTrace(folder / "t.json");
  for (const auto &event : trace["traceEvents"])
    if (event["ph"] == "X" && event["cat"] == "record")
      steps.push_back(event["args"]["step"]);
  EXPECT_EQ(steps, (std::vector<int>{2, 2, 3, 3}));
}

TEST(Tracing, MemoryIsBounded) {
  Trace trace({"", 1, 1}, 2, 2048);
  trace.beginStep();
  for (unsigned i = 0; i < 5000; ++i)
    trace.add(i % 2, {});
  EXPECT_EQ(trace.events().size(), 2048u);
  EXPECT_EQ(trace.dropped(), 5000u - 2048u);
}

} // namespace
