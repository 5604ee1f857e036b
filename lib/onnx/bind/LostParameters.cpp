#include "lib/onnx/bind/LostParameters.h"

#include "llvm/ADT/StringMap.h"

using namespace llmc;
using namespace llmc::onnximport;

namespace {

// Tracks which parameters of the program correspond to trained tensors.
class Accounts {
public:
  Accounts(const TorchNames &names, const ParameterArguments &arguments,
           const std::map<ParameterSource, ParameterName> &sourceNames)
      : names_(names) {
    for (const auto &argument : arguments) {
      const ParameterName &own = sourceNames.at(argument->source());
      standing_.insert(TorchNames::mangled(own.name));
      standing_.insert(TorchNames::mangled(own.lost));
      addReads(*argument);
    }
    for (const auto &[key, call] : reads_)
      addMade(call);
    for (const auto &[node, call] : names.calls())
      addScope(call);
  }

  // Returns whether a trained tensor corresponds to a parameter of the program. Each tensor that
  // was computed from parameters of a module accounts for one of them, and is then used up.
  bool hold(const std::string &mangled, llvm::StringRef name) {
    if (standing_.contains(mangled))
      return true;
    auto [module, last] = name.contains('.') ? name.rsplit('.') : std::pair("", name);
    if (aliased_.contains(module) || isHeldTwice(module, last))
      return true;
    auto it = made_.find(module);
    return it != made_.end() && it->second-- > 0;
  }

private:
  struct Reads {
    const TorchCall *call;
    std::set<ParameterSource> all, unnamed; // trained sources that the call reads
  };

  // Records that a call which reads a trained tensor accounts for all parameters that it names:
  // one that the file lacks is a bias of zeros, which adds nothing.
  void addReads(const ParameterArgument &argument) {
    for (const ::onnx::NodeProto *user : argument.learningNodes)
      if (const TorchCall *call = names_.callOf(*user)) {
        for (const std::string &parameter : call->parameters)
          standing_.insert(parameter);
        Reads &reads = reads_[{call->scopes, call->target, call->arguments}];
        reads.call = call;
        reads.all.insert(argument.source());
        if (!names_.isParameter(argument.view.tensor))
          reads.unnamed.insert(argument.source());
      }
  }
  // Counts the sources that a call reads beyond the parameters that it names: these were computed
  // from parameters (a transpose, 1 + w), and account for as many parameters of the module.
  void addMade(const Reads &reads) {
    size_t named = reads.call->parameters.size(), all = reads.all.size();
    if (all > named && !reads.call->scopes.empty())
      made_[reads.call->scopes.back()] += std::min(all - named, reads.unnamed.size());
  }
  // Records modules that read a parameter of another module: they have a name of their own for
  // it too, as a tied head has for its table.
  void addScope(const TorchCall &call) {
    if (call.scopes.empty() || call.scopes.back().empty())
      return;
    std::string own = TorchNames::mangled(call.scopes.back()) + "_";
    computing_.insert(call.scopes.back());
    for (const std::string &parameter : call.parameters)
      if (!llvm::StringRef(parameter).starts_with(own))
        aliased_.insert(call.scopes.back());
  }
  // Checks whether a module without calls has a second name for a parameter of a direct child: a
  // masked-language head for the bias of its matrix.
  bool isHeldTwice(llvm::StringRef module, llvm::StringRef last) const {
    return !module.empty() && !computing_.contains(module) &&
           llvm::any_of(names_.program(), [&](const auto &other) {
             llvm::StringRef name = other.second;
             return name.consume_front(module) && name.consume_front(".") &&
                    name.consume_back(last) && name.ends_with(".") && name.count('.') == 1 &&
                    standing_.contains(other.first);
           });
  }

  const TorchNames &names_;
  llvm::StringSet<> standing_, aliased_, computing_; // names of parameters, of modules
  llvm::StringMap<size_t> made_;                     // by modules
  std::map<std::tuple<std::vector<std::string>, std::string, std::vector<std::string>>, Reads>
      reads_; // by calls
};

} // namespace

std::vector<std::string>
llmc::onnximport::lostParameters(const Model &model, const TorchNames &names,
                                 const ParameterArguments &arguments,
                                 const std::map<ParameterSource, ParameterName> &sourceNames) {
  bool folded = false;
  for (unsigned i = 0; i < model.stored().size(); ++i)
    folded |= model.stored()[i].isFloat() && !names.isParameter(i) && !names.isBuffer(i);
  std::vector<std::string> lost;
  Accounts accounts(names, arguments, sourceNames);
  for (const auto &[mangled, name] : names.program())
    if (folded && !accounts.hold(mangled, name))
      lost.push_back(name);
  return lost;
}

