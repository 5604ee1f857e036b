// Equivalence is no echo of the static checkers: whoever of them is turned off, nothing that
// it alone had found is called equivalent.
#include "lib/planfile/Check.h"
#include "lib/verify/mutation/Equivalence.h"
#include "lib/verify/mutation/PlanMutationRunner.h"
#include "lib/verify/mutation/Mutants.h"
#include "test/planfile/ChunkPlan.h"
#include "test/planfile/PlanBuilder.h"

#include <gtest/gtest.h>
#include <map>
#include <set>

using namespace llmc;
using namespace llmc::planfile;
using verify::Equivalence;
using verify::Fault;

namespace {

std::vector<ProgramT> plans() {
  std::vector<ProgramT> result;
  result.push_back(test::makePlan({.stages = 2, .dp = 2, .exchange = true}));
  result.push_back(test::makePlan({.gpipe = true, .stages = 3, .dp = 1, .launches = 2}));
  result.push_back(*test::makeChunkPlan({}));
  for (ProgramT &program : result)
    updateLiveBytes(program);
  return result;
}

} // namespace

TEST(Equivalence, OfThePlanItself) {
  for (const ProgramT &program : plans()) {
    Equivalence equivalence(program);
    EXPECT_EQ(equivalence.fault(), "");
    EXPECT_NE(equivalence.reason({}, program), "");
  }
}

// A kill by one checker alone must not turn into an equivalence when it does not look.
TEST(Equivalence, IsNotWhatACheckerFound) {
  std::map<std::string_view, unsigned> alone; // found by this checker and no other
  for (const ProgramT &program : plans()) {
    Equivalence equivalence(program);
    for (const verify::Mutant &mutant : verify::listMutants(program)) {
      if (mutant.fault == Fault::Scale) // needs kernels
        continue;
      ProgramT changed(program);
      verify::apply(mutant, changed);
      if (verify::staticKiller(changed).empty())
        continue;
      for (std::string_view checker : verify::staticCheckers()) {
        if (!verify::staticKiller(changed, checker).empty())
          continue;
        ++alone[checker];
        EXPECT_EQ(equivalence.reason(mutant, changed), "")
            << checker << " alone finds " << toString(mutant.fault) << ": " << mutant.change;
      }
    }
  }
  for (auto [checker, count] : alone)
    std::printf("  %u by %s alone\n", count, std::string(checker).c_str());
  for (const char *checker : {"collectives", "happens-before", "conservation", "launch-order"})
    EXPECT_GT(alone[checker], 0u) << checker;
}

// Checks that the checker of orders and the closure agree on a lost wait, though neither knows the
// other.
TEST(Equivalence, OfLostWaits) {
  unsigned lost = 0, needless = 0;
  for (const ProgramT &program : plans()) {
    Equivalence equivalence(program);
    for (const verify::Mutant &mutant : verify::listMutants(program)) {
      if (mutant.fault != Fault::Wait)
        continue;
      ProgramT changed(program);
      verify::apply(mutant, changed);
      bool ordered = verify::staticKiller(changed).empty();
      EXPECT_EQ(equivalence.reason(mutant, changed).empty(), !ordered)
          << mutant.change << ": " << verify::runSymbolically(changed).fault;
      ++(ordered ? needless : lost);
    }
  }
  EXPECT_GT(lost, 0u);
  EXPECT_GT(needless, 0u);
}
