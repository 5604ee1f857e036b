#include "passes/1-raise/RaiseExperts/Mixture.h"

#include "passes/1-raise/Movement.h"

using namespace mlir;
using namespace llmc;
using namespace llmc::graph;
using namespace llmc::raise;

bool Meaning::counts(int64_t times) const {
  for (size_t i = 0; i < table.size(); ++i)
    if (table[i] != double(int64_t(i) / times))
      return false;
  return true;
}

Value raise::sourceOf(Value value) {
  Movement movement = traceMovement(value);
  int64_t count = typeOf(value).getNumElements();
  bool same = movement.factor == 1 && typeOf(movement.base).getNumElements() == count &&
              regroup(movement.dims, {count}) && movement.dims[0].size() <= 1 &&
              (movement.dims[0].empty() || movement.dims[0][0].stride == 1);
  return same ? movement.base : beforeReshapes(value);
}

int64_t raise::sizeOf(ArrayRef<int64_t> sizes) {
  int64_t all = 1;
  for (int64_t size : sizes)
    all *= size;
  return all;
}

Value raise::beforeReshapes(Value value) {
  while (auto reshape = value.getDefiningOp<ReshapeOp>())
    value = reshape.getOperand();
  return value;
}

Mixture::Mixture(RouteOp route) : route_(route) {
  experts_ = shapeOf(route.getScores()).back();
  choices_ = shapeOf(route.getRoutes()).back();
  tokens_ = sizeOf(shapeOf(route.getScores()).drop_back());
  // An exporter flattens the tokens of all sequences.
  Value scores = beforeReshapes(route.getScores());
  if (shapeOf(scores).size() < 2 || shapeOf(scores).back() != experts_)
    scores = route.getScores();
  llvm::append_range(tokenDims_, shapeOf(scores).drop_back());
  OpBuilder builder(route);
  auto type = RankedTensorType::get(shape({choices_}), builder.getI64Type());
  routes_ = RouteOp::create(builder, route.getLoc(), type, scores, route.getBias(), route.getGroups(),
                            route.getKeptGroups(), route.getGroupTerms(), /*mixture=*/true);
  Meaning own = made(Meaning::OfExpert, routes_);
  for (int64_t i = 0; i < experts_; ++i)
    own.table.push_back(i);
  meanings_[route.getRoutes()] = std::move(own);
}

void Mixture::follow() {
  if (tokenDims_.empty())
    return;
  for (Operation *op = route_->getNextNode(); op; op = op->getNextNode()) {
    bool reads = llvm::any_of(op->getOperands(), [&](Value value) { return meaningOf(value); });
    if (op->getNumResults() != 1 || op->getNumRegions() || (!reads && !isa<TakeAlongOp, ReduceOp, GatherOp, MatmulOp>(op)))
      continue;
    if (Found found = find(op))
      meanings_[op->getResult(0)] = std::move(*found);
  }
}

Mixture::Found Mixture::find(Operation *op) {
  if (Found found = looped(op))
    return found;
  if (Found found = numbers(op))
    return found;
  return llvm::TypeSwitch<Operation *, Found>(op)
      .Case<ReshapeOp, BroadcastOp, TransposeOp>([&](auto move) { return moved(move); })
      .Case([&](SliceOp slice) { return sliced(slice); })
      .Case([&](SoftmaxOp op) { return softmax(op); })
      .Case([&](ReduceOp op) { return reduced(op); })
      .Case([&](MatmulOp op) { return product(op); })
      .Case([&](GroupedMatmulOp op) { return product(op); })
      .Default([&](Operation *other) {
        return isElementwise(other) || isa<CastOp>(other) ? elementwise(other) : Found();
      });
}

int64_t Mixture::replace() {
  for (auto &[value, meaning] : meanings_)
    if (meaning.kind == Meaning::PartSum)
      replacePart(value, meaning);
  if (products_ == 0)
    return 0;
  for (auto &[value, meaning] : meanings_) {
    bool rows = meaning.kind == Meaning::Tokens || meaning.kind == Meaning::Rows;
    bool routes = meaning.kind == Meaning::OfExpert && meaning.counts();
    if ((!rows && !routes) || meaning.order || meaning.block)
      continue;
    Value fresh;
    for (OpOperand &use : llvm::make_early_inc_range(value.getUses())) {
      Operation *user = use.getOwner();
      if (user->getNumResults() == 1 && meaningOf(user->getResult(0)))
        continue;
      if (!fresh) {
        OpBuilder builder(value.getContext());
        builder.setInsertionPointAfterValue(value);
        Build build(builder, value.getLoc());
        fresh = meaning.value;
        if (rows && meaning.shared)
          fresh = build.broadcast(aligned(build, meaning, true, true), shape({choices_, featuresOf(meaning)}));
        fresh = build.reshape(fresh, shapeOf(value));
      }
      if (user != fresh.getDefiningOp())
        use.set(fresh);
    }
  }
  return products_;
}

