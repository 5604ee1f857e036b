// Tests that operands of every element size are drawn whole, and that what a kernel leaves
// unwritten is found.
#include "lib/verify/kernels/OperandMemory.h"
#include "lib/verify/kernels/Operands.h"

#include "lib/support/ElementType.h"
#include "mlir/IR/Builders.h"

#include <cstring>
#include <gtest/gtest.h>

using namespace llmc;
using namespace llmc::verify;

namespace {

TEST(OperandMemory, FindsEachUnwrittenElement) {
  for (uint64_t bytes : {1, 2, 4, 8})
    for (int64_t left : {0, 3, 6}) {
      ScratchMapping arena;
      OperandMemory memory(arena, {{0, 7 * bytes, bytes, /*written=*/true, /*read=*/false}});
      memory.poison();
      EXPECT_EQ(memory.firstUnwritten(0), 0);
      for (int64_t i = 0; i < 7; ++i)
        if (i != left)
          std::memset(memory[0] + uint64_t(i) * bytes, 0, bytes);
      EXPECT_EQ(memory.firstUnwritten(0), left) << bytes;
      std::memset(memory[0] + uint64_t(left) * bytes, 0, bytes);
      EXPECT_EQ(memory.firstUnwritten(0), -1) << bytes;
      EXPECT_FALSE(memory.isGuardOverwritten());
    }
}

TEST(Noise, DrawsEveryFloatType) {
  mlir::MLIRContext context;
  mlir::Builder b(&context);
  Noise noise(1);
  constexpr int64_t kCount = 9;
  std::vector<float> wanted(kCount);
  noise.drawFloats(kCount, NumberRegime::Usual, 1, 5, wanted.data());
  for (auto [type, element] :
       {std::pair<mlir::Type, support::ElementType>(b.getF64Type(), support::ElementType::F64),
        {b.getF32Type(), support::ElementType::F32},
        {b.getF16Type(), support::ElementType::F16},
        {b.getBF16Type(), support::ElementType::BF16}}) {
    uint64_t bytes = support::byteSize(element);
    std::vector<std::byte> drawn(kCount * bytes + 8, std::byte{0x5a});
    noise.draw({}, type, kCount, kCount, NumberRegime::Usual, 1, 5, drawn.data());
    for (int64_t i = 0; i < kCount; ++i)
      EXPECT_NEAR(support::readAsDouble(element, drawn.data(), size_t(i)), wanted[size_t(i)], 0.02);
    for (uint64_t i = kCount * bytes; i < drawn.size(); ++i)
      EXPECT_EQ(drawn[i], std::byte{0x5a}); // what lies behind
  }
}

} // namespace
