#include "lib/onnx/bind/Parameters.h"

#include "dialects/graph/GraphAttrs.h"
#include "lib/onnx/bind/LostParameters.h"
#include "lib/onnx/bind/Tables.h"
#include "lib/onnx/bind/Tying.h"
#include "lib/onnx/bind/Untrained.h"
#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringSet.h"

using namespace llmc;
using namespace llmc::onnximport;
using namespace mlir;

Parameters::Parameters(const Model &model, Block &body, const CompileOptions &options)
    : model_(model), names_(model), body_(body), fromFile_(options.weights.empty()),
      infer_(options.infer),
      sharing_(model, names_, arguments_, !options.infer && options.tie != Tie::Exact) {
  if (!infer_)
    tied_ = findDuplicateMatrices(model, names_);
}

void Parameters::tieHead(const NodeOrder &order) {
  if (tokenTable_)
    for (auto &[head, view] : tiedHeads(model_, order, *tokenTable_))
      tied_[head] = view;
}

void Parameters::untieHead() {
  if (tokenTable_)
    sharing_.untie(*tokenTable_);
}

View Parameters::view(unsigned tensor) const {
  auto it = tied_.find(tensor);
  return it == tied_.end() ? View::whole(tensor, model_.stored()[tensor].shape) : it->second;
}

//===-- Arguments -------------------------------------------------------------===//

bool Parameters::learns(const View &view, UseKind role, const ::onnx::NodeProto &user) const {
  if (isPlaceholder(view.tensor))
    return false;
  return role != UseKind::Plain || names_.isParameter(view.tensor) ||
         names_.isWeight(view.tensor, user) || names_.isLookup(view.tensor, user);
}

Value Parameters::use(const View &view, UseKind role, const ::onnx::NodeProto *user) {
  bool learning = learns(view, role, *user);
  auto [argument, copies] = sharing_.find(view, role, user, learning);
  if (!argument) {
    OpBuilder builder(body_.getParentOp()->getContext());
    auto type =
        RankedTensorType::get(selectDims(view.shape, view.canonicalDims()), builder.getF32Type());
    auto location = NameLoc::get(builder.getStringAttr(model_.stored()[view.tensor].name));
    arguments_.push_back(std::make_unique<ParameterArgument>(
        ParameterArgument{view, {}, body_.addArgument(type, location), {}, copies}));
    argument = arguments_.back().get();
  }
  argument->roles.insert(role);
  if (learning)
    argument->learningNodes.insert(user);
  return argument->value;
}

//===-- What may be learned ---------------------------------------------------===//

// Limits the elements that isComputedTable() reads: computed tables are small.
constexpr int64_t largestTable = 1 << 24;

bool Parameters::isComputedTable(unsigned tensor) const {
  auto [it, isNew] = tables_.try_emplace(tensor, false);
  const StoredTensor &stored = model_.stored()[tensor];
  if (isNew && stored.count() <= largestTable)
    it->second = onnximport::isComputedTable(model_.read(stored));
  return it->second;
}

// Checks whether arguments hold values of a formula, in a file that names parameters and buffers
// but does not record which is which. A matrix of products is learned whatever it holds.
bool Parameters::isRotaryTable(llvm::ArrayRef<ParameterArgument *> arguments) const {
  unsigned tensor = arguments.front()->view.tensor;
  bool matrix =
      llvm::count_if(model_.stored()[tensor].shape, [](int64_t d) { return d > 1; }) > 1 &&
      llvm::any_of(arguments,
                   [](const ParameterArgument *a) { return a->roles.count(UseKind::Weight); });
  return names_.isState(tensor) && tensor != tokenTable_ && !matrix && isComputedTable(tensor) &&
         onnximport::isRotaryTable(model_.read(model_.stored()[tensor]));
}

bool Parameters::isPlaceholder(unsigned tensor) const {
  return !infer_ && names_.isConstantNode(tensor) && !sharing_.varies(tensor);
}

bool Parameters::mayLearn(const std::set<unsigned> &tensors) const {
  return !infer_ && llvm::all_of(tensors, [&](unsigned tensor) {
    return names_.isParameter(tensor) || !(names_.isBuffer(tensor) || isComputedTable(tensor));
  });
}

void Parameters::noteFolded(Value constant, const std::set<unsigned> &tensors) {
  if (mayLearn(tensors))
    markFolded(constant, tensors);
}

