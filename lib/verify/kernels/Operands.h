// What the operands of a launch hold: numbers as the body may expect them, in several regimes.
#ifndef LLMC_LIB_VERIFY_KERNELS_OPERANDS_H
#define LLMC_LIB_VERIFY_KERNELS_OPERANDS_H

#include "lib/verify/kernels/Region.h"
#include "mlir/IR/Block.h"

#include <cstddef>
#include <string_view>
#include <vector>

namespace llmc::verify {

// How numbers are drawn. Masked: sums are told to leave elements out, and all of some rows.
enum class Regime { Usual, Large, Tiny, Equal, Masked, Outliers };
inline constexpr Regime kRegimes[] = {Regime::Usual, Regime::Large,  Regime::Tiny,
                                      Regime::Equal, Regime::Masked, Regime::Outliers};
std::string_view toString(Regime regime);

// What an operand may hold, from how the body uses it.
struct OperandRule {
  enum class Kind {
    Number,
    Positive,    // of a root, of a logarithm
    Fixed,       // a scalar of the optimizer
    Index,       // of a table's row
    Truth,       // i1
    Mask,        // a float that is added: 0 shows
    MaskedNumber // whose row is turned into shares: lowest leaves it out
  };
  Kind kind = Kind::Number;
  int64_t low = 0, high = 64;  // Index: [low, high)
  std::vector<double> ignored; // Index: numbers that mean no row
  double value = 0;            // Fixed
  bool isMask() const;         // differs in regime Masked
};

// One for each of the first `reads` arguments; `scalars` are the values of the others.
std::vector<OperandRule> rulesOf(mlir::Block &body, unsigned reads,
                                 llvm::ArrayRef<int64_t> scalars);

// Numbers to copy from: as many as a prime, so that rows of no width repeat each other.
class Noise {
public:
  explicit Noise(uint64_t seed);

  // Draws `count` elements of `type` at `to`; their rows have `width` elements. `scale` is of
  // numbers that are large, or of outliers. Other streams are other numbers.
  void draw(const OperandRule &rule, mlir::Type type, int64_t count, int64_t width, Regime regime,
            double scale, uint64_t stream, std::byte *to) const;
  // The same for plain numbers.
  void drawFloats(int64_t count, Regime regime, double scale, uint64_t stream, float *to) const;

private:
  double uniform(uint64_t stream, uint64_t index) const;

  uint64_t seed;
  std::vector<float> normals;
};

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_KERNELS_OPERANDS_H
