// Reads from the values of a mask which keys each row sees
// (test/passes/1-raise/raise-attention.mlir).
#ifndef LLMC_PASSES_RAISE_RAISEATTENTION_MASKS_H
#define LLMC_PASSES_RAISE_RAISEATTENTION_MASKS_H

#include "passes/1-raise/RaiseAttention/KnownMask.h"

#include <map>

namespace llmc::raise {

// Bounds what a mask adds to hide a key: the key's weight underflows to zero.
inline constexpr double kHidden = -1e4;
// Bounds a number that absorbs any score to which it is added.
inline constexpr double kAbsorbsScore = -1e30;

// Describes the keys j that row i sees, lo(i) <= j <= hi(i): all of them, or as the attributes of
// graph.attention define.
struct Visibility {
  bool causal = false;
  int64_t offset = 0;
  std::optional<int64_t> window;

  bool sees(int64_t row, int64_t key) const {
    return !causal || (key <= row + offset && (!window || key > row + offset - *window));
  }
  bool operator==(const Visibility &) const = default;
};

// Returns the rule that is equal on this size and has the fewest attributes.
Visibility simplest(Visibility rule, int64_t rows, int64_t keys);

// Classifies a number of a mask: 0 hides in an i1 mask; in one that is added, kHidden or less does.
enum class MaskEffect { Seen, Hidden, Neither };
MaskEffect maskEffectOf(double number, bool logical);

// Bounds the keys that a row sees; none if last < first.
struct Span {
  int64_t first = 0, last = -1;
};

// Returns the consecutive keys that each row sees of a mask, broadcast to [..., rows, keys], together
// with `also`. Returns nullopt if those of a row are not consecutive, or as ruleOf does.
std::optional<std::vector<Span>> spansOf(const KnownMask &mask, int64_t rows, int64_t keys,
                                         const Visibility &also);

// Proves the rules of known masks by all their rows, each mask once: all layers have the same.
class MaskReader {
public:
  // Returns the rule of a mask, broadcast to [..., rows, keys], together with `also`. Returns
  // nullopt if it follows none, differs between its leading dims, or holds a number that neither
  // hides a key nor leaves its score as it is.
  std::optional<Visibility> ruleOf(const KnownMask &mask, int64_t rows, int64_t keys,
                                   const Visibility &also = {});
  // Returns that of a value, nullopt too if it is no known mask.
  std::optional<Visibility> ruleOf(mlir::Value mask, int64_t rows, int64_t keys,
                                   const Visibility &also = {});

private:
  using Key = std::tuple<std::string, int64_t, int64_t, bool, int64_t, std::optional<int64_t>>;
  std::map<Key, std::optional<Visibility>> read;
};

} // namespace llmc::raise

#endif // LLMC_PASSES_RAISE_RAISEATTENTION_MASKS_H
