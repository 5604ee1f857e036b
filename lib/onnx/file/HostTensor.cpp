#include "lib/onnx/file/HostTensor.h"

#include <algorithm>
#include <cstring>

using namespace llmc::onnximport;

HostTensor::HostTensor(Element e, llvm::ArrayRef<int64_t> s) : element(e), shape(s) {
  int64_t n = countElements(s).value_or(0);
  if (isFloat())
    floats.resize(n);
  else
    ints.resize(n);
}

HostTensor HostTensor::vector(llvm::ArrayRef<int64_t> values) {
  HostTensor out(Element::I64, {static_cast<int64_t>(values.size())});
  std::copy(values.begin(), values.end(), out.ints.begin());
  return out;
}

void HostTensor::set(int64_t i, double value) {
  if (!floats.empty())
    floats[i] = element == Element::F64   ? value
                : element == Element::F32 ? static_cast<float>(value)
                                          : roundTo(element, value);
  else if (element == Element::Bool)
    ints[i] = value != 0;
  else
    set(i, truncated(value));
}

void HostTensor::set(int64_t i, int64_t value) {
  if (!floats.empty())
    set(i, static_cast<double>(value));
  else
    ints[i] = element == Element::Bool  ? value != 0
              : element == Element::I64 ? value
                                        : wrapTo(element, value);
}

std::optional<int64_t> llmc::onnximport::countElements(llvm::ArrayRef<int64_t> shape,
                                                       int64_t limit) {
  int64_t n = 1;
  bool empty = false;
  for (int64_t d : shape) {
    if (d < 0)
      return std::nullopt;
    if (d == 0) {
      empty = true;
      continue;
    }
    if (n > limit / d)
      return std::nullopt;
    n *= d;
  }
  return empty ? 0 : n;
}

std::optional<Shape> llmc::onnximport::broadcastShapes(llvm::ArrayRef<int64_t> a,
                                                       llvm::ArrayRef<int64_t> b) {
  Shape out(std::max(a.size(), b.size()));
  for (size_t i = 0; i < out.size(); ++i) {
    int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1;
    int64_t y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1)
      return std::nullopt;
    out[out.size() - 1 - i] = x == 1 ? y : x;
  }
  return out;
}

Shape llmc::onnximport::rowMajor(llvm::ArrayRef<int64_t> shape) {
  Shape s(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;)
    s[i - 1] = s[i] * shape[i];
  return s;
}

Shape llmc::onnximport::broadcastStrides(llvm::ArrayRef<int64_t> from,
                                         llvm::ArrayRef<int64_t> to) {
  Shape own = rowMajor(from), out(to.size(), 0);
  for (size_t i = 0; i < from.size(); ++i) {
    size_t at = to.size() - from.size() + i;
    out[at] = from[i] == 1 && to[at] != 1 ? 0 : own[i];
  }
  return out;
}

std::string llmc::onnximport::toText(llvm::ArrayRef<int64_t> shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i)
    out += (i ? ", " : "") + std::to_string(shape[i]);
  return out + "]";
}

// Copies elements by runs of trailing dims that step evenly together: a constant of equal elements is one.
template <class T>
static void takeRuns(const std::vector<T> &from, std::vector<T> &to, llvm::ArrayRef<int64_t> shape,
                     llvm::ArrayRef<int64_t> strides, int64_t offset) {
  size_t outer = shape.size();
  int64_t run = 1, step = 0;
  for (; outer > 0 && (run == 1 || shape[outer - 1] == 1 || strides[outer - 1] == step * run); --outer) {
    if (run == 1)
      step = strides[outer - 1];
    run *= shape[outer - 1];
  }
  forEachElement(shape.take_front(outer), {Shape(strides.take_front(outer))},
                 [&](int64_t n, llvm::ArrayRef<int64_t> at) {
                   const T *source = from.data() + offset + at[0];
                   T *target = to.data() + n * run;
                   if (step == 0)
                     std::fill_n(target, run, *source);
                   else if (step == 1)
                     std::copy_n(source, run, target);
                   else
                     for (int64_t i = 0; i < run; ++i)
                       target[i] = source[i * step];
                 });
}

HostTensor llmc::onnximport::takeStrided(const HostTensor &in, llvm::ArrayRef<int64_t> shape,
                                         llvm::ArrayRef<int64_t> strides, int64_t offset) {
  HostTensor out(in.element, shape);
  if (countElements(shape).value_or(0) == 0)
    return out;
  if (in.isFloat())
    takeRuns(in.floats, out.floats, shape, strides, offset);
  else
    takeRuns(in.ints, out.ints, shape, strides, offset);
  return out;
}

// Checks whether all slices along `dim` are equal by bits: equal NaNs are, and -0 and 0 are not.
template <class T>
static bool equalAlong(const std::vector<T> &values, llvm::ArrayRef<int64_t> shape, size_t dim) {
  int64_t inner = *countElements(shape.drop_front(dim + 1)), size = shape[dim],
          outer = inner ? *countElements(shape.take_front(dim)) : 0;
  for (int64_t o = 0; o < outer; ++o) {
    const T *first = values.data() + o * size * inner;
    for (int64_t k = 1; k < size; ++k)
      if (std::memcmp(first, first + k * inner, inner * sizeof(T)))
        return false;
  }
  return true;
}

HostTensor llmc::onnximport::collapseEqualDims(HostTensor in) {
  for (size_t d = 0; d < in.shape.size(); ++d) {
    if (in.shape[d] <= 1 || !(in.isFloat() ? equalAlong(in.floats, in.shape, d)
                                           : equalAlong(in.ints, in.shape, d)))
      continue;
    Shape shape = in.shape, strides = rowMajor(in.shape);
    shape[d] = 1;
    in = takeStrided(in, shape, strides);
  }
  return in;
}
