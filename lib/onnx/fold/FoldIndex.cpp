// Evaluates ops on constants that gather or scatter elements.
#include "lib/onnx/fold/Fold.h"
#include "llvm/ADT/StringMap.h"

using namespace llmc;
using namespace llmc::onnximport;
using llmc::support::error;

namespace {

FoldResult one(HostTensor tensor) { return std::vector<HostTensor>{std::move(tensor)}; }

void copyElement(HostTensor &out, int64_t to, const HostTensor &in, int64_t from) {
  if (in.isFloat())
    out.floats[to] = in.floats[from];
  else
    out.ints[to] = in.ints[from];
}

// Counts negative indices from the end; returns -1 if the index is out of range.
int64_t normalIndex(int64_t index, int64_t size) {
  index = index < 0 ? index + size : index;
  return index >= 0 && index < size ? index : -1;
}

bool twoOperands(const FoldInput &in) {
  return in.get(0) && in.get(1) && !in.get(1)->isFloat();
}

FoldResult foldGather(const FoldInput &in) {
  if (!twoOperands(in))
    return error("needs data and integer indices");
  const HostTensor &data = *in.get(0), &ids = *in.get(1);
  auto axis = normalAxis(in.node.integer("axis", 0), data.shape.size());
  if (!axis)
    return error("axis ", in.node.integer("axis", 0), " is not one of ", data.shape.size(),
                 " dims");
  llvm::ArrayRef<int64_t> shape(data.shape);
  Shape result(shape.take_front(*axis));
  result.append(ids.shape.begin(), ids.shape.end());
  result.append(shape.begin() + *axis + 1, shape.end());
  if (auto s = checkHostSize(result); !s)
    return s.takeError();
  int64_t outer = *countElements(shape.take_front(*axis)), size = shape[*axis],
          inner = *countElements(shape.drop_front(*axis + 1)), n = ids.size();
  HostTensor out(data.element, result);
  for (int64_t j = 0; j < n; ++j) {
    int64_t row = normalIndex(ids.ints[j], size);
    if (row < 0)
      return error("index ", ids.ints[j], " is outside a dim of size ", size);
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t i = 0; i < inner; ++i)
        copyElement(out, (o * n + j) * inner + i, data, (o * size + row) * inner + i);
  }
  return one(std::move(out));
}

// Describes the index tuples of GatherND and ScatterND.
struct Tuples {
  int64_t depth = 0, count = 0, inner = 1;
  Shape strides;
};

llmc::support::Result<Tuples> tuplesOf(const HostTensor &data, const HostTensor &ids) {
  Tuples t;
  if (ids.shape.empty() || data.shape.empty())
    return error("needs data and indices of rank 1 or more");
  t.depth = ids.shape.back();
  if (t.depth < 1 || t.depth > static_cast<int64_t>(data.shape.size()))
    return error("index tuples of length ", t.depth, " into ", data.shape.size(), " dims");
  t.strides = rowMajor(data.shape);
  t.inner = *countElements(llvm::ArrayRef<int64_t>(data.shape).drop_front(t.depth));
  t.count = ids.size() / t.depth;
  return t;
}

int64_t offsetOf(const Tuples &t, const HostTensor &data, const HostTensor &ids, int64_t tuple) {
  int64_t offset = 0;
  for (int64_t d = 0; d < t.depth; ++d) {
    int64_t i = normalIndex(ids.ints[tuple * t.depth + d], data.shape[d]);
    if (i < 0)
      return -1;
    offset += i * t.strides[d];
  }
  return offset;
}

FoldResult foldGatherND(const FoldInput &in) {
  if (!twoOperands(in) || in.node.integer("batch_dims", 0))
    return error("needs data and integer indices, and batch_dims 0");
  const HostTensor &data = *in.get(0), &ids = *in.get(1);
  auto t = tuplesOf(data, ids);
  if (!t)
    return t.takeError();
  Shape shape(llvm::ArrayRef<int64_t>(ids.shape).drop_back());
  shape.append(data.shape.begin() + t->depth, data.shape.end());
  if (auto s = checkHostSize(shape); !s)
    return s.takeError();
  HostTensor out(data.element, shape);
  for (int64_t n = 0; n < t->count; ++n) {
    int64_t offset = offsetOf(*t, data, ids, n);
    if (offset < 0)
      return error("an index is outside shape ", toText(data.shape));
    for (int64_t i = 0; i < t->inner; ++i)
      copyElement(out, n * t->inner + i, data, offset + i);
  }
  return one(std::move(out));
}

FoldResult foldScatterND(const FoldInput &in) {
  if (!twoOperands(in) || !in.get(2) || in.node.text("reduction", "none") != "none")
    return error("needs data, integer indices and updates, and no reduction");
  const HostTensor &data = *in.get(0), &ids = *in.get(1), &updates = *in.get(2);
  auto t = tuplesOf(data, ids);
  if (!t)
    return t.takeError();
  if (updates.size() != t->count * t->inner || updates.isFloat() != data.isFloat())
    return error("updates of shape ", toText(updates.shape), " do not fit the indices");
  HostTensor out = data;
  for (int64_t n = 0; n < t->count; ++n) {
    int64_t offset = offsetOf(*t, data, ids, n);
    if (offset < 0)
      return error("an index is outside shape ", toText(data.shape));
    for (int64_t i = 0; i < t->inner; ++i)
      copyElement(out, offset + i, updates, n * t->inner + i);
  }
  return one(std::move(out));
}

