#include "lib/support/Definition.h"

#include <array>
#include <bit>
#include <optional>

using namespace llmc::support;

// Bounds the elements that one definition computes one by one: 2^27, more than a constant may have.
static constexpr int64_t mostSingle = int64_t(1) << 27;

Result<double> llmc::support::elementAt(const Definition &definition, const Sizes &index) {
  size_t dim = index.size() - 1;
  Runs line, element;
  if (Status s = definition.line(index, dim, line); !s)
    return s.takeError();
  appendEvery(element, line, index[dim], 1, 1);
  return element.front().first;
}

namespace {

//===-- Stored elements -------------------------------------------------------===//

class Stored : public Definition {
public:
  Stored(Sizes shape, Sizes strides, std::function<double(int64_t)> at)
      : Definition(std::move(shape)), strides_(std::move(strides)), at_(std::move(at)),
        last_(strides_.size()) {}

  bool varies(size_t dim) const override { return strides_[dim] != 0 && shape()[dim] > 1; }

  Status line(const Sizes &index, size_t dim, Runs &out) const override {
    int64_t from = 0, stride = strides_[dim], count = shape()[dim];
    for (size_t d = 0; d < strides_.size(); ++d)
      from += d == dim ? 0 : index[d] * strides_[d];
    if (stride == 0) {
      append(out, count, at_(from));
      return ok();
    }
    // The keys of all rows are the same line.
    Read &last = last_[dim];
    if (last.runs.empty() || last.from != from) {
      last.from = from;
      last.runs.clear();
      appendAll(last.runs, count, [&](int64_t i) { return at_(from + i * stride); });
    }
    appendEvery(out, last.runs, 0, 1, count);
    return ok();
  }

private:
  struct Read {
    int64_t from = 0;
    Runs runs;
  };
  Sizes strides_;
  std::function<double(int64_t)> at_;
  mutable std::vector<Read> last_;
};

//===-- Elementwise ops -------------------------------------------------------===//

class Combined : public Definition {
public:
  Combined(Combination how, std::vector<DefinitionRef> operands)
      : Definition(operands.front()->shape()), how_(std::move(how)),
        operands_(std::move(operands)) {}

  bool varies(size_t dim) const override {
    return std::any_of(operands_.begin(), operands_.end(),
                       [&](const DefinitionRef &operand) { return operand->varies(dim); });
  }

  Status line(const Sizes &index, size_t dim, Runs &out) const override {
    std::vector<Runs> lines(operands_.size());
    std::vector<const Runs *> pointers;
    for (size_t i = 0; i < operands_.size(); ++i) {
      if (Status s = operands_[i]->line(index, dim, lines[i]); !s)
        return s;
      pointers.push_back(&lines[i]);
    }
    Status status;
    forEachSegment(pointers, [&](int64_t begin, int64_t end, const std::vector<Piece> &pieces) {
      if (status)
        status = combine(pieces, end - begin, out);
    });
    return status;
  }

private:
  using Pieces = std::vector<Piece>;

  Status combine(const Pieces &pieces, int64_t count, Runs &out) const {
    bool equal = std::all_of(pieces.begin(), pieces.end(),
                             [&](const Piece &piece) { return piece.step == 0 || count == 1; });
    if (equal)
      return repeat(pieces, count, out);
    switch (how_.kind) {
    case Combine::Equal: case Combine::NotEqual: case Combine::Less:
    case Combine::LessOrEqual: case Combine::Greater: case Combine::GreaterOrEqual:
      splitByOrder(pieces[0], pieces[1], count, [&](int64_t begin, int64_t end, Order order) {
        append(out, end - begin, holds(order));
      });
      return ok();
    case Combine::IsNotZero:
      splitByOrder(pieces[0], {0, 0}, count, [&](int64_t begin, int64_t end, Order order) {
        append(out, end - begin, order != Order::Equal);
      });
      return ok();
    case Combine::Select: case Combine::Minimum: case Combine::Maximum:
      return choose(pieces, count, out);
    default:
      if (auto sum = progressionOf(pieces))
        return appendExact(pieces, *sum, count, out);
      return single(pieces, count, out);
    }
  }

