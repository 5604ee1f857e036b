// The models' text. Parameters are declared as they are used.
#include "test/passes/2-train/Step.h"

#include <sstream>

namespace llmc::test {
namespace {

std::string tensor(std::vector<int64_t> shape, const char *element = "f32") {
  std::string text = "tensor<";
  for (int64_t size : shape)
    text += std::to_string(size) + "x";
  return text + element + ">";
}

// Collects sources, states and arguments of parameters.
class Parameters {
public:
  void add(const std::string &name, std::vector<int64_t> shape, bool stacked = false) {
    int64_t parts = stacked ? shape[0] : 1, size = 1;
    std::string strides;
    for (size_t i = shape.size(); i-- > (stacked ? 1u : 0u);) {
      strides = std::to_string(size) + (strides.empty() ? "" : ", ") + strides;
      size *= shape[i];
    }
    // Stacked layers lie one after the other in the first dim of their source.
    std::vector<int64_t> source(shape.begin() + (stacked ? 1 : 0), shape.end());
    source[0] *= parts;
    states << "graph.source @\"src." << name << "\" : " << tensor(source)
           << " {init = #graph.init_kind<zeros>}\n"
           << "graph.state @" << name << " : " << tensor(shape) << " parameter"
           << (stacked ? " stacked" : "") << " views [";
    for (int64_t i = 0; i < parts; ++i)
      states << (i ? ", " : "") << "#graph.view<@\"src." << name << "\", " << i * size << ", ["
             << strides << "]>";
    states << "]\n";
    arguments << ", %" << name << ": " << tensor(shape) << " {graph.state = @" << name << "}";
  }
  std::ostringstream states, arguments;
};

// Replaces $X by the tensor type of that name.
std::string fill(std::string text, const std::map<std::string, std::string> &types) {
  for (const auto &[name, type] : types)
    for (size_t at; (at = text.find("$" + name + "$")) != std::string::npos;)
      text.replace(at, name.size() + 2, type);
  return text;
}

const char *kBlock = R"(
    %n1, %m1, %r1 = graph.layer_norm %x, %i_s1, %i_b1 {eps = 1.0e-5} : ($X$, $V$, $V$) -> ($X$, $R$, $R$) loc("ln_1")
    %q0 = graph.matmul "bsd,de->bse" %n1, %i_wq : ($X$, $W$) -> $X$ loc("q")
    %q1 = graph.add %q0, %i_bq : ($X$, $V$) -> $X$ loc("q")
    %q = graph.reshape %q1 : ($X$) -> $H$ loc("q")
    %k0 = graph.matmul "bsd,de->bse" %n1, %i_wk : ($X$, $W$) -> $X$ loc("k")
    %k1 = graph.add %k0, %i_bk : ($X$, $V$) -> $X$ loc("k")
    %k = graph.reshape %k1 : ($X$) -> $H$ loc("k")
    %v0 = graph.matmul "bsd,de->bse" %n1, %i_wv : ($X$, $W$) -> $X$ loc("v")
    %v1 = graph.add %v0, %i_bv : ($X$, $V$) -> $X$ loc("v")
    %v = graph.reshape %v1 : ($X$) -> $H$ loc("v")
    %o, %lse = graph.attention %q, %k, %v {scale = 0.5, causal = true} : ($H$, $H$, $H$) -> ($H$, $L$) loc("attention")
    %o1 = graph.reshape %o : ($H$) -> $X$ loc("attention")
    %p0 = graph.matmul "bsd,de->bse" %o1, %i_wo : ($X$, $W$) -> $X$ loc("proj")
    %p = graph.add %p0, %i_bo : ($X$, $V$) -> $X$ loc("proj")
    %y = graph.add %x, %p : ($X$, $X$) -> $X$ loc("residual_1")
    %n2, %m2, %r2 = graph.layer_norm %y, %i_s2, %i_b2 {eps = 1.0e-5} : ($X$, $V$, $V$) -> ($X$, $R$, $R$) loc("ln_2")
    %u0 = graph.matmul "bsd,df->bsf" %n2, %i_w1 : ($X$, $U$) -> $F$ loc("up")
    %u = graph.add %u0, %i_c1 : ($F$, $G$) -> $F$ loc("up")
    %g = graph.gelu %u {form = #graph.gelu_form<tanh>} : ($F$) -> $F$ loc("gelu")
    %d0 = graph.matmul "bsf,fd->bsd" %g, %i_w2 : ($F$, $D$) -> $X$ loc("down")
    %d = graph.add %d0, %i_c2 : ($X$, $V$) -> $X$ loc("down")
    %z = graph.add %y, %d : ($X$, $X$) -> $X$ loc("residual_2")
    graph.yield %z : $X$
)";

} // namespace

std::string decoder(int64_t batch, int64_t layers, DecoderShape shape) {
  const auto [width, hidden, heads, vocabulary] = shape;
  constexpr int64_t s = kSequence;
  std::map<std::string, std::string> types = {
      {"X", tensor({batch, s, width})},  {"R", tensor({batch, s})},
      {"V", tensor({width})},            {"W", tensor({width, width})},
      {"U", tensor({width, hidden})},    {"D", tensor({hidden, width})},
      {"F", tensor({batch, s, hidden})}, {"G", tensor({hidden})},
      {"L", tensor({batch, s, heads})},  {"H", tensor({batch, s, heads, width / heads})},
      {"T", tensor({vocabulary, width})}, {"P", tensor({s + 2, width})},
      {"PS", tensor({s, width})},        {"Y", tensor({batch, s, vocabulary})},
      {"I", tensor({batch, s}, "i64")},   {"N", std::to_string(width)}};
  std::vector<std::pair<std::string, std::vector<int64_t>>> layer = {
      {"s1", {width}},         {"b1", {width}}, {"wq", {width, width}},  {"bq", {width}},
      {"wk", {width, width}},  {"bk", {width}}, {"wv", {width, width}},  {"bv", {width}},
      {"wo", {width, width}},  {"bo", {width}}, {"s2", {width}},         {"b2", {width}},
      {"w1", {width, hidden}}, {"c1", {hidden}}, {"w2", {hidden, width}}, {"c2", {width}}};

  Parameters parameters;
  parameters.add("wte", {vocabulary, width});
  parameters.add("wpe", {s + 2, width});
  std::string operands, operandTypes, bodyArguments;
  for (auto &[name, shape] : layer) {
    std::vector<int64_t> stacked = {layers};
    stacked.insert(stacked.end(), shape.begin(), shape.end());
    parameters.add(name, stacked, /*stacked=*/true);
    operands += (operands.empty() ? "%" : ", %") + name;
    operandTypes += (operandTypes.empty() ? "" : ", ") + tensor(stacked);
    bodyArguments += ", %i_" + name + ": " + tensor(shape);
  }
  parameters.add("sf", {width});
  parameters.add("bf", {width});

  std::ostringstream text;
  text << "module {\n" << parameters.states.str()
       << "func.func @forward(%ids: $I$ {graph.input = \"input_ids\"}"
       << parameters.arguments.str() << R"() -> ($Y$ {graph.output = "logits"}) {
    %e = graph.gather %wte, %ids : ($T$, $I$) -> $X$ loc("wte")
    %pos = graph.slice %wpe {starts = array<i64: 0, 0>, limits = array<i64: 5, $N$>, steps = array<i64: 1, 1>} : ($P$) -> $PS$ loc("wpe")
    %h0 = graph.add %e, %pos : ($X$, $PS$) -> $X$ loc("embedding")
    %h = graph.repeat )" << layers << " carried(%h0 : $X$) stacked(" << operands << " : "
       << operandTypes << ") captured() -> $X$ {\n  ^bb0(%x: $X$" << bodyArguments << "):" << kBlock
       << R"(  } loc("layers")
    %nf, %mf, %rf = graph.layer_norm %h, %sf, %bf {eps = 1.0e-5} : ($X$, $V$, $V$) -> ($X$, $R$, $R$) loc("ln_f")
    %logits = graph.matmul "bsd,vd->bsv" %nf, %wte : ($X$, $T$) -> $Y$ loc("head")
    return %logits : $Y$
  }
}
)";
  return fill(text.str(), types);
}

