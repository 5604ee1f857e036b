#include "lib/onnx/bind/WeightSharing.h"

#include <cstring>

using namespace llmc;
using namespace llmc::onnximport;
using namespace mlir;

// Checks whether exactly one dim is larger than 1.
bool WeightSharing::isVector(unsigned tensor) const {
  return llvm::count_if(model_.stored()[tensor].shape, [](int64_t d) { return d > 1; }) == 1;
}

// Checks whether elements differ: a matrix that is filled with one number is freshly initialized,
// so that its uses need not share a parameter.
bool WeightSharing::varies(unsigned tensor) const {
  const StoredTensor &stored = model_.stored()[tensor];
  const std::byte *bytes = model_.bytesOf(stored);
  size_t width = bitWidth(stored.element) / 8;
  for (int64_t i = 1; bytes && i < stored.count(); ++i)
    if (std::memcmp(bytes, bytes + i * width, width))
      return true;
  return false;
}

// Checks whether a matrix has rows that differ and elements of its first row that differ, so that
// it was drawn at random: two uses of it read one parameter, since no two are drawn alike.
bool WeightSharing::isDrawn(unsigned tensor) const {
  const StoredTensor &stored = model_.stored()[tensor];
  const std::byte *bytes = model_.bytesOf(stored);
  if (isVector(tensor) || stored.shape.size() < 2 || stored.count() == 0 || !bytes)
    return false;
  size_t width = bitWidth(stored.element) / 8;
  int64_t columns = stored.shape.back(), rows = stored.count() / columns;
  auto differ = [&](int64_t count, size_t step, size_t size) {
    for (int64_t i = 1; i < count; ++i)
      if (std::memcmp(bytes, bytes + i * step, size))
        return true;
    return false;
  };
  return differ(columns, width, width) && differ(rows, columns * width, columns * width);
}

// Checks whether the program has two names for a tensor that the file stores once. Names that the
// exporter made up count only if the tensor was not drawn at random: it may have transposed one
// parameter for each use.
bool WeightSharing::areTwoNames(const View &a, const View &b) const {
  if (a.name == b.name || names_.hasCalls())
    return false;
  auto isGeneratedName = [&](const View &view) {
    return TorchNames::isGeneratedName(view.name.empty() ? model_.stored()[view.tensor].name
                                                         : view.name);
  };
  return !(isGeneratedName(a) || isGeneratedName(b)) || !isDrawn(a.tensor);
}

// Checks whether a use reads another parameter than the argument, though the file stores one.
bool WeightSharing::isAnother(const ParameterArgument &argument, const View &view, UseKind role,
                              const ::onnx::NodeProto *user, bool learns) const {
  bool table = role == UseKind::Table, holdsTable = argument.roles.count(UseKind::Table);
  if (untied_ == view.tensor && table != holdsTable)
    return learns;
  if (!splits_ || table || holdsTable || names_.isBuffer(view.tensor) ||
      argument.learningNodes.empty() || !learns)
    return false;
  if (argument.learningNodes.count(user))
    return false;
  if (areTwoNames(argument.view, view))
    return true;
  std::optional<bool> same = names_.sameParameter(**argument.learningNodes.begin(), *user);
  return same ? !*same : isVector(view.tensor) || !varies(view.tensor);
}

std::pair<ParameterArgument *, unsigned> WeightSharing::find(const View &view, UseKind role,
                                                             const ::onnx::NodeProto *user,
                                                             bool learns) const {
  Shape dims = view.canonicalDims();
  Shape shape = selectDims(view.shape, dims), strides = selectDims(view.strides, dims);
  ParameterArgument *shared = nullptr;
  unsigned copies = 0;
  for (auto &argument : arguments_) {
    Shape theirs = argument->view.canonicalDims();
    if (argument->view.tensor != view.tensor || argument->view.offset != view.offset ||
        selectDims(argument->view.shape, theirs) != shape ||
        selectDims(argument->view.strides, theirs) != strides)
      continue;
    ++copies;
    if (!shared && !isAnother(*argument, view, role, user, learns))
      shared = argument.get();
  }
  return {shared, copies};
}

// Returns the name of a matrix that several products use and whose elements differ, "" if there
// is none: layers that share it share their vectors too.
std::string WeightSharing::sharedMatrix() const {
  for (const auto &argument : arguments_)
    if (argument->learningNodes.size() > 1 && argument->roles.count(UseKind::Weight) &&
        !argument->roles.count(UseKind::Table) && varies(argument->view.tensor))
      return model_.stored()[argument->view.tensor].name;
  return {};
}

// Merges the arguments of equal views again, but for an untied table and head.
void WeightSharing::join(Block &body) {
  splits_ = false;
  for (auto &argument : arguments_) {
    if (!argument->copy || untied_ == argument->view.tensor)
      continue;
    ParameterArgument *first = find(argument->view, UseKind::Plain, nullptr, false).first;
    argument->value.replaceAllUsesWith(first->value);
    first->roles.insert(argument->roles.begin(), argument->roles.end());
    body.eraseArgument(argument->value.getArgNumber());
  }
  llvm::erase_if(arguments_, [&](const auto &argument) {
    return argument->copy > 0 && untied_ != argument->view.tensor;
  });
}

std::string WeightSharing::resolveSharing(Block &body) {
  std::set<unsigned> merged;
  size_t copies = 0;
  for (const auto &argument : arguments_)
    if (argument->copy && untied_ != argument->view.tensor) {
      merged.insert(argument->view.tensor);
      ++copies;
    }
  if (merged.empty())
    return {};
  auto plural = [](size_t n, const char *one) {
    return std::to_string(n) + " " + one + (n == 1 ? "" : "s");
  };
  std::string matrix = names_.recordsSharing() ? "" : sharedMatrix();
  if (!matrix.empty()) {
    join(body);
    return plural(merged.size(), "vector") + " that several nodes use " +
           (merged.size() == 1 ? "is" : "are") +
           " trained as one each, since layers share matrices too ('" + matrix +
           "'); if the model was just initialised, export it with "
           "torch.onnx.export(..., dynamo=True, optimize=False), which merges none";
  }
  return plural(merged.size(), "tensor") + " of the file " + (merged.size() == 1 ? "is " : "are ") +
         std::to_string(merged.size() + copies) +
         " parameters, one a use (NAME, NAME#2, ... where names are lost): torch.onnx.export "
         "merges equal tensors of a model that was just initialised, and may drop biases that are "
         "zero; "
         "export with dynamo=True, optimize=False to keep all of them, or compile with --tie exact "
         "to train each as one";
}
