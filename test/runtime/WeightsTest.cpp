#include "runtime/states/Weights.h"
#include "PlanBuilder.h"
#include "lib/support/ElementType.h"
#include "lib/support/Hash.h"
#include "runtime/states/Gather.h"
#include "runtime/states/Random.h"

#include <csignal>
#include <cstring>
#include <map>
#include <set>
#include <stdexcept>
#include <sys/wait.h>
#include <unistd.h>

using namespace llmc;
using namespace llmc::test;
using runtime::Executor;
using runtime::Weights;
using support::ElementType;
using support::TensorToWrite;

namespace {

void addSource(ProgramT &program, const std::string &name, std::vector<int64_t> shape,
               InitKind init) {
  auto source = std::make_unique<SourceTensorT>();
  source->name = name;
  source->shape = std::move(shape);
  source->init = init;
  source->init_std = 0.5;
  program.sources.push_back(std::move(source));
}

struct StateSpec {
  const char *name;
  std::vector<int64_t> global;
  std::vector<std::vector<uint32_t>> cuts; // axes of each dim
  uint32_t source;
  int64_t offset;
  std::vector<int64_t> strides;
  bool owner = true;
};

void addState(ProgramT &program, uint32_t stage, const StateSpec &spec, uint64_t offset,
              StateRole role = StateRole::Parameter) {
  auto state = std::make_unique<StateShardT>();
  state->name = spec.name;
  state->role = role;
  state->global_shape = spec.global;
  uint64_t elements = 1;
  for (size_t d = 0; d < spec.global.size(); ++d) {
    int64_t parts = 1;
    for (uint32_t axis : spec.cuts[d])
      parts *= program.mesh->axes[axis]->size;
    state->local_shape.push_back((spec.global[d] + parts - 1) / parts);
    elements *= uint64_t(state->local_shape[d]);
    state->dims.push_back(std::make_unique<DimShardingT>());
    state->dims[d]->axes = spec.cuts[d];
  }
  state->view = std::make_unique<ViewT>();
  state->view->source = spec.source;
  state->view->offset = spec.offset;
  state->view->strides = spec.strides;
  state->buffer = ref(offset, elements * 4);
  state->owner = spec.owner;
  program.stages[stage]->states.push_back(std::move(state));
}

// An embedding [7, 4] that two stages hold (once transposed), a fused matrix
// [2, 12] of three states, a vector; cut over tp, the embedding padded to 8.
std::unique_ptr<ProgramT> model(const std::vector<uint32_t> &mesh) {
  auto program = makeProgram(mesh, 1, 4096);
  uint32_t last = mesh[1] - 1;
  addSource(*program, "embedding", {7, 4}, InitKind::Normal);
  addSource(*program, "qkv", {2, 12}, InitKind::Normal);
  addSource(*program, "scale", {4}, InitKind::Ones);
  program->sources[0]->aliases = {"head"};
  program->sources[0]->transposed_aliases = {"head.T"};
  addState(*program, 0, {"e", {7, 4}, {{2}, {}}, 0, 0, {4, 1}}, 0);
  addState(*program, last, {"e.T", {4, 7}, {{}, {2}}, 0, 0, {1, 4}, false}, 256);
  addState(*program, last, {"q", {2, 4}, {{}, {2}}, 1, 0, {12, 1}}, 512);
  addState(*program, last, {"k", {2, 4}, {{}, {2}}, 1, 4, {12, 1}}, 640);
  addState(*program, last, {"v", {4, 2}, {{2}, {}}, 1, 8, {1, 12}}, 768);
  addState(*program, last, {"s", {4}, {{}}, 2, 0, {1}}, 1024);
  return program;
}

std::vector<float> logical(const Executor &executor, size_t source,
                           StateRole role = StateRole::Parameter) {
  auto tensor = runtime::gather(executor, runtime::SourceStates(executor.program()), source, role);
  EXPECT_TRUE(bool(tensor)) << tensor.message();
  if (!tensor)
    return {};
  std::vector<float> values(tensor->bytes.size() / 4);
  std::memcpy(values.data(), tensor->bytes.data(), tensor->bytes.size());
  return values;
}

TEST(Weights, DrawnAlikeOnEveryMesh) {
  std::vector<std::vector<float>> first;
  for (std::vector<uint32_t> mesh : {std::vector<uint32_t>{1, 1, 1}, {2, 2, 2}, {1, 1, 2},
                                     {3, 2, 1}, {1, 2, 4}}) {
    auto program = model(mesh);
    auto executor = makeExecutor(*program, kNone);
    auto weights = Weights::open(*program, {"", 42, ""});
    ASSERT_TRUE(bool(weights)) << weights.message();
    ASSERT_TRUE(bool(weights->fill(*executor)));
    std::vector<std::vector<float>> all = {logical(*executor, 0), logical(*executor, 1),
                                           logical(*executor, 2)};
    if (first.empty())
      first = all;
    EXPECT_EQ(all, first);
  }
  EXPECT_EQ(first[2], std::vector<float>(4, 1.0f));
  EXPECT_EQ(first[0][5], float(0.5 * runtime::normal(42, support::hash64("embedding"), 5)));
  EXPECT_NE(first[0][0], first[1][0]);
}

// A parameter in a low type is its master rounded, drawn or read, on every mesh.
TEST(Weights, NarrowNumbersAreRoundedToEven) {
  for (DType type : {DType::BF16, DType::F16}) {
    auto program = model({1, 1, 2});
    auto &states = program->stages[0]->states;
    for (size_t i = 0, count = states.size(); i < count; ++i) {
      auto master = std::make_unique<StateShardT>(*states[i]);
      master->role = StateRole::Master;
      master->buffer->offset += 2048;
      states[i]->dtype = type;
      states.push_back(std::move(master));
    }
    auto executor = makeExecutor(*program, kNone);
    auto weights = Weights::open(*program, {"", 42, ""});
    ASSERT_TRUE(bool(weights)) << weights.message();
    ASSERT_TRUE(bool(weights->fill(*executor)));
    std::vector<float> low = logical(*executor, 0), full = logical(*executor, 0, StateRole::Master);
    ASSERT_EQ(low.size(), full.size());
    bool differs = false;
    for (size_t i = 0; i < low.size(); ++i) {
      float rounded = type == DType::BF16
                          ? support::bfloatToFloat(support::floatToBfloat(full[i]))
                          : support::halfToFloat(support::floatToHalf(full[i]));
      EXPECT_EQ(low[i], rounded);
      differs |= low[i] != full[i];
    }
    EXPECT_TRUE(differs);
  }
  // Ties go to the even neighbour, denormals stay, what is too large becomes infinite.
  EXPECT_EQ(support::floatToBfloat(0x1.01p0f), 0x3f80);
  EXPECT_EQ(support::floatToBfloat(0x1.03p0f), 0x3f82);
  EXPECT_EQ(support::floatToBfloat(0x1p-133f), 0x0001);
  EXPECT_EQ(support::floatToBfloat(3.4e38f), 0x7f80);
  EXPECT_EQ(support::floatToHalf(0x1.002p0f), 0x3c00);
  EXPECT_EQ(support::floatToHalf(0x1.006p0f), 0x3c02);
  EXPECT_EQ(support::floatToHalf(0x1p-24f), 0x0001);
  EXPECT_EQ(support::floatToHalf(65520.0f), 0x7c00);
}

// The second copy has the same numbers; padding holds zeros; replicas agree.
TEST(Weights, CopiesPaddingAndReplicas) {
  auto program = model({2, 2, 2});
  auto executor = makeExecutor(*program, kNone);
  auto weights = Weights::open(*program, {"random", 1, ""});
  ASSERT_TRUE(bool(weights));
  ASSERT_TRUE(bool(weights->fill(*executor)));
  std::vector<float> e = logical(*executor, 0);
  for (uint32_t rank = 0; rank < 8; ++rank) {
    auto c = coordinateOf(*program->mesh, rank);
    for (int64_t row = 0; row < 4; ++row)
      for (int64_t column = 0; column < 4; ++column) {
        int64_t word = int64_t(c[2]) * 4 + row;
        float expected = word < 7 ? e[word * 4 + column] : 0.0f;
        if (c[1] == 0) {
          EXPECT_EQ(at<float>(*executor, rank, 0)[row * 4 + column], expected);
        } else {
          EXPECT_EQ(at<float>(*executor, rank, 256)[column * 4 + row], expected);
        }
      }
  }
}

TensorToWrite floats(const std::string &name, std::vector<int64_t> shape,
                     const std::vector<float> &values) {
  return {name, ElementType::F32, std::move(shape), [values](const TensorToWrite::Sink &sink) {
            return sink(values.data(), values.size() * 4);
          }};
}

std::vector<float> counting(size_t count, float from) {
  std::vector<float> values;
  for (size_t i = 0; i < count; ++i)
    values.push_back(from + float(i));
  return values;
}

TEST(Weights, FromFilesByNameAliasAndTransposedAlias) {
  TemporaryFolder folder;
  std::vector<float> e = counting(28, 100), turned(28);
  for (int r = 0; r < 7; ++r)
    for (int c = 0; c < 4; ++c)
      turned[c * 7 + r] = e[r * 4 + c];
  for (auto [name, shape, values] :
       {std::tuple("embedding", std::vector<int64_t>{7, 4}, e),
        std::tuple("head", std::vector<int64_t>{7, 4}, e),
        std::tuple("head.T", std::vector<int64_t>{4, 7}, turned)}) {
    ASSERT_TRUE(bool(support::writeSafetensors(
        folder / "w.safetensors", {floats(name, shape, values), floats("qkv", {2, 12}, counting(24, 0)),
                                   floats("scale", {4}, counting(4, 50)), floats("unused", {1}, {1})})));
    auto program = model({1, 2, 2});
    auto executor = makeExecutor(*program, kNone);
    auto weights = Weights::open(*program, {folder / "w.safetensors", 0, ""});
    ASSERT_TRUE(bool(weights)) << weights.message();
    ASSERT_TRUE(bool(weights->fill(*executor)));
    EXPECT_EQ(logical(*executor, 0), e) << name;
    EXPECT_EQ(logical(*executor, 1), counting(24, 0));
    EXPECT_EQ(logical(*executor, 2), counting(4, 50));
  }
}

// The index says that one file has a tensor that another has.
TEST(Weights, AWrongIndex) {
  TemporaryFolder folder;
  auto program = model({1, 1, 1});
  ASSERT_TRUE(bool(support::writeSafetensors(
      folder / "a.safetensors", {floats("embedding", {7, 4}, counting(28, 0)),
                                 floats("qkv", {2, 12}, counting(24, 0))})));
  ASSERT_TRUE(bool(support::writeSafetensors(folder / "b.safetensors",
                                             {floats("scale", {4}, counting(4, 0))})));
  writeBytes(folder / "model.safetensors.index.json",
             R"({"weight_map": {"embedding": "b.safetensors", "qkv": "a.safetensors",)"
             R"( "scale": "b.safetensors"}})");
  auto checkpoint = support::Checkpoint::open(folder.path);
  ASSERT_TRUE(bool(checkpoint)) << checkpoint.message();
  EXPECT_EQ(checkpoint->set().names(), (std::vector<std::string>{"qkv", "scale"}));
  auto weights = Weights::open(*program, {folder.path, 0, ""});
  ASSERT_FALSE(bool(weights));
  EXPECT_NE(weights.message().find("1 of 3 tensors are missing: 'embedding'"), std::string::npos)
      << weights.message();
}

TEST(Weights, WrongFiles) {
  TemporaryFolder folder;
  auto program = model({1, 1, 1});
  auto why = [&](std::vector<TensorToWrite> tensors) {
    EXPECT_TRUE(bool(support::writeSafetensors(folder / "w.safetensors", tensors)));
    auto weights = Weights::open(*program, {folder / "w.safetensors", 0, ""});
    return weights ? std::string() : weights.message();
  };
  std::string message = why({floats("embedding", {4, 7}, counting(28, 0)),
                             floats("qkv", {2, 12}, counting(24, 0)), floats("scale", {4}, counting(4, 0))});
  EXPECT_NE(message.find("'embedding' has the shape [4, 7], the model needs [7, 4]"),
            std::string::npos)
      << message;
  message = why({floats("head", {7, 4}, counting(28, 0)), floats("scale", {4}, counting(4, 0))});
  EXPECT_NE(message.find("1 of 3 tensors are missing: 'qkv'"), std::string::npos) << message;
  // All at once.
  message = why({floats("embedding", {4, 7}, counting(28, 0)), floats("qkv", {1}, {0})});
  for (const char *part : {"2 of 3 tensors do not fit", "'embedding' has the shape [4, 7]",
                           "'qkv' has the shape [1]", "1 of 3 tensors are missing: 'scale'"})
    EXPECT_NE(message.find(part), std::string::npos) << message;
  EXPECT_FALSE(bool(Weights::open(*program, {folder / "none", 0, ""})));
  // Says what helps where experts are stored the other way.
  program->sources[2]->name = "mlp.experts.0.w1.weight";
  message = why({floats("embedding", {7, 4}, counting(28, 0)), floats("qkv", {2, 12}, counting(24, 0)),
                 floats("mlp.experts.gate_up_proj", {1, 4}, counting(4, 0))});
  for (const char *part : {"the file has experts in one tensor ('mlp.experts.gate_up_proj')",
                           "compile it with --weights of this file"})
    EXPECT_NE(message.find(part), std::string::npos) << message;
}

// The model's own file: beside the program, unchanged since it was compiled.
TEST(Weights, ModelsOwnFile) {
  TemporaryFolder folder;
  auto program = model({1, 1, 2});
  std::vector<float> all = counting(28 + 24 + 4, 7);
  std::string bytes(reinterpret_cast<const char *>(all.data()), all.size() * 4);
  auto file = std::make_unique<SourceFileT>();
  file->path = "/no/such/folder/w.bin";
  file->byte_size = bytes.size();
  file->hash = support::hash64(bytes);
  program->files.push_back(std::move(file));
  uint64_t offset = 0;
  for (auto &source : program->sources) {
    source->file = 0;
    source->file_offset = offset;
    source->byte_size = *support::elementCount(source->shape) * 4;
    offset += source->byte_size;
  }
  auto open = [&] { return Weights::open(*program, {"", 0, folder.path}); };
  EXPECT_NE(open().message().find("neither there nor beside"), std::string::npos);
  writeBytes(folder / "w.bin", bytes);
  auto executor = makeExecutor(*program, kNone);
  auto weights = open();
  ASSERT_TRUE(bool(weights)) << weights.message();
  ASSERT_TRUE(bool(weights->fill(*executor)));
  EXPECT_EQ(logical(*executor, 1), counting(24, 35));
  EXPECT_TRUE(bool(weights->check()->finish()));
  std::string changed = bytes;
  changed[9] = static_cast<char>(changed[9] ^ 4);
  writeBytes(folder / "w.bin", changed);
  auto other = open();
  ASSERT_TRUE(bool(other));
  EXPECT_NE(other->check()->finish().message().find("w.bin' has changed"), std::string::npos);
  writeBytes(folder / "w.bin", bytes.substr(4));
  EXPECT_NE(open().message().find("bytes, it had"), std::string::npos);
  EXPECT_TRUE(bool(Weights::open(*program, {"random", 0, folder.path})));
}

// One byte of a file too large for one chunk, found at once or in the background.
TEST(Weights, EveryByteIsCompared) {
  TemporaryFolder folder;
  std::string bytes(2 * support::kHashChunk + 5, 'w'), small = "small";
  writeBytes(folder / "large", bytes);
  writeBytes(folder / "small", small);
  uint64_t hash = *support::fileHash(*support::ReadableFile::open(folder / "large"));
  auto other = support::ReadableFile::open(folder / "small");
  for (size_t at : {size_t(0), bytes.size() / 2 + 1, bytes.size() - 1, bytes.size()}) {
    if (at < bytes.size())
      bytes[at] = 'x';
    writeBytes(folder / "large", bytes);
    auto large = support::ReadableFile::open(folder / "large");
    for (int patience : {60000, 0}) {
      runtime::WeightsCheck check({{&*other, support::hash64(small)}, {&*large, hash}});
      support::Status first = check.begin({}, std::chrono::milliseconds(patience));
      support::Status last = check.finish();
      EXPECT_EQ(bool(last), at == bytes.size());
      EXPECT_TRUE(patience == 0 || bool(first) == bool(last));
      EXPECT_EQ(check.bytesLeft(), 0u);
      if (!last) {
        EXPECT_NE(last.message().find("large' has changed"), std::string::npos) << last.message();
      }
    }
    if (at < bytes.size())
      bytes[at] = 'w';
  }
  auto shrunk = support::ReadableFile::open(folder / "large");
  writeBytes(folder / "large", "no longer");
  runtime::WeightsCheck check({{&*shrunk, hash}});
  EXPECT_NE(check.finish().message().find("it ends at byte"), std::string::npos);
}

TEST(Gather, EveryElementOnce) {
  auto program = model({1, 2, 2});
  // The fused matrix loses a third.
  program->stages[1]->states.erase(program->stages[1]->states.begin() + 2);
  auto executor = makeExecutor(*program, kNone);
  auto tensor = runtime::gather(*executor, runtime::SourceStates(*program), 1, StateRole::Parameter);
  ASSERT_FALSE(bool(tensor));
  EXPECT_NE(tensor.message().find("16 elements of its parameter, not 24"), std::string::npos)
      << tensor.message();
}

// Accumulators without a view are laid out as their parameter.
TEST(Gather, AccumulatorsFollowTheirParameter) {
  auto program = model({2, 1, 2});
  addState(*program, 0, {"s", {4}, {{}}, 2, 0, {1}}, 2048, StateRole::Accumulator);
  program->stages[0]->states.back()->view.reset();
  auto executor = makeExecutor(*program, kNone);
  for (int i = 0; i < 4; ++i)
    at<float>(*executor, 0, 2048)[i] = float(i);
  EXPECT_EQ(logical(*executor, 2, StateRole::Accumulator), counting(4, 0));
  EXPECT_TRUE(runtime::hasState(runtime::SourceStates(*program), 2, StateRole::Accumulator));
  EXPECT_FALSE(runtime::hasState(runtime::SourceStates(*program), 0, StateRole::Accumulator));
}

TEST(Gather, NamesOfATiedTensor) {
  TemporaryFolder folder;
  auto program = model({1, 1, 1});
  auto executor = makeExecutor(*program, kNone);
  auto weights = Weights::open(*program, {"", 3, ""});
  ASSERT_TRUE(bool(weights));
  ASSERT_TRUE(bool(weights->fill(*executor)));
  std::vector<TensorToWrite> tensors;
  runtime::SourceStates states(*program);
  runtime::addUnderAllNames(tensors, *program->sources[0], ElementType::F32, "param:",
                            [&] { return runtime::gather(*executor, states, 0, StateRole::Parameter); });
  ASSERT_TRUE(bool(support::writeSafetensors(folder / "x", tensors)));
  auto file = support::SafetensorsFile::open(folder / "x");
  ASSERT_TRUE(bool(file));
  ASSERT_EQ(file->tensors().size(), 3u);
  const auto &plain = file->tensors().find("param:head")->second;
  const auto &turned = file->tensors().find("param:head.T")->second;
  EXPECT_EQ(turned.shape, (std::vector<int64_t>{4, 7}));
  for (int r = 0; r < 7; ++r)
    for (int c = 0; c < 4; ++c)
      EXPECT_EQ(support::readAsDouble(ElementType::F32, plain.data, r * 4 + c),
                support::readAsDouble(ElementType::F32, turned.data, c * 7 + r));
}

//===-- States that ranks share -------------------------------------------===//

CopyT copyOf(uint64_t from, uint64_t to, uint64_t size) {
  CopyT made;
  made.src = ref(from, size);
  made.dst = ref(to, size);
  return made;
}

const StateShardT &stateNamed(const ProgramT &program, const std::string &name, uint32_t stage) {
  for (const auto &state : program.stages[stage]->states)
    if (state->name == name)
      return *state;
  throw std::out_of_range(name);
}

std::unique_ptr<Executor> filled(const ProgramT &program, bool share) {
  runtime::ExecutorOptions options;
  options.share = share;
  auto executor = makeExecutor(program, kNone, options);
  auto weights = Weights::open(program, {"", 42, ""});
  EXPECT_TRUE(weights && weights->fill(*executor));
  return executor;
}

// Two stages hold "p" at different places; "q" is cut over tp, "s" is in stage 1 alone.
std::unique_ptr<ProgramT> sharedModel(const std::vector<uint32_t> &mesh) {
  auto program = model(mesh);
  addSource(*program, "both", {7, 4}, InitKind::Normal);
  addState(*program, 0, {"p", {7, 4}, {{}, {}}, 3, 0, {4, 1}}, 1280);
  addState(*program, 1, {"p", {7, 4}, {{}, {}}, 3, 0, {4, 1}, false}, 1536);
  add(*program, 0, copyOf(1280 + 16, 2048, 64));
  add(*program, 1, copyOf(1536 + 16, 2048, 64));
  add(*program, 1, copyOf(512 + 8, 2048 + 64, 8)); // of q
  return program;
}

TEST(Weights, EqualStatesLieInMemoryOnce) {
  auto program = sharedModel({2, 2, 2});
  auto alone = filled(*program, false), shared = filled(*program, true);
  EXPECT_FALSE(alone->shared());
  for (size_t source = 0; source < program->sources.size(); ++source)
    EXPECT_EQ(logical(*shared, source), logical(*alone, source));
  std::map<std::string, std::set<const std::byte *>> places;
  uint64_t apart = 0;
  for (uint32_t rank = 0; rank < 8; ++rank)
    for (const auto &state : program->stages[shared->stageOfRank(rank)]->states) {
      places[state->name].insert(shared->stateOf(rank, *state));
      apart += state->buffer->size;
      EXPECT_EQ(std::memcmp(shared->stateOf(rank, *state), alone->stateOf(rank, *state),
                            state->buffer->size),
                0);
      EXPECT_NE(shared->stateOf(rank, *state), shared->arena(rank) + state->buffer->offset);
    }
  EXPECT_EQ(places["p"].size(), 1u); // eight holders on two stages
  EXPECT_EQ(places["s"].size(), 1u);
  EXPECT_EQ(places["q"].size(), 2u); // one a coordinate of tp
  EXPECT_EQ(places["e"].size(), 2u);
  EXPECT_EQ(shared->shared()->bytesInArenas(), apart);
  EXPECT_EQ(shared->shared()->tensors(), 1u + 1u + 5u * 2u);

  for (const auto *executor : {alone.get(), shared.get()})
    ASSERT_TRUE(bool(const_cast<Executor *>(executor)->runStep({})));
  for (uint32_t rank = 0; rank < 8; ++rank) {
    EXPECT_EQ(std::memcmp(shared->arena(rank) + 2048, alone->arena(rank) + 2048, 128), 0);
    EXPECT_NE(*at<float>(*shared, rank, 2048), 0.0f);
  }
}

TEST(Weights, WrittenStatesStayWithTheirRanks) {
  struct {
    const char *what;
    CopyT copy;
  } accesses[] = {{"a write of its last byte", copyOf(2048, 1024 + 15, 1)},
                  {"a read across its end", copyOf(1024 + 8, 2048, 16)},
                  {"a read across its begin", copyOf(1024 - 8, 2048, 16)}};
  for (auto &[what, copy] : accesses) {
    auto program = sharedModel({2, 2, 2});
    add(*program, 1, std::move(copy));
    auto executor = filled(*program, true);
    for (uint32_t rank = 0; rank < 8; ++rank)
      if (executor->stageOfRank(rank) == 1)
        EXPECT_EQ(executor->stateOf(rank, stateNamed(*program, "s", 1)),
                  executor->arena(rank) + 1024)
            << what;
    EXPECT_EQ(executor->shared()->tensors(), 11u) << what;
  }
  auto program = sharedModel({2, 2, 2});
  auto output = std::make_unique<StepOutputT>();
  output->name = "loss";
  output->buffer = ref(1024, 4); // the host reads it in the arena
  program->stages[1]->outputs.push_back(std::move(output));
  EXPECT_EQ(filled(*program, true)->shared()->tensors(), 11u);
}

TEST(Weights, NothingIsSharedByOneHolder) {
  auto executor = filled(*model({1, 1, 2}), true);
  EXPECT_EQ(executor->shared()->tensors(), 1u); // the vector alone is whole on both ranks
  auto program = model({1, 1, 1});
  EXPECT_EQ(filled(*program, true)->shared()->tensors(), 0u);
}

TEST(Weights, SharedStatesCannotBeWritten) {
  auto program = sharedModel({2, 2, 2});
  auto executor = filled(*program, true);
  std::byte *at = executor->stateOf(0, stateNamed(*program, "p", 0));
  pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGSEGV, SIG_DFL);
    *static_cast<volatile std::byte *>(at) = std::byte(1);
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

} // namespace
