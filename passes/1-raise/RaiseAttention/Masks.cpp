#include "passes/1-raise/RaiseAttention/Masks.h"

using namespace mlir;
using namespace llmc;
using namespace llmc::raise;

Visibility raise::simplest(Visibility rule, int64_t rows, int64_t keys) {
  if (!rule.causal)
    return {};
  // The last row's window begins at or before the first key.
  if (rule.window && *rule.window >= rows + rule.offset)
    rule.window.reset();
  // The first row sees the last key.
  if (!rule.window && rule.offset >= keys - 1)
    return {};
  return rule;
}

namespace {

// Bounds the keys that a row sees, if they are consecutive.
struct Span {
  int64_t first, last;
};

std::optional<Span> spanOf(int64_t keys, llvm::function_ref<bool(int64_t)> sees) {
  int64_t first = 0, last = keys - 1;
  while (first < keys && !sees(first))
    ++first;
  while (last > first && !sees(last))
    --last;
  for (int64_t key = first; key <= last; ++key)
    if (!sees(key))
      return std::nullopt;
  return first < keys ? std::optional(Span{first, last}) : std::nullopt;
}

} // namespace

std::optional<Visibility> raise::ruleOf(int64_t rows, int64_t keys,
                                        llvm::function_ref<bool(int64_t, int64_t)> sees) {
  if (rows == 0 || keys == 0)
    return std::nullopt;
  Visibility rule{true, 0, std::nullopt};
  for (int64_t row = 0; row < rows; ++row) {
    auto span = spanOf(keys, [&](int64_t key) { return sees(row, key); });
    if (!span)
      return std::nullopt;
    if (row == 0)
      rule.offset = span->last;
    if (span->last != std::min(row + rule.offset, keys - 1))
      return std::nullopt;
    // The first row that does not see key 0 determines the window; the row before it saw all keys
    // up to its last.
    if (!rule.window && span->first > 0) {
      if (row > 0 && span->first != 1)
        return std::nullopt;
      rule.window = row + rule.offset - span->first + 1;
    }
    int64_t first = rule.window ? std::max<int64_t>(0, row + rule.offset - *rule.window + 1) : 0;
    if (span->first != first)
      return std::nullopt;
  }
  return simplest(rule, rows, keys);
}

MaskEffect raise::maskEffectOf(double number, bool logical) {
  if (logical)
    return number != 0 ? MaskEffect::Seen : MaskEffect::Hidden;
  return number == 0         ? MaskEffect::Seen
         : number <= kHidden ? MaskEffect::Hidden
                             : MaskEffect::Neither;
}

static std::optional<Visibility> readRule(DenseElementsAttr mask, int64_t rows, int64_t keys,
                                          const Visibility &known) {
  ArrayRef<int64_t> shape = cast<RankedTensorType>(mask.getType()).getShape();
  bool logical = mask.getElementType().isInteger(1);
  Elements elements(mask);
  int64_t ownKeys = shape.size() >= 1 ? shape.back() : 1;
  int64_t ownRows = shape.size() >= 2 ? shape[shape.size() - 2] : 1;
  if (mask.isSplat() && maskEffectOf(elements[0], logical) == MaskEffect::Seen)
    return simplest(known, rows, keys);
  int64_t plane = ownRows * ownKeys;
  for (int64_t i = 0; i < elements.size(); ++i)
    if (maskEffectOf(elements[i], logical) == MaskEffect::Neither ||
        (i >= plane &&
         maskEffectOf(elements[i], logical) != maskEffectOf(elements[i % plane], logical)))
      return std::nullopt;
  return ruleOf(rows, keys, [&](int64_t row, int64_t key) {
    int64_t at = (ownRows == 1 ? 0 : row) * ownKeys + (ownKeys == 1 ? 0 : key);
    return known.sees(row, key) && maskEffectOf(elements[at], logical) == MaskEffect::Seen;
  });
}

std::optional<Visibility> MaskReader::ruleOf(DenseElementsAttr mask, int64_t rows, int64_t keys,
                                             const Visibility &known) {
  auto [found, added] = read.try_emplace(
      {mask.getAsOpaquePointer(), rows, keys, known.causal, known.offset, known.window});
  if (added)
    found->second = readRule(mask, rows, keys, known);
  return found->second;
}
