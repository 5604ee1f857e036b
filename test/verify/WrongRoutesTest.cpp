// Kernels that choose wrong experts are found in bf16, where near-ties are taken from fp64: by the check of routes,
// whether they do not choose by their scores, or their scores are wrong.
#include "lib/verify/reference/PlanChecks.h"

#include "test/support/Context.h"

#include <algorithm>
#include <gtest/gtest.h>

using namespace llmc;
using namespace llmc::verify;

namespace {

constexpr int64_t kExperts = 8;
runtime::KernelFunction sound; // the kernel that graph.route has

// Takes, of the first token, the expert after the best one.
void chooseNext(void *const *buffers, const int64_t *scalars, int64_t begin, int64_t end) {
  sound(buffers, scalars, begin, end);
  auto *routes = static_cast<int64_t *>(buffers[1]);
  if (begin == 0)
    routes[0] = (routes[0] + 1) % kExperts;
}

// Turns the scores of each token round before it chooses.
void turnScores(void *const *buffers, const int64_t *scalars, int64_t begin, int64_t end) {
  auto *scores = static_cast<float *>(buffers[0]);
  for (int64_t row = begin; row < end; ++row)
    std::reverse(scores + row * kExperts, scores + (row + 1) * kExperts);
  sound(buffers, scalars, begin, end);
}

struct Compiled {
  test::LoadedContext context;
  CompileOptions options;
  mlir::FailureOr<Subject> subject = mlir::failure();
  mlir::FailureOr<Reference> reference = mlir::failure();

  Compiled() {
    options.model = LLMC_TEST_DATA "/mixtral/config.json";
    options.dp = options.tp = options.ep = 2;
    options.sequence = 8;
    options.globalBatch = 4;
    options.precision = Precision::Bf16;
    subject = compileSubject(context, options);
    reference = makeReference(context, options, /*seed=*/1);
  }
  // Runs the plan with another kernel for routes.
  Report checked(runtime::KernelFunction kernel) {
    std::vector<runtime::KernelFunction> functions;
    for (size_t i = 0; i < subject->program->kernels.size(); ++i) {
      functions.push_back((*subject->kernels)[i]);
      if (subject->program->kernels[i]->source.starts_with("graph.route ")) {
        sound = functions.back();
        functions.back() = kernel ? kernel : sound;
      }
    }
    runtime::Kernels own = std::move(*subject->kernels);
    subject->kernels.emplace(std::move(functions));
    Report report;
    Outcome outcome;
    checkKernels(*subject, *reference, outcome, report);
    subject->kernels = std::move(own);
    return report;
  }
};

const Check &routesOf(const Report &report) {
  return *std::find_if(report.checks.begin(), report.checks.end(), [](const Check &c) { return c.name == "kernels:routes"; });
}

TEST(WrongRoutes, AreFound) {
  Compiled model;
  ASSERT_TRUE(mlir::succeeded(model.subject) && mlir::succeeded(model.reference));
  EXPECT_TRUE(model.checked(nullptr).passed());
  Report next = model.checked(chooseNext);
  ASSERT_NE(sound, nullptr) << "no kernel chooses experts";
  EXPECT_FALSE(routesOf(next).passed);
  EXPECT_NE(routesOf(next).note.find("the kernel chooses expert"), std::string::npos) << routesOf(next).note;
  Report turned = model.checked(turnScores);
  EXPECT_FALSE(routesOf(turned).passed);
  EXPECT_NE(routesOf(turned).note.find("gate, step 1, row "), std::string::npos) << routesOf(turned).note;
  EXPECT_NE(routesOf(turned).note.find("fp64 chooses expert"), std::string::npos) << routesOf(turned).note;
}

} // namespace
