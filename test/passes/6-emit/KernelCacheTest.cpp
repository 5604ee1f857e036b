// Tests that kernels are kept between runs: the same bytes with and without a cache, and what is
// damaged or of another processor is made again.
#include "KernelTest.h"

#include "lib/support/File.h"
#include "lib/support/OutputFile.h"
#include "mlir/Parser/Parser.h"
#include "passes/6-emit/Emit.h"
#include "passes/6-emit/kernel/KernelEmitters.h"
#include "passes/6-emit/object/KernelCache.h"

#include <cstdlib>
#include <filesystem>

using namespace mlir;
namespace fs = std::filesystem;

namespace llmc::test {
namespace {

class KernelCacheTest : public ::testing::Test {
protected:
  KernelCacheTest() {
    std::string path = (fs::temp_directory_path() / "llmc-kernel-cache-XXXXXX").string();
    folder = mkdtemp(path.data());
  }
  ~KernelCacheTest() override {
    unsetenv("LLMC_KERNEL_CACHE");
    fs::remove_all(folder);
  }

  // Compiles kernels that add and multiply, of which one reads a table.
  std::string compile(const emit::KernelTarget &target = emit::kAvx2Target) {
    OwningOpRef<ModuleOp> kernels = ModuleOp::create(UnknownLoc::get(&context()));
    for (auto [name, op] : {std::pair("add", "graph.add %a, %a"), std::pair("scale", "graph.mul %a, %t")}) {
      auto module = parseSourceString<ModuleOp>(
          std::string("func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {\n"
                      "%t = graph.constant dense<[1.5, 2.5, 3.5, 4.5]> : tensor<4xf32>\n%r = ") +
              op + " : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>\nreturn %r : tensor<4xf32> }",
          ParserConfig(&context()));
      Block &block = (*module->getOps<func::FuncOp>().begin()).getBody().front();
      emit::Kernel kernel(*kernels, name, UnknownLoc::get(&context()), target);
      EXPECT_TRUE(succeeded(emit::emitLaunch(kernel, {block, 1})));
    }
    auto object = emit::makeSharedObject(*kernels, target);
    return succeeded(object) ? *object : "";
  }

  std::vector<fs::path> kept() const {
    std::vector<fs::path> files;
    for (const auto &entry : fs::directory_iterator(folder))
      if (entry.path().filename().string().starts_with("llvmcache-"))
        files.push_back(entry.path());
    return files;
  }

  std::string folder;
};

TEST_F(KernelCacheTest, KeepsEachKernelOnceAndChangesNoByte) {
  std::string without = compile();
  ASSERT_FALSE(without.empty());
  setenv("LLMC_KERNEL_CACHE", folder.c_str(), 1);
  EXPECT_EQ(compile(), without);
  EXPECT_EQ(kept().size(), 2u);
  EXPECT_EQ(compile(), without);
  EXPECT_EQ(kept().size(), 2u);
}

TEST_F(KernelCacheTest, IsReadWhereItHasAKernel) {
  emit::KernelCache cache(folder);
  cache.keep("key", "object");
  EXPECT_EQ(cache.find("key"), "object");
  EXPECT_EQ(cache.find("other"), std::nullopt);
  // A file under the name of another key is not taken for that key.
  fs::copy_file(kept()[0], fs::path(folder) / "llvmcache-other");
  EXPECT_EQ(cache.find("other"), std::nullopt);
}

TEST_F(KernelCacheTest, MakesDamagedKernelsAgain) {
  std::string without = compile();
  setenv("LLMC_KERNEL_CACHE", folder.c_str(), 1);
  compile();
  for (size_t cut : {size_t(0), size_t(10), size_t(40)}) {
    for (const fs::path &path : kept()) {
      std::string bytes = *support::readFile(path.string());
      bytes.resize(bytes.size() - cut);
      bytes.back() ^= 1;
      ASSERT_TRUE(bool(support::writeFile(path.string(), bytes)));
    }
    EXPECT_EQ(compile(), without);
  }
  for (const fs::path &path : kept())
    fs::resize_file(path, 0);
  EXPECT_EQ(compile(), without);
}

TEST_F(KernelCacheTest, TellsProcessorsApart) {
  std::string other = compile(emit::kAvx512Target);
  setenv("LLMC_KERNEL_CACHE", folder.c_str(), 1);
  EXPECT_NE(compile(), other);
  EXPECT_EQ(compile(emit::kAvx512Target), other);
  EXPECT_EQ(kept().size(), 4u);
}

TEST_F(KernelCacheTest, DoesWithoutAFolderThatCannotBeMade) {
  std::string without = compile(), file = folder + "/file";
  ASSERT_TRUE(bool(support::writeFile(file, "x")));
  setenv("LLMC_KERNEL_CACHE", (file + "/below").c_str(), 1);
  EXPECT_EQ(compile(), without);
}

} // namespace
} // namespace llmc::test
