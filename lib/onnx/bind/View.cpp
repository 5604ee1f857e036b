#include "lib/onnx/bind/View.h"

#include "dialects/graph/Strides.h"
#include "llvm/ADT/STLExtras.h"

#include <numeric>

using namespace llmc;
using namespace llmc::onnximport;

View View::whole(unsigned tensor, llvm::ArrayRef<int64_t> shape) {
  View view;
  view.tensor = tensor;
  view.shape.assign(shape.begin(), shape.end());
  view.strides = rowMajor(shape);
  return view;
}

View View::transposed(llvm::ArrayRef<int64_t> permutation) const {
  View out = *this;
  for (size_t i = 0; i < permutation.size(); ++i) {
    out.shape[i] = shape[permutation[i]];
    out.strides[i] = strides[permutation[i]];
  }
  out.steps.push_back({ViewStep::Transpose, out.shape, Shape(permutation)});
  return out;
}

View View::sliced(llvm::ArrayRef<int64_t> starts, llvm::ArrayRef<int64_t> counts) const {
  View out = *this;
  out.shape.assign(counts.begin(), counts.end());
  for (size_t i = 0; i < starts.size(); ++i)
    out.offset += starts[i] * strides[i];
  out.steps.push_back({ViewStep::Slice, out.shape, Shape(starts)});
  return out;
}

std::optional<View> View::reshaped(llvm::ArrayRef<int64_t> to) const {
  auto spaced = graph::stridesAfterReshape(shape, strides, to);
  if (!spaced)
    return std::nullopt;
  View out = *this;
  out.shape.assign(to.begin(), to.end());
  out.strides.assign(spaced->begin(), spaced->end());
  out.steps.push_back({ViewStep::Reshape, out.shape, {}});
  return out;
}

Shape View::canonicalDims() const {
  Shape dims;
  for (size_t i = 0; i < shape.size(); ++i)
    if (shape[i] != 1)
      dims.push_back(i);
  llvm::stable_sort(dims, [&](int64_t a, int64_t b) { return strides[a] > strides[b]; });
  return dims;
}

HostTensor llmc::onnximport::readView(const Model &model, const View &view) {
  return takeStrided(model.read(model.stored()[view.tensor]), view.shape, view.strides,
                     view.offset);
}

bool llmc::onnximport::coversExactly(llvm::ArrayRef<const View *> views, int64_t count) {
  int64_t total = 0;
  for (const View *view : views)
    total += *countElements(view->shape);
  if (total != count)
    return false;
  if (views.size() == 1)
    return true;
  // Find the largest run of elements that every view takes or leaves as a whole.
  int64_t unit = count;
  for (const View *view : views) {
    int64_t run = 1;
    Shape dims = view->canonicalDims();
    for (size_t i = dims.size(); i-- > 0 && view->strides[dims[i]] == run;)
      run *= view->shape[dims[i]];
    unit = std::gcd(unit, std::gcd(run, view->offset));
    for (int64_t d : dims)
      if (view->strides[d] >= run)
        unit = std::gcd(unit, view->strides[d]);
  }
  std::vector<bool> taken(count / unit, false);
  for (const View *view : views) {
    bool once = true;
    forEachElement(view->shape, {view->strides}, [&](int64_t, llvm::ArrayRef<int64_t> at) {
      int64_t element = view->offset + at[0];
      if (element % unit)
        return;
      once &= !taken[element / unit];
      taken[element / unit] = true;
    });
    if (!once)
      return false;
  }
  return true;
}
