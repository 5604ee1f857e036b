// Recognises ops on the rows of tokens and of their choices.
#include "passes/1-raise/Equation.h"
#include "passes/1-raise/RaiseExperts/Mixture.h"

using namespace mlir;
using namespace llmc;
using namespace llmc::graph;
using namespace llmc::raise;

// Returns the index of the one dim that is not 1; nullopt if there are several, 0 if there is none.
static std::optional<size_t> oneDim(ArrayRef<int64_t> shape) {
  std::optional<size_t> found;
  for (auto [i, size] : llvm::enumerate(shape))
    if (size != 1) {
      if (found)
        return std::nullopt;
      found = i;
    }
  return found.value_or(0);
}

// Recognises reshapes, and tokens that are repeated for each choice.
Mixture::Found Mixture::moved(Operation *op) {
  const Meaning *meaning = meaningOf(op->getOperand(0));
  ArrayRef<int64_t> from = shapeOf(op->getOperand(0)), to = shapeOf(op->getResult(0));
  if (!meaning)
    return std::nullopt;
  if (meaning->kind == Meaning::Matrices) {
    bool kept = isa<ReshapeOp>(op) && to.size() >= 2 && to.take_back(2) == shapeOf(meaning->value).take_back(2) &&
                leadingDims(to, rows());
    return kept ? Found(*meaning) : Found();
  }
  bool rows = meaning->kind == Meaning::Rows;
  if (!rows && meaning->kind != Meaning::Tokens)
    return std::nullopt;
  bool sameOrder = isa<ReshapeOp>(op);
  if (auto transpose = dyn_cast<TransposeOp>(op)) {
    SmallVector<int64_t> large; // dims of 1 may stand anywhere
    for (int64_t dim : transpose.getPermutation())
      if (from[dim] != 1)
        large.push_back(dim);
    if (!llvm::is_sorted(large))
      return std::nullopt;
    sameOrder = true;
  }
  if (sameOrder)
    return leadingDims(to, rows ? this->rows() : tokens_) ? Found(*meaning) : Found();
  // The dims of tokens stand, a dim of 1 behind them becomes that of the choices.
  auto at = leadingDims(from, tokens_);
  if (rows || !at || from.size() != to.size() || from.take_front(*at) != to.take_front(*at) || *at == from.size())
    return std::nullopt;
  auto reached = leadingDims(to, this->rows());
  if (!reached || from.drop_front(*reached) != to.drop_front(*reached) ||
      sizeOf(from.slice(*at, *reached - *at)) != 1)
    return std::nullopt;
  Meaning shared = *meaning;
  shared.kind = Meaning::Rows;
  shared.shared = true;
  return shared;
}

// Recognises a slice of features.
Mixture::Found Mixture::sliced(SliceOp op) {
  const Meaning *meaning = meaningOf(op.getOperand());
  ArrayRef<int64_t> from = shapeOf(op.getOperand()), to = shapeOf(op.getResult());
  bool rows = meaning && meaning->kind == Meaning::Rows;
  if (!rows && (!meaning || meaning->kind != Meaning::Tokens))
    return std::nullopt;
  auto at = leadingDims(from, rows ? this->rows() : tokens_);
  if (!at || from.take_front(*at) != to.take_front(*at))
    return std::nullopt;
  auto dim = oneDim(from.drop_front(*at));
  if (!dim || *at + *dim >= from.size())
    return std::nullopt;
  OpBuilder builder(op);
  Build build(builder, op.getLoc());
  size_t cut = *at + *dim;
  if (from[cut] != featuresOf(*meaning) || from[cut] == 1)
    return std::nullopt;
  ArrayRef<int64_t> all = shapeOf(meaning->value);
  SmallVector<int64_t> starts(all.size(), 0), limits(all), steps(all.size(), 1), shape(all);
  starts.back() = op.getStarts()[cut];
  limits.back() = op.getLimits()[cut];
  steps.back() = op.getSteps()[cut];
  shape.back() = to[cut];
  Value part = SliceOp::create(builder, op.getLoc(), RankedTensorType::get(shape, elementOf(op.getResult())),
                               meaning->value, starts, limits, steps);
  Meaning found = rowsOf(build, rows && !meaning->shared ? Meaning::Rows : Meaning::Tokens, part, meaning->order);
  found.block = meaning->block;
  found.kind = meaning->kind;
  found.shared = meaning->shared;
  return found;
}

