#include "lib/onnx/convert/GraphConverter.h"

#include "lib/onnx/convert/RaggedRows.h"

#include <cmath>
#include <list>

using namespace llmc;
using namespace llmc::onnximport;
using namespace mlir;
using llmc::support::error;
using llmc::support::Result;
using llmc::support::Status;

// Limits the floats of a tensor that inference holds as a constant if the file stores them one by
// one, so that they cannot be read in place.
static constexpr int64_t mostHeldFloats = 1 << 16;

GraphConverter::GraphConverter(const Model &model, const NodeOrder &order,
                               const CompileOptions &options, Block &body, Parameters &parameters,
                               OpBuilder &builder)
    : model_(model), order_(order), options_(options), parameters_(parameters), builder_(builder),
      constants_(body), rules_(constants_, builder) {
  countUses();
  findLearnedNumbers();
}

void GraphConverter::countUses() {
  for (const std::string &name : order_.results)
    ++usesLeft_[name];
  for (const Node &node : order_.nodes) {
    for (const std::string &name : node.proto->input())
      ++usesLeft_[name];
    if (const Branches *branches = model_.branchesOf(*node.proto))
      for (const auto *list : {&branches->whenTrue, &branches->whenFalse})
        for (const std::string &name : *list)
          ++usesLeft_[name];
  }
}

//===-- Names to values -------------------------------------------------------===//

// Checks whether operand `i` of a node, a tensor of one element, is a parameter there: the slope
// of a PRelu, or the one parameter of its call.
bool GraphConverter::readsNumber(const Node &node, size_t i) const {
  return (node.op() == "PRelu" && i == 1) || parameters_.names().readsOneParameter(*node.proto);
}

void GraphConverter::findLearnedNumbers() {
  llvm::StringMap<unsigned> copies; // outputs of Identity nodes -> the tensor they copy
  for (const Node &node : order_.nodes)
    for (size_t i = 0; i < node.inputs(); ++i) {
      auto copy = copies.find(node.input(i));
      auto tensor = copy == copies.end() ? model_.find(node.input(i)) : copy->second;
      if (!tensor || model_.stored()[*tensor].count() != 1)
        continue;
      if (node.op() == "Identity")
        copies[node.proto->output(0)] = *tensor;
      else if (readsNumber(node, i))
        learnedNumbers_.insert(*tensor);
    }
}

// Checks whether a tensor of one element is trained; others are constants that the exporter made.
bool GraphConverter::isLearnedNumber(unsigned tensor) const {
  const TorchNames &names = parameters_.names();
  return !options_.infer && model_.stored()[tensor].count() == 1 &&
         (names.isParameter(tensor) || names.isState(tensor) || learnedNumbers_.count(tensor));
}

Result<Operand> GraphConverter::stored(unsigned tensor) {
  const StoredTensor &stored = model_.stored()[tensor];
  int64_t count = stored.count();
  bool weight = stored.element == Element::F32 || stored.element == Element::F16 ||
                stored.element == Element::BF16 || stored.element == Element::F64;
  if (weight && stored.file && (count > 1 || isLearnedNumber(tensor)))
    return Operand(parameters_.view(tensor));
  if (weight && count > 1 && (!options_.infer || count > mostHeldFloats))
    return error("'", stored.name, "': its ", count,
                 " values are stored one by one: save them as raw_data");
  if (count > maxHostElements)
    return error("stored tensor '", stored.name, "' (", elementName(onnxTypeOf(stored.element)),
                 ", ", toText(stored.shape), ") is too large to be a constant");
  return known(model_.read(stored));
}

// Returns an operand as the node reads it: a tensor of one element may be a parameter for one node
// and a constant for another, since the exporter stores equal numbers once.
Operand GraphConverter::operandOf(const Node &node, size_t i, Operand operand) const {
  const View *view = std::get_if<View>(&operand);
  if (!view || *countElements(view->shape) != 1 || node.op() == "Identity")
    return operand;
  bool mayRead = learnedNumbers_.count(view->tensor) ? readsNumber(node, i)
                                                     : parameters_.names().mayRead(*node.proto);
  if (mayRead)
    return operand;
  return known(readView(model_, *view));
}