FoldResult foldGatherElements(const FoldInput &in) {
  if (!twoOperands(in) || in.get(0)->shape.size() != in.get(1)->shape.size())
    return error("needs data and integer indices of one rank");
  const HostTensor &data = *in.get(0), &ids = *in.get(1);
  auto axis = normalAxis(in.node.integer("axis", 0), data.shape.size());
  if (!axis)
    return error("axis ", in.node.integer("axis", 0), " is not a dim");
  for (size_t d = 0; d < data.shape.size(); ++d)
    if (static_cast<int64_t>(d) != *axis && ids.shape[d] > data.shape[d])
      return error("indices of shape ", toText(ids.shape), " exceed data ", toText(data.shape));
  Shape strides = rowMajor(data.shape), others = strides;
  others[*axis] = 0;
  HostTensor out(data.element, ids.shape);
  bool outside = false;
  forEachElement(ids.shape, {others}, [&](int64_t n, llvm::ArrayRef<int64_t> at) {
    int64_t i = normalIndex(ids.ints[n], data.shape[*axis]);
    if (i < 0)
      outside = true;
    else
      copyElement(out, n, data, at[0] + i * strides[*axis]);
  });
  if (outside)
    return error("an index is outside a dim of size ", data.shape[*axis]);
  return one(std::move(out));
}

FoldResult foldCumSum(const FoldInput &in) {
  if (!twoOperands(in) || in.get(1)->size() != 1 || in.get(1)->isFloat())
    return error("needs data and an axis");
  HostTensor out = *in.get(0);
  auto axis = normalAxis(in.get(1)->ints[0], out.shape.size());
  if (!axis)
    return error("axis ", in.get(1)->ints[0], " is not one of ", out.shape.size(), " dims");
  bool reverse = in.node.integer("reverse", 0), exclusive = in.node.integer("exclusive", 0);
  Shape strides = rowMajor(out.shape), lanes = out.shape;
  int64_t size = out.shape[*axis], step = strides[*axis];
  lanes[*axis] = std::min<int64_t>(1, size);
  forEachElement(lanes, {strides}, [&](int64_t, llvm::ArrayRef<int64_t> at) {
    double sum = 0;
    int64_t whole = 0;
    for (int64_t k = 0; k < size; ++k) {
      int64_t i = at[0] + (reverse ? size - 1 - k : k) * step;
      double before = sum;
      int64_t wholeBefore = whole;
      if (out.isFloat())
        sum += out.floats[i];
      else
        whole = static_cast<int64_t>(uint64_t(whole) + uint64_t(out.ints[i]));
      if (out.isFloat())
        out.set(i, exclusive ? before : sum);
      else
        out.set(i, exclusive ? wholeBefore : whole);
    }
  });
  return one(std::move(out));
}

FoldResult foldTrilu(const FoldInput &in) {
  if (!in.get(0) || in.get(0)->shape.size() < 2 ||
      (in.get(1) && (in.get(1)->size() != 1 || in.get(1)->isFloat())))
    return error("needs a matrix and a scalar k");
  HostTensor out = *in.get(0);
  int64_t k = in.get(1) ? in.get(1)->ints[0] : 0;
  int64_t columns = out.shape.back(), rows = out.shape[out.shape.size() - 2];
  bool upper = in.node.integer("upper", 1);
  for (int64_t n = 0; n < out.size(); ++n) {
    int64_t row = n / columns % rows, column = n % columns;
    if (upper ? column - row < k : column - row > k)
      out.set(n, int64_t(0));
  }
  return one(std::move(out));
}

// Returns [rank, count]: a column of indices for each element that is not 0.
FoldResult foldNonZero(const FoldInput &in) {
  if (!in.get(0))
    return error("needs an operand");
  const HostTensor &x = *in.get(0);
  std::vector<int64_t> found;
  for (int64_t i = 0; i < x.size(); ++i)
    if (x.number(i) != 0)
      found.push_back(i);
  int64_t rank = x.shape.size(), count = found.size();
  Shape strides = rowMajor(x.shape);
  HostTensor out(Element::I64, {rank, count});
  for (int64_t d = 0; d < rank; ++d)
    for (int64_t i = 0; i < count; ++i)
      out.ints[d * count + i] = found[i] / strides[d] % x.shape[d];
  return one(std::move(out));
}

} // namespace

FoldFunction llmc::onnximport::findIndexFold(llvm::StringRef op) {
  static const llvm::StringMap<FoldFunction> table = {
      {"Gather", foldGather},
      {"GatherND", foldGatherND},
      {"GatherElements", foldGatherElements},
      {"ScatterND", foldScatterND},
      {"CumSum", foldCumSum},
      {"NonZero", foldNonZero},
      {"Trilu", foldTrilu},
  };
  return table.lookup(op);
}
