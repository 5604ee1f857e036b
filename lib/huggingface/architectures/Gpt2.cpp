// Builds GPT2LMHeadModel of transformers (Radford et al., 2019): learned positions, layer norm
// before attention and MLP, matrices [in, out], one for query, key and value, tied head.
#include "lib/huggingface/Architecture.h"
#include "lib/huggingface/Layers.h"

#include <cmath>
#include <utility>

using namespace llmc;
using namespace llmc::hf;
using namespace mlir;

namespace {

struct Gpt2 {
  int64_t width, layers, heads, positions, sequence, inner, vocabulary;
  Norm norm;
  double deviation;
  Activation activation;
  bool scaled, scaledByLayer, tied;
};

Gpt2 readConfig(Config &config, const CompileOptions &options) {
  Gpt2 m;
  m.width = config.positive({"n_embd", "hidden_size"}, 768);
  m.layers = countLayers(config, {"n_layer", "num_hidden_layers"}, 12);
  m.heads = config.positive({"n_head", "num_attention_heads"}, 12);
  m.positions = config.positive({"n_positions", "max_position_embeddings", "n_ctx"}, 1024);
  m.sequence = chooseSequence(config, options, m.positions, true);
  m.vocabulary = config.positive({"vocab_size"}, 50257);
  m.inner = config.positiveOrNull({"n_inner"}, 4 * m.width).value_or(4 * m.width);
  m.norm = {Norm::Kind::Layer, config.positiveNumber({"layer_norm_epsilon"}, 1e-5)};
  m.deviation = config.positiveNumber({"initializer_range"}, 0.02);
  m.activation = readActivation(config, {"activation_function"}, "gelu_new");
  m.scaled = config.flag({"scale_attn_weights"}, true);
  m.scaledByLayer = config.flag({"scale_attn_by_inverse_layer_idx"}, false);
  m.tied = config.flag({"tie_word_embeddings"}, true) && options.tie != Tie::Off;
  if (m.width % m.heads)
    config.note("\"n_embd\" " + std::to_string(m.width) + " is not divisible by \"n_head\" " +
                std::to_string(m.heads));
  if (config.flag({"add_cross_attention"}, false))
    config.note("\"add_cross_attention\" is not supported: only decoders are");
  return m;
}

class Forward {
public:
  Forward(ModelBuilder &builder, const Gpt2 &model, int64_t batch)
      : b_(builder), m_(model), l_(builder, batch, model.sequence, model.deviation) {}

  Value logits() {
    Value table = l_.table("transformer.wte", m_.vocabulary, m_.width,
                           m_.tied ? "lm_head.weight" : "");
    Value x = embed(table);
    for (int64_t layer = 0; layer < m_.layers; ++layer)
      x = block(x, layer);
    x = l_.norm("transformer.ln_f", x, m_.norm);
    if (!m_.tied)
      table = l_.table("lm_head", m_.vocabulary, m_.width);
    return l_.project("lm_head", x, table);
  }

private:
  ModelBuilder &b_;
  const Gpt2 &m_;
  Layers l_;

  // Returns the init of the two projections onto the residual stream: it is smaller, so that
  // the variance of the stream does not grow with the depth.
  Init residual() const { return Init::normal(m_.deviation / std::sqrt(2.0 * m_.layers)); }

  Value embed(Value table) {
    Value words = l_.lookUp("transformer.wte", table, b_.tokens());
    Value positions = l_.table("transformer.wpe", m_.positions, m_.width);
    graph::Build here = b_.at("transformer.wpe");
    if (m_.sequence < m_.positions)
      positions = here.slice(positions, 0, 0, m_.sequence);
    return here.add(words, positions);
  }

  // Returns x w + b with w [in, out], and declares both parameters.
  Value linear(const std::string &name, Value x, int64_t out, Init init) {
    Value w = b_.whole(name + ".weight", {graph::shapeOf(x).back(), out}, init);
    Value b = b_.whole(name + ".bias", {out}, Init::zeros());
    return project(b_.at(name), x, w, b);
  }
  static Value project(graph::Build at, Value x, Value w, Value b) {
    return at.add(at.matmul("bsd,de->bse", x, w, at.builder.getF32Type()), b);
  }

  // Projects to query (`part` 0), key (1) or value (2): each is a third of the columns of one
  // tensor of the checkpoint.
  Value third(const std::string &name, Value x, int64_t part) {
    int64_t d = m_.width;
    b_.source(name + ".weight", {d, 3 * d}, l_.weight());
    b_.source(name + ".bias", {3 * d}, Init::zeros());
    Value w = b_.parameter(name + ".weight", {d, d}, part * d, {3 * d, 1});
    Value b = b_.parameter(name + ".bias", {d}, part * d, {1});
    return l_.splitHeads(name, project(b_.at(name), x, w, b), m_.heads);
  }

  Value attention(const std::string &name, Value x, int64_t layer) {
    Value parts[3];
    for (int64_t part = 0; part < 3; ++part)
      parts[part] = third(name + ".c_attn", x, part);
    Attention attention;
    attention.scale = m_.scaled ? 1 / std::sqrt(double(m_.width / m_.heads)) : 1;
    if (m_.scaledByLayer)
      attention.scale /= layer + 1;
    Value joined = l_.attend(name, parts[0], parts[1], parts[2], attention);
    return linear(name + ".c_proj", joined, m_.width, residual());
  }

  Value block(Value x, int64_t layer) {
    std::string name = "transformer.h." + std::to_string(layer);
    Value mixed = attention(name + ".attn", l_.norm(name + ".ln_1", x, m_.norm), layer);
    x = b_.at(name).add(mixed, x);
    Value h =
        linear(name + ".mlp.c_fc", l_.norm(name + ".ln_2", x, m_.norm), m_.inner, l_.weight());
    h = l_.activate(name + ".mlp.act", h, m_.activation);
    h = linear(name + ".mlp.c_proj", h, m_.width, residual());
    return b_.at(name).add(x, h);
  }
};

} // namespace

static BuiltModel build(MLIRContext &context, Config &config, const CompileOptions &options) {
  Gpt2 model = readConfig(config, options);
  BuiltModel out;
  out.sequence = model.sequence;
  out.vocabulary = model.vocabulary;
  out.context = model.positions;
  out.spellings = {{"transformer.", ""}}; // as published
  if (!config.problems().empty())
    return out;
  // Takes all for one kind: scales of attention that differ between layers cost nothing.
  if (options.oneLayerOfEach)
    out.layerKinds.assign(std::exchange(model.layers, std::min<int64_t>(1, model.layers)), 0);
  if (!options.layersKept.empty())
    model.layers = int64_t(options.layersKept.size());
  ModelBuilder builder(context, options.batchRows(), out.sequence);
  out.module = builder.finish(Forward(builder, model, options.batchRows()).logits());
  return out;
}

Architecture hf::architectures::Gpt2() {
  return {{"gpt2"}, {"GPT2LMHeadModel", "GPT2Model"}, build};
}
