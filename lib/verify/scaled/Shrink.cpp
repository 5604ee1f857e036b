// Rewrites types, sizes in attributes, sources and the views of them.
#include "lib/verify/scaled/Shrink.h"

#include "dialects/graph/Graph.h"
#include "dialects/graph/GraphAttrs.h"
#include "lib/verify/scaled/DimScaler.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"

#include <map>

using namespace mlir;

namespace llmc::verify {
namespace {

std::vector<int64_t> stridesOf(llvm::ArrayRef<int64_t> shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;)
    strides[i - 1] = strides[i] * shape[i];
  return strides;
}

// Describes indices along one dimension of a source: offset + the sum of a digit of each size times its step.
// Heads may be apart (a range in each of them), and elements may take turns.
struct Digits {
  llvm::SmallVector<std::pair<int64_t, int64_t>, 2> digits; // size and step, most significant first
  int64_t newSize = 1;                                      // of them all, in the shrunk source

  int64_t size() const {
    int64_t product = 1;
    for (auto [size, step] : digits)
      product *= size;
    return product;
  }
  bool operator==(const Digits &) const = default;
  // Marks the indices in `taken`; returns false if one is outside or taken already.
  bool mark(int64_t offset, std::vector<bool> &taken) const {
    for (int64_t i = 0, all = size(); i < all; ++i) {
      int64_t at = offset, rest = i;
      for (auto [size, step] : llvm::reverse(digits)) {
        at += rest % size * step;
        rest /= size;
      }
      if (at >= static_cast<int64_t>(taken.size()) || taken[at])
        return false;
      taken[at] = true;
    }
    return true;
  }
};

// Describes one view of a source: which indices of each dimension of the source it covers, and
// which dimensions of the state count them, most significant first.
struct Cover {
  graph::ViewAttr view;
  struct Part {
    int64_t offset;
    Digits digits;
    llvm::SmallVector<size_t, 2> dims;
  };
  std::vector<Part> parts; // by dimension of the source
  std::vector<int64_t> shape, newShape; // of one layer of the state
};

class Sources {
public:
  explicit Sources(ModuleOp module) : module(module) {}
  LogicalResult read(graph::StateOp state, llvm::ArrayRef<int64_t> newShape);
  LogicalResult write();

private:
  std::optional<Cover> cover(graph::ViewAttr view, llvm::ArrayRef<int64_t> source,
                             llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> newShape);
  graph::ViewAttr rewrite(const Cover &cover, llvm::ArrayRef<int64_t> newSource);

