#include "lib/huggingface/Decoder.h"

#include "lib/support/FlagSetters.h"

#include <cmath>

using namespace llmc;
using namespace llmc::hf;
using namespace mlir;

//===-- Fields --------------------------------------------------------------===//

Decoder hf::readDecoder(Config &config, const CompileOptions &options,
                        const DecoderDefaults &defaults) {
  Decoder d;
  d.vocabulary = config.positive({"vocab_size"}, defaults.vocabulary);
  d.width = config.positive({"hidden_size"}, defaults.width);
  d.inner = config.positive({"intermediate_size"}, defaults.inner);
  d.heads = config.positive({"num_attention_heads"}, defaults.heads);
  d.kvHeads = config
                  .positiveOrNull({"num_key_value_heads"},
                                  defaults.kvHeads ? defaults.kvHeads : d.heads)
                  .value_or(d.heads);
  std::optional<int64_t> headDim;
  if (defaults.headDim)
    headDim = defaults.headDim;
  headDim = config.positiveOrNull({"head_dim"}, headDim);
  d.headDim = headDim.value_or(std::max<int64_t>(d.width / d.heads, 1));
  if (!headDim && d.width % d.heads)
    config.noteBetween({"hidden_size", "num_attention_heads", "head_dim"},
                       "\"hidden_size\" " + std::to_string(d.width) + " is not divisible by \"num_attention_heads\" " +
                           std::to_string(d.heads) + " and there is no \"head_dim\"");
  if (d.heads % d.kvHeads)
    config.noteBetween({"num_attention_heads", "num_key_value_heads"},
                       "\"num_attention_heads\" " + std::to_string(d.heads) +
                           " is not divisible by \"num_key_value_heads\" " + std::to_string(d.kvHeads));
  constexpr int64_t most = int64_t(1) << 30;
  if (d.headDim > most / d.heads)
    config.note(std::to_string(d.heads) + " heads of " + std::to_string(d.headDim) +
                " elements are more than " + std::to_string(most));
  d.layers.resize(countLayers(config, {"num_hidden_layers"}, defaults.layers));
  d.context = config.positive({"max_position_embeddings"}, defaults.context);
  d.sequence = chooseSequence(config, options, d.context, false);
  d.deviation = config.positiveNumber({"initializer_range"}, defaults.deviation);
  d.tied = config.flag({"tie_word_embeddings"}, defaults.tied) && options.tie != Tie::Off;
  d.norm = {Norm::Kind::Rms, config.positiveNumber({"rms_norm_eps"}, defaults.epsilon)};
  d.scale = 1 / std::sqrt(double(d.headDim));
  d.activation = readActivation(config, {defaults.activationField}, defaults.activation);
  return d;
}

Decoder hf::readGemma(Config &config, const CompileOptions &options, int64_t vocabulary,
                      int64_t context) {
  Decoder d = readDecoder(config, options,
                          {.vocabulary = vocabulary, .width = 2304, .inner = 9216, .layers = 26,
                           .heads = 8, .kvHeads = 4, .headDim = 256, .context = context,
                           .tied = true, .activation = "gelu_pytorch_tanh",
                           .activationField = "hidden_activation"});
  if (config.flag({"use_bidirectional_attention"}, false))
    config.note("\"use_bidirectional_attention\" is not supported: only decoders are");
  d.norm.onePlus = true;
  d.norm.start = Init::zeros();
  d.names.afterAttention = "post_attention_layernorm";
  d.names.beforeMlp = "pre_feedforward_layernorm";
  d.names.afterMlp = "post_feedforward_layernorm";
  d.embeddingScale = std::sqrt(double(d.width));
  d.scale = 1 / std::sqrt(config.positiveNumber({"query_pre_attn_scalar"}, 256));
  d.qkvBias = d.outBias = config.flag({"attention_bias"}, false);
  return d;
}

RopeFields hf::ropeFields(const Decoder &decoder) {
  RopeFields fields;
  fields.headDim = decoder.headDim;
  fields.sequence = decoder.sequence;
  fields.context = decoder.context;
  return fields;
}