  double holds(Order order) const {
    bool less = order == Order::Less, same = order == Order::Equal, more = order == Order::Greater;
    switch (how_.kind) {
    case Combine::Equal: return same;
    case Combine::NotEqual: return !same;
    case Combine::Less: return less;
    case Combine::LessOrEqual: return less || same;
    case Combine::Greater: return more;
    default: return more || same;
    }
  }

  // Appends, part by part, the elements of the operand that a condition or an order chooses.
  Status choose(const Pieces &pieces, int64_t count, Runs &out) const {
    bool selects = how_.kind == Combine::Select, smaller = how_.kind == Combine::Minimum;
    Piece zero{0, 0}, a = pieces[selects ? 1 : 0], b = pieces[selects ? 2 : 1];
    Status status;
    splitByOrder(pieces[0], selects ? zero : b, count, [&](int64_t begin, int64_t end, Order order) {
      if (!status)
        return;
      bool first = selects ? order != Order::Equal
                           : order == (smaller ? Order::Less : Order::Greater);
      Piece chosen = first ? a : b;
      if (order == Order::Unordered && !selects)
        status = single(from(pieces, begin), end - begin, out);
      else
        status = appendExact(from(pieces, begin), {chosen.at(begin), chosen.step}, end - begin, out);
    });
    return status;
  }

  static Pieces from(const Pieces &pieces, int64_t begin) {
    Pieces out;
    for (const Piece &piece : pieces)
      out.push_back({piece.at(begin), piece.step});
    return out;
  }

  // Returns the progression that the op makes of progressions; nullopt if it is none.
  std::optional<Piece> progressionOf(const Pieces &p) const {
    for (const Piece &piece : p)
      if (!isWhole(piece.first))
        return std::nullopt;
    switch (how_.kind) {
    case Combine::Add: return Piece{p[0].first + p[1].first, p[0].step + p[1].step};
    case Combine::Subtract: return Piece{p[0].first - p[1].first, p[0].step - p[1].step};
    case Combine::Negate: return Piece{-p[0].first, -p[0].step};
    case Combine::Copy: return p[0];
    case Combine::Multiply:
      if (p[0].step != 0 && p[1].step != 0)
        return std::nullopt;
      return Piece{p[0].first * p[1].first, p[0].step * p[1].first + p[1].step * p[0].first};
    default: return std::nullopt;
    }
  }

  // Appends a progression if the result's type holds all of it exactly; else computes the elements.
  Status appendExact(const Pieces &pieces, Piece made, int64_t count, Runs &out) const {
    if (made.step == 0) // all elements are what the first one is
      return repeat(pieces, count, out);
    for (double end : {made.first, made.at(count - 1)})
      if (!isWhole(end) || end < how_.least || end > how_.most)
        return single(pieces, count, out);
    append(out, count, made.first, made.step);
    return ok();
  }

  Status repeat(const Pieces &pieces, int64_t count, Runs &out, int64_t at = 0) const {
    std::vector<double> &numbers = numbers_;
    numbers.clear();
    for (const Piece &piece : pieces)
      numbers.push_back(piece.at(at));
    auto value = computed(numbers);
    if (!value)
      return value.takeError();
    append(out, count, *value);
    return ok();
  }

  Status single(const Pieces &pieces, int64_t count, Runs &out) const {
    singles_ += count;
    if (singles_ > mostSingle)
      return error("has too many different elements to be read row by row");
    for (int64_t k = 0; k < count; ++k)
      if (Status s = repeat(pieces, 1, out, k); !s)
        return s;
    return ok();
  }

