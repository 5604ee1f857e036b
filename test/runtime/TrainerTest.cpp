// The step loop, in-process and as a packed program.
#include "runtime/train/Trainer.h"
#include "runtime/session/Results.h"
#include "runtime/session/Session.h"
#include "PlanBuilder.h"
#include "lib/planfile/Check.h"
#include "lib/planfile/Payload.h"
#include "lib/support/Json.h"
#include "lib/support/Safetensors.h"

#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <fstream>
#include <limits>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

extern "C" {
void t_micro(void *const *, const int64_t *, int64_t, int64_t);
void t_finish(void *const *, const int64_t *, int64_t, int64_t);
void t_sgd(void *const *, const int64_t *, int64_t, int64_t);
}

using namespace llmc;
using namespace llmc::test;
using runtime::Kernels;
using runtime::Options;

namespace {

constexpr int64_t kWords = 16, kSeq = 4;
constexpr uint64_t kW = 0, kGradient = 64, kIds = 128, kLabels = 160, kLoss = 192, kCount = 196,
                   kNorm = 200, kLr = 204, kClip = 208;

const Kernels kKernels({t_micro, t_finish, t_sgd});

void addProcedure(ProgramT &program, const char *name, ProcedureKind kind, uint32_t entries) {
  auto procedure = std::make_unique<ProcedureT>();
  procedure->name = name;
  procedure->kind = kind;
  auto &stage = *program.stages[0];
  for (uint32_t m = 0; m < entries; ++m) {
    auto entry = std::make_unique<EntryT>();
    entry->procedure = static_cast<uint32_t>(stage.procedures.size());
    entry->micro_batch = m;
    stage.table.push_back(std::move(entry));
  }
  stage.procedures.push_back(std::move(procedure));
}

LaunchT withScalar(LaunchT launch, int64_t value) {
  launch.scalars.push_back(std::make_unique<CoordExprT>());
  launch.scalars.back()->base = value;
  return launch;
}

FillT fill(uint64_t offset, uint64_t size) {
  FillT made;
  made.dst = ref(offset, size);
  return made;
}

FeedT feed(uint32_t input, uint64_t offset) {
  FeedT made;
  made.input = input;
  made.dst = ref(offset, kSeq * 8);
  return made;
}

LaunchT access(LaunchT launch, std::vector<Access> how) {
  for (size_t i = 0; i < how.size(); ++i)
    launch.operands[i]->access = how[i];
  return launch;
}

// The model on `dp` data-parallel ranks, `micro` micro-batches of one row.
std::unique_ptr<ProgramT> tinyModel(uint32_t dp, uint32_t micro) {
  auto program = makeProgram({dp, 1, 1}, 1, 256, 1, 1, 1);
  program->model->vocabulary = kWords;
  program->model->sequence = kSeq;
  program->model->config_json = "{}";
  program->optimizer = OptimizerKind::Sgd;
  program->micro_batches = micro;
  program->global_batch = dp * micro;
  program->stages[0]->procedures.clear();
  program->stages[0]->table.clear();
  for (const char *name : {"input_ids", "labels"}) {
    auto input = std::make_unique<InputBindingT>();
    input->name = name;
    input->dtype = DType::I64;
    input->local_shape = {1, kSeq};
    input->batch_axes = {0};
    program->inputs.push_back(std::move(input));
  }
  auto source = std::make_unique<SourceTensorT>();
  source->name = "words";
  source->aliases = {"words.tied"};
  source->shape = {kWords};
  source->init = InitKind::Normal;
  source->init_std = 1.0;
  program->sources.push_back(std::move(source));
  for (StateRole role : {StateRole::Parameter, StateRole::Accumulator}) {
    auto state = std::make_unique<StateShardT>();
    state->name = "words";
    state->role = role;
    state->owner = true;
    state->global_shape = state->local_shape = {kWords};
    state->dims.push_back(std::make_unique<DimShardingT>());
    state->view = std::make_unique<ViewT>();
    state->view->strides = {1};
    state->buffer = ref(role == StateRole::Parameter ? kW : kGradient, kWords * 4);
    program->stages[0]->states.push_back(std::move(state));
  }
  for (auto [name, offset] : {std::pair("lr", kLr), std::pair("clip", kClip)}) {
    auto scalar = std::make_unique<HostScalarT>();
    scalar->name = name;
    scalar->buffer = ref(offset, 4);
    program->stages[0]->host_scalars.push_back(std::move(scalar));
  }
  for (auto [name, offset] :
       {std::pair("loss", kLoss), std::pair("tokens", kCount), std::pair("grad_norm", kNorm)}) {
    auto output = std::make_unique<StepOutputT>();
    output->name = name;
    output->buffer = ref(offset, 4);
    program->stages[0]->outputs.push_back(std::move(output));
  }
  auto R = Access::Read, W = Access::Write, RW = Access::ReadWrite;
  addProcedure(*program, "begin", ProcedureKind::Begin, 1);
  add(*program, 0, fill(kGradient, kWords * 4), 0, Phase::Forward, 0);
  add(*program, 0, fill(kLoss, 8), 0, Phase::Forward, 0);
  addProcedure(*program, "forward", ProcedureKind::Forward, 0);
  add(*program, 0, feed(0, kIds), 0, Phase::Forward, 1);
  add(*program, 0, feed(1, kLabels), 0, Phase::Forward, 1);
  addProcedure(*program, "backward", ProcedureKind::Backward, 0);
  for (uint32_t m = 0; m < micro; ++m)
    for (uint32_t p : {1u, 2u}) {
      auto entry = std::make_unique<EntryT>();
      entry->procedure = p;
      entry->micro_batch = m;
      program->stages[0]->table.push_back(std::move(entry));
    }
  add(*program, 0,
      access(withScalar(launch(*program, "t_micro",
                               refs(ref(kW, 64), ref(kGradient, 64), ref(kIds, 32),
                                    ref(kLabels, 32), ref(kLoss, 4), ref(kCount, 4))),
                        kSeq),
             {R, RW, R, R, RW, RW}),
      0, Phase::Backward, 2);
  addProcedure(*program, "update", ProcedureKind::Update, 1);
  for (auto [offset, count] : {std::pair(kGradient, uint64_t(kWords)), std::pair(kLoss, uint64_t(2))})
    add(*program, 0,
        collective(CollectiveKind::AllReduce, {0}, count, ref(offset, count * 4),
                   ref(offset, count * 4)),
        0, Phase::Update, 3);
  add(*program, 0,
      access(withScalar(launch(*program, "t_finish",
                               refs(ref(kGradient, 64), ref(kLoss, 4), ref(kCount, 4), ref(kNorm, 4))),
                        kWords),
             {RW, RW, R, W}),
      0, Phase::Update, 3);
  add(*program, 0,
      access(withScalar(launch(*program, "t_sgd",
                               refs(ref(kW, 64), ref(kGradient, 64), ref(kNorm, 4), ref(kLr, 4),
                                    ref(kClip, 4))),
                        kWords),
             {RW, R, R, R, R}),
      0, Phase::Update, 3);
  updateLiveBytes(*program);
  return program;
}

struct Reference {
  std::vector<double> words, firstGradient, losses, norms;
};

// The same training in doubles.
Reference reference(std::vector<double> words, const std::vector<int64_t> &ids,
                    const std::vector<int64_t> &labels, int64_t rowsPerStep, int steps, double lr,
                    double clip) {
  Reference out{std::move(words), {}, {}, {}};
  int64_t rows = int64_t(ids.size()) / kSeq;
  for (int step = 0; step < steps; ++step) {
    std::vector<double> gradient(kWords, 0.0);
    double loss = 0, count = 0, norm = 0;
    for (int64_t r = 0; r < rowsPerStep; ++r)
      for (int64_t i = 0; i < kSeq; ++i) {
        int64_t at = (step * rowsPerStep + r) % rows * kSeq + i;
        if (labels[at] == -100)
          continue;
        double error = out.words[ids[at]] - double(labels[at]);
        gradient[ids[at]] += error;
        loss += error * error / 2;
        count += 1;
      }
    for (double &g : gradient)
      g /= count, norm += g * g;
    norm = std::sqrt(norm);
    if (step == 0)
      out.firstGradient = gradient;
    for (int64_t i = 0; i < kWords; ++i)
      out.words[i] -= lr * (norm > clip ? clip / norm : 1.0) * gradient[i];
    out.losses.push_back(loss / count);
    out.norms.push_back(norm);
  }
  return out;
}

std::vector<double> tensor(const support::SafetensorsFile &file, const std::string &name) {
  auto at = file.tensors().find(name);
  if (at == file.tensors().end()) {
    ADD_FAILURE() << "no tensor " << name;
    return {};
  }
  std::vector<double> values;
  for (uint64_t i = 0; i < *support::elementCount(at->second.shape); ++i)
    values.push_back(support::readAsDouble(at->second.type, at->second.data, i));
  return values;
}

void expectNear(const std::vector<double> &a, const std::vector<double> &b, double tolerance) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i)
    EXPECT_NEAR(a[i], b[i], tolerance) << "at " << i;
}

