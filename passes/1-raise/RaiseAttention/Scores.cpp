// Peels masks, a softcap and a scale off the operand of a softmax, down to the product.
#include "passes/1-raise/RaiseAttention/Scores.h"

#include "passes/1-raise/Parameters.h"

#include <cmath>

using namespace mlir;
using namespace llmc;
using namespace llmc::graph;
using namespace llmc::raise;

Value raise::withoutFactors(Value value, double &scale) {
  while (Operation *op = value.getDefiningOp()) {
    unsigned other;
    if (isa<MulOp, DivOp>(op) && scalarOf(op->getOperand(1)))
      other = 1;
    else if (isa<MulOp>(op) && scalarOf(op->getOperand(0)))
      other = 0;
    else
      break;
    if (op->getOperand(1 - other).getType() != value.getType())
      break;
    double number = *scalarOf(op->getOperand(other));
    scale *= isa<DivOp>(op) ? 1 / number : number;
    value = op->getOperand(1 - other);
  }
  return value;
}

// Peels masks off `value`, outermost first, until it reaches `scores.product`.
static bool peel(Value value, Scores &scores);

static bool peelMask(Value inner, const Mask &mask, Scores &scores) {
  Scores found;
  if (!peel(inner, found))
    return false;
  scores = std::move(found);
  scores.masks.push_back(mask);
  return true;
}

static bool peelScale(Value value, Scores &scores) {
  double outer = 1;
  value = withoutFactors(value, outer);
  if (auto tanh = value.getDefiningOp<TanhOp>()) {
    scores.softcap = outer;
    value = withoutFactors(tanh.getOperand(), scores.scale);
  }
  scores.scale *= outer;
  scores.product = value.getDefiningOp<MatmulOp>();
  return scores.product && scores.scale > 0 && scores.softcap >= 0;
}

// Peels a number that multiplies masked scores; it multiplies the masks too.
static bool peelFactor(Value inner, double factor, Scores &scores) {
  Scores found;
  if (!(factor > 0) || !peel(inner, found) || found.masks.empty())
    return false;
  scores = std::move(found);
  scores.scale *= factor;
  scores.softcap *= factor;
  for (Mask &mask : scores.masks) {
    mask.hidden *= factor;
    mask.factor *= factor;
    mask.floor *= factor;
  }
  return true;
}

// Peels the maximum of masked scores and a number that absorbs any score: it is the masks' floor.
static bool peelFloor(MaximumOp op, Scores &scores) {
  for (unsigned i : {0u, 1u}) {
    auto floor = scalarOf(op->getOperand(i));
    Value inner = op->getOperand(1 - i);
    Scores found;
    if (!floor || !(*floor <= kAbsorbsScore) || inner.getType() != op.getType() ||
        !peel(inner, found) || found.masks.empty())
      continue;
    scores = std::move(found);
    for (Mask &mask : scores.masks) {
      mask.hidden = std::max(mask.hidden, *floor);
      mask.floor = std::max(mask.floor, *floor);
    }
    return true;
  }
  return false;
}

// Returns whether a mask, an i1 or a factor, is not 0 for some key of each row.
static bool everyRowSees(const KnownMask &seen) {
  return forEachLine(seen, [](int64_t, const support::Runs &line) {
    return llvm::any_of(line, [](const support::Run &run) { return run.step || run.first != 0; });
  });
}

// Returns whether scores * kept + added are the scores where `kept` is 1, and hidden where it is 0,
// with no row hidden wholly: then adding `added` alone has the same effect.
static bool hidesByProduct(Value kept, Value added) {
  if (kept.getType() != added.getType())
    return false;
  auto keeps = knownMask(kept), adds = knownMask(added);
  if (!keeps || !adds || !everyRowSees(*keeps))
    return false;
  support::Combination how;
  how.compute = [](const std::vector<double> &x) -> support::Result<double> {
    return double((x[0] == 1 && x[1] == 0) || (x[0] == 0 && x[1] <= kHidden));
  };
  KnownMask fits{support::defineCombined(how, {keeps->elements, adds->elements}), "", true};
  return allElements(fits, [](double fit) { return fit != 0; });
}

static bool peelProduct(AddOp sum, Scores &scores) {
  for (unsigned i : {0u, 1u})
    if (auto product = sum->getOperand(1 - i).getDefiningOp<MulOp>())
      for (unsigned j : {0u, 1u})
        if (product->getOperand(1 - j).getType() == sum.getType() &&
            hidesByProduct(product->getOperand(j), sum->getOperand(i)))
          return peelMask(product->getOperand(1 - j), {sum->getOperand(i), true}, scores);
  return false;
}

static bool peel(Value value, Scores &scores) {
  if (auto maximum = value.getDefiningOp<MaximumOp>())
    return peelFloor(maximum, scores);
  if (auto sum = value.getDefiningOp<AddOp>(); sum && peelProduct(sum, scores))
    return true;
  double factor = 1;
  if (Value inner = withoutFactors(value, factor); inner != value)
    if (peelFactor(inner, factor, scores))
      return true;
  if (auto sum = value.getDefiningOp<AddOp>())
    for (unsigned i : {0u, 1u})
      if (sum->getOperand(1 - i).getType() == value.getType() &&
          peelMask(sum->getOperand(1 - i), {sum->getOperand(i), true}, scores))
        return true;
  if (auto choice = value.getDefiningOp<SelectOp>())
    for (bool negated : {false, true}) {
      Value inner = negated ? choice.getRhs() : choice.getLhs();
      auto hidden = scalarOf(negated ? choice.getLhs() : choice.getRhs());
      if (hidden && *hidden <= kHidden && inner.getType() == value.getType() &&
          peelMask(inner, {choice.getCondition(), false, negated, *hidden}, scores))
        return true;
    }
  return peelScale(value, scores);
}

