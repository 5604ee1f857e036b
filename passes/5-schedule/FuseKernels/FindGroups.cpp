// Finds groups greedily, in the order of the block. An op joins the group of a producer of what it
// reads, or of another reader of it, unless an op outside depends on one of them and feeds the
// other.
#include "passes/5-schedule/FuseKernels/Fusion.h"

#include "dialects/graph/Build.h"
#include "passes/5-schedule/BuildProcedures/BufferAssignment.h"

#include "llvm/Support/DebugLog.h"

#include <deque>

#define DEBUG_TYPE "llmc-fuse-kernels"

using namespace mlir;
using namespace llmc::graph;

namespace llmc::fusion {

// Bounds the buffers of a group below the 32 of a launch: column sums that are cut need some more.
static constexpr size_t kMostBuffers = 24;

//===-- Questions about one op ----------------------------------------------===//

bool FusionGroup::has(FusionRole role) const {
  return llvm::any_of(members, [&](Operation *op) { return roles.lookup(op) == role; });
}
bool FusionGroup::reduces() const { return llvm::is_contained(reduced, true); }

bool isUnitReshape(Operation *op) {
  if (!isa<ReshapeOp>(op))
    return false;
  auto significant = [](ArrayRef<int64_t> shape) {
    return llvm::filter_to_vector(shape, [](int64_t size) { return size != 1; });
  };
  return significant(shapeOf(op->getOperand(0))) == significant(shapeOf(op->getResult(0)));
}

// Returns whether a cast loses no digit: a kernel widens what it loads at no cost.
static bool isWidening(CastOp op) {
  return isFloat(op.getOperand()) && isFloat(op.getResult()) &&
         elementOf(op.getOperand()).getIntOrFloatBitWidth() <
             elementOf(op.getResult()).getIntOrFloatBitWidth();
}

Value behindCasts(Value value) {
  auto cast = value.getDefiningOp<CastOp>();
  return cast && isRecomputedByReaders(cast) ? behindCasts(cast.getOperand()) : value;
}

bool isRecomputedByReaders(Operation *op) {
  int64_t displacement;
  if (auto constant = dyn_cast<ConstantOp>(op))
    return constant.getValue().isSplat();
  if (isa<IotaOp, BroadcastOp>(op))
    return true;
  if (auto cast = dyn_cast<CastOp>(op)) {
    Operation *def = cast.getOperand().getDefiningOp();
    return isWidening(cast) || (def && isRecomputedByReaders(def));
  }
  auto slice = dyn_cast<SliceOp>(op);
  return slice && !isView(op, displacement) && !slice.getSteps().empty() &&
         slice.getSteps().back() == 1;
}

static bool isExpression(Operation *op) {
  auto compute = dyn_cast<GraphOpInterface>(op);
  return compute && op->getNumResults() > 0 &&
         (compute.getEmitClass() == EmitClass::Elementwise || isa<OneHotOp>(op)) &&
         llvm::all_of(op->getResultTypes(), [&](Type type) {
           return cast<RankedTensorType>(type).getShape() == shapeOf(op->getResult(0));
         });
}
static bool isReductionRoot(Operation *op) {
  auto compute = dyn_cast<GraphOpInterface>(op);
  return compute && (compute.getEmitClass() == EmitClass::RowReduction || isa<ReduceOp>(op));
}

// Returns the dims that a reduction root reduces: those of the op, or the last.
static SmallVector<bool> reducedDims(Operation *op) {
  SmallVector<bool> reduced(shapeOf(op->getOperand(0)).size(), false);
  if (auto reduce = dyn_cast<ReduceOp>(op)) {
    for (int64_t dim : reduce.getDims())
      reduced[dim] = true;
  } else if (isa<LayerNormGradScaleOp, RmsNormGradScaleOp>(op)) {
    llvm::fill(llvm::drop_end(reduced), true);
  } else {
    reduced.back() = true;
  }
  return reduced;
}

static bool isTrailing(ArrayRef<bool> reduced) {
  auto *first = llvm::find(reduced, true);
  return std::all_of(first, reduced.end(), [](bool r) { return r; });
}

bool isColumnSum(Operation *op) {
  auto reduce = dyn_cast<ReduceOp>(op);
  if (!reduce)
    return false;
  size_t rank = shapeOf(reduce.getOperand()).size();
  return rank >= 2 && reduce.getDims().size() == rank - 1 &&
         !llvm::is_contained(reduce.getDims(), static_cast<int64_t>(rank) - 1);
}

bool isRowOperand(Operation *op, unsigned i) {
  if (isa<OneHotOp>(op))
    return i < 2;
  if (isa<LayerNormGradOp>(op))
    return i >= 3;
  return isa<RmsNormGradOp>(op) && i == 3;
}

// Returns whether the op adds a product to an accumulator, which the library does. One more add may
// follow.
static bool isAccumulation(Operation *op) {
  auto add = dyn_cast<AddOp>(op);
  if (!add || !add.getResult().hasOneUse())
    return false;
  Operation *user = *add.getResult().getUsers().begin();
  if (isa<AddOp>(user) && user->hasOneUse() && user->getResult(0).getType() == add.getType())
    user = *user->getUsers().begin();
  if (!user->hasTrait<OpTrait::IsTerminator>())
    return false;
  for (auto [acc, product] : {std::pair(add.getLhs(), add.getRhs()), std::pair(add.getRhs(), add.getLhs())})
    if (isa_and_nonnull<MatmulOp, GroupedOuterOp>(product.getDefiningOp()) && product.hasOneUse() && isa<BlockArgument>(acc) &&
        acc.getType() == product.getType())
      return true;
  return false;
}

// Returns whether all dims of `op` but the last can be replaced by others. `shape` is that of its
// space.
static bool isCollapsible(Operation *op, ArrayRef<int64_t> shape) {
  if (shape.size() < 2)
    return false;
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    auto own = shapeOf(operand);
    if (isRowOperand(op, i) || own == shape || own.size() <= 1)
      continue;
    bool isColumn = own.size() == shape.size() && own.back() == 1 && own.drop_back() == shape.drop_back();
    bool isRow = own == shape.drop_back() && shapeOf(op->getResult(0)) == shape.drop_back() && !isReductionRoot(op);
    if (!isColumn && !isRow)
      return false;
    if (Operation *def = behindCasts(operand).getDefiningOp(); def && isRecomputedByReaders(def))
      return false;
  }
  return llvm::none_of(op->getOperands(), [](Value operand) {
    Operation *def = behindCasts(operand).getDefiningOp();
    return def && isRecomputedByReaders(def) && !isa<ConstantOp>(def) && !shapeOf(operand).empty();
  }) && !isa<MaskTailOp>(op);
}

