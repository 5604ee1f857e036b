// Checks which tensors of the model's file each op of the imported graph reads.
#include "dialects/graph/GraphAttrs.h"
#include "lib/verify/source/StateChecks.h"

#include "dialects/graph/Graph.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringMap.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <optional>
#include <set>

using namespace mlir;

namespace llmc::verify {
namespace {

// Describes a read of a tensor; `summed` is the dim of the file's matrix that a product
// contracts, or -1 if unknown.
struct Read {
  std::string tensor;
  int summed = -1;
};

class Wiring {
public:
  Wiring(ModuleOp module, const FileModel &file, const std::string &config)
      : module(module), file(file) {
    nlohmann::json parsed = nlohmann::json::parse(config, nullptr, false);
    if (parsed.is_object())
      modelType = parsed.value("model_type", "");
  }

  Faults run() {
    auto func = module.lookupSymbol<func::FuncOp>("forward");
    if (!func)
      return {};
    collectSources(func);
    for (Operation &op : func.getBody().front())
      collectReads(op);
    bool onnx = !file.nodes.empty();
    for (const FileNode &node : file.nodes) // In file order, so that no call recurses deeply.
      for (const std::string &output : node.outputs)
        madeOf(output);
    if (!onnx) // An ONNX file names the parts by its nodes.
      for (auto attention : func.getBody().front().getOps<graph::AttentionOp>())
        checkFused(attention);
    for (auto &[name, reads] : byName)
      onnx ? checkNode(name, reads) : checkModule(name, reads);
    return std::move(faults);
  }

private:
  // Describes what an argument holds: its source, under the name that the file has at its offset.
  struct HeldRange {
    std::string source;
    SmallVector<int64_t> strides;
    int64_t offset = 0;
  };

  std::string fileName(graph::SourceOp source) {
    auto files = module->getAttrOfType<ArrayAttr>(graph::kFiles);
    if (!file.nodes.empty() && source.getFile() && files) {
      auto entry = cast<DictionaryAttr>(files[*source.getFile()]);
      if (const FileTensor *tensor =
              file.at(entry.getAs<StringAttr>("path").str(), source.getFileOffset().value_or(0)))
        return tensor->name;
    }
    return source.getSymName().str();
  }

  void collectSources(func::FuncOp func) {
    SymbolTable symbols(module);
    for (BlockArgument arg : func.getArguments()) {
      auto symbol = func.getArgAttrOfType<FlatSymbolRefAttr>(arg.getArgNumber(), graph::kState);
      auto state = symbol ? symbols.lookup<graph::StateOp>(symbol.getValue()) : graph::StateOp();
      if (!state || !state.getViews() || state.getViews()->size() != 1)
        continue;
      auto view = cast<graph::ViewAttr>((*state.getViews())[0]);
      auto source = symbols.lookup<graph::SourceOp>(view.getSource().getValue());
      if (!source)
        continue;
      held[arg] = {fileName(source), SmallVector<int64_t>(view.getStrides()),
                   view.getOffset()};
      std::vector<std::string> &names = namesOf[held[arg].source];
      names.push_back(source.getSymName().str());
      for (auto alias : source.getAliases().getAsRange<StringAttr>())
        names.push_back(alias.str());
      if (auto turned = source->getAttrOfType<ArrayAttr>("transposed_aliases"))
        for (auto alias : turned.getAsRange<StringAttr>())
          names.push_back(alias.str());
    }
  }

  using Arguments = llvm::SmallSetVector<BlockArgument, 2>;

  // Returns the stored tensors that a value is computed from, or null if it depends on anything
  // else. Requires that the ops before it were collected.
  const Arguments *storedOnly(Value value) {
    if (auto arg = dyn_cast<BlockArgument>(value); arg && held.count(arg))
      stored[arg].insert(arg);
    auto found = stored.find(value);
    return found == stored.end() ? nullptr : &found->second;
  }

  // Returns whether all operands are computed from stored tensors alone; then records it of the
  // results.
  bool collectStored(Operation &op) {
    Arguments all;
    for (Value operand : op.getOperands()) {
      const Arguments *own = storedOnly(operand);
      if (!own)
        return false;
      all.insert(own->begin(), own->end());
    }
    if (op.getNumRegions() == 0)
      for (Value result : op.getResults())
        stored[result] = all;
    return true;
  }

  // Returns the dim of the file's tensor that a product contracts, if the operand is a matrix
  // that it reads as stored; else -1.
  int summedDim(graph::MatmulOp op, bool right) {
    Value operand = right ? op.getRhs() : op.getLhs();
    auto arg = dyn_cast<BlockArgument>(operand);
    auto found = arg ? held.find(arg) : held.end();
    if (found == held.end() || found->second.strides.size() != 2)
      return -1;
    StringRef equation = op.getEquation();
    auto [inputs, result] = equation.split("->");
    auto [lhs, rhs] = inputs.split(",");
    StringRef own = right ? rhs : lhs, other = right ? lhs : rhs;
    for (size_t d = 0; d < own.size() && own.size() == 2; ++d)
      if (other.contains(own[d]) && !result.contains(own[d]))
        return found->second.strides[d] > found->second.strides[1 - d] ? 0 : 1;
    return -1;
  }

