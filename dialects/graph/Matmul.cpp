// matmul: a sum of products over the letters that the result lacks.
#include "dialects/graph/Detail.h"
#include "dialects/graph/Equation.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace llmc::graph;

//===-- Equation ------------------------------------------------------------===//

std::optional<Equation> Equation::parse(llvm::StringRef text) {
  auto [operands, result] = text.split("->");
  auto [lhs, rhs] = operands.split(',');
  bool wellFormed = text.count("->") == 1 && operands.count(',') == 1;
  for (llvm::StringRef part : {lhs, rhs, result})
    wellFormed &= llvm::all_of(part, [](char c) { return llvm::isAlpha(c); });
  if (!wellFormed)
    return std::nullopt;
  return Equation{lhs.str(), rhs.str(), result.str()};
}

static bool has(const std::string &letters, char letter) {
  return letters.find(letter) != std::string::npos;
}
template <typename Keep> static std::string filter(const std::string &letters, Keep keep) {
  std::string kept;
  llvm::copy_if(letters, std::back_inserter(kept), keep);
  return kept;
}
std::string Equation::batch() const {
  return filter(lhs, [&](char c) { return has(rhs, c) && has(result, c); });
}
std::string Equation::contracted() const {
  return filter(lhs, [&](char c) { return !has(result, c); });
}
std::string Equation::onlyLhs() const {
  return filter(lhs, [&](char c) { return !has(rhs, c); });
}
std::string Equation::onlyRhs() const {
  return filter(rhs, [&](char c) { return !has(lhs, c); });
}

//===-- Verify --------------------------------------------------------------===//

namespace {
struct Part {
  StringRef name;
  const std::string &letters;
  ArrayRef<int64_t> shape;
};
} // namespace

static LogicalResult verifyPart(MatmulOp op, const Part &part, std::map<char, int64_t> &sizes) {
  if (part.letters.size() != part.shape.size())
    return op.emitOpError("C1: the equation gives the ")
           << part.name << " " << part.letters.size() << " dimensions, expected "
           << part.shape.size();
  std::set<char> seen;
  for (auto [letter, size] : llvm::zip(part.letters, part.shape)) {
    if (!seen.insert(letter).second)
      return op.emitOpError("C3: letter ")
             << StringRef(&letter, 1) << " stands twice in the " << part.name
             << "; take the diagonal first";
    auto [known, isNew] = sizes.try_emplace(letter, size);
    if (!isNew && known->second != size)
      return op.emitOpError("C2: letter ")
             << StringRef(&letter, 1) << " has size " << size << " in the " << part.name
             << ", expected " << known->second;
  }
  return success();
}

LogicalResult MatmulOp::verify() {
  std::optional<Equation> e = Equation::parse(getEquation());
  if (!e)
    return emitOpError("C1: equation \"")
           << getEquation() << "\" does not parse, expected letters,letters->letters";
  std::map<char, int64_t> sizes;
  for (const Part &part : {Part{"lhs", e->lhs, shapeOf(getLhs())},
                           Part{"rhs", e->rhs, shapeOf(getRhs())},
                           Part{"result", e->result, shapeOf(getResult())}})
    if (failed(verifyPart(*this, part, sizes)))
      return failure();
  for (char letter : e->result)
    if (!has(e->lhs + e->rhs, letter))
      return emitOpError("C4: result letter ")
             << StringRef(&letter, 1) << " stands in no operand; broadcast the result";
  for (const auto &[letters, others] :
       {std::pair(e->lhs, e->rhs + e->result), std::pair(e->rhs, e->lhs + e->result)})
    for (char letter : letters)
      if (!has(others, letter))
        return emitOpError("C5: letter ")
               << StringRef(&letter, 1)
               << " stands in one operand only; reduce that operand first";
  if (elementOf(getLhs()) != elementOf(getRhs()))
    return emitOpError("C6: operands have element types ")
           << elementOf(getLhs()) << " and " << elementOf(getRhs()) << ", expected one";
  return success();
}

