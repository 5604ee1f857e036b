// Tests the conversions between float32 and the low types through kernels, bit for bit.
#include "KernelTest.h"

#include "Memory.h"
#include "lib/support/ElementType.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "passes/6-emit/Emit.h"
#include "passes/6-emit/kernel/KernelEmitters.h"
#include "test/support/Names.h"

#include <bit>
#include <cmath>
#include <memory>

using namespace mlir;

namespace llmc::test {
namespace {

// Runs a cast of vectors of any length.
class CastKernel {
public:
  CastKernel(const emit::KernelTarget &target, const std::string &from, const std::string &to) {
    std::string in = "tensor<8x" + from + ">", out = "tensor<8x" + to + ">";
    auto module = parseSourceString<ModuleOp>(
        "func.func @f(%a: " + in + ") -> " + out + " { %r = graph.cast %a : (" + in + ") -> " + out +
            "\n return %r : " + out + " }",
        ParserConfig(&context()));
    Block &block = (*module->getOps<func::FuncOp>().begin()).getBody().front();
    OwningOpRef<ModuleOp> kernels = ModuleOp::create(UnknownLoc::get(&context()));
    emit::Kernel kernel(*kernels, "cast", UnknownLoc::get(&context()), target);
    if (failed(emit::emitLaunch(kernel, {block, 1})))
      return;
    if (auto object = emit::makeSharedObject(*kernels, target); succeeded(object)) {
      library = std::make_unique<Library>(*object);
      function = reinterpret_cast<Function>(library->symbol("cast"));
    }
  }
  // Casts the elements at `from`; returns false if there is no kernel.
  bool run(const void *from, void *to, int64_t count) const {
    if (!function)
      return false;
    const void *buffers[] = {from, to};
    function(const_cast<void *const *>(buffers), &count, 0, count);
    return true;
  }

private:
  using Function = void (*)(void *const *, const int64_t *, int64_t, int64_t);
  std::unique_ptr<Library> library;
  Function function = nullptr;
};

uint16_t narrowed(const std::string &type, float value) {
  return type == "bf16" ? support::floatToBfloat(value) : support::floatToHalf(value);
}
float widened(const std::string &type, uint16_t bits) {
  return type == "bf16" ? support::bfloatToFloat(bits) : support::halfToFloat(bits);
}

// Draws floats of all exponents around the places where rounding changes: the middle between two
// low numbers, one float32 to either side of it, and the low numbers themselves.
std::vector<float> boundaries(const std::string &type) {
  std::vector<float> values{0.0f, -0.0f, INFINITY, -INFINITY, NAN, -NAN, 65504.0f, 65519.996f,
                            65520.0f, 3.3895314e38f, 3.3961775e38f, 3.4028235e38f};
  for (uint32_t bits = 0; bits < 0x10000; bits += 7) {
    float low = widened(type, static_cast<uint16_t>(bits)),
          next = widened(type, static_cast<uint16_t>(bits + 1));
    if (!std::isfinite(low) || !std::isfinite(next))
      continue;
    float middle = static_cast<float>((double(low) + double(next)) / 2);
    for (float x : {low, middle, std::nextafter(middle, 0.0f), std::nextafter(middle, INFINITY),
                    std::nextafter(middle, -INFINITY), std::nextafter(low, INFINITY)})
      values.push_back(x);
  }
  for (uint64_t bits = 0; bits < 0x100000000ull; bits += 65521)
    values.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  return values;
}

class Narrow : public CpuKernelTest {};

TEST_P(Narrow, WidensEveryNumber) {
  for (const std::string type : {"bf16", "f16"}) {
    std::vector<uint16_t> bits(0x10000);
    for (size_t i = 0; i < bits.size(); ++i)
      bits[i] = static_cast<uint16_t>(i);
    std::vector<float> got(bits.size());
    ASSERT_TRUE(CastKernel(*GetParam(), type, "f32").run(bits.data(), got.data(), int64_t(bits.size())));
    for (size_t i = 0; i < bits.size(); ++i) {
      float wanted = widened(type, bits[i]);
      ASSERT_TRUE(std::isnan(wanted) ? std::isnan(got[i])
                                     : std::bit_cast<uint32_t>(wanted) == std::bit_cast<uint32_t>(got[i]))
          << type << " " << i << ": " << got[i] << ", expected " << wanted;
    }
  }
}

TEST_P(Narrow, RoundsToNearestEven) {
  for (const std::string type : {"bf16", "f16"}) {
    std::vector<float> values = boundaries(type);
    std::vector<uint16_t> got(values.size());
    ASSERT_TRUE(
        CastKernel(*GetParam(), "f32", type).run(values.data(), got.data(), int64_t(values.size())));
    for (size_t i = 0; i < values.size(); ++i) {
      if (std::isnan(values[i])) {
        ASSERT_TRUE(std::isnan(widened(type, got[i]))) << type << ": a NaN became " << got[i];
        continue;
      }
      ASSERT_EQ(got[i], narrowed(type, values[i])) << type << " of " << std::hexfloat << values[i];
    }
  }
}

constexpr auto nameOfTarget = [](const auto &info) { return testName(info.param->name.str()); };
INSTANTIATE_TEST_SUITE_P(Processors, Narrow, testing::ValuesIn(cpuTargets()), nameOfTarget);

} // namespace
} // namespace llmc::test