//===-- Constants and parts ---------------------------------------------------===//

void Parameters::makeConstant(ParameterArgument &argument) {
  HostTensor data = readView(model_, argument.view);
  Shape dims = argument.view.canonicalDims();
  Shape own = rowMajor(data.shape);
  data = takeStrided(data, selectDims(data.shape, dims), selectDims(own, dims));
  OpBuilder builder = OpBuilder::atBlockBegin(&body_);
  std::vector<float> floats(data.floats.begin(), data.floats.end());
  auto type = cast<RankedTensorType>(argument.value.getType());
  Value constant =
      graph::ConstantOp::create(builder, argument.value.getLoc(), type,
                                DenseElementsAttr::get(type, llvm::ArrayRef<float>(floats)));
  argument.value.replaceAllUsesWith(constant);
  noteFolded(constant, {argument.view.tensor});
  constants_.insert(argument.view.tensor);
}

// Replaces the views of one source by slices of one argument that holds the whole source.
void Parameters::useWholeSource(llvm::ArrayRef<ParameterArgument *> arguments) {
  unsigned tensor = arguments.front()->view.tensor;
  View whole = View::whole(tensor, model_.stored()[tensor].shape);
  std::set<UseKind> roles;
  OpBuilder builder = OpBuilder::atBlockBegin(&body_);
  Shape full = selectDims(whole.shape, whole.canonicalDims());
  auto type = RankedTensorType::get(full, builder.getF32Type());
  BlockArgument value = body_.insertArgument(arguments.front()->value.getArgNumber(), type,
                                             arguments.front()->value.getLoc());
  for (ParameterArgument *argument : arguments) {
    graph::Build build(builder, argument->value.getLoc());
    Value result = build.reshape(value, whole.shape);
    for (const ViewStep &step : argument->view.steps) {
      if (step.kind == ViewStep::Reshape) {
        result = build.reshape(result, step.shape);
      } else if (step.kind == ViewStep::Transpose) {
        result = build.transpose(result, step.numbers);
      } else {
        for (size_t d = 0; d < step.shape.size(); ++d)
          if (graph::shapeOf(result)[d] != step.shape[d])
            result = build.slice(result, d, step.numbers[d], step.numbers[d] + step.shape[d]);
      }
    }
    Shape dims = argument->view.canonicalDims(), ones;
    Shape order = dims;
    for (size_t d = 0; d < argument->view.shape.size(); ++d)
      if (argument->view.shape[d] == 1)
        order.push_back(d);
    if (!llvm::is_sorted(order))
      result = build.transpose(result, order);
    result = build.reshape(result, selectDims(argument->view.shape, dims));
    argument->value.replaceAllUsesWith(result);
    roles.insert(argument->roles.begin(), argument->roles.end());
  }
  arguments_.push_back(std::make_unique<ParameterArgument>(
      ParameterArgument{whole, roles, value, {}, arguments.front()->copy}));
}

constexpr int64_t largestConstant = 1 << 20;

// Checks whether a table's rows only scale computed values, as the cosines and sines of rotary
// positions do, which are constants. Learned positions are added.
static bool onlyRotates(Value table) {
  bool rotates = false;
  llvm::SmallVector<Value> open = {table};
  llvm::SmallPtrSet<Operation *, 8> seen;
  while (!open.empty()) {
    Value value = open.pop_back_val();
    for (Operation *user : value.getUsers()) {
      if (!seen.insert(user).second)
        continue;
      bool moves = isa<graph::GatherOp, graph::SliceOp, graph::ReshapeOp, graph::TransposeOp,
                       graph::BroadcastOp, graph::ConcatOp, graph::CastOp>(user);
      auto constant = [](Value v) { return bool(v.getDefiningOp<graph::ConstantOp>()); };
      bool scaled = isa<graph::MulOp>(user) && llvm::any_of(user->getOperands(), constant);
      if (moves || scaled)
        open.push_back(user->getResult(0));
      else if (isa<graph::MulOp>(user) ||
               (isa<graph::RotaryOp>(user) && user->getOperand(0) != value))
        rotates = true;
      else
        return false;
    }
  }
  return rotates;
}

