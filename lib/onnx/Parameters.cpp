#include "lib/onnx/Parameters.h"

#include "lib/support/Pages.h"
#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringSet.h"

#include <cstring>

using namespace llmc;
using namespace llmc::onnximport;
using namespace mlir;

//===-- Tying -----------------------------------------------------------------===//

// The stored matrices that make the logits: operands of the first matrix
// products met on the way back from the graph's output.
static std::vector<unsigned> headMatrices(const Model &model, const NodeOrder &order) {
  static const llvm::StringSet<> passed = {"Identity", "Cast", "Reshape", "Add", "Mul", "Div",
                                           "Tanh", "Slice"};
  std::vector<unsigned> found;
  llvm::SmallVector<llvm::StringRef> open = {model.graph().output(0).name()};
  llvm::StringSet<> seen;
  while (!open.empty()) {
    llvm::StringRef name = open.back();
    open.pop_back();
    auto it = order.producer.find(name);
    if (it == order.producer.end() || !seen.insert(name).second)
      continue;
    const Node &node = order.nodes[it->second];
    if (const Branches *branches = model.branchesOf(*node.proto))
      for (auto [i, output] : llvm::enumerate(node.proto->output()))
        if (output == name)
          open.append({branches->whenTrue[i], branches->whenFalse[i]});
    bool product = node.op() == "MatMul" || node.op() == "Gemm";
    if (!product && !passed.contains(node.op()))
      continue;
    for (size_t i = 0; i < std::min<size_t>(node.inputs(), 2); ++i) {
      llvm::StringRef operand = node.input(i);
      if (!product) {
        open.push_back(operand);
        continue;
      }
      // A weight may be transposed or cast on the way.
      for (auto from = order.producer.find(operand);
           from != order.producer.end() && (order.nodes[from->second].op() == "Transpose" ||
                                            order.nodes[from->second].op() == "Cast");
           from = order.producer.find(operand))
        operand = order.nodes[from->second].input(0);
      if (auto tensor = model.find(operand))
        found.push_back(*tensor);
    }
  }
  return found;
}

// Walks both in pieces and lets go of what it has read: a table may be larger than
// the memory.
constexpr int64_t largestPiece = int64_t(64) << 20;

static bool equalBytes(const std::byte *x, const std::byte *y, int64_t size) {
  for (int64_t at = 0; at < size; at += largestPiece) {
    int64_t piece = std::min(largestPiece, size - at);
    if (std::memcmp(x + at, y + at, piece))
      return false;
    support::releasePages(x + at, piece);
    support::releasePages(y + at, piece);
  }
  return true;
}

// Whether y, [columns, rows], is the transpose of x, [rows, columns]: strips of rows
// of x that fit a piece, in them the rows of y that do, and there small squares.
template <class T>
static bool equalSwapped(const std::byte *x, const std::byte *y, int64_t rows, int64_t columns) {
  constexpr int64_t square = 64, window = 64 << 10; // what the system reads at once
  int64_t strip = std::max<int64_t>(largestPiece / (columns * sizeof(T)), square);
  int64_t chunk = std::max<int64_t>(largestPiece / window, square);
  auto at = [](const std::byte *base, int64_t index) {
    T value;
    std::memcpy(&value, base + index * sizeof(T), sizeof(T));
    return value;
  };
  auto equalSquare = [&](int64_t r0, int64_t r1, int64_t c0, int64_t c1) {
    for (int64_t c = c0; c < c1; ++c)
      for (int64_t r = r0; r < r1; ++r)
        if (at(x, r * columns + c) != at(y, c * rows + r))
          return false;
    return true;
  };
  for (int64_t s0 = 0; s0 < rows; s0 += strip) {
    int64_t s1 = std::min(s0 + strip, rows);
    for (int64_t k0 = 0; k0 < columns; k0 += chunk) {
      int64_t k1 = std::min(k0 + chunk, columns);
      for (int64_t c0 = k0; c0 < k1; c0 += square)
        for (int64_t r0 = s0; r0 < s1; r0 += square)
          if (!equalSquare(r0, std::min(r0 + square, s1), c0, std::min(c0 + square, k1)))
            return false;
      support::releasePages(y + k0 * rows * sizeof(T), (k1 - k0) * rows * sizeof(T));
    }
    support::releasePages(x + s0 * columns * sizeof(T), (s1 - s0) * columns * sizeof(T));
  }
  return true;
}

