#include "lib/huggingface/Layers.h"

#include "dialects/graph/Evaluate.h"

#include <numeric>

using namespace llmc;
using namespace llmc::hf;
using namespace mlir;

Activation hf::readActivation(Config &config, Config::Names names, const char *fallback) {
  static const std::pair<const char *, Activation> known[] = {
      {"gelu", Activation::GeluErf},
      {"gelu_python", Activation::GeluErf},
      {"gelu_new", Activation::GeluTanh},
      {"gelu_pytorch_tanh", Activation::GeluTanh},
      {"gelu_python_tanh", Activation::GeluTanh},
      {"gelu_fast", Activation::GeluTanh},
      {"gelu_accurate", Activation::GeluTanh},
      {"quick_gelu", Activation::GeluQuick},
      {"relu", Activation::Relu},
      {"relu2", Activation::ReluSquared},
      {"silu", Activation::Silu},
      {"swish", Activation::Silu},
      {"tanh", Activation::Tanh},
      {"sigmoid", Activation::Sigmoid}};
  std::string name = config.text(names, fallback), all;
  for (auto [spelling, activation] : known) {
    if (name == spelling)
      return activation;
    all += std::string(all.empty() ? "" : ", ") + spelling;
  }
  config.note(config.quoted(names.front()) + ": '" + name + "' is not supported: " + all + " are");
  return Activation::GeluTanh;
}

//===-- Tables, matrices ----------------------------------------------------===//

Value Layers::table(const std::string &name, int64_t rows, int64_t width,
                    const std::string &alias) {
  return b_.whole(name + ".weight", {rows, width}, weight(), alias);
}

Value Layers::lookUp(const std::string &name, Value table, Value ids) {
  graph::Build at = b_.at(name);
  SmallVector<int64_t> shape(graph::shapeOf(ids));
  shape.push_back(graph::shapeOf(table)[1]);
  auto type = RankedTensorType::get(shape, at.builder.getF32Type());
  return graph::GatherOp::create(at.builder, at.loc, type, table, ids, Value());
}

Value Layers::part(const Linear &linear, const char *suffix, llvm::ArrayRef<int64_t> rest,
                   Init init) {
  std::string name = linear.name + suffix;
  int64_t rowSize = rest.empty() ? 1 : rest[0], rows = linear.rows ? linear.rows : linear.out;
  SmallVector<int64_t> shape{rows}, strides{rowSize};
  shape.append(rest.begin(), rest.end());
  b_.source(name, shape, init);
  shape[0] = linear.out;
  if (linear.groups > 1) {
    shape[0] = linear.out / linear.groups;
    shape.insert(shape.begin(), linear.groups);
    strides.insert(strides.begin(), rows / linear.groups * rowSize);
  }
  if (!rest.empty())
    strides.push_back(1);
  return b_.parameter(name, shape, linear.first * rowSize, strides);
}

Value Layers::linear(const Linear &linear, Value x) {
  Value w = part(linear, ".weight", {graph::shapeOf(x).back()}, weight());
  graph::Build at = b_.at(linear.name);
  Value y = at.matmul(linear.groups > 1 ? "bsd,hed->bshe" : "bsd,ed->bse", x, w,
                      at.builder.getF32Type());
  if (!linear.bias)
    return y;
  Value bias = part(linear, ".bias", {}, Init::zeros());
  return b_.at(linear.name).add(y, bias);
}

Value Layers::project(const std::string &name, Value x, Value table) {
  graph::Build at = b_.at(name);
  return at.matmul("bsd,vd->bsv", x, table, at.builder.getF32Type());
}

//===-- Norms, activations --------------------------------------------------===//

Value Layers::scaleOf(const std::string &name, int64_t width, const Norm &norm) {
  Value scale = b_.whole(name + ".weight", {width}, norm.start);
  if (!norm.onePlus)
    return scale;
  graph::Build at = b_.at(name);
  return at.add(scale, at.constant(1, at.builder.getF32Type()));
}

Value Layers::norm(const std::string &name, Value x, const Norm &norm) {
  llvm::ArrayRef<int64_t> shape = graph::shapeOf(x);
  Value scale = scaleOf(name, shape.back(), norm);
  Value bias;
  if (norm.kind == Norm::Kind::Layer)
    bias = b_.whole(name + ".bias", {shape.back()}, Init::zeros());
  graph::Build at = b_.at(name);
  auto rows = RankedTensorType::get(shape.drop_back(), at.builder.getF32Type());
  FloatAttr epsilon = at.builder.getF64FloatAttr(norm.epsilon);
  if (bias)
    return graph::LayerNormOp::create(at.builder, at.loc, x.getType(), rows, rows, x, scale, bias,
                                      epsilon)
        .getY();
  return graph::RmsNormOp::create(at.builder, at.loc, x.getType(), rows, x, scale, epsilon).getY();
}

