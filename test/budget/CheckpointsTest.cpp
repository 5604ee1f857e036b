#include "lib/budget/Checkpoints.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace llmc::budget;

// Works a problem out by hand: an MTBF of 24 hours, 5 minutes for a checkpoint.
TEST(Checkpoints, ByHand) {
  Failures failures{86400, 300};
  EXPECT_NEAR(youngCadence(failures), 7200, 1e-9);
  // 7200 (1 + 0.041667 / 3 + 0.00173611 / 9) - 300
  EXPECT_NEAR(dalyCadence(failures), 7001.389, 1e-3);
}

TEST(Checkpoints, LongCheckpointsAreWrittenAfterAnMtbf) {
  EXPECT_EQ(dalyCadence({100, 200}), 100);
  EXPECT_EQ(dalyCadence({100, 1e6}), 100);
  EXPECT_NEAR(dalyCadence({100, 199.999}), 100 * 8 / 9.0, 1e-3);
}

// Daly's cadence is near the best of the whole model, and the better one of the two.
TEST(Checkpoints, DalyIsNearTheBest) {
  for (double mtbf : {600.0, 3600.0, 86400.0, 1e6})
    for (double checkpoint : {1.0, 30.0, 300.0})
      for (double restart : {0.0, 600.0}) {
        Failures failures{mtbf, checkpoint, restart};
        double daly = goodput(failures, dalyCadence(failures)), best = 0;
        for (double cadence = 1; cadence < 10 * mtbf; cadence *= 1.001)
          best = std::max(best, goodput(failures, cadence));
        EXPECT_LE(daly, best * (1 + 1e-6));
        EXPECT_GT(daly, best * 0.999) << mtbf << " " << checkpoint;
        EXPECT_GE(daly, goodput(failures, youngCadence(failures)));
      }
}

TEST(Checkpoints, GoodputIsAShare) {
  // An MTBF that is long beside all else loses what checkpoints take, and half a cadence a failure.
  EXPECT_NEAR(goodput({1e12, 100}, 900), 0.9, 1e-6);
  EXPECT_NEAR(goodput({1e6, 10}, 4472), 1 - 10 / 4472.0 - 4472 / 2e6, 1e-4);
  EXPECT_NEAR(goodput({1e6, 10, 1000}, 4472) / goodput({1e6, 10}, 4472), std::exp(-0.001), 1e-12);
  EXPECT_EQ(goodput({1e-3, 1e9}, 1), 0);
}
