// Tests what is shown of long work, on a terminal and in a log.
#include "lib/support/Progress.h"

#include <gtest/gtest.h>
#include <sstream>

using namespace llmc::support;

namespace {

// Time that a test moves, and what was written until then.
struct Screen {
  double now = 100;
  std::ostringstream out;
  Progress progress;
  Screen(bool terminal, Verbosity verbosity = Verbosity::Normal)
      : progress(out, terminal, verbosity, [this] { return now; }) {}
  std::string after(double seconds) {
    now += seconds;
    progress.tick();
    return taken();
  }
  std::string taken() {
    std::string text = out.str();
    out.str("");
    return text;
  }
};

std::string drawn(const std::string &line) { return "\033[?7l" + line + "\033[?7h"; }
const std::string kClear = "\r\033[K";

TEST(Progress, DurationText) {
  EXPECT_EQ(durationText(0), "0:00");
  EXPECT_EQ(durationText(75), "1:15");
  EXPECT_EQ(durationText(3700), "1:01:40");
}

TEST(Progress, LineLivesOnATerminal) {
  Screen screen(true);
  {
    Progress::Phase phase(screen.progress, "hash", 200);
    EXPECT_EQ(screen.after(0.1), "") << "nothing flashes for work that is over at once";
    phase.add(50);
    EXPECT_EQ(screen.after(0.9), drawn("hash  25 %  left 0:03"));
    phase.reach(100);
    EXPECT_EQ(screen.after(0.1), "") << "five times a second at most";
    EXPECT_EQ(screen.after(0.9), kClear + drawn("hash  50 %  left 0:02"));
    EXPECT_EQ(screen.after(0.3), "") << "the same line is not drawn again";
  }
  EXPECT_EQ(screen.taken(), kClear);
}

TEST(Progress, LinesThatStayGoAboveTheLivingOne) {
  Screen screen(true);
  Progress::Phase phase(screen.progress, "hash", 100);
  phase.add(10);
  EXPECT_EQ(screen.after(0.3), drawn("hash  10 %"));
  screen.progress.print("step 1");
  EXPECT_EQ(screen.taken(), kClear + "step 1\n" + drawn("hash  10 %"));
}

TEST(Progress, PhasesOverlap) {
  Screen screen(true);
  Progress::Phase train(screen.progress, "train");
  train.show("step 3/9");
  {
    Progress::Phase check(screen.progress, "check tokens", 4);
    check.add(1);
    EXPECT_EQ(screen.after(0.4), drawn("step 3/9  |  check tokens  25 %"));
  }
  EXPECT_EQ(screen.taken(), kClear + drawn("step 3/9"));
}

TEST(Progress, PlainLinesAreForLongWorkAndGrowRare) {
  Screen screen(false);
  { Progress::Phase phase(screen.progress, "short", 10); }
  Progress::Phase phase(screen.progress, "hash", 1000);
  EXPECT_EQ(screen.after(1.9), "");
  phase.add(100);
  EXPECT_EQ(screen.after(0.1), "hash  10 %  left 0:18\n");
  EXPECT_EQ(screen.after(3.9), "");
  EXPECT_EQ(screen.after(0.1), "hash  10 %  left 0:54\n");
  EXPECT_EQ(screen.after(7.9), "");
  EXPECT_NE(screen.after(0.1), "");
  screen.progress.print("step 1");
  EXPECT_EQ(screen.taken(), "step 1\n");
}

TEST(Progress, OwnersOfLinesWriteThem) {
  Screen screen(false);
  Progress::Phase phase(screen.progress, "train", 10);
  phase.show("step 1");
  EXPECT_EQ(screen.after(10), "");
}

TEST(Progress, QuietAndVerbose) {
  for (bool terminal : {false, true}) {
    Screen screen(terminal, Verbosity::Quiet);
    Progress::Phase phase(screen.progress, "hash", 10);
    EXPECT_EQ(screen.after(10), "");
    screen.progress.print("step 1");
    phase.end();
    EXPECT_EQ(screen.taken(), "");
  }
  Screen screen(false, Verbosity::Verbose);
  Progress::Phase phase(screen.progress, "hash", 10);
  screen.now += 1.25;
  phase.end();
  EXPECT_EQ(screen.taken(), "hash  1.25 s\n");
}

TEST(Progress, DrawsByItselfWhileOthersPrint) {
  std::ostringstream out;
  {
    Progress progress(out, true, Verbosity::Normal);
    Progress::Phase background(progress, "hash", 100000);
    for (int i = 0; i < 50; ++i) { // half a second
      background.add(10);
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      progress.print("step");
    }
  }
  std::string text = out.str();
  EXPECT_NE(text.find("hash"), std::string::npos);
  EXPECT_EQ(text.substr(text.size() - kClear.size()), kClear);
}

} // namespace