//===-- Groups --------------------------------------------------------------===//

namespace {

class Finder {
public:
  Finder(Block &block, const llvm::DenseSet<Operation *> &whole) : whole(whole) {
    for (Operation &op : block)
      order[&op] = order.size();
    definitions.resize(order.size()), groupAt.resize(order.size(), -1);
    inside.resize(order.size()), seen.resize(order.size());
    for (Operation &op : block)
      for (Value operand : op.getOperands())
        if (auto definition = order.find(operand.getDefiningOp()); definition != order.end())
          definitions[order.lookup(&op)].push_back(definition->second);
    for (Operation &op : block.without_terminator())
      visit(&op);
  }
  std::vector<FusionGroup> take();
  // Returns a group of a scatter and the sum that it is added to, if neither is in a group of
  // several.
  std::optional<FusionGroup> scatterInto(ScatterAddOp scatter) const;

private:
  void visit(Operation *op);
  FusionGroup startOf(Operation *op) const;
  std::optional<FusionRole> roleIn(const FusionGroup &group, Operation *op) const;
  bool readsFit(const FusionGroup &group, Operation *op, FusionRole role) const;
  bool tryJoin(int number, Operation *op);
  void tryMerge(int into, int from);
  void add(int number, Operation *op, FusionRole role);
  bool hasWayAround(llvm::ArrayRef<Operation *> members);
  bool fitsLaunch(llvm::ArrayRef<Operation *> members) const;
  SmallVector<int> producers(Operation *op) const;
  SmallVector<int> readers(Operation *op) const;
  bool isColumn(Operation *op) const { return isColumnSum(op) && !whole.contains(op); }

  const llvm::DenseSet<Operation *> &whole;
  llvm::DenseMap<Operation *, int64_t> order;
  std::deque<FusionGroup> groups; // without members: merged into another
  llvm::DenseMap<Operation *, int> groupOf;
  llvm::DenseMap<Value, SmallVector<int>> readersOf;
  // Lists by places in the block what each op reads, and its group; and in which search an op was a member or was seen.
  std::vector<SmallVector<int64_t, 4>> definitions;
  std::vector<int> groupAt;
  std::vector<unsigned> inside, seen;
  unsigned searches = 0;
};

} // namespace

