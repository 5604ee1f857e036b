// Faults of sequences that tensor ranks share out, and of what backward computes again.
#include "test/verify/catalogue/Catalogue.h"

namespace llmc::catalogue {

std::vector<Fault> sequenceFaults() {
  constexpr Phase at = Phase::Partition;
  const char *all = "fp64:partition", *mesh = "1x2x2";
  const char *gather = "parallel.all_gather", *scatter = "parallel.reduce_scatter";
  auto with = [](Fault fault, const char *recompute) {
    fault.recompute = recompute;
    return fault;
  };
  auto ofTwoRows = [](Fault fault) {
    fault.recompute = "none";
    fault.rows = 2;
    return fault;
  };
  auto in = [](const char *function, const char *op, unsigned n = 0) {
    return Where{function, op, n};
  };
  return {
      with({"a product reads the rank's own tokens", "gpt2", mesh, at, all, repeatOwnPart(in("forward_0", gather, 0))}, "none"),
      with({"the head reads the rank's own tokens", "llama", mesh, at, all, repeatOwnPart(in("forward_1", gather, 2))}, "none"),
      with({"a weight's gradient is of the rank's own tokens", "gpt2", mesh, at, all,
            repeatOwnPart(in("backward_0", gather, 0))}, "none"),
      with({"the last gather of a backward is left out", "llama", mesh, at, all,
            repeatOwnPart(in("backward_0", gather, 3))}, "none"),
      with({"the embedding's gradient is of the rank's own tokens", "gpt2", mesh, at, all,
            repeatOwnPart(in("backward_0", gather, 4))}, "none"),
      with({"tokens get the largest term in place of the sum", "gpt2", mesh, at, all,
            setAttribute(in("forward_0", scatter, 1), "kind", "#graph.reduce_kind<max>")}, "none"),
      with({"cotangents get the largest term in place of the sum", "llama", mesh, at, all,
            setAttribute(in("backward_1", scatter, 1), "kind", "#graph.reduce_kind<max>")}, "none"),
      with({"a norm's gradient is of the rank's own tokens", "gpt2", mesh, at, all,
            leaveOut(in("update_0", "parallel.all_reduce", 0), 0, 0)}, "none"),
      with({"a call that runs again is gone", "gpt2", mesh, Phase::Schedule, "static:",
            remove(in("backward", "plan.collective", 0))}, "full"),
      with({"a product that runs again is gone", "llama", mesh, Phase::Schedule, "static:",
            remove(in("backward", "plan.matmul", 0))}, "full"),
      ofTwoRows({"rows of a gather are taken for one", "gpt2", mesh, Phase::Schedule, "kernels:",
                 removeAttribute(in("forward", "plan.collective", 1), "slices")}),
      ofTwoRows({"rows of a sum are taken for one", "llama", mesh, Phase::Schedule, "kernels:",
                 removeAttribute(in("backward", "plan.collective", 1), "slices")}),
  };
}

} // namespace llmc::catalogue
