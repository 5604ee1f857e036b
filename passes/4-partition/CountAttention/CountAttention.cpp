// Counts pairs of rows and keys by the positions that a rank computes for them.
#include "dialects/graph/Build.h"
#include "dialects/graph/Evaluate.h"
#include "dialects/parallel/Parallel.h"
#include "dialects/parallel/Annotations.h"
#include "passes/4-partition/Passes.h"

namespace llmc {
#define GEN_PASS_DEF_COUNTATTENTION
#include "passes/4-partition/Passes.h.inc"

using namespace mlir;
using namespace parallel;
using graph::shapeOf;
using graph::Tensor;
namespace {

// Computes what a rank has in values that depend on its place alone.
class PlaceValues {
public:
  explicit PlaceValues(MeshAttr mesh) : mesh(mesh), ranks(mesh.getSize(planfile::AxisRole::Context)) {}

  // Returns the value of the rank at `coordinate` along cp (0 along other axes); null if it depends on
  // an argument.
  const Tensor *of(Value value, int64_t coordinate) {
    if (auto it = known.find({value, coordinate}); it != known.end())
      return it->second.get();
    std::shared_ptr<Tensor> made = compute(value, coordinate);
    return (known[{value, coordinate}] = std::move(made)).get();
  }

private:
  std::shared_ptr<Tensor> compute(Value value, int64_t coordinate) {
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
  bool isContext(ArrayAttr axes) const {
    return llvm::equal(axes.getAsRange<StringAttr>(), mesh.getAxes(planfile::AxisRole::Context));
  }

  MeshAttr mesh;
  int64_t ranks;
  llvm::DenseMap<std::pair<Value, int64_t>, std::shared_ptr<Tensor>> known;
};

// Returns how many pairs the rows at `rows` and the keys at `keys` see of each other.
template <typename Op> double pairsOf(Op op, const Tensor &rows, const Tensor &keys) {
  std::vector<double> sorted(keys.data);
  llvm::sort(sorted);
  double pairs = 0;
  for (double row : rows.data) {
    double last = row + static_cast<double>(static_cast<int64_t>(op.getOffset()));
    auto end = llvm::upper_bound(sorted, last), begin = sorted.begin();
    if (auto window = op.getWindow())
      begin = llvm::upper_bound(sorted, last - static_cast<double>(*window));
    pairs += std::max<double>(0, end - begin);
  }
  return pairs;
}

struct CountAttention : impl::CountAttentionBase<CountAttention> {
  void runOnOperation() override {
    MeshAttr mesh = getMesh(getOperation());
    if (!mesh)
      return;
    SmallVector<double> flops(mesh.getSize(planfile::AxisRole::Context), 0);
    bool any = false;
    for (auto func : getOperation().getOps<func::FuncOp>()) {
      PlaceValues places(mesh);
      func.walk([&](Operation *op) {
        if (auto attention = dyn_cast<graph::AttentionOp>(op))
          any = true, count(attention, places, flops);
        else if (auto grad = dyn_cast<graph::AttentionGradOp>(op))
          any = true, count(grad, places, flops);
      });
    }
    if (any)
      getOperation()->setAttr("plan.attention_flops", Builder(&getContext()).getF64ArrayAttr(flops));
  }

private:
  template <typename Op> static void count(Op op, PlaceValues &places, MutableArrayRef<double> flops) {
    double times = 1; // layers
    for (auto repeat = op->template getParentOfType<graph::RepeatOp>(); repeat;
         repeat = repeat->template getParentOfType<graph::RepeatOp>())
      times *= static_cast<double>(repeat.getCount());
    ArrayRef<int64_t> q = shapeOf(op.getQ());
    double all = double(q[1]) * double(shapeOf(op.getK())[1]);
    for (auto [coordinate, sum] : llvm::enumerate(flops)) {
      double share = 1;
      if (!op.getPositions().empty()) {
        const Tensor *rows = places.of(op.getPositions()[0], coordinate);
        const Tensor *keys = places.of(op.getPositions()[1], coordinate);
        if (rows && keys)
          share = pairsOf(op, *rows, *keys) / all;
      }
      sum += times * share * cast<graph::GraphOpInterface>(op.getOperation()).getFlops();
    }
  }
};

} // namespace
} // namespace llmc
