// Finds candidates in the sequence of op signatures (equal at distance `period`), and then checks
// each operand by operand.
#include "passes/1-raise/FoldLayers/FindLayers.h"

#include "passes/1-raise/Constants.h"
#include "passes/1-raise/Parameters.h"

#include "llvm/Support/DebugLog.h"

#define DEBUG_TYPE "llmc-fold-layers"

using namespace mlir;
using namespace llmc;
using namespace llmc::graph;
using namespace llmc::raise;

using Positions = llvm::DenseMap<Operation *, int64_t>;

namespace {

// Compares ops by name, properties, types, and by which operands are parameters. An op with
// regions, a folded run, is equal to no other.
struct SignatureInfo : llvm::DenseMapInfo<Operation *> {
  static constexpr auto kFlags = OperationEquivalence::Flags(
      OperationEquivalence::IgnoreLocations | OperationEquivalence::IgnoreDiscardableAttrs);

  static unsigned getHashValue(Operation *op) {
    auto hashOperand = [](Value v) { return llvm::hash_combine(v.getType(), isParameter(v)); };
    return OperationEquivalence::computeHash(op, hashOperand,
                                             OperationEquivalence::ignoreHashValue, kFlags);
  }
  static bool isEqual(Operation *a, Operation *b) {
    if (a == b || llvm::is_contained({a, b}, getEmptyKey()) ||
        llvm::is_contained({a, b}, getTombstoneKey()) || a->getNumRegions())
      return a == b;
    auto alike = [](Value x, Value y) {
      return success(x.getType() == y.getType() && isParameter(x) == isParameter(y));
    };
    return OperationEquivalence::isEquivalentTo(a, b, alike, nullptr, kFlags);
  }
};

} // namespace

// Returns equal numbers for ops that may be at the same position of two layers.
static SmallVector<int64_t> signaturesOf(Ops ops) {
  llvm::DenseMap<Operation *, int64_t, SignatureInfo> numbers;
  return llvm::map_to_vector(
      ops, [&](Operation *op) { return numbers.try_emplace(op, numbers.size()).first->second; });
}

namespace {

// Returns the index of `item` in `list`, and appends it if it is not there.
template <typename List, typename T> int64_t indexIn(List &list, const T &item) {
  auto found = llvm::find(list, item);
  if (found != list.end())
    return found - list.begin();
  list.push_back(item);
  return list.size() - 1;
}

constexpr int64_t kSmall = 4096; // elements of a constant that is worth stacking

// Returns whether `value` may be stacked where the layers begin: an input of the model, or a small
// constant.
bool isGatherable(Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value))
    return isa<func::FuncOp>(argument.getOwner()->getParentOp()) && !isParameter(value);
  return value.getDefiningOp<ConstantOp>() && typeOf(value).getNumElements() <= kSmall;
}

// Checks one candidate and finds where its operands come from.
class Matcher {
public:
  Matcher(Ops ops, const Positions &positions, int64_t start, int64_t period, int64_t count)
      : ops(ops), positions(positions) {
    layers.start = start;
    layers.period = period;
    layers.count = count;
  }

  std::optional<Layers> match() {
    bool matmul = false;
    for (int64_t j = 0; j < layers.period; ++j) {
      Operation *op = ops[layers.start + j];
      matmul |= isa<MatmulOp>(op);
      layers.operands.emplace_back();
      for (unsigned i = 0; i < op->getNumOperands(); ++i)
        if (!matchOperand(j, i))
          return std::nullopt;
    }
    if (!matmul || !continues() || !exportResults() || !parametersStayInside())
      return std::nullopt;
    return std::move(layers);
  }

private:
  Operation *at(int64_t group, int64_t op) const {
    return ops[layers.start + group * layers.period + op];
  }
  // Identifies the position of a value in its group; group -1 is outside the candidate.
  struct GroupPosition {
    int64_t group = -1, op = 0;
    unsigned result = 0;
  };
  // Returns whether each carried result is computed from a carried value. If not, the ops of the
  // groups are merely alike, as the projections of one layer are.
  bool continues() const {
    SmallVector<bool> reached;
    for (const auto &operands : layers.operands)
      reached.push_back(llvm::any_of(operands, [&](const Layers::Operand &from) {
        return from.kind == Layers::Operand::Carried ||
               (from.kind == Layers::Operand::Internal && reached[from.index]);
      }));
    return !layers.carried.empty() && llvm::all_of(layers.carried, [&](const auto &carried) {
      return reached[carried.op];
    });
  }

  GroupPosition groupPositionOf(Value value) const {
    Operation *op = value.getDefiningOp();
    auto found = op ? positions.find(op) : positions.end();
    if (found == positions.end() || found->second < layers.start || found->second >= layers.end())
      return {};
    int64_t offset = found->second - layers.start;
    return {offset / layers.period, offset % layers.period,
            cast<OpResult>(value).getResultNumber()};
  }

