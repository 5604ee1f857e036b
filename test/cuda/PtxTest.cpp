// Tests the PTX that the code generator makes of kernels of threads. There is no card to run it
// on, so it is searched for instructions that it must not contain.
#include "dialects/plan/Plan.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Parser/Parser.h"
#include "passes/6-emit/kernel/KernelEmitters.h"
#include "passes/6-emit/kernel/Kernel.h"
#include "passes/6-emit/cuda/Assembler.h"
#include "passes/6-emit/cuda/Cuda.h"
#include "passes/6-emit/cuda/KernelStats.h"
#include "passes/6-emit/simt/Simt.h"
#include "llvm/ADT/StringExtras.h"
#include <gtest/gtest.h>

using namespace mlir;
using namespace llmc;

namespace {

constexpr const char *kSoftmax = R"(
  func.func @f(%x: tensor<8x50257xf32>) -> tensor<8x50257xf32> {
    %y = graph.softmax %x : (tensor<8x50257xf32>) -> tensor<8x50257xf32>
    return %y : tensor<8x50257xf32>
  })";

// The gradient of a loss, and of the bias before it.
constexpr const char *kLoss = R"(
  func.func @f(%x: tensor<2x5x30522xf32>, %s: tensor<2x5x1xf32>)
      -> (tensor<2x5x30522xf32>, tensor<2x30522xf32>) {
    %d = graph.sub %x, %s : (tensor<2x5x30522xf32>, tensor<2x5x1xf32>) -> tensor<2x5x30522xf32>
    %p = graph.exp %d : (tensor<2x5x30522xf32>) -> tensor<2x5x30522xf32>
    %b = graph.reduce %p {kind = #graph.reduce_kind<sum>, dims = array<i64: 1>} : (tensor<2x5x30522xf32>) -> tensor<2x30522xf32>
    return %p, %b : tensor<2x5x30522xf32>, tensor<2x30522xf32>
  })";

constexpr const char *kNorm = R"(
  func.func @f(%x: tensor<8x768xf32>, %w: tensor<768xf32>, %b: tensor<768xf32>)
      -> (tensor<8x768xf32>, tensor<8xf32>, tensor<8xf32>) {
    %y, %m, %r = graph.layer_norm %x, %w, %b {eps = 1.0e-5 : f64} : (tensor<8x768xf32>, tensor<768xf32>, tensor<768xf32>) -> (tensor<8x768xf32>, tensor<8xf32>, tensor<8xf32>)
    return %y, %m, %r : tensor<8x768xf32>, tensor<8xf32>, tensor<8xf32>
  })";

constexpr const char *kMath = R"(
  func.func @f(%x: tensor<1000xf32>, %y: tensor<1000xf32>) -> tensor<1000xf32> {
    %0 = graph.tanh %x : (tensor<1000xf32>) -> tensor<1000xf32>
    %1 = graph.div %0, %y : (tensor<1000xf32>, tensor<1000xf32>) -> tensor<1000xf32>
    %2 = graph.sqrt %1 : (tensor<1000xf32>) -> tensor<1000xf32>
    %3 = graph.sin %2 : (tensor<1000xf32>) -> tensor<1000xf32>
    %4 = graph.power %3, %y : (tensor<1000xf32>, tensor<1000xf32>) -> tensor<1000xf32>
    %5 = graph.log %4 : (tensor<1000xf32>) -> tensor<1000xf32>
    %6 = graph.erf %5 : (tensor<1000xf32>) -> tensor<1000xf32>
    %7 = graph.rsqrt %6 : (tensor<1000xf32>) -> tensor<1000xf32>
    return %7 : tensor<1000xf32>
  })";

constexpr const char *kEverything = R"(
  func.func @f(%x: tensor<1000000xf32>) -> tensor<f32> {
    %y = graph.reduce %x {kind = #graph.reduce_kind<sum_squares>, dims = array<i64: 0>} : (tensor<1000000xf32>) -> tensor<f32>
    return %y : tensor<f32>
  })";

class Ptx : public testing::Test {
protected:
  Ptx() {
    context.loadDialect<func::FuncDialect, plan::PlanDialect, arith::ArithDialect,
                        math::MathDialect, scf::SCFDialect, vector::VectorDialect,
                        LLVM::LLVMDialect, gpu::GPUDialect>();
  }

  // The PTX of the kernel of `text` for `chip`.
  std::string make(const char *text, StringRef chip) {
    auto source = parseSourceString<ModuleOp>(text, ParserConfig(&context));
    OwningOpRef<ModuleOp> kernels = ModuleOp::create(UnknownLoc::get(&context));
    if (!source)
      return "";
    Block &block = (*source->getOps<func::FuncOp>().begin()).getBody().front();
    emit::Kernel kernel(*kernels, "kernel", UnknownLoc::get(&context), emit::kCudaTarget);
    if (failed(emit::emitLaunch(kernel, {block, block.getNumArguments()})) ||
        failed(emit::mapToThreads(kernel.func)))
      return "";
    auto launch = emit::ThreadLaunch::of(kernel.func);
    threads = launch->threads;
    if (failed(emit::lowerToNvvm(*kernels)))
      return "";
    figures.clear();
    auto ptx = emit::makePtx(*kernels, chip, figures);
    return succeeded(ptx) ? *ptx : "";
  }

  // Lines of `ptx` with `part` in them.
  static std::vector<std::string> lines(const std::string &ptx, StringRef part) {
    std::vector<std::string> found;
    for (StringRef line : llvm::split(ptx, '\n'))
      if (line.contains(part))
        found.push_back(line.trim().str());
    return found;
  }