// Whether matrix `b` holds a's elements, at swapped indices if `transposed`.
static bool equalMatrices(const Model &model, const StoredTensor &a, const StoredTensor &b,
                          bool transposed) {
  const std::byte *x = model.bytesOf(a), *y = model.bytesOf(b);
  if (!x || !y)
    return false;
  int width = bitWidth(a.element);
  if (!transposed)
    return equalBytes(x, y, a.count() * (width / 8));
  return width == 16   ? equalSwapped<uint16_t>(x, y, a.shape[0], a.shape[1])
         : width == 32 ? equalSwapped<uint32_t>(x, y, a.shape[0], a.shape[1])
                       : equalSwapped<uint64_t>(x, y, a.shape[0], a.shape[1]);
}

void Parameters::tieHead(const NodeOrder &order) {
  if (!tokenTable_)
    return;
  const StoredTensor &t = model_.stored()[*tokenTable_];
  for (unsigned head : headMatrices(model_, order)) {
    const StoredTensor &h = model_.stored()[head];
    if (head == *tokenTable_ || h.element != t.element || h.shape.size() != 2)
      continue;
    View view = View::whole(*tokenTable_, t.shape);
    if (h.shape == t.shape && equalMatrices(model_, t, h, false))
      tied_[head] = view;
    else if (h.shape == Shape{t.shape[1], t.shape[0]} && equalMatrices(model_, t, h, true))
      tied_[head] = view.transposed({1, 0});
  }
}

View Parameters::view(unsigned tensor) const {
  auto it = tied_.find(tensor);
  return it == tied_.end() ? View::whole(tensor, model_.stored()[tensor].shape) : it->second;
}

//===-- Arguments -------------------------------------------------------------===//

static Shape pick(llvm::ArrayRef<int64_t> from, llvm::ArrayRef<int64_t> dims) {
  Shape out;
  for (int64_t d : dims)
    out.push_back(from[d]);
  return out;
}

// One dim alone is larger than 1.
bool Parameters::isVector(unsigned tensor) const {
  return llvm::count_if(model_.stored()[tensor].shape, [](int64_t d) { return d > 1; }) == 1;
}

bool Parameters::learns(const View &view, Role role, const ::onnx::NodeProto &user) const {
  return role != Role::Plain || names_.isParameter(view.tensor) ||
         names_.isLookup(view.tensor, user);
}

// Whether a use is of another parameter than the argument, though the file stores one.
bool Parameters::isAnother(const Argument &argument, const View &view, Role role,
                           const ::onnx::NodeProto *user) const {
  bool table = role == Role::Table || argument.roles.count(Role::Table);
  if (!splits_ || table || names_.isBuffer(view.tensor) || argument.learners.empty() ||
      !learns(view, role, *user))
    return false;
  if (argument.learners.count(user))
    return false;
  if (argument.view.name != view.name)
    return true;
  std::optional<bool> same = names_.sameParameter(**argument.learners.begin(), *user);
  return same ? !*same : isVector(view.tensor);
}

// The argument that a use shares, or null; `copies` counts those of equal views.
Parameters::Argument *Parameters::find(const View &view, Role role,
                                       const ::onnx::NodeProto *user, unsigned &copies) {
  Shape dims = view.canonicalDims();
  Shape shape = pick(view.shape, dims), strides = pick(view.strides, dims);
  Argument *shared = nullptr;
  for (auto &argument : arguments_) {
    Shape theirs = argument->view.canonicalDims();
    if (argument->view.tensor != view.tensor || argument->view.offset != view.offset ||
        pick(argument->view.shape, theirs) != shape ||
        pick(argument->view.strides, theirs) != strides)
      continue;
    ++copies;
    if (!shared && !isAnother(*argument, view, role, user))
      shared = argument.get();
  }
  return shared;
}

Value Parameters::use(const View &view, Role role, const ::onnx::NodeProto *user) {
  unsigned copies = 0;
  Argument *argument = find(view, role, user, copies);
  if (!argument) {
    OpBuilder builder(body_.getParentOp()->getContext());
    auto type = RankedTensorType::get(pick(view.shape, view.canonicalDims()), builder.getF32Type());
    auto location = NameLoc::get(builder.getStringAttr(model_.stored()[view.tensor].name));
    arguments_.push_back(std::make_unique<Argument>(
        Argument{view, {}, body_.addArgument(type, location), {}, copies}));
    argument = arguments_.back().get();
  }
  argument->roles.insert(role);
  if (learns(view, role, *user))
    argument->learners.insert(user);
  return argument->value;
}

