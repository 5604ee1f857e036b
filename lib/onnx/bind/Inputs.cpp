// Binds inputs for training: all but the tokens get default values.
#include "lib/onnx/bind/Inputs.h"

#include "lib/onnx/bind/Lookups.h"

using namespace llmc;
using namespace llmc::onnximport;
using llmc::CompileOptions;
using llmc::support::error;
using llmc::support::Result;
using llmc::support::Status;

namespace {

// Returns "3 for 6 rows", or the sizes nearest to what `dp` ranks cannot share.
std::string nearestMicroBatches(int64_t rows, int64_t dp) {
  int64_t below = rows / dp;
  std::string above = support::text(below + 1, " for ", (below + 1) * dp, " rows");
  if (below == 0)
    return above;
  return support::text(below, " for ", below * dp, " rows", rows % dp ? " or " + above : "");
}

class Binder {
public:
  Binder(const GraphInputs &inputs, const CompileOptions &options)
      : inputs_(inputs), options_(options) {}

  Result<InputBinding> run() {
    for (auto step : {&Binder::chooseTokens, &Binder::checkDimNames, &Binder::bindSequence,
                      &Binder::bindBatch, &Binder::solveWholes, &Binder::bindOthers})
      if (Status s = (this->*step)(); !s)
        return s.takeError();
    return std::move(out_);
  }

private:
  const GraphInputs &inputs_;
  const CompileOptions &options_;
  InputBinding out_;
  Symbols symbols_;  // of --dim and of the tokens
  WholeDims wholes_; // compound expressions that --dim gives a size

  Status chooseTokens() {
    inputs_.findTokens(out_);
    if (out_.tokens.empty())
      return error("no input of integers [batch, sequence] is looked up in an embedding table: "
                   "only models of token ids are supported");
    inputs_.findContext(out_);
    for (const auto &[name, size] : options_.dims)
      if (DimExpression dim(name); dim.isName())
        symbols_[dim.text()] = size;
      else
        wholes_.push_back({dim, size});
    return bindWholeDims(wholes_, symbols_);
  }

  // Returns the size that the model or --dim gives to a dim of the tokens, 0 if none does.
  Result<int64_t> givenSize(int position) {
    DimExpression dim = dimOf(inputs_, out_.tokens, position);
    auto size = dim.evaluate(symbols_);
    if (size && *size <= 0)
      return error("--dim ", dim.text(), "=", *size, ": must be positive");
    return size.value_or(0);
  }
  // Binds the name of a dim of the tokens: other inputs may have the same dim.
  void bindSize(int position, int64_t size) {
    DimExpression dim = dimOf(inputs_, out_.tokens, position);
    if (dim.isName())
      symbols_[dim.text()] = size;
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
      out_.sequence = out_.context ? std::min(out_.context, kLongestDefault) : kLongestDefault;
    if (out_.context && out_.sequence > out_.context)
      return error("the sequence of ", out_.sequence, " is longer than the position table '",
                   out_.positionTable, "' of ", out_.context, " rows: use --seq ", out_.context,
                   " or less");
    bindSize(1, out_.sequence);
    return support::ok();
  }

  Status bindBatch() {
    auto given = givenSize(0);
    if (!given)
      return given.takeError();
    out_.batch = options_.batchRows();
    if (out_.batch <= 0)
      return error("the micro-batch must be positive, got ", options_.microBatch);
    DimExpression dim = dimOf(inputs_, out_.tokens, 0);
    if (*given && *given != out_.batch && !dim.names().empty())
      return error("--dim ", dim.text(), "=", *given, ": micro-batch ", options_.microBatch,
                   " x dp ", options_.dp, " is ", out_.batch,
                   "; leave it out and use --micro-batch ", nearestMicroBatches(*given, options_.dp));
    if (*given && *given != out_.batch)
      return error("input '", out_.tokens, "' has a batch of ", *given, ", micro-batch ",
                   options_.microBatch, " x dp ", options_.dp, " is ", out_.batch,
                   ": make their product ", *given, " or export with a dynamic batch");
    bindSize(0, out_.batch);
    return support::ok();
  }

