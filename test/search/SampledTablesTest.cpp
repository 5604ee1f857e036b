// Tables that are interpolated beside tables that are read of the model: steps, memory and traffic are equal.
#include "Requests.h"

#include "lib/cost/Memory.h"
#include "lib/cost/Step.h"
#include "lib/search/SampledTables.h"

using namespace llmc;
using namespace llmc::search;

namespace {

// Compares the table of a mesh with that which is read of it.
void compare(SampledTables &tables, predict::RaisedModels &models, const Space &space, const test::Asked &asked, const TableKey &key,
             int64_t pp) {
  std::string where = "tp " + std::to_string(key.layout.tp) + " ep " + std::to_string(key.layout.ep) + " dp " + std::to_string(key.dp) +
                      " zero " + std::to_string(key.zero) + " rows " + std::to_string(key.microBatch);
  Candidate candidate{key.layout, key.dp, pp, 1, key.microBatch, 4, cost::Order::OneFOneB, key.zero, cost::Kept::Selective, {}};
  CompileOptions options = asked.request.options;
  cost::Machine machine = asked.machine;
  space.apply(candidate, options, machine);
  auto read = predict::readTables(models, options, machine.choices, {cost::Kept::Selective});
  auto made = tables.at(key, cost::Kept::Selective);
  ASSERT_TRUE(read && made) << where << ": " << tables.why();
  const cost::Table &table = read->of.at(cost::Kept::Selective);
  machine.choices.stages = pp > 1 ? std::vector<int64_t>{1, 1} : std::vector<int64_t>();
  double step = cost::predictStep(table, machine).step;
  EXPECT_NEAR(cost::predictStep(*made, machine).step / step, 1, 2e-3) << where;
  auto memory = cost::predictMemory(table, machine), other = cost::predictMemory(*made, machine);
  for (size_t i = 0; i < memory.size(); ++i)
    EXPECT_NEAR(other[i].sum() / memory[i].sum(), 1, 5e-3) << where;
}

TEST(SampledTables, AreThoseOfTheModel) {
  for (const char *model : {"llama", "mixtral"}) {
    test::Searching searching(model, 32, 64);
    auto &[context, models, asked, readers, space, tables] = searching;
    const bool mixes = std::string(model) == "mixtral";
    ASSERT_TRUE(tables.at({{}, Staging::Single, 0, 1, 1}, cost::Kept::Selective));
    for (int64_t dp : {1, 4, 16})
      for (int zero : {0, 1, 2, 3})
        for (int64_t rows : {1, 4})
          for (int64_t tp : {1, 2})
            for (int64_t ep : mixes && dp > 1 ? std::vector<int64_t>{1, 2, 4} : std::vector<int64_t>{1})
              for (Staging staging : {Staging::Single, Staging::Several})
                if (dp > 1 || zero == 0)
                  compare(tables, models, space, asked, {{tp, 1, ep, ep > 1 ? 1 : 0, tp > 1, cost::Number::Fp32}, staging, zero, dp, rows},
                          staging == Staging::Single ? 1 : 2);
  }
}

// Compares tables of sizes of ep between the ends that are read: gradients of experts' weights sum over the rows of each expert,
// of which fewer experts have more.
TEST(SampledTables, AreThoseOfManyExperts) {
  test::Searching searching("deepseek-v3", 256, 256);
  auto &[context, models, asked, readers, space, tables] = searching;
  ASSERT_TRUE(tables.at({{}, Staging::Single, 0, 1, 1}, cost::Kept::Selective));
  for (int64_t tp : {1, 2})
    for (int64_t ep : {4, 8, 32})
      compare(tables, models, space, asked, {{tp, 1, ep, 1, tp > 1, cost::Number::Fp32}, Staging::Several, 1, 64, 1}, 2);
}

} // namespace
