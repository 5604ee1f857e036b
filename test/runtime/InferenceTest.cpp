// Programs for inference made by hand: arrays in, arrays out, on several meshes.
#include "runtime/infer/Inference.h"
#include "PlanBuilder.h"
#include "lib/planfile/Check.h"
#include "lib/planfile/Payload.h"
#include "lib/support/Npy.h"
#include "runtime/infer/InferenceInputs.h"

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>

using namespace llmc;
using namespace llmc::test;
using runtime::KernelFunction;
using runtime::Kernels;
using runtime::Options;
using support::ElementType;

namespace {

// buffers: whole, part; scalars: first column, columns of the whole, of the part,
// bytes of an element. Columns past the whole's become 0x7f.
void cutColumns(void *const *buffers, const int64_t *s, int64_t begin, int64_t end) {
  const char *whole = static_cast<const char *>(buffers[0]);
  char *part = static_cast<char *>(buffers[1]);
  for (int64_t row = begin; row < end; ++row)
    for (int64_t column = 0; column < s[2]; ++column) {
      char *to = part + (row * s[2] + column) * s[3];
      if (s[0] + column < s[1])
        std::memcpy(to, whole + (row * s[1] + s[0] + column) * s[3], size_t(s[3]));
      else
        std::memset(to, 0x7f, size_t(s[3]));
    }
}

// buffers: x, y = 2 x (floats).
void twice(void *const *buffers, const int64_t *, int64_t begin, int64_t end) {
  const float *x = static_cast<const float *>(buffers[0]);
  float *y = static_cast<float *>(buffers[1]);
  for (int64_t i = begin; i < end; ++i)
    y[i] = 2 * x[i];
}

// buffers: x; scalar: added to every byte.
void addToBytes(void *const *buffers, const int64_t *s, int64_t begin, int64_t end) {
  char *x = static_cast<char *>(buffers[0]);
  for (int64_t i = begin; i < end; ++i)
    x[i] = static_cast<char>(x[i] + s[0]);
}

CoordExprT coord(int64_t base, std::vector<int64_t> coefs = {}) {
  CoordExprT made;
  made.base = base;
  made.coefs = std::move(coefs);
  return made;
}

std::unique_ptr<ProgramT> inferProgram(const std::vector<uint32_t> &mesh, uint64_t arena = 1024) {
  auto program = makeProgram(mesh, 1, arena);
  program->mode = Mode::Infer;
  for (auto &stage : program->stages)
    stage->procedures[0]->kind = ProcedureKind::Forward;
  return program;
}

InputBindingT &addInput(ProgramT &program, const std::string &name, DType type,
                        std::vector<int64_t> global, std::vector<uint32_t> axes = {}) {
  auto input = std::make_unique<InputBindingT>();
  input->name = name;
  input->dtype = type;
  input->global_shape = input->local_shape = std::move(global);
  input->batch_axes = axes;
  for (uint32_t axis : axes)
    input->local_shape[0] /= program.mesh->axes[axis]->size;
  program.inputs.push_back(std::move(input));
  return *program.inputs.back();
}

OutputBindingT &addResult(ProgramT &program, uint32_t stage, const std::string &name, DType type,
                          std::vector<int64_t> global, std::vector<int64_t> local,
                          std::vector<std::vector<uint32_t>> cuts, uint64_t offset) {
  auto result = std::make_unique<OutputBindingT>();
  result->name = name;
  result->dtype = type;
  uint64_t bytes = byteSize(type);
  for (int64_t dim : local)
    bytes *= uint64_t(dim);
  result->global_shape = std::move(global);
  result->local_shape = std::move(local);
  for (const auto &axes : cuts) {
    result->dims.push_back(std::make_unique<DimShardingT>());
    result->dims.back()->axes = axes;
  }
  result->buffer = ref(offset, bytes);
  program.stages[stage]->results.push_back(std::move(result));
  return *program.stages[stage]->results.back();
}

FeedT feed(uint32_t input, uint64_t offset, uint64_t size) {
  FeedT made;
  made.input = input;
  made.dst = ref(offset, size);
  return made;
}

CopyT copy(uint64_t from, uint64_t to, uint64_t size) {
  CopyT made;
  made.src = ref(from, size);
  made.dst = ref(to, size);
  return made;
}

LaunchT reads(LaunchT launch, std::vector<Access> how) {
  for (size_t i = 0; i < how.size(); ++i)
    launch.operands[i]->access = how[i];
  return launch;
}

template <class T>
std::string bytesOf(const std::vector<T> &values) {
  return {reinterpret_cast<const char *>(values.data()), values.size() * sizeof(T)};
}

class Inference : public ::testing::Test {
protected:
  template <class T>
  void give(const std::string &name, ElementType type, const std::vector<int64_t> &shape,
            const std::vector<T> &values) {
    std::string path = folder / (name + ".in.npy"), bytes = bytesOf(values);
    auto status = support::writeNpy(path, type, shape,
                                    std::as_bytes(std::span(bytes.data(), bytes.size())));
    EXPECT_TRUE(bool(status)) << status.message();
    options.inputs[name] = path;
  }

