// Binds inputs for inference: each is an argument, each dim is bound.
#include "lib/onnx/bind/Lookups.h"

using namespace llmc;
using namespace llmc::onnximport;
using llmc::support::error;
using llmc::support::Result;
using llmc::support::Status;

namespace {

class Binder {
public:
  Binder(const GraphInputs &inputs, const Model &model, const CompileOptions &options)
      : inputs_(inputs), model_(model), options_(options) {}

  Result<InputBinding> run() {
    inputs_.findTokens(out_);
    inputs_.findContext(out_);
    for (auto [name, input] : inputs_.all()) {
      if (leader_.empty() && inputs_.rankOf(name) >= 2)
        leader_ = name.str();
      auto &dims = dims_[name]; // a scalar has none, and is an argument still
      for (int d = 0; d < inputs_.rankOf(name); ++d)
        dims.push_back(dimOf(inputs_, name, d));
    }
    if (!out_.tokens.empty())
      leader_ = out_.tokens;
    for (auto step : {&Binder::bindNames, &Binder::bindTokens, &Binder::solveRest,
                      &Binder::makeArguments, &Binder::checkSequence})
      if (Status s = (this->*step)(); !s)
        return s.takeError();
    return std::move(out_);
  }

private:
  const GraphInputs &inputs_;
  const Model &model_;
  const CompileOptions &options_;
  InputBinding out_;
  llvm::MapVector<llvm::StringRef, std::vector<DimExpression>> dims_;
  Symbols symbols_;
  std::string leader_; // the input whose dim 0 is the batch
  WholeDims wholes_;   // compound expressions that --dim gives a size

  // Binds dim `position` of the tokens to the size that a flag gives.
  Status want(int position, int64_t size, const char *flag) {
    Status s = bindDim(dims_[out_.tokens][position], size, symbols_);
    return s ? support::ok() : Status(error(flag, " ", size, ": ", s.message()));
  }

  bool inOutputs(const std::string &name) const {
    for (const auto &output : model_.graph().output())
      for (const auto &d : output.type().tensor_type().shape().dim())
        if (d.dim_param() == name || llvm::is_contained(DimExpression(d.dim_param()).names(), name))
          return true;
    return false;
  }

  Status bindNames() {
    std::set<std::string> names, texts;
    for (auto &[input, dims] : dims_)
      for (const DimExpression &dim : dims) {
        texts.insert(dim.text());
        names.insert(dim.names().begin(), dim.names().end());
      }
    for (const auto &[name, size] : options_.dims) {
      DimExpression dim(name);
      if (size < 0)
        return error("--dim ", name, "=", size, ": must not be negative");
      if (names.count(dim.text()))
        symbols_[dim.text()] = size;
      else if (texts.count(dim.text()))
        wholes_.push_back({dim, size});
      else if (!inOutputs(dim.text())) // dims of outputs are computed
        return error("--dim ", name, "=", size, ": the inputs have no such dimension, they have ",
                     listOf(names));
    }
    return support::ok();
  }

  static std::string listOf(const std::set<std::string> &names) {
    std::string list;
    for (const std::string &name : names)
      list += (list.empty() ? "" : ", ") + name;
    return list.empty() ? "none" : list;
  }

  Status bindTokens() {
    if (out_.tokens.empty()) {
      if (options_.sequence || options_.globalBatch)
        return error(options_.sequence ? "--seq" : "--global-batch",
                     ": the model has no input of token ids, use --dim");
      return support::ok();
    }
    if (options_.globalBatch)
      if (Status s = want(0, options_.globalBatch, "--global-batch"); !s)
        return s;
    return options_.sequence ? want(1, options_.sequence, "--seq") : support::ok();
  }

  // Solves expressions with given sizes until their names are bound; then reports unbound names.
  Status solveRest() {
    if (Status s = bindWholeDims(wholes_, symbols_); !s)
      return s;
    std::string missing, command;
    std::set<std::string> seen;
    for (auto &[input, dims] : dims_)
      for (const auto &[position, dim] : llvm::enumerate(dims))
        for (const std::string &name : dim.names()) {
          if (symbols_.count(name) || !seen.insert(name).second)
            continue;
          missing += "\n  " + name + ", of input '" + input.str() + "'" + shapeText(dims);
          command += " --dim " + name + "=" + (dim.isName() ? suggestion(input, position) : "0");
        }
    if (seen.empty())
      return support::ok();
    return error(seen.size(), seen.size() > 1 ? " dimensions have" : " dimension has",
                 " no size:", missing, "\n  give each one, for example", command);
  }

