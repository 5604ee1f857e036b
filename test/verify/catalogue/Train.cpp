// Faults of the loss and of the gradients.
#include "test/verify/catalogue/Catalogue.h"

namespace llmc::catalogue {

std::vector<Fault> trainFaults() {
  constexpr Phase at = Phase::Train;
  auto in = [](const char *op, unsigned n = 0) { return Where{"micro", op, n}; };
  const char *train = "fp64:train", *mesh = "2x1x2";
  return {
      {"a GELU's gradient is 5 % off", "gpt2", mesh, at, train,
       scaleResult(in("graph.gelu_grad"), 0, 1.05)},
      {"a GELU's gradient is of the other form", "gpt2", mesh, at, train,
       setAttribute(in("graph.gelu_grad"), "form", "#graph.gelu_form<erf>")},
      {"a GELU passes its cotangent on", "gpt2", mesh, at, train,
       leaveOut(in("graph.gelu_grad"), 0, 1)},
      {"a norm passes its cotangent on", "gpt2", mesh, at, train,
       leaveOut(in("graph.layer_norm_grad"), 0, 0)},
      {"a norm's gradient takes rstd for the mean", "gpt2", mesh, at, train,
       exchangeOperands(in("graph.layer_norm_grad"), 3, 4)},
      {"the gradient of a norm's scale is 1 % off", "gpt2", mesh, at, train,
       scaleResult(in("graph.layer_norm_grad_scale"), 0, 1.01)},
      {"an RMS norm's gradient is 1 % off", "llama", mesh, at, train,
       scaleResult(in("graph.rms_norm_grad", 1), 0, 0.99)},
      {"the gradient of an RMS norm's scale is doubled", "llama", mesh, at, train,
       scaleResult(in("graph.rms_norm_grad_scale"), 0, 2)},
      {"attention's gradient has another scale", "gpt2", mesh, at, train,
       scaleAttribute(in("graph.attention_grad"), "scale", 1.05)},
      {"attention's gradient sees the future", "llama", mesh, at, train,
       setAttribute(in("graph.attention_grad"), "causal", "false")},
      {"cotangents of key and value change places", "llama", mesh, at, train,
       exchangeOperands(in("graph.attention_grad"), 2, 3)},
      {"the cotangent of the query is 1 % off", "llama", mesh, at, train,
       scaleResult(in("graph.attention_grad"), 0, 1.01)},
      {"the cotangent of the key is lost", "gpt2", mesh, at, train,
       scaleResult(in("graph.attention_grad"), 1, 0)},
      {"rotary's gradient turns forward", "llama", mesh, at, train,
       removeAttribute(in("graph.rotary", 2), "inverse")},
      {"an ignored label counts", "gpt2", mesh, at, train,
       setAttribute(in("graph.compare"), "predicate", "#graph.predicate<ge>")},
      {"the loss of a token is shifted", "llama", mesh, at, train,
       shiftResult(in("graph.log"), 0, 0.01)},
      {"the loss is 1 % too large", "gpt2", mesh, at, train, scaleResult(in("graph.log"), 0, 1.01)},
      {"the sum of exponentials is a maximum", "llama", mesh, at, train,
       setAttribute(in("graph.reduce", 1), "kind", "#graph.reduce_kind<max>")},
      {"probabilities do not lose their label", "gpt2", mesh, at, train,
       leaveOut({"micro", "graph.sub", 3}, 0, 0)},
      {"the cotangent of the logits is negated", "llama", mesh, at, train,
       exchangeOperands({"micro", "graph.sub", 3}, 0, 1)},
      {"a residual's cotangent is lost", "gpt2", mesh, at, train,
       leaveOut(in("graph.add", 12), 0, 1)},
      {"a sum over micro-batches starts anew", "gpt2", mesh, at, train,
       leaveOut(in("graph.add", 30), 0, 1)},
      {"a bias gradient is a maximum", "gpt2", mesh, at, train,
       setAttribute(in("graph.reduce", 6), "kind", "#graph.reduce_kind<max>")},
  };
}

} // namespace llmc::catalogue
