#include "lib/onnx/bind/Untrained.h"

#include "dialects/graph/Build.h"
#include "lib/onnx/bind/Tables.h"

using namespace llmc;
using namespace llmc::onnximport;
using namespace mlir;

static constexpr llvm::StringLiteral mark = "onnx.tensors";

void llmc::onnximport::markFolded(Value constant, const std::set<unsigned> &tensors) {
  Operation *op = constant.getDefiningOp();
  std::set<int64_t> all(tensors.begin(), tensors.end());
  if (auto before = op->getAttrOfType<DenseI64ArrayAttr>(mark))
    all.insert(before.asArrayRef().begin(), before.asArrayRef().end());
  op->setAttr(mark, DenseI64ArrayAttr::get(op->getContext(), llvm::to_vector(all)));
}

static bool mayBeLearned(graph::ConstantOp op) {
  auto data = dyn_cast<DenseElementsAttr>(op.getValue());
  if (!data || !graph::isFloat(op.getResult()))
    return false;
  HostTensor values(Element::F32, Shape(graph::shapeOf(op.getResult())));
  for (auto [to, from] : llvm::zip(values.floats, data.getValues<float>()))
    to = from;
  bool filler =
      isUniform(values) && values.size() && (values.number(0) == 0 || values.number(0) == 1);
  return values.size() > 1 && !filler && !isComputedTable(values) &&
         !(isLinear(values) && isScoreOffset(op.getResult()));
}

std::set<unsigned> llmc::onnximport::collectUntrained(Block &body, Activations &activations,
                                                   const TorchNames &names) {
  std::set<unsigned> tensors;
  for (auto op : body.getOps<graph::ConstantOp>()) {
    auto marked = op->getAttrOfType<DenseI64ArrayAttr>(mark);
    if (!marked)
      continue;
    op->removeAttr(mark);
    if (!activations.meetsActivation(op.getResult()))
      continue;
    bool any = mayBeLearned(op);
    for (int64_t tensor : marked.asArrayRef())
      if (any || names.isState(tensor))
        tensors.insert(tensor);
  }
  return tensors;
}

// Limits the tensors that a note names.
static constexpr size_t mostNamed = 3;

// Returns "2 stored tensors (20 elements)", and the names and shapes of the first ones.
static std::pair<std::string, std::string> countAndNames(const Model &model,
                                                         const std::set<unsigned> &tensors) {
  int64_t elements = 0;
  std::string names;
  size_t named = 0;
  for (unsigned tensor : tensors) {
    const StoredTensor &stored = model.stored()[tensor];
    elements += stored.count();
    if (named++ < mostNamed)
      names += (named > 1 ? ", '" : "'") + stored.name + "' " + toText(stored.shape);
  }
  return {std::to_string(tensors.size()) + " stored " +
              (tensors.size() == 1 ? "tensor" : "tensors") + " (" + std::to_string(elements) +
              (elements == 1 ? " element)" : " elements)"),
          names + (named > mostNamed ? ", ..." : "")};
}

std::string llmc::onnximport::describeUntrained(const Model &model,
                                                const std::set<unsigned> &tensors,
                                                const std::set<unsigned> &waves) {
  std::string text;
  for (bool wave : {false, true}) {
    std::set<unsigned> told = wave ? waves : tensors;
    if (!wave)
      for (unsigned tensor : waves)
        told.erase(tensor);
    if (told.empty())
      continue;
    auto [count, names] = countAndNames(model, told);
    bool one = told.size() == 1;
    text += (text.empty() ? "" : "; ") + count +
            (wave  ? one ? " follows a formula and is" : " follow a formula and are"
             : one ? " is a constant and is"
                   : " are constants and are") +
            " not trained: " + names;
  }
  bool one = tensors.size() + waves.size() == 1;
  if (text.empty())
    return {};
  return text + "; if the model learns " + (one ? "it" : "them") +
         ", export it with torch.onnx.export(..., dynamo=True, optimize=False), which keeps "
         "parameters whole";
}
