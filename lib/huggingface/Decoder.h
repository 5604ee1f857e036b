// Describes decoder-only transformers and builds them: an embedding, layers of attention and
// MLP around a residual stream, a final norm, a head. The defaults are those of Llama; an
// architecture's file sets what differs. Tested by test/import/Architectures.cpp.
#ifndef LLMC_LIB_HUGGINGFACE_DECODER_H
#define LLMC_LIB_HUGGINGFACE_DECODER_H

#include "lib/huggingface/Architecture.h"
#include "lib/huggingface/Latent.h"
#include "lib/huggingface/Layers.h"
#include "lib/huggingface/Mixture.h"

namespace llmc::hf {

// Holds the names of modules in the checkpoint. Those of layer 7 get the prefix "LAYERS.7."; ""
// means that the architecture does not have the module.
struct DecoderNames {
  std::string embedding = "model.embed_tokens", layers = "model.layers",
              finalNorm = "model.norm", head = "lm_head";
  // Identifies the norms before and after attention and MLP. If `beforeMlp` is "", a layer with
  // a parallel residual feeds the result of the norm before attention to both.
  std::string beforeAttention = "input_layernorm", afterAttention,
              beforeMlp = "post_attention_layernorm", afterMlp;
  std::string attention = "self_attn", q = "q_proj", k = "k_proj", v = "v_proj", out = "o_proj";
  std::string qNorm, kNorm;
  std::string sinks; // of attention
  std::string mlp = "mlp", gate = "gate_proj", up = "up_proj", down = "down_proj";
};

// Identifies the layout of query, key and value in the checkpoint: three matrices, the three
// stacked along the rows of `q`, or the three stacked within each head's rows of `q`.
enum class FusedQkv { No, OneAfterTheOther, InEachHead };

// Identifies the norm of query and key: none, over each head, or over all heads together.
enum class NormedQk { No, EachHead, AllHeads };

// Describes in what one layer differs from the others.
struct DecoderLayer {
  int64_t window = 0; // keys per query, as in Attention; 0: no window
  size_t rope = 0;    // index into Decoder::ropes
  bool sparse = false; // its MLP is Decoder::mixture

  bool operator==(const DecoderLayer &) const = default;
};

// Describes a decoder, as the file of an architecture fills it in.
struct Decoder {
  int64_t vocabulary = 0, width = 0, inner = 0, heads = 0, kvHeads = 0, headDim = 0;
  int64_t context = 0, sequence = 0;
  double deviation = 0.02;
  bool tied = false;
  DecoderNames names;

  double embeddingScale = 1;
  std::vector<Rope> ropes;
  std::vector<DecoderLayer> layers;
  bool parallel = false; // attention and MLP read the same residual, both are added to it

  Norm norm;
  double scale = 1, softcap = 0; // of attention
  FusedQkv fusedQkv = FusedQkv::No;
  NormedQk normedQk = NormedQk::No;
  bool qkvBias = false, outBias = false;

  bool gated = true;     // down(activation(gate(x)) * up(x)), else down(activation(up(x)))
  bool fusedMlp = false; // gate, then up, in the matrix of `gate`
  bool mlpBias = false;
  Activation activation = Activation::Silu;

  Mixture mixture;         // of the layers that are sparse
  int64_t sharedInner = 0; // width of the expert that all tokens take; 0: there is none
  std::string shared;      // its name
  std::string sharedGate;  // of what scales its result by a sigmoid; "": nothing does
  std::optional<LatentAttention> latent; // in place of the attention of query, key and value

  bool headBias = false;
  double logitSoftcap = 0;
};

// Holds the defaults of those fields whose default differs between architectures.
struct DecoderDefaults {
  int64_t vocabulary, width, inner, layers, heads;
  int64_t kvHeads = 0; // 0: heads
  int64_t headDim = 0; // 0: width / heads
  int64_t context = 2048;
  double epsilon = 1e-6, deviation = 0.02;
  bool tied = false;
  const char *activation = "silu", *activationField = "hidden_act";
};

// Reads the fields that all decoders share; notes in `config` sizes that are inconsistent. The
// result has RMS norms, the scale 1 / sqrt(headDim), no windows and no ropes.
Decoder readDecoder(Config &config, const CompileOptions &options,
                    const DecoderDefaults &defaults);

// Reads the fields that Gemma 2 and 3 share: norms before and after attention and MLP whose
// scale is 1 + the stored w, an embedding scaled by sqrt(width). Leaves soft caps, windows and
// ropes to the caller.
Decoder readGemma(Config &config, const CompileOptions &options, int64_t vocabulary,
                  int64_t context);

// Returns fields of rotary positions with the head size, sequence and context of `decoder`.
RopeFields ropeFields(const Decoder &decoder);

// Returns for each layer whether it has a window: "sliding_attention" in `layer_types`, or
// `rule` for layers that the list lacks. Notes a list of another length and unknown types.
std::vector<bool> readLayerTypes(Config &config, const Decoder &decoder,
                                 llvm::function_ref<bool(size_t layer)> rule);
// Sets the window of the layers in `slides`; does nothing without a window, or with one that
// holds the whole sequence.
void setWindows(Decoder &decoder, std::optional<int64_t> window, const std::vector<bool> &slides);
// Sets the window that the config states for the layers in `slides`, else one of `usual` tokens. Notes a config that
// states none for layers that have one, as transformers has no mask for them.
void readWindow(Config &config, Decoder &decoder, int64_t usual, const std::vector<bool> &slides);
// Reads Qwen's fields and sets the windows: none unless `use_sliding_window`, else those of
// `layer_types` or of the layers from `max_window_layers` on.
void readQwenWindows(Config &config, Decoder &decoder);

// Reads Qwen's fields and sets which layers are sparse: each `decoder_sparse_step`-th one that is not in
// `mlp_only_layers`.
void readSparseLayers(Config &config, Decoder &decoder);

// Builds the module. Returns a null one if `config` has problems.
BuiltModel buildDecoder(mlir::MLIRContext &context, Config &config, const CompileOptions &options,
                        Decoder decoder);

} // namespace llmc::hf

#endif // LLMC_LIB_HUGGINGFACE_DECODER_H