  void collectReads(Operation &op) {
    auto name = dyn_cast<NameLoc>(op.getLoc());
    if (collectStored(op) || !name)
      return;
    for (auto [i, operand] : llvm::enumerate(op.getOperands())) {
      const Arguments *arguments = storedOnly(operand);
      if (!arguments)
        continue;
      for (BlockArgument arg : *arguments) {
        auto product = dyn_cast<graph::MatmulOp>(op);
        byName[name.getName().str()].push_back(
            {held[arg].source, product ? summedDim(product, i == 1) : -1});
      }
    }
  }

  //===-- ONNX --------------------------------------------------------------===//

  // Describes which tensors an input of a node is computed from, and whether an odd number of
  // transposes intervenes; not `known` if it depends on anything else.
  struct MadeOf {
    bool known = false, turned = false;
    std::vector<std::string> tensors; // without duplicates
  };
  const MadeOf &madeOf(const std::string &value) {
    auto [entry, isNew] = madeOf_.try_emplace(value);
    if (!isNew)
      return entry->second;
    MadeOf made = findMadeOf(value);
    return madeOf_[value] = std::move(made);
  }
  MadeOf findMadeOf(const std::string &value) {
    if (file.find(value))
      return {true, false, {value}};
    auto maker = makers().find(value);
    if (maker == makers().end() || maker->second->inputs.empty())
      return {};
    const FileNode &node = *maker->second;
    MadeOf made{true, node.op == "Transpose", {}};
    auto take = [&](const std::string &input) {
      const MadeOf &part = madeOf(input);
      made.known &= part.known || isConstant(input);
      made.turned ^= part.turned;
      for (const std::string &tensor : part.tensors)
        if (std::find(made.tensors.begin(), made.tensors.end(), tensor) == made.tensors.end())
          made.tensors.push_back(tensor);
    };
    // Take their first input only: the others (indices, axes, shapes) select elements.
    static const std::set<std::string> movers = {
        "Gather", "Reshape", "Squeeze", "Unsqueeze", "Transpose", "Slice", "Expand", "Cast", "Identity"};
    if (movers.count(node.op)) {
      take(node.inputs[0]);
      return made;
    }
    for (const std::string &input : node.inputs)
      if (!input.empty())
        take(input);
    return made;
  }
  bool isConstant(const std::string &value) {
    auto maker = makers().find(value);
    return maker != makers().end() && maker->second->op == "Constant";
  }
  const std::map<std::string, const FileNode *> &makers() {
    if (makers_.empty())
      for (const FileNode &node : file.nodes) {
        for (const std::string &output : node.outputs)
          makers_[output] = &node;
        ++nodesNamed[node.name];
        nodes[node.name] = &node;
      }
    return makers_;
  }

  // Returns whether two tensors have the same shape: only then can one have been read in place of
  // the other. What an exporter looked up in a table has another shape.
  bool isAlike(const std::string &name, const std::string &other) {
    const FileTensor *a = file.find(name), *b = file.find(other);
    return a && b && a->shape == b->shape;
  }

  // Returns whether an input of the node is gathered from a table.
  bool looksUp(const FileNode &node) {
    return std::any_of(node.inputs.begin(), node.inputs.end(), [&](const std::string &input) {
      auto maker = makers().find(input);
      return maker != makers().end() && maker->second->op == "Gather";
    });
  }

  void checkNode(const std::string &name, const std::vector<Read> &reads) {
    makers();
    if (name.empty() || nodesNamed[name] != 1)
      return;
    const FileNode &node = *nodes[name];
    std::vector<std::string> tensors; // in the order of the node's inputs
    std::map<std::string, int> summed;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const MadeOf &made = madeOf(node.inputs[i]);
      if (!made.known)
        continue;
      bool turned = made.turned;
      const std::vector<std::string> &parts = made.tensors;
      bool product = node.op == "MatMul" || node.op == "Gemm";
      auto flag = node.numbers.find(i == 0 ? "transA" : "transB");
      turned ^= node.op == "Gemm" && flag != node.numbers.end() && flag->second;
      if (product && parts.size() == 1 && i < 2)
        summed[parts.front()] = (i == 0) != turned;
      tensors.insert(tensors.end(), parts.begin(), parts.end());
    }
    // Skip nodes that read gathered rows: an exporter may have folded the table in any way.
    if (tensors.empty() || looksUp(node))
      return;
    for (const Read &read : reads) {
      auto isInput = [&](const std::string &tensor) {
        return std::find(tensors.begin(), tensors.end(), tensor) != tensors.end();
      };
      // Accept a tied tensor under either name.
      bool taken = llvm::any_of(tensors, [&](const auto &t) { return isAlike(t, read.tensor); });
      if (!isInput(read.tensor) && taken && llvm::none_of(namesOf[read.tensor], isInput)) {
        faults.push_back("node '" + name + "' (" + node.op + ") reads '" + read.tensor +
                         "', which it does not read in the file");
        continue;
      }
      auto due = summed.find(read.tensor);
      if (due != summed.end() && read.summed >= 0 && read.summed != due->second)
        faults.push_back("node '" + name + "' (" + node.op + ") sums over dim " +
                         std::to_string(read.summed) + " of '" + read.tensor + "', in the file over dim " +
                         std::to_string(due->second));
    }
    checkOrder("node '" + name + "' (" + node.op + ")", tensors, reads);
  }

