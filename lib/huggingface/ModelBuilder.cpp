#include "lib/huggingface/ModelBuilder.h"
#include "dialects/graph/GraphAttrs.h"

using namespace llmc;
using namespace llmc::hf;
using namespace mlir;

ModelBuilder::ModelBuilder(MLIRContext &context, int64_t batch, int64_t sequence)
    : builder_(&context) {
  context.loadDialect<graph::GraphDialect, func::FuncDialect>();
  module_ = ModuleOp::create(builder_.getUnknownLoc());
  builder_.setInsertionPointToEnd(module_->getBody());
  func_ = func::FuncOp::create(builder_, builder_.getUnknownLoc(), "forward",
                               builder_.getFunctionType({}, {}));
  body_ = func_.addEntryBlock();
  body_->addArgument(RankedTensorType::get({batch, sequence}, builder_.getI64Type()),
                     named("input_ids"));
}

Location ModelBuilder::named(llvm::StringRef name) {
  return NameLoc::get(builder_.getStringAttr(name));
}

graph::Build ModelBuilder::at(const std::string &place) {
  builder_.setInsertionPointToEnd(body_);
  return graph::Build(builder_, named(place));
}

void ModelBuilder::source(const std::string &name, llvm::ArrayRef<int64_t> shape, Init init,
                          const std::string &alias) {
  if (!sources_.insert(name).second)
    return;
  SmallVector<llvm::StringRef> aliases;
  if (!alias.empty())
    aliases.push_back(alias);
  OpBuilder::InsertionGuard guard(builder_);
  builder_.setInsertionPoint(func_);
  bool normal = init.kind == graph::InitKind::normal;
  graph::SourceOp::create(
      builder_, named(name), builder_.getStringAttr(name),
      TypeAttr::get(RankedTensorType::get(shape, builder_.getF32Type())),
      builder_.getStrArrayAttr(aliases), IntegerAttr(), IntegerAttr(),
      graph::InitKindAttr::get(builder_.getContext(), init.kind),
      normal ? builder_.getF64FloatAttr(init.deviation) : FloatAttr());
}

SmallVector<int64_t> hf::stridesOf(llvm::ArrayRef<int64_t> shape) {
  SmallVector<int64_t> strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;)
    strides[i - 1] = strides[i] * shape[i];
  return strides;
}

Value ModelBuilder::parameter(const std::string &source, llvm::ArrayRef<int64_t> shape) {
  return parameter(source, shape, 0, stridesOf(shape));
}

Value ModelBuilder::parameter(const std::string &source, llvm::ArrayRef<int64_t> shape,
                              int64_t offset, llvm::ArrayRef<int64_t> strides) {
  return parameter(source, shape, View{source, offset, SmallVector<int64_t>(strides)});
}

Value ModelBuilder::parameter(const std::string &name, llvm::ArrayRef<int64_t> shape,
                              llvm::ArrayRef<View> views) {
  MLIRContext *context = builder_.getContext();
  OpBuilder::InsertionGuard guard(builder_);
  builder_.setInsertionPoint(func_);
  auto type = RankedTensorType::get(shape, builder_.getF32Type());
  SmallVector<Attribute> listed;
  for (const View &view : views)
    listed.push_back(graph::ViewAttr::get(context, FlatSymbolRefAttr::get(context, view.source),
                                          view.offset, view.strides));
  parameters_ += type.getNumElements();
  bound_.push_back("s" + std::to_string(states_++));
  graph::StateOp::create(builder_, named(name), builder_.getStringAttr(bound_.back()), TypeAttr::get(type),
                         graph::RoleAttr::get(context, graph::Role::parameter),
                         FlatSymbolRefAttr(), builder_.getArrayAttr(listed), UnitAttr(),
                         ArrayAttr());
  return body_->addArgument(type, named(name));
}

Value ModelBuilder::whole(const std::string &name, llvm::ArrayRef<int64_t> shape, Init init,
                          const std::string &alias) {
  source(name, shape, init, alias);
  return parameter(name, shape);
}

OwningOpRef<ModuleOp> ModelBuilder::finish(Value logits) {
  builder_.setInsertionPointToEnd(body_);
  func::ReturnOp::create(builder_, named("logits"), logits);
  func_.setFunctionType(builder_.getFunctionType(body_->getArgumentTypes(), logits.getType()));
  // Set all at once: each list of attributes lives as long as the context.
  auto one = [&](llvm::StringRef name, Attribute value) -> Attribute {
    return builder_.getDictionaryAttr(builder_.getNamedAttr(name, value));
  };
  SmallVector<Attribute> attributes{one(graph::kInput, builder_.getStringAttr("input_ids"))};
  for (const std::string &state : bound_)
    attributes.push_back(
        one(graph::kState, FlatSymbolRefAttr::get(builder_.getContext(), state)));
  func_.setAllArgAttrs(attributes);
  func_.setResultAttr(0, graph::kOutput, builder_.getStringAttr("logits"));
  return std::move(module_);
}
