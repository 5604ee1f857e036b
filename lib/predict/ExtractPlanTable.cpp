#include "lib/predict/ExtractPlanTable.h"

#include "dialects/graph/GraphAttrs.h"
#include "dialects/graph/Repeat.h"
#include "dialects/parallel/Annotations.h"
#include "lib/predict/Layers.h"
#include "lib/predict/Values.h"
#include "lib/predict/WorkCounter.h"

#include <map>
#include <set>

using namespace mlir;
using namespace llmc;
using namespace llmc::cost;
using namespace llmc::predict;

namespace {

// Says which part of the model something belongs to, and of how many of its layers it is.
struct Owner {
  Part *part = nullptr;
  double layers = 1;
};

// Returns for how many times the rows of their average the ranks of experts have room: as many as phase 1 has given them.
double roomOf(ModuleOp module) {
  auto options = module->getAttrOfType<DictionaryAttr>("plan.options");
  auto budget = options ? options.getAs<FloatAttr>("moe_budget") : FloatAttr();
  return budget ? std::max(1.0, budget.getValueAsDouble()) : 1;
}

class PlanExtractor {
public:
  PlanExtractor(ModuleOp module, ArrayRef<int64_t> bodies)
      : module_(module), symbols_(module), counter_(parallel::getMesh(module), symbols_, Profile::Llmc, roomOf(module)), bodies_(bodies) {}
  Table extract();

private:
  // Holds the functions of one stage.
  struct Stage {
    int64_t index;
    func::FuncOp forward, backward, weight, update;
    SmallVector<func::FuncOp> all() const {
      SmallVector<func::FuncOp> list;
      for (func::FuncOp func : {forward, backward, weight, update})
        if (func)
          list.push_back(func);
      return list;
    }
  };

  func::FuncOp functionOf(StringRef name, int64_t stage) {
    return symbols_.lookup<func::FuncOp>((name + Twine(stage)).str());
  }
  size_t kindOf(graph::RepeatOp repeat, Stage stage);
  Owner ownerOf(Value value, func::FuncOp func, Stage stage, bool isSum = false);
  Part &partAt(Operation *op, func::FuncOp func, Stage stage);
  graph::StateOp stateOf(BlockArgument arg, func::FuncOp func);
  void countWork(func::FuncOp func, Stage stage, Work Part::*work);
  void countUpdate(Stage stage);
  void countStates(Stage stage);
  void countParameters(BlockArgument arg, Owner owner, bool isFirst);
  void countKept(Stage stage);

