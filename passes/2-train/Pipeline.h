// Builds phase 2, the passes that make a training step of a model. Tests:
// test/passes/2-train/GradientTest.cpp, UpdateTest.cpp.
#ifndef LLMC_PASSES_TRAIN_PIPELINE_H
#define LLMC_PASSES_TRAIN_PIPELINE_H

#include "mlir/Pass/PassManager.h"
#include <string>
#include <vector>

namespace llmc {

// Holds the rates of dropout by place (AddDropout), each from 0 to less than 1.
struct DropoutRates {
  double embedding = 0, attention = 0, attentionOutput = 0, mlpOutput = 0;
  bool any() const { return embedding > 0 || attention > 0 || attentionOutput > 0 || mlpOutput > 0; }
};

// Describes a pipeline: its stages (0: those of the mesh) and the chunks of each; `layers` has the layers
// of each virtual stage, or is empty.
struct DivisionOptions {
  int64_t stages = 0, chunks = 1;
  std::vector<int64_t> layers = {};
};

// Describes how experts are shared out: over so many ranks, of which each has room for `budget` times the
// average of rows; and how many rows of a row of tokens an expert takes, `capacity` times the average (0: all).
// A training balances them by an auxiliary loss with the factor `auxLoss`, and moves biases of routers by
// `biasRate` a step (0: it does not).
struct ExpertOptions {
  int64_t ranks = 1;
  double budget = 2, capacity = 0;
  double auxLoss = 0, biasRate = 0;
  bool countsLost = false; // also where no row can lack room
  bool countsDropped = false; // choices beyond capacity, which a training reports
};

struct TrainOptions {
  bool adamw = true; // else SGD without momentum
  std::string element = "f32";  // element type of weights and activations: f32, bf16 or f16
  std::string gradient = "f32"; // element type of the accumulators
  bool scaled = false;          // the loss has a scale, which the host sets
  bool skip = false;            // a step whose gradients are not finite changes nothing
  DropoutRates dropout = {};
  int64_t cp = 1;               // ranks that share out the tokens of a row
  bool ring = false;            // keys travel around them: tokens are reordered for them
  DivisionOptions division = {};
  ExpertOptions experts = {};
  bool verifies = true; // that each parameter is trained once, which only a mistake of our own can break
};

// Adds the pass that decides element types: all of the phase that an inference needs, and only if it
// shall not keep the types of its file.
void buildPrecisionPipeline(mlir::OpPassManager &pm, const std::string &element);

// Adds the pass that divides the layers over the virtual stages: what an inference needs of it.
void buildDivisionPipeline(mlir::OpPassManager &pm, const DivisionOptions &options);

// Adds the passes that limit routes, balance experts and send rows to the ranks of their experts: what an inference needs
// of them too.
void buildExpertPipeline(mlir::OpPassManager &pm, const ExpertOptions &options);

// Adds the pass that drops elements, if any rate is above 0.
void buildDropoutPipeline(mlir::OpPassManager &pm, const DropoutRates &rates);

// Adds the passes of phase 2: from @forward to @micro (loss and gradients of one micro-batch) and
// @update (one step of the optimizer).
void buildTrainPipeline(mlir::OpPassManager &pm, const TrainOptions &options);

} // namespace llmc

#endif // LLMC_PASSES_TRAIN_PIPELINE_H