std::string oddRepeats() {
  Parameters parameters;
  parameters.add("table", {kVocabulary, 4});
  parameters.add("w", {3, 4, 4}, true);
  parameters.add("gain", {3, 2, 4}, true);
  parameters.add("shared", {4, 4});
  parameters.add("idle", {3, 4}, true);
  parameters.add("late", {3, 4}, true); // these two matter only from one layer to the next
  parameters.add("later", {4});
  std::string body = R"() -> $Y$ {
    %x = graph.gather %table, %ids : ($T$, $I$) -> $X$
    %zero = graph.constant dense<0.0> : $X$
    %scaled = graph.tanh %w : ($W3$) -> $W3$
    %a, %b, %c, %d, %delayed, %tops = graph.repeat 3 carried(%x, %zero, %x, %zero, %zero : $X$, $X$, $X$, $X$, $X$)
        stacked(%w, %gain, %scaled, %w, %idle, %late : $W3$, $G3$, $W3$, $W3$, $I3$, $I3$)
        captured(%shared, %x, %later : $S$, $X$, $V$)
        -> $X$, $X$, $X$, $X$, $X$ stacking $X3$ {
    ^bb0(%h: $X$, %sum: $X$, %feed: $X$, %unread: $X$, %delay: $X$, %wi: $S$, %gi: $G2$, %si: $S$, %wj: $S$, %ii: $V$, %li: $V$, %sh: $S$, %x0: $X$, %lc: $V$):
      %0 = graph.matmul "bsd,de->bse" %h, %wi : ($X$, $S$) -> $X$
      %1 = graph.tanh %0 : ($X$) -> $X$
      %2, %in = graph.repeat 2 reverse carried(%1 : $X$) stacked(%gi : $G2$) captured(%sh : $S$) -> $X$ stacking $X2$ {
      ^bb0(%t: $X$, %g: $V$, %m: $S$):
        %20 = graph.mul %t, %g : ($X$, $V$) -> $X$
        %21 = graph.matmul "bsd,de->bse" %20, %m : ($X$, $S$) -> $X$
        %22 = graph.sigmoid %21 : ($X$) -> $X$
        graph.yield %22, %20 : $X$, $X$
      }
      %3 = graph.reduce %in {kind = #graph.reduce_kind<sum>, dims = array<i64: 0>} : ($X2$) -> $X$
      %4 = graph.matmul "bsd,ed->bse" %3, %si : ($X$, $S$) -> $X$
      %40 = graph.tanh %sum : ($X$) -> $X$
      %41 = graph.add %40, %delay : ($X$, $X$) -> $X$
      %5 = graph.add %41, %4 : ($X$, $X$) -> $X$
      %6 = graph.mul %feed, %x0 : ($X$, $X$) -> $X$
      %7 = graph.add %2, %6 : ($X$, $X$) -> $X$
      %8 = graph.matmul "bsd,ed->bse" %7, %wj : ($X$, $S$) -> $X$
      %80 = graph.mul %8, %li : ($X$, $V$) -> $X$
      %81 = graph.add %80, %lc : ($X$, $V$) -> $X$
      %9 = graph.add %unread, %8 : ($X$, $X$) -> $X$
      %10 = graph.mul %4, %ii : ($X$, $V$) -> $X$
      %11 = graph.add %9, %10 : ($X$, $X$) -> $X$
      graph.yield %7, %5, %81, %11, %40, %1 : $X$, $X$, $X$, $X$, $X$, $X$
    }
    %e = graph.mul %a, %b : ($X$, $X$) -> $X$
    %f = graph.reduce %tops {kind = #graph.reduce_kind<sum>, dims = array<i64: 0>} : ($X3$) -> $X$
    %k = graph.add %e, %f : ($X$, $X$) -> $X$
    %l = graph.matmul "bsd,vd->bsv" %k, %table : ($X$, $T$) -> $Y$
    return %l : $Y$
  }
}
)";
  std::string text = "module {\n" + parameters.states.str() +
                     "func.func @forward(%ids: $I$ {graph.input = \"input_ids\"}" +
                     parameters.arguments.str() + body;
  return fill(text, {{"X", tensor({2, 3, 4})},
                     {"X2", tensor({2, 2, 3, 4})},
                     {"X3", tensor({3, 2, 3, 4})},
                     {"T", tensor({kVocabulary, 4})},
                     {"I", tensor({2, 3}, "i64")},
                     {"W3", tensor({3, 4, 4})},
                     {"G3", tensor({3, 2, 4})},
                     {"G2", tensor({2, 4})},
                     {"I3", tensor({3, 4})},
                     {"S", tensor({4, 4})},
                     {"V", tensor({4})},
                     {"Y", tensor({2, 3, kVocabulary})}});
}

} // namespace llmc::test
