// What a mask says, read from its values.
#ifndef LLMC_PASSES_RAISE_RAISEATTENTION_MASKS_H
#define LLMC_PASSES_RAISE_RAISEATTENTION_MASKS_H

#include "passes/1-raise/Constants.h"

#include <map>

namespace llmc::raise {

// What is added to a score that must not count: its weight underflows to zero.
inline constexpr double kHidden = -1e4;
// What swallows any score that it is added to.
inline constexpr double kSwallows = -1e30;

// Row i sees key j where lo(i) <= j <= hi(i): everything, or as the attributes
// of graph.attention say.
struct Visibility {
  bool causal = false;
  int64_t offset = 0;
  std::optional<int64_t> window;

  bool sees(int64_t row, int64_t key) const {
    return !causal || (key <= row + offset && (!window || key > row + offset - *window));
  }
  bool operator==(const Visibility &) const = default;
};

// The rule of this size that says the same with the fewest words.
Visibility simplest(Visibility rule, int64_t rows, int64_t keys);

// The rule that `sees` follows on rows x keys; nothing if there is none.
std::optional<Visibility> ruleOf(int64_t rows, int64_t keys,
                                 llvm::function_ref<bool(int64_t, int64_t)> sees);

// How a number of a mask hides: i1 masks by 0, others by what is added.
enum class Sight { Seen, Hidden, Neither };
Sight sightOf(double number, bool logical);

// Reads constant masks, each once: all layers have the same.
class MaskReader {
public:
  // The rule of a mask, broadcast to [..., rows, keys], together with `known`.
  // Nothing if it follows none, differs between its leading dims, or holds a
  // number that neither hides nor leaves as it is.
  std::optional<Visibility> ruleOf(mlir::DenseElementsAttr mask, int64_t rows, int64_t keys,
                                   const Visibility &known = {});

private:
  using Key = std::tuple<const void *, int64_t, int64_t, bool, int64_t, std::optional<int64_t>>;
  std::map<Key, std::optional<Visibility>> read;
};

} // namespace llmc::raise

#endif // LLMC_PASSES_RAISE_RAISEATTENTION_MASKS_H
