// Faults of what a model computes.
#include "test/verify/catalogue/Catalogue.h"

namespace llmc::catalogue {

std::vector<Fault> raiseFaults() {
  constexpr Phase at = Phase::Raise;
  auto in = [](const char *op, unsigned n = 0) { return Where{"forward", op, n}; };
  const char *raise = "fp64:raise", *mesh = "2x1x2";
  return {
      {"attention's scale is 5 % too large", "gpt2", mesh, at, raise,
       scaleAttribute(in("graph.attention"), "scale", 1.05)},
      {"attention's scale is 1 % too small", "llama", mesh, at, raise,
       scaleAttribute(in("graph.attention"), "scale", 0.99)},
      {"attention sees the future", "gpt2", mesh, at, raise,
       setAttribute(in("graph.attention"), "causal", "false")},
      {"attention sees one key too many", "llama", mesh, at, raise,
       setAttribute(in("graph.attention"), "offset", "1")},
      {"attention has a window", "gpt2", mesh, at, raise,
       setAttribute(in("graph.attention"), "window", "2")},
      {"attention's scores are capped", "llama", mesh, at, raise,
       setAttribute(in("graph.attention"), "softcap", "0.1 : f64")},
      {"key and value change places", "llama", mesh, at, raise,
       exchangeOperands(in("graph.attention"), 1, 2)},
      {"query and key change places", "gpt2", mesh, at, raise,
       exchangeOperands(in("graph.attention"), 0, 2)},
      {"gelu in its other form", "gpt2", mesh, at, raise,
       setAttribute(in("graph.gelu"), "form", "#graph.gelu_form<erf>")},
      {"gelu is left out", "gpt2", mesh, at, raise, leaveOut(in("graph.gelu"), 0, 0)},
      {"gelu is 1.5 times too large", "gpt2", mesh, at, raise,
       scaleResult(in("graph.gelu"), 0, 1.5)},
      {"a norm's eps is a hundred times too large", "gpt2", mesh, at, raise,
       scaleAttribute(in("graph.layer_norm"), "eps", 100)},
      {"an RMS norm's eps is ten times too large", "llama", mesh, at, raise,
       scaleAttribute(in("graph.rms_norm"), "eps", 10)},
      {"a norm's scale and bias change places", "gpt2", mesh, at, raise,
       exchangeOperands(in("graph.layer_norm", 1), 1, 2)},
      {"the last norm is left out", "gpt2", mesh, at, raise,
       leaveOut(in("graph.layer_norm", 2), 0, 0)},
      {"the last RMS norm is left out", "llama", mesh, at, raise,
       leaveOut(in("graph.rms_norm", 2), 0, 0)},
      {"a residual is not added", "gpt2", mesh, at, raise, leaveOut(in("graph.add", 5), 0, 1)},
      {"attention is left out", "gpt2", mesh, at, "refused", leaveOut(in("graph.add", 5), 0, 0)},
      {"a bias is doubled", "gpt2", mesh, at, raise, scaleResult(in("graph.add", 4), 0, 2)},
      {"rotary pairs are interleaved", "llama", mesh, at, raise,
       setAttribute(in("graph.rotary"), "interleaved", "unit")},
      {"rotary turns back", "llama", mesh, at, raise,
       setAttribute(in("graph.rotary", 1), "inverse", "unit")},
      {"rotary's cosine and sine change places", "llama", mesh, at, raise,
       exchangeOperands(in("graph.rotary"), 1, 2)},
      {"rotary's table is 1 % off", "llama", mesh, at, raise,
       scaleAttribute(in("graph.constant"), "value", 1.01)},
      {"the sigmoid is of the up projection", "llama", mesh, at, raise,
       takeOperand(in("graph.sigmoid"), 0, in("graph.matmul", 4), 0)},
      {"the up projection is left out", "llama", mesh, at, "refused",
       leaveOut(in("graph.mul", 1), 0, 1)},
      {"layers run in reverse", "gpt2", mesh, at, raise,
       setAttribute(in("graph.repeat"), "reverse", "unit")},
      {"logits are 1 % too large", "llama", mesh, at, raise,
       scaleResult(in("graph.matmul", 7), 0, 1.01)},
      {"the weights of two layers change places", "gpt2", mesh, at, raise,
       setAttribute({"", "graph.state", 10}, "views",
                    "[#graph.view<@transformer.h.1.attn.c_proj.weight, 0, [16, 1]>, "
                    "#graph.view<@transformer.h.0.attn.c_proj.weight, 0, [16, 1]>]")},
      {"a square matrix is transposed", "llama", mesh, at, raise,
       setAttribute({"", "graph.state", 2}, "views",
                    "[#graph.view<@model.layers.0.self_attn.q_proj.weight, 0, [16, 1]>, "
                    "#graph.view<@model.layers.1.self_attn.q_proj.weight, 0, [16, 1]>]")},
  };
}

} // namespace llmc::catalogue
