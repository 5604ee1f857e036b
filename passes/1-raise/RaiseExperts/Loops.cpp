// Recognises loops over experts, unrolled: each block takes the rows of one expert by a mask, and its result
// is added to the tokens. In all blocks the rows of their experts are those of one grouped product.
#include "mlir/IR/OperationSupport.h"
#include "passes/1-raise/Equation.h"
#include "passes/1-raise/Parameters.h"
#include "passes/1-raise/RaiseExperts/Mixture.h"

using namespace mlir;
using namespace llmc;
using namespace llmc::graph;
using namespace llmc::raise;

bool raise::areAlike(Value a, Value b) {
  if (a == b)
    return true;
  Operation *left = a.getDefiningOp(), *right = b.getDefiningOp();
  if (!left || !right || cast<OpResult>(a).getResultNumber() != cast<OpResult>(b).getResultNumber() ||
      left->getName() != right->getName() || left->getAttrDictionary() != right->getAttrDictionary() ||
      left->getNumRegions() || left->getResultTypes() != right->getResultTypes() ||
      left->getNumOperands() != right->getNumOperands())
    return false;
  return llvm::all_of(llvm::zip(left->getOperands(), right->getOperands()),
                      [](auto pair) { return areAlike(std::get<0>(pair), std::get<1>(pair)); });
}

static SmallVector<int64_t> withoutOnes(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> kept;
  llvm::copy_if(shape, std::back_inserter(kept), [](int64_t size) { return size != 1; });
  return kept;
}

std::optional<Meaning::Order> Mixture::orderOf(Value ids, bool ofChoices) const {
  auto known = constantOf(beforeReshapes(ids));
  if (!known || known->size() != rows())
    return std::nullopt;
  bool inPlace = true, byChoice = true;
  for (int64_t i = 0; i < rows(); ++i) {
    int64_t token = i % tokens_, choice = i / tokens_;
    inPlace &= known->data[i] == (ofChoices ? i : i / choices_);
    byChoice &= known->data[i] == (ofChoices ? token * choices_ + choice : token);
  }
  return inPlace    ? std::optional(Meaning::InPlace)
         : byChoice ? std::optional(Meaning::ByChoice)
                    : std::nullopt;
}

