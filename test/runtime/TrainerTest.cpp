// The step loop, in-process.
#include "TrainedModel.h"
#include "runtime/session/Results.h"
#include "lib/planfile/Check.h"
#include "lib/support/Json.h"
#include "lib/support/Safetensors.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <fstream>
#include <limits>
#include <thread>
#include <unistd.h>

using namespace llmc;
using namespace llmc::test;
using runtime::Options;

namespace {

TEST_F(Trainer, EqualsTheReferenceOnAnyMesh) {
  for (auto [dp, micro] : {std::pair(1u, 4u), std::pair(2u, 2u), std::pair(4u, 1u)}) {
    auto program = tinyModel(dp, micro);
    EXPECT_EQ(formatFindings(checkAll(*program)), "");
    options.steps = 0;
    ASSERT_EQ(train(*program), "");
    auto initial = support::SafetensorsFile::open(options.dump);
    ASSERT_TRUE(bool(initial)) << initial.message();
    EXPECT_EQ(initial->tensors().size(), 3u); // no gradient without a step
    EXPECT_TRUE(tensor(*initial, "loss").empty());
    Reference want = reference(tensor(*initial, "param:words"), ids, labels, 4, 5, 0.5, 1.0);

    options.steps = 5;
    options.metrics = folder / "metrics.jsonl";
    options.force = true; // of the mesh before
    options.countCollectives = folder / "counts.json";
    ASSERT_EQ(train(*program), "");
    auto dump = support::SafetensorsFile::open(options.dump);
    ASSERT_TRUE(bool(dump)) << dump.message();
    expectNear(tensor(*dump, "loss"), want.losses, 1e-5);
    expectNear(tensor(*dump, "grad:words"), want.firstGradient, 1e-6);
    expectNear(tensor(*dump, "param:words"), want.words, 1e-5);
    EXPECT_EQ(tensor(*dump, "param:words.tied"), tensor(*dump, "param:words"));
    EXPECT_EQ(tensor(*dump, "grad:words.tied"), tensor(*dump, "grad:words"));

    std::ifstream metrics(options.metrics);
    std::string line;
    int lines = 0;
    while (std::getline(metrics, line)) {
      auto json = support::parseJson(line, "metrics");
      ASSERT_TRUE(bool(json));
      EXPECT_EQ((*json)["step"], lines + 1);
      EXPECT_NEAR((*json)["loss"].get<double>(), want.losses[lines], 1e-5);
      EXPECT_NEAR((*json)["grad_norm"].get<double>(), want.norms[lines], 1e-5);
      EXPECT_EQ((*json)["lr"], 0.5);
      EXPECT_GE((*json)["tokens"].get<int>(), 12);
      EXPECT_GT((*json)["tokens_per_s"].get<double>(), 0);
      EXPECT_GT((*json)["step_time_s"].get<double>(), 0);
      ++lines;
    }
    EXPECT_EQ(lines, 5);

    auto text = support::readFile(options.countCollectives);
    ASSERT_TRUE(bool(text));
    auto counts = support::parseJson(*text, "counts");
    ASSERT_TRUE(bool(counts));
    ASSERT_EQ((*counts)["collectives"].size(), 2u);
    const auto &first = (*counts)["collectives"][0];
    EXPECT_EQ(first["kind"], "all_reduce");
    EXPECT_EQ(first["axes"], support::Json({"dp"}));
    EXPECT_EQ(first["phase"], "update");
    EXPECT_EQ(first["bytes"], kWords * 4);
    EXPECT_EQ(first["per_step"], 1);
    EXPECT_EQ(first["origin"]["nodes"][0], "node.a");
    options.metrics.clear();
    options.countCollectives.clear();
  }
}

TEST_F(Trainer, SavesWhatWeightsLoads) {
  auto program = tinyModel(2, 2);
  options.save = folder / "model";
  ASSERT_EQ(train(*program), "");
  auto first = support::SafetensorsFile::open(options.dump);
  ASSERT_TRUE(bool(first));
  std::vector<double> words = tensor(*first, "param:words");
  auto saved = support::SafetensorsFile::open(folder / "model/model.safetensors");
  ASSERT_TRUE(bool(saved));
  EXPECT_EQ(tensor(*saved, "words"), words);
  EXPECT_EQ(saved->metadata().at("format"), "pt");
  EXPECT_EQ(*support::readFile(folder / "model/config.json"), "{}");
  options.weights = options.save;
  options.save.clear();
  options.steps = 0;
  ASSERT_EQ(train(*program), "");
  auto second = support::SafetensorsFile::open(options.dump);
  ASSERT_TRUE(bool(second));
  EXPECT_EQ(tensor(*second, "param:words"), words);
}

// Checks that --save announces what it writes, whatever names the source has.
TEST_F(Trainer, SavedBytesAreThoseWritten) {
  using Names = std::vector<std::string>;
  for (bool unnamed : {false, true})
    for (const Names &aliases : {Names(), Names{"tied"}, Names{"tied", "twice"}}) {
      auto program = tinyModel(1, 4);
      program->sources[0]->unnamed = unnamed;
      program->sources[0]->aliases = aliases;
      options.save = folder / "model";
      options.force = true;
      ASSERT_EQ(train(*program), "");
      auto saved = support::SafetensorsFile::open(folder / "model/model.safetensors");
      ASSERT_TRUE(bool(saved)) << saved.message();
      uint64_t bytes = 0;
      for (const auto &[name, tensor] : saved->tensors())
        bytes += tensor.byteSize;
      EXPECT_EQ(runtime::savedBytes(*program), bytes);
    }
}

// Checks that a run whose model's file turns out to have changed, after steps were made, keeps its
// results except the weights, and tells its error.
TEST_F(Trainer, ChangedWeightsAreFoundInTheEnd) {
  auto program = tinyModel(1, 4);
  constexpr uint64_t kBytes = uint64_t(512) << 20; // that no machine compares before the first step
  writeBytes(folder / "w.bin", "");
  std::filesystem::resize_file(folder / "w.bin", kBytes);
  program->files.push_back(std::make_unique<SourceFileT>());
  program->files.back()->path = folder / "w.bin";
  program->files.back()->byte_size = kBytes;
  program->sources[0]->file = 0;
  program->sources[0]->byte_size = kWords * 4;
  options.lr = 1e30;
  options.clip = 0;
  options.save = folder / "model";
  options.metrics = folder / "metrics.jsonl";
  options.trace = folder / "trace.json";
  patience = std::chrono::milliseconds(0);
  std::string why = train(*program);
  for (const char *part : {"w.bin' has changed", "nothing was saved", "step 2: the loss is inf"})
    EXPECT_NE(why.find(part), std::string::npos) << part << " not in " << why;
  EXPECT_FALSE(bool(support::readFile(folder / "model/model.safetensors")));
  EXPECT_FALSE(bool(support::readFile(options.dump)));
  EXPECT_EQ(support::readFile(options.metrics)->find("{\"step\":1,"), 0u);
  EXPECT_TRUE(bool(support::readFile(options.trace)));
}

TEST_F(Trainer, ATraceOfNoSteps) {
  auto program = tinyModel(1, 4);
  options.steps = 0;
  options.trace = folder / "trace.json";
  ASSERT_EQ(train(*program), "");
  EXPECT_NE(out.str().find("trace.json: the run ended before its first step"), std::string::npos)
      << out.str();
}

TEST_F(Trainer, StopsBetweenSteps) {
  std::atomic<bool> stop = true;
  auto program = tinyModel(2, 2);
  options.save = folder / "model";
  ASSERT_EQ(train(*program, &stop), "");
  EXPECT_NE(out.str().find("stopped after step 0 of 5"), std::string::npos);
  // There was nothing to keep yet.
  EXPECT_FALSE(bool(support::readFile(folder / "model/model.safetensors")));
  EXPECT_FALSE(bool(support::readFile(options.dump)));
}

// Its second step has a loss of infinity: the weights of the first must be what is saved,
// though by the order of the plan the second has its update behind its loss.
TEST_F(Trainer, ANonFiniteLossKeepsTheLastGoodWeights) {
  for (auto [dp, micro] : {std::pair(1u, 4u), std::pair(2u, 2u), std::pair(4u, 1u)}) {
    auto program = tinyModel(dp, micro);
    options.lr = 1e30;
    options.clip = 0;
    options.steps = 1;
    options.save.clear();
    ASSERT_EQ(train(*program), "");
    auto good = support::SafetensorsFile::open(options.dump);
    ASSERT_TRUE(bool(good));
    std::vector<double> words = tensor(*good, "param:words");

    options.steps = 5;
    std::string why = train(*program);
    EXPECT_EQ(why.rfind("step 2: the loss is inf", 0), 0u) << why;
    EXPECT_NE(why.find("the weights of step 1 are lost, --save DIR"), std::string::npos) << why;
    options.save = folder / "model";
    why = train(*program);
    EXPECT_NE(why.find("the weights of step 1 are in '" + options.save), std::string::npos) << why;
    auto saved = support::SafetensorsFile::open(options.save + "/model.safetensors");
    ASSERT_TRUE(bool(saved));
    EXPECT_EQ(tensor(*saved, "words"), words);
    auto dump = support::SafetensorsFile::open(options.dump);
    ASSERT_TRUE(bool(dump));
    EXPECT_EQ(tensor(*dump, "loss").size(), 1u); // of the good steps
    EXPECT_EQ(tensor(*dump, "param:words"), words);
  }
}

// The adversarial driver does not wait with the update, so the weights may be anything.
TEST_F(Trainer, WeightsThatMayBeTornAreNotSaved) {
  auto program = tinyModel(2, 2);
  options.lr = 1e30;
  options.clip = 0;
  options.interleaving = 1;
  options.save = folder / "model";
  std::string why = train(*program);
  EXPECT_NE(why.find("while it changed the weights, so those of step 1 are lost"), std::string::npos)
      << why;
  EXPECT_FALSE(bool(support::readFile(folder / "model/model.safetensors")));
}

TEST_F(Trainer, FullDisksEndNoTraining) {
  auto program = tinyModel(1, 4);
  options.metrics = options.trace = "/dev/full";
  options.save = folder / "model";
  std::string why = train(*program);
  EXPECT_NE(why.find("--metrics: cannot write '/dev/full': No space left"), std::string::npos) << why;
  EXPECT_NE(why.find("--trace: cannot write '/dev/full': No space left"), std::string::npos) << why;
  EXPECT_EQ(why.find("step "), std::string::npos) << why;
  EXPECT_NE(out.str().find("step 5/5"), std::string::npos);
  EXPECT_TRUE(bool(support::SafetensorsFile::open(options.save + "/model.safetensors")));
  EXPECT_TRUE(bool(support::SafetensorsFile::open(options.dump)));
  // The first line that is not written is told at once, also to who asked for errors alone.
  out.str("");
  options.verbosity = support::Verbosity::Quiet;
  train(*program);
  std::string told = out.str();
  EXPECT_EQ(told.find("metrics    cannot write '/dev/full'"), 0u) << told;
  EXPECT_NE(told.find("training goes on, later lines bring these"), std::string::npos) << told;
  EXPECT_EQ(told.find('\n'), told.size() - 1) << told;
  // After the last line none is left that could bring what is missing.
  out.str("");
  options.steps = 1;
  why = train(*program);
  told = out.str();
  EXPECT_NE(told.find("it is tried again at the end"), std::string::npos) << told;
  EXPECT_EQ(told.find("later lines"), std::string::npos) << told;
  EXPECT_NE(why.find("--metrics: cannot write '/dev/full': No space left"), std::string::npos) << why;
}

TEST_F(Trainer, OutputsAreNoInputs) {
  auto program = tinyModel(1, 4);
  std::string ids = folder / "ids.npy", before = *support::readFile(ids);
  options.metrics = folder / "./ids.npy";
  options.trace = options.dump;
  std::string why = train(*program);
  for (const char *part : {"--metrics '", "--input input_ids '", "--trace '", "--dump '"})
    EXPECT_NE(why.find(part), std::string::npos) << part << " not in " << why;
  options.metrics.clear();
  options.trace.clear();
  options.save = folder / "model";
  ASSERT_EQ(train(*program), "");
  options.weights = options.save;
  std::string model = *support::readFile(options.save + "/model.safetensors");
  EXPECT_NE(train(*program).find("is the same file as --weights"), std::string::npos);
  EXPECT_EQ(*support::readFile(options.save + "/model.safetensors"), model);
  EXPECT_EQ(*support::readFile(ids), before);
  options.weights.clear();
  writeBytes(folder / "model/model.safetensors.index.json", "{}");
  EXPECT_NE(train(*program).find("holds other weights"), std::string::npos);
}

// Without its config.json a checkpoint of quantised weights cannot be read.
TEST_F(Trainer, WhatDescribesWeightsIsAnInput) {
  auto program = tinyModel(1, 4);
  std::string dump = std::exchange(options.dump, ""), model = folder / "model";
  options.save = model;
  ASSERT_EQ(train(*program), "");
  std::filesystem::rename(model + "/model.safetensors", model + "/weights.safetensors");
  std::string config = model + "/config.json", mine = R"({"quantization_config":null})";
  writeBytes(config, mine);
  options.weights = model + "/weights.safetensors";
  EXPECT_NE(train(*program).find("is the same file as --weights"), std::string::npos);
  options.save.clear();
  options.force = true;
  for (std::string *output : {&options.dump, &options.trace, &options.metrics}) {
    *output = model + "/./config.json";
    EXPECT_NE(train(*program).find("is the same file as --weights"), std::string::npos);
    output->clear();
  }
  // Nobody reads it now, but no program wrote it.
  options.weights.clear();
  options.save = model;
  EXPECT_NE(train(*program).find("was not written by this program"), std::string::npos);
  EXPECT_EQ(*support::readFile(config), mine);
  writeBytes(config, program->model->config_json);
  EXPECT_EQ(train(*program), "");
}

TEST_F(Trainer, SaysWhatItChose) {
  auto program = tinyModel(2, 2);
  ASSERT_EQ(train(*program), "");
  for (const char *part : {"hand-made", "dp=2 pp=1 tp=1: 2 ranks", "drawn from seed 0",
                           "SGD, lr 0.5 constant, warm-up 0", "weight decay 0.1, clip 1",
                           "ids.npy, 8 rows in order", "4 rows a step", "steps      5, seed 0",
                           "step 1/5  loss ", "step 5/5", "tokens/s  left 0:00"})
    EXPECT_NE(out.str().find(part), std::string::npos) << part << " not in\n" << out.str();
}

TEST_F(Trainer, Refusals) {
  auto program = tinyModel(1, 1);
  options.lr = 1e30;
  options.clip = 0;
  std::string why = train(*program);
  EXPECT_NE(why.find("the loss is"), std::string::npos) << why;
  EXPECT_EQ(why.rfind("step ", 0), 0u);
  options.dump = folder / "no/such/file";
  EXPECT_NE(train(*program).find("--dump: cannot write"), std::string::npos);
  options.dump.clear();
  options.metrics = folder / "no/such/file";
  EXPECT_NE(train(*program).find("cannot write"), std::string::npos);
}

// A u16 file of the rows that the arrays have.
std::string evalFile(const TemporaryFolder &folder, size_t tokens) {
  std::string bytes;
  for (size_t i = 0; i < tokens; ++i) {
    uint16_t token = static_cast<uint16_t>(i * 5 % kWords);
    bytes.append(reinterpret_cast<const char *>(&token), 2);
  }
  writeBytes(folder / "eval.bin", bytes);
  return folder / "eval.bin";
}

TEST_F(Trainer, EvaluationChangesNothing) {
  for (auto [dp, micro] : {std::pair(1u, 4u), std::pair(2u, 2u)}) {
    auto program = tinyModel(dp, micro);
    ASSERT_EQ(train(*program), "");
    auto without = support::readFile(options.dump);
    options.evalData = evalFile(folder, 10 * kSeq + 1); // two batches of four rows, two left out
    options.evalEvery = 2;
    options.metrics = folder / "metrics.jsonl";
    std::remove(options.metrics.c_str());
    options.countCollectives = folder / "counts.json";
    out.str("");
    ASSERT_EQ(train(*program), "");
    EXPECT_EQ(*without, *support::readFile(options.dump)) << "bit for bit";
    EXPECT_NE(out.str().find("2 batches, the last 2 rows are left out"), std::string::npos) << out.str();
    std::ifstream metrics(options.metrics);
    std::string line;
    std::vector<double> losses;
    for (int step = 1; std::getline(metrics, line); ++step) {
      auto json = support::parseJson(line, "metrics");
      EXPECT_EQ(json->contains("eval_loss"), step == 2 || step == 4 || step == 5) << line;
      if (json->contains("eval_loss"))
        losses.push_back((*json)["eval_loss"].get<double>());
    }
    ASSERT_EQ(losses.size(), 3u);
    // Compare with a step on those rows with these weights and no learning.
    options.evalData.clear();
    options.evalEvery = 0;
    options.metrics.clear();
    options.countCollectives.clear();
    options.save = folder / "saved";
    ASSERT_EQ(train(*program), "");
    options.save.clear();
    Options trained = options;
    options.inputs.clear();
    options.data = {{folder / "eval.bin", 1}};
    options.shuffle = false;
    options.weights = folder / "saved";
    options.lr = 0;
    options.steps = 2;
    ASSERT_EQ(train(*program), "");
    auto dump = support::SafetensorsFile::open(options.dump);
    std::vector<double> steps = tensor(*dump, "loss");
    EXPECT_EQ((steps[0] + steps[1]) / 2, losses.back());
    options = trained;
  }
}

TEST_F(Trainer, EvaluationAlone) {
  auto program = tinyModel(2, 2);
  options.inputs.clear();
  options.steps = 0;
  options.evalData = evalFile(folder, 4 * kSeq + 1);
  ASSERT_EQ(train(*program), "");
  EXPECT_NE(out.str().find("eval 0/0  loss"), std::string::npos) << out.str();
  options.evalBatches = 2;
  EXPECT_NE(train(*program).find("has 1 batches of 4 rows"), std::string::npos);
  options.evalData = evalFile(folder, 3 * kSeq);
  EXPECT_EQ(train(*program).rfind("--eval-data: ", 0), 0u);
}

TEST_F(Trainer, BadTokensStopBeforeTheFirstStep) {
  auto program = tinyModel(2, 2);
  options.inputs.clear();
  std::string bytes = *support::readFile(evalFile(folder, 100 * kSeq + 1));
  bytes[2 * 300] = 99;
  writeBytes(folder / "bad.bin", bytes);
  options.data = {{folder / "bad.bin", 1}};
  std::string why = train(*program);
  EXPECT_NE(why.find("1 token is outside of the vocabulary of 16: token 99 at row 75, position 0"),
            std::string::npos) << why;
  EXPECT_EQ(out.str().find("step 1"), std::string::npos);
}

// Start-up lines of a run whose tokens are still being checked do not run into the living line.
TEST_F(Trainer, LinesGoAboveTheLivingOne) {
  runtime::RunContext context;
  context.out = &out;
  context.terminal = true;
  runtime::Console console(context, options);
  support::Progress &progress = *console.context().progress;
  support::Progress::Phase phase(progress, "checking", 10);
  std::this_thread::sleep_for(std::chrono::milliseconds(300)); // drawn after 0.2 s
  progress.tick();
  *console.context().out << "model " << 5 << "\nmesh" << std::endl;
  phase.end();
  EXPECT_NE(out.str().find("\r\033[Kmodel 5\n"), std::string::npos) << out.str();
  EXPECT_NE(out.str().find("\r\033[Kmesh\n"), std::string::npos);
}

TEST_F(Trainer, QuietSaysNothing) {
  options.verbosity = support::Verbosity::Quiet;
  ASSERT_EQ(train(*tinyModel(2, 2)), "");
  EXPECT_EQ(out.str(), "");
  options.verbosity = support::Verbosity::Verbose;
  ASSERT_EQ(train(*tinyModel(2, 2)), "");
  EXPECT_NE(out.str().find("filling weights  0."), std::string::npos) << out.str();
}

} // namespace