  static std::string shapeText(const std::vector<DimExpression> &dims) {
    std::string text;
    for (const DimExpression &dim : dims)
      text += (text.empty() ? " [" : ", ") + dim.text();
    return text + "]";
  }

  // Returns a usual size for the error's example: two rows, no past.
  std::string suggestion(llvm::StringRef input, size_t position) {
    auto size = [&](size_t d) -> int64_t {
      int64_t usual = d == 0 ? 2 : 16;
      if (out_.tokens.empty())
        return usual;
      return dims_[out_.tokens][d].evaluate(symbols_).value_or(usual);
    };
    int rank = inputs_.rankOf(input);
    if (position == 0)
      return std::to_string(rank == 1 ? size(1) : size(0));
    return std::to_string(rank == 2 ? size(1) : position + 1 == size_t(rank) ? 8 : 0);
  }

  bool isBatch(llvm::StringRef input, const Shape &shape) {
    if (leader_.empty() || shape.empty())
      return false;
    const DimExpression &batch = dims_[leader_][0], &own = dims_[input][0];
    if (!batch.names().empty() && own.text() == batch.text())
      return true;
    // With another name or a number, dim 0 is the batch if its size is equal, unless another dim
    // has the batch's name.
    for (const DimExpression &dim : dims_[input])
      if (!batch.names().empty() && dim.text() == batch.text())
        return false;
    return shape.size() >= 2 && shape[0] == out_.batch;
  }

  Status makeArguments() {
    out_.batch = leader_.empty() ? 1 : dims_[leader_][0].evaluate(symbols_).value_or(0);
    if (!out_.tokens.empty())
      out_.sequence = dims_[out_.tokens][1].evaluate(symbols_).value_or(0);
    for (auto &[input, dims] : dims_) {
      InputBinding::Argument argument;
      argument.name = input.str();
      argument.element = *elementOf(inputs_.typeOf(input).elem_type());
      for (const DimExpression &dim : dims) {
        auto size = dim.evaluate(symbols_);
        // Only a cache may be empty.
        bool mayBeEmpty = dims.size() >= 3 && !argument.shape.empty();
        if (!size || *size < (mayBeEmpty ? 0 : 1))
          return error("input '", argument.name, "': its dimension ", dim.text(), " is ",
                       size ? std::to_string(*size) : "beyond all sizes", ", it must be ",
                       mayBeEmpty ? "0 or more" : "positive");
        argument.shape.push_back(*size);
      }
      if (!countElements(argument.shape))
        return error("input '", argument.name, "' of shape ", toText(argument.shape),
                     " is too large");
      argument.batched = isBatch(input, argument.shape);
      out_.arguments.push_back(std::move(argument));
    }
    bindKnown();
    return support::ok();
  }

  void bindKnown() {
    bool past = false, cached = false;
    for (const auto &argument : out_.arguments) {
      bool empty = *countElements(argument.shape) == 0;
      bool isCache = argument.shape.size() >= 3 && isFloat(argument.element);
      cached |= isCache;
      past |= !empty && isCache;
      if (empty)
        out_.constants[argument.name] = HostTensor(argument.element, argument.shape);
    }
    // Without a cache, a condition stays an argument.
    for (const auto &argument : out_.arguments) {
      if (!cached || *countElements(argument.shape) != 1 || !inputs_.isCondition(argument.name))
        continue;
      HostTensor value(Element::Bool, argument.shape);
      value.set(0, int64_t(past));
      out_.constants[argument.name] = std::move(value);
    }
  }

  Status checkSequence() {
    if (out_.context && out_.sequence > out_.context)
      return error("the sequence of ", out_.sequence, " is longer than the position table '",
                   out_.positionTable, "' of ", out_.context, " rows: use --seq ", out_.context,
                   " or less");
    return support::ok();
  }
};

} // namespace

Result<InputBinding> llmc::onnximport::bindInferInputs(const GraphInputs &inputs,
                                                       const Model &model,
                                                       const CompileOptions &options) {
  return Binder(inputs, model, options).run();
}
