#include "passes/4-partition/PlaceValues.h"

#include "dialects/parallel/Parallel.h"
#include <algorithm>

using namespace mlir;
using namespace llmc;
using namespace llmc::parallel;
using graph::Tensor;

const Tensor *PlaceValues::of(Value value, int64_t coordinate) {
  if (auto it = known.find({value, coordinate}); it != known.end())
    return it->second.get();
  std::shared_ptr<Tensor> made = compute(value, coordinate);
  return (known[{value, coordinate}] = std::move(made)).get();
}

std::shared_ptr<Tensor> PlaceValues::compute(Value value, int64_t coordinate) {
  Operation *op = value.getDefiningOp();
  if (!op || op->getNumRegions())
    return nullptr;
  if (auto offset = dyn_cast<AxisOffsetOp>(op)) {
    auto result = std::make_shared<Tensor>(std::vector<int64_t>{});
    result->data[0] = double(offset.getStride()) * (isContext(offset.getAxes()) ? coordinate : 0);
    return result;
  }
  if (auto collective = dyn_cast<CollectiveOpInterface>(op)) {
    if (!isContext(collective.getAxes()))
      return nullptr;
    SmallVector<const Tensor *> parts;
    for (int64_t member = 0; member < ranks; ++member)
      parts.push_back(of(op->getOperand(0), member));
    if (llvm::is_contained(parts, nullptr))
      return nullptr;
    return std::make_shared<Tensor>(collective.evaluateMember(parts, coordinate));
  }
  auto graphOp = dyn_cast<graph::GraphOpInterface>(op);
  if (!graphOp)
    return nullptr;
  SmallVector<const Tensor *> inputs;
  for (Value operand : op->getOperands())
    inputs.push_back(of(operand, coordinate));
  if (llvm::is_contained(inputs, nullptr))
    return nullptr;
  return std::make_shared<Tensor>(graph::evaluateOp(graphOp, inputs)[cast<OpResult>(value).getResultNumber()]);
}

bool PlaceValues::isContext(ArrayAttr axes) const {
  return llvm::equal(axes.getAsRange<StringAttr>(), mesh.getAxes(planfile::AxisRole::Context));
}

// Returns the first key behind a position. Looks near `from` first, where that of the row before was found: positions of
// rows mostly ascend.
static std::vector<double>::iterator firstBehind(std::vector<double> &sorted, std::vector<double>::iterator from,
                                                 double position) {
  if (from != sorted.begin() && from[-1] > position)
    return std::upper_bound(sorted.begin(), from, position);
  for (int step = 0; step < 4; ++step, ++from)
    if (from == sorted.end() || *from > position)
      return from;
  return std::upper_bound(from, sorted.end(), position);
}

double llmc::countVisible(const Tensor &rows, const Tensor &keys, int64_t offset, std::optional<int64_t> window,
                          bool any) {
  std::vector<double> sorted(keys.data);
  if (!llvm::is_sorted(sorted))
    llvm::sort(sorted);
  double pairs = 0;
  auto end = sorted.begin(), begin = sorted.begin();
  for (double row : rows.data) {
    double last = row + static_cast<double>(offset);
    end = firstBehind(sorted, end, last);
    if (window)
      begin = firstBehind(sorted, begin, last - static_cast<double>(*window));
    pairs += std::max<double>(0, end - begin);
    if (any && pairs > 0)
      return 1;
  }
  return pairs;
}
