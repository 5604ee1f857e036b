// Products of routed rows of a sound plan pass, and faults of their kernels are found.
#include "dialects/plan/Plan.h"
#include "lib/pipeline/Pipeline.h"
#include "lib/verify/kernels/Shapes.h"
#include "test/support/CommandLine.h"
#include "test/support/Context.h"

#include <gtest/gtest.h>

using namespace llmc;
using planfile::MatmulT;
using planfile::RoutingForm;
using runtime::KernelFunction;

namespace {

struct Sound {
  Sound() {
    CompileOptions options;
    options.model = test::arguments().at(1);
    options.globalBatch = 2;
    subject = verify::compileSubject(context, options);
  }
  test::LoadedContext context;
  mlir::FailureOr<verify::Subject> subject;
};
mlir::FailureOr<verify::Subject> &soundSubject() {
  static Sound sound;
  return sound.subject;
}

// Returns the first product of a form, which the plan has.
const MatmulT &productOf(const verify::Subject &subject, RoutingForm form) {
  for (const auto &procedure : subject.program->stages[0]->procedures)
    for (const auto &instruction : procedure->instructions)
      if (const MatmulT *m = instruction->body.AsMatmul(); m && m->routing && m->routing->form == form)
        return *m;
  throw std::logic_error("the plan has no such product");
}

verify::Report check(const verify::Subject &subject) {
  verify::Report report;
  verify::checkShapes(subject, 1, report);
  return report;
}

KernelFunction real = nullptr;

// Writes the last row that it is asked for half as large again.
void wrongLastRow(void *const *buffers, const int64_t *scalars, int64_t begin, int64_t end) {
  real(buffers, scalars, begin, end);
  for (int64_t j = 0; j < scalars[2]; ++j)
    static_cast<float *>(buffers[2])[(end - 1) * scalars[11] + j * scalars[12]] *= 1.5f;
}

TEST(GroupedProducts, OfASoundPlanPass) {
  ASSERT_TRUE(succeeded(soundSubject()));
  verify::Report report = check(*soundSubject());
  EXPECT_TRUE(report.passed()) << report.text();
}

TEST(GroupedProducts, AWrongKernelIsNamed) {
  ASSERT_TRUE(succeeded(soundSubject()));
  verify::Subject &subject = *soundSubject();
  for (RoutingForm form : {RoutingForm::Rows, RoutingForm::Terms}) {
    runtime::Kernels sound = *subject.kernels;
    std::vector<KernelFunction> functions;
    for (uint32_t i = 0; i < sound.size(); ++i)
      functions.push_back(sound[i]);
    uint32_t index = productOf(subject, form).fallback;
    real = std::exchange(functions[index], wrongLastRow);
    subject.kernels = runtime::Kernels(std::move(functions));
    verify::Report report = check(subject);
    EXPECT_FALSE(report.passed());
    EXPECT_NE(report.text().find("grouped product of "), std::string::npos) << report.text();
    subject.kernels = std::move(sound);
  }
}

} // namespace
