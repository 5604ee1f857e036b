#include "lib/onnx/Import.h"

#include "lib/huggingface/Weights.h"
#include "lib/onnx/Conversion.h"
#include "lib/support/Hash.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <filesystem>

using namespace llmc;
using namespace llmc::onnximport;
using namespace mlir;
using llmc::support::error;
using llmc::support::Result;
using llmc::support::Status;

namespace {

// Ops that the importer itself resolves.
bool isStructural(llvm::StringRef op) {
  return op == "Constant" || op == "Shape" || op == "Size";
}

class Importer {
public:
  Importer(MLIRContext &context, const Model &model, const CompileOptions &options)
      : context_(context), model_(model), options_(options), builder_(&context) {}

  Result<OwningOpRef<ModuleOp>> run();

private:
  void start();
  void convertNode(const Node &node);
  Result<std::vector<Operand>> convert(const Node &node);
  Result<std::vector<Operand>> shapeOf(const Call &call);
  Result<std::vector<Operand>> constantNode(const Node &node);
  Status foldKnown(Call &call, std::optional<std::vector<Operand>> &out);
  Operand lookUp(llvm::StringRef name);
  void release(const Node &node);
  Result<Value> logits();
  void eraseDead();
  void describe(ModuleOp module, Value logits);

  MLIRContext &context_;
  const Model &model_;
  const CompileOptions &options_;
  OpBuilder builder_;
  NodeOrder order_;
  InputBinding inputs_;
  OwningOpRef<ModuleOp> module_;
  func::FuncOp func_;
  Block *body_ = nullptr;
  std::unique_ptr<Parameters> parameters_;
  std::unique_ptr<Constants> constants_;
  llvm::StringMap<Operand> values_;
  llvm::StringMap<size_t> usesLeft_;
  std::string problems_;
  size_t problemCount_ = 0;
};

//===-- Names to values -------------------------------------------------------===//

Operand Importer::lookUp(llvm::StringRef name) {
  auto it = values_.find(name);
  if (it != values_.end())
    return it->second;
  auto tensor = model_.find(name);
  if (!tensor)
    return {};
  const StoredTensor &stored = model_.stored()[*tensor];
  Operand operand;
  if (stored.element == Element::F32 && stored.count() > 1)
    operand = parameters_->view(*tensor);
  else if (stored.count() <= maxHostElements)
    operand = known(model_.read(stored));
  return values_[name] = operand;
}

// Constants can be large (masks); they go as soon as their last user is done.
void Importer::release(const Node &node) {
  for (const std::string &name : node.proto->input())
    if (!name.empty() && --usesLeft_[name] == 0)
      values_.erase(name);
}

//===-- One node --------------------------------------------------------------===//

Result<std::vector<Operand>> Importer::constantNode(const Node &node) {
  auto number = [](Element element, double value) {
    HostTensor scalar(element, {});
    scalar.set(0, value);
    return std::vector<Operand>{known(std::move(scalar))};
  };
  if (const auto *a = node.find("value_int")) {
    HostTensor scalar(Element::I64, {});
    scalar.set(0, static_cast<int64_t>(a->i()));
    return std::vector<Operand>{known(std::move(scalar))};
  }
  if (const auto *a = node.find("value_float"))
    return number(Element::F32, a->f());
  if (auto list = node.integers("value_ints"))
    return std::vector<Operand>{known(HostTensor::vector(*list))};
  if (const auto *a = node.find("value_floats")) {
    HostTensor vector(Element::F32, {a->floats_size()});
    std::copy(a->floats().begin(), a->floats().end(), vector.floats.begin());
    return std::vector<Operand>{known(std::move(vector))};
  }
  return error("its kind of value is not supported");
}

Result<std::vector<Operand>> Importer::shapeOf(const Call &call) {
  if (!call.has(0))
    return error("needs an operand");
  Shape shape = call.shape(0);
  if (call.node.op() == "Size") {
    HostTensor size(Element::I64, {});
    size.set(0, *countElements(shape));
    return std::vector<Operand>{known(std::move(size))};
  }
  int64_t rank = shape.size();
  auto bound = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank); };
  int64_t start = bound(call.node.integer("start", 0)), end = bound(call.node.integer("end", rank));
  llvm::ArrayRef<int64_t> dims(shape);
  return std::vector<Operand>{
      known(HostTensor::vector(dims.slice(start, std::max<int64_t>(end - start, 0))))};
}