// Recognises what is computed of each element of rows, beside numbers and vectors of features.
Mixture::Found Mixture::elementwise(Operation *op) {
  ArrayRef<int64_t> result = shapeOf(op->getResult(0));
  bool isRows = false, alike = true;
  Meaning::Order sorted = Meaning::InPlace;
  std::optional<Meaning::Block> block;
  for (Value operand : op->getOperands())
    if (const Meaning *meaning = meaningOf(operand)) {
      if (meaning->kind == Meaning::OneMatrix && (!block || block == meaning->block)) {
        block = meaning->block;
        continue;
      }
      if ((meaning->kind != Meaning::Rows && meaning->kind != Meaning::Tokens) || meaning->zeros ||
          (meaning->block && block && !(block == meaning->block)))
        return std::nullopt;
      if (meaning->block)
        block = meaning->block;
      isRows |= meaning->kind == Meaning::Rows;
      alike &= meaning->kind == Meaning::Tokens || meaning->shared;
      if (meaning->order)
        sorted = meaning->order;
    }
  auto at = leadingDims(result, isRows ? rows() : tokens_);
  if (!at)
    return std::nullopt;
  // Dims of 1 behind those of rows stand for either.
  ArrayRef<int64_t> features = result.drop_front(*at);
  bool shares = isRows && alike; // then the op is computed for each token
  int64_t count = sizeOf(features);
  bool wide = count > 1;
  OpBuilder builder(op);
  Build build(builder, op->getLoc());
  SmallVector<Value> operands;
  for (Value operand : op->getOperands()) {
    const Meaning *meaning = meaningOf(operand);
    if (auto scalar = scalarOf(operand); scalar && !meaning) {
      operands.push_back(build.constant(*scalar, elementOf(operand)));
      continue;
    }
    // Align the shapes at their last dims.
    ArrayRef<int64_t> own = shapeOf(operand);
    size_t behind = std::min(own.size(), features.size());
    ArrayRef<int64_t> ownFeatures = own.take_back(behind), ownRows = own.drop_back(behind);
    int64_t width = sizeOf(ownFeatures);
    bool fits = width == 1 || (width == count && behind == features.size());
    if (!fits)
      return std::nullopt;
    int64_t leading = sizeOf(ownRows);
    if (!meaning && leading == 1) {
      operands.push_back(build.reshape(beforeReshapes(operand), width == 1 ? SmallVector<int64_t>{} : SmallVector<int64_t>{width}));
      continue;
    }
    if (meaning && meaning->kind == Meaning::OneMatrix) {
      if (leading != 1 || shapeOf(meaning->value).size() != 2 || width != count || shares)
        return std::nullopt;
      operands.push_back(vectorOfBlock(build, *meaning)->value);
      continue;
    }
    if (meaning && meaning->kind == Meaning::Rows) {
      if (leading != rows() || meaning->order != sorted)
        return std::nullopt;
      operands.push_back(aligned(build, *meaning, !shares, wide));
      continue;
    }
    // Tokens, or what the mixture does not compute: a row for each token, or for each choice.
    if (sorted)
      return std::nullopt;
    bool all = leading == rows() && isRows && !meaning;
    bool ofTokens = leading == tokens_ && (!isRows || alignsWithTokens(ownRows, result.take_front(*at)));
    if (!all && !ofTokens)
      return std::nullopt;
    Meaning beside = meaning ? *meaning : adopted(build, operand, /*asRows=*/all && !ofTokens);
    if (all && !ofTokens && shares && !beside.shared)
      return std::nullopt;
    operands.push_back(aligned(build, beside, isRows && !shares, wide));
  }
  SmallVector<int64_t> further;
  if (isRows && !shares)
    further.push_back(choices_);
  if (wide)
    further.push_back(count);
  RankedTensorType type = this->type(further, op->getResult(0));
  std::optional<SmallVector<int64_t>> joined = SmallVector<int64_t>();
  for (Value operand : operands)
    if (joined)
      joined = broadcastShapes(*joined, shapeOf(operand));
  if (!joined || ArrayRef<int64_t>(*joined) != type.getShape())
    return std::nullopt;
  Operation *copy = cloneForTypes(builder, op, operands, {type});
  Meaning meaning = made(isRows ? Meaning::Rows : Meaning::Tokens, copy->getResult(0), sorted);
  meaning.shared = shares;
  meaning.block = block;
  return meaning;
}

