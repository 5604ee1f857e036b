#include "lib/onnx/Import.h"

#include "dialects/graph/GraphAttrs.h"
#include "lib/weights/Weights.h"
#include "lib/onnx/file/Annotations.h"
#include "lib/onnx/convert/GraphConverter.h"
#include "lib/onnx/convert/RaggedRows.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/StringSwitch.h"

using namespace llmc;
using namespace llmc::onnximport;
using namespace mlir;
using llmc::support::error;
using llmc::support::Result;
using llmc::support::Status;

namespace {

// Checks whether the importer itself resolves an op.
bool isStructural(llvm::StringRef op) {
  return op == "Constant" || op == "Shape" || op == "Size";
}

} // namespace

bool llmc::onnximport::isKnownOp(llvm::StringRef op) {
  return isStructural(op) || findSequenceConverter(op) || findConverter(op) || findFold(op);
}

namespace {

class Importer {
public:
  Importer(MLIRContext &context, const Model &model, const CompileOptions &options)
      : model_(model), options_(options), builder_(&context) {}

  Result<OwningOpRef<ModuleOp>> run();

private:
  Status prepare();
  void start();
  Status returnLogits();
  Status returnOutputs();
  void eraseDead();
  void markAnnotated();
  std::vector<AnnotatedValue> collectAnnotated();
  void nameInterface();
  Status describe();