Mixture::Found Mixture::looped(Operation *op) {
  return llvm::TypeSwitch<Operation *, Found>(op)
      .Case([&](CompareOp op) { return oneHot(op); })
      .Case([&](TransposeOp op) -> Found {
        const Meaning *hot = meaningOf(op.getOperand());
        ArrayRef<int64_t> rows = shapeOf(op.getOperand());
        if (hot && hot->kind == Meaning::RowMask && !hot->order && rows.size() == 3 && rows[0] == tokens_ &&
            rows[1] == choices_) {
          Meaning mask = *hot;
          if (llvm::find(op.getPermutation(), 1) < llvm::find(op.getPermutation(), 0))
            mask.order = Meaning::ByChoice;
          return mask;
        }
        if (!hot || hot->kind != Meaning::OneHot || hot->order || hot->index != 2 || typeOf(op.getResult()).getRank() != 3 ||
            shapeOf(op.getOperand())[0] != tokens_ || shapeOf(op.getOperand())[1] != choices_)
          return std::nullopt;
        ArrayRef<int64_t> order = op.getPermutation();
        Meaning turned = *hot;
        turned.index = llvm::find(order, 2) - order.begin();
        turned.order = llvm::find(order, 1) < llvm::find(order, 0) ? Meaning::ByChoice : Meaning::InPlace;
        return turned.index == 1 ? Found() : Found(turned);
      })
      .Case([&](ReduceOp op) -> Found {
        const Meaning *meaning = meaningOf(op.getOperand());
        if (!meaning || op.getKind() != ReduceKind::sum)
          return std::nullopt;
        // Counts the rows of each expert.
        if (meaning->kind == Meaning::OneHot) {
          int64_t rank = typeOf(op.getOperand()).getRank();
          bool others = int64_t(op.getDims().size()) == rank - 1 && !llvm::is_contained(op.getDims(), meaning->index);
          if (!others || meaning->table != std::vector<double>{0, 1})
            return std::nullopt;
          Meaning hits = made(Meaning::Hits, {});
          for (int64_t i = 0; i <= rows(); ++i)
            hits.table.push_back(i);
          return hits;
        }
        // Counts the experts up to which at most `index` have rows: the number of that which comes next.
        if (meaning->kind != Meaning::HitsUpTo || typeOf(op.getResult()).getNumElements() != 1)
          return std::nullopt;
        int64_t index = llvm::find(meaning->table, 0.0) - meaning->table.begin() - 1;
        for (auto [i, one] : llvm::enumerate(meaning->table))
          if (one != (int64_t(i) <= index))
            return std::nullopt;
        Meaning expert = made(Meaning::OneExpert, {});
        expert.block = {true, index};
        return expert;
      })
      .Case([&](CumsumOp op) -> Found {
        const Meaning *hits = meaningOf(op.getOperand());
        if (!hits || hits->kind != Meaning::Hits || op.getExclusive() || op.getReverse() ||
            typeOf(op.getResult()).getNumElements() != shapeOf(op.getResult())[op.getDim()])
          return std::nullopt;
        for (auto [i, one] : llvm::enumerate(hits->table))
          if (one != (i > 0))
            return std::nullopt;
        Meaning sums = made(Meaning::HitsUpTo, {});
        for (int64_t i = 0; i <= typeOf(op.getResult()).getNumElements(); ++i)
          sums.table.push_back(i);
        return sums;
      })
      .Case([&](GatherOp op) -> Found {
        const Meaning *expert = meaningOf(op.getIds()), *table = meaningOf(op.getTable());
        if (!expert || expert->kind != Meaning::OneExpert || op.getOffset())
          return std::nullopt;
        Meaning one = table ? *table : made(Meaning::OneMatrix, op.getTable());
        if (table && (table->kind != Meaning::OneHot || table->index != 0))
          return std::nullopt;
        if (!table && (shapeOf(op.getTable())[0] != experts_ || typeOf(op.getTable()).getRank() > 3))
          return std::nullopt;
        one.kind = table ? Meaning::RowMask : Meaning::OneMatrix;
        one.index = 0;
        one.block = expert->block;
        return one;
      })
      .Case([&](SliceOp op) -> Found {
        const Meaning *hot = meaningOf(op.getOperand());
        if (!hot || hot->kind != Meaning::OneHot || shapeOf(op.getResult())[hot->index] != 1 ||
            typeOf(op.getResult()).getNumElements() != rows())
          return std::nullopt;
        Meaning mask = *hot;
        mask.kind = Meaning::RowMask;
        mask.block = {false, op.getStarts()[hot->index]};
        mask.index = 0;
        return mask;
      })
      .Case([&](ReshapeOp op) -> Found {
        const Meaning *matrix = meaningOf(op.getOperand());
        bool kept = matrix && matrix->kind == Meaning::OneMatrix &&
                    withoutOnes(shapeOf(op.getResult())) == withoutOnes(shapeOf(op.getOperand()));
        return kept ? Found(*matrix) : Found();
      })
      .Case([&](SelectOp op) { return maskedRows(op); })
      .Case([&](AddOp op) { return sumOfBlocks(op); })
      .Default([](Operation *) { return Found(); });
}

// Recognises the comparison of each row's expert with the numbers of all, and perhaps more.
Mixture::Found Mixture::oneHot(CompareOp op) {
  ArrayRef<int64_t> shape = shapeOf(op.getResult());
  const Meaning *left = meaningOf(op.getLhs());
  Value ids = left ? op.getLhs() : op.getRhs(), numbers = left ? op.getRhs() : op.getLhs();
  const Meaning *meaning = meaningOf(ids);
  auto all = constantOf(numbers);
  if (!meaning || meaning->kind != Meaning::OfExpert || meaning->order || !meaning->counts() || !all ||
      op.getPredicate() != Predicate::eq || shape.empty() || all->size() != shape.back() ||
      shapeOf(numbers).back() != shape.back() || all->size() < experts_ || shapeOf(ids).size() != shape.size() ||
      shapeOf(ids).back() != 1 || typeOf(ids).getNumElements() != rows())
    return std::nullopt;
  for (int64_t i = 0; i < all->size(); ++i)
    if (all->data[i] != i)
      return std::nullopt;
  Meaning hot = made(Meaning::OneHot, {});
  hot.table = {0, 1};
  hot.index = shape.size() - 1;
  return hot;
}

// Recognises rows of one expert, with zeros for the others.
Mixture::Found Mixture::maskedRows(SelectOp op) {
  const Meaning *mask = meaningOf(op->getOperand(0)), *rows = meaningOf(op->getOperand(1));
  bool fits = mask && mask->kind == Meaning::RowMask && mask->table == std::vector<double>{0, 1} && rows &&
              rows->kind == Meaning::Rows && !rows->shared && rows->order == mask->order && !rows->zeros &&
              (!rows->block || rows->block == mask->block) && scalarOf(op->getOperand(2)) == 0.0 &&
              op->getOperand(1).getType() == op.getResult().getType() &&
              leadingDims(shapeOf(op.getResult()), this->rows());
  // The mask must lie along the rows.
  ArrayRef<int64_t> own = shapeOf(op->getOperand(0)), all = shapeOf(op.getResult());
  if (!fits || own.size() != all.size() || own.take_front(*leadingDims(all, this->rows())) !=
                                               all.take_front(*leadingDims(all, this->rows())) ||
      typeOf(op->getOperand(0)).getNumElements() != this->rows())
    return std::nullopt;
  Meaning masked = *rows;
  masked.block = mask->block;
  masked.zeros = true;
  return masked;
}

