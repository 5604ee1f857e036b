#include "passes/6-emit/matmul/Equation.h"

using namespace mlir;

namespace llmc::emit {

namespace {

// Represents a letter, or letters that are contiguous with each other; stride 0 where a tensor
// lacks it.
struct Dim {
  int64_t size;
  std::array<int64_t, 3> strides; // lhs, rhs, out
};

using Dims = SmallVector<Dim, 4>;

} // namespace

// Returns the letters of `order` that occur exactly in the tensors of `where`, merged where
// possible.
static Dims collect(StringRef order, std::array<bool, 3> where, std::array<StringRef, 3> letters,
                    std::array<ArrayRef<int64_t>, 3> shapes) {
  Dims dims;
  for (char letter : order) {
    Dim dim{1, {0, 0, 0}};
    bool matches = true;
    for (int t = 0; t < 3; ++t) {
      size_t at = letters[t].find(letter);
      matches &= (at != StringRef::npos) == where[t];
      if (at == StringRef::npos)
        continue;
      dim.size = shapes[t][at];
      dim.strides[t] = 1;
      for (int64_t inner : shapes[t].drop_front(at + 1))
        dim.strides[t] *= inner;
    }
    if (!matches || dim.size == 1)
      continue;
    bool isOne = !dims.empty();
    for (int t = 0; t < 3 && isOne; ++t)
      isOne = dims.back().strides[t] == dim.strides[t] * dim.size;
    if (isOne)
      dims.back() = Dim{dims.back().size * dim.size, dim.strides};
    else
      dims.push_back(dim);
  }
  return dims;
}

FailureOr<MatmulCalls> matmulCalls(StringRef equation, ArrayRef<int64_t> lhs, ArrayRef<int64_t> rhs,
                                   ArrayRef<int64_t> out, bool accumulate) {
  auto [inputs, result] = equation.split("->");
  auto [left, right] = inputs.split(",");
  if (left.size() != lhs.size() || right.size() != rhs.size() || result.size() != out.size())
    return failure();
  std::array<StringRef, 3> letters{left, right, result};
  std::array<ArrayRef<int64_t>, 3> shapes{lhs, rhs, out};
  Dims batch = collect(result, {true, true, true}, letters, shapes);
  Dims m = collect(result, {true, false, true}, letters, shapes);
  Dims n = collect(result, {false, true, true}, letters, shapes);
  Dims k = collect(left, {true, true, false}, letters, shapes);

  MatmulCalls calls;
  // Vectors run along n, which should be what is contiguous in the result.
  calls.swapped = !m.empty() && m.back().strides[2] == 1;
  if (calls.swapped)
    std::swap(m, n);
  int a = calls.swapped ? 1 : 0, b = calls.swapped ? 0 : 1;
  auto last = [](const Dims &dims) { return dims.empty() ? Dim{1, {0, 0, 0}} : dims.back(); };
  Dim batchDim = last(batch), mDim = last(m), nDim = last(n), kDim = last(k);
  calls.shape = {batchDim.size,
                 mDim.size,
                 nDim.size,
                 kDim.size,
                 {batchDim.strides[a], mDim.strides[a], kDim.strides[a]},
                 {batchDim.strides[b], kDim.strides[b], nDim.strides[b]},
                 {batchDim.strides[2], mDim.strides[2], nDim.strides[2]},
                 accumulate};

  // Adds a call for every combination of the dims that are left. Sums over them accumulate, one
  // after the other: the bytes of two results may interleave.
  Dims outer;
  for (Dims *dims : {&batch, &m, &n, &k})
    outer.append(dims->begin(), dims->empty() ? dims->begin() : std::prev(dims->end()));
  int64_t count = 1;
  for (const Dim &dim : outer)
    count *= dim.size;
  for (int64_t i = 0; i < count; ++i) {
    MatmulCalls::Call call{0, 0, 0, accumulate};
    int64_t rest = i;
    for (const Dim &dim : llvm::reverse(outer)) {
      int64_t at = rest % dim.size;
      rest /= dim.size;
      call.a += at * dim.strides[a];
      call.b += at * dim.strides[b];
      call.c += at * dim.strides[2];
      call.accumulate |= at > 0 && dim.strides[2] == 0;
    }
    calls.calls.push_back(call);
  }
  return calls;
}

MatmulShape groupedShape(plan::GroupedMatmulOp op) {
  auto shape = [](Value v) { return cast<plan::BufferType>(v.getType()).getTensor().getShape(); };
  int64_t routes = ShapedType::getNumElements(shape(op.getRoutes()));
  MatmulShape s;
  if (op.isOuter()) {
    s.batch = shape(op.getOut())[0], s.m = shape(op.getOut())[1], s.n = shape(op.getOut())[2], s.k = routes;
    s.a = {0, 1, s.m}, s.b = {0, s.n, 1}, s.c = {s.m * s.n, s.n, 1};
  } else {
    s.batch = shape(op.getRhs())[0], s.m = routes, s.k = shape(op.getLhs()).back(), s.n = shape(op.getOut()).back();
    s.a = {0, s.k, 1}, s.c = {0, s.n, 1};
    s.b = op.getTransposed() ? std::array<int64_t, 3>{s.n * s.k, 1, s.k} : std::array<int64_t, 3>{s.k * s.n, s.n, 1};
  }
  return s;
}

} // namespace llmc::emit
