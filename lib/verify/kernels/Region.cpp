// Implements selections of indices as sorted vectors.
#include "lib/verify/kernels/Region.h"

#include <algorithm>
#include <set>

namespace llmc::verify {

IndexSet IndexSet::few(int64_t size, std::vector<int64_t> indices) {
  std::sort(indices.begin(), indices.end());
  indices.erase(std::unique(indices.begin(), indices.end()), indices.end());
  if (static_cast<int64_t>(indices.size()) == size)
    return all(size);
  return {size, std::move(indices)};
}

int64_t IndexSet::placeOf(int64_t index) const {
  if (!some)
    return index;
  return std::lower_bound(some->begin(), some->end(), index) - some->begin();
}

std::vector<std::pair<int64_t, int64_t>> IndexSet::runs() const {
  if (!some)
    return {{0, size}};
  std::vector<std::pair<int64_t, int64_t>> runs;
  for (int64_t index : *some)
    if (!runs.empty() && runs.back().second == index)
      ++runs.back().second;
    else
      runs.emplace_back(index, index + 1);
  return runs;
}

IndexSet unite(const IndexSet &a, const IndexSet &b) {
  if (!a.some || !b.some)
    return IndexSet::all(a.size);
  std::vector<int64_t> indices = *a.some;
  indices.insert(indices.end(), b.some->begin(), b.some->end());
  return IndexSet::few(a.size, std::move(indices));
}

IndexSet spreadIndices(int64_t size, int64_t count) {
  if (size <= count)
    return IndexSet::all(size);
  std::vector<int64_t> wanted{0, size - 1};
  std::set<int64_t> seen(wanted.begin(), wanted.end());
  auto add = [&](int64_t index) {
    if (index > 0 && index < size && static_cast<int64_t>(wanted.size()) < count &&
        seen.insert(index).second)
      wanted.push_back(index);
  };
  uint64_t drawn = 0x9e3779b97f4a7c15ull * uint64_t(size);
  auto next = [&] {
    drawn = drawn * 6364136223846793005ull + 1442695040888963407ull;
    add(static_cast<int64_t>(drawn >> 20) % size);
  };
  next();
  for (int64_t width : {8, 16, 32})
    add(size / width * width), add(width - 1), add(size / width * width - 1), add(width), next();
  for (int64_t part = 1; part < 12; ++part)
    add(size * part / 12), add(size * part / 12 - 1), next();
  while (static_cast<int64_t>(wanted.size()) < count)
    next();
  return IndexSet::few(size, wanted);
}

IndexSet product(llvm::ArrayRef<IndexSet> factors) {
  int64_t size = 1;
  bool whole = true;
  for (const IndexSet &factor : factors) {
    size *= factor.size;
    whole &= !factor.some;
  }
  if (whole)
    return IndexSet::all(size);
  std::vector<int64_t> indices{0};
  for (const IndexSet &factor : factors) {
    std::vector<int64_t> next;
    for (int64_t index : indices)
      for (int64_t i = 0; i < factor.count(); ++i)
        next.push_back(index * factor.size + factor.at(i));
    indices = std::move(next);
  }
  return IndexSet::few(size, std::move(indices));
}

std::vector<IndexSet> project(const IndexSet &whole, llvm::ArrayRef<int64_t> sizes) {
  std::vector<IndexSet> parts;
  int64_t step = whole.size;
  for (int64_t size : sizes) {
    step /= size;
    if (!whole.some) {
      parts.push_back(IndexSet::all(size));
      continue;
    }
    std::set<int64_t> seen;
    for (int64_t index : *whole.some)
      seen.insert(index / step % size);
    parts.push_back(IndexSet::few(size, {seen.begin(), seen.end()}));
  }
  return parts;
}

Region wholeOf(llvm::ArrayRef<int64_t> shape) {
  Region region;
  for (int64_t size : shape)
    region.push_back(IndexSet::all(size));
  return region;
}

std::vector<int64_t> shapeOf(const Region &region) {
  std::vector<int64_t> shape;
  for (const IndexSet &picks : region)
    shape.push_back(picks.count());
  return shape;
}

int64_t volume(const Region &region) {
  int64_t count = 1;
  for (const IndexSet &picks : region)
    count *= picks.count();
  return count;
}

Region unite(const Region &a, const Region &b) {
  Region region;
  for (size_t d = 0; d < a.size(); ++d)
    region.push_back(unite(a[d], b[d]));
  return region;
}

} // namespace llmc::verify
