// Represents a tensor that is too large to be held by the way its elements are computed: a mask of
// 131,072 x 131,072. A line of it (one index runs, the others are fixed) is evaluated exactly, as
// runs; all lines one after the other take the memory of one. Tests: test/runtime/DefinitionTest.cpp.
#ifndef LLMC_LIB_SUPPORT_DEFINITION_H
#define LLMC_LIB_SUPPORT_DEFINITION_H

#include "lib/support/Error.h"
#include "lib/support/Runs.h"

#include <functional>
#include <memory>

namespace llmc::support {

using Sizes = std::vector<int64_t>;

class Definition {
public:
  explicit Definition(Sizes shape) : shape_(std::move(shape)) {}
  virtual ~Definition() = default;

  const Sizes &shape() const { return shape_; }
  // Appends to `out` the elements along `dim` with the other indices as in `index`, which has one
  // entry a dim. Fails where an element cannot be computed (a division by zero).
  virtual Status line(const Sizes &index, size_t dim, Runs &out) const = 0;
  // Returns false only if all elements along `dim` are equal.
  virtual bool varies(size_t dim) const = 0;

private:
  Sizes shape_;
};
using DefinitionRef = std::shared_ptr<const Definition>;

// Returns the element of a definition at `index`; it has at least one dim.
Result<double> elementAt(const Definition &definition, const Sizes &index);

// Defines a tensor whose element at an index is at(sum of index * stride); a stride of 0 repeats.
DefinitionRef defineStored(Sizes shape, Sizes strides, std::function<double(int64_t)> at);

// Names how elements of operands of one shape are combined.
enum class Combine {
  Equal, NotEqual, Less, LessOrEqual, Greater, GreaterOrEqual, // to 0 or 1
  Select,  // operand 0 is not 0 ? operand 1 : operand 2
  Add, Subtract, Multiply, Negate,
  Minimum, Maximum,
  Copy,    // the same number, in the result's type
  IsNotZero,
  Other,   // computed element by element
};
// Describes the numbers of a combination's type and how it computes one.
struct Combination {
  Combine kind = Combine::Other;
  // Bounds the range of whole numbers that the result's type holds exactly.
  double least = -kMostWhole, most = kMostWhole;
  // Computes one element, rounded to the result's type.
  std::function<Result<double>(const std::vector<double> &)> compute;
};
DefinitionRef defineCombined(Combination how, std::vector<DefinitionRef> operands);

// Describes one dim of an operand that is viewed: index start + step * (the result's index along
// `dim`), or always `start` if `dim` is -1.
struct ViewedDim {
  int64_t start = 0;
  int dim = -1;
  int64_t step = 1;
};
// Defines a view: an expansion, transposition, slice or reversal; each dim of the result occurs at
// most once, and repeats if it does not occur.
DefinitionRef defineView(DefinitionRef of, Sizes shape, std::vector<ViewedDim> dims);
// Defines a NumPy broadcast; `of` itself if it has the shape.
DefinitionRef defineBroadcast(DefinitionRef of, const Sizes &shape);

// Defines matrices (the last two dims) that keep the elements with column - row >= k (upper) or
// <= k, and are 0 elsewhere.
DefinitionRef defineTriangle(DefinitionRef of, int64_t k, bool upper);
// Defines the concatenation of parts along `axis`.
DefinitionRef defineJoined(std::vector<DefinitionRef> parts, size_t axis);
// Defines `base` with the region of the shape of `part` that begins at `start` replaced by `part`.
DefinitionRef defineReplaced(DefinitionRef base, DefinitionRef part, Sizes start);

//===-- Rules -----------------------------------------------------------------===//

// Describes a tensor of two numbers: `inside` where first[row] <= key < last[row], else `outside`;
// rows and keys are its dims `rowDim` and `keyDim`, along others it repeats.
struct IntervalRule {
  size_t rowDim = 0, keyDim = 0;
  std::vector<int64_t> first, last; // one a row; both 0 in a row without an element inside
  double inside = 0, outside = 0;
};
// Proves by evaluating every row that a definition follows such a rule, and returns it; nullopt if
// it does not. Of two numbers that may be inside, takes `preferred` if it is one of them.
Result<std::optional<IntervalRule>> intervalRuleOf(const Definition &definition, double preferred);

} // namespace llmc::support

#endif // LLMC_LIB_SUPPORT_DEFINITION_H
