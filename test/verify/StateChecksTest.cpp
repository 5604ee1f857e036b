// Faults of where weights come from and of how they are drawn: each is found, and nothing is
// said of what is right.
#include "lib/pipeline/Pipeline.h"
#include "lib/verify/subject/RunPlan.h"
#include "lib/verify/source/StateChecks.h"

#include "dialects/graph/Graph.h"
#include "test/support/Context.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <numeric>

using namespace llmc;
using namespace llmc::planfile;
using namespace llmc::verify;

namespace {

std::string joined(const Faults &faults) {
  return std::accumulate(faults.begin(), faults.end(), std::string(),
                         [](std::string all, const std::string &one) { return all + one + "\n"; });
}

struct Compiled {
  explicit Compiled(const std::string &model, int64_t tp = 2) {
    CompileOptions options;
    options.model = std::string(LLMC_SOURCE_DIR) + "/" + model;
    options.tp = tp;
    options.sequence = 8;
    if (model.ends_with(".json"))
      options.weights = "random";
    auto made = compileSubject(context, options);
    if (failed(made))
      throw std::runtime_error(model);
    subject = std::move(*made);
    for (const auto &entry : program().files)
      EXPECT_TRUE(addFile(entry->path, file)) << entry->path;
    config = program().model->config_json;
    auto ranks = initialWeights(program(), *subject.kernels, 1, "");
    if (!ranks)
      throw std::runtime_error(ranks.message());
    values = std::move(*ranks);
  }
  ProgramT &program() { return *subject.program; }
  mlir::ModuleOp imported() { return subject.at(llmc::Phase::Import); }

