#include "lib/onnx/bind/Lookups.h"

using namespace llmc::onnximport;
using llmc::support::error;
using llmc::support::Status;

GraphInputs::GraphInputs(const Model &model, const NodeOrder &order)
    : model_(model), order_(order) {
  for (const auto &input : model_.graph().input())
    if (!model_.find(input.name()))
      inputs_[input.name()] = &input;
  for (const Node &node : order_.nodes) {
    if (node.op() == "Gather" && node.integer("axis", 0) == 0)
      addLookup(node.input(0), node.input(1));
    if (node.op() == "EmbedLayerNormalization") {
      addLookup(node.input(2), node.input(0));
      addLookup(node.input(3), node.input(7));
      addLookup(node.input(4), node.input(1));
    }
  }
}

// Follows a name back through nodes that only rearrange their first operand or, if `parts`, take
// a slice of it.
llvm::StringRef GraphInputs::originOf(llvm::StringRef name, bool parts) const {
  static const llvm::StringSet<> keeps = {"Reshape", "Cast",      "Identity", "Flatten",
                                          "Squeeze", "Unsqueeze", "Expand"};
  for (auto it = order_.producer.find(name); it != order_.producer.end();
       it = order_.producer.find(name)) {
    const Node &node = order_.nodes[it->second];
    if (!(keeps.contains(node.op()) || (parts && node.op() == "Slice")) || !node.inputs())
      break;
    name = node.input(0);
  }
  return name;
}

void GraphInputs::addLookup(llvm::StringRef tableName, llvm::StringRef index) {
  auto table = model_.find(originOf(tableName));
  if (!table || !model_.stored()[*table].isFloat() || model_.stored()[*table].shape.size() != 2)
    return;
  llvm::StringRef origin = originOf(index, /*parts=*/true);
  lookups_.push_back({*table, inputs_.count(origin) ? origin : llvm::StringRef(),
                      indexOf(index, 0) == Index::Positions});
}

static bool isEven(const HostTensor &tensor) { return llvm::all_equal(tensor.ints); }

GraphInputs::Index GraphInputs::indexOf(llvm::StringRef name, int depth) {
  constexpr int64_t longest = int64_t(1) << 20;
  constexpr int deepest = 64;
  if (name.empty())
    return Index::Positions; // left out: the op itself counts positions
  if (auto stored = model_.find(name)) {
    const StoredTensor &tensor = model_.stored()[*stored];
    if (tensor.isFloat() || tensor.count() > longest)
      return Index::Other;
    return isEven(model_.read(tensor)) ? Index::Even : Index::Positions;
  }
  if (inputs_.count(name))
    return name == "token_type_ids" ? Index::Even : Index::Positions;
  auto made = order_.producer.find(name);
  if (made == order_.producer.end() || depth > deepest)
    return Index::Other;
  auto [known, added] = indices_.try_emplace(name, Index::Other);
  if (!added)
    return known->second;
  return indices_[name] = computedIndex(order_.nodes[made->second], depth);
}

GraphInputs::Index GraphInputs::computedIndex(const Node &node, int depth) {
  static const llvm::StringSet<> keeps = {"Reshape",   "Cast",           "Identity", "Flatten",
                                          "Squeeze",   "Unsqueeze",      "Expand",   "Slice",
                                          "Transpose", "GatherElements", "Tile",     "Gather"};
  static const llvm::StringSet<> even = {"Equal",
                                         "Not",
                                         "And",
                                         "Or",
                                         "Less",
                                         "LessOrEqual",
                                         "Greater",
                                         "GreaterOrEqual",
                                         "Shape",
                                         "Size",
                                         "ConstantOfShape"};
  static const llvm::StringSet<> joins = {"Add", "Sub", "Mul", "Where", "Concat"};
  if (node.op() == "Range" || node.op() == "CumSum")
    return Index::Positions;
  if (even.contains(node.op()))
    return Index::Even;
  if (keeps.contains(node.op()))
    return indexOf(node.input(0), depth + 1);
  if (!joins.contains(node.op()))
    return Index::Other;
  Index all = Index::Even;
  for (size_t i = node.op() == "Where" ? 1 : 0; i < node.inputs() && all != Index::Other; ++i)
    all = std::max(all, indexOf(node.input(i), depth + 1));
  return all;
}

