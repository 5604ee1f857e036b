#include "lib/planfile/CheckCoverage.h"

#include <algorithm>

namespace llmc::planfile {
namespace {

// Returns the same set of elements in canonical form: largest stride first, all strides positive,
// no dims of size one, and dims that are contiguous with each other merged.
StridedBox canonical(const StridedBox &box) {
  StridedBox result;
  result.offset = box.offset;
  std::vector<std::pair<int64_t, int64_t>> dims;
  for (size_t d = 0; d < box.shape.size(); ++d) {
    int64_t stride = box.strides[d], size = box.shape[d];
    if (size == 1)
      continue;
    if (stride < 0) {
      result.offset += stride * (size - 1);
      stride = -stride;
    }
    dims.push_back({stride, size});
  }
  std::sort(dims.rbegin(), dims.rend());
  for (auto [stride, size] : dims) {
    if (!result.strides.empty() && result.strides.back() == stride * size) {
      result.strides.back() = stride;
      result.shape.back() *= size;
    } else {
      result.strides.push_back(stride);
      result.shape.push_back(size);
    }
  }
  return result;
}

// Returns one past the largest element, relative to the offset.
int64_t extent(const StridedBox &box) {
  int64_t last = 0;
  for (size_t d = 0; d < box.shape.size(); ++d)
    last += box.strides[d] * (box.shape[d] - 1);
  return last + 1;
}

// Returns whether no element occurs twice because each dim steps over all that the inner ones
// reach. The box must be canonical.
bool nested(const StridedBox &box) {
  int64_t inner = 1;
  for (size_t d = box.shape.size(); d-- > 0;) {
    if (box.strides[d] < inner)
      return false;
    inner += box.strides[d] * (box.shape[d] - 1);
  }
  return true;
}

// Drops the outermost dim of all boxes as long as they repeat with one period that tiles the
// whole range, and returns the size that is left: one period stands for all.
int64_t foldPeriods(std::vector<StridedBox> &boxes, int64_t size) {
  while (!boxes.empty() && !boxes[0].shape.empty()) {
    int64_t period = boxes[0].strides[0];
    auto repeats = [&](const StridedBox &box) {
      if (box.shape.empty() || box.strides[0] != period || size / period != box.shape[0])
        return false;
      int64_t rest = extent(box) - period * (box.shape[0] - 1);
      return box.offset + rest <= period;
    };
    if (period <= 0 || size % period != 0 || !std::all_of(boxes.begin(), boxes.end(), repeats))
      return size;
    for (StridedBox &box : boxes) {
      box.strides.erase(box.strides.begin());
      box.shape.erase(box.shape.begin());
    }
    size = period;
  }
  return size;
}

using Run = std::pair<int64_t, int64_t>; // [first, second)

int64_t countRuns(const StridedBox &box) {
  int64_t count = 1;
  for (size_t d = 0; d < box.shape.size(); ++d)
    if (d + 1 < box.shape.size() || box.strides[d] != 1)
      count *= box.shape[d];
  return count;
}

// Appends the contiguous runs of a box, in no particular order.
void appendRuns(const StridedBox &box, std::vector<Run> &runs) {
  size_t dims = box.shape.size();
  int64_t length = 1;
  if (dims && box.strides[dims - 1] == 1)
    length = box.shape[--dims];
  std::vector<int64_t> index(dims, 0);
  int64_t at = box.offset;
  while (true) {
    runs.push_back({at, at + length});
    size_t d = dims;
    while (d > 0) {
      --d;
      at += box.strides[d];
      if (++index[d] < box.shape[d])
        break;
      at -= box.strides[d] * box.shape[d];
      index[d] = 0;
      if (d == 0)
        return;
    }
    if (dims == 0)
      return;
  }
}

std::string range(int64_t begin, int64_t end) {
  return "elements [" + std::to_string(begin) + ", " + std::to_string(end) + ")";
}

} // namespace

std::optional<std::string> coverageFault(std::vector<StridedBox> boxes, int64_t size) {
  if (boxes.empty())
    return "no element belongs to anyone";
  int64_t total = 0;
  for (StridedBox &box : boxes) {
    int64_t count = 1;
    for (int64_t dim : box.shape)
      count *= dim;
    total += count;
    box = canonical(box);
    if (!nested(box))
      return "one view names an element more than once";
    if (box.offset < 0 || box.offset + extent(box) > size)
      return "one view leaves the tensor";
  }
  std::vector<Run> runs;
  int64_t period = foldPeriods(boxes, size);
  // Bounds the memory: real models need thousands of runs, and a plan with more than this is
  // corrupt.
  constexpr int64_t kMaxRuns = int64_t(1) << 25;
  int64_t runCount = 0;
  for (const StridedBox &box : boxes)
    runCount += countRuns(box);
  if (runCount > kMaxRuns)
    return "the views name " + std::to_string(total) + " elements in " +
           std::to_string(runCount) + " pieces, too many to check";
  for (const StridedBox &box : boxes)
    appendRuns(box, runs);
  std::sort(runs.begin(), runs.end());
  int64_t covered = 0;
  for (auto [begin, end] : runs) {
    std::string each = period == size ? "" : " of each " + std::to_string(period);
    if (begin > covered)
      return range(covered, begin) + each + " belong to none";
    if (begin < covered)
      return range(begin, std::min(end, covered)) + each + " belong to two";
    covered = end;
  }
  if (covered < period)
    return range(covered, period) + " belong to none";
  return std::nullopt;
}

} // namespace llmc::planfile