//===-- What masks say ------------------------------------------------------===//

// Returns where a mask sees a key, or what it adds; nullopt if it is not known.
static std::optional<KnownMask> seenBy(const Mask &mask) {
  auto known = knownMask(mask.value);
  if (known && mask.added && !mask.isUnscaled())
    return scaled(*known, mask.factor, mask.floor);
  return known && mask.negated ? negated(*known) : known;
}

// Returns whether a mask may hide keys that another mask leaves.
static bool mayHide(const Mask &mask) {
  auto seen = seenBy(mask);
  return !mask.added || !seen ||
         !allElements(*seen, [](double number) { return number > kHidden; });
}

// Returns whether a mask hides by -inf, so that a row of which it hides all keys weighs none of
// them.
static bool hidesWholly(const Mask &mask) {
  if (!mask.added)
    return std::isinf(mask.hidden);
  return allElements(*seenBy(mask),
                     [](double number) { return number == 0 || std::isinf(number); });
}

// Moves masks that follow a rule from `masks` to `visibility`. Where another mask may hide what the
// rule leaves, finite numbers decide how such a row is weighed: then only rules that hide by -inf
// are moved.
static void readMasks(Scores &scores, MaskReader &reader) {
  ArrayRef<int64_t> shape = shapeOf(scores.product.getResult());
  int64_t rows = shape[shape.size() - 2], keys = shape.back();
  SmallVector<Mask, 2> rules, others;
  for (const Mask &mask : scores.masks) {
    auto seen = seenBy(mask);
    bool rule = seen && reader.ruleOf(*seen, rows, keys);
    (rule ? rules : others).push_back(mask);
  }
  bool open = llvm::none_of(others, mayHide);
  scores.masks = others;
  for (const Mask &mask : rules) {
    auto joined = open || hidesWholly(mask)
                      ? reader.ruleOf(*seenBy(mask), rows, keys, scores.visibility)
                      : std::nullopt;
    if (joined)
      scores.visibility = *joined;
    else
      scores.masks.push_back(mask);
  }
  // Each row sees a key, so the weights of hidden keys underflow.
  if (scores.masks.size() == 1 && !scores.masks[0].added && scores.visibility == Visibility())
    if (auto seen = seenBy(scores.masks[0]); seen && everyRowSees(*seen))
      scores.masks[0].hidden = -std::numeric_limits<double>::infinity();
}

// Returns whether a mask can be an operand of graph.attention. A row that sees no key weighs all
// equally if one number replaces the scores; so it does if that number absorbs the score it is
// added to, and other numbers cannot be expressed. Nothing flows back to a mask: it must not depend
// on a parameter, unless the model infers.
static bool canBeOperand(const Mask &mask, bool infers) {
  return (mask.added || mask.hidden <= kAbsorbsScore) &&
         (infers || !dependsOnParameter(mask.value));
}

std::optional<Scores> raise::scoresOf(Value value, MaskReader &reader, bool infers) {
  Scores scores;
  if (shapeOf(value).size() < 2 || !peel(value, scores))
    return std::nullopt;
  readMasks(scores, reader);
  bool all = llvm::all_of(scores.masks,
                          [&](const Mask &mask) { return canBeOperand(mask, infers); });
  return all ? std::optional(scores) : std::nullopt;
}

//===-- Building ------------------------------------------------------------===//

static Value buildOne(Build &build, const Mask &mask, Type element) {
  if (mask.added) {
    Value value = mask.factor == 1 ? mask.value : build.scale(mask.value, mask.factor);
    return std::isinf(mask.floor)
               ? value
               : MaximumOp::create(build.builder, build.loc, value,
                                   build.constant(mask.floor, element));
  }
  if (std::isinf(mask.hidden))
    return mask.negated ? Value(NotOp::create(build.builder, build.loc, mask.value)) : mask.value;
  Value zero = build.constant(0, element), hidden = build.constant(mask.hidden, element);
  return build.select(mask.value, mask.negated ? hidden : zero, mask.negated ? zero : hidden);
}

Value raise::buildMask(Build &build, const Scores &scores) {
  MatmulOp product = scores.product;
  Type element = elementOf(product.getResult());
  Value all;
  for (const Mask &mask : scores.masks) {
    Value next = buildOne(build, mask, element);
    if (!all) {
      all = next;
    } else if (!isFloat(all) && !isFloat(next)) {
      all = AndOp::create(build.builder, build.loc, all, next);
    } else {
      double infinity = std::numeric_limits<double>::infinity();
      for (Value *part : {&all, &next})
        if (!isFloat(*part))
          *part = build.select(*part, build.constant(0, element),
                               build.constant(-infinity, element));
      all = build.add(all, next);
    }
  }
  return all;
}