  const Model &model_;
  const CompileOptions &options_;
  OpBuilder builder_;
  NodeOrder order_;
  InputBinding inputs_;
  Annotations annotations_;
  OwningOpRef<ModuleOp> module_;
  func::FuncOp func_;
  Block *body_ = nullptr;
  std::unique_ptr<Parameters> parameters_;
  std::unique_ptr<GraphConverter> names_;
};

Status Importer::prepare() {
  auto order = orderNodes(model_, options_.infer);
  if (!order)
    return order.takeError();
  order_ = std::move(*order);
  if (Status s = checkOps(model_, order_, isKnownOp); !s)
    return s;
  auto inputs = bindInputs(model_, order_, options_);
  if (!inputs)
    return inputs.takeError();
  inputs_ = std::move(*inputs);
  auto annotations = readAnnotations(model_, order_, options_);
  if (!annotations)
    return annotations.takeError();
  annotations_ = std::move(*annotations);
  return support::ok();
}

void Importer::start() {
  module_ = ModuleOp::create(NameLoc::get(builder_.getStringAttr(model_.path())));
  builder_.setInsertionPointToEnd(module_->getBody());
  func_ = func::FuncOp::create(builder_, module_->getLoc(), "forward",
                               builder_.getFunctionType({}, {}));
  body_ = func_.addEntryBlock();
  parameters_ = std::make_unique<Parameters>(model_, *body_, options_);
  parameters_->setTokenTable(inputs_.tokenTable);
  parameters_->setSequence(inputs_.sequence);
  if (options_.tie == Tie::Off)
    parameters_->untieHead();
  else
    parameters_->tieHead(order_);
  builder_.setInsertionPointToEnd(body_);
  names_ =
      std::make_unique<GraphConverter>(model_, order_, options_, *body_, *parameters_, builder_);
  for (const ValueAnnotation &annotation : annotations_.values)
    names_->keep(annotation.value);
  for (const auto &argument : inputs_.arguments) {
    auto type = RankedTensorType::get(argument.shape,
                                      elementType(builder_.getContext(), argument.element));
    auto location = NameLoc::get(builder_.getStringAttr(argument.name));
    names_->define(argument.name,
                   ComputedValue(body_->addArgument(type, location), argument.element));
  }
  for (auto &constant : inputs_.constants)
    names_->define(constant.getKey(), known(std::move(constant.getValue())));
}

// Returns the first output alone from @forward: the logits, as [batch, sequence, vocabulary].
Status Importer::returnLogits() {
  const std::string &name = order_.results.front();
  Operand operand = names_->result(name);
  auto *computed = std::get_if<ComputedValue>(&operand);
  if (isRagged(operand))
    return error(model_.path(), ": output '", name, "' has a number of rows that depends on the values of inputs");
  if (!computed)
    return error(model_.path(), ": output '", name, "' does not depend on the token ids");
  Shape shape(graph::shapeOf(computed->value));
  bool fits = graph::isFloat(computed->value) && !shape.empty() &&
              *countElements(llvm::ArrayRef<int64_t>(shape).drop_back()) ==
                  inputs_.batch * inputs_.sequence;
  if (!fits || shape.size() < 2 || shape.size() > 3)
    return error(model_.path(), ": the first output '", name, "' of shape ", toText(shape),
                 " is not logits [batch, sequence, vocabulary] = [", inputs_.batch, ", ",
                 inputs_.sequence, ", ...]");
  graph::Build build(builder_, func_.getLoc());
  Value logits = build.reshape(computed->value, {inputs_.batch, inputs_.sequence, shape.back()});
  func::ReturnOp::create(builder_, func_.getLoc(), logits);
  return support::ok();
}

// Returns every output from @forward, as the graph computes it.
Status Importer::returnOutputs() {
  llvm::SmallVector<Value> values;
  for (const std::string &name : order_.results) {
    Value value = names_->valueOf(name);
    if (!value)
      return error(model_.path(), ": output '", name, "' is not made by any node, is a sequence, or has a "
                                 "number of rows that depends on the values of inputs");
    values.push_back(value);
  }
  func::ReturnOp::create(builder_, func_.getLoc(), values);
  return support::ok();
}

void Importer::eraseDead() {
  IRRewriter rewriter(func_.getContext());
  (void)runRegionDCE(rewriter, func_->getRegions());
}

// Marks ops of annotated values: names find the values only before dead ops are erased.
static constexpr llvm::StringLiteral annotatedMark = "onnx.annotated";

void Importer::markAnnotated() {
  for (auto [i, annotation] : llvm::enumerate(annotations_.values)) {
    Operand operand = names_->result(annotation.value);
    auto *computed = std::get_if<ComputedValue>(&operand);
    auto result = computed ? llvm::dyn_cast<OpResult>(computed->value) : OpResult();
    if (!result) // an input of the model, a constant, or never computed
      continue;
    Operation *op = result.getOwner();
    llvm::SmallVector<int64_t> marks;
    if (auto before = op->getAttrOfType<DenseI64ArrayAttr>(annotatedMark))
      marks.append(before.asArrayRef().begin(), before.asArrayRef().end());
    marks.append({int64_t(i), int64_t(result.getResultNumber())});
    op->setAttr(annotatedMark, builder_.getDenseI64ArrayAttr(marks));
  }
}

std::vector<AnnotatedValue> Importer::collectAnnotated() {
  std::vector<AnnotatedValue> values;
  for (Operation &op : *body_) {
    auto marks = op.getAttrOfType<DenseI64ArrayAttr>(annotatedMark);
    for (int64_t i = 0; marks && i < marks.size(); i += 2)
      values.push_back({op.getResult(marks[i + 1]), &annotations_.values[marks[i]]});
    op.removeAttr(annotatedMark);
  }
  for (const ValueAnnotation &annotation : annotations_.values)
    for (auto [i, argument] : llvm::enumerate(inputs_.arguments))
      if (argument.name == annotation.value)
        values.push_back({body_->getArgument(i), &annotation});
  return values;
}

// Returns how the loader makes an input of an inference that nobody gives, by the names that
// exported models use; null if it has to be given.
static graph::LoaderAttr loaderOf(MLIRContext *context, llvm::StringRef input) {
  auto value = llvm::StringSwitch<graph::InputDefault>(input)
                   .Case("attention_mask", graph::InputDefault::ones)
                   .Case("position_ids", graph::InputDefault::positions)
                   .Case("token_type_ids", graph::InputDefault::zeros)
                   .Default(graph::InputDefault::required);
  return value == graph::InputDefault::required
             ? graph::LoaderAttr()
             : graph::LoaderAttr::get(context, value, /*permuted_dim=*/0, DenseI64ArrayAttr());
}

void Importer::nameInterface() {
  auto name = [&](const std::string &text) { return builder_.getStringAttr(text); };
  for (const auto &[i, argument] : llvm::enumerate(inputs_.arguments)) {
    func_.setArgAttr(i, graph::kInput, name(options_.infer ? argument.name : "input_ids"));
    if (options_.infer && argument.batched)
      func_.setArgAttr(i, graph::kBatched, builder_.getUnitAttr());
    if (auto loader = loaderOf(func_.getContext(), argument.name); loader && options_.infer)
      func_.setArgAttr(i, graph::kLoader, loader);
  }
  for (const auto &[i, result] : llvm::enumerate(order_.results))
    func_.setResultAttr(i, graph::kOutput, name(options_.infer ? result : "logits"));
}

Status Importer::describe() {
  llvm::SmallVector<Attribute> files;
  if (options_.weights.empty())
    for (const auto &file : model_.files()) {
      support::Result<Attribute> entry =
          weights::fileEntry(builder_, file->path, options_.progress);
      if (!entry)
        return entry.takeError();
      files.push_back(*entry);
    }
  auto logits = graph::shapeOf(body_->getTerminator()->getOperand(0));
  weights::ModelFacts facts;
  facts.name = weights::modelName(model_.path());
  facts.sourcePath = model_.path();
  facts.sequence = inputs_.sequence;
  facts.vocabulary = logits.size() >= 2 ? logits.back() : 0;
  facts.context = inputs_.context;
  facts.batch = inputs_.batch;
  weights::describeModule(*module_, facts, files);
  return support::ok();
}

Result<OwningOpRef<ModuleOp>> Importer::run() {
  if (Status s = prepare(); !s)
    return s.takeError();
  start();
  if (Status s = names_->convertAll(); !s)
    return s.takeError();
  if (Status s = options_.infer ? returnOutputs() : returnLogits(); !s)
    return s.takeError();
  markAnnotated();
  eraseDead();
  parameters_->finish(*module_, func_);
  nameInterface();
  if (Status s = describe(); !s)
    return s.takeError();
  for (auto it = annotations_.weights.begin(); it != annotations_.weights.end();) {
    unsigned holder = parameters_->view(it->first).tensor;
    if (holder == it->first) {
      ++it;
      continue;
    }
    annotations_.notes.push_back("annotations of '" + model_.stored()[it->first].name +
                                 "' are not used: it is tied to '" +
                                 model_.stored()[holder].name + "'");
    it = annotations_.weights.erase(it);
  }
  writeAnnotations(*module_, model_, annotations_);
  if (Status s = followValues(func_, collectAnnotated(), options_); !s)
    return error(model_.path(), ": ", s.message());
  for (const auto &list : {names_->notes(), parameters_->notes(), annotations_.notes})
    for (const std::string &note : list)
      emitRemark(UnknownLoc::get(builder_.getContext())) << model_.path() << ": " << note;
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
    if (Status s = weights::bindWeights(**module, options.weights, options.progress); !s)
      return fail(s.message());
  return std::move(*module);
}
