#include "lib/onnx/file/TorchNames.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <cstring>

using namespace llmc::onnximport;

template <class Proto> static llvm::StringRef metadata(const Proto &proto, llvm::StringRef key) {
  for (const auto &entry : proto.metadata_props())
    if (entry.key() == key)
      return entry.value();
  return {};
}

std::string TorchNames::mangled(llvm::StringRef name) {
  std::string out = name.lower();
  llvm::replace(out, '.', '_');
  return out;
}

// Returns the identifiers after a mark: "%p_" in "args = (%x, %p_head_weight)" gives head_weight.
static std::set<std::string> identifiers(llvm::StringRef text, llvm::StringRef mark) {
  std::set<std::string> names;
  for (size_t at = text.find(mark); at != llvm::StringRef::npos; at = text.find(mark, at + 1))
    names.insert(text.drop_front(at + mark.size())
                     .take_while([](char c) { return llvm::isAlnum(c) || c == '_'; })
                     .str());
  return names;
}

// Returns the strings of a list as Python prints it: "['', 'model', 'mul']".
static std::vector<std::string> quoted(llvm::StringRef list) {
  std::vector<std::string> texts;
  llvm::SmallVector<llvm::StringRef> parts;
  list.split(parts, '\'');
  for (size_t i = 1; i < parts.size(); i += 2)
    texts.push_back(parts[i].str());
  return texts;
}

// Checks whether the operands of a call, "%embedding, %slice_1", are all results of embeddings and
// slices.
static bool areLookups(llvm::StringRef arguments) {
  std::set<std::string> operands = identifiers(arguments.split(')').first, "%");
  auto isLookup = [](llvm::StringRef operand) { // "embedding", "embedding_1"
    return (operand.consume_front("embedding") || operand.consume_front("slice")) &&
           (operand.empty() || llvm::all_of(operand.drop_front(), llvm::isDigit));
  };
  return !operands.empty() && llvm::all_of(operands, isLookup);
}

// Splits the arguments of a call up to its closing parenthesis: "%x, [32], None), kwargs = {})".
// Returns none if there are keyword arguments.
static std::vector<std::string> splitArguments(llvm::StringRef text) {
  std::vector<std::string> arguments(1);
  int depth = 0;
  while (!text.empty() && depth >= 0) {
    char c = text.front();
    text = text.drop_front();
    depth += (c == '(' || c == '[' || c == '{') - (c == ')' || c == ']' || c == '}');
    if (c == ',' && depth == 0)
      arguments.emplace_back();
    else if (depth >= 0 && (c != ' ' || depth > 0))
      arguments.back() += c;
  }
  return text.contains("kwargs = {}") ? arguments : std::vector<std::string>();
}

// Returns the text between `before` and the next quote.
static std::string quotedBehind(llvm::StringRef text, llvm::StringRef before) {
  return text.split(before).second.split('\'').first.str();
}

// Reads entries "p_head_weight: PARAMETER target='head.weight'", one a line, or before torch 2.7
// "InputSpec(kind=<InputKind.PARAMETER: 2>, arg=TensorArgument(name='p_head_weight'),
// target='head.weight', persistent=None)".
void TorchNames::readSignature(const Model &model) {
  llvm::StringRef text =
      metadata(model.proto().graph(), "pkg.torch.export.ExportedProgram.graph_signature");
  bool lines = !text.contains("InputSpec(");
  llvm::SmallVector<llvm::StringRef> entries;
  text.split(entries, lines ? "\n" : "InputSpec(");
  for (llvm::StringRef entry : entries) {
    std::string id = lines ? entry.split(": ").first.str() : quotedBehind(entry, "name='"),
                name = quotedBehind(entry, "target='");
    llvm::StringRef kind = lines ? entry.split(": ").second : entry.split("InputKind.").second;
    llvm::StringRef own(id);
    if (kind.starts_with("PARAMETER") && own.consume_front("p_") && !name.empty()) {
      program_.push_back({own.str(), name});
      fullNames_[own] = name;
      parameters_.insert(own);
    } else if (kind.starts_with("BUFFER") && own.consume_front("b_")) {
      buffers_.insert(own);
    }
  }
}

TorchNames::TorchNames(const Model &model) : model_(model) {
  readSignature(model);
  bool named = false;
  for (const Node &node : model.nodes()) {
    if (node.op() == "Identity")
      if (auto tensor = model.find(node.input(0)))
        named |= model.stored()[*tensor].isFloat();
    keepsStates_ |= node.op() == "Constant";
    llvm::StringRef call = metadata(*node.proto, "pkg.torch.onnx.fx_node");
    auto [head, arguments] = call.split("(args = (");
    if (arguments.empty())
      continue;
    TorchCall &made = calls_[node.proto];
    made.target = head.split("target=torch.ops.").second.split(']').first.str();
    made.arguments = splitArguments(arguments);
    made.parameters = identifiers(arguments, "%p_");
    made.ofLookups = areLookups(arguments);
    made.scopes = quoted(metadata(*node.proto, "pkg.torch.onnx.name_scopes"));
    if (!made.scopes.empty())
      made.scopes.pop_back(); // the call itself
    for (const std::string &name : made.parameters)
      parameters_.insert(name);
    for (const std::string &name : identifiers(arguments, "%b_"))
      buffers_.insert(name);
  }
  for (const StoredTensor &stored : model.stored())
    stored_.insert(mangled(stored.name));
  bool scripted = calls_.empty() && model.proto().producer_name() == "pytorch";
  scripted_ = scripted && (named || keepsStates_);
  keepsStates_ &= scripted;
}

const TorchCall *TorchNames::callOf(const ::onnx::NodeProto &node) const {
  auto it = calls_.find(&node);
  return it == calls_.end() ? nullptr : &it->second;
}

