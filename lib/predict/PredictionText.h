// Writes a prediction for people and for scripts. Tests: test/predict.
#ifndef LLMC_LIB_PREDICT_PREDICTIONTEXT_H
#define LLMC_LIB_PREDICT_PREDICTIONTEXT_H

#include "lib/predict/Predict.h"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace llmc::predict {

// Returns the object of llmc plan --json: model {name, parameters, active_parameters, layers}, chosen {mesh
// {dp, pp, tp, cp, ep, etp}, virtual_stages, micro_batch, micro_batches, schedule, zero, sequence_parallel, recompute,
// precision, step_time_s, simulated_step_s (null, and not_simulated says why, where the plan was not simulated), tokens_per_s_per_gpu, tflops_per_gpu, mfu, hfu, bubble_fraction, time_s (parts that sum to
// step_time_s; exposed seconds), memory_bytes (of the worst stage; parts that sum to peak), traffic [{stage, axis, kind, phase, bytes, calls}] (of one rank and step,
// without data-parallel ranks and messages between stages)}, alternatives, rejected,
// search {candidates, seconds}.
nlohmann::json predictionJson(const Prediction &prediction);

// Returns the same as a table: time and memory by what they are spent on, and the three largest costs in words.
std::string predictionText(const Prediction &prediction);

// Returns the parts of a step, each by its name, in the order of printing.
std::vector<std::pair<std::string, double>> partsOf(const cost::TimeParts &parts);

// Returns the sizes of a mesh by the names of its axes.
nlohmann::json meshJson(planfile::MeshSizes mesh);

// Returns why a run does not fit; empty if it does.
std::string lackOfMemory(const Prediction &prediction);

} // namespace llmc::predict

#endif // LLMC_LIB_PREDICT_PREDICTIONTEXT_H
