#include "TrainedModel.h"
#include "lib/planfile/Check.h"

#include <cmath>

extern "C" {
void t_micro(void *const *, const int64_t *, int64_t, int64_t);
void t_finish(void *const *, const int64_t *, int64_t, int64_t);
void t_sgd(void *const *, const int64_t *, int64_t, int64_t);
}

namespace llmc::test {
namespace {

const runtime::Kernels kKernels({t_micro, t_finish, t_sgd});

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

} // namespace

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

Trainer::Trainer() {
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

std::string Trainer::train(const ProgramT &program, const std::atomic<bool> *stop) {
  runtime::RunContext context;
  context.out = &out;
  context.stop = stop;
  context.patience = patience;
  auto status = runtime::train(program, kKernels, options, context);
  return status ? "" : status.message();
}

} // namespace llmc::test