// Returns whether dims that count the tokens are those of rows with ones in place of the choices.
bool Mixture::alignsWithTokens(ArrayRef<int64_t> own, ArrayRef<int64_t> all) const {
  auto at = leadingDims(all, tokens_);
  return at && own.size() == all.size() && own.take_front(*at) == all.take_front(*at);
}

// Recognises the softmax over choices, and that over features.
Mixture::Found Mixture::softmax(SoftmaxOp op) {
  const Meaning *meaning = meaningOf(op.getOperand());
  ArrayRef<int64_t> shape = shapeOf(op.getResult());
  bool rows = meaning && meaning->kind == Meaning::Rows && !meaning->shared && !meaning->block;
  if (!rows || shape.empty())
    return std::nullopt;
  OpBuilder builder(op);
  int64_t features = featuresOf(*meaning);
  bool overChoices = features == 1 && shape.back() == choices_ && !meaning->order &&
                     sizeOf(shape.drop_back()) == tokens_;
  bool overFeatures = features == shape.back() && features > 1;
  if (!overChoices && !overFeatures)
    return std::nullopt;
  Value weights = SoftmaxOp::create(builder, op.getLoc(), meaning->value.getType(), meaning->value);
  return made(Meaning::Rows, weights, meaning->order);
}

// Recognises reductions over the choices of a token, and over all features.
Mixture::Found Mixture::reduced(ReduceOp op) {
  const Meaning *meaning = meaningOf(op.getOperand());
  bool rows = meaning && meaning->kind == Meaning::Rows && !meaning->shared && !meaning->block;
  if (!rows)
    return std::nullopt;
  ArrayRef<int64_t> shape = shapeOf(op.getOperand());
  auto all = leadingDims(shape, this->rows()), tokens = leadingDims(shape, tokens_);
  auto is = [&](size_t from, size_t to) { // the dims but for those of 1
    for (size_t dim = 0; dim < shape.size(); ++dim)
      if (shape[dim] != 1 && llvm::is_contained(op.getDims(), int64_t(dim)) != (dim >= from && dim < to))
        return false;
    return true;
  };
  if (!all)
    return std::nullopt;
  OpBuilder builder(op);
  Build build(builder, op.getLoc());
  int64_t choice = tokenDims_.size();
  if (tokens && choices_ > 1 && is(*tokens, *all) && !meaning->order)
    return made(Meaning::Tokens, build.reduce(meaning->value, op.getKind(), {choice}));
  if (!is(*all, shape.size()) || featuresOf(*meaning) == 1)
    return std::nullopt;
  return made(Meaning::Rows, build.reduce(meaning->value, op.getKind(), {choice + 1}), meaning->order);
}

//===-- Products --------------------------------------------------------------===//

