#include "lib/huggingface/Encoder.h"

#include <cmath>
#include <utility>

using namespace llmc;
using namespace llmc::hf;
using namespace mlir;

Encoder hf::readBert(Config &config, const CompileOptions &options, int64_t vocabulary,
                     const std::string &prefix) {
  Encoder e;
  e.vocabulary = config.positive({"vocab_size"}, vocabulary);
  e.width = config.positive({"hidden_size"}, 768);
  e.layers = countLayers(config, {"num_hidden_layers"}, 12);
  e.heads = config.positive({"num_attention_heads"}, 12);
  e.inner = config.positive({"intermediate_size"}, 3072);
  e.types = config.positive({"type_vocab_size"}, 2);
  e.positions = config.positive({"max_position_embeddings"}, 512);
  e.deviation = config.positiveNumber({"initializer_range"}, 0.02);
  e.norm.epsilon = config.positiveNumber({"layer_norm_eps"}, 1e-12);
  e.activation = readActivation(config, {"hidden_act"}, "gelu");
  e.tied = config.flag({"tie_word_embeddings"}, true) && options.tie != Tie::Off;
  e.names.words = prefix + ".embeddings.word_embeddings";
  e.names.positions = prefix + ".embeddings.position_embeddings";
  e.names.types = prefix + ".embeddings.token_type_embeddings";
  e.names.embeddingNorm = prefix + ".embeddings.LayerNorm";
  e.names.layers = prefix + ".encoder.layer";
  e.names.q = "attention.self.query";
  e.names.k = "attention.self.key";
  e.names.v = "attention.self.value";
  e.names.out = "attention.output.dense";
  e.names.attentionNorm = "attention.output.LayerNorm";
  e.names.up = "intermediate.dense";
  e.names.down = "output.dense";
  e.names.mlpNorm = "output.LayerNorm";
  return e;
}

void hf::checkEncoder(Config &config, const Encoder &encoder) {
  if (encoder.width % encoder.heads)
    config.note("the width " + std::to_string(encoder.width) + " is not divisible by the " +
                std::to_string(encoder.heads) + " heads");
  if (config.flag({"is_decoder"}, false) || config.flag({"add_cross_attention"}, false))
    config.note("\"is_decoder\" and \"add_cross_attention\" are not supported: only encoders are");
  std::string positions = config.text({"position_embedding_type"}, "absolute");
  if (positions != "absolute")
    config.note("\"position_embedding_type\": '" + positions +
                "' is not supported: absolute is");
}

namespace {

class Forward {
public:
  Forward(ModelBuilder &builder, const Encoder &encoder, int64_t batch)
      : e_(encoder), n_(encoder.names), l_(builder, batch, encoder.sequence, encoder.deviation) {}

  Value logits() {
    Value table = l_.table(n_.words, e_.vocabulary, e_.width, e_.tied ? n_.head + ".weight" : "");
    Value x = embed(table);
    for (int64_t i = 0; i < e_.layers; ++i)
      x = layer(x, n_.layers + "." + std::to_string(i));
    return head(x, table);
  }

private:
  const Encoder &e_;
  const EncoderNames &n_;
  Layers l_;

  graph::Build at(const std::string &place) { return l_.builder().at(place); }

  Value embed(Value table) {
    Value x = l_.lookUp(n_.words, table, l_.builder().tokens());
    if (!n_.types.empty()) { // a row is one text: every token has type 0
      Value types = l_.table(n_.types, e_.types, e_.width);
      graph::Build here = at(n_.types);
      x = here.add(x, e_.types > 1 ? here.slice(types, 0, 0, 1) : types);
    }
    Value positions = l_.table(n_.positions, e_.positions, e_.width);
    graph::Build here = at(n_.positions);
    if (e_.padding)
      positions = l_.lookUp(n_.positions, positions, countedPositions(here));
    else if (e_.sequence < e_.positions)
      positions = here.slice(positions, 0, 0, e_.sequence);
    return l_.norm(n_.embeddingNorm, at(n_.positions).add(x, positions), e_.norm);
  }

  // Returns the position of each token: the padding's id plus the number of tokens up to and
  // including it that are not padding; for padding the id itself.
  Value countedPositions(graph::Build here) {
    Type i64 = here.builder.getI64Type();
    Value padding = here.constant(*e_.padding, i64);
    Value counts = here.cast(
        here.compare(l_.builder().tokens(), padding, graph::Predicate::ne), i64);
    Value sum = graph::CumsumOp::create(here.builder, here.loc, counts.getType(), counts,
                                        here.builder.getI64IntegerAttr(1));
    return here.add(here.mul(sum, counts), padding);
  }

  Value layer(Value x, const std::string &name) {
    std::string prefix = name + ".";
    auto split = [&](const std::string &piece) {
      return l_.splitHeads(prefix + piece, l_.linear({prefix + piece, e_.width, true}, x),
                           e_.heads);
    };
    Value q = split(n_.q), k = split(n_.k), v = split(n_.v);
    double scale = 1 / std::sqrt(double(e_.width / e_.heads));
    Value mixed = l_.attend(name, q, k, v, {scale, false});
    mixed = l_.linear({prefix + n_.out, e_.width, true}, mixed);
    x = l_.norm(prefix + n_.attentionNorm, at(name).add(x, mixed), e_.norm);
    Value h = l_.activate(name, l_.linear({prefix + n_.up, e_.inner, true}, x), e_.activation);
    h = l_.linear({prefix + n_.down, e_.width, true}, h);
    return l_.norm(prefix + n_.mlpNorm, at(name).add(x, h), e_.norm);
  }

  Value head(Value x, Value table) {
    x = l_.linear({n_.headDense, e_.width, true}, x);
    x = l_.norm(n_.headNorm, l_.activate(n_.headDense, x, e_.headActivation), e_.norm);
    // An untied head has a bias under the name of its own matrix.
    std::string own = n_.head + ".bias", name = e_.tied ? n_.headBias : own;
    if (!e_.tied)
      table = l_.table(n_.head, e_.vocabulary, e_.width);
    Value logits = l_.project(n_.head, x, table);
    Value bias = l_.builder().whole(name, {e_.vocabulary}, Init::zeros(), name == own ? "" : own);
    return at(name).add(logits, bias);
  }
};

} // namespace

BuiltModel hf::buildEncoder(MLIRContext &context, Config &config, const CompileOptions &options,
                            Encoder encoder) {
  BuiltModel out;
  out.sequence = encoder.sequence;
  out.vocabulary = encoder.vocabulary;
  out.context = encoder.positions;
  if (!config.problems().empty())
    return out;
  // Builds two: where norms follow what they norm, one layer alone does not show where the next would begin.
  if (options.oneLayerOfEach)
    out.layerKinds.assign(std::exchange(encoder.layers, std::min<int64_t>(2, encoder.layers)), 0);
  if (!options.layersKept.empty())
    encoder.layers = int64_t(options.layersKept.size()); // all are equal
  ModelBuilder builder(context, options.batchRows(), out.sequence);
  out.module = builder.finish(Forward(builder, encoder, options.batchRows()).logits());
  return out;
}
