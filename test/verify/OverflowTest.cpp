// A gradient of one rank becomes infinite in a real plan: a launch that no compiler writes spoils an
// accumulator. Where steps are skipped no rank changes a bit and the next step runs; else the run
// stops before the update and names what is not finite.
#include "lib/planfile/SharedStates.h"
#include "lib/verify/subject/RunPlan.h"
#include "lib/verify/subject/Subject.h"
#include "runtime/cpu/Executor.h"
#include "runtime/train/Trainer.h"
#include "test/support/Context.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

using namespace llmc;
using namespace llmc::planfile;
using namespace llmc::verify;

namespace {

// Tells which rank spoils its gradient in which step, counted from 1; 0: none.
struct Spoil {
  static inline uint32_t rank = 0;
  static inline unsigned step = 0, seen = 0;
};

void spoil(void *const *buffers, const int64_t *scalars, int64_t, int64_t) {
  if (scalars[0] == Spoil::rank && ++Spoil::seen == Spoil::step)
    *static_cast<float *>(buffers[0]) = INFINITY;
}

// Returns the rank as an affine function of its coordinate.
std::unique_ptr<CoordExprT> rankOf(const MeshT &mesh) {
  auto expr = std::make_unique<CoordExprT>();
  expr->coefs.assign(mesh.axes.size(), 1);
  for (size_t i = mesh.axes.size(); i-- > 1;)
    expr->coefs[i - 1] = expr->coefs[i] * mesh.axes[i]->size;
  return expr;
}

std::unique_ptr<InstructionT> makeLaunch(const ProgramT &program, const InstructionT &like,
                                         const BufferRefT &gradient) {
  LaunchT launch;
  launch.kernel = uint32_t(program.kernels.size() - 1);
  launch.rows = 1;
  launch.scalars.push_back(rankOf(*program.mesh));
  auto operand = std::make_unique<OperandT>();
  operand->access = Access::ReadWrite;
  operand->buffer = std::make_unique<BufferRefT>(gradient);
  launch.operands.push_back(std::move(operand));
  auto made = std::make_unique<InstructionT>();
  made->stream = like.stream;
  made->phase = like.phase;
  made->origin = like.origin;
  made->body.Set(std::move(launch));
  return made;
}

// Spoils a gradient of a stage where it has just been zeroed, so that all that is added stays infinite.
void addLaunch(ProgramT &program, StageT &stage, const StateShardT &gradient) {
  for (auto &procedure : stage.procedures) {
    auto &list = procedure->instructions;
    for (size_t i = list.size(); procedure->kind == ProcedureKind::Begin && i-- > 0;)
      if (list[i]->body.AsFill()) {
        list.insert(list.begin() + i + 1, makeLaunch(program, *list[i], *gradient.buffer));
        return;
      }
  }
  FAIL() << "nothing is zeroed at the start of a step";
}

// Returns whether micro-batches add to this state: at stage 1 of ZeRO whole sums of the step's own,
// which are no parameter's; else those of parameters.
bool isGradient(const StageT &stage, const StateShardT &state) {
  return state.role == StateRole::Accumulator && !state.local_shape.empty() &&
         (zeroStage(stage) == 1 ? !viewOf(stage, state) : viewOf(stage, state) != nullptr);
}

// Returns the row-major coordinate of a rank over some axes.
uint64_t indexOver(const MeshT &mesh, const std::vector<uint32_t> &axes, uint32_t rank) {
  uint64_t index = 0;
  for (uint32_t axis : axes)
    index = index * mesh.axes[axis]->size + coordinateOf(mesh, rank)[axis];
  return index;
}

// Returns the name of the tensor whose gradient a rank spoils with the first element of the buffer:
// of a flat one the tensor there; "" of a whole sum, which is no parameter's.
std::string spoiledName(const ProgramT &program, const StageT &stage, const StateShardT &chosen,
                        uint32_t rank) {
  const StateShardT *spoiled = viewOf(stage, chosen) ? &chosen : nullptr;
  if (chosen.flat) {
    const FlatGroupT &group = *stage.flat_groups[chosen.flat->group];
    uint64_t element = group.length * indexOver(*program.mesh, group.axes, rank);
    for (const auto &state : stage.states)
      if (state->flat && state->flat->group == chosen.flat->group && state->flat->begin <= element)
        if (!spoiled->flat || spoiled->flat->begin > element || state->flat->begin > spoiled->flat->begin)
          spoiled = state.get();
  }
  return spoiled ? program.sources[viewOf(stage, *spoiled)->source]->name : "";
}

// Compiles GPT-2 on 2 x 2 x 2 ranks.
struct Compiled {
  explicit Compiled(Precision precision, std::optional<bool> skip = std::nullopt, int zero = 0) {
    CompileOptions options;
    options.model = LLMC_TEST_DATA "/gpt2/config.json";
    options.dp = options.pp = options.tp = 2;
    options.sequence = 8;
    options.precision = precision;
    options.skipNonfinite = skip;
    options.zero = zero;
    auto all = compileSubject(context, options);
    auto one = compileSubject(context, oneRank(options));
    if (failed(all) || failed(one))
      throw std::runtime_error("gpt2 does not compile");
    subject = std::move(*all);
    auto drawn = drawTrial(*one, 1, 3);
    if (!drawn)
      throw std::runtime_error(drawn.message());
    trial = std::move(*drawn);
  }