// Returns the operand of a name, empty if its node has failed.
Result<Operand> GraphConverter::lookUp(llvm::StringRef name) {
  auto it = values_.find(name);
  if (it != values_.end())
    return it->second;
  auto tensor = model_.find(name);
  if (!tensor)
    return Operand();
  auto operand = stored(*tensor);
  if (operand)
    values_[name] = *operand;
  return operand;
}

// Drops operands whose last user is done: constants can be large (masks).
void GraphConverter::release(const Node &node) {
  auto drop = [&](const std::string &name) {
    if (!name.empty() && --usesLeft_[name] == 0)
      values_.erase(name);
  };
  for (const std::string &name : node.proto->input())
    drop(name);
  if (const Branches *branches = model_.branchesOf(*node.proto))
    for (const auto *list : {&branches->whenTrue, &branches->whenFalse})
      llvm::for_each(*list, drop);
}

//===-- One node --------------------------------------------------------------===//

ConvertResult GraphConverter::constantNode(const Node &node) {
  auto list = [](HostTensor tensor) { return std::vector<Operand>{known(std::move(tensor))}; };
  if (const auto *a = node.find("value_int")) {
    HostTensor scalar(Element::I64, {});
    scalar.set(0, static_cast<int64_t>(a->i()));
    return list(std::move(scalar));
  }
  if (const auto *a = node.find("value_float")) {
    HostTensor scalar(Element::F32, {});
    scalar.set(0, static_cast<double>(a->f()));
    return list(std::move(scalar));
  }
  if (auto values = node.integers("value_ints"))
    return list(HostTensor::vector(*values));
  if (const auto *a = node.find("value_floats")) {
    HostTensor vector(Element::F32, {a->floats_size()});
    std::copy(a->floats().begin(), a->floats().end(), vector.floats.begin());
    return list(std::move(vector));
  }
  return error("its kind of value is not supported");
}

