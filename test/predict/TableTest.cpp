// The table of a stack that is not ours, extracted from one layer of each kind, beside that of all layers: FLOPs, bytes of
// each collective, parameters and what is kept are equal.
#include "Models.h"

#include "lib/predict/ExtractTable.h"
#include "lib/predict/Predict.h"
#include "lib/predict/PredictionText.h"
#include "lib/predict/PriceOptions.h"

#include <gtest/gtest.h>

#include <map>

using namespace llmc;
using namespace llmc::test;

namespace {

// Returns the table of a model of test/data, with all of its layers or one of each kind.
cost::Table tableOf(const std::string &model, CompileOptions options, bool oneOfEach) {
  LoadedContext context;
  options.zero = 0;
  std::vector<int64_t> bodies;
  auto module = partitioned(context, model, options, oneOfEach, bodies);
  if (!module)
    return {};
  return predict::extractTable(*module, cost::Profile::Fused, bodies);
}

// Adds up what all parts have.
struct Sums {
  double flops = 0, bytes = 0, parameters = 0, kept = 0, attention = 0;
  std::map<std::pair<int, int>, double> collectives; // by kind and role

  explicit Sums(const cost::Table &table) {
    add(table.before), add(table.after);
    for (int kind : table.layers)
      add(table.kinds[kind]);
  }
  void add(const cost::Part &part) {
    for (const cost::Work *work : {&part.forward, &part.backward}) {
      flops += work->flops, bytes += work->bytes;
      for (const cost::Attention &a : work->attentions)
        attention += a.flops();
      for (const cost::Collective &c : work->collectives)
        collectives[{int(c.kind), int(c.role)}] += c.bytes;
    }
    parameters += part.wholeParameters;
    kept += part.inputs;
  }
};

TEST(Table, OneLayerOfEachKindStandsForAll) {
  for (const char *model : {"gpt2", "llama", "qwen3", "mixtral", "qwen3_moe", "gemma2", "bert", "nemotron", "phi3", "gpt_oss"})
    for (auto [dp, tp, cp] : {std::tuple(1, 1, 1), {2, 2, 1}, {1, 1, 2}}) {
      if (cp > 1 && (std::string(model) == "bert" || std::string(model) == "gpt_oss"))
        continue; // a mask, and sinks, are not cut
      CompileOptions options;
      options.dp = dp, options.tp = tp, options.cp = cp;
      Sums all(tableOf(model, options, false)), one(tableOf(model, options, true));
      std::string where = std::string(model) + " dp " + std::to_string(dp) + " tp " + std::to_string(tp) + " cp " + std::to_string(cp);
      EXPECT_GT(all.flops, 0) << where;
      EXPECT_NEAR(one.flops / all.flops, 1, cp > 1 ? 2e-5 : 1e-9) << where; // tables of angles are not moved
      EXPECT_NEAR(one.attention / all.attention, 1, 1e-9) << where;
      EXPECT_NEAR(one.parameters / all.parameters, 1, 1e-9) << where;
      EXPECT_NEAR(one.kept / all.kept, 1, 1e-9) << where;
      ASSERT_EQ(one.collectives.size(), all.collectives.size()) << where;
      for (auto [key, bytes] : all.collectives)
        EXPECT_NEAR(one.collectives[key] / bytes, 1, 1e-9) << where << ", kind " << key.first << ", role " << key.second;
    }
}

TEST(Prediction, PartsSum) {
  LoadedContext context;
  CompileOptions options;
  options.model = std::string(LLMC_TEST_DATA) + "/qwen3/config.json";
  options.dp = 2, options.pp = 2, options.tp = 2;
  predict::PriceOptions prices;
  prices.gpu = "h100";
  std::vector<std::string> errors;
  auto machine = predict::resolve(prices, options, true, errors);
  ASSERT_TRUE(machine && errors.empty());
  predict::RaisedModels models(context);
  auto prediction = predict::readPrediction(models, options, *machine, true);
  ASSERT_TRUE(prediction);
  ASSERT_TRUE(predict::price(*prediction));
  nlohmann::json chosen = predict::predictionJson(*prediction)["chosen"];
  double time = 0, memory = 0;
  for (const auto &[name, seconds] : chosen["time_s"].items())
    time += seconds.get<double>();
  EXPECT_NEAR(time, chosen["step_time_s"].get<double>(), 1e-12);
  for (const auto &[name, bytes] : chosen["memory_bytes"].items())
    if (name != "peak" && name != "stages")
      memory += bytes.get<double>();
  EXPECT_NEAR(memory, chosen["memory_bytes"]["peak"].get<double>(), 1);
  EXPECT_EQ(chosen["memory_bytes"]["stages"].size(), 2u);
  EXPECT_FALSE(predict::predictionText(*prediction).empty());
}

} // namespace
