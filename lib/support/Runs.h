// Represents a line of numbers as runs: equal numbers, or whole numbers that are evenly spaced. What
// is computed on runs is exact, and takes time by their number, not by that of the elements.
// Tests: test/runtime/DefinitionTest.cpp.
#ifndef LLMC_LIB_SUPPORT_RUNS_H
#define LLMC_LIB_SUPPORT_RUNS_H

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

namespace llmc::support {

// Bounds the whole numbers that a double holds exactly.
inline constexpr double kMostWhole = 9007199254740992.0; // 2^53

// Holds the elements from the end of the previous run to `end`: first + step * k. With a step other
// than 0 all elements are whole numbers of at most kMostWhole in magnitude.
struct Run {
  int64_t end;
  double first, step;
};
using Runs = std::vector<Run>;

// Holds the elements of one operand in a segment in which no run of any operand ends.
struct Piece {
  double first, step;
  double at(int64_t k) const { return step == 0 ? first : first + step * double(k); }
};

inline int64_t lengthOf(const Runs &runs) { return runs.empty() ? 0 : runs.back().end; }
inline bool isWhole(double x) { return std::fabs(x) <= kMostWhole && x == std::trunc(x); }
// Compares by bits, so that equal NaNs are one run, and 0 and -0 are two.
inline bool sameBits(double a, double b) { return std::memcmp(&a, &b, sizeof a) == 0; }

// Appends `count` elements, to the last run if they continue a run of equal ones.
inline void append(Runs &runs, int64_t count, double first, double step = 0) {
  if (count <= 0)
    return;
  step = count == 1 ? 0 : step;
  int64_t end = lengthOf(runs) + count;
  if (step == 0 && !runs.empty() && runs.back().step == 0 && sameBits(runs.back().first, first))
    runs.back().end = end;
  else
    runs.push_back({end, first, step});
}

// Appends `count` elements, at(0), at(1), ..., as runs.
template <class At> void appendAll(Runs &runs, int64_t count, At at) {
  for (int64_t i = 0; i < count;) {
    double first = at(i);
    int64_t end = i + 1;
    while (end < count && sameBits(at(end), first))
      ++end;
    double step = end == i + 1 && end < count ? at(end) - first : 0;
    if (!isWhole(first) || !isWhole(step))
      step = 0; // an infinity, or a fraction
    if (step != 0) {
      auto follows = [&](int64_t j) {
        return isWhole(at(j)) && at(j) == first + step * double(j - i);
      };
      while (end < count && follows(end))
        ++end;
      // Keeps two numbers that happen to differ apart: they are no progression.
      if (end < i + 3) {
        end = i + 1;
        step = 0;
      }
    }
    append(runs, end - i, first, step);
    i = end;
  }
}

// Calls visit(begin, end, pieces) for the segments of operands of equal length, at least one.
template <class Visit>
void forEachSegment(const std::vector<const Runs *> &operands, Visit visit) {
  std::vector<size_t> next(operands.size(), 0);
  std::vector<int64_t> begins(operands.size(), 0);
  std::vector<Piece> pieces(operands.size());
  int64_t length = lengthOf(*operands.front());
  for (int64_t begin = 0; begin < length;) {
    int64_t end = length;
    for (size_t i = 0; i < operands.size(); ++i) {
      const Run &run = (*operands[i])[next[i]];
      end = std::min(end, run.end);
      pieces[i] = {Piece{run.first, run.step}.at(begin - begins[i]), run.step};
    }
    visit(begin, end, pieces);
    for (size_t i = 0; i < operands.size(); ++i)
      if ((*operands[i])[next[i]].end == end) {
        begins[i] = end;
        ++next[i];
      }
    begin = end;
  }
}

// Tells how a number compares with another: Unordered if one is NaN.
enum class Order { Less, Equal, Greater, Unordered };
inline Order orderOf(double a, double b) {
  return a < b ? Order::Less : a == b ? Order::Equal : a > b ? Order::Greater : Order::Unordered;
}

// Calls visit(begin, end, order of a and b) for the parts of `count` elements in which the order is
// one. The difference of two progressions is monotone, so each order is one part: a binary search
// finds where it ends.
template <class Visit> void splitByOrder(Piece a, Piece b, int64_t count, Visit visit) {
  auto at = [&](int64_t k) { return orderOf(a.at(k), b.at(k)); };
  for (int64_t begin = 0; begin < count;) {
    Order order = at(begin);
    int64_t end = count;
    if (a.step != b.step && at(count - 1) != order) {
      int64_t last = begin;
      end = count - 1;
      while (end - last > 1) {
        int64_t middle = last + (end - last) / 2;
        (at(middle) == order ? last : end) = middle;
      }
    }
    visit(begin, end, order);
    begin = end;
  }
}

// Appends the elements start, start + step, ... of `from`, `count` of them.
inline void appendEvery(Runs &out, const Runs &from, int64_t start, int64_t step, int64_t count) {
  auto runAt = [&](int64_t i) {
    return std::upper_bound(from.begin(), from.end(), i,
                            [](int64_t at, const Run &run) { return at < run.end; });
  };
  for (int64_t k = 0; k < count;) {
    int64_t at = start + step * k;
    auto run = runAt(at);
    int64_t begin = run == from.begin() ? 0 : std::prev(run)->end;
    int64_t more = step == 0  ? count - k
                   : step > 0 ? (run->end - at + step - 1) / step
                              : (at - begin) / -step + 1;
    more = std::min(more, count - k);
    append(out, more, Piece{run->first, run->step}.at(at - begin), run->step * double(step));
    k += more;
  }
}

} // namespace llmc::support

#endif // LLMC_LIB_SUPPORT_RUNS_H