FusionGroup Finder::startOf(Operation *op) const {
  FusionGroup group;
  bool reduces = isReductionRoot(op);
  group.shape = llvm::to_vector(shapeOf(reduces ? op->getOperand(0) : op->getResult(0)));
  group.reduced.assign(group.shape.size(), false);
  if (reduces && !isColumn(op))
    group.reduced = reducedDims(op);
  return group;
}

// Returns the dims of a group's space that are not reduced.
static SmallVector<int64_t> keptShape(const FusionGroup &group) {
  SmallVector<int64_t> kept;
  for (auto [size, reduced] : llvm::zip(group.shape, group.reduced))
    if (!reduced)
      kept.push_back(size);
  return kept;
}

// Returns the role of `op` in `group`, or null if it cannot join.
std::optional<FusionRole> Finder::roleIn(const FusionGroup &group, Operation *op) const {
  bool lastOnly = group.reduces() && llvm::count(group.reduced, true) == 1 && group.reduced.back();
  if (isColumn(op)) {
    if (shapeOf(op->getOperand(0)) != ArrayRef(group.shape) || (group.reduces() && !lastOnly) ||
        !group.collapsible)
      return std::nullopt;
    return FusionRole::Column;
  }
  bool hasColumns = group.has(FusionRole::Column);
  if (hasColumns && !isUnitReshape(op) && !isCollapsible(op, group.shape))
    return std::nullopt;
  if (isReductionRoot(op)) {
    auto reduced = reducedDims(op);
    if (shapeOf(op->getOperand(0)) != ArrayRef(group.shape) || !isTrailing(reduced) ||
        (group.reduces() && reduced != group.reduced) ||
        (hasColumns && llvm::count(reduced, true) != 1))
      return std::nullopt;
    return FusionRole::ReductionRoot;
  }
  bool isRow = group.reduces() && shapeOf(op->getResult(0)) == ArrayRef(keptShape(group));
  if (isExpression(op) && shapeOf(op->getResult(0)) == ArrayRef(group.shape) && !isRow)
    return isTrailing(group.reduced) ? std::optional(FusionRole::Element) : std::nullopt;
  bool readsRow =
      llvm::any_of(op->getOperands(), [&](Value v) { return group.contains(behindCasts(v)); });
  if (!readsRow || !group.reduces())
    return std::nullopt;
  if (isUnitReshape(op) || (isExpression(op) && !isa<OneHotOp>(op) && isRow))
    return FusionRole::Row;
  return std::nullopt;
}

// Returns whether every value of the group that `op` reads is available in the form in which `op`
// reads it.
bool Finder::readsFit(const FusionGroup &group, Operation *op, FusionRole role) const {
  auto kept = keptShape(group);
  SmallVector<int64_t> spread; // a row's value as one of the whole space
  for (auto [size, reduced] : llvm::zip(group.shape, group.reduced))
    spread.push_back(reduced ? 1 : size);
  for (auto [i, given] : llvm::enumerate(op->getOperands())) {
    Value operand = behindCasts(given);
    Operation *def = operand.getDefiningOp();
    if (!def || !group.members.contains(def))
      continue;
    FusionRole from = group.roles.lookup(def);
    auto own = shapeOf(operand);
    bool isElement = own == ArrayRef(group.shape) && from != FusionRole::Row;
    bool isFullHero = from == FusionRole::ReductionRoot && own == ArrayRef(group.shape);
    if (from == FusionRole::Column)
      return false;
    if (role == FusionRole::Row && (isElement || isFullHero || (!isa<ReshapeOp>(op) && own != shapeOf(op->getResult(0)))))
      return false;
    if (role == FusionRole::Element && !isElement && !isFullHero && own != ArrayRef(spread) &&
        !(isRowOperand(op, i) && own == ArrayRef(kept)))
      return false;
    if (role == FusionRole::ReductionRoot && !isElement && !isFullHero && !(isRowOperand(op, i) && own == ArrayRef(kept)))
      return false;
    if (role == FusionRole::Column && !isElement && !isFullHero)
      return false;
  }
  return true;
}