// Builds the product of each row with the matrix of its expert: weights [expert, out, in] if
// `transposed`, else [expert, in, out], which are transposed.
Mixture::Found Mixture::multiplied(Build &build, const Meaning &rows, Value weights, bool transposed) {
  if (!transposed)
    weights = build.transpose(weights, {0, 2, 1});
  if (shapeOf(weights)[2] != featuresOf(rows) || elementOf(weights) != elementOf(rows.value))
    return std::nullopt;
  auto type = this->type({choices_, shapeOf(weights)[1]}, rows.value);
  ++products_;
  bool all = rows.kind == Meaning::Rows && !rows.shared;
  Value product = GroupedMatmulOp::create(build.builder, build.loc, type, aligned(build, rows, all, true), weights,
                                          routes_, Value(), /*transposed=*/true);
  return rowsOf(build, Meaning::Rows, product, rows.order);
}

Mixture::Found Mixture::product(GroupedMatmulOp op) {
  const Meaning *routes = meaningOf(op.getRoutes()), *operand = meaningOf(op.getOperand());
  bool fits = routes && routes->kind == Meaning::OfExpert && routes->counts() && operand &&
              operand->kind == Meaning::Rows && operand->order == routes->order && !op.getOffset() &&
              !op.getExchanged() && typeOf(op.getRoutes()).getNumElements() == rows() &&
              shapeOf(op.getWeights())[0] == experts_ && !meaningOf(op.getWeights());
  if (!fits)
    return std::nullopt;
  OpBuilder builder(op);
  Build build(builder, op.getLoc());
  return multiplied(build, *operand, op.getWeights(), op.getTransposed());
}

Mixture::Found Mixture::product(MatmulOp op) {
  if (Found found = productOfBlock(op))
    return found;
  if (Found found = productOfRows(op))
    return found;
  Equation equation = equationOf(op);
  const Meaning *left = meaningOf(op.getLhs());
  bool matricesLeft = left && left->kind == Meaning::Matrices;
  Value of = matricesLeft ? op.getLhs() : op.getRhs(), other = matricesLeft ? op.getRhs() : op.getLhs();
  const std::string &own = matricesLeft ? equation.lhs : equation.rhs;
  const std::string &theirs = matricesLeft ? equation.rhs : equation.lhs;
  const Meaning *matrices = meaningOf(of);
  if (!matrices || matrices->kind != Meaning::Matrices || own.size() < 3)
    return std::nullopt;
  // The letters of rows come first in all three; one of a matrix' two is summed.
  std::string rowLetters = own.substr(0, own.size() - 2);
  char a = own[own.size() - 2], b = own.back();
  bool transposed = has(theirs, b) && !has(equation.result, b);
  char in = transposed ? b : a, out = transposed ? a : b;
  if (!has(theirs, in) || has(equation.result, in) || has(theirs, out) || !has(equation.result, out))
    return std::nullopt;
  int64_t leading = 1, extra = 1;
  std::string shared;
  for (auto [letter, size] : llvm::zip(theirs, shapeOf(other)))
    if (has(rowLetters, letter)) {
      shared += letter;
      leading *= size;
    } else if (letter != in) {
      extra *= size;
    }
  bool ordered = llvm::StringRef(rowLetters).starts_with(shared) && llvm::StringRef(theirs).starts_with(shared) &&
                 llvm::StringRef(equation.result).starts_with(rowLetters);
  if (!ordered || extra != 1 || (leading != rows() && leading != tokens_))
    return std::nullopt;
  OpBuilder builder(op);
  Build build(builder, op.getLoc());
  const Meaning *meaning = meaningOf(other);
  bool asRows = leading == rows();
  if (meaning && meaning->kind != (asRows ? Meaning::Rows : Meaning::Tokens) && rows() != tokens_)
    return std::nullopt;
  if (meaning ? meaning->order != matrices->order || (meaning->kind != Meaning::Rows && meaning->kind != Meaning::Tokens)
              : matrices->order)
    return std::nullopt;
  return multiplied(build, meaning ? *meaning : adopted(build, other, asRows), matrices->value, transposed);
}
