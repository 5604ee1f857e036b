// Converts com.microsoft.MoE (ONNX Runtime's docs/ContribOperators.md) into the ops that a mixture of a
// config.json consists of.
#include "lib/onnx/convert/Formula.h"
#include "llvm/ADT/StringMap.h"

using namespace llmc::onnximport;
using namespace llmc;
using namespace mlir;
using llmc::support::error;
using llmc::support::Result;

namespace {

enum MoeInput { Input, Router, Up, UpBias, Down, DownBias, Gate, GateBias };

class Mixture {
public:
  explicit Mixture(NodeAdaptor &call) : call_(call), b_(call.build) {}

  ConvertResult build() {
    if (support::Status s = readSizes(); !s)
      return s.takeError();
    if (support::Status s = readAttributes(); !s)
      return s.takeError();
    choose();
    Value up = product(call_.value(Input), Up, UpBias);
    Value hidden = activated(up);
    Value results = product(hidden, Down, DownBias);
    Shape wide = tokens({choices_, 1});
    Value weighted = b_.mul(results, b_.reshape(weights_, wide));
    return single(b_.reduce(weighted, graph::ReduceKind::sum, {int64_t(tokens_.size())}));
  }

private:
  NodeAdaptor &call_;
  graph::Build &b_;
  Shape tokens_; // the dims of tokens: [tokens] or [batch, sequence]
  int64_t width_ = 0, inner_ = 0, experts_ = 0, choices_ = 0, parts_ = 1;
  std::string activation_;
  bool interleaved_ = false, swiglu_ = false;
  Value routes_, weights_; // [token..., choice]

  Shape tokens(llvm::ArrayRef<int64_t> further) const {
    Shape shape = tokens_;
    shape.append(further.begin(), further.end());
    return shape;
  }

  support::Status needShape(size_t i, Shape wanted, const char *name) const {
    if (!call_.has(i) || (call_.isFloat(i) && call_.shape(i) == wanted))
      return support::ok();
    return error(name, " of shape ", toText(call_.shape(i)), " must be floats ", toText(wanted));
  }

  support::Status readSizes() {
    bool given = call_.isFloat(Input) && call_.isFloat(Router) && call_.isFloat(Up) && call_.isFloat(Down);
    size_t rank = given ? call_.shape(Input).size() : 0;
    if ((rank != 2 && rank != 3) || call_.shape(Up).size() != 3 || call_.shape(Down).size() != 3)
      return error("needs an input of 2 or 3 dims, router_probs, and weights of three dims, all floats");
    tokens_ = Shape(llvm::ArrayRef<int64_t>(call_.shape(Input)).drop_back());
    width_ = call_.shape(Input).back();
    experts_ = call_.shape(Up)[0];
    inner_ = call_.shape(Down)[2];
    activation_ = call_.node.text("activation_type", "relu");
    swiglu_ = activation_ == "swiglu";
    int64_t fusion = call_.node.integer("swiglu_fusion", 0);
    if (fusion < 0 || fusion > 2)
      return error("swiglu_fusion is ", fusion, ", 0, 1 and 2 are defined");
    parts_ = swiglu_ && fusion ? 2 : 1;
    interleaved_ = fusion == 1;
    if (swiglu_ && call_.has(Gate) == (fusion != 0))
      return error("has swiglu_fusion = ", fusion, " with", call_.has(Gate) ? "" : "out",
                   " fc3_experts_weights: they are there where it is 0, and only there");
    struct Wanted {
      MoeInput input;
      Shape shape;
      const char *name;
    };
    for (const Wanted &wanted : {Wanted{Router, {*countElements(tokens_), experts_}, "router_probs"},
                                 Wanted{Up, {experts_, parts_ * inner_, width_}, "fc1_experts_weights"},
                                 Wanted{UpBias, {experts_, parts_ * inner_}, "fc1_experts_bias"},
                                 Wanted{Down, {experts_, width_, inner_}, "fc2_experts_weights"},
                                 Wanted{DownBias, {experts_, width_}, "fc2_experts_bias"},
                                 Wanted{Gate, {experts_, inner_, width_}, "fc3_experts_weights"},
                                 Wanted{GateBias, {experts_, inner_}, "fc3_experts_bias"}})
      if (support::Status s = needShape(wanted.input, wanted.shape, wanted.name); !s)
        return s;
    return support::ok();
  }