// Returns whether an op outside of `members` depends on one of them and feeds another.
bool Finder::hasWayAround(ArrayRef<Operation *> members) {
  const unsigned search = ++searches;
  auto places = llvm::map_to_vector<8>(members, [&](Operation *op) { return order.lookup(op); });
  int64_t first = INT64_MAX;
  for (int64_t place : places) {
    inside[place] = search;
    first = std::min(first, place);
  }
  SmallVector<int64_t> stack;
  for (int64_t place : places) {
    for (int64_t definition : definitions[place])
      if (inside[definition] != search)
        stack.push_back(definition);
    while (!stack.empty()) {
      int64_t at = stack.pop_back_val();
      if (inside[at] == search)
        return true;
      if (std::exchange(seen[at], search) == search)
        continue;
      if (groupAt[at] < 0) {
        if (at > first)
          llvm::append_range(stack, definitions[at]);
        continue;
      }
      const FusionGroup &other = groups[groupAt[at]];
      if (other.last <= first)
        continue;
      for (Operation *op : other.members) {
        int64_t member = order.lookup(op);
        if (std::exchange(seen[member], search) != search || member == at)
          llvm::append_range(stack, definitions[member]);
      }
    }
  }
  return false;
}

bool Finder::fitsLaunch(ArrayRef<Operation *> members) const {
  llvm::SmallPtrSet<Operation *, 16> inside(members.begin(), members.end());
  llvm::SmallDenseSet<Value> buffers;
  for (Operation *op : members) {
    for (Value given : op->getOperands())
      if (Value operand = behindCasts(given);
          !operand.getDefiningOp() || !inside.contains(operand.getDefiningOp()))
        buffers.insert(operand);
    for (Value result : op->getResults())
      if (llvm::any_of(result.getUsers(), [&](Operation *user) { return !inside.contains(user); }))
        buffers.insert(result);
  }
  return buffers.size() <= kMostBuffers;
}

void Finder::add(int number, Operation *op, FusionRole role) {
  LDBG() << op->getName() << " at " << op->getLoc() << " joins group " << number;
  FusionGroup &group = groups[number];
  if (role == FusionRole::ReductionRoot && !group.reduces())
    group.reduced = reducedDims(op);
  if (group.members.empty())
    group.first = order[op];
  group.last = std::max(group.last, order[op]);
  group.first = std::min(group.first, order[op]);
  group.members.insert(op);
  group.roles[op] = role;
  if (!isUnitReshape(op))
    group.collapsible &= isCollapsible(op, group.shape);
  groupOf[op] = groupAt[order[op]] = number;
  for (Value given : op->getOperands())
    if (Value operand = behindCasts(given);
        shapeOf(operand) == ArrayRef(group.shape) && !group.contains(operand))
      readersOf[operand].push_back(number);
}

bool Finder::tryJoin(int number, Operation *op) {
  const FusionGroup &group = groups[number];
  auto role = roleIn(group, op);
  if (!role || !readsFit(group, op, *role))
    return false;
  SmallVector<Operation *> members(group.members.begin(), group.members.end());
  members.push_back(op);
  if (hasWayAround(members) || !fitsLaunch(members))
    return false;
  add(number, op, *role);
  return true;
}

// Merges two groups over one space if the merged group is valid.
void Finder::tryMerge(int into, int from) {
  FusionGroup &a = groups[into], &b = groups[from];
  if (into == from || b.members.empty() || a.shape != b.shape || !isTrailing(a.reduced) ||
      !isTrailing(b.reduced) || (a.reduces() && b.reduces() && a.reduced != b.reduced))
    return;
  bool columns = a.has(FusionRole::Column) || b.has(FusionRole::Column);
  auto &reduced = a.reduces() ? a.reduced : b.reduced;
  if (columns && (!a.collapsible || !b.collapsible ||
                  llvm::count(reduced, true) > (reduced.back() ? 1 : 0)))
    return;
  SmallVector<Operation *> members(a.members.begin(), a.members.end());
  members.append(b.members.begin(), b.members.end());
  if (hasWayAround(members) || !fitsLaunch(members))
    return;
  FusionGroup both = a; // reads between the two must fit as well
  both.reduced = reduced;
  both.members.insert_range(b.members);
  both.roles.insert_range(b.roles);
  if (!llvm::all_of(members, [&](Operation *op) { return readsFit(both, op, both.roles.lookup(op)); }))
    return;
  LDBG() << "group " << from << " becomes part of group " << into;
  a.reduced = reduced;
  FusionGroup moved = std::move(b);
  groups[from] = FusionGroup();
  for (Operation *op : moved.members)
    add(into, op, moved.roles.lookup(op));
}