class Trainer : public ::testing::Test {
protected:
  Trainer() {
    for (int64_t i = 0; i < 8 * kSeq; ++i) {
      ids.push_back(i * 7 % kWords);
      labels.push_back(i % 5 == 2 ? -100 : i * 3 % kWords);
    }
    writeNpy(folder / "ids.npy", {8, kSeq}, ids);
    writeNpy(folder / "labels.npy", {8, kSeq}, labels);
    options.inputs = {{"input_ids", folder / "ids.npy"}, {"labels", folder / "labels.npy"}};
    options.lr = 0.5;
    options.dump = folder / "dump.safetensors";
    options.steps = 5;
  }

  std::string train(const ProgramT &program, const std::atomic<bool> *stop = nullptr) {
    runtime::RunContext context;
    context.out = &out;
    context.stop = stop;
    context.patience = patience;
    auto status = runtime::train(program, kKernels, options, context);
    return status ? "" : status.message();
  }

  TemporaryFolder folder;
  std::vector<int64_t> ids, labels;
  Options options;
  std::chrono::milliseconds patience = runtime::WeightsCheck::kPatience;
  std::ostringstream out;
};

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

// The runtime as users get it: a file of its own that is started.
class Packed : public Trainer {
protected:
  Packed() {
    auto object = support::readFile(LLMC_TEST_KERNELS);
    EXPECT_TRUE(bool(object)) << object.message();
    std::string plan = writeProgram(*tinyModel(2, 2));
    Section sections[] = {{std::string(kPlanSection), plan}, {std::string(kKernelsSection), *object}};
    auto status = writePayload(LLMC_TEST_RUNTIME, sections, folder / "tiny");
    EXPECT_TRUE(bool(status)) << status.message();
  }

