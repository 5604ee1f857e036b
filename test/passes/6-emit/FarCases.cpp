// Rows whose elements lie further than 32 bits count, in memory that is only there where it is
// touched.
#include "KernelTest.h"
#include "Memory.h"
#include "Threads.h"

#include "mlir/Parser/Parser.h"
#include "passes/6-emit/Emit.h"
#include "passes/6-emit/kernel/KernelEmitters.h"
#include "passes/6-emit/simt/Simt.h"
#include <cmath>
#include <cstdio>
#include <sys/mman.h>

using namespace mlir;

namespace llmc::test {

namespace {

// Mapped, but not there.
struct Sparse {
  size_t bytes;
  float *data;
  explicit Sparse(int64_t elements)
      : bytes(elements * sizeof(float)),
        data(static_cast<float *>(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))) {}
  ~Sparse() {
    if (data != MAP_FAILED)
      ::munmap(data, bytes);
  }
};

struct Far {
  const char *name, *text;
  int64_t length; // of a row
  int64_t first, rows;
  bool isElements; // a row of the kernel is one element
};

} // namespace

// The last rows of a tensor of 5 * 2^29 elements and more: twice the number, and the largest
// of each row taken off.
static constexpr Far kFar[] = {
    {"flat", R"(func.func @case(%x: tensor<2700001027xf32>) -> tensor<2700001027xf32> {
      %y = graph.add %x, %x : (tensor<2700001027xf32>, tensor<2700001027xf32>) -> tensor<2700001027xf32>
      return %y : tensor<2700001027xf32>
    })",
     1, 2700000000, 1027, true},
    {"rows", R"(func.func @case(%x: tensor<54000x50257xf32>) -> tensor<54000x50257xf32> {
      %m = graph.reduce %x {kind = #graph.reduce_kind<max>, dims = array<i64: 1>} : (tensor<54000x50257xf32>) -> tensor<54000xf32>
      %c = graph.reshape %m : (tensor<54000xf32>) -> tensor<54000x1xf32>
      %y = graph.sub %x, %c : (tensor<54000x50257xf32>, tensor<54000x1xf32>) -> tensor<54000x50257xf32>
      return %y : tensor<54000x50257xf32>
    })",
     50257, 53997, 3, false}};

static std::string runFar(MLIRContext &context, const Far &far, Random &random) {
  auto source = parseSourceString<ModuleOp>(far.text, ParserConfig(&context));
  if (!source)
    return "does not parse";
  OwningOpRef<ModuleOp> kernels = ModuleOp::create(UnknownLoc::get(&context));
  Block &block = (*source->getOps<func::FuncOp>().begin()).getBody().front();
  emit::Kernel kernel(*kernels, "far", UnknownLoc::get(&context), emit::kCudaTarget);
  if (failed(emit::emitLaunch(kernel, {block, block.getNumArguments()})) ||
      failed(emit::mapToThreads(kernel.func)))
    return "has no form for threads";
  auto launch = emit::ThreadLaunch::of(kernel.func);
  askGrid(kernel.func);
  auto object = emit::makeSharedObject(*kernels, emit::kAvx2Target);
  Library library(succeeded(object) ? *object : "");
  void *symbol = library.problem.empty() ? library.symbol("far") : nullptr;
  if (!symbol)
    return "is not in the shared object " + library.problem;
  int64_t end = far.first + far.rows, begin = far.first * far.length;
  int64_t elements = far.rows * far.length;
  Sparse x(begin + elements), y(begin + elements);
  if (x.data == MAP_FAILED || y.data == MAP_FAILED) {
    std::printf("cuda    far %s: not run, no room for %zu bytes of addresses\n", far.name, x.bytes);
    return "";
  }
  std::normal_distribution<float> normal;
  for (int64_t i = 0; i < elements; ++i)
    x.data[begin + i] = normal(random);
  std::vector<int64_t> scalars(kernel.extents.begin(), kernel.extents.end());
  std::string problem =
      runGrid(reinterpret_cast<KernelFunction>(symbol), {x.data, y.data}, scalars, far.first, end,
              launch->threads, 2, random);
  for (int64_t row = 0; row < elements; row += far.length) {
    const float *in = x.data + begin + row, *out = y.data + begin + row;
    float shift = far.isElements ? -in[0] : *std::max_element(in, in + far.length);
    for (int64_t i = 0; i < far.length; ++i)
      if (out[i] != in[i] - shift)
        return problem + "is wrong at element " + std::to_string(row + i);
  }
  return problem;
}

class FarRows : public testing::TestWithParam<Far> {};

TEST_P(FarRows, AreComputed) {
  Random random(11);
  EXPECT_EQ(runFar(context(), GetParam(), random), "") << "far " << GetParam().name;
}

INSTANTIATE_TEST_SUITE_P(Threads, FarRows, testing::ValuesIn(kFar),
                         [](const auto &info) { return std::string(info.param.name); });

} // namespace llmc::test