Status GraphInputs::check() const {
  for (auto [name, input] : inputs_) {
    if (!input->type().has_tensor_type())
      return error("input '", name.str(), "' is not a tensor: only tensors are supported");
    const auto &type = typeOf(name);
    if (!elementOf(type.elem_type()))
      return error("input '", name.str(), "' (", elementName(type.elem_type()),
                   ") is not supported: tensors of numbers and booleans are");
    if (!type.has_shape())
      return error("input '", name.str(), "' has no shape: export with a known rank");
    for (const auto &[i, d] : llvm::enumerate(type.shape().dim())) {
      bool mayBeEmpty = type.shape().dim_size() >= 3 && i > 0;
      if (d.has_dim_value() && d.dim_value() < (mayBeEmpty ? 0 : 1))
        return error("input '", name.str(), "' has a dim of ", d.dim_value(), " (dim ", i,
                     "): export with its size, or with a name where it may vary");
    }
  }
  return support::ok();
}

void GraphInputs::findTokens(InputBinding &out) const {
  const auto &shape = model_.graph().output(0).type().tensor_type().shape();
  int64_t words = shape.dim_size() ? shape.dim(shape.dim_size() - 1).dim_value() : 0;
  const Lookup *best = nullptr;
  for (const Lookup &lookup : lookups_) {
    if (lookup.input.empty() || rankOf(lookup.input) != 2 ||
        isFloat(*elementOf(typeOf(lookup.input).elem_type())))
      continue;
    auto rank = [&](const Lookup &l) { return std::pair(rows(l) == words, rows(l)); };
    if (!best || rank(lookup) > rank(*best))
      best = &lookup;
  }
  if (!best)
    return;
  out.tokens = best->input.str();
  out.tokenTable = best->table;
}

void GraphInputs::findContext(InputBinding &out) const {
  for (const Lookup &lookup : lookups_) {
    bool isOfTokens = !lookup.input.empty() && lookup.input == out.tokens;
    if (!lookup.ofPositions || isOfTokens || rows(lookup) <= out.context)
      continue;
    out.context = rows(lookup);
    out.positionTable = model_.stored()[lookup.table].name;
  }
}

bool GraphInputs::isCondition(llvm::StringRef input) const {
  if (elementOf(typeOf(input).elem_type()) != Element::Bool)
    return false;
  return llvm::any_of(order_.nodes, [&](const Node &node) {
    return model_.branchesOf(*node.proto) && originOf(node.input(0)) == input;
  });
}

DimExpression llmc::onnximport::dimOf(const GraphInputs &inputs, llvm::StringRef input,
                                      int position) {
  const auto &d = inputs.typeOf(input).shape().dim(position);
  if (d.has_dim_value())
    return DimExpression(std::to_string(d.dim_value()));
  if (!d.dim_param().empty())
    return DimExpression(d.dim_param());
  return DimExpression(input.str() + "." + std::to_string(position));
}

Status llmc::onnximport::bindDim(const DimExpression &dim, int64_t size, Symbols &symbols) {
  auto known = dim.evaluate(symbols);
  if (known && *known != size)
    return error("the dimension ", dim.text(), " is ", *known);
  if (known)
    return support::ok();
  if (auto solved = dim.solve(symbols, size)) {
    symbols[solved->first] = solved->second;
    return support::ok();
  }
  return dim.names().size() > 1
             ? support::ok()
             : Status(error("the dimension ", dim.text(), " cannot have this size"));
}

Status llmc::onnximport::bindWholeDims(const WholeDims &dims, Symbols &symbols) {
  for (size_t round = 0; round <= dims.size(); ++round)
    for (const auto &[dim, size] : dims)
      if (Status s = bindDim(dim, size, symbols); !s)
        return error("--dim ", dim.text(), "=", size, ": ", s.message());
  return support::ok();
}
