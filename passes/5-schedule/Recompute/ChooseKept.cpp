// Describes blocks as problems of which values to keep (KeptSet.h).
#include "passes/5-schedule/Recompute/ChooseKept.h"

#include "mlir/IR/Block.h"
#include "mlir/IR/BuiltinTypes.h"
#include "passes/5-schedule/Recompute/KeptSet.h"

using namespace mlir;
using namespace llmc;

int64_t llmc::tensorBytes(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  return type.getNumElements() * ((type.getElementTypeBitWidth() + 7) / 8);
}

static llvm::DenseSet<Value> findFixed(const RecomputeChoice &choice) {
  llvm::DenseSet<Value> fixed;
  for (BlockArgument arg : choice.block->getArguments())
    if (choice.sourceOf(arg) == Source::State)
      fixed.insert(arg);
  for (Operation &op : *choice.block)
    if (op.getNumRegions() == 0 &&
        llvm::all_of(op.getOperands(), [&](Value v) { return fixed.contains(v); }))
      fixed.insert(op.result_begin(), op.result_end());
  return fixed;
}

// Lists the values that can be kept, and that backward has not anyway.
static SmallVector<Value> listValues(const RecomputeChoice &choice, const llvm::DenseSet<Value> &fixed) {
  SmallVector<Value> values;
  for (BlockArgument arg : choice.block->getArguments())
    if (choice.sourceOf(arg) == Source::None)
      values.push_back(arg);
  for (Operation &op : *choice.block)
    llvm::append_range(values, op.getResults());
  llvm::erase_if(values, [&](Value value) { return fixed.contains(value) || !isa<RankedTensorType>(value.getType()); });
  return values;
}

llvm::SetVector<Value> llmc::valuesOf(const RecomputeChoice &choice, ArrayRef<int64_t> numbers) {
  SmallVector<Value> values = listValues(choice, findFixed(choice));
  llvm::SetVector<Value> found;
  for (int64_t number : numbers)
    found.insert(values[number]);
  return found;
}

namespace {

// Describes one block after the other as one problem.
class ProblemBuilder {
public:
  void add(const RecomputeChoice &choice);
  // Returns the problem's values of block 0 with the numbers.
  std::vector<bool> keptOf(ArrayRef<int64_t> numbers) const {
    std::vector<bool> kept;
    for (Place place : places)
      kept.push_back(place.block == 0 && llvm::is_contained(numbers, place.number));
    return kept;
  }
  // Sorts what is kept by block.
  SmallVector<KeptNumbers> numbersOf(const KeptSet &set) const;

  KeptSetProblem problem;

private:
  struct Place {
    size_t block;
    int64_t number;
  };
  SmallVector<Place> places; // of each value of the problem
  size_t blocks = 0;
};

void ProblemBuilder::add(const RecomputeChoice &choice) {
  llvm::DenseSet<Value> fixed = findFixed(choice);
  llvm::DenseMap<Value, unsigned> ids;
  for (auto [number, value] : llvm::enumerate(listValues(choice, fixed))) {
    ids[value] = problem.values.size();
    places.push_back({blocks, int64_t(number)});
    problem.values.push_back({tensorBytes(value) * choice.layers});
  }
  for (Value value : choice.needed)
    if (auto it = ids.find(value); it != ids.end())
      problem.values[it->second].needed = true;
  for (Operation &op : *choice.block) {
    KeptSetProblem::Op entry;
    for (Value result : op.getResults())
      if (auto it = ids.find(result); it != ids.end())
        entry.results.push_back(it->second);
    if (entry.results.empty())
      continue;
    for (Value operand : op.getOperands())
      if (auto it = ids.find(operand); it != ids.end())
        entry.operands.push_back(it->second);
    entry.mayRedo = choice.mayRedo(&op, fixed);
    if (entry.mayRedo && choice.priceOf)
      entry.price = choice.priceOf(&op) * double(choice.layers);
    problem.ops.push_back(std::move(entry));
  }
  ++blocks;
}

SmallVector<KeptNumbers> ProblemBuilder::numbersOf(const KeptSet &set) const {
  SmallVector<KeptNumbers> numbers(blocks);
  for (auto [v, place] : llvm::enumerate(places))
    if (set.kept[v])
      numbers[place.block].push_back(place.number);
  return numbers;
}

} // namespace

bool llmc::suffices(const RecomputeChoice &choice, ArrayRef<int64_t> numbers) {
  ProblemBuilder builder;
  builder.add(choice);
  int64_t count = builder.problem.values.size();
  return llvm::all_of(numbers, [&](int64_t number) { return number >= 0 && number < count; }) &&
         priced(builder.problem, builder.keptOf(numbers)).has_value();
}

KeptNumbers llmc::chooseFewestBytes(const RecomputeChoice &choice) {
  ProblemBuilder builder;
  builder.add(choice);
  return builder.numbersOf(keepFewestBytes(builder.problem)).front();
}

SmallVector<KeptNumbers> llmc::chooseCheapest(ArrayRef<RecomputeChoice> choices, int64_t bytes) {
  ProblemBuilder builder;
  for (const RecomputeChoice &choice : choices)
    builder.add(choice);
  std::optional<KeptSet> set = keepCheapest(builder.problem, bytes);
  return builder.numbersOf(set ? *set : keepFewestBytes(builder.problem));
}
