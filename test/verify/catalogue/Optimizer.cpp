// Faults of the update.
#include "test/verify/catalogue/Catalogue.h"

namespace llmc::catalogue {

std::vector<Fault> optimizerFaults() {
  constexpr Phase at = Phase::Train;
  auto in = [](const char *op, unsigned n = 0) { return Where{"update", op, n}; };
  const char *update = "fp64:update", *mesh = "2x1x2";
  return {
      {"weight decay on every parameter", "gpt2", mesh, at, update,
       setEverywhere(in("graph.adamw"), "decay", "true")},
      {"weight decay on no parameter", "llama", mesh, at, update,
       setEverywhere(in("graph.adamw"), "decay", "false")},
      {"one matrix does not decay", "gpt2", mesh, at, update,
       setAttribute(in("graph.adamw"), "decay", "false")},
      {"betas change places", "gpt2", mesh, at, update,
       exchangeOperands(in("graph.adamw", 2), 5, 6)},
      {"bias corrections change places", "llama", mesh, at, update,
       exchangeOperands(in("graph.adamw"), 9, 10)},
      {"eps and weight decay change places", "gpt2", mesh, at, update,
       exchangeOperands(in("graph.adamw"), 7, 8)},
      {"the learning rate is a beta", "llama", mesh, at, update,
       exchangeOperands(in("graph.adamw", 3), 4, 5)},
      {"moments change places", "gpt2", mesh, at, update,
       exchangeOperands(in("graph.adamw", 1), 2, 3)},
      {"a parameter is not updated", "llama", mesh, at, "refused",
       leaveOut(in("graph.adamw", 1), 0, 0)},
      {"a first moment is not kept", "gpt2", mesh, at, "refused",
       leaveOut(in("graph.adamw"), 1, 2)},
      {"a second moment is not kept", "llama", mesh, at, "refused",
       leaveOut(in("graph.adamw", 4), 2, 3)},
      {"a gradient is not divided by the tokens", "gpt2", mesh, at, "fp64",
       leaveOut(in("graph.div", 2), 0, 0)},
      {"the norm leaves a gradient out", "gpt2", mesh, at, update,
       scaleResult(in("graph.reduce"), 0, 0)},
      {"the norm has no root", "llama", mesh, at, update, leaveOut(in("graph.sqrt"), 0, 0)},
      {"clipping adds nothing to the norm", "gpt2", mesh, at, "fp64:update",
       scaleAttribute(in("graph.constant", 2), "value", 1e4)},
      {"clipping may enlarge", "llama", mesh, at, update,
       leaveOut(in("graph.minimum"), 0, 0)},
      {"clipping shrinks by 1 % more", "gpt2", mesh, at, update,
       scaleResult(in("graph.minimum"), 0, 0.99)},
      {"one gradient is not clipped", "gpt2", mesh, at, update,
       leaveOut(in("graph.mul", 3), 0, 0)},
      {"no token counts as two", "llama", mesh, at, "fp64",
       scaleResult(in("graph.maximum"), 0, 2)},
  };
}

} // namespace llmc::catalogue
