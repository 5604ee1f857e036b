#include "lib/onnx/Inputs.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringSet.h"

using namespace llmc;
using namespace llmc::onnximport;
using llmc::CompileOptions;
using llmc::support::error;
using llmc::support::Result;
using llmc::support::Status;

namespace {

constexpr int64_t longestDefault = 4096;

// A Gather from a stored float matrix.
struct Lookup {
  unsigned table;
  llvm::StringRef input; // the graph input that is the index, empty if computed
};

class Binder {
public:
  Binder(const Model &model, const NodeOrder &order, const CompileOptions &options)
      : model_(model), order_(order), options_(options) {}

  Result<InputBinding> run() {
    for (const auto &input : model_.graph().input())
      if (!model_.find(input.name()))
        inputs_[input.name()] = &input;
    findLookups();
    for (auto step : {&Binder::chooseTokens, &Binder::findContext, &Binder::bindSequence,
                      &Binder::bindBatch, &Binder::checkDimNames, &Binder::bindOthers})
      if (Status s = (this->*step)(); !s)
        return error(model_.path(), ": ", s.message());
    return std::move(out_);
  }

private:
  const Model &model_;
  const NodeOrder &order_;
  const CompileOptions &options_;
  llvm::MapVector<llvm::StringRef, const ::onnx::ValueInfoProto *> inputs_;
  std::vector<Lookup> lookups_;
  InputBinding out_;

  const ::onnx::TypeProto::Tensor &typeOf(llvm::StringRef input) {
    return inputs_.find(input)->second->type().tensor_type();
  }
  int rankOf(llvm::StringRef input) { return typeOf(input).shape().dim_size(); }

  // Follows a name back over nodes that only rearrange its first operand.
  llvm::StringRef originOf(llvm::StringRef name) {
    static const llvm::StringSet<> keeps = {"Reshape", "Cast",      "Identity", "Flatten",
                                            "Squeeze", "Unsqueeze", "Expand"};
    for (auto it = order_.producer.find(name); it != order_.producer.end();
         it = order_.producer.find(name)) {
      const Node &node = order_.nodes[it->second];
      if (!keeps.contains(node.op()) || !node.inputs())
        break;
      name = node.input(0);
    }
    return name;
  }

  void findLookups() {
    for (const Node &node : order_.nodes) {
      if (node.op() != "Gather" || node.inputs() < 2 || node.integer("axis", 0) != 0)
        continue;
      auto table = model_.find(originOf(node.input(0)));
      if (!table || !model_.stored()[*table].isFloat() || model_.stored()[*table].shape.size() != 2)
        continue;
      llvm::StringRef origin = originOf(node.input(1));
      lookups_.push_back({*table, inputs_.count(origin) ? origin : llvm::StringRef()});
    }
  }

  int64_t rows(unsigned table) { return model_.stored()[table].shape[0]; }

  Status chooseTokens() {
    const auto &shape = model_.graph().output(0).type().tensor_type().shape();
    int64_t words = shape.dim_size() ? shape.dim(shape.dim_size() - 1).dim_value() : 0;
    const Lookup *best = nullptr;
    for (const Lookup &lookup : lookups_) {
      if (lookup.input.empty() || rankOf(lookup.input) != 2)
        continue;
      auto rank = [&](const Lookup &l) { return std::pair(rows(l.table) == words, rows(l.table)); };
      if (!best || rank(lookup) > rank(*best))
        best = &lookup;
    }
    if (!best)
      return error("no input of integers [batch, sequence] is looked up in an embedding table: "
                   "only models of token ids are supported");
    out_.tokens = best->input.str();
    out_.tokenTable = best->table;
    return support::ok();
  }

  Status findContext() {
    for (const Lookup &lookup : lookups_) {
      if (lookup.input == out_.tokens || rows(lookup.table) <= out_.context)
        continue;
      out_.context = rows(lookup.table);
      out_.positionTable = model_.stored()[lookup.table].name;
    }
    return support::ok();
  }

  // The value that the model or --dim gives to a dim of the tokens, 0 if none.
  Result<int64_t> givenSize(int dim) {
    const auto &d = typeOf(out_.tokens).shape().dim(dim);
    if (d.has_dim_value() && d.dim_value() > 0)
      return d.dim_value();
    auto it = options_.dims.find(d.dim_param());
    if (it == options_.dims.end())
      return int64_t(0);
    if (it->second <= 0)
      return error("--dim ", it->first, "=", it->second, ": must be positive");
    return it->second;
  }