  bool matchOperand(int64_t op, unsigned operand) {
    SmallVector<Value> values;
    for (int64_t group = 0; group < layers.count; ++group)
      values.push_back(at(group, op)->getOperand(operand));
    auto from = sourceOf(values);
    if (from)
      layers.operands.back().push_back(*from);
    return from.has_value();
  }

  std::optional<Layers::Operand> sourceOf(ArrayRef<Value> values) {
    using Operand = Layers::Operand;
    GroupPosition first = groupPositionOf(values[0]);
    if (first.group == 0) {
      for (auto [group, value] : llvm::enumerate(values)) {
        GroupPosition place = groupPositionOf(value);
        if (place.group != int64_t(group) || place.op != first.op || place.result != first.result)
          return std::nullopt;
      }
      return Operand{Operand::Internal, first.op, first.result};
    }
    if (first.group > 0)
      return std::nullopt;
    if (llvm::all_equal(values)) {
      if (scalarOf(values[0]))
        return Operand{Operand::Cloned, indexIn(layers.captured, values[0])};
      return Operand{Operand::Captured, indexIn(layers.captured, values[0])};
    }
    if (llvm::all_of(values, isParameter)) {
      if (llvm::any_of(values, [&](Value v) { return v.getType() != values[0].getType(); }))
        return std::nullopt;
      SmallVector<Value> list(values);
      return Operand{Operand::Stacked, indexIn(layers.stacked, list)};
    }
    if (llvm::all_of(values, isGatherable) &&
        llvm::all_of(values, [&](Value v) { return v.getType() == values[0].getType(); })) {
      SmallVector<Value> list(values);
      return Operand{Operand::Gathered, indexIn(layers.gathered, list)};
    }
    GroupPosition next = groupPositionOf(values[1]);
    for (int64_t group = 1; group < layers.count; ++group) {
      GroupPosition place = groupPositionOf(values[group]);
      if (place.group != group - 1 || place.op != next.op || place.result != next.result)
        return std::nullopt;
    }
    Layers::Carried carried{next.op, next.result, values[0]};
    return Operand{Operand::Carried, indexIn(layers.carried, carried)};
  }

  // Finds the results that are used behind the layers: carried results of the last group, and
  // results of every group. Fails if only some groups' are used.
  bool exportResults() {
    for (int64_t j = 0; j < layers.period; ++j)
      for (unsigned i = 0; i < at(0, j)->getNumResults(); ++i) {
        auto leaves = [&](int64_t group) { return usedBehind(at(group, j)->getResult(i)); };
        int64_t count = llvm::count_if(llvm::seq<int64_t>(0, layers.count), leaves);
        bool carried = llvm::any_of(layers.carried, [&](const Layers::Carried &carried) {
          return carried.op == j && carried.result == i;
        });
        if (count == 0 || (count == 1 && carried && leaves(layers.count - 1)))
          continue;
        if (count != layers.count)
          return false;
        layers.exported.push_back({j, i});
      }
    return true;
  }
  bool usedBehind(Value result) const {
    return llvm::any_of(result.getUsers(), [&](Operation *user) {
      auto found = positions.find(user);
      return found == positions.end() || found->second < layers.start ||
             found->second >= layers.end();
    });
  }

  // Returns whether each stacked parameter is at one position of the stacks, and used in its group
  // only.
  bool parametersStayInside() const {
    llvm::DenseSet<Value> seen;
    for (const auto &list : layers.stacked)
      for (auto [group, value] : llvm::enumerate(list)) {
        if (!seen.insert(value).second)
          return false;
        for (Operation *user : value.getUsers()) {
          auto found = positions.find(user);
          int64_t begin = layers.start + group * layers.period;
          if (found == positions.end() || found->second < begin ||
              found->second >= begin + layers.period)
            return false;
        }
      }
    return true;
  }

  Ops ops;
  const Positions &positions;
  Layers layers;
};

Positions positionsOf(Ops ops) {
  Positions positions;
  for (auto [i, op] : llvm::enumerate(ops))
    positions[op] = i;
  return positions;
}

// Counts folded ops. A carried value beyond the first counts against them like a layer, so that
// layers are cut where the residual stream is narrow.
int64_t worth(const Layers &layers) {
  return layers.period * (layers.count - (int64_t(layers.carried.size()) - 1));
}

// Prefers the fold that is worth more; then fewer carried values, fewer other ones, the shorter
// period, the earlier start.
bool better(const Layers &a, const Layers &b) {
  auto key = [](const Layers &l) {
    return std::tuple(-worth(l), l.carried.size(), l.gathered.size() + l.exported.size(), l.period,
                      l.start);
  };
  return key(a) < key(b);
}

} // namespace

