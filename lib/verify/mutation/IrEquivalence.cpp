// Simplifies both modules and compares their printed text.
#include "lib/verify/mutation/IrEquivalence.h"

#include "mlir/IR/Dominance.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/CSE.h"
#include "mlir/Transforms/RegionUtils.h"

using namespace mlir;

namespace llmc::verify {

namespace {

bool same(ModuleOp a, ModuleOp b) {
  auto printed = [](ModuleOp module) {
    std::string text;
    llvm::raw_string_ostream out(text);
    module.print(out);
    return text;
  };
  return printed(a) == printed(b);
}

} // namespace

std::string irEquivalence(ModuleOp before, ModuleOp after) {
  IRRewriter rewriter(before.getContext());
  for (ModuleOp module : {before, after})
    (void)runRegionDCE(rewriter, module->getRegions());
  if (same(before, after))
    return "a value that nobody needs";
  for (ModuleOp module : {before, after}) {
    DominanceInfo dominance(module);
    eliminateCommonSubExpressions(rewriter, dominance, module);
  }
  return same(before, after) ? "an equal computation" : "";
}

} // namespace llmc::verify
