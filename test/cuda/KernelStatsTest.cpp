// Tests that the output of the assemblers and PTX are read back.
#include "passes/6-emit/cuda/KernelStats.h"
#include <gtest/gtest.h>

using namespace llmc::emit;
using Counts = std::map<unsigned, unsigned>;

namespace {

constexpr const char *kPtxasLog = R"(ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'first' for 'sm_90'
ptxas info    : Function properties for first
    8 bytes stack frame, 12 bytes spill stores, 24 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 8 bytes cumulative stack size, 1024 bytes smem
ptxas info    : Compile time = 3.500 ms
ptxas info    : Compiling entry function 'first_1' for 'sm_90'
ptxas info    : Function properties for first_1
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 16 registers, used 0 barriers
)";

constexpr const char *kPtx = R"(
.visible .entry first(
	.param .u64 first_param_0
)
{
	ld.param.b64 	%rd6, [first_param_0];
	ld.global.nc.v4.b32 	{%r4, %r5, %r6, %r7}, [%rd11];
$L__BB0_2:
	@%p1 ld.global.b16 	%rs1, [%rd12];
	ld.shared.v4.b32 	{%r4, %r5, %r6, %r7}, [%rd13];
	st.global.v2.b64 	[%rd12], {%rd1, %rd2};
	ret;

}
.visible .entry first_1(
	.param .u64 first_1_param_0
)
{
	ld.global.v2.f32 	{%f1, %f2}, [%rd1];
	ld.global.u8 	%rs1, [%rd1];
	ret;

}
)";

CudaKernelStats figuresOf(const char *entry) {
  CudaKernelStats figures;
  figures.entry = entry;
  return figures;
}

} // namespace

TEST(Figures, AssemblerLog) {
  CudaKernelStats first = figuresOf("first"), second = figuresOf("first_1"),
                  none = figuresOf("irst");
  ASSERT_TRUE(readAssemblerLog(kPtxasLog, first));
  EXPECT_EQ(first.registers, 255u);
  EXPECT_EQ(first.stack, 8u);
  EXPECT_EQ(first.spillStores, 12u);
  EXPECT_EQ(first.spillLoads, 24u);
  EXPECT_EQ(first.shared, 1024u);
  ASSERT_TRUE(readAssemblerLog(kPtxasLog, second));
  EXPECT_EQ(second.registers, 16u);
  EXPECT_EQ(second.spillStores + second.spillLoads + second.stack + second.shared, 0u);
  EXPECT_FALSE(readAssemblerLog(kPtxasLog, none));
  EXPECT_FALSE(readAssemblerLog("", first));
  EXPECT_FALSE(readAssemblerLog("Compiling entry function 'first' for 'sm_90'\n", first));
}

TEST(Figures, Accesses) {
  CudaKernelStats first = figuresOf("first"), second = figuresOf("first_1"),
                  none = figuresOf("irst");
  readAccesses(kPtx, first);
  EXPECT_EQ(first.loads, (Counts{{16, 1}, {2, 1}}));
  EXPECT_EQ(first.stores, (Counts{{16, 1}}));
  readAccesses(kPtx, second);
  EXPECT_EQ(second.loads, (Counts{{8, 1}, {1, 1}}));
  EXPECT_TRUE(second.stores.empty());
  readAccesses(kPtx, none);
  EXPECT_TRUE(none.loads.empty());
}
