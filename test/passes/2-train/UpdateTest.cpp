// @update against AdamW and SGD written as loops over numbers.
#include "test/passes/2-train/Step.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace llmc::graph;

namespace llmc::test {
namespace {

struct Settings {
  double lr = 1e-2, beta1 = 0.9, beta2 = 0.95, eps = 1e-8, decay = 0.1, clip = 0;
};

using Vectors = std::map<std::string, std::vector<double>>;

// The published algorithms, one number at a time.
struct Trainer {
  Settings settings;
  bool adamw;
  Vectors weights, first, second;
  std::map<std::string, bool> decays;
  double norm = 0;
  int time = 0;

  void step(const Vectors &sums, double tokens) {
    ++time;
    double squares = 0;
    for (const auto &[name, sum] : sums)
      for (double g : sum)
        squares += (g / tokens) * (g / tokens);
    norm = std::sqrt(squares);
    double factor = 1;
    if (settings.clip > 0 && norm + 1e-6 > settings.clip)
      factor = settings.clip / (norm + 1e-6);
    for (auto &[name, values] : weights) {
      first[name].resize(values.size());
      second[name].resize(values.size());
      for (size_t i = 0; i < values.size(); ++i)
        move(values[i], first[name][i], second[name][i], sums.at(name)[i] / tokens * factor,
             decays[name] ? settings.decay : 0);
    }
  }

  void move(double &w, double &m, double &v, double g, double decay) {
    const Settings &s = settings;
    if (!adamw) {
      w -= s.lr * (g + decay * w);
      return;
    }
    m = s.beta1 * m + (1 - s.beta1) * g;
    v = s.beta2 * v + (1 - s.beta2) * g * g;
    double mean = m / (1 - std::pow(s.beta1, time)), spread = v / (1 - std::pow(s.beta2, time));
    w -= s.lr * (mean / (std::sqrt(spread) + s.eps) + decay * w);
  }
};

void setScalars(Named &named, const Settings &s, int time) {
  named["lr"] = scalar(s.lr);
  named["beta1"] = scalar(s.beta1);
  named["beta2"] = scalar(s.beta2);
  named["eps"] = scalar(s.eps);
  named["weight_decay"] = scalar(s.decay);
  named["clip"] = scalar(s.clip);
  named["bias_correction1"] = scalar(1 - std::pow(s.beta1, time));
  named["bias_correction2"] = scalar(1 - std::pow(s.beta2, time));
}

double apart(const std::vector<double> &a, const std::vector<double> &b) {
  double error = 0, size = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    error += (a[i] - b[i]) * (a[i] - b[i]);
    size += b[i] * b[i];
  }
  return std::sqrt(error) / std::max(std::sqrt(size), 1e-30);
}

void checkSteps(bool adamw, double clip) {
  Step step(decoder(1, 2));
  TrainOptions options;
  options.adamw = adamw;
  EXPECT_TRUE(step.train(options));
  Named named = step.draw(21);
  named["labels"].data[2] = -100;
  Trainer trainer{{}, adamw, {}, {}, {}, {}};
  trainer.settings.clip = clip;
  for (const std::string &name : step.states(Role::parameter)) {
    trainer.weights[name] = named[name].data;
    // Matrices and tables, by what they are in the model.
    trainer.decays[name] = name == "wte" || name == "wpe" || name[0] == 'w';
  }
  for (int time = 1; time <= 4; ++time) {
    for (const std::string &name : step.states(Role::accumulator))
      named.erase(name);
    named.erase("loss.sum");
    named.erase("tokens.sum");
    step.run("micro", named);
    Vectors sums;
    for (const auto &[name, weights] : trainer.weights)
      sums[name] = named.at(name + ".grad").data;
    double lossSum = named.at("loss.sum").data[0];
    trainer.step(sums, 4);
    setScalars(named, trainer.settings, time);
    step.run("update", named);
    EXPECT_TRUE(std::abs(named.at("loss").data[0] - lossSum / 4) < 1e-12);
    EXPECT_EQ(named.at("tokens").data[0], 4.0);
    EXPECT_TRUE(std::abs(named.at("grad_norm").data[0] - trainer.norm) < 1e-12 * trainer.norm);
    for (const auto &[name, weights] : trainer.weights) {
      double error = apart(named.at(name).data, weights);
      EXPECT_TRUE(error < 1e-12) << name + " is off by " + std::to_string(error) + " after step " +
                                        std::to_string(time);
      for (double &sum : sums[name])
        sum /= 4;
      EXPECT_TRUE(apart(named.at(name + ".grad").data, sums[name]) < 1e-12)
          << name + ".grad is not the mean gradient";
    }
  }
  // Or else the clip was not put to the test.
  EXPECT_TRUE(clip == 0 || trainer.norm > clip);
}

TEST(Update, AdamwFollowsTheAlgorithm) { checkSteps(true, 0); }
TEST(Update, AdamwClips) { checkSteps(true, 0.05); }
TEST(Update, SgdFollowsTheAlgorithm) { checkSteps(false, 0); }
TEST(Update, SgdClips) { checkSteps(false, 0.05); }
TEST(Update, AClipAboveTheNormChangesNothing) {
  Step step(decoder(1, 1));
  EXPECT_TRUE(step.train());
  Named named = step.draw(4), loose;
  step.run("micro", named);
  setScalars(named, {}, 1);
  loose = named;
  loose["clip"].data[0] = 1e6;
  step.run("update", named);
  step.run("update", loose);
  for (const std::string &name : step.states(Role::parameter))
    EXPECT_EQ(distance(named.at(name), loose.at(name)), 0.0);
}

} // namespace
} // namespace llmc::test
