// Rotary positions (Su et al., 2021) as config.json files of both generations
// describe them: `rope_theta` and `rope_scaling`, or `rope_parameters`.
#ifndef LLMC_LIB_HUGGINGFACE_ROPE_H
#define LLMC_LIB_HUGGINGFACE_ROPE_H

#include "lib/huggingface/Config.h"

namespace llmc::hf {

// The pair of elements i and i + half of a head turns by position x
// frequencies[i]; cos and sin are multiplied by `factor`. Heads may be longer
// than 2 * half: the rest is not turned.
struct Rope {
  std::vector<float> frequencies;
  double factor = 1;

  int64_t half() const { return frequencies.size(); }
};

// What an architecture knows about its fields before they are read.
struct RopeFields {
  int64_t headDim = 0;
  int64_t sequence = 0; // tokens of a row
  int64_t context = 0;  // tokens that the model was made for
  int64_t original = 0; // and before its context was stretched; 0: context
  double theta = 10000;
  std::vector<const char *> thetaNames = {"rope_theta"};
  // The turned part of a head. Without names all of it is, as the fields of
  // other architectures that transformers does not read either.
  double part = 1;
  std::vector<const char *> partNames = {};
  // The older spellings of a type and what they mean here.
  std::vector<std::pair<const char *, const char *>> typeNames = {};
};

// Reads the object of the scaled types, which may be absent, or of one kind of layers
// (`parameters`), and the fields beside it.
Rope readRope(Config &config, const RopeFields &fields);
Rope readRope(Config &config, std::optional<Config> parameters, const RopeFields &fields);

} // namespace llmc::hf

#endif // LLMC_LIB_HUGGINGFACE_ROPE_H
