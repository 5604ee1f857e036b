#include "lib/onnx/file/Flatten.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

using namespace llmc::onnximport;
using llmc::support::error;
using llmc::support::Result;
using llmc::support::Status;
using ::onnx::AttributeProto;
using ::onnx::FunctionProto;
using ::onnx::GraphProto;
using ::onnx::NodeProto;

namespace {

// Limits the size to which a file may grow when its functions are inlined.
constexpr size_t mostNodes = size_t(1) << 20, mostBytes = size_t(1) << 30;
constexpr int deepest = 64;

using Opsets = llvm::StringMap<int64_t>;

llvm::StringRef normalDomain(const std::string &domain) {
  return domain == "ai.onnx" ? llvm::StringRef() : llvm::StringRef(domain);
}

template <class Imports> Opsets opsetsOf(const Imports &imports) {
  Opsets out;
  for (const auto &set : imports)
    out[normalDomain(set.domain())] = set.version();
  return out;
}

// Maps the names of one graph or function in the file to unique names.
struct Scope {
  const Scope *outer = nullptr; // of a subgraph: the scope around it
  bool isGraph = false;         // the model's own graph, whose names stay
  std::string prefix;           // of names in a function
  llvm::StringMap<std::string> names = {};

  std::string resolve(const std::string &name) const {
    if (name.empty())
      return name;
    for (const Scope *scope = this; scope; scope = scope->outer) {
      auto it = scope->names.find(name);
      if (it != scope->names.end())
        return it->second;
      if (scope->isGraph)
        return name;
      if (!scope->outer)
        return scope->prefix + name; // nothing defines it
    }
    return name;
  }
};

// Describes the call of the function that nodes are being inlined from.
struct Frame {
  const Opsets *opsets;
  const NodeProto *call = nullptr; // null in the graph
  const FunctionProto *function = nullptr;
  const Frame *outer = nullptr; // of the call
  int depth = 0;
};

class Flattener {
public:
  explicit Flattener(const ::onnx::ModelProto &model)
      : model_(model), opsets_(opsetsOf(model.opset_import())) {}

  Result<FlatGraph> run() {
    for (const FunctionProto &function : model_.functions())
      if (!functions_.try_emplace(keyOf(function.domain(), function.name(), function.overload()),
                                  &function).second)
        return error("function '", function.name(), "' of domain '", function.domain(),
                     "' is defined twice");
    takeNames(model_.graph());
    Scope scope{.isGraph = true};
    Frame frame{.opsets = &opsets_};
    if (Status s = graph(model_.graph(), scope, frame); !s)
      return s.takeError();
    if (!problems_.empty())
      return error("functions that cannot be put in place of their calls:", problems_);
    return std::move(out_);
  }

private:
  const ::onnx::ModelProto &model_;
  Opsets opsets_;
  std::map<std::string, const FunctionProto *> functions_;
  llvm::StringSet<> taken_;
  FlatGraph out_;
  size_t bytes_ = 0;
  std::string problems_;

  static std::string keyOf(const std::string &domain, const std::string &name,
                           const std::string &overload) {
    return normalDomain(domain).str() + '\0' + name + '\0' + overload;
  }

  void takeNames(const GraphProto &graph) {
    for (const auto &input : graph.input())
      taken_.insert(input.name());
    for (const auto &tensor : graph.initializer())
      taken_.insert(tensor.name());
    for (const NodeProto &node : graph.node())
      for (const std::string &name : node.output())
        taken_.insert(name);
  }

  std::string fresh(const std::string &name) {
    std::string out = name;
    for (unsigned k = 2; !taken_.insert(out).second; ++k)
      out = name + "." + std::to_string(k);
    return out;
  }

  Status graph(const GraphProto &graph, Scope &scope, const Frame &frame) {
    if (graph.sparse_initializer_size())
      return error("sparse initializer '", graph.sparse_initializer(0).values().name(),
                   "' is not supported: store it densely");
    for (const auto &tensor : graph.initializer()) {
      if (!scope.isGraph)
        scope.names.try_emplace(tensor.name(), fresh(tensor.name()));
      out_.initializers.emplace_back(scope.resolve(tensor.name()), &tensor);
    }
    if (!scope.isGraph)
      define(graph.node(), scope);
    return nodes(graph.node(), scope, frame);
  }

  template <class Nodes> void define(const Nodes &nodes, Scope &scope) {
    for (const NodeProto &node : nodes)
      for (const std::string &name : node.output())
        if (!name.empty() && !scope.names.count(name))
          scope.names[name] = fresh(scope.prefix + name);
  }

  template <class Nodes> Status nodes(const Nodes &list, const Scope &scope, const Frame &frame) {
    for (const NodeProto &node : list) {
      auto it = functions_.find(keyOf(node.domain(), node.op_type(), node.overload()));
      Status s = it == functions_.end() ? add(node, scope, frame)
                                        : call(node, *it->second, scope, frame);
      if (!s)
        return s;
    }
    return llmc::support::ok();
  }

  Status append(const NodeProto &node, const Frame &frame) {
    // A function that does not import the domain uses the model's version.
    llvm::StringRef domain = normalDomain(node.domain());
    const Opsets &opsets = frame.opsets->count(domain) ? *frame.opsets : opsets_;
    auto version = opsets.find(domain);
    out_.nodes.emplace_back(node, version == opsets.end() ? 1 : version->second);
    if (out_.nodes.size() > mostNodes || bytes_ > mostBytes)
      return error("the graph has more than ", mostNodes,
                   " nodes when its functions stand in place of their calls");
    return llmc::support::ok();
  }

