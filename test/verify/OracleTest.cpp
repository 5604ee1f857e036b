// The model's own file beside its plan: it agrees, and a reader's fault is found.
#include "lib/verify/Verify.h"

#include "dialects/graph/Graph.h"
#include "lib/pipeline/Pipeline.h"
#include "mlir/IR/Diagnostics.h"
#include "test/support/Context.h"

#include <cstdlib>
#include <gtest/gtest.h>

using namespace llmc;

namespace {

constexpr const char *kNoPython =
    "LLMC_ORACLE_PYTHON names no Python with PyTorch; scripts/test.sh --full makes one";

std::string python() {
  const char *found = std::getenv("LLMC_ORACLE_PYTHON");
  return found ? found : "";
}

struct Verified {
  bool ran = false;
  verify::Report report;
  std::string message;

  // Names of the checks that failed, of those that begin with `prefix`.
  std::vector<std::string> failed(const std::string &prefix) const {
    std::vector<std::string> names;
    for (const verify::Check &check : report.checks)
      if (!check.passed && check.name.rfind(prefix, 0) == 0)
        names.push_back(check.name);
    return names;
  }
  size_t count(const std::string &prefix) const {
    return llvm::count_if(report.checks,
                          [&](const auto &check) { return check.name.rfind(prefix, 0) == 0; });
  }
};

Verified verified(const std::string &model, const std::string &python,
                  std::function<void(Phase, mlir::Operation *)> afterPhase = {},
                  bool infer = false) {
  test::LoadedContext context;
  Verified out;
  mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error)
      out.message += diagnostic.str();
  });
  verify::VerifyOptions options;
  options.compile.model = LLMC_TEST_DATA "/" + model;
  options.compile.dp = options.compile.tp = 2;
  options.compile.infer = infer;
  if (infer)
    options.compile.dims = {{"batch", 2}, {"sequence", 5}};
  else
    options.compile.sequence = 8, options.compile.globalBatch = 4;
  options.compile.afterPhase = std::move(afterPhase);
  options.oracle = python;
  auto report = verify::verifyModel(context, options);
  if ((out.ran = succeeded(report)))
    out.report = std::move(*report);
  return out;
}

// Attention's scale off by a twentieth, as the reader leaves it.
void changeScale(Phase phase, mlir::Operation *module) {
  if (phase != Phase::Import)
    return;
  module->walk([](graph::AttentionOp op) {
    mlir::OpBuilder builder(op);
    op.setScaleAttr(builder.getF64FloatAttr(op.getScale().convertToDouble() * 1.05));
  });
}

class OwnFile : public testing::TestWithParam<const char *> {};

TEST_P(OwnFile, AgreesInTraining) {
  if (python().empty())
    GTEST_SKIP() << kNoPython;
  Verified got = verified(GetParam(), python());
  ASSERT_TRUE(got.ran) << got.message;
  EXPECT_TRUE(got.report.passed()) << got.report.text();
  EXPECT_GE(got.count("oracle:"), 3u) << got.report.text();
}

TEST_P(OwnFile, AgreesInARun) {
  if (python().empty())
    GTEST_SKIP() << kNoPython;
  Verified got = verified(GetParam(), python(), {}, true);
  ASSERT_TRUE(got.ran) << got.message;
  EXPECT_TRUE(got.report.passed()) << got.report.text();
  EXPECT_EQ(got.count("oracle:"), 1u) << got.report.text();
}

INSTANTIATE_TEST_SUITE_P(Oracle, OwnFile,
                         testing::Values("gpt2-tiny/dynamo.onnx", "gpt2-tiny/torchscript.onnx",
                                         "gpt2-tiny/config.json"));

class ReadersFault : public testing::TestWithParam<const char *> {};

// Both sides of every other check have the fault.
TEST_P(ReadersFault, IsFoundByTheOracleAlone) {
  if (python().empty())
    GTEST_SKIP() << kNoPython;
  Verified got = verified(GetParam(), python(), changeScale);
  ASSERT_TRUE(got.ran) << got.message;
  std::vector<std::string> expected{"oracle:outputs", "oracle:loss", "oracle:gradients"};
  EXPECT_EQ(got.failed("oracle:"), expected) << got.report.text();
  EXPECT_EQ(got.failed("").size(), expected.size()) << got.report.text();
}

INSTANTIATE_TEST_SUITE_P(Oracle, ReadersFault,
                         testing::Values("gpt2-tiny/attention23.onnx", "gpt2-tiny/config.json"));

TEST(Oracle, SaysWhatAPythonLacks) {
  Verified got = verified("gpt2-tiny/dynamo.onnx", "/usr/bin/python3 -no-such-python");
  EXPECT_FALSE(got.ran);
  EXPECT_NE(got.message.find("there is no such program"), std::string::npos) << got.message;
  // Debian's Python sees no packages of others.
  unsetenv("PYTHONPATH");
  setenv("PYTHONNOUSERSITE", "1", 1);
  got = verified("gpt2-tiny/config.json", "/usr/bin/python3");
  EXPECT_FALSE(got.ran);
  EXPECT_NE(got.message.find("lacks"), std::string::npos) << got.message;
  EXPECT_NE(got.message.find("pip install"), std::string::npos) << got.message;
}

} // namespace
