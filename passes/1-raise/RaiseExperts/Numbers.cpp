// Recognises integers that say where rows lie, and what takes rows there.
#include "passes/1-raise/RaiseExperts/Mixture.h"

using namespace mlir;
using namespace llmc;
using namespace llmc::graph;
using namespace llmc::raise;

Mixture::Found Mixture::numbers(Operation *op) {
  return llvm::TypeSwitch<Operation *, Found>(op)
      .Case([&](RouteOp op) { return sortedBy(op); })
      .Case([&](TakeAlongOp op) { return takeAlong(op); })
      .Case([&](GatherOp op) { return gathered(op); })
      .Case([&](ScatterAddOp op) { return scattered(op); })
      .Case([&](ReduceOp op) { return expertsOfPlaces(op); })
      .Case([&](CumsumOp op) -> Found {
        const Meaning *counts = meaningOf(op.getOperand());
        bool plain = !op.getExclusive() && !op.getReverse() && shapeOf(op.getOperand())[op.getDim()] == experts_;
        return counts && counts->kind == Meaning::Counts && plain ? Found(made(Meaning::Bounds, {})) : Found();
      })
      .Case([&](SliceOp op) -> Found {
        const Meaning *bounds = meaningOf(op.getOperand());
        if (!bounds || bounds->kind != Meaning::Bounds || typeOf(op.getResult()).getNumElements() != 1)
          return std::nullopt;
        Meaning bound = made(Meaning::Bound, {});
        for (auto [start, size] : llvm::zip(op.getStarts(), shapeOf(op.getOperand())))
          bound.index = bound.index * size + start;
        return bound;
      })
      .Case([&](ConcatOp op) -> Found {
        for (auto [i, part] : llvm::enumerate(op->getOperands()))
          if (const Meaning *bound = meaningOf(part); !bound || bound->kind != Meaning::Bound || bound->index != int64_t(i))
            return std::nullopt;
        return int64_t(op->getNumOperands()) == experts_ ? Found(made(Meaning::Bounds, {})) : Found();
      })
      .Case([&](ReshapeOp op) -> Found {
        const Meaning *operand = meaningOf(op.getOperand());
        bool numbers = operand && operand->isNumbers() && operand->kind != Meaning::OneHot;
        bool counts = operand && (numbers || operand->kind == Meaning::OneExpert || operand->kind == Meaning::Counts ||
                                  operand->kind == Meaning::Bounds || operand->kind == Meaning::Bound);
        return counts ? Found(*operand) : Found();
      })
      .Default([&](Operation *op) { return isElementwise(op) || isa<CastOp>(op) ? evaluated(op) : Found(); });
}

// Evaluates an op on numbers, which are all functions of the same, and scalars.
Mixture::Found Mixture::evaluated(Operation *op) {
  const Meaning *first = nullptr;
  for (Value operand : op->getOperands())
    if (const Meaning *meaning = meaningOf(operand); meaning && !first)
      first = meaning;
  if (isa<CastOp>(op) && (first->kind == Meaning::Counts || first->kind == Meaning::Bounds || first->kind == Meaning::Bound))
    return *first;
  if (!first->isNumbers())
    return std::nullopt;
  int64_t count = typeOf(op->getResult(0)).getNumElements();
  std::vector<Tensor> inputs;
  for (Value operand : op->getOperands()) {
    const Meaning *meaning = meaningOf(operand);
    auto scalar = scalarOf(operand);
    bool same = meaning && meaning->kind == first->kind && meaning->order == first->order &&
                meaning->index == first->index && meaning->block == first->block &&
                typeOf(operand).getNumElements() == count;
    if (!same && !scalar)
      return std::nullopt;
    Tensor &input = inputs.emplace_back(same ? std::vector<int64_t>{int64_t(first->table.size())} : std::vector<int64_t>{});
    input.data = same ? meaning->table : std::vector<double>{*scalar};
  }
  // Types matter to the op (an integer division): evaluate a copy on vectors.
  OpBuilder builder(op);
  Type element = elementOf(op->getResult(0));
  SmallVector<Value> operands;
  SmallVector<Operation *> made;
  for (auto [operand, input] : llvm::zip(op->getOperands(), inputs)) {
    auto type = RankedTensorType::get(input.shape, elementOf(operand));
    made.push_back(ConstantOp::create(builder, op->getLoc(), type, denseOf(input, type)));
    operands.push_back(made.back()->getResult(0));
  }
  auto type = RankedTensorType::get({int64_t(first->table.size())}, element);
  Operation *copy = cloneForTypes(builder, op, operands, {type});
  SmallVector<const Tensor *> pointers;
  for (const Tensor &input : inputs)
    pointers.push_back(&input);
  Tensor output({int64_t(first->table.size())});
  cast<GraphOpInterface>(copy).evaluate(pointers, output);
  copy->erase();
  for (Operation *constant : made)
    constant->erase();
  Meaning meaning = *first;
  // Round as the program does.
  Elements rounded(denseOf(output, type));
  for (int64_t i = 0; i < output.size(); ++i)
    meaning.table[i] = rounded[i];
  return meaning;
}

