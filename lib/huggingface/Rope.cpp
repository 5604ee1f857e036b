// Implements the rules of transformers' modeling_rope_utils, in float as there: angles grow
// with the position, so that even a difference in the last bit of a frequency would show.
#include "lib/huggingface/Rope.h"

#include <algorithm>
#include <cmath>

using namespace llmc;
using namespace llmc::hf;

namespace {

constexpr double kPi = 3.14159265358979323846;
constexpr int64_t kLongestHead = 1 << 16;

class Reader {
public:
  Reader(Config &config, std::optional<Config> parameters, const RopeFields &fields)
      : config_(config), parameters_(std::move(parameters)), fields_(fields) {}

  Rope read() {
    theta_ = number("rope_theta", fields_.thetaNames, fields_.theta);
    dims_ = turnedDims();
    std::string type = typeName();
    Rope rope;
    rope.frequencies = plain(theta_);
    if (type == "linear")
      linear(rope);
    else if (type == "dynamic")
      dynamic(rope);
    else if (type == "yarn")
      yarn(rope);
    else if (type == "longrope")
      longrope(rope);
    else if (type == "llama3")
      llama3(rope);
    else if (type != "default")
      config_.note("the rotary positions have the type '" + type +
                   "', which is not supported: default, linear, dynamic, yarn, longrope and "
                   "llama3 are");
    if (!llvm::all_of(rope.frequencies, [](float f) { return std::isfinite(f); }))
      config_.note("the fields of rotary positions give frequencies that are not finite");
    return rope;
  }

private:
  Config &config_;
  std::optional<Config> parameters_;
  const RopeFields &fields_;
  double theta_ = 0;
  int64_t dims_ = 0;

  // Reads a field of the object, under the name that transformers 5 gives it or an older one,
  // else of the config under an older one.
  double number(const char *name, const std::vector<const char *> &older, double fallback) {
    double outside = config_.positiveNumber(older, fallback);
    std::vector<const char *> names = {name};
    names.insert(names.end(), older.begin(), older.end());
    return parameters_ ? parameters_->positiveNumber(names, outside) : outside;
  }

  std::string typeName() {
    std::string type =
        parameters_ ? parameters_->text({"rope_type", "type"}, "default") : "default";
    for (auto [old, now] : fields_.typeNames)
      if (type == old)
        return now;
    return type;
  }

  int64_t turnedDims() {
    double part = fields_.partNames.empty()
                      ? fields_.part
                      : number("partial_rotary_factor", fields_.partNames, fields_.part);
    int64_t dims = part <= 1 ? static_cast<int64_t>(fields_.headDim * part) : 0;
    if (dims >= 1 && (dims + 1) / 2 * 2 <= fields_.headDim && fields_.headDim <= kLongestHead)
      return dims;
    config_.note("rotary positions cannot turn " + std::to_string(part) + " of a head of " +
                 std::to_string(fields_.headDim) + " elements: whole pairs of at most " +
                 std::to_string(kLongestHead) + " elements are turned");
    return 2;
  }

  int64_t half() const { return (dims_ + 1) / 2; }

  // Returns theta ^ (2i / dims) for each pair i: the inverse of its frequency.
  std::vector<float> wavelengths(double theta) const {
    std::vector<float> out(half());
    for (int64_t i = 0; i < half(); ++i)
      out[i] = std::pow(static_cast<float>(theta),
                        static_cast<float>(2 * i) / static_cast<float>(dims_));
    return out;
  }
  std::vector<float> plain(double theta) const {
    std::vector<float> out = wavelengths(theta);
    for (float &f : out)
      f = 1.0f / f;
    return out;
  }

  double required(const char *name) {
    if (!parameters_->has(name))
      config_.note(parameters_->quoted(name) + " is missing, this type needs it");
    return parameters_->positiveNumber(name, 1);
  }
  // Returns the context before it was extended: phi3 has the field outside of the object.
  double originalContext() {
    double inside = parameters_->positiveNumber("original_max_position_embeddings",
                                                fields_.context);
    return config_.positiveNumber("original_max_position_embeddings",
                                  fields_.original ? fields_.original : inside);
  }

  void linear(Rope &rope) {
    float factor = required("factor");
    for (float &f : rope.frequencies)
      f /= factor;
  }

  // Increases theta for sequences that are longer than the context (dynamic NTK scaling).
  void dynamic(Rope &rope) {
    double factor = required("factor"), stretch = double(fields_.sequence) / fields_.context;
    if (stretch > 1 && dims_ > 2)
      rope.frequencies = plain(theta_ * std::pow(factor * stretch - (factor - 1),
                                                 double(dims_) / double(dims_ - 2)));
  }

