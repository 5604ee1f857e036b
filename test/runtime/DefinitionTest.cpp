// A definition has the elements of the same tensor computed densely, whatever way it is read.
#include "lib/support/Definition.h"

#include <gtest/gtest.h>
#include <random>

using namespace llmc::support;

namespace {

struct Dense {
  Sizes shape;
  std::vector<double> data;

  double &at(const Sizes &index) {
    int64_t i = 0;
    for (size_t d = 0; d < shape.size(); ++d)
      i = i * shape[d] + index[d];
    return data[i];
  }
};

template <class Visit> void forEachIndex(const Sizes &shape, Visit visit) {
  Sizes index(shape.size(), 0);
  int64_t count = 1;
  for (int64_t size : shape)
    count *= size;
  for (int64_t n = 0; n < count; ++n) {
    int64_t rest = n;
    for (size_t d = shape.size(); d-- > 0; rest /= shape[d])
      index[d] = rest % shape[d];
    visit(index);
  }
}

template <class At> Dense fill(const Sizes &shape, At at) {
  Dense out{shape, {}};
  forEachIndex(shape, [&](const Sizes &index) { out.data.push_back(at(index)); });
  return out;
}

// Holds a tensor both ways.
struct Both {
  DefinitionRef definition;
  Dense dense;
};

void expectEqual(Both &both, const std::string &what) {
  const Sizes &shape = both.definition->shape();
  ASSERT_EQ(shape, both.dense.shape) << what;
  forEachIndex(shape, [&](const Sizes &index) {
    for (size_t dim = 0; dim < shape.size(); ++dim) {
      if (index[dim])
        continue;
      Runs line;
      Status status = both.definition->line(index, dim, line);
      ASSERT_TRUE(bool(status)) << what;
      ASSERT_EQ(lengthOf(line), shape[dim]) << what;
      Sizes at = index;
      int64_t begin = 0;
      for (const Run &run : line) {
        for (int64_t i = begin; i < run.end; ++i) {
          at[dim] = i;
          EXPECT_EQ((Piece{run.first, run.step}.at(i - begin)), both.dense.at(at)) << what;
          EXPECT_TRUE(both.definition->varies(dim) || both.dense.at(at) == both.dense.at(index))
              << what;
        }
        begin = run.end;
      }
    }
  });
}

class Drawer {
public:
  explicit Drawer(unsigned seed) : random_(seed) {}

  int64_t below(int64_t limit) { return int64_t(random_() % uint64_t(limit)); }

  // Draws positions along a dim, or few numbers, of which dims repeat.
  Both leaf(const Sizes &shape) {
    Sizes strides(shape.size(), 0);
    bool positions = below(2);
    size_t along = below(shape.size());
    int64_t start = below(5) - 2, step = below(5) - 2, salt = below(97);
    for (size_t d = 0; d < shape.size(); ++d)
      strides[d] = positions ? d == along : below(2) * (d + 1);
    auto at = [=](int64_t i) {
      return positions ? double(start + step * i) : double((i * 7919 + salt) % 3) - 0.5 * (salt % 2);
    };
    return {defineStored(shape, strides, at), fill(shape, [&](const Sizes &index) {
              int64_t i = 0;
              for (size_t d = 0; d < shape.size(); ++d)
                i += index[d] * strides[d];
              return at(i);
            })};
  }

