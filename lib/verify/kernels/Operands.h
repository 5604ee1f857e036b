// Draws the operands of a launch: numbers that its body accepts, in several regimes. Tested by
// test/verify/kernels/ShapesTest.cpp (FaultOfEmitter).
#ifndef LLMC_LIB_VERIFY_KERNELS_OPERANDS_H
#define LLMC_LIB_VERIFY_KERNELS_OPERANDS_H

#include "lib/verify/kernels/Region.h"
#include "mlir/IR/Block.h"

#include <cstddef>
#include <string_view>
#include <vector>

namespace llmc::verify {

// Selects how numbers are drawn. Masked excludes elements, and all elements of some rows, from
// sums.
enum class NumberRegime { Usual, Large, Tiny, Equal, Masked, Outliers };
inline constexpr NumberRegime kRegimes[] = {NumberRegime::Usual,  NumberRegime::Large,
                                            NumberRegime::Tiny,   NumberRegime::Equal,
                                            NumberRegime::Masked, NumberRegime::Outliers};
std::string_view toString(NumberRegime regime);

// Describes what an operand may hold, derived from how the body uses it.
struct OperandRule {
  enum class Kind {
    Number,
    Positive,    // operand of a root or logarithm
    Fixed,       // scalar of the optimizer
    Index,       // row of a table
    Truth,       // i1
    Mask,        // float added to scores: 0 keeps an element
    MaskedNumber // float of a softmax row: -inf or the lowest float excludes it
  };
  Kind kind = Kind::Number;
  int64_t low = 0, high = 64;  // Index: [low, high)
  std::vector<double> ignored; // Index: values that select no row
  double value = 0;            // Fixed
  bool isMask() const;         // whether regime Masked affects it
};

// Returns a rule for each of the first `reads` arguments; `scalars` are the values of the others.
std::vector<OperandRule> rulesOf(mlir::Block &body, unsigned reads,
                                 llvm::ArrayRef<int64_t> scalars);

// Holds normal numbers to copy from, a prime number of them, so that rows of no width repeat.
class Noise {
public:
  explicit Noise(uint64_t seed);

  // Draws `count` elements of `type` to `to`, in rows of `width` elements. `scale` is the factor
  // of regime Large and of outliers. Each `stream` gives other numbers.
  void draw(const OperandRule &rule, mlir::Type type, int64_t count, int64_t width,
            NumberRegime regime, double scale, uint64_t stream, std::byte *to) const;
  // Draws plain floats likewise.
  void drawFloats(int64_t count, NumberRegime regime, double scale, uint64_t stream,
                  float *to) const;

private:
  double uniform(uint64_t stream, uint64_t index) const;

  uint64_t seed;
  std::vector<float> normals;
};

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_KERNELS_OPERANDS_H
