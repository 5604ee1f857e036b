#include "lib/huggingface/Latent.h"

#include <cmath>

using namespace llmc;
using namespace llmc::hf;
using namespace mlir;

// Returns the factor of the scores: longer contexts by YaRN raise it (Peng et al., 2023).
static double readScale(Config &config, int64_t headDim) {
  double scale = 1 / std::sqrt(double(headDim));
  std::optional<Config> rope = config.object({"rope_scaling", "rope_parameters"});
  if (!rope || rope->text({"rope_type", "type"}, "default") == "default" || !rope->has({"mscale_all_dim"}))
    return scale;
  double factor = rope->positiveNumber({"factor"}, 1), weight = rope->positiveNumber({"mscale_all_dim"}, 0);
  double raised = factor <= 1 ? 1 : 0.1 * weight * std::log(factor) + 1;
  return scale * raised * raised;
}

LatentAttention hf::readLatentAttention(Config &config, int64_t heads) {
  LatentAttention a;
  a.heads = heads;
  a.queryRank = config.positiveOrNull({"q_lora_rank"}, 1536).value_or(0);
  a.keyRank = config.positive({"kv_lora_rank"}, 512);
  a.nope = config.positive({"qk_nope_head_dim"}, 128);
  a.rope = config.positive({"qk_rope_head_dim"}, 64);
  a.value = config.positive({"v_head_dim"}, 128);
  a.bias = config.flag({"attention_bias"}, false);
  constexpr int64_t most = int64_t(1) << 30;
  if (int64_t dim = std::max(a.nope + a.rope, a.nope + a.value); dim > most / heads)
    config.note(std::to_string(heads) + " heads of " + std::to_string(dim) + " elements are more than " +
                std::to_string(most));
  if (int64_t groups = config.positiveOrNull({"num_key_value_heads"}, heads).value_or(heads); groups != heads)
    config.note("\"num_key_value_heads\" " + std::to_string(groups) + " must be \"num_attention_heads\" " +
                std::to_string(heads) + ": each head has keys and values of its own");
  a.scale = readScale(config, a.nope + a.rope);
  return a;
}

// Projects x to [batch, sequence, heads, out]: the rows [first, first + out) of each head, of which the
// matrix has `rows`.
static Value project(Layers &layers, const std::string &name, Value x, int64_t heads, int64_t rows, int64_t first,
                     int64_t out) {
  Value y = layers.linear({name, heads * out, false, heads * rows, heads, first}, x);
  return layers.splitHeads(name, y, heads);
}

Value hf::latentAttention(Layers &layers, const LatentAttention &a, const std::string &name, Value x,
                          const Angles &angles) {
  std::string prefix = name + ".";
  ModelBuilder &b = layers.builder();
  Value queries = x;
  std::string query = prefix + "q_proj";
  if (a.queryRank) {
    queries = layers.norm(prefix + "q_a_layernorm", layers.linear({prefix + "q_a_proj", a.queryRank, a.bias}, x),
                          a.norm);
    query = prefix + "q_b_proj";
  }
  int64_t keyDim = a.nope + a.rope;
  Value qPlain = project(layers, query, queries, a.heads, keyDim, 0, a.nope);
  Value qTurned = project(layers, query, queries, a.heads, keyDim, a.nope, a.rope);
  Value q = b.at(name).concat({qPlain, layers.rotate(name, qTurned, angles, a.interleaved)}, 3);

  std::string latent = prefix + "kv_a_proj_with_mqa", expand = prefix + "kv_b_proj";
  int64_t rows = a.keyRank + a.rope;
  Value narrow = layers.linear({latent, a.keyRank, a.bias, rows, 1, 0}, x);
  Value shared = layers.splitHeads(name, layers.linear({latent, a.rope, a.bias, rows, 1, a.keyRank}, x), 1);
  shared = layers.rotate(name, shared, angles, a.interleaved);
  narrow = layers.norm(prefix + "kv_a_layernorm", narrow, a.norm);
  Value kPlain = project(layers, expand, narrow, a.heads, a.nope + a.value, 0, a.nope);
  Value v = project(layers, expand, narrow, a.heads, a.nope + a.value, a.nope, a.value);
  SmallVector<int64_t> shape(graph::shapeOf(kPlain));
  shape.back() = a.rope;
  Value k = b.at(name).concat({kPlain, b.at(name).broadcast(shared, shape)}, 3);

  Attention attention;
  attention.scale = a.scale;
  return layers.linear({prefix + "o_proj", graph::shapeOf(x).back(), a.bias},
                       layers.attend(name, q, k, v, attention));
}
