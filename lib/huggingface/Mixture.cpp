#include "lib/huggingface/Mixture.h"

using namespace llmc;
using namespace llmc::hf;
using namespace mlir;

int64_t Mixture::parametersOfExpert(int64_t width) const {
  int64_t biases = stored == Stored::Stacked ? 2 * inner + width : 0;
  return 3 * width * inner + biases;
}

void hf::checkMixture(Config &config, Mixture &mixture, const char *experts, const char *choices) {
  Mixture &m = mixture;
  auto note = [&](const std::string &problem) {
    config.noteBetween({experts, choices, "n_group", "topk_group"}, problem);
  };
  auto said = [&](const char *name, int64_t value) { return config.quoted(name) + " " + std::to_string(value); };
  // Compares the names that versions of transformers have for one quantity: which one they take is
  // a matter of the order of fields.
  for (const std::vector<const char *> &names :
       {std::vector<const char *>{"num_experts", "num_local_experts", "n_routed_experts"},
        {"num_experts_per_tok", "experts_per_token"}})
    if (std::vector<std::string> values = config.different(names); values.size() > 1)
      note(values[0] + " and " + values[1] + " are two values of one quantity; keep one of them");
  if (m.choices > m.experts)
    note(said(choices, m.choices) + " is more than " + said(experts, m.experts));
  if (m.groups > 1 && m.experts % m.groups)
    note(said(experts, m.experts) + " is not divisible by " + said("n_group", m.groups));
  else if (m.keptGroups > m.groups)
    note(said("topk_group", m.keptGroups) + " is more than " + said("n_group", m.groups));
  else if (int64_t size = m.experts / m.groups; m.groupTerms > size)
    note(said("n_group", m.groups) + " leaves " + std::to_string(size) + " experts a group, of which " +
         std::to_string(m.groupTerms) + " choose it");
  else if (m.choices <= m.experts && m.choices > m.keptGroups * size)
    note(said(choices, m.choices) + " is more than the " + std::to_string(m.keptGroups * size) +
         " experts of " + said("topk_group", m.keptGroups));
}

namespace {

class MixtureBuilder {
public:
  MixtureBuilder(Layers &layers, const Mixture &mixture, const std::string &layer, Value x,
                 std::vector<weights::Stack> &stacks)
      : l_(layers), b_(layers.builder()), m_(mixture), layer_(layer), block_(layer + "." + m_.names.block),
        experts_(block_ + "." + m_.names.experts), x_(x), width_(graph::shapeOf(x).back()), stacks_(stacks) {}

  Value build() {
    Value weights = route();
    Value hidden = gated(product(m_.names.gate, x_, m_.inner, 0, 2), product(m_.names.up, x_, m_.inner, 1, 2));
    Value results = product(m_.names.down, hidden, width_, 0, 1);
    if (m_.stored == Mixture::Stored::OneByOne)
      addStacks();
    graph::Build at = b_.at(block_);
    Value weighted = at.mul(results, at.reshape(weights, shape({m_.choices, 1})));
    return at.reduce(weighted, graph::ReduceKind::sum, {2});
  }

private:
  Layers &l_;
  ModelBuilder &b_;
  const Mixture &m_;
  std::string layer_, block_, experts_;
  Value x_;
  int64_t width_;
  std::vector<weights::Stack> &stacks_;
  Value routes_; // [batch, sequence, choices]

  // Returns a shape of tokens, with further dims.
  SmallVector<int64_t> shape(llvm::ArrayRef<int64_t> further) const {
    SmallVector<int64_t> out(graph::shapeOf(x_).drop_back());
    out.append(further.begin(), further.end());
    return out;
  }

  // Sets the routes and returns the weights of the chosen experts, [batch, sequence, choices].
  Value route() {
    std::string name = block_ + "." + m_.names.router;
    Value scores = l_.linear({name, m_.experts}, x_);
    if (m_.routerBias) {
      Value bias = b_.whole(name + ".bias", {m_.experts}, l_.weight());
      scores = b_.at(name).add(scores, bias);
    }
    if (m_.weights == Mixture::Weights::Softmax)
      scores = softmax(name, scores);
    else if (m_.weights == Mixture::Weights::Sigmoid)
      scores = l_.activate(name, scores, Activation::Sigmoid);
    Value correction;
    if (!m_.correction.empty())
      correction = b_.whole(name + "." + m_.correction, {m_.experts}, Init::zeros());
    graph::Build at = b_.at(name);
    auto type = RankedTensorType::get(shape(m_.choices), at.builder.getI64Type());
    routes_ = graph::RouteOp::create(at.builder, at.loc, type, scores, correction, m_.groups, m_.keptGroups,
                                     m_.groupTerms, /*mixture=*/true);
    return weightsOf(name, scores);
  }

