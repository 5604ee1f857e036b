// Faults of message groups, receives and slot pools, on a plan that has all of them: the
// static checkers find each, or a rule says why it changes nothing.
#include "lib/verify/mutation/Equivalence.h"
#include "lib/verify/mutation/PlanMutationRunner.h"
#include "lib/verify/mutation/Mutants.h"
#include "test/planfile/ChunkPlan.h"

#include <gtest/gtest.h>
#include <map>
#include <set>

using namespace llmc;
using namespace llmc::test;
using verify::Fault;

namespace {

struct Counts {
  std::map<std::string, unsigned> killed; // by checker
  unsigned equivalent = 0;
  std::vector<std::string> survivors;
};

std::map<Fault, Counts> judge(const planfile::ProgramT &program) {
  std::map<Fault, Counts> faults;
  verify::Equivalence equivalence(program);
  EXPECT_EQ(equivalence.fault(), "");
  for (const verify::Mutant &mutant : verify::listMutants(program)) {
    planfile::ProgramT changed(program);
    // These faults change numbers only.
    if (mutant.fault == Fault::Drop || mutant.fault == Fault::Scale || mutant.fault == Fault::Kind ||
        mutant.fault == Fault::Group)
      continue;
    verify::apply(mutant, changed);
    Counts &counts = faults[mutant.fault];
    if (std::string overwriter = verify::staticKiller(changed); !overwriter.empty())
      ++counts.killed[overwriter];
    else if (!equivalence.reason(mutant, changed).empty())
      ++counts.equivalent;
    else
      counts.survivors.push_back(mutant.change);
  }
  return faults;
}

} // namespace

TEST(ChunkMutants, StaticCheckersFindThem) {
  for (const ChunkShape &shape : {ChunkShape{}, ChunkShape{.stages = 3, .microBatches = 6}}) {
    auto program = makeChunkPlan(shape);
    std::map<Fault, Counts> faults = judge(*program);
    for (const auto &[fault, counts] : faults)
      if (fault != Fault::Exchange && fault != Fault::Operands) // operands of a kernel: numbers, too
        for (const std::string &survivor : counts.survivors)
          ADD_FAILURE() << toString(fault) << " survives: " << survivor;
    EXPECT_GT(faults[Fault::Torn].killed["launch-order"], 0u);
    EXPECT_GT(faults[Fault::Late].killed["happens-before"], 0u);
    EXPECT_EQ(faults[Fault::Late].equivalent, 0u);
    EXPECT_GT(faults[Fault::Pool].killed["conservation"], 0u);
    EXPECT_GT(faults[Fault::Pool].killed["happens-before"], 0u);
    EXPECT_GT(faults[Fault::Launch].killed["updates"], 0u);
    EXPECT_GT(faults[Fault::Fill].killed["updates"], 0u);
    EXPECT_GT(faults[Fault::Move].killed["collectives"], 0u);
    for (Fault fault : {Fault::Torn, Fault::Late, Fault::Invert})
      EXPECT_EQ(faults[fault].killed.count("bounds"), 0u) << toString(fault);
    for (const auto &[fault, counts] : faults) {
      std::string line(toString(fault));
      for (const auto &[checker, n] : counts.killed)
        line += " " + checker + " " + std::to_string(n);
      RecordProperty(std::string(toString(fault)), line);
      std::printf("  %s, equivalent %u\n", line.c_str(), counts.equivalent);
    }
  }
}