// Returns the groups that compute operands of `op`, the latest first.
SmallVector<int> Finder::producers(Operation *op) const {
  SmallVector<int> result;
  for (Value operand : op->getOperands())
    if (auto it = groupOf.find(behindCasts(operand).getDefiningOp());
        it != groupOf.end() && !llvm::is_contained(result, it->second))
      result.push_back(it->second);
  llvm::sort(result, [&](int x, int y) { return groups[x].last > groups[y].last; });
  return result;
}

// Returns the groups that read the same tensors of their whole space, the latest first.
SmallVector<int> Finder::readers(Operation *op) const {
  SmallVector<int> result;
  for (Value operand : op->getOperands())
    if (auto it = readersOf.find(behindCasts(operand)); it != readersOf.end())
      for (int number : it->second)
        if (!groups[number].members.empty() && !llvm::is_contained(result, number))
          result.push_back(number);
  llvm::sort(result, [&](int x, int y) { return groups[x].last > groups[y].last; });
  return result;
}

void Finder::visit(Operation *op) {
  bool starts = isExpression(op) || isReductionRoot(op);
  if ((!starts && !isUnitReshape(op)) || isRecomputedByReaders(op) || isAccumulation(op))
    return;
  SmallVector<int> before = producers(op), beside = readers(op);
  if (isUnitReshape(op))
    beside.clear();
  int joined = -1;
  for (int number : llvm::concat<int>(before, beside))
    if (joined < 0 && tryJoin(number, op))
      joined = number;
  if (joined < 0) {
    if (!starts)
      return;
    joined = groups.size();
    groups.push_back(startOf(op));
    add(joined, op,
        isColumn(op)          ? FusionRole::Column
        : isReductionRoot(op) ? FusionRole::ReductionRoot
                              : FusionRole::Element);
  }
  for (int number : before)
    tryMerge(joined, number);
  if (!isUnitReshape(op))
    for (int number : beside)
      tryMerge(joined, number);
}

// Returns whether a member reads a tensor of the group's space through a cast that readers repeat: it
// would be written widened else, for this one reader.
static bool widens(const FusionGroup &group) {
  return llvm::any_of(group.members, [&](Operation *op) {
    return llvm::any_of(op->getOperands(), [&](Value operand) {
      return behindCasts(operand) != operand && shapeOf(operand) == ArrayRef(group.shape);
    });
  });
}

std::vector<FusionGroup> Finder::take() {
  std::vector<FusionGroup> result;
  for (FusionGroup &group : groups) {
    // A reshape without a reader in the group is a view, and leaves it.
    while (true) {
      auto stray = llvm::find_if(group.members, [&](Operation *op) {
        return isUnitReshape(op) && llvm::none_of(op->getUsers(), [&](Operation *user) {
                 return group.members.contains(user);
               });
      });
      if (stray == group.members.end())
        break;
      group.members.remove(*stray);
    }
    if (group.members.size() > 1 || group.has(FusionRole::Column) || widens(group))
      result.push_back(std::move(group));
  }
  return result;
}

std::optional<FusionGroup> Finder::scatterInto(ScatterAddOp scatter) const {
  if (!scatter.getResult().hasOneUse())
    return std::nullopt;
  auto add = dyn_cast<AddOp>(*scatter.getResult().getUsers().begin());
  if (!add || add->getBlock() != scatter->getBlock() || add.getLhs().getType() != add.getType() ||
      add.getRhs().getType() != add.getType())
    return std::nullopt;
  auto it = groupOf.find(add);
  if (it != groupOf.end() && groups[it->second].members.size() > 1)
    return std::nullopt;
  FusionGroup group;
  group.shape = llvm::to_vector(shapeOf(add.getResult()));
  group.reduced.assign(group.shape.size(), false);
  group.members.insert(scatter);
  group.members.insert(add);
  group.roles = {{scatter, FusionRole::Element}, {add, FusionRole::Element}};
  return group;
}

std::vector<FusionGroup> findGroups(Block &block, const llvm::DenseSet<Operation *> &whole) {
  Finder finder(block, whole);
  std::vector<FusionGroup> scatters;
  llvm::DenseSet<Operation *> sums; // each is in one group, though it may add two scatters
  for (auto scatter : block.getOps<ScatterAddOp>())
    if (auto group = finder.scatterInto(scatter); group && sums.insert(group->members.back()).second)
      scatters.push_back(*group);
  std::vector<FusionGroup> groups = finder.take();
  llvm::append_range(groups, scatters);
  return groups;
}

} // namespace llmc::fusion
