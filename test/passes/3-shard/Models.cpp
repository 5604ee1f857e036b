// The text of a model. Parameters are declared as they are used.
#include "test/passes/3-shard/Models.h"

#include <sstream>

namespace llmc::test {
namespace {

using Shape = std::vector<int64_t>;

std::string tensor(Shape shape, const char *element = "f32") {
  std::string text = "tensor<";
  for (int64_t size : shape)
    text += std::to_string(size) + "x";
  return text + element + ">";
}

std::string strides(const Shape &shape) {
  std::string text;
  int64_t size = 1;
  for (size_t i = shape.size(); i-- > 0; size *= shape[i])
    text = std::to_string(size) + (text.empty() ? "" : ", ") + text;
  return text;
}

class Writer {
public:
  explicit Writer(const Model &model) : m(model) {}
  std::string run();

private:
  std::string type(Shape shape) const { return tensor(shape); }
  Shape rows(std::initializer_list<int64_t> rest) const {
    Shape shape = {m.batch, m.sequence};
    shape.insert(shape.end(), rest);
    return shape;
  }
  Shape weight(int64_t in, int64_t out) const {
    return m.transposed ? Shape{out, in} : Shape{in, out};
  }

  void declare(const std::string &name, const Shape &shape, bool stacked);
  void declareFused();
  void state(const std::string &name, const Shape &shape, bool stacked, const std::string &views);
  std::string newValue() { return "%v" + std::to_string(values++); }
  std::string emit(const std::string &op, const std::string &types, const std::string &node);
  std::string norm(const std::string &x, const std::string &name, const std::string &end);
  std::string linear(const std::string &x, const std::string &name, int64_t in, int64_t out);
  std::string add(const std::string &a, const std::string &b, const Shape &right, const Shape &left);
  std::string reshape(const std::string &x, const Shape &from, const Shape &to);
  std::string attention(const std::string &x);
  std::string splitLinear(const std::string &x, int which);
  std::string rotate(const std::string &x, int64_t heads);
  std::string headNorm(const std::string &x, const std::string &name, int64_t heads);
  std::string mlp(const std::string &x);
  std::string block();
  void tables();

  // Columns of w_q, w_k and w_v.
  int64_t columns(int which) const { return which == 0 ? m.width : m.kvWidth(); }
  Shape headWeight(int which) const {
    int64_t all = columns(which), heads = all / m.headDim();
    if (!m.split)
      return weight(m.width, all);
    return m.transposed ? Shape{heads, m.headDim(), m.width} : Shape{m.width, heads, m.headDim()};
  }
  Shape headBias(int which) const {
    int64_t all = columns(which);
    return m.split ? Shape{all / m.headDim(), m.headDim()} : Shape{all};
  }

