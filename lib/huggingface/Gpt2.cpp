// GPT2LMHeadModel of transformers: learned positions, layer norm before each
// half of a layer, one fused weight [in, out] for query, key and value, tied head.
#include "lib/huggingface/Architecture.h"

#include <cmath>

using namespace llmc;
using namespace llmc::hf;
using namespace mlir;

namespace {

enum class Activation { GeluTanh, GeluErf, Relu, Silu, Tanh, Sigmoid };

struct Gpt2 {
  int64_t width, layers, heads, positions, inner, vocabulary;
  double epsilon, deviation;
  Activation activation;
  bool scaled, scaledByLayer, tied;
};

Activation activationOf(Config &config) {
  std::string name = config.text({"activation_function"}, "gelu_new");
  for (auto [known, activation] : std::initializer_list<std::pair<const char *, Activation>>{
           {"gelu_new", Activation::GeluTanh},
           {"gelu_pytorch_tanh", Activation::GeluTanh},
           {"gelu_fast", Activation::GeluTanh},
           {"gelu", Activation::GeluErf},
           {"relu", Activation::Relu},
           {"silu", Activation::Silu},
           {"swish", Activation::Silu},
           {"tanh", Activation::Tanh},
           {"sigmoid", Activation::Sigmoid}})
    if (name == known)
      return activation;
  config.note("\"activation_function\": '" + name +
              "' is not supported: gelu_new, gelu_pytorch_tanh, gelu_fast, gelu, relu, silu, "
              "swish, tanh and sigmoid are");
  return Activation::GeluTanh;
}

Gpt2 readConfig(Config &config, const CompileOptions &options) {
  Gpt2 m;
  m.width = config.positive({"n_embd", "hidden_size"}, 768);
  m.layers = config.positive({"n_layer", "num_hidden_layers"}, 12);
  m.heads = config.positive({"n_head", "num_attention_heads"}, 12);
  m.positions = config.positive({"n_positions", "max_position_embeddings", "n_ctx"}, 1024);
  m.vocabulary = config.positive({"vocab_size"}, 50257);
  m.inner = config.positive({"n_inner"}, 4 * m.width);
  m.epsilon = config.positiveNumber({"layer_norm_epsilon"}, 1e-5);
  m.deviation = config.positiveNumber({"initializer_range"}, 0.02);
  m.activation = activationOf(config);
  m.scaled = config.flag({"scale_attn_weights"}, true);
  m.scaledByLayer = config.flag({"scale_attn_by_inverse_layer_idx"}, false);
  m.tied = config.flag({"tie_word_embeddings"}, true) && options.tie;
  if (m.width % m.heads)
    config.note("\"n_embd\" " + std::to_string(m.width) + " is not divisible by \"n_head\" " +
                std::to_string(m.heads));
  constexpr int64_t mostLayers = 1000; // each is built before equal ones are folded
  if (m.layers > mostLayers)
    config.note("\"n_layer\" " + std::to_string(m.layers) + " is more than " +
                std::to_string(mostLayers));
  if (config.flag({"add_cross_attention"}, false))
    config.note("\"add_cross_attention\" is not supported: only decoders are");
  return m;
}

class Forward {
public:
  Forward(ModelBuilder &builder, const Gpt2 &model, int64_t batch, int64_t sequence)
      : b_(builder), m_(model), batch_(batch), sequence_(sequence) {}

  Value logits() {
    Value table = b_.whole("transformer.wte.weight", {m_.vocabulary, m_.width}, weight(),
                           m_.tied ? llvm::ArrayRef<llvm::StringRef>("lm_head.weight")
                                   : llvm::ArrayRef<llvm::StringRef>());
    Value x = embed(table);
    for (int64_t layer = 0; layer < m_.layers; ++layer)
      x = block(x, layer);
    x = norm("transformer.ln_f", x);
    if (!m_.tied)
      table = b_.whole("lm_head.weight", {m_.vocabulary, m_.width}, weight());
    graph::Build at = b_.at("lm_head");
    return at.matmul("bsd,vd->bsv", x, table, at.builder.getF32Type());
  }

private:
  ModelBuilder &b_;
  const Gpt2 &m_;
  int64_t batch_, sequence_;

  Init weight() const { return Init::normal(m_.deviation); }
  // The two projections onto the residual stream start smaller, so that its
  // variance does not grow with the depth (Radford et al., 2019).
  Init residual() const { return Init::normal(m_.deviation / std::sqrt(2.0 * m_.layers)); }

  Value embed(Value table) {
    graph::Build at = b_.at("transformer.wte");
    auto type = RankedTensorType::get({batch_, sequence_, m_.width}, at.builder.getF32Type());
    Value words = graph::GatherOp::create(at.builder, at.loc, type, table, b_.tokens(), Value());
    Value positions = b_.whole("transformer.wpe.weight", {m_.positions, m_.width}, weight());
    graph::Build here = b_.at("transformer.wpe");
    if (sequence_ < m_.positions)
      positions = here.slice(positions, 0, 0, sequence_);
    return here.add(words, positions);
  }

