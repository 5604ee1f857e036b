// Predicts a training run before it is compiled: reads the model, partitions one layer of each kind for the mesh as
// compile would, and prices what is there. Tests: test/predict.
#ifndef LLMC_LIB_PREDICT_PREDICT_H
#define LLMC_LIB_PREDICT_PREDICT_H

#include "lib/cost/Memory.h"
#include "lib/cost/Step.h"
#include "lib/options/Options.h"
#include "lib/predict/RaisedModels.h"
#include "lib/predict/Workspace.h"

#include <map>
#include <memory>
#include <optional>
#include <string>

namespace llmc::predict {

// Holds the seconds of a step whose instructions were simulated, or why they were not.
struct Simulated {
  std::optional<double> step;
  std::string whyNot;
};

// Holds a prediction, and what it was made of.
struct Prediction {
  std::string model;
  double parameters = 0, activeParameters = 0;
  cost::Table table;
  cost::Machine machine;
  bool choosesRecompute = false; // what is recomputed is the least that fits
  std::map<cost::Kept, cost::Table> tables; // of our own plans: for each choice of what is recomputed that is open
  std::shared_ptr<const WorkspacePlan> workspace; // of our own plans
  cost::StepTime time;
  Simulated simulated;
  std::vector<cost::MemoryParts> memory; // of each stage
  double processPeak = 0; // bytes of the process that has all ranks, on processors that were measured
};

// Returns the table of options.model for the mesh of `machine`'s choices, and completes these by what the model says
// (tokens of a row). Nullopt after diagnostics: of the model, or of a mesh that does not fit it.
std::optional<Prediction> readPrediction(RaisedModels &models, const CompileOptions &options,
                                         const cost::Machine &machine, bool choosesRecompute);

// Sets time and memory by the table and the machine. False after diagnostics: of a plan that cannot be scheduled.
bool price(Prediction &prediction);

} // namespace llmc::predict

#endif // LLMC_LIB_PREDICT_PREDICT_H