bool TorchNames::isParameter(unsigned tensor) const {
  return parameters_.contains(mangled(model_.stored()[tensor].name));
}

bool TorchNames::isBuffer(unsigned tensor) const {
  return buffers_.contains(mangled(model_.stored()[tensor].name));
}

bool TorchNames::isState(unsigned tensor) const {
  return keepsStates_ && !isGeneratedName(model_.stored()[tensor].name);
}

bool TorchNames::isLookup(unsigned tensor, const ::onnx::NodeProto &user) const {
  const StoredTensor &stored = model_.stored()[tensor];
  const TorchCall *call = callOf(user);
  if (!call || !call->ofLookups || stored.shape.size() < 2 || stored.count() == 0)
    return false;
  const std::byte *bytes = model_.bytesOf(stored);
  int64_t row = stored.shape.back() * (bitWidth(stored.element) / 8);
  for (int64_t i = 1; bytes && i < stored.count() / stored.shape.back(); ++i)
    if (std::memcmp(bytes, bytes + i * row, row))
      return true;
  return false;
}

bool TorchNames::readsOneParameter(const ::onnx::NodeProto &node) const {
  const TorchCall *call = callOf(node);
  return call && call->parameters.size() == 1 &&
         llvm::is_contained({"aten.add.Tensor", "aten.sub.Tensor", "aten.mul.Tensor",
                             "aten.div.Tensor", "aten.prelu.default"},
                            call->target);
}

bool TorchNames::isWeight(unsigned tensor, const ::onnx::NodeProto &user) const {
  const TorchCall *call = callOf(user);
  return call && !call->parameters.empty() &&
         (user.op_type() == "MatMul" || user.op_type() == "Gemm") &&
         model_.find(user.input(1)) == tensor &&
         llvm::is_contained({"aten.linear.default", "aten.addmm.default", "aten.mm.default"},
                            call->target);
}

// Reads calls aten.layer_norm(x, shape, weight, bias, ...), aten.rms_norm(x, shape, weight, ...).
bool TorchNames::lacksOperand(const ::onnx::NodeProto &user, size_t operand) const {
  const TorchCall *call = callOf(user);
  if (!call || call->arguments.empty() || !llvm::StringRef(call->target).contains("_norm."))
    return false;
  return operand + 1 >= call->arguments.size() || call->arguments[operand + 1] == "None";
}

bool TorchNames::isConstantNode(unsigned tensor) const {
  return keepsStates_ && model_.stored()[tensor].ofNode;
}

std::optional<bool> TorchNames::sameParameter(const ::onnx::NodeProto &a,
                                              const ::onnx::NodeProto &b) const {
  if (scripted_)
    return true;
  const TorchCall *x = callOf(a), *y = callOf(b);
  if (!x || !y || x->parameters.empty() || y->parameters.empty())
    return std::nullopt;
  // If the file has all parameters of a call, none of them was merged with another one.
  auto areStored = [&](const TorchCall &call) {
    return llvm::all_of(call.parameters,
                        [&](const std::string &name) { return stored_.contains(name); });
  };
  if (areStored(*x) && areStored(*y))
    return true;
  return llvm::any_of(x->parameters,
                      [&](const std::string &name) { return y->parameters.count(name) > 0; });
}

// Returns the full name of a mangled parameter: it belongs to the innermost module of the call
// whose name is a prefix of it. Returns "" if there is none.
static std::string ownName(const TorchCall &call, llvm::StringRef parameter) {
  for (const std::string &scope : llvm::reverse(call.scopes)) {
    llvm::StringRef rest = parameter;
    if (rest.consume_front(TorchNames::mangled(scope)) &&
        (scope.empty() || rest.consume_front("_")))
      return scope.empty() ? rest.str() : scope + "." + rest.str();
  }
  return {};
}

// Returns the module of a node that torch.onnx without dynamo named by its path in the program:
// "model.layers.0.mlp.up_proj" for "/model/layers.0/mlp/up_proj/MatMul". Returns "" otherwise.
static std::string moduleOf(const ::onnx::NodeProto &node) {
  auto [path, op] = llvm::StringRef(node.name()).rsplit('/');
  if (!path.consume_front("/") || op.empty())
    return {};
  // A part that begins with the part before it and a dot ("layers.0" after "layers") replaces it.
  std::string module;
  llvm::SmallVector<llvm::StringRef> parts;
  path.split(parts, '/');
  for (size_t i = 0; i < parts.size(); ++i)
    if (i + 1 == parts.size() || !parts[i + 1].starts_with((parts[i] + ".").str()))
      module += (module.empty() ? "" : ".") + parts[i].str();
  return module;
}

std::string TorchNames::nameOf(const ::onnx::NodeProto &user, llvm::StringRef suffix) const {
  const TorchCall *call = callOf(user);
  if (!call) {
    std::string module = moduleOf(user);
    return module.empty() ? module : module + "." + suffix.str();
  }
  std::string found;
  for (const std::string &parameter : call->parameters)
    if (llvm::StringRef(parameter).ends_with(suffix)) {
      if (!found.empty())
        return {};
      auto full = fullNames_.find(parameter);
      found = full == fullNames_.end() ? ownName(*call, parameter) : full->second;
    }
  return found;
}

bool TorchNames::isGeneratedName(llvm::StringRef name) {
  return name.contains("::") || name.starts_with("/") ||
         (name.consume_front("val_") && llvm::all_of(name, llvm::isDigit));
}

bool TorchNames::isTransposed(const ::onnx::NodeProto &user) const {
  const TorchCall *call = callOf(user);
  return user.op_type() == "MatMul" &&
         (!call || llvm::StringRef(call->target).starts_with("aten.linear"));
}
