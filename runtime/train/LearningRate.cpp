#include "runtime/train/LearningRate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

using namespace llmc;
using namespace llmc::runtime;
using support::error;
using support::ok;
using support::Status;
using support::text;

uint64_t runtime::decaySteps(const Options &options, uint64_t steps) {
  constexpr uint64_t kTenth = 10; // suffices according to MiniCPM
  return options.decaySteps.value_or((steps + kTenth - 1) / kTenth);
}

double runtime::learningRate(const Options &options, uint64_t step, uint64_t steps) {
  if (step < options.warmup)
    return options.lr * double(step + 1) / double(options.warmup);
  if (options.lrSchedule == LrSchedule::Constant)
    return options.lr;
  uint64_t begin = options.warmup;
  if (options.lrSchedule == LrSchedule::Wsd)
    begin = std::max(begin, steps - std::min(steps, decaySteps(options, steps)));
  if (step < begin)
    return options.lr;
  uint64_t length = steps > begin ? steps - begin : 1;
  double done = std::min(1.0, double(step - begin) / double(length));
  double left = options.lrSchedule == LrSchedule::Cosine
                    ? 0.5 * (1.0 + std::cos(std::numbers::pi * done))
                    : 1.0 - done;
  return options.minLr + (options.lr - options.minLr) * left;
}

Status runtime::checkSchedule(const Options &options, uint64_t steps) {
  if (options.lrSchedule == LrSchedule::Wsd && options.decaySteps && steps > 0 &&
      options.warmup + *options.decaySteps > steps)
    return error("--warmup ", options.warmup, " and --decay-steps ", *options.decaySteps,
                 " are more than the ", steps, " steps of the run");
  return ok();
}

std::string runtime::scheduleNote(const Options &options, uint64_t steps) {
  std::string note = text("lr ", options.lr, " ", toString(options.lrSchedule));
  if (options.lrSchedule == LrSchedule::Wsd)
    note += text(", decayed in the last ", decaySteps(options, steps), " steps");
  if (options.lrSchedule != LrSchedule::Constant)
    note += text(" to ", options.minLr);
  return note + text(", warm-up ", options.warmup);
}
