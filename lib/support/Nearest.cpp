#include "lib/support/Nearest.h"

#include <algorithm>

size_t llmc::support::editDistance(std::string_view from, std::string_view to) {
  // Keeps three rows of the table, for a swap looks two rows back.
  std::vector<size_t> before(to.size() + 1), last(to.size() + 1), row(to.size() + 1);
  for (size_t j = 0; j <= to.size(); ++j)
    last[j] = j;
  for (size_t i = 1; i <= from.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= to.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (from[i - 1] != to[j - 1])});
      if (i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last[to.size()];
}

std::string llmc::support::nearest(std::string_view word,
                                   const std::vector<std::string> &candidates) {
  constexpr size_t kLeastPrefix = 3, kLongest = 256; // longer words are no typing errors
  if (word.empty() || word.size() > kLongest)
    return {};
  std::string best;
  size_t least = std::max<size_t>(1, word.size() / 3) + 1;
  for (const std::string &candidate : candidates)
    if (size_t distance = editDistance(word, candidate); distance < std::min(least, std::max(word.size(), candidate.size()))) {
      least = distance;
      best = candidate;
    }
  for (size_t i = 0; best.empty() && i < candidates.size(); ++i) {
    std::string_view candidate = candidates[i];
    size_t shared = std::min(word.size(), candidate.size());
    if (shared >= kLeastPrefix && word.substr(0, shared) == candidate.substr(0, shared))
      best = candidate;
  }
  return best;
}

std::string llmc::support::didYouMean(std::string_view typed,
                                      const std::vector<std::string> &candidates) {
  std::string found = nearest(typed, candidates);
  return found.empty() ? "" : "; did you mean '" + found + "'?";
}