//===-- What was made of parameters -----------------------------------------===//

// Checks whether the name of a call's operand, "transpose_3", is that of an op which only moves
// elements.
static bool isMoved(llvm::StringRef operand) {
  static const llvm::StringSet<> moves = {"t",         "transpose", "permute", "view",  "reshape",
                                          "unsqueeze", "squeeze",   "slice",   "to",    "_to_copy",
                                          "select",    "detach",    "alias",   "clone", "expand"};
  llvm::StringRef name = operand.rtrim("0123456789");
  return moves.contains(name.size() < operand.size() ? name.rtrim('_') : name);
}

// Checks whether a module has one weight and at most a bias beside it, as a linear layer has: a
// transposed operand of its product is that weight.
static bool hasOneWeight(const TorchNames &names, llvm::StringRef module) {
  unsigned weights = 0, others = 0;
  for (const auto &[mangled, name] : names.program()) {
    auto [holder, last] = llvm::StringRef(name).rsplit('.');
    if (holder == module && last != "bias")
      ++(last == "weight" ? weights : others);
  }
  return weights == 1 && others == 0;
}

// Checks whether the node's call has a computed operand at the position where the node reads the
// stored tensor.
static bool readsComputed(const Model &model, const TorchNames &names,
                          const ::onnx::NodeProto &user, unsigned tensor) {
  const TorchCall *call = names.callOf(user);
  if (!call || !call->parameters.empty())
    return false;
  std::vector<llvm::StringRef> values;
  for (llvm::StringRef argument : call->arguments)
    for (size_t at; (at = argument.find('%')) != llvm::StringRef::npos;) {
      argument = argument.drop_front(at + 1);
      values.push_back(argument.take_until([](char c) { return c == ',' || c == ']'; }));
    }
  bool product = user.op_type() == "MatMul" || user.op_type() == "Gemm";
  for (int i = 0; i < user.input_size(); ++i)
    if (model.find(user.input(i)) == tensor)
      return size_t(i) >= values.size() || !isMoved(values[i]) ||
             (product && (call->scopes.empty() || !hasOneWeight(names, call->scopes.back())));
  return false;
}

std::vector<std::string>
llmc::onnximport::derivedParameters(const Model &model, const TorchNames &names,
                                 const ParameterArguments &arguments,
                                 const std::map<ParameterSource, ParameterName> &sourceNames) {
  std::set<ParameterSource> made;
  for (const auto &argument : arguments) {
    unsigned tensor = argument->view.tensor;
    bool named = names.isParameter(tensor) && argument->copy == 0;
    if (!named && !argument->learningNodes.empty() &&
        llvm::all_of(argument->learningNodes, [&](const ::onnx::NodeProto *user) {
          return readsComputed(model, names, *user, tensor);
        }))
      made.insert(argument->source());
  }
  std::vector<std::string> list;
  for (const ParameterSource &source : made)
    list.push_back(sourceNames.at(source).name);
  return list;
}

//===-- Words ---------------------------------------------------------------===//

// Limits the parameters that a note names.
static constexpr size_t mostNamed = 3;

static std::string firstOf(const std::vector<std::string> &names) {
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), mostNamed); ++i)
    text += (i ? ", '" : "'") + names[i] + "'";
  return text + (names.size() > mostNamed ? ", ..." : "");
}

std::string llmc::onnximport::describeLost(const std::vector<std::string> &lost) {
  if (lost.empty())
    return {};
  bool one = lost.size() == 1;
  return std::to_string(lost.size()) +
         (one ? " parameter of the program is" : " parameters of the program are") +
         " not trained: " + firstOf(lost) + "; the exporter folded " + (one ? "it" : "them") +
         " into constants or merged equal nodes, or " +
         (one ? "it is another name of one that is trained, or unused"
              : "they are other names of some that are trained, or unused") +
         "; torch.onnx.export(..., dynamo=True, optimize=False) keeps what is used";
}

std::string llmc::onnximport::describeDerived(const std::vector<std::string> &made) {
  if (made.empty())
    return {};
  bool one = made.size() == 1;
  return std::to_string(made.size()) +
         (one ? " tensor that the exporter computed from parameters is"
              : " tensors that the exporter computed from parameters are") +
         " trained in their place: " + firstOf(made) +
         "; torch.onnx.export(..., dynamo=True, optimize=False) keeps the parameters themselves";
}
