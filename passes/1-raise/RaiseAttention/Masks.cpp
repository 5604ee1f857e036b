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

MaskEffect raise::maskEffectOf(double number, bool logical) {
  if (logical)
    return number != 0 ? MaskEffect::Seen : MaskEffect::Hidden;
  return number == 0         ? MaskEffect::Seen
         : number <= kHidden ? MaskEffect::Hidden
                             : MaskEffect::Neither;
}

namespace {

// Finds the rule that rows follow, which are added in order.
class RuleFinder {
public:
  explicit RuleFinder(int64_t keys) : keys(keys) {}

  // Returns whether the next row follows the rule of those before it.
  bool add(Span span) {
    int64_t row = next++;
    if (span.last < span.first)
      return false;
    if (row == 0)
      rule.offset = span.last;
    if (span.last != std::min(row + rule.offset, keys - 1))
      return false;
    // The first row that does not see key 0 determines the window; the row before it saw all keys
    // up to its last.
    if (!rule.window && span.first > 0) {
      if (row > 0 && span.first != 1)
        return false;
      rule.window = row + rule.offset - span.first + 1;
    }
    int64_t first = rule.window ? std::max<int64_t>(0, row + rule.offset - *rule.window + 1) : 0;
    return span.first == first;
  }

  Visibility rule{true, 0, std::nullopt};

private:
  int64_t keys, next = 0;
};

// Returns the effect of all elements of a run; Neither too if they differ.
MaskEffect effectOf(const support::Run &run, int64_t count, bool logical) {
  support::Piece piece{run.first, run.step};
  MaskEffect effect = maskEffectOf(piece.first, logical);
  for (int64_t k = 1; run.step != 0 && k < count; ++k)
    if (maskEffectOf(piece.at(k), logical) != effect)
      return MaskEffect::Neither;
  return effect;
}

// Returns the keys within `limits` that a line of a mask sees, which repeats for all keys if it has
// one element; nullopt if they are not consecutive, or a number has neither effect.
std::optional<Span> spanOf(const support::Runs &line, int64_t keys, bool logical, Span limits) {
  Span seen;
  int64_t begin = 0;
  bool repeats = support::lengthOf(line) == 1;
  for (const support::Run &run : line) {
    int64_t end = repeats ? keys : run.end;
    MaskEffect effect = effectOf(run, end - begin, logical);
    Span part{std::max(begin, limits.first), std::min(end - 1, limits.last)};
    begin = end;
    if (effect == MaskEffect::Neither)
      return std::nullopt;
    if (effect == MaskEffect::Hidden || part.last < part.first)
      continue;
    bool first = seen.last < seen.first;
    if (!first && part.first != seen.last + 1)
      return std::nullopt;
    seen = {first ? part.first : seen.first, part.last};
  }
  return seen;
}

Span limitsOf(const Visibility &rule, int64_t row, int64_t keys) {
  if (!rule.causal)
    return {0, keys - 1};
  int64_t last = row + rule.offset, first = rule.window ? last - *rule.window + 1 : 0;
  return {std::max<int64_t>(first, 0), std::min(last, keys - 1)};
}

} // namespace

static std::optional<Visibility> readRule(const KnownMask &mask, int64_t rows, int64_t keys,
                                          const Visibility &also) {
  const support::Sizes &shape = mask.elements->shape();
  bool oneLine = shape.size() < 2 || !mask.elements->varies(shape.size() - 2);
  std::optional<Visibility> rule;
  RuleFinder finder(keys);
  auto addRow = [&](int64_t row, const support::Runs &line) {
    auto span = spanOf(line, keys, mask.logical, limitsOf(also, row, keys));
    return span && finder.add(*span);
  };
  bool all = forEachLine(mask, [&](int64_t row, const support::Runs &line) {
    for (int64_t i = row; i < (oneLine ? rows : row + 1); ++i)
      if (!addRow(i, line))
        return false;
    if (!oneLine && row + 1 < rows)
      return true;
    // Compare with the rule of the other leading indices.
    Visibility found = std::exchange(finder, RuleFinder(keys)).rule;
    bool same = !rule || *rule == found;
    rule = found;
    return same;
  });
  return all && rule ? std::optional(simplest(*rule, rows, keys)) : std::nullopt;
}

std::optional<std::vector<Span>> raise::spansOf(const KnownMask &mask, int64_t rows, int64_t keys,
                                                const Visibility &also) {
  const support::Sizes &shape = mask.elements->shape();
  for (size_t d = 0; d + 2 < shape.size(); ++d)
    if (mask.elements->varies(d))
      return std::nullopt;
  bool oneLine = shape.size() < 2 || !mask.elements->varies(shape.size() - 2);
  std::vector<Span> spans;
  bool all = forEachLine(mask, [&](int64_t row, const support::Runs &line) {
    for (int64_t i = row; i < (oneLine ? rows : row + 1); ++i) {
      auto span = spanOf(line, keys, mask.logical, limitsOf(also, i, keys));
      if (!span)
        return false;
      spans.push_back(*span);
    }
    return true;
  });
  return all && int64_t(spans.size()) == rows ? std::optional(std::move(spans)) : std::nullopt;
}

std::optional<Visibility> MaskReader::ruleOf(const KnownMask &mask, int64_t rows, int64_t keys,
                                             const Visibility &also) {
  if (rows == 0 || keys == 0)
    return std::nullopt;
  auto [found, added] =
      read.try_emplace({mask.key, rows, keys, also.causal, also.offset, also.window});
  if (added)
    found->second = readRule(mask, rows, keys, also);
  return found->second;
}

std::optional<Visibility> MaskReader::ruleOf(Value mask, int64_t rows, int64_t keys,
                                             const Visibility &also) {
  auto known = mask ? knownMask(mask) : std::nullopt;
  return known ? ruleOf(*known, rows, keys, also) : std::nullopt;
}