  Value norm(const std::string &name, Value x) {
    Value scale = b_.whole(name + ".weight", {m_.width}, Init::ones());
    Value bias = b_.whole(name + ".bias", {m_.width}, Init::zeros());
    graph::Build at = b_.at(name);
    auto rows = RankedTensorType::get({batch_, sequence_}, at.builder.getF32Type());
    return graph::LayerNormOp::create(at.builder, at.loc, x.getType(), rows, rows, x, scale, bias,
                                      at.builder.getF64FloatAttr(m_.epsilon))
        .getY();
  }

  // x w + b with w [in, out].
  Value linear(const std::string &name, Value x, int64_t out, Init init) {
    Value w = b_.whole(name + ".weight", {graph::shapeOf(x).back(), out}, init);
    Value b = b_.whole(name + ".bias", {out}, Init::zeros());
    return project(b_.at(name), x, w, b);
  }
  static Value project(graph::Build at, Value x, Value w, Value b) {
    return at.add(at.matmul("bsd,de->bse", x, w, at.builder.getF32Type()), b);
  }

  // Query, key and value are thirds of one tensor of the checkpoint.
  Value third(const std::string &name, Value x, int64_t part) {
    int64_t d = m_.width;
    Value w = b_.parameter(name + ".weight", {d, d}, part * d, {3 * d, 1});
    Value b = b_.parameter(name + ".bias", {d}, part * d, {1});
    graph::Build at = b_.at(name);
    return at.reshape(project(at, x, w, b), {batch_, sequence_, m_.heads, d / m_.heads});
  }

  Value attention(const std::string &name, Value x, int64_t layer) {
    int64_t d = m_.width;
    b_.source(name + ".c_attn.weight", {d, 3 * d}, weight());
    b_.source(name + ".c_attn.bias", {3 * d}, Init::zeros());
    Value parts[3];
    for (int64_t part = 0; part < 3; ++part)
      parts[part] = third(name + ".c_attn", x, part);
    double scale = m_.scaled ? 1 / std::sqrt(double(d / m_.heads)) : 1;
    if (m_.scaledByLayer)
      scale /= layer + 1;
    graph::Build at = b_.at(name);
    auto rows =
        RankedTensorType::get({batch_, sequence_, m_.heads}, at.builder.getF32Type());
    auto mixed = graph::AttentionOp::create(
        at.builder, at.loc, parts[0].getType(), rows, parts[0], parts[1], parts[2],
        at.builder.getF64FloatAttr(scale), at.builder.getBoolAttr(true));
    Value joined = at.reshape(mixed.getO(), {batch_, sequence_, d});
    return linear(name + ".c_proj", joined, d, residual());
  }

  Value activate(const std::string &name, Value x) {
    graph::Build at = b_.at(name);
    auto make = [&](auto op) -> Value { return decltype(op)::create(at.builder, at.loc, x); };
    switch (m_.activation) {
    case Activation::GeluTanh:
      return graph::GeluOp::create(at.builder, at.loc, x, graph::GeluForm::tanh);
    case Activation::GeluErf:
      return graph::GeluOp::create(at.builder, at.loc, x, graph::GeluForm::erf);
    case Activation::Relu:
      return make(graph::ReluOp());
    case Activation::Silu:
      return at.mul(x, make(graph::SigmoidOp()));
    case Activation::Tanh:
      return make(graph::TanhOp());
    case Activation::Sigmoid:
      return make(graph::SigmoidOp());
    }
    return {};
  }

  Value block(Value x, int64_t layer) {
    std::string name = "transformer.h." + std::to_string(layer);
    Value mixed = attention(name + ".attn", norm(name + ".ln_1", x), layer);
    x = b_.at(name).add(mixed, x);
    Value h = linear(name + ".mlp.c_fc", norm(name + ".ln_2", x), m_.inner, weight());
    h = linear(name + ".mlp.c_proj", activate(name + ".mlp.act", h), m_.width, residual());
    return b_.at(name).add(x, h);
  }
};

} // namespace

BuiltModel hf::buildGpt2(MLIRContext &context, Config &config, const CompileOptions &options) {
  Gpt2 model = readConfig(config, options);
  BuiltModel out;
  out.sequence = chooseSequence(config, options, model.positions);
  out.vocabulary = model.vocabulary;
  out.context = model.positions;
  out.prefixes = {"transformer."};
  if (!config.problems().empty())
    return out;
  ModelBuilder builder(context, options.batchRows(), out.sequence);
  out.module = builder.finish(Forward(builder, model, options.batchRows(), out.sequence).logits());
  return out;
}