  Status add(const NodeProto &node, const Scope &scope, const Frame &frame) {
    bool isIf = node.op_type() == "If" && normalDomain(node.domain()).empty();
    if (scope.isGraph && !isIf)
      return append(node, frame);
    NodeProto &copy = out_.made.emplace_back(node);
    bytes_ += copy.ByteSizeLong();
    if (!node.name().empty())
      copy.set_name(prefixOf(scope) + node.name());
    for (int i = 0; i < node.input_size(); ++i)
      copy.set_input(i, scope.resolve(node.input(i)));
    for (int i = 0; i < node.output_size(); ++i)
      copy.set_output(i, scope.resolve(node.output(i)));
    bindAttributes(copy, frame);
    return isIf ? branch(copy, node, scope, frame) : append(copy, frame);
  }

  // Replaces attributes that refer to an attribute of the call by its value, else by the function's
  // default; removes them if there is neither.
  static void bindAttributes(NodeProto &node, const Frame &frame) {
    auto &list = *node.mutable_attribute();
    for (int i = list.size(); i-- > 0;) {
      if (list[i].ref_attr_name().empty())
        continue;
      const AttributeProto *value = attributeOf(frame, list[i].ref_attr_name());
      if (!value) {
        list.DeleteSubrange(i, 1);
        continue;
      }
      std::string name = list[i].name();
      list[i] = *value;
      list[i].set_name(name);
    }
  }

  static const AttributeProto *attributeOf(const Frame &frame, const std::string &name) {
    if (!frame.call)
      return nullptr;
    for (const AttributeProto &a : frame.call->attribute())
      if (a.name() == name)
        return &a;
    for (const AttributeProto &a : frame.function->attribute_proto())
      if (a.name() == name)
        return &a;
    return nullptr;
  }

  Status branch(NodeProto &node, const NodeProto &original, const Scope &scope,
                const Frame &frame) {
    std::string title = Node(original, 0).label();
    Branches results;
    for (auto [name, into] : {std::pair("then_branch", &results.whenTrue),
                              std::pair("else_branch", &results.whenFalse)}) {
      const AttributeProto *attribute = Node(original, 0).find(name);
      if (!attribute || !attribute->has_g())
        return error(title, ": has no ", name);
      if (attribute->g().output_size() != original.output_size() || original.input_size() != 1)
        return error(title, ": ", name, " gives ", attribute->g().output_size(), " values, ",
                     original.output_size(), " are needed, and one condition");
      if (frame.depth >= deepest)
        return error(title, ": more than ", deepest, " branches and functions inside each other");
      Scope inner{.outer = &scope};
      Frame deeper = frame;
      ++deeper.depth;
      if (Status s = graph(attribute->g(), inner, deeper); !s)
        return s;
      for (const auto &output : attribute->g().output())
        into->push_back(inner.resolve(output.name()));
    }
    node.clear_attribute();
    out_.branches[&node] = std::move(results);
    return append(node, frame);
  }

  // Appends an Identity that gives a value a second name.
  Status alias(const std::string &from, const std::string &to, const Frame &frame) {
    NodeProto &node = out_.made.emplace_back();
    node.set_op_type("Identity");
    node.add_input(from);
    node.add_output(to);
    return append(node, frame);
  }

  Status call(const NodeProto &node, const FunctionProto &function, const Scope &outer,
              const Frame &frame) {
    std::string title = Node(node, 0).label();
    for (const Frame *f = &frame; f; f = f->outer)
      if (f->function == &function)
        return error(title, ": function '", function.name(), "' calls itself");
    if (frame.depth >= deepest)
      return error(title, ": more than ", deepest, " branches and functions inside each other");
    if (node.input_size() > function.input_size() || node.output_size() > function.output_size()) {
      problems_ += "\n  " + title + ": has " + std::to_string(node.input_size()) + " operands and " +
                   std::to_string(node.output_size()) + " results, the function takes " +
                   std::to_string(function.input_size()) + " and gives " +
                   std::to_string(function.output_size());
      return llmc::support::ok();
    }
    // Bind the attributes of the call in the frame of the function around it.
    NodeProto bound = node;
    bindAttributes(bound, frame);
    Opsets opsets = opsetsOf(function.opset_import());
    Frame inner{&opsets, &bound, &function, &frame, frame.depth + 1};
    Scope scope{.prefix = prefixOf(outer) + Node(node, 0).name() + "/"};
    for (int i = 0; i < function.input_size(); ++i)
      scope.names[function.input(i)] =
          i < node.input_size() ? outer.resolve(node.input(i)) : std::string();
    std::vector<std::pair<int, std::string>> passed; // results that are operands
    for (int i = 0; i < node.output_size(); ++i) {
      const std::string result = outer.resolve(node.output(i)), &name = function.output(i);
      if (!result.empty() && !scope.names.try_emplace(name, result).second)
        passed.emplace_back(i, result);
    }
    define(function.node(), scope);
    if (Status s = nodes(function.node(), scope, inner); !s)
      return s;
    for (const auto &[i, result] : passed)
      if (Status s = alias(scope.resolve(function.output(i)), result, inner); !s)
        return s;
    return llmc::support::ok();
  }

  static std::string prefixOf(const Scope &scope) {
    const Scope *s = &scope;
    while (s->outer && s->prefix.empty())
      s = s->outer;
    return s->prefix;
  }
};

} // namespace

Result<FlatGraph> llmc::onnximport::flatten(const ::onnx::ModelProto &model) {
  return Flattener(model).run();
}
