#include "lib/predict/Layers.h"

#include "dialects/graph/GraphAttrs.h"
#include "dialects/graph/Repeat.h"
#include "dialects/parallel/Parallel.h"

using namespace mlir;
using namespace llmc;
using namespace llmc::cost;

llvm::SmallVector<graph::RepeatOp> predict::repeatsOf(func::FuncOp func) {
  llvm::SmallVector<graph::RepeatOp> repeats;
  for (auto repeat : func.getOps<graph::RepeatOp>())
    repeats.push_back(repeat);
  return repeats;
}

bool predict::feedsExperts(Value value) {
  for (Operation *user : value.getUsers()) {
    if (auto product = dyn_cast<graph::GroupedMatmulOp>(user); product && product.getWeights() == value)
      return true;
    if (isa<graph::ReshapeOp, graph::CastOp, graph::TransposeOp, graph::SliceOp, parallel::AllGatherOp>(user) &&
        feedsExperts(user->getResult(0)))
      return true;
  }
  return false;
}

ArrayAttr predict::layerKinds(ModuleOp module) {
  auto model = module->getAttrOfType<DictionaryAttr>(graph::kModel);
  return model ? model.getAs<ArrayAttr>("layer_kinds") : ArrayAttr();
}

static Part scaled(const Part &part, double factor) {
  Part out = part;
  for (Work *work : {&out.forward, &out.backward, &out.weightGradients, &out.update}) {
    for (Product &product : work->products)
      product.batch *= factor;
    for (Attention &attention : work->attentions)
      attention.batch *= factor;
    for (Collective &collective : work->collectives)
      collective.bytes *= factor, collective.calls *= factor;
    for (std::vector<Entry> *order : {&work->order, &work->ofTwo})
      for (Entry &entry : *order)
        entry.bytes *= factor;
    work->flops *= factor, work->bytes *= factor, work->operations *= factor;
  }
  out.inputs *= factor, out.unfused *= factor, out.products *= factor;
  return out;
}

void predict::setLayers(ModuleOp module, ArrayRef<graph::RepeatOp> repeats, ArrayRef<int64_t> bodies, std::vector<Part> kinds, Table &table) {
  std::vector<int> built; // part of each layer that the module has
  for (auto [i, repeat] : llvm::enumerate(repeats)) {
    int64_t inBody = bodies[i];
    if (inBody > 1)
      kinds[i] = scaled(kinds[i], 1 / double(inBody));
    built.insert(built.end(), graph::RepeatOp(repeat).getCount() * inBody, int(i));
    for (BlockArgument arg : graph::RepeatOp(repeat).getCarriedArgs())
      if (auto type = cast<RankedTensorType>(arg.getType()); type.getRank() == 3)
        table.width = double(type.getShape().back());
  }
  table.kinds = std::move(kinds);
  ArrayAttr of = layerKinds(module);
  if (!of) {
    table.layers = std::move(built);
    return;
  }
  for (Attribute kind : of)
    if (size_t index = size_t(cast<IntegerAttr>(kind).getInt()); index < built.size())
      table.layers.push_back(built[index]);
}

void predict::setExperts(func::FuncOp forward, Table &table) {
  forward.walk([&](graph::RouteOp op) {
    if (op.getMixture())
      table.copies = double(op.getRoutes().getType().getShape().back()),
      table.experts = double(op.getScores().getType().getShape().back());
  });
}