ConvertResult GraphConverter::shapeOf(const NodeAdaptor &call) {
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

// Evaluates the node if all operands are known or are stored tensors, which are read. Leaves `out`
// empty for embedding lookups and, in training, for operands that the program trains.
Status GraphConverter::foldKnown(NodeAdaptor &call, std::optional<std::vector<Operand>> &out) {
  FoldFunction fold = findFold(call.node);
  bool lookup = call.node.op() == "Gather" && call.view(0) && call.shape(0).size() >= 2;
  if (!fold || lookup)
    return support::ok();
  for (size_t i = 0; i < call.size(); ++i) {
    const View *view = call.view(i);
    if (call.has(i) && !call.known(i) && !view)
      return support::ok();
    // Functions of parameters are computed in every step: 1 + w of a norm.
    if (view && !options_.infer &&
        (parameters_.names().isParameter(view->tensor) ||
         parameters_.names().isWeight(view->tensor, *call.node.proto)))
      return support::ok();
  }
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
    parameters_.noteConstant(view->tensor);
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

// Returns the results of a node that are, or depend on, constants too large to be held; nullopt if
// there are none.
Result<std::optional<std::vector<Operand>>>
GraphConverter::foldToDefinitions(const Node &node, llvm::ArrayRef<const Operand *> operands) {
  std::optional<std::vector<Operand>> out;
  std::vector<FoldOperand> given;
  for (const Operand *operand : operands) {
    FoldOperand &next = given.emplace_back();
    if (!operand)
      continue;
    if (auto *symbolic = std::get_if<SymbolicConstant>(operand))
      next.symbolic = symbolic->get();
    else if (auto *constant = std::get_if<KnownConstant>(operand))
      next.known = constant->get();
    else
      return out;
    if (next.known && next.known->origin) // may be learned
      return out;
  }
  auto folded = foldSymbolic(node, findFold(node), given);
  if (!folded)
    return folded.takeError();
  if (!*folded)
    return out;
  out.emplace();
  for (Folded &result : **folded)
    if (auto *constant = std::get_if<Constant>(&result))
      out->push_back(std::make_shared<const Constant>(std::move(*constant)));
    else
      out->push_back(std::make_shared<const Symbolic>(std::move(std::get<Symbolic>(result))));
  return out;
}

static std::string sizeText(double bytes) {
  const char *units[] = {"KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  for (bytes /= 1024; bytes >= 1024 && unit < 3; bytes /= 1024)
    ++unit;
  return std::to_string(int64_t(std::ceil(bytes))) + " " + units[unit];
}

// Returns a symbolic operand of a node as a value: as ops if it follows a rule, else as a constant.
Result<Operand> GraphConverter::built(const Node &node, const SymbolicConstant &symbolic) {
  auto value = rules_.build(symbolic, node);
  if (!value)
    return value.takeError();
  if (*value)
    return Operand(ComputedValue(*value, symbolic->element));
  Shape shape = symbolic->shape();
  double bytes = symbolic->element == Element::Bool ? 1 : isFloat(symbolic->element) ? 4 : 8;
  for (size_t d = 0; d < shape.size(); ++d)
    bytes *= symbolic->definition->varies(d) ? shape[d] : 1;
  std::string what = "a constant of shape " + toText(shape) + " that follows no rule (two numbers, " +
                     "one of them for consecutive keys in each row)";
  auto constant = held(*symbolic);
  if (!constant)
    return error("reads ", what, ", of ", sizeText(bytes), " where it is held; at most ",
                 maxHostElements, " elements are: use a shorter sequence (--seq), or give the mask "
                 "as an input of the model");
  heldMasks_.push_back(node.label() + " reads " + what + ": the program holds its " +
                       sizeText(bytes));
  return Operand(std::make_shared<const Constant>(std::move(*constant)));
}

// Fails if a stored operand of an arithmetic op has no elements: its result would be zeros.
static Status checkNotEmpty(const Model &model, const Node &node) {
  static const llvm::StringSet<> computes = {"MatMul",
                                             "Gemm",
                                             "Gather",
                                             "Add",
                                             "Mul",
                                             "LayerNormalization",
                                             "RMSNormalization",
                                             "SimplifiedLayerNormalization"};
  if (!computes.contains(node.op()))
    return support::ok();
  for (const std::string &name : node.proto->input())
    if (auto tensor = model.find(name)) {
      const StoredTensor &stored = model.stored()[*tensor];
      if (stored.isFloat() && stored.count() == 0)
        return error("weight '", stored.name, "' of shape ", toText(stored.shape),
                     " has no elements: export the model again");
    }
  return support::ok();
}

static bool isTensor(const Operand &operand) {
  return !std::holds_alternative<std::monostate>(operand) && !isSequence(operand) && !isRagged(operand);
}

ConvertResult GraphConverter::convert(const Node &node) {
  if (auto it = taken_.find(node.proto); it != taken_.end() && it->second == TakenBranches::Both)
    return chooseValues(node);
  if (const std::vector<std::string> *names = resultsOf(node)) {
    std::vector<Operand> results;
    for (const std::string &name : *names) {
      auto operand = lookUp(name);
      if (!operand)
        return operand.takeError();
      results.push_back(*operand);
    }
    return results;
  }
  if (node.qualifiedOp() == "Constant")
    return constantNode(node);
  if (Status s = options_.infer ? support::ok() : checkNotEmpty(model_, node); !s)
    return s.takeError();
  std::vector<Operand> operands;
  for (const std::string &name : node.proto->input()) {
    auto operand = name.empty() ? Operand() : lookUp(name);
    if (!operand)
      return operand.takeError();
    operands.push_back(operandOf(node, operands.size(), std::move(*operand)));
    if (!name.empty() && std::holds_alternative<std::monostate>(operands.back()))
      return std::vector<Operand>(); // its node has been reported
  }
  auto convertTensor = [this](const Node &one, llvm::ArrayRef<Operand> given) {
    return convertTensors(one, given);
  };
  if (isOnRaggedRows(node, operands)) {
    std::vector<const Operand *> tensors;
    for (const Operand &operand : operands)
      tensors.push_back(isTensor(operand) ? &operand : nullptr);
    NodeAdaptor call(node, tensors, model_, parameters_, constants_, builder_);
    return convertRaggedRows(call, operands, convertTensor);
  }
  if (SequenceFunction convertSequence = findSequenceConverter(node.qualifiedOp()))
    return convertSequence(node, operands, convertTensor);
  return convertTensors(node, operands);
}

// Converts a node whose operands and results are tensors.
ConvertResult GraphConverter::convertTensors(const Node &node, llvm::ArrayRef<Operand> operands) {
  std::vector<const Operand *> pointers;
  for (const Operand &operand : operands) {
    if (isSequence(operand))
      return error("takes tensors, got a sequence: only SequenceAt reads one");
    pointers.push_back(std::holds_alternative<std::monostate>(operand) ? nullptr : &operand);
  }
  while (!pointers.empty() && !pointers.back())
    pointers.pop_back();
  if (node.qualifiedOp() == "Shape" || node.qualifiedOp() == "Size")
    return shapeOf(NodeAdaptor(node, pointers, model_, parameters_, constants_, builder_));
  auto definitions = foldToDefinitions(node, pointers);
  if (!definitions)
    return definitions.takeError();
  if (*definitions)
    return std::move(**definitions);
  std::list<Operand> values;
  for (const Operand *&operand : pointers)
    if (auto *symbolic = operand ? std::get_if<SymbolicConstant>(operand) : nullptr) {
      auto value = built(node, *symbolic);
      if (!value)
        return value.takeError();
      operand = &values.emplace_back(std::move(*value));
    }
  NodeAdaptor call(node, pointers, model_, parameters_, constants_, builder_);
  noteMixedTypes(call);
  if (auto view = convertView(call))
    return std::move(*view);
  std::optional<std::vector<Operand>> folded;
  if (Status s = foldKnown(call, folded); !s)
    return s.takeError();
  if (folded) {
    if (folded->size() == 1 && !options_.infer)
      setOrigin(node, pointers, folded->front());
    return std::move(*folded);
  }
  bool allKnown = !pointers.empty();
  for (const Operand *operand : pointers)
    allKnown &= !operand || std::holds_alternative<KnownConstant>(*operand);
  if (allKnown)
    return foldByEvaluation(node, pointers, model_, parameters_, builder_.getContext());
  return convertCall(call);
}

void GraphConverter::addProblem(const Node &node, const std::string &message) {
  ++problemCount_;
  problems_ += "\n  " + node.label() + ": " + message;
}

void GraphConverter::convertNode(const Node &node) {
  if (node.op() == "Constant" && node.proto->output_size() && model_.find(node.proto->output(0)))
    return; // a stored tensor
  auto result = convert(node);
  if (!result)
    return addProblem(node, result.message());
  for (int i = 0; i < node.proto->output_size(); ++i) {
    const std::string &name = node.proto->output(i);
    if (!name.empty() && i < static_cast<int>(result->size()) && usesLeft_.count(name))
      values_[name] = (*result)[i];
  }
  release(node);
}

//===-- If --------------------------------------------------------------------===//

TakenBranches GraphConverter::chooseBranch(const Node &node) {
  TakenBranches &taken = taken_[node.proto];
  taken = TakenBranches::None;
  auto condition = lookUp(node.input(0));
  if (!condition) {
    addProblem(node, condition.message());
  } else if (auto *constant = std::get_if<KnownConstant>(&*condition)) {
    if ((*constant)->held.size() == 1)
      taken = (*constant)->held.number(0) != 0 ? TakenBranches::True : TakenBranches::False;
    else
      addProblem(node, "its condition must be one boolean");
  } else if (options_.infer && std::holds_alternative<ComputedValue>(*condition)) {
    taken = TakenBranches::Both;
  } else if (!std::holds_alternative<std::monostate>(*condition)) {
    addProblem(node, "its condition depends on the values of inputs, only a branch that shapes "
                     "and constants choose is supported");
  }
  return taken;
}

// Returns the names of the results of the chosen branch of an If, null for other nodes.
const std::vector<std::string> *GraphConverter::resultsOf(const Node &node) const {
  static const std::vector<std::string> none;
  const Branches *branches = model_.branchesOf(*node.proto);
  if (!branches)
    return nullptr;
  auto it = taken_.find(node.proto);
  TakenBranches taken = it == taken_.end() ? TakenBranches::None : it->second;
  return taken == TakenBranches::True    ? &branches->whenTrue
         : taken == TakenBranches::False ? &branches->whenFalse
                                 : &none;
}

// Selects, by the condition, the results of one of two branches that are both computed.
ConvertResult GraphConverter::chooseValues(const Node &node) {
  const Branches &branches = *model_.branchesOf(*node.proto);
  std::vector<Operand> results;
  ::onnx::NodeProto where;
  where.set_name(node.name());
  where.set_op_type("Where");
  for (auto [yes, no] : llvm::zip(branches.whenTrue, branches.whenFalse)) {
    auto condition = lookUp(node.input(0)), whenTrue = lookUp(yes), whenFalse = lookUp(no);
    for (auto *operand : {&condition, &whenTrue, &whenFalse})
      if (!*operand)
        return operand->takeError();
    for (auto *operand : {&condition, &whenTrue, &whenFalse})
      if (std::holds_alternative<std::monostate>(**operand))
        return std::vector<Operand>(); // its node has been reported
    auto value = [&]() -> ConvertResult {
      if (!isTensor(*whenTrue) || !isTensor(*whenFalse) ||
          onnximport::shapeOf(*whenTrue) != onnximport::shapeOf(*whenFalse))
        return error("its condition depends on the values of inputs, and its branches give values "
                     "of several shapes: only a branch that shapes and constants choose is supported");
      if (*countElements(onnximport::shapeOf(*condition)) != 1)
        return error("its condition must be one boolean");
      ::onnx::NodeProto flat;
      flat.set_name(node.name());
      flat.set_op_type("Reshape");
      auto one = convertTensors(Node(flat, node.opset), {*condition, known(HostTensor::vector({}))});
      return one ? convertTensors(Node(where, node.opset), {one->front(), *whenTrue, *whenFalse})
                 : std::move(one);
    }();
    if (!value)
      return value;
    results.push_back(std::move(value->front()));
  }
  return results;
}

//===-- The whole -------------------------------------------------------------===//

Status GraphConverter::convertAll() {
  NodeTraversal walk(model_);
  if (Status s = walk.index(); !s)
    return s;
  if (Status s = walk.run(
          order_.results, [&](const Node &node) { convertNode(node); },
          [&](const Node &node) { return chooseBranch(node); });
      !s)
    return s;
  // Results that are stored tensors have no node, and are looked up here.
  for (const std::string &name : order_.results)
    if (auto operand = lookUp(name); !operand) {
      ++problemCount_;
      problems_ += "\n  output '" + name + "': " + operand.message();
    }
  if (!problemCount_)
    return support::ok();
  return error(model_.path(), ": ", problemCount_, problemCount_ > 1 ? " nodes" : " node",
               " cannot be imported:", problems_);
}

Operand GraphConverter::result(llvm::StringRef name) {
  auto operand = lookUp(name);
  return operand ? *operand : Operand();
}

Value GraphConverter::valueOf(llvm::StringRef name) {
  Operand operand = result(name);
  if (auto *computed = std::get_if<ComputedValue>(&operand))
    return computed->value;
  if (!isTensor(operand))
    return {};
  ::onnx::NodeProto identity;
  identity.set_op_type("Identity");
  identity.set_name(name.str());
  Node node(identity, 1);
  if (auto *symbolic = std::get_if<SymbolicConstant>(&operand)) {
    auto value = built(node, *symbolic);
    if (!value)
      return {};
    operand = std::move(*value);
  }
  const Operand *pointer = &operand;
  NodeAdaptor call(node, pointer, model_, parameters_, constants_, builder_);
  const HostTensor *dense = call.constant(0);
  return dense && dense->size() == 0 ? call.materialize(*dense) : call.value(0);
}

// Counts nodes that mix float types though the standard forbids it for their op. Such files exist;
// all is computed in float32.
void GraphConverter::noteMixedTypes(const NodeAdaptor &call) {
  static const llvm::StringSet<> uniform = {"Add",    "Sub",    "Mul",   "Div",
                                            "MatMul", "Gemm",   "Max",   "Min",
                                            "Sum",    "Concat", "Where", "LayerNormalization"};
  if (!uniform.contains(call.node.op()))
    return;
  std::optional<Element> first;
  for (size_t i = 0; i < call.size(); ++i) {
    if (!call.isFloat(i))
      continue;
    Element own = call.declared(i);
    if (first && *first != own) {
      if (!mixedCount_++)
        mixedFirst_ = call.node.label() + " has " + elementName(onnxTypeOf(*first)) + " and " +
                      elementName(onnxTypeOf(own));
      return;
    }
    first = own;
  }
}

std::vector<std::string> GraphConverter::notes() const {
  std::vector<std::string> notes = heldMasks_;
  if (!mixedCount_)
    return notes;
  notes.push_back(std::to_string(mixedCount_) + (mixedCount_ > 1 ? " nodes mix" : " node mixes") +
          " float types, which the standard forbids (" + mixedFirst_ +
          "); all is computed in float32");
  return notes;
}