// Evaluates the node if all operands are known, reading stored tensors that no
// op here would train. An embedding lookup is not evaluated.
Status Importer::foldKnown(Call &call, std::optional<std::vector<Operand>> &out) {
  FoldFunction fold = findFold(call.node.qualifiedOp());
  bool lookup = call.node.op() == "Gather" && call.view(0) && call.shape(0).size() >= 2;
  if (!fold || lookup)
    return support::ok();
  for (size_t i = 0; i < call.size(); ++i)
    if (call.has(i) && !call.known(i) && !call.view(i))
      return support::ok();
  std::vector<std::unique_ptr<Constant>> read;
  std::vector<const Constant *> operands;
  auto add = [&](const HostTensor &tensor) {
    read.push_back(std::make_unique<Constant>(tensor));
    operands.push_back(read.back().get());
  };
  for (size_t i = 0; i < call.size(); ++i) {
    const View *view = call.view(i);
    if (!view) {
      operands.push_back(call.known(i));
      continue;
    }
    if (model_.stored()[view->tensor].count() > maxHostElements)
      return error("stored tensor '", model_.stored()[view->tensor].name,
                   "' is too large to be a constant");
    add(readView(model_, *view));
    parameters_->noteConstant(view->tensor);
  }
  if (auto value = model_.valueOf(*call.node.proto))
    add(model_.read(model_.stored()[*value]));
  auto result = foldConstants(call.node, fold, operands);
  if (!result)
    return result.takeError();
  out.emplace();
  for (Constant &constant : *result)
    out->push_back(std::make_shared<const Constant>(std::move(constant)));
  return support::ok();
}

Result<std::vector<Operand>> Importer::convert(const Node &node) {
  if (node.op() == "Constant")
    return constantNode(node);
  std::vector<Operand> operands;
  for (const std::string &name : node.proto->input())
    operands.push_back(name.empty() ? Operand() : lookUp(name));
  std::vector<const Operand *> pointers;
  for (size_t i = 0; i < operands.size(); ++i) {
    bool failed = std::holds_alternative<std::monostate>(operands[i]);
    if (failed && !node.input(i).empty())
      return std::vector<Operand>(); // its node has been reported
    pointers.push_back(failed ? nullptr : &operands[i]);
  }
  while (!pointers.empty() && !pointers.back())
    pointers.pop_back();
  Call call(node, pointers, model_, *parameters_, *constants_, builder_);
  if (node.op() == "Shape" || node.op() == "Size")
    return shapeOf(call);
  if (auto view = convertView(call))
    return std::move(*view);
  std::optional<std::vector<Operand>> folded;
  if (Status s = foldKnown(call, folded); !s)
    return s.takeError();
  if (folded)
    return std::move(*folded);
  ConvertFunction convert = findConverter(node.qualifiedOp());
  // Parameters and tokens are never float64, so this is a constant among them.
  // Of these two ops only the number matters.
  bool any = node.op() == "Pow" || node.op() == "Dropout";
  for (size_t i = 0; convert && !any && i < call.size(); ++i)
    if (call.has(i) && call.element(i).isF64())
      return error("operand ", i, " is float64: export as float32");
  if (convert)
    return convert(call);
  return error("is supported only where its operands depend on shapes and constants");
}

void Importer::convertNode(const Node &node) {
  if (node.op() == "Constant" && model_.find(node.proto->output(0)))
    return; // a stored tensor
  auto result = convert(node);
  if (!result) {
    ++problemCount_;
    problems_ += "\n  " + node.label() + ": " + result.message();
    return;
  }
  for (int i = 0; i < node.proto->output_size(); ++i) {
    const std::string &name = node.proto->output(i);
    if (!name.empty() && i < static_cast<int>(result->size()) && usesLeft_.count(name))
      values_[name] = (*result)[i];
  }
  release(node);
}

//===-- The whole -------------------------------------------------------------===//

void Importer::start() {
  module_ = ModuleOp::create(NameLoc::get(builder_.getStringAttr(model_.path())));
  builder_.setInsertionPointToEnd(module_->getBody());
  func_ = func::FuncOp::create(builder_, module_->getLoc(), "forward",
                               builder_.getFunctionType({}, {}));
  body_ = func_.addEntryBlock();
  auto ids = RankedTensorType::get({inputs_.batch, inputs_.sequence}, builder_.getI64Type());
  body_->addArgument(ids, NameLoc::get(builder_.getStringAttr(inputs_.tokens)));
  values_[inputs_.tokens] = Value(body_->getArgument(0));
  for (auto &constant : inputs_.constants)
    values_[constant.getKey()] = known(std::move(constant.getValue()));
  bool fromFile = options_.weights.empty();
  parameters_ = std::make_unique<Parameters>(model_, *body_, fromFile);
  constants_ = std::make_unique<Constants>(*body_);
  if (options_.tie)
    parameters_->tieHead(order_, inputs_.tokenTable);
  ++usesLeft_[model_.graph().output(0).name()];
  for (const Node &node : order_.nodes)
    for (const std::string &name : node.proto->input())
      if (!name.empty())
        ++usesLeft_[name];
  builder_.setInsertionPointToEnd(body_);
}

