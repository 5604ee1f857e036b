// Faults of sequences that go around a ring.
#include "test/verify/catalogue/Catalogue.h"

#include "dialects/graph/GraphAttrs.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace llmc::catalogue {

// Gives an input to ranks in the order of the row.
static Edit keepOrderOf(std::string input) {
  return [=](mlir::ModuleOp module) {
    bool done = false;
    for (auto func : module.getOps<mlir::func::FuncOp>())
      for (unsigned i = 0; i < func.getNumArguments(); ++i)
        if (auto name = func.getArgAttrOfType<mlir::StringAttr>(i, graph::kInput); name && name.getValue() == input)
          done |= bool(func.removeArgAttr(i, graph::kLoader));
    return done;
  };
}

std::vector<Fault> ringFaults() {
  constexpr Phase at = Phase::Partition;
  const char *all = "fp64:partition", *two = "1x1x1x2", *four = "1x1x1x4", *shift = "parallel.shift";
  auto in = [](const char *function, const char *op, unsigned n) { return Where{function, op, n}; };
  return {
      {"labels keep the order of the row", "gpt2", two, Phase::Train, all, keepOrderOf("labels")},
      {"tokens keep the order of the row", "llama", two, Phase::Train, all, keepOrderOf("input_ids")},
      {"a hop of keys goes too far", "gpt2", four, at, all,
       setAttribute(in("forward_0", shift, 0), "distance", "2 : i64")},
      {"a hop of values is left out", "llama", two, at, all, leaveOut(in("forward_0", shift, 1), 0, 0)},
      {"keys are taken for the rank's own", "gpt2", two, at, all, leaveOut(in("forward_0", shift, 2), 0, 0)},
      {"keys go around the wrong way", "gpt2", four, at, all,
       setAttribute(in("backward_0", shift, 0), "distance", "3 : i64")},
      {"cotangents of keys do not go home", "gpt2", two, at, all, leaveOut(in("backward_0", shift, 3), 0, 0)},
      {"cotangents of values go too far", "llama", four, at, all,
       setAttribute(in("backward_0", shift, 7), "distance", "2 : i64")},
  };
}

} // namespace llmc::catalogue