  // The types of results hold whole numbers to 6, so that others are rounded (here: clamped).
  Both combined(const Sizes &shape, int depth) {
    static const Combine kinds[] = {
        Combine::Equal, Combine::NotEqual, Combine::Less, Combine::LessOrEqual, Combine::Greater,
        Combine::GreaterOrEqual, Combine::Select, Combine::Add, Combine::Subtract,
        Combine::Multiply, Combine::Negate, Combine::Minimum, Combine::Maximum, Combine::Copy,
        Combine::IsNotZero, Combine::Other};
    Combine kind = kinds[below(std::size(kinds))];
    bool one = kind == Combine::Negate || kind == Combine::Copy || kind == Combine::IsNotZero;
    size_t count = one ? 1 : kind == Combine::Select ? 3 : 2;
    std::vector<Both> parts;
    std::vector<DefinitionRef> operands;
    for (size_t i = 0; i < count; ++i) {
      parts.push_back(draw(shape, depth - 1));
      operands.push_back(parts.back().definition);
    }
    auto compute = [kind](const std::vector<double> &x) {
      double y = kind == Combine::Equal            ? x[0] == x[1]
                 : kind == Combine::NotEqual       ? x[0] != x[1]
                 : kind == Combine::Less           ? x[0] < x[1]
                 : kind == Combine::LessOrEqual    ? x[0] <= x[1]
                 : kind == Combine::Greater        ? x[0] > x[1]
                 : kind == Combine::GreaterOrEqual ? x[0] >= x[1]
                 : kind == Combine::Select         ? (x[0] != 0 ? x[1] : x[2])
                 : kind == Combine::Add            ? x[0] + x[1]
                 : kind == Combine::Subtract       ? x[0] - x[1]
                 : kind == Combine::Multiply       ? x[0] * x[1]
                 : kind == Combine::Negate         ? -x[0]
                 : kind == Combine::Minimum        ? std::min(x[0], x[1])
                 : kind == Combine::Maximum        ? std::max(x[0], x[1])
                 : kind == Combine::Copy           ? x[0]
                 : kind == Combine::IsNotZero      ? x[0] != 0
                                                   : x[0] * x[0] - x[1];
      return std::clamp(y, -6.0, 6.0);
    };
    Combination how{kind, -6, 6, [compute](const std::vector<double> &x) -> Result<double> {
                      return compute(x);
                    }};
    return {defineCombined(how, operands), fill(shape, [&](const Sizes &index) {
              std::vector<double> x;
              for (Both &part : parts)
                x.push_back(part.dense.at(index));
              return compute(x);
            })};
  }

  Both viewed(const Sizes &shape, int depth) {
    Sizes own;
    std::vector<ViewedDim> dims;
    for (size_t d = shape.size(); d-- > 0;) { // reversed: a transposition
      int64_t step = below(3) + 1, start = below(3);
      bool backward = below(2), repeats = below(4) == 0;
      own.push_back(start + step * shape[d]);
      dims.push_back({backward ? start + step * (shape[d] - 1) : start, repeats ? -1 : int(d),
                      backward ? -step : step});
    }
    Both of = draw(own, depth - 1);
    return {defineView(of.definition, shape, dims), fill(shape, [&](const Sizes &index) {
              Sizes from;
              for (const ViewedDim &dim : dims)
                from.push_back(dim.start + (dim.dim < 0 ? 0 : dim.step * index[dim.dim]));
              return of.dense.at(from);
            })};
  }

  Both triangle(const Sizes &shape, int depth) {
    Both of = draw(shape, depth - 1);
    int64_t k = below(7) - 3;
    bool upper = below(2);
    size_t rank = shape.size();
    return {defineTriangle(of.definition, k, upper), fill(shape, [&](const Sizes &index) {
              int64_t difference = index[rank - 1] - index[rank - 2];
              return (upper ? difference >= k : difference <= k) ? of.dense.at(index) : 0;
            })};
  }

  Both joined(const Sizes &shape, int depth) {
    size_t axis = below(shape.size());
    int64_t first = shape[axis] > 1 ? 1 + below(shape[axis] - 1) : 1;
    Sizes one = shape, two = shape;
    one[axis] = first;
    two[axis] = shape[axis] - first;
    Both a = draw(one, depth - 1);
    if (two[axis] == 0)
      return a;
    Both b = draw(two, depth - 1);
    return {defineJoined({a.definition, b.definition}, axis), fill(shape, [&](Sizes index) {
              if (index[axis] < first)
                return a.dense.at(index);
              index[axis] -= first;
              return b.dense.at(index);
            })};
  }

  Both replaced(const Sizes &shape, int depth) {
    Sizes own, start;
    for (int64_t size : shape) {
      own.push_back(1 + below(size));
      start.push_back(below(size - own.back() + 1));
    }
    Both base = draw(shape, depth - 1), part = draw(own, depth - 1);
    return {defineReplaced(base.definition, part.definition, start),
            fill(shape, [&](Sizes index) {
              Sizes inside;
              for (size_t d = 0; d < shape.size(); ++d)
                inside.push_back(index[d] - start[d]);
              for (size_t d = 0; d < shape.size(); ++d)
                if (inside[d] < 0 || inside[d] >= own[d])
                  return base.dense.at(index);
              return part.dense.at(inside);
            })};
  }

