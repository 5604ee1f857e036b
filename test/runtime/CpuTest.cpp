// Tests which kernels a processor gets, and that its speed is measured.
#include "lib/planfile/Payload.h"
#include "lib/support/File.h"
#include "runtime/compute/Cpu.h"
#include "runtime/compute/Kernels.h"
#include "runtime/compute/MachineSpeed.h"

#include <filesystem>
#include <gtest/gtest.h>

using namespace llmc;
using namespace llmc::runtime;

namespace {

CpuFeatures featuresOf(std::string_view version) {
  CpuFeatures features;
  for (const CpuVersion &one : cpuVersions())
    if (one.name == version)
      features.insert(one.needs.begin(), one.needs.end());
  return features;
}

// Figures of any machine that runs tests: more than a megabyte and a megaflop in a second.
TEST(Cpu, SpeedIsMeasured) {
  MachineSpeed speed = measureMachineSpeed(1);
  EXPECT_EQ(speed.threads, 1u);
  EXPECT_GT(speed.copyBytesPerSecond, 1e6);
  EXPECT_LT(speed.copyBytesPerSecond, 1e14);
  if (speed.matmulFlopsPerSecond != 0)
    EXPECT_GT(speed.matmulFlopsPerSecond, 1e6);
}

TEST(Cpu, TakesTheBest) {
  EXPECT_EQ(*chooseCpu(featuresOf("avx2"), ""), "avx2");
  EXPECT_EQ(*chooseCpu(featuresOf("avx512"), ""), "avx512");
  EXPECT_EQ(*chooseCpu(featuresOf("avx512"), "avx2"), "avx2");
}

TEST(Cpu, NamesWhatAnOlderOneLacks) {
  CpuFeatures features = featuresOf("avx2");
  features.erase("fma");
  features.erase("bmi2");
  auto none = chooseCpu(features, "");
  ASSERT_FALSE(bool(none));
  EXPECT_EQ(none.message(), "this processor cannot run the avx2 kernels: it lacks bmi2, fma");
  auto forced = chooseCpu(featuresOf("avx2"), "avx512");
  ASSERT_FALSE(bool(forced));
  EXPECT_EQ(forced.message(), "this processor cannot run the avx512 kernels: it lacks avx512f, "
                              "avx512bw, avx512cd, avx512dq, avx512vl");
  EXPECT_FALSE(bool(chooseCpu(featuresOf("avx512"), "sse2")));
}

// A part of AVX-512, as some processors have, is not enough.
TEST(Cpu, TakesNoPart) {
  CpuFeatures features = featuresOf("avx512");
  features.erase("avx512vl");
  EXPECT_EQ(*chooseCpu(features, ""), "avx2");
}

TEST(Cpu, ReadsThisOne) {
  CpuFeatures features = readCpuFeatures();
  EXPECT_EQ(features.contains("avx2"), bool(__builtin_cpu_supports("avx2")));
  EXPECT_EQ(features.contains("fma"), bool(__builtin_cpu_supports("fma")));
  EXPECT_EQ(features.contains("avx512vl"), bool(__builtin_cpu_supports("avx512vl")));
}

// Programs with the kernels of TestKernels.c for some processors.
class KernelSections : public testing::Test {
protected:
  support::Result<Kernels> load(std::vector<std::string> versions, std::string_view cpu) {
    auto object = support::readFile(LLMC_TEST_KERNELS);
    std::vector<planfile::Section> sections{{std::string(planfile::kPlanSection), "plan"}};
    for (const std::string &version : versions)
      sections.push_back({std::string(planfile::kKernelsPrefix) + version, *object});
    std::string path = testing::TempDir() + "llmc-sections";
    auto written = planfile::writePayload(LLMC_TEST_RUNTIME, sections, path);
    if (!written)
      return written.takeError();
    auto payload = planfile::Payload::open(path);
    std::filesystem::remove(path);
    if (!payload)
      return payload.takeError();
    planfile::ProgramT program;
    program.kernels.push_back(std::make_unique<planfile::KernelT>());
    program.kernels[0]->name = kernel;
    return Kernels::load(*payload, program, cpu);
  }
  std::string kernel = "t_micro";
};

TEST_F(KernelSections, TakesWhatIsThere) {
  if (!chooseCpu(readCpuFeatures(), ""))
    GTEST_SKIP() << "no AVX2 here";
  auto kernels = load({"avx2"}, "");
  ASSERT_TRUE(bool(kernels)) << kernels.message();
  EXPECT_EQ(kernels->note(), "avx2");
  auto both = load({"avx2", "avx512"}, "");
  ASSERT_TRUE(bool(both)) << both.message();
  EXPECT_EQ(both->note(), *chooseCpu(readCpuFeatures(), ""));
  auto forced = load({"avx2", "avx512"}, "avx2");
  ASSERT_TRUE(bool(forced)) << forced.message();
  EXPECT_EQ(forced->note(), "avx2");
}

TEST_F(KernelSections, RefusesWhatIsNot) {
  auto none = load({}, "");
  ASSERT_FALSE(bool(none));
  EXPECT_NE(none.message().find("has no section 'kernels-avx2'"), std::string::npos);
  auto missing = load({"avx512"}, "avx2");
  ASSERT_FALSE(bool(missing));
  EXPECT_NE(missing.message().find("has no section 'kernels-avx2'"), std::string::npos);
  kernel = "absent";
  auto absent = load({"avx2"}, "avx2");
  ASSERT_FALSE(bool(absent));
  EXPECT_NE(absent.message().find("kernel 'absent' is missing"), std::string::npos);
}

} // namespace
