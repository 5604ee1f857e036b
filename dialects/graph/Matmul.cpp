// Implements matmul: a sum of products over the letters that the result lacks.
#include "dialects/graph/Detail.h"
#include "dialects/graph/Equation.h"
#include "dialects/graph/Product.h"

#include "llvm/ADT/StringExtras.h"

#include <cstring>

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
PrecisionRule MatmulOp::getPrecisionRule() {
  return {{Precision::Low, Precision::Low}, {Precision::Low}};
}

//===-- Evaluate ------------------------------------------------------------===//

namespace {
// Describes a loop nest over a tensor's elements in another order of its letters.
struct Walk {
  std::vector<int64_t> shape;
  Strides strides;
};

using Sums = double __attribute__((vector_size(4 * sizeof(double))));
} // namespace

template <typename T>
static Walk walkOf(const std::string &letters, const TensorOf<T> &tensor, const std::string &order) {
  Walk walk;
  Strides own = tensor.strides();
  for (char letter : order) {
    walk.shape.push_back(tensor.shape[letters.find(letter)]);
    walk.strides.push_back(own[letters.find(letter)]);
  }
  return walk;
}

// Returns the elements with the letters in another order, so that the rows of a product are
// contiguous.
template <typename T>
static std::vector<T> packed(const std::string &letters, const TensorOf<T> &tensor,
                             const std::string &order) {
  if (letters == order)
    return tensor.data;
  std::vector<T> result(tensor.data.size());
  Walk walk = walkOf(letters, tensor, order);
  T *to = result.data();
  forEach(walk.shape, {walk.strides}, [&](const int64_t *at) { *to++ = tensor.data[at[0]]; });
  return result;
}

template <typename T>
static int64_t sizeOf(const std::string &letters, const TensorOf<T> &tensor,
                      const std::string &some) {
  int64_t size = 1;
  for (char letter : some)
    size *= tensor.shape[letters.find(letter)];
  return size;
}

// Adds to z[rows, columns] the product of x[rows, terms] and y[terms, columns]. A tile of 4 rows
// and 8 columns of sums is kept in registers; each sum adds its terms in order.
__attribute__((target_clones("default", "avx2"))) static void
addProduct(const double *x, const double *y, double *z, int64_t rows, int64_t terms, int64_t columns) {
  int64_t i = 0;
  for (; i + 4 <= rows; i += 4) {
    int64_t j = 0;
    for (; j + 8 <= columns; j += 8) {
      Sums sums[4][2] = {};
      for (int64_t k = 0; k < terms; ++k) {
        Sums y0, y1;
        std::memcpy(&y0, y + k * columns + j, sizeof y0);
        std::memcpy(&y1, y + k * columns + j + 4, sizeof y1);
        for (int64_t r = 0; r < 4; ++r) {
          double scale = x[(i + r) * terms + k];
          sums[r][0] += scale * y0;
          sums[r][1] += scale * y1;
        }
      }
      for (int64_t r = 0; r < 4; ++r)
        std::memcpy(z + (i + r) * columns + j, sums[r], sizeof sums[r]);
    }
    for (int64_t r = i; r < i + 4; ++r)
      for (int64_t k = 0; k < terms; ++k)
        for (int64_t c = j; c < columns; ++c)
          z[r * columns + c] += x[r * terms + k] * y[k * columns + c];
  }
  for (; i < rows; ++i)
    for (int64_t k = 0; k < terms; ++k)
      for (int64_t c = 0; c < columns; ++c)
        z[i * columns + c] += x[i * terms + k] * y[k * columns + c];
}

std::vector<double> llmc::graph::product(const std::vector<double> &x, const std::vector<double> &y,
                                         const ProductSizes &sizes) {
  auto [batch, m, k, n] = sizes;
  std::vector<double> z(batch * m * n, 0.0);
  for (int64_t part = 0; part < batch; ++part)
    addProduct(x.data() + part * m * k, y.data() + part * k * n, z.data() + part * m * n, m, k, n);
  return z;
}

template <typename T, typename Get>
static std::vector<double> each(const std::vector<T> &numbers, Get get) {
  std::vector<double> result(numbers.size());
  for (size_t i = 0; i < numbers.size(); ++i)
    result[i] = get(numbers[i]);
  return result;
}
static bool isZero(const std::vector<double> &numbers) {
  return llvm::all_of(numbers, [](double x) { return x == 0; });
}