//===-- Vectors that several nodes use ----------------------------------------===//

Parameters::OwnName Parameters::ownName(const Source &source) const {
  llvm::StringRef suffix = "weight";
  bool madeUp = TorchNames::isMadeUp(model_.stored()[source.tensor].name), transposed = false;
  std::set<std::string> found;
  for (const auto &argument : arguments_) {
    if (argument->view.tensor != source.tensor || argument->copy != source.copy)
      continue;
    const std::string &identity = argument->view.name;
    if (!identity.empty() && !TorchNames::isMadeUp(identity))
      return {identity, false, true};
    bool matrix = argument->roles.count(Role::Weight) && argument->view.strides.size() == 2;
    if (argument->roles.count(Role::Bias))
      suffix = "bias";
    for (const ::onnx::NodeProto *user : argument->learners) {
      found.insert(!madeUp || matrix ? names_.nameOf(*user, suffix) : "");
      transposed = madeUp && matrix && names_.isTransposed(*user);
    }
  }
  return {found.size() == 1 ? *found.begin() : "", transposed, false};
}

// Names the parameters that a stored tensor holds: the one that has its name in the
// program by that, if there is one, the others by numbers. What the program calls a
// parameter besides is kept for the files that are saved, where nothing else has it.
void Parameters::nameSources() {
  std::map<Source, OwnName> own;
  std::map<unsigned, std::vector<Source>> sources;
  for (const auto &argument : arguments_)
    if (Source source = argument->source(); own.try_emplace(source).second) {
      own[source] = ownName(source);
      sources[source.tensor].push_back(source);
    }
  std::map<std::string, unsigned> uses;
  for (const auto &[source, name] : own)
    ++uses[name.name];
  llvm::StringSet<> taken;
  for (auto &[tensor, list] : sources) {
    const std::string &stored = model_.stored()[tensor].name;
    llvm::sort(list);
    auto holder = llvm::find_if(list, [&](const Source &s) { return own[s].name == stored; });
    if (holder == list.end())
      holder = llvm::find_if(list, [&](const Source &s) { return own[s].name.empty(); });
    if (holder != list.end())
      std::rotate(list.begin(), holder, holder + 1);
    unsigned number = 2;
    for (const Source &source : list) {
      const OwnName &known = own[source];
      bool lost = list.size() > 1 || TorchNames::isMadeUp(stored);
      bool free = lost && !known.name.empty() && known.name != stored && uses[known.name] == 1 &&
                  !model_.find(known.name);
      std::string name = free && known.inFile ? known.name : stored;
      while (taken.contains(name) || (name != stored && model_.find(name)))
        name = stored + "#" + std::to_string(number++);
      taken.insert(name);
      sourceNames_[source] = name;
      if (free && !known.inFile)
        ownNames_[source] = known;
    }
  }
}

// A matrix that several products use, and whose elements are not all equal: layers that
// share it share their vectors too. Empty if there is none.
std::string Parameters::sharedMatrix() const {
  auto varies = [&](unsigned tensor) {
    const StoredTensor &stored = model_.stored()[tensor];
    const std::byte *bytes = model_.bytesOf(stored);
    size_t width = bitWidth(stored.element) / 8;
    for (int64_t i = 1; bytes && i < stored.count(); ++i)
      if (std::memcmp(bytes, bytes + i * width, width))
        return true;
    return false;
  };
  for (const auto &argument : arguments_)
    if (argument->learners.size() > 1 && argument->roles.count(Role::Weight) &&
        !argument->roles.count(Role::Table) && varies(argument->view.tensor))
      return model_.stored()[argument->view.tensor].name;
  return {};
}

// Makes one argument of each view again.
void Parameters::joinCopies() {
  for (auto &argument : arguments_) {
    if (!argument->copy)
      continue;
    unsigned copies = 0;
    splits_ = false;
    Argument *first = find(argument->view, Role::Plain, nullptr, copies);
    argument->value.replaceAllUsesWith(first->value);
    first->roles.insert(argument->roles.begin(), argument->roles.end());
    body_.eraseArgument(argument->value.getArgNumber());
  }
  llvm::erase_if(arguments_, [](const auto &argument) { return argument->copy > 0; });
}

