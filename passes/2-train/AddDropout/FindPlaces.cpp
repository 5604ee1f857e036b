#include "passes/2-train/AddDropout/FindPlaces.h"

#include "dialects/graph/Build.h"
#include "dialects/graph/GraphAttrs.h"

using namespace mlir;
using namespace llmc;
using namespace llmc::graph;
using namespace llmc::train;

namespace {

// Tells what a value is to the residual stream; of several operands the last in this order decides.
enum class Part {
  Outside,         // depends on no embedding: weights, masks, tables
  Stream,          // the embeddings, to which branches were added
  Branch,          // computed from the stream by products, to be added to it
  AttentionBranch, // the same, through an attention
};

class PlaceFinder {
public:
  explicit PlaceFinder(func::FuncOp forward) : forward(forward) {}
  DropoutPlaces find();

private:
  bool isParameter(Value value);
  Part partOf(Value value) const { return parts.lookup_or(value, Part::Outside); }
  Part largest(ValueRange values) const;
  void visit(Block &block);
  void visitRepeat(RepeatOp repeat);
  Part visitOp(Operation *op);
  bool addBranch(AddOp add);
  void dropLeaves(OpOperand &use, Block *block);
  void dropEmbedding(Value stream);

  func::FuncOp forward;
  DropoutPlaces places;
  llvm::DenseMap<Value, Part> parts;
  bool hasEmbedding = false; // the first addition to the stream was seen
  bool records = true;
};

} // namespace

bool PlaceFinder::isParameter(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  return argument && argument.getOwner() == &forward.getBody().front() &&
         forward.getArgAttr(argument.getArgNumber(), graph::kState);
}

Part PlaceFinder::largest(ValueRange values) const {
  Part part = Part::Outside;
  for (Value value : values)
    part = std::max(part, partOf(value));
  return part;
}

static bool isBranch(Part part) { return part >= Part::Branch; }

// Adds a place for each branch behind `use`: those that are added to each other are several.
void PlaceFinder::dropLeaves(OpOperand &use, Block *block) {
  Value value = use.get();
  auto add = value.getDefiningOp<AddOp>();
  bool isSum = add && value.hasOneUse() && add->getBlock() == block &&
               llvm::all_of(add->getOperands(), [&](Value operand) {
                 return isBranch(partOf(operand)) && operand.getType() == value.getType();
               });
  if (isSum)
    for (OpOperand &operand : add->getOpOperands())
      dropLeaves(operand, block);
  else
    places.blocks[block].push_back({partOf(value) == Part::AttentionBranch ? PlaceKind::AttentionOutput
                                                                           : PlaceKind::MlpOutput,
                                    nullptr, value, &use});
}

// Adds the place of the embeddings, which `stream` holds when the first branch is added to it. Where
// that is in a repeat they are what the repeat starts from.
void PlaceFinder::dropEmbedding(Value stream) {
  hasEmbedding = true;
  Block *block = stream.getParentBlock();
  if (auto repeat = dyn_cast<RepeatOp>(block->getParentOp())) {
    for (auto [argument, start] : llvm::zip(repeat.getCarriedArgs(), repeat.getCarried()))
      if (partOf(argument) == Part::Stream) {
        stream = start;
        break;
      }
    block = repeat->getBlock();
  }
  auto &list = places.blocks[block];
  list.insert(list.begin(), {PlaceKind::Embedding, nullptr, stream, nullptr});
}

// Returns whether `add` adds a branch to the stream; then records what is dropped.
bool PlaceFinder::addBranch(AddOp add) {
  for (unsigned i : {0u, 1u}) {
    Value stream = add->getOperand(1 - i), branch = add->getOperand(i);
    if (partOf(stream) != Part::Stream || !isBranch(partOf(branch)) || stream.getType() != branch.getType())
      continue;
    if (!records)
      return true;
    if (!hasEmbedding)
      dropEmbedding(stream);
    dropLeaves(add->getOpOperand(i), add->getBlock());
    return true;
  }
  return false;
}

// Returns whether a softmax is that of a router: over all experts, or over those that were chosen.
static bool isOfRouter(Operation *op) {
  auto softmax = dyn_cast<SoftmaxOp>(op);
  if (!softmax)
    return false;
  auto taken = softmax->getOperand(0).getDefiningOp<TakeAlongOp>();
  return (taken && taken.getIds().getDefiningOp<RouteOp>()) ||
         llvm::any_of(op->getUsers(), [](Operation *user) { return isa<RouteOp>(user); });
}

Part PlaceFinder::visitOp(Operation *op) {
  if (auto gather = dyn_cast<GatherOp>(op); gather && isParameter(gather.getTable()))
    return Part::Stream;
  if (auto add = dyn_cast<AddOp>(op); add && addBranch(add))
    return Part::Stream;
  Part part = largest(op->getOperands());
  if (part == Part::Outside)
    return part;
  if (isa<AttentionOp, SoftmaxOp>(op) && !isOfRouter(op)) {
    if (records)
      places.blocks[op->getBlock()].push_back({PlaceKind::Attention, op, Value(), nullptr});
    return Part::AttentionBranch;
  }
  return isa<MatmulOp, GroupedMatmulOp>(op) ? std::max(part, Part::Branch) : part;
}

void PlaceFinder::visit(Block &block) {
  for (Operation &op : block.without_terminator()) {
    if (auto repeat = dyn_cast<RepeatOp>(op)) {
      visitRepeat(repeat);
      continue;
    }
    Part part = visitOp(&op);
    for (Value result : op.getResults())
      parts[result] = part;
  }
}

// Visits the body until what an iteration yields is no more than what it was given; only then records
// the places.
void PlaceFinder::visitRepeat(RepeatOp repeat) {
  Block &body = repeat.getBlock();
  Operation *yield = body.getTerminator();
  for (auto [argument, operand] : llvm::zip(body.getArguments(), repeat->getOperands()))
    parts[argument] = partOf(operand);
  bool recorded = records, isMixed = false;
  records = false;
  for (bool changed = true; changed;) {
    visit(body);
    changed = false;
    for (auto [argument, next] : llvm::zip(repeat.getCarriedArgs(), yield->getOperands())) {
      Part both = std::max(partOf(argument), partOf(next));
      changed |= both != partOf(argument);
      isMixed |= partOf(argument) == Part::Stream && isBranch(both);
      parts[argument] = both;
    }
  }
  records = recorded;
  if (isMixed)
    places.mixed.push_back(repeat);
  visit(body);
  for (auto [result, value] : llvm::zip(repeat->getResults(), yield->getOperands()))
    parts[result] = partOf(value);
}

DropoutPlaces PlaceFinder::find() {
  visit(forward.getBody().front());
  return std::move(places);
}

DropoutPlaces train::findDropoutPlaces(func::FuncOp forward) { return PlaceFinder(forward).find(); }