  // Returns the element for these numbers. Remembers one for each hash of numbers, of more hashes the more numbers differ: those
  // of a mask are few, those of a table of relative positions as many as its rows and columns.
  Result<double> computed(const std::vector<double> &numbers) const {
    constexpr size_t least = 64, most = size_t(1) << 17; // powers of two
    if (known_.empty() || (missed_ > known_.size() && known_.size() < most)) {
      known_.assign(known_.empty() ? least : 4 * known_.size(), {});
      missed_ = 0;
    }
    uint64_t hash = 0;
    for (double number : numbers) {
      // Multiplies by the golden ratio (Knuth, The Art of Computer Programming 3, section 6.4): its upper bits depend on all bits.
      hash = (hash ^ std::bit_cast<uint64_t>(number)) * 0x9E3779B97F4A7C15;
      hash ^= hash >> 32;
    }
    auto &[given, known] = known_[hash % known_.size()];
    if (!given.empty() && std::equal(given.begin(), given.end(), numbers.begin(), numbers.end(), sameBits))
      return known;
    ++missed_;
    auto value = how_.compute(numbers);
    if (value)
      given = numbers, known = *value;
    return value;
  }

  Combination how_;
  std::vector<DefinitionRef> operands_;
  mutable std::vector<std::pair<std::vector<double>, double>> known_; // by their hash
  mutable size_t missed_ = 0;                                          // numbers that were not known
  mutable std::vector<double> numbers_;
  mutable int64_t singles_ = 0;
};

//===-- Movement --------------------------------------------------------------===//

class Viewed : public Definition {
public:
  Viewed(DefinitionRef of, Sizes shape, std::vector<ViewedDim> dims)
      : Definition(std::move(shape)), of_(std::move(of)), dims_(std::move(dims)) {}

  bool varies(size_t dim) const override {
    for (size_t d = 0; d < dims_.size(); ++d)
      if (dims_[d].dim == int(dim))
        return shape()[dim] > 1 && dims_[d].step != 0 && of_->varies(d);
    return false;
  }

  Status line(const Sizes &index, size_t dim, Runs &out) const override {
    Sizes from;
    size_t along = dims_.size();
    for (size_t d = 0; d < dims_.size(); ++d) {
      bool runs = dims_[d].dim == int(dim);
      from.push_back(dims_[d].start +
                     (dims_[d].dim < 0 || runs ? 0 : dims_[d].step * index[dims_[d].dim]));
      if (runs)
        along = d;
    }
    int64_t count = shape()[dim];
    if (along == dims_.size()) {
      auto element = elementAt(*of_, from);
      if (!element)
        return element.takeError();
      append(out, count, *element);
      return ok();
    }
    if (dims_[along].start == 0 && dims_[along].step == 1 && count == of_->shape()[along])
      return of_->line(from, along, out);
    Runs whole;
    if (Status s = of_->line(from, along, whole); !s)
      return s;
    appendEvery(out, whole, dims_[along].start, dims_[along].step, count);
    return ok();
  }

private:
  DefinitionRef of_;
  std::vector<ViewedDim> dims_;
};

class Triangle : public Definition {
public:
  Triangle(DefinitionRef of, int64_t k, bool upper)
      : Definition(of->shape()), of_(std::move(of)), k_(k), upper_(upper) {}

  bool varies(size_t dim) const override {
    return dim + 2 >= shape().size() || of_->varies(dim);
  }

  Status line(const Sizes &index, size_t dim, Runs &out) const override {
    int64_t rank = shape().size(), count = shape()[dim], begin = 0, end = count;
    if (int64_t(dim) == rank - 1)
      (upper_ ? begin : end) = index[rank - 2] + k_ + (upper_ ? 0 : 1);
    else if (int64_t(dim) == rank - 2)
      (upper_ ? end : begin) = index[rank - 1] - k_ + (upper_ ? 1 : 0);
    else if (int64_t difference = index[rank - 1] - index[rank - 2];
             upper_ ? difference < k_ : difference > k_)
      end = 0;
    begin = std::clamp<int64_t>(begin, 0, count);
    end = std::clamp<int64_t>(end, begin, count);
    Runs whole;
    if (Status s = of_->line(index, dim, whole); !s)
      return s;
    append(out, begin, 0);
    appendEvery(out, whole, begin, 1, end - begin);
    append(out, count - end, 0);
    return ok();
  }

private:
  DefinitionRef of_;
  int64_t k_;
  bool upper_;
};

Sizes joinedShape(const std::vector<DefinitionRef> &parts, size_t axis) {
  Sizes shape = parts.front()->shape();
  for (size_t i = 1; i < parts.size(); ++i)
    shape[axis] += parts[i]->shape()[axis];
  return shape;
}

class Joined : public Definition {
public:
  Joined(std::vector<DefinitionRef> parts, size_t axis)
      : Definition(joinedShape(parts, axis)), parts_(std::move(parts)), axis_(axis) {}