Mixture::Found Mixture::sumOfBlocks(AddOp op) {
  const Meaning *left = meaningOf(op.getLhs()), *right = meaningOf(op.getRhs());
  bool fits = left && right && left->kind == Meaning::PartSum && right->kind == Meaning::PartSum &&
              left->block->hit == right->block->hit && op.getLhs().getType() == op.getRhs().getType() &&
              left->value.getType() == right->value.getType();
  if (!fits)
    return std::nullopt;
  Meaning sum = *left;
  sum.parts.insert(sum.parts.end(), right->parts.begin(), right->parts.end());
  llvm::sort(sum.parts, [](const auto &a, const auto &b) { return a.first < b.first; });
  for (size_t i = 1; i < sum.parts.size(); ++i)
    if (sum.parts[i].first == sum.parts[i - 1].first)
      return std::nullopt;
  return sum;
}

// Returns the row of each route's expert in the table of which a block has one.
Mixture::Found Mixture::vectorOfBlock(Build &build, const Meaning &vector) const {
  int64_t width = shapeOf(vector.value)[1];
  Value rows = GatherOp::create(build.builder, build.loc, type({choices_, width}, vector.value), vector.value, routes_,
                                Value());
  Meaning found = made(Meaning::Rows, rows);
  found.block = vector.block;
  return found;
}

// Recognises the product of all rows with the matrix of a block, which counts for the rows of its expert.
Mixture::Found Mixture::productOfBlock(MatmulOp op) {
  Equation equation = equationOf(op);
  const Meaning *left = meaningOf(op.getLhs()), *right = meaningOf(op.getRhs());
  bool matrixLeft = left && left->kind == Meaning::OneMatrix;
  const Meaning *matrix = matrixLeft ? left : right;
  if (!matrix || matrix->kind != Meaning::OneMatrix || typeOf(matrix->value).getRank() != 3)
    return std::nullopt;
  Value other = matrixLeft ? op.getRhs() : op.getLhs();
  const std::string &own = matrixLeft ? equation.lhs : equation.rhs, &theirs = matrixLeft ? equation.rhs : equation.lhs;
  if (own.size() != 2 || theirs.size() < 2)
    return std::nullopt;
  char in = theirs.back(), out = own[0] == in ? own[1] : own[0];
  bool transposed = own[1] == in;
  if (!has(own, in) || has(equation.result, in) || equation.result != theirs.substr(0, theirs.size() - 1) + out ||
      typeOf(other).getNumElements() / shapeOf(other).back() != rows())
    return std::nullopt;
  OpBuilder builder(op);
  Build build(builder, op.getLoc());
  const Meaning *known = meaningOf(other);
  Meaning meaning = known ? *known : adopted(build, other, /*asRows=*/true);
  if (meaning.kind != Meaning::Rows || meaning.zeros || (meaning.block && !(meaning.block == matrix->block)))
    return std::nullopt;
  Found product = multiplied(build, meaning, matrix->value, transposed);
  if (product)
    product->block = matrix->block;
  return product;
}

//===-- Experts with parameters of their own ----------------------------------===//

static bool isOwnMatrix(Value value) {
  if (auto transpose = value.getDefiningOp<TransposeOp>())
    value = transpose.getOperand();
  return isParameter(value);
}