  test::LoadedContext context;
  Subject subject;
  FileModel file;
  std::string config;
  NamedTensors values;
};

Compiled &exported() {
  static Compiled compiled("test/data/models/gpt2/dynamo-18/model.onnx");
  return compiled;
}
Compiled &drawn() {
  static Compiled compiled("test/data/gpt2/config.json");
  return compiled;
}

// Pairs of sources of one shape and kind.
template <class Visit> void forEqualSources(ProgramT &program, Visit visit) {
  for (size_t a = 0; a < program.sources.size(); ++a)
    for (size_t b = a + 1; b < program.sources.size(); ++b)
      if (program.sources[a]->shape == program.sources[b]->shape)
        visit(*program.sources[a], *program.sources[b]);
}

TEST(States, RightOnesPass) {
  for (Compiled *compiled : {&exported(), &drawn()}) {
    EXPECT_EQ(joined(checkPlaces(compiled->program(), compiled->file)), "");
    EXPECT_EQ(joined(checkValues(compiled->program(), compiled->file, compiled->values)), "");
    EXPECT_EQ(joined(checkWiring(compiled->imported(), compiled->file, compiled->config)), "");
    EXPECT_EQ(joined(checkDrawn(compiled->program(), compiled->config, compiled->values)), "");
  }
  EXPECT_GT(exported().file.tensors.size(), 10u);
  EXPECT_GT(exported().file.nodes.size(), 10u);
}

// Whatever exporters write: of every model that we have the wiring is right.
TEST(States, AllModelsAreWiredRightly) {
  namespace fs = std::filesystem;
  test::LoadedContext context;
  context.getDiagEngine().registerHandler([](mlir::Diagnostic &) { return mlir::success(); });
  size_t files = 0, configs = 0;
  for (const auto &entry : fs::recursive_directory_iterator(LLMC_SOURCE_DIR "/test/data")) {
    bool onnx = entry.path().extension() == ".onnx";
    if (!onnx && entry.path().filename() != "config.json")
      continue;
    CompileOptions options;
    options.model = entry.path().string();
    mlir::OwningOpRef<mlir::ModuleOp> module = readModel(context, options);
    if (!module) {
      options.infer = true;
      module = readModel(context, options);
    }
    if (!module)
      continue;
    FileModel file;
    if (onnx)
      EXPECT_TRUE(addFile(options.model, file)) << options.model;
    std::ifstream text(options.model);
    std::string config((std::istreambuf_iterator<char>(text)), std::istreambuf_iterator<char>());
    EXPECT_EQ(joined(checkWiring(*module, file, onnx ? "" : config)), "") << options.model;
    ++(onnx ? files : configs);
  }
  EXPECT_GT(files, 10u);
  EXPECT_GT(configs, 10u);
}

TEST(States, WrongOffsetsAreFound) {
  ProgramT program(exported().program());
  for (auto &source : program.sources)
    for (int64_t shift : {4, -4, 64}) {
      source->file_offset += shift;
      EXPECT_FALSE(checkPlaces(program, exported().file).empty()) << source->name << " + " << shift;
      source->file_offset -= shift;
    }
}

TEST(States, WrongTypesAndShapesAreFound) {
  ProgramT program(exported().program());
  for (auto &source : program.sources) {
    source->dtype = DType::BF16;
    EXPECT_FALSE(checkPlaces(program, exported().file).empty()) << source->name;
    source->dtype = DType::F32;
    if (source->shape.size() != 2 || source->shape[0] == source->shape[1])
      continue;
    std::swap(source->shape[0], source->shape[1]);
    EXPECT_FALSE(checkPlaces(program, exported().file).empty()) << source->name;
    std::swap(source->shape[0], source->shape[1]);
  }
}

// Checks that swapped offsets are found unless the tensors have equal elements (biases of zeros).
TEST(States, SwappedPlacesAreFound) {
  ProgramT program(exported().program());
  size_t found = 0;
  forEqualSources(program, [&](SourceTensorT &a, SourceTensorT &b) {
    std::swap(a.file_offset, b.file_offset);
    bool same = exported().values.at(a.name).data == exported().values.at(b.name).data;
    bool seen = !checkPlaces(program, exported().file).empty();
    EXPECT_TRUE(seen || same) << a.name << " and " << b.name;
    found += seen;
    std::swap(a.file_offset, b.file_offset);
  });
  EXPECT_GT(found, 5u);
}

TEST(States, WrongBytesOnRanksAreFound) {
  NamedTensors values = exported().values;
  for (auto &[name, tensor] : values) {
    double was = std::exchange(tensor.data.back(), tensor.data.back() + 1e-6);
    EXPECT_FALSE(checkValues(exported().program(), exported().file, values).empty()) << name;
    tensor.data.back() = was;
  }
}

using graph::StateOp;
using graph::ViewAttr;

ViewAttr viewOf(StateOp state) { return mlir::cast<ViewAttr>((*state.getViews())[0]); }
void setView(StateOp state, ViewAttr view) {
  state.setViewsAttr(mlir::ArrayAttr::get(state.getContext(), {view}));
}

// Two states of one type that read each other's source.
void swapViews(Compiled &compiled) {
  auto module = mlir::OwningOpRef<mlir::ModuleOp>(compiled.imported().clone());
  std::vector<StateOp> states(module->getOps<StateOp>().begin(), module->getOps<StateOp>().end());
  size_t swaps = 0;
  for (size_t a = 0; a < states.size(); ++a)
    for (size_t b = a + 1; b < states.size(); ++b) {
      ViewAttr x = viewOf(states[a]), y = viewOf(states[b]);
      if (states[a].getType() != states[b].getType() || x.getSource() == y.getSource() ||
          x.getOffset() != y.getOffset() || x.getStrides() != y.getStrides())
        continue;
      setView(states[a], y);
      setView(states[b], x);
      ++swaps;
      EXPECT_FALSE(checkWiring(*module, compiled.file, compiled.config).empty())
          << x.getSource().getValue().str() << " and " << y.getSource().getValue().str();
      setView(states[a], x);
      setView(states[b], y);
    }
  EXPECT_GT(swaps, 5u);
}

TEST(States, SwappedWeightsOfAFileAreFound) { swapViews(exported()); }
TEST(States, SwappedWeightsOfAConfigAreFound) { swapViews(drawn()); }

// Queries, keys and values of one fused matrix.
TEST(States, SwappedPartsOfAMatrixAreFound) {
  auto module = mlir::OwningOpRef<mlir::ModuleOp>(drawn().imported().clone());
  std::vector<StateOp> states(module->getOps<StateOp>().begin(), module->getOps<StateOp>().end());
  size_t swaps = 0;
  for (size_t a = 0; a < states.size(); ++a)
    for (size_t b = a + 1; b < states.size(); ++b) {
      ViewAttr x = viewOf(states[a]), y = viewOf(states[b]);
      if (states[a].getType() != states[b].getType() || x.getSource() != y.getSource() ||
          x.getStrides().size() != 2)
        continue;
      setView(states[a], y);
      setView(states[b], x);
      ++swaps;
      EXPECT_FALSE(checkWiring(*module, drawn().file, drawn().config).empty())
          << x.getSource().getValue().str() << " " << x.getOffset() << " and " << y.getOffset();
      setView(states[a], x);
      setView(states[b], y);
    }
  EXPECT_GT(swaps, 5u);
}

// A square matrix the wrong way round.
TEST(States, TransposedMatricesAreFound) {
  for (Compiled *compiled : {&exported(), &drawn()}) {
    auto module = mlir::OwningOpRef<mlir::ModuleOp>(compiled->imported().clone());
    size_t turned = 0;
    for (StateOp state : module->getOps<StateOp>()) {
      auto shape = mlir::cast<mlir::RankedTensorType>(state.getType()).getShape();
      ViewAttr view = viewOf(state);
      bool table = view.getSource().getValue().contains("wpe");
      if (shape.size() != 2 || shape[0] != shape[1] || table)
        continue;
      llvm::SmallVector<int64_t> strides(llvm::reverse(view.getStrides()));
      setView(state, ViewAttr::get(state.getContext(), view.getSource(), view.getOffset(), strides));
      ++turned;
      EXPECT_FALSE(checkWiring(*module, compiled->file, compiled->config).empty())
          << view.getSource().getValue().str();
      setView(state, view);
    }
    EXPECT_GT(turned, 1u);
  }
}

TEST(States, WrongRulesAreFound) {
  ProgramT program(drawn().program());
  auto faulty = [&] { return !checkDrawn(program, drawn().config, {}).empty(); };
  for (auto &source : program.sources) {
    double was = source->init_std;
    InitKind kind = source->init;
    source->init_std *= 1.05;
    EXPECT_EQ(faulty(), kind == InitKind::Normal) << source->name;
    source->init_std = was;
    for (InitKind other : {InitKind::Zeros, InitKind::Ones, InitKind::Normal})
      if (other != kind) {
        source->init = other;
        EXPECT_TRUE(faulty()) << source->name;
      }
    source->init = kind;
  }
}

TEST(States, WrongDrawsAreFound) {
  const ProgramT &program = drawn().program();
  size_t large = 0;
  for (const auto &source : program.sources) {
    NamedTensors values = drawn().values;
    Tensor &tensor = values.at(source->name);
    auto faulty = [&] { return !checkDrawn(program, drawn().config, values).empty(); };
    if (source->init != InitKind::Normal) {
      tensor.data[tensor.size() / 2] += 0.5;
      EXPECT_TRUE(faulty()) << source->name;
      continue;
    }
    if (tensor.size() < 16'000) // 5 % are six deviations of the estimate from 7,200 on
      continue;
    ++large;
    for (double &x : tensor.data)
      x *= 1.1;
    EXPECT_TRUE(faulty()) << source->name;
    for (const auto &other : program.sources)
      if (other != source && other->shape == source->shape && other->init == InitKind::Normal) {
        tensor = values.at(other->name);
        EXPECT_TRUE(faulty()) << source->name << " as " << other->name;
      }
  }
  EXPECT_GT(large, 1u);
}

} // namespace