  ModuleOp module;
  std::map<std::string, graph::SourceOp> sources;
  // Maps, by source and dimension, the offset of indices that a view covers to these.
  std::map<std::string, std::vector<std::map<int64_t, Digits>>> parts;
  std::vector<std::pair<graph::StateOp, std::vector<Cover>>> covers;
};

std::optional<Cover> Sources::cover(graph::ViewAttr view, llvm::ArrayRef<int64_t> source,
                                    llvm::ArrayRef<int64_t> shape,
                                    llvm::ArrayRef<int64_t> newShape) {
  Cover result{view, {}, shape.vec(), newShape.vec()};
  std::vector<int64_t> strides = stridesOf(source);
  int64_t rest = view.getOffset();
  std::vector<bool> used(shape.size(), false);
  for (size_t j = 0; j < source.size(); ++j) {
    Cover::Part part{rest / strides[j], {}, {}};
    rest %= strides[j];
    for (size_t i = 0; i < shape.size(); ++i)
      if (!used[i] && shape[i] > 1 && view.getStrides()[i] >= strides[j] &&
          view.getStrides()[i] % strides[j] == 0) {
        used[i] = true;
        part.dims.push_back(i);
      }
    llvm::stable_sort(part.dims, [&](size_t a, size_t b) {
      return view.getStrides()[a] > view.getStrides()[b];
    });
    for (size_t i : part.dims) {
      part.digits.digits.emplace_back(shape[i], view.getStrides()[i] / strides[j]);
      part.digits.newSize *= newShape[i];
    }
    result.parts.push_back(part);
  }
  for (size_t i = 0; i < shape.size(); ++i)
    if (shape[i] > 1 && !used[i])
      return std::nullopt;
  return result;
}

LogicalResult Sources::read(graph::StateOp state, llvm::ArrayRef<int64_t> newShape) {
  llvm::ArrayRef<int64_t> shape = cast<RankedTensorType>(state.getType()).getShape();
  // A view is of one layer, and of one expert where each has a tensor of its own.
  shape = shape.drop_front(state.getViewedDims());
  newShape = newShape.drop_front(state.getViewedDims());
  if (sources.empty())
    for (auto op : module.getOps<graph::SourceOp>())
      sources[op.getSymName().str()] = op;
  std::vector<Cover> &list = covers.emplace_back(state, std::vector<Cover>()).second;
  for (auto view : state.getViews()->getAsRange<graph::ViewAttr>()) {
    std::string name = view.getSource().getValue().str();
    auto source = sources.find(name);
    if (source == sources.end())
      return state.emitOpError("views @") << name << ", which is not there";
    auto whole = cast<RankedTensorType>(source->second.getType()).getShape();
    std::optional<Cover> made = cover(view, whole, shape, newShape);
    if (!made)
      return state.emitOpError("its view of @") << name << " is no block of it, so the model cannot be shrunk";
    auto &dims = parts[name];
    dims.resize(whole.size());
    for (auto [dim, part] : llvm::zip(dims, made->parts)) {
      auto [at, inserted] = dim.try_emplace(part.offset, part.digits);
      if (!inserted && !(at->second == part.digits))
        return state.emitOpError("its view of @") << name << " overlaps another, so the model cannot be shrunk";
    }
    list.push_back(std::move(*made));
  }
  return success();
}

graph::ViewAttr Sources::rewrite(const Cover &cover, llvm::ArrayRef<int64_t> newSource) {
  std::vector<int64_t> strides = stridesOf(newSource), own(cover.shape.size(), 1);
  int64_t offset = 0;
  for (size_t j = 0; j < cover.parts.size(); ++j) {
    int64_t before = 0, inner = strides[j];
    for (auto &[at, digits] : parts[cover.view.getSource().getValue().str()][j])
      before += at < cover.parts[j].offset ? digits.newSize : 0;
    offset += before * strides[j];
    for (size_t i : llvm::reverse(cover.parts[j].dims)) {
      own[i] = inner;
      inner *= cover.newShape[i];
    }
  }
  return graph::ViewAttr::get(module.getContext(), cover.view.getSource(), offset, own);
}

LogicalResult Sources::write() {
  std::map<std::string, std::vector<int64_t>> shapes;
  for (auto &[name, dims] : parts) {
    graph::SourceOp op = sources[name];
    auto type = cast<RankedTensorType>(op.getType());
    for (auto [dim, size] : llvm::zip(dims, type.getShape())) {
      int64_t newSize = 0;
      std::vector<bool> taken(size, false);
      for (auto &[offset, digits] : dim) {
        if (!digits.mark(offset, taken))
          return op.emitOpError("has parts that several states view, so the model cannot be shrunk");
        newSize += digits.newSize;
      }
      if (!llvm::all_of(taken, [](bool is) { return is; }))
        return op.emitOpError("has parts that no state views, so the model cannot be shrunk");
      shapes[name].push_back(newSize);
    }
    op.setTypeAttr(TypeAttr::get(type.clone(shapes[name])));
    for (llvm::StringRef name : {"file", "file_offset", "scales", "transposed"})
      op->removeAttr(name);
  }
  for (auto &[state, list] : covers) {
    SmallVector<Attribute> views;
    for (const Cover &cover : list)
      views.push_back(rewrite(cover, shapes[cover.view.getSource().getValue().str()]));
    state->setAttr("views", ArrayAttr::get(module.getContext(), views));
  }
  return success();
}

void retype(Value value, const DimScaler &dims) {
  if (auto type = dyn_cast<RankedTensorType>(value.getType()))
    value.setType(type.clone(dims.shapeOf(value)));
}

// Returns the elements whose indices are below the sizes of `type`.
DenseElementsAttr leadingPart(DenseElementsAttr all, ShapedType type) {
  auto values = all.getValues<APFloat>();
  std::vector<int64_t> strides = stridesOf(cast<ShapedType>(all.getType()).getShape());
  SmallVector<APFloat> part;
  for (int64_t i = 0; i < type.getNumElements(); ++i) {
    int64_t at = 0, rest = i;
    for (size_t d = strides.size(); d-- > 0; rest /= type.getDimSize(d))
      at += rest % type.getDimSize(d) * strides[d];
    part.push_back(values[at]);
  }
  return DenseElementsAttr::get(type, part);
}

// Rewrites attributes that hold sizes.
void rewriteSizes(Operation *op, const DimScaler &dims) {
  if (auto slice = dyn_cast<graph::SliceOp>(op)) {
    std::vector<int64_t> from = dims.shapeOf(slice.getOperand()), to = dims.shapeOf(slice.getResult());
    SmallVector<int64_t> limits(slice.getLimits());
    auto old = slice.getResult().getType().getShape();
    for (size_t i = 0; i < limits.size(); ++i)
      if (to[i] != old[i])
        limits[i] = to[i]; // a prefix, or the whole
    slice.setLimits(limits);
  }
  auto constant = dyn_cast<graph::ConstantOp>(op);
  if (!constant)
    return;
  auto type = cast<ShapedType>(constant.getType()).clone(dims.shapeOf(constant.getResult()));
  if (auto splat = dyn_cast<SplatElementsAttr>(constant.getValue())) {
    constant.setValueAttr(splat.resizeSplat(type));
  } else if (isNumbers(constant)) {
    constant.setValueAttr(leadingPart(cast<DenseElementsAttr>(constant.getValue()), type));
  }
}

// Rewrites what graph.model records about the model as a whole, and drops its files.
void rewriteFacts(ModuleOp module, const DimScaler &dims) {
  auto facts = module->getAttrOfType<DictionaryAttr>(graph::kModel);
  if (!facts)
    return;
  NamedAttrList list(facts);
  Builder b(module.getContext());
  std::map<StringRef, int64_t> found;
  for (auto func : module.getOps<func::FuncOp>()) {
    for (BlockArgument arg : func.getArguments())
      if (func.getArgAttr(arg.getArgNumber(), graph::kInput) && !dims.shapeOf(arg).empty())
        found["sequence"] = dims.shapeOf(arg).back();
    for (Value result : func.getBody().front().getTerminator()->getOperands())
      if (std::vector<int64_t> shape = dims.shapeOf(result); !shape.empty())
        found["vocabulary"] = shape.back();
  }
  found["context"] = found["sequence"];
  for (auto [name, size] : found)
    if (facts.get(name))
      list.set(name, b.getI64IntegerAttr(size));
  list.set("weights", b.getStringAttr("none"));
  list.erase("config_json");
  module->setAttr(graph::kModel, list.getDictionary(b.getContext()));
  module->setAttr(graph::kFiles, b.getArrayAttr({}));
}

} // namespace