Result<Value> Importer::logits() {
  const std::string &name = model_.graph().output(0).name();
  Operand operand = lookUp(name);
  Value *value = std::get_if<Value>(&operand);
  if (!value)
    return error(model_.path(), ": output '", name, "' does not depend on the token ids");
  Shape shape(graph::shapeOf(*value));
  bool fits = graph::isFloat(*value) && !shape.empty() &&
              *countElements(llvm::ArrayRef<int64_t>(shape).drop_back()) ==
                  inputs_.batch * inputs_.sequence;
  if (!fits || shape.size() < 2 || shape.size() > 3)
    return error(model_.path(), ": the first output '", name, "' of shape ", toText(shape),
                 " is not logits [batch, sequence, vocabulary] = [", inputs_.batch, ", ",
                 inputs_.sequence, ", ...]");
  graph::Build build(builder_, func_.getLoc());
  return build.reshape(*value, {inputs_.batch, inputs_.sequence, shape.back()});
}

void Importer::eraseDead() {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(*body_)))
    if (op.use_empty() && !op.hasTrait<OpTrait::IsTerminator>())
      op.erase();
}

void Importer::describe(ModuleOp module, Value logits) {
  llvm::SmallVector<Attribute> files;
  if (options_.weights.empty())
    for (const auto &file : model_.files()) {
      auto bytes = file->map.bytes();
      files.push_back(hf::fileEntry(builder_, file->path, bytes.data(), bytes.size()));
    }
  hf::ModelFacts facts;
  facts.name = hf::modelName(model_.path());
  facts.sourcePath = model_.path();
  facts.sequence = inputs_.sequence;
  facts.vocabulary = graph::shapeOf(logits).back();
  facts.context = inputs_.context;
  facts.batch = inputs_.batch;
  hf::describeModule(module, facts, files);
}

Result<OwningOpRef<ModuleOp>> Importer::run() {
  auto order = orderNodes(model_);
  if (!order)
    return order.takeError();
  order_ = std::move(*order);
  auto isKnown = [](llvm::StringRef op) {
    return isStructural(op) || findConverter(op) || findFold(op);
  };
  if (Status s = checkOps(model_, order_, isKnown); !s)
    return s.takeError();
  auto inputs = bindInputs(model_, order_, options_);
  if (!inputs)
    return inputs.takeError();
  inputs_ = std::move(*inputs);
  start();
  for (const Node &node : order_.nodes)
    convertNode(node);
  if (problemCount_)
    return error(model_.path(), ": ", problemCount_,
                 problemCount_ > 1 ? " nodes" : " node", " cannot be imported:", problems_);
  auto result = logits();
  if (!result)
    return result.takeError();
  func::ReturnOp::create(builder_, func_.getLoc(), *result);
  eraseDead();
  parameters_->finish(*module_, func_);
  func_.setArgAttr(0, "graph.input", builder_.getStringAttr("input_ids"));
  func_.setResultAttr(0, "graph.output", builder_.getStringAttr("logits"));
  describe(*module_, body_->getTerminator()->getOperand(0));
  return std::move(module_);
}

} // namespace

OwningOpRef<ModuleOp> llmc::importOnnx(MLIRContext &context, llvm::StringRef path,
                                       const CompileOptions &options) {
  context.loadDialect<graph::GraphDialect, func::FuncDialect>();
  auto fail = [&](const std::string &message) -> OwningOpRef<ModuleOp> {
    emitError(UnknownLoc::get(&context), message);
    return {};
  };
  auto model = Model::open(path);
  if (!model)
    return fail(model.message());
  auto module = Importer(context, **model, options).run();
  if (!module)
    return fail(module.message());
  if (!options.weights.empty() && options.weights != "random")
    if (Status s = hf::bindWeights(**module, options.weights, {}); !s)
      return fail(s.message());
  return std::move(*module);
}
