#include "passes/1-raise/NormalizeOrder/ColorRefinement.h"

#include "passes/1-raise/Equation.h"
#include "passes/1-raise/Parameters.h"
#include "llvm/Support/xxhash.h"

using namespace mlir;
using namespace llmc;
using namespace llmc::graph;

bool raise::isCommutative(Operation *op) { return isa<AddOp, MulOp, AndOp, OrOp, MatmulOp>(op); }

// Mixes two hashes, with equal results in every run of the program, unlike llvm::hash_combine.
static uint64_t mix(uint64_t a, uint64_t b) {
  uint64_t pair[2] = {a, b};
  return llvm::xxh3_64bits(ArrayRef(reinterpret_cast<const uint8_t *>(pair), sizeof pair));
}
static uint64_t hashText(StringRef text) { return llvm::xxh3_64bits(text); }

template <typename T> static uint64_t hashPrinted(T what) {
  std::string text;
  llvm::raw_string_ostream(text) << what;
  return hashText(text);
}

static uint64_t combineSorted(SmallVector<uint64_t> parts) {
  llvm::sort(parts);
  uint64_t hash = parts.size();
  for (uint64_t part : parts)
    hash = mix(hash, part);
  return hash;
}

// Hashes the role of a matmul's operand, whichever letters are used: for each of its dims the
// position in the result and in the other operand.
static uint64_t roleInMatmul(MatmulOp op, unsigned side) {
  raise::Equation equation = raise::equationOf(op);
  const std::string &own = side == 0 ? equation.lhs : equation.rhs;
  const std::string &other = side == 0 ? equation.rhs : equation.lhs;
  uint64_t hash = 0;
  for (char letter : own)
    hash = mix(hash, equation.result.find(letter) * 64 + other.find(letter));
  return hash;
}

// Distinguishes the operands of `op`; all are 0 if they may be exchanged.
static uint64_t roleOf(Operation *op, unsigned index) {
  if (auto matmul = dyn_cast<MatmulOp>(op))
    return roleInMatmul(matmul, index);
  return raise::isCommutative(op) ? 0 : index + 1;
}

static uint64_t initialColor(Operation *op) {
  uint64_t hash = hashText(op->getName().getStringRef());
  for (Type type : op->getResultTypes())
    hash = mix(hash, hashPrinted(type));
  if (isa<MatmulOp>(op))
    return hash; // its equation is in the roles of the operands
  if (auto constant = dyn_cast<ConstantOp>(op))
    if (auto dense = dyn_cast<DenseElementsAttr>(constant.getValue())) {
      ArrayRef<char> data = dense.getRawData();
      return mix(hash, hashText(StringRef(data.data(), data.size())));
    }
  DictionaryAttr discardable = op->getDiscardableAttrDictionary();
  for (NamedAttribute attribute : op->getAttrDictionary())
    if (!discardable.contains(attribute.getName()))
      hash = mix(mix(hash, hashText(attribute.getName())), hashPrinted(attribute.getValue()));
  return hash;
}

// Returns 0 for a float input and what is computed from one or from a parameter, 1 for any other
// input or computed value, 2 for a parameter, 3 for a constant. A mask, made of tokens, has one
// depth while the layers beside it get deeper: 0 before 1 gives the same order in each.
int64_t raise::ColorRefinement::sourceOf(Value value) const {
  if (isParameter(value))
    return 2;
  Operation *op = value.getDefiningOp();
  if (isa_and_nonnull<ConstantOp>(op))
    return 3;
  bool weighted = op ? llvm::any_of(op->getOperands(),
                                    [&](Value operand) {
                                      int64_t source = entries.find(operand)->second.source;
                                      return source == 0 || source == 2;
                                    })
                     : isFloat(value);
  return weighted ? 0 : 1;
}

uint64_t raise::ColorRefinement::colorAfterRound(Value value, int round) const {
  return entries.find(value)->second.rounds[round];
}

uint64_t raise::ColorRefinement::fromOperands(Operation *op, int round) const {
  SmallVector<uint64_t> parts;
  for (OpOperand &operand : op->getOpOperands())
    parts.push_back(
        mix(roleOf(op, operand.getOperandNumber()), colorAfterRound(operand.get(), round)));
  return combineSorted(parts);
}

uint64_t raise::ColorRefinement::fromUsers(Value value, int round) const {
  SmallVector<uint64_t> parts;
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner();
    uint64_t what = user->getNumResults() ? colorAfterRound(user->getResult(0), round) : 0;
    parts.push_back(mix(roleOf(user, use.getOperandNumber()), what));
  }
  return combineSorted(parts);
}

raise::ColorRefinement::ColorRefinement(func::FuncOp func) {
  SmallVector<Value> values(func.getArguments().begin(), func.getArguments().end());
  for (Operation &op : func.getBody().front())
    llvm::append_range(values, op.getResults());
  for (Value value : values) {
    Entry entry;
    entry.rank = typeOf(value).getRank();
    entry.source = sourceOf(value);
    if (Operation *op = value.getDefiningOp()) {
      for (Value operand : op->getOperands())
        entry.depth = std::max(entry.depth, entries[operand].depth + 1);
      entry.rounds.push_back(mix(initialColor(op), cast<OpResult>(value).getResultNumber()));
    } else {
      entry.rounds.push_back(mix(hashPrinted(value.getType()), isParameter(value)));
    }
    entries[value] = std::move(entry);
  }
  for (int round = 0; round < kRounds; ++round)
    for (Value value : values) {
      uint64_t next = mix(colorAfterRound(value, round), fromUsers(value, round));
      if (Operation *op = value.getDefiningOp())
        next = mix(next, fromOperands(op, round));
      entries[value].rounds.push_back(next);
    }
}

bool raise::ColorRefinement::less(Value a, Value b) const {
  const Entry &x = entries.find(a)->second, &y = entries.find(b)->second;
  return std::tuple(-x.rank, x.source, x.depth, x.rounds) <
         std::tuple(-y.rank, y.source, y.depth, y.rounds);
}
