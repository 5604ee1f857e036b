// Builds the pieces of layers: norms, matrices, activations, attention. Each function appends
// ops to @forward, with locations that carry the module's name in the checkpoint. Tests:
// test/import/Architectures.cpp (sizes), test/numerics/architectures.py (numbers).
#ifndef LLMC_LIB_HUGGINGFACE_LAYERS_H
#define LLMC_LIB_HUGGINGFACE_LAYERS_H

#include "lib/huggingface/Config.h"
#include "lib/huggingface/ModelBuilder.h"
#include "lib/huggingface/Rope.h"

namespace llmc::hf {

enum class Activation { GeluTanh, GeluErf, GeluQuick, Relu, ReluSquared, Silu, Tanh, Sigmoid };

// Returns the activation that a field names. Notes an unknown one and returns GeluTanh.
Activation readActivation(Config &config, Config::Names names, const char *fallback);

// Describes a norm.
struct Norm {
  enum class Kind { Layer, Rms } kind = Kind::Layer;
  double epsilon = 1e-5;
  bool onePlus = false;      // the checkpoint stores scale - 1
  Init start = Init::ones(); // of what the checkpoint stores as the scale
};

// Describes a matrix [out, in] of the checkpoint in the layout of torch.nn.Linear, or the rows
// of a fused matrix that one product uses.
struct Linear {
  std::string name; // without ".weight"
  int64_t out = 0;  // rows that are used
  bool bias = false;
  // Selects rows of a fused matrix: it has `rows` rows in `groups` equal groups, and out / groups
  // rows from `first` on of each group are used. 0: the matrix is not fused, all rows are used.
  int64_t rows = 0, groups = 1, first = 0;
};

// Describes an attention op.
struct Attention {
  double scale = 1;   // factor of the scores
  bool causal = true;
  int64_t window = 0; // keys per query, its own position included; 0: no limit
  double softcap = 0; // bound of the scores; 0: none
  mlir::Value sinks;  // [heads]: score of one more key, without a value, for each head; null: none
};

// Holds the cosines and sines of all positions, [1, sequence, half] each.
struct Angles {
  mlir::Value cos, sin;
};

// Builds layers for inputs of [batch, sequence, ...].
class Layers {
public:
  // Keeps a reference to `builder`. Matrices are drawn from a normal distribution with the
  // standard deviation `deviation` where there are no weights.
  Layers(ModelBuilder &builder, int64_t batch, int64_t sequence, double deviation)
      : b_(builder), batch_(batch), sequence_(sequence), deviation_(deviation) {}

  ModelBuilder &builder() { return b_; }
  Init weight() const { return Init::normal(deviation_); }

  // Declares and returns the parameter "name.weight" [rows, width]. `alias` is the name of the
  // tied copy that checkpoints may hold too, "" without one.
  mlir::Value table(const std::string &name, int64_t rows, int64_t width,
                    const std::string &alias = "");
  mlir::Value lookUp(const std::string &name, mlir::Value table, mlir::Value ids);

  // Normalizes the last dim of `x`, of any rank, and declares the norm's parameters.
  mlir::Value norm(const std::string &name, mlir::Value x, const Norm &norm);

  // Maps x [batch, sequence, in] to [batch, sequence, out], or if linear.groups > 1 to
  // [batch, sequence, groups, out / groups], and declares the parameters.
  mlir::Value linear(const Linear &linear, mlir::Value x);

  mlir::Value activate(const std::string &name, mlir::Value x, Activation activation);

  // Reshapes [batch, sequence, heads * dim] to [batch, sequence, heads, dim].
  mlir::Value splitHeads(const std::string &name, mlir::Value x, int64_t heads);
  Angles angles(const std::string &name, const Rope &rope);
  mlir::Value rotate(const std::string &name, mlir::Value x, const Angles &angles, bool interleaved = false);
  // Builds attention on q [batch, sequence, heads, dim] and k, v [batch, sequence, kv heads, dim],
  // and merges the heads of the result to [batch, sequence, heads * dim]. The heads of v may have
  // another size, which is then that of the result's.
  mlir::Value attend(const std::string &name, mlir::Value q, mlir::Value k, mlir::Value v,
                     const Attention &attention);

  // Bounds x smoothly: cap * tanh(x / cap).
  mlir::Value softcap(const std::string &name, mlir::Value x, double cap);

  // Returns the logits [batch, sequence, vocabulary] of x [batch, sequence, width] by the table
  // [vocabulary, width].
  mlir::Value project(const std::string &name, mlir::Value x, mlir::Value table);

private:
  ModelBuilder &b_;
  int64_t batch_, sequence_;
  double deviation_;

  // Declares "name.SUFFIX", [rows] or [rows, in], and returns its used rows as a parameter.
  mlir::Value part(const Linear &linear, const char *suffix, llvm::ArrayRef<int64_t> rest,
                   Init init);
  mlir::Value scaleOf(const std::string &name, int64_t width, const Norm &norm);
};

} // namespace llmc::hf

#endif // LLMC_LIB_HUGGINGFACE_LAYERS_H
