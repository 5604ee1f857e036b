// Recognises loops over experts, unrolled: each block takes the rows of one expert by a mask, and its result
// is added to the tokens. In all blocks the rows of their experts are those of one grouped product.
#include "mlir/IR/OperationSupport.h"
#include "passes/1-raise/Equation.h"
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
              areAlike(left->value, right->value);
  if (!fits)
    return std::nullopt;
  Meaning sum = *left;
  sum.parts.insert(sum.parts.end(), right->parts.begin(), right->parts.end());
  llvm::sort(sum.parts);
  for (size_t i = 1; i < sum.parts.size(); ++i)
    if (sum.parts[i] == sum.parts[i - 1])
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