  // Makes `program` and `kernels` those whose rank spoils its first or last gradient.
  void spoilGradient(uint32_t rank, bool last) {
    program = std::make_unique<ProgramT>(*subject.program);
    auto kernel = std::make_unique<KernelT>();
    kernel->name = "spoil";
    program->kernels.push_back(std::move(kernel));
    std::vector<runtime::KernelFunction> functions;
    for (uint32_t i = 0; i < subject.kernels->size(); ++i)
      functions.push_back((*subject.kernels)[i]);
    functions.push_back(spoil);
    kernels.emplace(std::move(functions));
    StageT &stage = *program->stages[stageOf(*program, rank)];
    const StateShardT *chosen = nullptr;
    for (const auto &state : stage.states)
      if (isGradient(stage, *state) && (last || !chosen))
        chosen = state.get();
    name = spoiledName(*program, stage, *chosen, rank);
    addLaunch(*program, stage, *chosen);
    ASSERT_TRUE(bool(checkBounds(*program)));
    Spoil::rank = rank;
    Spoil::seen = 0;
  }

  test::LoadedContext context;
  Subject subject;
  Trial trial;
  std::unique_ptr<ProgramT> program;
  std::optional<runtime::Kernels> kernels;
  std::string name; // of the tensor that is spoiled
};

// Holds the bytes of weights, masters and moments of all ranks.
using Bits = std::vector<std::vector<std::byte>>;
Bits bitsOf(const runtime::Executor &executor) {
  Bits bits;
  for (uint32_t rank = 0; rank < executor.ranks(); ++rank)
    for (const auto &state : executor.program().stages[executor.stageOfRank(rank)]->states)
      if (state->role != StateRole::Accumulator) {
        const std::byte *data = executor.stateOf(rank, *state);
        bits.emplace_back(data, data + state->buffer->size);
      }
  return bits;
}

double outputOf(const runtime::Executor &executor, uint32_t rank, const std::string &name) {
  for (const auto &output : executor.program().stages[executor.stageOfRank(rank)]->outputs)
    if (output->name == name)
      return *reinterpret_cast<const float *>(executor.arena(rank) + output->buffer->offset);
  return NAN;
}

// Runs a step and returns what every rank says of it.
std::vector<double> runStep(runtime::Executor &executor, const StepData &data) {
  auto scalars = data.scalars;
  scalars["loss_scale"] = 1024;
  writeScalars(executor, scalars);
  auto packed = packInputs(executor.program(), data);
  EXPECT_TRUE(bool(packed));
  std::vector<const std::byte *> inputs;
  for (const auto &buffer : *packed)
    inputs.push_back(buffer.data());
  EXPECT_TRUE(bool(executor.runStep(inputs)));
  std::vector<double> skipped;
  for (uint32_t rank = 0; rank < executor.ranks(); ++rank)
    skipped.push_back(outputOf(executor, rank, "skipped"));
  return skipped;
}

class SkippedStep : public testing::TestWithParam<std::tuple<Precision, int>> {};

TEST_P(SkippedStep, ChangesNoBitOnAnyRank) {
  auto [precision, zero] = GetParam();
  Compiled compiled(precision, true, zero);
  const std::vector<double> no(8, 0), yes(8, 1);
  for (uint32_t rank = 0; rank < 8; ++rank)
    for (bool last : {false, true}) {
      SCOPED_TRACE("rank " + std::to_string(rank));
      compiled.spoilGradient(rank, last);
      Spoil::step = 2;
      auto executor = runtime::Executor::create(*compiled.program, *compiled.kernels, {});
      ASSERT_TRUE(bool(executor));
      fillWeights(**executor, compiled.trial.weights);
      Bits start = bitsOf(**executor);
      EXPECT_EQ(runStep(**executor, compiled.trial.steps[0]), no);
      Bits before = bitsOf(**executor);
      EXPECT_NE(start, before);
      EXPECT_EQ(runStep(**executor, compiled.trial.steps[1]), yes);
      EXPECT_EQ(bitsOf(**executor), before);
      EXPECT_EQ(runStep(**executor, compiled.trial.steps[2]), no);
      EXPECT_NE(bitsOf(**executor), before);
    }
}

INSTANTIATE_TEST_SUITE_P(Precisions, SkippedStep,
                         testing::Values(std::tuple(Precision::Fp16, 0), std::tuple(Precision::Bf16, 0),
                                         std::tuple(Precision::Bf16, 1), std::tuple(Precision::Fp16, 2),
                                         std::tuple(Precision::Fp16, 3)));

//===-- The program's own loop --------------------------------------------------===//

class TrainingThatOverflows : public testing::Test {
protected:
  TrainingThatOverflows() {
    std::filesystem::create_directories(folder);
    std::ofstream file(folder / "tokens.bin", std::ios::binary);
    for (uint32_t i = 0; i < 8 * 64; ++i) {
      uint16_t token = uint16_t(i * 7919 % 257);
      file.write(reinterpret_cast<const char *>(&token), sizeof token);
    }
  }
  ~TrainingThatOverflows() override { std::filesystem::remove_all(folder); }

