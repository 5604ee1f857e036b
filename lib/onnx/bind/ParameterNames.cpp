#include "lib/onnx/bind/ParameterNames.h"

#include "llvm/ADT/StringSet.h"

using namespace llmc;
using namespace llmc::onnximport;

namespace {

// Holds the program's name of a parameter.
struct OwnName {
  std::string name;        // empty if unknown
  bool transposed = false; // the program holds the transpose
  bool inFile = false;     // a value of the file has the name
};

OwnName ownName(const Model &model, const TorchNames &names, const ParameterArguments &arguments,
                const ParameterSource &source) {
  llvm::StringRef suffix = "weight";
  bool madeUp = TorchNames::isGeneratedName(model.stored()[source.tensor].name), transposed = false;
  std::set<std::string> found;
  for (const auto &argument : arguments) {
    if (argument->view.tensor != source.tensor || argument->copy != source.copy)
      continue;
    const std::string &identity = argument->view.name;
    if (!identity.empty() && !TorchNames::isGeneratedName(identity))
      return {identity, false, true};
    bool matrix = argument->roles.count(UseKind::Weight) && argument->view.strides.size() == 2;
    if (argument->roles.count(UseKind::Bias))
      suffix = "bias";
    for (const ::onnx::NodeProto *user : argument->learningNodes) {
      found.insert(!madeUp || matrix ? names.nameOf(*user, suffix) : "");
      transposed = madeUp && matrix && names.isTransposed(*user);
    }
  }
  return {found.size() == 1 ? *found.begin() : "", transposed, false};
}

// Returns "operand 1 of node 'node_MatMul_5' (MatMul)": the first node that learns the parameter,
// in whose layout it is saved.
std::string layoutOf(const Model &model, const ParameterArguments &arguments,
                     const ParameterSource &source) {
  std::set<const ::onnx::NodeProto *> learningNodes;
  for (const auto &argument : arguments)
    if (argument->view.tensor == source.tensor && argument->copy == source.copy)
      learningNodes.insert(argument->learningNodes.begin(), argument->learningNodes.end());
  for (const Node &node : model.nodes())
    for (size_t i = 0; learningNodes.count(node.proto) && i < node.inputs(); ++i)
      if (auto tensor = model.find(node.input(i)); tensor == source.tensor)
        return "operand " + std::to_string(i) + " of " + node.label();
  return {};
}

} // namespace

// Names the parameters of each stored tensor: the one whose program name is the tensor's name
// gets that name, the others get numbers. A program name that no other tensor uses is kept beside
// it, for the files that are saved.
std::map<ParameterSource, ParameterName>
llmc::onnximport::nameParameters(const Model &model, const TorchNames &names,
                                 const ParameterArguments &arguments) {
  std::map<ParameterSource, ParameterName> result;
  std::map<ParameterSource, OwnName> own;
  std::map<unsigned, std::vector<ParameterSource>> sources;
  for (const auto &argument : arguments)
    if (ParameterSource source = argument->source(); own.try_emplace(source).second) {
      own[source] = ownName(model, names, arguments, source);
      sources[source.tensor].push_back(source);
    }
  std::map<std::string, unsigned> uses;
  for (const auto &[source, name] : own)
    ++uses[name.name];
  llvm::StringSet<> taken;
  for (auto &[tensor, list] : sources) {
    const std::string &stored = model.stored()[tensor].name;
    llvm::sort(list);
    auto holder =
        llvm::find_if(list, [&](const ParameterSource &s) { return own[s].name == stored; });
    if (holder == list.end())
      holder = llvm::find_if(list, [&](const ParameterSource &s) { return own[s].name.empty(); });
    if (holder != list.end())
      std::rotate(list.begin(), holder, holder + 1);
    unsigned number = 2;
    for (const ParameterSource &source : list) {
      const OwnName &known = own[source];
      bool lost = list.size() > 1 || TorchNames::isGeneratedName(stored);
      bool free = lost && !known.name.empty() && known.name != stored && uses[known.name] == 1 &&
                  !model.find(known.name);
      std::string name = free && known.inFile ? known.name : stored;
      while (taken.contains(name) || (name != stored && model.find(name)))
        name = stored + "#" + std::to_string(number++);
      taken.insert(name);
      result[source] = {name, "", known.transposed, ""};
      if (free && !known.inFile)
        result[source].lost = known.name;
      else if (TorchNames::isGeneratedName(name))
        result[source].layout = layoutOf(model, arguments, source);
    }
  }
  return result;
}
