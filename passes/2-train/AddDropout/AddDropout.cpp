// Adds dropout in three steps: finds its places; gives each block that has some the keys of the rows
// and the number of its layer; drops there what has a rate.
#include "dialects/graph/Build.h"
#include "dialects/graph/GraphAttrs.h"
#include "passes/2-train/AddDropout/FindPlaces.h"
#include "passes/2-train/Passes.h"

using namespace mlir;
using namespace llmc;
using namespace llmc::graph;
using namespace llmc::train;

namespace llmc {
#define GEN_PASS_DEF_ADDDROPOUT
#include "passes/2-train/Passes.h.inc"
} // namespace llmc

namespace {

constexpr StringLiteral kKeys = "dropout_keys";

// Holds, within a block, the keys of the batch's rows and the number of the layer.
struct BlockDraws {
  Value keys, layer;
};

class AddDropout : public llmc::impl::AddDropoutBase<AddDropout> {
public:
  using AddDropoutBase::AddDropoutBase;

private:
  void runOnOperation() override;

  double rateOf(PlaceKind kind) const;
  LogicalResult readBatch();
  LogicalResult checkPlaces(const DropoutPlaces &places);
  LogicalResult checkPlace(const DropoutPlace &place);
  Value addKeys();
  BlockDraws drawsOf(Block &block, Value keys, int64_t &layers);
  void drop(const DropoutPlace &place, int64_t number, BlockDraws draws);
  void dropWeights(AttentionOp attention, int64_t number, BlockDraws draws);
  void dropSoftmax(SoftmaxOp softmax, int64_t number, BlockDraws draws);
  void dropValue(const DropoutPlace &place, int64_t number, BlockDraws draws);