  Value weightsOf(const std::string &name, Value scores) {
    graph::Build at = b_.at(name);
    Value wide = at.broadcast(at.reshape(scores, shape({1, m_.experts})), shape({m_.choices, m_.experts}));
    auto type = RankedTensorType::get(shape(m_.choices), at.builder.getF32Type());
    Value chosen = graph::TakeAlongOp::create(at.builder, at.loc, type, wide, routes_, Value());
    if (m_.weights == Mixture::Weights::SoftmaxOfChosen)
      chosen = softmax(name, chosen);
    if (m_.normalised) {
      Value sum = at.reshape(at.reduce(chosen, graph::ReduceKind::sum, {2}), shape(1));
      if (m_.least != 0)
        sum = at.add(sum, at.constant(m_.least, at.builder.getF32Type()));
      chosen = at.div(chosen, sum);
    }
    return m_.factor == 1 ? chosen : at.scale(chosen, m_.factor);
  }

  Value softmax(const std::string &name, Value scores) {
    graph::Build at = b_.at(name);
    return graph::SoftmaxOp::create(at.builder, at.loc, scores.getType(), scores);
  }

  // Multiplies each row by the matrix of its expert, and adds the bias. A stacked tensor holds `parts`
  // matrices with their columns in turn, of which this is number `part`.
  Value product(const std::string &name, Value x, int64_t out, int64_t part, int64_t parts) {
    bool stacked = m_.stored == Mixture::Stored::Stacked;
    int64_t in = graph::shapeOf(x).back();
    Value weights = stacked ? stackedWeights(name, in, out, part, parts) : weightsOneByOne(name, in, out);
    graph::Build at = b_.at(experts_ + "." + name);
    auto type = RankedTensorType::get(shape({m_.choices, out}), at.builder.getF32Type());
    Value y = graph::GroupedMatmulOp::create(at.builder, at.loc, type, x, weights, routes_, Value(), !stacked);
    return stacked ? addBias(name, y, part, parts) : y;
  }

  Value weightsOneByOne(const std::string &name, int64_t in, int64_t out) {
    SmallVector<View> views;
    for (int64_t e = 0; e < m_.experts; ++e) {
      std::string source = experts_ + "." + std::to_string(e) + "." + name + ".weight";
      b_.source(source, {out, in}, l_.weight());
      views.push_back({source, 0, stridesOf({out, in})});
    }
    return b_.parameter(experts_ + "." + name, {m_.experts, out, in}, views);
  }

  Value stackedWeights(const std::string &name, int64_t in, int64_t out, int64_t part, int64_t parts) {
    std::string source = experts_ + "." + name;
    b_.source(source, {m_.experts, in, parts * out}, l_.weight());
    return b_.parameter(source, {m_.experts, in, out}, part, {in * parts * out, parts * out, parts});
  }

  Value addBias(const std::string &name, Value y, int64_t part, int64_t parts) {
    std::string source = experts_ + "." + name + "_bias";
    int64_t out = graph::shapeOf(y).back();
    b_.source(source, {m_.experts, parts * out}, Init::zeros());
    Value biases = b_.parameter(source, {m_.experts, out}, part, {parts * out, parts});
    graph::Build at = b_.at(source);
    Value bias = graph::GatherOp::create(at.builder, at.loc, y.getType(), biases, routes_, Value());
    return at.add(y, bias);
  }

  Value gated(Value gate, Value up) {
    if (m_.limit == 0) {
      Value opened = l_.activate(experts_, gate, m_.activation);
      return b_.at(experts_).mul(opened, up);
    }
    graph::Build at = b_.at(experts_);
    Value high = at.constant(m_.limit, at.builder.getF32Type()), low = at.constant(-m_.limit, at.builder.getF32Type());
    auto atMost = [&](Value v) -> Value { return graph::MinimumOp::create(at.builder, at.loc, v, high); };
    gate = atMost(gate);
    up = graph::MaximumOp::create(at.builder, at.loc, atMost(up), low);
    Value open = graph::SigmoidOp::create(at.builder, at.loc, at.scale(gate, m_.alpha));
    Value more = at.add(up, at.constant(1, at.builder.getF32Type()));
    return at.mul(at.mul(gate, open), more);
  }

  // Lists the tensors of all experts that transformers 5 has in memory, and the router's under its name
  // there.
  void addStacks() {
    std::string block = layer_ + ".mlp.";
    weights::Stack both{block + "experts.gate_up_proj", {m_.experts, 2 * m_.inner, width_}, {}};
    weights::Stack down{block + "experts.down_proj", {m_.experts, width_, m_.inner}, {}};
    for (int64_t e = 0; e < m_.experts; ++e) {
      std::string expert = experts_ + "." + std::to_string(e) + ".";
      both.parts.push_back(expert + m_.names.gate + ".weight");
      both.parts.push_back(expert + m_.names.up + ".weight");
      down.parts.push_back(expert + m_.names.down + ".weight");
    }
    stacks_.push_back(std::move(both));
    stacks_.push_back(std::move(down));
    std::string router = block + "gate.weight", own = block_ + "." + m_.names.router + ".weight";
    if (router != own)
      stacks_.push_back({router, {m_.experts, width_}, {own}});
  }
};

} // namespace

Value hf::mixture(Layers &layers, const Mixture &mixture, const std::string &layer, Value x,
                  std::vector<weights::Stack> &stacks) {
  return MixtureBuilder(layers, mixture, layer, x, stacks).build();
}