Value Layers::activate(const std::string &name, Value x, Activation activation) {
  graph::Build at = b_.at(name);
  auto make = [&](auto op, Value operand) -> Value {
    return decltype(op)::create(at.builder, at.loc, operand);
  };
  switch (activation) {
  case Activation::GeluTanh:
    return graph::GeluOp::create(at.builder, at.loc, x, graph::GeluForm::tanh);
  case Activation::GeluErf:
    return graph::GeluOp::create(at.builder, at.loc, x, graph::GeluForm::erf);
  case Activation::GeluQuick:
    return at.mul(x, make(graph::SigmoidOp(), at.scale(x, 1.702)));
  case Activation::Relu:
    return make(graph::ReluOp(), x);
  case Activation::ReluSquared:
    x = make(graph::ReluOp(), x);
    return at.mul(x, x);
  case Activation::Silu:
    return at.mul(x, make(graph::SigmoidOp(), x));
  case Activation::Tanh:
    return make(graph::TanhOp(), x);
  case Activation::Sigmoid:
    return make(graph::SigmoidOp(), x);
  }
  return {};
}

Value Layers::softcap(const std::string &name, Value x, double cap) {
  graph::Build at = b_.at(name);
  Value ratio = at.div(x, at.constant(cap, at.builder.getF32Type()));
  return at.scale(graph::TanhOp::create(at.builder, at.loc, ratio), cap);
}

//===-- Attention -----------------------------------------------------------===//

Value Layers::splitHeads(const std::string &name, Value x, int64_t heads) {
  int64_t dim = graph::typeOf(x).getNumElements() / (batch_ * sequence_ * heads);
  return b_.at(name).reshape(x, {batch_, sequence_, heads, dim});
}

Angles Layers::angles(const std::string &name, const Rope &rope) {
  graph::Build at = b_.at(name);
  Type f32 = at.builder.getF32Type();
  const int64_t size = sequence_ * rope.half();
  // Computes angles of one token, which may be equal, and those that are computed at each step for their size.
  if (rope.angles == AngleTables::LeftOut || (rope.angles == AngleTables::Sized && sequence_ > 1 && size <= graph::kMaxGrown)) {
    auto type = RankedTensorType::get({1, sequence_, rope.half()}, f32);
    // Has one number that is not equal, and that tells tables of other frequencies apart.
    const float own = float(rope.factor) * std::accumulate(rope.frequencies.begin(), rope.frequencies.end(), 0.f);
    auto filled = [&](float value) {
      std::vector<float> values(rope.angles == AngleTables::Sized ? size : 1, value);
      if (values.size() > 1)
        values.front() += own;
      return graph::ConstantOp::create(at.builder, at.loc, type, DenseElementsAttr::get(type, llvm::ArrayRef(values)));
    };
    return {filled(1), filled(0)}; // two tables, as two are moved
  }
  auto positionsType = RankedTensorType::get({1, sequence_, 1}, f32);
  Value positions = graph::IotaOp::create(at.builder, at.loc, positionsType, Value(),
                                          at.builder.getI64IntegerAttr(1));
  auto type = RankedTensorType::get({rope.half()}, f32);
  Value frequencies = graph::ConstantOp::create(
      at.builder, at.loc, type,
      DenseElementsAttr::get(type, llvm::ArrayRef<float>(rope.frequencies)));
  Value angle = at.mul(positions, frequencies);
  Value cos = graph::CosOp::create(at.builder, at.loc, angle);
  Value sin = graph::SinOp::create(at.builder, at.loc, angle);
  if (rope.factor == 1)
    return {cos, sin};
  return {at.scale(cos, rope.factor), at.scale(sin, rope.factor)};
}

Value Layers::rotate(const std::string &name, Value x, const Angles &angles, bool interleaved) {
  graph::Build at = b_.at(name);
  return graph::RotaryOp::create(at.builder, at.loc, x.getType(), x, angles.cos, angles.sin, interleaved);
}

// Appends zeros to each head.
static Value padHeads(graph::Build &at, Value x, int64_t dim) {
  SmallVector<int64_t> shape(graph::shapeOf(x)), none(shape.size(), 0), high = none;
  high.back() = dim - shape.back();
  if (high.back() == 0)
    return x;
  shape.back() = dim;
  return graph::PadOp::create(at.builder, at.loc, graph::typeOf(x).clone(shape), x, none, high, none);
}

Value Layers::attend(const std::string &name, Value q, Value k, Value v,
                     const Attention &attention) {
  graph::Build at = b_.at(name);
  int64_t valueDim = graph::shapeOf(v).back(), dim = std::max(graph::shapeOf(q).back(), valueDim);
  q = padHeads(at, q, dim);
  k = padHeads(at, k, dim);
  v = padHeads(at, v, dim);
  llvm::ArrayRef<int64_t> shape = graph::shapeOf(q);
  auto rows = RankedTensorType::get(shape.drop_back(), at.builder.getF32Type());
  std::optional<int64_t> window;
  if (attention.window)
    window = attention.window;
  auto mixed = graph::AttentionOp::create(
      at.builder, at.loc, TypeRange({q.getType(), Type(rows)}), q, k, v,
      APFloat(attention.scale), attention.causal, Value(), 0, window, attention.softcap);
  Value o = mixed.getO();
  if (valueDim != dim)
    o = at.slice(o, 3, 0, valueDim);
  if (attention.sinks) {
    // exp(sink) joins the sum of exponentials, exp(lse), by which the values were divided.
    Value more = at.sub(mixed.getLse(), attention.sinks);
    Value share = graph::SigmoidOp::create(at.builder, at.loc, more);
    o = at.mul(o, at.reshape(share, {batch_, sequence_, shape[2], 1}));
  }
  return at.reshape(o, {batch_, sequence_, shape[2] * valueDim});
}