// Decides whether vectors that are told apart by their uses alone stay so, and says what
// became of tensors that several parameters had.
void Parameters::settleCopies() {
  std::set<unsigned> merged;
  size_t copies = 0;
  for (const auto &argument : arguments_)
    if (argument->copy) {
      merged.insert(argument->view.tensor);
      ++copies;
    }
  if (merged.empty())
    return;
  auto plural = [](size_t n, const char *one) {
    return std::to_string(n) + " " + one + (n == 1 ? "" : "s");
  };
  std::string matrix = names_.tracks() ? "" : sharedMatrix();
  if (!matrix.empty()) {
    joinCopies();
    notes_.push_back(plural(merged.size(), "vector") + " that several nodes use " +
                     (merged.size() == 1 ? "is" : "are") +
                     " trained as one each, since layers share matrices too ('" + matrix +
                     "'); if the model was just initialised, export it with "
                     "torch.onnx.export(..., dynamo=True, optimize=False), which merges none");
    return;
  }
  notes_.push_back(
      plural(merged.size(), "tensor") + " of the file " +
      (merged.size() == 1 ? "is " : "are ") + std::to_string(merged.size() + copies) +
      " parameters, one a use (NAME, NAME#2, ... where names are lost): torch.onnx.export merges "
      "equal tensors of a model that was just initialised, and may drop biases that are zero; "
      "export with dynamo=True, optimize=False to keep all of them, or compile with --tie exact "
      "to train each as one");
}

void Parameters::makeConstant(Argument &argument) {
  HostTensor data = readView(model_, argument.view);
  Shape dims = argument.view.canonicalDims();
  Shape own = rowMajor(data.shape);
  data = takeStrided(data, pick(data.shape, dims), pick(own, dims));
  OpBuilder builder = OpBuilder::atBlockBegin(&body_);
  std::vector<float> floats(data.floats.begin(), data.floats.end());
  auto type = cast<RankedTensorType>(argument.value.getType());
  Value constant = graph::ConstantOp::create(
      builder, argument.value.getLoc(), type,
      DenseElementsAttr::get(type, llvm::ArrayRef<float>(floats)));
  argument.value.replaceAllUsesWith(constant);
  constants_.insert(argument.view.tensor);
}

// Builds the views of one source by operations on the whole of it.
void Parameters::useWholeSource(llvm::ArrayRef<Argument *> arguments) {
  unsigned tensor = arguments.front()->view.tensor;
  View whole = View::whole(tensor, model_.stored()[tensor].shape);
  std::set<Role> roles;
  OpBuilder builder = OpBuilder::atBlockBegin(&body_);
  Shape full = pick(whole.shape, whole.canonicalDims());
  auto type = RankedTensorType::get(full, builder.getF32Type());
  BlockArgument value = body_.insertArgument(arguments.front()->value.getArgNumber(), type,
                                             arguments.front()->value.getLoc());
  for (Argument *argument : arguments) {
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
    result = build.reshape(result, pick(argument->view.shape, dims));
    argument->value.replaceAllUsesWith(result);
    roles.insert(argument->roles.begin(), argument->roles.end());
  }
  arguments_.push_back(std::make_unique<Argument>(
      Argument{whole, roles, value, {}, arguments.front()->copy}));
}

constexpr int64_t largestConstant = 1 << 20;

// Whether a table's rows do nothing but scale computed values: the cosines and
// sines of rotary positions, which are constants. Learned positions are added.
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

bool Parameters::isTrained(llvm::ArrayRef<Argument *> arguments) const {
  bool learns = false, table = true, rotates = true;
  for (Argument *argument : arguments) {
    for (Role role : argument->roles) {
      learns |= role != Role::Plain;
      table &= role == Role::Plain || role == Role::Table;
    }
    rotates = rotates && onlyRotates(argument->value);
  }
  unsigned tensor = arguments.front()->view.tensor;
  if (names_.isBuffer(tensor))
    return false;
  if (names_.isParameter(tensor) || llvm::any_of(arguments, [&](const Argument *argument) {
        return llvm::any_of(argument->learners, [&](const ::onnx::NodeProto *user) {
          return names_.isLookup(tensor, *user);
        });
      }))
    return true;
  return learns && !(table && tensor != tokenTable_ && rotates);
}