  support::Status readAttributes() {
    choices_ = call_.node.integer("k", 1);
    if (choices_ < 1 || choices_ > experts_)
      return error("k = ", choices_, " experts for each token, of ", experts_);
    if (call_.node.integer("use_sparse_mixer", 0))
      return error("use_sparse_mixer = 1 is not supported: its weights follow from the distance between the two best "
                   "scores; export without it");
    if (call_.node.integer("swiglu_limit_after_activation", 0))
      return error("swiglu_limit_after_activation = 1 is not supported: 0 is");
    for (const char *known : {"relu", "gelu", "silu", "swiglu", "identity"})
      if (activation_ == known)
        return support::ok();
    return error("activation_type '", activation_, "' is not supported: relu, gelu, silu, swiglu and identity are");
  }

  // Sets routes and weights: those of the softmax over all experts.
  void choose() {
    Value scores = softmaxOf(call_, b_.reshape(call_.value(Router), tokens({experts_})));
    auto routes = RankedTensorType::get(tokens({choices_}), b_.builder.getI64Type());
    routes_ = graph::RouteOp::create(b_.builder, b_.loc, routes, scores, Value(), 1, 1, 1,
                                     /*mixture=*/true);
    Value wide = b_.broadcast(b_.reshape(scores, tokens({1, experts_})), tokens({choices_, experts_}));
    auto type = RankedTensorType::get(tokens({choices_}), b_.builder.getF32Type());
    weights_ = graph::TakeAlongOp::create(b_.builder, b_.loc, type, wide, routes_, Value());
    if (call_.node.integer("normalize_routing_weights", 0))
      weights_ = b_.div(weights_, reduceKept(call_, weights_, graph::ReduceKind::sum, {int64_t(tokens_.size())}));
  }

  // Multiplies each row by the matrix [out, in] of its expert, and adds its bias if there is one.
  Value product(Value rows, MoeInput weights, MoeInput bias) {
    auto type = RankedTensorType::get(tokens({choices_, call_.shape(weights)[1]}), b_.builder.getF32Type());
    Value y = graph::GroupedMatmulOp::create(b_.builder, b_.loc, type, rows, call_.value(weights, UseKind::Weight),
                                             routes_, Value(), /*transposed=*/true);
    if (!call_.has(bias))
      return y;
    return b_.add(y, gatherRows(call_, call_.value(bias, UseKind::Bias), routes_));
  }

  // Returns every `parts_`-th feature from `part` on, or the part of that number.
  Value part(Value rows, int64_t part) {
    int64_t last = graph::shapeOf(rows).size() - 1;
    if (!interleaved_)
      return b_.slice(rows, last, part * inner_, (part + 1) * inner_);
    Shape at;
    for (int64_t i = 0; i < inner_; ++i)
      at.push_back(2 * i + part);
    return selectIndices(call_, rows, last, at);
  }

  Value activated(Value up) {
    if (swiglu_ && parts_ == 2)
      return swiglu(part(up, 0), part(up, 1));
    if (swiglu_)
      return swiglu(up, product(call_.value(Input), Gate, GateBias));
    Value out = up;
    if (activation_ == "relu")
      out = make<graph::ReluOp>(call_, up);
    else if (activation_ == "gelu")
      out = make<graph::GeluOp>(call_, up, graph::GeluForm::tanh);
    else if (activation_ == "silu")
      out = b_.mul(up, make<graph::SigmoidOp>(call_, up));
    return call_.has(Gate) ? b_.mul(out, product(call_.value(Input), Gate, GateBias)) : out;
  }

  // Returns g * sigmoid(alpha * g) * (l + beta), both limited where a limit is given.
  Value swiglu(Value g, Value l) {
    if (call_.node.has("swiglu_limit")) {
      Value limit = call_.scalar(call_.node.number("swiglu_limit", 0));
      g = minimum(call_, g, limit);
      l = maximum(call_, minimum(call_, l, limit), b_.neg(limit));
    }
    double alpha = call_.node.number("activation_alpha", 1), beta = call_.node.number("activation_beta", 0);
    Value inside = alpha == 1 ? g : b_.mul(g, call_.scalar(alpha));
    Value open = b_.mul(g, make<graph::SigmoidOp>(call_, inside));
    return b_.mul(open, beta == 0 ? l : b_.add(l, call_.scalar(beta)));
  }
};

ConvertResult convertMoe(NodeAdaptor &call) { return Mixture(call).build(); }

ConvertResult refuseQuantized(NodeAdaptor &call) {
  return error("experts with weights of ", call.node.integer("expert_weight_bits", 4),
               " bits are not supported: export the model in float32, float16 or bfloat16");
}

} // namespace

ConvertFunction llmc::onnximport::findExpertsConverter(llvm::StringRef op) {
  static const llvm::StringMap<ConvertFunction> table = {{"com.microsoft::MoE", convertMoe},
                                                         {"com.microsoft::QMoE", refuseQuantized}};
  return table.lookup(op);
}