  std::string infer(ProgramT &program, std::vector<KernelFunction> kernels = {}) {
    updateLiveBytes(program);
    EXPECT_EQ(formatFindings(checkAll(program)), "");
    options.output = folder / "out/deep";
    runtime::RunContext context;
    context.out = &out;
    auto status = runtime::infer(program, Kernels(std::move(kernels)), options, context);
    return status ? "" : status.message();
  }

  template <class T>
  void expectOutput(const std::string &file, ElementType type, const std::vector<int64_t> &shape,
                    const std::vector<T> &values) {
    auto npy = support::NpyFile::open(folder / ("out/deep/" + file));
    ASSERT_TRUE(bool(npy)) << npy.message();
    EXPECT_EQ(npy->type(), type) << file;
    EXPECT_EQ(npy->shape(), shape) << file;
    ASSERT_EQ(*support::elementCount(npy->shape()), values.size());
    EXPECT_EQ(std::string(static_cast<const char *>(npy->data()), values.size() * sizeof(T)),
              bytesOf(values))
        << file;
  }

  TemporaryFolder folder;
  Options options;
  std::ostringstream out;
};

// The first stage gives a = x, the second b = 2 x.
TEST_F(Inference, EveryStageHasItsOutputs) {
  auto program = inferProgram({1, 2, 1});
  addInput(*program, "x", DType::F32, {2, 3});
  add(*program, 0, feed(0, 0, 24));
  add(*program, 0, copy(0, 64, 24));
  add(*program, 0, send(1, 1, ref(0, 24)));
  addResult(*program, 0, "a", DType::F32, {2, 3}, {2, 3}, {{}, {}}, 64);
  add(*program, 1, recv(1, -1, ref(0, 24)));
  add(*program, 1,
      reads(launch(*program, "twice", refs(ref(0, 24), ref(128, 24)), 6),
            {Access::Read, Access::Write}));
  addResult(*program, 1, "b", DType::F32, {2, 3}, {2, 3}, {}, 128);
  std::vector<float> x{1, 2, 3, 4, 5, 6.5};
  give("x", ElementType::F32, {2, 3}, x);
  options.repeat = 3;
  ASSERT_EQ(infer(*program, {twice}), "");
  expectOutput("a.npy", ElementType::F32, {2, 3}, x);
  expectOutput("b.npy", ElementType::F32, {2, 3}, std::vector<float>{2, 4, 6, 8, 10, 13});
  EXPECT_NE(out.str().find("of 3 runs; the first took"), std::string::npos) << out.str();
  EXPECT_NE(out.str().find("output     " + options.output + "/b.npy  float32 [2, 3]"),
            std::string::npos)
      << out.str();
  for (const auto &file : std::filesystem::directory_iterator(options.output))
    EXPECT_EQ(file.path().extension(), ".npy"); // nothing temporary is left
}

// Each data-parallel rank takes its rows and gives them back.
TEST_F(Inference, RowsAreCutOverData) {
  auto program = inferProgram({2, 1, 2});
  addInput(*program, "x", DType::I64, {4, 3}, {0});
  add(*program, 0, feed(0, 0, 48));
  add(*program, 0, copy(0, 64, 48));
  addResult(*program, 0, "y", DType::I64, {4, 3}, {2, 3}, {{0}}, 64);
  std::vector<int64_t> x{0, 1, 2, 10, 11, 12, 20, 21, 22, 30, 31, -1};
  give("x", ElementType::I64, {4, 3}, x);
  ASSERT_EQ(infer(*program), "");
  expectOutput("y.npy", ElementType::I64, {4, 3}, x);
}

// Two ranks hold 3 columns each of 5; the sixth is padding.
TEST_F(Inference, PaddedColumnsAreCutOverTensor) {
  auto program = inferProgram({1, 1, 2});
  addInput(*program, "x", DType::F32, {2, 5});
  add(*program, 0, feed(0, 0, 40));
  std::vector<CoordExprT> scalars;
  scalars.push_back(coord(0, {0, 0, 3}));
  for (int64_t constant : {5, 3, 4})
    scalars.push_back(coord(constant));
  add(*program, 0,
      reads(launch(*program, "cut", refs(ref(0, 40), ref(64, 24)), 2, std::move(scalars)),
            {Access::Read, Access::Write}));
  addResult(*program, 0, "y", DType::F32, {2, 5}, {2, 3}, {{}, {2}}, 64);
  std::vector<float> x{1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  give("x", ElementType::F32, {2, 5}, x);
  ASSERT_EQ(infer(*program, {cutColumns}), "");
  expectOutput("y.npy", ElementType::F32, {2, 5}, x);
}

// Checks that of ranks that hold the same part, the first one's bytes are written.
TEST_F(Inference, CopiesAreReadAtTheFirstRank) {
  auto program = inferProgram({2, 1, 2});
  addInput(*program, "x", DType::I64, {1});
  add(*program, 0, feed(0, 0, 8));
  std::vector<CoordExprT> scalars;
  scalars.push_back(coord(0, {1, 0, 2}));
  add(*program, 0,
      reads(launch(*program, "add", refs(ref(0, 8)), 1, std::move(scalars)), {Access::ReadWrite}));
  addResult(*program, 0, "y", DType::I64, {1}, {1}, {}, 0);
  give("x", ElementType::I64, {1}, std::vector<int64_t>{5});
  ASSERT_EQ(infer(*program, {addToBytes}), "");
  expectOutput("y.npy", ElementType::I64, {1}, std::vector<int64_t>{5});
}

TEST_F(Inference, ScalarsEmptyArraysAndBools) {
  auto program = inferProgram({2, 1, 1});
  addInput(*program, "scalar", DType::F32, {});
  addInput(*program, "past", DType::F32, {2, 2, 0, 4}, {0});
  addInput(*program, "mask", DType::I1, {2, 2}, {0});
  add(*program, 0, feed(0, 0, 4));
  add(*program, 0, copy(0, 64, 4));
  add(*program, 0, feed(2, 128, 2));
  add(*program, 0, copy(128, 192, 2));
  addResult(*program, 0, "a/b", DType::F32, {}, {}, {}, 64);
  addResult(*program, 0, "a_b", DType::I1, {2, 2}, {1, 2}, {{0}}, 192);
  addResult(*program, 0, "none", DType::F32, {2, 0}, {1, 0}, {{0}}, 256);
  give("scalar", ElementType::F32, {}, std::vector<float>{2.5f});
  give("past", ElementType::F32, {2, 2, 0, 4}, std::vector<float>{});
  give("mask", ElementType::Bool, {2, 2}, std::vector<uint8_t>{1, 0, 0, 1});
  ASSERT_EQ(infer(*program), "");
  expectOutput("a_b.npy", ElementType::F32, {}, std::vector<float>{2.5f});
  expectOutput("a_b_.npy", ElementType::Bool, {2, 2}, std::vector<uint8_t>{1, 0, 0, 1});
  expectOutput("none.npy", ElementType::F32, {2, 0}, std::vector<float>{});
  options.inputs.erase("past"); // nothing to give
  EXPECT_EQ(infer(*program), "");
}

TEST_F(Inference, NumbersAreConverted) {
  auto program = inferProgram({1, 1, 1});
  addInput(*program, "ids", DType::I64, {3});
  addInput(*program, "x", DType::F32, {3});
  addInput(*program, "mask", DType::I1, {3});
  for (uint32_t i = 0; i < 3; ++i) {
    uint64_t size = i == 0 ? 24 : i == 1 ? 12 : 3;
    add(*program, 0, feed(i, i * 128, size));
    add(*program, 0, copy(i * 128, i * 128 + 64, size));
  }
  addResult(*program, 0, "ids", DType::I64, {3}, {3}, {}, 64);
  addResult(*program, 0, "x", DType::F32, {3}, {3}, {}, 192);
  addResult(*program, 0, "mask", DType::I1, {3}, {3}, {}, 320);
  auto expect = [&] {
    ASSERT_EQ(infer(*program), "");
    expectOutput("ids.npy", ElementType::I64, {3}, std::vector<int64_t>{1, 0, 7});
    expectOutput("x.npy", ElementType::F32, {3}, std::vector<float>{1, 0, 7});
    expectOutput("mask.npy", ElementType::Bool, {3}, std::vector<uint8_t>{1, 0, 1});
  };
  give("ids", ElementType::I32, {3}, std::vector<int32_t>{1, 0, 7});
  give("x", ElementType::F16, {3}, std::vector<uint16_t>{0x3c00, 0, 0x4700});
  give("mask", ElementType::I64, {3}, std::vector<int64_t>{1, 0, 1});
  expect();
  give("ids", ElementType::F64, {3}, std::vector<double>{1, 0, 7});
  give("x", ElementType::I64, {3}, std::vector<int64_t>{1, 0, 7});
  give("mask", ElementType::F32, {3}, std::vector<float>{1, 0, 1});
  expect();
  give("ids", ElementType::U8, {3}, std::vector<uint8_t>{1, 0, 7});
  give("x", ElementType::F64, {3}, std::vector<double>{1, 0, 7});
  give("mask", ElementType::U8, {3}, std::vector<uint8_t>{1, 0, 1});
  expect();
}

TEST_F(Inference, DefaultsAreThoseOfThePlan) {
  auto program = inferProgram({2, 1, 1});
  addInput(*program, "mask", DType::I64, {2, 3}, {0}).default_value = InputDefault::Ones;
  addInput(*program, "places", DType::I64, {2, 3}, {0}).default_value = InputDefault::Positions;
  addInput(*program, "cache", DType::F32, {2, 0}, {0});
  add(*program, 0, feed(0, 0, 24));
  add(*program, 0, copy(0, 64, 24));
  add(*program, 0, feed(1, 128, 24));
  add(*program, 0, copy(128, 192, 24));
  addResult(*program, 0, "mask", DType::I64, {2, 3}, {1, 3}, {{0}}, 64);
  addResult(*program, 0, "places", DType::I64, {2, 3}, {1, 3}, {{0}}, 192);
  ASSERT_EQ(infer(*program), "");
  expectOutput("mask.npy", ElementType::I64, {2, 3}, std::vector<int64_t>{1, 1, 1, 1, 1, 1});
  expectOutput("places.npy", ElementType::I64, {2, 3}, std::vector<int64_t>{0, 1, 2, 0, 1, 2});
  EXPECT_NE(out.str().find("input      mask  ones (not given)"), std::string::npos) << out.str();
  // With a cache, positions start where nobody can know.
  program->inputs[2]->global_shape = {2, 1};
  program->inputs[2]->local_shape = {1, 1};
  give("cache", ElementType::F32, {2, 1}, std::vector<float>{1, 2});
  EXPECT_NE(infer(*program).find("'places' counts from 0 only where"), std::string::npos);
}

TEST_F(Inference, AllProblemsAtOnce) {
  auto program = inferProgram({1, 1, 1});
  addInput(*program, "ids", DType::I64, {2, 3}).limit = 5;
  addInput(*program, "x", DType::F32, {2});
  addInput(*program, "mask", DType::I1, {2});
  addInput(*program, "other", DType::I64, {2});
  addInput(*program, "lost", DType::F32, {2, 4});
  give("ids", ElementType::I64, {2, 3}, std::vector<int64_t>{0, 4, 1, 2, 3, 5});
  give("x", ElementType::F32, {3}, std::vector<float>{1, 2, 3});
  give("mask", ElementType::I64, {2}, std::vector<int64_t>{1, 2});
  give("other", ElementType::F32, {2}, std::vector<float>{1, 1.5});
  options.inputs["wrong"] = "w.npy";
  std::string why = infer(*program);
  for (const char *part :
       {"6 problems with the inputs:", "--input wrong=w.npy: no such input; this program has ids, x, mask, other, lost",
        "--input ids: 5 at row 1, position 2 of '", "outside of the 5 rows",
        "has the shape [3], the program was compiled for [2]", "--input mask: 2 at index [1]",
        "is no value of bool", "--input other: 1.5 at index [1]", "is no value of int64",
        "no data for the input 'lost'; give --input lost=FILE.npy, float32 [2, 4]"})
    EXPECT_NE(why.find(part), std::string::npos) << part << " not in\n" << why;
  EXPECT_FALSE(std::filesystem::exists(options.output)); // nothing was begun
}

TEST_F(Inference, TheFolderMustBeWritable) {
  auto program = inferProgram({1, 1, 1});
  addInput(*program, "x", DType::F32, {1});
  add(*program, 0, feed(0, 0, 4));
  addResult(*program, 0, "x", DType::F32, {1}, {1}, {}, 0);
  give("x", ElementType::F32, {1}, std::vector<float>{1});
  writeBytes(folder / "out", "in the way");
  EXPECT_NE(infer(*program).find("--output: cannot make the folder"), std::string::npos);
  std::filesystem::remove(folder / "out");
  std::filesystem::create_directories(folder / "out/deep/x.npy");
  EXPECT_NE(infer(*program).find("--output: cannot write"), std::string::npos);
}

TEST(InferencePlan, BadBindingsAreFound) {
  auto fresh = [] {
    auto program = inferProgram({2, 1, 2});
    addInput(*program, "x", DType::F32, {2, 2}, {0});
    add(*program, 0, feed(0, 0, 8));
    addResult(*program, 0, "y", DType::F32, {2, 2}, {1, 2}, {{0}}, 0);
    updateLiveBytes(*program);
    EXPECT_EQ(formatFindings(checkAll(*program)), "");
    return program;
  };
  auto expect = [](ProgramT &program, const char *part) {
    std::string text = formatFindings(checkAll(program));
    EXPECT_NE(text.find(part), std::string::npos) << part << " not in\n" << text;
  };
  auto program = fresh();
  program->inputs[0]->global_shape = {3, 2};
  expect(*program, "input 'x' is not the sum of its parts");
  program = fresh();
  program->inputs[0]->global_shape[0] = -2;
  expect(*program, "input 'x' has a bad shape");
  program = fresh();
  program->stages[0]->results[0]->dims[0]->axes = {0, 0};
  expect(*program, "cut over bad axes");
  program = fresh();
  program->stages[0]->results[0]->global_shape[0] = 5;
  expect(*program, "do not cover 5");
  program = fresh();
  program->stages[0]->results[0]->buffer->size = 4;
  expect(*program, "4 bytes, 8 are needed");
  program = fresh();
  addResult(*program, 0, "y", DType::F32, {1}, {1}, {}, 64);
  expect(*program, "'y': appears twice");
  program = fresh();
  addResult(*program, 0, "z", DType::F32, {1}, {1}, {}, 64);
  expect(*program, "result 'z' is written by no forward");
  program = fresh();
  addResult(*program, 0, "z", DType::F32, {1}, {1}, {}, 4);
  expect(*program, "results 'y' and 'z' share arena bytes");
  program = fresh();
  program->micro_batches = 2;
  expect(*program, "in 2 micro-batches");
  program = fresh();
  program->mode = Mode::Train;
  program->global_batch = 2;
  expect(*program, "result 'y': of a program that trains");
}

TEST(InferenceOptions, ReadAndRefused) {
  support::Problems problems;
  auto parse = [&](std::vector<std::string> arguments, Mode mode) {
    problems = {};
    return runtime::parseOptions(arguments, mode, problems);
  };
  auto good = parse({"--input", "x=a.npy", "--output=o", "--repeat", "3", "--seed", "1"}, Mode::Infer);
  ASSERT_TRUE(problems.messages.empty()) << problems.messages[0];
  EXPECT_EQ(good.output, "o");
  EXPECT_EQ(good.repeat, 3u);
  for (const char *flag : {"--data", "--steps", "--lr", "--save", "--dump", "--metrics"}) {
    parse({flag, "1"}, Mode::Infer);
    ASSERT_EQ(problems.messages.size(), 1u);
    EXPECT_NE(problems.messages[0].find("was compiled with --infer"), std::string::npos) << problems.messages[0];
  }
  for (const char *flag : {"--output", "--repeat"}) {
    parse({flag, "1"}, Mode::Train);
    ASSERT_EQ(problems.messages.size(), 1u);
    EXPECT_NE(problems.messages[0].find("this one trains"), std::string::npos) << problems.messages[0];
  }
}

// The runtime as users get it.
TEST_F(Inference, Packed) {
  auto program = inferProgram({1, 1, 1});
  addInput(*program, "x", DType::F32, {2, 1});
  addInput(*program, "mask", DType::I64, {2}).default_value = InputDefault::Ones;
  add(*program, 0, feed(0, 0, 8));
  addResult(*program, 0, "y", DType::F32, {2, 1}, {2, 1}, {}, 0);
  updateLiveBytes(*program);
  auto object = support::readFile(LLMC_TEST_KERNELS);
  std::string plan = writeProgram(*program);
  Section sections[] = {{std::string(kPlanSection), plan}, {std::string(kKernelsSection), *object}};
  auto written = writePayload(LLMC_TEST_RUNTIME, sections, folder / "run");
  ASSERT_TRUE(bool(written)) << written.message();
  std::string text;
  auto run = [&](const std::string &arguments) {
    int status =
        std::system(("cd " + folder.path + " && ./run " + arguments + " >log 2>&1").c_str());
    text = *support::readFile(folder / "log");
    return WEXITSTATUS(status);
  };
  EXPECT_EQ(run("--help"), 0);
  for (const char *part : {"usage: run --input", "float32 [2, 1]", "int64 [2]  (ones)", "outputs\n  y"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " not in\n" << text;
  EXPECT_EQ(text.find("--lr"), std::string::npos);
  give("x", ElementType::F32, {2, 1}, std::vector<float>{1, 2});
  EXPECT_EQ(run("--input x=x.in.npy"), 1);
  EXPECT_EQ(text, "run: error: where shall the outputs go? give --output DIR\n");
  EXPECT_EQ(run("--output out/deep"), 1);
  EXPECT_EQ(text.rfind("run: error: no data for the input 'x'", 0), 0u) << text;
  EXPECT_EQ(run("--steps 3"), 2);
  ASSERT_EQ(run("--input x=x.in.npy --output out/deep"), 0) << text;
  expectOutput("y.npy", ElementType::F32, {2, 1}, std::vector<float>{1, 2});
}

} // namespace