  Status checkDimNames() {
    std::set<std::string> names;
    std::string list;
    for (auto [name, input] : inputs_.all())
      for (int d = 0; d < inputs_.rankOf(name); ++d) {
        DimExpression dim = dimOf(inputs_, name, d);
        for (const std::string &part : dim.names())
          if (names.insert(part).second)
            list += (list.empty() ? "" : ", ") + part;
        names.insert(dim.text());
      }
    for (const auto &[name, value] : options_.dims)
      if (!names.count(DimExpression(name).text()))
        return error("--dim ", name, ": the inputs have no such dimension, they have ",
                     list.empty() ? "none" : list);
    return support::ok();
  }

  // Solves the expressions that the sizes of the tokens decide; fails for one that stays open.
  Status solveWholes() {
    if (Status s = bindWholeDims(wholes_, symbols_); !s)
      return s;
    for (const auto &[dim, size] : wholes_)
      if (!dim.evaluate(symbols_))
        return error("--dim ", dim.text(), "=", size,
                     ": several of its names have no size, give one of them too");
    return support::ok();
  }

  enum class Default { Ones, Zeros, Positions };

  // Returns the default values of an input: by the names that are usual for inputs, else by the
  // way the graph uses it.
  Default defaultOf(llvm::StringRef name, int64_t size) {
    if (name == "position_ids" || name == "cache_position")
      return Default::Positions;
    if (name == "token_type_ids" || inputs_.isCondition(name))
      return Default::Zeros; // the branch without a past
    for (const Lookup &lookup : inputs_.lookups())
      if (lookup.input == name)
        return inputs_.rows(lookup) < out_.sequence ? Default::Zeros : Default::Positions;
    if (inputs_.rankOf(name) < 2)
      return size > 1 ? Default::Positions : Default::Zeros;
    return Default::Ones;
  }

  // Returns the size of a dim that neither file nor --dim gives: dim 0 is the batch, others are
  // the sequence; a cache (floats of three dims or more) is empty.
  int64_t usualSize(llvm::StringRef name, int position, bool isCache) {
    if (inputs_.rankOf(name) >= 2 && position == 0)
      return out_.batch;
    return isCache ? 0 : out_.sequence;
  }

  Result<Shape> shapeOf(llvm::StringRef name, bool isCache) {
    Shape shape;
    int rank = inputs_.rankOf(name);
    for (int i = 0; i < rank; ++i) {
      DimExpression dim = dimOf(inputs_, name, i);
      int64_t usual = usualSize(name, i, isCache),
              size = dim.evaluate(symbols_).value_or(usual);
      bool fixed = dim.names().empty(), single = rank == 1 && fixed && size == 1;
      if (size < 0 || (size != usual && rank <= 2 && !single))
        return error("input '", name.str(), "' has size ", size, " where training needs ", usual,
                     ": ", fixed ? "export with dynamic sizes" : "leave out --dim of " + dim.text());
      shape.push_back(size);
    }
    return shape;
  }

  Status bindOthers() {
    out_.arguments = {{out_.tokens, Element::I64, {out_.batch, out_.sequence}, true}};
    for (auto [name, input] : inputs_.all()) {
      if (name == out_.tokens)
        continue;
      Element element = *elementOf(inputs_.typeOf(name).elem_type());
      bool isCache = isFloat(element) && inputs_.rankOf(name) > 2;
      auto shape = shapeOf(name, isCache);
      if (!shape)
        return shape.takeError();
      if (Status s = checkSize(name, *shape); !s)
        return s;
      HostTensor value(element, *shape);
      Default kind = defaultOf(name, value.size());
      if (value.size() && isCache)
        return error("input '", name.str(), "' is a cache of shape ", toText(*shape),
                     ", training has no past: leave out the --dim of its length, or export with "
                     "a dynamic one");
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
  GraphInputs inputs(model, order);
  if (Status s = inputs.check(); !s)
    return error(model.path(), ": ", s.message());
  auto out = options.infer ? bindInferInputs(inputs, model, options)
                           : Binder(inputs, options).run();
  if (!out)
    return error(model.path(), ": ", out.message());
  return out;
}
