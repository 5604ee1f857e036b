#include "test/verify/catalogue/StateEdits.h"

#include "dialects/graph/Graph.h"
#include "mlir/AsmParser/AsmParser.h"

using namespace mlir;

namespace llmc::catalogue {
namespace {

graph::SourceOp sourceOf(ModuleOp module, const std::string &name) {
  return module.lookupSymbol<graph::SourceOp>(name);
}

// Gives every view that `change` knows another one.
template <typename F> Edit ofViews(F change) {
  return [=](ModuleOp module) {
    bool any = false;
    for (auto state : module.getOps<graph::StateOp>()) {
      if (!state.getViews())
        continue;
      SmallVector<Attribute> views;
      for (auto view : state.getViews()->getAsRange<graph::ViewAttr>()) {
        views.push_back(change(view));
        any |= views.back() != view;
      }
      state.setViewsAttr(ArrayAttr::get(module.getContext(), views));
    }
    return any;
  };
}

} // namespace

Edit exchangePlaces(std::string one, std::string other) {
  return [=](ModuleOp module) {
    graph::SourceOp a = sourceOf(module, one), b = sourceOf(module, other);
    if (!a || !b || a.getType() != b.getType() || !a.getFileOffset() || !b.getFileOffset())
      return false;
    Attribute place = a->getAttr("file_offset");
    a->setAttr("file_offset", b->getAttr("file_offset"));
    b->setAttr("file_offset", place);
    return true;
  };
}

Edit movePlace(std::string source, int64_t bytes) {
  return [=](ModuleOp module) {
    graph::SourceOp op = sourceOf(module, source);
    if (!op || !op.getFileOffset())
      return false;
    op.setFileOffset(*op.getFileOffset() + bytes);
    return true;
  };
}

Edit exchangeSources(std::string one, std::string other) {
  return ofViews([=](graph::ViewAttr view) {
    StringRef name = view.getSource().getValue();
    if (name != one && name != other)
      return view;
    auto source = FlatSymbolRefAttr::get(view.getContext(), name == one ? other : one);
    return graph::ViewAttr::get(view.getContext(), source, view.getOffset(), view.getStrides());
  });
}

Edit exchangeParts(std::string source, int64_t one, int64_t other) {
  return ofViews([=](graph::ViewAttr view) {
    int64_t offset = view.getOffset();
    if (view.getSource().getValue() != source || (offset != one && offset != other))
      return view;
    return graph::ViewAttr::get(view.getContext(), view.getSource(), offset == one ? other : one,
                                view.getStrides());
  });
}

Edit turnOver(std::string source) {
  return ofViews([=](graph::ViewAttr view) {
    if (view.getSource().getValue() != source)
      return view;
    SmallVector<int64_t> strides(llvm::reverse(view.getStrides()));
    return graph::ViewAttr::get(view.getContext(), view.getSource(), view.getOffset(), strides);
  });
}

Edit setOfSource(std::string source, std::string name, std::string value) {
  return [=](ModuleOp module) {
    graph::SourceOp op = sourceOf(module, source);
    Attribute parsed = parseAttribute(value, module.getContext());
    if (!op || !parsed || op->getAttr(name) == parsed)
      return false;
    op->setAttr(name, parsed);
    return true;
  };
}

} // namespace llmc::catalogue
