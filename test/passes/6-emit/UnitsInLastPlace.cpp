#include "KernelTest.h"

#include "Memory.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Parser/Parser.h"
#include "passes/6-emit/Emit.h"
#include "passes/6-emit/kernel/KernelEmitters.h"
#include "test/support/Names.h"
#include <bit>
#include <cmath>
#include <cstdio>
#include <memory>
#include <random>

using namespace mlir;

namespace llmc::test {

namespace {

struct Function {
  const char *name;
  double (*exact)(double);
  double limit; // in units of the last place
};

struct BinaryFunction {
  const char *name;
  double (*exact)(double, double);
  double limit;
};

using KernelFunction = void (*)(void *const *, const int64_t *, int64_t, int64_t);

// The kernel of one op on vectors of any length, loaded.
class LoneKernel {
public:
  LoneKernel(MLIRContext &context, const emit::KernelTarget &target, const std::string &op,
             unsigned operands, const std::string &attributes = "");
  // Empty if there is no kernel.
  std::vector<double> run(const std::vector<std::vector<double>> &inputs) const;

private:
  std::unique_ptr<Library> library;
  KernelFunction function = nullptr;
};

} // namespace

LoneKernel::LoneKernel(MLIRContext &context, const emit::KernelTarget &target,
                       const std::string &op, unsigned operands,
                       const std::string &attributes) {
  std::string type = "tensor<8xf32>", types = operands == 1 ? type : type + ", " + type;
  std::string text = "func.func @f(%a: " + type + ", %b: " + type + ") -> " + type +
                     " { %r = graph." + op + (operands == 1 ? " %a" : " %a, %b") + attributes + " : (" + types +
                     ") -> " + type + "\n return %r : " + type + " }";
  auto module = parseSourceString<ModuleOp>(text, ParserConfig(&context));
  if (!module)
    return;
  Block &block = (*module->getOps<func::FuncOp>().begin()).getBody().front();
  OwningOpRef<ModuleOp> kernels = ModuleOp::create(UnknownLoc::get(&context));
  emit::Kernel kernel(*kernels, op, UnknownLoc::get(&context), target);
  if (failed(emit::emitLaunch(kernel, {block, 2})))
    return;
  auto object = emit::makeSharedObject(*kernels, target);
  if (failed(object))
    return;
  library = std::make_unique<Library>(*object);
  function = reinterpret_cast<KernelFunction>(library->symbol(op));
}

std::vector<double> LoneKernel::run(const std::vector<std::vector<double>> &inputs) const {
  if (!function)
    return {};
  size_t count = inputs[0].size();
  std::vector<Buffer> memory;
  std::vector<void *> buffers;
  for (size_t i = 0; i < 3; ++i) {
    memory.emplace_back("f32", count);
    if (i < inputs.size())
      memory[i].write(inputs[i]);
    buffers.push_back(memory[i].data());
  }
  // Rows belong to the launch: the kernel does any number of them. They are its extent.
  const int64_t extent = static_cast<int64_t>(count);
  function(buffers.data(), &extent, 0, extent);
  return memory[2].read();
}

static double softplus(double x) { return std::fmax(x, 0) + std::log1p(std::exp(-std::fabs(x))); }
static double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// Every 997th float, so all exponents and both signs, and the special values.
static std::vector<double> points() {
  std::vector<double> values{0.0,  -0.0,  INFINITY, -INFINITY, NAN,    1.0,
                             -1.0, 88.7f, 88.8f,    -103.9f,   -104.1f};
  for (uint64_t bits = 0; bits < 0x100000000ull; bits += 997)
    if (float value = std::bit_cast<float>(static_cast<uint32_t>(bits)); !std::isnan(value))
      values.push_back(value);
  // The range that matters, densely.
  for (int i = -400000; i < 400000; ++i)
    values.push_back(static_cast<float>(i * 2.5e-5));
  return values;
}

static double distance(float got, double wanted) {
  if (std::isnan(wanted) || std::isnan(got))
    return std::isnan(wanted) && std::isnan(got) ? 0 : INFINITY;
  float rounded = static_cast<float>(wanted);
  if (std::isinf(rounded) || std::isinf(got))
    return got == rounded                                               ? 0
           : std::fabs(std::nextafter(rounded, 0.0f)) == std::fabs(got) ? 1
                                                                        : INFINITY;
  double unit = std::fabs(std::nextafter(std::fabs(rounded), INFINITY) - std::fabs(rounded));
  return std::fabs(got - wanted) / unit;
}

static void judge(const std::string &name, double worst, double at, double limit) {
  EXPECT_TRUE(worst <= limit) << name << ": " << worst << " ulp at " << at;
  std::printf("%-24s %.2f ulp at %.9g\n", name.c_str(), worst, at);
}

static void checkUnary(MLIRContext &context, const emit::KernelTarget &target,
                       const Function &function) {
  auto inputs = points();
  auto results = LoneKernel(context, target, function.name, 1).run({inputs});
  double worst = results.empty() ? INFINITY : 0, at = 0;
  for (size_t i = 0; i < results.size(); ++i) {
    double error = distance(static_cast<float>(results[i]), function.exact(inputs[i]));
    if (error > worst)
      worst = error, at = inputs[i];
  }
  judge(function.name, worst, at, function.limit);
}

// Any two floats, often near each other or whole numbers, and the special values.
static void checkBinary(MLIRContext &context, const emit::KernelTarget &target,
                        const BinaryFunction &function) {
  static const double special[] = {0.0, -0.0, 1.0, -1.0, INFINITY, -INFINITY, NAN, 0.5, 2.0, -3.0};
  std::vector<double> x, y;
  for (double left : special)
    for (double right : special)
      x.push_back(left), y.push_back(right);
  std::mt19937_64 random(7);
  std::uniform_real_distribution<float> unit(-40, 40);
  for (int i = 0; i < 400000; ++i) {
    auto any = [&] { return std::bit_cast<float>(static_cast<uint32_t>(random())); };
    float left = i % 3 ? unit(random) : any(), right = i % 5 ? unit(random) : any();
    x.push_back(i % 7 ? left : std::round(left));
    y.push_back(i % 4 ? right : std::round(right));
  }
  auto results = LoneKernel(context, target, function.name, 2).run({x, y});
  double worst = results.empty() ? INFINITY : 0, at = 0;
  for (size_t i = 0; i < results.size(); ++i) {
    double error = distance(static_cast<float>(results[i]), function.exact(x[i], y[i]));
    if (error > worst)
      worst = error, at = x[i];
  }
  judge(function.name, worst, at, function.limit);
}

// Waves are judged by their height: near a zero no last place is left of a rounded
// argument. Past the reduction's range they are some value of [-1, 1].
static void checkWave(MLIRContext &context, const emit::KernelTarget &target,
                      const Function &function) {
  std::vector<double> inputs = points();
  std::mt19937_64 random(11);
  std::uniform_real_distribution<float> large(-1e6f, 1e6f);
  for (int i = 0; i < 400000; ++i)
    inputs.push_back(large(random));
  for (int i = -640000; i < 640000; i += 3) // multiples of pi / 2, where the halves meet
    inputs.push_back(static_cast<float>(i * M_PI_2));
  auto results = LoneKernel(context, target, function.name, 1).run({inputs});
  double worst = results.empty() ? INFINITY : 0, at = 0;
  for (size_t i = 0; i < results.size(); ++i) {
    double x = inputs[i], error = std::fabs(results[i] - function.exact(x));
    if (std::isfinite(x) && std::fabs(x) > 0x1p31 - 4)
      error = std::fabs(results[i]) <= 1 ? 0 : INFINITY;
    if (!std::isfinite(x))
      error = std::isnan(results[i]) ? 0 : INFINITY;
    if (!(error <= worst))
      worst = std::isnan(error) ? INFINITY : error, at = x;
  }
  EXPECT_TRUE(worst <= function.limit) << function.name << ": " << worst << " at " << at;
  std::printf("%-24s %.2e at %.9g\n", function.name, worst, at);
}

// GELU and its slope, by both formulas.
static double geluTanh(double x) {
  double u = std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
  return x < -40 ? 0 : x / (1 + std::exp(-2 * u));
}
static double geluErf(double x) { return x < -40 ? 0 : x * std::erfc(-x * M_SQRT1_2) / 2; }
static double slopeTanh(double x) {
  if (std::fabs(x) > 12)
    return x > 0;
  double c = 2 * std::sqrt(2 / M_PI), e = std::exp(-c * (x + 0.044715 * x * x * x));
  return 1 / (1 + e) + x * c * (1 + 3 * 0.044715 * x * x) * e / (1 + e) / (1 + e);
}
static double slopeErf(double x) {
  if (std::fabs(x) > 12)
    return x > 0;
  return std::erfc(-x * M_SQRT1_2) / 2 + x * std::exp(-x * x / 2) / std::sqrt(2 * M_PI);
}

// Beside what they are where x is not negative; in the lower tail GELU itself keeps digits.
static void checkGelu(MLIRContext &context, const emit::KernelTarget &target, bool isSlope,
                      bool isErf) {
  std::vector<double> x = points(), ones(x.size(), 1);
  std::string name = isSlope ? "gelu_grad" : "gelu", form = isErf ? "erf" : "tanh";
  auto exact = isSlope ? (isErf ? slopeErf : slopeTanh) : (isErf ? geluErf : geluTanh);
  LoneKernel kernel(context, target, name, isSlope ? 2 : 1,
                    " {form = #graph.gelu_form<" + form + ">}");
  auto results = isSlope ? kernel.run({x, ones}) : kernel.run({x});
  double worst = results.empty() ? INFINITY : 0, tail = 0, at = 0;
  for (size_t i = 0; i < results.size(); ++i) {
    double wanted = exact(x[i]), error = std::fabs(results[i] - wanted);
    if (std::isnan(x[i]))
      error = std::isnan(results[i]) ? 0 : INFINITY;
    else if (std::isinf(wanted))
      error = results[i] == wanted ? 0 : INFINITY;
    else
      error /= std::fmax(1, std::fabs(wanted));
    if (!(error <= worst))
      worst = std::isnan(error) ? INFINITY : error, at = x[i];
    if (!isSlope && x[i] < -1e-30 && x[i] > -9)
      tail = std::fmax(tail, std::fabs(results[i] / wanted - 1));
  }
  EXPECT_TRUE(worst <= 3e-7 && tail <= 2e-5)
      << name << " " << form << ": " << worst << " at " << at << ", tail " << tail;
  std::printf("%-24s %.2e at %.9g, tail %.2e\n", (name + " " + form).c_str(), worst, at, tail);
}

namespace {

constexpr auto nameOf = [](const auto &info) {
  const auto &[target, function] = info.param;
  return testName(target->name.str() + " " + function.name);
};

// Instantiates a test for each CPU and each of the functions.
#define LLMC_INSTANTIATE_FOR_FUNCTIONS(Suite, ...)                                                 \
  INSTANTIATE_TEST_SUITE_P(                                                                        \
      Cpus, Suite,                                                                                 \
      testing::Combine(testing::ValuesIn(cpuTargets()), testing::Values(__VA_ARGS__)), nameOf)

// Sweeps an expanded function over all of float32's exponents and its special values, against
// float64 of the C library.
template <typename F>
class SweepTest : public testing::TestWithParam<std::tuple<const emit::KernelTarget *, F>> {
protected:
  void SetUp() override {
    if (std::string why = whyNotRun(target()); !why.empty())
      GTEST_SKIP() << why;
  }
  const emit::KernelTarget &target() const { return *std::get<0>(this->GetParam()); }
  const F &function() const { return std::get<1>(this->GetParam()); }
};

class UnaryTest : public SweepTest<Function> {};
TEST_P(UnaryTest, StaysWithinItsUnits) { checkUnary(context(), target(), function()); }
LLMC_INSTANTIATE_FOR_FUNCTIONS(UnaryTest, Function{"exp", std::exp, 1.2},
                               Function{"log", std::log, 1.2}, Function{"tanh", std::tanh, 2.6},
                               Function{"erf", std::erf, 3}, Function{"sigmoid", sigmoid, 2.5},
                               Function{"sqrt", std::sqrt, 0.5}, Function{"softplus", softplus, 3},
                               Function{"floor", std::floor, 0}, Function{"ceil", std::ceil, 0},
                               Function{"round", std::nearbyint, 0});

class BinaryTest : public SweepTest<BinaryFunction> {};
TEST_P(BinaryTest, StaysWithinItsUnits) { checkBinary(context(), target(), function()); }
LLMC_INSTANTIATE_FOR_FUNCTIONS(BinaryTest, BinaryFunction{"power", std::pow, 1},
                               BinaryFunction{"rem", std::fmod, 0});

class WaveTest : public SweepTest<Function> {};
TEST_P(WaveTest, StaysWithinItsHeight) { checkWave(context(), target(), function()); }
LLMC_INSTANTIATE_FOR_FUNCTIONS(WaveTest, Function{"sin", std::sin, 2e-7},
                               Function{"cos", std::cos, 2e-7});

struct GeluForm {
  const char *name;
  bool isSlope, isErf;
};
class GeluTest : public SweepTest<GeluForm> {};
TEST_P(GeluTest, StaysWithinItsHeight) {
  checkGelu(context(), target(), function().isSlope, function().isErf);
}
LLMC_INSTANTIATE_FOR_FUNCTIONS(GeluTest, GeluForm{"gelu tanh", false, false},
                               GeluForm{"gelu erf", false, true},
                               GeluForm{"gelu_grad tanh", true, false},
                               GeluForm{"gelu_grad erf", true, true});

} // namespace
} // namespace llmc::test