  // Checks that tensors of equal shape are read in the order in which the file names them.
  void checkOrder(const std::string &who, const std::vector<std::string> &due,
                  const std::vector<Read> &reads) {
    auto place = [&](const std::string &tensor) {
      return std::find(due.begin(), due.end(), tensor) - due.begin();
    };
    for (size_t i = 0; i + 1 < reads.size(); ++i) {
      const FileTensor *a = file.find(reads[i].tensor), *b = file.find(reads[i + 1].tensor);
      if (a && b && a->shape == b->shape && place(reads[i].tensor) > place(reads[i + 1].tensor))
        faults.push_back(who + " reads '" + reads[i].tensor + "' in place of '" +
                         reads[i + 1].tensor + "'");
    }
  }

  //===-- config.json -------------------------------------------------------===//

  bool isOf(const std::string &tensor, const std::string &place) {
    return llvm::any_of(namesOf[tensor], [&](const std::string &name) {
      return StringRef(name).starts_with(place + ".") &&
             StringRef(name).drop_front(place.size() + 1).find('.') == StringRef::npos;
    });
  }

  // Returns the weight of the product that a value comes from, through ops that keep its rows
  // apart.
  const HeldRange *madeBy(Value value) {
    while (Operation *def = value.getDefiningOp()) {
      if (auto product = dyn_cast<graph::MatmulOp>(def)) {
        auto found = held.find(product.getRhs());
        return found == held.end() ? nullptr : &found->second;
      }
      if (def->getNumOperands() == 0)
        break;
      value = def->getOperand(0);
    }
    return nullptr;
  }

  // Checks that a fused matrix has queries, keys and values in this order.
  void checkFused(graph::AttentionOp op) {
    const HeldRange *parts[3] = {madeBy(op->getOperand(0)), madeBy(op->getOperand(1)),
                            madeBy(op->getOperand(2))};
    for (size_t i = 0; i + 1 < 3; ++i)
      if (parts[i] && parts[i + 1] && parts[i] != parts[i + 1] &&
          parts[i]->source == parts[i + 1]->source &&
          parts[i]->offset >= parts[i + 1]->offset)
        faults.push_back("attention takes part " + std::to_string(i) + " of '" + parts[i]->source +
                         "' at element " + std::to_string(parts[i]->offset) + " and part " +
                         std::to_string(i + 1) + " at element " +
                         std::to_string(parts[i + 1]->offset));
  }

  // Checks that an op under a module's name reads the module's own tensors, the weight before the
  // bias.
  void checkModule(const std::string &place, const std::vector<Read> &reads) {
    bool owns = llvm::any_of(namesOf, [&](const auto &entry) { return isOf(entry.first, place); });
    if (!owns)
      return;
    bool bias = false;
    for (const Read &read : reads) {
      StringRef name = read.tensor;
      if (!isOf(read.tensor, place)) {
        faults.push_back("module '" + place + "' reads '" + read.tensor + "', which is not its own");
        continue;
      }
      if (name.ends_with(".weight") && bias && reads.size() == 2)
        faults.push_back("module '" + place + "' reads its bias as its weight");
      bias |= name.ends_with(".bias");
      // GPT-2 stores matrices as [in, out], every other model as [out, in].
      bool turned = modelType == "gpt2" && StringRef(place).contains(".c_");
      if (read.summed >= 0 && !modelType.empty() && read.summed == (turned ? 1 : 0))
        faults.push_back("module '" + place + "' sums over dim " + std::to_string(read.summed) +
                         " of '" + read.tensor + "', which is the dim of its results");
    }
  }

  ModuleOp module;
  const FileModel &file;
  std::string modelType;
  llvm::DenseMap<Value, HeldRange> held;
  llvm::DenseMap<Value, Arguments> stored;
  std::map<std::string, MadeOf> madeOf_; // by value of the file's graph
  std::map<std::string, std::vector<std::string>> namesOf; // file's tensor -> names of its source
  std::map<std::string, std::vector<Read>> byName;         // reads of a node or module, in order
  std::map<std::string, const FileNode *> makers_, nodes;
  std::map<std::string, unsigned> nodesNamed;
  Faults faults;
};

} // namespace

Faults checkWiring(ModuleOp imported, const FileModel &file, const std::string &config) {
  return Wiring(imported, file, config).run();
}

} // namespace llmc::verify
