#include "lib/onnx/file/NodeOrder.h"

using namespace llmc;
using namespace llmc::onnximport;
using llmc::support::error;
using llmc::support::Result;
using llmc::support::Status;

namespace {
enum State : uint8_t { Fresh, Open, Done };
}

Status NodeTraversal::index() {
  std::string twice;
  for (const auto &input : model_.graph().input())
    if (!inputs_.insert(input.name()).second)
      twice += "\n  '" + input.name() + "', twice an input";
  auto nodes = model_.nodes();
  for (size_t n = 0; n < nodes.size(); ++n)
    for (const std::string &name : nodes[n].proto->output()) {
      bool stored = nodes[n].op() != "Constant" && model_.find(name);
      bool fresh = name.empty() || definedBy_.try_emplace(name, n).second;
      if (!fresh || stored || (!name.empty() && inputs_.contains(name)))
        twice += "\n  '" + name + "', again by " + nodes[n].label();
    }
  if (!twice.empty())
    return error(model_.path(), ": values that are defined twice:", twice);
  return support::ok();
}

Status NodeTraversal::enter(const std::string &value, llvm::function_ref<std::string()> user) {
  if (value.empty() || inputs_.contains(value) || model_.find(value))
    return support::ok();
  auto it = definedBy_.find(value);
  if (it == definedBy_.end()) {
    if (missing_.insert(value).second)
      undefined_ += "\n  '" + value + "', used by " + user();
  } else if (state_[it->second] == Open) {
    return error(model_.path(), ": the graph has a cycle through ",
                 model_.nodes()[it->second].label(), " and ", user());
  } else if (state_[it->second] == Fresh) {
    state_[it->second] = Open;
    stack_.push_back({it->second});
  }
  return support::ok();
}

// Returns the name of the next operand, null after the last one. Those of an If continue with the
// results of the branches that `choose` takes once the condition has been visited.
const std::string *NodeTraversal::nextOperand(Frame &frame, Choose choose) {
  const Node &node = model_.nodes()[frame.node];
  size_t at = frame.next++, inputs = node.inputs();
  if (at < inputs)
    return &node.proto->input(at);
  const Branches *branches = model_.branchesOf(*node.proto);
  if (!branches)
    return nullptr;
  if (at == inputs)
    frame.taken = choose(node);
  at -= inputs;
  for (auto [results, taken] : {std::pair(&branches->whenTrue, TakenBranches::True),
                                std::pair(&branches->whenFalse, TakenBranches::False)}) {
    if (frame.taken != taken && frame.taken != TakenBranches::Both)
      continue;
    if (at < results->size())
      return &(*results)[at];
    at -= results->size();
  }
  return nullptr;
}

// Searches depth-first with a stack of its own: graphs are deeper than the call stack.
Status NodeTraversal::run(llvm::ArrayRef<std::string> values, Visit visit, Choose choose) {
  state_.assign(model_.nodes().size(), Fresh);
  for (const std::string &value : values) {
    if (Status s = enter(value, [] { return std::string("the graph's outputs"); }); !s)
      return s;
    while (!stack_.empty()) {
      unsigned n = stack_.back().node;
      const Node &node = model_.nodes()[n];
      if (const std::string *operand = nextOperand(stack_.back(), choose)) {
        if (Status s = enter(*operand, [&] { return node.label(); }); !s)
          return s;
        continue;
      }
      state_[n] = Done;
      stack_.pop_back();
      visit(node);
    }
  }
  if (!undefined_.empty())
    return error(model_.path(), ": values that nothing defines:", undefined_);
  return support::ok();
}

// Chooses the branch of an If by the condition that the file stores, both branches without one.
static TakenBranches chooseStored(const Model &model, const Node &node) {
  auto stored = model.find(node.input(0));
  if (!stored || model.stored()[*stored].count() != 1)
    return TakenBranches::Both;
  return model.read(model.stored()[*stored]).number(0) != 0 ? TakenBranches::True
                                                            : TakenBranches::False;
}

Result<NodeOrder> llmc::onnximport::orderNodes(const Model &model, bool allOutputs) {
  NodeOrder order;
  for (const auto &output : model.graph().output())
    if (allOutputs || order.results.empty())
      order.results.push_back(output.name());
  NodeTraversal walk(model);
  if (Status s = walk.index(); !s)
    return s.takeError();
  auto visit = [&](const Node &node) {
    for (const std::string &output : node.proto->output())
      order.producer[output] = order.nodes.size();
    order.nodes.push_back(node);
  };
  auto choose = [&](const Node &node) { return chooseStored(model, node); };
  if (Status s = walk.run(order.results, visit, choose); !s)
    return s.takeError();
  return std::move(order);
}

Status llmc::onnximport::checkOps(const Model &model, const NodeOrder &order,
                                  llvm::function_ref<bool(llvm::StringRef)> isKnown) {
  std::map<std::string, std::vector<std::string>> unknown;
  size_t count = 0;
  for (const Node &node : order.nodes) {
    std::string op = node.qualifiedOp();
    if (isKnown(op) || model.branchesOf(*node.proto))
      continue;
    unknown[op].push_back(node.name());
    ++count;
  }
  if (unknown.empty())
    return support::ok();
  std::string text;
  for (const auto &[op, names] : unknown) {
    text += "\n  " + op + ": node" + (names.size() > 1 ? "s" : "");
    for (size_t i = 0; i < names.size(); ++i)
      text += (i ? ", '" : " '") + names[i] + "'";
  }
  return error(model.path(), ": ", unknown.size(),
               unknown.size() > 1 ? " ops are" : " op is", " not supported, in ", count,
               count > 1 ? " nodes" : " node",
               " (export without them, or open an issue that names them):", text);
}