std::vector<Dual> llmc::graph::product(const std::vector<Dual> &x, const std::vector<Dual> &y,
                                       const ProductSizes &sizes) {
  auto value = [](Dual a) { return a.value; };
  auto slope = [](Dual a) { return a.slope; };
  std::vector<double> xs = each(x, value), ys = each(y, value), dx = each(x, slope),
                      dy = each(y, slope), values = product(xs, ys, sizes);
  std::vector<Dual> z(values.begin(), values.end());
  for (const auto &[a, b] : {std::pair(&dx, &ys), std::pair(&xs, &dy)}) {
    if (isZero(*a) || isZero(*b))
      continue;
    std::vector<double> part = product(*a, *b, sizes);
    for (size_t i = 0; i < z.size(); ++i)
      z[i].slope += part[i];
  }
  return z;
}

// Bounds errors as accumulate() does: those of the operands, and the roundings of k terms.
std::vector<Bounded> llmc::graph::product(const std::vector<Bounded> &x, const std::vector<Bounded> &y,
                                          const ProductSizes &sizes) {
  auto value = [](Bounded a) { return a.value; };
  auto size = [](Bounded a) { return std::fabs(a.value); };
  auto error = [](Bounded a) { return a.error; };
  std::vector<double> values = product(each(x, value), each(y, value), sizes),
                      xs = each(x, size), ys = each(y, size), ex = each(x, error),
                      ey = each(y, error), sizesOfTerms = product(xs, ys, sizes),
                      errors(values.size(), 0.0);
  for (const auto &[a, b] : {std::pair(&ex, &ys), std::pair(&xs, &ey)}) {
    if (isZero(*a) || isZero(*b))
      continue;
    std::vector<double> part = product(*a, *b, sizes);
    for (size_t i = 0; i < errors.size(); ++i)
      errors[i] += part[i];
  }
  std::vector<Bounded> z(values.size());
  double roundings = Bounded::growth(double(sizes.k));
  for (size_t i = 0; i < z.size(); ++i)
    z[i] = Bounded::rounded(values[i], errors[i] + roundings * sizesOfTerms[i], false, 0);
  return z;
}

template <typename T>
static void meaning(MatmulOp op, Inputs<T> inputs, Outputs<T> outputs) {
  Equation e = *Equation::parse(op.getEquation());
  std::string batch = e.batch(), rows = e.onlyLhs(), columns = e.onlyRhs(), terms = e.contracted();
  std::vector<T> x = packed(e.lhs, *inputs[0], batch + rows + terms);
  std::vector<T> y = packed(e.rhs, *inputs[1], batch + terms + columns);
  ProductSizes sizes{sizeOf(e.lhs, *inputs[0], batch), sizeOf(e.lhs, *inputs[0], rows),
              sizeOf(e.lhs, *inputs[0], terms), sizeOf(e.rhs, *inputs[1], columns)};
  std::vector<T> z = product(x, y, sizes);
  std::string order = batch + rows + columns;
  if (order == e.result) {
    outputs[0].data = std::move(z);
    return;
  }
  Walk walk = walkOf(e.result, outputs[0], order);
  const T *from = z.data();
  forEach(walk.shape, {walk.strides}, [&](const int64_t *at) { outputs[0].data[at[0]] = *from++; });
}
LLMC_EVALUATE(MatmulOp)

//===-- Gradient ------------------------------------------------------------===//

LogicalResult MatmulOp::differentiate(OpBuilder &builder, ArrayRef<Value> cotangents,
                                      SmallVectorImpl<Value> &gradients) {
  Equation e = *Equation::parse(getEquation());
  return setOperandCotangents(
      *this, builder, cotangents, gradients, [&](Build &b, Value g, unsigned i) {
        Type element = elementOf(getLhs());
        g = b.cast(g, element);
        if (i == 0)
          return b.matmul(e.result + "," + e.rhs + "->" + e.lhs, g, getRhs(), element);
        return b.matmul(e.lhs + "," + e.result + "->" + e.rhs, getLhs(), g, element);
      });
}
