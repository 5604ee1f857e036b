// What layers are made of: norms, matrices, activations, attention. Every piece
// builds at the end of @forward, under its name in the checkpoint.
#ifndef LLMC_LIB_HUGGINGFACE_LAYERS_H
#define LLMC_LIB_HUGGINGFACE_LAYERS_H

#include "lib/huggingface/Config.h"
#include "lib/huggingface/ModelBuilder.h"
#include "lib/huggingface/Rope.h"

namespace llmc::hf {

enum class Activation { GeluTanh, GeluErf, GeluQuick, Relu, ReluSquared, Silu, Tanh, Sigmoid };

// The activation that a field names; notes an unknown one.
Activation readActivation(Config &config, Config::Names names, const char *fallback);

struct Norm {
  // RmsOnePlus stores how far the scale is from one.
  enum class Kind { Layer, Rms, RmsOnePlus } kind = Kind::Layer;
  double epsilon = 1e-5;
};

// A matrix [out, in] of the checkpoint, as torch.nn.Linear has it, or rows of a fused one.
struct Linear {
  std::string name; // without ".weight"
  int64_t out = 0;  // rows that are used
  bool bias = false;
  // The rows of a fused matrix: it has `rows` in `groups` equal groups, of each
  // of which out / groups are used, from `first` on. 0: all rows are used.
  int64_t rows = 0, groups = 1, first = 0;
};

struct Attention {
  double scale = 1;
  bool causal = true;
  int64_t window = 0; // keys that a row sees, itself included; 0: all before it
  double softcap = 0; // 0: none
};

// Cosines and sines of all positions, [1, sequence, half].
struct Angles {
  mlir::Value cos, sin;
};

class Layers {
public:
  // Matrices are drawn with `deviation` where there are no weights.
  Layers(ModelBuilder &builder, int64_t batch, int64_t sequence, double deviation)
      : b_(builder), batch_(batch), sequence_(sequence), deviation_(deviation) {}

  ModelBuilder &builder() { return b_; }
  Init weight() const { return Init::normal(deviation_); }

  // "name.weight" [rows, width]; a tied one has the name of its other copy as `alias`.
  mlir::Value table(const std::string &name, int64_t rows, int64_t width,
                    const std::string &alias = "");
  mlir::Value lookUp(const std::string &name, mlir::Value table, mlir::Value ids);

  // Over the last dimension, whatever stands before it.
  mlir::Value norm(const std::string &name, mlir::Value x, const Norm &norm);

  // x [batch, sequence, in] to [batch, sequence, out], or with groups to
  // [batch, sequence, groups, out / groups].
  mlir::Value linear(const Linear &linear, mlir::Value x);

  mlir::Value activate(const std::string &name, mlir::Value x, Activation activation);

  // [batch, sequence, heads * dim] to [batch, sequence, heads, dim]
  mlir::Value splitHeads(const std::string &name, mlir::Value x, int64_t heads);
  Angles angles(const std::string &name, const Rope &rope);
  mlir::Value rotate(const std::string &name, mlir::Value x, const Angles &angles);
  // Of split heads, to [batch, sequence, heads * dim].
  mlir::Value attend(const std::string &name, mlir::Value q, mlir::Value k, mlir::Value v,
                     const Attention &attention);

  // cap * tanh(x / cap)
  mlir::Value softcap(const std::string &name, mlir::Value x, double cap);

  // The logits of every token: x times a table [vocabulary, width].
  mlir::Value project(const std::string &name, mlir::Value x, mlir::Value table);

private:
  ModelBuilder &b_;
  int64_t batch_, sequence_;
  double deviation_;

  // The used rows of "name.SUFFIX", which is [rows] or [rows, in].
  mlir::Value part(const Linear &linear, const char *suffix, llvm::ArrayRef<int64_t> rest,
                   Init init);
  mlir::Value scaleOf(const std::string &name, int64_t width, const Norm &norm);
};

} // namespace llmc::hf

#endif // LLMC_LIB_HUGGINGFACE_LAYERS_H