  static double yarnScale(double factor, double weight) {
    return factor <= 1 ? 1 : 0.1 * weight * std::log(factor) + 1;
  }

  // Keeps high frequencies, divides low ones by the factor, and blends the two along a linear
  // ramp between (YaRN; Peng et al., 2023).
  void yarn(Rope &rope) {
    double original = originalContext();
    double factor = parameters_->positiveNumber("factor", fields_.context / original);
    double fast = parameters_->positiveNumber("beta_fast", 32);
    double slow = parameters_->positiveNumber("beta_slow", 1);
    auto dimOf = [&](double turns) {
      return dims_ * std::log(original / (turns * 2 * kPi)) / (2 * std::log(theta_));
    };
    double low = dimOf(fast), high = dimOf(slow);
    if (parameters_->flag("truncate", true)) {
      low = std::floor(low);
      high = std::ceil(high);
    }
    low = std::max(low, 0.0);
    high = std::min(high, double(dims_ - 1));
    if (low == high)
      high += 0.001;
    std::vector<float> waves = wavelengths(theta_);
    for (int64_t i = 0; i < half(); ++i) {
      float ramp = std::clamp((float(i) - float(low)) / float(high - low), 0.0f, 1.0f);
      float stays = 1.0f - ramp;
      rope.frequencies[i] =
          1.0f / (float(factor) * waves[i]) * (1.0f - stays) + 1.0f / waves[i] * stays;
    }
    double weight = parameters_->positiveNumber("mscale", 0);
    double allWeight = parameters_->positiveNumber("mscale_all_dim", 0);
    rope.factor = weight > 0 && allWeight > 0
                      ? yarnScale(factor, weight) / yarnScale(factor, allWeight)
                      : yarnScale(factor, 1);
    rope.factor = parameters_->positiveNumber("attention_factor", rope.factor);
  }

  // Divides each frequency by a divisor of its own: the short ones for sequences up to the
  // original context, the long ones beyond it (LongRoPE; Ding et al., 2024).
  void longrope(Rope &rope) {
    double original = originalContext();
    double factor = parameters_->positiveNumber("factor", fields_.context / original);
    const char *name = fields_.sequence > original ? "long_factor" : "short_factor";
    std::vector<double> divisors = parameters_->numbers(name);
    if (static_cast<int64_t>(divisors.size()) != half()) {
      config_.note(parameters_->quoted(name) + " has " + std::to_string(divisors.size()) +
                   " numbers, expected " + std::to_string(half()) +
                   ", one for each pair of turned elements");
      return;
    }
    std::vector<float> waves = wavelengths(theta_);
    for (int64_t i = 0; i < half(); ++i)
      rope.frequencies[i] = 1.0f / (float(divisors[i]) * waves[i]);
    rope.factor = factor <= 1 ? 1 : std::sqrt(1 + std::log(factor) / std::log(original));
    rope.factor = parameters_->positiveNumber("attention_factor", rope.factor);
  }

  // Divides frequencies by the factor if their wavelength exceeds original / low, keeps them if
  // it is below original / high, and blends the two between (Llama 3).
  void llama3(Rope &rope) {
    double original = originalContext();
    float factor = required("factor");
    double low = required("low_freq_factor"), high = required("high_freq_factor");
    if (high <= low)
      config_.note(parameters_->quoted("high_freq_factor") + " must be above \"low_freq_factor\"");
    for (float &f : rope.frequencies) {
      float wave = float(2 * kPi) / f;
      if (wave > float(original / low)) {
        f /= factor;
      } else if (wave >= float(original / high)) {
        float smooth = (float(original) / wave - float(low)) / float(high - low);
        f = (1.0f - smooth) * f / factor + smooth * f;
      }
    }
  }
};

} // namespace

Rope hf::readRope(Config &config, std::optional<Config> parameters, const RopeFields &fields) {
  return Reader(config, std::move(parameters), fields).read();
}

Rope hf::readRope(Config &config, const RopeFields &fields) {
  std::optional<Config> parameters = config.object({"rope_scaling", "rope_parameters"});
  for (const char *kind : {"full_attention", "sliding_attention"})
    if (parameters && parameters->has(kind))
      config.note(parameters->quoted(kind) + " is not supported: all layers of this architecture "
                                             "turn alike");
  return readRope(config, std::move(parameters), fields);
}