// Recognises the rows in order of their experts: all of them, chosen by scores that fall with the expert.
Mixture::Found Mixture::sortedBy(RouteOp op) {
  const Meaning *scores = meaningOf(op.getScores());
  bool all = shapeOf(op.getScores()).back() == rows() && shapeOf(op.getRoutes()).back() == rows();
  if (!scores || scores->kind != Meaning::OfExpert || scores->order || !all || op.getBias() || op.getGroups() != 1)
    return std::nullopt;
  for (size_t i = 1; i < scores->table.size(); ++i)
    if (!(scores->table[i] < scores->table[i - 1]))
      return std::nullopt;
  Meaning order = made(Meaning::OfSortedRow, {});
  for (int64_t i = 0; i < rows(); ++i)
    order.table.push_back(i);
  return order;
}

// Recognises the expert of each place of the sorted rows: the number of experts whose bound is not behind it.
Mixture::Found Mixture::expertsOfPlaces(ReduceOp op) {
  auto cast = op.getOperand().getDefiningOp<CastOp>();
  auto compare = cast ? cast.getOperand().getDefiningOp<CompareOp>() : CompareOp();
  if (!compare || compare.getPredicate() != Predicate::ge || op.getKind() != ReduceKind::sum ||
      typeOf(op.getResult()).getNumElements() != rows() || typeOf(op.getOperand()).getNumElements() != rows() * experts_)
    return std::nullopt;
  const Meaning *bounds = meaningOf(compare.getRhs());
  auto places = constantOf(beforeReshapes(compare.getLhs()));
  if (!bounds || bounds->kind != Meaning::Bounds || !places || places->size() != rows())
    return std::nullopt;
  Meaning place = made(Meaning::OfPlace, {});
  place.table = places->data;
  bool last = shapeOf(compare.getRhs()).back() == experts_ && shapeOf(op.getOperand()).back() == experts_ &&
              (shapeOf(compare.getLhs()).back() == 1 || rows() == 1);
  if (!place.counts() || !last || op.getDims().size() != 1 || op.getDims()[0] + 1 != typeOf(op.getOperand()).getRank())
    return std::nullopt;
  Meaning experts = made(Meaning::OfExpert, routes_, Meaning::ByExpert);
  for (int64_t i = 0; i < experts_; ++i)
    experts.table.push_back(i);
  return experts;
}

// Recognises the scores of chosen experts, and elements of rows in order of experts.
Mixture::Found Mixture::takeAlong(TakeAlongOp op) {
  const Meaning *ids = meaningOf(op.getIds());
  if (!ids || !ids->counts() || op.getOffset())
    return std::nullopt;
  int64_t row = shapeOf(op.getOperand()).back();
  OpBuilder builder(op);
  Build build(builder, op.getLoc());
  if (ids->kind == Meaning::OfExpert && !ids->order && row == experts_) {
    Meaning scores = adopted(build, op.getOperand(), /*asRows=*/true);
    Value wide = build.broadcast(aligned(build, scores, true, true), shape({choices_, experts_}));
    Value taken = TakeAlongOp::create(builder, op.getLoc(), type({choices_}, op.getResult()), wide, routes_, Value());
    return made(Meaning::Rows, taken);
  }
  // All rows are the same vector of all rows.
  Value from = op.getOperand();
  while (!meaningOf(from) && isa_and_nonnull<BroadcastOp, ReshapeOp>(from.getDefiningOp()))
    from = from.getDefiningOp()->getOperand(0);
  const Meaning *meaning = meaningOf(from);
  if (ids->kind != Meaning::OfSortedRow || row != rows() || !meaning || meaning->order ||
      typeOf(from).getNumElements() != rows())
    return std::nullopt;
  if (meaning->kind != Meaning::OfExpert && meaning->kind != Meaning::Rows)
    return std::nullopt;
  Meaning sorted = *meaning;
  sorted.order = Meaning::ByExpert;
  return sorted;
}