  Status bindSequence() {
    auto given = givenSize(1);
    if (!given)
      return given.takeError();
    int64_t wanted = options_.sequence;
    if (wanted < 0)
      return error("--seq ", wanted, ": must be positive");
    if (wanted && *given && wanted != *given)
      return error("input '", out_.tokens, "' has sequence length ", *given, ", --seq asks for ",
                   wanted, ": use --seq ", *given, " or export with a dynamic length");
    out_.sequence = wanted ? wanted : *given;
    if (!out_.sequence)
      out_.sequence = out_.context ? std::min(out_.context, longestDefault) : longestDefault;
    if (out_.context && out_.sequence > out_.context)
      return error("the sequence of ", out_.sequence, " is longer than the position table '",
                   out_.positionTable, "' of ", out_.context, " rows: use --seq ", out_.context,
                   " or less");
    return support::ok();
  }

  Status bindBatch() {
    auto given = givenSize(0);
    if (!given)
      return given.takeError();
    out_.batch = options_.batchRows();
    if (out_.batch <= 0)
      return error("the micro-batch must be positive, got ", options_.microBatch);
    if (*given && *given != out_.batch)
      return error("input '", out_.tokens, "' has a batch of ", *given, ", micro-batch ",
                   options_.microBatch, " x dp ", options_.dp, " is ", out_.batch,
                   ": make their product ", *given, " or export with a dynamic batch");
    return support::ok();
  }

  Status checkDimNames() {
    llvm::StringSet<> names;
    std::string list;
    for (auto [name, input] : inputs_)
      for (const auto &d : input->type().tensor_type().shape().dim())
        if (!d.dim_param().empty() && names.insert(d.dim_param()).second)
          list += (list.empty() ? "" : ", ") + d.dim_param();
    for (const auto &[name, value] : options_.dims)
      if (!names.contains(name))
        return error("--dim ", name, ": the inputs have no such dimension, they have ",
                     list.empty() ? "none" : list);
    return support::ok();
  }

  enum class Default { Ones, Zeros, Positions };

  // The names that programs take for inputs first, then what the graph does with
  // the input.
  Default defaultOf(llvm::StringRef name) {
    if (name == "position_ids" || name == "cache_position")
      return Default::Positions;
    if (name == "token_type_ids")
      return Default::Zeros;
    for (const Lookup &lookup : lookups_)
      if (lookup.input == name)
        return rows(lookup.table) < out_.sequence ? Default::Zeros : Default::Positions;
    if (rankOf(name) < 2)
      return rankOf(name) == 1 ? Default::Positions : Default::Zeros;
    return Default::Ones;
  }

  // Batch first, then the sequence; a cache (three dims or more) is empty.
  Result<Shape> shapeOf(llvm::StringRef name) {
    Shape shape;
    for (const auto &d : typeOf(name).shape().dim()) {
      size_t i = shape.size();
      int64_t bound = rankOf(name) == 1 ? out_.sequence
                      : i == 0          ? out_.batch
                      : rankOf(name) == 2 ? out_.sequence
                                          : 0;
      if (d.has_dim_value() && d.dim_value() > 0) {
        if (rankOf(name) <= 2 && d.dim_value() != bound)
          return error("input '", name.str(), "' has size ", d.dim_value(), " where ", bound,
                       " is needed: export with dynamic sizes");
        bound = d.dim_value();
      }
      shape.push_back(bound);
    }
    return shape;
  }

  Status bindOthers() {
    for (auto [name, input] : inputs_) {
      if (name == out_.tokens)
        continue;
      auto element = elementOf(typeOf(name).elem_type());
      if (!element || !typeOf(name).has_shape())
        return error("input '", name.str(), "' (", elementName(typeOf(name).elem_type()),
                     ") is not supported: tensors of float32, int64, int32 and bool are");
      auto shape = shapeOf(name);
      if (!shape)
        return shape.takeError();
      if (Status s = checkSize(name, *shape); !s)
        return s;
      HostTensor value(*element, *shape);
      Default kind = defaultOf(name);
      for (int64_t i = 0; i < value.size(); ++i)
        value.set(i, kind == Default::Positions ? i % out_.sequence
                                                : int64_t(kind == Default::Ones));
      out_.constants[name] = std::move(value);
    }
    return support::ok();
  }

  static Status checkSize(llvm::StringRef name, const Shape &shape) {
    if (!countElements(shape, maxHostElements))
      return error("input '", name.str(), "' of shape ", toText(shape), " is too large");
    return support::ok();
  }
};

} // namespace

Result<InputBinding> llmc::onnximport::bindInputs(const Model &model, const NodeOrder &order,
                                                  const CompileOptions &options) {
  return Binder(model, order, options).run();
}
