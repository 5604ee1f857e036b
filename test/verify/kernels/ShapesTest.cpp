// Kernels of a sound plan pass; faults of kernels, which no border of the IR sees, are found.
#include "lib/verify/kernels/Shapes.h"
#include "dialects/graph/Graph.h"
#include "dialects/plan/Plan.h"
#include "lib/pipeline/Pipeline.h"
#include "test/support/CommandLine.h"
#include "test/support/Context.h"
#include "test/support/Names.h"
#include "test/verify/catalogue/KernelEdits.h"

#include <cstring>
#include <gtest/gtest.h>
#include <stdexcept>

using namespace llmc;
using runtime::KernelFunction;

namespace {

CompileOptions optionsOfModel() {
  CompileOptions options;
  options.model = test::arguments().at(0);
  options.tp = 2;
  options.globalBatch = 2;
  return options;
}

//===-- Faults of machine code ----------------------------------------------===//

// The kernel that is broken, and where its result lies.
struct Victim {
  KernelFunction real = nullptr;
  unsigned result = 0;  // buffer
  int64_t elements = 0; // of a row
} victim;

float *resultOf(void *const *buffers) { return static_cast<float *>(buffers[victim.result]); }

void oneAndAHalfTimes(void *const *buffers, const int64_t *scalars, int64_t begin, int64_t end) {
  victim.real(buffers, scalars, begin, end);
  for (int64_t i = begin * victim.elements; i < end * victim.elements; ++i)
    resultOf(buffers)[i] *= 1.5f;
}
void withoutLastElement(void *const *buffers, const int64_t *scalars, int64_t begin, int64_t end) {
  float before = resultOf(buffers)[end * victim.elements - 1];
  victim.real(buffers, scalars, begin, end);
  resultOf(buffers)[end * victim.elements - 1] = before;
}
void wrongTail(void *const *buffers, const int64_t *scalars, int64_t begin, int64_t end) {
  victim.real(buffers, scalars, begin, end);
  for (int64_t row = begin; row < end; ++row)
    resultOf(buffers)[(row + 1) * victim.elements - 1] *= 1.001f;
}
void fewBits(void *const *buffers, const int64_t *scalars, int64_t begin, int64_t end) {
  victim.real(buffers, scalars, begin, end);
  for (int64_t i = begin * victim.elements; i < end * victim.elements; ++i) {
    uint32_t bits;
    std::memcpy(&bits, &resultOf(buffers)[i], 4);
    bits &= ~0x1fffu; // as many as float16 has
    std::memcpy(&resultOf(buffers)[i], &bits, 4);
  }
}
void besideItsRows(void *const *buffers, const int64_t *scalars, int64_t begin, int64_t end) {
  victim.real(buffers, scalars, begin, end);
  resultOf(buffers)[end * victim.elements] = 1;
}

struct MachineFault {
  const char *what, *op; // of the body that the kernel computes
  KernelFunction function;
};
const MachineFault machineFaults[] = {
    {"a gelu 1.5 times too large", "graph.gelu", oneAndAHalfTimes},
    {"a gradient of gelu 1.5 times too large", "graph.gelu_grad", oneAndAHalfTimes},
    {"a last element that is not written", "graph.layer_norm", withoutLastElement},
    {"an element beside the rows", "graph.gelu", besideItsRows},
    {"a wrong tail of a vector", "graph.layer_norm_grad", wrongTail},
    {"results of 11 bits", "graph.layer_norm", fewBits},
    {"an optimizer's result of 11 bits", "graph.adamw", fewBits},
};

// Chooses the first launch whose body has `op`. Returns its kernel.
uint32_t choose(verify::Subject &subject, const char *name) {
  std::optional<uint32_t> kernel;
  subject.emitted->walk([&](plan::LaunchOp launch) {
    bool has = false;
    for (mlir::Operation &op : launch.getBody().front())
      has |= op.getName().getStringRef() == name;
    if (!has || kernel)
      return;
    for (uint32_t i = 0; i < subject.program->kernels.size(); ++i)
      if (subject.program->kernels[i]->name == *launch.getKernel())
        kernel = i;
    auto type = mlir::cast<plan::BufferType>(launch.getWrites()[0].getType()).getTensor();
    victim.result = launch.getReads().size();
    victim.elements = type.getNumElements() / *launch.getRows();
  });
  if (kernel)
    return *kernel;
  throw std::logic_error(std::string("no launch has a ") + name);
}

// Checks all kernels; with few `mostBytes` slices of their operands.
verify::Report check(const verify::Subject &subject, uint64_t mostBytes = verify::kMostOperandBytes) {
  verify::Report report;
  verify::checkShapes(subject, 1, report, nullptr, mostBytes);
  return report;
}

void expectNamed(verify::Subject &subject, const MachineFault &fault, uint64_t mostBytes = verify::kMostOperandBytes) {
  runtime::Kernels sound = *subject.kernels;
  uint32_t index = choose(subject, fault.op);
  std::vector<KernelFunction> functions;
  for (uint32_t i = 0; i < sound.size(); ++i)
    functions.push_back(sound[i]);
  victim.real = functions[index];
  functions[index] = fault.function;
  subject.kernels = runtime::Kernels(std::move(functions));
  verify::Report report = check(subject, mostBytes);
  bool named = false;
  for (const verify::Check &one : report.checks)
    named |= one.name == "kernels:shapes" && !one.passed &&
             one.subject.rfind(subject.program->kernels[index]->name, 0) == 0;
  EXPECT_TRUE(named) << fault.what << "\n" << report.text();
  subject.kernels = std::move(sound);
}

//===-- Faults of an emitter ------------------------------------------------===//

struct EmitterFault {
  const char *what, *kernel, *check; // in the kernel's name; how the check's begins
  catalogue::Edit spoil;
};
// More are in the catalogue; of these the kernel is named, too.
const EmitterFault emitterFaults[] = {
    {"an exponential that is 0.2 % off", "sub_exp_reduce", "kernels:shapes",
     catalogue::replaceNumber("sub_exp_reduce", 0.49999994, 0.52)},
    {"attention's exponential is 0.1 % off", "attention", "kernels:shapes",
     catalogue::replaceNumber("attention", 0.240226462, 0.245)},
    {"an exponential is zero below -10", "sub_exp_reduce", "ranges:",
     catalogue::replaceNumber("sub_exp_reduce", -105, -10)},
    {"attention shifts by a sum in place of a maximum", "attention", "ranges:",
     catalogue::sumInPlaceOfMaximum("attention")},
    {"a norm by the variance in place of its root", "layer_norm", "kernels:shapes",
     catalogue::leaveOutOps("layer_norm", "math.sqrt")},
};

void expectFound(const EmitterFault &fault) {
  test::LoadedContext context;
  CompileOptions options = optionsOfModel();
  bool placed = false;
  options.afterPhase = [&](Phase phase, mlir::Operation *module) {
    if (phase == Phase::Emit)
      placed |= fault.spoil(mlir::cast<mlir::ModuleOp>(module));
  };
  auto subject = verify::compileSubject(context, options);
  ASSERT_TRUE(succeeded(subject)) << fault.what;
  verify::Report report = check(*subject);
  bool found = false;
  for (const verify::Check &one : report.checks)
    found |= !one.passed && one.name.rfind(fault.check, 0) == 0 &&
             one.subject.find(fault.kernel) != std::string::npos;
  EXPECT_TRUE(found && placed) << fault.what << "\n" << report.text();
}

//===-- Tests ---------------------------------------------------------------===//

// Holds the sound plan, compiled once for all tests.
struct Sound {
  test::LoadedContext context;
  mlir::FailureOr<verify::Subject> subject = verify::compileSubject(context, optionsOfModel());
};

mlir::FailureOr<verify::Subject> &soundSubject() {
  static Sound sound;
  return sound.subject;
}

TEST(Shapes, KernelsOfASoundPlanPass) {
  ASSERT_TRUE(succeeded(soundSubject()));
  verify::Report report = check(*soundSubject());
  EXPECT_TRUE(report.passed() && report.checks.size() == 6) << "those of a sound plan pass\n"
                                                            << report.text();
}

// Slices are what is run of launches that are too large to be drawn.
TEST(Shapes, SlicesOfASoundPlanPass) {
  ASSERT_TRUE(succeeded(soundSubject()));
  verify::Report report = check(*soundSubject(), 1);
  EXPECT_TRUE(report.passed() && report.checks.size() == 6) << "those of a sound plan pass\n"
                                                            << report.text();
}

TEST(Shapes, AFaultInASliceIsNamed) {
  ASSERT_TRUE(succeeded(soundSubject()));
  expectNamed(*soundSubject(), {"an optimizer's result of 11 bits", "graph.adamw", fewBits}, 1);
  expectNamed(*soundSubject(), {"a gelu 1.5 times too large", "graph.gelu", oneAndAHalfTimes}, 1);
}

class FaultOfMachineCode : public testing::TestWithParam<MachineFault> {};

TEST_P(FaultOfMachineCode, IsNamed) {
  ASSERT_TRUE(succeeded(soundSubject()));
  expectNamed(*soundSubject(), GetParam());
}

class FaultOfEmitter : public testing::TestWithParam<EmitterFault> {};

TEST_P(FaultOfEmitter, IsNamed) { expectFound(GetParam()); }

constexpr auto nameOf = [](const auto &info) { return test::testName(info.param.what); };
INSTANTIATE_TEST_SUITE_P(Shapes, FaultOfMachineCode, testing::ValuesIn(machineFaults), nameOf);
INSTANTIATE_TEST_SUITE_P(Shapes, FaultOfEmitter, testing::ValuesIn(emitterFaults), nameOf);

} // namespace