// Replaces the sum over the blocks of a loop by that over all choices. An exporter that unrolls the loop over
// the experts which have rows does so for those of its example; no other number of them runs.
void Mixture::replacePart(Value value, const Meaning &sum) {
  int64_t count = sum.parts.size();
  bool alike = true;
  SmallVector<Value> rows;
  for (int64_t i = 0; i < count; ++i) {
    if (sum.parts[i].first != i)
      return;
    rows.push_back(sum.parts[i].second);
    alike &= areAlike(rows[0], rows[i]);
  }
  // A sum of fewer is that of the loop only if it has no other blocks.
  int64_t blocks = 0;
  for (const auto &[other, meaning] : meanings_)
    if (meaning.kind == Meaning::OneExpert)
      blocks = std::max(blocks, meaning.block->index + 1);
  if (count != experts_ && (!sum.block->hit || count != blocks))
    return;
  if (!alike && sum.block->hit)
    return;
  Value fresh;
  for (OpOperand &use : llvm::make_early_inc_range(value.getUses())) {
    if (use.getOwner()->getNumResults() == 1 && meaningOf(use.getOwner()->getResult(0)))
      continue;
    if (!fresh) {
      OpBuilder builder(value.getContext());
      builder.setInsertionPointAfterValue(value);
      Build build(builder, value.getLoc());
      Value all = alike ? rows[0] : joined(build, rows);
      if (!all)
        return;
      fresh = build.reshape(build.reduce(all, ReduceKind::sum, {int64_t(tokenDims_.size())}), shapeOf(value));
      unrolled_ = count < experts_ ? count : 0;
    }
    use.set(fresh);
  }
}

//===-- Shapes ----------------------------------------------------------------===//

const Meaning *Mixture::meaningOf(Value value) const {
  auto it = meanings_.find(value);
  return it == meanings_.end() ? nullptr : &it->second;
}

std::optional<size_t> Mixture::leadingDims(ArrayRef<int64_t> shape, int64_t rows) {
  int64_t reached = 1;
  for (size_t i = 0; i <= shape.size(); ++i) {
    if (reached == rows)
      return i;
    if (i < shape.size())
      reached *= shape[i];
  }
  return std::nullopt;
}

SmallVector<int64_t> Mixture::shape(ArrayRef<int64_t> further) const {
  SmallVector<int64_t> all = tokenDims_;
  all.append(further.begin(), further.end());
  return all;
}

RankedTensorType Mixture::type(ArrayRef<int64_t> further, Value like) const {
  return RankedTensorType::get(shape(further), elementOf(like));
}

Meaning Mixture::made(Meaning::Kind kind, Value value, Meaning::Order order) const {
  Meaning meaning;
  meaning.kind = kind;
  meaning.value = value;
  meaning.order = order;
  return meaning;
}

int64_t Mixture::featuresOf(const Meaning &meaning) const {
  size_t leading = tokenDims_.size() + (meaning.kind == Meaning::Rows && !meaning.shared);
  return shapeOf(meaning.value).size() > leading ? shapeOf(meaning.value).back() : 1;
}

Value Mixture::aligned(Build &build, const Meaning &meaning, bool choices, bool features) const {
  bool all = meaning.kind == Meaning::Rows && !meaning.shared;
  int64_t count = featuresOf(meaning);
  SmallVector<int64_t> further;
  if (choices)
    further.push_back(all ? choices_ : 1);
  if (features || count > 1)
    further.push_back(count);
  return build.reshape(meaning.value, shape(further));
}

Meaning Mixture::rowsOf(Build &build, Meaning::Kind kind, Value value, Meaning::Order order) const {
  SmallVector<int64_t> all(shapeOf(value));
  if (all.size() > tokenDims_.size() + (kind == Meaning::Rows) && all.back() == 1)
    all.pop_back();
  return made(kind, build.reshape(value, all), order);
}

// Returns whether the parts are one run of elements with this stride, or nothing.
static bool isRun(const Movement::Parts &parts, int64_t stride) {
  return parts.empty() || (parts.size() == 1 && parts[0].stride == stride);
}

Meaning Mixture::adopted(Build &build, Value value, bool asRows) const {
  int64_t count = typeOf(value).getNumElements();
  if (!asRows)
    return rowsOf(build, Meaning::Tokens, build.reshape(sourceOf(value), shape({count / tokens_})));
  int64_t features = count / rows();
  // Rows that repeat those of tokens, in strides or by constant ids.
  Movement movement = traceMovement(value);
  Value base = movement.base;
  if (auto gather = base.getDefiningOp<GatherOp>(); gather && typeOf(base).getNumElements() == count)
    if (auto order = orderOf(gather.getIds(), /*ofChoices=*/false); order && shapeOf(gather.getTable())[0] == tokens_) {
      if (sourceOf(value) == base) {
        Meaning shared = rowsOf(build, Meaning::Tokens, build.reshape(sourceOf(gather.getTable()), shape({features})));
        shared.kind = Meaning::Rows;
        shared.shared = true;
        shared.order = *order;
        return shared;
      }
    }
  SmallVector<Movement::Parts> dims(movement.dims.begin(), movement.dims.end());
  bool repeats = choices_ > 1 && movement.factor == 1 && regroup(dims, {tokens_, choices_, features}) &&
                 isRun(dims[0], features) && isRun(dims[2], 1) && isRun(dims[1], 0) &&
                 typeOf(base).getNumElements() == tokens_ * features;
  if (!repeats)
    return rowsOf(build, Meaning::Rows, build.reshape(sourceOf(value), shape({choices_, features})));
  Meaning shared = rowsOf(build, Meaning::Tokens, build.reshape(sourceOf(base), shape({features})));
  shared.kind = Meaning::Rows;
  shared.shared = true;
  return shared;
}