  ModuleOp module_;
  SymbolTable symbols_;
  WorkCounter counter_;
  Table table_;
  std::vector<Part> kinds_;
  std::vector<double> layers_; // of each kind
  ArrayRef<int64_t> bodies_; // layers in each repeat's
  int64_t stages_ = 1;
  SmallVector<graph::RepeatOp> repeats_; // of the first forward
  std::map<std::pair<int64_t, StringRef>, Owner> owners_; // of parameters, by stage
};

// Returns the number of a repeat's kind: backward has the repeats of forward in reverse.
size_t PlanExtractor::kindOf(graph::RepeatOp repeat, Stage stage) {
  auto repeats = repeatsOf(repeat->getParentOfType<func::FuncOp>());
  size_t at = llvm::find(repeats, repeat) - repeats.begin();
  bool isForward = repeat->getParentOp() == stage.forward;
  return std::min(isForward ? at : repeats.size() - 1 - at, kinds_.size() - 1);
}

// Returns whether layers alone read what an op computes, all of them the same; or another pass, for which it is kept.
static bool isShared(Operation *op) {
  bool isRead = false;
  for (OpOperand &use : op->getUses()) {
    Operation *user = use.getOwner();
    if (isa<func::ReturnOp>(user))
      continue;
    auto repeat = dyn_cast<graph::RepeatOp>(user);
    if (repeat ? !llvm::is_contained(repeat.getCaptured(), use.get()) : !isShared(user))
      return false;
    isRead = true;
  }
  return isRead;
}

// Returns what an op beside the layers belongs to: a second stage has what follows them alone.
Part &PlanExtractor::partAt(Operation *op, func::FuncOp func, Stage stage) {
  if (stages_ > 1)
    return stage.index ? table_.after : isShared(op) ? table_.shared : table_.before;
  auto repeats = repeatsOf(func);
  bool isFirst = repeats.empty() || op->isBeforeInBlock(repeats.front());
  return isFirst == (func == stage.forward) ? table_.before : table_.after;
}

// Collects the ops that make what is added to a sum, which may be added far behind them.
static void findAdded(Value sum, SmallVectorImpl<Operation *> &made) {
  for (OpOperand &use : sum.getUses()) {
    Operation *user = use.getOwner();
    if (isa<graph::SliceOp, graph::ReshapeOp>(user)) {
      findAdded(user->getResult(0), made);
    } else if (isa<graph::AddOp>(user)) {
      if (Operation *maker = wholeOf(user->getOperand(1 - use.getOperandNumber())).getDefiningOp())
        made.push_back(maker);
      findAdded(user->getResult(0), made);
    } else if (!isa<graph::ConcatOp, func::ReturnOp>(user)) {
      made.push_back(user);
    }
  }
}

// Returns what a value belongs to: layers, if these read it, else the part of its first reader or, of a sum, of what is added
// last.
Owner PlanExtractor::ownerOf(Value value, func::FuncOp func, Stage stage, bool isSum) {
  SmallVector<Operation *> users(value.getUsers());
  for (Operation *user : users)
    if (auto repeat = dyn_cast<graph::RepeatOp>(user); repeat && !kinds_.empty())
      return {&kinds_[kindOf(repeat, stage)], layers_[kindOf(repeat, stage)]};
  if (SmallVector<Operation *> made; isSum) {
    findAdded(value, made);
    if (!made.empty())
      users = made;
  }
  Operation *first = nullptr;
  for (Operation *user : users)
    if (!first || user->isBeforeInBlock(first) != isSum)
      first = user;
  return {first ? &partAt(first, func, stage) : stage.index ? &table_.after : &table_.before, 1};
}

// Returns the state that an argument stands for, of several side by side the first; null if it is none.
graph::StateOp PlanExtractor::stateOf(BlockArgument arg, func::FuncOp func) {
  unsigned number = arg.getArgNumber();
  if (auto symbol = func.getArgAttrOfType<SymbolRefAttr>(number, graph::kState))
    return symbols_.lookup<graph::StateOp>(symbol.getRootReference());
  if (auto flat = func.getArgAttrOfType<parallel::FlatAttr>(number, parallel::kFlat))
    return symbols_.lookup<graph::StateOp>(flat.getFirstState());
  return {};
}

void PlanExtractor::countWork(func::FuncOp func, Stage stage, Work Part::*work) {
  if (!func)
    return;
  for (Operation &op : func.getBody().front()) {
    if (auto repeat = dyn_cast<graph::RepeatOp>(op); repeat && !kinds_.empty()) {
      Part &part = kinds_[kindOf(repeat, stage)];
      counter_.countLayer(repeat.getBlock(), part.*work);
      continue;
    }
    counter_.count(&op, partAt(&op, func, stage).*work);
  }
  // Takes what stands before and after the layers for one: readers of another part wait, too.
  for (Part *part : {&table_.before, &table_.shared, &table_.after})
    counter_.finish(part->*work);
}

// Returns the bytes of a sum of gradients over ranks that outlives the last backward (passes/5-schedule/BucketReductions)
// and lies in no state.
static double receivedBytes(Operation *op) {
  if (!isa<parallel::ReduceScatterOp, parallel::AllReduceOp>(op))
    return 0;
  // Adds what lies in a state, or what another sum has left; else it is a copy in another type, which is added in place.
  Value summed = wholeOf(op->getOperand(0));
  bool isThere = isa<BlockArgument>(summed) || isa<parallel::CollectiveOpInterface>(summed.getDefiningOp());
  double part = isa<parallel::ReduceScatterOp>(op) ? bytesOf(op->getResult(0)) : 0;
  return part + (isThere ? 0 : bytesOf(op->getOperand(0)));
}

// Returns the bytes of weights that ranks gather from what the update has made of their parts.
static double updatedBytes(Operation *op) {
  auto gather = dyn_cast<parallel::AllGatherOp>(op);
  Value part = gather ? wholeOf(gather.getOperand()) : Value();
  if (auto arg = dyn_cast_or_null<BlockArgument>(part))
    if (auto repeat = dyn_cast<graph::RepeatOp>(arg.getOwner()->getParentOp()))
      part = wholeOf(repeat->getOperand(arg.getArgNumber()));
  return part && !isa<BlockArgument>(part) ? bytesOf(gather.getOperand()) : 0;
}

// Counts what an update does by whose states it reads; an op on the states of all layers of a kind is one for each.
void PlanExtractor::countUpdate(Stage stage) {
  if (!stage.update)
    return;
  llvm::DenseMap<Value, Owner> owners;
  for (BlockArgument arg : stage.update.getArguments())
    if (graph::StateOp state = stateOf(arg, stage.update); state && elementsOf(arg.getType()) > 1) {
      StringRef name = state.getRole() == graph::Role::parameter || !state.getOf() ? state.getSymName() : *state.getOf();
      if (auto owner = owners_.find({stage.index, name}); owner != owners_.end())
        owners[arg] = owner->second;
    }
  for (Operation &op : stage.update.getBody().front()) {
    Owner owner;
    double largest = 0;
    for (Value operand : op.getOperands())
      if (auto at = owners.find(operand); at != owners.end() && bytesOf(operand) > largest)
        largest = bytesOf(operand), owner = at->second;
    for (Value result : op.getResults())
      if (owner.part && elementsOf(result.getType()) > 1)
        owners[result] = owner;
    Work work;
    double received = 0, updated = 0;
    auto count = [&](Operation *counted) {
      counter_.count(counted, work);
      received += receivedBytes(counted);
      updated += updatedBytes(counted);
    };
    if (auto repeat = dyn_cast<graph::RepeatOp>(op)) {
      for (Operation &inner : repeat.getBlock())
        count(&inner);
      owner.layers = 1; // the body is of one
    } else {
      count(&op);
    }
    if (owner.part)
      owner.part->states.received += received / owner.layers, owner.part->states.updated += updated / owner.layers;
    // Leaves what the first stage does to each stage.
    if (!owner.part && stage.index)
      continue;
    Work &sum = owner.part ? owner.part->update : table_.step;
    for (Collective &collective : work.collectives) {
      collective.bytes /= owner.layers;
      // Sums gradients over ranks that see other tokens, whichever tactic cut these.
      if (collective.role == Role::Context)
        collective.role = Role::Data;
      sum.collectives.push_back(collective);
    }
    sum.bytes += work.bytes / owner.layers, sum.flops += work.flops / owner.layers, sum.operations += work.operations;
  }
}

void PlanExtractor::countParameters(BlockArgument arg, Owner owner, bool isFirst) {
  auto func = cast<func::FuncOp>(arg.getOwner()->getParentOp());
  bool isExpert = feedsExperts(arg);
  for (OpOperand &use : arg.getUses())
    if (auto repeat = dyn_cast<graph::RepeatOp>(use.getOwner()))
      isExpert |= feedsExperts(repeat.getBlock().getArgument(use.getOperandNumber()));
  double local = elementsOf(arg.getType()) / owner.layers, whole = 0;
  if (auto flat = func.getArgAttrOfType<parallel::FlatAttr>(arg.getArgNumber(), parallel::kFlat)) {
    local = 0;
    for (parallel::FlatPartAttr part : flat.getParts()) {
      double elements = 1;
      for (int64_t size : part.getShape().asArrayRef())
        elements *= double(size);
      local += elements; // of one layer already
      whole += elementsOf(symbols_.lookup<graph::StateOp>(part.getState().getValue()).getType()) / owner.layers;
    }
  } else {
    whole = elementsOf(stateOf(arg, func).getType()) / owner.layers;
  }
  (isExpert ? owner.part->parameters.expert : owner.part->parameters.dense) += local;
  if (!isFirst)
    return;
  owner.part->wholeParameters += whole;
  if (isExpert)
    owner.part->wholeExperts += whole;
}

void PlanExtractor::countStates(Stage stage) {
  std::set<StringRef> seen;
  for (func::FuncOp func : stage.all())
    for (BlockArgument arg : func.getArguments()) {
      graph::StateOp state = stateOf(arg, func);
      if (!state || arg.use_empty() || !seen.insert(state.getSymName()).second)
        continue;
      double bytes = bytesOf(arg);
      // Leaves sums of the loss and of tokens to each stage.
      if (elementsOf(arg.getType()) == 1 && state.getRole() == graph::Role::accumulator && !state.getOf()) {
        if (stage.index == 0)
          table_.stepStates.gradients += bytes;
        continue;
      }
      bool isParameter = state.getRole() == graph::Role::parameter;
      auto known = owners_.find({stage.index, isParameter || !state.getOf() ? state.getSymName() : *state.getOf()});
      // A sum of gradients is whole when the last one has been added: that of a tied embedding after all layers.
      Owner owner = known != owners_.end() ? known->second : ownerOf(arg, func, stage, state.getRole() == graph::Role::accumulator);
      if (known == owners_.end())
        owners_[{stage.index, state.getSymName()}] = owner;
      if (isParameter)
        countParameters(arg, owner, stage.index == 0 || !owners_.count({0, state.getSymName()}));
      States &states = owner.part->states;
      double *slot = isParameter                                  ? &states.weights
                     : state.getRole() == graph::Role::master      ? &states.masters
                     : state.getRole() == graph::Role::accumulator ? &states.gradients
                                                                   : &states.moments;
      *slot += bytes / owner.layers;
    }
}

// Returns whether a kept value is what each layer gets from its neighbour, or a stage from the one before.
static bool isGiven(Value value) {
  if (auto repeat = value.getDefiningOp<graph::RepeatOp>()) {
    Value kept = wholeOf(repeat.getBlock().getTerminator()->getOperand(cast<OpResult>(value).getResultNumber()));
    auto arg = dyn_cast<BlockArgument>(kept);
    return arg && arg.getOwner() == &repeat.getBlock() && arg.getArgNumber() < repeat.getCarried().size();
  }
  auto arg = dyn_cast<BlockArgument>(wholeOf(value));
  auto func = arg ? dyn_cast<func::FuncOp>(arg.getOwner()->getParentOp()) : func::FuncOp();
  return func && func.getArgAttr(arg.getArgNumber(), parallel::kStageBoundary);
}

// Counts what slots of a micro-batch hold: inputs, and what a pass keeps for a later one. Several may be views of one value.
void PlanExtractor::countKept(Stage stage) {
  llvm::DenseMap<int64_t, Value> values; // of residuals
  for (func::FuncOp func : {stage.forward, stage.backward}) {
    auto returns = cast<func::ReturnOp>(func.getBody().front().getTerminator());
    for (auto [i, operand] : llvm::enumerate(returns.getOperands()))
      if (auto id = func.getResultAttrOfType<IntegerAttr>(unsigned(i), parallel::kResidual))
        values[id.getInt()] = operand;
  }
  std::set<StringRef> inputs;
  llvm::DenseSet<Value> counted;
  // Begins with the last pass: what it reads is kept until then.
  const SmallVector<func::FuncOp> passes = stage.all();
  for (func::FuncOp func : llvm::reverse(passes))
    for (BlockArgument arg : func.getArguments()) {
      Owner owner = ownerOf(arg, func, stage);
      double KeptBytes::*until = func == stage.weight ? &KeptBytes::toWeights : &KeptBytes::toBackward;
      if (auto name = func.getArgAttrOfType<StringAttr>(arg.getArgNumber(), graph::kInput)) {
        if (!arg.use_empty() && inputs.insert(name.getValue()).second)
          owner.part->kept.*until += bytesOf(arg);
        continue;
      }
      auto id = func.getArgAttrOfType<IntegerAttr>(arg.getArgNumber(), parallel::kResidual);
      Value value = id ? values.lookup(id.getInt()) : Value();
      if (!value || !counted.insert(wholeOf(value)).second)
        continue;
      bool isOfBackward = value.getParentRegion() == &stage.backward.getBody();
      if (isOfBackward)
        until = &KeptBytes::fromBackward;
      if (isGiven(value))
        (isOfBackward ? owner.part->keepsGradient : owner.part->keepsInput) = true;
      bool isOfAll = llvm::any_of(arg.getUsers(), [&](Operation *user) {
        auto repeat = dyn_cast<graph::RepeatOp>(user);
        return repeat && llvm::is_contained(repeat.getCaptured(), arg);
      });
      if (isOfAll)
        table_.shared.kept.*until += bytesOf(arg);
      else
        owner.part->kept.*until += bytesOf(arg) / owner.layers;
    }
}

Table PlanExtractor::extract() {
  std::vector<Stage> stages;
  for (int64_t i = 0; functionOf("forward_", i) && functionOf("backward_", i); ++i)
    stages.push_back({i, functionOf("forward_", i), functionOf("backward_", i), functionOf("weight_", i), functionOf("update_", i)});
  table_.isOfPlan = true;
  if (stages.empty())
    return table_;
  stages_ = int64_t(stages.size());
  repeats_ = repeatsOf(stages.front().forward);
  kinds_.resize(repeats_.size());
  for (auto [repeat, layers] : llvm::zip(repeats_, bodies_))
    layers_.push_back(double(graph::RepeatOp(repeat).getCount() * layers));
  for (Stage stage : stages) {
    countStates(stage);
    countWork(stage.forward, stage, &Part::forward);
    countWork(stage.backward, stage, &Part::backward);
    countWork(stage.weight, stage, &Part::weightGradients);
    countUpdate(stage);
    countKept(stage);
    for (auto [func, sent] : {std::pair(stage.forward, &table_.sentForward), {stage.backward, &table_.sentBackward}})
      for (BlockArgument arg : func.getArguments())
        if (func.getArgAttr(arg.getArgNumber(), parallel::kStageBoundary))
          *sent += bytesOf(arg);
  }
  setLayers(module_, repeats_, bodies_, std::move(kinds_), table_);
  setExperts(stages.front().forward, table_);
  return std::move(table_);
}

} // namespace

Table predict::extractPlanTable(ModuleOp module, ArrayRef<int64_t> bodies) { return PlanExtractor(module, bodies).extract(); }