  func::FuncOp forward;
  int64_t rows = 0, tokens = 0;
};

double AddDropout::rateOf(PlaceKind kind) const {
  switch (kind) {
  case PlaceKind::Embedding:
    return embedding;
  case PlaceKind::Attention:
    return attention;
  case PlaceKind::AttentionOutput:
    return attentionOutput;
  case PlaceKind::MlpOutput:
    return mlpOutput;
  }
  return 0;
}

// Reads the rows and tokens of a micro-batch from the first input.
LogicalResult AddDropout::readBatch() {
  forward = getOperation().lookupSymbol<func::FuncOp>("forward");
  if (!forward || forward.isExternal())
    return getOperation().emitError("needs a function @forward with a body, found none; raise the model first");
  for (unsigned i = 0; i < forward.getNumArguments(); ++i) {
    auto name = forward.getArgAttrOfType<StringAttr>(i, graph::kInput);
    if (!name)
      continue;
    if (name.getValue() == kKeys)
      return forward.emitError("D3: argument ") << i << " is already called " << kKeys
                                                << "; rename this input of the model";
    ArrayRef<int64_t> shape = shapeOf(forward.getArgument(i));
    if (rows == 0 && shape.size() == 2)
      rows = shape[0], tokens = shape[1];
  }
  if (rows == 0)
    return forward.emitError("D2: has no input of [rows, tokens], so that elements have no position to draw by");
  return success();
}

// Checks D2.
LogicalResult AddDropout::checkPlace(const DropoutPlace &place) {
  if (rateOf(place.kind) == 0)
    return success();
  if (auto attention = dyn_cast_or_null<AttentionOp>(place.attention)) {
    if (shapeOf(attention.getQ())[0] == rows)
      return success();
    return attention.emitOpError("D2: dropout needs a batch of ")
           << rows << " rows as the inputs have, got " << typeOf(attention.getQ());
  }
  Value value = place.attention ? place.attention->getResult(0) : place.value;
  ArrayRef<int64_t> shape = shapeOf(value);
  bool isWeights = place.attention;
  if (shape.size() == (isWeights ? 4 : 3) && shape[0] == rows && shape[isWeights ? 2 : 1] == tokens)
    return success();
  return emitError(value.getLoc(), "D2: dropout needs ")
         << (isWeights ? "attention weights of [rows, heads, tokens, keys]" : "a value of [rows, tokens, features]")
         << " with " << rows << " rows of " << tokens << " tokens, got " << value.getType()
         << "; leave this model's --dropout at 0";
}

// Checks D1 and D2 of all places.
LogicalResult AddDropout::checkPlaces(const DropoutPlaces &places) {
  bool isGood = true;
  std::map<PlaceKind, int64_t> found;
  for (Operation *repeat : places.mixed) {
    repeat->emitOpError("D1: carries a branch from layer to layer, so that the residual additions of layers are "
                        "not found; compile with --raise off or without dropout");
    isGood = false;
  }
  for (const auto &[block, list] : places.blocks)
    for (const DropoutPlace &place : list) {
      ++found[place.kind];
      isGood &= succeeded(checkPlace(place));
    }
  const std::pair<PlaceKind, StringRef> kinds[] = {
      {PlaceKind::Embedding, "embeddings: no token is looked up in a parameter and then given to layers"},
      {PlaceKind::Attention, "attention weights: there is neither an attention nor a softmax"},
      {PlaceKind::AttentionOutput, "outputs of attention: none is added to a residual stream"},
      {PlaceKind::MlpOutput, "outputs of MLPs: none is added to a residual stream"}};
  for (auto [kind, what] : kinds)
    if (rateOf(kind) > 0 && found[kind] == 0) {
      forward.emitError("D1: the model has no place for dropout of ") << what
          << "; use --dropout 0, or --dropout config with a config.json whose rate for them is 0";
      isGood = false;
    }
  return success(isGood);
}

// Adds the input behind the others.
Value AddDropout::addKeys() {
  MLIRContext *context = &getContext();
  Builder builder(context);
  unsigned index = 0;
  for (unsigned i = 0; i < forward.getNumArguments(); ++i)
    if (forward.getArgAttr(i, graph::kInput))
      index = i + 1;
  auto loader = LoaderAttr::get(context, InputDefault::dropout_keys, /*permuted_dim=*/0, DenseI64ArrayAttr());
  NamedAttribute attributes[] = {builder.getNamedAttr(graph::kInput, builder.getStringAttr(kKeys)),
                                 builder.getNamedAttr(graph::kLoader, loader)};
  (void)forward.insertArgument(index, RankedTensorType::get({rows}, builder.getI64Type()),
                               builder.getDictionaryAttr(attributes),
                               NameLoc::get(builder.getStringAttr("dropout keys")));
  return forward.getArgument(index);
}

// Gives a repeat's body the keys and the numbers of its layers, of which there were `layers` before.
BlockDraws AddDropout::drawsOf(Block &block, Value keys, int64_t &layers) {
  auto repeat = dyn_cast<RepeatOp>(block.getParentOp());
  OpBuilder builder(&getContext());
  if (!repeat) {
    builder.setInsertionPointToStart(&block);
    return {keys, Build(builder, keys.getLoc()).constant(0, builder.getI64Type())};
  }
  auto numbers = llvm::to_vector(llvm::seq<int64_t>(layers + 1, layers + 1 + repeat.getCount()));
  builder.setInsertionPoint(repeat);
  auto type = RankedTensorType::get({static_cast<int64_t>(numbers.size())}, builder.getI64Type());
  Value layer = ConstantOp::create(builder, keys.getLoc(), type,
                                   DenseElementsAttr::get(type, ArrayRef<int64_t>(numbers)));
  unsigned place = repeat.getCarried().size() + repeat.getStacked().size();
  repeat.getStackedMutable().append(layer);
  repeat.getCapturedMutable().append(keys);
  BlockDraws draws;
  draws.layer = block.insertArgument(place, RankedTensorType::get({}, builder.getI64Type()), layer.getLoc());
  draws.keys = block.addArgument(keys.getType(), keys.getLoc());
  return draws;
}

// Builds the indices along a dim of `shape`.
Value indices(Build &b, ArrayRef<int64_t> shape, int64_t dim) {
  return IotaOp::create(b.builder, b.loc, RankedTensorType::get(shape, b.builder.getI64Type()),
                        /*offset=*/Value(), dim);
}
// Builds, for each head, the number of its first key's element.
Value headElements(Build &b, ArrayRef<int64_t> shape, int64_t keys) {
  return b.mul(indices(b, shape, 0), b.constant(static_cast<double>(keys), b.builder.getI64Type()));
}

void AddDropout::dropWeights(AttentionOp op, int64_t number, BlockDraws draws) {
  OpBuilder builder(op);
  Build b(builder, op.getLoc());
  int64_t heads = shapeOf(op.getQ())[2], keys = shapeOf(op.getK())[1];
  op.getFurtherMutable().append({draws.keys, draws.layer, indices(b, {shapeOf(op.getQ())[1]}, 0),
                                 headElements(b, {heads}, keys), indices(b, {keys}, 0)});
  op.setDropout(APFloat(attention.getValue()));
  op.setPlace(number);
}

void AddDropout::dropSoftmax(SoftmaxOp op, int64_t number, BlockDraws draws) {
  OpBuilder builder(op->getContext());
  builder.setInsertionPointAfter(op);
  Build b(builder, op.getLoc());
  ArrayRef<int64_t> shape = shapeOf(op.getResult());
  Value element = b.add(headElements(b, {shape[1], 1, 1}, shape[3]), indices(b, {shape[3]}, 0));
  auto dropped = DropoutOp::create(builder, b.loc, op.getResult().getType(), op.getResult(),
                                   b.reshape(draws.keys, {rows, 1, 1, 1}), draws.layer,
                                   indices(b, {shape[2], 1}, 0), element, APFloat(attention.getValue()), number);
  op.getResult().replaceAllUsesExcept(dropped.getResult(), dropped.getOperation());
}

void AddDropout::dropValue(const DropoutPlace &place, int64_t number, BlockDraws draws) {
  Value value = place.value;
  OpBuilder builder(&getContext());
  builder.setInsertionPointAfterValue(value);
  Build b(builder, value.getLoc());
  auto dropped = DropoutOp::create(builder, b.loc, value.getType(), value,
                                   b.reshape(draws.keys, {rows, 1, 1}), draws.layer,
                                   indices(b, {tokens, 1}, 0), indices(b, {shapeOf(value)[2]}, 0),
                                   APFloat(rateOf(place.kind)), number);
  if (place.use)
    place.use->set(dropped);
  else
    value.replaceAllUsesExcept(dropped.getResult(), dropped.getOperation());
}

void AddDropout::drop(const DropoutPlace &place, int64_t number, BlockDraws draws) {
  if (rateOf(place.kind) == 0)
    return;
  ++numPlaces;
  if (auto op = dyn_cast_or_null<AttentionOp>(place.attention))
    dropWeights(op, number, draws);
  else if (auto softmax = dyn_cast_or_null<SoftmaxOp>(place.attention))
    dropSoftmax(softmax, number, draws);
  else
    dropValue(place, number, draws);
}

void AddDropout::runOnOperation() {
  if (failed(readBatch()))
    return signalPassFailure();
  DropoutPlaces places = findDropoutPlaces(forward);
  if (failed(checkPlaces(places)))
    return signalPassFailure();
  // Visits blocks in program order, so that the numbers of layers follow it.
  SmallVector<Block *> blocks{&forward.getBody().front()};
  forward.walk<WalkOrder::PreOrder>([&](RepeatOp repeat) { blocks.push_back(&repeat.getBlock()); });
  Value keys = addKeys();
  int64_t layers = 0;
  for (Block *block : blocks) {
    auto repeat = dyn_cast<RepeatOp>(block->getParentOp());
    std::vector<DropoutPlace> &list = places.blocks[block];
    bool drops = llvm::any_of(list, [&](const DropoutPlace &place) { return rateOf(place.kind) > 0; });
    if (drops) {
      BlockDraws draws = drawsOf(*block, keys, layers);
      for (auto [number, place] : llvm::enumerate(list))
        drop(place, number, draws);
    }
    layers += repeat ? repeat.getCount() : 0;
  }
}

} // namespace
