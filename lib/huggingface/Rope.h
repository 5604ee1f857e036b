// Reads the frequencies of rotary positions (Su et al., 2021) from a config.json in the form
// of transformers 4 (`rope_theta`, `rope_scaling`) or 5 (`rope_parameters`).
// Tested by test/import/Architectures.cpp.
#ifndef LLMC_LIB_HUGGINGFACE_ROPE_H
#define LLMC_LIB_HUGGINGFACE_ROPE_H

#include "lib/huggingface/Config.h"
#include "lib/options/Options.h"

namespace llmc::hf {

// Holds the frequencies: elements i and i + half of a head are rotated by the angle position *
// frequencies[i] (radians), and cos and sin are multiplied by `factor`. Elements of a head from
// 2 * half on are not rotated.
struct Rope {
  std::vector<float> frequencies;
  double factor = 1;
  AngleTables angles = AngleTables::Computed;

  int64_t half() const { return frequencies.size(); }
};

// Describes how an architecture spells its fields, and their defaults.
struct RopeFields {
  int64_t headDim = 0;
  int64_t sequence = 0; // tokens per row
  int64_t context = 0;  // longest sequence of the model
  int64_t original = 0; // the same before the context was extended; 0: context
  double theta = 10000;
  std::vector<const char *> thetaNames = {"rope_theta"};
  // Holds the default of the rotated fraction of a head, and its fields. Without names the
  // default counts: transformers does not read the field for these architectures either.
  double part = 1;
  std::vector<const char *> partNames = {};
  // Maps older names of a scaling type to the type that they mean for this architecture.
  std::vector<std::pair<const char *, const char *>> typeNames = {};
};

// Reads the object of a scaling type, which may be absent, and the fields beside it. The object
// is `rope_scaling` or `rope_parameters`, or `parameters` where kinds of layers have their own.
// Notes unknown types and bad values in `config`.
Rope readRope(Config &config, const RopeFields &fields);
Rope readRope(Config &config, std::optional<Config> parameters, const RopeFields &fields);

} // namespace llmc::hf

#endif // LLMC_LIB_HUGGINGFACE_ROPE_H