bool Parameters::isTrained(llvm::ArrayRef<ParameterArgument *> arguments) {
  bool learns = false, table = true, rotates = true, scores = true;
  for (ParameterArgument *argument : arguments) {
    for (UseKind role : argument->roles) {
      learns |= role != UseKind::Plain;
      table &= role == UseKind::Plain || role == UseKind::Table;
      scores &= role == UseKind::Plain || role == UseKind::WithActivation;
    }
    scores = scores && isScoreOffset(argument->value);
    rotates = rotates && onlyRotates(argument->value);
  }
  unsigned tensor = arguments.front()->view.tensor;
  if (names_.isBuffer(tensor) || isPlaceholder(tensor))
    return false;
  if (names_.isParameter(tensor) || llvm::any_of(arguments, [&](const ParameterArgument *argument) {
        return llvm::any_of(argument->learningNodes, [&](const ::onnx::NodeProto *user) {
          return names_.isLookup(tensor, *user) || names_.isWeight(tensor, *user);
        });
      }))
    return true;
  if (names_.isState(tensor) && mayLearn({tensor}))
    return learns || llvm::any_of(arguments, [&](ParameterArgument *argument) {
             return activations_.meetsActivation(argument->value);
           });
  if (!infer_ && isRotaryTable(arguments)) {
    waves_.insert(tensor);
    return false;
  }
  if (scores)
    return false;
  return learns && !(table && tensor != tokenTable_ && rotates);
}

void Parameters::finish(ModuleOp module, func::FuncOp func) {
  activations_ = Activations(); // values have been erased since
  if (std::string note = sharing_.resolveSharing(body_); !note.empty())
    notes_.push_back(std::move(note));
  sourceNames_ = nameParameters(model_, names_, arguments_);
  llvm::MapVector<std::pair<unsigned, unsigned>, std::vector<ParameterArgument *>> bySource;
  for (auto &argument : arguments_)
    bySource[{argument->view.tensor, argument->copy}].push_back(argument.get());
  std::vector<BlockArgument> dropped;
  for (auto &[source, arguments] : bySource) {
    unsigned tensor = source.first;
    bool trained = isTrained(arguments);
    std::vector<const View *> views;
    for (ParameterArgument *argument : arguments)
      views.push_back(&argument->view);
    // A tensor that is not trained may still be too large to be held in the program.
    bool large = infer_ && model_.stored()[tensor].count() > largestConstant;
    if (!trained && !large)
      for (ParameterArgument *argument : arguments)
        makeConstant(*argument);
    else if (!coversExactly(views, model_.stored()[tensor].count()))
      useWholeSource(arguments);
    else
      continue;
    for (ParameterArgument *argument : arguments)
      dropped.push_back(argument->value);
  }
  llvm::erase_if(arguments_, [&](const std::unique_ptr<ParameterArgument> &argument) {
    return llvm::is_contained(dropped, argument->value);
  });
  for (BlockArgument argument : dropped)
    body_.eraseArgument(argument.getArgNumber());
  func.setFunctionType(FunctionType::get(func.getContext(), body_.getArgumentTypes(),
                                         body_.getTerminator()->getOperandTypes()));
  noteUntrained();
  declare(module, func);
}

// Notes which stored tensors are constants though they may have been learned.
void Parameters::noteUntrained() {
  activations_ = Activations();
  std::set<unsigned> untrained = collectUntrained(body_, activations_, names_);
  for (const auto &argument : arguments_) {
    constants_.erase(argument->view.tensor);
    untrained.erase(argument->view.tensor);
  }
  // A file that lists the program's parameters shows which of them are lost; for any other file
  // the elements of its constants do.
  std::string note = names_.program().empty() || !names_.hasCalls()
                         ? describeUntrained(model_, untrained, waves_)
                         : describeLost(lostParameters(model_, names_, arguments_, sourceNames_));
  std::string made = describeDerived(derivedParameters(model_, names_, arguments_, sourceNames_));
  for (std::string *text : {&note, &made})
    if (!text->empty() && !infer_)
      notes_.push_back(std::move(*text));
}

//===-- Sources and states ----------------------------------------------------===//