  const Model &m;
  int values = 0;
  std::ostringstream states, arguments, body;
  std::vector<std::pair<std::string, Shape>> layer; // stacked parameters
};

void Writer::state(const std::string &name, const Shape &shape, bool stacked,
                   const std::string &views) {
  Shape full = shape;
  if (stacked) {
    full.insert(full.begin(), m.layers);
    layer.push_back({name, shape});
  }
  states << "graph.state @" << name << " : " << type(full) << " parameter"
         << (stacked ? " stacked" : "") << " views [" << views << "]\n";
  arguments << ", %" << name << ": " << type(full) << " {graph.state = @" << name << "}";
}

void Writer::declare(const std::string &name, const Shape &shape, bool stacked) {
  std::string views;
  for (int64_t i = 0; i < (stacked ? m.layers : 1); ++i) {
    std::string source = "src." + name + (stacked ? "." + std::to_string(i) : "");
    states << "graph.source @\"" << source << "\" : " << type(shape)
           << " {init = #graph.init_kind<zeros>}\n";
    views += (views.empty() ? "" : ", ") + ("#graph.view<@\"" + source + "\", 0, [") +
             strides(shape) + "]>";
  }
  state(name, shape, stacked, views);
}

// q, k and v as columns of one source a layer.
void Writer::declareFused() {
  int64_t width = m.width, all = width + 2 * m.kvWidth();
  for (int64_t i = 0; i < m.layers; ++i)
    states << "graph.source @\"src.qkv." << i << "\" : " << type({width, all})
           << " {init = #graph.init_kind<zeros>}\n";
  for (int which : m.order) {
    std::string head = m.split ? std::to_string(m.headDim()) + ", 1" : "1", row = std::to_string(all);
    std::string views, each = m.transposed ? head + ", " + row : row + ", " + head;
    int64_t offset = which == 0 ? 0 : width + (which - 1) * m.kvWidth();
    for (int64_t i = 0; i < m.layers; ++i)
      views += (i ? ", " : "") + ("#graph.view<@\"src.qkv." + std::to_string(i) + "\", ") +
               std::to_string(offset) + ", [" + each + "]>";
    state(std::string("w_") + "qkv"[which], headWeight(which), true, views);
  }
}

std::string Writer::emit(const std::string &op, const std::string &types, const std::string &node) {
  std::string value = newValue();
  body << value << " = graph." << op << " : " << types << " loc(\"" << node << "\")\n";
  return value;
}

// Parameters are %name_s and %name_b, inside of a layer with "_l" at the end.
std::string Writer::norm(const std::string &x, const std::string &name, const std::string &end) {
  if (!m.norm)
    return x;
  std::string y = newValue(), X = type(rows({m.width})), V = type({m.width}), R = type(rows({}));
  if (m.rms) {
    body << y << ", " << newValue() << " = graph.rms_norm " << x << ", %" << name << "_s" << end
         << " {eps = 1.0e-5 : f64} : (" << X << ", " << V << ") -> (" << X << ", " << R
         << ") loc(\"" << name << "\")\n";
    return y;
  }
  body << y << ", " << newValue() << ", " << newValue() << " = graph.layer_norm " << x << ", %" << name
       << "_s" << end << ", %" << name << "_b" << end << " {eps = 1.0e-5 : f64} : (" << X << ", " << V << ", " << V << ") -> ("
       << X << ", " << R << ", " << R << ") loc(\"" << name << "\")\n";
  return y;
}

std::string Writer::add(const std::string &a, const std::string &b, const Shape &left,
                        const Shape &right) {
  return emit("add " + a + ", " + b,
              "(" + type(left) + ", " + type(right) + ") -> " + type(left), "add");
}

std::string Writer::linear(const std::string &x, const std::string &name, int64_t in, int64_t out) {
  std::string y = emit(std::string("matmul \"bsd,") + (m.transposed ? "ed" : "de") + "->bse\" " + x +
                           ", %w_" + name + "_l",
                       "(" + type(rows({in})) + ", " + type(weight(in, out)) + ") -> " +
                           type(rows({out})),
                       name);
  return m.bias ? add(y, "%b_" + name + "_l", rows({out}), {out}) : y;
}

std::string Writer::reshape(const std::string &x, const Shape &from, const Shape &to) {
  return emit("reshape " + x, "(" + type(from) + ") -> " + type(to), "heads");
}

std::string Writer::splitLinear(const std::string &x, int which) {
  std::string name(1, "qkv"[which]);
  Shape H = rows({columns(which) / m.headDim(), m.headDim()});
  std::string y = emit(std::string("matmul \"bsd,") + (m.transposed ? "etd" : "det") + "->bset\" " + x +
                           ", %w_" + name + "_l",
                       "(" + type(rows({m.width})) + ", " + type(headWeight(which)) + ") -> " + type(H),
                       name);
  return m.bias ? add(y, "%b_" + name + "_l", H, headBias(which)) : y;
}

std::string Writer::rotate(const std::string &x, int64_t heads) {
  std::string H = type(rows({heads, m.headDim()})), T = type({1, m.sequence, m.headDim() / 2});
  return emit("rotary " + x + ", %cos_l, %sin_l", "(" + H + ", " + T + ", " + T + ") -> " + H, "rotary");
}

std::string Writer::headNorm(const std::string &x, const std::string &name, int64_t heads) {
  std::string y = newValue(), H = type(rows({heads, m.headDim()}));
  body << y << ", " << newValue() << " = graph.rms_norm " << x << ", %" << name
       << "_s_l {eps = 1.0e-5 : f64} : (" << H << ", " << type({m.headDim()}) << ") -> (" << H
       << ", " << type(rows({heads})) << ") loc(\"" << name << "\")\n";
  return y;
}

std::string Writer::attention(const std::string &x) {
  std::array<std::string, 3> qkv;
  for (int which : m.order) {
    int64_t heads = columns(which) / m.headDim();
    std::string name(1, "qkv"[which]);
    std::string y = m.split ? splitLinear(x, which)
                            : reshape(linear(x, name, m.width, columns(which)), rows({columns(which)}),
                                      rows({heads, m.headDim()}));
    if (m.headNorm && which < 2)
      y = headNorm(y, name + "n", heads);
    qkv[which] = m.rotary && which < 2 ? rotate(y, heads) : y;
  }
  Shape flat = rows({m.width}), split = rows({m.heads, m.headDim()});
  std::string o = newValue(), H = type(split), K = type(rows({columns(1) / m.headDim(), m.headDim()}));
  body << o << ", " << newValue() << " = graph.attention " << qkv[0] << ", " << qkv[1] << ", "
       << qkv[2] << (m.masked ? ", %mask_l" : "") << " {scale = 0.5 : f64, causal = true"
       << (m.window ? ", window = 2 : i64" : "") << ", softcap = " << std::fixed << m.softcap
       << " : f64} : (" << H << ", " << K << ", " << K
       << (m.masked ? ", " + tensor({m.batch, 1, 1, m.sequence}, "i1") : "") << ") -> (" << H << ", "
       << type(rows({m.heads})) << ") loc(\"attention\")\n";
  return linear(reshape(o, split, flat), "o", m.width, m.width);
}

std::string Writer::mlp(const std::string &x) {
  std::string F = type(rows({m.hidden})), unary = "(" + F + ") -> " + F,
              binary = "(" + F + ", " + F + ") -> " + F, up = linear(x, "up", m.width, m.hidden);
  if (m.gated) {
    std::string gate = linear(x, "gate", m.width, m.hidden), s = emit("sigmoid " + gate, unary, "silu");
    up = emit("mul " + emit("mul " + gate + ", " + s, binary, "silu") + ", " + up, binary, "gate");
  } else {
    up = emit("gelu " + up + " {form = #graph.gelu_form<tanh>}", unary, "gelu");
  }
  return linear(up, "down", m.hidden, m.width);
}

// One layer from %x; returns what it yields.
std::string Writer::block() {
  Shape X = rows({m.width});
  std::string x = "%x";
  if (m.scaled)
    x = emit("mul %x, %scale_l", "(" + type(X) + ", " + type({1, m.width}) + ") -> " + type(X), "scale");
  auto join = [&](const std::string &branch, const std::string &name) {
    std::string y = m.postNorm ? norm(branch, name, "_l") : branch;
    return m.residual ? add(x, y, X, X) : y;
  };
  std::string input = x; // of both branches, where they are parallel
  if (m.attention)
    x = join(attention(norm(x, "n1", "_l")), "p1");
  return join(mlp(norm(m.parallel ? input : x, "n2", "_l")), "p2");
}

// Writes the values that layers capture: angles of rows, and which keys are words.
void Writer::tables() {
  int64_t half = m.headDim() / 2;
  std::string T = type({1, m.sequence, half}), I = tensor({1, m.sequence, half}, "i64");
  if (m.rotary) {
    std::string at = emit("iota {dim = 1 : i64}", "() -> " + I, "positions");
    std::string angle = emit("cast " + at, "(" + I + ") -> " + T, "positions");
    body << "%cos = graph.cos " << angle << " : (" << T << ") -> " << T << "\n"
         << "%sin = graph.sin " << angle << " : (" << T << ") -> " << T << "\n";
  }
  if (!m.masked)
    return;
  std::string R = tensor(rows({}), "i64"), B = tensor(rows({}), "i1"), S = tensor({}, "i64");
  body << "%two = graph.constant dense<2> : " << S << "\n";
  std::string seen = emit("compare %ids, %two {predicate = #graph.predicate<ge>}",
                          "(" + R + ", " + S + ") -> " + B, "mask");
  body << "%mask = graph.reshape " << seen << " : (" << B << ") -> "
       << tensor({m.batch, 1, 1, m.sequence}, "i1") << "\n";
}

std::string Writer::run() {
  int64_t width = m.width;
  std::string X = type(rows({width})), I = tensor(rows({}), "i64");
  declare("wte", {m.vocabulary, width}, false);
  if (m.positions)
    declare("wpe", {m.sequence + 2, width}, false);
  auto norms = [&](const std::string &name, bool stacked) {
    if (m.norm)
      declare(name + "_s", {width}, stacked);
    if (m.norm && !m.rms)
      declare(name + "_b", {width}, stacked);
  };
  auto dense = [&](const std::string &name, int64_t in, int64_t out) {
    declare("w_" + name, weight(in, out), true);
    if (m.bias)
      declare("b_" + name, {out}, true);
  };
  if (m.attention) {
    norms("n1", true);
    if (m.fused)
      declareFused();
    for (int which : m.order) {
      if (!m.fused)
        declare(std::string("w_") + "qkv"[which], headWeight(which), true);
      if (m.bias)
        declare(std::string("b_") + "qkv"[which], headBias(which), true);
    }
    for (const char *name : {"qn_s", "kn_s"})
      if (m.headNorm)
        declare(name, {m.headDim()}, true);
    dense("o", width, width);
  }
  norms("n2", true);
  if (m.postNorm && m.attention)
    norms("p1", true);
  if (m.postNorm)
    norms("p2", true);
  dense("up", width, m.hidden);
  if (m.gated)
    dense("gate", width, m.hidden);
  dense("down", m.hidden, width);
  norms("nf", false);
  if (m.scaled)
    declare("scales", {width}, false);
  if (!m.tied)
    declare("head", weight(width, m.vocabulary), false);

  std::string h = emit("gather %wte, %ids", "(" + type({m.vocabulary, width}) + ", " + I + ") -> " + X, "wte");
  if (m.positions) {
    std::string p = emit("slice %wpe {starts = array<i64: 0, 0>, limits = array<i64: " +
                             std::to_string(m.sequence) + ", " + std::to_string(width) +
                             ">, steps = array<i64: 1, 1>}",
                         "(" + type({m.sequence + 2, width}) + ") -> " + type({m.sequence, width}), "wpe");
    h = add(h, p, rows({width}), {m.sequence, width});
  }
  if (m.attention)
    tables();
  if (m.scaled) {
    std::string V = type({width});
    std::string scale = emit("tanh %scales", "(" + V + ") -> " + V, "scale");
    body << "%scale = graph.reshape " << scale << " : (" << V << ") -> " << type({1, width})
         << " loc(\"scale\")\n";
  }
  std::string result = newValue(), operands, types, inner, captured, capturedTypes;
  for (auto &[name, shape] : layer) {
    Shape full = shape;
    full.insert(full.begin(), m.layers);
    operands += (operands.empty() ? "%" : ", %") + name;
    types += (types.empty() ? "" : ", ") + type(full);
    inner += ", %" + name + "_l: " + type(shape);
  }
  auto capture = [&](const std::string &name, const std::string &type) {
    captured += (captured.empty() ? "%" : ", %") + name;
    capturedTypes += (capturedTypes.empty() ? "" : ", ") + type;
    inner += ", %" + name + "_l: " + type;
  };
  for (const char *name : {"cos", "sin"})
    if (m.attention && m.rotary)
      capture(name, type({1, m.sequence, m.headDim() / 2}));
  if (m.attention && m.masked)
    capture("mask", tensor({m.batch, 1, 1, m.sequence}, "i1"));
  if (m.scaled)
    capture("scale", type({1, width}));
  body << result << " = graph.repeat " << m.layers << " carried(" << h << " : " << X << ") stacked("
       << operands << " : " << types << ") captured(" << captured
       << (captured.empty() ? "" : " : " + capturedTypes) << ") -> " << X << " {\n^bb0(%x: " << X
       << inner << "):\n";
  std::string yielded = block();
  body << "graph.yield " << yielded << " : " << X << "\n} loc(\"layers\")\n";
  std::string last = norm(result, "nf", ""), Y = type(rows({m.vocabulary}));
  bool rowsOfTable = m.tied || m.transposed;
  std::string logits =
      emit(std::string("matmul \"bsd,") + (rowsOfTable ? "vd" : "dv") + "->bsv\" " + last +
               (m.tied ? ", %wte" : ", %head"),
           "(" + X + ", " + type(rowsOfTable ? Shape{m.vocabulary, width} : Shape{width, m.vocabulary}) +
               ") -> " + Y,
           "head");
  if (m.softcap > 0)
    logits = emit("tanh " + logits, "(" + Y + ") -> " + Y, "softcap");
  body << "return " << logits << " : " << Y << "\n";

  std::ostringstream text;
  text << "module attributes {graph.batch = " << m.batch << " : i64, graph.model = {name = \"m\", sequence = "
       << m.sequence << " : i64, vocabulary = " << m.vocabulary << " : i64, layers = " << m.layers
       << " : i64}} {\n"
       << states.str() << "func.func @forward(%ids: " << I << " {graph.input = \"input_ids\"}"
       << arguments.str() << ") -> (" << Y << " {graph.output = \"logits\"}) {\n"
       << body.str() << "}\n}\n";
  return text.str();
}

} // namespace

std::string Model::text() const { return Writer(*this).run(); }

std::string Model::describe() const {
  std::ostringstream text;
  text << batch << " x " << sequence << " tokens, width " << width << ", " << heads << " heads, hidden "
       << hidden << ", " << vocabulary << " words, " << layers << " layers";
  auto flag = [&](bool on, const char *name) { text << (on ? ", " : ", no ") << name; };
  flag(attention, "attention");
  flag(norm, "norm");
  flag(bias, "bias");
  flag(positions, "positions");
  flag(residual, "residual");
  flag(tied, "tying");
  flag(transposed, "transposed weights");
  text << ", " << kvHeads << " kv heads";
  flag(rms, "rms");
  flag(rotary, "rotary");
  flag(headNorm, "norms of heads");
  flag(split, "weights of heads");
  flag(gated, "gates");
  flag(parallel, "parallel branches");
  flag(postNorm, "norms of branches");
  flag(window, "window");
  flag(masked, "mask");
  flag(scaled, "scales of layers");
  flag(softcap > 0, "softcap");
  return text.str();
}

Mesh drawMesh(std::mt19937 &random, int64_t maxRanks) {
  Mesh mesh;
  do {
    mesh.dp = int64_t(1) << random() % 3;
    mesh.pp = int64_t(1) << random() % 3;
    mesh.tp = int64_t(1) << random() % 3;
  } while (mesh.ranks() > maxRanks);
  // Half of the meshes have experts' ranks too: any that agree.
  std::mt19937 more = random;
  if (int64_t stage = mesh.dp * mesh.tp; more() % 2) {
    while (more() % 3 && mesh.etp * 2 <= stage)
      mesh.etp *= 2;
    while (more() % 3 && mesh.ep * mesh.etp * 2 <= stage)
      mesh.ep *= 2;
  }
  return mesh;
}

std::string Mesh::text() const {
  std::string result = std::to_string(dp) + "x" + std::to_string(pp) + "x" + std::to_string(tp);
  if (ep * etp > 1)
    result += " of ep " + std::to_string(ep) + ", etp " + std::to_string(etp);
  return result;
}

Model drawModel(std::mt19937 &random, const Mesh &mesh) {
  auto upTo = [&](int64_t n) { return int64_t(random() % n) + 1; };
  auto coin = [&] { return random() % 2 == 0; };
  Model model;
  model.batch = mesh.dp * upTo(2);
  model.sequence = 1 + upTo(4);
  model.heads = mesh.tp * upTo(2);
  model.width = model.heads * upTo(3);
  model.hidden = mesh.tp * upTo(5);
  model.vocabulary = mesh.tp + upTo(17);
  model.layers = mesh.pp + random() % 3;
  model.attention = random() % 3 != 0;
  model.norm = random() % 4 != 0;
  model.bias = coin();
  model.positions = coin();
  model.residual = random() % 4 != 0;
  model.tied = coin();
  model.transposed = coin();
  do
    model.kvHeads = upTo(model.heads);
  while (model.heads % model.kvHeads != 0);
  for (bool *later : {&model.rms, &model.rotary, &model.headNorm, &model.split, &model.gated, &model.parallel,
                      &model.postNorm, &model.window, &model.masked})
    *later = coin();
  model.residual |= model.parallel; // else nothing reads the attention
  model.rotary &= model.headDim() > 1;
  model.softcap = coin() ? 2.5 : 0;
  model.scaled = coin();
  return model;
}

} // namespace llmc::test