  Both draw(const Sizes &shape, int depth) {
    if (depth == 0)
      return leaf(shape);
    switch (below(8)) {
    case 0: return viewed(shape, depth);
    case 1: return triangle(shape, depth);
    case 2: return joined(shape, depth);
    case 3: return replaced(shape, depth);
    default: return combined(shape, depth);
    }
  }

private:
  std::mt19937 random_;
};

} // namespace

TEST(Definition, HasTheElementsOfTheDenseTensor) {
  for (unsigned seed = 1; seed <= 1500; ++seed) {
    Drawer drawer(seed);
    Sizes shape{1 + drawer.below(2), 1 + drawer.below(6), 1 + drawer.below(9)};
    Both both = drawer.draw(shape, 1 + int(drawer.below(4)));
    expectEqual(both, "seed " + std::to_string(seed));
    if (HasFatalFailure())
      return;
  }
}

TEST(Definition, FindsTheIntervalsOfAllRows) {
  int rules = 0;
  for (unsigned seed = 1; seed <= 600; ++seed) {
    Drawer drawer(seed);
    int64_t rows = 1 + drawer.below(7), keys = 1 + drawer.below(7);
    // Draw an interval a row, and with some seeds change one element.
    std::vector<std::pair<int64_t, int64_t>> drawn;
    for (int64_t row = 0; row < rows; ++row) {
      int64_t first = drawer.below(keys + 1);
      drawn.push_back({first, first + drawer.below(keys - first + 1)});
    }
    int64_t odd = drawer.below(2) ? drawer.below(rows * keys) : -1;
    auto at = [&](int64_t i) {
      bool inside = drawn[i / keys].first <= i % keys && i % keys < drawn[i / keys].second;
      double hidden = seed % 2 ? -std::numeric_limits<double>::infinity() : -1e9;
      return i == odd ? 2.5 : inside ? 0 : hidden;
    };
    auto rule = intervalRuleOf(*defineStored({1, rows, keys}, {0, keys, 1}, at), 0);
    ASSERT_TRUE(bool(rule));
    EXPECT_TRUE(rule->has_value() || odd >= 0) << seed;
    if (!*rule)
      continue;
    ++rules;
    for (int64_t i = 0; i < rows * keys; ++i) {
      const IntervalRule &is = **rule;
      bool inside = is.first[i / keys] <= i % keys && i % keys < is.last[i / keys];
      EXPECT_EQ(inside ? is.inside : is.outside, at(i)) << seed << " at " << i;
    }
  }
  EXPECT_GT(rules, 250);
}

TEST(Definition, AnAlmostCausalMaskOf131072TokensIsNoRule) {
  const int64_t tokens = 131072;
  auto keys = defineStored({tokens, tokens}, {0, 1}, [](int64_t i) { return double(i); });
  auto rows = defineStored({tokens, tokens}, {1, 0}, [](int64_t i) { return double(i); });
  auto number = [&](double x) {
    return defineBroadcast(defineStored({1}, {0}, [x](int64_t) { return x; }), {tokens, tokens});
  };
  auto op = [](Combine kind, std::vector<DefinitionRef> operands) {
    Combination how;
    how.kind = kind;
    how.compute = [kind](const std::vector<double> &x) -> Result<double> {
      return kind == Combine::Equal         ? double(x[0] == x[1])
             : kind == Combine::LessOrEqual ? double(x[0] <= x[1])
             : kind == Combine::Multiply    ? x[0] * x[1]
                                            : x[0] - x[1];
    };
    return defineCombined(how, std::move(operands));
  };
  DefinitionRef causal = op(Combine::LessOrEqual, {keys, rows});
  auto rule = intervalRuleOf(*causal, 1);
  ASSERT_TRUE(bool(rule) && rule->has_value());
  EXPECT_EQ((*rule)->last.back(), tokens);
  EXPECT_EQ((*rule)->last[77], 78);
  // One element, in row 100,000, differs.
  auto odd = op(Combine::Multiply, {op(Combine::Equal, {rows, number(100000)}),
                                    op(Combine::Equal, {keys, number(5)})});
  rule = intervalRuleOf(*op(Combine::Subtract, {causal, odd}), 1);
  ASSERT_TRUE(bool(rule));
  EXPECT_FALSE(rule->has_value());
}
