#include "lib/onnx/NodeOrder.h"

#include "llvm/ADT/StringSet.h"

using namespace llmc;
using namespace llmc::onnximport;
using llmc::support::error;
using llmc::support::Result;
using llmc::support::Status;

namespace {

class Walk {
public:
  explicit Walk(const Model &model) : model_(model), graph_(model.graph()) {}

  Result<NodeOrder> run() {
    if (Status s = index(); !s)
      return s.takeError();
    const std::string &output = graph_.output(0).name();
    if (Status s = require(output, "the graph's first output"); !s)
      return s.takeError();
    if (!undefined_.empty())
      return error(model_.path(), ": values that nothing defines:", undefined_);
    return std::move(order_);
  }

private:
  const Model &model_;
  const ::onnx::GraphProto &graph_;
  llvm::StringMap<int> definedBy_;
  llvm::StringSet<> inputs_, missing_;
  std::string undefined_;
  NodeOrder order_;

  Status index() {
    std::string twice;
    for (const auto &input : graph_.input())
      inputs_.insert(input.name());
    for (int n = 0; n < graph_.node_size(); ++n)
      for (const std::string &name : graph_.node(n).output()) {
        bool stored = graph_.node(n).op_type() != "Constant" && model_.find(name);
        bool fresh = name.empty() || definedBy_.try_emplace(name, n).second;
        if (!fresh || stored || (!name.empty() && inputs_.contains(name)))
          twice += "\n  '" + name + "', again by " +
                   Node(graph_.node(n), model_.opset()).label();
      }
    if (!twice.empty())
      return error(model_.path(), ": values that are defined twice:", twice);
    return support::ok();
  }

  bool isLeaf(const std::string &name) const {
    return name.empty() || inputs_.contains(name) || model_.find(name).has_value();
  }

  void noteUndefined(const std::string &name, const std::string &user) {
    if (missing_.insert(name).second)
      undefined_ += "\n  '" + name + "', used by " + user;
  }

  // Depth first without recursion: graphs are deeper than a stack.
  Status require(const std::string &name, const std::string &user) {
    enum : uint8_t { Fresh, Open, Done };
    std::vector<uint8_t> state(graph_.node_size(), Fresh);
    std::vector<std::pair<int, int>> stack; // node, next operand
    auto enter = [&](const std::string &value, const std::string &by) -> Status {
      if (isLeaf(value))
        return support::ok();
      auto it = definedBy_.find(value);
      if (it == definedBy_.end()) {
        noteUndefined(value, by);
      } else if (state[it->second] == Open) {
        return error(model_.path(), ": the graph has a cycle through ",
                     Node(graph_.node(it->second), model_.opset()).label(), " and ", by);
      } else if (state[it->second] == Fresh) {
        state[it->second] = Open;
        stack.push_back({it->second, 0});
      }
      return support::ok();
    };
    if (Status s = enter(name, user); !s)
      return s;
    while (!stack.empty()) {
      auto [n, operand] = stack.back();
      const auto &node = graph_.node(n);
      if (operand < node.input_size()) {
        ++stack.back().second;
        if (Status s = enter(node.input(operand), Node(node, model_.opset()).label()); !s)
          return s;
        continue;
      }
      state[n] = Done;
      stack.pop_back();
      for (const std::string &output : node.output())
        order_.producer[output] = order_.nodes.size();
      order_.nodes.emplace_back(node, model_.opset());
    }
    return support::ok();
  }
};

} // namespace

Result<NodeOrder> llmc::onnximport::orderNodes(const Model &model) { return Walk(model).run(); }

Status llmc::onnximport::checkOps(const Model &model, const NodeOrder &order,
                                  llvm::function_ref<bool(llvm::StringRef)> isKnown) {
  std::map<std::string, std::vector<std::string>> unknown;
  size_t count = 0;
  for (const Node &node : order.nodes) {
    std::string op = node.qualifiedOp();
    if (isKnown(op))
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
