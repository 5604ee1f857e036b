// Bounds are below what is predicted, a space has what its choices allow, and flags give the plan that they are of.
#include "Requests.h"

#include "lib/cost/Bound.h"
#include "lib/search/Flags.h"
#include "lib/search/RowBounds.h"
#include "lib/search/Search.h"

#include <set>

using namespace llmc;
using namespace llmc::search;

namespace {

TEST(Search, BoundsAreBelowSteps) {
  for (const char *model : {"llama", "gpt2", "mixtral"}) {
    test::Searching searching(model, 16, 64);
    auto &[context, models, asked, readers, space, tables] = searching;
    for (int64_t pp : {1, 2})
      for (cost::Order order : space.orders(pp))
        for (int zero : {0, 1, 2, 3})
          for (int64_t rows : {1, 2}) {
            Candidate candidate{{.gradients = cost::Number::Fp32}, 16 / pp, pp, order == cost::Order::Interleaved ? 2 : 1, rows,
                                64 * pp / (16 * rows), order, zero, cost::Kept::Full, {}};
            if (candidate.chunks > 1 && candidate.microBatches % pp)
              continue;
            Staging staging = pp == 1 ? Staging::Single : order == cost::Order::ZeroBubble ? Staging::Split : Staging::Several;
            auto table = tables.at({candidate.layout, staging, zero, candidate.dp, rows}, cost::Kept::Full);
            ASSERT_TRUE(table) << tables.why();
            CompileOptions options = asked.request.options;
            cost::Machine machine = asked.machine;
            cost::Choices choices = machine.choices;
            choices.mesh.pp = pp, choices.chunks = candidate.chunks;
            auto stages = predict::divideStages(tables.model().costs, choices);
            if (!stages)
              continue;
            candidate.stages = *stages;
            space.apply(candidate, options, machine);
            cost::PartPrices prices = cost::priceParts(*table, machine);
            double bound = cost::StepBound(prices, *table, machine).of(*stages, machine);
            double least = cost::predictStep(prices, *table, machine, /*isBound=*/true).step;
            double step = cost::predictStep(prices, *table, machine).step;
            EXPECT_GT(bound, 0);
            EXPECT_LE(bound, step * (1 + 1e-9)) << model << " pp " << pp << " order " << int(order) << " zero " << zero;
            EXPECT_LE(least, step * (1 + 1e-9)) << model << " pp " << pp << " order " << int(order) << " zero " << zero;
          }
  }
}

// Compares bounds of layouts by tables of other ranks of a row with those by their own, and these with steps of plans.
TEST(Search, BoundsOfRowsAreBelowSteps) {
  for (const char *model : {"llama", "mixtral"}) {
    test::Searching searching(model, 16, 64);
    auto &[context, models, asked, readers, space, tables] = searching;
    Passes passes(asked.request, asked.machine, space, tables);
    auto first = tables.at({{}, Staging::Single, 0, 1, 1}, cost::Kept::All);
    ASSERT_TRUE(first) << tables.why();
    passes.divide(int64_t(first->layers.size()));
    const int64_t experts = std::string(model) == "mixtral" ? 2 : 1;
    for (Layout layout : std::vector<Layout>{{.tp = 2, .ep = experts, .etp = experts > 1}, {.tp = 1}}) {
      layout.sequenceParallel = layout.tp > 1;
      for (int64_t cp : {2, 4}) {
        Layout whole = layout, own = layout;
        whole.cp = cp / 2, own.cp = cp;
        for (const Layout &read : {whole, own})
          for (int64_t rows : passes.rowsOf(read)) {
            TableKey key = *passes.firstOf(read);
            key.microBatch = rows;
            tables.read(tables.samplesOf(key, /*forPasses=*/true));
          }
        RowBounds least(asked.request, space, tables, passes, own, *passes.firstOf(whole));
        RowBounds bounds(asked.request, space, tables, passes, own, *passes.firstOf(own));
        ASSERT_TRUE(least.find() && bounds.find());
        ASSERT_EQ(least.seconds().size(), bounds.seconds().size());
        for (size_t i = 0; i < bounds.rows().size(); ++i) {
          EXPECT_LE(least.seconds()[i], bounds.seconds()[i] * (1 + 1e-9)) << model << " tp " << own.tp << " cp " << cp << " row " << i;
          const int64_t rows = bounds.rows()[i], dp = 16 / (own.tp * own.cp);
          if (rows * dp > 64 || 64 % (rows * dp))
            continue;
          for (int zero : {0, 1, 2, 3}) {
            Candidate plan{own, dp, 1, 1, rows, 64 / (rows * dp), cost::Order::OneFOneB, zero, cost::Kept::All, {}};
            auto table = tables.at(passes.keyOf(plan), plan.recompute);
            ASSERT_TRUE(table) << tables.why();
            CompileOptions options = asked.request.options;
            EXPECT_LE(bounds.seconds()[i], cost::predictStep(*table, passes.machineOf(plan, options)).step) << model << " zero " << zero;
          }
        }
      }
    }
  }
}

TEST(Search, SpacesHaveWhatIsFree) {
  test::Asked asked = test::ask("llama", 16, 64);
  Space space(asked.request, asked.machine);
  std::set<int64_t> tp, cp;
  for (const Layout &layout : space.layouts(2048, 1)) {
    tp.insert(layout.tp), cp.insert(layout.cp);
    EXPECT_EQ(layout.ep, 1);
  }
  EXPECT_EQ(tp, (std::set<int64_t>{1, 2, 4, 8}));
  EXPECT_EQ(cp, (std::set<int64_t>{1, 2, 4}));
  EXPECT_EQ(space.stages({.tp = 2}, 4), (std::vector<int64_t>{1, 2, 4}));
  EXPECT_EQ(space.chunks(2, 12), (std::vector<int64_t>{2, 3, 4, 5, 6, 7}));
  asked.request.free.tp = false;
  for (const Layout &layout : space.layouts(2048, 1))
    EXPECT_EQ(layout.tp, 1);
  EXPECT_EQ(divisorsOf(12), (std::vector<int64_t>{1, 2, 3, 4, 6, 12}));
}

TEST(Search, FlagsGiveThePlan) {
  test::Asked asked = test::ask("llama", 16, 64);
  Candidate candidate{{.tp = 2, .cp = 2, .sequenceParallel = true, .gradients = cost::Number::Bf16}, 2, 2, 2, 4, 8, cost::Order::Interleaved, 3,
                      cost::Kept::Full, {}};
  EXPECT_EQ(lineOf(flagsOf(candidate, asked.request)),
            "--mesh dp=2,pp=2,tp=2,cp=2 --micro-batch 4 --global-batch 64 --schedule interleaved --virtual-stages 2 --zero 3 "
            "--sequence-parallel on --recompute full --grad-dtype bf16");
  asked.request.options.model = "my model's/config.json";
  EXPECT_NE(planCommand(candidate, asked.request).find("llmc plan 'my model'\\''s/config.json' --gpu h100"), std::string::npos);
}

TEST(Search, FindsFiveMeshes) {
  test::LoadedContext context;
  predict::RaisedModels models(context);
  test::Asked asked = test::ask("llama", 8, 16);
  auto result = search::search(models, asked.request, asked.machine, 5);
  ASSERT_TRUE(result && result->found.size() == 5);
  for (size_t i = 1; i < 5; ++i)
    EXPECT_GE(result->found[i].prediction.time.step, result->found[i - 1].prediction.time.step * (1 - 1e-9));
}

} // namespace