std::vector<bool> hf::readLayerTypes(Config &config, const Decoder &decoder,
                                     llvm::function_ref<bool(size_t layer)> rule) {
  std::vector<std::string> types = config.texts({"layer_types"});
  size_t count = decoder.layers.size();
  if (!types.empty() && types.size() != count)
    config.note("\"layer_types\" has " + std::to_string(types.size()) + " entries, expected " +
                std::to_string(count) + ", one for each layer");
  std::vector<bool> slides(count);
  for (size_t i = 0; i < count; ++i) {
    slides[i] = i < types.size() ? types[i] == "sliding_attention" : rule(i);
    if (i < types.size() && !slides[i] && types[i] != "full_attention")
      config.note("\"layer_types\": '" + types[i] +
                  "' is not supported: full_attention and sliding_attention are");
  }
  return slides;
}

void hf::setWindows(Decoder &decoder, std::optional<int64_t> window,
                    const std::vector<bool> &slides) {
  // A window over the whole sequence has no effect; without it equal layers can be folded.
  if (window && *window < decoder.sequence)
    for (size_t i = 0; i < decoder.layers.size(); ++i)
      decoder.layers[i].window = slides[i] ? *window : 0;
}

void hf::readWindow(Config &config, Decoder &decoder, int64_t usual, const std::vector<bool> &slides) {
  std::optional<int64_t> window = config.positiveOrNull({"sliding_window"}, usual);
  auto first = llvm::find(slides, true);
  if (!window && first != slides.end())
    config.note("\"sliding_window\" is null, and layer " + std::to_string(first - slides.begin()) +
                " has one: give its tokens, or make all of \"layer_types\" full_attention");
  setWindows(decoder, window, slides);
}

void hf::readQwenWindows(Config &config, Decoder &decoder) {
  std::optional<int64_t> window = config.positiveOrNull({"sliding_window"}, 4096);
  if (!config.flag({"use_sliding_window"}, false))
    window = std::nullopt;
  size_t first = config.index({"max_window_layers"}, 28);
  setWindows(decoder, window, readLayerTypes(config, decoder, [&](size_t layer) {
               return window && layer >= first;
             }));
}

void hf::readSparseLayers(Config &config, Decoder &decoder) {
  int64_t step = config.positive({"decoder_sparse_step"}, 1), count = decoder.layers.size();
  for (int64_t i = 0; i < count; ++i)
    decoder.layers[i].sparse = (i + 1) % step == 0;
  for (double layer : config.numbers({"mlp_only_layers"}))
    if (layer == std::floor(layer) && layer >= 0 && layer < double(count))
      decoder.layers[int64_t(layer)].sparse = false;
    else
      config.note("\"mlp_only_layers\": there is no layer " + support::realText(layer) + ", expected 0 to " +
                  std::to_string(count - 1));
}

//===-- Forward -------------------------------------------------------------===//

namespace {

class Forward {
public:
  Forward(ModelBuilder &builder, const Decoder &decoder, int64_t batch)
      : d_(decoder), n_(decoder.names),
        l_(builder, batch, decoder.sequence, decoder.deviation) {}

  Value logits() {
    Value table = l_.table(n_.embedding, d_.vocabulary, d_.width,
                           d_.tied ? n_.head + ".weight" : "");
    Value x = l_.lookUp(n_.embedding, table, l_.builder().tokens());
    if (d_.embeddingScale != 1)
      x = at(n_.embedding).scale(x, d_.embeddingScale);
    for (size_t i = 0; i < d_.ropes.size(); ++i)
      angles_.push_back(l_.angles("rotary_emb", d_.ropes[i]));
    for (size_t i = 0; i < d_.layers.size(); ++i) {
      layer_ = n_.layers + "." + std::to_string(i);
      x = layer(x, d_.layers[i]);
    }
    x = l_.norm(n_.finalNorm, x, d_.norm);
    if (!d_.tied)
      table = l_.table(n_.head, d_.vocabulary, d_.width);
    return head(x, table);
  }