//===-- Sharding, cost ------------------------------------------------------===//

ShardingRule MatmulOp::getShardingRule() {
  Equation e = *Equation::parse(getEquation());
  ShardingRule rule;
  rule.linearIn = {{0}, {1}};
  std::map<char, unsigned> factors;
  auto factorsOf = [&](const std::string &letters, ArrayRef<int64_t> shape) {
    TensorFactors dims;
    for (auto [letter, size] : llvm::zip(letters, shape)) {
      if (!factors.count(letter))
        factors[letter] = rule.addFactor(
            size, has(e.result, letter) ? FactorKind::Parallel : FactorKind::ReducedSum);
      dims.push_back({factors[letter]});
    }
    return dims;
  };
  rule.operands.push_back(factorsOf(e.lhs, shapeOf(getLhs())));
  rule.operands.push_back(factorsOf(e.rhs, shapeOf(getRhs())));
  rule.results.push_back(factorsOf(e.result, shapeOf(getResult())));
  return rule;
}
double MatmulOp::getFlops() {
  double flops = 2.0 * getResult().getType().getNumElements();
  Equation e = *Equation::parse(getEquation());
  for (auto [letter, size] : llvm::zip(e.lhs, shapeOf(getLhs())))
    if (!has(e.result, letter))
      flops *= size;
  return flops;
}
EmitClass MatmulOp::getEmitClass() { return EmitClass::Matmul; }

//===-- Evaluate ------------------------------------------------------------===//

void MatmulOp::evaluate(Inputs inputs, Outputs outputs) {
  Equation e = *Equation::parse(getEquation());
  std::map<char, int64_t> sizes;
  std::map<char, std::array<int64_t, 3>> strides;
  auto note = [&](size_t k, const std::string &letters, const Tensor &tensor) {
    Strides own = tensor.strides();
    for (size_t i = 0; i < letters.size(); ++i) {
      sizes[letters[i]] = tensor.shape[i];
      strides[letters[i]][k] = own[i];
    }
  };
  note(0, e.lhs, *inputs[0]);
  note(1, e.rhs, *inputs[1]);
  note(2, e.result, outputs[0]);
  // The result's last letter is innermost: a row of sums grows together, and
  // each sum still adds its terms in order.
  std::string order = e.result, inner;
  if (!order.empty()) {
    inner = order.back();
    order.pop_back();
  }
  order += e.contracted();
  std::vector<int64_t> shape;
  std::vector<Strides> walk(3);
  for (char letter : order) {
    shape.push_back(sizes[letter]);
    for (size_t k = 0; k < 3; ++k)
      walk[k].push_back(strides[letter][k]);
  }
  int64_t n = inner.empty() ? 1 : sizes[inner[0]];
  std::array<int64_t, 3> step = inner.empty() ? std::array<int64_t, 3>{} : strides[inner[0]];
  const double *a = inputs[0]->data.data(), *b = inputs[1]->data.data();
  double *c = outputs[0].data.data();
  forEach(shape, walk, [&](const int64_t *at) {
    const double *x = a + at[0], *y = b + at[1];
    double *z = c + at[2];
    for (int64_t i = 0; i < n; ++i)
      z[i * step[2]] += x[i * step[0]] * y[i * step[1]];
  });
}

//===-- Gradient ------------------------------------------------------------===//

LogicalResult MatmulOp::differentiate(OpBuilder &builder, ArrayRef<Value> cotangents,
                                      SmallVectorImpl<Value> &gradients) {
  Equation e = *Equation::parse(getEquation());
  return flowBack(*this, builder, cotangents, gradients, [&](Build &b, Value g, unsigned i) {
    Type element = elementOf(getLhs());
    g = b.cast(g, element);
    if (i == 0)
      return b.matmul(e.result + "," + e.rhs + "->" + e.lhs, g, getRhs(), element);
    return b.matmul(e.lhs + "," + e.result + "->" + e.rhs, getLhs(), g, element);
  });
}
