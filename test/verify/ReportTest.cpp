// Tests the verdict of a report, its JSON and its text, and the capture of diagnostics for notes.
#include "lib/verify/subject/DiagnosticCapture.h"
#include "lib/verify/subject/Report.h"

#include "mlir/IR/Location.h"
#include "mlir/IR/MLIRContext.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>

using namespace llmc::verify;

namespace {

TEST(Report, PassesIfAllChecksAreWithinTheirLimits) {
  Report report;
  EXPECT_TRUE(report.add("kernels:loss", "loss", 1e-7, 1e-5));
  EXPECT_TRUE(report.passed());
  EXPECT_FALSE(report.add("kernels:gradients", "w", std::nan(""), 1e-5, "first\nsecond"));
  EXPECT_FALSE(report.passed());
  std::string text = report.text();
  EXPECT_NE(text.find("FAILED  kernels:gradients"), std::string::npos) << text;
  EXPECT_NE(text.find("          first\n          second\n"), std::string::npos) << text;
  EXPECT_NE(text.find("not equal: 1 of 2 checks fails\n"), std::string::npos) << text;
}

TEST(Report, FailsIfAMutantSurvives) {
  Report report;
  report.mutants = {{"survivors", nlohmann::json::array()}};
  EXPECT_TRUE(report.passed());
  report.mutants["survivors"].push_back("waits");
  EXPECT_FALSE(report.passed());
}

// JSON has no infinite numbers.
TEST(Report, WritesFiniteNumbers) {
  Report report;
  report.add("kernels:loss", "loss", std::nan(""), 1e-5);
  report.add("kernels:gradients", "w", std::numeric_limits<double>::infinity(), 1e-5);
  for (const auto &check : report.json()["checks"]) {
    EXPECT_EQ(check["value"], std::numeric_limits<double>::max());
    EXPECT_EQ(check["passed"], false);
  }
}

TEST(DiagnosticCapture, TakesDiagnosticsWhileItLives) {
  mlir::MLIRContext context;
  std::string outer;
  mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &diagnostic) {
    outer += diagnostic.str();
    return mlir::success();
  });
  {
    DiagnosticCapture capture(&context);
    mlir::emitError(mlir::UnknownLoc::get(&context), "one");
    mlir::emitError(mlir::UnknownLoc::get(&context), "two");
    EXPECT_EQ(capture.text, "one\ntwo\n");
  }
  EXPECT_EQ(outer, "");
  mlir::emitError(mlir::UnknownLoc::get(&context), "three");
  EXPECT_EQ(outer, "three");
}

} // namespace