  std::vector<weights::Stack> stacks; // of the experts

private:
  const Decoder &d_;
  const DecoderNames &n_;
  Layers l_;
  std::vector<Angles> angles_;
  std::string layer_; // the layer that is being built

  graph::Build at(const std::string &place) { return l_.builder().at(place); }

  Value head(Value x, Value table) {
    Value logits = l_.project(n_.head, x, table);
    if (d_.headBias) {
      Value bias = l_.builder().whole(n_.head + ".bias", {d_.vocabulary}, Init::zeros());
      logits = at(n_.head).add(logits, bias);
    }
    return d_.logitSoftcap ? l_.softcap(n_.head, logits, d_.logitSoftcap) : logits;
  }

  // Applies a norm of the current layer; returns `x` where the architecture has none.
  Value norm(const std::string &name, Value x) {
    return name.empty() ? x : l_.norm(layer_ + "." + name, x, d_.norm);
  }

  Value layer(Value x, const DecoderLayer &kind) {
    Value normed = norm(n_.beforeAttention, x);
    Value mixed = norm(n_.afterAttention, attention(normed, kind));
    auto mlp = [&](Value value) { return kind.sparse ? experts(value) : dense(value, n_.mlp, d_.inner); };
    if (d_.parallel) {
      Value second = n_.beforeMlp.empty() ? normed : norm(n_.beforeMlp, x);
      Value both = at(layer_).add(norm(n_.afterMlp, mlp(second)), mixed);
      return at(layer_).add(x, both);
    }
    x = at(layer_).add(x, mixed);
    Value changed = norm(n_.afterMlp, mlp(norm(n_.beforeMlp, x)));
    return at(layer_).add(x, changed);
  }

  // Projects `x` to query (`index` 0), key (1) or value (2), [batch, sequence, heads, dim], and
  // applies the norm that the architecture puts on it.
  Value part(Value x, const std::string &name, int64_t heads, int64_t index,
             const std::string &normName) {
    Linear linear{name, heads * d_.headDim, d_.qkvBias};
    if (d_.fusedQkv == FusedQkv::OneAfterTheOther) {
      linear.rows = (d_.heads + 2 * d_.kvHeads) * d_.headDim;
      linear.first = (index > 0 ? d_.heads + (index - 1) * d_.kvHeads : 0) * d_.headDim;
    } else if (d_.fusedQkv == FusedQkv::InEachHead) {
      linear.rows = 3 * heads * d_.headDim;
      linear.first = index * d_.headDim;
      linear.groups = heads;
    }
    x = l_.linear(linear, x);
    bool normed = d_.normedQk != NormedQk::No && index < 2;
    if (normed && d_.normedQk == NormedQk::AllHeads)
      x = l_.norm(normName, x, d_.norm);
    x = l_.splitHeads(name, x, heads);
    if (normed && d_.normedQk == NormedQk::EachHead)
      x = l_.norm(normName, x, d_.norm);
    return x;
  }

  Value attention(Value x, const DecoderLayer &kind) {
    std::string name = layer_ + "." + n_.attention, prefix = name + ".";
    if (d_.latent)
      return latentAttention(l_, *d_.latent, name, x, angles_[kind.rope]);
    bool fused = d_.fusedQkv != FusedQkv::No;
    Value q = part(x, prefix + n_.q, d_.heads, 0, prefix + n_.qNorm);
    Value k = part(x, prefix + (fused ? n_.q : n_.k), d_.kvHeads, 1, prefix + n_.kNorm);
    Value v = part(x, prefix + (fused ? n_.q : n_.v), d_.kvHeads, 2, "");
    if (!angles_.empty()) {
      q = l_.rotate(name, q, angles_[kind.rope]);
      k = l_.rotate(name, k, angles_[kind.rope]);
    }
    Value sinks;
    if (!n_.sinks.empty())
      sinks = l_.builder().whole(prefix + n_.sinks, {d_.heads}, l_.weight());
    Value mixed = l_.attend(name, q, k, v, {d_.scale, true, kind.window, d_.softcap, sinks});
    return l_.linear({prefix + n_.out, d_.width, d_.outBias}, mixed);
  }