  // Trains `steps` steps, the second of which is spoiled, or none; returns the error.
  std::string train(Compiled &compiled, unsigned steps, bool spoiled = true) {
    std::filesystem::remove(folder / "metrics");
    runtime::Options options;
    options.data = {{folder / "tokens.bin"}};
    options.steps = steps;
    options.save = folder / "saved";
    options.metrics = folder / "metrics";
    options.force = true;
    runtime::RunContext context;
    context.out = &out;
    Spoil::seen = 0;
    Spoil::step = spoiled ? 2 : 0;
    auto ended = runtime::train(*compiled.program, *compiled.kernels, options, context);
    return ended ? "" : ended.message();
  }
  std::string saved() const { return contentOf(folder / "saved" / "model.safetensors"); }
  std::vector<nlohmann::json> metrics() const {
    std::vector<nlohmann::json> lines;
    std::istringstream text(contentOf(folder / "metrics"));
    for (std::string line; std::getline(text, line);)
      if (lines.push_back(nlohmann::json::parse(line)); lines.back()["step"] == 0)
        lines.pop_back();
    return lines;
  }
  static std::string contentOf(const std::filesystem::path &path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("llmc-overflow-" + std::to_string(::getpid()));
  std::ostringstream out;
};

TEST_F(TrainingThatOverflows, HalvesTheScaleAndGoesOn) {
  Compiled compiled(Precision::Fp16);
  compiled.spoilGradient(6, false);
  ASSERT_EQ(train(compiled, 1), "");
  std::string one = saved();
  ASSERT_EQ(train(compiled, 2), "");
  EXPECT_FALSE(one.empty());
  EXPECT_EQ(saved(), one);
  EXPECT_NE(out.str().find("skipped    step 2"), std::string::npos);
  ASSERT_EQ(train(compiled, 3), "");
  EXPECT_NE(saved(), one);
  std::vector<nlohmann::json> lines = metrics();
  ASSERT_EQ(lines.size(), 3u);
  const int skipped[] = {0, 1, 0}, scale[] = {65536, 65536, 32768};
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(lines[i]["skipped"], skipped[i]) << i;
    EXPECT_EQ(lines[i]["loss_scale"], scale[i]) << i;
  }
}

TEST_F(TrainingThatOverflows, SkipsInBf16Too) {
  Compiled compiled(Precision::Bf16, true);
  compiled.spoilGradient(3, true);
  ASSERT_EQ(train(compiled, 1), "");
  std::string one = saved();
  ASSERT_EQ(train(compiled, 2), "");
  EXPECT_EQ(saved(), one);
  EXPECT_EQ(metrics().back()["skipped"], 1);
  EXPECT_FALSE(metrics().back().contains("loss_scale"));
}

TEST_F(TrainingThatOverflows, StopsBeforeTheUpdateAndSaysWhere) {
  for (auto [rank, last, zero] : {std::tuple(6u, false, 0), std::tuple(5u, true, 0), std::tuple(6u, false, 1),
                                  std::tuple(1u, true, 2), std::tuple(6u, true, 3)}) {
    SCOPED_TRACE("rank " + std::to_string(rank) + ", stage " + std::to_string(zero) + " of ZeRO");
    Compiled compiled(Precision::Bf16, std::nullopt, zero);
    compiled.spoilGradient(rank, last);
    ASSERT_EQ(train(compiled, 1, false), "");
    std::string one = saved();
    std::string why = train(compiled, 3);
    EXPECT_EQ(why.rfind("step 2: the gradient's norm is inf", 0), 0u) << why;
    // Replicas have added the gradient to their own by then; all of them are named.
    std::string first = "the gradient of '" + compiled.name + (zero == 1 ? "" : "' is inf on rank ");
    size_t at = why.find(first);
    ASSERT_NE(at, std::string::npos) << why;
    std::string ranks = why.substr(at + first.size(), why.find(';', at) - at - first.size());
    EXPECT_TRUE(zero == 1 || ranks.find(std::to_string(rank)) != std::string::npos) << why;
    EXPECT_NE(ranks.find("(dp "), std::string::npos) << why;
    EXPECT_NE(why.find("the weights of step 1 are in"), std::string::npos) << why;
    EXPECT_EQ(saved(), one);
  }
}

} // namespace
