#include "lib/support/Nearest.h"

#include <gtest/gtest.h>

using namespace llmc::support;

namespace {

TEST(Nearest, EditDistance) {
  EXPECT_EQ(editDistance("", "abc"), 3u);
  EXPECT_EQ(editDistance("kitten", "sitting"), 3u);
  EXPECT_EQ(editDistance("steps", "setps"), 1u) << "neighbours swapped count once";
  EXPECT_EQ(editDistance("same", "same"), 0u);
}

TEST(Nearest, NamesWhatIsMeantOrNothing) {
  std::vector<std::string> flags = {"steps", "seed", "eval-data", "lr", "lr-schedule"};
  EXPECT_EQ(nearest("step", flags), "steps");
  EXPECT_EQ(nearest("stpes", flags), "steps");
  EXPECT_EQ(nearest("evaldata", flags), "eval-data");
  EXPECT_EQ(nearest("lr-sched", flags), "lr-schedule") << "a beginning";
  EXPECT_EQ(nearest("l", flags), "lr");
  EXPECT_EQ(nearest("checkpoint", flags), "");
  EXPECT_EQ(nearest("4", {"0", "1", "auto"}), "") << "no letter is the same";
  EXPECT_EQ(nearest("", flags), "");
  EXPECT_EQ(nearest(std::string(100000, 'x'), flags), "");
}

} // namespace