void Parameters::declareSource(OpBuilder &builder, const ParameterSource &source,
                               const std::set<UseKind> &roles) {
  const StoredTensor &stored = model_.stored()[source.tensor];
  const ParameterName &own = sourceNames_.at(source);
  auto name = builder.getStringAttr(own.name);
  auto kind = roles.count(UseKind::Scale)  ? graph::InitKind::ones
              : roles.count(UseKind::Bias) ? graph::InitKind::zeros
                                        : graph::InitKind::normal;
  if (roles.count(UseKind::Weight) || roles.count(UseKind::Table))
    kind = graph::InitKind::normal;
  // A tied head that the file stores transposed stays transposed under its own name.
  llvm::SmallVector<Attribute> aliases, transposed;
  for (const auto &[head, view] : tied_) {
    if (view.tensor != source.tensor || source.tensor != tokenTable_)
      continue;
    bool swapped = view.strides.size() == 2 && view.strides.front() < view.strides.back();
    (swapped ? transposed : aliases).push_back(builder.getStringAttr(model_.stored()[head].name));
  }
  if (!own.lost.empty())
    (own.transposed ? transposed : aliases).push_back(builder.getStringAttr(own.lost));
  // Other floats than f32 are cast when they are loaded.
  Type element = stored.element == Element::F16    ? Type(builder.getF16Type())
                 : stored.element == Element::BF16 ? Type(builder.getBF16Type())
                 : stored.element == Element::F64  ? Type(builder.getF64Type())
                                                   : Type(builder.getF32Type());
  auto type = RankedTensorType::get(stored.shape, element);
  bool placed = fromFile_ && stored.file;
  auto declared = graph::SourceOp::create(
      builder, NameLoc::get(name), name, TypeAttr::get(type), builder.getArrayAttr(aliases),
      placed ? builder.getI64IntegerAttr(*stored.file) : IntegerAttr(),
      placed ? builder.getI64IntegerAttr(stored.bytes.offset) : IntegerAttr(),
      graph::InitKindAttr::get(builder.getContext(), kind),
      kind == graph::InitKind::normal ? builder.getF64FloatAttr(0.02) : FloatAttr());
  if (!transposed.empty())
    declared->setAttr("transposed_aliases", builder.getArrayAttr(transposed));
  if (!own.layout.empty())
    declared->setAttr("source_layout", builder.getStringAttr(own.layout));
  if (!own.lost.empty())
    declared->setAttr("unnamed", builder.getUnitAttr());
}

void Parameters::declare(ModuleOp module, func::FuncOp func) {
  llvm::sort(arguments_, [](const auto &a, const auto &b) {
    return a->value.getArgNumber() < b->value.getArgNumber();
  });
  std::map<ParameterSource, std::set<UseKind>> roles;
  llvm::StringSet<> taken = {"forward", "micro", "update"};
  for (auto &argument : arguments_) {
    roles[argument->source()].insert(argument->roles.begin(), argument->roles.end());
    taken.insert(sourceNames_.at(argument->source()).name);
  }
  OpBuilder builder(func);
  std::set<ParameterSource> declared;
  for (auto &argument : arguments_)
    if (declared.insert(argument->source()).second)
      declareSource(builder, argument->source(), roles[argument->source()]);
  // Set all at once: each list of attributes lives as long as the context.
  llvm::SmallVector<Attribute> attributes(func.getNumArguments(), builder.getDictionaryAttr({}));
  unsigned next = 0;
  for (auto &argument : arguments_) {
    std::string name;
    do
      name = "s" + std::to_string(next++);
    while (taken.contains(name));
    const View &view = argument->view;
    auto source =
        FlatSymbolRefAttr::get(builder.getContext(), sourceNames_.at(argument->source()).name);
    Shape strides = selectDims(view.strides, view.canonicalDims());
    Attribute place = graph::ViewAttr::get(builder.getContext(), source, view.offset, strides);
    graph::StateOp::create(builder, argument->value.getLoc(), builder.getStringAttr(name),
                           TypeAttr::get(argument->value.getType()),
                           graph::RoleAttr::get(builder.getContext(), graph::Role::parameter),
                           FlatSymbolRefAttr(), builder.getArrayAttr(place), UnitAttr(),
                           ArrayAttr());
    attributes[argument->value.getArgNumber()] = builder.getDictionaryAttr(
        builder.getNamedAttr(graph::kState, FlatSymbolRefAttr::get(builder.getContext(), name)));
  }
  func.setAllArgAttrs(attributes);
  llvm::SmallVector<Attribute> constants;
  for (unsigned tensor : constants_)
    constants.push_back(builder.getStringAttr(model_.stored()[tensor].name));
  module->setAttr(graph::kConstants, builder.getArrayAttr(constants));
}