  MLIRContext context;
  int64_t threads = 0;
  std::vector<emit::CudaKernelStats> figures;
};

constexpr const char *kAll[] = {kSoftmax, kLoss, kNorm, kMath, kEverything};

} // namespace

TEST_F(Ptx, IsOfTheChipAndStandsAlone) {
  for (auto [chip, version] : {std::pair("sm_80", "7.0"), {"sm_90", "7.8"}, {"sm_100", "8.6"}})
    for (const char *text : kAll) {
      std::string ptx = make(text, chip);
      EXPECT_EQ(lines(ptx, ".target"), (std::vector{".target " + std::string(chip)}));
      EXPECT_EQ(lines(ptx, ".version"), (std::vector{".version " + std::string(version)}));
      EXPECT_EQ(lines(ptx, ".reqntid"), (std::vector{".reqntid " + std::to_string(threads) + ", 1, 1"}));
      for (const char *never : {"call", ".extern", ".weak", ".func", ".local"})
        EXPECT_TRUE(lines(ptx, never).empty()) << lines(ptx, never).front();
    }
}

// The CPU rounds so, too.
TEST_F(Ptx, RoundsToNearestAndKeepsSmallNumbers) {
  for (const char *text : kAll) {
    std::string ptx = make(text, "sm_90");
    for (const char *never : {".approx", ".ftz", ".full", ".rz.f", ".sat"})
      EXPECT_TRUE(lines(ptx, never).empty()) << lines(ptx, never).front();
    // A product and a sum are fused where the emitter says so.
    for (const char *plain : {"mul.f32", "add.f32", "sub.f32", "mul.f64", "add.f64"})
      EXPECT_TRUE(lines(ptx, plain).empty()) << lines(ptx, plain).front();
  }
  std::string math = make(kMath, "sm_90");
  EXPECT_FALSE(lines(math, "div.rn.f32").empty());
  EXPECT_FALSE(lines(math, "sqrt.rn.f32").empty());
}

// Tensors may be larger than 4 GiB.
TEST_F(Ptx, AddressesHave64Bits) {
  for (const char *text : kAll)
    for (const std::string &line : lines(make(text, "sm_90"), ".global")) {
      size_t at = line.find('[');
      if (StringRef(line).starts_with(".") || at == std::string::npos)
        continue;
      EXPECT_TRUE(StringRef(line).drop_front(at + 1).starts_with("%rd") ||
                  StringRef(line).drop_front(at + 1).starts_with("kernel_"))
          << line;
    }
}

TEST_F(Ptx, RowsThatBeginAnywhereAreReadInWholeVectors) {
  make(kSoftmax, "sm_90");
  EXPECT_EQ(figures.at(0).widest, (std::vector<unsigned>{16, 16, 0, 0}));
  make(kLoss, "sm_90");
  ASSERT_EQ(figures.at(0).widest.size(), 6u);
  EXPECT_EQ(figures.at(0).widest[0], 16u);
  EXPECT_EQ(figures.at(0).widest[2], 16u);
}

// The block that comes last must see what all others wrote, and not what its own cache holds.
TEST_F(Ptx, BlocksPassTheirPartsOn) {
  for (StringRef chip : emit::kCudaChips) {
    std::string ptx = make(kEverything, chip);
    auto arrivals = lines(ptx, "atom.");
    ASSERT_EQ(arrivals.size(), 1u);
    EXPECT_TRUE(StringRef(arrivals[0]).contains("global.add.u32"))
        << arrivals[0];
    auto parts = lines(ptx, "ld.relaxed.gpu.global");
    EXPECT_EQ(parts.size(), 1u);
    EXPECT_EQ(lines(ptx, "st.relaxed.gpu.global").size(), 2u); // a part, and the count
    // Arriving comes after leaving the part, and both before reading them.
    size_t arrival = ptx.find("atom."), before = ptx.rfind("fence.acq_rel.gpu", arrival);
    size_t after = ptx.find("fence.acq_rel.gpu", arrival);
    ASSERT_TRUE(before < arrival && after != std::string::npos);
    EXPECT_LT(ptx.find("st.relaxed.gpu.global"), before);
    EXPECT_LT(after, ptx.find("ld.relaxed.gpu.global"));
  }
}

// No barrier stands where some threads of a block do not come: none is guarded.
TEST_F(Ptx, BarriersAreForAll) {
  for (const char *text : kAll)
    for (const std::string &line : lines(make(text, "sm_90"), "bar"))
      EXPECT_FALSE(StringRef(line).starts_with("@")) << line;
}

TEST_F(Ptx, AssemblesWithoutStackOrSpills) {
  auto assembler = emit::Assembler::find();
  if (!assembler) {
    llvm::consumeError(assembler.takeError());
    GTEST_SKIP() << "no CUDA assembler";
  }
  for (StringRef chip : emit::kCudaChips)
    for (const char *text : kAll) {
      std::string ptx = make(text, chip);
      auto output = (*assembler)->assemble(ptx, chip);
      ASSERT_TRUE(bool(output)) << llvm::toString(output.takeError());
      emit::CudaKernelStats &kernel = figures.at(0);
      ASSERT_TRUE(emit::readAssemblerLog(output->log, kernel));
      EXPECT_EQ(kernel.stack + kernel.spillLoads + kernel.spillStores, 0u);
      EXPECT_LE(kernel.registers * threads, 65536u);
      EXPECT_LE(kernel.shared, 48u << 10);
    }
}