// Writes the product of all rows with a matrix, which is that of one expert, on rows in the tokens' order.
Mixture::Found Mixture::productOfRows(MatmulOp op) {
  Equation equation = equationOf(op);
  bool matrixLeft = isOwnMatrix(op.getLhs());
  Value matrix = matrixLeft ? op.getLhs() : op.getRhs(), other = matrixLeft ? op.getRhs() : op.getLhs();
  const std::string &own = matrixLeft ? equation.lhs : equation.rhs, &theirs = matrixLeft ? equation.rhs : equation.lhs;
  if (own.size() != 2 || !isOwnMatrix(matrix) || shapeOf(other).empty())
    return std::nullopt;
  char in = has(equation.result, own[0]) ? own[1] : own[0], out = in == own[0] ? own[1] : own[0];
  std::string rowsOf, rowsTo;
  for (auto [letter, size] : llvm::zip(theirs, shapeOf(other)))
    if (letter != in && size != 1)
      rowsOf += letter;
  for (auto [letter, size] : llvm::zip(equation.result, shapeOf(op.getResult())))
    if (letter != out && size != 1)
      rowsTo += letter;
  if (theirs.back() != in || equation.result.back() != out || has(theirs, out) || rowsOf != rowsTo ||
      typeOf(other).getNumElements() / shapeOf(other).back() != rows())
    return std::nullopt;
  OpBuilder builder(op);
  Build build(builder, op.getLoc());
  const Meaning *known = meaningOf(other);
  Meaning meaning = known ? *known : adopted(build, other, /*asRows=*/true);
  if (meaning.kind != Meaning::Rows || meaning.order != Meaning::ByChoice || meaning.block || meaning.zeros)
    return std::nullopt;
  if (in == own[0])
    matrix = build.transpose(matrix, {1, 0});
  Value x = aligned(build, meaning, !meaning.shared, true);
  std::string letters = std::string("abcfghij").substr(0, shapeOf(x).size() - 1);
  Value product = build.matmul(letters + "d,ed->" + letters + "e", x, matrix, elementOf(x));
  Meaning found = made(Meaning::Rows, product, meaning.order);
  found.shared = meaning.shared;
  return found;
}

Value Mixture::joined(Build &build, ArrayRef<Value> rows) {
  if (llvm::all_of(rows, [&](Value value) { return areAlike(value, rows[0]); }))
    return rows[0];
  Operation *first = rows[0].getDefiningOp();
  if (!first || first->getNumResults() != 1 || first->getNumRegions())
    return {};
  for (Value value : rows) {
    Operation *op = value.getDefiningOp();
    if (!op || op->getName() != first->getName() || op->getAttrDictionary() != first->getAttrDictionary() ||
        op->getResultTypes() != first->getResultTypes() || op->getNumOperands() != first->getNumOperands())
      return {};
  }
  auto operandsOf = [&](unsigned i) {
    return llvm::map_to_vector(rows, [&](Value value) { return value.getDefiningOp()->getOperand(i); });
  };
  if (isa<MatmulOp>(first)) {
    std::vector<void *> key; // a product is read more than once
    for (Value value : rows)
      key.push_back(value.getAsOpaquePointer());
    Value &known = joined_[key];
    if (known)
      return known;
    Value x = joined(build, operandsOf(0));
    SmallVector<Value> matrices = operandsOf(1);
    if (!x || !llvm::all_of(matrices, isOwnMatrix) || shapeOf(matrices[0]).size() != 2)
      return {};
    ArrayRef<int64_t> shape = shapeOf(matrices[0]);
    for (Value &matrix : matrices)
      matrix = build.reshape(matrix, {1, shape[0], shape[1]});
    auto type = this->type({choices_, shape[0]}, x);
    ++products_;
    return known = GroupedMatmulOp::create(build.builder, build.loc, type, x, build.concat(matrices, 0), routes_, Value(),
                                           /*transposed=*/true);
  }
  if (!isElementwise(first) && !isa<ReshapeOp, SliceOp, CastOp>(first))
    return {};
  SmallVector<Value> operands;
  SmallVector<int64_t> shape(shapeOf(rows[0]));
  for (unsigned i = 0; i < first->getNumOperands(); ++i) {
    operands.push_back(joined(build, operandsOf(i)));
    if (!operands.back())
      return {};
  }
  // Takes the rows of choices where each token had one row.
  if (isa<ReshapeOp, SliceOp>(first) && operands[0].getType() != first->getOperand(0).getType()) {
    ArrayRef<int64_t> to = shapeOf(rows[0]), own = shapeOf(operands[0]);
    bool perChoice = isa<ReshapeOp>(first) && to.size() == own.size() && to.back() == own.back() &&
                     ArrayRef<int64_t>(this->shape({1, to.back()})) == to;
    return perChoice ? operands[0] : Value();
  }
  if (isElementwise(first)) {
    std::optional<SmallVector<int64_t>> all = SmallVector<int64_t>();
    for (Value &operand : operands) {
      bool ofTokens = shapeOf(operand).size() == tokenDims_.size() + 1 && tokenDims_.size() > 0 &&
                      shapeOf(operand).take_front(tokenDims_.size()) == ArrayRef<int64_t>(tokenDims_);
      bool wide = llvm::any_of(operands, [&](Value o) { return shapeOf(o).size() == tokenDims_.size() + 2; });
      if (ofTokens && wide)
        return {};
      all = all ? broadcastShapes(*all, shapeOf(operand)) : all;
    }
    if (!all)
      return {};
    shape = *all;
  }
  return cloneForTypes(build.builder, first, operands, {RankedTensorType::get(shape, elementOf(rows[0]))})->getResult(0);
}