  bool varies(size_t dim) const override {
    return dim == axis_ || std::any_of(parts_.begin(), parts_.end(), [&](const DefinitionRef &p) {
             return p->varies(dim);
           });
  }

  Status line(const Sizes &index, size_t dim, Runs &out) const override {
    Sizes inside = index;
    if (dim == axis_) {
      inside[axis_] = 0;
      for (const DefinitionRef &part : parts_)
        if (Status s = part->line(inside, dim, out); !s)
          return s;
      return ok();
    }
    auto [part, at] = partAt(index[axis_]);
    inside[axis_] = at;
    return part->line(inside, dim, out);
  }

  size_t axis() const { return axis_; }
  // Returns the part that holds an index along the axis, and the index in it.
  std::pair<DefinitionRef, int64_t> partAt(int64_t at) const {
    size_t i = 0;
    while (at >= parts_[i]->shape()[axis_])
      at -= parts_[i++]->shape()[axis_];
    return {parts_[i], at};
  }

private:
  std::vector<DefinitionRef> parts_;
  size_t axis_;
};

class Replaced : public Definition {
public:
  Replaced(DefinitionRef base, DefinitionRef part, Sizes start)
      : Definition(base->shape()), base_(std::move(base)), part_(std::move(part)),
        start_(std::move(start)) {}

  bool varies(size_t dim) const override {
    return part_->shape()[dim] != shape()[dim] || part_->varies(dim) || base_->varies(dim);
  }

  Status line(const Sizes &index, size_t dim, Runs &out) const override {
    Sizes inside = index;
    for (size_t d = 0; d < start_.size(); ++d) {
      inside[d] = d == dim ? 0 : index[d] - start_[d];
      if (d != dim && (inside[d] < 0 || inside[d] >= part_->shape()[d]))
        return base_->line(index, dim, out);
    }
    Runs before, between;
    if (Status s = base_->line(index, dim, before); !s)
      return s;
    if (Status s = part_->line(inside, dim, between); !s)
      return s;
    int64_t begin = start_[dim], count = part_->shape()[dim], end = begin + count;
    appendEvery(out, before, 0, 1, begin);
    appendEvery(out, between, 0, 1, count);
    appendEvery(out, before, end, 1, shape()[dim] - end);
    return ok();
  }

private:
  DefinitionRef base_, part_;
  Sizes start_;
};

} // namespace

