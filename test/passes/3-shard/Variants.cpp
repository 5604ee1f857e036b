// Changes of a module that leave what it computes as it is.
#include "test/passes/3-shard/Models.h"

#include "dialects/parallel/Annotations.h"
#include "dialects/plan/Plan.h"
#include "mlir/Parser/Parser.h"
#include <cstdio>
#include <cstdlib>

using namespace mlir;

namespace llmc::test {

static void shuffleBlock(Block &block, std::mt19937 &random) {
  Operation *terminator = block.getTerminator();
  std::vector<Operation *> ready;
  llvm::DenseMap<Operation *, int> waits;
  for (Operation &op : block.without_terminator()) {
    for (Value operand : op.getOperands())
      waits[&op] += operand.getDefiningOp() != nullptr;
    if (!waits[&op])
      ready.push_back(&op);
  }
  while (!ready.empty()) {
    std::swap(ready[random() % ready.size()], ready.back());
    Operation *op = ready.back();
    ready.pop_back();
    op->moveBefore(terminator);
    for (OpOperand &use : op->getUses())
      if (use.getOwner() != terminator && --waits[use.getOwner()] == 0)
        ready.push_back(use.getOwner());
  }
}

void shuffleOps(ModuleOp module, std::mt19937 &random) {
  module.walk([&](Operation *op) {
    if (isa<func::FuncOp, graph::RepeatOp>(op))
      shuffleBlock(op->getRegion(0).front(), random);
  });
}

std::map<std::string, std::string> renameAll(ModuleOp module, std::mt19937 &random) {
  std::map<std::string, std::string> before, after;
  auto renamed = [&](StringRef name) {
    auto [it, isNew] = after.insert({name.str(), ""});
    if (isNew)
      it->second = "n" + std::to_string(random());
    return it->second;
  };
  for (Operation &op : *module.getBody()) {
    if (!isa<graph::SourceOp, graph::StateOp>(op))
      continue;
    std::string name = SymbolTable::getSymbolName(&op).str();
    if (isa<graph::StateOp>(op))
      before[renamed(name)] = name;
    SymbolTable::setSymbolName(&op, renamed(name));
  }
  AttrTypeReplacer replacer;
  replacer.addReplacement([&](FlatSymbolRefAttr symbol) -> std::optional<Attribute> {
    if (!after.count(symbol.getValue().str()))
      return std::nullopt;
    return FlatSymbolRefAttr::get(symbol.getContext(), after[symbol.getValue().str()]);
  });
  replacer.addReplacement([&](NameLoc loc) -> std::optional<Attribute> {
    return NameLoc::get(StringAttr::get(loc.getContext(), "at " + renamed(loc.getName())));
  });
  replacer.recursivelyReplaceElementsIn(module, /*replaceAttrs=*/true, /*replaceLocs=*/true);
  return before;
}

void setMesh(ModuleOp module, const Mesh &mesh) {
  std::vector<std::string> errors;
  auto axes = planfile::deriveAxes(
      {.dp = mesh.dp, .pp = mesh.pp, .tp = mesh.tp, .cp = mesh.cp, .ep = mesh.ep, .etp = mesh.etp}, errors);
  if (!axes) {
    std::fprintf(stderr, "cannot go on: %s\n", errors.front().c_str());
    std::exit(1);
  }
  module->setAttr(parallel::kMesh, parallel::MeshAttr::get(module.getContext(), *axes));
}

void loadDialects(MLIRContext &context) {
  context.disableMultithreading();
  context.loadDialect<func::FuncDialect, graph::GraphDialect, parallel::ParallelDialect,
                      plan::PlanDialect>();
}

OwningOpRef<ModuleOp> parse(MLIRContext &context, const std::string &text) {
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
  if (!module) {
    std::fprintf(stderr, "cannot go on: this does not parse\n%s\n", text.c_str());
    std::exit(1);
  }
  return module;
}

} // namespace llmc::test
