// Makes a model of sixteen words, its training in doubles and a fixture that trains it, for TrainerTest.cpp and
// PackedTrainerTest.cpp. Its kernels are in TestKernels.c.
#ifndef LLMC_TEST_RUNTIME_TRAINEDMODEL_H
#define LLMC_TEST_RUNTIME_TRAINEDMODEL_H

#include "runtime/session/Session.h"
#include "runtime/train/Trainer.h"
#include "PlanBuilder.h"
#include "lib/support/Safetensors.h"

#include <atomic>
#include <chrono>
#include <sstream>

namespace llmc::test {

constexpr int64_t kWords = 16, kSeq = 4;
constexpr uint64_t kW = 0, kGradient = 64, kIds = 128, kLabels = 160, kLoss = 192, kCount = 196,
                   kNorm = 200, kLr = 204, kClip = 208;

// Returns the model on `dp` data-parallel ranks, with `micro` micro-batches of one row.
std::unique_ptr<ProgramT> tinyModel(uint32_t dp, uint32_t micro);

struct Reference {
  std::vector<double> words, firstGradient, losses, norms;
};

// Returns the same training in doubles.
Reference reference(std::vector<double> words, const std::vector<int64_t> &ids, const std::vector<int64_t> &labels,
                    int64_t rowsPerStep, int steps, double lr, double clip);

std::vector<double> tensor(const support::SafetensorsFile &file, const std::string &name);
void expectNear(const std::vector<double> &a, const std::vector<double> &b, double tolerance);

class Trainer : public ::testing::Test {
protected:
  Trainer();
  // Returns why the training failed, or an empty string.
  std::string train(const ProgramT &program, const std::atomic<bool> *stop = nullptr);

  TemporaryFolder folder;
  std::vector<int64_t> ids, labels;
  runtime::Options options;
  std::chrono::milliseconds patience = runtime::WeightsCheck::kPatience;
  std::ostringstream out;
};

} // namespace llmc::test

#endif // LLMC_TEST_RUNTIME_TRAINEDMODEL_H
