// A decoder of today in one description: tokens, layers of attention and MLP
// around a residual stream, a norm, a head. An architecture's file says in what
// it differs from Llama.
#ifndef LLMC_LIB_HUGGINGFACE_DECODER_H
#define LLMC_LIB_HUGGINGFACE_DECODER_H

#include "lib/huggingface/Architecture.h"
#include "lib/huggingface/Layers.h"

namespace llmc::hf {

// Names in the checkpoint. Those of a layer stand behind "LAYERS.7."; a piece
// that an architecture does not have is "".
struct DecoderNames {
  std::string embedding = "model.embed_tokens", layers = "model.layers",
              finalNorm = "model.norm", head = "lm_head";
  // Norms before and after each half of a layer. Without the second of `before`, a
  // layer with a parallel residual has one norm for both halves.
  std::string beforeAttention = "input_layernorm", afterAttention,
              beforeMlp = "post_attention_layernorm", afterMlp;
  std::string attention = "self_attn", q = "q_proj", k = "k_proj", v = "v_proj", out = "o_proj";
  std::string qNorm, kNorm;
  std::string mlp = "mlp", gate = "gate_proj", up = "up_proj", down = "down_proj";
};

// How query, key and value stand in the checkpoint: in three matrices, one after the
// other in that of `q`, or one after the other in each head's rows of that of `q`.
enum class FusedQkv { No, OneAfterTheOther, InEachHead };

// What is normed of query and key: nothing, each head by itself, or all heads as one.
enum class NormedQk { No, EachHead, AllHeads };

struct DecoderLayer {
  int64_t window = 0; // as in Attention
  size_t rope = 0;    // index into Decoder::ropes
};

struct Decoder {
  int64_t vocabulary = 0, width = 0, inner = 0, heads = 0, kvHeads = 0, headDim = 0;
  int64_t context = 0, sequence = 0;
  double deviation = 0.02;
  bool tied = false;
  DecoderNames names;

  double embeddingScale = 1;
  std::vector<Rope> ropes;
  std::vector<DecoderLayer> layers;
  bool parallel = false; // attention and MLP read one residual and add to it together

  Norm norm;
  double scale = 1, softcap = 0; // of attention
  FusedQkv fusedQkv = FusedQkv::No;
  NormedQk normedQk = NormedQk::No;
  bool qkvBias = false, outBias = false;

  bool gated = true;     // down(activation(gate(x)) * up(x)), else down(activation(up(x)))
  bool fusedMlp = false; // gate, then up, in the matrix of `gate`
  bool mlpBias = false;
  Activation activation = Activation::Silu;

  bool headBias = false;
  double logitSoftcap = 0;
};

// The defaults of the fields that have another one in each architecture.
struct DecoderDefaults {
  int64_t vocabulary, width, inner, layers, heads;
  int64_t kvHeads = 0; // 0: heads
  int64_t headDim = 0; // 0: width / heads
  int64_t context = 2048;
  double epsilon = 1e-6;
  bool tied = false;
  const char *activation = "silu", *activationField = "hidden_act";
};

// Reads the fields that all have; notes sizes that do not fit. The result has
// RMS norms, the usual scale, no windows and no ropes.
Decoder readDecoder(Config &config, const CompileOptions &options,
                    const DecoderDefaults &defaults);

// The fields that all Gemmas have: norms before and after each half of a layer with scales
// stored as 1 + w, an embedding scaled by its width. Soft caps, windows and ropes are not read.
Decoder readGemma(Config &config, const CompileOptions &options, int64_t vocabulary,
                  int64_t context);

// The fields of rotary positions, with what `decoder` says about heads and context.
RopeFields ropeFields(const Decoder &decoder);

// Which layers have a window: "sliding_attention" in `layer_types`, else by `rule`.
std::vector<bool> readLayerTypes(Config &config, const Decoder &decoder,
                                 llvm::function_ref<bool(size_t layer)> rule);
void setWindows(Decoder &decoder, std::optional<int64_t> window, const std::vector<bool> &slides);
// Qwen's fields: no windows unless asked for, then from one layer on.
void readLastWindows(Config &config, Decoder &decoder);

// Empty if something was noted.
BuiltModel buildDecoder(mlir::MLIRContext &context, Config &config, const CompileOptions &options,
                        const Decoder &decoder);

} // namespace llmc::hf

#endif // LLMC_LIB_HUGGINGFACE_DECODER_H
