#include "lib/onnx/bind/Tables.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>
#include <optional>

using namespace llmc::onnximport;

bool llmc::onnximport::isUniform(const HostTensor &tensor) {
  for (int64_t i = 1; i < tensor.size(); ++i)
    if (tensor.number(i) != tensor.number(0))
      return false;
  return true;
}

// Bounds weights: none is as large, and terms that hide scores are at least as large.
static constexpr double hidden = 1e4;

// Checks whether the elements are those of a mask: two values in two dims or more, or some that
// hide scores.
static bool isMask(const HostTensor &tensor, int64_t dims) {
  double first = tensor.number(0), second = first;
  bool two = true;
  for (int64_t i = 0; i < tensor.size(); ++i) {
    double x = tensor.number(i);
    if (!(x > -hidden)) // infinite or not a number too
      return true;
    if (second == first)
      second = x;
    two &= x == first || x == second;
  }
  return two && dims > 1 && first != second;
}

// Limits the positions that are read: later ones show nothing new, and their sines have lost
// digits.
static constexpr int64_t mostRows = 24;
static constexpr double tolerance = 1e-4;

// Returns c if x[k + 1] + x[k - 1] = 2 c x[k] with |c| <= 1 holds all along a column: it is then a
// sine or cosine (c < 1) or a line (c = 1) of any phase and size. Returns nullopt otherwise.
static std::optional<double> recurrence(const HostTensor &tensor, int64_t rows, int64_t columns,
                                        int64_t column) {
  auto at = [&](int64_t row) { return tensor.number(row * columns + column); };
  double products = 0, squares = 0, largest = 0;
  for (int64_t k = 1; k + 1 < rows; ++k) {
    products += (at(k + 1) + at(k - 1)) * at(k);
    squares += 2 * at(k) * at(k);
    largest = std::max(largest, std::fabs(at(k)));
  }
  double c = squares > 0 ? std::min(1.0, std::max(-1.0, products / squares)) : 1;
  for (int64_t k = 1; k + 1 < rows; ++k)
    if (std::fabs(at(k + 1) + at(k - 1) - 2 * c * at(k)) > tolerance * largest)
      return std::nullopt;
  return c;
}

// Checks whether all columns are sines, cosines or lines along the rows, and not all are lines.
static bool oscillates(const HostTensor &tensor, int64_t rows, int64_t columns) {
  bool turns = false;
  for (int64_t column = 0; column < columns && rows >= 5; ++column) {
    auto c = recurrence(tensor, std::min(rows, mostRows), columns, column);
    if (!c)
      return false;
    turns |= *c < 0.99;
  }
  return turns;
}

static Shape wideDims(llvm::ArrayRef<int64_t> shape) {
  Shape dims;
  for (int64_t d : shape)
    if (d > 1)
      dims.push_back(d);
  return dims;
}

bool llmc::onnximport::isLinear(const HostTensor &tensor) {
  Shape dims = wideDims(tensor.shape);
  if (dims.empty() || dims.back() < 3)
    return false;
  int64_t columns = tensor.size() / dims.back();
  for (int64_t row = 0; row < columns; ++row)
    for (int64_t k = 1; k + 1 < dims.back(); ++k) {
      auto at = [&](int64_t i) { return tensor.number(row * dims.back() + i); };
      if (std::fabs(at(k + 1) - 2 * at(k) + at(k - 1)) > tolerance * std::fabs(at(k)))
        return false;
    }
  return true;
}

// Checks whether the elements are a geometric series of at least 4, as frequencies are.
static bool isGeometric(const HostTensor &tensor) {
  int64_t size = tensor.size();
  if (size < 4 || tensor.number(0) == 0)
    return false;
  double factor = tensor.number(1) / tensor.number(0);
  for (int64_t i = 1; i < size; ++i)
    if (std::fabs(tensor.number(i) - factor * tensor.number(i - 1)) >
        tolerance * std::fabs(tensor.number(i)))
      return false;
  return factor != 1;
}

bool llmc::onnximport::isComputedTable(const HostTensor &given) {
  if (!given.isFloat())
    return true;
  if (given.size() < 3 || isUniform(given))
    return given.size() && !(given.number(0) > -hidden);
  HostTensor tensor = collapseEqualDims(given);
  return isMask(tensor, wideDims(tensor.shape).size()) || isRotaryTable(tensor);
}

bool llmc::onnximport::isRotaryTable(const HostTensor &given) {
  if (!given.isFloat() || given.size() < 3 || isUniform(given))
    return false;
  HostTensor tensor = collapseEqualDims(given);
  Shape dims = wideDims(tensor.shape);
  if (dims.size() < 2)
    return isGeometric(tensor) || oscillates(tensor, tensor.size(), 1);
  // The last two dims are positions and features.
  return oscillates(tensor, dims[dims.size() - 2], dims.back());
}