  // Exit status of `command` run in the folder; its output is in `text`.
  int run(const std::string &command) {
    int status = std::system(("cd " + folder.path + " && " + command + " >out 2>&1").c_str());
    auto content = support::readFile(folder / "out");
    text = content ? *content : "";
    return WEXITSTATUS(status);
  }

  const std::string inputs = "--input input_ids=ids.npy --input labels=labels.npy ";
  std::string text;
};

TEST_F(Packed, TrainsAndEqualsTheLibrary) {
  ASSERT_EQ(train(*tinyModel(2, 2)), "");
  ASSERT_EQ(run("./tiny " + inputs + "--steps 5 --lr 0.5 --dump d.safetensors"), 0) << text;
  auto mine = support::readFile(options.dump), theirs = support::readFile(folder / "d.safetensors");
  ASSERT_TRUE(theirs);
  EXPECT_EQ(*mine, *theirs); // bit for bit
  ASSERT_EQ(run("./tiny --isolate-arenas " + inputs + "--steps 5 --lr 0.5 --dump d.safetensors"), 0)
      << text;
  EXPECT_EQ(*mine, *support::readFile(folder / "d.safetensors"));
}

TEST_F(Packed, HelpVersionAndErrors) {
  EXPECT_EQ(run("./tiny --help"), 0);
  EXPECT_NE(text.find("usage: tiny"), std::string::npos);
  EXPECT_EQ(text.find("isolate"), std::string::npos);
  EXPECT_EQ(run("./tiny --version"), 0);
  EXPECT_EQ(run("./tiny --nothing"), 2);
  EXPECT_EQ(text.rfind("tiny: error: unknown option", 0), 0u) << text;
  EXPECT_EQ(run("./tiny"), 1);
  EXPECT_EQ(text, "tiny: error: no data for the input 'input_ids'; give --data FILE or --input "
                  "input_ids=FILE.npy\n");
  EXPECT_EQ(run("WORLD_SIZE=2 ./tiny"), 1);
  EXPECT_EQ(run(std::string(LLMC_TEST_RUNTIME) + " --steps 1"), 1);
  EXPECT_NE(text.find("carries no program"), std::string::npos) << text;
}

TEST_F(Packed, AFlippedBitIsRefused) {
  auto bytes = support::readFile(folder / "tiny");
  size_t runtimeSize = support::readFile(LLMC_TEST_RUNTIME)->size();
  size_t payload = bytes->size() - runtimeSize;
  ASSERT_GT(payload, 1000u);
  // The first is in the runtime itself, behind all that runs.
  for (size_t at : {size_t(0) - 1, size_t(0), payload / 3, payload / 2, payload - 60, payload - 1}) {
    std::string changed = *bytes;
    changed[runtimeSize + at] = static_cast<char>(changed[runtimeSize + at] ^ 0x10);
    writeBytes(folder / "bad", changed);
    EXPECT_EQ(run("chmod +x bad; ./bad " + inputs), 1);
    EXPECT_EQ(text.rfind("bad: error: ", 0), 0u) << text;
    EXPECT_NE(text.find("is damaged"), std::string::npos) << text;
  }
}

TEST_F(Packed, CtrlCStopsAndSaves) {
  pid_t child = ::fork();
  if (child == 0) {
    if (::chdir(folder.path.c_str()) != 0)
      ::_exit(99);
    ::close(1);
    if (::open("out", O_WRONLY | O_CREAT, 0666) != 1)
      ::_exit(99);
    ::execl("./tiny", "tiny", "--input", "input_ids=ids.npy", "--input", "labels=labels.npy",
            "--steps", "100000000", "--save", "saved", "--metrics", "m.jsonl", nullptr);
    ::_exit(98);
  }
  // Wait for its first step, then interrupt it.
  bool started = false;
  for (int i = 0; i < 2000 && !started; ++i) {
    auto metrics = support::readFile(folder / "m.jsonl");
    started = metrics && metrics->find('\n') != std::string::npos;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_TRUE(started);
  ::kill(child, SIGINT);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 128 + SIGINT);
  EXPECT_NE(support::readFile(folder / "out")->find("stopped after step"), std::string::npos);
  EXPECT_TRUE(bool(support::SafetensorsFile::open(folder / "saved/model.safetensors")));
}

} // namespace