  // Builds the mixture and adds the result of the expert that all tokens take.
  Value experts(Value x) {
    Value routed = mixture(l_, d_.mixture, layer_, x, stacks);
    if (!d_.sharedInner)
      return routed;
    std::string place = layer_ + "." + n_.mlp;
    Value shared = dense(x, n_.mlp + "." + d_.shared, d_.sharedInner);
    if (!d_.sharedGate.empty()) {
      std::string name = place + "." + d_.sharedGate;
      Value open = l_.activate(name, l_.linear({name, 1}, x), Activation::Sigmoid);
      shared = at(name).mul(open, shared);
    }
    return at(place).add(routed, shared);
  }

  Value dense(Value x, const std::string &module, int64_t inner) {
    std::string name = layer_ + "." + module, prefix = name + ".";
    Linear up{prefix + n_.up, inner, d_.mlpBias}, down{prefix + n_.down, d_.width, d_.mlpBias};
    if (!d_.gated)
      return l_.linear(down, l_.activate(name, l_.linear(up, x), d_.activation));
    Linear gate{prefix + n_.gate, inner, d_.mlpBias};
    if (d_.fusedMlp) {
      up = gate;
      gate.rows = up.rows = 2 * inner;
      up.first = inner;
    }
    Value opened = l_.activate(name, l_.linear(gate, x), d_.activation);
    Value gated = at(name).mul(opened, l_.linear(up, x));
    return l_.linear(down, gated);
  }
};

} // namespace

// Notes more experts than a tensor for each can be read of in some seconds.
static void checkCount(Config &config, const Mixture &mixture, int64_t layers) {
  constexpr int64_t most = 65'536;
  if (layers && mixture.experts > most / layers)
    config.note(std::to_string(layers) + " x " + std::to_string(mixture.experts) +
                " experts, those of each layer, are more than " + std::to_string(most));
}

// Leaves the first layer of each kind, and returns the kind of each layer that there was.
static std::vector<int64_t> keepOneOfEach(std::vector<DecoderLayer> &layers) {
  std::vector<DecoderLayer> first;
  std::vector<int64_t> kinds;
  for (const DecoderLayer &layer : layers) {
    auto known = llvm::find(first, layer);
    kinds.push_back(known - first.begin());
    if (known == first.end())
      first.push_back(layer);
  }
  layers = std::move(first);
  return kinds;
}

BuiltModel hf::buildDecoder(MLIRContext &context, Config &config, const CompileOptions &options,
                            Decoder decoder) {
  BuiltModel out;
  out.sequence = decoder.sequence;
  out.vocabulary = decoder.vocabulary;
  const Mixture &m = decoder.mixture;
  int64_t sparse = llvm::count_if(decoder.layers, [](const DecoderLayer &layer) { return layer.sparse; });
  checkCount(config, m, sparse);
  if (!config.problems().empty())
    return out;
  if (options.oneLayerOfEach)
    out.layerKinds = keepOneOfEach(decoder.layers);
  for (Rope &rope : decoder.ropes)
    rope.angles = options.angles;
  if (!options.layersKept.empty()) {
    std::vector<DecoderLayer> kept;
    for (int64_t layer : options.layersKept)
      kept.push_back(decoder.layers[layer]);
    decoder.layers = std::move(kept);
    sparse = llvm::count_if(decoder.layers, [](const DecoderLayer &layer) { return layer.sparse; });
  }
  ModelBuilder builder(context, options.batchRows(), out.sequence);
  Forward forward(builder, decoder, options.batchRows());
  out.module = builder.finish(forward.logits());
  out.stacks = std::move(forward.stacks);
  if (sparse)
    out.activeParameters =
        builder.parameters() - sparse * (m.experts - m.choices) * m.parametersOfExpert(decoder.width);
  return out;
}
