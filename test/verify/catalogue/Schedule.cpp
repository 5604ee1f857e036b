// Faults of the plan: order, buffers and messages.
#include "test/verify/catalogue/Catalogue.h"

namespace llmc::catalogue {

std::vector<Fault> scheduleFaults() {
  constexpr Phase at = Phase::Schedule;
  auto in = [](const char *procedure, const char *op, unsigned n = 0) {
    return Where{procedure, op, n};
  };
  const char *mesh = "1x2x2";
  return {
      {"a wait for a collective is gone", "gpt2", mesh, at, "static:happens-before",
       remove(in("forward", "plan.wait", 2))},
      {"a record is gone", "llama", mesh, at, "static:happens-before",
       remove(in("forward", "plan.record", 1))},
      {"a collective is gone", "gpt2", mesh, at, "static:",
       remove(in("forward", "plan.collective", 1))},
      {"a launch is gone", "gpt2", mesh, at, "static:", remove(in("forward", "plan.launch", 2))},
      {"a product is gone", "llama", mesh, at, "static:", remove(in("forward", "plan.matmul", 1))},
      {"a fill is gone", "gpt2", mesh, at, "static:", remove({"", "plan.fill", 0})},
      {"an update is gone", "gpt2", mesh, at, "static:", remove(in("update", "plan.launch", 9))},
      {"a feed is gone", "llama", mesh, at, "static:", remove(in("forward", "plan.feed", 0))},
      {"a send is gone", "gpt2", mesh, at, "static:", remove({"", "plan.send", 0})},
      {"a launch comes late", "gpt2", mesh, at, "static:",
       postpone(in("forward", "plan.launch", 1))},
      {"a product comes before its operand", "llama", mesh, at, "static:",
       postpone(in("forward", "plan.launch", 3))},
      {"inputs of attention change places", "gpt2", mesh, at, "kernels:",
       exchangeOperands(in("forward", "graph.attention"), 0, 1)},
      {"a launch's scale is 1 % too large", "gpt2", mesh, at, "kernels:",
       scaleAttribute(in("forward", "graph.attention"), "scale", 1.01)},
      {"a kernel's norm has another eps", "llama", mesh, at, "kernels:",
       scaleAttribute(in("forward", "graph.rms_norm"), "eps", 1000)},
  };
}

} // namespace llmc::catalogue
