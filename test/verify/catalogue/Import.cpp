// Faults of reading a model: where weights come from, how they are drawn, what the graph is.
#include "test/verify/catalogue/Catalogue.h"
#include "test/verify/catalogue/StateEdits.h"

namespace llmc::catalogue {

std::vector<Fault> importFaults() {
  constexpr Phase at = Phase::Import;
  auto in = [](const char *op, unsigned n = 0) { return Where{"forward", op, n}; };
  auto layer = [](const char *rest, int n = 0) {
    return "transformer.h." + std::to_string(n) + "." + rest;
  };
  auto tiny = [&](const char *rest, int n = 0) { return "model." + layer(rest, n); };
  const char *file = "states:file", *wiring = "states:wiring", *drawn = "states:drawn",
             *oracle = "oracle", *mesh = "1x1x2";
  return {
      {"two matrices change places in the file", "tiny", mesh, at, file,
       exchangePlaces(tiny("attn.c_proj.weight"), tiny("attn.c_proj.weight", 1))},
      {"two norms change places in the file", "tiny", mesh, at, file,
       exchangePlaces(tiny("ln_1.weight"), tiny("ln_2.weight"))},
      {"a matrix begins a number too late", "tiny", mesh, at, file,
       movePlace(tiny("mlp.c_fc.weight"), 4)},
      {"a bias begins a byte too early", "tiny", mesh, at, file,
       movePlace(tiny("mlp.c_fc.bias"), -1)},
      {"layers read each other's matrix", "tiny", mesh, at, wiring,
       exchangeSources(tiny("mlp.c_fc.weight"), tiny("mlp.c_fc.weight", 1))},
      {"a norm's scale is another norm's", "tiny", mesh, at, wiring,
       exchangeSources(tiny("ln_1.weight"), tiny("ln_2.weight"))},
      {"a norm's scale is its bias", "tiny", mesh, at, wiring,
       exchangeSources(tiny("ln_1.weight"), tiny("ln_1.bias"))},
      {"a square matrix is the other way round", "tiny", mesh, at, wiring,
       turnOver(tiny("attn.c_proj.weight"))},
      {"layers of a config read each other's matrix", "gpt2", mesh, at, wiring,
       exchangeSources(layer("mlp.c_proj.weight"), layer("mlp.c_proj.weight", 1))},
      {"query is key's part of the weights", "gpt2", mesh, at, wiring,
       exchangeParts(layer("attn.c_attn.weight"), 0, 16)},
      {"key is value's part of the weights", "gpt2", mesh, at, wiring,
       exchangeParts(layer("attn.c_attn.weight", 1), 16, 32)},
      {"gate and up change places", "llama", mesh, at, wiring,
       exchangeSources("model.layers.0.mlp.gate_proj.weight", "model.layers.0.mlp.up_proj.weight")},
      {"key and value change places", "llama", mesh, at, wiring,
       exchangeSources("model.layers.1.self_attn.k_proj.weight",
                       "model.layers.1.self_attn.v_proj.weight")},
      {"query's weights are the other way round", "llama", mesh, at, wiring,
       turnOver("model.layers.0.self_attn.q_proj.weight")},
      {"weights are drawn 1.5 times too large", "gpt2", mesh, at, drawn,
       setOfSource(layer("mlp.c_fc.weight"), "init_std", "0.03 : f64")},
      {"a residual's weights are drawn like others", "gpt2", mesh, at, drawn,
       setOfSource(layer("mlp.c_proj.weight"), "init_std", "0.02 : f64")},
      {"a norm begins with zeros", "llama", mesh, at, drawn,
       setOfSource("model.norm.weight", "init", "#graph.init_kind<zeros>")},
      {"a bias begins with ones", "gpt2", mesh, at, drawn,
       setOfSource(layer("mlp.c_fc.bias"), "init", "#graph.init_kind<ones>")},
      {"a matrix begins with zeros", "llama", mesh, at, drawn,
       setOfSource("model.layers.0.mlp.up_proj.weight", "init", "#graph.init_kind<zeros>")},
      // These change what the graph computes, which only the file itself tells.
      {"an activation is left out", "tiny", mesh, at, oracle, leaveOut(in("graph.tanh"), 0, 0)},
      {"a constant of the file is 5 % larger", "tiny", mesh, at, oracle,
       scaleResult(in("graph.tanh"), 0, 1.05)},
      {"a residual is left out", "gpt2", mesh, at, oracle, leaveOut(in("graph.add", 5), 0, 0)},
      {"a norm's eps is a thousand times too large", "gpt2", mesh, at, oracle,
       scaleAttribute(in("graph.layer_norm"), "eps", 1e3)},
      {"a norm's eps is a thousand times larger", "llama", mesh, at, oracle,
       scaleAttribute(in("graph.rms_norm"), "eps", 1e3)},
      {"an activation is another", "llama", mesh, at, oracle,
       scaleResult(in("graph.sigmoid"), 0, 1.02)},
  };
}

} // namespace llmc::catalogue