DefinitionRef llmc::support::defineStored(Sizes shape, Sizes strides,
                                          std::function<double(int64_t)> at) {
  return std::make_shared<Stored>(std::move(shape), std::move(strides), std::move(at));
}
DefinitionRef llmc::support::defineCombined(Combination how, std::vector<DefinitionRef> operands) {
  return std::make_shared<Combined>(std::move(how), std::move(operands));
}
DefinitionRef llmc::support::defineView(DefinitionRef of, Sizes shape,
                                        std::vector<ViewedDim> dims) {
  // One index along the axis of a concatenation is in one part, which may repeat where others vary.
  if (auto *joined = dynamic_cast<const Joined *>(of.get()))
    if (size_t axis = joined->axis(); dims[axis].dim < 0) {
      auto [part, start] = joined->partAt(dims[axis].start);
      dims[axis].start = start;
      return defineView(std::move(part), std::move(shape), std::move(dims));
    }
  return std::make_shared<Viewed>(std::move(of), std::move(shape), std::move(dims));
}
DefinitionRef llmc::support::defineBroadcast(DefinitionRef of, const Sizes &shape) {
  if (of->shape() == shape)
    return of;
  std::vector<ViewedDim> dims;
  size_t added = shape.size() - of->shape().size();
  for (size_t d = 0; d < of->shape().size(); ++d)
    dims.push_back({0, of->shape()[d] == 1 ? -1 : int(d + added), 1});
  return defineView(std::move(of), shape, std::move(dims));
}
DefinitionRef llmc::support::defineTriangle(DefinitionRef of, int64_t k, bool upper) {
  return std::make_shared<Triangle>(std::move(of), k, upper);
}
DefinitionRef llmc::support::defineJoined(std::vector<DefinitionRef> parts, size_t axis) {
  return std::make_shared<Joined>(std::move(parts), axis);
}
DefinitionRef llmc::support::defineReplaced(DefinitionRef base, DefinitionRef part, Sizes start) {
  return std::make_shared<Replaced>(std::move(base), std::move(part), std::move(start));
}

//===-- Rules -----------------------------------------------------------------===//

namespace {

// Collects, for each of the two numbers of a tensor, the interval that it takes in each row.
struct Intervals {
  std::optional<double> number;
  bool consecutive = true;
  std::vector<int64_t> first, last;

  // Returns whether this is, or becomes, the number `x`.
  bool takes(double x) {
    if (!number)
      number = x;
    return sameBits(*number, x);
  }
  void add(size_t row, int64_t begin, int64_t end) {
    first.resize(row + 1, 0);
    last.resize(row + 1, 0);
    consecutive &= first[row] == last[row];
    first[row] = begin;
    last[row] = end;
  }
};

} // namespace

// Returns the dims of rows and keys, which are all that vary; nullopt if there are more than two.
static std::optional<std::pair<size_t, size_t>> matrixDims(const Definition &definition) {
  std::vector<size_t> dims;
  for (size_t d = 0; d < definition.shape().size(); ++d)
    if (definition.varies(d))
      dims.push_back(d);
  for (size_t d = definition.shape().size(); dims.size() < 2 && d-- > 0;)
    if (std::find(dims.begin(), dims.end(), d) == dims.end())
      dims.push_back(d);
  std::sort(dims.begin(), dims.end());
  return dims.size() == 2 ? std::optional(std::pair(dims[0], dims[1])) : std::nullopt;
}

Result<std::optional<IntervalRule>>
llmc::support::intervalRuleOf(const Definition &definition, double preferred) {
  std::optional<IntervalRule> none;
  auto dims = matrixDims(definition);
  if (!dims)
    return none;
  size_t rows = definition.shape()[dims->first];
  std::array<Intervals, 2> intervals;
  Sizes index(definition.shape().size(), 0);
  Runs line;
  for (size_t row = 0; row < rows; ++row) {
    index[dims->first] = row;
    line.clear();
    if (Status s = definition.line(index, dims->second, line); !s)
      return s.takeError();
    int64_t begin = 0;
    for (const Run &run : line) {
      bool second = run.step == 0 && !intervals[0].takes(run.first);
      if (run.step != 0 || (second && !intervals[1].takes(run.first)))
        return none;
      intervals[second].add(row, begin, run.end);
      begin = run.end;
    }
    if (!intervals[0].consecutive && !intervals[1].consecutive)
      return none;
  }
  size_t inside = !intervals[0].consecutive ? 1 : 0;
  if (intervals[1].consecutive && intervals[1].number && *intervals[1].number == preferred)
    inside = 1;
  Intervals &chosen = intervals[inside], &other = intervals[1 - inside];
  chosen.first.resize(rows, 0);
  chosen.last.resize(rows, 0);
  return std::optional(IntervalRule{dims->first, dims->second, std::move(chosen.first),
                                    std::move(chosen.last), *chosen.number,
                                    other.number.value_or(*chosen.number)});
}