LogicalResult shrinkModel(ModuleOp module, int64_t divisor, std::string &text, int64_t kept,
                          bool fewTokens) {
  DimScaler dims(module);
  dims.shrink(divisor, kept, fewTokens);
  Sources sources(module);
  for (auto state : module.getOps<graph::StateOp>())
    if (state.getViews() && failed(sources.read(state, dims.shapeOf(state))))
      return failure();
  if (failed(sources.write()))
    return failure();
  for (auto state : module.getOps<graph::StateOp>())
    state.setTypeAttr(TypeAttr::get(cast<RankedTensorType>(state.getType()).clone(dims.shapeOf(state))));
  module.walk([&](Operation *op) {
    rewriteSizes(op, dims);
    for (Region &region : op->getRegions())
      for (Block &block : region)
        for (BlockArgument arg : block.getArguments())
          retype(arg, dims);
    for (Value result : op->getResults())
      retype(result, dims);
  });
  for (auto func : module.getOps<func::FuncOp>())
    func.setType(FunctionType::get(module.getContext(), func.getBody().front().getArgumentTypes(),
                                   func.getBody().front().getTerminator()->getOperandTypes()));
  rewriteFacts(module, dims);
  for (auto &[size, now] : dims.changes())
    for (int64_t n : now)
      text += (text.empty() ? "" : ", ") + std::to_string(size) + " -> " + std::to_string(n);
  return mlir::verify(module);
}

} // namespace llmc::verify
