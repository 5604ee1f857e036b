#include "UnitTests.h"

#include "Memory.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Parser/Parser.h"
#include "passes/6-emit/Emit.h"
#include "passes/6-emit/Families.h"
#include <bit>
#include <cmath>
#include <cstdio>

using namespace mlir;

namespace llmc::test {

namespace {

struct Function {
  const char *name;
  double (*exact)(double);
  double limit; // in units of the last place
};

} // namespace

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

void checkUnitsInLastPlace(MLIRContext &context, int &passed, int &failed) {
  static const Function functions[] = {
      {"exp", std::exp, 1.2}, {"log", std::log, 1.2},    {"tanh", std::tanh, 2},
      {"erf", std::erf, 1.5}, {"sigmoid", sigmoid, 2.5}, {"sqrt", std::sqrt, 0.5},
  };
  auto inputs = points();
  for (const Function &function : functions) {
    std::string name = function.name;
    std::string text = "func.func @f(%a: tensor<8xf32>) -> tensor<8xf32> { %r = graph." + name +
                       " %a : (tensor<8xf32>) -> tensor<8xf32>\n return %r : tensor<8xf32> }";
    auto module = parseSourceString<ModuleOp>(text, ParserConfig(&context));
    Block &block = (*module->getOps<func::FuncOp>().begin()).getBody().front();
    OwningOpRef<ModuleOp> kernels = ModuleOp::create(UnknownLoc::get(&context));
    emit::Kernel kernel(*kernels, name, UnknownLoc::get(&context));
    auto object = succeeded(emit::emitLaunch(kernel, {block, 1})) ? emit::makeSharedObject(*kernels)
                                                                  : FailureOr<std::string>();
    if (llvm::failed(object)) {
      ++failed;
      continue;
    }
    Library library(*object);
    Buffer in("f32", inputs.size()), out("f32", inputs.size());
    in.write(inputs);
    void *buffers[] = {in.data(), out.data()};
    // Rows belong to the launch: the kernel does any number of them.
    reinterpret_cast<void (*)(void *const *, const int64_t *, int64_t, int64_t)>(
        library.symbol(name))(buffers, nullptr, 0, inputs.size());
    double worst = 0, at = 0;
    auto results = out.read();
    for (size_t i = 0; i < inputs.size(); ++i) {
      double error = distance(static_cast<float>(results[i]), function.exact(inputs[i]));
      if (error > worst)
        worst = error, at = inputs[i];
    }
    (worst <= function.limit ? passed : failed)++;
    std::printf("%-24s %.2f ulp at %.9g%s\n", function.name, worst, at,
                worst <= function.limit ? "" : "  FAILED");
  }
}

} // namespace llmc::test