std::optional<Layers> raise::findLayers(Ops ops) {
  SmallVector<int64_t> signatures = signaturesOf(ops);
  Positions positions = positionsOf(ops);
  std::optional<Layers> best;
  int64_t size = ops.size();
  for (int64_t period = 1; 2 * period <= size; ++period) {
    for (int64_t begin = 0; begin + period < size; ++begin) {
      int64_t end = begin; // signatures of [begin, end) repeat at distance `period`
      while (end + period < size && signatures[end] == signatures[end + period])
        ++end;
      for (int64_t start = begin; start + period <= end && start < begin + period; ++start)
        for (int64_t count = (end - start) / period + 1; count >= 2; --count) {
          if (best && period * count < worth(*best))
            break;
          auto layers = Matcher(ops, positions, start, period, count).match();
          if (!layers)
            continue;
          if (!best || better(*layers, *best)) {
            LDBG() << count << " layers of " << period << " ops from op " << start << ", worth "
                   << worth(*layers);
            best = std::move(layers);
          }
          break;
        }
      begin = std::max(begin, end);
    }
  }
  return best;
}

// Returns the stream and the branch of a sum of two full tensors of which the branch depends on the
// stream.
static std::optional<std::pair<Value, Value>> residualSides(Operation *op,
                                                            const Positions &positions) {
  auto sum = dyn_cast<AddOp>(op);
  if (!sum || sum.getLhs().getType() != sum.getRhs().getType())
    return std::nullopt;
  for (unsigned side : {0u, 1u}) {
    Value stream = sum->getOperand(side), branch = sum->getOperand(1 - side);
    SmallVector<Operation *> pending{branch.getDefiningOp()};
    llvm::DenseSet<Operation *> seen;
    auto found = stream.getDefiningOp() ? positions.find(stream.getDefiningOp()) : positions.end();
    int64_t floor = found == positions.end() ? -1 : found->second;
    while (!pending.empty()) {
      Operation *next = pending.pop_back_val();
      if (!next || !seen.insert(next).second)
        continue;
      for (Value operand : next->getOperands()) {
        if (operand == stream)
          return std::pair(stream, branch);
        auto place =
            operand.getDefiningOp() ? positions.find(operand.getDefiningOp()) : positions.end();
        if (place != positions.end() && place->second > floor)
          pending.push_back(operand.getDefiningOp());
      }
    }
  }
  return std::nullopt;
}

namespace {

// Describes ops [begin, end) from `initial`, a point of the residual stream, to another one.
struct Stretch {
  int64_t begin = 0, end = 0;
  Value initial;
};

// Returns the longest chain of residual sums around one attention.
std::optional<Stretch> longestStretch(Ops ops, const Positions &positions) {
  llvm::DenseMap<Value, Value> beginning; // of the chain that a sum ends
  std::optional<Stretch> longest;
  for (auto [i, op] : llvm::enumerate(ops)) {
    auto sides = residualSides(op, positions);
    if (!sides)
      continue;
    Value from = beginning.count(sides->first) ? beginning[sides->first] : sides->first;
    beginning[op->getResult(0)] = from;
    Stretch found{0, int64_t(i) + 1, from};
    if (from.getDefiningOp())
      found.begin = positions.lookup(from.getDefiningOp()) + 1;
    auto attentions = llvm::count_if(ops.slice(found.begin, found.end - found.begin),
                                     [](Operation *inside) { return isa<AttentionOp>(inside); });
    if (attentions == 1 && (!longest || found.end - found.begin > longest->end - longest->begin))
      longest = found;
  }
  return longest;
}

} // namespace

std::optional<Layers> raise::findSingleLayer(Ops ops) {
  using Operand = Layers::Operand;
  Positions positions = positionsOf(ops);
  auto stretch = longestStretch(ops, positions);
  if (!stretch)
    return std::nullopt;
  auto inside = [&](Operation *op) {
    auto place = op ? positions.find(op) : positions.end();
    return place != positions.end() && place->second >= stretch->begin &&
           place->second < stretch->end;
  };
  auto usedInside = [&](Value value) { return llvm::all_of(value.getUsers(), inside); };

  Layers layers;
  layers.start = stretch->begin;
  layers.period = stretch->end - stretch->begin;
  layers.count = 1;
  layers.carried.push_back({layers.period - 1, 0, stretch->initial});
  for (Operation *op : ops.slice(layers.start, layers.period)) {
    for (OpResult result : op->getResults())
      if (op != ops[layers.end() - 1] && !usedInside(result))
        layers.exported.push_back({positions.lookup(op) - layers.start, result.getResultNumber()});
    auto &operands = layers.operands.emplace_back();
    for (Value value : op->getOperands()) {
      if (value == stretch->initial)
        operands.push_back({Operand::Carried, 0});
      else if (inside(value.getDefiningOp()))
        operands.push_back({Operand::Internal,
                            positions.lookup(value.getDefiningOp()) - layers.start,
                            cast<OpResult>(value).getResultNumber()});
      else if (isParameter(value) && usedInside(value))
        operands.push_back({Operand::Stacked, indexIn(layers.stacked, SmallVector<Value>{value})});
      else
        operands.push_back({scalarOf(value) ? Operand::Cloned : Operand::Captured,
                            indexIn(layers.captured, value)});
    }
  }
  return layers;
}