void Parameters::finish(ModuleOp module, func::FuncOp func) {
  settleCopies();
  nameSources();
  llvm::MapVector<std::pair<unsigned, unsigned>, std::vector<Argument *>> bySource;
  for (auto &argument : arguments_)
    bySource[{argument->view.tensor, argument->copy}].push_back(argument.get());
  std::vector<BlockArgument> dropped;
  for (auto &[source, arguments] : bySource) {
    unsigned tensor = source.first;
    bool trained = isTrained(arguments);
    std::vector<const View *> views;
    for (Argument *argument : arguments)
      views.push_back(&argument->view);
    // What is not trained may still be too large to be held in the program.
    bool large = infer_ && model_.stored()[tensor].count() > largestConstant;
    if (!trained && !large)
      for (Argument *argument : arguments)
        makeConstant(*argument);
    else if (!tile(views, model_.stored()[tensor].count()))
      useWholeSource(arguments);
    else
      continue;
    for (Argument *argument : arguments)
      dropped.push_back(argument->value);
  }
  llvm::erase_if(arguments_, [&](const std::unique_ptr<Argument> &argument) {
    return llvm::is_contained(dropped, argument->value);
  });
  for (BlockArgument argument : dropped)
    body_.eraseArgument(argument.getArgNumber());
  func.setFunctionType(FunctionType::get(func.getContext(), body_.getArgumentTypes(),
                                         body_.getTerminator()->getOperandTypes()));
  declare(module, func);
}

//===-- Sources and states ----------------------------------------------------===//

void Parameters::declareSource(OpBuilder &builder, const Source &source,
                               const std::set<Role> &roles) {
  const StoredTensor &stored = model_.stored()[source.tensor];
  auto name = builder.getStringAttr(sourceNames_.at(source));
  auto kind = roles.count(Role::Scale)  ? graph::InitKind::ones
              : roles.count(Role::Bias) ? graph::InitKind::zeros
                                        : graph::InitKind::normal;
  if (roles.count(Role::Weight) || roles.count(Role::Table))
    kind = graph::InitKind::normal;
  // A tied copy that the file stores transposed keeps that form under its own name.
  llvm::SmallVector<Attribute> aliases, transposed;
  for (const auto &[head, view] : tied_) {
    if (view.tensor != source.tensor)
      continue;
    bool swapped = view.strides.size() == 2 && view.strides.front() < view.strides.back();
    (swapped ? transposed : aliases).push_back(builder.getStringAttr(model_.stored()[head].name));
  }
  auto own = ownNames_.find(source);
  if (own != ownNames_.end())
    (own->second.transposed ? transposed : aliases)
        .push_back(builder.getStringAttr(own->second.name));
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
  if (own != ownNames_.end())
    declared->setAttr("unnamed", builder.getUnitAttr());
}

void Parameters::declare(ModuleOp module, func::FuncOp func) {
  llvm::sort(arguments_, [](const auto &a, const auto &b) {
    return a->value.getArgNumber() < b->value.getArgNumber();
  });
  std::map<Source, std::set<Role>> roles;
  llvm::StringSet<> taken = {"forward", "micro", "update"};
  for (auto &argument : arguments_) {
    roles[argument->source()].insert(argument->roles.begin(), argument->roles.end());
    taken.insert(sourceNames_.at(argument->source()));
  }
  OpBuilder builder(func);
  std::set<Source> declared;
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
    auto source = FlatSymbolRefAttr::get(builder.getContext(), sourceNames_.at(argument->source()));
    Shape strides = pick(view.strides, view.canonicalDims());
    Attribute place = graph::ViewAttr::get(builder.getContext(), source, view.offset, strides);
    graph::StateOp::create(builder, argument->value.getLoc(), builder.getStringAttr(name),
                           TypeAttr::get(argument->value.getType()),
                           graph::RoleAttr::get(builder.getContext(), graph::Role::parameter),
                           FlatSymbolRefAttr(), builder.getArrayAttr(place), UnitAttr(),
                           ArrayAttr());
    attributes[argument->value.getArgNumber()] = builder.getDictionaryAttr(builder.getNamedAttr(
        "graph.state", FlatSymbolRefAttr::get(builder.getContext(), name)));
  }
  func.setAllArgAttrs(attributes);
  llvm::SmallVector<Attribute> constants;
  for (unsigned tensor : constants_)
    constants.push_back(builder.getStringAttr(model_.stored()[tensor].name));
  module->setAttr("graph.constants", builder.getArrayAttr(constants));
}