// Recognises tables of experts, and rows that are taken in another order.
Mixture::Found Mixture::gathered(GatherOp op) {
  const Meaning *ids = meaningOf(op.getIds()), *table = meaningOf(op.getTable());
  if (auto order = ids || op.getOffset() ? std::nullopt : orderOf(op.getIds(), /*ofChoices=*/true);
      order && table && table->kind == Meaning::Rows && !table->order && shapeOf(op.getTable())[0] == rows()) {
    Meaning taken = *table;
    taken.order = *order;
    return taken;
  }
  if (!ids || op.getOffset() || !ids->isNumbers() || typeOf(op.getIds()).getNumElements() != rows())
    return std::nullopt;
  OpBuilder builder(op);
  Build build(builder, op.getLoc());
  ArrayRef<int64_t> from = shapeOf(op.getTable());
  int64_t features = typeOf(op.getResult()).getNumElements() / rows();
  if (ids->kind == Meaning::OfExpert) {
    if (table || !ids->counts() || from[0] != experts_)
      return std::nullopt;
    if (from.size() == 3)
      return made(Meaning::Matrices, op.getTable(), ids->order);
    Value flat = build.reshape(op.getTable(), {experts_, features});
    Value taken = GatherOp::create(builder, op.getLoc(), type({choices_, features}, flat), flat, routes_, Value());
    return rowsOf(build, Meaning::Rows, taken, ids->order);
  }
  bool places = ids->kind == Meaning::OfPlace;
  if (!places && ids->counts(choices_) && from[0] == tokens_ && (choices_ > 1 || (table && table->kind == Meaning::Tokens))) {
    if (table && table->kind != Meaning::Tokens)
      return std::nullopt;
    Meaning tokens = table ? *table : adopted(build, op.getTable(), /*asRows=*/false);
    tokens.kind = Meaning::Rows;
    tokens.shared = true;
    tokens.order = Meaning::ByExpert;
    return tokens;
  }
  if (!ids->counts() || from[0] != rows())
    return std::nullopt;
  bool known = table && (table->kind == Meaning::Rows || table->kind == Meaning::OfExpert);
  if ((table && !known) || (table && table->order != (places ? Meaning::ByExpert : Meaning::InPlace)) || (!table && places))
    return std::nullopt;
  Meaning taken = table ? *table : adopted(build, op.getTable(), /*asRows=*/true);
  taken.order = places ? Meaning::InPlace : Meaning::ByExpert;
  return taken;
}

// Recognises how many rows an expert has, the place of each row, and rows that are added to their tokens.
Mixture::Found Mixture::scattered(ScatterAddOp op) {
  const Meaning *ids = meaningOf(op.getIds()), *updates = meaningOf(op.getUpdates());
  auto constant = constantOf(beforeReshapes(op.getUpdates()));
  ArrayRef<int64_t> to = shapeOf(op.getResult());
  if (op.getOffset() || typeOf(op.getIds()).getNumElements() != rows())
    return std::nullopt;
  bool vector = typeOf(op.getResult()).getNumElements() == to[0];
  if (ids && constant && vector && ids->kind == Meaning::OfExpert && ids->counts() && to[0] == experts_ &&
      scalarOf(beforeReshapes(op.getUpdates())) == 1.0)
    return made(Meaning::Counts, {});
  if (ids && constant && vector && ids->kind == Meaning::OfSortedRow && ids->counts() && to[0] == rows()) {
    Meaning places = made(Meaning::OfPlace, {});
    places.table = constant->data;
    return places;
  }
  // The token of each row, in whatever order.
  Meaning::Order order = Meaning::ByExpert;
  if (ids && (ids->kind != Meaning::OfSortedRow || !ids->counts(choices_)))
    return std::nullopt;
  if (!ids) {
    auto known = orderOf(op.getIds(), /*ofChoices=*/false);
    if (!known)
      return std::nullopt;
    order = *known;
  }
  if (!updates || updates->kind != Meaning::Rows || updates->shared || updates->order != order || to[0] != tokens_ ||
      (updates->block && !updates->zeros))
    return std::nullopt;
  if (updates->block) {
    Meaning sum = made(Meaning::PartSum, updates->value);
    sum.block = updates->block;
    sum.parts = {{updates->block->index, updates->value}};
    return sum;
  }
  OpBuilder builder(op);
  return made(Meaning::Tokens, Build(builder, op.getLoc())
                                   .reduce(updates->value, ReduceKind::sum, {int64_t(tokenDims_.size())}));
}
